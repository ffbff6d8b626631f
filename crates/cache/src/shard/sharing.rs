//! Entries in memory that outlives the process, and what superblocks say of them (ADR 57).
//!
//! ```text
//!   entry ──> shared memory ──> answer                     drives take it later, many at a time
//!         \── no room, or none yet, or none any more ──> journal ──> answer
//! ```
//! A mark in superblocks says that the media alone do not tell all that is hidden. It is recorded before the first entry is shared, and
//! taken back when a stop in good order has brought all of them to drives.

use super::core::Core;
use super::journal::Entries;
use crate::format::journal::{Entry, HIDES_NOTHING};
use crate::shared::{Mark, SharedLog};

/// See the module.
#[derive(Debug, Default)]
pub struct Sharing {
    /// The log of this life.
    pub log: Option<SharedLog>,
    /// Mark for superblocks.
    pub mark: Option<Mark>,
}

impl Entries {
    /// Shares an entry, if that is as good as the media; its number.
    pub(super) fn share(&mut self, core: &Core, drive: usize, entry: Entry) -> Option<u64> {
        // One that hides nothing is there for the time of its block.
        if !core.membership.has_recorded() || entry.sequence == HIDES_NOTHING {
            return None;
        }
        self.sharing.log.as_mut()?.add(drive, entry)
    }

    /// Ends what a log waits for.
    pub(super) fn go_on_sharing(&mut self, core: &mut Core) {
        let rests = core.membership.is_settled() && self.on_their_way.is_empty() && !core.waits_for_resets();
        let Some(log) = self.sharing.log.as_mut().filter(|_| !core.membership.is_frozen()) else { return };
        log.settle(|version| core.membership.has_settled(version));
        let is_over = if log.has_recovered() { log.try_end() } else { rests && log.recovered() };
        if is_over {
            self.sharing.mark = None;
            core.membership.change();
        }
    }

    /// The process is about to end in good order: drives take what memory holds.
    pub(super) fn begin_stop(&mut self) {
        if let Some(log) = &mut self.sharing.log {
            log.close();
        }
    }

    /// True when the media alone tell all that is hidden, as far as that is possible.
    pub(super) fn needs_no_memory(&self, core: &Core) -> bool {
        let is_closed = self.sharing.log.as_ref().is_none_or(SharedLog::is_closed);
        is_closed && core.membership.is_settled() || core.membership.is_frozen()
    }

    /// Writes to shared memory, as offset and bytes, to be made before anything else is done.
    pub(super) fn take_shared(&mut self) -> Vec<(usize, Vec<u8>)> {
        self.sharing.log.as_mut().map(SharedLog::take_writes).unwrap_or_default()
    }

    /// True when drives should take entries that nobody waits for.
    pub(super) fn wants_entries_on_drives(&self) -> bool {
        self.sharing.log.as_ref().is_some_and(|log| log.is_short() || !log.is_open())
    }
}
