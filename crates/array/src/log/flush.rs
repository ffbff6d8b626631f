//! Flush and FUA: what clients were told is written also survives a power failure.
//!
//! A flush first waits until every write and trim that arrived before it is durable on the drives,
//! then empties the drives' volatile caches. Device flushes are shared: requests that arrive while
//! one is under way wait together for the next.

use crate::log::segment::SegmentSlot;
use crate::log::summary::SummaryDue;
use crate::log::write::Work;
use crate::log::{Effects, Shard, Waiter};
use base::mutant::{self, Mutant};
use base::time::Instant;
use base::units::ZoneIndex;
use zone::device::{Completion, Op, Status};

/// Who waits for a device flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FlushWaiter {
    Request(u32),
    Gc,
    Seal(SegmentSlot),
    Recovery,
    Rebuild(usize),
    Checkpoint(u32),
    Summary(SummaryDue),
}

/// What clients are shown after a recovery must survive the next power failure too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryFlush {
    /// Waits until everything is where it belongs.
    Due,
    /// Under way.
    Flushing,
    /// What recovery wrote and moved is durable.
    Done,
}

/// The device flush under way and those who wait for the next.
#[derive(Debug, Default)]
pub struct DeviceFlush {
    drives_pending: u32,
    /// Generation of the newest record of members that was durable on the drives when it began; zero when one
    /// was being written.
    covers: u64,
    current: Vec<FlushWaiter>,
    next: Vec<FlushWaiter>,
}

impl Shard {
    /// A flush is at the head of the queue: everything before it is under way.
    pub(super) fn admit_flush(&mut self, slot: u32, fx: &mut Effects) -> bool {
        self.seal_clients(fx);
        let writes_before = self.writes_outstanding * u32::from(!mutant::is(Mutant::FlushIgnoresWrites));
        self.requests.get_mut(slot).work = Work::Flush { writes_before };
        if writes_before == 0 {
            self.flush_devices_for(slot, fx);
        } else {
            self.flushes_waiting.push(slot);
        }
        true
    }

    /// A write or trim that arrived as number `arrival` is durable.
    pub(super) fn flushes_notice(&mut self, arrival: u64, fx: &mut Effects) {
        let mut index = 0;
        while index < self.flushes_waiting.len() {
            let slot = self.flushes_waiting[index];
            let request = self.requests.get_mut(slot);
            let Work::Flush { writes_before } = &mut request.work else { unreachable!("a flush") };
            if arrival < request.arrival {
                *writes_before -= 1;
            }
            if *writes_before == 0 {
                self.flushes_waiting.swap_remove(index);
                self.flush_devices_for(slot, fx);
            } else {
                index += 1;
            }
        }
    }

    /// Answers a request after a device flush.
    pub(super) fn flush_devices_for(&mut self, slot: u32, fx: &mut Effects) {
        if mutant::is(Mutant::FlushNotSent) {
            return self.answer(slot, fx);
        }
        if mutant::is(Mutant::FlushJoinsAnother) && self.device_flush.drives_pending > 0 {
            return self.device_flush.current.push(FlushWaiter::Request(slot));
        }
        self.device_flush.next.push(FlushWaiter::Request(slot));
        self.start_device_flush(fx);
    }

    /// Tells the collector after a device flush.
    pub(super) fn flush_devices_for_gc(&mut self, fx: &mut Effects) {
        if mutant::is(Mutant::ErasedWithoutFlush) {
            return self.gc_flushed();
        }
        self.device_flush.next.push(FlushWaiter::Gc);
        self.start_device_flush(fx);
    }

    /// Flushes what recovery wrote, once nothing is left to be moved. Caches that are not volatile need no command, and
    /// nothing else may happen at which a checkpoint could begin that had to wait for this.
    pub(super) fn flush_recovery(&mut self, now: Instant, fx: &mut Effects) {
        if self.recovery_flush == RecoveryFlush::Due && !self.has_blocks_to_rescue() {
            if mutant::is(Mutant::RecoveryNotFlushed) {
                self.recovery_flush = RecoveryFlush::Done;
                return;
            }
            self.recovery_flush = RecoveryFlush::Flushing;
            self.device_flush.next.push(FlushWaiter::Recovery);
            self.start_device_flush(fx);
            if self.recovery_flush == RecoveryFlush::Done {
                self.advance_checkpoint(now, fx);
            }
        }
    }

    /// Seals a segment after a device flush: what a full zone holds is durable, whatever becomes of caches.
    pub(super) fn flush_devices_to_seal(&mut self, segment: SegmentSlot, fx: &mut Effects) {
        self.device_flush.next.push(FlushWaiter::Seal(segment));
        self.start_device_flush(fx);
    }

