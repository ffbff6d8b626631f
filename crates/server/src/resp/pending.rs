//! Commands under way: what their outcomes will be made into.
//!
//! Commands are answered in the order in which they came. Whatever is ready before its turn waits here.

use super::answer::{Answer, Protocol};
use super::commands::expiry::Left;
use super::commands::scan;
use cache::format::record::KEY_BYTES_MAX;
use cache::request::{Marks, Object, Outcome, Refusal, Told, WallMillis};
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

/// What one outcome is made into.
#[derive(Debug)]
pub enum Form {
    /// The value, or none.
    Bulk,
    /// The length of the value.
    Length,
    /// The part of the value that was asked for; empty when there is none.
    Part,
    /// What TYPE says.
    Type,
    /// Time left, or time of expiry.
    Left(Left),
    /// The value before the change.
    Before,
    /// `+OK`.
    Ok,
    /// What KEYS says.
    Keys,
    /// What SCAN says.
    Scan,
    /// One of the keys, by a number that was drawn.
    AnyKey(u64),
    /// Bytes of the object, with those of its key.
    Usage(usize),
    /// What OBJECT ENCODING says.
    Encoding,
    /// One, if there is an object.
    Single,
    /// Seconds since its last use, if there is an object.
    Idle(u64),
    /// That nobody knows, if there is an object.
    Untracked,
    /// What the decision says.
    Told(Arc<OnceLock<Answer>>),
}

/// What many outcomes are made into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tally {
    /// How many there are or were.
    Count,
    /// How many there are, all of which are used by this.
    Touched,
    /// `+OK`.
    Ok,
    /// Whether all were stored: 1, or 0 when one was there.
    AllNew,
}

/// What Redis says of OBJECT FREQ unless its policy is one of LFU.
const NO_LFU: &str = "An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching \
                      between policies at runtime LRU and LFU data will take some time to adjust.";

#[derive(Debug)]
enum Progress {
    /// The answer.
    Done(Answer),
    /// One outcome is still to come.
    One(Form),
    /// Outcomes are still to come, and requests perhaps still to be sent.
    Many { tally: Tally, missing: usize, is_open: bool, count: i64, refusal: Option<Refusal> },
}

#[derive(Debug)]
struct Entry {
    /// `None` when the client is not told.
    protocol: Option<Protocol>,
    progress: Progress,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Pending {
    entries: VecDeque<Entry>,
    /// Sequence of the first entry.
    first: u64,
    /// Requests without an outcome.
    requests: usize,
    /// Memory of answers that wait for their turn, in bytes.
    answers_bytes: usize,
}

impl Pending {
    /// True when every command is answered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Requests without an outcome.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.requests
    }

    /// Memory that it takes, in bytes.
    #[must_use]
    pub fn bytes_held(&self) -> usize {
        self.answers_bytes + self.entries.len() * size_of::<Entry>()
    }

    /// Sequence of the last command.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn last_sequence(&self) -> u64 {
        let count = u64::try_from(self.entries.len()).expect("memory has less than 2^64 bytes");
        assert!(count > 0, "there is a last command");
        self.first + count - 1
    }

    /// An answer takes its place behind all others.
    pub fn push_answer(&mut self, protocol: Protocol, answer: Answer) {
        self.answers_bytes += answer.bytes_held();
        self.entries.push_back(Entry { protocol: Some(protocol), progress: Progress::Done(answer) });
    }

    /// A command that one outcome will answer. Returns its sequence.
    pub fn push_one(&mut self, protocol: Option<Protocol>, form: Form) -> u64 {
        self.requests += 1;
        self.entries.push_back(Entry { protocol, progress: Progress::One(form) });
        self.last_sequence()
    }

    /// A command that many outcomes will answer.
    pub fn push_many(&mut self, protocol: Option<Protocol>, tally: Tally) {
        let progress = Progress::Many { tally, missing: 0, is_open: true, count: 0, refusal: None };
        self.entries.push_back(Entry { protocol, progress });
    }

    /// One more outcome will come for a command of many.
    pub fn expect_more(&mut self, sequence: u64) {
        let Progress::Many { missing, is_open, .. } = self.progress(sequence) else {
            unreachable!("only commands of many outcomes expect more")
        };
        assert!(*is_open, "a command is asked for in parts until it is closed");
        *missing += 1;
        self.requests += 1;
    }

    /// No more requests will be sent for a command of many.
    pub fn expect_no_more(&mut self, sequence: u64) {
        if let Progress::Many { is_open, .. } = self.progress(sequence) {
            assert!(*is_open, "a command is closed once");
            *is_open = false;
        }
        self.settle(sequence);
    }

    /// Outcomes still to come for a command of many, and how many counted so far.
    pub fn standing(&mut self, sequence: u64) -> (usize, i64) {
        match self.progress(sequence) {
            Progress::Many { missing, count, .. } => (*missing, *count),
            Progress::Done(_) | Progress::One(_) => unreachable!("only commands of many outcomes count"),
        }
    }

    /// An outcome has come.
    ///
    /// # Panics
    /// When the command did not wait for one.
    pub fn on_outcome(&mut self, sequence: u64, outcome: Outcome, wall: WallMillis) {
        assert!(self.requests > 0, "an outcome is of a request");
        self.requests -= 1;
        match self.progress(sequence) {
            Progress::Many { missing, count, refusal, .. } => {
                assert!(*missing > 0, "an outcome comes once");
                *missing -= 1;
                match outcome {
                    Outcome::Found(Some(_)) | Outcome::Removed(true) => *count += 1,
                    Outcome::Refused(why) => *refusal = Some(why),
                    _ => {}
                }
            }
            progress @ Progress::One(_) => {
                let form = std::mem::replace(progress, Progress::Done(Answer::Null));
                let Progress::One(form) = form else { unreachable!("matched above") };
                let answer = form.answer(outcome, wall);
                let bytes = answer.bytes_held();
                *progress = Progress::Done(answer);
                self.answers_bytes += bytes;
            }
            Progress::Done(_) => unreachable!("an answered command waits for nothing"),
        }
        self.settle(sequence);
    }

    /// Takes the next answer whose turn it is.
    pub fn next_answer(&mut self) -> Option<(Option<Protocol>, Answer)> {
        if !matches!(self.entries.front()?.progress, Progress::Done(_)) {
            return None;
        }
        let entry = self.entries.pop_front()?;
        self.first += 1;
        let is_last = self.entries.is_empty();
        assert!(!is_last || self.requests == 0, "{} requests of nobody are under way", self.requests);
        let Progress::Done(answer) = entry.progress else { unreachable!("seen above") };
        let bytes = answer.bytes_held();
        assert!(self.answers_bytes >= bytes, "an answer is counted while it waits");
        self.answers_bytes -= bytes;
        Some((entry.protocol, answer))
    }

    /// A command of many whose outcomes are all there is answered.
    fn settle(&mut self, sequence: u64) {
        let progress = self.progress(sequence);
        let &mut Progress::Many { tally, missing: 0, is_open: false, count, refusal } = progress else {
            return;
        };
        let answer = match (refusal, tally) {
            (Some(refusal), _) => refused(refusal),
            (None, Tally::Count | Tally::Touched) => Answer::Integer(count),
            (None, Tally::Ok) => Answer::OK,
            (None, Tally::AllNew) => Answer::Integer(i64::from(count == 0)),
        };
        let bytes = answer.bytes_held();
        *progress = Progress::Done(answer);
        self.answers_bytes += bytes;
    }

    fn progress(&mut self, sequence: u64) -> &mut Progress {
        assert!(sequence >= self.first, "command {sequence} was answered before {}", self.first);
        let index = usize::try_from(sequence - self.first).expect("places in memory");
        let count = self.entries.len();
        assert!(index < count, "command {sequence} is not among the {count} from {} on", self.first);
        &mut self.entries[index].progress
    }
}

