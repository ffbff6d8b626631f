//! Superblock records: who belongs to the array, in which state, and how it is laid out.
//!
//! Records are appended in turn to zone 0 and zone 1 of every member. The record with the highest
//! generation among all members counts; it names the members that are to be believed.

use crate::format::checkpoint::{Checkpoint, UNSEALED_MAX, Unsealed};
use crate::format::{FORMAT_VERSION, MEMBERS_MAX};
use base::bytes::{array_at, put, u32_at, u64_at};
use base::checksum::crc32c;
use base::erasure::PieceSet;
use base::record_fields;
use base::units::BLOCK_BYTES;
use base::xor::Block;

record_fields! { BLOCK_BYTES;
    MAGIC: 0, 8, "`ZWSUPER1`";
    VERSION: 8, 4, "format version, 5";
    CRC: 12, 4, "CRC32C of the record with this field zero";
    ARRAY: 16, 16, "array UUID";
    DRIVE: 32, 16, "UUID of the drive that holds this record";
    GENERATION: 48, 8, "counts records of the array; the highest one counts";
    EPOCH: 56, 4, "counts mounts; upper bits of sequences and segment ids";
    MEMBER: 60, 1, "member index of the drive that holds this record";
    DATA_COUNT: 61, 1, "k, data chunks of a stripe";
    PARITY_COUNT: 62, 1, "m, parity chunks of a stripe; under RAID-01, copies";
    LEVEL: 63, 1, "RAID level: 0, 1 (RAID-01), 4, 5, 6, or 7 (three rotating parities)";
    CHUNK_BLOCKS: 64, 4, "C, blocks of a chunk";
    GROUP_STRIPES: 68, 4, "G, stripes of a group; 1 uses Zone Write for user data";
    ZONES: 72, 4, "zones of each drive";
    ZONE_SIZE: 76, 4, "zone size in blocks";
    ZONE_CAPACITY: 80, 4, "zone capacity in blocks";
    WINDOWS_GONE: 84, 4, "members whose random write areas lost what they held, a bit for each, the lowest for member 0: until a mount has moved what the others have of it, what they lack of segments in area mode proves nothing";
    VOLUME_BLOCKS: 88, 8, "size of the volume in blocks";
    MEMBER_STATES: 96, 32, "state of each member: 0 none, 1 active, 2 failed, 3 rebuilding";
    MEMBER_UUIDS: 128, 512, "UUID of each member, 16 bytes each";
    REBUILD_FROM: 640, 8, "while a member is being rebuilt: segments with this id or a higher one were written with it; of a lower one, its zone counts if it is full. Zero when none is";
    LARGE_CHUNK_BLOCKS: 648, 4, "C of large-chunk segments; zero without";
    SEGMENTS_SMALL: 652, 1, "open segments of small chunks";
    SEGMENTS_LARGE: 653, 1, "open segments of large chunks";
    APPEND: 654, 1, "clients' segments written with Zone Append: 1 one of small chunks, 2 all, 4 none, and in random write areas where drives have them (3: the same without markers, not read any more); with 0x80 added while slots of a write area may be in use";
    RESERVED_1: 655, 1, "zero";
    CHECKPOINT: 656, 4, "number of the checkpoint that counts; zero when none does";
    CHECKPOINT_BLOCKS: 660, 4, "blocks of its image";
    CHECKPOINT_SEQUENCE: 664, 8, "the next sequence when it began";
    CHECKPOINT_SEGMENT: 672, 8, "the next segment id when it began";
    CHECKPOINT_UNSEALED: 680, 4, "segments that were there and not sealed";
    RESERVED_2: 684, 4, "zero";
    CHECKPOINT_STRIPES: 688, 768, "of each of those: segment id (8), stripes that were durable (4)";
    SETTLED: 1456, 8, "generation: every member that this record does not call failed holds a record of this generation or a newer one, and keeps it when the power fails; zero when nobody knows of one";
    SETTLED_EPOCH: 1464, 4, "the epoch of that record: generations may be used twice where a volatile cache lost the first";
    MOUNT_TAG: 1468, 8, "drawn at random by the mount of this epoch: records that differ in it are of arrays that were used apart; zero when none was drawn";
    RESERVED_3: 1476, 2620, "zero";
}

const MAGIC: &[u8; 8] = b"ZWSUPER1";

/// A 128-bit identity.
pub type Uuid = [u8; 16];

