//! How long a drive is waited for that is away, and how often it was.

use base::hiccups::{Hiccups, Settled};
use base::time::{Instant, Nanos};

/// Time between two looks at a drive that is stalled.
pub(crate) const LOOK_EVERY: Nanos = Nanos(100_000_000);
/// Most time between two polls that counts: in more, nobody looked, for the process was stopped or its machine was.
const BLIND_AFTER: Nanos = Nanos(1_000_000_000);
/// Time between two polls after which answers may have come that nobody took.
const UNPOLLED_AFTER: Nanos = Nanos(5_000_000_000);

/// How long a stalled drive is waited for.
#[derive(Debug)]
pub(crate) struct Wait {
    pub(crate) patience: Nanos,
    /// Age of a command that is not answered, from which on the drive is stalled.
    pub(crate) limit: Option<Nanos>,
    looked_at: Instant,
    /// Patience that is spent.
    spent: Nanos,
    /// The drive, or a command, was cut off: patience runs.
    pub(crate) is_cut_off: bool,
    /// Ages of commands count from here.
    blind_until: Instant,
    hiccups: Hiccups,
}

impl Wait {
    pub(crate) fn new(patience: Nanos) -> Wait {
        let (looked_at, blind_until) = (Instant(0), Instant(0));
        let hiccups = Hiccups::default();
        Wait { patience, limit: None, looked_at, spent: Nanos(0), is_cut_off: false, blind_until, hiccups }
    }

    /// A drive is waited for from now on.
    pub(crate) fn begin(&mut self, now: Instant, is_cut_off: bool) {
        (self.looked_at, self.spent, self.is_cut_off) = (now, Nanos(0), is_cut_off);
        self.hiccups.count += 1;
        self.hiccups.stalled_since = Some(now);
    }

    /// It is back.
    pub(crate) fn settle(&mut self, settled: Settled) {
        self.hiccups.last = Some(settled);
        self.is_cut_off = false;
        self.give_up();
    }

    /// It is waited for no more.
    pub(crate) fn give_up(&mut self) {
        self.hiccups.stalled_since = None;
    }

    /// Its hiccups so far, whether it is waited for now or not.
    pub(crate) fn hiccups(&self, outlives: bool) -> Hiccups {
        Hiccups { patience: if outlives { self.patience } else { Nanos(0) }, ..self.hiccups }
    }

    /// Time at which patience is over, if it runs.
    pub(crate) fn end(&self) -> Option<Instant> {
        self.is_cut_off.then(|| self.looked_at + Nanos(self.patience.0.saturating_sub(self.spent.0)))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_cut_off && self.spent >= self.patience
    }

    /// The owner looked at the drive.
    pub(crate) fn note_look(&mut self, now: Instant) {
        let unseen = now.since(self.looked_at);
        if self.is_cut_off {
            self.spent.0 += unseen.min(BLIND_AFTER).0;
        }
        self.note_blind(now);
        self.looked_at = now;
    }

    fn note_blind(&mut self, now: Instant) {
        if now.since(self.looked_at) >= UNPOLLED_AFTER {
            self.blind_until = now;
        }
    }

    /// True when a command has waited for too long.
    pub(crate) fn is_overdue(&mut self, now: Instant, oldest: Option<Instant>) -> bool {
        self.note_blind(now);
        let since = oldest.map(|oldest| oldest.max(self.blind_until));
        since.zip(self.limit).is_some_and(|(since, limit)| now.since(since) >= limit)
    }
}
