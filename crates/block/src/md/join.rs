//! Superblock of a device that joins an array: things lie on it where they lie on another member, as far as its size allows.
//!
//! The data begin at the same sector, for mdadm takes a member with another data offset only when it is told to. A role and a
//! number are given by who writes it.

use super::create::Blank;
use super::superblock::{BadBlockPlace, Device, SUPERBLOCK_SECTORS, State, Superblock, Version};
use super::{DeviceNumber, SECTOR_BYTES_U64, policy};
use std::fmt;
use std::ops::Range;

/// Reason why a device cannot join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CannotJoin {
    /// Too few sectors: those of the device, and those that are needed.
    TooSmall(u64, u64),
    /// Two areas overlap where they would lie on it.
    Overlap(&'static str, &'static str),
}

impl fmt::Display for CannotJoin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CannotJoin::TooSmall(sectors, needed) => write!(
                f,
                "the device has {} KiB; {} KiB are needed: take a larger one",
                sectors / 2,
                needed.div_ceil(2)
            ),
            CannotJoin::Overlap(one, other) => write!(
                f,
                "{one} and {other} would overlap on the device: take a larger one, or add it with mdadm"
            ),
        }
    }
}

impl std::error::Error for CannotJoin {}

/// Version of the superblock of a device, by where it lies.
fn version(superblock: &Superblock) -> Version {
    match superblock.device.super_offset {
        0 => Version::V1_1,
        8 => Version::V1_2,
        _ => Version::V1_0,
    }
}

/// Superblock of a device that joins the array of another member, whose bitmap takes so many bytes.
///
/// # Errors
/// When the device is too small.
pub fn join(member: &Superblock, device: Blank, bitmap_bytes: u64) -> Result<Superblock, CannotJoin> {
    let version = version(member);
    let offset = member.device.data_offset;
    let before = if version == Version::V1_0 { SUPERBLOCK_SECTORS + 8 } else { 0 };
    let least = offset.saturating_add(member.shape.size).saturating_add(before);
    let too_small = CannotJoin::TooSmall(device.sectors, least);
    let super_offset = version.sector(device.sectors).filter(|_| least <= device.sectors).ok_or(too_small)?;
    let mut superblock = Superblock {
        features: member.features & policy::FEATURES,
        device: Device {
            number: DeviceNumber(u32::MAX),
            uuid: device.uuid,
            data_offset: offset,
            data_size: 0,
            super_offset,
            recovery_offset: 0,
            corrected: 0,
            flags: 0,
            bad_blocks: BadBlockPlace { shift: 0, ..member.device.bad_blocks },
        },
        state: State { ..member.state },
        ..member.clone()
    };
    let areas = areas(&superblock, bitmap_bytes);
    for (index, (name, area)) in areas.iter().enumerate() {
        if area.end > device.sectors {
            return Err(CannotJoin::TooSmall(device.sectors, area.end));
        }
        let overlaps =
            |(_, other): &&(&'static str, Range<u64>)| other.start < area.end && area.start < other.end;
        if let Some((other, _)) = areas[..index].iter().find(overlaps) {
            return Err(CannotJoin::Overlap(other, name));
        }
    }
    let behind = areas.iter().map(|(_, area)| area.start).filter(|start| *start > offset);
    superblock.device.data_size = behind.min().unwrap_or(device.sectors) - offset;
    Ok(superblock)
}

/// Areas of a device with their names, in whole pages of 4 KiB.
pub(super) fn areas(superblock: &Superblock, bitmap_bytes: u64) -> Vec<(&'static str, Range<u64>)> {
    let device = &superblock.device;
    let mut areas = vec![
        ("the superblock", device.super_offset..device.super_offset + SUPERBLOCK_SECTORS),
        ("the data", device.data_offset..device.data_offset + superblock.shape.size),
    ];
    if let Some(start) = superblock.bitmap_sector() {
        let sectors = bitmap_bytes.div_ceil(8 * SECTOR_BYTES_U64) * 8;
        areas.push(("the bitmap", start..start + sectors));
    }
    areas.extend(
        superblock.bad_block_place().map(|(start, sectors)| ("the bad-block log", start..start + sectors)),
    );
    let ppl = superblock.ppl_place();
    areas.extend(ppl.map(|(start, sectors)| ("the partial parity log", start..start + sectors)));
    areas
}

#[cfg(test)]
mod tests {
    use super::super::Uuid;
    use super::super::create::{BitmapWish, Wish, plan};
    use super::super::superblock::{Identity, Shape};
    use super::*;

    fn member(version: Version, sectors: u64) -> Superblock {
        let wish = Wish {
            version,
            array: Identity { uuid: Uuid([7; 16]), name: [0; 32], created: 5 },
            shape: Shape { level: 5, layout: 2, size: 0, chunk: 128, members: 3 },
            data_offset: None,
            bitmap: BitmapWish::Internal(Some(1 << 16)),
            ppl: None,
            journal: false,
            clean: true,
        };
        let blank = |role| Some(Blank { sectors, uuid: Uuid([role; 16]) });
        plan(&wish, &[blank(1), blank(2), blank(3)]).unwrap().remove(1).unwrap().superblock
    }

    #[test]
    fn a_device_gets_the_places_of_another_member() {
        for version in Version::ALL {
            let member = member(version, 50_000);
            let blank = |sectors| Blank { sectors, uuid: Uuid([9; 16]) };
            let same = join(&member, blank(50_000), 4096).unwrap();
            assert_eq!((same.device.data_offset, same.shape), (member.device.data_offset, member.shape));
            assert_eq!(same.device.super_offset, member.device.super_offset, "{version}");
            assert_eq!(same.bitmap_sector(), member.bitmap_sector(), "{version}");
            assert_eq!(same.device.data_size, member.device.data_size, "{version}");
            let larger = join(&member, blank(60_001), 4096).unwrap();
            assert!(larger.device.data_size > member.device.data_size);
            assert_eq!(Some(larger.device.super_offset), version.sector(60_001));
            let refused = join(&member, blank(40_000), 4096).unwrap_err();
            assert!(matches!(refused, CannotJoin::TooSmall(40_000, _)), "{refused}");
        }
    }

    #[test]
    fn areas_that_would_overlap_are_named() {
        let member = member(Version::V1_0, 50_000);
        let size = member.shape.size + 24;
        let found = (size..50_000).map(|sectors| join(&member, Blank { sectors, uuid: Uuid([9; 16]) }, 4096));
        let overlaps = found.filter(|found| matches!(found, Err(CannotJoin::Overlap("the data", _)))).count();
        assert!(overlaps < 60, "{overlaps}");
    }
}
