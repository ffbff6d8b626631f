//! Members of the world: disks that fail, come, and are rebuilt.

use super::blemishes::Blemish;
use super::{World, sectors_of};
use crate::inplace::disk::DiskHandle;
use crate::world::Failure;
use array::inplace::members;
use array::inplace::recovery::{AddRefused, Rebuilding};
use block::md::create::Blank;
use block::md::join::join;
use block::md::member::{Member, NotAMember};
use block::md::superblock::Superblock;
use block::md::{Media, Role, Uuid};
use std::collections::BTreeSet;

impl World {
    /// Members that can be read, and their disks.
    pub(super) fn members_there(&self) -> Result<(Vec<Member>, Vec<DiskHandle>), Failure> {
        let mut found: (Vec<Member>, Vec<DiskHandle>) = (Vec::new(), Vec::new());
        let spares = self.spares.iter().map(|(_, disk)| disk);
        let others = spares.chain(self.journal.disk()).chain(self.replacements.disks());
        let there = |disk: &&DiskHandle| !disk.is_lost();
        for disk in self.lies.in_places(&self.disks).chain(&self.retired).chain(others).filter(there) {
            // One that was to step in as the power failed has a role here, and is a spare by its own account.
            if found.1.iter().any(|other| other.is(disk)) {
                continue;
            }
            match Member::read("disk", disk) {
                Ok(member) => {
                    found.0.push(member);
                    found.1.push(disk.clone());
                }
                // One that came, and was not yet named on the others.
                Err(NotAMember::NoSuperblock) => {}
                Err(error) => return Err(Failure::new(format!("a member cannot be read: {error}"))),
            }
        }
        Ok(found)
    }

    /// A disk has a role now; the one before stays about.
    pub(super) fn install(&mut self, role: usize, disk: DiskHandle) {
        if self.disks[role].is(&disk) {
            return;
        }
        self.retired.retain(|other| !other.is(&disk));
        self.spares.retain(|(_, other)| !other.is(&disk));
        let before = std::mem::replace(&mut self.disks[role], disk);
        self.retired.push(before);
    }

    /// A member is no longer to be counted on.
    pub(super) fn lose(&mut self, member: usize) {
        self.look_at_resync();
        self.left.push(self.disks[member].clone());
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
        if self.is_rebuilding(member) {
            fail_next(&self.disks[member]);
            self.lose_newcomer();
        } else if !self.gone.contains(&member) && self.may_lose() {
            fail_next(&self.disks[member]);
            self.lose(member);
        }
    }

    pub(super) fn die(&mut self, member: usize) {
        if !self.gone.contains(&member) {
            self.disks[member].die();
            self.lose(member);
        } else if self.is_rebuilding(member) {
            self.disks[member].die();
            self.lose_newcomer();
        }
    }

    pub(super) fn is_rebuilding(&mut self, member: usize) -> bool {
        let status = self.volume().engine.status();
        status.rebuilding.iter().any(|rebuilding| rebuilding.role.index() == member)
    }

    /// An empty disk for a member that failed, unless there is none.
    pub(super) fn add(&mut self, member: usize) -> Result<(), Failure> {
        let role = members::role(member);
        if let Err(refused) = self.volume().engine.core().role_for(Some(role)) {
            let status = self.volume().engine.status();
            let is_right = match refused {
                AddRefused::Broken => status.is_broken,
                AddRefused::Present(_) => !status.missing.contains(&role),
                AddRefused::Changing => self.volume().engine.core().is_changing(),
                _ => false,
            };
            return if is_right { Ok(()) } else { Err(Failure::new(format!("not added: {refused}"))) };
        }
        let (disk, superblock) = self.joining()?;
        self.wear(&disk, &superblock, member);
        loop {
            let ways = self.ways(&disk);
            let Err(refused) = self.volume().add_member(role, superblock.clone(), ways) else { break };
            match refused {
                AddRefused::Busy(_) => self.step("answers of a member that failed")?,
                // Another one failed meanwhile.
                AddRefused::Broken => return Ok(()),
                // A spare stepped in meanwhile.
                AddRefused::Present(_) if !self.volume().engine.core().is_vacant(role) => return Ok(()),
                refused => return Err(Failure::new(format!("not added: {refused}"))),
            }
        }
        self.replace(member, disk);
        Ok(())
    }

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

