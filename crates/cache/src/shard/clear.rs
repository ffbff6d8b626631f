//! Clears: everything in a namespace is gone, at once or at a time that was planned.
//!
//! ```text
//!   Clear, ClearAt ──> all before it answered ──> in memory ──> record settled ──> answer, and what came behind it
//!   a planned time ──> the first request, or turn, at or after it
//!   an absence (ADR 56) ──> before all that comes from now on
//! ```
//! What is planned stands in superblocks before its answer, and is done by the first life of the cache that sees the time: no request
//! that comes at or after it is answered before the clear is recorded. A record that does not count any more (`mount/members.rs`)
//! may have it done once more, which forgets and is never wrong.

use super::core::Core;
use super::desk::Desk;
use super::{Effects, Shard};
use crate::request::{Namespace, Outcome, Refusal, Reply, RequestId, WallMillis};

/// Plan for the time at which a namespace is to be cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    /// Planned time stays as it is.
    Stays,
    /// Planned time is dropped.
    Ends,
    /// Planned time becomes this, and nothing is cleared now.
    Is(WallMillis),
}

/// A clear that waits for what came before it, or is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clear {
    /// Whose it is; nobody's, when its time has come, or the cache was without a server.
    id: Option<RequestId>,
    /// All of them, when there is none.
    namespace: Option<Namespace>,
    plan: Plan,
    /// Version of the superblock that records it, once it is under way.
    version: Option<u64>,
}

impl Clear {
    /// Clear of a namespace, or of all. A planned time stays planned.
    pub(super) fn now(id: RequestId, namespace: Option<Namespace>) -> Clear {
        Clear { id: Some(id), namespace, plan: Plan::Stays, version: None }
    }

    /// Clear of a namespace, at a time, in place of the planned one; now, when that time has passed.
    pub(super) fn at(id: RequestId, namespace: Namespace, at: WallMillis, wall: WallMillis) -> Clear {
        let plan = if at <= wall { Plan::Ends } else { Plan::Is(at) };
        Clear { id: Some(id), namespace: Some(namespace), plan, version: None }
    }

    /// True of one of everything that no client asked for: the cache was without a server.
    fn is_nobodys(&self) -> bool {
        self.id.is_none() && self.namespace.is_none()
    }

    fn is_of(&self, namespace: Namespace) -> bool {
        self.namespace.is_none_or(|own| own == namespace)
    }
}

impl Desk {
    /// Takes a clear, which waits for the operations before it.
    pub(super) fn accept_clear(&mut self, clear: Clear) {
        assert!(self.clear.is_none(), "what comes after a clear waits behind it");
        self.clear = Some(clear);
    }

    /// Begins a clear whose time has come, or that nobody asked for, unless another is under way.
    pub(super) fn begin_clear_due(&mut self, core: &mut Core) {
        if self.clear.is_some() {
            return;
        }
        if std::mem::take(&mut self.forgets) {
            core.counters.absences += 1;
            return self.accept_clear(Clear { id: None, namespace: None, plan: Plan::Stays, version: None });
        }
        let planned = (0..).map(Namespace).zip(&core.clears.planned);
        let mut due = planned.filter(|(_, at)| at.is_some_and(|at| at <= core.clocks.wall));
        if let Some((namespace, _)) = due.next() {
            let clear = Clear { id: None, namespace: Some(namespace), plan: Plan::Ends, version: None };
            self.accept_clear(clear);
        }
    }
}

impl Shard {
    /// Everything is to be forgotten before what comes from now on is answered.
    pub fn forget_all(&mut self) {
        self.desk.forgets = true;
    }

    /// True while superblocks do not say yet that everything was forgotten.
    #[must_use]
    pub fn is_forgetting(&self) -> bool {
        self.desk.forgets || self.desk.clear.is_some_and(|clear| clear.is_nobodys())
    }

    /// Begins or ends a clear.
    pub(super) fn go_on_clearing(&mut self, effects: &mut Effects) {
        self.desk.begin_clear_due(&mut self.core);
        let Some(clear) = self.desk.clear else { return };
        if !self.desk.operations.is_empty() {
            return;
        }
        let is_frozen = self.core.membership.is_frozen();
        if is_frozen && clear.id.is_some() {
            return self.end_clear(clear, Outcome::Refused(Refusal::NoDrive), effects);
        }
        match clear.version {
            None => {
                self.clear_in_memory(&clear);
                let version = Some(self.core.membership.change());
                self.desk.clear = Some(Clear { version, ..clear });
                if is_frozen {
                    // Nothing can be recorded any more; what is read in this life keeps to it.
                    self.end_clear(clear, Outcome::Cleared, effects);
                }
            }
            Some(version) if is_frozen || self.core.membership.has_settled(version) => {
                self.end_clear(clear, Outcome::Cleared, effects);
            }
            Some(_) => {}
        }
    }

    fn clear_in_memory(&mut self, clear: &Clear) {
        assert!(clear.version.is_none(), "a clear forgets once");
        let sequence = self.core.next_sequence();
        let clears = &mut self.core.clears;
        let namespaces = (0..).map(Namespace).zip(clears.below.iter_mut().zip(&mut clears.planned));
        for (_, (below, planned)) in namespaces.filter(|(namespace, _)| clear.is_of(*namespace)) {
            match clear.plan {
                Plan::Is(at) => *planned = Some(at),
                Plan::Ends => (*below, *planned) = (sequence, None),
                Plan::Stays => *below = sequence,
            }
        }
        if !matches!(clear.plan, Plan::Is(_)) {
            self.objects.buffer.drop_all(|namespace| clear.is_of(namespace));
            self.objects.memory.drop_all(|namespace| clear.is_of(namespace));
        }
    }

    fn end_clear(&mut self, clear: Clear, outcome: Outcome, effects: &mut Effects) {
        assert!(self.desk.operations.is_empty(), "a clear ends when what came before it is answered");
        if outcome == Outcome::Cleared && !matches!(clear.plan, Plan::Is(_)) {
            for zone in self.core.drives.iter_mut().flat_map(|drive| drive.zones.iter_mut()) {
                for (_, live) in (0..).map(Namespace).zip(&mut zone.live).filter(|(own, _)| clear.is_of(*own))
                {
                    *live = 0;
                }
            }
            if clear.namespace.is_none() {
                self.core.index.clear();
            }
        }
        effects.replies.extend(clear.id.map(|id| Reply { id, outcome }));
        self.desk.clear = None;
        self.desk.begin_clear_due(&mut self.core);
        while self.desk.clear.is_none() {
            let Some(request) = self.desk.behind.pop_front() else { return };
            self.accept(request);
        }
        // Nobody else would wake the next one.
        self.go_on_clearing(effects);
    }
}
