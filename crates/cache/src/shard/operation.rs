//! Operations on keys: one key after the other's, from the request to the answer.

use super::buffer::{Record, weight};
use super::clear::Clear;
use super::lookup::Reading;
use super::{Effects, Shard, locate};
use crate::config::Acknowledge;
use crate::format::MEMBERS_MAX;
use crate::format::journal::HIDES_NOTHING;
use crate::format::record::KEY_BYTES_MAX;
use crate::hash::{FullKey, Ident, KeyHash};
use crate::request::{Change, Decide, Kind, Object, Op, Outcome, Part, Refusal, Request, RequestId};
use crate::value::SHARED_BYTES_MIN;
use base::pieces::PieceSet;
use base::time::Instant;
use std::ops::Range;

/// Task of an operation on a key.
pub enum Task {
    /// A read, of a part if one is said.
    Get(Option<Part>),
    /// A store.
    Set(Object),
    /// A removal.
    Remove,
    /// A decision.
    Update(Decide),
    /// Done: what remains is to answer.
    Done,
}

impl Task {
    /// The bytes that the task asks for, of a value of so many.
    pub fn bytes_of(&self, value_bytes: usize) -> Range<usize> {
        match self {
            Task::Get(Some(part)) => part.of(value_bytes),
            _ => 0..value_bytes,
        }
    }

    /// The object as the task asks for it: whole, or a part of its value.
    pub fn wants(&self, object: Object) -> Object {
        match self {
            Task::Get(Some(part)) => part.cut(object),
            _ => object,
        }
    }
}

/// Stage of an operation.
pub enum Stage {
    /// Waiting for another operation on the key, which comes first.
    Queued,
    /// A page is being read.
    Reading(Reading),
    /// Flash was asked. Certain: pages of all slots were read, so what was not found is not there.
    Looked {
        /// The object, expired or not.
        found: Option<Object>,
        /// False when a slot could not be judged.
        certain: bool,
    },
    /// Entries are on their way.
    Waiting(Outcome),
}

/// An operation.
pub struct Operation {
    /// Request that it answers.
    pub id: RequestId,
    /// Key that it is about.
    pub key: FullKey,
    /// Hash of the key.
    pub hash: KeyHash,
    /// Identity of the key in the index.
    pub ident: Ident,
    /// Task.
    pub task: Task,
    /// Stage.
    pub stage: Stage,
    /// Entries, superblocks and pages that it waits for.
    pub pending: u32,
    /// True when the page of the object that it has stored is one of these.
    pub awaits_page: bool,
    /// The next operation on its key.
    pub next: Option<u32>,
    /// The last operation on its key, as the first of them knows.
    pub last: u32,
}

impl Shard {
    /// Queues a request behind those of its key.
    pub(super) fn accept(&mut self, request: Request) {
        assert!(self.desk.clear.is_none(), "what comes after a clear waits behind it");
        let Request { id, namespace, op } = request;
        let (key, task) = match op {
            Op::Get { key } => (key, Task::Get(None)),
            Op::GetPart { key, part } => (key, Task::Get(Some(part))),
            Op::Set { key, object } => (key, Task::Set(object)),
            Op::Remove { key } => (key, Task::Remove),
            Op::Update { key, decide } => (key, Task::Update(decide)),
            Op::Walk(walk) => return self.walks.accept(&self.core, id, namespace, walk),
            Op::Clear { namespace } => return self.desk.accept_clear(Clear::now(id, namespace)),
            Op::ClearAt { at } => {
                return self.desk.accept_clear(Clear::at(id, namespace, at, self.core.clocks.wall));
            }
        };
        let key = FullKey::new(namespace, &key);
        let (hash, ident) = self.core.hash_of(&key);
        let first = self.desk.first_of(hash, &key);
        let stage = Stage::Queued;
        let (pending, awaits_page, next, last) = (0, false, None, 0);
        let operation = Operation { id, key, hash, ident, task, stage, pending, awaits_page, next, last };
        let number = self.desk.operations.insert(operation);
        let desk = &mut self.desk;
        let Some(first) = first else {
            desk.operations.get_mut(number).last = number;
            desk.firsts.insert(hash.spread(), number);
            return desk.ready.push_back(number);
        };
        let last = std::mem::replace(&mut desk.operations.get_mut(first).last, number);
        desk.operations.get_mut(last).next = Some(number);
    }

