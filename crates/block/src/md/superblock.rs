//! Superblock, versions 1.0, 1.1 and 1.2: one record, at three places.
//!
//! [`Superblock::decode`] keeps every field as it is: whoever examines a device wants to see wrong ones too. What makes an
//! array one that can be served is said in [`super::assembly`]. The record's checksum is a sum of words, so that many
//! damages look right: nothing here is believed for its sake.

use super::{DeviceNumber, Role, Uuid};
use base::bytes::{array_at, put, u16_at, u32_at, u64_at};
use base::record_fields;
use std::fmt;

record_fields! { HEAD_BYTES;
    MAGIC: 0, 4, "`0xa92b4efc`";
    MAJOR: 4, 4, "major version, 1";
    FEATURES: 8, 4, "feature bits: 1 bitmap, 2 recovery offset, 4 reshape, 8 bad blocks, 16 replacement, 32 reshape backwards, 64 new offset, 128 recovery by bitmap, 256 clustered, 512 journal, 1024 PPL, 2048 PPL as a ring, 4096 RAID-0 layout";
    PAD0: 12, 4, "zero";
    ARRAY: 16, 16, "array UUID";
    NAME: 32, 32, "`host:name`, zeros behind";
    CREATED: 64, 8, "seconds since 1970 in the low 40 bits, microseconds above";
    LEVEL: 72, 4, "RAID level, signed";
    LAYOUT: 76, 4, "layout, by level";
    SIZE: 80, 8, "sectors used of each member";
    CHUNK: 88, 4, "sectors of a chunk";
    MEMBERS: 92, 4, "members of the array, without spares and journal";
    LOG: 96, 4, "bitmap: sectors from the superblock, signed. PPL: the same in the low 16 bits, its sectors in the high 16";
    NEW_LEVEL: 100, 4, "of a reshape: the level it leads to";
    RESHAPE_POSITION: 104, 8, "sectors of the array that were reshaped";
    DELTA_DISKS: 112, 4, "members that the reshape adds, signed";
    NEW_LAYOUT: 116, 4, "layout it leads to";
    NEW_CHUNK: 120, 4, "sectors of a chunk it leads to";
    NEW_OFFSET: 124, 4, "sectors by which it moves the data, signed";
    DATA_OFFSET: 128, 8, "first sector of the data; may differ between members";
    DATA_SIZE: 136, 8, "sectors that the device has for data";
    SUPER_OFFSET: 144, 8, "sector of this record";
    RECOVERY_OFFSET: 152, 8, "feature 2: sectors of this member that were recovered. Journal: its tail, in sectors of its data";
    DEVICE_NUMBER: 160, 4, "index of this device into the roles";
    CORRECTED: 164, 4, "read errors that were corrected";
    DEVICE: 168, 16, "device UUID";
    DEVICE_FLAGS: 184, 1, "1 write-mostly, 2 failfast";
    BAD_BLOCK_SHIFT: 185, 1, "entries of the bad-block log count units of 2^this sectors";
    BAD_BLOCK_SECTORS: 186, 2, "sectors of the bad-block log";
    BAD_BLOCK_OFFSET: 188, 4, "its sectors from the superblock, signed";
    UPDATED: 192, 8, "time of the last update, as `created`";
    EVENTS: 200, 8, "counts updates; members at most one behind the newest are fresh";
    RESYNC_OFFSET: 208, 8, "sectors in sync; all ones when clean";
    CHECKSUM: 216, 4, "sum of all 32-bit words of the record with this field zero, carries added";
    ROLES_COUNT: 220, 4, "entries of the roles, at most 1920";
    LOGICAL_BLOCK: 224, 4, "bytes of a logical block, from Linux 6.19 on; zero before";
    PAD3: 228, 28, "zero";
}

