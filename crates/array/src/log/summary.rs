//! Summaries: what an open segment holds is written down as it is filled, so that a mount need not read all of it (ADR 14).
//!
//! ```text
//!  stripes | 0 .. 699 | s s .. s | 710 .. 1399 | s s .. s | 1410 ..          s: a stripe of blocks of a summary
//!            '── described by ─┘   '─ by ───────┘           not described
//! ```
//! A summary lies in the segment that it describes. So a mount that reads a segment from its end meets the newest one
//! first, and that one says where the one before lies. It describes a row only where every chunk of the stripe is durable
//! and whole, caches included: then it says what the blocks themselves would say.
//!
//! Nothing needs a summary. Its blocks have no names, so they are garbage from the beginning: nothing maps, moves or counts
//! them, and the footers take their place when the segment is sealed. They are written when there is room for clients.
//! The collector's segments have none: it would never come to an end if what it writes were garbage to collect again.

use crate::engine::Effects;
use crate::log::Shard;
use crate::log::config::SummaryEvery;
use crate::log::core::Core;
use crate::log::flush::FlushWaiter;
use crate::log::flush::Flushed;
use crate::log::flush::RecoveryFlush;
use crate::log::segment::{Segment, SegmentSlot, SegmentState};
use crate::log::stripe::{Origin, StripeBlock};
use base::checksum::crc32c;
use base::time::Instant;
use base::xor::Block;
use zone::format::footer::EntryKind;
use zone::format::header::WriteMode;
use zone::format::oob::{self, Kind, Protected};
use zone::format::summary::{self, Head, Shape};
use zone::stripe::{Layout, StripeNumber};

/// With `SummaryEvery::Auto`, as many blocks at least are written at a time: a mount reads them one after the other, the
/// newest first, and what is behind the newest block by block.
const AUTO_BLOCKS: u32 = 32;
/// And so many times as much where the drives must be flushed before.
const AUTO_FLUSHED: u32 = 16;
/// Rows between two summaries are at least so many times those that one takes.
const ROWS_MIN_STRIPES: u32 = 4;

/// A segment of which a summary is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SummaryDue {
    slot: SegmentSlot,
    /// Id of the segment: slots are used again.
    segment: u64,
    /// Rows before this one are to be described.
    end: u32,
}

/// Summaries that are being written.
#[derive(Debug, Default)]
pub struct Summaries {
    due: Vec<SummaryDue>,
}

impl Summaries {
    /// Begins a summary: what it is about to describe is durable, caches included.
    pub fn flushed(&mut self, core: &mut Core, due: SummaryDue) {
        if core.segments.find(due.slot, due.segment).is_some_and(|segment| segment.writer.is_some()) {
            assert!(core.segments.get(due.slot).stream.is_clients(), "only clients' segments have summaries");
            core.segments.writer_mut(due.slot).summary.end = due.end;
            self.due.push(due);
        }
    }
}

/// Rows from one summary of a segment to the next; `None` when none is written. With `Auto`, blocks fill stripes.
fn rows_between(every: SummaryEvery, layout: &Layout, mode: WriteMode, flushes: bool) -> Option<u32> {
    match every {
        SummaryEvery::Never => None,
        SummaryEvery::Rows(rows) => Some(rows.max(ROWS_MIN_STRIPES * layout.chunk_blocks)),
        SummaryEvery::Auto => {
            let stripe = layout.stripe_data_blocks();
            let blocks = AUTO_BLOCKS.div_ceil(stripe) * stripe;
            let times = if flushes { AUTO_FLUSHED } else { 1 };
            Some(blocks * times * Shape::of(layout, mode).rows_max())
        }
    }
}

impl Shard {
    /// A stripe of a segment is durable: there may be enough for a summary.
    pub(super) fn note_for_summary(&mut self, slot: SegmentSlot, fx: &mut Effects) {
        let Segment { id, stream, mode, layout, writer, .. } = self.core.segments.get_mut(slot);
        let Some(writer) = writer else { return };
        let is_early = writer.next_stripe < writer.summary.due_at || !stream.is_clients();
        if is_early || writer.summary.is_busy || writer.is_exhausted(layout) {
            return;
        }
        let flushes = self.core.config.geometry.volatile_cache;
        let Some(every) = rows_between(self.core.tuning.summaries, layout, *mode, flushes) else {
            writer.summary.due_at = u32::MAX;
            return;
        };
        let first = writer.summary.next;
        writer.summary.due_at = (first + every).div_ceil(layout.chunk_blocks);
        let rows = writer.stripes_complete(layout) * layout.chunk_blocks;
        if rows < first + every {
            return;
        }
        writer.summary.is_busy = true;
        let due = SummaryDue { slot, segment: *id, end: rows - (rows - first) % every };
        if !flushes || self.device_flush.ask(&mut self.core, FlushWaiter::Summary(due), fx) == Flushed::Now {
            self.summaries.flushed(&mut self.core, due);
        }
    }

