//! Drives that this server lost are looked for, and taken in again when they are back (ADR 71).
//!
//! ```text
//!            lost                 seen                  stayed
//!   Here ───────────> Away ───────────────> There ───────────────> re-added, as `drive re-add` does it
//!    ^                 ^ ^      not seen      │ │                        │ refused: not asked again before it was away
//!    │                 │ └────────────────────┘ │                        v
//!    │                 └──────────────────────────────────────────── Refused
//!    └──── a member again, by whatever way
//! ```
//! *Lost* is a drive whose device or file went away, which stopped answering, or which was not there at the start of a server that goes on
//! without it. A drive that an operator failed is none: whoever took it out puts it in again.
//!
//! A drive has to be there for a second, and for twice as long each time that it was taken in again and lost once more, so that one with a loose
//! contact does not keep clients waiting.
//!
//! Each look is a thread of its own, for it may take as long as the drive likes.

use crate::candidates;
use crate::directory::{Directory, DriveTable};
use crate::sighting::Sighting;
use base::time::{Instant, Nanos};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError, channel};

/// Shortest time for which a drive has to be there.
const TRIAL_MIN: Nanos = Nanos(1_000_000_000);
/// Most times that it doubles: to 17 minutes.
const DOUBLED_MAX: u32 = 10;

/// Place in the drawing.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Here,
    Away,
    There { since: Instant, path: PathBuf },
    Refused,
}

/// A drive as the lookout knows it.
#[derive(Debug)]
struct Watched {
    state: State,
    /// Attempts to take it in since the server began.
    attempts: u32,
    /// The operator failed it.
    is_dismissed: bool,
    /// Answer of a look that is not over.
    look: Option<Receiver<Option<PathBuf>>>,
}

impl Watched {
    fn new(state: State) -> Watched {
        Watched { state, attempts: 0, is_dismissed: false, look: None }
    }

    /// A look is over: the drive was seen under this path, or was not.
    fn on_look(&mut self, now: Instant, seen: Option<PathBuf>) {
        self.state = match (std::mem::replace(&mut self.state, State::Away), seen) {
            (State::Here, _) => State::Here,
            (State::Refused, Some(_)) => State::Refused,
            (State::There { since, path: before }, Some(path)) if before == path => {
                State::There { since, path }
            }
            (State::Away | State::There { .. }, Some(path)) => State::There { since: now, path },
            (State::Away | State::There { .. } | State::Refused, None) => State::Away,
        };
    }

    /// Path of a drive that has been there for long enough.
    fn stayed(&self, now: Instant) -> Option<&Path> {
        let trial = Nanos(TRIAL_MIN.0 << self.attempts.min(DOUBLED_MAX));
        match &self.state {
            State::There { since, path } if now.since(*since) >= trial => Some(path),
            State::There { .. } | State::Here | State::Away | State::Refused => None,
        }
    }

    /// Takes the answer of a look, and begins the next one.
    fn look(&mut self, now: Instant, table: &DriveTable, directory: &Directory) {
        let answer = self.look.as_ref().map(Receiver::try_recv);
        match answer {
            // A drive that hangs is none that is back.
            Some(Err(TryRecvError::Empty)) => return self.on_look(now, None),
            Some(Ok(seen)) => self.on_look(now, seen),
            Some(Err(TryRecvError::Disconnected)) | None => {}
        }
        self.look = begin_look(table.clone(), directory.path.join(&table.path), directory.file.uuid);
    }
}

/// See the module.
pub(super) struct Lookout {
    drives: Vec<Watched>,
}

impl Lookout {
    /// A lookout of an array with so many drives, of which these were expected at the start and not there.
    pub(super) fn new(drives: usize, absent: &[usize]) -> Lookout {
        let of = |drive| Watched::new(if absent.contains(&drive) { State::Away } else { State::Here });
        Lookout { drives: (0..drives).map(of).collect() }
    }

    /// The operator fails a drive.
    pub(super) fn dismiss(&mut self, drive: usize) {
        self.drives[drive].is_dismissed = true;
    }

    /// A drive failed because it was lost.
    pub(super) fn note_lost(&mut self, drive: usize) {
        let watched = &mut self.drives[drive];
        if watched.state == State::Here && !watched.is_dismissed {
            (watched.state, watched.look) = (State::Away, None);
        }
    }

    /// A drive is a member, this one or another in its place.
    pub(super) fn note_here(&mut self, drive: usize) {
        let watched = &mut self.drives[drive];
        (watched.state, watched.is_dismissed, watched.look) = (State::Here, false, None);
    }

    /// A drive was not taken in, for a reason that may be over soon.
    pub(super) fn note_failed(&mut self, drive: usize) {
        let state = &mut self.drives[drive].state;
        if matches!(state, State::There { .. }) {
            *state = State::Away;
        }
    }

    /// A drive was refused for what it holds.
    pub(super) fn note_refused(&mut self, drive: usize) {
        let state = &mut self.drives[drive].state;
        if matches!(state, State::There { .. }) {
            *state = State::Refused;
        }
    }

