//! Consistency policies of the world, which change while clients are at work.

use super::judge::Judge;
use super::stage::Stage;
use crate::inplace::disk::DiskHandle;
use crate::inplace::plan::Policy;
use crate::world::Failure;
use array::inplace::policy::ChangeRefused;
use array::inplace::scrub::ScrubState;
use block::md::assembly::{self, Assembly, Part};
use block::md::policy::{CannotChange, Wish};
use block::md::superblock::Version;

impl Stage {
    /// A change of the policy begins, or is refused with a reason that holds.
    pub(super) fn grow(&mut self, wish: Wish) -> Result<(), Failure> {
        // With logs, a member with sectors that cannot be written fails.
        if wish == Wish::Ppl && self.disks.iter().any(DiskHandle::has_scars) {
            return Ok(());
        }
        let engine = &mut self.volume().engine;
        let (status, before) = (engine.status(), engine.core().policy());
        let (was_changing, is_replaying) = (engine.core().is_changing(), engine.core().is_replaying());
        let refused = self.volume().begin_change(wish).err();
        let lacking = status.missing.len() + status.rebuilding.len();
        let members = self.disks.len();
        assert!(lacking <= members, "{lacking} members of {members} are missing or rebuilt");
        let is_synced = status.resync_left == 0 && status.rows_in_doubt == 0 && !is_replaying;
        let scrubs = status.scrub.is_some_and(|scrub| scrub.state == ScrubState::Running);
        let has_end = self.plan.version != Version::V1_0;
        let is_right = match &refused {
            None => lacking == 0 && is_synced && !scrubs && !was_changing && before != wish.policy(),
            Some(ChangeRefused::Degraded(count)) => *count == lacking,
            Some(ChangeRefused::Replacing(count)) => *count == status.replacing.len() && *count > 0,
            Some(ChangeRefused::Unsynced) => !is_synced,
            Some(ChangeRefused::Scrubbing) => scrubs,
            Some(ChangeRefused::Changing) => was_changing,
            Some(ChangeRefused::BadBlocks) => !status.bad_blocks.is_empty(),
            Some(ChangeRefused::Sectors(_) | ChangeRefused::Stopping) => false,
            Some(ChangeRefused::Cannot(why)) => match why {
                CannotChange::Same(policy) => *policy == before && *policy == wish.policy(),
                CannotChange::Other(policy) => *policy == before && *policy != assembly::Policy::Resync,
                CannotChange::Ppl(_) => self.plan.level != 5 || !has_end,
                CannotChange::NoRoom(needed, _) => wish == Wish::Ppl && self.plan.data_offset < 40 + needed,
                CannotChange::Bitmap(_) => self.plan.data_offset < 80,
                CannotChange::Journal => before == assembly::Policy::Journal,
            },
        };
        if is_right {
            Ok(())
        } else {
            Err(Failure::new(format!("policy {before:?} to {wish:?}: {refused:?}")))
        }
    }

    /// True when the policy is another one than before.
    fn adopt(&mut self, policy: assembly::Policy) -> bool {
        let (before, after) = match (self.plan.policy, policy) {
            (before @ Policy::Bitmap(_), assembly::Policy::Bitmap) => (before, before),
            (before @ Policy::Ppl(_), assembly::Policy::Ppl) => (before, before),
            (before @ Policy::Journal(_), assembly::Policy::Journal) => (before, before),
            (before, assembly::Policy::Bitmap) => (before, Policy::Bitmap(4096)),
            (before, assembly::Policy::Ppl) => (before, Policy::Ppl(152)),
            (before, assembly::Policy::Resync | assembly::Policy::Journal) => (before, Policy::Resync),
        };
        self.plan.policy = after;
        before != after
    }
}

impl Judge {
    /// The policy that the engine has now is that of the world.
    pub(super) fn look_at_policy(&mut self) {
        let Some(volume) = &self.stage.volume else { return };
        if self.stage.adopt(volume.engine.core().policy()) {
            self.tally.policies += 1;
            self.is_new = false;
            // A bitmap says nothing of what was missed before there was one.
            self.left.clear();
        }
    }

    /// The policy that superblocks have is that of the world, and, while no member is missing, of all that are of the newest update; md would run an array with logs, for
    /// all members have one.
    pub(super) fn look_at_superblocks(&mut self, assembly: &Assembly<'_>) -> Result<(), Failure> {
        self.stage.adopt(assembly.policy());
        let events = assembly.superblock().state.events;
        let differs = |(member, part): &&(&block::md::member::Member, Part)| {
            matches!(part, Part::Active(_))
                && member.events() == events
                && assembly::policy(member.superblock()) != assembly.policy()
        };
        // Without the member whose superblock turns the policy, the newest are of a moment in which the others are written.
        let is_whole = assembly.missing.is_empty();
        if let Some((member, _)) = assembly.devices.iter().find(differs).filter(|_| is_whole) {
            return Err(Failure::new(format!(
                "superblocks of update {events} say {:?} and, that of {}, {:?}",
                assembly.policy(),
                member.name,
                assembly::policy(member.superblock())
            )));
        }
        let lacks = |(member, part): &(&block::md::member::Member, Part)| {
            matches!(part, Part::Active(_) | Part::Recovering(..))
                && member.superblock().ppl_place().is_none()
        };
        let is_mixed = self.stage.has_partial_parity() && assembly.devices.iter().any(lacks);
        if is_mixed && self.gone.is_empty() {
            return Err(Failure::new(
                "the newest superblock says that there are logs, and a member has none",
            ));
        }
        Ok(())
    }
}
