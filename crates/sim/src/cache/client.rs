//! Clients: what they ask for, what the cache decides for them, and whether its answers are right.

use super::act::{Change, Expiry, Filler, KEYS};
use super::judge::CacheJudge;
use super::ledger::Since;
use super::life::CacheLife;
use super::oracle::{full_key, name_of};
use super::plan::VALUE_MAX;
use super::shards::Answered;
use super::stage::CacheStage;
use crate::tally::Failure;
use ::cache::config::Acknowledge;
use ::cache::format::record;
use ::cache::request::{
    Change as Verdict, Kind, Marks, Namespace, Object, Op, Outcome, Part, Refusal, Reply, Request, RequestId,
    WallMillis,
};
use base::units::ZoneIndex;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex};

/// What a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Get,
    Part(Part),
    /// Its version.
    Set(u64),
    Remove(u64),
    Update(u64),
    Clear(Option<Namespace>),
    /// Of the namespace of the key, at once or later.
    ClearAt {
        now: bool,
    },
    /// Of the namespace of the key.
    Scan,
}

/// A request under way.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub key: usize,
    pub asked: Asked,
    /// Version of the key that was begun last when it was asked; of all keys for a clear.
    pub begun: Vec<u64>,
    /// Latest wall time when it was asked.
    pub wall: u64,
    /// When it was asked.
    since: Since,
}

/// What the cache was told when it asked for a decision.
#[derive(Clone, Debug)]
struct Decided {
    before: Option<Object>,
    wall: u64,
    verdict: Verdict,
}

/// Requests and decisions.
#[derive(Debug, Default)]
pub(super) struct Desk {
    pub pending: BTreeMap<u64, Pending>,
    decisions: Arc<Mutex<Vec<(u64, Decided)>>>,
    decided: BTreeMap<u64, Decided>,
    /// Reads that found nothing, since somebody began to look at this.
    pub missed: BTreeSet<u64>,
    /// What clients saw last, by key.
    pub seen: BTreeMap<usize, Object>,
    /// What is to be replaced, by request.
    pub exchanges: BTreeMap<u64, Object>,
    next: u64,
}

impl Desk {
    /// Number of the request that was asked for last.
    pub fn last_id(&self) -> u64 {
        self.next
    }

    /// Number of the one that comes next.
    pub fn next_id(&self) -> u64 {
        self.next + 1
    }

    /// The process has ended.
    pub fn forget(&mut self) {
        self.pending.clear();
        self.decided.clear();
        self.exchanges.clear();
        self.decisions.lock().expect("nobody panics with it").clear();
    }
}

/// A request or an answer, for the log.
#[derive(Hash)]
struct Told {
    what: &'static str,
    id: u64,
    key: usize,
    version: u64,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Told { what, id, key, version } = self;
        write!(f, "request {id} {what} key {key} version {version}")
    }
}

impl CacheStage {
    fn expires(&self, expiry: Expiry) -> Option<WallMillis> {
        match expiry {
            Expiry::Never => None,
            Expiry::After(millis) => Some(WallMillis(self.clock.wall() + millis)),
        }
    }

    /// A block of a drive, as it is on the media.
    fn any_block(&mut self) -> Vec<u8> {
        let drive = self.random.index(self.places());
        if let Some(files) = &self.files {
            return files.block(drive, self.random.below(1 << 40));
        }
        let zone = ZoneIndex(
            u32::try_from(self.random.below(u64::from(self.plan.geometry().zones))).expect("a u32"),
        );
        let mut rack = self.rack.lock();
        let written = rack.drives[drive].media().zone(zone).write_pointer;
        if written == 0 {
            return Vec::new();
        }
        let offset = u32::try_from(self.random.below(u64::from(written))).expect("a u32");
        rack.drives[drive].peek(zone, offset).map(|frame| frame.data.to_vec()).unwrap_or_default()
    }
}

impl CacheJudge {
    /// What a request that may have been done in part costs is not owed any more.
    pub(super) fn give_up(&mut self, key: usize, asked: Asked) {
        match asked {
            Asked::Get | Asked::Part(_) | Asked::Scan => {}
            Asked::Set(_) | Asked::Remove(_) | Asked::Update(_) => self.ledger.touch(key),
            Asked::Clear(namespace) => {
                for other in 0..KEYS {
                    if namespace.is_none_or(|namespace| namespace == name_of(other).0) {
                        self.ledger.forgive(other);
                    }
                }
            }
            Asked::ClearAt { .. } => self.forgive_namespace(name_of(key).0),
        }
    }

