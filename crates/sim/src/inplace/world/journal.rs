//! Journal of the world: a disk beside those of members. It may be lost: then nothing is written any more, and the array is refused.

use super::InPlaceWorld;
use super::judge::Judge;
use super::stage::Stage;
use crate::inplace::act::Loss;
use crate::inplace::disk::DiskHandle;
use crate::world::Failure;
use array::inplace::journal::sectors_min;
use base::time::{Instant, Nanos};
use block::device::BlockDevice;
use block::md::assembly::judge;
use block::md::create::{Blank, MemberPlan};
use block::md::member::Member;
use block::md::new_journal::{NoNewJournal, plan};
use block::md::{SECTOR_BYTES_U64, Uuid};

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

impl Stage {
    /// An array with a journal may have been started of superblocks that say so, while others do not.
    pub(super) fn is_said_by_all(&self, members: &[Member]) -> bool {
        self.journal.disk.is_none() || members.iter().all(|member| member.superblock().is_clean())
    }

    /// Writes so many superblocks of those by which a new disk becomes the journal; false when the array has one.
    fn lay_down_journal(&mut self, superblocks: usize) -> Result<bool, Failure> {
        let (members, alive) = self.members_there()?;
        let arrays = judge(&members);
        let sectors = self.journal.disk.as_ref().map_or(0, |disk| disk.geometry().sectors);
        let device = Blank { sectors, uuid: Uuid([0xed; 16]) };
        let least = sectors_min(self.plan.members.into());
        let planned = match plan(&arrays[0], &device, least, 1_700_000_000 + self.now.0 / 1_000_000_000) {
            Ok(planned) => planned,
            Err(NoNewJournal::Present(_)) => return Ok(false),
            Err(refused) => return Err(Failure::new(format!("no journal is added: {refused}"))),
        };
        let bytes = usize::try_from(sectors * SECTOR_BYTES_U64).expect("small");
        assert!(sectors > 0, "another journal comes in the place of one that there was");
        let (latency, seed) = (self.plan.latency, self.random.bits());
        let new = DiskHandle::new(vec![0x5a; bytes], self.plan.is_volatile, latency, seed);
        planned.journal.before.iter().for_each(|(sector, bytes)| new.overwrite(*sector, bytes));
        let of_members = |plans: Vec<(usize, MemberPlan)>| {
            plans.into_iter().map(|(index, plan)| (alive[index].clone(), plan)).collect::<Vec<_>>()
        };
        let journal = [(new.clone(), planned.journal)];
        let all = of_members(planned.first).into_iter().chain(journal).chain(of_members(planned.last));
        for (disk, plan) in all.take(superblocks) {
            disk.overwrite(plan.superblock.device.super_offset, &plan.record());
            if disk.is(&new) {
                self.retired.extend(self.journal.disk.replace(new.clone()));
                self.journal.is_lost = false;
            }
        }
        Ok(true)
    }

    pub(super) fn lose_journal(&mut self, how: Loss) {
        let Some(disk) = self.journal.disk.clone() else { return };
        self.journal.is_lost = true;
        match how {
            Loss::Dies => disk.die(),
            Loss::Fails => disk.fail_next_write(),
            Loss::TakenOut => {
                let role = array::inplace::members::role(self.disks.len());
                self.volume().engine.core_mut().fail_member(role);
            }
        }
    }
}

impl Judge {
    /// Superblocks say soon after a resync that it is through, whatever clients do: then the array is served without a member.
    pub(super) fn look_at_first_resync(&mut self) {
        let Some(volume) =
            self.stage.volume.as_ref().filter(|_| self.is_new && self.stage.journal.disk.is_some())
        else {
            return;
        };
        let status = volume.engine.status();
        let (since, events) = self.stage.journal.synced;
        let is_right = status.resync_left == 0 && status.rows_in_doubt == 0;
        // Where nobody writes, nothing is said for a while.
        let is_told = is_right && !status.is_broken && !self.stage.journal.is_lost && status.events != events;
        let since = is_told.then(|| since.unwrap_or(self.stage.now));
        self.stage.journal.synced.0 = since;
        let slowest = self.stage.disks.iter().map(|disk| disk.slowest().0).max().expect("a member");
        self.is_new &= since.is_none_or(|since| self.stage.now <= since + Nanos(COMMANDS_TO_TELL * slowest));
    }

    /// Writes that failed, for too many members are gone, may be in the journal: they come with the next start, whatever was read
    /// meanwhile.
    pub(super) fn expect_failed_writes(&mut self) {
        if self.stage.journal.disk.is_some() {
            self.oracle.crash();
        }
    }
}

impl InPlaceWorld {
    /// Another journal is added, by a command that is cut off and one that is not; what the one before had is on the members, or was never
    /// answered.
    pub(super) fn add_journal(&mut self, superblocks: usize) -> Result<bool, Failure> {
        self.life.shut()?;
        for written in [superblocks, usize::MAX] {
            if !self.life.judge.stage.lay_down_journal(written)? {
                break;
            }
        }
        // As long as it is resynced it is refused without a member.
        self.life.judge.is_new = true;
        self.life.start_anew()
    }
}
