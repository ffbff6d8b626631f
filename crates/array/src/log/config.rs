//! What an array is made of, and whether that can work: one struct, validated once.

use crate::log::lifetime::Lifetimes;
use crate::log::pba::PbaFormat;
use crate::log::policy::adaptive::Policy;
use crate::log::policy::slots::SlotUse;
use crate::log::policy::tuned::Tuned;
use crate::log::policy::victim::GcPolicy;
use crate::log::survivors::GcStreams;
use base::erasure::ErasureCode;
use base::time::Nanos;
use base::units::{BLOCK_BYTES_U64, human_bytes};
use std::fmt;
use zone::device::Geometry;
use zone::format::footer::STRIPES_MAX;
use zone::format::header::{MARKER_BLOCKS, Stream, WriteMode};
use zone::format::{HEADER_BLOCKS, MEMBERS_MAX, SUPERBLOCK_ZONES};
use zone::stripe::table::Packing;
use zone::stripe::{GROUP_STRIPES_MAX, Layout, LayoutSizes, Level};

/// Free segments that only garbage collection may open. Moving one victim needs at most two: the
/// rest of the open one and one more. Because of them the collector can always finish a victim.
pub const GC_RESERVE_SEGMENTS: u32 = 2;
/// Segments that hold no reclaimable data at the worst moment, beside clients' open ones: the reserve, the
/// collector's open one and one being reset.
const SEGMENTS_OVERHEAD: u32 = GC_RESERVE_SEGMENTS + 2;
/// Parts of the space, of which ten may hold data: 10 % over-provisioning.
const SPACE_PARTS: u64 = 11;
const SPACE_PARTS_USABLE: u64 = 10;
/// Stripes every victim must free beyond what moving it wastes in padding.
const VICTIM_GAIN_STRIPES_MIN: u64 = 4;
/// Window of stripes in flight in a Zone Write segment, where a group has no other meaning.
const WRITE_GROUP_STRIPES: u32 = 64;
/// Active zones needed per drive beside clients' open segments: superblock, collector's, one being sealed.
const ACTIVE_ZONES_OVERHEAD: u32 = 3;
/// Most segments open for clients at once.
const OPEN_SEGMENTS_MAX: u32 = 16;
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
    /// Segments that are open for clients.
    pub open: OpenSegments,
    /// Size of the volume.
    pub volume_blocks: u64,
    /// Geometry of every drive.
    pub geometry: Geometry,
}

/// Segments that are open for clients at once, and their write modes (hybrid data management, ZapRAID section 3.3):
/// requests of less than C_l go to those of small chunks, others to those of large ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenSegments {
    /// N_s, of small chunks.
    pub small: u32,
    /// N_l, of large chunks.
    pub large: u32,
    /// C_l, blocks of a large chunk.
    pub large_chunk_blocks: u32,
    /// Segments among these that are written with Zone Append, unless a group is one stripe.
    pub append: AppendUse,
}

impl Default for OpenSegments {
    fn default() -> OpenSegments {
        OpenSegments { small: 1, large: 0, large_chunk_blocks: 0, append: AppendUse::OneSmall }
    }
}

/// Segments of clients that are written with Zone Append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendUse {
    /// A single segment of small chunks, which takes stripes that find no other segment idle.
    OneSmall,
    /// All.
    All,
    /// None: they are written in random write areas where drives have them, and with Zone Write elsewhere.
    Areas,
}

impl AppendUse {
    /// Number on the media.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            AppendUse::OneSmall => 1,
            AppendUse::All => 2,
            AppendUse::Areas => 4,
        }
    }

    /// Returns the meaning of a number.
    #[must_use]
    pub fn from_code(code: u8) -> Option<AppendUse> {
        match code {
            1 => Some(AppendUse::OneSmall),
            2 => Some(AppendUse::All),
            4 => Some(AppendUse::Areas),
            _ => None,
        }
    }
}

