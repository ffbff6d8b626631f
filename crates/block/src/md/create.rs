//! What a new array writes on its members: places, sizes and defaults as mdadm has them.
//!
//! Nothing is written here. [`plan`] says for each member which bytes go where; the superblock goes last, when all else is
//! durable, so that a member that carries one is complete.

use super::bitmap::{self, Head};
use super::geometry::Geometry;
use super::ppl::{self, Entry, Header, Origin};
use super::superblock::{
    BadBlockPlace, CLEAN, Device, Identity, Reshape, SUPERBLOCK_BYTES, SUPERBLOCK_SECTORS, Shape, State,
    Superblock, Version, feature, time,
};
use super::{DeviceNumber, SECTOR_BYTES, SECTOR_BYTES_U64, Uuid};
use std::fmt;

/// Entries of the roles that mdadm makes.
const ROLES: usize = 128;
/// Number of a role that nobody has.
pub(super) const NOBODY: u16 = 0xffff;
/// Role of a journal.
pub(super) const JOURNAL: u16 = 0xfffd;
/// Microseconds of the first update of an array with a journal: its dirty mark says that parities are not right yet
/// ([`super::assembly::journal_unsynced_from`]).
pub(super) const MARK: u32 = 1;
/// Sectors of a bad-block log.
const BAD_BLOCK_SECTORS: u64 = 8;
/// Data offsets are multiples of this many sectors.
const MEBIBYTE_SECTORS: u64 = 2048;
/// Headroom for a reshape: a thousandth of the member, 128 MiB at most.
const HEADROOM_SECTORS_MAX: u64 = 128 * MEBIBYTE_SECTORS;
/// Region of a bitmap when nothing is said.
const REGION_BYTES: u32 = 64 << 20;
/// Smallest region.
const REGION_BYTES_MIN: u32 = 4096;
/// Seconds between two rounds that clear bits.
const DAEMON_SLEEP: u32 = 5;
/// Smallest chunk, a page of the kernel.
const CHUNK_SECTORS_MIN: u32 = 8;

/// Write-intent bitmap that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitmapWish {
    /// No bitmap.
    None,
    /// Bitmap on the members, with regions of so many bytes, or as mdadm chooses.
    Internal(Option<u32>),
}

/// Array that is wanted.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Place of the superblocks.
    pub version: Version,
    /// Identity, and the time of creation.
    pub array: Identity,
    /// Shape; a size of zero is the largest that fits.
    pub shape: Shape,
    /// First sector of the data, when it was said.
    pub data_offset: Option<u64>,
    /// Bitmap.
    pub bitmap: BitmapWish,
    /// Sectors of a partial parity log; `None` for none.
    pub ppl: Option<u16>,
    /// A device of its own becomes the journal: see [`plan_journal`].
    pub journal: bool,
    /// True when the parities count as right.
    pub clean: bool,
}

/// Device that becomes a member.
#[derive(Clone, Copy, Debug)]
pub struct Blank {
    /// Sectors of the device.
    pub sectors: u64,
    /// Identity that the device gets.
    pub uuid: Uuid,
}

/// Bytes for one member.
#[derive(Clone, Debug)]
pub struct MemberPlan {
    /// Superblock, written last.
    pub superblock: Superblock,
    /// Sectors and bytes that are durable before the superblock: bad-block log and bitmap.
    pub before: Vec<(u64, Vec<u8>)>,
}

impl MemberPlan {
    /// Bytes of the superblock.
    #[must_use]
    pub fn record(&self) -> [u8; SUPERBLOCK_BYTES] {
        let mut block = [0; SUPERBLOCK_BYTES];
        self.superblock.encode(&mut block);
        block
    }
}

