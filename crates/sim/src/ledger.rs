//! The ledger of faults: what happened to which member, and therefore what the array must stand.
//!
//! A member that a fault may have cost something is blamed. While no more are blamed than the array can
//! lose (of mirrors, not both copies of anything), every request must succeed and every mount too. With more, requests may fail and mounts be
//! refused; what is read must be right all the same.

use base::erasure::{ErasureCode, PieceSet};
use std::collections::{BTreeMap, BTreeSet};

/// Members that are blamed, and counts of what was injected.
#[derive(Clone, Debug)]
pub struct Ledger {
    code: ErasureCode,
    blamed: BTreeSet<usize>,
    /// A fault may have cost a member something, at any time.
    has_ever_blamed: bool,
    /// Blamed members that hold damaged blocks and nothing worse.
    damaged: BTreeSet<usize>,
    /// Blamed members that refused writes and did nothing worse.
    refusing: BTreeSet<usize>,
    /// Blamed members whose windows were gone and that did nothing worse.
    windowless: BTreeSet<usize>,
    /// Members some of whose zones are no longer used.
    lacking_zones: BTreeSet<usize>,
    /// A scrub with repair began when all was at rest, and nothing broke since: no damage may be left.
    scrubbed: bool,
    counts: BTreeMap<&'static str, u64>,
}

impl Ledger {
    /// An array whose stripes have a code.
    #[must_use]
    pub fn new(code: ErasureCode) -> Ledger {
        let (blamed, lacking_zones) = (BTreeSet::new(), BTreeSet::new());
        let (damaged, refusing, windowless) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        Ledger {
            code,
            blamed,
            has_ever_blamed: false,
            damaged,
            refusing,
            windowless,
            lacking_zones,
            scrubbed: false,
            counts: BTreeMap::new(),
        }
    }

    /// A fault happened to a member.
    pub fn blame(&mut self, member: usize, fault: &'static str) {
        assert!(member < self.code.piece_count(), "member {member} of {}", self.code.piece_count());
        self.blamed.insert(member);
        self.has_ever_blamed = true;
        self.damaged.remove(&member);
        self.refusing.remove(&member);
        self.windowless.remove(&member);
        self.count(fault, 1);
    }

    /// What a member's windows held is gone.
    pub fn blame_windows(&mut self, member: usize, fault: &'static str) {
        let is_new = !self.is_blamed(member) || self.windowless.contains(&member);
        self.blame(member, fault);
        if is_new {
            self.windowless.insert(member);
        }
    }

    /// All is at rest: what the others had of windows that were gone was moved, and of such members this is recorded.
    pub fn end_windows_gone(&mut self, is_over: impl Fn(usize) -> bool) {
        if !self.is_tolerable() {
            return;
        }
        for member in self.windowless.clone().into_iter().filter(|member| is_over(*member)) {
            self.windowless.remove(&member);
            self.blamed.remove(&member);
            self.count("members go on with new windows", 1);
        }
    }

    /// A member refuses a write: it may lose the zone by that, or fail.
    pub fn blame_refusal(&mut self, member: usize, fault: &'static str) {
        assert!(member < self.code.piece_count(), "member {member} of {}", self.code.piece_count());
        self.has_ever_blamed = true;
        if self.blamed.insert(member) {
            self.refusing.insert(member);
        }
        self.damaged.remove(&member);
        self.windowless.remove(&member);
        self.count(fault, 1);
    }

    /// All is at rest: of members that refused writes, some lost a zone by that, and all that it held is elsewhere.
    pub fn end_refusals(&mut self, is_over: impl Fn(usize) -> bool) {
        if !self.is_tolerable() {
            return;
        }
        for member in self.refusing.clone().into_iter().filter(|member| is_over(*member)) {
            self.refusing.remove(&member);
            self.blamed.remove(&member);
            self.lacking_zones.insert(member);
            self.count("members go on without a zone", 1);
        }
    }

    /// Blocks of a member are damaged, which a scrub can repair.
    pub fn blame_damage(&mut self, member: usize, fault: &'static str) {
        assert!(member < self.code.piece_count(), "member {member} of {}", self.code.piece_count());
        self.has_ever_blamed = true;
        self.refusing.remove(&member);
        self.windowless.remove(&member);
        if self.blamed.insert(member) {
            self.damaged.insert(member);
        }
        self.count(fault, 1);
    }

