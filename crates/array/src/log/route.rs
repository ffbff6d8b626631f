//! Routing: which process is told what has happened.

use crate::log::flush::{FlushWaiter, Party, RecoveryFlush};
use crate::log::{Effects, Shard};
use zone::device::{Completion, Status};

impl Shard {
    /// A drive has emptied its cache, or failed to: then it may have lost what it acknowledged.
    pub(super) fn on_device_flush(
        &mut self,
        slot: u32,
        drive: usize,
        completion: &Completion,
        fx: &mut Effects,
    ) {
        if completion.status != Status::Success {
            self.fail_member(drive, fx);
        }
        if let Some(party) = self.device_flush.drive_flushed(&mut self.core, slot, fx) {
            self.answer_flush(party, fx);
        }
    }

    /// Repeats flushes that lost a drive, for the others say so now.
    pub(super) fn repeat_device_flushes(&mut self, fx: &mut Effects) {
        for party in Party::ALL {
            if self.device_flush.repeat(&mut self.core, party, fx) {
                self.answer_flush(party, fx);
            }
        }
    }

    /// Tells everyone who waited for a round, and starts the next.
    fn answer_flush(&mut self, party: Party, fx: &mut Effects) {
        let mut is_over = true;
        while is_over {
            let mut waiters = self.device_flush.take_waiters(party);
            for waiter in waiters.drain(..) {
                self.flushed(waiter, fx);
            }
            self.device_flush.told(party, waiters);
            is_over = self.device_flush.start(&mut self.core, party, fx);
        }
    }

    /// What a waiter needs durable is.
    pub(super) fn flushed(&mut self, waiter: FlushWaiter, fx: &mut Effects) {
        match waiter {
            FlushWaiter::Request(slot) => self.clients.flushed(&mut self.core, slot, fx),
            FlushWaiter::Gc => self.collector.gc_flushed(),
            FlushWaiter::Seal(segment) => self.reader.write_footers(&mut self.core, segment, fx),
            FlushWaiter::Fillers { segment, drive } => {
                self.reader.seal_zone(&mut self.core, segment, drive, fx)
            }
            FlushWaiter::Rebuild(lane) => self.member_rebuild.rebuild_answered(lane),
            FlushWaiter::Checkpoint(number) => self.checkpoints.flushed(number),
            FlushWaiter::Summary(due) => self.summaries.flushed(&mut self.core, due),
            FlushWaiter::Recovery => self.rescue.flush = RecoveryFlush::Done,
        }
    }
}
