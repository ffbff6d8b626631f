//! What an array is made of, and whether that can work: one struct, validated once.

use crate::log::pba::PbaFormat;
use base::erasure::ErasureCode;
use base::mutant::{self, Mutant};
use base::time::Nanos;
use base::units::{BLOCK_BYTES_U64, human_bytes};
use std::fmt;
use zone::device::Geometry;
use zone::format::footer::STRIPES_MAX;
use zone::format::{MEMBERS_MAX, SUPERBLOCK_ZONES};
use zone::stripe::{GROUP_STRIPES_MAX, Layout, LayoutSizes, Level};

/// Free segments that only garbage collection may open. Moving one victim needs at most two: the
/// rest of the open one and one more. Because of them the collector can always finish a victim.
pub const GC_RESERVE_SEGMENTS: u32 = 2;
/// Segments that hold no reclaimable data at the worst moment: the reserve, the two open ones
/// (clients', collector's) and one being reset.
pub const SEGMENTS_OVERHEAD: u32 = GC_RESERVE_SEGMENTS + 3;
/// Of eleven blocks of space, ten may hold data: 10 % over-provisioning.
const SPACE_PARTS: u64 = 11;
const SPACE_PARTS_USABLE: u64 = 10;
/// Stripes every victim must free beyond what moving it wastes in padding.
const VICTIM_GAIN_STRIPES_MIN: u64 = 4;
/// Window of stripes in flight in a Zone Write segment, where a group has no other meaning.
const WRITE_GROUP_STRIPES: u32 = 64;
/// Active zones needed per drive: superblock, clients' and collector's segments, one being sealed.
pub const ACTIVE_ZONES_MIN: u32 = 4;
/// Largest chunk: 64 KiB, so that a chunk is one command on every drive we know.
pub const CHUNK_BLOCKS_MAX: u32 = 16;
/// Blocks whose trimmed state one tombstone block records. Also the unit in which trims and writes
/// exclude each other: 32 MiB.
pub const REGION_BLOCKS: u64 = 8192;

/// Everything that is fixed when an array is created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayConfig {
    /// Identity of the array.
    pub array: [u8; 16],
    /// RAID level.
    pub level: Level,
    /// Drives, k+m.
    pub members: usize,
    /// C, blocks of a chunk.
    pub chunk_blocks: u32,
    /// G, stripes of a group; 1 writes clients' segments with Zone Write.
    pub group_stripes: u32,
    /// Size of the volume.
    pub volume_blocks: u64,
    /// What every drive is made of.
    pub geometry: Geometry,
}

/// What may be chosen anew each time an array is served.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// How long a stripe may wait for more blocks before it is filled with padding (ZapRAID
    /// section 3.5: 100 us).
    pub stripe_deadline: Nanos,
    /// Frames clients may hold: the memory of requests in flight.
    pub client_frames_max: usize,
}

impl Default for Tuning {
    fn default() -> Tuning {
        // 256 MiB: eight requests of the largest size.
        Tuning { stripe_deadline: Nanos::from_micros(100), client_frames_max: 1 << 16 }
    }
}

/// Why an array cannot be made like this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// Too few or too many drives for the level.
    Members {
        /// The level.
        level: u8,
        /// Drives asked for.
        members: usize,
        /// Fewest the level takes.
        members_min: usize,
    },
    /// The chunk size is zero, too large, or more than one append may carry.
    Chunk {
        /// Blocks asked for.
        blocks: u32,
        /// Most that are possible.
        blocks_max: u32,
    },
    /// The group size is zero or too large.
    Group {
        /// Stripes asked for.
        stripes: u32,
    },
    /// A drive's limit on active zones is too low.
    ActiveZones {
        /// The drive's limit.
        zones: u32,
    },
    /// A zone is too small or too large to hold a segment's part.
    ZoneCapacity {
        /// Capacity in blocks.
        blocks: u32,
    },
    /// There are too few zones.
    Zones {
        /// Zones per drive.
        zones: u32,
        /// Fewest that work.
        zones_min: u32,
    },
    /// The volume leaves too little space to collect garbage in.
    VolumeSize {
        /// Blocks asked for.
        blocks: u64,
        /// Most that fit.
        blocks_max: u64,
    },
    /// Addresses do not fit the index's 32-bit entries.
    TooLarge,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Members { level, members, members_min } => write!(
                f,
                "raid{level} over {members} drives: needs {members_min} to {MEMBERS_MAX}; change --drives or --level"
            ),
            ConfigError::Chunk { blocks, blocks_max } => write!(
                f,
                "chunk of {}: must be a multiple of 4 KiB up to {} (64 KiB or the drives' append limit, \
                 whichever is less); change --chunk",
                human_bytes(u64::from(*blocks) * BLOCK_BYTES_U64),
                human_bytes(u64::from(*blocks_max) * BLOCK_BYTES_U64)
            ),
            ConfigError::Group { stripes } => {
                write!(f, "group of {stripes} stripes: must be 1 to {GROUP_STRIPES_MAX}; change --group")
            }
            ConfigError::ActiveZones { zones } => write!(
                f,
                "drives allow {zones} active zones: at least {ACTIVE_ZONES_MIN} are needed; raise --max-open"
            ),
            ConfigError::ZoneCapacity { blocks } => write!(
                f,
                "zone capacity of {}: a segment does not fit (too small for a few stripes and their footer, or \
                 more than {STRIPES_MAX} stripes); change --zone-capacity or --chunk",
                human_bytes(u64::from(*blocks) * BLOCK_BYTES_U64)
            ),
            ConfigError::Zones { zones, zones_min } => {
                write!(f, "{zones} zones per drive: at least {zones_min} are needed; raise --zones")
            }
            ConfigError::VolumeSize { blocks, blocks_max } => write!(
                f,
                "volume of {}: these drives hold at most {} beside the reserve for garbage collection; lower \
                 --size or raise --zones",
                human_bytes(blocks * BLOCK_BYTES_U64),
                human_bytes(blocks_max * BLOCK_BYTES_U64)
            ),
            ConfigError::TooLarge => write!(
                f,
                "the drives have more blocks than 32-bit index entries can address (about 16 TiB over all drives); \
                 use fewer or smaller drives"
            ),
        }
    }
}

