//! Judging a drive that comes back, before anything is written: whose it is, what it is, and whether its history is that of
//! the others.
//!
//! ```text
//!   others    1,1  1,2  2,3  2,4     | 3,5  3,6           epoch, generation
//!   drive 2   1,1  1,2  2,3  2,4     |                    away since: 2,4 is in the logs of the others
//!   copy of 2 1,1  1,2  2,3          | 3,4  3,5  3,6      used apart: 3,6 is another record than theirs, by its mount tag
//! ```
//! A drive that was used apart from the others, as a copy of the array may have been, holds segments of the same ids, and nothing
//! in them tells whose they are. So the newest record of a drive must be one that another member wrote, too: everything on it is
//! of the history that they share then. The drive itself has no say in this. Reasons in ADR 70.

use crate::log::mount::MountError;
use crate::log::mount::re_add::{self, ReAdd, ReAddRefusal};
use crate::log::mount::superblocks::{LogState, Records, array_of_most, has_written, older_copy, speaker};
use base::time::Instant;
use base::units::DriveIndex;
use zone::device::Geometry;
use zone::drives::DriveSet;
use zone::format::superblock::{MemberState, Superblock};

/// The drive that comes back.
pub struct Returning {
    /// Its place among the drives.
    pub place: usize,
    /// The member.
    pub member: usize,
    /// The record that speaks for the array, with the member as one that is being rebuilt.
    pub record: Superblock,
}

/// Judges the drive that is to be taken in again, if one is. A drive that is refused has no say in the array any more, unless
/// it counts as one that never failed; the second says why it is.
///
/// # Errors
/// Why not, where the array is not to be mounted without it.
pub fn admit(
    drives: &mut DriveSet,
    records: &mut Records,
    re_add: Option<ReAdd>,
    now: Instant,
) -> Result<(Option<Returning>, Option<ReAddRefusal>), MountError> {
    let Some(ReAdd { member, or_without }) = re_add else { return Ok((None, None)) };
    match judge(drives, records, member, now) {
        Ok(returning) => Ok((Some(returning), None)),
        Err(MountError::NotReAdded { why, .. }) if or_without => {
            if why != ReAddRefusal::NotFailed {
                let is_its = |(own, _): &(Superblock, LogState)| usize::from(own.member) == member;
                records
                    .iter_mut()
                    .filter(|found| found.as_ref().is_some_and(is_its))
                    .for_each(|found| *found = None);
            }
            Ok((None, Some(why)))
        }
        // The mount says what is wrong with the array.
        Err(_) if or_without => Ok((None, None)),
        Err(error) => Err(error),
    }
}

fn judge(
    drives: &mut DriveSet,
    records: &Records,
    member: usize,
    now: Instant,
) -> Result<Returning, MountError> {
    let refused = |why| MountError::NotReAdded { member, why };
    let array = array_of_most(records)?;
    let is_its = |own: &Superblock| own.array == array && usize::from(own.member) == member;
    let others: Records = records.iter().map(|found| found.clone().filter(|(own, _)| !is_its(own))).collect();
    let mut record = speaker(drives, &others, records, now).map_err(|error| match error {
        // Nobody is left who could have left it behind.
        MountError::NoSuperblock => refused(ReAddRefusal::NotFailed),
        // It is the one that speaks for them.
        MountError::SplitBrain if speaker(drives, records, records, now).is_ok() => {
            refused(ReAddRefusal::NotFailed)
        }
        other => other,
    })?;
    let place = find_place(records, &record, member, is_its)?;
    let (own, _) = records[place].as_ref().expect("a drive with a record was found");
    let was_rebuilding = record.members.get(member).is_some_and(|m| m.state == MemberState::Rebuilding);
    let is_older = older_copy(own, records).is_some();
    let version = record.version();
    re_add::take_in(&mut record, member, is_older).map_err(refused)?;
    let geometry = drives.geometry(DriveIndex::at(place)).expect("its record was read");
    expect_alike(geometry, &record).map_err(refused)?;
    // One that is being rebuilt is a member like the others, and may have been told before them.
    let was_told_first = was_rebuilding && !is_older && own.version() > version;
    if !was_told_first && !shares_history(drives, &others, (own, &record), now) {
        let (own, others) = (own.version(), version);
        return Err(refused(match own > others {
            true => ReAddRefusal::Newer { own, others },
            false => ReAddRefusal::Apart { own, others },
        }));
    }
    record.generation = record.generation.max(own.generation);
    record.epoch = record.epoch.max(own.epoch);
    Ok(Returning { place, member, record })
}

/// The place of the member's drive. Those that it had before it was replaced may be there as well.
fn find_place(
    records: &Records,
    record: &Superblock,
    member: usize,
    is_its: impl Fn(&Superblock) -> bool,
) -> Result<usize, MountError> {
    let refused = |why| MountError::NotReAdded { member, why };
    let uuid = record.members.get(member).ok_or_else(|| refused(ReAddRefusal::NotThere))?.uuid;
    let its = || {
        let found = records.iter().enumerate().filter_map(|(place, found)| Some((place, &found.as_ref()?.0)));
        found.filter(|(_, own)| is_its(own)).map(|(place, own)| (place, own.members[member].uuid))
    };
    let mut known = its().filter(|(_, own)| *own == uuid);
    match (known.next(), its().next()) {
        (Some(_), _) if known.next().is_some() => Err(MountError::DuplicateMember { member }),
        (Some((place, _)), _) => Ok(place),
        (None, Some((_, own))) => Err(refused(ReAddRefusal::Replaced { own, successor: uuid })),
        (None, None) => Err(refused(ReAddRefusal::NotThere)),
    }
}

/// Zones beyond those of the smallest drive are not used.
fn expect_alike(geometry: &Geometry, record: &Superblock) -> Result<(), ReAddRefusal> {
    let found = |what, found, wanted| Err(ReAddRefusal::Geometry { what, found, wanted });
    if geometry.zones < record.zones {
        return found("zones", geometry.zones, record.zones);
    }
    if geometry.zone_size_blocks != record.zone_size_blocks {
        return found("blocks per zone", geometry.zone_size_blocks, record.zone_size_blocks);
    }
    if geometry.zone_capacity_blocks != record.zone_capacity_blocks {
        return found("blocks of zone capacity", geometry.zone_capacity_blocks, record.zone_capacity_blocks);
    }
    Ok(())
}

/// True when another member that the array counts on wrote the drive's newest record, too.
fn shares_history(
    drives: &mut DriveSet,
    others: &Records,
    (own, record): (&Superblock, &Superblock),
    now: Instant,
) -> bool {
    others.iter().enumerate().any(|(place, found)| {
        let is_trusted = found.as_ref().is_some_and(|(other, _)| {
            let (said, itself) =
                (&record.members[usize::from(other.member)], &other.members[usize::from(other.member)]);
            other.array == own.array && said.uuid == itself.uuid && said.state != MemberState::Failed
        });
        is_trusted && has_written(drives, place, own, now)
    })
}
