//! A logical zone: what is queued for it, its open stripes, and the writers of its zones.
//!
//! ```text
//!   requests ──place──> open stripes (all their data in memory) ──parts──> a queue for each drive's zone
//!                          │ full: sealed, its parity is a part too         one Zone Write in flight
//!                          └ not full: partial parity, to the log
//! ```

use crate::config::{Map, count};
use array::request::RequestId;
use base::frame::Frame;
use std::collections::VecDeque;
use std::ops::Range;

/// Blocks of a chunk on their way to a drive's zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Stripe.
    pub stripe: u32,
    /// Piece; k is parity.
    pub piece: usize,
    /// First row.
    pub row: u32,
    /// Count of rows.
    pub rows: u32,
}

/// The zone of one drive.
#[derive(Debug, Default)]
pub struct ZoneWriter {
    /// Parts that wait, in the order of the zone.
    pub queue: VecDeque<Part>,
    /// Parts in the one Zone Write in flight.
    pub in_flight: Vec<Part>,
}

/// Part of a write request, in one stripe.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Write slot.
    pub write: u32,
    /// Position in the stripe behind its last block.
    pub end: u32,
}

/// Partial parity that was handed to the log.
#[derive(Clone, Copy, Debug)]
pub struct Partial {
    /// Blocks of the stripe, in order, that it covers.
    pub coverage: u32,
    /// Appends that are not durable.
    pub pending: u32,
}

/// A stripe that is not wholly durable.
#[derive(Debug)]
pub struct Stripe {
    /// Within its zone.
    pub number: u32,
    /// Data of the stripe as far as it has arrived.
    pub data: Vec<Frame>,
    /// Blocks that were handed to drives; they leave in order until the stripe is sealed.
    pub issued: u32,
    /// Durable rows of each piece, parity last.
    pub done: Vec<u32>,
    /// Writes that wait, in order.
    pub spans: VecDeque<Span>,
    /// Partial parity on its way, in order of coverage.
    pub partials: VecDeque<Partial>,
    /// Blocks that survive a crash and the loss of a drive.
    pub acked: u32,
    /// Rows whose parity has changed since it was last handed to the log.
    pub changed: Range<u32>,
    /// All data has arrived: its parity is written to its zone, and no more to the log.
    pub sealed: bool,
    /// Set when the stripe has partial parity in the log.
    pub is_logged: bool,
    /// Set when that parity is in a log zone that is being replaced.
    pub is_stale: bool,
    /// A checkpoint of it is on its way: appends pending.
    pub checkpoint_pending: u32,
}

impl Stripe {
    /// An empty one.
    #[must_use]
    pub fn new(number: u32, map: &Map) -> Stripe {
        Stripe {
            number,
            data: Vec::with_capacity(map.stripe_blocks() as usize),
            issued: 0,
            done: vec![0; map.layout.members()],
            spans: VecDeque::new(),
            partials: VecDeque::new(),
            acked: 0,
            changed: 0..0,
            sealed: false,
            is_logged: false,
            is_stale: false,
            checkpoint_pending: 0,
        }
    }

    /// Blocks of data, in order, that are durable on their drives.
    #[must_use]
    pub fn durable(&self, map: &Map) -> u32 {
        let mut durable = 0;
        for rows in &self.done[..map.data_count()] {
            durable += rows;
            if *rows < map.chunk_blocks() {
                break;
            }
        }
        durable
    }

    /// Data and parity are durable.
    #[must_use]
    pub fn is_whole(&self, map: &Map) -> bool {
        self.done.iter().all(|rows| *rows == map.chunk_blocks())
    }

    /// Not full, and nothing of it is on its way to drives.
    #[must_use]
    pub fn is_settled(&self, map: &Map) -> bool {
        !self.sealed
            && self.issued == self.durable(map)
            && self.partials.is_empty()
            && self.checkpoint_pending == 0
    }

    /// Not full, and all that has arrived survives.
    #[must_use]
    pub fn is_quiet(&self, map: &Map) -> bool {
        self.is_settled(map) && self.acked == count(self.data.len())
    }

    /// Nothing needs it in memory any more.
    #[must_use]
    pub fn is_finished(&self, map: &Map) -> bool {
        self.is_whole(map)
            && self.spans.is_empty()
            && self.partials.is_empty()
            && self.checkpoint_pending == 0
    }

    /// Works out again what survives; partial parity counts once everything that it and the ones before it cover
    /// is durable.
    pub fn advance(&mut self, map: &Map) {
        let durable = self.durable(map);
        while let Some(first) = self.partials.front()
            && first.pending == 0
            && (first.coverage <= durable || self.is_whole(map))
        {
            self.acked = self.acked.max(first.coverage);
            self.partials.pop_front();
        }
        if self.is_whole(map) {
            self.acked = map.stripe_blocks();
        }
    }

