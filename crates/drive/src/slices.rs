//! A drive cut into slices: ranges of its zones, each a drive of its own to an owner in a thread of its own.
//!
//! ```text
//!   owner 0 ── Slice 0 ──┐           ┌─ zones 0 .. n
//!   owner 1 ── Slice 1 ──┤ one drive ├─ zones n .. 2n      answers of others are kept for them, and their bell rings
//!   owner 2 ── Slice 2 ──┘           └─ zones 2n .. 3n
//! ```
//! The drive's limits on open and active zones are shared out evenly, so slices that keep theirs keep the drive's. Zones that are left over
//! are not used. The drive is behind a lock that is held while a command is handed over, or answers are taken: an owner waits for
//! what another one hands over, never for a disk.
//!
//! Whoever polls takes the answers of all. A descriptor that tells of answers may so be listened to by one owner alone. A drive may have work
//! of its own beside commands, such as a page of a table: who is told of its next event finds the drive polled then, without a command, too.

#[cfg(test)]
mod tests;

use crate::answer::{Asked, frames_of};
use crate::hosted::Bell;
use base::slab::Slab;
use base::time::Instant;
use base::units::ZoneIndex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use zone::condition::Condition;
use zone::device::{Command, Completion, Geometry, Op, Status, Token, ZonedDevice};
use zone::drives::DriveSet;

/// Whose a command is, and under which name.
#[derive(Clone, Copy, Debug)]
struct Pending {
    slice: usize,
    token: Token,
}

/// Answers of a slice that others have taken, and what wakes its owner.
struct Tray {
    answers: Vec<Completion>,
    bell: Bell,
    /// The bell has rung for what is there.
    has_rung: bool,
}

/// The drive, with what its slices have under way.
struct Desk {
    device: Box<dyn ZonedDevice>,
    /// Owners look at their clocks before they wait for the lock. Time does not go back for the drive.
    latest: Instant,
    pending: Slab<Pending>,
    trays: Vec<Tray>,
    /// Kept for its memory.
    answers: Vec<Completion>,
}

/// There is no event.
const NEVER: u64 = u64::MAX;

struct Shared {
    desk: Mutex<Desk>,
    /// Commands that were handed over and not taken back by their owners.
    in_flight: AtomicUsize,
    /// Next event of the drive when it was last asked for: who was told of it finds it here, or a newer one.
    due: AtomicU64,
}

/// See the module.
pub struct Slice {
    number: usize,
    first: u32,
    geometry: Geometry,
    shared: Arc<Shared>,
    /// Answers to commands for zones that the slice does not have.
    refused: Vec<Completion>,
}

/// Cuts a drive into slices, one for each bell, which rings when another owner has taken answers of that slice.
#[must_use]
pub fn cut(device: Box<dyn ZonedDevice>, bells: &[Bell]) -> Vec<Slice> {
    let geometry = device.geometry().slice(bells.len());
    let tray = |bell: &Bell| Tray { answers: Vec::new(), bell: bell.clone(), has_rung: false };
    let desk = Desk {
        device,
        latest: Instant(0),
        pending: Slab::default(),
        trays: bells.iter().map(tray).collect(),
        answers: Vec::new(),
    };
    let (in_flight, due) = (AtomicUsize::new(0), AtomicU64::new(NEVER));
    let shared = Arc::new(Shared { desk: Mutex::new(desk), in_flight, due });
    let firsts = (0..).map(|number: u32| number * geometry.zones);
    let slice =
        |(number, first)| Slice { number, first, geometry, shared: Arc::clone(&shared), refused: Vec::new() };
    firsts.take(bells.len()).enumerate().map(slice).collect()
}

/// The slices of a drive for those who have these bells; the drive itself where that is one.
#[must_use]
pub fn sliced(device: Box<dyn ZonedDevice>, bells: &[Bell]) -> Vec<Box<dyn ZonedDevice>> {
    match bells.len() {
        1 => vec![device],
        _ => cut(device, bells).into_iter().map(|slice| Box::new(slice) as Box<dyn ZonedDevice>).collect(),
    }
}

