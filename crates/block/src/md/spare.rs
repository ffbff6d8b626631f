//! Spare: what a device gets that waits for a member of an array to fail.
//!
//! Its superblock has a device number of its own, whose entry among the roles is nobody's: to the superblocks of members a spare is
//! nobody. What it has beside that becomes a member's when it steps in.

use super::DeviceNumber;
use super::create::{Blank, MemberPlan};
use super::join::{CannotJoin, join};
use super::superblock::{Superblock, feature};
use super::{SECTOR_BYTES, superblock::ROLES_MAX};

/// Entry of nobody among the roles.
const NOBODY: u16 = 0xffff;

/// Plan of a device as a spare beside a member whose bitmap takes so many bytes.
///
/// # Errors
/// When the device is too small.
///
/// # Panics
/// When no array has so many devices.
pub fn plan_spare(
    member: &Superblock,
    number: DeviceNumber,
    device: Blank,
    bitmap_bytes: u64,
) -> Result<MemberPlan, CannotJoin> {
    let mut superblock = join(member, device, bitmap_bytes)?;
    let place = usize::try_from(number.0).unwrap_or(usize::MAX);
    assert!(place < ROLES_MAX, "device number {}", number.0);
    // No bitmap lies on it yet; where it is to lie is said all the same.
    superblock.features &= !feature::BITMAP;
    superblock.device.number = number;
    let count = superblock.roles.len().max(place + 1);
    superblock.roles.resize(count, NOBODY);
    superblock.roles[place] = NOBODY;
    let zeros = |(sector, sectors): (u64, u64)| {
        (sector, vec![0; usize::try_from(sectors).unwrap_or(0) * SECTOR_BYTES])
    };
    let before = superblock.bad_block_place().map(zeros).into_iter().collect();
    Ok(MemberPlan { superblock, before })
}