    /// Looks for what is away; returns drives that are back, with their paths.
    pub(super) fn look(&mut self, now: Instant, directory: &Directory) -> Vec<(u8, PathBuf)> {
        for (watched, table) in self.drives.iter_mut().zip(&directory.file.drive) {
            if watched.state != State::Here {
                watched.look(now, table, directory);
            }
        }
        let stayed = |(drive, watched): (usize, &Watched)| {
            Some((u8::try_from(drive).ok()?, watched.stayed(now)?.to_owned()))
        };
        self.drives.iter().enumerate().filter_map(stayed).collect()
    }

    /// A drive is about to be taken in.
    pub(super) fn begin(&mut self, drive: u8) {
        let watched = &mut self.drives[usize::from(drive)];
        assert!(matches!(watched.state, State::There { .. }), "drive {drive} is {:?}", watched.state);
        watched.attempts += 1;
    }
}

/// Begins to look for a drive; nothing where the host has no thread for that.
fn begin_look(table: DriveTable, path: PathBuf, array: uuid::Uuid) -> Option<Receiver<Option<PathBuf>>> {
    let (tell, told) = channel();
    let look = move || {
        // Nobody listens when the drive is a member again.
        let _ = tell.send(find(&table, path, array));
    };
    match std::thread::Builder::new().name("lookout".to_owned()).spawn(look) {
        Ok(_) => Some(told),
        Err(error) => {
            log::debug!("no thread to look for a drive: {error}");
            None
        }
    }
}

/// Finds a drive of the array where it was, or among all devices if it is one.
fn find(table: &DriveTable, path: PathBuf, array: uuid::Uuid) -> Option<PathBuf> {
    let is_it = |sighting: &Sighting| sighting.uuid == table.uuid && sighting.array() == Some(array);
    if Sighting::of(&path).is_ok_and(|sighting| is_it(&sighting)) {
        return Some(path);
    }
    let mut seen = Vec::new();
    if table.is_device() {
        candidates::find(&[table], &mut seen);
    }
    seen.into_iter().find(is_it).map(|sighting| sighting.path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = TRIAL_MIN.0;

    fn seen() -> Option<PathBuf> {
        Some(PathBuf::from("/dev/ng1n1"))
    }

    #[test]
    fn a_drive_is_back_when_it_stays() {
        let mut drive = Watched::new(State::Away);
        drive.on_look(Instant(0), seen());
        assert_eq!(drive.stayed(Instant(0)), None);
        drive.on_look(Instant(SECOND), None);
        drive.on_look(Instant(2 * SECOND), seen());
        assert_eq!(drive.stayed(Instant(2 * SECOND)), None, "it was away in between");
        drive.on_look(Instant(3 * SECOND), Some(PathBuf::from("/dev/ng3n2")));
        assert_eq!(drive.stayed(Instant(3 * SECOND)), None, "it came back under another name");
        drive.on_look(Instant(4 * SECOND), Some(PathBuf::from("/dev/ng3n2")));
        assert_eq!(drive.stayed(Instant(4 * SECOND)), Some(Path::new("/dev/ng3n2")));
    }

    #[test]
    fn each_time_it_has_to_stay_for_longer() {
        let mut lookout = Lookout::new(3, &[1]);
        for (attempt, seconds) in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1024].into_iter().enumerate()
        {
            let drive = &mut lookout.drives[1];
            assert_eq!(drive.state, State::Away, "attempt {attempt}");
            drive.on_look(Instant(0), seen());
            assert_eq!(drive.stayed(Instant(seconds * SECOND - 1)), None, "attempt {attempt}");
            assert!(drive.stayed(Instant(seconds * SECOND)).is_some(), "attempt {attempt}");
            lookout.begin(1);
            lookout.note_here(1);
            lookout.note_lost(1);
        }
    }

    #[test]
    fn nobody_looks_for_a_drive_that_the_operator_failed() {
        let mut lookout = Lookout::new(3, &[]);
        lookout.dismiss(2);
        lookout.note_lost(2);
        lookout.note_lost(0);
        assert_eq!((&lookout.drives[2].state, &lookout.drives[0].state), (&State::Here, &State::Away));
        // Another drive took its place.
        lookout.note_here(2);
        lookout.note_lost(2);
        assert_eq!(lookout.drives[2].state, State::Away);
    }

    #[test]
    fn a_drive_that_was_refused_is_not_asked_again_before_it_was_away() {
        let mut lookout = Lookout::new(1, &[0]);
        lookout.drives[0].on_look(Instant(0), seen());
        lookout.begin(0);
        lookout.note_refused(0);
        lookout.note_failed(0);
        let drive = &mut lookout.drives[0];
        drive.on_look(Instant(SECOND), seen());
        drive.on_look(Instant(100 * SECOND), seen());
        assert_eq!(drive.stayed(Instant(200 * SECOND)), None);
        drive.on_look(Instant(300 * SECOND), None);
        drive.on_look(Instant(301 * SECOND), seen());
        assert!(drive.stayed(Instant(303 * SECOND)).is_some(), "it has to stay for 2 s now");
        lookout.begin(0);
        lookout.note_failed(0);
        lookout.drives[0].on_look(Instant(304 * SECOND), seen());
        assert!(lookout.drives[0].stayed(Instant(308 * SECOND)).is_some(), "it was busy only");
    }
}
