//! Clients: their requests, and the answers.

use super::completions::DirectRead;
use super::strips::Strips;
use base::slab::Slab;

/// See the module.
#[derive(Debug)]
pub struct Clients {
    /// Strips in work.
    pub(super) strips: Strips,
    /// Reads that went straight to members.
    pub(super) direct: Slab<DirectRead>,
}
