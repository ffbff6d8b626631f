//! A drive that was away is taken in again while the array is served: by a mount, as at a start (ADR 21).
//!
//! ```text
//!   asked ──> Settling: clients wait, the engine comes to rest ──> mounted with the drive ──> Over: who asks again is told
//! ```
//! Who asked asks again until it is over, as for a replacement.

use super::lookout::Lookout;
use super::{ServedArray, recover};
use crate::exit::{self, Exit};
use crate::re_add::{ReAddedDrive, expect_member};
use crate::replace::Attempt;
use crate::roster::within;
use anyhow::{Context, Result, bail};
use array::log::config::Tuning;
use array::log::status::Health;
use array::log::{ReAdd, ReAdded};
use array::request::{Request, Volume};
use base::time::{Instant, Nanos};
use base::units::DriveIndex;
use drive::any::AnyDrive;
use server::WallClock;
use std::path::{Path, PathBuf};
use zone::format::superblock::MemberState;

/// Longest time that clients wait for the engine to come to rest.
const SETTLING_MAX: Nanos = Nanos(10_000_000_000);
/// Time for which an outcome that nobody asks for is kept: as long as the command asks, where the drive is still there.
const KEPT_MAX: Nanos = Nanos(60_000_000_000);
/// The same, where another attempt may come to something else.
const FAILURE_KEPT_MAX: Nanos = Nanos(5_000_000_000);

/// See the module.
pub(super) struct Returning {
    pub(super) tuning: Tuning,
    clock: WallClock,
    stage: Stage,
    /// Requests that clients made meanwhile.
    held: Vec<Request>,
    /// Drive that came back last, and what it held.
    pub(super) re_added: Option<ReAdded>,
    /// Drives that nobody has to ask for.
    pub(super) lookout: Lookout,
}

enum Stage {
    /// No drive is on its way back.
    Idle,
    /// Clients wait until the engine is at rest.
    Settling { drive: u8, path: PathBuf, since: Instant },
    /// The drive is back, or is not.
    Over { drive: u8, outcome: Result<ReAddedDrive>, at: Instant },
}

impl Returning {
    /// No drive yet; mounts are made like the first one.
    pub(super) fn new(tuning: Tuning, clock: WallClock, lookout: Lookout) -> Returning {
        Returning { tuning, clock, stage: Stage::Idle, held: Vec::new(), re_added: None, lookout }
    }

    /// True while clients wait for a drive.
    pub(super) fn is_settling(&self) -> bool {
        matches!(self.stage, Stage::Settling { .. })
    }

    /// Keeps a request for later.
    pub(super) fn hold(&mut self, request: Request) {
        assert!(self.is_settling(), "requests are held while a drive is on its way back only");
        self.held.push(request);
    }
}

impl ServedArray {
    /// `re-add N PATH`: begins, or tells what became of it.
    pub(super) fn re_add(&mut self, now: Instant, rest: &str) -> Result<Attempt<ReAddedDrive>> {
        let (drive, path) = rest.split_once(' ').context("the drive's number and its file")?;
        let drive: u8 = drive.parse().context("the drive's number")?;
        match std::mem::replace(&mut self.returning.stage, Stage::Idle) {
            Stage::Over { drive: other, outcome, at }
                if other == drive && now.since(at) < self.kept_max(drive, &outcome) =>
            {
                return outcome.map(Attempt::Done);
            }
            settling @ Stage::Settling { .. } => {
                self.returning.stage = settling;
                return Ok(Attempt::Busy);
            }
            Stage::Over { .. } | Stage::Idle => {}
        }
        self.expect_away(now, drive)?;
        expect_member(&self.directory, drive, Path::new(path))?;
        self.returning.stage = Stage::Settling { drive, path: PathBuf::from(path), since: now };
        Ok(Attempt::Busy)
    }

    /// Time for which an outcome is the answer to who asks for it.
    fn kept_max(&self, drive: u8, outcome: &Result<ReAddedDrive>) -> Nanos {
        let is_there = self.volume.engine.member_state(DriveIndex(drive)) != MemberState::Failed;
        if outcome.is_ok() && is_there { KEPT_MAX } else { FAILURE_KEPT_MAX }
    }

    /// Looks for drives that were lost, and takes in one that is back.
    pub(super) fn look_for_lost(&mut self, now: Instant) {
        for drive in 0..self.directory.file.drive.len() {
            let is_failed = self.volume.engine.member_state(DriveIndex::at(drive)) == MemberState::Failed;
            match (is_failed, self.watch.is_lost(drive)) {
                (false, _) => self.returning.lookout.note_here(drive),
                (true, true) => self.returning.lookout.note_lost(drive),
                (true, false) => {}
            }
        }
        let mut back = self.returning.lookout.look(now, &self.directory).into_iter();
        let Some((drive, path)) = back.find(|(drive, _)| self.expect_away(now, *drive).is_ok()) else {
            return;
        };
        if self.returning.is_settling() {
            return;
        }
        log::warn!("drive {drive} is there again ({}) and is taken in", path.display());
        self.returning.lookout.begin(drive);
        self.returning.stage = Stage::Settling { drive, path, since: now };
    }

