//! A request of virtio-blk, and the disk's configuration (VIRTIO 1.2, section 5.2).
//!
//! ```text
//! readable | type: u32 | reserved: u32 | sector: u64 | data of a write, or ranges of a discard |
//! writable | data of a read | status: u8 |                     (numbers little-endian, sectors of 512 bytes)
//! ```

use super::chain::{Chain, SEGMENTS_MAX, Segments};
use super::memory::Mapped;
use crate::nbd::transmission::ByteRange;
use base::bytes::{u32_at, u64_at};
use base::units::BLOCK_BYTES_U64;
use vm_memory::GuestAddress;

/// Unit of addresses and sizes, whatever the block size is.
pub const SECTOR_BYTES: u64 = 512;

/// Ranges of one discard or write-zeroes.
pub const RANGES_MAX: usize = 16;

/// Length of a serial number.
pub const SERIAL_BYTES: usize = 20;

const HEADER_BYTES: usize = 16;
const RANGE_BYTES: usize = 16;

/// Longest range of a discard or write-zeroes: 1 GiB.
const RANGE_SECTORS_MAX: u32 = 1 << 21;

const _: () = assert!(HEADER_BYTES == 4 + 4 + 8);
const _: () = assert!(RANGE_BYTES == 8 + 4 + 4);
const _: () = assert!(RANGE_SECTORS_MAX as u64 * SECTOR_BYTES == 1 << 30);

/// Bits of features.
pub mod feature {
    /// A limit of segments.
    pub const SEG_MAX: u64 = 1 << 2;
    /// Nobody may change the disk: offered where that is so.
    pub const READ_ONLY: u64 = 1 << 5;
    /// A block size.
    pub const BLK_SIZE: u64 = 1 << 6;
    /// Flushes.
    pub const FLUSH: u64 = 1 << 9;
    /// Physical blocks.
    pub const TOPOLOGY: u64 = 1 << 10;
    /// Several queues.
    pub const MQ: u64 = 1 << 12;
    /// Discards.
    pub const DISCARD: u64 = 1 << 13;
    /// Writing of zeros.
    pub const WRITE_ZEROES: u64 = 1 << 14;
    /// Tables of descriptors.
    pub const INDIRECT_DESC: u64 = 1 << 28;
    /// Kicks and calls by index.
    pub const EVENT_IDX: u64 = 1 << 29;
    /// Features of vhost-user itself.
    pub const PROTOCOL_FEATURES: u64 = 1 << 30;
    /// Version 1 of virtio.
    pub const VERSION_1: u64 = 1 << 32;
    /// What every disk has.
    pub const ALL: u64 = SEG_MAX
        | BLK_SIZE
        | FLUSH
        | TOPOLOGY
        | MQ
        | DISCARD
        | WRITE_ZEROES
        | INDIRECT_DESC
        | EVENT_IDX
        | PROTOCOL_FEATURES
        | VERSION_1;
}

mod kind {
    pub(super) const IN: u32 = 0;
    pub(super) const OUT: u32 = 1;
    pub(super) const FLUSH: u32 = 4;
    pub(super) const GET_ID: u32 = 8;
    pub(super) const DISCARD: u32 = 11;
    pub(super) const WRITE_ZEROES: u32 = 13;
}

/// Flag of a range of zeros that may be unmapped.
const UNMAP: u32 = 1;

/// Status of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Done.
    Ok,
    /// Not done.
    IoError,
    /// Not known here.
    Unsupported,
}

impl Status {
    /// As the guest reads it.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Status::Ok => 0,
            Status::IoError => 1,
            Status::Unsupported => 2,
        }
    }
}

/// Block sizes that a guest can be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockSize {
    /// 512 bytes: for guests that cannot boot from anything else. Writes of less than 4 KiB are slow.
    Small,
    /// 4,096 bytes, the volume's own.
    #[default]
    Whole,
}

impl BlockSize {
    /// In bytes.
    #[must_use]
    pub fn bytes(self) -> u32 {
        match self {
            BlockSize::Small => 512,
            BlockSize::Whole => 4096,
        }
    }
}

/// A disk as guests see it.
#[derive(Clone, Copy, Debug)]
pub struct Disk {
    /// Size.
    pub size_bytes: u64,
    /// Block size.
    pub block_size: BlockSize,
    /// Serial number, padded with zeros.
    pub serial: [u8; SERIAL_BYTES],
    /// Nobody may change it.
    pub is_read_only: bool,
}

impl Disk {
    /// Features that are offered.
    #[must_use]
    pub fn features(&self) -> u64 {
        feature::ALL | if self.is_read_only { feature::READ_ONLY } else { 0 }
    }

