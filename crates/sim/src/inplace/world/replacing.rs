//! Disks of the world that are to replace members which work.

use super::judge::Judge;
use super::stage::Stage;
use crate::inplace::act::Loss;
use crate::inplace::disk::DiskHandle;
use crate::world::Failure;
use array::inplace::members::{self, Outcome};
use array::inplace::replacing::{ReplaceRefused, Replacing};
use array::inplace::status::Status;
use base::units::BLOCK_BYTES;
use block::devices::DeviceSet;
use block::md::Media;
use block::md::assembly::{Assembly, Part, Policy};
use block::md::member::Member;
use std::collections::{BTreeMap, BTreeSet};

/// See the module.
#[derive(Default)]
pub(super) struct Replacements {
    /// Disks by the role that they are to have.
    disks: BTreeMap<usize, DiskHandle>,
    /// Roles whose replacement was lost, or is about to be: superblocks may name it as the member all the same.
    lost: BTreeSet<usize>,
}

impl Replacements {
    pub(super) fn disks(&self) -> impl Iterator<Item = &DiskHandle> {
        self.disks.values()
    }

    /// Disks by the role of the member.
    pub(super) fn by_role(&self) -> impl Iterator<Item = (usize, &DiskHandle)> {
        self.disks.iter().map(|(role, disk)| (*role, disk))
    }

    /// Roles whose member is gone, or whose replacement is.
    pub(super) fn lost_beside(&self, gone: &BTreeSet<usize>) -> usize {
        self.lost.union(gone).count()
    }

    /// True when a member may be missing, for it was replaced by a disk that is lost.
    pub(super) fn may_be_lost(&self, role: usize) -> bool {
        self.lost.contains(&role)
    }
}

impl Stage {
    /// An array starts with these replacements.
    pub(super) fn begin_replacements(
        &mut self,
        beside: BTreeMap<usize, DiskHandle>,
        devices: &mut DeviceSet,
    ) {
        let members = self.disks.len();
        assert!(beside.keys().all(|role| *role < members), "{:?} of {members} are replaced", beside.keys());
        for (role, disk) in &beside {
            self.retired.retain(|other| !other.is(disk));
            self.spares.retain(|(_, other)| !other.is(disk));
            devices.put(members::role(*role).replacement(), Box::new(disk.clone()));
        }
        let before = std::mem::replace(
            &mut self.replacements,
            Replacements { disks: beside, ..Replacements::default() },
        );
        for disk in before.disks.into_values() {
            let spares = self.spares.iter().map(|(_, disk)| disk);
            let others =
                self.replacements.disks.values().chain(&self.disks).chain(&self.retired).chain(spares);
            if !{ others }.any(|other| other.is(&disk)) {
                self.retired.push(disk);
            }
        }
    }

    /// A member that works is to be replaced, unless it cannot be.
    pub(super) fn replace_beside(&mut self, member: usize, by_spare: bool) -> Result<(), Failure> {
        let role = members::role(member);
        if let Err(refused) = self.volume().engine.core().can_replace(role) {
            return self.judge_refused_replacement(member, refused);
        }
        if by_spare {
            let name = self.volume().replace_by_spare(role, None);
            let name = name.map_err(|refused| Failure::new(format!("not replaced by a spare: {refused}")))?;
            let place = name.and_then(|name| self.spares.iter().position(|(other, _)| *other == name));
            if let Some(place) = place {
                let (_, disk) = self.spares.remove(place);
                self.replacements.disks.insert(member, disk);
            }
            return Ok(());
        }
        let (disk, superblock) = self.joining()?;
        let ways = self.ways(&disk);
        let replaced = self.volume().replace_member(role, superblock, ways);
        replaced.map_err(|refused| Failure::new(format!("not replaced: {refused}")))?;
        self.replacements.disks.insert(member, disk);
        Ok(())
    }

    fn judge_refused_replacement(&mut self, member: usize, refused: ReplaceRefused) -> Result<(), Failure> {
        let engine = &self.volume().engine;
        let (status, policy, is_changing) =
            (engine.status(), engine.core().policy(), engine.core().is_changing());
        let is_rebuilt = |role| status.rebuilding.iter().any(|other| other.role == role);
        let role = members::role(member);
        let is_right = match refused {
            ReplaceRefused::NotWhole(_) => status.missing.contains(&role) || is_rebuilt(role),
            ReplaceRefused::Replaced(_) => self.replacements.disks.contains_key(&member),
            ReplaceRefused::Busy(_) => true,
            ReplaceRefused::Broken => status.is_broken,
            ReplaceRefused::Policy(said) => said == policy && matches!(said, Policy::Ppl | Policy::Journal),
            ReplaceRefused::Changing => is_changing,
            ReplaceRefused::NoRole(..) | ReplaceRefused::Stopping => false,
        };
        if is_right { Ok(()) } else { Err(Failure::new(format!("not replaced: {refused}"))) }
    }

