//! Members of the world: disks that fail, come, and are rebuilt.

use super::InPlaceWorld;
use super::blemishes::Blemish;
use super::contents::sectors_of;
use super::judge::Judge;
use super::life::Life;
use super::stage::Stage;
use crate::inplace::disk::DiskHandle;
use crate::world::Failure;
use array::inplace::members;
use array::inplace::recovery::{AddRefused, Rebuilding};
use block::md::create::Blank;
use block::md::join::join;
use block::md::superblock::Superblock;
use block::md::{Media, Role, Uuid};
use std::collections::BTreeSet;

impl Stage {
    /// An empty disk, and the superblock with which it joins.
    pub(super) fn joining(&mut self) -> Result<(DiskHandle, Superblock), Failure> {
        let disk = self.blank();
        let engine = &self.volume().engine;
        let bitmap_bytes = engine.core().bitmap_bytes();
        let template = engine.core().template().expect("a member that is in sync").clone();
        let mut uuid = [0; 16];
        self.random.fill(&mut uuid);
        let blank = Blank { sectors: Media::sectors(&disk), uuid: Uuid(uuid) };
        let superblock =
            join(&template, blank, bitmap_bytes).map_err(|error| Failure::new(error.to_string()))?;
        Ok((disk, superblock))
    }

    /// In plans of even seeds the disk is the one that failed, without its superblock: its old log is still there.
    fn wear(&self, disk: &DiskHandle, superblock: &Superblock, member: usize) {
        let place = superblock.ppl_place().filter(|_| self.plan.seed.is_multiple_of(2));
        let Some((start, sectors)) = place else { return };
        for sector in start..start + sectors {
            let mut content = [0; 512];
            if Media::read(&self.disks[member], sector, &mut content).is_ok() {
                disk.overwrite(sector, &content);
            }
        }
    }

    /// A disk with nonsense on it, as large as the others or larger.
    pub(super) fn blank(&mut self) -> DiskHandle {
        let least = sectors_of(&self.plan);
        let sectors = least + self.random.below(3) * self.random.below(40);
        let mut content = vec![0; usize::try_from(sectors).expect("small") * 512];
        self.random.fill(&mut content);
        let seed = self.random.bits();
        DiskHandle::new(content, self.plan.is_volatile, self.plan.latency, seed)
    }
}

impl Judge {
    /// A member is no longer to be counted on.
    pub(super) fn lose(&mut self, member: usize) {
        assert!(member < self.stage.disks.len(), "member {member} of {} goes", self.stage.disks.len());
        self.look_at_resync();
        self.left.push(self.stage.disks[member].clone());
        self.gone.insert(member);
        self.note_ruin();
        self.tally.failures += 1;
        self.doubts.all |= self.doubts.is_resyncing;
        self.ruin_listed_rows();
    }

    /// A member that is being rebuilt is no longer to be counted on. Of an array that was forced it had rows in doubt which were not
    /// named.
    pub(super) fn lose_newcomer(&mut self) {
        self.look_at_resync();
        self.tally.failures += 1;
        self.doubts.all |= self.doubts.is_resyncing && self.forcing.is_forced();
    }

    /// A command of a member is going to fail.
    pub(super) fn fault(&mut self, member: usize, fail_next: impl Fn(&DiskHandle)) {
        if self.stage.is_rebuilding(member) {
            fail_next(&self.stage.disks[member]);
            self.lose_newcomer();
        } else if !self.gone.contains(&member) && self.may_lose() {
            fail_next(&self.stage.disks[member]);
            self.lose(member);
        }
    }

    pub(super) fn die(&mut self, member: usize) {
        if !self.gone.contains(&member) {
            self.stage.disks[member].die();
            self.lose(member);
        } else if self.stage.is_rebuilding(member) {
            self.stage.disks[member].die();
            self.lose_newcomer();
        }
    }

    /// An empty disk has a role.
    pub(super) fn replace(&mut self, member: usize, disk: DiskHandle) {
        self.stage.install(member, disk);
        self.doubts.spoiled.values_mut().for_each(|members| members.retain(|other| *other != member));
        self.blemishes.forget(member);
    }

    /// Whether a row may be one that cannot be rebuilt: a sector cannot be read, or parities are in doubt.
    fn may_be_stuck(&self) -> bool {
        let has_doubts = self.doubts.is_resyncing || self.doubts.all || !self.doubts.rows.is_empty();
        let has_doubts = has_doubts || self.has_torn_blocks() || self.stage.lies.are_there();
        has_doubts || self.stage.disks.iter().any(|disk| disk.is_bad(0..Media::sectors(disk)))
    }