    /// Value of a version: its name, and something that may look like what the cache writes.
    pub(super) fn value(&mut self, key: usize, version: u64, bytes: usize, filler: Filler) -> Vec<u8> {
        let mut value = format!("{key}:{version}:").into_bytes();
        match filler {
            Filler::Dots => {}
            Filler::Block => value.extend(self.stage.any_block()),
            Filler::Record => {
                let old = self.oracle.last(key).filter(|old| old.value.len() < 2_000);
                let old = old.map(|old| record::encode(&full_key(key), old)).unwrap_or_default();
                while !old.is_empty() && value.len() < bytes {
                    value.extend_from_slice(&old);
                }
            }
        }
        value.resize(value.len().max(bytes).min(VALUE_MAX - 100), b'.');
        assert!(value.starts_with(format!("{key}:{version}:").as_bytes()), "a value begins with its name");
        value
    }

    /// Notes what was decided in a turn.
    pub(super) fn note_decisions(&mut self) -> Result<(), Failure> {
        let new = std::mem::take(&mut *self.desk.decisions.lock().expect("nobody panics with it"));
        for (id, decided) in new {
            let pending =
                self.desk.pending.get(&id).ok_or_else(|| Failure::new("decided after the answer"))?;
            let Asked::Update(version) = pending.asked else { unreachable!("others decide nothing") };
            let key = pending.key;
            self.stage.note(&Told { what: "decides on", id, key, version });
            if decided.wall < self.stage.clock.latest {
                return Err(Failure::new(format!("request {id} was decided at a time that had passed")));
            }
            match &decided.verdict {
                Verdict::Keep => {}
                Verdict::Remove => self.oracle.define(key, version, None),
                Verdict::Store(object) => self.oracle.define(key, version, Some(object.clone())),
            }
            if self.desk.decided.insert(id, decided).is_some() {
                return Err(Failure::new(format!("request {id} was decided twice")));
            }
        }
        Ok(())
    }

    /// Judges an answer.
    pub(super) fn judge(&mut self, answered: Answered) -> Result<(), Failure> {
        let Answered { reply: Reply { id, outcome }, wall: answered_at, frozen } = answered;
        let id = id.0;
        let pending = self.desk.pending.remove(&id);
        let pending = pending.ok_or_else(|| Failure::new(format!("request {id} is answered twice")))?;
        let Pending { key, asked, ref begun, wall, since } = pending;
        self.stage.tally.requests += 1;
        let told = |what, version| Told { what, id, key, version };
        if let Outcome::Refused(refusal) = outcome {
            self.stage.note(&told("is refused", 0));
            return self.judge_refusal(&pending, refusal);
        }
        self.confirm_times(id, &pending);
        match (asked, outcome) {
            (Asked::Get, Outcome::Found(Some(object))) => {
                let version = self.saw(key, &object, answered_at)?;
                self.stage.note(&told("finds", version));
            }
            (Asked::Part(part), Outcome::Found(Some(object))) => {
                self.stage.note(&told("finds a part", object.value.len() as u64));
                self.oracle.judge_part(key, part, &object, answered_at)?;
                self.stage.tally.parts += 1;
            }
            (Asked::Get | Asked::Part(_), Outcome::Found(None)) => {
                self.stage.note(&told("misses", 0));
                self.desk.missed.insert(id);
                self.missed(key, begun[key], (answered_at, frozen))?;
            }
            (Asked::Scan, Outcome::Walked { keys, next }) => {
                self.stage.note(&told("scans", keys.len() as u64));
                self.scanned(&pending, &keys, next)?;
            }
            (Asked::Set(version), Outcome::Stored) => {
                self.stage.note(&told("stored", version));
                self.stored(key, version, since);
            }
            (Asked::Remove(version), Outcome::Removed(was_there)) => {
                self.stage.note(&told("removed", version));
                if was_there && !self.oracle.may_exist(key, wall) {
                    return Err(Failure::new(format!("key {key}: something was removed that was not there")));
                }
                if !was_there {
                    self.missed(key, version - 1, (answered_at, frozen))?;
                }
                self.oracle.acknowledge(key, version);
                self.ledger.touch(key);
            }
            (Asked::Update(version), Outcome::Updated { before, change }) => {
                self.stage.note(&told("updated", version));
                self.updated(&pending, (id, version), (before, frozen), change)?;
            }
            (Asked::Clear(namespace), Outcome::Cleared) => {
                self.stage.note(&told("cleared", 0));
                self.cleared(namespace, begun);
            }
            (Asked::ClearAt { now }, Outcome::Cleared) => {
                self.stage.note(&told(if now { "cleared" } else { "planned" }, 0));
                let (namespace, _) = name_of(key);
                self.planned.acknowledge(namespace, id);
                if now {
                    for other in (0..KEYS).filter(|other| name_of(*other).0 == namespace) {
                        self.oracle.acknowledge(other, begun[other]);
                    }
                    self.forgive_namespace(namespace);
                }
            }
            (asked, outcome) => {
                return Err(Failure::new(format!("{asked:?} of key {key} is answered by {outcome:?}")));
            }
        }
        Ok(())
    }

