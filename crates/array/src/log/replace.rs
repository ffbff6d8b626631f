//! Replacing a failed member: what a drive must be to take its place, and what changes when it does.
//!
//! From the moment a replacement is accepted it is written like any member. Segments that exist then
//! lack its zone until the rebuild has written it; those that are open are closed early, so that they
//! are rebuilt like the rest and no stripe is ever written to part of a segment's drives by choice.

use crate::engine::Effects;
use crate::log::Shard;
use crate::log::policy::mode::common_areas;
use base::time::Instant;
use base::units::{DriveIndex, ZoneIndex};
use std::fmt;
use zone::device::{Command, Geometry, Op, Status, Token, ZoneState, ZonedDevice};
use zone::drives::{DriveCommand, DriveSet};
use zone::format::superblock::Uuid;

/// Why a drive cannot take the place of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplaceError {
    /// The array has no such member.
    NoSuchMember {
        /// Members it has.
        members: usize,
    },
    /// The member has not failed.
    NotFailed,
    /// More members are lost than the array can lose: there is nothing to rebuild from.
    Broken,
    /// The UUID is that of another member.
    UuidInUse,
    /// The drive is made differently, or allows less at a time than the others.
    Geometry,
    /// The drive holds data, or a zone of it cannot be written.
    NotBlank {
        /// The first such zone.
        zone: ZoneIndex,
    },
    /// The drive did not answer what state its zones are in.
    Drive {
        /// Status that the drive answered.
        status: Status,
    },
    /// Something under way must end first: commands of the old drive, a change of the members, or the
    /// collection of a segment without which there is no room.
    Busy,
    /// The superblock logs have no room for the change before the next mount.
    LogFull,
}

impl fmt::Display for ReplaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplaceError::NoSuchMember { members } => {
                write!(f, "the array has drives 0 to {}", members.saturating_sub(1))
            }
            ReplaceError::NotFailed => {
                write!(f, "the drive has not failed: mark it failed first, with `zoneweave drive fail`")
            }
            ReplaceError::Broken => write!(f, "too many drives are lost: there is nothing to rebuild from"),
            ReplaceError::UuidInUse => write!(f, "a drive of the array has the same UUID: give another one"),
            ReplaceError::Geometry => write!(
                f,
                "the drive has another zone geometry than the array, or lower limits than its other drives"
            ),
            ReplaceError::NotBlank { zone } => {
                write!(f, "zone {zone} of the drive is not empty: reset all its zones, or give another drive")
            }
            ReplaceError::Drive { status } => write!(f, "the drive answered {status:?} to a zone report"),
            ReplaceError::Busy => write!(f, "the array is changing: try again in a moment"),
            ReplaceError::LogFull => {
                write!(f, "the superblock logs are nearly full: restart the server, which makes room")
            }
        }
    }
}

impl std::error::Error for ReplaceError {}

/// Makes sure that a drive is like the others and that all its zones are empty, and gives it back.
pub fn expect_blank(
    device: Box<dyn ZonedDevice>,
    wanted: &Geometry,
    now: Instant,
) -> Result<Box<dyn ZonedDevice>, ReplaceError> {
    let geometry = *device.geometry();
    if !geometry.covers(wanted) {
        return Err(ReplaceError::Geometry);
    }
    let mut drives = DriveSet::new(vec![Some(device)]);
    let op = Op::Report { count: geometry.zones };
    let command = Command { token: Token(0), zone: ZoneIndex(0), op };
    let completion = drives.execute(now, DriveCommand { drive: DriveIndex(0), command });
    if completion.status != Status::Success {
        return Err(ReplaceError::Drive { status: completion.status });
    }
    let mut zones = (0..geometry.zones).map(ZoneIndex).zip(0..);
    let is_empty = |at: usize| completion.report.get(at).is_some_and(|zone| zone.state == ZoneState::Empty);
    if let Some((zone, _)) = zones.find(|(_, at)| !is_empty(*at)) {
        return Err(ReplaceError::NotBlank { zone });
    }
    Ok(drives.remove(DriveIndex(0)).expect("put there above"))
}

impl Shard {
    /// Returns the geometry of the array's drives: what every one of them allows.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.core.config.geometry
    }

    /// Checks whether a drive could take the place of a member now.
    ///
    /// # Errors
    /// The first reason why not.
    pub fn can_replace(&self, drive: usize, uuid: Uuid) -> Result<(), ReplaceError> {
        let members = self.core.config.members;
        if drive >= members {
            return Err(ReplaceError::NoSuchMember { members });
        }
        if self.core.membership.is_present(drive) {
            return Err(ReplaceError::NotFailed);
        }
        if self.core.membership.is_broken() {
            return Err(ReplaceError::Broken);
        }
        // A device that was emptied is itself again; whoever it was in this place, it holds nothing now.
        let mut others = self.core.membership.record().members.iter().enumerate();
        if others.any(|(other, member)| other != drive && member.uuid == uuid) {
            return Err(ReplaceError::UuidInUse);
        }
        if !self.core.membership.has_room(self.core.config.geometry.zone_capacity_blocks) {
            return Err(ReplaceError::LogFull);
        }
        // The collector's open segment is closed too: it must be able to open another.
        if self.core.membership.is_changing()
            || !self.member_rebuild.rebuild_is_over()
            || self.core.segments.free_segments() == 0
        {
            return Err(ReplaceError::Busy);
        }
        Ok(())
    }

    /// An empty drive takes the place of a member, as [`Shard::can_replace`] allowed. It is written like
    /// the others from now on, and the rebuild begins once all of them know.
    pub fn replace_member(&mut self, drive: usize, uuid: Uuid, geometry: &Geometry, fx: &mut Effects) {
        assert!(
            self.can_replace(drive, uuid).is_ok(),
            "the caller asked whether drive {drive} can be replaced"
        );
        self.core.config.geometry.volatile_cache |= geometry.volatile_cache;
        self.core.config.geometry.areas = common_areas(&self.core.config.geometry, geometry);
        self.core.segments.renew_drive(drive);
        self.core.membership.replace(drive, uuid, self.core.next_segment_id);
        assert!(
            self.core.membership.rebuilding() == Some(drive),
            "drive {drive} was replaced, and {:?} is rebuilt",
            self.core.membership.rebuilding()
        );
        self.core.record_change(fx);
        self.start_rebuild(fx);
    }
}
