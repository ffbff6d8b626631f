//! Memory: what the structures of a volume take, from what they hold now.
//!
//! What grows with the volume (index, trimmed bits, stripe tables, segments) and what does not (open segments, writes in
//! flight, buffers) are told apart; ZapRAID sections 3.1 and 3.2 count the first.

use crate::log::clients::Clients;
use crate::log::core::Core;
use crate::log::index::entries::EntryBytes;
use crate::log::index::groups::{TABLE_BYTES_PER_GROUP, entries_per_block};
use base::units::{BLOCK_BYTES_U64, OOB_BYTES};

/// Bytes by structure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Places of all blocks (the L2P table), and of each region's tombstone.
    pub index: u64,
    /// Marks of blocks that were trimmed, and of those that are lost.
    pub trimmed: u64,
    /// Stripe tables of segments that are not written any more.
    pub stripe_tables: u64,
    /// The segments, and who owns each zone.
    pub segments: u64,
    /// State needed while segments are written: their stripe tables, and metadata for the footers.
    pub open_segments: u64,
    /// What is believed of the channel groups of each drive: the same for any volume.
    pub channels: u64,
    /// Blocks with writes in flight.
    pub in_flight: u64,
    /// Buffers that were ever used at a time.
    pub buffers: u64,
}

impl Memory {
    /// Each structure with its name.
    #[must_use]
    pub fn rows(&self) -> [(&'static str, u64); 8] {
        [
            ("index", self.index),
            ("trimmed", self.trimmed),
            ("stripe_tables", self.stripe_tables),
            ("segments", self.segments),
            ("open_segments", self.open_segments),
            ("channels", self.channels),
            ("in_flight", self.in_flight),
            ("buffers", self.buffers),
        ]
    }

    /// All of it.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.rows().iter().map(|(_, bytes)| bytes).sum()
    }
}

/// Bytes that remember where the groups of an off-loaded index lie (ADR 17), for so many blocks with entries of four bytes.
#[must_use]
pub fn mapping_table_bytes(blocks: u64) -> u64 {
    blocks.div_ceil(entries_per_block(EntryBytes::Four) as u64) * TABLE_BYTES_PER_GROUP as u64
}

impl Memory {
    /// Returns the memory that the volume's structures take. O(segments).
    #[must_use]
    pub(super) fn of(core: &Core, clients: &Clients) -> Memory {
        let (index, trimmed) = core.index.memory_bytes();
        let SegmentBytes { stripe_tables, segments, open_segments } = core.segments.memory_bytes();
        Memory {
            index: index as u64,
            trimmed: trimmed as u64,
            stripe_tables: stripe_tables as u64,
            segments: segments as u64,
            open_segments: open_segments as u64,
            channels: core.segments.channels().memory_bytes() as u64,
            in_flight: clients.in_flight.memory_bytes() as u64,
            buffers: core.frames.frames_made() as u64 * (BLOCK_BYTES_U64 + OOB_BYTES as u64),
        }
    }
}

/// Memory that segments take, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentBytes {
    /// As in [`Memory`].
    pub stripe_tables: usize,
    /// As in [`Memory`].
    pub segments: usize,
    /// As in [`Memory`].
    pub open_segments: usize,
}
