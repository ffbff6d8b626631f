//! What others see of a shard: sizes and states, for status and for checks; and how a service ends.

use super::memory::Copies;
use super::{Drive, Membership, Shard};
use crate::config::Options;
use crate::format::NAMESPACES;
use crate::hash::FullKey;
use crate::index::Index;
use crate::request::{Namespace, WallMillis};
use crate::status::{AdmissionStatus, Counters};
use base::units::ZoneIndex;

impl Shard {
    /// Latest wall time seen.
    #[must_use]
    pub fn wall(&self) -> WallMillis {
        self.core.clocks.wall
    }

    /// Live objects of a namespace, as far as known.
    #[must_use]
    pub fn objects(&self, namespace: Namespace) -> u64 {
        let place = usize::from(namespace.0) % NAMESPACES;
        let zones = self.core.drives.iter().filter(|drive| drive.up).flat_map(|drive| drive.zones.iter());
        let flash: u64 = zones.map(|zone| u64::from(zone.live[place])).sum();
        flash + self.objects.buffer.objects(namespace)
    }

    /// Counters and sizes.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.core.counters
    }

    /// The index.
    #[must_use]
    pub fn index(&self) -> &Index {
        &self.core.index
    }

    /// The drives.
    #[must_use]
    pub fn drives(&self) -> &[Drive] {
        &self.core.drives
    }

    /// The members.
    #[must_use]
    pub fn membership(&self) -> &Membership {
        &self.core.membership
    }

    /// Bytes in buffers, without what is held in memory alone.
    #[must_use]
    pub fn buffer_bytes(&self) -> u64 {
        self.objects.buffer.bytes() - self.objects.buffer.held_bytes()
    }

    /// Bytes of what the next directories list.
    #[must_use]
    pub fn listing_bytes(&self) -> u64 {
        self.core.drives.iter().map(|drive| drive.open.listing_bytes()).sum()
    }

    /// Bytes of what remembers objects that are gone.
    #[must_use]
    pub fn ghost_bytes(&self) -> u64 {
        self.objects.ghost_bytes()
    }

    /// Options.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.core.options
    }

    /// The memory cache.
    #[must_use]
    pub fn memory(&self) -> &Copies {
        &self.objects.memory
    }

    /// Most bytes that may be held: half of what index, ghosts and full buffers leave of the memory.
    #[must_use]
    pub fn held_limit(&self) -> u64 {
        self.objects.held_limit(&self.core)
    }

    /// Admission to flash, for the status.
    #[must_use]
    pub fn admission(&self) -> AdmissionStatus {
        self.objects.admission(&self.core)
    }

    /// True of a key whose newest version is in memory alone: for checks.
    #[must_use]
    pub fn is_held(&self, key: &FullKey) -> bool {
        self.objects.is_held(&self.core, key)
    }

    /// Every copy that counts is of an object in the index: for checks.
    #[must_use]
    pub fn has_slots_for_copies(&self) -> bool {
        self.objects.has_slots_for_copies(&self.core)
    }

    /// True while a drive's victim waits for more to be written: for checks.
    #[must_use]
    pub fn is_collecting_slowly(&self, drive: usize) -> bool {
        self.core.is_collecting_slowly(drive)
    }

    /// Objects of a zone that are written anew and have not landed: for checks.
    #[must_use]
    pub fn copies_on_their_way(&self, drive: usize, zone: ZoneIndex) -> usize {
        self.objects.buffer.reinserting(drive, zone)
    }

    /// Bytes of what is written anew and has not landed: for checks.
    #[must_use]
    pub fn again_bytes(&self) -> u64 {
        self.objects.buffer.again_bytes()
    }

    /// The process is about to end in good order: drives take what memory holds.
    pub fn begin_stop(&mut self) {
        self.entries.begin_stop();
    }

    /// True when the media alone tell all that is hidden, as far as that is possible.
    #[must_use]
    pub fn needs_no_memory(&self) -> bool {
        self.entries.needs_no_memory(&self.core)
    }

    /// Writes to shared memory, as offset and bytes, to be made before anything else is done.
    pub(crate) fn take_shared(&mut self) -> Vec<(usize, Vec<u8>)> {
        self.entries.take_shared()
    }
}
