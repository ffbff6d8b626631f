//! The record that speaks for an array, of those that its drives hold: one rule for mounts, and for commands that only look.

use crate::log::mount::older_copies;
use zone::format::superblock::{MemberState, Superblock};

/// The newest record of a member that no other calls failed, of the records of one array; with every member failed that a
/// trusted one calls failed. A member that missed a mount may hold a high generation, if mounts crashed after only it was
/// told; but those that went on without it say so. They speak of a drive, not of its place: what they say of the one before
/// it does not touch a replacement, and the one they name another for is out. Older copies of a drive speak for nobody,
/// and against nobody.
///
/// `None` when all accuse one another: parts of the array were used apart, or drives that were left behind speak of a time before others came
/// back, which only their logs tell (`superblocks::speaker`).
#[must_use]
pub fn spokesman(records: &[&Superblock]) -> Option<Superblock> {
    let is_older = |record: &Superblock| older_copies::find(record, records.iter().copied()).is_some();
    let believed: Vec<&Superblock> = records.iter().copied().filter(|record| !is_older(record)).collect();
    let denies = |judge: &Superblock, record: &Superblock| {
        let index = usize::from(record.member);
        let (judged, itself) = (judge.members.get(index), record.members.get(index));
        judged.is_some_and(|judged| {
            judged.state == MemberState::Failed || itself.is_some_and(|itself| itself.uuid != judged.uuid)
        })
    };
    let is_accused = |record: &Superblock| believed.iter().any(|judge| denies(judge, record));
    let trusted = || believed.iter().filter(|record| !is_accused(record));
    let mut speaker = (*trusted().max_by_key(|record| record.generation)?).clone();
    for judge in trusted() {
        for (member, said) in speaker.members.iter_mut().zip(&judge.members) {
            if said.state == MemberState::Failed && said.uuid == member.uuid {
                member.state = MemberState::Failed;
            }
        }
    }
    Some(speaker)
}

/// True when the drive of `other`, its newest record, may have left that of `own` behind: it is another member of the array, and newer. It
/// has if its log holds that record, too: whatever `own` says of others, `other` knew, and may have taken them in again since.
#[must_use]
pub fn may_leave_behind(other: &Superblock, own: &Superblock) -> bool {
    other.array == own.array && other.member != own.member && other.version() > own.version()
}

/// True when the superblock log of a drive, newest record first, holds this one, as a member of its own. Records lie there in the order of
/// their versions.
#[must_use]
pub fn log_holds(mut newest_first: impl Iterator<Item = Superblock>, wanted: &Superblock) -> bool {
    newest_first
        .find(|found| found.version() <= wanted.version())
        .is_some_and(|found| Superblock { member: wanted.member, ..found } == *wanted)
}
