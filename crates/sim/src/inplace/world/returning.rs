//! Members of the world that come back.

use super::InPlaceWorld;
use super::judge::Judge;
use super::stage::Stage;
use crate::inplace::disk::DiskHandle;
use crate::inplace::plan::Policy;
use crate::world::Failure;
use array::inplace::members;
use array::inplace::recovery::AddRefused;
use array::inplace::returning::{ReturnRefused, Returning};
use block::md::member::Member;
use block::md::returning::{CannotReturn, returning};
use block::md::superblock::{RoleEntry, feature};

impl Stage {
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
}

impl Judge {
    fn judge_refusal(
        &mut self,
        role: block::md::Role,
        disk: &DiskHandle,
        (events, newest): (u64, u64),
        refused: ReturnRefused,
    ) -> Result<(), Failure> {
        let status = self.stage.volume().engine.status();
        // What all others had when it went, nobody has cleared since.
        let has_left = self.left.iter().any(|other| other.is(disk));
        let is_right = match refused {
            ReturnRefused::Role(AddRefused::Broken) => status.is_broken,
            ReturnRefused::Role(AddRefused::Changing) => self.stage.volume().engine.core().is_changing(),
            ReturnRefused::Role(AddRefused::Present(_)) => !status.missing.contains(&role),
            ReturnRefused::NoBitmap => !matches!(self.stage.plan.policy, Policy::Bitmap(_)),
            ReturnRefused::TooOld(own, cleared) => {
                own == events && own < cleared && (!has_left || own < self.doubts.newest)
            }
            ReturnRefused::TooNew(own, _) => own == events && own > newest && !has_left,
            ReturnRefused::Role(_) => false,
        };
        if is_right { Ok(()) } else { Err(Failure::new(format!("not taken back: {refused}"))) }
    }
}

impl InPlaceWorld {
    /// A disk that was a member comes back, unless there is none, or it must not.
    pub(super) fn bring_back(&mut self, member: usize) -> Result<(), Failure> {
        let Some(disk) = self.life.judge.stage.candidate(member) else { return Ok(()) };
        let role = members::role(member);
        loop {
            let Ok(found) = Member::read("disk", &disk) else { return Ok(()) };
            let engine = &self.life.judge.stage.volume().engine;
            let (bitmap_bytes, newest) = (engine.core().bitmap_bytes(), engine.status().events);
            let Some(template) = engine.core().template().cloned() else { return Ok(()) };
            let superblock = match returning(&template, &found, bitmap_bytes) {
                Ok((_, superblock)) => superblock,
                Err(refused) => return self.life.judge.stage.judge_device(&found, &refused),
            };
            let events = found.events();
            let bad_blocks = found.bad_blocks.clone().map_err(Failure::new)?;
            let back = Returning { superblock, events, bad_blocks };
            let ways = self.life.judge.stage.ways(&disk);
            match self.life.judge.stage.volume().return_member(role, back, ways) {
                Ok(()) => break,
                Err(ReturnRefused::Role(AddRefused::Busy(_))) => {
                    self.life.step("answers of a member that failed")?;
                }
                Err(refused) => return self.life.judge.judge_refusal(role, &disk, (events, newest), refused),
            }
        }
        assert!(!disk.is_lost(), "member {member} returns, and is gone");
        self.life.judge.tally.returned += 1;
        self.life.judge.stage.install(member, disk);
        let disk = &self.life.judge.stage.disks[member];
        for (row, members) in &mut self.life.judge.doubts.spoiled {
            let sector = self.life.judge.stage.data_offset + row * 8;
            if disk.is_blemished(sector..sector + 8) {
                members.insert(member);
            } else {
                members.remove(&member);
            }
        }
        self.life.judge.look_at_blemishes();
        self.life.judge.note_ruin();
        Ok(())
    }
}
