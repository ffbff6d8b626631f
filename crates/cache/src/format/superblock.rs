//! Superblocks: who belongs to the cache, since when it counts nothing, and the secret of its hashes.
//!
//! Records are appended in turn to zone 0 and zone 1 of every member. The record with the highest generation counts of
//! those that a quorum holds (ADR 40).

use crate::format::{FORMAT_VERSION, MEMBERS_MAX, NAMESPACES};
use crate::request::WallMillis;
use crate::shared::Mark;
use base::bytes::{array_at, put, u32_at, u64_at};
use base::record_fields;
use base::units::BLOCK_BYTES;
use base::xor::Block;

record_fields! { BLOCK_BYTES;
    MAGIC: 0, 8, "`ZWCACHE1`";
    VERSION: 8, 4, "format version: 1, or 2 where `log` is not zero";
    RESERVED_0: 12, 4, "zero";
    CACHE: 16, 16, "cache UUID";
    DRIVE: 32, 16, "UUID of the drive that holds this record";
    GENERATION: 48, 8, "counts records of the cache; above all that the drives of this mount know";
    EPOCH: 56, 4, "counts mounts; the upper 24 bits of sequences";
    MEMBER: 60, 1, "member index of the drive that holds this record";
    MEMBERS: 61, 1, "places of members, in use or not";
    QUORUM: 62, 1, "members of state 1 that must hold this record for it to count; zero: it counts";
    RESERVED_1: 63, 1, "zero";
    SECRET: 64, 16, "secret of the hashes of keys";
    WALL: 80, 8, "latest wall time seen, in milliseconds since 1970";
    RESERVED_2: 88, 8, "zero";
    MEMBER_STATES: 96, 32, "state of each member: 0 left out, 1 in use, 2 in use and empty when this record was made";
    MEMBER_UUIDS: 128, 512, "UUID of each member, 16 bytes each";
    CLEARED: 640, 128, "of each namespace: records in pages below this sequence are gone, 8 bytes each";
    ZONES_LOST: 768, 128, "of each member: zones of its drive that were offline when this record was made, 4 bytes each";
    PLANNED: 896, 128, "of each namespace: wall time at which everything that was stored before is gone, in milliseconds since 1970, 8 bytes each; zero: none";
    BOOT: 1024, 16, "identity of the start of the machine whose memory holds entries that the media need not hold";
    LOG: 1040, 4, "log of these entries: the epoch in which it was begun; zero: there are none";
    RESERVED_3: 1044, 3052, "zero";
}

const MAGIC: &[u8; 8] = b"ZWCACHE1";
/// Programs that know no logs in memory must not believe the media alone.
const VERSION_WITH_LOG: u32 = 2;

/// Standing of a member in a superblock record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Left out: data on its drive do not count.
    LeftOut,
    /// Member of the record before, too.
    Member,
    /// New and empty: the member joins with this record, which it holds before any other does.
    Joined,
}

const STANDINGS: [Standing; 3] = [Standing::LeftOut, Standing::Member, Standing::Joined];

/// A member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Identity of its drive.
    pub uuid: [u8; 16],
    /// Standing in this record.
    pub standing: Standing,
    /// Zones of its drive that were offline: what they held is not missed any more.
    pub zones_lost: u32,
}

impl Member {
    /// True when what its drive holds counts.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        self.standing != Standing::LeftOut
    }
}

/// Clears of namespaces: those that were done, and those that are planned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clears {
    /// Sequences below which namespaces hold nothing.
    pub below: [u64; NAMESPACES],
    /// Times at which everything is gone that was stored before.
    pub planned: [Option<WallMillis>; NAMESPACES],
}

/// A superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Identity of the cache.
    pub cache: [u8; 16],
    /// Secret of the hashes.
    pub secret: [u8; 16],
    /// Counts records.
    pub generation: u64,
    /// Counts mounts.
    pub epoch: u32,
    /// Latest wall time seen.
    pub wall: WallMillis,
    /// The members.
    pub members: Vec<Member>,
    /// So many of those with [`Standing::Member`] must hold the record for it to count.
    pub quorum: u8,
    /// Clears that were done, and those that are planned.
    pub clears: Clears,
    /// Entries that the media need not hold.
    pub mark: Option<Mark>,
}

impl Member {
    /// In a place that a record does not know yet: nobody.
    #[must_use]
    pub fn nobody() -> Member {
        Member { uuid: [0; 16], standing: Standing::LeftOut, zones_lost: 0 }
    }
}