    /// True when copies wait for rows that cannot be read.
    pub(super) fn are_copies_stuck(&mut self, status: &Status) -> bool {
        let is_stuck = |replacing: &Replacing| replacing.rows_stuck > 0;
        status.replacing.iter().all(is_stuck) && !self.volume().engine.core().is_rebuilding()
    }

    /// What a replacement counts is what its member has, on the media of a clean array.
    pub(super) fn look_at_copies(
        &self,
        assembly: &Assembly<'_>,
        media: &[&DiskHandle],
    ) -> Result<(), Failure> {
        if !assembly.superblock().is_clean() {
            return Ok(());
        }
        for ((device, part), disk) in assembly.devices.iter().zip(media) {
            let Part::Replacement(role, sectors) = part else { continue };
            let is_member = |(_, part): &&(&Member, Part)| *part == Part::Active(*role);
            let Some((member, _)) = assembly.devices.iter().find(is_member) else { continue };
            let is_bad = |of: &Member, sector: u64| {
                let mut entries = of.bad_blocks.iter().flatten();
                entries.any(|entry| entry.sector < sector + 8 && sector < entry.sector + entry.sectors)
            };
            let rows = (sectors / 8).min(self.plan.stripes * u64::from(self.plan.chunk) / 8);
            for row in (0..rows).filter(|row| !self.lies.are_in(*row)) {
                let places = [member, device].map(|of| of.superblock().device.data_offset + row * 8);
                let mut blocks = [[0; BLOCK_BYTES]; 2];
                let own = &self.disks[role.index()];
                let is_read = Media::read(own, places[0], &mut blocks[0]).is_ok()
                    && Media::read(*disk, places[1], &mut blocks[1]).is_ok();
                let is_listed = is_bad(member, places[0]) || is_bad(device, places[1]);
                if is_read && !is_listed && blocks[0] != blocks[1] {
                    let said = format!(
                        "row {row} of {sectors} sectors that the replacement of member {role} counts is not the member's"
                    );
                    return Err(Failure::new(said));
                }
            }
        }
        Ok(())
    }
}

impl Judge {
    /// A replacement is lost, if there is one.
    pub(super) fn lose_replacement(&mut self, member: usize, how: Loss) {
        let Some(disk) = self.stage.replacements.disks.get(&member).cloned() else { return };
        if !self.may_lose() && !self.stage.replacements.lost.contains(&member) {
            return;
        }
        self.stage.replacements.lost.insert(member);
        self.tally.failures += 1;
        match how {
            Loss::Dies => disk.die(),
            Loss::Fails => disk.fail_next_write(),
            Loss::TakenOut => {
                let place = members::role(member).replacement();
                self.stage.volume().engine.core_mut().fail_member(place);
            }
        }
    }

    /// What became of replacements.
    pub(super) fn look_at_replacements(&mut self) -> Result<(), Failure> {
        for (role, outcome) in self.stage.volume().engine.core_mut().take_outcomes() {
            let member = role.index();
            let Some(disk) = self.stage.replacements.disks.remove(&member) else {
                return Err(Failure::new(format!("member {role}, which nobody replaces: {outcome:?}")));
            };
            let is_lost = disk.is_lost() || disk.has_fault();
            match outcome {
                Outcome::Completed => {
                    self.tally.replaced += 1;
                    self.replace(member, disk);
                    if is_lost {
                        self.lose(member);
                    }
                }
                Outcome::SteppedIn if self.gone.contains(&member) => self.replace(member, disk),
                Outcome::SteppedIn => {
                    return Err(Failure::new(format!("member {role} was not lost, and is given up")));
                }
                // A copy that cannot be written somewhere is given up, too.
                Outcome::Failed if self.stage.replacements.lost.contains(&member) || disk.has_scars() => {
                    self.stage.retired.push(disk);
                }
                Outcome::Failed => {
                    return Err(Failure::new(format!(
                        "the replacement of member {role} works, and is given up"
                    )));
                }
            }
        }
        Ok(())
    }
}