    /// Goes on with all operations that can.
    pub(super) fn run_ready(&mut self, now: Instant, effects: &mut Effects) {
        if self.objects.buffer.stored_bytes() < self.core.options.stored_bytes_full()
            || self.core.membership.is_frozen()
        {
            let mut stalled = std::mem::take(&mut self.desk.stalled);
            self.desk.ready.append(&mut stalled);
        }
        while let Some(number) = self.desk.ready.pop_front() {
            let operation = self.desk.operations.get_mut(number);
            match std::mem::replace(&mut operation.stage, Stage::Queued) {
                Stage::Queued => self.begin(number, now, effects),
                Stage::Looked { found, certain } => self.decide(number, found, certain, (now, effects)),
                Stage::Reading(_) | Stage::Waiting(_) => unreachable!("neither is ready"),
            }
        }
    }

    fn refusal(&self, number: u32) -> Option<Refusal> {
        let operation = self.desk.operations.get(number);
        if operation.key.plain().len() > KEY_BYTES_MAX {
            return Some(Refusal::KeyTooLong);
        }
        match &operation.task {
            Task::Set(object) if object.value.len() > self.object_max() => Some(Refusal::ObjectTooLarge),
            Task::Set(_) | Task::Remove | Task::Update(_) if self.core.membership.is_frozen() => {
                Some(Refusal::NoDrive)
            }
            _ => None,
        }
    }

    /// Longest value that is stored.
    pub(super) fn object_max(&self) -> usize {
        // Without any drive a write is refused for that, and not for its size.
        let capacity = self
            .core
            .drives
            .iter()
            .filter(|drive| drive.up)
            .map(|drive| drive.capacity)
            .min()
            .unwrap_or(u32::MAX);
        let half = (capacity as usize / 2).saturating_sub(2) * crate::format::page::ROOM_BYTES;
        let room = usize::try_from(self.core.options.stored_bytes_full()).unwrap_or(usize::MAX);
        let beside_value = weight(KEY_BYTES_MAX + 1, SHARED_BYTES_MIN) - SHARED_BYTES_MIN;
        let room = room.saturating_sub(beside_value);
        self.core.options.object_max.min(half.saturating_sub(KEY_BYTES_MAX + 64)).min(room)
    }

    fn begin(&mut self, number: u32, now: Instant, effects: &mut Effects) {
        if let Some(refusal) = self.refusal(number) {
            return self.desk.answer(&self.core, number, Outcome::Refused(refusal), effects);
        }
        let operation = self.desk.operations.get_mut(number);
        if !matches!(operation.task, Task::Set(_)) {
            return self.look_up(number, effects);
        }
        if self.lacks_room(number) {
            return self.desk.stalled.push_back(number);
        }
        let operation = self.desk.operations.get_mut(number);
        let Task::Set(object) = std::mem::replace(&mut operation.task, Task::Done) else {
            unreachable!("judged above")
        };
        self.write(number, Some(object), Outcome::Stored, (now, effects));
    }

    /// True when an operation may store and the buffers have no room.
    fn lacks_room(&self, number: u32) -> bool {
        let may_store = matches!(self.desk.operations.get(number).task, Task::Set(_) | Task::Update(_));
        let is_full = self.objects.buffer.stored_bytes() >= self.core.options.stored_bytes_full();
        may_store && is_full && !self.core.membership.is_frozen()
    }

