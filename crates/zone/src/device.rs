//! The zoned command set: what can be asked of a drive and how it answers.
//!
//! A drive is a [`ZonedDevice`]: commands go in through `submit`, completions come out of `poll`,
//! in any order. Buffers travel with the command and come home with its completion. Every block
//! carries 64 bytes of out-of-band metadata, written and read with its data.

use crate::condition::Condition;
use base::frame::Frame;
use base::time::Instant;
use base::units::{BLOCK_BYTES_U64, ZoneIndex};

/// Says who waits for a command. Opaque to the drive; it comes back with the completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token(pub u64);

impl Token {
    /// A token of a kind of waiter, one of them, and a part of that.
    ///
    /// # Panics
    /// When the part takes more than 24 bits.
    #[must_use]
    pub fn pack(kind: u8, slot: u32, part: u32) -> Token {
        assert!(part < 1 << 24);
        Token(u64::from(kind) << 56 | u64::from(slot) << 24 | u64::from(part))
    }

    /// Kind, slot and part.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "fields are masked to their width")]
    pub fn unpack(self) -> (u8, u32, u32) {
        ((self.0 >> 56) as u8, (self.0 >> 24) as u32, (self.0 & 0xff_ffff) as u32)
    }
}

/// Zones and limits of a drive. Blocks are 4 KiB with 64 bytes of metadata; nothing else is supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Zones of the namespace.
    pub zones: u32,
    /// Distance between the starts of two zones, in blocks.
    pub zone_size_blocks: u32,
    /// Blocks of a zone that can be written; at most the zone size.
    pub zone_capacity_blocks: u32,
    /// Most zones open at a time (NVMe MOR + 1).
    pub open_zones_max: u32,
    /// Most zones open or closed at a time (NVMe MAR + 1).
    pub active_zones_max: u32,
    /// Most blocks of one zone append (NVMe ZASL).
    pub append_blocks_max: u32,
    /// Most blocks of any other transfer (NVMe MDTS).
    pub transfer_blocks_max: u32,
    /// Completed writes may be lost on power failure until a flush completes.
    pub volatile_cache: bool,
    /// Random write areas of zones (ZRWA); `None` for drives without.
    pub areas: Option<Areas>,
}

/// Random write areas of a drive's zones: a window of blocks from the write pointer on, in the drive's non-volatile
/// buffer, in which blocks may be written in any order and again before they are committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Areas {
    /// Most zones with an area at a time (NUMZRWA).
    pub zones_max: u32,
    /// Blocks of a window (ZRWASZ).
    pub window_blocks: u32,
    /// Blocks by multiples of which the write pointer moves (ZRWAFG).
    pub granule_blocks: u32,
    /// The drive commits when told to (ZRWACAP), not only when a write goes beyond the window.
    pub explicit_commit: bool,
}

impl Geometry {
    /// Blocks that can be written to the whole drive.
    #[must_use]
    pub fn capacity_blocks(&self) -> u64 {
        u64::from(self.zones) * u64::from(self.zone_capacity_blocks)
    }

    /// True when a drive of this geometry can take the place of one of another: its zones are alike, and nothing is less.
    #[must_use]
    pub fn covers(&self, other: &Geometry) -> bool {
        self.zones >= other.zones
            && self.zone_size_blocks == other.zone_size_blocks
            && self.zone_capacity_blocks == other.zone_capacity_blocks
            && self.open_zones_max >= other.open_zones_max
            && self.active_zones_max >= other.active_zones_max
            && self.append_blocks_max >= other.append_blocks_max
            && self.transfer_blocks_max >= other.transfer_blocks_max
    }

