//! Configuration: what an array is made of, how it is run, and where everything lies.

use base::erasure::{ErasureCode, PIECES_MAX, Piece};
use base::units::{Lba, ZoneIndex};
use std::fmt;
use zone::device::Geometry;
use zone::format::HEADER_BLOCKS;
use zone::format::oob::{Place, Role};
use zone::stripe::{Layout, Level, StripeNumber};

/// Zones at the end of each drive that hold the log: one is written, one is being replaced, and one is empty so
/// that a mount can begin anew. RAIZN keeps as many (section 4.3 of its paper).
pub const LOG_ZONES: u32 = 3;
/// Blocks of records that are neither partial parity nor checkpoints, in one log zone: members that fail, zones
/// that are reset.
pub(crate) const OTHER_RECORDS_MAX: u32 = 16;
/// Most rows of a chunk: what one header block has room for.
pub(crate) const CHUNK_BLOCKS_MAX: u32 = 64;
/// Stripes in flight of one logical zone: so many blocks, within bounds, as in the log-structured engine.
const STRIPE_BLOCKS_IN_FLIGHT: usize = 1024;
const STRIPES_IN_FLIGHT_MIN: usize = 16;
const STRIPES_IN_FLIGHT_MAX: usize = 256;

/// An array. What is here is on the media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RaiznConfig {
    /// Identity.
    pub array: [u8; 16],
    /// Drives, k + 1.
    pub members: usize,
    /// C, blocks of a chunk.
    pub chunk_blocks: u32,
    /// Zones and limits of every drive.
    pub geometry: Geometry,
}

/// Place of the metadata of partial parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// In a block of its own before it, as RAIZN was released.
    Block,
    /// In the out-of-band metadata of the partial parity itself.
    OutOfBand,
}

/// Settings with which an array is run; may differ from mount to mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Place of the metadata of partial parity.
    pub header: Header,
    /// Stripes of one logical zone that may be written at once; all their data stays in memory.
    pub stripes_in_flight: u32,
    /// Most blocks of one Zone Write. Chunks that wait for the same zone and follow one another leave together,
    /// as Linux' block layer merges them under its zone write lock; C leaves every chunk alone.
    pub write_blocks_max: u32,
}

impl Tuning {
    /// The usual for an array.
    #[must_use]
    pub fn usual(config: &RaiznConfig, header: Header) -> Tuning {
        let stripe_blocks = config.members * config.chunk_blocks as usize;
        let stripes = (STRIPE_BLOCKS_IN_FLIGHT / stripe_blocks.max(1))
            .clamp(STRIPES_IN_FLIGHT_MIN, STRIPES_IN_FLIGHT_MAX);
        Tuning { header, stripes_in_flight: count(stripes), write_blocks_max: config.chunk_blocks }
    }
}

/// Why an array cannot work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// Fewer than 2 members, or more than the parity code takes.
    Members(usize),
    /// A chunk of no blocks, or of too many.
    ChunkBlocks(u32),
    /// Zones of so many blocks do not hold whole chunks.
    ZoneCapacity(u32),
    /// Not even one logical zone beside those of the log, or too few zones that may be open.
    Zones,
    /// Drives that may lose completed writes.
    VolatileCache,
    /// A log zone has no room for what it must hold.
    LogZone {
        /// Blocks needed.
        needed: u32,
        /// Blocks there are.
        capacity: u32,
    },
    /// A transfer limit of the drives, or of a tuning, is below one chunk.
    Transfer(u32),
    /// No stripes in flight.
    StripesInFlight,
    /// Drives without write areas, or with some that they do not commit when told to. ZRAID alone needs them.
    Areas,
    /// Chunks that write pointers do not pass in two steps.
    Granule {
        /// Blocks of a chunk.
        chunk: u32,
        /// Blocks of a step.
        granule: u32,
    },
    /// Windows of so many blocks, of which half is below a chunk.
    Window(u32),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Members(members) => {
                write!(f, "{members} drives cannot form an array: use 2 to {PIECES_MAX}")
            }
            ConfigError::ChunkBlocks(blocks) => {
                write!(f, "chunks of {blocks} blocks are not possible: use 1 to {CHUNK_BLOCKS_MAX}")
            }
            ConfigError::ZoneCapacity(capacity) => {
                write!(
                    f,
                    "zones of {capacity} blocks do not hold whole chunks: choose chunks that divide them"
                )
            }
            ConfigError::Zones => {
                write!(f, "the drives need more than {LOG_ZONES} zones, and as many that may be open")
            }
            ConfigError::VolatileCache => {
                write!(f, "drives with volatile caches are not supported here: use the log-structured engine")
            }
            ConfigError::LogZone { needed, capacity } => write!(
                f,
                "a log zone of {capacity} blocks is too small for {needed}: use larger zones, smaller chunks, or \
                 fewer stripes in flight"
            ),
            ConfigError::Transfer(blocks) => {
                write!(f, "transfers of {blocks} blocks are below a chunk: use smaller chunks")
            }
            ConfigError::StripesInFlight => write!(f, "at least one stripe must be in flight"),
            ConfigError::Areas => {
                write!(f, "ZRAID needs drives that commit their write areas when told to: use another scheme")
            }
            ConfigError::Granule { chunk, granule } => write!(
                f,
                "write pointers that move by {granule} blocks do not pass chunks of {chunk} in two steps: use larger ones"
            ),
            ConfigError::Window(blocks) => {
                write!(f, "half a window of {blocks} blocks is below a chunk: use smaller chunks")
            }
        }
    }
}