/// Bytes before the roles.
pub const HEAD_BYTES: usize = 256;
/// Bytes of the largest record, with all roles.
pub const SUPERBLOCK_BYTES: usize = 4096;
/// Sectors of the same.
pub const SUPERBLOCK_SECTORS: u64 = 8;
/// Most roles.
pub const ROLES_MAX: usize = (SUPERBLOCK_BYTES - HEAD_BYTES) / 2;
/// Numbers of devices whose roles fit the first sector, which no power failure tears.
pub const ROLES_OF_A_SECTOR: u32 = 128;
/// First word of the record.
pub const MAGIC: u32 = 0xa92b_4efc;
/// Resync offset of an array that is clean.
pub const CLEAN: u64 = u64::MAX;

/// Feature bits.
pub mod feature {
    /// Bitmap, at the bitmap offset.
    pub const BITMAP: u32 = 1;
    /// Recovery offset: the member is not whole.
    pub const RECOVERY_OFFSET: u32 = 2;
    /// Reshape in progress.
    pub const RESHAPE: u32 = 4;
    /// Bad-block log with entries.
    pub const BAD_BLOCKS: u32 = 8;
    /// Device that becomes a copy of a member which still works.
    pub const REPLACEMENT: u32 = 16;
    /// Reshape that goes backwards.
    pub const RESHAPE_BACKWARDS: u32 = 32;
    /// Reshape that moves the data.
    pub const NEW_OFFSET: u32 = 64;
    /// Recovery by the bitmap.
    pub const RECOVERY_BITMAP: u32 = 128;
    /// Clustered array.
    pub const CLUSTERED: u32 = 256;
    /// Journal device.
    pub const JOURNAL: u32 = 512;
    /// Partial parity log, a single one.
    pub const PPL: u32 = 1024;
    /// Partial parity logs, several in a ring.
    pub const PPL_RING: u32 = 2048;
    /// Layout of RAID-0 is meant.
    pub const RAID0_LAYOUT: u32 = 4096;

    /// All feature bits with their names.
    pub const NAMES: &[(u32, &str)] = &[
        (BITMAP, "bitmap"),
        (RECOVERY_OFFSET, "recovery offset"),
        (RESHAPE, "reshape"),
        (BAD_BLOCKS, "bad blocks"),
        (REPLACEMENT, "replacement"),
        (RESHAPE_BACKWARDS, "reshape backwards"),
        (NEW_OFFSET, "new offset"),
        (RECOVERY_BITMAP, "recovery by bitmap"),
        (CLUSTERED, "clustered"),
        (JOURNAL, "journal"),
        (PPL, "PPL"),
        (PPL_RING, "PPL as a ring"),
        (RAID0_LAYOUT, "RAID-0 layout"),
    ];

    /// Bits that have a name.
    #[must_use]
    pub fn known() -> u32 {
        NAMES.iter().fold(0, |all, (bit, _)| all | bit)
    }
}

/// Place of a superblock on its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// 1.0: near the end.
    V1_0,
    /// 1.1: at the start.
    V1_1,
    /// 1.2: 4 KiB from the start.
    V1_2,
}

impl Version {
    /// All of them.
    pub const ALL: [Version; 3] = [Version::V1_0, Version::V1_1, Version::V1_2];

    /// Sector of the superblock on a device of this many sectors; `None` where it does not fit.
    #[must_use]
    pub fn sector(self, device_sectors: u64) -> Option<u64> {
        let sector = match self {
            Version::V1_0 => device_sectors.checked_sub(16)? / 8 * 8,
            Version::V1_1 => 0,
            Version::V1_2 => 8,
        };
        (sector.checked_add(SUPERBLOCK_SECTORS)? <= device_sectors).then_some(sector)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Version::V1_0 => "1.0",
            Version::V1_1 => "1.1",
            Version::V1_2 => "1.2",
        })
    }
}

/// Identity of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Array UUID.
    pub uuid: Uuid,
    /// Name in bytes, zeros behind.
    pub name: [u8; 32],
    /// Time of creation as md keeps it.
    pub created: u64,
}

