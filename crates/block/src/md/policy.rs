//! Change of an array's consistency policy: what its superblocks say then, and where bitmap or partial parity log lie.
//!
//! Room for either is between superblock and data (before the superblock with version 1.0), beside the log of bad blocks, at the same
//! distance from the superblock on all members: md has one for all bitmaps of an array.

use super::SECTOR_BYTES_U64;
use super::assembly::{Policy, policy};
use super::bitmap::Head;
use super::create::{Impossible, head};
use super::ppl;
use super::superblock::{SUPERBLOCK_SECTORS, Superblock, feature};
use std::fmt;
use std::ops::Range;

/// Most sectors of a partial parity log, as md and mdadm have it.
const LOG_SECTORS_MAX: u16 = 2048;
/// Areas begin at, and have, whole pages.
const PAGE_SECTORS: u64 = 8;
/// Feature bits of policies.
pub const FEATURES: u32 = feature::BITMAP | feature::PPL | feature::PPL_RING | feature::JOURNAL;

/// Policy that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// No policy but a resync.
    Resync,
    /// Bitmap with regions of so many bytes, or as mdadm chooses.
    Bitmap(Option<u32>),
    /// Partial parity logs.
    Ppl,
}

impl Wish {
    /// The policy.
    #[must_use]
    pub fn policy(self) -> Policy {
        match self {
            Wish::Resync => Policy::Resync,
            Wish::Bitmap(_) => Policy::Bitmap,
            Wish::Ppl => Policy::Ppl,
        }
    }
}

/// Reason why an array cannot have a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CannotChange {
    /// Policy that the array has already.
    Same(Policy),
    /// Policy other than `resync`, which has to go first.
    Other(Policy),
    /// A journal cannot be taken away here.
    Journal,
    /// Partial parity logs of this level, or with superblocks at the end of members.
    Ppl(i32),
    /// Least sectors of a log, and those that are free.
    NoRoom(u64, u64),
    /// Bitmap that cannot be.
    Bitmap(Impossible),
}

/// mdadm's word for a policy.
#[must_use]
pub fn word(policy: Policy) -> &'static str {
    match policy {
        Policy::Resync => "resync",
        Policy::Bitmap => "bitmap",
        Policy::Ppl => "ppl",
        Policy::Journal => "journal",
    }
}

impl fmt::Display for CannotChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CannotChange::Same(policy) => {
                write!(f, "the array has the consistency policy {} already", word(*policy))
            }
            CannotChange::Other(policy) => write!(
                f,
                "the array has the consistency policy {}, which has to go first: ask for resync",
                word(*policy)
            ),
            CannotChange::Journal => f.write_str("the array has a journal, which is not taken away here"),
            CannotChange::Ppl(level) => {
                write!(f, "a partial parity log on RAID-{level}: it takes RAID-5, and metadata 1.1 or 1.2")
            }
            CannotChange::NoRoom(needed, free) => write!(
                f,
                "{} KiB are needed between superblock and data of each member, and {} KiB are free",
                needed / 2,
                free / 2
            ),
            CannotChange::Bitmap(impossible) => write!(f, "{impossible}"),
        }
    }
}

impl std::error::Error for CannotChange {}

/// Turn to another policy, as superblocks tell it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The policy.
    pub policy: Policy,
    /// Feature bits among [`FEATURES`].
    features: u32,
    /// Word of the log's place.
    log: u32,
    /// Head of the bitmap, but for its events.
    pub head: Option<Head>,
}

impl Turn {
    /// A superblock has the policy.
    pub fn mark(&self, superblock: &mut Superblock) {
        superblock.features = superblock.features & !FEATURES | self.features;
        superblock.log = self.log;
    }
}

