//! Member that comes back: a device that belonged to the array, went, and missed some writes. It keeps its role, its number and
//! what lies on it; its bitmap and superblock become those of the others.
//!
//! Whether the bits say all that it missed is for who has the bitmap: [`CannotReturn`] is about the device alone.

use super::assembly::faults_of;
use super::join::areas;
use super::member::Member;
use super::policy;
use super::refusal::Fault;
use super::superblock::{Device, RoleEntry, Superblock, feature};
use super::{Role, Uuid};
use std::fmt;

/// Reason why a device is no member that can come back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CannotReturn {
    /// Array that the device belongs to, which is another one.
    OtherArray(Uuid),
    /// Something is wrong with it.
    Fault(Fault),
    /// Shape of the array in its superblock, which is another one.
    OtherShape,
    /// By its own superblock it is a spare, a journal, or has failed.
    NoMember,
    /// By its own superblock it is no spare.
    NoSpare,
    /// Sectors for a partial parity log: those of the device, and those of members.
    NoLog(u64, u64),
    /// Sector up to which the device was rebuilt when it went: only below it was it a member.
    Rebuilt(u64),
    /// Role of a member that still worked, which the device was to replace.
    Replacement(Role),
    /// No bitmap, or no room for the array's.
    NoBitmap,
}

impl fmt::Display for CannotReturn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CannotReturn::OtherArray(array) => write!(f, "it belongs to another array, {array}"),
            CannotReturn::Fault(fault) => write!(f, "{fault}"),
            CannotReturn::OtherShape => f.write_str(
                "level, layout, chunk, size or members of its superblock are not those of the array",
            ),
            CannotReturn::NoMember => f.write_str(
                "by its own superblock it is no member of the array, but a spare, a journal, or failed",
            ),
            CannotReturn::NoSpare => f.write_str("by its own superblock it is no spare of the array"),
            CannotReturn::NoLog(own, others) => {
                write!(
                    f,
                    "it has {own} sectors for a partial parity log, and members of the array have {others}"
                )
            }
            CannotReturn::Rebuilt(sectors) => {
                write!(f, "it was itself being rebuilt when it went, and counts below sector {sectors} only")
            }
            CannotReturn::Replacement(role) => {
                write!(f, "it was to replace member {role}, and was not through with that")
            }
            CannotReturn::NoBitmap => f.write_str("it has no bitmap, or no room for that of the array"),
        }
    }
}

impl std::error::Error for CannotReturn {}

/// Role of a device that comes back to the array of another member, and its superblock from then on; the bitmap takes so many bytes.
///
/// # Errors
/// When it is no member that can come back.
pub fn returning(
    member: &Superblock,
    device: &Member,
    bitmap_bytes: u64,
) -> Result<(Role, Superblock), CannotReturn> {
    expect_of_array(member, device)?;
    let own = device.superblock();
    let RoleEntry::Member(role) = own.role() else { return Err(CannotReturn::NoMember) };
    if own.has(feature::REPLACEMENT) {
        return Err(CannotReturn::Replacement(role));
    }
    if own.has(feature::RECOVERY_OFFSET) && !own.has(feature::RECOVERY_BITMAP) {
        return Err(CannotReturn::Rebuilt(own.device.recovery_offset));
    }
    let superblock = superblock_of(member, own, own.features & feature::BAD_BLOCKS);
    let has_bitmap = own.bitmap_sector().is_some() && superblock.bitmap_sector().is_some();
    if !has_bitmap || !is_apart(&superblock, bitmap_bytes, device.sectors) {
        return Err(CannotReturn::NoBitmap);
    }
    Ok((role, superblock))
}

/// Superblock that a spare gets when it becomes a member beside another one; the bitmap takes so many bytes.
///
/// # Errors
/// When it is no spare of the array.
pub fn spare(member: &Superblock, device: &Member, bitmap_bytes: u64) -> Result<Superblock, CannotReturn> {
    expect_of_array(member, device)?;
    let own = device.superblock();
    if own.role() != RoleEntry::Spare {
        return Err(CannotReturn::NoSpare);
    }
    let superblock = superblock_of(member, own, 0);
    let lacks_bitmap = member.has(feature::BITMAP) && superblock.bitmap_sector().is_none();
    if lacks_bitmap || !is_apart(&superblock, bitmap_bytes, device.sectors) {
        return Err(CannotReturn::NoBitmap);
    }
    let log = |superblock: &Superblock| superblock.ppl_place().map_or(0, |(_, sectors)| sectors);
    if log(&superblock) < log(member) {
        return Err(CannotReturn::NoLog(log(&superblock), log(member)));
    }
    Ok(superblock)
}

/// Superblock of a returning device: the device by its own, and the array by that of a member. Where the device was taken in under another
/// consistency policy, bitmap or log lie where those of the member do.
fn superblock_of(member: &Superblock, own: &Superblock, features: u32) -> Superblock {
    let has_log = |superblock: &Superblock| superblock.features & (feature::PPL | feature::PPL_RING) != 0;
    let is_own = own.log != 0 && has_log(own) == has_log(member);
    Superblock {
        features: member.features & policy::FEATURES | features,
        log: if is_own { own.log } else { member.log },
        device: Device { recovery_offset: 0, ..own.device.clone() },
        ..member.clone()
    }
}

fn expect_of_array(member: &Superblock, device: &Member) -> Result<(), CannotReturn> {
    let own = device.superblock();
    if own.array.uuid != member.array.uuid {
        return Err(CannotReturn::OtherArray(own.array.uuid));
    }
    if let Some(fault) = faults_of(device).into_iter().next() {
        return Err(CannotReturn::Fault(fault));
    }
    if own.shape != member.shape {
        return Err(CannotReturn::OtherShape);
    }
    Ok(())
}

/// True when the areas of a superblock lie within the device, and none overlaps another.
#[must_use]
pub fn is_apart(superblock: &Superblock, bitmap_bytes: u64, sectors: u64) -> bool {
    let areas = areas(superblock, bitmap_bytes);
    areas.iter().enumerate().all(|(index, (_, area))| {
        let overlaps =
            areas[..index].iter().any(|(_, other)| other.start < area.end && area.start < other.end);
        area.end <= sectors && !overlaps
    })
}

#[cfg(test)]
mod tests;
