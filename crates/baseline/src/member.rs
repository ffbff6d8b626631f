//! Members: one may fail, and the others say so before anything is acknowledged without it. It is replaced in `rebuild`.

use crate::Raizn;
use crate::parity_log::Purpose;
use array::engine::Effects;

impl Raizn {
    /// True for the member that failed.
    pub(super) fn is_failed(&self, drive: usize) -> bool {
        self.failed == Some(drive)
    }

    /// The member that failed, if one has.
    #[must_use]
    pub fn failed_member(&self) -> Option<usize> {
        self.failed
    }

    /// True when more members failed than the array can lose.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// Members that failed, one bit each.
    pub(super) fn failed_mask(&self) -> u32 {
        self.failed.map_or(0, |drive| 1 << drive)
    }

    /// A member is not believed any more. What was on its way to it counts as written: its completions still come.
    pub(super) fn lose_member(&mut self, drive: usize, fx: &mut Effects) {
        if self.is_broken() || self.is_failed(drive) {
            return;
        }
        if self.failed.is_some() {
            self.broken = Some(drive);
            return;
        }
        self.failed = Some(drive);
        self.drop_log(drive);
        if self.superblock_sequence == 0 {
            // A mount that has changed nothing yet: it fails, and can be repeated.
            return;
        }
        self.record_members(fx);
        self.zones_waiting.extend(0..self.config.logical_zones());
    }

    /// All members that are believed are told who that is; nothing is acknowledged meanwhile.
    pub(super) fn record_members(&mut self, fx: &mut Effects) {
        self.superblock_sequence += 1;
        for member in 0..self.config.members {
            if !self.is_failed(member) {
                self.append_superblock(member, Purpose::Members, fx);
                self.fence += 1;
            }
        }
    }

    /// Notes that one of the members knows.
    pub(super) fn on_members_recorded(&mut self, fx: &mut Effects) {
        self.fence -= 1;
        self.answer_writes(fx);
    }
}
