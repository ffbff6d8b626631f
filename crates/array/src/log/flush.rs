//! Flush and FUA: what clients were told is written also survives a power failure.
//!
//! A flush first waits until every write and trim that arrived before it is durable on the drives,
//! then empties the drives' volatile caches. Device flushes are shared: requests that arrive while
//! one is under way wait together for the next.
//!
//! ```text
//!  clients   ──flush──┐──flush──┐                 a round of theirs never waits for one of the engine's
//!  engine    ─────────flush of all───────┐        seals, collection, checkpoints, rebuilds
//! ```
//! A drive that is being rebuilt is full of what the rebuild wrote, and counts as lost until all of it is there. What
//! clients were told is safe without it, so their rounds leave it out; the flush that comes before it counts covers what
//! they left behind.

use crate::log::segment::SegmentSlot;
use crate::log::summary::SummaryDue;
use crate::log::write::Work;
use crate::log::{Effects, Shard, Waiter};
use base::time::Instant;
use base::units::ZoneIndex;
use zone::device::{Completion, Op, Status};

/// Blocks of fillers for each drive that may be written from one flush to the next: a quarter of a MiB is a millisecond of a
/// disk, no more than the flush takes anyway.
const FILLERS_UNFLUSHED_MAX: usize = 64;

/// Waiter of a device flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FlushWaiter {
    Request(u32),
    Gc,
    Seal(SegmentSlot),
    Fillers { segment: SegmentSlot, drive: usize },
    Recovery,
    Rebuild(usize),
    Checkpoint(u32),
    Summary(SummaryDue),
}

/// State of the flush after a recovery: what clients are shown must survive the next power failure too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryFlush {
    /// Waits until everything is where it belongs.
    Due,
    /// Under way.
    Flushing,
    /// The blocks that recovery wrote and moved are durable.
    Done,
}

/// For whom drives are flushed: each party has one round under way at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Party {
    /// Flushes and FUA of clients.
    Clients,
    /// Whatever the engine needs durable before it goes on.
    Engine,
}

impl Party {
    const ALL: [Party; 2] = [Party::Clients, Party::Engine];

    fn index(self) -> usize {
        usize::from(self == Party::Engine)
    }
}

/// A flush of the drives for one party, and those who wait for its next.
#[derive(Debug, Default)]
struct Round {
    drives_pending: u32,
    /// Generation of the newest record of members that was durable on the drives when it began; zero when one
    /// was being written.
    covers: u64,
    /// A member was left out.
    is_partial: bool,
    /// Set when the round is over but for a record that tells of a member's failure.
    awaits_record: bool,
    current: Vec<FlushWaiter>,
    next: Vec<FlushWaiter>,
}

/// The device flushes under way.
#[derive(Debug, Default)]
pub struct DeviceFlush {
    rounds: [Round; 2],
    /// Generation of the newest record of members that has left the cache of every drive.
    generation_durable: u64,
    /// Blocks of fillers written since the engine's last round began.
    fillers_unflushed: usize,
}

impl DeviceFlush {
    fn round(&mut self, party: Party) -> &mut Round {
        &mut self.rounds[party.index()]
    }
}

impl Shard {
    /// A flush is at the head of the queue: everything before it is under way.
    pub(super) fn admit_flush(&mut self, slot: u32, fx: &mut Effects) -> bool {
        self.seal_clients(fx);
        let writes_before = self.clients.writes_outstanding;
        self.clients.requests.get_mut(slot).work = Work::Flush { writes_before };
        if writes_before == 0 {
            self.flush_devices_for(slot, fx);
        } else {
            self.clients.flushes_waiting.push(slot);
        }
        true
    }

    /// A write or trim that arrived as number `arrival` is durable.
    pub(super) fn flushes_notice(&mut self, arrival: u64, fx: &mut Effects) {
        let mut index = 0;
        while index < self.clients.flushes_waiting.len() {
            let slot = self.clients.flushes_waiting[index];
            let request = self.clients.requests.get_mut(slot);
            let Work::Flush { writes_before } = &mut request.work else { unreachable!("a flush") };
            if arrival < request.arrival {
                *writes_before -= 1;
            }
            if *writes_before == 0 {
                self.clients.flushes_waiting.swap_remove(index);
                self.flush_devices_for(slot, fx);
            } else {
                index += 1;
            }
        }
    }