/// Settings that may be chosen anew each time an array is served.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// Time that a stripe may wait for more blocks before it is filled with padding (ZapRAID section 3.5: 100 us).
    pub stripe_deadline: Nanos,
    /// Frames clients may hold: the memory of requests in flight.
    pub client_frames_max: usize,
    /// Most bytes a second that the rebuild of a member writes, whatever clients do: zero is no limit, and `None` what
    /// clients leave.
    pub rebuild_rate: Option<u64>,
    /// Packing of stripe tables in memory.
    pub stripe_table: Packing,
    /// Most bytes of stripe tables of sealed segments that stay in memory: others are dropped, and read from footers
    /// when they are needed. All stay with `None`.
    pub stripe_tables_bytes_max: Option<u64>,
    /// Decider of where writes go and when stripes are closed.
    pub policy: Policy,
    /// Policy by which the collector chooses victims.
    pub gc: GcPolicy,
    /// Separation of the blocks that the collector moves.
    pub gc_streams: GcStreams,
    /// Interval of checkpoints: the index is written down so that the next mount need not read everything.
    pub checkpoints: CheckpointEvery,
    /// Bytes of the index that are kept in memory; the rest lies in mapping blocks (ADR 17). `None` is no limit. It comes
    /// to a few groups of entries at least, and to no limit where the volume leaves no room for mapping blocks.
    pub index_memory: Option<u64>,
    /// Entries of a group, if not as many as a block holds: for tests and simulation.
    pub index_group_entries: Option<usize>,
    /// Interval of summaries, which say what an open segment holds.
    pub summaries: SummaryEvery,
    /// Entries of the index have five bytes even where four reach every block: for tests and simulation.
    pub wide_entries: bool,
    /// Mounts go on with older versions of blocks where more drives lost what their random write areas held than the array
    /// can lose (ADR 52).
    pub accepts_lost_writes: bool,
    /// Zones of each drive that the write area gets (ADR 53); none without one.
    pub write_area_zones: u32,
    /// It has one zone for so many segments to spare at most, and fewer where drives or volume leave no room for as many. Without this
    /// it has all zones or none.
    pub write_area_spare: Option<u32>,
    /// How it is told which blocks are worth a slot of it (ADR 54).
    pub lifetimes: Lifetimes,
    /// What slots of it are for (ADR 85).
    pub slot_use: SlotUse,
    /// Constants of the adaptive policy.
    pub tuned: Tuned,
    /// Drawn at random for this mount: it tells copies of the array from one another that were used apart (ADR 70).
    pub mount_tag: u64,
}

/// Interval of checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointEvery {
    /// Never; one that is there is used, and kept as long as there is room.
    Never,
    /// As often as a checkpoint adds little to what is written: every 32 times its own size, 256 MiB at least.
    Auto,
    /// Whenever so many blocks were written.
    Blocks(u64),
}

/// Interval of the summaries of an open segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SummaryEvery {
    /// Never; those that are there are used.
    Never,
    /// As soon as a few stripes can be filled with a summary.
    Auto,
    /// Whenever so many rows were written.
    Rows(u32),
}

impl Default for Tuning {
    fn default() -> Tuning {
        // 256 MiB: eight requests of the largest size.
        Tuning {
            stripe_deadline: Nanos::from_micros(100),
            client_frames_max: 1 << 16,
            rebuild_rate: None,
            stripe_table: Packing::default(),
            stripe_tables_bytes_max: None,
            policy: Policy::default(),
            gc: GcPolicy::default(),
            gc_streams: GcStreams::default(),
            checkpoints: CheckpointEvery::Never,
            index_memory: None,
            index_group_entries: None,
            summaries: SummaryEvery::Auto,
            wide_entries: false,
            accepts_lost_writes: false,
            write_area_zones: 0,
            write_area_spare: None,
            lifetimes: Lifetimes::default(),
            slot_use: SlotUse::default(),
            tuned: Tuned::default(),
            mount_tag: 0,
        }
    }
}

