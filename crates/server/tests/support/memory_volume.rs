//! A volume in memory: what the server is tested and measured against.
//!
//! It answers at once, or, with a delay, late and out of order. It is strict where an engine
//! would be: requests beyond the end, empty ones, and two changes of one block at a time while a
//! merge is under way are found by the tests that read back what they wrote.

use array::request::{Controlled, Outcome, Reply, Request, RequestOp, Volume};
use base::frame::FramePool;
use base::time::{Instant, Nanos};
use base::units::{BLOCK_BYTES, BLOCK_BYTES_U64, Lba};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// State that a test may look at and change while the server runs in another thread.
#[derive(Debug, Default)]
pub struct Shared {
    /// Requests accepted, and answered.
    pub submitted: AtomicU64,
    pub answered: AtomicU64,
    /// Flushes carried out.
    pub flushes: AtomicU64,
    /// Writes and trims carried out, and how many of them before the last flush was submitted.
    pub changes: AtomicU64,
    pub changes_before_flush: AtomicU64,
    /// Writes and trims with FUA carried out.
    pub forced: AtomicU64,
    /// No request is answered while this is set.
    pub is_held: AtomicBool,
    /// Nothing is answered any more, for good.
    pub has_ended: AtomicBool,
    /// Reads and writes of this block fail.
    pub bad_block: AtomicU64,
    /// Frames that were out when the volume was dropped.
    pub frames_out_at_end: AtomicU64,
}

/// Options of a [`MemoryVolume`].
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub blocks: u64,
    pub frames_max: usize,
    /// Requests take up to this long, in a random order.
    pub delay_max: Nanos,
}

pub struct MemoryVolume {
    data: Vec<u8>,
    pool: FramePool,
    pending: Vec<(Instant, Request)>,
    frames_promised: usize,
    options: Options,
    random: u64,
    shared: Arc<Shared>,
}

impl MemoryVolume {
    pub fn new(options: Options) -> (MemoryVolume, Arc<Shared>) {
        let shared = Arc::new(Shared { bad_block: AtomicU64::new(u64::MAX), ..Shared::default() });
        let bytes = count(options.blocks) * BLOCK_BYTES;
        let volume = MemoryVolume {
            data: vec![0; bytes],
            pool: FramePool::new(options.frames_max),
            pending: Vec::new(),
            frames_promised: 0,
            options,
            random: 0x9e37_79b9_7f4a_7c15,
            shared: Arc::clone(&shared),
        };
        (volume, shared)
    }

    fn delay(&mut self) -> Nanos {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        Nanos(if self.options.delay_max.0 == 0 { 0 } else { self.random % self.options.delay_max.0 })
    }

    fn range(&self, lba: Lba, blocks: u64) -> (std::ops::Range<usize>, Outcome) {
        assert!(blocks > 0);
        assert!(lba.0 + blocks <= self.options.blocks);
        let bad = self.shared.bad_block.load(Ordering::Relaxed);
        let outcome = if (lba.0..lba.0 + blocks).contains(&bad) { Outcome::IoError } else { Outcome::Done };
        let from = lba.index() * BLOCK_BYTES;
        (from..from + count(blocks * BLOCK_BYTES_U64), outcome)
    }

    fn carry_out(&mut self, request: Request) -> Reply {
        let mut reply = Reply { id: request.id, outcome: Outcome::Done, frames: Vec::new() };
        match request.op {
            RequestOp::Read { lba, blocks } => {
                let (range, outcome) = self.range(lba, blocks.into());
                self.frames_promised -= count(blocks.into());
                reply.outcome = outcome;
                if outcome == Outcome::Done {
                    for block in self.data[range].chunks_exact(BLOCK_BYTES) {
                        let mut frame = self.pool.take();
                        frame.data.copy_from_slice(block);
                        reply.frames.push(frame);
                    }
                }
            }
            RequestOp::Write { lba, mut frames, force_unit_access } => {
                let (range, outcome) = self.range(lba, number(frames.len()));
                reply.outcome = outcome;
                if outcome == Outcome::Done {
                    for (block, frame) in self.data[range].chunks_exact_mut(BLOCK_BYTES).zip(&frames) {
                        block.copy_from_slice(&frame.data);
                    }
                }
                self.count_change(force_unit_access);
                self.pool.give_many(&mut frames);
                reply.frames = frames;
            }
            RequestOp::Trim { lba, blocks, force_unit_access } => {
                let (range, outcome) = self.range(lba, blocks);
                reply.outcome = outcome;
                self.data[range].fill(0);
                self.count_change(force_unit_access);
            }
            RequestOp::Flush => {
                self.shared.flushes.fetch_add(1, Ordering::Relaxed);
            }
        }
        reply
    }

    fn count_change(&self, force_unit_access: bool) {
        self.shared.changes.fetch_add(1, Ordering::Relaxed);
        self.shared.forced.fetch_add(u64::from(force_unit_access), Ordering::Relaxed);
    }
}

fn count(number: u64) -> usize {
    usize::try_from(number).expect("the machine has 64 bits")
}

fn number(count: usize) -> u64 {
    u64::try_from(count).expect("the machine has 64 bits")
}

impl Drop for MemoryVolume {
    fn drop(&mut self) {
        let out = number(self.pool.frames_out());
        self.shared.frames_out_at_end.store(out, Ordering::Relaxed);
    }
}

impl Volume for MemoryVolume {
    fn blocks(&self) -> u64 {
        self.options.blocks
    }

    fn frames(&mut self) -> &mut FramePool {
        &mut self.pool
    }

    fn client_frames_available(&self) -> usize {
        self.pool.available() - self.frames_promised
    }

    fn submit(&mut self, now: Instant, request: Request) {
        self.shared.submitted.fetch_add(1, Ordering::Relaxed);
        if matches!(request.op, RequestOp::Flush) {
            let changes = self.shared.changes.load(Ordering::Relaxed);
            self.shared.changes_before_flush.store(changes, Ordering::Relaxed);
        }
        if let RequestOp::Read { blocks, .. } = request.op {
            self.frames_promised += count(blocks.into());
            assert!(self.frames_promised <= self.pool.available());
        }
        let due = now + self.delay();
        self.pending.push((due, request));
    }

    fn turn(&mut self, now: Instant, replies: &mut Vec<Reply>) -> bool {
        if self.shared.is_held.load(Ordering::Relaxed) || self.has_ended() {
            return false;
        }
        let mut pending = std::mem::take(&mut self.pending);
        if self.options.delay_max.0 > 0 {
            pending.sort_by_key(|(due, _)| *due);
        }
        let ripe = pending.partition_point(|(due, _)| *due <= now);
        for (_, request) in pending.drain(..ripe) {
            let reply = self.carry_out(request);
            self.shared.answered.fetch_add(1, Ordering::Relaxed);
            replies.push(reply);
        }
        self.pending = pending;
        false
    }

    fn next_deadline(&self) -> Option<Instant> {
        let held = self.shared.is_held.load(Ordering::Relaxed);
        let first = self.pending.iter().map(|(due, _)| *due).min();
        // While requests are held, look every millisecond whether they still are.
        if held { first.map(|due| due + Nanos(1_000_000)) } else { first }
    }

    fn has_ended(&self) -> bool {
        self.shared.has_ended.load(Ordering::Relaxed)
    }
}

impl Controlled for MemoryVolume {
    fn control(&mut self, _now: Instant, line: &str) -> String {
        format!("you said: {line}\n")
    }
}
