//! Objects in memory: on their way to flash, held in memory alone, and copies of what lies on flash; and which objects were here lately.

use super::buffer::Buffer;
use super::memory::Copies;
use crate::admission::Gate;
use crate::ghost::Ghost;

/// See the module.
pub(super) struct Objects {
    pub(super) buffer: Buffer,
    pub(super) memory: Copies,
    /// Admission gate to flash.
    pub(super) gate: Gate,
    /// Objects that went with young zones.
    pub(super) evicted: Ghost<u8>,
}

impl Objects {
    /// Bytes of what remembers objects that are gone.
    pub(super) fn ghost_bytes(&self) -> u64 {
        self.gate.bytes() + self.evicted.bytes()
    }
}
