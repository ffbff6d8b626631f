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
//! Reasons in ADR 21. Whose drive it is, and whether it shares the history of the others, is judged before (`returning`).

use crate::log::mount::scan::FoundSegment;
use crate::log::segment::EPOCH_SHIFT_SEGMENT;
use base::units::BLOCK_BYTES_U64;
use std::fmt;
use zone::format::superblock::{MemberState, Superblock, Uuid, Version};

/// The member whose drive is to be taken in again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReAdd {
    /// The member.
    pub member: usize,
    /// Where the drive is refused, the array is mounted without it.
    pub or_without: bool,
}

/// Why a drive is not taken in again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReAddRefusal {
    /// No drive that is there was ever this member.
    NotThere,
    /// Another drive took the place of the one that is there.
    Replaced {
        /// Identity of the drive.
        own: Uuid,
        /// Identity of the one that took its place.
        successor: Uuid,
    },
    /// The drive is made differently than the array's.
    Geometry {
        /// What of it differs.
        what: &'static str,
        /// Value of the drive.
        found: u32,
        /// Value of the array.
        wanted: u32,
    },
    /// Its newest record is newer than those of the others: they are older copies, or the drive was used apart from them.
    Newer {
        /// Version of its newest record.
        own: Version,
        /// Version of the newest record of the others.
        others: Version,
    },
    /// None of the others holds its newest record: it was used apart from them, or so long ago that none of them knows.
    Apart {
        /// Version of its newest record.
        own: Version,
        /// Version of the newest record of the others.
        others: Version,
    },
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
                write!(f, "its drive is not there: bring it back, or use `zoneweave drive replace`")
            }
            ReAddRefusal::Replaced { own, successor } => {
                write!(f, "another drive took its place (uuid {}, ", in_words(successor))?;
                write!(f, "that of this drive is {}): {REPLACE}", in_words(own))
            }
            ReAddRefusal::Geometry { what, found, wanted } => {
                write!(f, "the drive has {found} {what}, the array uses {wanted}: {REPLACE}")
            }
            ReAddRefusal::Newer { own, others } => {
                write!(
                    f,
                    "its newest record ({}) is newer than those of the others ",
                    version_in_words(own)
                )?;
                write!(f, "({}): they are older copies, or it was used apart; ", version_in_words(others))?;
                write!(f, "bring the newer drives back, or {REPLACE}")
            }
            ReAddRefusal::Apart { own, others } => {
                write!(f, "none of the others knows its newest record ({}; ", version_in_words(own))?;
                write!(f, "theirs is {}): it was used apart from them: {REPLACE}", version_in_words(others))
            }
            ReAddRefusal::NotFailed => write!(f, "it has not failed, and the others have not left it behind"),
            ReAddRefusal::Rebuilding { other } => {
                write!(f, "drive {other} is being rebuilt: wait until that is over")
            }
        }
    }
}

/// Remedy where the drive may not keep what it holds.
const REPLACE: &str = "wipe it and give it to `zoneweave drive replace`, which writes all of it";

fn in_words(uuid: &Uuid) -> String {
    let mut words = String::new();
    for (index, byte) in uuid.iter().enumerate() {
        let hyphen = if matches!(index, 4 | 6 | 8 | 10) { "-" } else { "" };
        words += &format!("{hyphen}{byte:02x}");
    }
    words
}

fn version_in_words(version: &Version) -> String {
    format!("epoch {}, generation {}", version.epoch, version.generation)
}

/// Contents of a drive that was taken in again. Its part of a segment is a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReAdded {
    /// The member.
    pub member: usize,
    /// Segments of which it holds its part.
    pub segments_whole: u64,
    /// Bytes of these parts.
    pub bytes_whole: u64,
    /// Segments whose part of it is to be rebuilt.
    pub segments_to_rebuild: u64,
    /// Bytes of those parts, were all of them rebuilt: less where what they hold is erased before.
    pub bytes_to_rebuild: u64,
}

impl ReAdded {
    /// Counts what a scan found.
    pub(super) fn count(member: usize, segments: &[FoundSegment]) -> ReAdded {
        let mut count = ReAdded {
            member,
            segments_whole: 0,
            bytes_whole: 0,
            segments_to_rebuild: 0,
            bytes_to_rebuild: 0,
        };
        for FoundSegment { layout, zones_missing, .. } in segments {
            let bytes = u64::from(layout.footer_offset() + layout.footer_blocks()) * BLOCK_BYTES_U64;
            let (segments, total) = match zones_missing & 1 << member {
                0 => (&mut count.segments_whole, &mut count.bytes_whole),
                _ => (&mut count.segments_to_rebuild, &mut count.bytes_to_rebuild),
            };
            *segments += 1;
            *total += bytes;
        }
        count
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
