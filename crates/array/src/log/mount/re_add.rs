//! Re-adding: the drive of a member that was away comes back, and only what it lacks is rebuilt.
//!
//! ```text
//!                segment 5    segment 6    segment 7   | segment 8
//!   drive 0    | h . . . f  |            | h . . . f   | h . .          erased since: segment 6; written since: 7 and 8
//!   drive 1    | h . . . f  |            | h . . . f   | h . .
//!   drive 2    | h . . . f  | h . . . f  | h . .       |                 5 counts; 6 is reset; 7 is reset and rebuilt, 8 too
//! ```
//! The member counts as one that is being rebuilt, by a record on all drives including its own, written before anything
//! else is. What follows is what follows a rebuild that a crash has cut off (`scan`): its full zones of segments that the
//! others hold count, all others are reset, and the engine rebuilds what is lacking.
//!
//! A full zone holds what it should, whatever its drive missed: before the first zone of a segment becomes full, all
//! stripes of the segment are complete and have left the caches of all drives; and a segment is never written again. Zones
//! that a mount finished, for it condemned their segment, are full before that: they do not end with a footer.
//! Reasons in ADR 21.

use crate::log::mount::assemble::EPOCH_SHIFT_SEGMENT;
use crate::log::mount::scan::FoundSegment;
use std::fmt;
use zone::format::superblock::{MemberState, Superblock};

/// Why a drive is not taken in again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReAddRefusal {
    /// No drive that is there was ever this member, or the member was replaced since.
    NotThere,
    /// The member never failed.
    NotFailed,
    /// A rebuild of another member is under way: there is one at a time.
    Rebuilding {
        /// Member being rebuilt.
        other: usize,
    },
}

impl fmt::Display for ReAddRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReAddRefusal::NotThere => {
                write!(
                    f,
                    "its drive is not there, or another one took its place: use `zoneweave drive replace`"
                )
            }
            ReAddRefusal::NotFailed => write!(f, "it has not failed, and the others have not left it behind"),
            ReAddRefusal::Rebuilding { other } => {
                write!(f, "drive {other} is being rebuilt: wait until that is over")
            }
        }
    }
}

/// Contents of a drive that was taken in again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReAdded {
    /// The member.
    pub member: usize,
    /// Segments of which it holds its part.
    pub segments_whole: u64,
    /// Segments whose part of it is to be rebuilt.
    pub segments_to_rebuild: u64,
}

impl ReAdded {
    /// Counts what a scan found.
    pub(super) fn count(member: usize, segments: &[FoundSegment]) -> ReAdded {
        let lacks = |segment: &&FoundSegment| segment.zones_missing & 1 << member != 0;
        let segments_to_rebuild = segments.iter().filter(lacks).count() as u64;
        let segments_whole = segments.len() as u64 - segments_to_rebuild;
        ReAdded { member, segments_whole, segments_to_rebuild }
    }
}

/// Notes in the record that a member is being rebuilt from now on. Segments that exist were written without it.
pub fn take_in(record: &mut Superblock, member: usize, is_older_copy: bool) -> Result<(), ReAddRefusal> {
    let is_rebuilding = |index: usize| record.members[index].state == MemberState::Rebuilding;
    let other = (0..record.members.len()).find(|index| *index != member && is_rebuilding(*index));
    if let Some(other) = other {
        return Err(ReAddRefusal::Rebuilding { other });
    }
    // Two mounts in a row, when another drive failed during the first.
    if is_rebuilding(member) && !is_older_copy {
        return Ok(());
    }
    if record.members[member].state == MemberState::Active && !is_older_copy {
        return Err(ReAddRefusal::NotFailed);
    }
    record.members[member].state = MemberState::Rebuilding;
    // The epoch of the mount that is under way.
    record.rebuild_from = u64::from(record.epoch + 1) << EPOCH_SHIFT_SEGMENT;
    // It says of the member's chunks where a rebuild would have put them, which is not where they are.
    record.checkpoint = None;
    Ok(())
}