    /// Goes on as far as possible, a stripe of each segment at a time: clients' are in between.
    pub(super) fn advance_summaries(&mut self, now: Instant, fx: &mut Effects) {
        let mut index = 0;
        while let Some(due) = self.summaries.due.get(index).copied() {
            if summary_is_over(&mut self.core, due) {
                self.summaries.due.swap_remove(index);
                continue;
            }
            if self.may_write_summary(due.slot) {
                self.write_summary(due.slot, now, fx);
            }
            index += 1;
        }
    }

    /// True when a stripe may be given out in a segment for what nobody waits for.
    fn may_write_summary(&self, slot: SegmentSlot) -> bool {
        let segment = self.core.segments.get(slot);
        let stream = segment.stream;
        self.rescue.flush == RecoveryFlush::Done
            && !self.rescue.is_void
            && !self.checkpoints.is_draining()
            && !self.space().clients_wait_for_victim()
            && self.stripes.slots.in_use(stream) < self.space().stripes_allowed(stream)
            && segment.writer.as_ref().is_some_and(|writer| writer.has_room(&segment.layout))
    }

    /// Fills a stripe with the next blocks of a segment's summary, and gives it to that segment.
    fn write_summary(&mut self, slot: SegmentSlot, now: Instant, fx: &mut Effects) {
        let Segment { stream, layout, mode, .. } = *self.core.segments.get(slot);
        let shape = Shape::of(&layout, mode);
        let stripe = self.stripes.slots.take(stream, now).expect("the caller checked for a free stripe slot");
        assert!(stream.is_clients(), "only clients' segments have summaries");
        for index in 0..layout.stripe_data_blocks() {
            let segment = self.core.segments.get(slot);
            let summary = &segment.writer.as_ref().expect("an open segment").summary;
            let first = summary.next;
            let end = summary.end.min(first + shape.rows_max());
            if first >= end {
                break;
            }
            let mut frame = self.core.frames.take();
            describe(segment, &shape, first..end, &mut frame.data);
            assert!(first < end, "a block of a summary describes rows");
            self.core.segments.writer_mut(slot).summary.next = end;
            let protected =
                Protected { lba: first.into(), sequence: self.core.next_sequence, kind: Kind::Mapping };
            self.core.next_sequence += 1;
            self.core.counters.summary_blocks_written += 1;
            *oob::protected_mut(&mut frame.oob) = protected.to_bytes();
            let data_crc = crc32c(&frame.data);
            let stripe = self.stripes.slots.get_mut(stripe);
            stripe.pieces[(index / layout.chunk_blocks) as usize].push(frame);
            stripe.blocks.push(StripeBlock { protected, name: None, origin: Origin::Summary, data_crc });
        }
        self.stripes.pad(&mut self.core, stripe, stream);
        self.stripes.encode(&mut self.core, stripe);
        self.appender().bind(stripe, slot, fx);
    }
}

/// True when nothing of a summary is to be written any more.
fn summary_is_over(core: &mut Core, due: SummaryDue) -> bool {
    if core.segments.find(due.slot, due.segment).is_none() {
        return true;
    }
    let segment = core.segments.get_mut(due.slot);
    let (is_open, layout) = (segment.state == SegmentState::Open, segment.layout);
    let Some(writer) = &mut segment.writer else { return true };
    let is_over = !is_open
        || writer.is_exhausted(&layout)
        || writer.summary.next >= writer.summary.end
        || core.membership.is_broken();
    writer.summary.is_busy = !is_over;
    is_over
}

/// Writes down some rows of a segment.
fn describe(segment: &Segment, shape: &Shape, rows: std::ops::Range<u32>, block: &mut Block) {
    let head =
        Head { segment: segment.id, first: rows.start, rows: u32::try_from(rows.len()).expect("few rows") };
    assert!(head.rows > 0 && head.rows <= shape.rows_max(), "{} rows of {}", head.rows, shape.rows_max());
    head.encode(shape, block);
    for (index, row) in (0..).zip(rows) {
        if describe_row(segment, shape, (index, row), block).is_none() {
            summary::clear_row(shape, index, block);
        }
    }
}

/// Writes down one row; `None` when a block of it is not there, or not whole.
fn describe_row(segment: &Segment, shape: &Shape, (index, row): (u32, u32), block: &mut Block) -> Option<()> {
    let layout = &segment.layout;
    let writer = segment.writer.as_ref()?;
    let (stripe, row) = (StripeNumber(row / layout.chunk_blocks), row % layout.chunk_blocks);
    for (member, zone) in writer.zones.iter().enumerate() {
        let slot = segment.slot_of_stripe(member, stripe)?;
        let entry = zone.entries[(slot * layout.chunk_blocks + row) as usize];
        let piece = layout.piece_of(stripe, member);
        match entry.kind {
            _ if entry.stripe != stripe || !entry.whole => return None,
            EntryKind::Data(kind) if layout.code.is_data(piece) => {
                let data = Protected { lba: entry.lba, sequence: entry.sequence, kind };
                summary::put_data(shape, (index, piece), &data, block);
            }
            EntryKind::Parity(_) if !layout.code.is_data(piece) => {}
            _ => return None,
        }
        let within = slot - layout.group_start(layout.group_of(stripe));
        summary::put_slot(shape, (index, member), within, block);
    }
    Some(())
}
