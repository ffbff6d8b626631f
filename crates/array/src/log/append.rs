//! The append side of the engine: all that a block touches on its way into the log.
//!
//! ```text
//!  place ─> seal_filling    (write.rs)       a stripe gathers, gets its parity, and is closed
//!  pump_stream              (streams.rs)     it goes to an open segment
//!  open_segment, bind       (segment_life.rs) which is opened, and gives the stripe its number
//!  pump_zone .. piece_done  (chunks.rs)      its chunks go to the drives' zones
//!         │
//!         └─> Event::StripeDurable
//! ```
//! Whoever writes (clients, collector, checkpoints, index pages, summaries) holds an [`Appender`] for as long as it does.

use crate::log::Shard;
use crate::log::area::WriteArea;
use crate::log::core::Core;
use crate::log::flush::DeviceFlush;
use crate::log::gc::Collector;
use crate::log::off_load::OffLoad;
use crate::log::policy::Space;
use crate::log::policy::adaptive::Demand;
use crate::log::policy::decision::{Decision, Seen};
use crate::log::reader::Reader;
use crate::log::rescue::Rescue;
use crate::log::stripe::Stripes;

/// Access to what appending changes, and to what its choices depend on.
pub struct Appender<'a> {
    /// Segments, members and frames.
    pub core: &'a mut Core,
    /// Stripes and open segments.
    pub stripes: &'a mut Stripes,
    /// Flushes, before segments are sealed.
    pub device_flush: &'a mut DeviceFlush,
    /// Footers and stripe tables of segments that are sealed.
    pub reader: &'a mut Reader,
    /// The write area, for stripes that would be padded.
    pub area: &'a mut WriteArea,
    /// Load of clients.
    pub demand: &'a Demand,
    /// Progress of the collector.
    pub collector: &'a Collector,
    /// Segments of mapping blocks.
    pub off_load: &'a OffLoad,
    /// Blocks that a crash left to be moved.
    pub rescue: &'a Rescue,
}

impl Appender<'_> {
    /// A decision was made: tells whoever asks.
    pub fn note(&mut self, decision: Decision) {
        if self.core.decisions.are_wanted() {
            let seen = self.space().seen();
            self.core.decisions.note(decision, seen);
        }
    }

    /// Returns what choices are made by.
    pub fn space(&self) -> Space<'_> {
        Space {
            core: self.core,
            stripes: self.stripes,
            demand: self.demand,
            collector: self.collector,
            off_load: self.off_load,
            reader: self.reader,
            rescue: self.rescue,
        }
    }
}

impl Shard {
    /// Keeps what the policy decides, to be asked for.
    pub fn keep_decisions(&mut self) {
        self.core.decisions.keep();
    }

    /// Returns what the policy decided since this was asked last, each with what it saw.
    pub fn take_decisions(&mut self) -> Vec<(Decision, Seen)> {
        self.core.decisions.take()
    }

    /// Returns what choices are made by.
    pub(super) fn space(&self) -> Space<'_> {
        Space {
            core: &self.core,
            stripes: &self.stripes,
            demand: &self.clients.demand,
            collector: &self.collector,
            off_load: &self.off_load,
            reader: &self.reader,
            rescue: &self.rescue,
        }
    }

    /// Returns the append side.
    pub(in crate::log) fn appender(&mut self) -> Appender<'_> {
        Appender {
            core: &mut self.core,
            stripes: &mut self.stripes,
            device_flush: &mut self.device_flush,
            reader: &mut self.reader,
            area: &mut self.area,
            demand: &self.clients.demand,
            collector: &self.collector,
            off_load: &self.off_load,
            rescue: &self.rescue,
        }
    }
}
