//! Numbers and layouts of the kernel's interface. All fields are in this machine's byte order, which is little-endian.

use crate::nbd::transmission::ByteRange;
use base::bytes::{put, u16_at, u32_at, u64_at};
use std::fmt;

/// Unit of the kernel's addresses and sizes, whatever the block size is.
const SECTOR_BYTES: u64 = 512;

/// Commands of the control device: direction, length of `struct ublksrv_ctrl_cmd`, type `u`, number.
const fn control_command(direction: u32, number: u32) -> u32 {
    direction << 30 | 32 << 16 | 0x75 << 8 | number
}

const READS: u32 = 2;
const READS_AND_WRITES: u32 = 3;

pub const GET_DEV_INFO: u32 = control_command(READS, 0x02);
pub const ADD_DEV: u32 = control_command(READS_AND_WRITES, 0x04);
pub const DEL_DEV: u32 = control_command(READS_AND_WRITES, 0x05);
pub const START_DEV: u32 = control_command(READS_AND_WRITES, 0x06);
pub const STOP_DEV: u32 = control_command(READS_AND_WRITES, 0x07);
pub const SET_PARAMS: u32 = control_command(READS_AND_WRITES, 0x08);
pub const GET_PARAMS: u32 = control_command(READS, 0x09);
pub const START_USER_RECOVERY: u32 = control_command(READS_AND_WRITES, 0x10);
pub const END_USER_RECOVERY: u32 = control_command(READS_AND_WRITES, 0x11);
pub const GET_FEATURES: u32 = control_command(READS, 0x13);

/// Commands of a queue: `struct ublksrv_io_cmd` has 16 bytes.
const fn queue_command(number: u32) -> u32 {
    READS_AND_WRITES << 30 | 16 << 16 | 0x75 << 8 | number
}

pub const FETCH_REQ: u32 = queue_command(0x20);
pub const COMMIT_AND_FETCH_REQ: u32 = queue_command(0x21);

/// Features: requests of a dead server wait for the next one, which gets them again; commands are encoded as those of ioctl; data
/// is copied by reads and writes of the character device.
pub const FEATURES: u64 = 1 << 3 | 1 << 4 | 1 << 6 | 1 << 7;

/// Places in the character device: descriptors of requests, then their data by queue and tag.
pub const DESCRIPTORS_AT: u64 = 0;
const DATA_AT: u64 = 0x8000_0000;
pub const TAG_SHIFT: u32 = 25;
const _: () = assert!(DESCRIPTORS_AT + ((DESCRIPTOR_BYTES as u64) << u16::BITS) <= DATA_AT);

/// Length of the descriptor of a request (`struct ublksrv_io_desc`).
pub const DESCRIPTOR_BYTES: usize = 24;

/// Place of the data of a request of the first queue.
pub fn data_at(tag: u16) -> u64 {
    DATA_AT + (u64::from(tag) << TAG_SHIFT)
}

/// Length of `struct ublksrv_ctrl_cmd`, and of the part of an entry of 128 bytes that it lies in.
pub const CONTROL_BYTES: usize = 80;

/// A command of the control device.
pub fn control(device: u32, data: u64, buffer: (u64, u16)) -> [u8; CONTROL_BYTES] {
    assert!((buffer.0 == 0) == (buffer.1 == 0), "a buffer has a place and a length: {buffer:?}");
    let mut bytes = [0; CONTROL_BYTES];
    put(&mut bytes, 0, &device.to_le_bytes());
    // No queue.
    put(&mut bytes, 4, &u16::MAX.to_le_bytes());
    put(&mut bytes, 6, &buffer.1.to_le_bytes());
    put(&mut bytes, 8, &buffer.0.to_le_bytes());
    put(&mut bytes, 16, &data.to_le_bytes());
    bytes
}

/// A command of a queue: the result of the request `tag` before, if there was one.
pub fn queue(tag: u16, result: i32) -> [u8; 16] {
    let mut bytes = [0; 16];
    put(&mut bytes, 2, &tag.to_le_bytes());
    put(&mut bytes, 4, &result.to_le_bytes());
    bytes
}

