//! Strips in work: rounds from their begin to their commands, and what a core keeps for them.

use super::cache::Cache;
use super::completions::PieceCommand;
use super::core::Core;
use super::shards::Place;
use super::shards::messages::Report;
use super::window::Window;
use base::slab::Slab;

/// See the module.
#[derive(Debug)]
pub struct Strips {
    /// The core.
    pub(super) core: Core,
    /// Parities and data of rows that were written in part.
    pub(super) cache: Cache,
    /// Rounds that wait for company.
    pub(super) window: Window,
    /// Commands under way.
    pub(super) commands: Slab<PieceCommand>,
}

impl Strips {
    /// What the engine has done, with what other shards reported.
    pub(in crate::inplace) fn report(&self) -> Report {
        let cache_frames = (self.cache.frames(), self.cache.frames_max());
        let mut report = Report { counters: self.core.counters, cache_frames, strips: self.core.table.len() };
        if let Place::Control(control) = &self.core.place {
            control.add_reports(&mut report);
        }
        report
    }
}