    /// An empty disk has a role.
    pub(super) fn replace(&mut self, member: usize, disk: DiskHandle) {
        self.install(member, disk);
        self.doubts.spoiled.values_mut().for_each(|members| members.retain(|other| *other != member));
        self.blemishes.forget(member);
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

    /// Members that are being rebuilt come to their end, or to where they are stuck.
    pub(super) fn rebuild(&mut self) -> Result<(), Failure> {
        self.turn()?;
        loop {
            let status = self.volume().engine.status();
            let is_stuck = |rebuilding: &Rebuilding| rebuilding.rows_stuck > 0;
            let is_over =
                status.rebuilding.iter().all(is_stuck) && !self.volume().engine.core().is_rebuilding();
            // A spare that waits takes the role of whoever is missing.
            let is_over = is_over && (self.spares.is_empty() || status.missing.is_empty());
            let is_over = is_over && (status.replacing.is_empty() || self.are_copies_stuck(&status));
            let is_stuck = !status.rebuilding.is_empty() || !status.replacing.is_empty();
            if status.is_broken || (is_over && (!is_stuck || self.may_be_stuck())) {
                return Ok(());
            }
            if is_over {
                return Err(Failure::new(format!("rows are stuck without cause: {:?}", status.rebuilding)));
            }
            self.step("the rebuild")?;
        }
    }

    /// Whether a row may be one that cannot be rebuilt: a sector cannot be read, or parities are in doubt.
    fn may_be_stuck(&self) -> bool {
        let has_doubts = self.doubts.is_resyncing || self.doubts.all || !self.doubts.rows.is_empty();
        let has_doubts = has_doubts || self.has_torn_blocks() || self.lies.are_there();
        has_doubts || self.disks.iter().any(|disk| disk.is_bad(0..Media::sectors(disk)))
    }

    /// Members that were rebuilt are to be counted on again.
    pub(super) fn look_at_members(&mut self) {
        let Some(volume) = self.volume.as_ref().filter(|_| !self.gone.is_empty()) else { return };
        let status = volume.engine.status();
        let lacks = |role: &usize| {
            let is = |other: &Role| other.index() == *role;
            status.missing.iter().any(is) || status.rebuilding.iter().any(|other| is(&other.role))
        };
        // A shard may have met the fault of a member, and the control shard not know it yet: then a request is not answered.
        if self.plan.shards > 0 && !self.open.is_empty() {
            return;
        }
        let disks = &self.disks;
        let before = self.gone.len();
        self.gone.retain(|role| lacks(role) || disks[*role].is_lost() || disks[*role].has_fault());
        self.tally.rebuilt += u64::try_from(before - self.gone.len()).expect("few");
        if self.gone.is_empty() {
            self.left.clear();
        }
    }

    /// A row of a member cannot be read or written any more, unless the array would lose something by that.
    pub(super) fn spoil(&mut self, member: usize, row: u64, blemish: Blemish) {
        self.look_at_resync();
        // A member is not found when a place of any version's superblock cannot be read.
        if self.data_offset == 0 && row < 2 {
            return;
        }
        // With a log, a write that fails fails its member.
        let fails_writes = self.plan.has_lists && blemish != Blemish::Unreadable;
        if fails_writes && (self.has_logs() || self.volume().engine.core().is_changing()) {
            return;
        }
        let lost = self.doubts.spoiled.entry(row).or_default();
        let all = lost.iter().chain(&self.gone).chain([&member]).collect::<BTreeSet<_>>().len();
        if all > self.plan.parities() || self.doubts.is_resyncing || self.doubts.all {
            return;
        }
        lost.insert(member);
        let sector = self.data_offset + row * 8 + self.random.below(8);
        match blemish {
            Blemish::Scarred if fails_writes => self.disks[member].scar(sector),
            Blemish::Stuck if fails_writes => self.disks[member].stick(sector),
            _ => self.disks[member].spoil(sector),
        }
        self.note_ruin();
    }
}