    /// Geometry of one of `count` equal slices of the drive: ranges of its zones, each with its part of the limits on open and active
    /// zones. Zones that are left over belong to none.
    ///
    /// # Panics
    /// When there are no slices.
    #[must_use]
    pub fn slice(&self, count: usize) -> Geometry {
        let count = u32::try_from(count).expect("as many slices as cores, about");
        assert!(count > 0, "a drive is cut into one slice at least");
        if count == 1 {
            return *self;
        }
        Geometry {
            zones: self.zones / count,
            open_zones_max: self.open_zones_max / count,
            active_zones_max: self.active_zones_max / count,
            // Areas are few, and nobody who shares a drive uses them.
            areas: None,
            ..*self
        }
    }

    /// Bytes that can be written to the whole drive.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_blocks() * BLOCK_BYTES_U64
    }
}

/// An operation on one zone. Offsets and counts are in blocks from the start of the zone.
#[derive(Debug)]
pub enum Op {
    /// Reads `frames.len()` blocks. Blocks at or beyond the write pointer read as zeros.
    Read {
        /// First block to read.
        offset: u32,
        /// Frames for data and metadata.
        frames: Vec<Frame>,
    },
    /// Writes at `offset`, which must be the write pointer; in a zone with a random write area anywhere in its window,
    /// or up to a window beyond, which commits what falls out of the window.
    Write {
        /// First block to write.
        offset: u32,
        /// Frames to write.
        frames: Vec<Frame>,
    },
    /// Writes at the write pointer; the completion tells where that was.
    Append {
        /// Frames to write.
        frames: Vec<Frame>,
    },
    /// Empties the zone.
    Reset,
    /// Makes the zone full without writing the rest of it.
    Finish,
    /// Opens the zone explicitly.
    Open,
    /// Opens an empty zone explicitly, with a random write area.
    OpenWithArea,
    /// Commits the random write area of the zone: the write pointer moves to `end`, and what it passes unwritten reads
    /// as zeros for good.
    Commit {
        /// New write pointer, whole granules after the present one and at most a window.
        end: u32,
    },
    /// Closes the zone: it stays active but releases its open resource.
    Close,
    /// Lists the states of `count` zones, starting with the command's zone.
    Report {
        /// Most descriptors wanted.
        count: u32,
    },
    /// Finds the first of `count` zones, starting with the command's zone, that turned read-only or offline. The report has
    /// its descriptor, or nothing; the completion's offset says how many zones behind the command's zone it lies.
    FindTurned {
        /// Most zones looked at.
        count: u32,
    },
    /// Makes every write that completed before this command durable against power failure.
    Flush,
    /// Verifies what the drive needs beside its blocks to be found and opened again: [`Status::InternalError`] when that
    /// is damaged. An emulated drive looks at its file's header and zone table; others have nothing to verify.
    SelfTest {
        /// Write it anew where it is damaged, durably; then the status says how that went.
        repair: bool,
    },
}

/// A command on its way to a drive.
#[derive(Debug)]
pub struct Command {
    /// Waiter of the command.
    pub token: Token,
    /// The zone it acts on; ignored by `Flush` and `SelfTest`.
    pub zone: ZoneIndex,
    /// Operation to carry out.
    pub op: Op,
}

/// A command's outcome.
#[derive(Debug)]
pub struct Completion {
    /// Waiter of the command.
    pub token: Token,
    /// Result of the command.
    pub status: Status,
    /// The command's zone.
    pub zone: ZoneIndex,
    /// First block read, as asked; first block written, for writes and appends that succeeded; of a search for zones, how
    /// many lie before the one that was found.
    pub offset: u32,
    /// The command's frames, home again whatever the status.
    pub frames: Vec<Frame>,
    /// Answer to a report, or to a search for zones.
    pub report: Vec<ZoneDescriptor>,
}

/// State of a zone (NVMe ZNS 1.1, figure 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneState {
    /// Nothing written; the write pointer is at the start.
    Empty,
    /// Opened by a write.
    ImplicitOpen,
    /// Opened by a command.
    ExplicitOpen,
    /// Active but not open.
    Closed,
    /// No more can be written; the write pointer is undefined.
    Full,
    /// The drive no longer accepts writes here; what is written can be read.
    ReadOnly,
    /// The drive has given the zone up.
    Offline,
}