/// Shape of an array: what all of its members agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// RAID level.
    pub level: i32,
    /// Layout number.
    pub layout: u32,
    /// Sectors used of each member.
    pub size: u64,
    /// Sectors of a chunk.
    pub chunk: u32,
    /// Members.
    pub members: u32,
}

/// Target of a reshape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reshape {
    /// Level.
    pub level: u32,
    /// Sectors of the array that were reshaped.
    pub position: u64,
    /// Members added.
    pub delta: i32,
    /// Layout number.
    pub layout: u32,
    /// Sectors of a chunk.
    pub chunk: u32,
    /// Sectors by which data moves.
    pub offset: i32,
}

/// Device that holds the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Index into the roles.
    pub number: DeviceNumber,
    /// Device UUID.
    pub uuid: Uuid,
    /// First sector of the data.
    pub data_offset: u64,
    /// Sectors for data.
    pub data_size: u64,
    /// Sector of the record.
    pub super_offset: u64,
    /// Sectors recovered, or the tail of a journal.
    pub recovery_offset: u64,
    /// Read errors corrected.
    pub corrected: u32,
    /// Flags: 1 write-mostly, 2 failfast.
    pub flags: u8,
    /// Bad-block log.
    pub bad_blocks: BadBlockPlace,
}

/// Place of a bad-block log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BadBlockPlace {
    /// Entries count units of 2^shift sectors.
    pub shift: u8,
    /// Sectors of the log; zero where there is none.
    pub sectors: u16,
    /// Sectors from the superblock.
    pub offset: i32,
}

/// State of an array, as one member last had it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Time of the update as md keeps it.
    pub updated: u64,
    /// Updates counted.
    pub events: u64,
    /// Sectors in sync; [`CLEAN`] when all are.
    pub resync_offset: u64,
}

/// Entry of the roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleEntry {
    /// Member, or what is to become one.
    Member(Role),
    /// Journal device.
    Journal,
    /// Device that failed.
    Faulty,
    /// Spare, or nothing.
    Spare,
}

impl RoleEntry {
    /// Smallest number that is no role of a member; numbers between it and the journal's mean nothing.
    const RESERVED: u16 = 0xff00;

    /// Entry of a number.
    #[must_use]
    pub fn of(number: u16) -> RoleEntry {
        match number {
            0xfffd => RoleEntry::Journal,
            0xffff => RoleEntry::Spare,
            RoleEntry::RESERVED.. => RoleEntry::Faulty,
            role => RoleEntry::Member(Role(role)),
        }
    }
}

/// Superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Feature bits.
    pub features: u32,
    /// Identity of the array.
    pub array: Identity,
    /// Shape of the array.
    pub shape: Shape,
    /// Place of bitmap or PPL, as the word on the media.
    pub log: u32,
    /// Target of a reshape; zeros without.
    pub reshape: Reshape,
    /// Device that holds the record.
    pub device: Device,
    /// State of the array.
    pub state: State,
    /// Bytes of a logical block; zero unless a kernel from 6.19 on wrote it.
    pub logical_block: u32,
    /// Numbers of the roles by device number.
    pub roles: Vec<u16>,
}

/// Superblock with what tells whether its bytes are whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Superblock.
    pub superblock: Superblock,
    /// Checksum that is on the media.
    pub stored: u32,
    /// Checksum of the bytes.
    pub computed: u32,
    /// Word 12 of the record, which should be zero.
    pub pad0: u32,
    /// First byte behind 228 that is not zero, by its offset.
    pub pad3: Option<usize>,
}

/// Reason why bytes hold no superblock 1.x.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotASuperblock {
    /// No magic number.
    Magic(u32),
    /// Other major version.
    Major(u32),
    /// More roles than there is room for.
    Roles(u32),
}

