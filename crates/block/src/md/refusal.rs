//! Reasons why an array is not served, and what is said of one that is: with the value, the member, and what to do.

use super::bad_blocks::BadBlockError;
use super::superblock::feature;
use super::{MEMBERS_MAX, Role, names};
use std::fmt;

/// Reason why an array is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Something is wrong with one member.
    Member {
        /// Name of the member.
        member: String,
        /// Fault.
        fault: Fault,
    },
    /// Members that disagree.
    Disagree {
        /// Name of the member.
        member: String,
        /// Name of the newest member.
        newest: String,
        /// Subject.
        what: &'static str,
        /// Value of the member.
        value: i128,
        /// Value of the newest member.
        newest_value: i128,
    },
    /// Two members with one role.
    SameRole {
        /// Role.
        role: Role,
        /// Names and events of both.
        members: [(String, u64); 2],
    },
    /// Device given twice.
    SameDevice([String; 2]),
    /// Too few members.
    TooFew {
        /// Members that are whole.
        present: usize,
        /// Members that it takes.
        needed: usize,
        /// Roles of those missing.
        missing: Vec<Role>,
    },
    /// Dirty and degraded, with no log that says what may be wrong.
    DirtyDegraded(Vec<Role>),
    /// Journal device missing.
    NoJournal,
    /// Copy in the making of a member that still works, which md left in an array that is not clean.
    Replaced {
        /// Name of the device that it is copied to.
        member: String,
        /// Role of both.
        role: Role,
    },
}

/// Fault of one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Checksum wrong.
    Checksum {
        /// On the media.
        stored: u32,
        /// Computed over the bytes.
        computed: u32,
    },
    /// Reserved byte that is not zero.
    Reserved(usize),
    /// Feature bits that are not known.
    Features(u32),
    /// Reshape in progress.
    Reshape {
        /// Sectors of the array that were reshaped.
        position: u64,
        /// Feature bits.
        features: u32,
    },
    /// Clustered array.
    Clustered,
    /// Level that is not served.
    Level(i32),
    /// Layout that the level has not.
    Layout(i32, u32),
    /// Chunk that is no power of two.
    Chunk(u32),
    /// Members too few or too many.
    Members(i32, u32),
    /// Size that is no multiple of a chunk.
    Size(u64, u32),
    /// Logical blocks of a size that cannot be.
    LogicalBlock(u32),
    /// Device number without a role.
    Number(u32),
    /// Area that ends behind the device, or begins before it.
    Beyond {
        /// Area.
        area: &'static str,
        /// First sector.
        start: u64,
        /// Sectors.
        sectors: u64,
        /// Sectors of the device.
        device: u64,
    },
    /// Areas that overlap.
    Overlap([&'static str; 2]),
    /// Bitmap that cannot be used.
    Bitmap(String),
    /// Bad-block log that cannot be used.
    BadBlocks(String),
    /// Partial parity log that cannot be read.
    Ppl(String),
}

impl From<BadBlockError> for Fault {
    fn from(error: BadBlockError) -> Fault {
        Fault::BadBlocks(error.to_string())
    }
}

/// Roles in words: `member 1`, `members 1 and 3`.
#[must_use]
pub fn members(roles: &[Role]) -> String {
    let numbers: Vec<String> = roles.iter().map(Role::to_string).collect();
    match numbers.as_slice() {
        [] => "no member".to_owned(),
        [one] => format!("member {one}"),
        [all @ .., last] => format!("members {} and {last}", all.join(", ")),
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Member { member, fault } => write!(f, "{member}: {fault}"),
            Refusal::Disagree { member, newest, what, value, newest_value } => write!(
                f,
                "{member} says {what} {value}, {newest} says {newest_value}: leave out the one that is wrong"
            ),
            Refusal::SameRole { role, members: [(one, events), (other, other_events)] } => write!(
                f,
                "{one} (events {events}) and {other} (events {other_events}) are both member {role}: leave out one"
            ),
            Refusal::SameDevice([one, other]) => {
                write!(f, "{one} and {other} hold the same device of the array: leave out one")
            }
            Refusal::TooFew { present, needed, missing } => {
                write!(
                    f,
                    "only {present} of the {needed} members that are needed; missing: {}",
                    members(missing)
                )
            }
            Refusal::DirtyDegraded(missing) => write!(
                f,
                "dirty and degraded: a write was cut off, {} {} missing, and no log says what may be wrong",
                members(missing),
                if missing.len() > 1 { "are" } else { "is" },
            ),
            Refusal::NoJournal => {
                f.write_str("the journal device is missing or stale: what it holds is in doubt, give it too. When it is lost: `zoneweave md add-journal`")
            }
            Refusal::Replaced { member, role } => write!(
                f,
                "md was cut off as it copied member {role} to {member}, which it reads since, and writes wrong parities to: leave {member} \
                 out, or let md end that and repair (`echo repair > /sys/block/mdN/md/sync_action`)"
            ),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Checksum { stored, computed } => {
                write!(
                    f,
                    "the superblock's checksum is {stored:08x}, its bytes give {computed:08x}: leave this member out"
                )
            }
            Fault::Reserved(byte) => {
                write!(
                    f,
                    "byte {byte} of the superblock is reserved and not zero: a newer md may have written it"
                )
            }
            Fault::Features(bits) => write!(f, "unknown feature bits {bits:#x}: a newer md made this array"),
            Fault::Reshape { position, features } => {
                let set = feature::NAMES.iter().filter(|(bit, _)| features & bit != 0);
                let set: Vec<&str> = set.map(|(_, name)| *name).collect();
                let set = set.join(", ");
                write!(
                    f,
                    "a reshape is in progress at sector {position} (features {features:#x}: {set}): finish it with md"
                )
            }
            Fault::Clustered => {
                f.write_str("a clustered array (feature 0x100): served by md with its cluster only")
            }
            Fault::Level(level) => {
                let name = names::level(*level).unwrap_or("unknown");
                write!(f, "level {level} ({name}) is not served: levels 4, 5 and 6 are")
            }
            Fault::Layout(level, layout) => write!(f, "layout {layout} is none of RAID-{level}"),
            Fault::Chunk(sectors) => {
                write!(f, "a chunk of {sectors} sectors: it takes a power of two from 8 sectors (4 KiB)")
            }
            Fault::Members(level, count) => write!(
                f,
                "{count} members: RAID-{level} takes {} to {MEMBERS_MAX}",
                if *level == 6 { 4 } else { 2 }
            ),
            Fault::Size(size, chunk) => {
                write!(f, "{size} sectors of a member are no multiple of its chunk of {chunk}")
            }
            Fault::LogicalBlock(bytes) => {
                write!(f, "logical blocks of {bytes} bytes: 512 to 4096 are served")
            }
            Fault::Number(number) => write!(f, "device number {number} has no role in the superblock"),
            Fault::Beyond { area, start, sectors, device } => write!(
                f,
                "{area} at sector {start} with {sectors} sectors lies beyond the device, which has {device}: is it smaller than before?"
            ),
            Fault::Overlap([one, other]) => write!(f, "{one} and {other} overlap"),
            Fault::Bitmap(reason) | Fault::BadBlocks(reason) | Fault::Ppl(reason) => f.write_str(reason),
        }
    }
}