/// Reason why an array cannot be made so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Impossible {
    /// Level, layout, chunk or count of members that md does not have.
    Shape(Shape),
    /// Devices that are not as many as roles, or none.
    Devices(usize),
    /// Device that is too small, by its role, with its sectors and those it takes.
    TooSmall(usize, u64, u64),
    /// Size beyond what the smallest device has, in sectors.
    Size(u64, u64),
    /// Data offset that leaves no room for what lies before, with the least one.
    DataOffset(u64, u64),
    /// Data offset with superblocks at the end.
    DataOffsetOf10,
    /// Partial parity log with another level than 5, or with a bitmap, or with superblocks at the end.
    Ppl(i32),
    /// Journal beside a bitmap or a partial parity log.
    Journal,
    /// Journal device that is too small, with its sectors and those it takes.
    JournalTooSmall(u64, u64),
    /// Region that is no power of two from 4 KiB, or needs more bits than there is room for; the least one.
    Region(u32, u32),
}

impl fmt::Display for Impossible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Impossible::Shape(shape) => write!(
                f,
                "no array of md has level {}, layout {}, {} members and chunks of {} sectors: levels are 4, 5 and 6, chunks \
                 powers of two from 4 KiB, members 2 to 32 (RAID-6 from 4)",
                shape.level, shape.layout, shape.members, shape.chunk
            ),
            Impossible::Devices(count) => write!(f, "{count} devices do not fill the roles"),
            Impossible::TooSmall(role, sectors, needed) => {
                write!(f, "member {role} has {sectors} sectors; {needed} are needed at least")
            }
            Impossible::Size(wanted, available) => write!(
                f,
                "a size of {} KiB for each member: {} KiB are available, and it takes a chunk at least",
                wanted / 2,
                available / 2
            ),
            Impossible::DataOffset(wanted, least) => write!(
                f,
                "a data offset of {} KiB leaves no room for superblock, bitmap and bad-block log: {} KiB are the least",
                wanted / 2,
                least / 2
            ),
            Impossible::DataOffsetOf10 => f.write_str(
                "with metadata 1.0 the data begin at the start of the member: leave out the data offset",
            ),
            Impossible::Ppl(level) => write!(
                f,
                "a partial parity log on RAID-{level}: it takes RAID-5, metadata 1.1 or 1.2, and no bitmap"
            ),
            Impossible::Journal => f.write_str(
                "a journal takes the place of a bitmap and of a partial parity log: leave those out",
            ),
            Impossible::JournalTooSmall(sectors, needed) => {
                write!(f, "the journal has {sectors} sectors; {needed} are needed at least")
            }
            Impossible::Region(bytes, least) => write!(
                f,
                "regions of {bytes} bytes: the bitmap takes a power of two, from {least} bytes on members of this size"
            ),
        }
    }
}

impl std::error::Error for Impossible {}

/// Sectors that mdadm keeps for a log on a device: partial parity, or a bitmap.
fn log_room(ppl: Option<u16>, sectors: u64) -> u64 {
    match sectors {
        _ if ppl.is_some() => ppl.map_or(0, u64::from),
        ..128 => 0,
        419_430_528.. => 256,
        16_777_225.. => 128,
        _ => 8,
    }
}

/// First sector of the data where nothing is said: room for what lies before, and for a later reshape.
#[must_use]
pub fn default_data_offset(version: Version, sectors: u64, chunk: u32) -> u64 {
    data_offset_behind(log_room(None, sectors), version, sectors, chunk)
}

fn data_offset_behind(log: u64, version: Version, sectors: u64, chunk: u32) -> u64 {
    if version == Version::V1_0 {
        return 0;
    }
    let mut headroom = HEADROOM_SECTORS_MAX;
    while headroom * 1024 > sectors && headroom > 2 * u64::from(chunk) {
        headroom /= 2;
    }
    (24 + log + headroom).next_multiple_of(MEBIBYTE_SECTORS)
}

/// Sectors for data on a device, as long as it is not known how large its bitmap is.
fn free_sectors(version: Version, sectors: u64, data_offset: u64) -> Option<u64> {
    match version {
        Version::V1_0 => (sectors / 8 * 8).checked_sub(24 + log_room(None, sectors)),
        Version::V1_1 | Version::V1_2 => sectors.checked_sub(data_offset),
    }
}