    /// A namespace was cleared, or all were: of versions that were begun before, nothing is seen any more.
    fn cleared(&mut self, namespace: Option<Namespace>, begun: &[u64]) {
        assert_eq!(begun.len(), KEYS, "a version of each key");
        for (other, begun) in begun.iter().enumerate() {
            if namespace.is_none_or(|namespace| namespace == name_of(other).0) {
                self.oracle.acknowledge(other, *begun);
                self.ledger.forgive(other);
            }
        }
    }

    fn judge_refusal(&mut self, pending: &Pending, refusal: Refusal) -> Result<(), Failure> {
        self.stage.tally.refused += 1;
        self.give_up(pending.key, pending.asked);
        match refusal {
            Refusal::NoDrive if self.stage.may_freeze() => Ok(()),
            Refusal::KeyTooLong | Refusal::ObjectTooLarge | Refusal::NoDrive => {
                Err(Failure::new(format!("request of key {} is refused: {refusal:?}", pending.key)))
            }
        }
    }

    fn stored(&mut self, key: usize, version: u64, since: Since) {
        assert!(version > 0, "key {key}: versions are numbered from one");
        self.oracle.acknowledge(key, version);
        self.ledger.touch(key);
        let is_durable = self.stage.plan.acknowledge == Acknowledge::Media;
        self.ledger.owe(key, version, since, is_durable);
    }

    /// An object was shown to a client.
    fn saw(&mut self, key: usize, object: &Object, wall: u64) -> Result<u64, Failure> {
        let version = self.oracle.judge(key, object, wall)?;
        let causes = self.stage.causes();
        self.stage.tally.owed_found += u64::from(self.ledger.is_owed(key, version, &causes));
        self.oracle.acknowledge(key, version);
        self.desk.seen.insert(key, object.clone());
        self.stage.tally.hits += 1;
        Ok(version)
    }

    /// Nothing was found under a key by a request that comes after version `last`.
    fn missed(&mut self, key: usize, last: u64, (wall, frozen): (u64, bool)) -> Result<(), Failure> {
        self.stage.tally.misses += 1;
        let causes = self.stage.causes();
        if let Some((version, object)) = self.oracle.newest(key, last) {
            let is_live = object.expires.is_none_or(|at| at.0 > wall.max(self.stage.clock.ever));
            if is_live && !self.is_disturbed(key, wall) && self.ledger.is_owed(key, version, &causes) {
                return Err(Failure::new(format!(
                    "key {key}: version {version} was forgotten without a cause"
                )));
            }
            self.stage.tally.misses_owed += u64::from(is_live);
        }
        // Whatever has expired, acknowledged or not, takes with it the keys that the index cannot tell from it.
        if self.oracle.may_have_expired(key, last, wall.max(self.stage.clock.ever)) {
            self.ledger.touch(key);
        }
        // A shard without drives can record nothing: what it misses may be there again.
        if !frozen {
            self.oracle.missed(key, last, wall);
        }
        Ok(())
    }

