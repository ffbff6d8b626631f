//! Clients that ask for several keys with one command, as MGET, MSET and MSETNX do, for parts of values, as GETRANGE does, and those that
//! replace what nobody changed since they saw it.
//!
//! The parts of a command are asked for in one moment, and each is judged by itself. MSETNX looks at all keys first, while nobody else asks for
//! anything, and stores all of them when none is there: so the front end does it (ADR 42, ADR 58).

use super::act::{Act, Filler, KEYS};
use super::client::Asked;
use super::judge::CacheJudge;
use super::life::CacheLife;
use super::oracle::name_of;
use super::plan::Plan;
use crate::tally::Failure;
use ::cache::request::{Change as Verdict, Kind, Marks, Object, Op, Part};
use base::random::Random;

/// Keys of a command at most.
const KEYS_MAX: usize = 6;

/// Commands of several keys and exchanges, among the acts of one run in four, drawn from a stream of their own.
pub(super) fn add(plan: &Plan, acts: &mut Vec<Act>) {
    let mut random = Random::from_seed(plan.seed ^ 0x0cac_4e6b ^ 1 << 40);
    if !random.chance(1, 4) {
        return;
    }
    let others = std::mem::take(acts);
    let (every, keys) = (2 + random.below(20), [2, 4, 8, KEYS][random.index(4)]);
    for act in others {
        acts.push(act);
        if !random.chance(1, every) {
            continue;
        }
        let (first, count) = (random.index(keys), 2 + random.index(KEYS_MAX - 1));
        let bytes = [20, 100, 700, 3_000][random.index(4)];
        match random.below(11) {
            0 | 1 => acts.push(Act::GetSeveral { first, count }),
            2 => acts.push(Act::SetSeveral { first, count, bytes, only_new: false }),
            3 => acts.push(Act::SetSeveral { first, count, bytes, only_new: true }),
            4 => acts.push(Act::Exchange { key: first, bytes }),
            5..8 => acts.push(Act::GetPart { key: first, part: draw_part(&mut random) }),
            _ => acts.extend([Act::Get(first), Act::Exchange { key: first, bytes }]),
        }
    }
}

/// A part of a value: from its begin or its end on, or of some page in between.
fn draw_part(random: &mut Random) -> Part {
    let place = |random: &mut Random| {
        let page = i64::try_from(random.below(4) * 4_092).expect("small");
        page + i64::try_from(random.below(300)).expect("small") - 150
    };
    let first = if random.chance(1, 3) { 0 } else { place(random) };
    let last = if random.chance(1, 3) { -1 } else { place(random) };
    Part { first, last }
}

/// Keys of a command: of one namespace, each once.
fn keys_from(first: usize, count: usize) -> impl Iterator<Item = usize> {
    assert!(first < KEYS && count > 0, "{count} keys from key {first} of {KEYS} on");
    (0..count.min(KEYS / 2)).map(move |number| (first + 2 * number) % KEYS)
}

impl CacheJudge {
    /// An exchange, if that is what a request is, was done if nothing had changed the object, and else was not.
    pub(super) fn exchanged(
        &mut self,
        (id, key): (u64, usize),
        before: Option<&Object>,
        change: Kind,
    ) -> Result<(), Failure> {
        let Some(seen) = self.desk.exchanges.remove(&id) else { return Ok(()) };
        let is_unchanged = before.is_some_and(|before| {
            (&before.value, before.flags, before.marks) == (&seen.value, seen.flags, seen.marks)
        });
        self.stage.tally.exchanges += u64::from(is_unchanged);
        match (is_unchanged, change) {
            (true, Kind::Stored) | (false, Kind::Kept) => Ok(()),
            (true, _) => Err(Failure::new(format!("key {key}: what nobody changed was not replaced"))),
            (false, _) => Err(Failure::new(format!("key {key}: what came since it was seen was replaced"))),
        }
    }
}

impl CacheLife {
    /// A client reads several keys.
    pub(super) fn get_several(&mut self, first: usize, count: usize) -> Result<(), Failure> {
        if !self.make_room()? {
            return Ok(());
        }
        self.judge.stage.tally.several += 1;
        keys_from(first, count).for_each(|key| self.put(key, Asked::Get, Op::Get { key: name_of(key).1 }));
        self.turn()
    }

    /// A client stores under several keys.
    pub(super) fn set_several(&mut self, keys: &[usize], bytes: usize) -> Result<(), Failure> {
        if !self.make_room()? {
            return Ok(());
        }
        self.judge.stage.tally.several += 1;
        for key in keys {
            let version = self.judge.oracle.begin(*key);
            let value = self.judge.value(*key, version, bytes, Filler::Dots);
            let object = plain(value);
            self.judge.oracle.define(*key, version, Some(object.clone()));
            self.put(*key, Asked::Set(version), Op::Set { key: name_of(*key).1, object });
        }
        self.turn()
    }

    /// A client stores under several keys, or under several of one shard when none of them is there.
    pub(super) fn store_several(
        &mut self,
        (first, count): (usize, usize),
        bytes: usize,
        only_new: bool,
    ) -> Result<(), Failure> {
        if !only_new {
            let keys: Vec<usize> = keys_from(first, count).collect();
            return self.set_several(&keys, bytes);
        }
        let shard = self.judge.stage.shard_of[first];
        let keys: Vec<usize> =
            keys_from(first, count).filter(|key| self.judge.stage.shard_of[*key] == shard).collect();
        if !self.are_missing(&keys)? || !self.prepare()? {
            return Ok(());
        }
        self.set_several(&keys, bytes)
    }

    /// Looks at keys, and lets nobody else ask for anything until all are answered; true when none is there.
    fn are_missing(&mut self, keys: &[usize]) -> Result<bool, Failure> {
        if !self.make_room()? {
            return Ok(false);
        }
        assert!(!keys.is_empty(), "a client looks at no key");
        let mut looks = Vec::new();
        for key in keys {
            looks.push(self.judge.desk.next_id());
            self.put(*key, Asked::Get, Op::Get { key: name_of(*key).1 });
        }
        self.judge.desk.missed.clear();
        self.turn()?;
        while looks.iter().any(|id| self.judge.desk.pending.contains_key(id)) {
            if !self.step("a client of several keys")? {
                return Ok(false);
            }
        }
        Ok(looks.iter().all(|id| self.judge.desk.missed.contains(id)))
    }

    /// A client replaces what it saw last of a key, if that is what is there.
    pub(super) fn exchange_seen(&mut self, key: usize, bytes: usize) -> Result<(), Failure> {
        let Some(seen) = self.judge.desk.seen.get(&key).cloned() else { return Ok(()) };
        let version = self.judge.oracle.begin(key);
        let (value, token) = (self.judge.value(key, version, bytes, Filler::Dots), seen.token());
        self.judge.desk.exchanges.insert(self.judge.desk.next_id(), seen);
        self.decide_on(key, version, move |before| match before {
            Some(before) if before.token() == token => Verdict::Store(plain(value)),
            _ => Verdict::Keep,
        })
    }
}

/// An object without flags and marks, which does not expire.
fn plain(value: Vec<u8>) -> Object {
    Object { value: value.into(), flags: 0, marks: Marks::default(), expires: None }
}