/// Refuses an array that md does not have, whatever its members are.
///
/// # Errors
/// With the shape.
pub fn expect_shape(shape: &Shape) -> Result<(), Impossible> {
    let chunk = shape.chunk;
    if Geometry::of(shape).is_none() || !chunk.is_power_of_two() || chunk < CHUNK_SECTORS_MIN {
        return Err(Impossible::Shape(*shape));
    }
    Ok(())
}

/// Plans of members, by role; `None` where one is missing.
///
/// # Errors
/// When the array cannot be made so.
pub fn plan(wish: &Wish, devices: &[Option<Blank>]) -> Result<Vec<Option<MemberPlan>>, Impossible> {
    let mut wish = wish.clone();
    let chunk = wish.shape.chunk;
    expect_shape(&wish.shape)?;
    let present =
        || devices.iter().enumerate().filter_map(|(role, device)| device.map(|device| (role, device)));
    let first = present().next().filter(|_| u32::try_from(devices.len()) == Ok(wish.shape.members));
    let (_, first) = first.ok_or(Impossible::Devices(devices.len()))?;
    let excludes_ppl =
        wish.shape.level != 5 || wish.version == Version::V1_0 || wish.bitmap != BitmapWish::None;
    if wish.ppl.is_some() && excludes_ppl {
        return Err(Impossible::Ppl(wish.shape.level));
    }
    if wish.journal && (wish.ppl.is_some() || wish.bitmap != BitmapWish::None) {
        return Err(Impossible::Journal);
    }
    if wish.version == Version::V1_0 && wish.data_offset.is_some_and(|offset| offset > 0) {
        return Err(Impossible::DataOffsetOf10);
    }
    let log = log_room(wish.ppl, first.sectors);
    let data_offset =
        wish.data_offset.unwrap_or_else(|| data_offset_behind(log, wish.version, first.sectors, chunk));
    let mut free = u64::MAX;
    let mut room = u64::MAX;
    for (role, device) in present() {
        let least = data_offset.saturating_add(u64::from(chunk)).saturating_add(32);
        let here = free_sectors(wish.version, device.sectors, data_offset);
        let here = here.filter(|free| *free >= u64::from(chunk));
        free = free.min(here.ok_or(Impossible::TooSmall(role, device.sectors, least))?);
        room = room.min(log_room(None, device.sectors));
    }
    let wanted = if wish.shape.size == 0 { free } else { wish.shape.size };
    if wanted > free || wanted < u64::from(chunk) {
        return Err(Impossible::Size(wanted, free));
    }
    wish.shape.size = wanted / u64::from(chunk) * u64::from(chunk);
    let bitmap = bitmap_of(&wish, room)?;
    let log = bitmap.as_ref().map(|bytes| sectors_of(bytes)).or(wish.ppl.map(u64::from));
    let present = devices.iter().enumerate().map(|(role, device)| {
        let Some(device) = device else { return Ok(None) };
        let superblock = superblock_of(&wish, (role, device), data_offset, log)?;
        let ppl = wish.ppl.map(|sectors| empty_log(&wish, role, sectors));
        let superblock = Superblock { roles: roles_of(&wish, devices), ..superblock };
        Ok(Some(with_log(superblock, bitmap.clone(), ppl)))
    });
    present.collect()
}

/// Plan of the journal of a new array; `member` is the superblock of one of its members. A journal has `least` sectors for data at least.
///
/// # Errors
/// When the device is too small.
pub fn plan_journal(
    version: Version,
    member: &Superblock,
    device: &Blank,
    least: u64,
) -> Result<MemberPlan, Impossible> {
    let data_offset = member.device.data_offset;
    let too_small = Impossible::JournalTooSmall(device.sectors, data_offset.saturating_add(least + 64));
    let super_offset = version.sector(device.sectors).ok_or(too_small)?;
    let data_size = match version {
        Version::V1_0 => super_offset.checked_sub(BAD_BLOCK_SECTORS),
        Version::V1_1 | Version::V1_2 => device.sectors.checked_sub(data_offset),
    };
    let data_size = data_size.filter(|sectors| *sectors >= least).ok_or(too_small)?;
    let device = Device {
        number: DeviceNumber(0),
        uuid: device.uuid,
        data_size,
        super_offset,
        recovery_offset: 0,
        ..member.device.clone()
    };
    let mut plan = with_log(Superblock { device, ..member.clone() }, None, None);
    // Nothing is at the tail: a block of an older journal must not be.
    plan.before.push((data_offset, vec![0; super::journal::BLOCK_BYTES]));
    Ok(plan)
}