/// State of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// Holds its part of every stripe written since it joined.
    Active,
    /// Missed writes; nothing on it is believed.
    Failed,
    /// Replaces one that failed: holds its part of every segment made since, and of older ones as far
    /// as their zones were rebuilt.
    Rebuilding,
}

/// A member as the array sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Identity of the drive.
    pub uuid: Uuid,
    /// State of the member: whether it is believed.
    pub state: MemberState,
}

/// Version of a record among the records of an array: those of later mounts are newer, whatever their generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Mounts.
    pub epoch: u32,
    /// Records.
    pub generation: u64,
}

/// A superblock record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Identity of the array.
    pub array: Uuid,
    /// Member index of the drive that holds this record.
    pub member: u8,
    /// Counts records.
    pub generation: u64,
    /// Counts mounts.
    pub epoch: u32,
    /// k.
    pub data_count: u8,
    /// m.
    pub parity_count: u8,
    /// RAID level.
    pub level: u8,
    /// C.
    pub chunk_blocks: u32,
    /// G.
    pub group_stripes: u32,
    /// Zones of each drive.
    pub zones: u32,
    /// Zone size in blocks.
    pub zone_size_blocks: u32,
    /// Zone capacity in blocks.
    pub zone_capacity_blocks: u32,
    /// Size of the volume.
    pub volume_blocks: u64,
    /// C of large-chunk segments; zero without.
    pub large_chunk_blocks: u32,
    /// Open segments of small chunks.
    pub segments_small: u8,
    /// Open segments of large chunks.
    pub segments_large: u8,
    /// Clients' segments written with Zone Append.
    pub append: u8,
    /// Segments from this id on were written with the member that is being rebuilt.
    pub rebuild_from: u64,
    /// Members that lost what their random write areas held, until all of it has its redundancy again (ADR 52).
    pub windows_gone: PieceSet,
    /// The checkpoint that counts.
    pub checkpoint: Option<Checkpoint>,
    /// The record that every member held durably, but for failed ones, when this one was made. A drive whose own
    /// newest record is older is an older copy of itself (ADR 19).
    pub settled: Version,
    /// Number drawn by the mount of this epoch: copies of an array that were used apart differ in it (ADR 70).
    pub mount_tag: u64,
    /// All members, in order.
    pub members: Vec<Member>,
}

/// Set in the field of the use of Zone Append while slots of a write area may be in use. Versions before the write area refuse
/// such a number: they would take its zones for ones that hold nothing.
const WRITE_AREA: u8 = 0x80;

impl Superblock {
    /// Returns the use of Zone Append alone.
    #[must_use]
    pub fn append_use(&self) -> u8 {
        self.append & !WRITE_AREA
    }

    /// From now on slots of a write area may be in use, or none is any more.
    pub fn set_write_area(&mut self, is_used: bool) {
        self.append = self.append_use() | if is_used { WRITE_AREA } else { 0 };
    }

    /// True while slots of a write area may be in use.
    #[must_use]
    pub fn has_write_area(&self) -> bool {
        self.append & WRITE_AREA != 0
    }

    /// True when a segment with this id was written with the member: its zone of it is there from the
    /// start. Of a member being rebuilt, older segments lack it until they are rebuilt.
    ///
    /// # Panics
    /// When there is no such member.
    #[must_use]
    pub fn was_written_with(&self, member: usize, segment: u64) -> bool {
        match self.members[member].state {
            MemberState::Active => true,
            MemberState::Rebuilding => segment >= self.rebuild_from,
            MemberState::Failed => false,
        }
    }

    /// Version of the record.
    #[must_use]
    pub fn version(&self) -> Version {
        Version { epoch: self.epoch, generation: self.generation }
    }

    /// The record as member `member` holds it.
    ///
    /// # Panics
    /// When there is no such member.
    #[must_use]
    pub fn for_member(&self, member: u8) -> Superblock {
        assert!(usize::from(member) < self.members.len());
        Superblock { member, ..self.clone() }
    }

