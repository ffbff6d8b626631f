//! What is needed while a segment is written: which stripe comes next, and for each zone the chunks
//! that wait, fly and have landed.
//!
//! The group rule (ZapRAID section 3.2, per zone as in docs/ARCHITECTURE.md): a chunk of group g is
//! handed to a zone only when every chunk of the groups before g has landed there, so it lands in
//! group g's range whatever order the drive chooses. A fast zone may be in group g+1 while a slow
//! one is still in g; group g+2 begins only when every stripe of g is durable.
//!
//! ```text
//!            group 0          group 1
//!  zone A | 2 0 3 1 | 4 6 _ _ |      A has landed all of group 0 and takes chunks of group 1
//!  zone B | 0 1 _ _ | . . . . |      B holds its chunks of group 1 back
//! ```

use crate::log::stripe::StripeSlot;
use crate::log::window::{DurableStripes, Window, chunks_in_flight_max};
use base::erasure::Piece;
use base::time::Instant;
use std::collections::VecDeque;
use std::ops::Range;
use zone::format::footer::Entry;
use zone::format::header::WriteMode;
use zone::stripe::{Layout, StripeNumber};

/// Appends in flight per zone. Measured drives gain nothing beyond 4 to 8; memory-backed ones do
/// not care.
const APPENDS_IN_FLIGHT_MAX: u32 = 32;

/// What becomes durable of the header of a zone in area mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeaderStage {
    /// The zone is being opened with an area.
    #[default]
    Opening,
    /// The marker is being written.
    Marking,
    /// The header is being written.
    Writing,
    /// Its granule is being committed.
    Committing,
}

/// A chunk that waits for its zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingChunk {
    /// Stripe slot.
    pub slot: StripeSlot,
    /// Piece of the stripe.
    pub piece: Piece,
    /// Stripe within the segment.
    pub stripe: StripeNumber,
}

/// A command that is timed.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Its first chunk: stripe slot and piece.
    pub chunk: (StripeSlot, Piece),
    /// Blocks of the command.
    pub blocks: usize,
    /// Chunks in flight in the zone, its own included.
    pub depth: u32,
    /// When it was handed to the drive.
    pub at: Instant,
}

/// Progress of one zone.
#[derive(Debug, Default)]
pub struct ZoneWriter {
    /// Chunks that wait, in stripe order.
    pub waiting: VecDeque<WaitingChunk>,
    /// Chunks handed to the drive and not completed.
    pub in_flight: u32,
    /// Chunks in flight behind the first one in their command.
    pub joined: Vec<WaitingChunk>,
    /// The command whose time is taken.
    pub sent: Option<Sent>,
    /// Slots whose chunk has landed (or was written off by recovery).
    pub landed: u32,
    /// Next footer block to write.
    pub footer_next: u32,
    /// The drive reports the zone full.
    pub finished: bool,
    /// Progress of its header, in area mode.
    pub header: HeaderStage,
    /// Window of the zone, if it has one.
    pub window: Option<Window>,
    /// Metadata of every block of the zone's data region, for the footer.
    pub entries: Vec<Entry>,
}

impl ZoneWriter {
    /// The next chunk that may be handed to the drive now.
    #[inline]
    pub fn next_ready(
        &mut self,
        layout: &Layout,
        mode: WriteMode,
        durable: DurableStripes,
    ) -> Option<WaitingChunk> {
        let chunk = *self.waiting.front()?;
        let ready = match (mode, &self.window) {
            (WriteMode::Append, _) => {
                let group_start = layout.group_start(layout.group_of(chunk.stripe));
                let entered = self.landed >= group_start;
                entered && self.in_flight < APPENDS_IN_FLIGHT_MAX
            }
            (WriteMode::Area, Some(window)) => {
                let durable_end = layout.slot_offset(durable.end());
                self.in_flight < chunks_in_flight_max(layout.chunk_blocks)
                    && window.may_write(&layout.slot_range(chunk.stripe.static_slot()), durable_end)
            }
            // One at a time, at the write pointer.
            (WriteMode::Write | WriteMode::Area, _) => self.in_flight == 0,
        };
        if !ready {
            return None;
        }
        self.in_flight += 1;
        self.waiting.pop_front()
    }

    /// The chunk that waits to be written right behind that of `stripe`, to go along with it in one command.
    pub fn next_joined(&mut self, stripe: StripeNumber) -> Option<WaitingChunk> {
        let chunk = *self.waiting.front().filter(|chunk| chunk.stripe == stripe.next())?;
        self.in_flight += 1;
        self.joined.push(chunk);
        self.waiting.pop_front()
    }

    /// Blocks are written that follow what is durable, one command at a time.
    ///
    /// # Panics
    /// When that would commit more.
    pub fn write_behind_durable(&mut self, blocks: Range<u32>) {
        if let Some(window) = &mut self.window {
            assert!(window.may_write(&blocks, blocks.start), "{blocks:?} of {window:?}");
            window.write(&blocks);
        }
    }

