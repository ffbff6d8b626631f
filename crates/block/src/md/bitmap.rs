//! Write-intent bitmap, version 4: which regions of the members may be out of sync.
//!
//! A head of 256 bytes, then one bit per region, lowest bit first, the same on every member.

use super::Uuid;
use base::bytes::{array_at, put, u32_at, u64_at};
use base::record_fields;
use std::fmt;

record_fields! { HEAD_BYTES;
    MAGIC: 0, 4, "`0x6d746962`, `bitm`";
    VERSION: 4, 4, "4; 3 is that of big-endian hosts, 5 of clusters, 6 lockless";
    ARRAY: 8, 16, "array UUID";
    EVENTS: 24, 8, "events of the superblock when the bitmap was written; one that is behind is void";
    EVENTS_CLEARED: 32, 8, "events when bits were last cleared with all members there";
    SYNC_SIZE: 40, 8, "sectors covered, those of a member";
    STATE: 48, 4, "2 stale, 4 a write of the bitmap failed";
    CHUNK: 52, 4, "bytes of a region, a power of two from 512";
    DAEMON_SLEEP: 56, 4, "seconds between two rounds that clear bits";
    WRITE_BEHIND: 60, 4, "writes that may be behind on write-mostly members";
    SECTORS_RESERVED: 64, 4, "sectors for bitmap and head, or zero";
    NODES: 68, 4, "nodes of a cluster";
    CLUSTER_NAME: 72, 64, "name of the cluster";
    PAD: 136, 120, "zero";
}

/// Bytes before the bits.
pub const HEAD_BYTES: usize = 256;
/// First word of the record.
pub const MAGIC: u32 = 0x6d74_6962;
/// The version that is understood.
pub const VERSION: u32 = 4;

/// State bits.
pub mod state {
    /// Every bit counts as set.
    pub const STALE: u32 = 2;
    /// A write of the bitmap failed.
    pub const WRITE_ERROR: u32 = 4;
}

/// Head of a bitmap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Array UUID.
    pub array: Uuid,
    /// Events of the superblock when the bitmap was written.
    pub events: u64,
    /// Events when bits were last cleared with all members there.
    pub events_cleared: u64,
    /// Sectors covered.
    pub sync_size: u64,
    /// State bits.
    pub state: u32,
    /// Bytes of a region.
    pub chunk: u32,
    /// Seconds between two rounds that clear bits.
    pub daemon_sleep: u32,
    /// Writes that may be behind.
    pub write_behind: u32,
    /// Sectors reserved.
    pub sectors_reserved: u32,
    /// Nodes of a cluster.
    pub nodes: u32,
    /// Name of the cluster.
    pub cluster_name: [u8; 64],
}

/// Reason why a bitmap cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitmapError {
    /// No magic number.
    Magic(u32),
    /// Version that is not understood.
    Version(u32),
    /// Region of a size that cannot be.
    Chunk(u32),
    /// Reserved bytes that are not zero.
    Reserved,
    /// Cluster, though the version is none of a cluster.
    Clustered(u32),
}

impl fmt::Display for BitmapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BitmapError::Magic(word) => {
                write!(f, "there is no bitmap where the superblock says: its magic number is {word:08x}")
            }
            BitmapError::Version(5) => {
                f.write_str("the bitmap has version 5, of a clustered array (Linux 4.1 and later, with its cluster running)")
            }
            BitmapError::Version(6) => {
                f.write_str("the bitmap has version 6, lockless (Linux 6.18 and later): it takes that kernel, or a bitmap of \
                             version 4 made by it")
            }
            BitmapError::Version(version) => write!(f, "the bitmap has version {version}, not 4"),
            BitmapError::Chunk(bytes) => {
                write!(f, "the bitmap's regions have {bytes} bytes; it takes a power of two from 512")
            }
            BitmapError::Reserved => f.write_str("the bitmap has reserved bytes that are not zero"),
            BitmapError::Clustered(nodes) => write!(f, "the bitmap is of a cluster with {nodes} nodes"),
        }
    }
}

impl std::error::Error for BitmapError {}

