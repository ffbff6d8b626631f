//! Reads: from open stripes in memory, else from drives, a chunk at a time.

use super::Zraid;
use super::send::Sent;
use array::engine::Effects;
use array::request::{Outcome, Reply, RequestId};
use base::frame::Frame;
use base::units::{Lba, ZoneIndex};
use zone::device::{Op, Token};

/// A read under way.
#[derive(Debug)]
pub(super) struct Read {
    id: RequestId,
    frames: Vec<Frame>,
    /// Commands that are under way.
    left: u32,
}

impl Zraid {
    /// A read has arrived.
    pub(super) fn start_read(&mut self, id: RequestId, lba: Lba, blocks: u32, fx: &mut Effects) {
        let mut frames = self.frames.take_vec(blocks as usize);
        frames.iter_mut().for_each(|frame| frame.data.fill(0));
        let slot = self.reads.insert(Read { id, frames, left: 0 });
        let map = self.map;
        let mut at = 0;
        while at < blocks {
            let (zone, position) = map.position_of(Lba(lba.0 + u64::from(at)));
            let spot = map.spot(position);
            let rows = (map.chunk_blocks() - spot.row).min(blocks - at);
            let own = &mut self.reads.get_mut(slot).frames[at as usize..(at + rows) as usize];
            if let Some(stripe) = self.zones[zone as usize].stripe(spot.stripe) {
                let data = stripe.data.iter().skip(map.within(spot.piece, spot.row) as usize);
                own.iter_mut().zip(data).for_each(|(frame, held)| frame.data = held.data);
            } else {
                let frames = self.frames.take_vec(rows as usize);
                self.reads.get_mut(slot).left += 1;
                let token = self.in_flight.insert(Sent::Read { read: slot, at: at as usize });
                let offset = map.offset(spot.stripe, spot.row);
                let drive = map.drive_of(zone, spot.stripe, spot.piece);
                fx.command(drive, ZoneIndex(zone), Token(u64::from(token)), Op::Read { offset, frames });
            }
            at += rows;
        }
        self.answer_read(slot, fx);
    }

    /// A part of a read is there.
    pub(super) fn on_read(&mut self, slot: u32, at: usize, frames: Vec<Frame>, fx: &mut Effects) {
        let read = self.reads.get_mut(slot);
        read.left -= 1;
        read.frames[at..].iter_mut().zip(&frames).for_each(|(own, read)| own.data = read.data);
        self.frames.give_vec(frames);
        self.answer_read(slot, fx);
    }

    fn answer_read(&mut self, slot: u32, fx: &mut Effects) {
        if self.reads.get(slot).left == 0 {
            let Read { id, frames, .. } = self.reads.remove(slot);
            fx.replies.push(Reply { id, outcome: Outcome::Done, frames });
        }
    }
}