impl std::error::Error for ConfigError {}

impl RaiznConfig {
    /// Checks that the array can work when it is run like this.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn validate(&self, tuning: &Tuning) -> Result<(), ConfigError> {
        let Geometry { zones, zone_capacity_blocks: capacity, .. } = self.geometry;
        if !(2..=PIECES_MAX).contains(&self.members) {
            return Err(ConfigError::Members(self.members));
        }
        if !(1..=CHUNK_BLOCKS_MAX).contains(&self.chunk_blocks) {
            return Err(ConfigError::ChunkBlocks(self.chunk_blocks));
        }
        if capacity < self.chunk_blocks || !capacity.is_multiple_of(self.chunk_blocks) {
            return Err(ConfigError::ZoneCapacity(capacity));
        }
        if zones <= LOG_ZONES || self.open_zones_allowed() <= LOG_ZONES {
            return Err(ConfigError::Zones);
        }
        if self.geometry.volatile_cache {
            return Err(ConfigError::VolatileCache);
        }
        for blocks in [self.geometry.transfer_blocks_max, tuning.write_blocks_max] {
            if blocks < self.chunk_blocks {
                return Err(ConfigError::Transfer(blocks));
            }
        }
        if self.geometry.append_blocks_max < 2 {
            return Err(ConfigError::Transfer(self.geometry.append_blocks_max));
        }
        if tuning.stripes_in_flight == 0 {
            return Err(ConfigError::StripesInFlight);
        }
        let needed = self.log_reserve(tuning).saturating_mul(2).saturating_add(8 * self.chunk_blocks);
        if needed > capacity { Err(ConfigError::LogZone { needed, capacity }) } else { Ok(()) }
    }

    fn open_zones_allowed(&self) -> u32 {
        self.geometry.open_zones_max.min(self.geometry.active_zones_max)
    }

    /// Logical zones that may be open at once: the log takes its share.
    #[must_use]
    pub fn open_logical_zones_max(&self) -> u32 {
        self.open_zones_allowed().saturating_sub(LOG_ZONES)
    }

    /// Logical zones: logical zone i is zone i of every drive.
    #[must_use]
    pub fn logical_zones(&self) -> u32 {
        self.geometry.zones.saturating_sub(LOG_ZONES)
    }

    /// Blocks at the end of a log zone that only checkpoints of live partial parity may use: a whole chunk of every
    /// stripe that may be open, each block with a header at worst.
    #[must_use]
    pub fn log_reserve(&self, tuning: &Tuning) -> u32 {
        self.open_logical_zones_max()
            .saturating_mul(tuning.stripes_in_flight)
            .saturating_mul(2 * self.chunk_blocks)
            .saturating_add(OTHER_RECORDS_MAX)
    }

    /// Most rows of parity that a log may have to keep because recovery could not put them in their place: a
    /// quarter of what the reserves leave, each with a header at worst.
    #[must_use]
    pub fn relocated_rows_max(&self, tuning: &Tuning) -> usize {
        let reserved = self.log_reserve(tuning).saturating_mul(2);
        (self.geometry.zone_capacity_blocks.saturating_sub(reserved) / 4) as usize
    }

    /// Map of the array: the places of its blocks.
    ///
    /// # Panics
    /// When the configuration was not validated.
    #[must_use]
    pub fn map(&self) -> Map {
        let code = ErasureCode::new(self.members - 1, 1).expect("validated: 2 to 32 members");
        let stripes = self.geometry.zone_capacity_blocks / self.chunk_blocks;
        let layout = Layout {
            code,
            level: Level::Raid5,
            header_blocks: HEADER_BLOCKS,
            chunk_blocks: self.chunk_blocks,
            group_stripes: 1,
            stripes,
        };
        Map { layout }
    }
}