impl std::error::Error for ConfigError {}

impl ArrayConfig {
    /// Checks that an array like this can work for ever.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let members_min = self.level.parity_count() + 1;
        let members_min = if self.level == Level::Raid0 { 1 } else { members_min.max(2) };
        if self.members < members_min || self.members > MEMBERS_MAX {
            return Err(ConfigError::Members {
                level: self.level.code(),
                members: self.members,
                members_min,
            });
        }
        let blocks_max =
            CHUNK_BLOCKS_MAX.min(self.geometry.append_blocks_max).min(self.geometry.transfer_blocks_max);
        if self.chunk_blocks == 0 || self.chunk_blocks > blocks_max {
            return Err(ConfigError::Chunk { blocks: self.chunk_blocks, blocks_max });
        }
        if self.group_stripes == 0 || self.group_stripes > GROUP_STRIPES_MAX {
            return Err(ConfigError::Group { stripes: self.group_stripes });
        }
        if self.geometry.active_zones_max < ACTIVE_ZONES_MIN {
            return Err(ConfigError::ActiveZones { zones: self.geometry.active_zones_max });
        }
        let blocks = self.geometry.zone_capacity_blocks;
        if self.fit(self.group_stripes).is_none_or(|layout| layout.stripes > STRIPES_MAX) {
            return Err(ConfigError::ZoneCapacity { blocks });
        }
        if PbaFormat::new(self.members, &self.geometry).is_none() {
            return Err(ConfigError::TooLarge);
        }
        self.validate_space()
    }

    /// The reserve's proof. When clients are stopped for want of space, all segments but
    /// [`SEGMENTS_OVERHEAD`] are sealed, and what is live in them is at most the volume and its
    /// tombstones. So the emptiest one holds at most the average, and moving it frees the rest of
    /// it, less one padded stripe. As long as that is more than zero, collection makes progress.
    fn validate_space(&self) -> Result<(), ConfigError> {
        let zones_min = SUPERBLOCK_ZONES + SEGMENTS_OVERHEAD + 1;
        if self.geometry.zones < zones_min {
            return Err(ConfigError::Zones { zones: self.geometry.zones, zones_min });
        }
        let blocks_max = self.volume_blocks_max();
        if self.volume_blocks == 0 || self.volume_blocks > blocks_max {
            return Err(ConfigError::VolumeSize { blocks: self.volume_blocks, blocks_max });
        }
        Ok(())
    }

    /// The largest volume that leaves the reserve intact.
    ///
    /// # Panics
    /// When the zone capacity was not validated.
    #[must_use]
    pub fn volume_blocks_max(&self) -> u64 {
        let layout = self.user_layout();
        let sealed = u64::from(self.segments().saturating_sub(SEGMENTS_OVERHEAD));
        let gain = VICTIM_GAIN_STRIPES_MIN * u64::from(layout.stripe_data_blocks());
        let segment = u64::from(layout.segment_data_blocks());
        let by_parts = sealed * segment * SPACE_PARTS_USABLE / SPACE_PARTS;
        let by_gain = sealed * segment.saturating_sub(gain);
        let blocks = by_parts.min(by_gain);
        // One tombstone block per region is live at the worst.
        blocks.saturating_sub(blocks.div_ceil(REGION_BLOCKS))
    }

    /// Segments of the array.
    #[must_use]
    pub fn segments(&self) -> u32 {
        self.geometry.zones.saturating_sub(SUPERBLOCK_ZONES)
    }

    /// The erasure code.
    ///
    /// # Panics
    /// When the member count was not validated.
    #[must_use]
    pub fn code(&self) -> ErasureCode {
        let parities = self.level.parity_count();
        ErasureCode::new(self.members - parities, parities).expect("validated member count")
    }

    /// Layout of segments that hold clients' blocks.
    ///
    /// # Panics
    /// When the zone capacity was not validated.
    #[must_use]
    pub fn user_layout(&self) -> Layout {
        let group = if self.group_stripes == 1 { WRITE_GROUP_STRIPES } else { self.group_stripes };
        self.fit(group).expect("validated zone capacity")
    }

    /// Layout of segments that hold blocks the collector moved.
    ///
    /// # Panics
    /// When the zone capacity was not validated.
    #[must_use]
    pub fn gc_layout(&self) -> Layout {
        self.fit(WRITE_GROUP_STRIPES).expect("validated zone capacity")
    }

    fn fit(&self, group_stripes: u32) -> Option<Layout> {
        let sizes = LayoutSizes {
            chunk_blocks: self.chunk_blocks,
            group_stripes,
            capacity_blocks: match mutant::is(Mutant::SizeInsteadOfCapacity) {
                true => self.geometry.zone_size_blocks,
                false => self.geometry.zone_capacity_blocks,
            },
        };
        Layout::fit(self.code(), self.level, &sizes)
    }
}