    fn updated(
        &mut self,
        pending: &Pending,
        (id, version): (u64, u64),
        (before, frozen): (Option<Object>, bool),
        change: Kind,
    ) -> Result<(), Failure> {
        let key = pending.key;
        let decided = self.desk.decided.remove(&id);
        let decided = decided.ok_or_else(|| Failure::new(format!("request {id}: nobody was asked")))?;
        if decided.before != before {
            return Err(Failure::new(format!("request {id} was decided upon something else than is said")));
        }
        self.exchanged((id, key), before.as_ref(), change)?;
        match &before {
            Some(object) => _ = self.saw(key, object, decided.wall)?,
            None => self.missed(key, version - 1, (decided.wall, frozen))?,
        }
        match (change, &decided.verdict) {
            (Kind::Kept, Verdict::Keep) => {}
            (Kind::Stored, Verdict::Store(_)) => self.stored(key, version, pending.since),
            (Kind::Removed, Verdict::Remove) => {
                self.oracle.acknowledge(key, version);
                self.ledger.touch(key);
            }
            (change, verdict) => {
                return Err(Failure::new(format!("request {id}: {verdict:?} was decided, {change:?} done")));
            }
        }
        Ok(())
    }
}

impl CacheLife {
    /// Reads every key.
    pub(super) fn read_all(&mut self) -> Result<(), Failure> {
        for key in 0..KEYS {
            if self.judge.stage.rack.lock().power.is_off() {
                return Ok(());
            }
            if !self.prepare()? {
                return Ok(());
            }
            self.get(key)?;
        }
        self.drain()
    }

    /// A client reads.
    pub(super) fn get(&mut self, key: usize) -> Result<(), Failure> {
        let (_, name) = name_of(key);
        self.ask(key, Asked::Get, Op::Get { key: name })
    }

    /// A client reads a part of a value.
    pub(super) fn get_part(&mut self, key: usize, part: Part) -> Result<(), Failure> {
        let (_, name) = name_of(key);
        self.ask(key, Asked::Part(part), Op::GetPart { key: name, part })
    }

    /// A client stores.
    pub(super) fn set(
        &mut self,
        key: usize,
        bytes: usize,
        filler: Filler,
        expiry: Expiry,
    ) -> Result<(), Failure> {
        let version = self.judge.oracle.begin(key);
        let value = self.judge.value(key, version, bytes, filler);
        let flags = u32::try_from(version % 3).expect("small");
        let number = u32::try_from(version % (1 << 30)).expect("30 bits");
        let marks = match version % 5 {
            0 => Marks::stale(number, version.is_multiple_of(2)),
            1 => Marks::placeholder(number).won(),
            _ => Marks::default(),
        };
        let object = Object { value: value.into(), flags, marks, expires: self.judge.stage.expires(expiry) };
        self.judge.oracle.define(key, version, Some(object.clone()));
        let (_, name) = name_of(key);
        self.ask(key, Asked::Set(version), Op::Set { key: name, object })
    }

    /// A client removes.
    pub(super) fn remove(&mut self, key: usize) -> Result<(), Failure> {
        let version = self.judge.oracle.begin(key);
        self.judge.oracle.define(key, version, None);
        let (_, name) = name_of(key);
        self.ask(key, Asked::Remove(version), Op::Remove { key: name })
    }

    /// A client clears.
    pub(super) fn clear(&mut self, key: Option<usize>) -> Result<(), Failure> {
        let namespace = key.map(|key| name_of(key).0);
        for other in 0..KEYS {
            if namespace.is_none_or(|namespace| namespace == name_of(other).0) {
                let version = self.judge.oracle.begin(other);
                self.judge.oracle.define(other, version, None);
            }
        }
        self.ask(key.unwrap_or(0), Asked::Clear(namespace), Op::Clear { namespace })
    }

    /// A client reads, decides and writes.
    pub(super) fn update(&mut self, key: usize, change: Change, bytes: usize) -> Result<(), Failure> {
        let version = self.judge.oracle.begin(key);
        let expires = match change {
            Change::Expire(expiry) => self.judge.stage.expires(expiry),
            _ => None,
        };
        let value = self.judge.value(key, version, bytes, Filler::Dots);
        self.decide_on(key, version, move |before| verdict(change, before, (value, version, expires)))
    }

