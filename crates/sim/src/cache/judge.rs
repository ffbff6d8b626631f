//! What clients may find, and what may be missing: kept by what was done, apart from what the cache believes.

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