impl fmt::Display for NotASuperblock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotASuperblock::Magic(word) => write!(f, "no superblock of md: the magic number is {word:08x}"),
            NotASuperblock::Major(major) => write!(f, "a superblock of md with major version {major}, not 1"),
            NotASuperblock::Roles(count) => {
                write!(f, "a superblock of md with {count} roles; {ROLES_MAX} fit")
            }
        }
    }
}

impl std::error::Error for NotASuperblock {}

/// Checksum of a record with its roles; the field itself counts as zero.
fn checksum(record: &[u8]) -> u32 {
    let mut sum = 0_u64;
    for (index, word) in record.chunks(4).enumerate() {
        if index * 4 != at::CHECKSUM {
            let mut bytes = [0; 4];
            bytes[..word.len()].copy_from_slice(word);
            sum += u64::from(u32::from_le_bytes(bytes));
        }
    }
    let folded = (sum & 0xffff_ffff) + (sum >> 32);
    // One carry is added and the next is dropped, as md does.
    u32::try_from(folded & 0xffff_ffff).unwrap_or(u32::MAX)
}

fn i32_at(bytes: &[u8], at: usize) -> i32 {
    i32::from_le_bytes(array_at(bytes, at))
}

impl Superblock {
    /// Reads the record at the start of `block`, whatever its fields say.
    ///
    /// # Errors
    /// When there is none.
    pub fn decode(block: &[u8; SUPERBLOCK_BYTES]) -> Result<Reading, NotASuperblock> {
        let head = &block[..HEAD_BYTES];
        if u32_at(head, at::MAGIC) != MAGIC {
            return Err(NotASuperblock::Magic(u32_at(head, at::MAGIC)));
        }
        if u32_at(head, at::MAJOR) != 1 {
            return Err(NotASuperblock::Major(u32_at(head, at::MAJOR)));
        }
        let count = u32_at(head, at::ROLES_COUNT);
        let roles_count = usize::try_from(count).ok().filter(|count| *count <= ROLES_MAX);
        let roles_count = roles_count.ok_or(NotASuperblock::Roles(count))?;
        let record = &block[..HEAD_BYTES + 2 * roles_count];
        let superblock = Superblock {
            features: u32_at(head, at::FEATURES),
            array: Identity {
                uuid: Uuid(array_at(head, at::ARRAY)),
                name: array_at(head, at::NAME),
                created: u64_at(head, at::CREATED),
            },
            shape: Shape {
                level: i32_at(head, at::LEVEL),
                layout: u32_at(head, at::LAYOUT),
                size: u64_at(head, at::SIZE),
                chunk: u32_at(head, at::CHUNK),
                members: u32_at(head, at::MEMBERS),
            },
            log: u32_at(head, at::LOG),
            reshape: reshape_of(head),
            device: device_of(head),
            state: State {
                updated: u64_at(head, at::UPDATED),
                events: u64_at(head, at::EVENTS),
                resync_offset: u64_at(head, at::RESYNC_OFFSET),
            },
            logical_block: u32_at(head, at::LOGICAL_BLOCK),
            roles: (0..roles_count).map(|role| u16_at(block, HEAD_BYTES + 2 * role)).collect(),
        };
        Ok(Reading {
            superblock,
            stored: u32_at(head, at::CHECKSUM),
            computed: checksum(record),
            pad0: u32_at(head, at::PAD0),
            pad3: (at::PAD3..HEAD_BYTES).find(|byte| head[*byte] != 0),
        })
    }

