//! What clients may find, and what may be missing: kept by what was done, apart from what the cache believes.

use super::act::KEYS;
use super::attended::Attended;
use super::client::{Asked, Desk, Pending};
use super::ledger::Ledger;
use super::memory::Memory;
use super::oracle::Oracle;
use super::planned::Planned;
use super::scan::Scan;
use super::stage::{CacheStage, SECRET};

/// See the module. It looks at the stage, and is told of requests and answers.
pub(super) struct CacheJudge {
    pub(super) stage: CacheStage,
    pub(super) oracle: Oracle,
    pub(super) ledger: Ledger,
    pub(super) desk: Desk,
    pub(super) scans: [Option<Scan>; 2],
    pub(super) planned: Planned,
    pub(super) attended: Attended,
    pub(super) memory: Memory,
}

impl CacheJudge {
    /// What is known of requests, keys and drives is of one piece.
    pub(super) fn check(&self) {
        self.stage.check();
        let last = self.desk.last_id();
        for (id, Pending { key, begun, .. }) in &self.desk.pending {
            assert!(*id > 0 && *id <= last, "request {id} of {last} is under way");
            assert!(*key < KEYS, "request {id} is about key {key} of {KEYS}");
            let are_known = begun.iter().zip(0..).all(|(begun, key)| *begun <= self.oracle.begun(key));
            assert!(are_known, "request {id} knows of versions to come: {begun:?}");
        }
        assert!(self.desk.seen.keys().all(|key| *key < KEYS), "a key was seen that there is none");
        let is_dark = self.stage.served.is_none();
        assert!(!is_dark || self.desk.pending.is_empty(), "requests are under way, and nobody serves");
        assert!(!is_dark || self.scans.iter().all(Option::is_none), "a scan outlives its process");
        self.oracle.check();
    }

    /// Judge of a new cache, which holds nothing.
    pub(super) fn new(stage: CacheStage) -> CacheJudge {
        CacheJudge {
            oracle: Oracle::new(),
            ledger: Ledger::new(SECRET, stage.shard_of.clone()),
            desk: Desk::default(),
            scans: [None, None],
            planned: Planned::default(),
            attended: Attended::of(&stage.plan),
            memory: Memory::of(&stage.plan, &stage.rack),
            stage,
        }
    }

    /// True when a request under way may change a key that the index cannot tell from this one: a read does, of what has
    /// expired, by any time that the cache may know from the media.
    pub(super) fn is_disturbed(&self, key: usize, wall: u64) -> bool {
        let wall = wall.max(self.stage.clock.ever);
        let changes = |pending: &Pending| match pending.asked {
            Asked::Scan => false,
            Asked::Get | Asked::Part(_) => self.oracle.may_have_expired(pending.key, u64::MAX, wall),
            Asked::Set(_) | Asked::Remove(_) | Asked::Update(_) => true,
            Asked::Clear(_) | Asked::ClearAt { .. } => true,
        };
        let others = self.desk.pending.values().filter(|pending| pending.key != key);
        others.filter(|pending| changes(pending)).any(|pending| self.ledger.are_mates(pending.key, key))
    }
}