/// Properties of a device (`struct ublksrv_ctrl_dev_info`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    pub queues: u16,
    pub depth: u16,
    pub state: u16,
    /// Longest request.
    pub bytes_max: u32,
    pub device: u32,
    /// Process that serves it.
    pub process: i32,
    pub features: u64,
    /// Kept for servers, who choose it.
    pub mark: u64,
}

impl Info {
    pub const BYTES: usize = 64;

    pub fn encode(&self) -> [u8; Info::BYTES] {
        let mut bytes = [0; Info::BYTES];
        put(&mut bytes, 0, &self.queues.to_le_bytes());
        put(&mut bytes, 2, &self.depth.to_le_bytes());
        put(&mut bytes, 4, &self.state.to_le_bytes());
        put(&mut bytes, 8, &self.bytes_max.to_le_bytes());
        put(&mut bytes, 12, &self.device.to_le_bytes());
        put(&mut bytes, 16, &self.process.to_le_bytes());
        put(&mut bytes, 24, &self.features.to_le_bytes());
        put(&mut bytes, 32, &self.mark.to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8; Info::BYTES]) -> Info {
        Info {
            queues: u16_at(bytes, 0),
            depth: u16_at(bytes, 2),
            state: u16_at(bytes, 4),
            bytes_max: u32_at(bytes, 8),
            device: u32_at(bytes, 12),
            process: u32_at(bytes, 16).cast_signed(),
            features: u64_at(bytes, 24),
            mark: u64_at(bytes, 32),
        }
    }
}

/// Parameters of a disk (`struct ublk_params`, as far as there are discards).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    pub size_bytes: u64,
    pub block_bytes: u32,
    /// Longest request.
    pub bytes_max: u32,
    /// Nobody may change it.
    pub is_read_only: bool,
}

/// Longest discard: 1 GiB.
const DISCARD_SECTORS_MAX: u32 = 1 << 21;
const VOLUME_BLOCK_SHIFT: u8 = 12;
const VOLATILE_CACHE_AND_FUA: u32 = 1 << 2 | 1 << 3;
const READ_ONLY: u32 = 1 << 0;
const BASIC_AND_DISCARD: u32 = 1 << 0 | 1 << 1;

impl fmt::Display for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = if self.is_read_only { ", read-only" } else { "" };
        write!(f, "{} bytes in blocks of {}{end}", self.size_bytes, self.block_bytes)
    }
}

impl Params {
    pub const BYTES: usize = 60;

    pub fn encode(&self) -> [u8; Params::BYTES] {
        let (block, size) = (u64::from(self.block_bytes), self.size_bytes);
        assert!(block.is_power_of_two() && size.is_multiple_of(block), "{self} are no whole blocks");
        let mut bytes = [0; Params::BYTES];
        let shift = u8::try_from(self.block_bytes.ilog2()).expect("at most 12");
        let sectors_max = self.bytes_max / u32::try_from(SECTOR_BYTES).expect("512");
        put(&mut bytes, 0, &u32::try_from(Params::BYTES).expect("60").to_le_bytes());
        put(&mut bytes, 4, &BASIC_AND_DISCARD.to_le_bytes());
        let attributes = VOLATILE_CACHE_AND_FUA | if self.is_read_only { READ_ONLY } else { 0 };
        put(&mut bytes, 8, &attributes.to_le_bytes());
        put(&mut bytes, 12, &[shift, VOLUME_BLOCK_SHIFT, VOLUME_BLOCK_SHIFT, VOLUME_BLOCK_SHIFT]);
        put(&mut bytes, 16, &sectors_max.to_le_bytes());
        put(&mut bytes, 24, &(self.size_bytes / SECTOR_BYTES).to_le_bytes());
        put(&mut bytes, 44, &(1_u32 << VOLUME_BLOCK_SHIFT).to_le_bytes());
        put(&mut bytes, 48, &DISCARD_SECTORS_MAX.to_le_bytes());
        put(&mut bytes, 52, &DISCARD_SECTORS_MAX.to_le_bytes());
        put(&mut bytes, 56, &1_u16.to_le_bytes());
        bytes
    }

