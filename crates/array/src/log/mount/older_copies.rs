//! Older copies: drives whose media went back to an earlier moment (a restored image, a reverted virtual disk).
//!
//! ```text
//!   drive 0   generation 41   settled 40  |  generation 42, settled 41
//!   drive 1   generation 41   settled 40  |  generation 42, settled 41
//!   drive 2   generation 41   settled 40  |  generation 42, settled 41   <- put back as it was at 40
//! ```
//! A superblock record of generation g is written to every member and flushed before a record says `settled g`. From then
//! on, a member whose newest own record is older than g does not hold what it once held: it is an older copy of itself,
//! whatever its record says of the others. A crash between the two leaves members one or more generations behind, but then
//! nobody says that they had settled, and nothing else was written since: these are believed. Reasons in ADR 19.

use std::fmt;
use zone::format::superblock::{MemberState, Superblock};

/// A drive that is an older copy of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OlderCopy {
    /// The member.
    pub member: usize,
    /// Mounts that its own newest record knows of.
    pub epoch: u32,
    /// Mounts that the others know of.
    pub epoch_newest: u32,
    /// Generation of its own newest record.
    pub generation: u64,
    /// Generation that it once held, by the word of the others.
    pub generation_held: u64,
    /// The others have it as failed already: it missed mounts, or was left out as an older copy before.
    pub is_recorded: bool,
}

impl fmt::Display for OlderCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OlderCopy { member, epoch, epoch_newest, generation, generation_held, is_recorded } = self;
        match is_recorded {
            true => write!(f, "drive {member} is recorded as failed, and behind: ")?,
            false => write!(f, "drive {member} is an older copy of itself: ")?,
        }
        if epoch < epoch_newest {
            write!(f, "epoch {epoch}, the others say {epoch_newest}")
        } else {
            write!(f, "generation {generation}, the others say that it had {generation_held}")
        }
    }
}

impl OlderCopy {
    /// The drive of `own`, of which `newest` says more.
    pub fn of(own: &Superblock, newest: &Superblock) -> OlderCopy {
        OlderCopy {
            member: usize::from(own.member),
            epoch: own.epoch,
            epoch_newest: newest.epoch,
            generation: own.generation,
            generation_held: newest.generation,
            is_recorded: newest.members[usize::from(own.member)].state == MemberState::Failed,
        }
    }
}

/// The drive of `record` if it is an older copy of itself, by the word of all records of its array.
pub fn find<'a>(record: &Superblock, all: impl Iterator<Item = &'a Superblock> + Clone) -> Option<OlderCopy> {
    let member = usize::from(record.member);
    let uuid = record.members[member].uuid;
    let vouches = |judge: &&Superblock| {
        let judged = judge.members.get(member);
        judged.is_some_and(|judged| judged.uuid == uuid && judged.state != MemberState::Failed)
    };
    let held = all.clone().filter(vouches).map(|judge| judge.settled).max()?;
    let is_older = record.version() < held;
    let epoch_newest = all.map(|judge| judge.epoch).max().unwrap_or(record.epoch);
    let Superblock { epoch, generation, .. } = *record;
    let generation_held = held.generation;
    let older = OlderCopy { member, epoch, epoch_newest, generation, generation_held, is_recorded: false };
    is_older.then_some(older)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::erasure::PieceSet;
    use zone::format::superblock::{Member, Version};

    fn record(member: u8, generation: u64, settled: u64, states: [MemberState; 3]) -> Superblock {
        let mut identity = 0;
        let members = states.map(|state| {
            identity += 1;
            Member { uuid: [identity; 16], state }
        });
        Superblock {
            array: [7; 16],
            member,
            generation,
            epoch: u32::try_from(generation / 2).expect("small"),
            data_count: 2,
            parity_count: 1,
            level: 5,
            chunk_blocks: 1,
            group_stripes: 1,
            zones: 20,
            zone_size_blocks: 64,
            zone_capacity_blocks: 64,
            volume_blocks: 100,
            large_chunk_blocks: 0,
            segments_small: 1,
            segments_large: 0,
            append: 0,
            rebuild_from: 0,
            windows_gone: PieceSet::EMPTY,
            checkpoint: None,
            settled: Version { epoch: u32::try_from(settled / 2).expect("small"), generation: settled },
            mount_tag: 0,
            members: members.to_vec(),
        }
    }

    const ACTIVE: [MemberState; 3] = [MemberState::Active; 3];

    #[test]
    fn a_drive_behind_what_it_once_held_is_an_older_copy() {
        let records = [record(0, 10, 9, ACTIVE), record(1, 10, 9, ACTIVE), record(2, 8, 7, ACTIVE)];
        let found = find(&records[2], records.iter()).expect("an older copy");
        assert_eq!((found.member, found.generation, found.generation_held), (2, 8, 9));
        assert_eq!(found.to_string(), "drive 2 is an older copy of itself: epoch 4, the others say 5");
        assert_eq!(find(&records[0], records.iter()), None);
        // One that knows is enough, wherever it stands.
        let records = [record(0, 8, 7, ACTIVE), record(1, 8, 7, ACTIVE), record(2, 10, 9, ACTIVE)];
        assert!(find(&records[0], records.iter()).is_some());
        assert!(find(&records[1], records.iter()).is_some());
    }

    #[test]
    fn a_drive_that_a_crash_left_behind_is_believed() {
        // Mounts were cut off before the record had reached all of them, three times.
        let records = [record(0, 12, 8, ACTIVE), record(1, 9, 8, ACTIVE), record(2, 9, 8, ACTIVE)];
        assert!(records.iter().all(|own| find(own, records.iter()).is_none()));
        // As old as what it is known to have held.
        let records = [record(0, 12, 9, ACTIVE), record(1, 9, 8, ACTIVE)];
        assert_eq!(find(&records[1], records.iter()), None);
    }

    #[test]
    fn nobody_vouches_for_a_failed_drive_or_for_one_in_its_place() {
        let mut states = ACTIVE;
        states[2] = MemberState::Failed;
        let records = [record(0, 12, 11, states), record(2, 8, 7, ACTIVE)];
        assert_eq!(find(&records[1], records.iter()), None, "it is failed, which says more");
        let mut replaced = record(2, 8, 7, ACTIVE);
        replaced.members[2].uuid = [9; 16];
        let records = [record(0, 12, 11, ACTIVE), replaced];
        assert_eq!(find(&records[1], records.iter()), None, "another drive");
    }
}
