//! Watching over drives in service: what is not answered, what is lost, what waits and what is slow.
//!
//! ```text
//!   age of the oldest command    0 .......... limit .............. 2 x limit, and its patience where it is waited for
//!                                             logged, in status    given up, handled as a drive that died
//! ```
//! When more drives than the array can do without do not answer, what they all lie on is in trouble. None of them is
//! given up then, and clients wait: afterwards all of them are as they were.
//!
//! Writes that wait for room on a full file system do not count: that is no trouble of the drive, and ends by itself.
//! Nor do commands that wait for a drive that is away for a while (ADR 72): that has a patience of its own. It comes on top for a drive that
//! does not answer: Linux aborts a command after 30 s, as a rule, resets the controller after 60, and then takes its time.
//! Nor does time in which nobody looked, because the process was stopped or its machine was: drives had none either.

use array::log::blame::Blame;
use array::log::volume::LogVolume;
use base::erasure::PieceSet;
use base::time::{Instant, Nanos};
use base::units::DriveIndex;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use zone::condition::{Condition, Hiccups, Loss, Outstanding, Settled};
use zone::format::superblock::MemberState;

const SECOND: Nanos = Nanos(1_000_000_000);

/// Time between two looks at the drives.
const LOOK_EVERY: Nanos = SECOND;

/// Time without a look after which the process is taken to have been stopped meanwhile.
const BLIND_AFTER: Nanos = Nanos(5 * SECOND.0);

/// A drive is slow when its 99th percentile is this many times the middle one of all drives.
const SLOW_FACTOR: u64 = 8;
/// Latency below which no drive is slow.
const SLOW_MIN: Nanos = Nanos(20_000_000);
/// Count of commands below which a drive is not judged.
const SLOW_COMMANDS_MIN: u64 = 50;

/// Troubles of a drive, as `status` has them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Trouble {
    /// The drive is lost to this server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
    /// The drive works, but its file could not be opened again: its header is damaged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub header_damaged: bool,
    /// Writes have been waiting for room on the drive's file system for so many seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for_room_s: Option<u64>,
    /// The drive is away, and has been waited for so many seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalled_s: Option<u64>,
    /// A command was not answered for so many seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unanswered_s: Option<u64>,
    /// Time within which 99 % of recent commands were answered, far more than the other drives take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_p99_us: Option<u64>,
}

impl Trouble {
    fn is_none(&self) -> bool {
        *self == Trouble::default()
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [
            self.lost.as_ref().map(|lost| format!("lost: {lost}")),
            self.header_damaged.then(|| {
                "the header of its file is damaged: `scrub --repair` writes it anew, or the next start is without it".to_owned()
            }),
            self.waits_for_room_s.map(|s| format!("waits for room on its file system since {s} s")),
            self.stalled_s.map(|s| {
                format!("away since {s} s, and waited for: its writes wait, reads are decoded from other drives")
            }),
            self.unanswered_s.map(|s| format!("has not answered a command for {s} s")),
            self.slow_p99_us.map(|us| format!("slow: {us} us for 99 % of commands")),
        ];
        f.write_str(&words.into_iter().flatten().collect::<Vec<_>>().join("; "))
    }
}

/// Troubles of a drive that were logged already.
#[derive(Clone, Copy, Debug, Default)]
struct Said {
    is_lost: bool,
    header_damaged: bool,
    unanswered: Option<Outstanding>,
    waits_for_room: bool,
    slow: bool,
    /// Hiccups that are over, and whether another one has begun.
    hiccups: u32,
    is_stalled: bool,
    is_blamed: bool,
}

/// Judgement of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Well,
    /// The drive died, and that is certain.
    Lost,
    /// The drive does not answer, and its time is over.
    Overdue,
}

/// See the module.
pub struct DriveWatch {
    /// The first limit; the second is twice that.
    limit: Nanos,
    looked_at: Instant,
    /// Time from which the age of a command counts that was submitted before it.
    blind_until: Instant,
    /// Set while too many drives do not answer, once that was logged.
    host_hangs: bool,
    drives: Vec<(Condition, Said)>,
    is_slow: Vec<bool>,
}

impl DriveWatch {
    /// Watches over so many drives.
    pub fn new(limit: Nanos, drives: usize, now: Instant) -> DriveWatch {
        let nothing = (Condition::default(), Said::default());
        let (looked_at, blind_until) = (now, now);
        let (drives, is_slow) = (vec![nothing; drives], vec![false; drives]);
        DriveWatch { limit, looked_at, blind_until, host_hangs: false, drives, is_slow }
    }

    /// Time of the next look.
    pub fn next_look(&self) -> Instant {
        self.looked_at + LOOK_EVERY.min(self.limit)
    }

