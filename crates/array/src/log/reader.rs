//! Reads of stripes and tables: for the collector, rebuilds, scrubs and degraded reads.

use crate::log::dropped_tables::DroppedTables;
use crate::log::load::{Load, Rebuild};
use crate::log::sweep::Sweep;
use base::slab::Slab;
use std::collections::VecDeque;

/// Reads of stripes in work.
pub struct Reader {
    /// Stripes being loaded.
    pub loads: Slab<Load>,
    /// Rows of stripes being read in order.
    pub sweeps: Slab<Sweep>,
    /// Stripe tables that are not in memory.
    pub dropped_tables: DroppedTables,
    /// Blocks to be decoded for degraded reads, in order.
    pub degraded: VecDeque<Rebuild>,
    /// Loads under way for them.
    pub degraded_loads: u32,
}

impl Reader {
    /// A reader with nothing to read, and so many bytes for stripe tables.
    #[must_use]
    pub fn new(table_bytes_max: Option<u64>) -> Reader {
        Reader {
            loads: Slab::default(),
            sweeps: Slab::default(),
            dropped_tables: DroppedTables::new(table_bytes_max),
            degraded: VecDeque::new(),
            degraded_loads: 0,
        }
    }
}
