//! Absences: a cache that was without a server for too long begins empty, and one that was not does not.
//!
//! The record of its attendance outlives a process. After a power failure it may be as it was, older, torn or gone, and the machine has
//! another start, with a clock of its own. While nothing happens, a server wakes for its record; the world does so at those times.

use super::judge::CacheJudge;
use super::plan::Plan;
use super::scan::Scan;
use super::stage::CACHE;
use super::world::CacheWorld;
use crate::tally::Failure;
use ::cache::CacheVolume;
use ::cache::attendance::{Attendance, Place};
use ::cache::request::Namespace;
use base::random::Random;
use base::time::{Instant, Nanos};
use std::collections::BTreeSet;

/// See the module.
#[derive(Debug)]
pub(super) struct Attended {
    limit: Option<Nanos>,
    /// What the cache knows, in this life.
    own: Option<Attendance>,
    /// The file, and what it was at some time before.
    record: Vec<u8>,
    older: Vec<u8>,
    /// When the record was made last, if the machine has run since.
    recorded: Option<Instant>,
    /// Starts of the machine, and when the last of them was.
    starts: u8,
    started: Instant,
    /// The cache was served until then.
    until: Instant,
    /// Nobody woke since then.
    has_stood_still: bool,
    /// It was absent for longer than it may be, and superblocks do not say so yet; versions that say that keys are gone.
    owes: Option<Vec<(usize, u64)>>,
    /// Time that passes before the next mount.
    pub absent: u64,
    random: Random,
}

impl Attended {
    pub fn of(plan: &Plan) -> Attended {
        Attended {
            limit: plan.forget_after.map(Nanos),
            own: None,
            record: Vec::new(),
            older: Vec::new(),
            recorded: None,
            starts: 0,
            started: Instant(0),
            until: Instant(0),
            has_stood_still: false,
            owes: None,
            absent: 0,
            random: Random::from_seed(plan.seed ^ 0x0cac_4eab ^ 2 << 40),
        }
    }

    /// True while something that has to be forgotten may be on the media.
    pub fn owes(&self) -> bool {
        self.owes.is_some()
    }

    /// Identity of the start of the machine.
    pub fn boot(&self) -> [u8; 16] {
        [self.starts; 16]
    }

    /// The clock of the machine.
    fn uptime(&self, now: Instant) -> Instant {
        Instant(now.since(self.started).0)
    }

    /// The power fails: what becomes of a file that nobody flushed.
    fn lose(&mut self, now: Instant) {
        match self.random.below(4) {
            0 => self.record.clone_from(&self.older),
            1 => self.record.clear(),
            2 => {
                let torn = self.random.index(65).min(self.record.len()).min(self.older.len());
                self.record[..torn].copy_from_slice(&self.older[..torn]);
            }
            _ => {}
        }
        (self.starts, self.started, self.recorded) = (self.starts.wrapping_add(1), now, None);
    }
}

impl CacheJudge {
    /// Time passes in which there is no process.
    pub(super) fn pass_absence(&mut self) {
        self.stage.clock.now = self.stage.clock.now + Nanos(std::mem::take(&mut self.attended.absent));
    }

    /// A life has ended.
    pub(super) fn end_attendance(&mut self, power: bool) {
        self.attended.own = None;
        if power {
            self.attended.lose(self.stage.clock.now);
        }
    }

    /// A life begins.
    pub(super) fn begin_attendance(&mut self) {
        let Some(limit) = self.attended.limit else { return };
        let place = Place { cache: CACHE, boot: self.attended.boot() };
        self.attended.own = Some(Attendance::new(place, limit, &self.attended.record));
        self.attended.has_stood_still = true;
    }

    /// The cache is told that it is served, as often as a server wakes.
    pub(super) fn attend(&mut self) -> Result<(), Failure> {
        let Some(limit) = self.attended.limit else { return Ok(()) };
        let (now, until) = (self.stage.clock.now, self.attended.until);
        let has_stood_still = std::mem::take(&mut self.attended.has_stood_still);
        if has_stood_still && now.since(until) > limit {
            self.owe_absence();
        }
        let interval = self.attended.own.as_ref().expect("a life").interval().0.max(1);
        let wakes = if has_stood_still { 0 } else { now.since(until).0 / interval };
        if wakes > 0 {
            // Of the records of a time in which nothing happens, the last one remains.
            let (last, uptime) = (wakes * interval, self.attended.uptime(until));
            let own = self.attended.own.as_mut().expect("a life");
            let woken = (1..wakes).filter_map(|wake| own.see(uptime + Nanos(wake * interval)));
            if let Some(absence) = woken.last() {
                return Err(Failure::new(format!("a server that wakes in time forgets: {absence}")));
            }
            self.see_cache(until + Nanos(last))?;
        }
        self.see_cache(now)?;
        self.attended.until = now;
        Ok(())
    }

    fn see_cache(&mut self, at: Instant) -> Result<(), Failure> {
        let uptime = self.attended.uptime(at);
        let (limit, own) = (self.attended.limit.expect("asked"), self.attended.own.as_mut().expect("a life"));
        if let Some(absence) = own.see(uptime) {
            let is_proven = |recorded: Instant| at.since(recorded) <= limit;
            if self.attended.recorded.is_some_and(is_proven) {
                return Err(Failure::new(format!("everything is forgotten without a cause: {absence}")));
            }
            self.stage.shards().all_mut().iter_mut().for_each(CacheVolume::forget_all);
            [0, 1].into_iter().for_each(|namespace| self.forgive_namespace(Namespace(namespace)));
            self.scans.iter_mut().flatten().for_each(Scan::unsettle);
        }
        if !self.stage.mounted().all().iter().all(CacheVolume::has_forgotten) {
            return Ok(());
        }
        for (key, version) in self.attended.owes.take().into_iter().flatten() {
            self.oracle.acknowledge(key, version);
        }
        let own = self.attended.own.as_mut().expect("a life");
        if let Some(record) = own.record(false) {
            self.attended.older = std::mem::replace(&mut self.attended.record, record.to_vec());
            self.attended.recorded = Some(at);
        }
        Ok(())
    }

    /// What clients stored is gone: no request that is asked for from now on may find it.
    fn owe_absence(&mut self) {
        self.stage.tally.absences += 1;
        let busy: BTreeSet<usize> = self.desk.pending.values().map(|pending| pending.key).collect();
        let gone = [0, 1].map(|namespace| self.begin_gone(Namespace(namespace), |key| !busy.contains(&key)));
        let gone = gone.concat();
        if self.desk.pending.is_empty() {
            gone.iter().for_each(|(key, version)| self.oracle.acknowledge(*key, *version));
        }
        self.attended.owes = Some(gone);
    }
}

impl CacheWorld {
    /// The process stands still, with requests under way or without.
    pub(super) fn freeze(&mut self, nanos: u64) -> Result<(), Failure> {
        assert!(nanos > 0, "a process that stands still for no time goes on");
        if self.life.judge.attended.random.chance(1, 2) {
            self.life.drain()?;
        }
        self.life.judge.attended.has_stood_still = true;
        self.life.judge.stage.clock.now = self.life.judge.stage.clock.now + Nanos(nanos);
        Ok(())
    }
}