/// Turn of an array to another policy, with logs of so many sectors at least.
///
/// # Errors
/// When that cannot be.
///
/// # Panics
/// Without members.
pub fn turn(members: &[&Superblock], wish: Wish, log_sectors_min: u64) -> Result<Turn, CannotChange> {
    let first = *members.first().expect("an array has members");
    let before = policy(first);
    match (before, wish.policy()) {
        (Policy::Journal, _) => return Err(CannotChange::Journal),
        (before, after) if before == after => return Err(CannotChange::Same(before)),
        (Policy::Resync, _) | (_, Policy::Resync) => {}
        (before, _) => return Err(CannotChange::Other(before)),
    }
    let free = free(members);
    let largest = free.iter().map(|area| area.end - area.start).max().unwrap_or(0).unsigned_abs();
    match wish {
        Wish::Resync => Ok(Turn { policy: Policy::Resync, features: 0, log: 0, head: None }),
        Wish::Bitmap(region) => {
            let head =
                head(first.array.uuid, first.shape.size, region, largest).map_err(CannotChange::Bitmap)?;
            let needed = head.bytes().div_ceil(PAGE_SECTORS * SECTOR_BYTES_U64) * PAGE_SECTORS;
            let at = free.iter().find(|area| (area.end - area.start).unsigned_abs() >= needed);
            let at = at.and_then(|area| i32::try_from(area.start).ok());
            let at = at.ok_or(CannotChange::NoRoom(needed, largest))?;
            let log = u32::from_le_bytes(at.to_le_bytes());
            Ok(Turn { policy: Policy::Bitmap, features: feature::BITMAP, log, head: Some(head) })
        }
        Wish::Ppl => {
            if first.shape.level != 5 || first.device.super_offset > first.device.data_offset {
                return Err(CannotChange::Ppl(first.shape.level));
            }
            let sectors = u16::try_from(largest).unwrap_or(u16::MAX).min(LOG_SECTORS_MAX);
            let is_wide = |area: &&Range<i64>| (area.end - area.start).unsigned_abs() >= u64::from(sectors);
            let at = free.iter().find(is_wide).and_then(|area| i16::try_from(area.start).ok());
            let at = at.filter(|_| u64::from(sectors) >= log_sectors_min);
            let at = at.ok_or(CannotChange::NoRoom(log_sectors_min, largest))?;
            let is_ring = u64::from(sectors) >= ppl::RING_SECTORS_MIN;
            let features = if is_ring { feature::PPL_RING } else { feature::PPL };
            let log = u32::from(u16::from_le_bytes(at.to_le_bytes())) | u32::from(sectors) << 16;
            Ok(Turn { policy: Policy::Ppl, features, log, head: None })
        }
    }
}

/// Areas that nothing but a bitmap or a partial parity log has, by sectors from the superblock, on all members.
fn free(members: &[&Superblock]) -> Vec<Range<i64>> {
    let mut free: Vec<Range<i64>> = std::iter::once(i64::MIN / 2..i64::MAX / 2).collect();
    for member in members {
        let device = &member.device;
        let from_superblock = |sector: u64| sector.cast_signed() - device.super_offset.cast_signed();
        let room = if device.super_offset < device.data_offset {
            SUPERBLOCK_SECTORS.cast_signed()..from_superblock(device.data_offset)
        } else {
            let used = member.shape.size.max(device.data_size);
            from_superblock(device.data_offset.saturating_add(used))..0
        };
        let list = member.bad_block_place().map_or(0..0, |(start, sectors)| {
            from_superblock(start)..from_superblock(start.saturating_add(sectors))
        });
        free = free
            .into_iter()
            .map(|area| area.start.max(room.start)..area.end.min(room.end))
            .flat_map(|area| match list.is_empty() {
                true => [area.clone(), area.end..area.end],
                false => [area.start..area.end.min(list.start), area.start.max(list.end)..area.end],
            })
            .filter(|area| area.start < area.end)
            .collect();
    }
    let page = PAGE_SECTORS.cast_signed();
    let whole = |area: Range<i64>| {
        let start =
            area.start.div_euclid(page) * page + if area.start.rem_euclid(page) > 0 { page } else { 0 };
        start..area.end.div_euclid(page) * page
    };
    free.into_iter().map(whole).filter(|area| area.start < area.end).collect()
}

