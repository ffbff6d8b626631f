//! Policy: every choice that the engine makes about space, as a pure function of what it sees.
//!
//! ```text
//!   in    Space: segments and members, open stripes, demand of clients, the collector's progress
//!   out   stream of a write, and when a stripe closes           adaptive.rs, biza.rs
//!         victim of the collector                               victim.rs, skew.rs
//!         pace of the collector and of clients                  headroom.rs
//!         stripes in flight, chunks in a command                queues.rs
//!         whether what waits will ever get space                exhausted.rs
//!         write mode of a segment                               mode.rs
//!         whether zones are at their limit                      strain.rs
//!         whether large chunks are full                         fill.rs
//!         segments of clients that the collector fills          left.rs
//!         slots of the write area, or stripes                   slots.rs
//!         those that last, in words                             decision.rs
//!         numbers that were chosen by measurement               tuned.rs
//! ```
//! Nothing here changes anything: the processes ask, and act.

pub mod adaptive;
pub mod biza;
pub mod decision;
pub mod exhausted;
pub mod fill;
pub mod headroom;
pub mod left;
pub mod mode;
pub mod queues;
pub mod skew;
pub mod slots;
pub mod strain;
pub mod tuned;
pub mod victim;

use crate::log::core::Core;
use crate::log::gc::Collector;
use crate::log::off_load::OffLoad;
use crate::log::policy::adaptive::Demand;
use crate::log::reader::Reader;
use crate::log::rescue::Rescue;
use crate::log::stripe::Stripes;

/// State that choices depend on, at one instant.
#[derive(Clone, Copy)]
pub struct Space<'a> {
    /// Segments, members and configuration.
    pub core: &'a Core,
    /// Open stripes and segments.
    pub stripes: &'a Stripes,
    /// Load of clients.
    pub demand: &'a Demand,
    /// Progress of the collector.
    pub collector: &'a Collector,
    /// Segments of mapping blocks.
    pub off_load: &'a OffLoad,
    /// Loads under way.
    pub reader: &'a Reader,
    /// Blocks that a crash left to be moved.
    pub rescue: &'a Rescue,
}

impl Space<'_> {
    pub(in crate::log) fn has_blocks_to_rescue(&self) -> bool {
        self.rescue.is_recording_doubt()
            || !self.rescue.weak.is_empty()
            || !self.reader.loads.is_empty()
            || !self.collector.moves.is_empty()
            || self.collector.moves_pending > 0
    }
}