    /// Looks, if it is time to: says what has changed, and gives up drives that are lost or do not answer. False when it was not.
    pub fn look(&mut self, now: Instant, volume: &mut LogVolume, path_of: impl Fn(usize) -> PathBuf) -> bool {
        if now < self.next_look() {
            return false;
        }
        if now.since(self.looked_at) >= BLIND_AFTER {
            self.blind_until = now;
        }
        self.looked_at = now;
        let mut overdue = Vec::new();
        for index in 0..self.drives.len() {
            let drive = DriveIndex::at(index);
            let name = name_of(&path_of, index);
            self.drives[index].0 = volume.condition(now, drive).unwrap_or_default();
            // The engine may know already, but not why.
            match self.judge(now, index, &name) {
                Verdict::Well => {}
                Verdict::Lost => volume.give_up_member(drive),
                Verdict::Overdue => overdue.push(name),
            }
            self.note_hiccups(index, &name_of(&path_of, index));
            self.note_header(index, &name_of(&path_of, index));
            self.note_room(index, &name_of(&path_of, index));
            self.note_blame(index, &name_of(&path_of, index), volume.engine.blamed_for(drive));
        }
        match overdue.is_empty() {
            true => self.host_hangs = false,
            false => self.give_up(volume, &overdue),
        }
        self.compare(&path_of);
        true
    }

    /// Says what is wrong with a drive's answers.
    fn judge(&mut self, now: Instant, index: usize, name: &Name) -> Verdict {
        let blind_until = self.blind_until;
        let (condition, said) = &mut self.drives[index];
        if let Some(loss) = condition.loss {
            if !std::mem::replace(&mut said.is_lost, true) {
                log::error!("{name}: {loss}; it is handled as a failed drive");
            }
            return Verdict::Lost;
        }
        said.is_lost = false;
        let age = |oldest: &Outstanding| now.since(oldest.since.max(blind_until));
        let Some(oldest) = condition.oldest.filter(|oldest| age(oldest) >= self.limit) else {
            let was_unanswered = said.unanswered.take().is_some();
            if was_unanswered && condition.hiccups.stalled_since.is_none() {
                log::warn!("{name}: answers again");
            }
            return Verdict::Well;
        };
        if said.unanswered.replace(oldest).is_none() {
            let seconds = now.since(oldest.since).0 / SECOND.0;
            log::error!("{name}: a command to zone {} has not been answered for {seconds} s", oldest.zone);
        }
        let most = 2 * self.limit.0 + condition.hiccups.patience.0;
        if age(&oldest).0 >= most { Verdict::Overdue } else { Verdict::Well }
    }

    /// Gives up drives whose time is over. When they are more than the array can do without, what they lie on is in
    /// trouble, and not they: then their commands wait until that is over.
    fn give_up(&mut self, volume: &mut LogVolume, overdue: &[Name]) {
        let is_overdue = |drive: usize| overdue.iter().any(|name| name.index == drive);
        let status = volume.engine.status();
        let count = status.members.len();
        let is_left = |drive: &usize| status.members[*drive] == MemberState::Active && !is_overdue(*drive);
        let left: PieceSet = (0..count).filter(is_left).collect();
        let suffices = status.level.erasure_code(count).is_some_and(|code| code.can_decode(left));
        if !suffices {
            if !std::mem::replace(&mut self.host_hangs, true) {
                let names: Vec<String> = overdue.iter().map(Name::to_string).collect();
                log::error!(
                    "{}: more drives than the array can do without do not answer, so none is given up and clients wait",
                    names.join(", ")
                );
            }
            return;
        }
        self.host_hangs = false;
        for name in overdue {
            let (condition, said) = &mut self.drives[name.index];
            *said = Said { is_lost: true, ..Said::default() };
            condition.loss = Some(Loss::Abandoned);
            log::error!("{name}: the drive is given up and handled as a failed one");
            volume.give_up_member(DriveIndex::at(name.index));
        }
    }

    /// Says when a drive is away, and when it is back.
    fn note_hiccups(&mut self, index: usize, name: &Name) {
        let (condition, said) = &mut self.drives[index];
        let Hiccups { count, stalled_since, last, .. } = condition.hiccups;
        let over = count - u32::from(stalled_since.is_some());
        // Another drive in its place begins anew.
        if over > said.hiccups
            && condition.loss.is_none()
            && let Some(Settled { lasted, waited, landed, repeated }) = last
        {
            log::warn!(
                "{name}: is back after {} ms, and nothing was lost: {waited} commands waited; of those whose fate nobody knew, \
                 {landed} had been carried out and {repeated} were given again",
                lasted.0 / 1_000_000
            );
            said.is_stalled = false;
        }
        said.hiccups = over;
        let is_stalled = stalled_since.is_some();
        if is_stalled && !said.is_stalled {
            log::warn!(
                "{name}: was reset, is away or does not answer, and is waited for: its writes wait, reads are decoded from other drives"
            );
        }
        said.is_stalled = is_stalled;
    }

