//! Journal of the world: a disk beside those of members. It may be lost: then nothing is written any more, and the array is refused.

use super::World;
use crate::inplace::act::Loss;
use crate::inplace::disk::DiskHandle;

/// See the module.
pub(super) struct JournalDisk {
    disk: Option<DiskHandle>,
    /// It was lost since the start of the engine, or is about to be.
    is_lost: bool,
}

impl JournalDisk {
    pub(super) fn new(disk: Option<DiskHandle>) -> JournalDisk {
        JournalDisk { disk, is_lost: false }
    }

    pub(super) fn disk(&self) -> Option<&DiskHandle> {
        self.disk.as_ref()
    }

    /// True when writes may fail, and a start may be refused.
    pub(super) fn may_be_lost(&self) -> bool {
        self.is_lost
    }

    /// An array starts with its journal: a failure that nobody was told of is forgotten.
    pub(super) fn begin(&mut self) {
        self.is_lost &= self.disk.as_ref().is_some_and(|disk| disk.is_dead() || disk.has_fault());
    }
}

impl World {
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
