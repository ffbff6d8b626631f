//! Answers in company: those of one client leave together.
//!
//! A client that sends many commands at once is answered by several loops: by its own at once, and a moment later by others. An answer that left
//! alone would cost as much as all of them. So answers wait for those behind them, until a turn of the other loops has seen what they were
//! asked by then: what they have in memory is there. For a drive, or for a lock, nothing waits.

use crate::slab::Key;

/// What a connection's answers wait for.
#[derive(Debug, Default)]
pub(super) struct Company {
    /// The last turn in which something was asked for its client.
    asked_in: u64,
    /// Its answers wait until what was asked in this turn is seen.
    waits_for: Option<u64>,
}

impl Company {
    /// Something is asked for the client in a turn.
    pub(super) fn note_asked(&mut self, turn: u64) {
        self.asked_in = turn;
    }

    /// True while answers are to wait. What is asked after they began to makes them wait no longer.
    pub(super) fn waits(&mut self, has_more: bool, is_seen: impl Fn(u64) -> bool) -> bool {
        let waits_for = self.waits_for.unwrap_or(self.asked_in);
        let waits = has_more && !is_seen(waits_for);
        self.waits_for = waits.then_some(waits_for);
        waits
    }
}

/// Connections with something to send.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    dirty: Vec<Key>,
    /// Those whose answers wait for others.
    held: Vec<Key>,
}

impl Outgoing {
    /// One more has something to send.
    pub(super) fn push(&mut self, key: Key) {
        self.dirty.push(key);
    }

    /// The answers of one wait: it is looked at again in the next turn.
    pub(super) fn hold(&mut self, key: Key) {
        self.held.push(key);
    }

    /// True when nobody has something to send at once.
    pub(super) fn is_empty(&self) -> bool {
        self.dirty.is_empty()
    }

    /// Takes all, also those whose answers waited.
    pub(super) fn take(&mut self) -> Vec<Key> {
        let mut all = std::mem::take(&mut self.dirty);
        all.append(&mut self.held);
        all
    }

    /// Gives the memory of a list back.
    pub(super) fn give_back(&mut self, emptied: Vec<Key>) {
        assert!(emptied.is_empty(), "all of a list was looked at");
        if self.dirty.is_empty() {
            self.dirty = emptied;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_wait_for_one_turn_of_others_and_no_longer() {
        let mut company = Company::default();
        company.note_asked(5);
        assert!(company.waits(true, |turn| turn < 5));
        // The client asks on and on, and the others see each of it a turn later.
        for seen in 5..9 {
            company.note_asked(seen + 1);
            assert!(!company.waits(true, |turn| turn <= seen), "what was asked in turn {seen} is seen");
            assert!(company.waits(true, |turn| turn <= seen), "then it waits for what came after");
        }
        assert!(!company.waits(false, |_| false), "there is nothing to wait for");
    }
}
