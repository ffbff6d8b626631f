//! Counters of what a drive's flash is written with.

use serde::Serialize;

/// Bytes since the drive's clock began. Bytes written into windows are absorbed, committed, discarded, or still there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Wear {
    /// Written by the host, into windows or not.
    pub written_bytes: u64,
    /// Written by the host into windows of random write areas.
    pub window_bytes: u64,
    /// Of these, overwritten in the window before they were committed: they never reach a zone.
    pub absorbed_bytes: u64,
    /// Of these, committed: by a write beyond the window, a commit, or a finish.
    pub committed_bytes: u64,
    /// Of these, still in a window when the zone was reset.
    pub discarded_bytes: u64,
    /// Programmed into zones: data, holes that a commit passed, padding of finishes, units that are not full, and what a
    /// collector moved.
    pub programmed_bytes: u64,
    /// Left unwritten in zones that were finished, where the drive pads them.
    pub padded_bytes: u64,
    /// Written to the flash that backs windows; 0 where that is memory.
    pub backing_bytes: u64,
}

impl Wear {
    /// Bytes in windows now, that a commit or finish would bring to a zone.
    ///
    /// # Panics
    /// When more has left windows than went into them.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        let left = self.absorbed_bytes + self.committed_bytes + self.discarded_bytes;
        self.window_bytes.checked_sub(left).expect("what leaves a window went into it")
    }

    /// What has happened since an earlier reading.
    ///
    /// # Panics
    /// When `earlier` is of another drive, or later.
    #[must_use]
    pub fn since(&self, earlier: &Wear) -> Wear {
        let less = |now: u64, then: u64| now.checked_sub(then).expect("counters only grow");
        Wear {
            written_bytes: less(self.written_bytes, earlier.written_bytes),
            window_bytes: less(self.window_bytes, earlier.window_bytes),
            absorbed_bytes: less(self.absorbed_bytes, earlier.absorbed_bytes),
            committed_bytes: less(self.committed_bytes, earlier.committed_bytes),
            discarded_bytes: less(self.discarded_bytes, earlier.discarded_bytes),
            programmed_bytes: less(self.programmed_bytes, earlier.programmed_bytes),
            padded_bytes: less(self.padded_bytes, earlier.padded_bytes),
            backing_bytes: less(self.backing_bytes, earlier.backing_bytes),
        }
    }
}