impl Head {
    /// Reads the head of a bitmap.
    ///
    /// # Errors
    /// When it is none that is understood.
    pub fn decode(bytes: &[u8; HEAD_BYTES]) -> Result<Head, BitmapError> {
        if u32_at(bytes, at::MAGIC) != MAGIC {
            return Err(BitmapError::Magic(u32_at(bytes, at::MAGIC)));
        }
        if u32_at(bytes, at::VERSION) != VERSION {
            return Err(BitmapError::Version(u32_at(bytes, at::VERSION)));
        }
        let chunk = u32_at(bytes, at::CHUNK);
        if !chunk.is_power_of_two() || chunk < 512 {
            return Err(BitmapError::Chunk(chunk));
        }
        if bytes[at::PAD..].iter().any(|byte| *byte != 0) {
            return Err(BitmapError::Reserved);
        }
        let nodes = u32_at(bytes, at::NODES);
        if nodes > 0 {
            return Err(BitmapError::Clustered(nodes));
        }
        Ok(Head {
            array: Uuid(array_at(bytes, at::ARRAY)),
            events: u64_at(bytes, at::EVENTS),
            events_cleared: u64_at(bytes, at::EVENTS_CLEARED),
            sync_size: u64_at(bytes, at::SYNC_SIZE),
            state: u32_at(bytes, at::STATE),
            chunk,
            daemon_sleep: u32_at(bytes, at::DAEMON_SLEEP),
            write_behind: u32_at(bytes, at::WRITE_BEHIND),
            sectors_reserved: u32_at(bytes, at::SECTORS_RESERVED),
            nodes,
            cluster_name: array_at(bytes, at::CLUSTER_NAME),
        })
    }

    /// Writes the head.
    pub fn encode(&self, bytes: &mut [u8; HEAD_BYTES]) {
        assert!(self.chunk.is_power_of_two() && self.chunk >= 512);
        bytes.fill(0);
        put(bytes, at::MAGIC, &MAGIC.to_le_bytes());
        put(bytes, at::VERSION, &VERSION.to_le_bytes());
        put(bytes, at::ARRAY, &self.array.0);
        put(bytes, at::EVENTS, &self.events.to_le_bytes());
        put(bytes, at::EVENTS_CLEARED, &self.events_cleared.to_le_bytes());
        put(bytes, at::SYNC_SIZE, &self.sync_size.to_le_bytes());
        put(bytes, at::STATE, &self.state.to_le_bytes());
        put(bytes, at::CHUNK, &self.chunk.to_le_bytes());
        put(bytes, at::DAEMON_SLEEP, &self.daemon_sleep.to_le_bytes());
        put(bytes, at::WRITE_BEHIND, &self.write_behind.to_le_bytes());
        put(bytes, at::SECTORS_RESERVED, &self.sectors_reserved.to_le_bytes());
        put(bytes, at::NODES, &self.nodes.to_le_bytes());
        put(bytes, at::CLUSTER_NAME, &self.cluster_name);
    }

    /// Sectors of a region.
    #[must_use]
    pub fn region_sectors(&self) -> u64 {
        u64::from(self.chunk / 512)
    }

    /// Regions, one bit each.
    #[must_use]
    pub fn regions(&self) -> u64 {
        self.sync_size.div_ceil(self.region_sectors())
    }

    /// Bytes of head and bits.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.regions().div_ceil(8) + 256
    }

    /// True when the bits say nothing for a superblock with these events: all regions may be out of sync.
    #[must_use]
    pub fn is_void(&self, superblock_events: u64) -> bool {
        self.events < superblock_events || self.state & state::STALE != 0
    }
}

/// Bits of a bitmap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bits {
    regions: u64,
    bytes: Vec<u8>,
}

impl Bits {
    /// Most bytes of bits: those of a member of 2^64 sectors would not fit any device either.
    pub const BYTES_MAX: u64 = 64 << 20;

    /// Bits of `regions` regions; `None` when there are not enough bytes for them.
    #[must_use]
    pub fn of(regions: u64, bytes: Vec<u8>) -> Option<Bits> {
        let needed = regions.div_ceil(8);
        (needed <= u64::try_from(bytes.len()).ok()?).then_some(Bits { regions, bytes })
    }

    /// Bits of `regions` regions, none of which is set.
    ///
    /// # Panics
    /// When they do not fit memory.
    #[must_use]
    pub fn none(regions: u64) -> Bits {
        Bits { regions, bytes: vec![0; usize::try_from(regions.div_ceil(8)).expect("bitmaps fit memory")] }
    }

    /// Regions.
    #[must_use]
    pub fn regions(&self) -> u64 {
        self.regions
    }

    /// True when a region may be out of sync; regions that are not there are not.
    #[must_use]
    pub fn is_set(&self, region: u64) -> bool {
        let byte = usize::try_from(region / 8).ok().and_then(|byte| self.bytes.get(byte));
        region < self.regions && byte.is_some_and(|byte| byte >> (region % 8) & 1 == 1)
    }

    /// Regions that may be out of sync, in order.
    pub fn set(&self) -> impl Iterator<Item = u64> {
        (0..self.regions).filter(|region| self.is_set(*region))
    }
}
