//! Members: one may fail, and the others say so before anything is acknowledged without it. It is replaced in `rebuild`.

use crate::Raizn;
use crate::config::RaiznConfig;
use crate::mount::MountError;
use crate::parity_log::Purpose;
use crate::record::{Scheme, Superblock};
use array::engine::Effects;
use array::log::ReplaceError;
use base::erasure::PIECES_MAX;
use zone::device::Status;
use zone::format::superblock::MemberState;

/// Members, and what they were told of one another.
#[derive(Debug)]
pub struct Members {
    /// The member that failed, if one has.
    pub failed: Option<usize>,
    /// Since when each member's drive is one.
    pub since: [u64; PIECES_MAX],
    /// The second member that failed: more than the array can lose.
    pub broken: Option<usize>,
    /// Records of a failure on their way; nothing is acknowledged meanwhile.
    pub fence: u32,
    /// Number of the mount.
    pub epoch: u32,
    /// Number of the newest superblock; 0 before a mount has changed anything.
    pub superblock_sequence: u32,
}

impl Members {
    /// Returns members that are all there, at a mount.
    #[must_use]
    pub fn new(epoch: u32) -> Members {
        let since = [0; PIECES_MAX];
        Members { failed: None, since, broken: None, fence: 0, epoch, superblock_sequence: 1 }
    }

    /// True for the member that failed.
    #[must_use]
    pub fn is_failed(&self, drive: usize) -> bool {
        self.failed == Some(drive)
    }

    /// State of each of so many members.
    #[must_use]
    pub fn states(&self, members: usize) -> Vec<MemberState> {
        let is_lost = |member: usize| self.is_failed(member) || self.broken == Some(member);
        let state = |member| if is_lost(member) { MemberState::Failed } else { MemberState::Active };
        (0..members).map(state).collect()
    }

    /// Members that failed, one bit each.
    #[must_use]
    pub fn failed_mask(&self) -> u32 {
        self.failed.map_or(0, |drive| 1 << drive)
    }

    /// A mount ends with the failure of a drive, and can be repeated without it: of one more than had failed before.
    ///
    /// # Errors
    /// The drive.
    pub fn judge_mount(&self, failed: Option<usize>) -> Result<(), MountError> {
        let of_today = self.failed.filter(|_| self.failed != failed);
        // One was missing, and another fails: what the old logs say is nowhere else yet.
        let second = self.broken;
        match of_today.or(second) {
            None => Ok(()),
            Some(member) => Err(MountError::Drive { member, status: Status::DeviceGone }),
        }
    }

    /// A member is not believed any more: the first that failed, or one more than the array can lose. False when that was known, or is one
    /// more: nothing is to be done about it.
    pub fn lose(&mut self, drive: usize) -> bool {
        if self.broken.is_some() || self.is_failed(drive) {
            return false;
        }
        let is_first = self.failed.is_none();
        *(if is_first { &mut self.failed } else { &mut self.broken }) = Some(drive);
        is_first
    }

    /// False before a mount has changed anything: one that loses a member then fails, and can be repeated.
    #[must_use]
    pub fn are_recorded(&self) -> bool {
        self.superblock_sequence > 0
    }

    /// Judges whether one of so many members can be given another drive.
    ///
    /// # Errors
    /// Why not.
    pub fn can_replace(&self, member: usize, members: usize) -> Result<(), ReplaceError> {
        if member >= members {
            return Err(ReplaceError::NoSuchMember { members });
        }
        if self.broken.is_some() {
            return Err(ReplaceError::Broken);
        }
        if self.is_failed(member) { Ok(()) } else { Err(ReplaceError::NotFailed) }
    }

    /// The newest superblock of a member.
    #[must_use]
    pub fn superblock(&self, scheme: Scheme, config: RaiznConfig, member: usize) -> Superblock {
        Superblock {
            scheme,
            config,
            member: u8::try_from(member).expect("at most 32 members"),
            epoch: self.epoch,
            sequence: self.superblock_sequence,
            failed: self.failed_mask(),
            since: self.since,
        }
    }

    /// Notes that one of the members has recorded a failure.
    ///
    /// # Panics
    /// When nothing was to be recorded.
    pub fn on_recorded(&mut self) {
        assert!(self.fence > 0, "a record that nobody waits for");
        self.fence -= 1;
    }
}

impl Raizn {
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
        if !self.members.lose(drive) {
            return;
        }
        self.drop_log(drive);
        if self.members.are_recorded() {
            self.record_members(fx);
            self.zones_waiting.extend(0..self.config.logical_zones());
        }
    }

    /// All members that are believed are told who that is; nothing is acknowledged meanwhile.
    pub(super) fn record_members(&mut self, fx: &mut Effects) {
        self.members.superblock_sequence += 1;
        for member in 0..self.config.members {
            if !self.members.is_failed(member) {
                self.append_superblock(member, Purpose::Members, fx);
                self.members.fence += 1;
            }
        }
    }
}
