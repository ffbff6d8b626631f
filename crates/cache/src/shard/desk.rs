//! Desk: requests on their way, each behind those that came before it to its key.

use super::Effects;
use super::acknowledging::Unflushed;
use super::clear::Clear;
use super::core::Core;
use super::operation::{Operation, Stage};
use crate::hash::{FullKey, KeyHash};
use crate::request::{Outcome, Reply, Request};
use base::chains::Chains;
use base::slab::Slab;
use std::collections::{BTreeMap, VecDeque};

/// See the module.
#[derive(Default)]
pub(super) struct Desk {
    pub(super) operations: Slab<Operation>,
    /// The first operation of each key, by the hash of the key: it is under way.
    pub(super) firsts: Chains,
    /// Operations that can go on.
    pub(super) ready: VecDeque<u32>,
    /// Stores that wait for room in the buffers.
    pub(super) stalled: VecDeque<u32>,
    /// Stores that wait for a flush of the drive on which their pages are.
    pub(super) unflushed: BTreeMap<usize, Unflushed>,
    /// A clear that waits for what came before it, or is under way.
    pub(super) clear: Option<Clear>,
    /// Everything is to be forgotten, as soon as no other clear is under way.
    pub(super) forgets: bool,
    /// Requests that came after the clear.
    pub(super) behind: VecDeque<Request>,
}

impl Desk {
    /// The operation on a key that is under way.
    pub(super) fn first_of(&self, hash: KeyHash, key: &FullKey) -> Option<u32> {
        let mut of_hash = self.firsts.slots(hash.spread());
        of_hash.find(|number| self.operations.get(*number).key == *key)
    }

    /// Something that an operation waited for has come.
    pub(super) fn advance(&mut self, core: &Core, number: u32, effects: &mut Effects) {
        let operation = self.operations.get_mut(number);
        assert!(operation.pending > 0, "an operation advances once for each thing that it waits for");
        operation.pending -= 1;
        if operation.pending > 0 {
            return;
        }
        match std::mem::replace(&mut operation.stage, Stage::Queued) {
            Stage::Waiting(outcome) => self.answer(core, number, outcome, effects),
            _ => unreachable!("only those that wait have something pending"),
        }
    }

    /// Answers, and lets the next operation on the key begin.
    pub(super) fn answer(&mut self, core: &Core, number: u32, outcome: Outcome, effects: &mut Effects) {
        let operation = self.operations.remove(number);
        assert!(operation.pending == 0 || core.membership.is_frozen(), "an answer waits for entries");
        assert!(!operation.awaits_page || core.membership.is_frozen(), "an answer waits for its page");
        effects.replies.push(Reply { id: operation.id, outcome });
        self.firsts.remove(operation.hash.spread(), number);
        if let Some(next) = operation.next {
            self.operations.get_mut(next).last = operation.last;
            self.firsts.insert(operation.hash.spread(), next);
            self.ready.push_back(next);
        }
    }
}