/// A block of a logical zone by its place in a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// Stripe of the zone, which is also the slot in every drive's zone.
    pub stripe: u32,
    /// Piece of the stripe; k is parity.
    pub piece: usize,
    /// Block within the chunk.
    pub row: u32,
}

/// Places of blocks: the same in every logical zone but for the rotation.
///
/// ```text
///   logical zone, 2+1, C = 2     | D0 D0 D1 D1 | D0 D0 D1 D1 | ...     positions 0, 1, 2, ...
///   zone of drive 0, 1, 2           D0   D1   P     D1   P   D0        stripe 0, stripe 1
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Map {
    /// Layout of stripes in a zone; parity rotates from stripe to stripe, and from zone to zone.
    pub layout: Layout,
}

impl Map {
    /// Returns the logical zone and the position in it of a block.
    ///
    /// # Panics
    /// When the block lies far beyond any volume.
    #[must_use]
    pub fn position_of(&self, lba: Lba) -> (u32, u32) {
        let zone_blocks = u64::from(self.zone_blocks());
        let narrow = |value: u64| u32::try_from(value).expect("requests lie within the volume");
        (narrow(lba.0 / zone_blocks), narrow(lba.0 % zone_blocks))
    }

    /// k.
    #[must_use]
    pub fn data_count(&self) -> usize {
        self.layout.code.data_count()
    }

    /// C.
    #[must_use]
    pub fn chunk_blocks(&self) -> u32 {
        self.layout.chunk_blocks
    }

    /// Blocks of data of a stripe.
    #[must_use]
    pub fn stripe_blocks(&self) -> u32 {
        count(self.data_count()) * self.chunk_blocks()
    }

    /// Blocks of data of a logical zone.
    #[must_use]
    pub fn zone_blocks(&self) -> u32 {
        self.stripe_blocks() * self.layout.stripes
    }

    /// Drive of a piece.
    #[must_use]
    pub fn drive_of(&self, zone: u32, stripe: u32, piece: usize) -> usize {
        self.layout.drive_of(StripeNumber(stripe + zone), Piece::at(piece))
    }

    /// Piece of a drive.
    #[must_use]
    pub fn piece_of(&self, zone: u32, stripe: u32, drive: usize) -> usize {
        self.layout.piece_of(StripeNumber(stripe + zone), drive).index()
    }

    /// Drive of a stripe's parity, in whose log its partial parity goes.
    #[must_use]
    pub fn parity_drive(&self, zone: u32, stripe: u32) -> usize {
        self.drive_of(zone, stripe, self.data_count())
    }

    /// The block at a position of a logical zone.
    #[must_use]
    pub fn spot(&self, position: u32) -> Spot {
        let within = position % self.stripe_blocks();
        Spot {
            stripe: position / self.stripe_blocks(),
            piece: (within / self.chunk_blocks()) as usize,
            row: within % self.chunk_blocks(),
        }
    }

    /// Position within its stripe of a block of data.
    #[must_use]
    pub fn within(&self, piece: usize, row: u32) -> u32 {
        count(piece) * self.chunk_blocks() + row
    }

    /// Rows of a piece that positions of its stripe below `coverage` fill; parity is there when all are.
    #[must_use]
    pub fn rows_below(&self, piece: usize, coverage: u32) -> u32 {
        if piece == self.data_count() {
            return if coverage == self.stripe_blocks() { self.chunk_blocks() } else { 0 };
        }
        coverage.saturating_sub(self.within(piece, 0)).min(self.chunk_blocks())
    }

    /// Place that the metadata of a block names, in an array, and in a logical zone of a generation.
    #[must_use]
    pub fn place(
        &self,
        array: u64,
        (zone, generation): (u32, u64),
        stripe: u32,
        piece: usize,
        row: u32,
    ) -> Place {
        Place {
            array,
            segment: generation,
            zone: ZoneIndex(zone),
            stripe: StripeNumber(stripe),
            group: stripe,
            piece: Piece::at(piece),
            row: u8::try_from(row).expect("validated: at most 64 rows"),
            role: if piece < self.data_count() { Role::Data } else { Role::Parity },
        }
    }

    /// Offset in its drive's zone of a block.
    #[must_use]
    pub fn offset(&self, stripe: u32, row: u32) -> u32 {
        stripe * self.chunk_blocks() + row
    }
}

/// A number of things in memory.
///
/// # Panics
/// When there are 2^32 of them.
#[must_use]
pub fn count(things: usize) -> u32 {
    u32::try_from(things).expect("fewer than 2^32 things")
}
