//! Re-adding: a drive that was away is taken in again, as in the server: clients wait, all comes to rest, and the array is
//! mounted with the drive. With the power off it is what an operator does before the array is served again.
//!
//! Once the member is rebuilt it counts like any other: should others fail then, what it held before and what it was
//! given since must do. Not where its media are known to be damaged, which no re-add repairs.

use crate::drive::Drive;
use crate::engine::Array;
use crate::step::At;
use crate::tally::Failure;
use crate::world::World;
use array::log::ReAdd;
use zone::format::superblock::MemberState;

impl World {
    /// An operator re-adds a drive. Refused where there is nothing to re-add.
    pub(crate) fn re_add(&mut self, member: usize, cut: Option<At>) -> Result<(), Failure> {
        let is_ours =
            member < self.service.plan.members && !self.bays.blank.contains(&self.bays.drive_of[member]);
        if !is_ours || !matches!(self.service.array, Array::Log(_)) {
            return Ok(());
        }
        self.part()?;
        let is_served = !self.service.is_dark();
        if self.service.is_dark() {
            self.power_off();
            // First of all, an operator brings those back that the array counts on.
            if self.bays.away.iter().any(|other| *other != member) {
                self.service.ledger.count("re-adds after others came back", 1);
                return self.mount(cut);
            }
        } else {
            let members = self.service.engine().members();
            if members[member] != MemberState::Failed || members.contains(&MemberState::Rebuilding) {
                return Ok(());
            }
            // In order: no other drive loses what it holds in its cache.
            self.service.volume = None;
        }
        assert!(self.service.volume.is_none(), "engine and drives have parted");
        self.service.member_lost_cache();
        self.bring_back(member);
        assert!(self.re_adding.is_none(), "one drive is re-added at a time");
        // A server goes on without a drive that is refused; who is told so by a command that starts one mounts anew.
        self.re_adding = Some(ReAdd { member, or_without: is_served });
        let mounted = self.mount(cut);
        if self.re_adding.take().is_some() {
            // The operator has spoken for it, whether all drives were told or not.
            self.bays.outdated.remove(&member);
        }
        mounted
    }

    /// The drive of a member is there again, and answers. What it held in its cache when it went may be lost.
    fn bring_back(&mut self, member: usize) {
        self.bays.plug_in(member);
        let drive = self.bays.drive_of[member];
        assert!(!self.bays.blank.contains(&drive), "only a drive of the array comes back");
        // A drive of another array may be in the last place.
        if self.bays.places.contains(&Some(drive)) {
            self.bays.away.remove(&member);
        }
        let mut rack = self.service.rack.lock();
        rack.power.disarm(member);
        rack.drives[drive].revive();
    }

    /// All comes to rest, so that engine and drives may part.
    fn part(&mut self) -> Result<(), Failure> {
        if self.service.is_dark() {
            return Ok(());
        }
        self.service.come_to_rest()?;
        self.service.come_apart("a drive cannot be re-added")
    }
}

impl Drive {
    /// Lets the drive answer again, but nothing that it was asked before: it had no power meanwhile.
    fn revive(&mut self) {
        self.power_fail();
        self.be_alive();
    }
}