impl ZoneState {
    /// Counts against the open-zone limit.
    #[must_use]
    pub fn is_open(self) -> bool {
        matches!(self, ZoneState::ImplicitOpen | ZoneState::ExplicitOpen)
    }

    /// Counts against the active-zone limit.
    #[must_use]
    pub fn is_active(self) -> bool {
        self.is_open() || self == ZoneState::Closed
    }

    /// Takes no more writes, for good: the drive may turn a zone so by itself, whatever its state is.
    #[must_use]
    pub fn has_turned(self) -> bool {
        matches!(self, ZoneState::ReadOnly | ZoneState::Offline)
    }
}

/// A line of a zone report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneDescriptor {
    /// State of the zone.
    pub state: ZoneState,
    /// Next block to write. Undefined (all ones) when the zone is full, read-only or offline.
    pub write_pointer: u32,
    /// Blocks that can be written.
    pub capacity: u32,
    /// The zone has a random write area (ZRWAV).
    pub has_area: bool,
}

impl ZoneDescriptor {
    /// Blocks of the zone that may hold data, of a drive whose zones have so many. The write pointer of a full zone is undefined: then all.
    #[must_use]
    pub fn written_blocks(&self, capacity: u32) -> u32 {
        match self.state {
            ZoneState::Empty | ZoneState::Offline => 0,
            ZoneState::Full | ZoneState::ReadOnly => capacity,
            ZoneState::ImplicitOpen | ZoneState::ExplicitOpen | ZoneState::Closed => self.write_pointer,
        }
    }
}

/// Result of a command: the NVMe status (status code type and code), or what the host found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Done.
    Success,
    /// A field of the command is out of its range (0x002): too many blocks, or none.
    InvalidField,
    /// The drive failed internally (0x006).
    InternalError,
    /// The zone does not exist (0x080).
    LbaOutOfRange,
    /// The operation does not suit a zone with, or without, a random write area (0x1b6).
    InvalidZoneOperation,
    /// As many zones as can have a random write area have one (0x1b7).
    NoAreaLeft,
    /// The command reaches beyond the end of the zone (0x1b8).
    ZoneBoundaryError,
    /// The zone is full (0x1b9).
    ZoneIsFull,
    /// The zone is read-only (0x1ba).
    ZoneIsReadOnly,
    /// The zone is offline (0x1bb).
    ZoneIsOffline,
    /// The write is not at the write pointer (0x1bc).
    ZoneInvalidWrite,
    /// The active-zone limit is reached (0x1bd).
    TooManyActiveZones,
    /// The open-zone limit is reached (0x1be).
    TooManyOpenZones,
    /// The zone cannot make this transition (0x1bf).
    InvalidZoneStateTransition,
    /// The media refused the write (0x280).
    WriteFault,
    /// The media could not return the data (0x281).
    UnrecoveredReadError,
    /// The host lost the drive (no NVMe status: the command may or may not have been executed).
    DeviceGone,
    /// A read was not carried out, for its drive is away and may come back (no NVMe status): asked again, it waits for that.
    Stalled,
}

impl Status {
    /// True when a write, a finish or the like was refused for what its zone is, not for what its drive is: the zone
    /// takes no more, others may.
    #[must_use]
    pub fn ends_zone(self) -> bool {
        matches!(
            self,
            Status::ZoneIsFull | Status::ZoneIsReadOnly | Status::ZoneIsOffline | Status::WriteFault
        )
    }

    /// True when a command was refused for its zone not being as its author knows it: it made a mistake, or another one writes
    /// to the drive.
    #[must_use]
    #[inline]
    pub fn contradicts_zone(self) -> bool {
        matches!(
            self,
            Status::InvalidField
                | Status::LbaOutOfRange
                | Status::InvalidZoneOperation
                | Status::ZoneBoundaryError
                | Status::ZoneIsFull
                | Status::ZoneInvalidWrite
                | Status::InvalidZoneStateTransition
        )
    }

