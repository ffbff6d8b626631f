//! Clears that are planned for a time, and what is known of them when it comes.
//!
//! One that was acknowledged, and that no later one may have replaced, is sure: once its time has come, no request that is asked for from
//! then on may find what was stored before. Others may come about, or not.

use super::act::KEYS;
use super::client::{Asked, Pending};
use super::judge::CacheJudge;
use super::life::CacheLife;
use super::oracle::name_of;
use crate::tally::Failure;
use ::cache::request::{Namespace, Op, WallMillis};
use std::collections::BTreeSet;

/// A time for which a clear was planned.
#[derive(Clone, Copy, Debug)]
struct Time {
    at: u64,
    namespace: Namespace,
    /// Request that planned it.
    id: u64,
    is_acknowledged: bool,
}

/// A clear whose time has come.
#[derive(Clone, Debug)]
struct Due {
    time: Time,
    /// Last request before it.
    id: u64,
    /// Versions of keys that it makes; none, when it is not sure.
    versions: Vec<(usize, u64)>,
    /// Shards that have not answered since.
    open: BTreeSet<usize>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Planned {
    times: Vec<Time>,
    due: Vec<Due>,
    /// Request that planned one last, or called one off, by namespace.
    last: [u64; 2],
}

impl Planned {
    /// True when nothing is planned.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// A request for a time is answered: what was planned before it is not any more.
    pub fn acknowledge(&mut self, namespace: Namespace, id: u64) {
        self.times.retain(|time| time.namespace != namespace || time.id >= id);
        self.times.iter_mut().filter(|time| time.id == id).for_each(|time| time.is_acknowledged = true);
    }
}

impl CacheJudge {
    /// Keys of a namespace that are chosen have a version that is none.
    pub(super) fn begin_gone(
        &mut self,
        namespace: Namespace,
        chosen: impl Fn(usize) -> bool,
    ) -> Vec<(usize, u64)> {
        let mut versions = Vec::new();
        for key in (0..KEYS).filter(|key| name_of(*key).0 == namespace && chosen(*key)) {
            let version = self.oracle.begin(key);
            self.oracle.define(key, version, None);
            versions.push((key, version));
        }
        versions
    }

    /// Clears whose time has come: those that are sure are from now on before every request.
    pub(super) fn pass_times(&mut self) {
        if self.planned.is_empty() {
            return;
        }
        self.stage.clock.tell();
        let latest = self.stage.clock.latest;
        let due: Vec<Time> = self.planned.times.extract_if(.., |time| time.at <= latest).collect();
        for time in due {
            self.forgive_namespace(time.namespace);
            self.scans.iter_mut().flatten().for_each(|scan| scan.unsettle());
            let is_last = self.planned.last[usize::from(time.namespace.0)] == time.id;
            let is_sure = time.is_acknowledged && is_last && !self.stage.mounted().is_frozen();
            let id = self.desk.last_id();
            let mut versions = Vec::new();
            if is_sure {
                // What is under way may be done before it or after it.
                let busy: BTreeSet<usize> = self.desk.pending.values().map(|pending| pending.key).collect();
                versions = self.begin_gone(time.namespace, |key| !busy.contains(&key));
            }
            self.planned.due.push(Due { time, id, versions, open: (0..self.stage.plan.shards).collect() });
        }
    }

    /// A request is answered by a shard, or by all: what came due there before it was asked is done.
    pub(super) fn confirm_times(&mut self, id: u64, &Pending { key, asked, .. }: &Pending) {
        // Without drives nothing can be recorded, and a later life may have it back until it knows the time.
        if self.planned.due.is_empty() || self.stage.mounted().is_frozen() {
            return;
        }
        let (namespace, _) = name_of(key);
        let shard = match asked {
            Asked::Get | Asked::Part(_) | Asked::Set(_) | Asked::Remove(_) | Asked::Update(_) => {
                Some(self.stage.shard_of[key])
            }
            // Steps go to any shard.
            Asked::Scan if self.stage.plan.shards > 1 => return,
            Asked::Scan | Asked::Clear(_) | Asked::ClearAt { .. } => None,
        };
        let is_done = |due: &&mut Due| due.id < id && due.time.namespace == namespace;
        let mut done = Vec::new();
        for due in self.planned.due.iter_mut().filter(is_done) {
            let of = |answered: usize| shard.is_none_or(|shard| shard == answered);
            due.open.retain(|open| !of(*open));
            done.extend(due.versions.extract_if(.., |(key, _)| of(self.stage.shard_of[*key])));
        }
        self.planned.due.retain(|due| !due.open.is_empty());
        for (key, version) in done {
            self.stage.tally.clears_confirmed += 1;
            self.oracle.acknowledge(key, version);
        }
    }

    /// The process has ended: what came due, and nobody was told, may come due once more.
    pub(super) fn doubt_times(&mut self) {
        let due = std::mem::take(&mut self.planned.due);
        self.planned.times.extend(due.into_iter().map(|due| Time { is_acknowledged: false, ..due.time }));
    }

    /// The cache is back, with a clock that may be ahead of what clients know.
    pub(super) fn meet_times(&mut self) {
        let (latest, ever) = (self.stage.clock.latest, self.stage.clock.ever);
        for number in 0..self.planned.times.len() {
            let time = &mut self.planned.times[number];
            if time.at > latest && time.at <= ever {
                time.is_acknowledged = false;
                let namespace = time.namespace;
                self.forgive_namespace(namespace);
            }
        }
    }

    /// Nothing of a namespace is owed.
    pub(super) fn forgive_namespace(&mut self, namespace: Namespace) {
        for key in (0..KEYS).filter(|key| name_of(*key).0 == namespace) {
            self.ledger.take_away(key);
        }
    }
}

impl CacheLife {
    /// A client plans a clear of the namespace of a key, or has it at once.
    pub(super) fn clear_at(&mut self, key: usize, after: u64) -> Result<(), Failure> {
        let (namespace, _) = name_of(key);
        self.judge.stage.clock.tell();
        let at = self.judge.stage.clock.wall() + after;
        if at > self.judge.stage.clock.latest && at <= self.judge.stage.clock.ever {
            // Nobody here knows whether it has passed for the cache.
            return Ok(());
        }
        if at <= self.judge.stage.clock.latest {
            self.judge.begin_gone(namespace, |_| true);
        }
        let id = self.judge.desk.next_id();
        self.judge.planned.last[usize::from(namespace.0)] = id;
        if at > self.judge.stage.clock.latest {
            self.judge.planned.times.push(Time { at, namespace, id, is_acknowledged: false });
            self.judge.stage.tally.clears_planned += 1;
        }
        let asked = Asked::ClearAt { now: at <= self.judge.stage.clock.latest };
        self.ask(key, asked, Op::ClearAt { at: WallMillis(at) })
    }
}