    /// The key's object is known, or that there is none.
    fn decide(
        &mut self,
        number: u32,
        found: Option<Object>,
        certain: bool,
        (now, effects): (Instant, &mut Effects),
    ) {
        if self.lacks_room(number) {
            self.desk.operations.get_mut(number).stage = Stage::Looked { found, certain };
            return self.desk.stalled.push_back(number);
        }
        assert!(self.desk.operations.get(number).pending == 0, "who decides waits for nothing");
        let wall = self.core.clocks.wall;
        let is_expired = found.as_ref().is_some_and(|object| object.expires.is_some_and(|at| at <= wall));
        let live = found.filter(|_| !is_expired);
        self.core.counters.expired += u64::from(is_expired);
        let operation = self.desk.operations.get_mut(number);
        match std::mem::replace(&mut operation.task, Task::Done) {
            Task::Get(_) => {
                let outcome = Outcome::Found(live);
                // An answer that says expired must hold when the clock is set back.
                if is_expired && !self.core.membership.is_frozen() {
                    return self.write(number, None, outcome, (now, effects));
                }
                if outcome != Outcome::Found(None) {
                    return self.desk.answer(&self.core, number, outcome, effects);
                }
                let namespace = self.desk.operations.get(number).key.namespace();
                self.core.counters.misses += 1;
                self.core.counters.of_mut(namespace).misses += 1;
                self.miss(number, outcome, effects);
            }
            Task::Remove => {
                let outcome = Outcome::Removed(live.is_some());
                if live.is_none() && !is_expired && certain {
                    // Slots of others only: nothing to hide but what entries on their way already do.
                    return self.wait(number, outcome, effects);
                }
                self.write(number, None, outcome, (now, effects));
            }
            Task::Update(decide) => {
                let change = decide(live.as_ref(), wall);
                match change {
                    Change::Keep if is_expired => {
                        let outcome = Outcome::Updated { before: live, change: Kind::Kept };
                        self.write(number, None, outcome, (now, effects));
                    }
                    Change::Keep => {
                        let has_missed = live.is_none();
                        let outcome = Outcome::Updated { before: live, change: Kind::Kept };
                        if has_missed {
                            return self.miss(number, outcome, effects);
                        }
                        self.desk.answer(&self.core, number, outcome, effects);
                    }
                    Change::Store(object) if object.value.len() > self.object_max() => {
                        self.desk.answer(
                            &self.core,
                            number,
                            Outcome::Refused(Refusal::ObjectTooLarge),
                            effects,
                        );
                    }
                    Change::Store(object) => {
                        let outcome = Outcome::Updated { before: live, change: Kind::Stored };
                        self.write(number, Some(object), outcome, (now, effects));
                    }
                    Change::Remove => {
                        let outcome = Outcome::Updated { before: live, change: Kind::Removed };
                        self.write(number, None, outcome, (now, effects));
                    }
                }
            }
            Task::Set(_) | Task::Done => unreachable!("neither looks anything up"),
        }
    }

    /// Makes a version, or that there is none, the newest of a key: what flash may hold of it is hidden first.
    fn write(
        &mut self,
        number: u32,
        object: Option<Object>,
        outcome: Outcome,
        (now, effects): (Instant, &mut Effects),
    ) {
        if self.core.membership.is_frozen() {
            return self.desk.answer(&self.core, number, Outcome::Refused(Refusal::NoDrive), effects);
        }
        let sequence = self.core.next_sequence();
        let operation = self.desk.operations.get(number);
        let (key, hash, ident) = (operation.key.clone(), operation.hash, operation.ident);
        self.objects.buffer.drop_newest(ident, &key);
        self.wait_for_entries(number);
        let mut hidden: PieceSet =
            self.objects.buffer.flying(ident).map(|page| self.core.locate(page).0).collect();
        // An entry is needed as long as there is a zone that is older: so it says no more than what it hides asks for.
        let mut above = [0; MEMBERS_MAX];
        hidden.iter().for_each(|drive| above[drive] = sequence);
        self.core.index.remove(ident, |page| {
            let (drive, zone, _) = locate(&self.core.drives, page);
            hidden.insert(drive);
            let zone = &mut self.core.drives[drive].zones[zone.index()];
            above[drive] = above[drive].max(zone.last + 1);
            let live = &mut zone.live[usize::from(key.namespace().0)];
            *live = live.saturating_sub(1);
            true
        });
        self.objects.memory.drop_ident(ident);
        for drive in hidden.iter() {
            // What a drive holds that is left out counts nothing; until that is recorded, the write waits for it.
            if self.core.drives[drive].up {
                assert!(above[drive] > HIDES_NOTHING, "an entry hides what is on its drive");
                self.issue_entry(drive, hash, above[drive], number);
            }
        }
        match object {
            Some(mut object) => {
                self.core.options.shares.limit(key.namespace(), self.core.clocks.wall, &mut object);
                self.core.counters.stores += 1;
                self.core.counters.of_mut(key.namespace()).stores += 1;
                self.core.counters.bytes_stored += (key.plain().len() + object.value.len()) as u64;
                let (alive, page, again, held) = (true, None, None, None);
                let stream = self.objects.stream_of(&mut self.core, (&key, ident), &object);
                let record = Record { key, hash, ident, object, alive, page, stream, again, held };
                if self.objects.admit(&mut self.core, now, record)
                    && self.core.options.acknowledge == Acknowledge::Media
                {
                    self.desk.await_page(number);
                }
            }
            None => self.core.counters.removes += 1,
        }
        self.answer_when_due(number, outcome, effects);
    }