    /// The configuration (`struct virtio_blk_config`); what is beyond are zeros.
    #[must_use]
    pub fn config(&self, queues_count: u16) -> [u8; 60] {
        let block_bytes = self.block_size.bytes();
        let blocks_per_physical = BLOCK_BYTES_U64 / u64::from(block_bytes);
        let mut config = [0; 60];
        let mut put = |at: usize, bytes: &[u8]| config[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &(self.size_bytes / SECTOR_BYTES).to_le_bytes());
        put(12, &SEGMENTS_MAX.to_le_bytes());
        put(20, &block_bytes.to_le_bytes());
        put(24, &[u8::try_from(blocks_per_physical.ilog2()).expect("at most 3")]);
        put(26, &u16::try_from(blocks_per_physical).expect("at most 8").to_le_bytes());
        put(32, &[1]);
        put(34, &queues_count.to_le_bytes());
        let ranges = u32::try_from(RANGES_MAX).expect("16").to_le_bytes();
        put(36, &RANGE_SECTORS_MAX.to_le_bytes());
        put(40, &ranges);
        put(44, &u32::try_from(BLOCK_BYTES_U64 / SECTOR_BYTES).expect("8").to_le_bytes());
        put(48, &RANGE_SECTORS_MAX.to_le_bytes());
        put(52, &ranges);
        put(56, &[1]);
        config
    }

    /// The bytes from `sector` on, if the disk has them.
    fn range(&self, sector: u64, bytes: u64) -> Option<ByteRange> {
        let from = sector.checked_mul(SECTOR_BYTES)?;
        let to = from.checked_add(bytes)?;
        (to <= self.size_bytes && bytes.is_multiple_of(SECTOR_BYTES)).then_some(ByteRange { from, to })
    }
}

/// Operation that a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Read all of the range into the data.
    Read(ByteRange),
    /// Write the data to the range.
    Write(ByteRange),
    /// Make the ranges zeros.
    Zero(Vec<ByteRange>),
    /// Flush.
    Flush,
    /// Give the serial number.
    Identify,
}

/// A request that may be carried out, or its refusal.
#[derive(Debug, PartialEq, Eq)]
pub struct Order {
    /// Place of the status.
    pub status: GuestAddress,
    /// Data of a read or write, without header and status.
    pub data: Segments,
    /// The operation, or the status that refuses it.
    pub command: Result<Command, Status>,
}

/// Takes a request out of its chain, which gets `spare` for the data that goes along. `None` when there is no room for a
/// status, so that nobody can be told anything.
pub fn parse(chain: &mut Chain, memory: &Mapped, disk: &Disk, spare: Segments) -> Option<Order> {
    let status = chain.writable.take_last()?;
    let mut header = [0; HEADER_BYTES];
    let command = match chain.readable.take_front(memory, &mut header) {
        true => parse_command(&header, chain, memory, disk),
        false => Err(Status::IoError),
    };
    let is_write = matches!(command, Ok(Command::Write(_)));
    let data = std::mem::replace(if is_write { &mut chain.readable } else { &mut chain.writable }, spare);
    Some(Order { status, data, command })
}

fn parse_command(
    header: &[u8; HEADER_BYTES],
    chain: &Chain,
    memory: &Mapped,
    disk: &Disk,
) -> Result<Command, Status> {
    let sector = u64_at(header, 8);
    match u32_at(header, 0) {
        kind::OUT | kind::DISCARD | kind::WRITE_ZEROES if disk.is_read_only => Err(Status::IoError),
        kind::IN => disk.range(sector, chain.writable.bytes()).map(Command::Read).ok_or(Status::IoError),
        kind::OUT => disk.range(sector, chain.readable.bytes()).map(Command::Write).ok_or(Status::IoError),
        kind::FLUSH => Ok(Command::Flush),
        kind::GET_ID => Ok(Command::Identify),
        kind::DISCARD => parse_ranges(chain, memory, disk, 0),
        kind::WRITE_ZEROES => parse_ranges(chain, memory, disk, UNMAP),
        _ => Err(Status::Unsupported),
    }
}

/// Ranges that shall be zeros; empty ones are left out.
fn parse_ranges(chain: &Chain, memory: &Mapped, disk: &Disk, flags_allowed: u32) -> Result<Command, Status> {
    let bytes = usize::try_from(chain.readable.bytes()).map_err(|_| Status::IoError)?;
    let mut table = [0; RANGES_MAX * RANGE_BYTES];
    let table = table.get_mut(..bytes).ok_or(Status::IoError)?;
    if bytes % RANGE_BYTES != 0 || !chain.readable.read(memory, 0, table) {
        return Err(Status::IoError);
    }
    let mut ranges = Vec::with_capacity(bytes / RANGE_BYTES);
    for entry in table.chunks_exact(RANGE_BYTES) {
        let (sector, sectors, flags) = (u64_at(entry, 0), u32_at(entry, 8), u32_at(entry, 12));
        if flags & !flags_allowed != 0 {
            return Err(Status::Unsupported);
        }
        if sectors > RANGE_SECTORS_MAX {
            return Err(Status::IoError);
        }
        let range = disk.range(sector, u64::from(sectors) * SECTOR_BYTES).ok_or(Status::IoError)?;
        if sectors > 0 {
            ranges.push(range);
        }
    }
    assert!(ranges.len() <= RANGES_MAX, "{} ranges of {RANGES_MAX}", ranges.len());
    Ok(Command::Zero(ranges))
}