    /// Writes the record; what lies behind its roles becomes zero.
    ///
    /// # Panics
    /// When there are more roles than fit.
    pub fn encode(&self, block: &mut [u8; SUPERBLOCK_BYTES]) {
        assert!(self.roles.len() <= ROLES_MAX, "{} roles", self.roles.len());
        block.fill(0);
        put(block, at::MAGIC, &MAGIC.to_le_bytes());
        put(block, at::MAJOR, &1_u32.to_le_bytes());
        put(block, at::FEATURES, &self.features.to_le_bytes());
        put(block, at::ARRAY, &self.array.uuid.0);
        put(block, at::NAME, &self.array.name);
        put(block, at::CREATED, &self.array.created.to_le_bytes());
        put(block, at::LEVEL, &self.shape.level.to_le_bytes());
        put(block, at::LAYOUT, &self.shape.layout.to_le_bytes());
        put(block, at::SIZE, &self.shape.size.to_le_bytes());
        put(block, at::CHUNK, &self.shape.chunk.to_le_bytes());
        put(block, at::MEMBERS, &self.shape.members.to_le_bytes());
        put(block, at::LOG, &self.log.to_le_bytes());
        put_reshape(block, &self.reshape);
        put_device(block, &self.device);
        put(block, at::UPDATED, &self.state.updated.to_le_bytes());
        put(block, at::EVENTS, &self.state.events.to_le_bytes());
        put(block, at::RESYNC_OFFSET, &self.state.resync_offset.to_le_bytes());
        let count = u32::try_from(self.roles.len()).expect("at most 1920 roles");
        put(block, at::ROLES_COUNT, &count.to_le_bytes());
        put(block, at::LOGICAL_BLOCK, &self.logical_block.to_le_bytes());
        for (index, role) in self.roles.iter().enumerate() {
            put(block, HEAD_BYTES + 2 * index, &role.to_le_bytes());
        }
        let sum = checksum(&block[..HEAD_BYTES + 2 * self.roles.len()]);
        put(block, at::CHECKSUM, &sum.to_le_bytes());
    }

    /// True when all of the feature bits are set.
    #[must_use]
    pub fn has(&self, features: u32) -> bool {
        self.features & features == features
    }

    /// Role of a device by its number, as this record has it; `None` beyond the roles.
    #[must_use]
    pub fn role_of(&self, number: DeviceNumber) -> Option<RoleEntry> {
        let number = self.roles.get(usize::try_from(number.0).ok()?)?;
        Some(RoleEntry::of(*number))
    }

    /// Role of the device that holds the record; one without an entry is a spare.
    #[must_use]
    pub fn role(&self) -> RoleEntry {
        self.role_of(self.device.number).unwrap_or(RoleEntry::Spare)
    }

    /// True when the array was stopped cleanly, or idle.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.state.resync_offset == CLEAN
    }

    /// First sector of the bitmap; `None` without one, or where the offset leads nowhere.
    #[must_use]
    pub fn bitmap_sector(&self) -> Option<u64> {
        let offset = i64::from(i32::from_le_bytes(self.log.to_le_bytes()));
        let has_bitmap = self.has(feature::BITMAP) && offset != 0;
        has_bitmap.then(|| self.device.super_offset.checked_add_signed(offset)).flatten()
    }

    /// First sector of the partial parity log and its sectors; `None` without one.
    #[must_use]
    pub fn ppl_place(&self) -> Option<(u64, u64)> {
        if self.features & (feature::PPL | feature::PPL_RING) == 0 {
            return None;
        }
        let word = self.log.to_le_bytes();
        let offset = i16::from_le_bytes([word[0], word[1]]);
        let sectors = u16::from_le_bytes([word[2], word[3]]);
        let start = self.device.super_offset.checked_add_signed(i64::from(offset))?;
        Some((start, u64::from(sectors)))
    }

    /// First sector of the bad-block log and its sectors; `None` without one.
    #[must_use]
    pub fn bad_block_place(&self) -> Option<(u64, u64)> {
        let place = self.device.bad_blocks;
        let start = self.device.super_offset.checked_add_signed(i64::from(place.offset))?;
        (place.sectors != 0 && place.offset != 0).then_some((start, u64::from(place.sectors)))
    }

    /// Microseconds of the last update, by which our engine marks its own where there are partial parity logs
    /// ([`super::ppl::Origin`]). Whatever else writes superblocks leaves zero.
    #[must_use]
    pub fn mark(&self) -> u32 {
        u32::try_from(self.state.updated >> TIME_SECONDS_BITS).expect("24 bits")
    }

    /// Name of the array in words, without the zeros behind it.
    #[must_use]
    pub fn name(&self) -> String {
        let bytes = self.array.name.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(bytes).into_owned()
    }
}