    /// Writes the record into a block.
    pub fn encode(&self, block: &mut Block) {
        assert!(self.members.len() <= MEMBERS_MAX);
        block.fill(0);
        put(block, at::MAGIC, MAGIC);
        put(block, at::VERSION, &FORMAT_VERSION.to_le_bytes());
        put(block, at::ARRAY, &self.array);
        put(block, at::DRIVE, &self.members[usize::from(self.member)].uuid);
        put(block, at::GENERATION, &self.generation.to_le_bytes());
        put(block, at::EPOCH, &self.epoch.to_le_bytes());
        block[at::MEMBER] = self.member;
        block[at::DATA_COUNT] = self.data_count;
        block[at::PARITY_COUNT] = self.parity_count;
        block[at::LEVEL] = self.level;
        put(block, at::CHUNK_BLOCKS, &self.chunk_blocks.to_le_bytes());
        put(block, at::GROUP_STRIPES, &self.group_stripes.to_le_bytes());
        put(block, at::ZONES, &self.zones.to_le_bytes());
        put(block, at::ZONE_SIZE, &self.zone_size_blocks.to_le_bytes());
        put(block, at::ZONE_CAPACITY, &self.zone_capacity_blocks.to_le_bytes());
        put(block, at::VOLUME_BLOCKS, &self.volume_blocks.to_le_bytes());
        for (index, member) in self.members.iter().enumerate() {
            block[at::MEMBER_STATES + index] = match member.state {
                MemberState::Active => 1,
                MemberState::Failed => 2,
                MemberState::Rebuilding => 3,
            };
            put(block, at::MEMBER_UUIDS + 16 * index, &member.uuid);
        }
        put(block, at::WINDOWS_GONE, &self.windows_gone.bits().to_le_bytes());
        put(block, at::REBUILD_FROM, &self.rebuild_from.to_le_bytes());
        put(block, at::LARGE_CHUNK_BLOCKS, &self.large_chunk_blocks.to_le_bytes());
        block[at::SEGMENTS_SMALL] = self.segments_small;
        block[at::SEGMENTS_LARGE] = self.segments_large;
        block[at::APPEND] = self.append;
        if let Some(checkpoint) = &self.checkpoint {
            put_checkpoint(checkpoint, block);
        }
        put(block, at::SETTLED, &self.settled.generation.to_le_bytes());
        put(block, at::SETTLED_EPOCH, &self.settled.epoch.to_le_bytes());
        put(block, at::MOUNT_TAG, &self.mount_tag.to_le_bytes());
        let crc = crc32c(block);
        put(block, at::CRC, &crc.to_le_bytes());
    }

    /// The format version of a whole record that is not of this one.
    #[must_use]
    pub fn other_version(block: &Block) -> Option<u32> {
        Some(u32_at(block, at::VERSION)).filter(|version| *version != FORMAT_VERSION && is_whole(block))
    }

    /// Reads a record; `None` when the block holds none that is whole and of this version.
    #[must_use]
    pub fn decode(block: &Block) -> Option<Superblock> {
        if !is_whole(block) || u32_at(block, at::VERSION) != FORMAT_VERSION {
            return None;
        }
        let count = usize::from(block[at::DATA_COUNT]) + usize::from(block[at::PARITY_COUNT]);
        let member = block[at::MEMBER];
        if count > MEMBERS_MAX || usize::from(member) >= count {
            return None;
        }
        let members: Option<Vec<Member>> = (0..count).map(|index| member_at(block, index)).collect();
        Some(Superblock {
            array: array_at(block, at::ARRAY),
            member,
            generation: u64_at(block, at::GENERATION),
            epoch: u32_at(block, at::EPOCH),
            data_count: block[at::DATA_COUNT],
            parity_count: block[at::PARITY_COUNT],
            level: block[at::LEVEL],
            chunk_blocks: u32_at(block, at::CHUNK_BLOCKS),
            group_stripes: u32_at(block, at::GROUP_STRIPES),
            zones: u32_at(block, at::ZONES),
            zone_size_blocks: u32_at(block, at::ZONE_SIZE),
            zone_capacity_blocks: u32_at(block, at::ZONE_CAPACITY),
            volume_blocks: u64_at(block, at::VOLUME_BLOCKS),
            large_chunk_blocks: u32_at(block, at::LARGE_CHUNK_BLOCKS),
            segments_small: block[at::SEGMENTS_SMALL],
            segments_large: block[at::SEGMENTS_LARGE],
            append: block[at::APPEND],
            rebuild_from: u64_at(block, at::REBUILD_FROM),
            windows_gone: PieceSet::from_bits(u32_at(block, at::WINDOWS_GONE)),
            checkpoint: checkpoint_at(block),
            settled: Version {
                epoch: u32_at(block, at::SETTLED_EPOCH),
                generation: u64_at(block, at::SETTLED),
            },
            mount_tag: u64_at(block, at::MOUNT_TAG),
            members: members?,
        })
    }
}

