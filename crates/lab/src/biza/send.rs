//! What is dirty in windows goes to drives: neighbours in one command, each block once at a time.

use super::config::MEMBERS_MAX;
use super::segment::Segment;
use super::{Biza, Place};
use array::engine::Effects;
use base::time::Instant;
use zone::device::{Completion, Op, Token};

/// Blocks of one write at most: 64 KiB, beyond which a zone gains nothing.
const WRITE_BLOCKS_MAX: u32 = 16;
/// Writes that a drive has at a time: so many of 4 KiB get all that it gives (`lab run biza5`), and what waits shares commands.
const WRITES_PER_DRIVE: u32 = 4;
/// The same for parts of a command of stripes that are being filled: one is worked on, one waits, and more blocks come.
const PARTS_PER_DRIVE: u32 = 2;

/// A command under way.
#[derive(Debug)]
pub(super) enum Sent {
    Write(SentWrite),
    /// Blocks, and where they go in the read; `adds` when they are summed there.
    Read {
        read: u32,
        part: Vec<(Place, usize)>,
        adds: bool,
    },
    Manage {
        segment: usize,
    },
}

/// A write under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentWrite {
    segment: usize,
    stripe: u32,
    blocks: u32,
    at: Instant,
    /// Parity of stripes that are not full among it.
    partial: usize,
}

impl Sent {
    pub(super) fn token(slot: u32) -> Token {
        Token(u64::from(slot))
    }
}

/// A dirty block: segment, drive and stripe.
type Dirty = (usize, usize, u32);

/// Blocks that are to be sent.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    dirty: Vec<Dirty>,
    /// Blocks that wait for others.
    held: Vec<Dirty>,
    /// Writes under way, by drive.
    writes: [u32; MEMBERS_MAX],
    /// Parity of stripes that are not full, under way.
    partial: usize,
    /// The segment whose turn it is: where drives have enough to do, all come to it.
    turn: usize,
}

impl Outbox {
    pub(super) fn note(&mut self, segment: usize, drive: usize, stripe: u32) {
        self.dirty.push((segment, drive, stripe));
    }
}

impl Biza {
    /// Sends what is dirty.
    pub(super) fn send(&mut self, now: Instant, fx: &mut Effects) {
        let held = std::mem::take(&mut self.outbox.held);
        self.outbox.dirty.extend(held);
        // Drives that are lost are written to in the mind: that may free what waits, and make more dirty.
        while !self.outbox.dirty.is_empty() {
            let mut dirty = std::mem::take(&mut self.outbox.dirty);
            dirty.sort_unstable();
            dirty.dedup();
            let (held, mut ready): (Vec<Dirty>, Vec<Dirty>) =
                dirty.into_iter().partition(|one| self.is_held(*one));
            self.outbox.held.extend(held);
            let first = ready.partition_point(|one| one.0 < self.outbox.turn);
            ready.rotate_left(first);
            let goes_on = |last: &Dirty, next: &Dirty| (last.0, last.1, last.2 + 1) == *next;
            for run in ready.chunk_by(goes_on) {
                for part in run.chunks(WRITE_BLOCKS_MAX as usize) {
                    if self.may_leave(part) {
                        self.send_run(now, part, fx);
                    } else {
                        self.outbox.held.extend(part);
                    }
                }
            }
        }
    }

    /// True while the drive of some neighbours has too little to do.
    fn may_leave(&self, part: &[Dirty]) -> bool {
        let (number, drive, stripe) = part[0];
        let segment = &self.segments[number];
        let is_filled = stripe + WRITE_BLOCKS_MAX <= segment.next || part.len() == WRITE_BLOCKS_MAX as usize;
        self.outbox.writes[drive] < if is_filled { WRITES_PER_DRIVE } else { PARTS_PER_DRIVE }
    }

    fn is_partial_parity(&self, (number, drive, stripe): Dirty) -> bool {
        let segment = &self.segments[number];
        let open = self.groups[segment.group].open;
        segment.parity_drive(stripe) == drive
            && open.is_some_and(|open| (open.segment, open.stripe) == (number, stripe))
    }

    /// Parity of a stripe that is not full waits while many others are under way: more of the stripe will be there.
    fn is_held(&self, one: Dirty) -> bool {
        self.outbox.partial >= self.config.members && self.is_partial_parity(one)
    }

    fn send_run(&mut self, now: Instant, run: &[Dirty], fx: &mut Effects) {
        let (number, drive, stripe) = run[0];
        let partial = run.iter().filter(|one| self.is_partial_parity(**one)).count();
        if self.account.lost == Some(drive) {
            for (.., stripe) in run {
                self.finish_block(number, drive, *stripe, true, fx);
            }
            return;
        }
        let blocks = u32::try_from(run.len()).expect("few blocks");
        let mut frames = self.memory.frames.take_vec(run.len());
        let segment = &mut self.segments[number];
        for (frame, stripe) in frames.iter_mut().zip(stripe..) {
            let slot = segment.slot(drive, stripe);
            assert!(slot.sent == 0 && !slot.is_clean());
            slot.sent = slot.wanted;
            frame.data.copy_from_slice(&slot.frame.data);
            frame.oob.fill(0);
        }
        let write_pointer = &mut segment.write_pointers[drive];
        assert!(stripe >= *write_pointer && stripe + blocks <= *write_pointer + 2 * self.areas.window_blocks);
        *write_pointer = self.areas.write_pointer_after(*write_pointer, stripe + blocks);
        assert!(*write_pointer <= segment.base, "only what is on its drive leaves the window");
        self.account.counters.interface += u64::from(blocks);
        self.outbox.partial += partial;
        self.outbox.writes[drive] += 1;
        self.outbox.turn = number + 1;
        let token = self.in_flight.insert(Sent::Write(SentWrite {
            segment: number,
            stripe,
            blocks,
            at: now,
            partial,
        }));
        fx.command(drive, Segment::zone(number), Sent::token(token), Op::Write { offset: stripe, frames });
    }

    /// A write is on its drive, or the drive is lost.
    pub(super) fn on_written(
        &mut self,
        write: SentWrite,
        drive: usize,
        completion: Completion,
        fx: &mut Effects,
    ) {
        self.memory.frames.give_vec(completion.frames);
        self.outbox.partial -= write.partial;
        self.outbox.writes[drive] -= 1;
        for stripe in write.stripe..write.stripe + write.blocks {
            self.finish_block(write.segment, drive, stripe, false, fx);
        }
        let to = self.moved_to().filter(|_| self.collector.is_at_work());
        self.channels.note_write((drive, write.segment, to), write.blocks, write.at);
    }

    /// The version that was sent is there; all of them, where the drive is lost.
    fn finish_block(&mut self, segment: usize, drive: usize, stripe: u32, is_lost: bool, fx: &mut Effects) {
        let slot = self.segments[segment].slot(drive, stripe);
        slot.done = if is_lost { slot.wanted } else { slot.sent };
        slot.sent = 0;
        let done = slot.done;
        let is_clean = slot.is_clean();
        let mut waiters = std::mem::take(&mut slot.waiters);
        waiters.retain(|(version, write)| {
            let waits = *version > done;
            if !waits {
                self.note_done(*write, fx);
            }
            waits
        });
        self.segments[segment].slot(drive, stripe).waiters = waiters;
        if !is_clean {
            self.outbox.note(segment, drive, stripe);
        }
    }
}