/// Bits of the seconds in a time as md keeps it.
const TIME_SECONDS_BITS: u32 = 40;

/// Seconds since 1970 of a time as md keeps it.
#[must_use]
pub fn seconds(time: u64) -> u64 {
    time & ((1 << TIME_SECONDS_BITS) - 1)
}

/// Time as md keeps it.
#[must_use]
pub fn time(seconds: u64, microseconds: u32) -> u64 {
    seconds | u64::from(microseconds) << TIME_SECONDS_BITS
}

fn reshape_of(head: &[u8]) -> Reshape {
    Reshape {
        level: u32_at(head, at::NEW_LEVEL),
        position: u64_at(head, at::RESHAPE_POSITION),
        delta: i32_at(head, at::DELTA_DISKS),
        layout: u32_at(head, at::NEW_LAYOUT),
        chunk: u32_at(head, at::NEW_CHUNK),
        offset: i32_at(head, at::NEW_OFFSET),
    }
}

fn put_reshape(block: &mut [u8], reshape: &Reshape) {
    put(block, at::NEW_LEVEL, &reshape.level.to_le_bytes());
    put(block, at::RESHAPE_POSITION, &reshape.position.to_le_bytes());
    put(block, at::DELTA_DISKS, &reshape.delta.to_le_bytes());
    put(block, at::NEW_LAYOUT, &reshape.layout.to_le_bytes());
    put(block, at::NEW_CHUNK, &reshape.chunk.to_le_bytes());
    put(block, at::NEW_OFFSET, &reshape.offset.to_le_bytes());
}

fn device_of(head: &[u8]) -> Device {
    Device {
        number: DeviceNumber(u32_at(head, at::DEVICE_NUMBER)),
        uuid: Uuid(array_at(head, at::DEVICE)),
        data_offset: u64_at(head, at::DATA_OFFSET),
        data_size: u64_at(head, at::DATA_SIZE),
        super_offset: u64_at(head, at::SUPER_OFFSET),
        recovery_offset: u64_at(head, at::RECOVERY_OFFSET),
        corrected: u32_at(head, at::CORRECTED),
        flags: head[at::DEVICE_FLAGS],
        bad_blocks: BadBlockPlace {
            shift: head[at::BAD_BLOCK_SHIFT],
            sectors: u16_at(head, at::BAD_BLOCK_SECTORS),
            offset: i32_at(head, at::BAD_BLOCK_OFFSET),
        },
    }
}

fn put_device(block: &mut [u8], device: &Device) {
    put(block, at::DEVICE_NUMBER, &device.number.0.to_le_bytes());
    put(block, at::DEVICE, &device.uuid.0);
    put(block, at::DATA_OFFSET, &device.data_offset.to_le_bytes());
    put(block, at::DATA_SIZE, &device.data_size.to_le_bytes());
    put(block, at::SUPER_OFFSET, &device.super_offset.to_le_bytes());
    put(block, at::RECOVERY_OFFSET, &device.recovery_offset.to_le_bytes());
    put(block, at::CORRECTED, &device.corrected.to_le_bytes());
    block[at::DEVICE_FLAGS] = device.flags;
    block[at::BAD_BLOCK_SHIFT] = device.bad_blocks.shift;
    put(block, at::BAD_BLOCK_SECTORS, &device.bad_blocks.sectors.to_le_bytes());
    put(block, at::BAD_BLOCK_OFFSET, &device.bad_blocks.offset.to_le_bytes());
}