    /// Answers a request after a device flush.
    pub(super) fn flush_devices_for(&mut self, slot: u32, fx: &mut Effects) {
        self.device_flush.round(Party::Clients).next.push(FlushWaiter::Request(slot));
        self.start_device_flush(Party::Clients, fx);
    }

    /// Tells the collector after a device flush.
    pub(super) fn flush_devices_for_gc(&mut self, fx: &mut Effects) {
        self.flush_for_engine(FlushWaiter::Gc, fx);
    }

    /// Flushes what recovery wrote, once nothing is left to be moved. Caches that are not volatile need no command, and
    /// nothing else may happen at which a checkpoint could begin that had to wait for this.
    pub(super) fn flush_recovery(&mut self, now: Instant, fx: &mut Effects) {
        if self.rescue.flush == RecoveryFlush::Due && !self.space().has_blocks_to_rescue() {
            self.rescue.flush = RecoveryFlush::Flushing;
            self.flush_for_engine(FlushWaiter::Recovery, fx);
            if self.rescue.flush == RecoveryFlush::Done {
                self.advance_checkpoint(now, fx);
            }
        }
    }

    /// Seals a segment after a device flush: what a full zone holds is durable, whatever becomes of caches.
    pub(super) fn flush_devices_to_seal(&mut self, segment: SegmentSlot, fx: &mut Effects) {
        self.flush_for_engine(FlushWaiter::Seal(segment), fx);
    }

    /// Fillers were written to a zone that is closed early: the next are, once not too many are in volatile caches, where
    /// flushes of clients would wait for them. A replacement closes all segments that are open, whole zones of each drive.
    pub(super) fn seal_on(&mut self, segment: SegmentSlot, drive: usize, blocks: usize, fx: &mut Effects) {
        self.device_flush.fillers_unflushed += blocks;
        let most = FILLERS_UNFLUSHED_MAX * self.core.config.members;
        if !self.core.config.geometry.volatile_cache || self.device_flush.fillers_unflushed < most {
            return self.reader.seal_zone(&mut self.core, segment, drive, fx);
        }
        self.flush_for_engine(FlushWaiter::Fillers { segment, drive }, fx);
    }

    /// Makes durable what a rebuilt zone holds and whatever its table takes for durable, or the record that a member
    /// is whole again.
    pub(super) fn flush_devices_for_rebuild(&mut self, lane: usize, fx: &mut Effects) {
        self.flush_for_engine(FlushWaiter::Rebuild(lane), fx);
    }

    /// Makes durable what a checkpoint says and what it says it of: a volatile cache may lose the newer copy of a
    /// block that the image names, and then nobody knows of the one before.
    pub(super) fn flush_devices_for_checkpoint(&mut self, number: u32, fx: &mut Effects) {
        self.flush_for_engine(FlushWaiter::Checkpoint(number), fx);
    }

    /// Makes durable what a summary is about to say: a volatile cache may lose a chunk and keep the summary.
    pub(super) fn flush_devices_for_summary(&mut self, due: SummaryDue, fx: &mut Effects) {
        self.flush_for_engine(FlushWaiter::Summary(due), fx);
    }

    fn flush_for_engine(&mut self, waiter: FlushWaiter, fx: &mut Effects) {
        self.device_flush.round(Party::Engine).next.push(waiter);
        self.start_device_flush(Party::Engine, fx);
    }

    fn start_device_flush(&mut self, party: Party, fx: &mut Effects) {
        let round = self.device_flush.round(party);
        let busy = round.drives_pending > 0 || !round.current.is_empty();
        if busy || round.next.is_empty() {
            return;
        }
        std::mem::swap(&mut round.current, &mut round.next);
        self.flush_drives(party, fx);
    }

    /// The member that a round does without.
    fn left_out_of_flush(&self, party: Party) -> Option<usize> {
        self.member_not_counted_yet().filter(|_| party == Party::Clients)
    }

