//! Members: one may fail, and the others say so before anything is promised without it. What its drive was to do counts as done.

use super::Zraid;
use super::config::logical_zones;
use super::log::Purpose;
use super::logical_zone::State;
use array::engine::Effects;
use zone::rules::Zone;

impl Zraid {
    /// The member that failed, if one has.
    #[must_use]
    pub fn failed_member(&self) -> Option<usize> {
        self.members.failed
    }

    /// True when more members failed than the array can lose.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.members.broken.is_some()
    }

    /// A member is not believed any more. What was on its way to it counts as written: its completions still come.
    pub(super) fn lose_member(&mut self, drive: usize, fx: &mut Effects) {
        assert!(drive < self.config.members, "a member of the array");
        if self.members.lose(drive) && self.members.are_recorded() {
            self.record_members(fx);
        }
    }

    /// All members that are believed are told who that is; no write pointer moves meanwhile, and no flush is answered.
    pub(super) fn record_members(&mut self, fx: &mut Effects) {
        self.members.superblock_sequence += 1;
        for member in 0..self.config.members {
            if !self.members.is_failed(member) {
                self.members.fence += 1;
                let superblock = self.superblock(member);
                self.append(member, Purpose::Members, vec![superblock], fx);
            }
        }
    }

    /// Difference between the zones of a member's drive and what the engine believes, if there is one. Only at rest.
    pub(super) fn mistaken_zone(&self, member: usize, states: &[Zone]) -> Option<String> {
        if self.members.is_failed(member) {
            return None;
        }
        (0_u32..).zip(states).find_map(|(zone, state)| {
            let expected = match zone.checked_sub(logical_zones(&self.config)) {
                None if self.zones[zone as usize].state == State::Empty => 0,
                None => self.zones[zone as usize].writers[member].committed,
                Some(place) => self.logs[member].appended_at(place as usize),
            };
            let found = state.write_pointer;
            (found != expected).then(|| format!("zone {zone} is at block {found}; it is to be at {expected}"))
        })
    }
}
