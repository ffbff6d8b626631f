//! Commands that the kernel has no memory or no place for now: each is tried again after a pause, twice as long every time.

use base::time::{Instant, Nanos};

/// First pause, and the longest.
const PAUSES: (Nanos, Nanos) = (Nanos(1_000_000), Nanos(1_000_000_000));
/// Time for which commands are tried again where nobody says anything else.
const PATIENCE: Nanos = Nanos(60_000_000_000);

/// Pauses of a command so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pauses {
    next: Nanos,
    /// Their sum. Time in which nobody looked, for the process was stopped, is none of it.
    spent: Nanos,
}

/// Commands that are tried again later.
#[derive(Debug)]
pub(super) struct NotNow {
    patience: Nanos,
    waiting: Vec<(Instant, u32)>,
}

impl Default for Pauses {
    fn default() -> Pauses {
        Pauses { next: PAUSES.0, spent: Nanos(0) }
    }
}

impl Default for NotNow {
    fn default() -> NotNow {
        NotNow { patience: PATIENCE, waiting: Vec::new() }
    }
}

impl NotNow {
    /// From now on commands are tried again for so long.
    pub(super) fn set_patience(&mut self, patience: Nanos) {
        self.patience = patience;
    }

    /// The command of a slot was refused. False when patience is over.
    pub(super) fn wait(&mut self, now: Instant, slot: u32, pauses: &mut Pauses) -> bool {
        if pauses.spent >= self.patience {
            return false;
        }
        self.waiting.push((now + pauses.next, slot));
        pauses.spent.0 += pauses.next.0;
        pauses.next.0 = (2 * pauses.next.0).min(PAUSES.1.0);
        true
    }

    /// Time at which the next command is tried again.
    pub(super) fn next_event(&self) -> Option<Instant> {
        self.waiting.iter().map(|(due, _)| *due).min()
    }

    /// Slots of the commands whose pause is over.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<u32> {
        self.waiting.extract_if(.., |(due, _)| *due <= now).map(|(_, slot)| slot).collect()
    }

    /// Nobody waits any more.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn pauses_grow_until_patience_is_over() {
        let (mut not_now, mut pauses) = (NotNow::default(), Pauses::default());
        not_now.set_patience(Nanos(10_000 * MS));
        let (mut now, mut waits) = (Instant(5), Vec::new());
        while not_now.wait(now, 7, &mut pauses) {
            let due = not_now.next_event().expect("a command waits");
            assert_eq!(not_now.take_due(Instant(due.0 - 1)), [], "its pause is not over");
            assert_eq!(not_now.take_due(due), [7]);
            waits.push(due.since(now).0 / MS);
            now = due;
        }
        let doubled = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
        assert_eq!(waits[..10], doubled);
        assert!(waits[10..].iter().all(|pause| *pause == 1000));
        assert_eq!(waits.iter().sum::<u64>(), 10_023, "the pause that reaches patience is the last");
    }

    #[test]
    fn without_patience_nothing_is_tried_again() {
        let mut not_now = NotNow::default();
        not_now.set_patience(Nanos(0));
        assert!(!not_now.wait(Instant(0), 0, &mut Pauses::default()));
        assert_eq!(not_now.next_event(), None);
    }
}