impl Form {
    fn answer(self, outcome: Outcome, wall: WallMillis) -> Answer {
        let found = match outcome {
            Outcome::Walked { keys, next } => return self.walked(keys, next),
            Outcome::Refused(refusal) => return refused(refusal),
            Outcome::Found(found) | Outcome::Updated { before: found, .. } => found,
            Outcome::Stored | Outcome::Removed(_) | Outcome::Cleared => None,
        };
        match self {
            Form::Ok => Answer::OK,
            Form::Told(told) => Arc::try_unwrap(told)
                .map_or_else(|told| told.get().cloned(), OnceLock::into_inner)
                .expect("a cache decides before it answers"),
            Form::Bulk | Form::Before => found.map_or(Answer::Null, |object| Answer::Bulk(object.value)),
            Form::Length => Answer::Integer(found.map_or(0, |object| length(&object.value))),
            Form::Part => Answer::Bulk(found.map(|object| object.value).unwrap_or_default()),
            Form::Type => Answer::Simple(if found.is_some() { "string" } else { "none" }),
            Form::Left(left) => Answer::Integer(left.of(found.as_ref(), wall)),
            Form::Usage(key_bytes) => found.map_or(Answer::Null, |object| {
                Answer::Integer(length(&object.value) + i64::try_from(key_bytes).unwrap_or(i64::MAX))
            }),
            Form::Encoding => found.map_or(Answer::Null, |object| {
                Answer::bulk(super::commands::server::encoding(&object.value))
            }),
            Form::Single => found.map_or(Answer::Null, |_| Answer::Integer(1)),
            Form::Idle(seconds) => {
                found.map_or(Answer::Null, |_| Answer::Integer(i64::try_from(seconds).unwrap_or(i64::MAX)))
            }
            Form::Untracked => found.map_or(Answer::Null, |_| Answer::error(NO_LFU)),
            Form::Keys | Form::Scan | Form::AnyKey(_) => unreachable!("walks end in keys"),
        }
    }

    fn walked(self, keys: Vec<Told>, next: Option<u64>) -> Answer {
        let keys: Vec<Vec<u8>> = keys.into_iter().map(|told| told.key).collect();
        match self {
            Form::Keys => scan::all(keys, next.is_none()),
            Form::Scan => scan::part(keys, next),
            Form::AnyKey(which) => scan::any(keys, which),
            other => unreachable!("{other:?} is no form of a walk"),
        }
    }
}

/// Length of a value as an answer has it.
pub(super) fn length(value: &[u8]) -> i64 {
    i64::try_from(value.len()).expect("memory has less than 2^63 bytes")
}

/// Error for what a cache refuses.
fn refused(refusal: Refusal) -> Answer {
    match refusal {
        Refusal::KeyTooLong => Answer::error(format_args!(
            "the key is longer than {KEY_BYTES_MAX} bytes, the most that this cache stores"
        )),
        Refusal::ObjectTooLarge => super::commands::strings::too_large(),
        Refusal::NoDrive => Answer::error("no drive of the cache takes writes"),
    }
}

/// An object without flags that does not expire.
pub(super) fn plain(value: Vec<u8>) -> Object {
    Object { value: value.into(), flags: 0, marks: Marks::default(), expires: None }
}
