//! Rollbacks: drives whose media go back to an earlier moment, as when an image of them is restored.
//!
//! `rollback 1 40` puts drive 1 back to where it was before the step 40 steps ago, in service or with the power off. The
//! media of that moment are taken as it comes by: which ones will be needed follows from the steps of the run.

use crate::drive::{Drive, Snapshot};
use crate::step::Step;
use base::units::ZoneIndex;
use zone::format::SUPERBLOCK_ZONES;
use zone::format::superblock::Superblock;

/// A rollback to come, or done.
struct Rollback {
    /// The step before which the media are taken.
    from: usize,
    /// The step at which they are put back.
    to: usize,
    member: usize,
    taken: Option<Taken>,
}

impl Drive {
    /// Returns the epoch of the newest superblock on the media.
    #[must_use]
    pub fn newest_epoch(&mut self) -> Option<u32> {
        let mut epochs = Vec::new();
        for zone in (0..SUPERBLOCK_ZONES).map(ZoneIndex) {
            let written = self.media().zone(zone).write_pointer;
            let frames = (0..written).filter_map(|offset| self.peek(zone, offset));
            epochs.extend(
                frames.filter_map(|frame| Superblock::decode(&frame.data)).map(|record| record.epoch),
            );
        }
        epochs.into_iter().max()
    }
}

/// A moment of a drive.
pub struct Taken {
    /// The drive that was the member's.
    pub drive: usize,
    /// Media of the drive.
    pub snapshot: Snapshot,
    /// Mounts there had been.
    pub mounts: u64,
}

/// All rollbacks of a run.
#[derive(Default)]
pub struct Rollbacks {
    all: Vec<Rollback>,
    /// The step that is being taken.
    now: usize,
}

impl Rollbacks {
    /// Returns the rollbacks that these steps will need.
    #[must_use]
    pub fn of(steps: &[Step]) -> Rollbacks {
        let rollback = |(to, step): (usize, &Step)| match *step {
            Step::Rollback { member, steps } => {
                Some(Rollback { from: to.saturating_sub(steps), to, member, taken: None })
            }
            _ => None,
        };
        Rollbacks { all: steps.iter().enumerate().filter_map(rollback).collect(), now: 0 }
    }

    /// A step is about to be taken: keeps the media that will be needed of this moment.
    pub fn take(&mut self, drive_of: &[usize], drives: &[Drive], mounts: u64) {
        let now = self.now;
        for rollback in self.all.iter_mut().filter(|rollback| rollback.from == now) {
            assert!(rollback.from <= rollback.to, "a drive goes back, not forth");
            let Some(drive) = drive_of.get(rollback.member) else { continue };
            rollback.taken = Some(Taken { drive: *drive, snapshot: drives[*drive].snapshot(), mounts });
        }
        self.now += 1;
    }

    /// The drive that the step being taken puts back, and its media then; none if the member has another drive since.
    pub fn due(&mut self, drive_of: &[usize]) -> Option<Taken> {
        let now = self.now.checked_sub(1)?;
        let due = self.all.iter_mut().find(|rollback| rollback.to == now)?;
        assert!(due.from <= now, "a moment that was");
        let member = due.member;
        due.taken.take().filter(|taken| drive_of.get(member) == Some(&taken.drive))
    }
}