/// Features and place of the log of a member that a change of the policy did not reach: those of the newest superblock. A change begins
/// when the array is clean, and all that the policy needs is on every member before a superblock says so.
#[must_use]
pub fn levelled(own: &Superblock, newest: &Superblock) -> (u32, u32) {
    if policy(own) == policy(newest) {
        return (own.features, own.log);
    }
    (own.features & !FEATURES | newest.features & FEATURES, newest.log)
}

#[cfg(test)]
mod tests {
    use super::super::Uuid;
    use super::super::create::{BitmapWish, Blank, Wish as CreateWish, plan};
    use super::super::superblock::{Identity, Shape, Version};
    use super::*;

    fn members(version: Version, sectors: u64) -> Vec<Superblock> {
        let wish = CreateWish {
            version,
            array: Identity { uuid: Uuid([7; 16]), name: [0; 32], created: 5 },
            shape: Shape { level: 5, layout: 2, size: 0, chunk: 128, members: 3 },
            data_offset: None,
            bitmap: BitmapWish::None,
            ppl: None,
            journal: false,
            clean: true,
        };
        let blank = |role| Some(Blank { sectors: sectors + u64::from(role), uuid: Uuid([role; 16]) });
        let plans = plan(&wish, &[blank(1), blank(2), blank(3)]).unwrap();
        plans.into_iter().map(|plan| plan.unwrap().superblock).collect()
    }

    fn turned(members: &[Superblock], wish: Wish) -> Result<Superblock, CannotChange> {
        let turn = turn(&members.iter().collect::<Vec<_>>(), wish, 152)?;
        let mut superblock = members[0].clone();
        turn.mark(&mut superblock);
        Ok(superblock)
    }

    #[test]
    fn a_policy_comes_and_goes() {
        let before = members(Version::V1_2, 50_000);
        let with_bitmap = turned(&before, Wish::Bitmap(None)).unwrap();
        assert_eq!((with_bitmap.bitmap_sector(), policy(&with_bitmap)), (Some(16), Policy::Bitmap));
        let logged = turned(&before, Wish::Ppl).unwrap();
        assert_eq!((logged.ppl_place(), policy(&logged)), (Some((32, 2016)), Policy::Ppl));
        for after in [&with_bitmap, &logged] {
            let members = vec![after.clone(), after.clone()];
            assert_eq!(policy(&turned(&members, Wish::Resync).unwrap()), Policy::Resync);
            let (features, log) = levelled(&before[1], after);
            assert_eq!((features, log), (after.features, after.log));
        }
        let refused = turned(&[logged], Wish::Bitmap(None)).unwrap_err();
        assert_eq!(refused, CannotChange::Other(Policy::Ppl));
        assert_eq!(turned(&before, Wish::Resync), Err(CannotChange::Same(Policy::Resync)));
        assert!(matches!(turned(&before, Wish::Bitmap(Some(4095))), Err(CannotChange::Bitmap(_))));
    }

    #[test]
    fn superblocks_at_the_end_have_their_bitmap_before_them() {
        let before = members(Version::V1_0, 50_000);
        let superblock = turned(&before, Wish::Bitmap(Some(1 << 16))).unwrap();
        let (start, device) = (superblock.bitmap_sector().unwrap(), &superblock.device);
        assert!(start >= device.data_offset + device.data_size && start + 8 <= device.super_offset - 8);
        assert_eq!(turned(&before, Wish::Ppl), Err(CannotChange::Ppl(5)));
    }

    #[test]
    fn what_one_member_has_in_the_way_is_passed_over() {
        let mut before = members(Version::V1_2, 50_000);
        before[1].device.bad_blocks.offset = 1000;
        assert_eq!(turned(&before, Wish::Ppl).unwrap().ppl_place(), Some((1016, 1032)));
        before[2].device.data_offset = 80;
        assert_eq!(turned(&before, Wish::Ppl), Err(CannotChange::NoRoom(152, 48)));
    }
}