    fn note_header(&mut self, index: usize, name: &Name) {
        let (condition, said) = &mut self.drives[index];
        let is_damaged = condition.header_damaged && condition.loss.is_none();
        match (std::mem::replace(&mut said.header_damaged, is_damaged), is_damaged) {
            (false, true) => log::error!(
                "{name}: its file was overwritten while in use, the drive's header is damaged: `zoneweave scrub --repair` \
                 writes it anew, or the next start is without the drive"
            ),
            (true, false) if condition.loss.is_none() => {
                log::warn!("{name}: the header of its file is whole again")
            }
            _ => {}
        }
    }

    fn note_room(&mut self, index: usize, name: &Name) {
        let (condition, said) = &mut self.drives[index];
        let waits = condition.waits_for_room_since.is_some();
        match (std::mem::replace(&mut said.waits_for_room, waits), waits) {
            (false, true) => log::error!(
                "{name}: its file system is full; writes wait, and go on by themselves when there is room"
            ),
            (true, false) => log::warn!("{name}: there is room again, writes go on"),
            (true, true) | (false, false) => {}
        }
    }

    /// Says why the engine goes on without a drive that is not lost to the host.
    fn note_blame(&mut self, index: usize, name: &Name, blame: Option<Blame>) {
        let (condition, said) = &mut self.drives[index];
        let own = blame.filter(|blame| *blame != Blame::Told && condition.loss.is_none());
        if let Some(blame) = own.filter(|_| !said.is_blamed) {
            log::error!(
                "{name}: has failed: {blame}; the array goes on without it: `zoneweave drive replace`"
            );
        }
        said.is_blamed = own.is_some();
    }

    /// Compares the drives with each other.
    fn compare(&mut self, path_of: &impl Fn(usize) -> PathBuf) {
        let latencies: Vec<_> = self.drives.iter().map(|(condition, _)| condition.latency).collect();
        let mut p99: Vec<Nanos> = latencies
            .iter()
            .filter(|latency| latency.count >= SLOW_COMMANDS_MIN)
            .map(|latency| latency.p99)
            .collect();
        p99.sort_unstable();
        // Of an even number the lower one: with two drives, one can still be slow.
        let middle = p99.len().checked_sub(1).map_or(Nanos(0), |last| p99[last / 2]);
        for (index, latency) in latencies.iter().enumerate() {
            let is_slow = latency.count >= SLOW_COMMANDS_MIN
                && latency.p99 >= SLOW_MIN
                && latency.p99.0 / SLOW_FACTOR >= middle.0;
            self.is_slow[index] = is_slow;
            if is_slow && !std::mem::replace(&mut self.drives[index].1.slow, is_slow) {
                let name = name_of(path_of, index);
                log::warn!(
                    "{name}: slow: 99 % of its commands take up to {} us, those of the other drives {} us",
                    latency.p99.0 / 1000,
                    middle.0 / 1000
                );
            }
            self.drives[index].1.slow = is_slow;
        }
    }

    /// True of a drive that is away and waited for.
    pub fn is_stalled(&self, drive: usize) -> bool {
        self.drives.get(drive).is_some_and(|(condition, _)| condition.hiccups.stalled_since.is_some())
    }

    /// Times that a drive was away for a while.
    pub fn hiccups(&self, drive: usize) -> u32 {
        self.drives.get(drive).map_or(0, |(condition, _)| condition.hiccups.count)
    }

    /// True of a drive that is lost to this server.
    pub fn is_lost(&self, drive: usize) -> bool {
        self.drives.get(drive).is_some_and(|(condition, _)| condition.loss.is_some())
    }

    /// Returns the present troubles of a drive, if any.
    pub fn trouble(&self, now: Instant, drive: usize) -> Option<Trouble> {
        let (condition, said) = self.drives.get(drive)?;
        let seconds = |since: Instant| now.since(since).0 / SECOND.0;
        let trouble = Trouble {
            lost: condition.loss.map(|loss| loss.to_string()),
            header_damaged: condition.header_damaged,
            waits_for_room_s: condition.waits_for_room_since.map(seconds),
            stalled_s: condition.hiccups.stalled_since.map(seconds),
            unanswered_s: said.unanswered.map(|oldest| seconds(oldest.since)),
            slow_p99_us: self.is_slow[drive].then_some(condition.latency.p99.0 / 1000),
        };
        (!trouble.is_none()).then_some(trouble)
    }
}

/// A drive as the log names it.
struct Name {
    index: usize,
    path: PathBuf,
}

fn name_of(path_of: &impl Fn(usize) -> PathBuf, index: usize) -> Name {
    Name { index, path: path_of(index) }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "drive {} ({})", self.index, self.path.display())
    }
}
