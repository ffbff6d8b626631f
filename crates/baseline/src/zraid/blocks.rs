//! Blocks of parts: what is in them, what their metadata say, and the commands by which they go to drives.

use super::Zraid;
use super::logical_zone::{Kind, Part};
use super::send::Sent;
use crate::record::{self, Record};
use crate::write::seal_block;
use array::engine::Effects;
use base::frame::Frame;
use base::units::ZoneIndex;
use base::xor::xor_blocks;
use zone::device::{Op, Token};

impl Zraid {
    /// Hands a command to a drive. What one that is missing was to do is over.
    pub(super) fn command(&mut self, drive: usize, zone: u32, sent: Sent, op: Op, fx: &mut Effects) {
        let token = self.in_flight.insert(sent);
        if !self.members.is_failed(drive) {
            fx.command(drive, ZoneIndex(zone), Token(u64::from(token)), op);
            return;
        }
        if let Op::Write { frames, .. } | Op::Append { frames } = op {
            self.frames.give_vec(frames);
        }
        self.skipped.push_back((drive, token));
    }

    /// Drive of a part: partial parity lies on the one behind that of the chunk it ends with.
    pub(super) fn drive_of(&self, number: u32, part: Part) -> usize {
        match part.kind {
            Kind::Piece(piece) => self.map.drive_of(number, part.stripe, piece),
            Kind::Partial(piece) => (self.map.drive_of(number, part.stripe, piece) + 1) % self.config.members,
        }
    }

    /// A block of a part.
    pub(super) fn fill(&mut self, number: u32, part: Part, row: u32, frame: &mut Frame) {
        let map = self.map;
        let stripe = self.zones[number as usize].stripe_mut(part.stripe);
        let pieces = match part.kind {
            Kind::Piece(piece) if piece < map.data_count() => piece..piece + 1,
            Kind::Piece(_) => 0..map.data_count(),
            Kind::Partial(piece) => 0..piece + 1,
        };
        let sources: Vec<_> =
            pieces.map(|piece| &stripe.data[map.within(piece, row) as usize].data).collect();
        xor_blocks(&mut frame.data, &sources);
        self.seal(number, part, row, frame);
    }

    /// Says in a block's metadata what it is.
    pub(super) fn seal(&self, number: u32, part: Part, row: u32, frame: &mut Frame) {
        let map = self.map;
        let (zone, generation) = (number, self.zones[number as usize].generation);
        let kind = match part.kind {
            Kind::Piece(piece) if piece < map.data_count() => {
                seal_block(frame, &map.place(self.tag, (zone, generation), part.stripe, piece, row));
                return;
            }
            Kind::Piece(_) => record::Kind::Settled,
            Kind::Partial(_) => record::Kind::Partial,
        };
        let (stripe, coverage) = (part.stripe, part.kind.coverage(&map, row));
        let row = u16::try_from(row).expect("validated: at most 64 rows");
        let array = Record::of_array(kind, self.members.epoch);
        Record { zone, generation, stripe, row, coverage, ..array }.seal(self.tag, frame);
    }
}