/// Something that is said of an array, and keeps nobody from serving it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// Stale member, left out.
    Stale {
        /// Name of the member.
        member: String,
        /// Events of the member.
        events: u64,
        /// Events of the newest.
        newest: u64,
    },
    /// Member that the others gave up.
    GivenUp(String),
    /// Spare.
    Spare(String),
    /// Member being recovered.
    Recovering(String, Role, u64),
    /// Replacement of a member that still works.
    Replacement(String, Role),
    /// Bad blocks of a member.
    BadBlocks(String, usize),
    /// Bitmap older than the superblock.
    VoidBitmap(String, u64, u64),
    /// Word of Linux 6.19.
    LogicalBlock(u32),
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::Stale { member, events, newest } => {
                write!(f, "{member} is stale and left out (events {events} of {newest})")
            }
            Note::GivenUp(member) => write!(f, "{member} is left out: the others gave it up"),
            Note::Spare(member) => write!(f, "{member} is a spare"),
            Note::Recovering(member, role, sectors) => {
                write!(
                    f,
                    "{member} is being recovered as member {role} and counts below sector {sectors} only"
                )
            }
            Note::Replacement(member, role) => {
                write!(f, "{member} is to replace member {role}, which still works")
            }
            Note::BadBlocks(member, entries) => {
                write!(f, "{member} cannot return some blocks ({entries} in its bad-block log)")
            }
            Note::VoidBitmap(member, events, newest) => {
                write!(
                    f,
                    "the bitmap of {member} is older than its superblock (events {events} of {newest}): all is resynced"
                )
            }
            Note::LogicalBlock(bytes) => {
                write!(f, "logical blocks of {bytes} bytes are named: kernels before 6.19 refuse this array")
            }
        }
    }
}
