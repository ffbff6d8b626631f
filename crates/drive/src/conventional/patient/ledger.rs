//! What a disk has answered as written and has not flushed: with its volatile cache it may lose that when it is away.

use base::frame::Frame;
use std::collections::BTreeMap;

/// Blocks from which on the disk is flushed, so that there are fewer.
const FLUSHED_FROM: usize = 8192;
/// Most blocks, but for those of writes that are under way: 64 MiB.
const BLOCKS_MAX: usize = 2 * FLUSHED_FROM;

/// Newest content of a block.
#[derive(Debug)]
struct Kept {
    /// Number of the write that brought it.
    number: u64,
    data: Box<[u8]>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    blocks: BTreeMap<u64, Kept>,
    /// Writes that were noted.
    writes: u64,
}

impl Ledger {
    /// A write was answered: these blocks are there, and may be lost.
    pub(super) fn note(&mut self, place: u64, frames: &[Frame]) {
        self.writes += 1;
        for (place, frame) in (place..).zip(frames) {
            let number = self.writes;
            match self.blocks.get_mut(&place) {
                Some(kept) => {
                    kept.number = number;
                    kept.data.copy_from_slice(&frame.data);
                }
                None => {
                    // Copied once: `Box::new(frame.data)` copies it to the stack before.
                    self.blocks.insert(place, Kept { number, data: Box::from(&frame.data[..]) });
                }
            }
        }
    }

    /// Nobody needs what these blocks held any more: something else is durable there, or nothing is.
    pub(super) fn forget(&mut self, place: u64, count: u64) {
        let places: Vec<u64> = self.blocks.range(place..place + count).map(|(place, _)| *place).collect();
        for place in places {
            self.blocks.remove(&place);
        }
    }

    /// What a flush covers that begins now.
    pub(super) fn mark(&self) -> u64 {
        self.writes
    }

    /// A flush is through that began at this mark.
    pub(super) fn flushed(&mut self, mark: u64) {
        self.blocks.retain(|_, kept| kept.number > mark);
    }

    /// The first run of blocks from a place on, of at most so many.
    pub(super) fn run(&self, from: u64, most: usize) -> Option<(u64, Vec<Frame>)> {
        let (first, _) = self.blocks.range(from..).next()?;
        let run = (*first..).zip(self.blocks.range(first..)).take(most);
        let frames = run.take_while(|(at, (place, _))| at == *place).map(|(_, (_, kept))| {
            let mut frame = Frame::zeroed();
            frame.data.copy_from_slice(&kept.data);
            frame
        });
        Some((*first, frames.collect()))
    }

    /// There is so much that the disk should be flushed.
    pub(super) fn wants_flush(&self) -> bool {
        self.blocks.len() >= FLUSHED_FROM
    }

    /// There is so much that no more should come.
    pub(super) fn is_full(&self) -> bool {
        self.blocks.len() >= BLOCKS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(bytes: &[u8]) -> Vec<Frame> {
        let frame = |byte: &u8| {
            let mut frame = Frame::zeroed();
            frame.data.fill(*byte);
            frame
        };
        bytes.iter().map(frame).collect()
    }

    /// All runs: places and first bytes.
    fn runs(ledger: &Ledger, most: usize) -> Vec<(u64, Vec<u8>)> {
        let mut from = 0;
        std::iter::from_fn(|| {
            let (first, frames) = ledger.run(from, most)?;
            from = first + frames.len() as u64;
            Some((first, frames.iter().map(|frame| frame.data[0]).collect()))
        })
        .collect()
    }

    #[test]
    fn the_newest_content_of_a_block_is_kept() {
        let mut ledger = Ledger::default();
        ledger.note(10, &frames(&[1, 2, 3]));
        ledger.note(11, &frames(&[4]));
        ledger.note(20, &frames(&[5]));
        assert_eq!(runs(&ledger, 64), [(10, vec![1, 4, 3]), (20, vec![5])]);
        assert_eq!(runs(&ledger, 2), [(10, vec![1, 4]), (12, vec![3]), (20, vec![5])]);
    }

    #[test]
    fn a_flush_covers_what_was_answered_before_it() {
        let mut ledger = Ledger::default();
        ledger.note(10, &frames(&[1, 2]));
        let mark = ledger.mark();
        ledger.note(11, &frames(&[3]));
        ledger.flushed(mark);
        assert_eq!(runs(&ledger, 64), [(11, vec![3])]);
    }

    #[test]
    fn what_is_durable_by_itself_is_not_written_over() {
        let mut ledger = Ledger::default();
        ledger.note(10, &frames(&[1, 2, 3]));
        ledger.forget(11, 1);
        ledger.forget(30, 5);
        assert_eq!(runs(&ledger, 64), [(10, vec![1]), (12, vec![3])]);
    }

    #[test]
    fn a_ledger_that_fills_asks_for_a_flush() {
        let mut ledger = Ledger::default();
        let many = frames(&[7; 64]);
        let mut place = 0;
        while !ledger.wants_flush() {
            ledger.note(place, &many);
            place += 64;
        }
        assert!(!ledger.is_full() && place == FLUSHED_FROM as u64);
        while !ledger.is_full() {
            ledger.note(place, &many);
            place += 64;
        }
        ledger.flushed(ledger.mark());
        assert!(!ledger.wants_flush() && ledger.run(0, 1).is_none());
    }
}