/// Slices of drives, `None` where one is missing, for each of those who have these bells.
#[must_use]
pub fn sets(drives: Vec<Option<Box<dyn ZonedDevice>>>, bells: &[Bell]) -> Vec<DriveSet> {
    let mut sets: Vec<Vec<Option<Box<dyn ZonedDevice>>>> = bells.iter().map(|_| Vec::new()).collect();
    for drive in drives {
        let mut slices = drive.map(|drive| sliced(drive, bells)).into_iter().flatten();
        sets.iter_mut().for_each(|set| set.push(slices.next()));
    }
    sets.into_iter().map(DriveSet::new).collect()
}

impl Desk {
    fn time(&mut self, now: Instant) -> Instant {
        self.latest = self.latest.max(now);
        self.latest
    }

    /// Takes what the drive has answered, for whomever it is.
    fn sort_answers(&mut self, now: Instant) {
        let now = self.time(now);
        self.device.poll(now, &mut self.answers);
        for answer in self.answers.drain(..) {
            let slot = u32::try_from(answer.token.0).expect("tokens of the drive are slots");
            let Pending { slice, token } = self.pending.remove(slot);
            self.trays[slice].answers.push(Completion { token, ..answer });
        }
    }

    /// Takes the answers of a slice. The owners of others are woken once for theirs.
    fn hand_out(&mut self, me: usize, completions: &mut Vec<Completion>) {
        for (slice, tray) in self.trays.iter_mut().enumerate() {
            if slice == me {
                completions.append(&mut tray.answers);
                tray.has_rung = false;
            } else if !tray.answers.is_empty() && !std::mem::replace(&mut tray.has_rung, true) {
                tray.bell.ring();
            }
        }
    }
}

impl Slice {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.shared.desk.lock().expect("no drive panics")
    }

    /// Next event of the drive, with the desk in hand.
    fn note_due(&self, desk: &Desk) -> Option<Instant> {
        let next = desk.device.next_event();
        self.shared.due.store(next.map_or(NEVER, |next| next.0), Ordering::Relaxed);
        next
    }
}

impl ZonedDevice for Slice {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, now: Instant, command: Command) {
        let Command { token, zone, mut op } = command;
        if zone.0 >= self.geometry.zones {
            let asked = Asked::of(token, zone, &op);
            return self.refused.push(asked.done(Err(Status::LbaOutOfRange), frames_of(op)));
        }
        if let Op::Report { count } | Op::FindTurned { count } = &mut op {
            *count = (*count).min(self.geometry.zones - zone.0);
        }
        self.shared.in_flight.fetch_add(1, Ordering::Relaxed);
        let mut desk = self.desk();
        let slot = desk.pending.insert(Pending { slice: self.number, token });
        let now = desk.time(now);
        let zone = ZoneIndex(zone.0 + self.first);
        desk.device.submit(now, Command { token: Token(u64::from(slot)), zone, op });
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        completions.append(&mut self.refused);
        let is_due = self.shared.due.load(Ordering::Relaxed) <= now.0;
        if self.shared.in_flight.load(Ordering::Relaxed) == 0 && !is_due {
            return;
        }
        let taken = completions.len();
        let mut desk = self.desk();
        desk.sort_answers(now);
        desk.hand_out(self.number, completions);
        if is_due {
            self.note_due(&desk);
        }
        drop(desk);
        for answer in &mut completions[taken..] {
            answer.zone = ZoneIndex(answer.zone.0 - self.first);
        }
        self.shared.in_flight.fetch_sub(completions.len() - taken, Ordering::Relaxed);
    }

    fn next_event(&self) -> Option<Instant> {
        let desk = self.desk();
        let is_there = !desk.trays[self.number].answers.is_empty();
        let next = self.note_due(&desk);
        if is_there { Some(desk.latest) } else { next }
    }

    fn condition(&mut self, now: Instant) -> Condition {
        let mut desk = self.desk();
        let now = desk.time(now);
        desk.device.condition(now)
    }

    fn abandon(&mut self) {
        self.desk().device.abandon();
    }

    fn outlive_hiccups(&mut self, outlives: bool) {
        self.desk().device.outlive_hiccups(outlives);
    }

    fn is_stalled(&self) -> bool {
        self.desk().device.is_stalled()
    }
}
