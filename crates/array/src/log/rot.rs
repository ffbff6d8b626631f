//! Which drive is rotting: what was found damaged, by drive and place, so that an operator replaces the right one.
//!
//! A block counts when a client, the collector, a rebuild or a scrub read it and it was not what was written there: the
//! first time of two where the second reading is for the same reader. Blocks of zeros were never written (ADR 11),
//! and what recovery finds torn by a crash is no damage.

use crate::log::Location;
use crate::log::core::Core;
use crate::log::mount::EPOCH_SHIFT_SEQUENCE;
use crate::log::segment::SegmentSlot;
use base::frame::Frame;
use base::units::{DriveIndex, ZoneIndex};
use std::fmt;
use zone::device::Status;
use zone::format::MEMBERS_MAX;
use zone::format::oob;
use zone::format::superblock::Uuid;

/// Places of damage that a scrub names; further ones are only counted.
pub const PLACES_NAMED_MAX: usize = 100;

/// Kind of damage to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamageKind {
    /// The drive could not return it.
    Unreadable,
    /// The data are not those of their checksum.
    Data,
    /// The metadata are damaged or those of another block; or the block is a damaged header or footer.
    Metadata,
    /// The block is the newest superblock record of its drive.
    Superblock,
    /// Not a block: what the drive needs to be opened again, such as the header of its file.
    Header,
}

/// A damaged block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DamagedPlace {
    /// Member.
    pub drive: DriveIndex,
    /// Zone.
    pub zone: ZoneIndex,
    /// Block within the zone.
    pub block: u32,
    /// Kind of the damage.
    pub kind: DamageKind,
}

/// Damage found on a drive since it was mounted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriveDamage {
    /// Identity of the drive.
    pub uuid: Uuid,
    /// Blocks that it could not return.
    pub unreadable: u64,
    /// Blocks whose data failed their checksum.
    pub data: u64,
    /// Blocks whose metadata did, headers and footers, and what describes the drive.
    pub metadata: u64,
    /// The last of them.
    pub last: Option<DamagedPlace>,
}

impl fmt::Display for DamagedPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DamagedPlace { drive, zone, block, kind } = self;
        let how = match kind {
            DamageKind::Header => return write!(f, "drive {drive}: the header of its file is damaged"),
            DamageKind::Unreadable => "unreadable",
            DamageKind::Data => "data fail their checksum",
            DamageKind::Metadata => "metadata damaged",
            DamageKind::Superblock => "superblock record damaged",
        };
        write!(f, "drive {drive}, zone {zone}, block {block}: {how}")
    }
}

impl DriveDamage {
    /// All of it.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.unreadable + self.data + self.metadata
    }

    fn add(&mut self, place: DamagedPlace) {
        match place.kind {
            DamageKind::Unreadable => self.unreadable += 1,
            DamageKind::Data => self.data += 1,
            DamageKind::Metadata | DamageKind::Superblock | DamageKind::Header => self.metadata += 1,
        }
        self.last = Some(place);
    }
}

/// Damage by drive, and what the last scrub found.
#[derive(Debug, Default)]
pub struct DamageLog {
    drives: Vec<DriveDamage>,
    scrubbed: Vec<DamagedPlace>,
}

impl DamageLog {
    /// Damage of a drive, whose identity the caller knows.
    #[must_use]
    pub fn of(&self, drive: usize, uuid: Uuid) -> DriveDamage {
        DriveDamage { uuid, ..self.drives.get(drive).copied().unwrap_or_default() }
    }

    /// Blocks found damaged, on all drives together: cheap enough to ask all the time.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.drives.iter().map(DriveDamage::blocks).sum()
    }

    /// Places that the scrub, or the last one, found damaged: the first of them.
    #[must_use]
    pub fn scrubbed(&self) -> &[DamagedPlace] {
        &self.scrubbed
    }

    /// Forgets the damage of a member in whose place is another drive.
    pub fn forget(&mut self, drive: usize) {
        if let Some(damage) = self.drives.get_mut(drive) {
            *damage = DriveDamage::default();
        }
    }

    /// A scrub begins.
    pub fn forget_scrubbed(&mut self) {
        self.scrubbed.clear();
    }

    fn name(&mut self, place: DamagedPlace) {
        if self.scrubbed.len() < PLACES_NAMED_MAX {
            self.scrubbed.push(place);
        }
    }

    fn add(&mut self, place: DamagedPlace) {
        assert!(place.drive.index() < MEMBERS_MAX, "damage of member {}", place.drive);
        let drive = place.drive.index();
        if self.drives.len() <= drive {
            self.drives.resize_with(drive + 1, DriveDamage::default);
        }
        self.drives[drive].add(place);
    }
}

impl Core {
    /// A block of a segment was read, and it is not what was written there.
    pub(super) fn note_damage(
        &mut self,
        segment: SegmentSlot,
        location: Location,
        frame: &Frame,
        status: Status,
    ) {
        let is_hole = status == Status::Success && frame.is_blank();
        if status == Status::DeviceGone || is_hole {
            return;
        }
        if status == Status::Success && self.is_of_later_mount(frame) {
            self.strangers.insert(location.drive.index());
        }
        let kind = damage_of(self, segment, location, frame, status);
        self.damage.add(place_of(location, kind));
    }

    /// True for a block that says it was written by a mount after this one.
    fn is_of_later_mount(&self, frame: &Frame) -> bool {
        let block = oob::Protected::from_bytes(&frame.oob);
        let epoch = u64::from(self.membership.record().epoch);
        block.is_some_and(|block| block.sequence >> EPOCH_SHIFT_SEQUENCE > epoch)
    }

    /// A scrub found a header or footer damaged.
    pub(super) fn note_damaged_record(&mut self, location: Location, status: Status) {
        if status == Status::DeviceGone {
            return;
        }
        let kind = match status {
            Status::Success => DamageKind::Metadata,
            _ => DamageKind::Unreadable,
        };
        self.damage.add(place_of(location, kind));
        self.damage.name(place_of(location, kind));
    }

    /// A scrub found damaged what describes a drive.
    pub(super) fn note_damaged_description(&mut self, location: Location, kind: DamageKind) {
        self.damage.add(place_of(location, kind));
        self.damage.name(place_of(location, kind));
    }

    /// A scrub counts a damaged block: it names the place.
    pub(super) fn name_scrubbed(
        &mut self,
        segment: SegmentSlot,
        location: Location,
        frame: &Frame,
        status: Status,
    ) {
        let kind = damage_of(self, segment, location, frame, status);
        self.damage.name(place_of(location, kind));
    }
}

fn damage_of(
    core: &Core,
    segment: SegmentSlot,
    location: Location,
    frame: &Frame,
    status: Status,
) -> DamageKind {
    if status != Status::Success {
        return DamageKind::Unreadable;
    }
    let Some(place) = core.place_at(segment, location) else { return DamageKind::Metadata };
    match oob::open(&frame.oob, &place.bound()) {
        Some(found) if found.place == place => DamageKind::Data,
        _ => DamageKind::Metadata,
    }
}

fn place_of(location: Location, kind: DamageKind) -> DamagedPlace {
    let Location { drive, zone, offset } = location;
    DamagedPlace { drive, zone, block: offset, kind }
}
