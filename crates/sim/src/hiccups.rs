//! Hiccups: drives that are away for a while. Who is patient must not notice, but for the time.

use crate::step::Manner;
use crate::world::World;
use base::time::Nanos;

/// Name of a hiccup in the ledger.
pub(crate) fn name_of(manner: Manner) -> &'static str {
    match manner {
        Manner::Plain => "hiccup",
        Manner::Torn => "hiccup tears",
        Manner::Pulled => "drive pulled and put back",
        Manner::Power => "drive without power",
    }
}

impl World {
    /// A drive is away for a while. For longer than it is waited for only where that is meant: it is a drive that fails then.
    pub(crate) fn hiccup(&mut self, member: usize, ms: u64, manner: Manner) {
        let patience = Nanos(self.service.plan.patience_ms * 1_000_000);
        if self.service.is_dark() || patience.0 == 0 || member >= self.service.plan.members {
            return;
        }
        let (now, span) = (self.service.now, Nanos(ms * 1_000_000));
        let mut guard = self.service.rack.lock();
        let rack = &mut *guard;
        let drive = &mut rack.drives[self.bays.drive_of[member]];
        // A controller that does not answer is reset, and does then.
        if self.service.plan.limit_ms > 0 {
            drive.faults.hangs_until = drive.faults.hangs_until.min(now);
        }
        let is_meant = span >= patience;
        let is_in_time = drive.would_be_missed_for(now, span) < patience;
        if drive.is_dead() || now < drive.faults.hangs_until || !is_meant && !is_in_time {
            return;
        }
        drive.go_away(now, span, manner, &mut rack.trace);
        drop(guard);
        let ledger = &mut self.service.ledger;
        let loses_cache = manner == Manner::Power && self.service.plan.volatile_cache;
        if is_meant || loses_cache {
            self.bays.replaced.remove(&member);
            ledger.end_scrub();
            ledger.blame(member, if is_meant { "drive away for too long" } else { "drive lost its cache" });
        }
        if loses_cache {
            self.service.member_lost_cache();
        }
        let ledger = &mut self.service.ledger;
        // A drive without power may carry commands out in part, too.
        if matches!(manner, Manner::Torn | Manner::Power) {
            self.bays.replaced.remove(&member);
            ledger.end_scrub();
            ledger.blame_refusal(member, name_of(manner));
        } else {
            ledger.count(name_of(manner), 1);
        }
    }

    /// True while a drive is away, or was a moment ago.
    pub(crate) fn is_missed(&self, member: usize) -> bool {
        let rack = self.service.rack.lock();
        rack.drives[self.bays.drive_of[member]].is_missed(self.service.now)
    }
}
