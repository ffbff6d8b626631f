//! In which order a drive executes what is in flight, and in which order it says so.
//!
//! NVMe promises no order among commands in flight. A host that waits for a completion before it
//! relies on it never notices; a host that does not is found out by a shuffled drive.

use base::random::Random;
use zone::device::{Command, Completion, Op};

/// Order of the appends in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendOrder {
    /// Everything is executed and completed in the order of submission, zone by zone: a transfer
    /// that continues an earlier one of its zone may be executed together with that.
    Submission,
    /// Appends in flight between two polls change places with each other before they are executed,
    /// and all completions of a poll are delivered in another order. A seed gives one sequence.
    Shuffled {
        /// Seed of both orders.
        seed: u64,
    },
}

/// An [`AppendOrder`] at work.
#[derive(Debug)]
pub(super) enum Order {
    Submission,
    Shuffled { random: Random, append_places: Vec<usize> },
}

impl Order {
    pub(super) fn new(order: AppendOrder) -> Order {
        match order {
            AppendOrder::Submission => Order::Submission,
            AppendOrder::Shuffled { seed } => {
                Order::Shuffled { random: Random::from_seed(seed), append_places: Vec::new() }
            }
        }
    }

    /// Puts the commands of one poll in the order of their execution. Only appends move, and only
    /// to places where appends were.
    pub(super) fn arrange(&mut self, queue: &mut [Option<Command>]) {
        let Order::Shuffled { random, append_places } = self else { return };
        append_places.clear();
        let is_append =
            |command: &Option<Command>| matches!(command, Some(Command { op: Op::Append { .. }, .. }));
        let appends = queue.iter().enumerate().filter(|(_, command)| is_append(command));
        append_places.extend(appends.map(|(place, _)| place));
        for last in (1..append_places.len()).rev() {
            queue.swap(append_places[last], append_places[random.index(last + 1)]);
        }
    }

    /// Puts the completions of one poll in the order of their delivery.
    pub(super) fn deliver(&mut self, completions: &mut [Completion]) {
        let Order::Shuffled { random, .. } = self else { return };
        for last in (1..completions.len()).rev() {
            completions.swap(last, random.index(last + 1));
        }
    }
}
