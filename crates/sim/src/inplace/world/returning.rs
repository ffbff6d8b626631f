//! Members of the world that come back.

use super::World;
use crate::inplace::disk::DiskHandle;
use crate::inplace::plan::Policy;
use crate::world::Failure;
use array::inplace::members;
use array::inplace::recovery::AddRefused;
use array::inplace::returning::{ReturnRefused, Returning};
use block::md::member::Member;
use block::md::returning::{CannotReturn, returning};
use block::md::superblock::{RoleEntry, feature};

impl World {
    /// A disk that was a member comes back, unless there is none, or it must not.
    pub(super) fn bring_back(&mut self, member: usize) -> Result<(), Failure> {
        let Some(disk) = self.candidate(member) else { return Ok(()) };
        let role = members::role(member);
        loop {
            let Ok(found) = Member::read("disk", &disk) else { return Ok(()) };
            let engine = &self.volume().engine;
            let (bitmap_bytes, newest) = (engine.core().bitmap_bytes(), engine.status().events);
            let Some(template) = engine.core().template().cloned() else { return Ok(()) };
            let superblock = match returning(&template, &found, bitmap_bytes) {
                Ok((_, superblock)) => superblock,
                Err(refused) => return self.judge_device(&found, &refused),
            };
            let events = found.events();
            let bad_blocks = found.bad_blocks.clone().map_err(Failure::new)?;
            let back = Returning { superblock, events, bad_blocks };
            let ways = self.ways(&disk);
            match self.volume().return_member(role, back, ways) {
                Ok(()) => break,
                Err(ReturnRefused::Role(AddRefused::Busy(_))) => {
                    self.step("answers of a member that failed")?;
                }
                Err(refused) => return self.judge_refusal(role, &disk, (events, newest), refused),
            }
        }
        self.tally.returned += 1;
        self.install(member, disk);
        let disk = &self.disks[member];
        for (row, members) in &mut self.doubts.spoiled {
            let sector = self.data_offset + row * 8;
            if disk.is_blemished(sector..sector + 8) {
                members.insert(member);
            } else {
                members.remove(&member);
            }
        }
        self.look_at_blemishes();
        self.note_ruin();
        Ok(())
    }

    /// The disk that had a role last, or one before.
    fn candidate(&self, member: usize) -> Option<DiskHandle> {
        let role = RoleEntry::Member(members::role(member));
        let had_it = |disk: &&DiskHandle| {
            let found = Member::read("disk", *disk);
            !disk.is_lost() && found.is_ok_and(|found| found.superblock().role() == role)
        };
        std::iter::once(&self.disks[member]).chain(self.retired.iter().rev()).find(had_it).cloned()
    }

    fn judge_device(&mut self, found: &Member, refused: &CannotReturn) -> Result<(), Failure> {
        let superblock = found.superblock();
        let is_right = match refused {
            // It may have gone under another policy, or the policy may be changing.
            CannotReturn::NoBitmap => {
                !matches!(self.plan.policy, Policy::Bitmap(_))
                    || superblock.bitmap_sector().is_none()
                    || self.volume().engine.core().is_changing()
            }
            CannotReturn::Rebuilt(_) => {
                superblock.has(feature::RECOVERY_OFFSET) && !superblock.has(feature::RECOVERY_BITMAP)
            }
            CannotReturn::Replacement(_) => superblock.has(feature::REPLACEMENT),
            _ => false,
        };
        if is_right { Ok(()) } else { Err(Failure::new(format!("not taken back: {refused}"))) }
    }

    fn judge_refusal(
        &mut self,
        role: block::md::Role,
        disk: &DiskHandle,
        (events, newest): (u64, u64),
        refused: ReturnRefused,
    ) -> Result<(), Failure> {
        let status = self.volume().engine.status();
        // What all others had when it went, nobody has cleared since.
        let has_left = self.left.iter().any(|other| other.is(disk));
        let is_right = match refused {
            ReturnRefused::Role(AddRefused::Broken) => status.is_broken,
            ReturnRefused::Role(AddRefused::Changing) => self.volume().engine.core().is_changing(),
            ReturnRefused::Role(AddRefused::Present(_)) => !status.missing.contains(&role),
            ReturnRefused::NoBitmap => !matches!(self.plan.policy, Policy::Bitmap(_)),
            ReturnRefused::TooOld(own, cleared) => {
                own == events && own < cleared && (!has_left || own < self.doubts.newest)
            }
            ReturnRefused::TooNew(own, _) => own == events && own > newest && !has_left,
            ReturnRefused::Role(_) => false,
        };
        if is_right { Ok(()) } else { Err(Failure::new(format!("not taken back: {refused}"))) }
    }
}
