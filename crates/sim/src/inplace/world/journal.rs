//! Journal of the world: a disk beside those of members. It may be lost: then nothing is written any more, and the array is refused.

use super::World;
use crate::inplace::act::Loss;
use crate::inplace::disk::DiskHandle;
use base::time::{Instant, Nanos};
use block::md::member::Member;

/// Slowest commands, one after the other, in which superblocks say that a resync is through.
const COMMANDS_TO_TELL: u64 = 16;

/// See the module.
pub(super) struct JournalDisk {
    disk: Option<DiskHandle>,
    /// It was lost since the start of the engine, or is about to be.
    is_lost: bool,
    /// Time since which all parities are right, and events of the superblocks at the start.
    synced: (Option<Instant>, u64),
}

impl JournalDisk {
    pub(super) fn new(disk: Option<DiskHandle>) -> JournalDisk {
        JournalDisk { disk, is_lost: false, synced: (None, 0) }
    }

    pub(super) fn disk(&self) -> Option<&DiskHandle> {
        self.disk.as_ref()
    }

    /// True when writes may fail, and a start may be refused.
    pub(super) fn may_be_lost(&self) -> bool {
        self.is_lost
    }

    /// An array starts with its journal: a failure that nobody was told of is forgotten.
    pub(super) fn begin(&mut self, events: u64) {
        self.synced = (None, events);
        self.is_lost &= self.disk.as_ref().is_some_and(|disk| disk.is_dead() || disk.has_fault());
    }
}

impl World {
    /// Superblocks say soon after a resync that it is through, whatever clients do: then the array is served without a member.
    pub(super) fn look_at_first_resync(&mut self) {
        let Some(volume) = self.volume.as_ref().filter(|_| self.is_new && self.journal.disk.is_some()) else {
            return;
        };
        let status = volume.engine.status();
        let (since, events) = self.journal.synced;
        let is_right = status.resync_left == 0 && status.rows_in_doubt == 0;
        // Where nobody writes, nothing is said for a while.
        let is_told = is_right && !status.is_broken && !self.journal.is_lost && status.events != events;
        let since = is_told.then(|| since.unwrap_or(self.now));
        self.journal.synced.0 = since;
        let slowest = self.disks.iter().map(|disk| disk.slowest().0).max().expect("a member");
        self.is_new &= since.is_none_or(|since| self.now <= since + Nanos(COMMANDS_TO_TELL * slowest));
    }

    /// Writes that failed, for too many members are gone, may be in the journal: they come with the next start, whatever was read
    /// meanwhile.
    pub(super) fn expect_failed_writes(&mut self) {
        if self.journal.disk.is_some() {
            self.oracle.crash();
        }
    }

    /// An array with a journal may have been started of superblocks that say so, while others do not.
    pub(super) fn is_said_by_all(&self, members: &[Member]) -> bool {
        self.journal.disk.is_none() || members.iter().all(|member| member.superblock().is_clean())
    }

    pub(super) fn lose_journal(&mut self, how: Loss) {
        let Some(disk) = self.journal.disk.clone() else { return };
        self.journal.is_lost = true;
        match how {
            Loss::Dies => disk.die(),
            Loss::Fails => disk.fail_next_write(),
            Loss::TakenOut => {
                let role = array::inplace::members::role(self.disks.len());
                self.volume().engine.fail_member(role);
            }
        }
    }
}