    /// Status code type and status code, as in NVMe Base 2.0 section 4.2.3 and ZNS 1.1 section 4.1.
    #[must_use]
    pub fn nvme_code(self) -> u16 {
        match self {
            Status::Success => 0x000,
            Status::InvalidField => 0x002,
            Status::InternalError => 0x006,
            Status::LbaOutOfRange => 0x080,
            Status::InvalidZoneOperation => 0x1b6,
            Status::NoAreaLeft => 0x1b7,
            Status::ZoneBoundaryError => 0x1b8,
            Status::ZoneIsFull => 0x1b9,
            Status::ZoneIsReadOnly => 0x1ba,
            Status::ZoneIsOffline => 0x1bb,
            Status::ZoneInvalidWrite => 0x1bc,
            Status::TooManyActiveZones => 0x1bd,
            Status::TooManyOpenZones => 0x1be,
            Status::InvalidZoneStateTransition => 0x1bf,
            Status::WriteFault => 0x280,
            Status::UnrecoveredReadError => 0x281,
            Status::DeviceGone => 0x371,
            Status::Stalled => 0x370,
        }
    }
}

/// A zoned drive.
pub trait ZonedDevice: Send {
    /// Zones and limits of the drive. They do not change.
    fn geometry(&self) -> &Geometry;

    /// Hands over a command. It never blocks for long and never fails: whatever is wrong with the
    /// command comes back as the status of its completion.
    fn submit(&mut self, now: Instant, command: Command);

    /// Moves the completions that are due by `now` into `completions`, in any order.
    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>);

    /// Time at which the next completion is due, for drives that live in virtual time. `None` for drives whose
    /// completions come when they come, and when nothing is in flight.
    fn next_event(&self) -> Option<Instant> {
        None
    }

    /// Condition of the drive, for drives that know more than their answers say. Asked now and then.
    fn condition(&mut self, _now: Instant) -> Condition {
        Condition::default()
    }

    /// Gives the drive up: what is outstanding is answered with [`Status::DeviceGone`] by the next poll, and so is
    /// every later command. Frames that the drive does not give back are replaced by others. Does nothing to drives
    /// that always answer.
    fn abandon(&mut self) {}

    /// From now on, or not any more, a hiccup is not the end: a command whose fate nobody knows is answered with
    /// [`Status::DeviceGone`] and its own frames, and others go on. Drives that wait for what is away do that then. Does nothing to
    /// drives that have no hiccups.
    fn outlive_hiccups(&mut self, _outlives: bool) {}

    /// True while the drive is away and waited for: what it is asked waits, too.
    fn is_stalled(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEOMETRY: Geometry = Geometry {
        zones: 40,
        zone_size_blocks: 64,
        zone_capacity_blocks: 48,
        open_zones_max: 14,
        active_zones_max: 16,
        append_blocks_max: 8,
        transfer_blocks_max: 32,
        volatile_cache: false,
        areas: None,
    };

    #[test]
    fn a_drive_covers_another_with_alike_zones_and_nothing_less() {
        let with = |change: fn(&mut Geometry)| {
            let mut geometry = GEOMETRY;
            change(&mut geometry);
            geometry
        };
        assert!(GEOMETRY.covers(&GEOMETRY));
        let limits: [fn(&mut Geometry); 5] = [
            |geometry| geometry.zones += 1,
            |geometry| geometry.open_zones_max += 1,
            |geometry| geometry.active_zones_max += 1,
            |geometry| geometry.append_blocks_max += 1,
            |geometry| geometry.transfer_blocks_max += 1,
        ];
        for larger in limits.map(with) {
            assert!(larger.covers(&GEOMETRY) && !GEOMETRY.covers(&larger), "{larger:?}");
        }
        for shape in [
            with(|geometry| geometry.zone_size_blocks += 1),
            with(|geometry| geometry.zone_capacity_blocks += 1),
        ] {
            assert!(!shape.covers(&GEOMETRY) && !GEOMETRY.covers(&shape), "{shape:?}");
        }
    }
}