    /// A client's decision, which becomes a version.
    pub(super) fn decide_on(
        &mut self,
        key: usize,
        version: u64,
        verdict: impl FnOnce(Option<&Object>) -> Verdict + Send + 'static,
    ) -> Result<(), Failure> {
        let (id, decisions) = (self.judge.desk.next_id(), self.judge.desk.decisions.clone());
        let decide = move |before: Option<&Object>, wall: WallMillis| {
            let verdict = verdict(before);
            let decided = Decided { before: before.cloned(), wall: wall.0, verdict: verdict.clone() };
            decisions.lock().expect("nobody panics with it").push((id, decided));
            verdict
        };
        let (_, name) = name_of(key);
        self.ask(key, Asked::Update(version), Op::Update { key: name, decide: Box::new(decide) })
    }

    /// Waits until a client may ask for something; false when the power is off.
    pub(super) fn make_room(&mut self) -> Result<bool, Failure> {
        while self.judge.desk.pending.len() >= self.judge.stage.plan.depth {
            if !self.step("a client")? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(super) fn ask(&mut self, key: usize, asked: Asked, op: Op) -> Result<(), Failure> {
        if !self.make_room()? {
            return Ok(());
        }
        self.put(key, asked, op);
        self.turn()
    }

    /// Asks for something, where there is room; other requests may follow in the same moment.
    pub(super) fn put(&mut self, key: usize, asked: Asked, op: Op) {
        assert!(key < KEYS, "key {key} of {KEYS} is asked for");
        self.judge.desk.next += 1;
        let id = self.judge.desk.next;
        let begun: Vec<u64> = (0..KEYS).map(|key| self.judge.oracle.begun(key)).collect();
        self.judge.stage.note(&Told { what: "asks for", id, key, version: begun[key] });
        if matches!(asked, Asked::Set(_) | Asked::Remove(_) | Asked::Update(_)) {
            self.judge.ledger.disturb(key);
        }
        let since = self.judge.ledger.now(self.judge.stage.causes());
        self.judge.unsettle_scans(key, &asked, &op);
        let pending = Pending { key, asked, begun, wall: self.judge.stage.clock.latest, since };
        let before = self.judge.desk.pending.insert(id, pending);
        assert!(before.is_none(), "two requests have the number {id}");
        let request = Request { id: RequestId(id), namespace: name_of(key).0, op };
        let (now, wall) = (self.judge.stage.clock.now, self.judge.stage.clock.tell());
        self.judge.stage.shards().submit(now, wall, request);
    }

    /// A client is about to ask for something; false when the power is off. What is planned comes first.
    pub(super) fn prepare(&mut self) -> Result<bool, Failure> {
        if self.judge.planned.is_empty() {
            return Ok(true);
        }
        let has_room = self.make_room()?;
        self.judge.pass_times();
        Ok(has_room)
    }
}

/// Decision on an object, with the value of the version.
fn verdict(
    change: Change,
    before: Option<&Object>,
    (value, version, expires): (Vec<u8>, u64, Option<WallMillis>),
) -> Verdict {
    match change {
        Change::Keep => Verdict::Keep,
        Change::Remove => Verdict::Remove,
        Change::StoreIf { exists } if before.is_some() == exists => {
            Verdict::Store(Object { value: value.into(), flags: 0, marks: Marks::default(), expires: None })
        }
        Change::StoreIf { .. } => Verdict::Keep,
        Change::Count => {
            let mut value = value;
            value.extend_from_slice(format!("#{}", count_of(before) + 1).as_bytes());
            Verdict::Store(Object { value: value.into(), flags: 0, marks: Marks::default(), expires: None })
        }
        Change::Expire(_) => match before {
            Some(before) => {
                // The version's name at the end keeps it apart from the one before.
                let mut value = before.value[..before.value.len().min(VALUE_MAX - 200)].to_vec();
                value.extend_from_slice(format!("@{version}").as_bytes());
                let (flags, marks) = (before.flags, before.marks);
                Verdict::Store(Object { value: value.into(), flags, marks, expires })
            }
            None => Verdict::Keep,
        },
    }
}

/// Count that a value ends in; zero when it ends in none.
fn count_of(object: Option<&Object>) -> u64 {
    let tail = object.and_then(|object| object.value.rsplit(|byte| *byte == b'#').next());
    tail.and_then(|tail| std::str::from_utf8(tail).ok()?.parse().ok()).unwrap_or(0)
}