/// Why an array cannot be made like this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// Too few or too many drives for the level, or an odd number where it needs an even one.
    Members {
        /// The level.
        level: Level,
        /// Drives asked for.
        members: usize,
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
    /// No segment is open for clients, or too many are.
    OpenSegments {
        /// Segments of small and large chunks.
        segments: u32,
    },
    /// A drive's limit on active zones is too low.
    ActiveZones {
        /// The drive's limit.
        zones: u32,
        /// Zones needed.
        zones_min: u32,
    },
    /// A zone is too small or too large to hold a segment's part.
    ZoneCapacity {
        /// Capacity in blocks.
        blocks: u32,
    },
    /// The drives have too few zones.
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
            ConfigError::Members { level, members } => {
                let even = if *level == Level::Raid01 { ", an even number" } else { "" };
                let members_min = (1..).find(|count| level.erasure_code(*count).is_some()).unwrap_or(1);
                write!(
                    f,
                    "{level} over {members} drives: needs {members_min} to {MEMBERS_MAX}{even}; change --drives or --level"
                )
            }
            ConfigError::Chunk { blocks, blocks_max } => write!(
                f,
                "chunk of {}: must be a multiple of 4 KiB up to {} (64 KiB or the drives' append limit, \
                 whichever is less)",
                human_bytes(u64::from(*blocks) * BLOCK_BYTES_U64),
                human_bytes(u64::from(*blocks_max) * BLOCK_BYTES_U64)
            ),
            ConfigError::Group { stripes } => {
                write!(f, "group of {stripes} stripes: must be 1 to {GROUP_STRIPES_MAX}")
            }
            ConfigError::OpenSegments { segments } => {
                write!(f, "{segments} open segments for clients: must be 1 to {OPEN_SEGMENTS_MAX}")
            }
            ConfigError::ActiveZones { zones, zones_min } => write!(
                f,
                "drives allow {zones} active zones: {zones_min} are needed, one for each segment that is open for \
                 clients and {ACTIVE_ZONES_OVERHEAD} more; raise --max-open of emulated drives, or use devices that allow more"
            ),
            ConfigError::ZoneCapacity { blocks } => write!(
                f,
                "zone capacity of {}: a segment does not fit (too small for a few stripes and their footer, or \
                 more than {STRIPES_MAX} stripes); change --zone-capacity",
                human_bytes(u64::from(*blocks) * BLOCK_BYTES_U64)
            ),
            ConfigError::Zones { zones, zones_min } => {
                write!(
                    f,
                    "{zones} zones per drive: at least {zones_min} are needed; raise --zones of emulated drives, or use larger \
                     devices or a smaller --zone-size"
                )
            }
            ConfigError::VolumeSize { blocks, blocks_max } => write!(
                f,
                "volume of {}: these drives hold at most {} beside the reserve for garbage collection; lower \
                 --size, or raise --zones of emulated drives, or use larger devices",
                human_bytes(blocks * BLOCK_BYTES_U64),
                human_bytes(blocks_max * BLOCK_BYTES_U64)
            ),
            ConfigError::TooLarge => write!(
                f,
                "the drives have more blocks than 40-bit index entries can address (about 4 PiB over all drives); \
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
        if self.level.erasure_code(self.members).is_none() {
            return Err(ConfigError::Members { level: self.level, members: self.members });
        }
        let blocks_max =
            CHUNK_BLOCKS_MAX.min(self.geometry.append_blocks_max).min(self.geometry.transfer_blocks_max);
        let large = if self.open.large > 0 { self.open.large_chunk_blocks } else { self.chunk_blocks };
        for blocks in [self.chunk_blocks, large] {
            if blocks == 0 || blocks > blocks_max {
                return Err(ConfigError::Chunk { blocks, blocks_max });
            }
        }
        if self.group_stripes == 0 || self.group_stripes > GROUP_STRIPES_MAX {
            return Err(ConfigError::Group { stripes: self.group_stripes });
        }
        let segments = self.open.small.saturating_add(self.open.large);
        if segments == 0 || segments > OPEN_SEGMENTS_MAX {
            return Err(ConfigError::OpenSegments { segments });
        }
        let (zones, zones_min) = (self.geometry.active_zones_max, segments + ACTIVE_ZONES_OVERHEAD);
        if zones < zones_min {
            return Err(ConfigError::ActiveZones { zones, zones_min });
        }
        let blocks = self.geometry.zone_capacity_blocks;
        for chunk_blocks in [self.chunk_blocks, large] {
            let fits = [WriteMode::Append, self.mode_of_others()].map(|mode| self.fit(chunk_blocks, mode));
            if fits.iter().any(|fit| fit.is_none_or(|layout| layout.stripes > STRIPES_MAX)) {
                return Err(ConfigError::ZoneCapacity { blocks });
            }
        }
        if PbaFormat::new(self.members, &self.geometry).is_none() {
            return Err(ConfigError::TooLarge);
        }
        self.validate_space()
    }

    /// The reserve's proof. When clients are stopped for want of space, all segments but
    /// those of [`ArrayConfig::segments_overhead`] are sealed, and what is live in them is at most the volume and its
    /// tombstones. So the emptiest one holds at most the average, and moving it frees the rest of
    /// it, less one padded stripe. As long as that is more than zero, collection makes progress.
    fn validate_space(&self) -> Result<(), ConfigError> {
        let zones_min = SUPERBLOCK_ZONES + self.segments_overhead() + 1;
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
        let Sealed { blocks, by_gain } = self.sealed(self.segments_overhead());
        let by_parts = blocks * SPACE_PARTS_USABLE / SPACE_PARTS;
        without_tombstones(by_parts.min(by_gain))
    }

    /// True when so many segments can be put to another use than the volume's blocks, some of them open: the reserve's
    /// proof holds without them, and drives allow as many more active zones.
    ///
    /// # Panics
    /// When the zone capacity was not validated.
    #[must_use]
    pub fn affords(&self, segments: u32, open: u32) -> bool {
        let Sealed { by_gain, .. } = self.sealed(self.segments_overhead() + segments);
        self.has_active_zones(open) && self.volume_blocks <= without_tombstones(by_gain)
    }

    /// True when drives allow so many active zones beside those of clients and what serves them.
    #[must_use]
    pub fn has_active_zones(&self, more: u32) -> bool {
        self.geometry.active_zones_max >= self.open.small + self.open.large + ACTIVE_ZONES_OVERHEAD + more
    }

    /// Returns what sealed segments hold when all but so many are sealed.
    fn sealed(&self, unsealed: u32) -> Sealed {
        let layouts = Stream::DATA.map(|stream| self.layouts(stream)).concat();
        let sealed = u64::from(self.segments().saturating_sub(unsealed));
        let stripe = layouts.iter().map(Layout::stripe_data_blocks).max().expect("of the collector at least");
        let gain = VICTIM_GAIN_STRIPES_MIN * u64::from(stripe);
        let segment = layouts.iter().map(Layout::segment_data_blocks).min().map_or(0, u64::from);
        assert!(stripe > 0, "a stripe holds data");
        assert!(segment >= u64::from(stripe), "a segment holds a stripe");
        Sealed { blocks: sealed * segment, by_gain: sealed * segment.saturating_sub(gain) }
    }

    /// Segments that hold no data when the volume is full.
    ///
    /// # Panics
    /// When the zone capacity was not validated.
    #[must_use]
    pub fn segments_without_data(&self) -> u32 {
        let segment = u64::from(self.user_layout().segment_data_blocks());
        let full = u32::try_from(self.volume_blocks.div_ceil(segment)).unwrap_or(u32::MAX);
        self.segments().saturating_sub(full)
    }

    /// Segments without data beside those that can hold none at the worst moment.
    ///
    /// # Panics
    /// When the zone capacity was not validated.
    #[must_use]
    pub fn segments_spare(&self) -> u32 {
        self.segments_without_data().saturating_sub(self.segments_overhead())
    }

    /// Segments that hold no reclaimable data at the worst moment.
    #[must_use]
    pub fn segments_overhead(&self) -> u32 {
        self.open.small + self.open.large + SEGMENTS_OVERHEAD
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
        self.level.erasure_code(self.members).expect("validated member count")
    }

    /// Layout of the first segment that is open for clients.
    ///
    /// # Panics
    /// When the configuration was not validated.
    #[must_use]
    pub fn user_layout(&self) -> Layout {
        let small = self.layouts(Stream::Small).into_iter().next();
        small.or_else(|| self.layouts(Stream::Large).into_iter().next()).expect("validated open segments")
    }

    /// Layout of segments that hold blocks the collector moved.
    ///
    /// # Panics
    /// When the configuration was not validated.
    #[must_use]
    pub fn gc_layout(&self) -> Layout {
        self.layout(Stream::Gc, WriteMode::Write)
    }

    /// Layouts of the open segments of a stream.
    ///
    /// # Panics
    /// When the zone capacity was not validated.
    #[must_use]
    pub fn layouts(&self, stream: Stream) -> Vec<Layout> {
        self.modes(stream).into_iter().map(|mode| self.layout(stream, mode)).collect()
    }

    /// Layout of the segments of a stream in a mode.
    ///
    /// # Panics
    /// When the zone capacity was not validated.
    #[must_use]
    pub fn layout(&self, stream: Stream, mode: WriteMode) -> Layout {
        self.fit(self.chunk_blocks_of(stream), mode).expect("validated zone capacity")
    }

    /// Returns the write modes of the open segments of a stream.
    #[must_use]
    pub fn modes(&self, stream: Stream) -> Vec<WriteMode> {
        let appends = match (self.group_stripes, self.open.append) {
            (1, _) | (_, AppendUse::Areas) => 0,
            (_, AppendUse::OneSmall) => usize::from(stream == Stream::Small),
            (_, AppendUse::All) => usize::MAX,
        };
        let count = match stream {
            Stream::Small => self.open.small,
            Stream::Large => self.open.large,
            Stream::Gc | Stream::Cold | Stream::Mapping => return vec![WriteMode::Write],
        };
        let others = self.mode_of_others();
        let mode = |index| if index < appends { WriteMode::Append } else { others };
        (0..count as usize).map(mode).collect()
    }

    /// Mode of clients' segments that are not written with Zone Append.
    fn mode_of_others(&self) -> WriteMode {
        if self.areas().is_some() { WriteMode::Area } else { WriteMode::Write }
    }

    /// Returns the stream for a request of so many blocks.
    #[must_use]
    pub fn stream_for(&self, blocks: u64) -> Stream {
        let OpenSegments { small, large, large_chunk_blocks, .. } = self.open;
        assert!(small + large > 0, "a segment is open for clients");
        let is_large = large > 0 && (small == 0 || blocks >= u64::from(large_chunk_blocks));
        if is_large { Stream::Large } else { Stream::Small }
    }

    /// Blocks of a chunk of a stream; what is moved goes to large chunks where there are any.
    #[must_use]
    pub fn chunk_blocks_of(&self, stream: Stream) -> u32 {
        match stream {
            Stream::Small => self.chunk_blocks,
            _ if self.open.large > 0 => self.open.large_chunk_blocks,
            _ => self.chunk_blocks,
        }
    }

    fn fit(&self, chunk_blocks: u32, mode: WriteMode) -> Option<Layout> {
        let granule_blocks = self.geometry.areas.map_or(HEADER_BLOCKS, |areas| areas.granule_blocks);
        let sizes = LayoutSizes {
            header_blocks: match mode {
                WriteMode::Area => granule_blocks + MARKER_BLOCKS,
                WriteMode::Append | WriteMode::Write => HEADER_BLOCKS,
            },
            chunk_blocks,
            group_stripes: if mode == WriteMode::Append { self.group_stripes } else { WRITE_GROUP_STRIPES },
            capacity_blocks: self.geometry.zone_capacity_blocks,
        };
        Layout::fit(self.code(), self.level, &sizes)
    }
}

