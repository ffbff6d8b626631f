//! A read or write that goes to the volume part by part, as far as there are frames.

use super::desk::Desk;
use crate::nbd::transmission::{ByteRange, Cut};
use crate::slab::Key;
use base::frame::Frame;

/// A read or write that is not with the volume as a whole yet. `R` names the request it belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held<R> {
    pub(super) request: R,
    pub(super) operation: Key,
    range: ByteRange,
    step: Step,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Blocks from this one on are not asked for.
    Read(u64),
    /// Bytes from this one on are not written.
    Write(u64),
}

/// State of a request after one more part.
#[derive(Clone, Copy, Debug)]
pub(super) enum Progress<R> {
    /// The volume has all of it.
    Whole,
    /// There is more to ask for.
    More(Held<R>),
    /// Its data cannot be had: it has failed. Either it has ended, or answers to its parts will end it.
    NoData {
        /// No part of it is pending.
        has_ended: bool,
    },
}

impl<R: Copy> Held<R> {
    /// A read of which nothing is asked for.
    pub(super) fn read(request: R, operation: Key, range: ByteRange) -> Held<R> {
        Held { request, operation, range, step: Step::Read(0) }
    }

    /// A write of which nothing is written.
    pub(super) fn write(request: R, operation: Key, range: ByteRange) -> Held<R> {
        Held { request, operation, range, step: Step::Write(range.from) }
    }

    /// Blocks of the next part.
    pub(super) fn blocks(&self, desk: &Desk<'_>) -> u64 {
        match self.step {
            Step::Read(next) => (self.range.blocks() - next).min(desk.part_blocks_max),
            Step::Write(from) => self.cut(from, desk).blocks(),
        }
    }

    /// Gives the volume the next part, for which there are frames. `fill` copies bytes of a write, from an offset in the request on,
    /// into the frames of a part; false says that they cannot be had.
    pub(super) fn go_on(
        self,
        desk: &mut Desk<'_>,
        forced: bool,
        fill: impl FnOnce(&mut [Frame], Cut, u64) -> bool,
    ) -> Progress<R> {
        let blocks = self.blocks(desk);
        assert!(blocks > 0, "what is held is not through");
        assert!(blocks <= desk.part_blocks_max, "a part of {blocks} blocks, of {}", desk.part_blocks_max);
        let (step, is_last) = match self.step {
            Step::Read(next) => {
                desk.read_part(self.operation, next, blocks);
                (Step::Read(next + blocks), next + blocks == self.range.blocks())
            }
            Step::Write(from) => {
                let cut = self.cut(from, desk);
                let mut frames = desk.spare_vector();
                desk.take_frames(blocks, &mut frames);
                assert!(frames.len() as u64 == blocks, "a frame for each block of the part");
                if !fill(&mut frames, cut, from - self.range.from) {
                    desk.volume.frames().give_many(&mut frames);
                    desk.keep_vector(frames);
                    return Progress::NoData { has_ended: desk.abandon(self.operation) };
                }
                let next = from + cut.bytes();
                assert!(next <= self.range.to, "a part ends at byte {next} of {:?}", self.range);
                let is_last = next == self.range.to;
                desk.write_part(self.operation, cut, frames, forced, is_last);
                (Step::Write(next), is_last)
            }
        };
        if is_last { Progress::Whole } else { Progress::More(Held { step, ..self }) }
    }

    fn cut(&self, from: u64, desk: &Desk<'_>) -> Cut {
        Cut::first(ByteRange { from, to: self.range.to }, desk.part_blocks_max)
    }
}