    /// `None` when these are not parameters of a disk.
    pub fn decode(bytes: &[u8; Params::BYTES]) -> Option<Params> {
        let sector = u32::try_from(SECTOR_BYTES).expect("512");
        Some(Params {
            size_bytes: u64_at(bytes, 24).checked_mul(SECTOR_BYTES)?,
            block_bytes: 1_u32.checked_shl(u32::from(bytes[12]))?,
            bytes_max: u32_at(bytes, 16).checked_mul(sector)?,
            is_read_only: u32_at(bytes, 8) & READ_ONLY != 0,
        })
    }
}

/// Kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// Read the range.
    Read,
    /// Write the range.
    Write,
    /// Make everything durable that was written before.
    Flush,
    /// Make the range zeros.
    Zero,
    /// None that was offered.
    Unknown(u8),
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Kind.
    pub kind: RequestKind,
    /// Durable before it is answered.
    pub forced: bool,
    /// Bytes that it is of.
    pub range: ByteRange,
}

impl Request {
    /// Reads the descriptor of a request of a disk of this size; `None` when it goes beyond.
    pub fn decode(bytes: &[u8; DESCRIPTOR_BYTES], size_bytes: u64) -> Option<Request> {
        let flags = u32_at(bytes, 0);
        let kind = match flags.to_le_bytes()[0] {
            0 => RequestKind::Read,
            1 => RequestKind::Write,
            2 => RequestKind::Flush,
            3 | 5 => RequestKind::Zero,
            other => RequestKind::Unknown(other),
        };
        // The sector of a flush means nothing.
        if kind == RequestKind::Flush {
            return Some(Request { kind, forced: false, range: ByteRange { from: 0, to: 0 } });
        }
        let from = u64_at(bytes, 8).checked_mul(SECTOR_BYTES)?;
        let to = from.checked_add(u64::from(u32_at(bytes, 4)) * SECTOR_BYTES)?;
        let is_within = to <= size_bytes;
        is_within.then_some(Request { kind, forced: flags >> 13 & 1 == 1, range: ByteRange { from, to } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_numbered_as_the_header_says() {
        // _IOWR('u', 0x04, struct ublksrv_ctrl_cmd), _IOR('u', 0x02, ...), _IOWR('u', 0x20, struct ublksrv_io_cmd)
        assert_eq!((ADD_DEV, GET_DEV_INFO, FETCH_REQ), (0xc020_7504, 0x8020_7502, 0xc010_7520));
    }

    #[test]
    fn infos_and_parameters_come_back() {
        let info = Info {
            queues: 1,
            depth: 128,
            state: 2,
            bytes_max: 1 << 20,
            device: 7,
            process: -1,
            features: FEATURES,
            mark: 0x1234_5678_9abc_def0,
        };
        assert_eq!(Info::decode(&info.encode()), info);
        let params =
            Params { size_bytes: 1 << 40, block_bytes: 4096, bytes_max: 1 << 20, is_read_only: true };
        assert_eq!(Params::decode(&params.encode()), Some(params));
        let mut broken = params.encode();
        broken[12] = 200;
        assert_eq!(Params::decode(&broken), None);
    }

    #[test]
    fn requests_lie_within_the_disk() {
        let mut bytes = [0; DESCRIPTOR_BYTES];
        put(&mut bytes, 0, &(1_u32 | 1 << 13).to_le_bytes());
        put(&mut bytes, 4, &8_u32.to_le_bytes());
        put(&mut bytes, 8, &16_u64.to_le_bytes());
        let range = ByteRange { from: 8192, to: 12288 };
        let write = Request { kind: RequestKind::Write, forced: true, range };
        assert_eq!(Request::decode(&bytes, 12288), Some(write));
        assert_eq!(Request::decode(&bytes, 12287), None);
        put(&mut bytes, 8, &u64::MAX.to_le_bytes());
        assert_eq!(Request::decode(&bytes, u64::MAX), None);
        bytes[0] = 2;
        assert_eq!(Request::decode(&bytes, 0).map(|request| request.kind), Some(RequestKind::Flush));
    }

    #[test]
    fn data_of_tags_does_not_overlap() {
        assert_eq!(data_at(1) - data_at(0), 1 << 25);
    }
}