/// Contents of sealed segments.
struct Sealed {
    /// Blocks of data.
    blocks: u64,
    /// Most blocks of data that may be live while the emptiest segment is still worth collecting.
    by_gain: u64,
}

/// Returns so many live blocks without tombstones, of which there is one for each region at the worst.
fn without_tombstones(blocks: u64) -> u64 {
    blocks.saturating_sub(blocks.div_ceil(REGION_BLOCKS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_as_large_as_a_command_may_be() {
        let array = test_array::array(400, 40, 14, 80);
        let with = |chunk_blocks| ArrayConfig { chunk_blocks, ..array.clone() }.validate();
        assert_eq!(with(CHUNK_BLOCKS_MAX), Ok(()));
        let refused = |blocks| Err(ConfigError::Chunk { blocks, blocks_max: CHUNK_BLOCKS_MAX });
        assert_eq!([0, 17, 64].map(with), [0, 17, 64].map(refused));
        let short = Geometry { append_blocks_max: 8, ..array.geometry };
        let of_short = ArrayConfig { chunk_blocks: 9, geometry: short, ..array.clone() };
        assert_eq!(of_short.validate(), Err(ConfigError::Chunk { blocks: 9, blocks_max: 8 }));
    }
}

/// Arrays for tests.
#[cfg(test)]
pub mod test_array {
    use super::{ArrayConfig, OpenSegments};
    use zone::device::Geometry;
    use zone::stripe::Level;

    /// Four drives in RAID-5 whose volume takes so many per cent of the largest.
    pub fn array(zone_capacity_blocks: u32, zones: u32, active_zones_max: u32, percent: u64) -> ArrayConfig {
        let geometry = Geometry {
            zones,
            zone_size_blocks: zone_capacity_blocks.next_power_of_two(),
            zone_capacity_blocks,
            open_zones_max: active_zones_max,
            active_zones_max,
            append_blocks_max: 64,
            transfer_blocks_max: 64,
            volatile_cache: false,
            areas: None,
        };
        let mut config = ArrayConfig {
            array: [1; 16],
            level: Level::Raid5,
            members: 4,
            chunk_blocks: 1,
            group_stripes: 256,
            open: OpenSegments::default(),
            volume_blocks: 1,
            geometry,
        };
        config.volume_blocks = config.volume_blocks_max() * percent / 100;
        config.validate().expect("an array");
        config
    }
}
