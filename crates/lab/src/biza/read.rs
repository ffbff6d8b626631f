//! Reads: windows from memory, the rest from drives, neighbours in one command; with a drive lost, from the others of the stripe.

use super::segment::Segment;
use super::send::Sent;
use super::{Biza, Place};
use array::engine::Effects;
use array::request::{Outcome, Reply, RequestId};
use base::frame::Frame;
use base::units::Lba;
use base::xor::xor_into;
use zone::device::{Completion, Op, Status};

/// Reader of blocks.
#[derive(Debug)]
pub(super) enum Reader {
    Client(RequestId),
    /// The collector, these blocks from these places.
    Collector(Vec<(u32, Place)>),
}

/// A read under way.
#[derive(Debug)]
pub(super) struct Read {
    reader: Reader,
    frames: Vec<Frame>,
    /// Commands to come, and one until all are asked.
    pending: u32,
}

impl Biza {
    pub(super) fn start_read(&mut self, id: RequestId, lba: Lba, blocks: u32, fx: &mut Effects) {
        let first = lba.index();
        let places: Vec<Option<Place>> = self.map[first..first + blocks as usize].to_vec();
        self.read(Reader::Client(id), &places, fx);
    }

    /// Reads the blocks of some places, in order.
    pub(super) fn read(&mut self, reader: Reader, places: &[Option<Place>], fx: &mut Effects) {
        let mut frames = self.memory.frames.take_vec(places.len());
        let mut wanted: Vec<(Place, usize)> = Vec::new();
        for (index, (frame, place)) in frames.iter_mut().zip(places).enumerate() {
            frame.data.fill(0);
            let Some(place) = *place else { continue };
            let segment = &self.segments[place.segment as usize];
            if segment.is_in_window(place.stripe) {
                let slot = segment.look(usize::from(place.drive), place.stripe);
                frame.data.copy_from_slice(&slot.frame.data);
            } else {
                wanted.push((place, index));
            }
        }
        let read = self.reads.insert(Read { reader, frames, pending: 1 });
        wanted.sort_unstable();
        let goes_on = |last: &(Place, usize), next: &(Place, usize)| {
            let (last, next) = (last.0, next.0);
            (last.segment, last.drive, last.stripe + 1) == (next.segment, next.drive, next.stripe)
        };
        for run in wanted.chunk_by(goes_on) {
            for part in run.chunks(self.config.geometry.transfer_blocks_max as usize) {
                self.ask(read, part, fx);
            }
        }
        self.end_read(read, fx);
    }

    /// Asks for neighbours; where their drive is lost, for the others of their stripes.
    fn ask(&mut self, read: u32, part: &[(Place, usize)], fx: &mut Effects) {
        let (first, _) = part[0];
        let drive = usize::from(first.drive);
        if self.account.lost != Some(drive) {
            return self.ask_drive(read, drive, part, false, fx);
        }
        self.account.counters.decoded += part.len() as u64;
        for other in (0..self.config.members).filter(|other| *other != drive) {
            self.ask_drive(read, other, part, true, fx);
        }
    }

    fn ask_drive(&mut self, read: u32, drive: usize, part: &[(Place, usize)], adds: bool, fx: &mut Effects) {
        let (first, _) = part[0];
        let segment = first.segment as usize;
        let frames = self.memory.frames.take_vec(part.len());
        self.segments[segment].readers += 1;
        self.reads.get_mut(read).pending += 1;
        let token = self.in_flight.insert(Sent::Read { read, part: part.to_vec(), adds });
        fx.command(
            drive,
            Segment::zone(segment),
            Sent::token(token),
            Op::Read { offset: first.stripe, frames },
        );
    }

    /// A drive has answered. One that is lost has not, and the others are asked.
    pub(super) fn on_read(
        &mut self,
        (read, part, adds): (u32, Vec<(Place, usize)>, bool),
        completion: Completion,
        fx: &mut Effects,
    ) {
        self.segments[part[0].0.segment as usize].readers -= 1;
        if completion.status == Status::DeviceGone {
            self.ask(read, &part, fx);
        } else {
            let own = self.reads.get_mut(read);
            for (frame, (_, index)) in completion.frames.iter().zip(&part) {
                let into = &mut own.frames[*index].data;
                if adds {
                    xor_into(into, &frame.data);
                } else {
                    into.copy_from_slice(&frame.data);
                }
            }
        }
        self.memory.frames.give_vec(completion.frames);
        self.end_read(read, fx);
    }

    /// Ends one of the things that a read waits for.
    fn end_read(&mut self, read: u32, fx: &mut Effects) {
        let own = self.reads.get_mut(read);
        own.pending -= 1;
        if own.pending > 0 {
            return;
        }
        let Read { reader, frames, .. } = self.reads.remove(read);
        match reader {
            Reader::Client(id) => fx.replies.push(Reply { id, outcome: Outcome::Done, frames }),
            Reader::Collector(blocks) => self.take_moved(blocks, frames),
        }
    }
}