impl Superblock {
    /// Members in use.
    #[must_use]
    pub fn in_use(&self) -> usize {
        self.members.iter().filter(|member| member.is_in_use()).count()
    }

    /// Writes the copy of a member into a block.
    ///
    /// # Panics
    /// When there is no such member, or too many.
    pub fn encode(&self, member: usize, block: &mut Block) {
        assert!(member < self.members.len() && self.members.len() <= MEMBERS_MAX);
        block.fill(0);
        put(block, at::MAGIC, MAGIC);
        let version = if self.mark.is_some() { VERSION_WITH_LOG } else { FORMAT_VERSION };
        put(block, at::VERSION, &version.to_le_bytes());
        put(block, at::CACHE, &self.cache);
        put(block, at::DRIVE, &self.members[member].uuid);
        put(block, at::GENERATION, &self.generation.to_le_bytes());
        put(block, at::EPOCH, &self.epoch.to_le_bytes());
        block[at::MEMBER] = u8::try_from(member).expect("at most 32 members");
        block[at::MEMBERS] = u8::try_from(self.members.len()).expect("at most 32 members");
        block[at::QUORUM] = self.quorum;
        put(block, at::SECRET, &self.secret);
        put(block, at::WALL, &self.wall.0.to_le_bytes());
        for (index, member) in self.members.iter().enumerate() {
            let state = STANDINGS.iter().position(|standing| *standing == member.standing);
            block[at::MEMBER_STATES + index] =
                u8::try_from(state.expect("all standings are listed")).expect("three standings");
            put(block, at::MEMBER_UUIDS + 16 * index, &member.uuid);
            put(block, at::ZONES_LOST + 4 * index, &member.zones_lost.to_le_bytes());
        }
        for (index, below) in self.clears.below.iter().enumerate() {
            put(block, at::CLEARED + 8 * index, &below.to_le_bytes());
        }
        for (index, planned) in self.clears.planned.iter().enumerate() {
            let at = planned.map_or(0, |at| at.0);
            put(block, at::PLANNED + 8 * index, &at.to_le_bytes());
        }
        if let Some(Mark { boot, log }) = &self.mark {
            assert!(*log > 0, "a log has the number of a mount");
            put(block, at::BOOT, boot);
            put(block, at::LOG, &log.to_le_bytes());
        }
    }

    /// Reads a record and the member whose copy it is; `None` when the block holds none of this version.
    #[must_use]
    pub fn decode(block: &Block) -> Option<(Superblock, usize)> {
        let (member, count) = (usize::from(block[at::MEMBER]), usize::from(block[at::MEMBERS]));
        let (version, log) = (u32_at(block, at::VERSION), u32_at(block, at::LOG));
        if &block[..8] != MAGIC || version != if log == 0 { FORMAT_VERSION } else { VERSION_WITH_LOG } {
            return None;
        }
        if count > MEMBERS_MAX || member >= count || u32_at(block, at::EPOCH) >= 1 << 24 {
            return None;
        }
        let member_at = |index: usize| {
            let standing = *STANDINGS.get(usize::from(block[at::MEMBER_STATES + index]))?;
            let zones_lost = u32_at(block, at::ZONES_LOST + 4 * index);
            Some(Member { uuid: array_at(block, at::MEMBER_UUIDS + 16 * index), standing, zones_lost })
        };
        let members: Vec<Member> = (0..count).map(member_at).collect::<Option<_>>()?;
        if members[member].uuid != array_at(block, at::DRIVE) {
            return None;
        }
        let superblock = Superblock {
            cache: array_at(block, at::CACHE),
            secret: array_at(block, at::SECRET),
            generation: u64_at(block, at::GENERATION),
            epoch: u32_at(block, at::EPOCH),
            wall: WallMillis(u64_at(block, at::WALL)),
            members,
            quorum: block[at::QUORUM],
            clears: Clears {
                below: std::array::from_fn(|index| u64_at(block, at::CLEARED + 8 * index)),
                planned: std::array::from_fn(|index| {
                    let at = u64_at(block, at::PLANNED + 8 * index);
                    (at != 0).then_some(WallMillis(at))
                }),
            },
            mark: (log != 0).then(|| Mark { boot: array_at(block, at::BOOT), log }),
        };
        Some((superblock, member))
    }
}