    /// A scrub has repaired what there was: a member that alone was to blame, for damage alone, is as good as new.
    pub fn heal(&mut self) {
        assert!(self.damaged.is_subset(&self.blamed), "who holds damaged blocks is to blame");
        if self.blamed.len() == 1 && self.blamed == self.damaged {
            self.blamed.clear();
            self.damaged.clear();
            self.count("scrubs heal a member", 1);
        }
    }

    /// A scrub begins: one that repairs what it finds, with all at rest, leaves no damage behind.
    pub fn begin_scrub(&mut self, repairs_all: bool) {
        self.scrubbed = repairs_all && !self.may_break_later();
    }

    /// Something broke, or the scrub ended early: it says nothing any more.
    pub fn end_scrub(&mut self) {
        self.scrubbed = false;
    }

    /// True when the last scrub leaves no damage behind once it is done.
    #[must_use]
    pub fn is_scrubbed(&self) -> bool {
        self.scrubbed
    }

    /// True when something may break, or a read be wrong, without another step.
    fn may_break_later(&self) -> bool {
        let armed = [
            "misdirected reads",
            "stale reads",
            "misdirected write",
            "write fault",
            "zone offline",
            "zone read-only",
        ];
        armed.iter().any(|fault| self.counts.contains_key(fault))
    }

    /// True when a zone has turned by itself.
    #[must_use]
    pub fn has_turned_zones(&self) -> bool {
        ["zone offline", "zone read-only"].iter().any(|fault| self.counts.contains_key(fault))
    }

    /// A fault costs a member a zone, and nothing else: it may not fail for it.
    pub fn cost_zone(&mut self, member: usize, fault: &'static str) {
        assert!(member < self.code.piece_count(), "member {member} of {}", self.code.piece_count());
        self.has_ever_blamed = true;
        self.lacking_zones.insert(member);
        self.count(fault, 1);
    }

    /// Another server may have cost a member a zone, and nothing else: it breaks nothing.
    pub fn cost_zone_to_rival(&mut self, member: usize, fault: &'static str) {
        assert!(member < self.code.piece_count(), "member {member} of {}", self.code.piece_count());
        self.lacking_zones.insert(member);
        self.count(fault, 1);
    }

    /// True while no fault has cost any member anything.
    #[must_use]
    pub fn is_unblemished(&self) -> bool {
        !self.has_ever_blamed
    }

    /// True when all of a member's zones must be accounted for.
    #[must_use]
    pub fn has_all_zones(&self, member: usize) -> bool {
        !self.is_blamed(member) && !self.lacking_zones.contains(&member)
    }

    /// A member has a new drive that holds everything: unless more were to blame than the others could make
    /// up for.
    pub fn forgive(&mut self, member: usize) {
        if self.is_tolerable() {
            self.blamed.remove(&member);
            self.damaged.remove(&member);
            self.refusing.remove(&member);
            self.windowless.remove(&member);
        }
    }

    /// Something happened that costs nobody anything.
    pub fn count(&mut self, what: &'static str, times: u64) {
        *self.counts.entry(what).or_default() += times;
    }

    /// True when a fault may have cost the member something.
    #[must_use]
    pub fn is_blamed(&self, member: usize) -> bool {
        self.blamed.contains(&member)
    }

    /// True while everything must succeed.
    #[must_use]
    pub fn is_tolerable(&self) -> bool {
        self.is_tolerable_without(&BTreeSet::new())
    }

    /// True when everything would succeed if these members were not there.
    #[must_use]
    pub fn is_tolerable_without(&self, away: &BTreeSet<usize>) -> bool {
        let lost: PieceSet = self.blamed.union(away).copied().collect();
        assert!(lost.count() <= self.code.piece_count(), "members of the array");
        // Members are lost like pieces: those of mirrors do not rotate.
        self.code.can_decode(self.code.pieces().without(lost))
    }

    /// True when the array may run out of space: zones have failed, or a drive with rotten headers went back to when it held
    /// other segments. Nobody knows what its zones are, so they are kept.
    #[must_use]
    pub fn has_lost_space(&self) -> bool {
        let happened = |fault: &&str| self.counts.contains_key(*fault);
        ["zone offline", "zone read-only", "zone shrinks", "write fault"].iter().any(happened)
            || ["blocks rot", "drive goes back"].iter().all(happened)
    }

    /// Returns counts of what was injected.
    #[must_use]
    pub fn counts(&self) -> &BTreeMap<&'static str, u64> {
        &self.counts
    }
}