/// Bytes of the bitmap, whole pages of it; `None` where none is wanted.
fn bitmap_of(wish: &Wish, room: u64) -> Result<Option<Vec<u8>>, Impossible> {
    let BitmapWish::Internal(region) = wish.bitmap else { return Ok(None) };
    let head = head(wish.array.uuid, wish.shape.size, region, room)?;
    let pages = usize::try_from(head.bytes().div_ceil(4096)).unwrap_or(usize::MAX);
    let mut bytes = vec![0; pages.saturating_mul(4096)];
    if let Some((start, bits)) = bytes.split_first_chunk_mut::<{ bitmap::HEAD_BYTES }>() {
        head.encode(start);
        // A region that was never made right is out of sync.
        let set = if wish.clean { 0 } else { head.regions() };
        (0..set).for_each(|region| set_bit(bits, region));
    }
    Ok(Some(bytes))
}

/// Head of a bitmap over so many sectors, with regions of so many bytes, or as mdadm chooses, in the room of so many sectors.
pub(super) fn head(array: Uuid, sync_size: u64, region: Option<u32>, room: u64) -> Result<Head, Impossible> {
    let head = |chunk: u32| Head {
        array,
        events: 0,
        events_cleared: 0,
        sync_size,
        state: 0,
        chunk,
        daemon_sleep: DAEMON_SLEEP,
        write_behind: 0,
        sectors_reserved: 0,
        nodes: 0,
        cluster_name: [0; 64],
    };
    let mut least = REGION_BYTES_MIN;
    while head(least).bytes() > room.saturating_mul(SECTOR_BYTES_U64) {
        least = least.checked_mul(2).ok_or(Impossible::Region(least, least))?;
    }
    let chunk = region.unwrap_or(REGION_BYTES.max(least));
    if !chunk.is_power_of_two() || chunk < least {
        return Err(Impossible::Region(chunk, least));
    }
    Ok(head(chunk))
}

/// Partial parity log that says nothing but that it is in order.
fn empty_log(wish: &Wish, role: usize, sectors: u16) -> Vec<u8> {
    let mark = Entry::mark(u32::try_from(role).unwrap_or(u32::MAX), false);
    let signature = ppl::signature(wish.array.uuid);
    let header = Header { signature, generation: 0, entries: vec![mark], origin: Origin::default() };
    let mut bytes = vec![0; usize::from(sectors) * SECTOR_BYTES];
    if let Some(start) = bytes.first_chunk_mut::<{ ppl::HEADER_BYTES }>() {
        header.encode(start);
    }
    bytes
}

fn set_bit(bits: &mut [u8], region: u64) {
    if let Some(byte) = usize::try_from(region / 8).ok().and_then(|byte| bits.get_mut(byte)) {
        *byte |= 1 << (region % 8);
    }
}

fn sectors_of(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len() / SECTOR_BYTES).unwrap_or(u64::MAX)
}