    /// Refuses what a mount would refuse, and what it would cut off.
    fn expect_away(&mut self, now: Instant, drive: u8) -> Result<()> {
        let status = self.volume.engine.status();
        let refused =
            |why: String| Err(Exit::Usage.error(format!("drive {drive} cannot be re-added: {why}")));
        match status.members.get(usize::from(drive)) {
            None => return refused(format!("the array has drives 0 to {}", status.members.len() - 1)),
            Some(MemberState::Active) => return refused("it has not failed".to_owned()),
            Some(MemberState::Rebuilding) => return refused("it is being rebuilt already".to_owned()),
            Some(MemberState::Failed) => {}
        }
        if let Some(other) = self.volume.engine.rebuilding() {
            let said =
                format!("drive {drive} cannot be re-added: drive {other} is being rebuilt; wait for it");
            return Err(Exit::Busy.error(said));
        }
        if self.volume.engine.is_scrubbing() {
            let said = format!("drive {drive} cannot be re-added during a scrub: wait for it, or stop it");
            return Err(Exit::Busy.error(said));
        }
        let condition = self.volume.condition(now, DriveIndex(drive));
        if let Some(left) = condition.map(|condition| condition.left_behind).filter(|left| *left > 0) {
            let said = format!(
                "drive {drive} cannot be re-added: it has not answered {left} commands from before it was lost, and may \
                 still carry them out; try again later"
            );
            return Err(Exit::Busy.error(said));
        }
        if !self.volume.stalled().is_empty() {
            let said = format!(
                "drive {drive} cannot be re-added while another one is away (`zoneweave status` names it): try again when that is \
                 back, or has failed"
            );
            return Err(Exit::Busy.error(said));
        }
        if status.health == Health::Failed {
            bail!(
                "drive {drive} cannot be re-added: too many drives are lost to serve the array; stop it, and start it with \
                 the drives that are back"
            );
        }
        Ok(())
    }

    /// Goes on with a drive that is on its way back.
    pub(super) fn advance_re_add(&mut self, now: Instant) {
        let Stage::Settling { drive, path, since } = &self.returning.stage else { return };
        let (drive, path, since) = (*drive, path.clone(), *since);
        let outcome = if self.volume.is_at_rest() {
            self.mount_with(drive, path, since)
        } else if now.since(since) >= SETTLING_MAX {
            let said = format!(
                "drive {drive} cannot be re-added: the array did not come to rest in {} s; try again later",
                SETTLING_MAX.0 / 1_000_000_000
            );
            Err(Exit::Busy.error(said))
        } else {
            return;
        };
        if let Err(error) = &outcome {
            log::error!("{}", exit::in_words(error));
            self.returning.lookout.note_failed(usize::from(drive));
        }
        let at = self.returning.clock.now();
        self.returning.stage = Stage::Over { drive, outcome, at };
        for request in std::mem::take(&mut self.returning.held) {
            self.volume.submit(at, request);
        }
    }

    /// Mounts the array anew, with the drive, or without it where that is refused. Clients keep their frames.
    fn mount_with(&mut self, drive: u8, path: PathBuf, since: Instant) -> Result<ReAddedDrive> {
        let index = DriveIndex(drive);
        super::fencing::expect_ours(&mut self.volume, self.returning.clock.now(), &self.directory)?;
        // What is left of it keeps its file locked.
        drop(self.volume.drives.remove(index));
        let uuid = *self.directory.file.drive[index.index()].uuid.as_bytes();
        let opened =
            AnyDrive::open_as(&path, uuid).with_context(|| format!("drive {drive} cannot be re-added"))?;
        let hosted = self.hosting.host(opened, u64::from(drive))?;
        let engine = &self.volume.engine;
        self.counters.lifetime = self.counters.lifetime.plus(engine.counters(), &engine.drive_damage());
        self.volume.drives.outlive_hiccups(false);
        let mut devices = self.volume.part().into_inner();
        devices[index.index()] = Some(hosted.device);
        let Returning { tuning, clock, .. } = self.returning;
        let re_add = ReAdd { member: index.index(), or_without: true };
        let recovered = recover(&self.directory, devices, Some(re_add), tuning, clock);
        let (mut volume, report) = recovered.inspect_err(|_| {
            log::error!("the array cannot be mounted again: the server stops; nothing acknowledged is lost");
            self.stop.request();
        })?;
        volume.frames().adopt(self.volume.frames().frames_out());
        volume.set_rebuild_rates(self.volume.engine.rebuild_rates());
        self.volume = volume;
        self.older_copies.clone_from(&report.older_copies);
        (self.damage.named, self.damage.blocks) = (Vec::new(), 0);
        self.returning.re_added = report.re_added;
        if report.re_add_refused.is_some() {
            self.returning.lookout.note_refused(index.index());
        }
        let re_added = ReAddedDrive::new(&report, drive, path, true)?;
        if let Some(pace) = hosted.pace {
            self.clocks.add(pace);
            self.newcomers.insert(index);
        }
        let table = &mut self.directory.file.drive[index.index()];
        table.path = within(&self.directory.path, &re_added.path);
        if let Err(error) = self.directory.save() {
            log::warn!("array.toml is not up to date, which does no harm: {}", exit::in_words(&error));
        }
        let waited = clock.now().since(since);
        log::info!(
            "drive {drive} is back: {}; clients waited {} ms",
            re_added.in_words(),
            waited.0 / 1_000_000
        );
        Ok(re_added)
    }
}
