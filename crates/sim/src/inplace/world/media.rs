//! Media of an array at rest: parities of all stripes, contents of all blocks, and what superblocks say.

use super::judge::Judge;
use crate::inplace::disk::DiskHandle;
use crate::world::Failure;
use base::units::BLOCK_BYTES;
use block::md::Role;
use block::md::assembly::judge;
use block::md::geometry::Stripe;
use block::md::reader::Reader;
use block::md::superblock::RoleEntry;

impl Judge {
    /// Parities of all stripes and contents of all blocks, from the media; and who is said to be missing.
    pub(super) fn look_at_media(&mut self, failed: &[Role]) -> Result<(), Failure> {
        let (members, alive) = self.stage.members_there()?;
        let alive: Vec<&DiskHandle> = alive.iter().collect();
        let arrays = judge(&members);
        let assembly = &arrays[0];
        let roles = &assembly.superblock().roles;
        let is_counted =
            |role: &&Role| roles.iter().any(|entry| RoleEntry::of(*entry) == RoleEntry::Member(**role));
        if let Some(role) = failed.iter().find(is_counted) {
            return Err(Failure::new(format!("member {role} failed, and the superblocks count on it")));
        }
        let has_doubts = self.doubts.is_resyncing || self.doubts.all || !self.doubts.rows.is_empty();
        let has_doubts = has_doubts || self.has_torn_blocks();
        if !assembly.superblock().is_clean() && !has_doubts {
            return Err(Failure::new(format!("stopped, and not clean: {}", assembly.in_words())));
        }
        if !assembly.can_be_served() {
            let said = assembly.in_words();
            let may_be = has_doubts || self.stage.journal.may_be_lost();
            return if may_be { Ok(()) } else { Err(Failure::new(format!("stopped: {said}"))) };
        }
        self.stage.look_at_copies(assembly, &alive)?;
        let reader = Reader::new(assembly, &alive).map_err(|error| Failure::new(error.to_string()))?;
        self.judge_lists(&members, assembly.newest)?;
        assert_eq!(
            reader.blocks(),
            self.stage.plan.blocks(),
            "the volume on the media is the one of the plan"
        );
        self.tally.checks += 1;
        let found = reader.check();
        let is_of_lies = |stripe: &Stripe| self.stage.lies.are_in_stripe(*stripe);
        if assembly.superblock().is_clean() && !found.stripes.iter().all(is_of_lies) {
            return Err(Failure::new(format!(
                "parities of a clean array are wrong in stripes {:?}",
                found.stripes
            )));
        }
        let mut bytes = [0; BLOCK_BYTES];
        for lba in (0..reader.blocks()).filter(|lba| !self.stage.lies.may_be_wrong(*lba)) {
            match reader.read(lba, &mut bytes) {
                Ok(()) => self
                    .oracle
                    .judge(lba, &bytes)
                    .map_err(|what| Failure::at(lba, format!("at rest {what}")))?,
                // Of an array that is not clean only the engine knows which rows are right.
                Err(_) if has_doubts && !assembly.superblock().is_clean() => continue,
                Err(_) if self.may_be_lost(lba, Some(self.oracle.done(lba))) => continue,
                Err(error) => return Err(Failure::at(lba, format!("at rest: {error}"))),
            }
            self.tally.blocks_verified += 1;
        }
        Ok(())
    }
}