/// Superblock of a member, without the roles of the others.
fn superblock_of(
    wish: &Wish,
    (role, device): (usize, &Blank),
    data_offset: u64,
    log: Option<u64>,
) -> Result<Superblock, Impossible> {
    let too_small = Impossible::TooSmall(role, device.sectors, data_offset.saturating_add(32));
    let super_offset = wish.version.sector(device.sectors).ok_or(too_small)?;
    let log_sectors = log.unwrap_or_else(|| log_room(None, device.sectors));
    let (bitmap_offset, bad_block_offset, data_size) = if wish.version == Version::V1_0 {
        let before = BAD_BLOCK_SECTORS + log_sectors;
        (-signed(before), -signed(BAD_BLOCK_SECTORS), super_offset.saturating_sub(before))
    } else {
        let least = super_offset + SUPERBLOCK_SECTORS + log_sectors + BAD_BLOCK_SECTORS;
        if data_offset < least {
            return Err(Impossible::DataOffset(data_offset, least));
        }
        let behind = SUPERBLOCK_SECTORS + log_sectors;
        (signed(SUPERBLOCK_SECTORS), signed(behind), device.sectors.saturating_sub(data_offset))
    };
    // Where a log takes the part of a resync, the last member is rebuilt at first, as with mdadm.
    let is_rebuilt = wish.ppl.is_some() && !wish.clean && is_last(wish, role);
    let features = match wish.ppl {
        Some(sectors) if u64::from(sectors) >= ppl::RING_SECTORS_MIN => feature::PPL_RING,
        Some(_) => feature::PPL,
        None if log.is_some() => feature::BITMAP,
        None if wish.journal => feature::JOURNAL,
        None => 0,
    };
    let offset_word = log.map_or(0, |_| u32::from_le_bytes(bitmap_offset.to_le_bytes()));
    Ok(Superblock {
        features: if is_rebuilt { features | feature::RECOVERY_OFFSET } else { features },
        array: wish.array.clone(),
        shape: wish.shape,
        log: wish.ppl.map_or(offset_word, |sectors| offset_word & 0xffff | u32::from(sectors) << 16),
        reshape: Reshape::default(),
        device: Device {
            number: DeviceNumber(u32::try_from(role + usize::from(wish.journal)).unwrap_or(u32::MAX)),
            uuid: device.uuid,
            data_offset,
            data_size,
            super_offset,
            recovery_offset: 0,
            corrected: 0,
            flags: 0,
            bad_blocks: BadBlockPlace { shift: 0, sectors: 8, offset: bad_block_offset },
        },
        state: State {
            updated: if wish.journal { time(wish.array.created, MARK) } else { wish.array.created },
            events: 0,
            resync_offset: if wish.clean || wish.ppl.is_some() { CLEAN } else { 0 },
        },
        logical_block: 0,
        roles: Vec::new(),
    })
}

fn is_last(wish: &Wish, role: usize) -> bool {
    u32::try_from(role + 1) == Ok(wish.shape.members)
}

/// Sectors before or behind a superblock: a few hundred at most.
fn signed(sectors: u64) -> i32 {
    i32::try_from(sectors).unwrap_or(i32::MAX)
}

/// Roles by device numbers: a journal has the first.
fn roles_of(wish: &Wish, devices: &[Option<Blank>]) -> Vec<u16> {
    let of = |(role, device): (usize, &Option<Blank>)| {
        device.map_or(NOBODY, |_| u16::try_from(role).unwrap_or(NOBODY))
    };
    let journal = wish.journal.then_some(JOURNAL);
    let mut roles: Vec<u16> = journal.into_iter().chain(devices.iter().enumerate().map(of)).collect();
    roles.resize(roles.len().max(ROLES), NOBODY);
    roles
}

/// Adds what is written before the superblock.
fn with_log(superblock: Superblock, bitmap: Option<Vec<u8>>, ppl: Option<Vec<u8>>) -> MemberPlan {
    let mut before = Vec::new();
    if let Some((sector, sectors)) = superblock.bad_block_place() {
        let bytes = usize::try_from(sectors).unwrap_or(0) * SECTOR_BYTES;
        before.push((sector, vec![0; bytes]));
    }
    before.extend(superblock.bitmap_sector().zip(bitmap));
    before.extend(superblock.ppl_place().map(|(sector, _)| sector).zip(ppl));
    MemberPlan { superblock, before }
}

#[cfg(test)]
mod tests;