    /// Answers that a key is not there. What is hidden from the index only (by an entry on its way, a lost drive or damage) must not be
    /// there again after a crash, for it may have expired meanwhile; nor what lies in a zone that is being reset.
    fn miss(&mut self, number: u32, outcome: Outcome, effects: &mut Effects) {
        if self.core.membership.is_frozen() {
            return self.desk.answer(&self.core, number, outcome, effects);
        }
        self.tell_time(number);
        self.wait(number, outcome, effects);
    }

    /// Tells the time on each drive where something of the key may lie in a zone that is being reset, and may have expired: an entry that hides
    /// nothing is waited for. No mount finds it again then, though the clock was set back (ADR 49).
    fn tell_time(&mut self, number: u32) {
        let Operation { ident, hash, .. } = *self.desk.operations.get(number);
        let (wall, mut drives) = (self.core.clocks.wall, PieceSet::default());
        for page in self.core.index.find(ident) {
            let (drive, zone, _) = self.core.locate(page);
            let own = &self.core.drives[drive];
            let (found, told) = (&own.zones[zone.index()], own.journal.told);
            let is_told =
                told.sequence > found.birth && (told.wall >= wall || found.expiries.are_over(told.wall));
            if own.up && found.is_being_reset() && found.expiries.have_begun(wall) && !is_told {
                drives.insert(drive);
            }
        }
        drives.iter().for_each(|drive| self.issue_entry(drive, hash, HIDES_NOTHING, number));
    }

    /// Sends an entry to the journal of a drive, for which an operation waits unless it is as good as there.
    fn issue_entry(&mut self, drive: usize, hash: KeyHash, sequence: u64, number: u32) {
        let waits = self.entries.issue(&mut self.core, drive, hash, sequence, Some(number));
        self.desk.operations.get_mut(number).pending += u32::from(waits);
    }

    /// Answers when the entries are on the media that hide versions of what matches the key.
    fn wait(&mut self, number: u32, outcome: Outcome, effects: &mut Effects) {
        if self.core.membership.is_frozen() {
            return self.desk.answer(&self.core, number, Outcome::Refused(Refusal::NoDrive), effects);
        }
        self.wait_for_entries(number);
        self.answer_when_due(number, outcome, effects);
    }

    fn answer_when_due(&mut self, number: u32, outcome: Outcome, effects: &mut Effects) {
        let operation = self.desk.operations.get_mut(number);
        if operation.pending == 0 {
            return self.desk.answer(&self.core, number, outcome, effects);
        }
        operation.stage = Stage::Waiting(outcome);
    }

    /// An operation waits for all entries on their way that match its key, and for the record of lost drives.
    fn wait_for_entries(&mut self, number: u32) {
        let operation = self.desk.operations.get_mut(number);
        let ident = operation.ident;
        for (_, waiters) in self.entries.on_their_way.range_mut((ident, 0)..=(ident, u64::MAX)) {
            waiters.push(number);
            operation.pending += 1;
        }
        if self.core.membership.wait(number) {
            operation.pending += 1;
        }
    }

    /// No drive takes writes any more: whoever waits is refused.
    pub(super) fn refuse_all(&mut self, effects: &mut Effects) {
        self.entries.on_their_way.clear();
        self.desk.unflushed.clear();
        self.objects.buffer.drop_all(|_| true);
        let is_waiting = |operation: &Operation| matches!(operation.stage, Stage::Waiting(_));
        let waiting = self.desk.operations.numbered().filter(|(_, operation)| is_waiting(operation));
        let numbers: Vec<u32> = waiting.map(|(number, _)| number).collect();
        for number in numbers {
            let operation = self.desk.operations.get_mut(number);
            if let Stage::Waiting(outcome) = &operation.stage {
                // Reads miss, writes fail.
                let outcome = match outcome {
                    Outcome::Found(_) => outcome.clone(),
                    _ => Outcome::Refused(Refusal::NoDrive),
                };
                operation.pending = 0;
                self.desk.answer(&self.core, number, outcome, effects);
            }
        }
    }
}
