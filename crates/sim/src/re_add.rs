//! Re-adding: a drive that was away is taken in again, as in the server: clients wait, all comes to rest, and the array is
//! mounted with the drive. With the power off it is what an operator does before the array is served again.
//!
//! Once the member is rebuilt it counts like any other: should others fail then, what it held before and what it was
//! given since must do. Not where its media are known to be damaged, which no re-add repairs.

use crate::drive::Drive;
use crate::engine::Array;
use crate::step::{At, Step};
use crate::world::{Failure, World};
use array::log::ReAdded;
use zone::format::superblock::MemberState;

/// True for what damages the media of a drive for good, so that it does not hold what it should.
pub(crate) fn spoils_media(step: &Step) -> bool {
    matches!(
        step,
        Step::Rot(_)
            | Step::Unreadable(_)
            | Step::Misread { .. }
            | Step::Stale { .. }
            | Step::Miswrite { .. }
            | Step::Zone { .. }
            | Step::Shrink { .. }
    )
}

impl World {
    /// An operator re-adds a drive. Refused where there is nothing to re-add.
    pub(crate) fn re_add(&mut self, member: usize, cut: Option<At>) -> Result<(), Failure> {
        let is_ours = member < self.plan.members && !self.blank.contains(&self.drive_of[member]);
        if !is_ours || matches!(self.array, Array::Raizn(..)) {
            return Ok(());
        }
        self.part()?;
        if self.is_dark() {
            self.power_off();
            // First of all, an operator brings those back that the array counts on.
            if self.away.iter().any(|other| *other != member) {
                return self.mount(cut);
            }
        } else {
            let members = self.engine().members();
            if members[member] != MemberState::Failed || members.contains(&MemberState::Rebuilding) {
                return Ok(());
            }
            // In order: no other drive loses what it holds in its cache.
            self.volume = None;
        }
        self.bring_back(member);
        self.re_adding = Some(member);
        let mounted = self.mount(cut);
        if self.re_adding.take().is_some() {
            // The operator has spoken for it, whether all drives were told or not.
            self.outdated.remove(&member);
        }
        mounted
    }

    /// The drive of a member is there again, and answers. What it held in its cache when it went may be lost.
    fn bring_back(&mut self, member: usize) {
        self.plug_in(member);
        let drive = self.drive_of[member];
        // A drive of another array may be in the last place.
        if self.places.contains(&Some(drive)) {
            self.away.remove(&member);
        }
        let mut rack = self.rack.lock();
        rack.power.disarm(member);
        rack.drives[drive].revive();
    }

    /// All comes to rest, so that engine and drives may part.
    fn part(&mut self) -> Result<(), Failure> {
        if self.is_dark() {
            return Ok(());
        }
        self.come_to_rest()?;
        let since = self.now;
        while !self.is_dark() && !self.volume().is_at_rest() {
            if !self.advance()? && !self.is_dark() || self.is_over(since) {
                return Err(self.stuck("a drive cannot be re-added: the engine never comes to rest"));
            }
        }
        Ok(())
    }

    /// The drive was taken in.
    pub(crate) fn on_re_added(&mut self, re_added: &ReAdded) {
        let ReAdded { member, segments_whole, segments_to_rebuild } = *re_added;
        self.outdated.remove(&member);
        self.scrubbed = false;
        self.ledger.blame(member, "drive re-added");
        self.ledger.count("segments whole on drives re-added", segments_whole);
        self.ledger.count("segments to rebuild on drives re-added", segments_to_rebuild);
        if !self.spoilt.contains(&member) {
            self.replaced.insert(member);
        }
    }
}

impl Drive {
    /// Lets the drive answer again, but nothing that it was asked before: it had no power meanwhile.
    fn revive(&mut self) {
        self.power_fail();
        self.be_alive();
    }
}
