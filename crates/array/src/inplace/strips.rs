//! Strips in work: rounds from their begin to their commands, and what a core keeps for them.

use super::cache::Cache;
use super::completions::PieceCommand;
use super::core::Core;
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