    fn flush_drives(&mut self, party: Party, fx: &mut Effects) {
        let settled = u64::from(!self.core.membership.is_changing());
        let covers = self.core.membership.record().generation * settled;
        let left_out = self.left_out_of_flush(party);
        let round = self.device_flush.round(party);
        assert!(round.drives_pending == 0);
        round.covers = covers;
        if party == Party::Engine {
            self.device_flush.fillers_unflushed = 0;
        }
        let round = self.device_flush.round(party);
        round.is_partial = left_out.is_some();
        if self.core.config.geometry.volatile_cache {
            let slot = u32::try_from(party.index()).expect("two parties");
            for drive in (0..self.core.config.members).filter(|drive| left_out != Some(*drive)) {
                if self.core.membership.is_present(drive) {
                    let part = u32::try_from(drive).expect("at most 32 members");
                    fx.command(drive, ZoneIndex(0), Waiter::Flush { slot, part }, Op::Flush);
                    self.device_flush.round(party).drives_pending += 1;
                }
            }
        }
        if self.device_flush.round(party).drives_pending == 0 {
            self.device_flush_done(party, fx);
        }
    }

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
        let party = Party::ALL[slot as usize];
        let round = self.device_flush.round(party);
        assert!(round.drives_pending > 0);
        round.drives_pending -= 1;
        if round.drives_pending == 0 {
            self.device_flush_done(party, fx);
        }
    }

    /// Flushes that lost a drive are repeated on the others once their superblocks say so: those must be
    /// durable too.
    pub(super) fn repeat_device_flush(&mut self, fx: &mut Effects) {
        for party in Party::ALL {
            if std::mem::take(&mut self.device_flush.round(party).awaits_record) {
                self.flush_drives(party, fx);
            }
        }
    }

    fn device_flush_done(&mut self, party: Party, fx: &mut Effects) {
        if self.core.membership.is_changing() {
            self.device_flush.round(party).awaits_record = true;
            self.core.membership.flush_waiting = true;
            return;
        }
        let round = self.device_flush.round(party);
        let (covers, is_partial) = (round.covers, round.is_partial);
        // The record of a drive that was lost meanwhile may have come to the others after they were flushed.
        if self.core.config.geometry.volatile_cache && covers != self.core.membership.record().generation {
            return self.flush_drives(party, fx);
        }
        if !is_partial {
            self.device_flush.generation_durable = covers;
            self.core.membership.settle(covers);
        }
        self.answer_flush(party, fx);
    }

    /// Answers everyone who waited for a round and starts the next.
    fn answer_flush(&mut self, party: Party, fx: &mut Effects) {
        let mut waiters = std::mem::take(&mut self.device_flush.round(party).current);
        for waiter in waiters.drain(..) {
            match waiter {
                FlushWaiter::Request(slot) => {
                    if self.core.membership.is_broken() {
                        self.clients.requests.get_mut(slot).outcome = crate::request::Outcome::IoError;
                    }
                    self.clients.answer(&mut self.core, slot, fx);
                }
                FlushWaiter::Gc => self.collector.gc_flushed(),
                FlushWaiter::Seal(segment) => self.reader.write_footers(&mut self.core, segment, fx),
                FlushWaiter::Fillers { segment, drive } => {
                    self.reader.seal_zone(&mut self.core, segment, drive, fx)
                }
                FlushWaiter::Rebuild(lane) => self.member_rebuild.rebuild_answered(lane),
                FlushWaiter::Checkpoint(number) => self.checkpoints.flushed(number),
                FlushWaiter::Summary(due) => self.summary_flushed(due),
                FlushWaiter::Recovery => self.rescue.flush = RecoveryFlush::Done,
            }
        }
        self.device_flush.round(party).current = waiters;
        self.start_device_flush(party, fx);
    }
}

impl DeviceFlush {
    /// True when the record of members of a generation, or a newer one, has left the cache of every drive.
    pub(super) fn generation_is_durable(&self, generation: u64) -> bool {
        self.generation_durable >= generation
    }
}
