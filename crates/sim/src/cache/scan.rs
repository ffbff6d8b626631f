//! Scans: steps of a client over all keys of a namespace, judged by the guarantee of SCAN.
//!
//! A key that was there from the begin to the end has to be told. It was when the ledger knew it owed at the begin, nobody was about to
//! change it then, and nothing has come since that could cost it but stores of the key itself. What is told must have
//! been there at some time since the step was asked for.

use super::act::{Act, KEYS};
use super::client::{Asked, Pending};
use super::judge::CacheJudge;
use super::ledger::Since;
use super::life::CacheLife;
use super::oracle::name_of;
use crate::tally::Failure;
use ::cache::request::{Chosen, Op, Told, Walk};
use std::collections::BTreeSet;

/// A scan under way.
#[derive(Clone, Debug)]
pub(super) struct Scan {
    at: u64,
    is_asked: bool,
    since: Since,
    /// Keys that have to be told, as far as is known.
    firm: [bool; KEYS],
    seen: [bool; KEYS],
    /// Keys that may be told by the step under way: they may have been there when it was asked for.
    possible: [bool; KEYS],
}

impl Scan {
    /// Keys may be gone that would have to be told.
    pub fn unsettle(&mut self) {
        self.firm = [false; KEYS];
    }
}

impl CacheJudge {
    fn begin_scan(&mut self, place: usize) -> Scan {
        let causes = self.stage.causes();
        let wall = self.stage.clock.latest;
        let is_firm = |key: usize| {
            let begun = self.oracle.begun(key);
            let stays = |(version, object): (u64, &::cache::request::Object)| {
                version == begun && object.expires.is_none() && self.ledger.is_owed(key, version, &causes)
            };
            usize::from(name_of(key).0.0) == place
                && self.oracle.newest(key, begun).is_some_and(stays)
                && !self.is_disturbed(key, wall)
        };
        Scan {
            at: 0,
            is_asked: false,
            since: self.ledger.now(causes),
            firm: std::array::from_fn(is_firm),
            seen: [false; KEYS],
            possible: [false; KEYS],
        }
    }

    /// What is asked for may take keys away that scans would have to tell.
    pub(super) fn unsettle_scans(&mut self, key: usize, asked: &Asked, op: &Op) {
        let stays = match op {
            Op::Set { object, .. } => object.expires.is_none(),
            Op::Get { .. } | Op::GetPart { .. } | Op::Walk(_) => true,
            Op::Remove { .. } | Op::Update { .. } | Op::Clear { .. } | Op::ClearAt { .. } => false,
        };
        if stays {
            return;
        }
        for scan in self.scans.iter_mut().flatten() {
            match asked {
                Asked::Clear(_) | Asked::ClearAt { .. } => scan.unsettle(),
                _ => scan.firm[key] = false,
            }
        }
    }

    /// A step is answered.
    pub(super) fn scanned(
        &mut self,
        pending: &Pending,
        told: &[Told],
        next: Option<u64>,
    ) -> Result<(), Failure> {
        let (namespace, _) = name_of(pending.key);
        let place = usize::from(namespace.0);
        let mut scan = self.scans[place].take().ok_or_else(|| Failure::new("nobody scans"))?;
        assert!(scan.is_asked, "a step of a scan is answered that nobody asked for");
        scan.is_asked = false;
        let keys = || told.iter().map(|told| &told.key);
        if BTreeSet::from_iter(keys()).len() < told.len() {
            return Err(Failure::new("a step of a scan tells a key twice"));
        }
        for told in told {
            let name = &told.key;
            let known = (0..KEYS).find(|key| name_of(*key) == (namespace, name.clone()));
            let key = known.ok_or_else(|| Failure::new("a key is told that was never stored"))?;
            let is_newer = self.oracle.begun(key) > pending.begun[key];
            if !(scan.possible[key] || is_newer || self.oracle.may_exist(key, pending.wall)) {
                return Err(Failure::new(format!("key {key} is told by a scan and was not there")));
            }
            if !self.oracle.was_ever(key, told) {
                return Err(Failure::new(format!(
                    "key {key} is told by a scan with {told:?}, which it never was"
                )));
            }
            scan.seen[key] = true;
        }
        if let Some(next) = next {
            if next <= scan.at {
                return Err(Failure::new(format!("a scan goes from {} to {next}", scan.at)));
            }
            scan.at = next;
            self.scans[place] = Some(scan);
            return Ok(());
        }
        self.end_scan(&scan)
    }

    fn end_scan(&mut self, scan: &Scan) -> Result<(), Failure> {
        let causes = self.stage.causes();
        let wall = self.stage.clock.latest;
        self.stage.tally.scans += 1;
        for key in (0..KEYS).filter(|key| scan.firm[*key]) {
            if !self.ledger.is_calm(key, &scan.since, &causes) || self.is_disturbed(key, wall) {
                continue;
            }
            self.stage.tally.scanned_owed += 1;
            if !scan.seen[key] {
                return Err(Failure::new(format!(
                    "key {key} was there all the time, and a scan did not tell it"
                )));
            }
        }
        Ok(())
    }
}

impl CacheLife {
    /// A client goes on with its scan, or begins one.
    pub(super) fn scan(&mut self, key: usize, count: u64) -> Result<(), Failure> {
        let (namespace, _) = name_of(key);
        let place = usize::from(namespace.0);
        if !self.prepare()? {
            return Ok(());
        }
        let begins = self.judge.scans[place].is_none();
        if begins {
            self.judge.scans[place] = Some(self.judge.begin_scan(place));
        }
        let wall = self.judge.stage.clock.latest;
        let possible = std::array::from_fn(|key| self.judge.oracle.may_exist(key, wall));
        let Some(scan) = self.judge.scans[place].as_mut().filter(|scan| !scan.is_asked) else {
            return Ok(());
        };
        (scan.is_asked, scan.possible) = (true, possible);
        let walk = Walk {
            from: scan.at,
            everywhere: false,
            begins,
            wraps: false,
            idents_max: count,
            stride: 2,
            keys_max: usize::MAX,
            bytes_max: usize::MAX,
            chosen: Chosen::all(),
        };
        self.ask(key, Asked::Scan, Op::Walk(walk))
    }
}

/// A scan of one key after the other, while what it has told is stored anew and its slots move.
pub(super) fn while_slots_move() -> Vec<Act> {
    use super::act::{Expiry, Filler};
    let store = |key| Act::Set { key, bytes: 100, filler: Filler::Dots, expiry: Expiry::Never };
    let mut acts: Vec<Act> = (0..KEYS).map(store).chain([Act::Rest]).collect();
    for round in 0..4 * KEYS {
        acts.push(Act::Scan { key: 0, count: 1 });
        acts.push(Act::Drain);
        acts.push(store(round * 5 % KEYS));
        acts.push(Act::Wait { nanos: 1 << 25, events: 100 });
    }
    acts
}