    /// Rows are about to differ from what the log has.
    pub fn touch(&mut self, rows: Range<u32>) {
        self.changed = match self.changed.is_empty() {
            true => rows,
            false => self.changed.start.min(rows.start)..self.changed.end.max(rows.end),
        };
    }

    /// The blocks of data in a row, of those at positions below `coverage`.
    pub fn row(&self, map: &Map, row: u32, coverage: u32) -> impl Iterator<Item = &Frame> {
        let positions = (0..map.data_count()).map(move |piece| map.within(piece, row));
        positions.filter(move |position| *position < coverage).map(|position| &self.data[position as usize])
    }
}

/// A request that waits for its turn in a logical zone.
#[derive(Debug)]
pub enum Pending {
    /// Blocks to be placed.
    Write {
        /// Write slot.
        write: u32,
        /// Blocks that are left.
        frames: VecDeque<Frame>,
    },
    /// The zone is to be emptied.
    Reset {
        /// Id of the request.
        id: RequestId,
        /// Number of the request, by arrival.
        arrival: u64,
    },
}

/// Stage of a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetStage {
    /// The record of the reset is on its way to the logs: appends pending.
    Recording(u32),
    /// The drives' zones are being reset: resets pending.
    Erasing(u32),
}

/// A reset under way.
#[derive(Clone, Copy, Debug)]
pub struct Reset {
    /// Id of the request.
    pub id: RequestId,
    /// Number of the request, by arrival.
    pub arrival: u64,
    /// Stage of the reset.
    pub stage: ResetStage,
}

/// A logical zone.
#[derive(Debug, Default)]
pub struct LogicalZone {
    /// Counts its resets; 0 while it is empty.
    pub generation: u64,
    /// Position at which the next write that arrives must begin.
    pub write_pointer: u32,
    /// Blocks that are in stripes, or were.
    pub placed: u32,
    /// Requests in order of arrival.
    pub pending: VecDeque<Pending>,
    /// Open stripes in order.
    pub stripes: VecDeque<Stripe>,
    /// Writers of the drives' zones, one for each drive.
    pub writers: Vec<ZoneWriter>,
    /// A reset under way.
    pub reset: Option<Reset>,
    /// Reads of what is on its drives, in flight.
    pub readers: u32,
}

impl LogicalZone {
    /// An empty one.
    #[must_use]
    pub fn new(members: usize) -> LogicalZone {
        LogicalZone {
            writers: (0..members).map(|_| ZoneWriter::default()).collect(),
            ..LogicalZone::default()
        }
    }

    /// True when the logical zone takes a zone of each drive that is neither empty nor full, or soon will.
    #[must_use]
    pub fn is_open(&self, map: &Map) -> bool {
        let partly = |blocks: u32| blocks > 0 && blocks < map.zone_blocks();
        let is_write = |pending: &Pending| matches!(pending, Pending::Write { .. });
        partly(self.write_pointer)
            || partly(self.placed)
            || !self.stripes.is_empty()
            || self.pending.iter().any(is_write)
    }

    /// Stripes that are complete on their drives, and no longer in memory.
    #[must_use]
    pub fn closed_stripes(&self, map: &Map) -> u32 {
        self.stripes.front().map_or(self.placed / map.stripe_blocks(), |stripe| stripe.number)
    }

    /// The open stripe of a number.
    #[must_use]
    pub fn stripe(&self, number: u32) -> Option<&Stripe> {
        let first = self.stripes.front()?.number;
        self.stripes.get(number.checked_sub(first)? as usize)
    }

    /// The open stripe of a number.
    pub fn stripe_mut(&mut self, number: u32) -> Option<&mut Stripe> {
        let first = self.stripes.front()?.number;
        self.stripes.get_mut(number.checked_sub(first)? as usize)
    }

    /// The open stripe of a number that must be there.
    ///
    /// # Panics
    /// When it is not.
    pub fn open_stripe(&mut self, number: u32) -> &mut Stripe {
        self.stripe_mut(number).expect("a stripe stays open while something of it is on its way")
    }

    /// Nothing of it is on its way to or from drives, and all that was placed is durable.
    #[must_use]
    pub fn is_quiet(&self, map: &Map) -> bool {
        self.readers == 0
            && self.reset.is_none()
            && self.writers.iter().all(|writer| writer.queue.is_empty() && writer.in_flight.is_empty())
            && self.stripes.iter().all(|stripe| stripe.is_quiet(map) && !stripe.is_stale)
    }
}