    /// Makes durable what a rebuilt zone holds and whatever its table takes for durable, or the record that a member
    /// is whole again.
    pub(super) fn flush_devices_for_rebuild(&mut self, lane: usize, fx: &mut Effects) {
        self.device_flush.next.push(FlushWaiter::Rebuild(lane));
        self.start_device_flush(fx);
    }

    /// Makes durable what a checkpoint says and what it says it of: a volatile cache may lose the newer copy of a
    /// block that the image names, and then nobody knows of the one before.
    pub(super) fn flush_devices_for_checkpoint(&mut self, number: u32, fx: &mut Effects) {
        if mutant::is(Mutant::CheckpointNotFlushed) {
            return self.checkpoints.flushed(number);
        }
        self.device_flush.next.push(FlushWaiter::Checkpoint(number));
        self.start_device_flush(fx);
    }

    /// Makes durable what a summary is about to say: a volatile cache may lose a chunk and keep the summary.
    pub(super) fn flush_devices_for_summary(&mut self, due: SummaryDue, fx: &mut Effects) {
        self.device_flush.next.push(FlushWaiter::Summary(due));
        self.start_device_flush(fx);
    }

    fn start_device_flush(&mut self, fx: &mut Effects) {
        let busy = self.device_flush.drives_pending > 0 || !self.device_flush.current.is_empty();
        if busy || self.device_flush.next.is_empty() {
            return;
        }
        std::mem::swap(&mut self.device_flush.current, &mut self.device_flush.next);
        self.flush_all_devices(fx);
    }

    fn flush_all_devices(&mut self, fx: &mut Effects) {
        let settled = u64::from(!self.membership.is_changing());
        self.device_flush.covers = self.membership.record().generation * settled;
        if self.config.geometry.volatile_cache {
            for drive in 0..self.config.members {
                if self.membership.is_present(drive) {
                    let part = u32::try_from(drive).expect("at most 32 members");
                    fx.command(drive, ZoneIndex(0), Waiter::Flush { slot: 0, part }, Op::Flush);
                    self.device_flush.drives_pending += 1;
                }
            }
        }
        if self.device_flush.drives_pending == 0 {
            self.device_flush_done(fx);
        }
    }

    /// A drive has emptied its cache, or failed to: then it may have lost what it acknowledged.
    pub(super) fn on_device_flush(&mut self, drive: usize, completion: &Completion, fx: &mut Effects) {
        if completion.status != Status::Success {
            self.fail_member(drive, fx);
        }
        self.device_flush.drives_pending -= 1;
        if self.device_flush.drives_pending == 0 {
            self.device_flush_done(fx);
        }
    }

    /// The flush that lost a drive is repeated on the others once their superblocks say so: those must be
    /// durable too.
    pub(super) fn repeat_device_flush(&mut self, fx: &mut Effects) {
        if mutant::is(Mutant::FlushNotRepeated) {
            return self.answer_flush(fx);
        }
        self.flush_all_devices(fx);
    }

    fn device_flush_done(&mut self, fx: &mut Effects) {
        if self.membership.is_changing() {
            self.membership.flush_waiting = true;
            return;
        }
        // The record of a drive that was lost meanwhile may have come to the others after they were flushed.
        if self.config.geometry.volatile_cache
            && self.device_flush.covers != self.membership.record().generation
        {
            return self.repeat_device_flush(fx);
        }
        self.membership.settle(self.device_flush.covers);
        self.answer_flush(fx);
    }

    /// Answers everyone who waited for the device flush and starts the next.
    fn answer_flush(&mut self, fx: &mut Effects) {
        let mut waiters = std::mem::take(&mut self.device_flush.current);
        for waiter in waiters.drain(..) {
            match waiter {
                FlushWaiter::Request(slot) => {
                    if self.membership.is_broken() {
                        self.requests.get_mut(slot).outcome = crate::request::Outcome::IoError;
                    }
                    self.answer(slot, fx);
                }
                FlushWaiter::Gc => self.gc_flushed(),
                FlushWaiter::Seal(segment) => self.write_footers(segment, fx),
                FlushWaiter::Rebuild(lane) => self.rebuild_flushed(lane),
                FlushWaiter::Checkpoint(number) => self.checkpoints.flushed(number),
                FlushWaiter::Summary(due) => self.summary_flushed(due),
                FlushWaiter::Recovery => self.recovery_flush = RecoveryFlush::Done,
            }
        }
        self.device_flush.current = waiters;
        self.start_device_flush(fx);
    }
}
