//! Parts of a request: what of it goes to which strip.

use super::super::clients::Clients;
use super::super::map::Strip;
use super::super::table::{Cell, Job, Wanted, Work};
use super::Asked;
use base::frame::Frame;
use base::units::Lba;
use std::ops::Range;

/// Most blocks of a trim that are made zeros by writes at a time.
const TRIM_BLOCKS_MAX: u64 = 256;

/// What a request has for a strip; added when there is nothing yet. A request goes over few strips at a time, mostly the last.
fn part_of<T>(parts: &mut Vec<(Strip, Vec<T>)>, strip: Strip, fresh: impl FnOnce() -> Vec<T>) -> &mut Vec<T> {
    let index = parts.iter().rposition(|(other, _)| *other == strip).unwrap_or_else(|| {
        parts.push((strip, fresh()));
        parts.len() - 1
    });
    &mut parts[index].1
}

impl Clients {
    /// Issues the next piece of a trim; false when there is none.
    pub(in crate::inplace) fn trim_more(&mut self, request: u32) -> bool {
        let stripe_blocks = self.strips.core.stripe_blocks();
        let Some((blocks, is_whole)) = self.next_of_trim(request, stripe_blocks) else { return false };
        if self.strips.core.is_read_only() {
            self.strips.core.requests.fail(request);
            return false;
        }
        if is_whole {
            let strips = self.strips.core.map.chunk_rows() / self.strips.core.map.strip_rows();
            let first = blocks.start / stripe_blocks * strips;
            for strip in (first..first + strips).map(Strip) {
                self.strips.core.requests.add_part(request);
                self.strips.offer(strip, Job { request: Some(request), work: Work::Zero });
            }
        } else {
            let count = blocks.end - blocks.start;
            self.write_cells(request, (Lba(blocks.start), count), blocks.map(|_| None), false);
        }
        true
    }

    /// The next blocks of a trim, and whether they are whole stripes; `None` when there are none.
    fn next_of_trim(&mut self, request: u32, stripe_blocks: u64) -> Option<(Range<u64>, bool)> {
        // What goes to a journal is written as zeros: it has no words for more.
        let may_be_whole = self.strips.core.ahead.journal.is_none();
        let open = self.strips.core.requests.open.get_mut(request);
        let Asked::Trim(rest) = &mut open.asked else { return None };
        if rest.is_empty() || open.has_failed {
            return None;
        }
        let start = rest.start;
        let until = (start / stripe_blocks + 1) * stripe_blocks;
        let is_whole = may_be_whole && start.is_multiple_of(stripe_blocks) && until <= rest.end;
        rest.start = if is_whole { until } else { until.min(rest.end).min(start + TRIM_BLOCKS_MAX) };
        assert!(start < rest.start && rest.start <= rest.end, "a trim goes on from {start} with {rest:?}");
        Some((start..rest.start, is_whole))
    }

    /// So many blocks from one on, to their strips; those without a frame become zeros.
    pub(in crate::inplace) fn write_cells(
        &mut self,
        request: u32,
        (lba, count): (Lba, u64),
        mut frames: impl Iterator<Item = Option<Frame>>,
        durable: bool,
    ) {
        let mut strips = std::mem::take(&mut self.strips.core.requests.memory.cells);
        let spare = &mut self.strips.core.table.pools.cells;
        let mut done = 0;
        while done < count {
            let place = self.strips.core.map.place(lba.plus(done));
            let run = (self.strips.core.map.strip_rows() - u64::from(place.row)).min(count - done);
            let piece = self.strips.core.map.order(place.strip).piece(place.chunk);
            let cells = part_of(&mut strips, place.strip, || spare.pop().unwrap_or_default());
            let rows = place.row..place.row + u16::try_from(run).expect("at most 128 rows of a strip");
            cells.extend(rows.zip(frames.by_ref()).map(|(row, frame)| Cell { row, piece, frame }));
            done += run;
        }
        assert!(
            strips.iter().map(|(_, cells)| cells.len() as u64).sum::<u64>() == count,
            "blocks from {} on: {count} of them go to strips {:?}",
            lba.0,
            strips.iter().map(|(strip, cells)| (strip.0, cells.len())).collect::<Vec<_>>()
        );
        strips.sort_unstable_by_key(|(strip, _)| *strip);
        for (strip, cells) in strips.drain(..) {
            self.strips.core.requests.add_part(request);
            self.strips.offer(strip, Job { request: Some(request), work: Work::Write { cells, durable } });
        }
        self.strips.core.requests.memory.cells = strips;
    }

    /// Reads blocks that their member cannot return.
    pub(in crate::inplace) fn read_through_strips(
        &mut self,
        request: u32,
        lba: Lba,
        (index, run): (usize, u64),
    ) {
        let mut strips = std::mem::take(&mut self.strips.core.requests.memory.wanted);
        let spare = &mut self.strips.core.table.pools.wanted;
        for (offset, block) in (lba.0..lba.0 + run).enumerate() {
            let place = self.strips.core.map.place(Lba(block));
            let piece = self.strips.core.map.order(place.strip).piece(place.chunk);
            let wanted = Wanted { row: place.row, piece, index: index + offset };
            part_of(&mut strips, place.strip, || spare.pop().unwrap_or_default()).push(wanted);
        }
        assert!(
            strips.iter().map(|(_, wanted)| wanted.len() as u64).sum::<u64>() == run,
            "{run} blocks from {} on are read",
            lba.0
        );
        for (strip, wanted) in strips.drain(..) {
            self.strips.core.requests.add_part(request);
            self.strips.offer(strip, Job { request: Some(request), work: Work::Read(wanted) });
        }
        self.strips.core.requests.memory.wanted = strips;
    }
}