    /// A chunk has landed in `slot`; its metadata is kept for the footer.
    pub fn land(&mut self, layout: &Layout, slot: u32, rows: impl Iterator<Item = Entry>) {
        assert!(self.in_flight > 0);
        self.in_flight -= 1;
        self.landed += 1;
        debug_assert!(slot < layout.stripes, "slot {slot} of {}", layout.stripes);
        debug_assert!(self.landed <= layout.stripes, "a zone has a slot for every stripe");
        if let Some(window) = &mut self.window {
            window.write(&layout.slot_range(slot));
        }
        let first = (slot * layout.chunk_blocks) as usize;
        for (entry, row) in self.entries[first..].iter_mut().zip(rows) {
            *entry = row;
        }
    }
}

/// A segment's writer.
#[derive(Debug)]
pub struct Writer {
    /// Next stripe to be given out.
    pub next_stripe: u32,
    /// Stripes given out and not durable, in even and odd groups.
    pub group_pending: [u32; 2],
    /// Stripes that are durable, in area mode.
    pub durable: DurableStripes,
    /// Progress of each zone.
    pub zones: Vec<ZoneWriter>,
    /// Progress of the summaries that describe its rows.
    pub summary: SummaryWriter,
}

/// Summaries of a segment.
#[derive(Clone, Copy, Debug, Default)]
pub struct SummaryWriter {
    /// Next row to be described.
    pub next: u32,
    /// Rows before it are to be described now.
    pub end: u32,
    /// Nothing is due before this stripe is given out.
    pub due_at: u32,
    /// Set while a summary is being written, or waits for drives to be flushed.
    pub is_busy: bool,
}

impl Writer {
    /// A writer that starts at stripe `next_stripe`, everything before it written.
    #[must_use]
    pub fn new(layout: &Layout, next_stripe: u32) -> Writer {
        assert!(next_stripe <= layout.stripes, "stripe {next_stripe} of {}", layout.stripes);
        let zones = (0..layout.members()).map(|_| ZoneWriter::default()).collect();
        let mut writer = Writer {
            next_stripe,
            group_pending: [0; 2],
            durable: DurableStripes::up_to(next_stripe),
            zones,
            summary: SummaryWriter::default(),
        };
        writer.restart(layout, next_stripe);
        writer
    }

    /// Stripes that were given out, when none is in flight.
    #[must_use]
    pub fn stripes_landed(&self) -> u32 {
        self.zones.iter().map(|zone| zone.landed).max().unwrap_or(0)
    }

    /// Makes the writer of one segment, all of it written, that of another; memory is kept.
    pub fn restart(&mut self, layout: &Layout, next_stripe: u32) {
        assert!(self.stripes_pending() == 0);
        self.next_stripe = next_stripe;
        self.durable = DurableStripes::up_to(next_stripe);
        self.summary = SummaryWriter::default();
        for zone in &mut self.zones {
            assert!(zone.waiting.is_empty());
            zone.in_flight = 0;
            zone.sent = None;
            zone.joined.clear();
            zone.landed = next_stripe;
            zone.footer_next = 0;
            zone.finished = false;
            zone.header = HeaderStage::default();
            zone.window = None;
            zone.entries.clear();
            zone.entries.resize(layout.region_blocks() as usize, Entry::VOID);
        }
    }

    /// Bytes of memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let of_zone = |zone: &ZoneWriter| {
            zone.entries.capacity() * size_of::<Entry>() + zone.waiting.capacity() * size_of::<WaitingChunk>()
        };
        size_of::<Writer>()
            + self.zones.capacity() * size_of::<ZoneWriter>()
            + self.zones.iter().map(of_zone).sum::<usize>()
    }

    /// True when a stripe can be given out now.
    #[must_use]
    pub fn has_room(&self, layout: &Layout) -> bool {
        if self.is_exhausted(layout) {
            return false;
        }
        let group = layout.group_of(StripeNumber(self.next_stripe));
        let starts_group = layout.group_start(group) == self.next_stripe;
        !starts_group || self.group_pending[(group % 2) as usize] == 0
    }

    /// True when every stripe was given out.
    #[must_use]
    pub fn is_exhausted(&self, layout: &Layout) -> bool {
        self.next_stripe == layout.stripes
    }

    /// Gives out the next stripe.
    pub fn take_stripe(&mut self, layout: &Layout) -> StripeNumber {
        assert!(self.has_room(layout));
        let stripe = StripeNumber(self.next_stripe);
        self.next_stripe += 1;
        self.group_pending[(layout.group_of(stripe) % 2) as usize] += 1;
        stripe
    }

    /// A stripe is durable.
    pub fn finish_stripe(&mut self, layout: &Layout, stripe: StripeNumber, mode: WriteMode) {
        if mode == WriteMode::Area {
            self.durable.add(stripe);
        }
        let pending = &mut self.group_pending[(layout.group_of(stripe) % 2) as usize];
        assert!(*pending > 0);
        *pending -= 1;
    }

    /// Stripes at the start of which all are durable: all that were given out, or those of groups that are complete.
    #[must_use]
    pub fn stripes_complete(&self, layout: &Layout) -> u32 {
        if self.stripes_pending() == 0 {
            return self.next_stripe;
        }
        let group = layout.group_of(StripeNumber(self.next_stripe - 1));
        if group > 0 && self.group_pending[((group - 1) % 2) as usize] > 0 {
            layout.group_start(group - 1)
        } else {
            layout.group_start(group)
        }
    }

    /// Stripes given out and not durable.
    #[must_use]
    pub fn stripes_pending(&self) -> u32 {
        self.group_pending.iter().sum()
    }
}