    /// A row of a member cannot be read or written any more, unless the array would lose something by that.
    pub(super) fn spoil(&mut self, member: usize, row: u64, blemish: Blemish) {
        self.look_at_resync();
        // A member is not found when a place of any version's superblock cannot be read.
        if self.stage.data_offset == 0 && row < 2 {
            return;
        }
        // With a log, a write that fails fails its member.
        let fails_writes = self.stage.plan.has_lists && blemish != Blemish::Unreadable;
        if fails_writes && (self.stage.has_logs() || self.stage.volume().engine.core().is_changing()) {
            return;
        }
        let lost = self.doubts.spoiled.entry(row).or_default();
        let all = lost.iter().chain(&self.gone).chain([&member]).collect::<BTreeSet<_>>().len();
        if all > self.stage.plan.parities() || self.doubts.is_resyncing || self.doubts.all {
            return;
        }
        lost.insert(member);
        let sector = self.stage.data_offset + row * 8 + self.stage.random.below(8);
        match blemish {
            Blemish::Scarred if fails_writes => self.stage.disks[member].scar(sector),
            Blemish::Stuck if fails_writes => self.stage.disks[member].stick(sector),
            _ => self.stage.disks[member].spoil(sector),
        }
        self.note_ruin();
    }
}

impl Life {
    /// Members that were rebuilt are to be counted on again.
    pub(super) fn look_at_members(&mut self) {
        let Some(volume) = self.judge.stage.volume.as_ref().filter(|_| !self.judge.gone.is_empty()) else {
            return;
        };
        let status = volume.engine.status();
        let lacks = |role: &usize| {
            let is = |other: &Role| other.index() == *role;
            status.missing.iter().any(is) || status.rebuilding.iter().any(|other| is(&other.role))
        };
        // A shard may have met the fault of a member, and the control shard not know it yet: then a request is not answered.
        if self.judge.stage.plan.shards > 0 && !self.open.is_empty() {
            return;
        }
        let disks = &self.judge.stage.disks;
        let before = self.judge.gone.len();
        self.judge.gone.retain(|role| lacks(role) || disks[*role].is_lost() || disks[*role].has_fault());
        self.judge.tally.rebuilt += u64::try_from(before - self.judge.gone.len()).expect("few");
        if self.judge.gone.is_empty() {
            self.judge.left.clear();
        }
    }
}

impl InPlaceWorld {
    /// An empty disk for a member that failed, unless there is none.
    pub(super) fn add(&mut self, member: usize) -> Result<(), Failure> {
        let role = members::role(member);
        if let Err(refused) = self.life.judge.stage.volume().engine.core().role_for(Some(role)) {
            let status = self.life.judge.stage.volume().engine.status();
            let is_right = match refused {
                AddRefused::Broken => status.is_broken,
                AddRefused::Present(_) => !status.missing.contains(&role),
                AddRefused::Changing => self.life.judge.stage.volume().engine.core().is_changing(),
                _ => false,
            };
            return if is_right { Ok(()) } else { Err(Failure::new(format!("not added: {refused}"))) };
        }
        let (disk, superblock) = self.life.judge.stage.joining()?;
        self.life.judge.stage.wear(&disk, &superblock, member);
        loop {
            let ways = self.life.judge.stage.ways(&disk);
            let Err(refused) = self.life.judge.stage.volume().add_member(role, superblock.clone(), ways)
            else {
                break;
            };
            match refused {
                AddRefused::Busy(_) => self.life.step("answers of a member that failed")?,
                // Another one failed meanwhile.
                AddRefused::Broken => return Ok(()),
                // A spare stepped in meanwhile.
                AddRefused::Present(_) if !self.life.judge.stage.volume().engine.core().is_vacant(role) => {
                    return Ok(());
                }
                refused => return Err(Failure::new(format!("not added: {refused}"))),
            }
        }
        self.life.judge.replace(member, disk);
        Ok(())
    }

    /// Members that are being rebuilt come to their end, or to where they are stuck.
    pub(super) fn rebuild(&mut self) -> Result<(), Failure> {
        self.life.turn()?;
        loop {
            let status = self.life.judge.stage.volume().engine.status();
            let is_stuck = |rebuilding: &Rebuilding| rebuilding.rows_stuck > 0;
            let is_over = status.rebuilding.iter().all(is_stuck)
                && !self.life.judge.stage.volume().engine.core().is_rebuilding();
            // A spare that waits takes the role of whoever is missing.
            let is_over = is_over && (self.life.judge.stage.spares.is_empty() || status.missing.is_empty());
            let is_over =
                is_over && (status.replacing.is_empty() || self.life.judge.stage.are_copies_stuck(&status));
            let is_stuck = !status.rebuilding.is_empty() || !status.replacing.is_empty();
            if status.is_broken || (is_over && (!is_stuck || self.life.judge.may_be_stuck())) {
                return Ok(());
            }
            if is_over {
                return Err(Failure::new(format!("rows are stuck without cause: {:?}", status.rebuilding)));
            }
            self.life.step("the rebuild")?;
        }
    }
}