fn put_checkpoint(checkpoint: &Checkpoint, block: &mut Block) {
    assert!(checkpoint.unsealed.len() <= UNSEALED_MAX);
    let count = u32::try_from(checkpoint.unsealed.len()).expect("few");
    put(block, at::CHECKPOINT, &checkpoint.number.to_le_bytes());
    put(block, at::CHECKPOINT_BLOCKS, &checkpoint.blocks.to_le_bytes());
    put(block, at::CHECKPOINT_SEQUENCE, &checkpoint.sequence.to_le_bytes());
    put(block, at::CHECKPOINT_SEGMENT, &checkpoint.segment.to_le_bytes());
    put(block, at::CHECKPOINT_UNSEALED, &count.to_le_bytes());
    for (index, unsealed) in checkpoint.unsealed.iter().enumerate() {
        put(block, at::CHECKPOINT_STRIPES + 12 * index, &unsealed.segment.to_le_bytes());
        put(block, at::CHECKPOINT_STRIPES + 12 * index + 8, &unsealed.stripes.to_le_bytes());
    }
}

/// The checkpoint that a record names, if any.
fn checkpoint_at(block: &Block) -> Option<Checkpoint> {
    let number = u32_at(block, at::CHECKPOINT);
    let count = usize::try_from(u32_at(block, at::CHECKPOINT_UNSEALED)).ok()?;
    let unsealed = |index: usize| Unsealed {
        segment: u64_at(block, at::CHECKPOINT_STRIPES + 12 * index),
        stripes: u32_at(block, at::CHECKPOINT_STRIPES + 12 * index + 8),
    };
    (number > 0 && count <= UNSEALED_MAX).then(|| Checkpoint {
        number,
        blocks: u32_at(block, at::CHECKPOINT_BLOCKS),
        sequence: u64_at(block, at::CHECKPOINT_SEQUENCE),
        segment: u64_at(block, at::CHECKPOINT_SEGMENT),
        unsealed: (0..count).map(unsealed).collect(),
    })
}

fn member_at(block: &Block, index: usize) -> Option<Member> {
    let state = match block[at::MEMBER_STATES + index] {
        1 => MemberState::Active,
        2 => MemberState::Failed,
        3 => MemberState::Rebuilding,
        _ => return None,
    };
    Some(Member { uuid: array_at(block, at::MEMBER_UUIDS + 16 * index), state })
}

fn is_whole(block: &Block) -> bool {
    let mut bytes = *block;
    put(&mut bytes, at::CRC, &[0; 4]);
    let whole = crc32c(&bytes) == u32_at(block, at::CRC);
    &block[..8] == MAGIC && whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Superblock {
        Superblock {
            array: [7; 16],
            member: 2,
            generation: 12,
            epoch: 3,
            data_count: 2,
            parity_count: 1,
            level: 5,
            chunk_blocks: 1,
            group_stripes: 256,
            zones: 40,
            zone_size_blocks: 16384,
            zone_capacity_blocks: 12288,
            volume_blocks: 1 << 20,
            large_chunk_blocks: 4,
            segments_small: 1,
            segments_large: 3,
            append: 1,
            rebuild_from: 3 << 33,
            windows_gone: [0, 2].into_iter().collect(),
            checkpoint: Some(Checkpoint {
                number: 9,
                blocks: 12,
                sequence: 5 << 40,
                segment: 7 << 32,
                unsealed: vec![
                    Unsealed { segment: 6 << 32, stripes: 17 },
                    Unsealed { segment: 1, stripes: 0 },
                ],
            }),
            settled: Version { epoch: 3, generation: 11 },
            mount_tag: 0x0123_4567_89ab_cdef,
            members: vec![
                Member { uuid: [1; 16], state: MemberState::Active },
                Member { uuid: [2; 16], state: MemberState::Failed },
                Member { uuid: [3; 16], state: MemberState::Rebuilding },
            ],
        }
    }

    #[test]
    fn a_record_comes_back_and_a_damaged_one_does_not() {
        let mut block = [0; BLOCK_BYTES];
        record().encode(&mut block);
        assert_eq!(Superblock::decode(&block), Some(record()));
        for at in [0, 9, 17, 61, 84, 97, 130, 644, 690, 1459, 1470, 4095] {
            let mut damaged = block;
            damaged[at] ^= 1;
            assert_eq!(Superblock::decode(&damaged), None, "byte {at}");
        }
        assert_eq!(Superblock::decode(&[0; BLOCK_BYTES]), None);
    }
}
