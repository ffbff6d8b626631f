//! Leases of a shard: the rights to write that it has, or asked for, and who uses them.
//!
//! ```text
//!   asked ──granted──> held ──unused for a while, or recalled──> given back
//!     └──────────────recalled────────────────────────────────────────^
//! ```

use super::messages::{Lease, Ticket, ToControl};
use base::time::{Instant, Nanos};
use std::collections::BTreeMap;

/// Time without writes after which the dirty mark is given back, as md's `safe_mode_delay`.
const MARK_UNUSED: Nanos = Nanos::from_micros(200_000);
/// Time without writes after which a region is given back: a tick of md's bitmap.
const REGION_UNUSED: Nanos = Nanos::from_micros(5_000_000);

#[derive(Clone, Copy, Debug)]
struct Entry {
    ticket: Ticket,
    is_granted: bool,
    /// Rounds that use it.
    users: u32,
    /// Time at which the last user was through.
    since: Instant,
}

impl Entry {
    fn due(&self, lease: Lease) -> Option<Instant> {
        let unused = if lease == Lease::Mark { MARK_UNUSED } else { REGION_UNUSED };
        (self.users == 0 && self.is_granted).then(|| self.since + unused)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Leases {
    entries: BTreeMap<Lease, Entry>,
    tickets: u64,
    /// Time at which the next one may have to be given back.
    due: Option<Instant>,
}

impl Leases {
    /// True when nothing is held or asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// A round is going to write under a lease, until [`Leases::release`].
    pub fn ask(&mut self, lease: Lease, messages: &mut Vec<ToControl>) {
        let entry = self.entries.entry(lease).or_insert_with(|| {
            self.tickets += 1;
            let ticket = Ticket(self.tickets);
            messages.push(ToControl::Ask(lease, ticket));
            Entry { ticket, is_granted: false, users: 0, since: Instant(0) }
        });
        entry.users += 1;
    }

    /// The control shard lends what was asked for; false when that was given up meanwhile.
    pub fn grant(&mut self, lease: Lease, ticket: Ticket) -> bool {
        let entry = self.entries.get_mut(&lease).filter(|entry| entry.ticket == ticket);
        entry.is_some_and(|entry| !std::mem::replace(&mut entry.is_granted, true))
    }

    /// True when a lease is held.
    #[inline]
    #[must_use]
    pub fn is_held(&self, lease: Lease) -> bool {
        self.entries.get(&lease).is_some_and(|entry| entry.is_granted)
    }

    /// A user of a lease is through.
    ///
    /// # Panics
    /// When it has none.
    pub fn release(&mut self, lease: Lease, now: Instant) {
        let entry = self.entries.get_mut(&lease).expect("a lease that was asked for");
        assert!(entry.users > 0, "{lease:?} has no user");
        entry.users -= 1;
        entry.since = now;
        let due = entry.due(lease);
        self.due = [self.due, due].into_iter().flatten().min();
    }

    /// Gives back what nobody uses: all of it, or what was not used for a while. True when there was something.
    pub fn give_back(&mut self, now: Instant, is_all: bool, messages: &mut Vec<ToControl>) -> bool {
        if !is_all && self.due.is_none_or(|due| now < due) {
            return false;
        }
        let before = messages.len();
        self.entries.retain(|lease, entry| {
            let is_due = entry.due(*lease).is_some_and(|due| now >= due);
            let goes = entry.users == 0 && (is_all || is_due);
            if goes {
                messages.push(ToControl::GiveBack(*lease, entry.ticket));
            }
            !goes
        });
        self.due = self.entries.iter().filter_map(|(lease, entry)| entry.due(*lease)).min();
        messages.len() > before
    }

    /// Time at which something may have to be given back.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGION: Lease = Lease::Region(7);

    #[test]
    fn a_lease_is_asked_for_once_and_given_back_when_unused() {
        let (mut leases, mut messages) = (Leases::default(), Vec::new());
        leases.ask(REGION, &mut messages);
        leases.ask(REGION, &mut messages);
        assert!(matches!(messages[..], [ToControl::Ask(REGION, Ticket(1))]) && !leases.is_held(REGION));
        assert!(leases.grant(REGION, Ticket(1)) && leases.is_held(REGION));
        leases.release(REGION, Instant(1));
        assert!(leases.deadline().is_none() && !leases.give_back(Instant(1 << 40), false, &mut messages));
        leases.release(REGION, Instant(2));
        let due = leases.deadline().unwrap();
        assert_eq!(due, Instant(2) + REGION_UNUSED);
        assert!(!leases.give_back(Instant(due.0 - 1), false, &mut messages));
        assert!(leases.give_back(due, false, &mut messages) && leases.is_empty());
        assert!(matches!(messages[1..], [ToControl::GiveBack(REGION, Ticket(1))]));
    }

    #[test]
    fn what_is_granted_after_it_was_given_up_is_no_lease() {
        let (mut leases, mut messages) = (Leases::default(), Vec::new());
        leases.ask(Lease::Mark, &mut messages);
        leases.release(Lease::Mark, Instant(5));
        assert!(!leases.give_back(Instant(1 << 40), false, &mut messages), "it is still on its way");
        assert!(leases.give_back(Instant(5), true, &mut messages));
        leases.ask(Lease::Mark, &mut messages);
        assert!(!leases.grant(Lease::Mark, Ticket(1)) && !leases.is_held(Lease::Mark));
        assert!(leases.grant(Lease::Mark, Ticket(2)) && leases.is_held(Lease::Mark));
    }
}
