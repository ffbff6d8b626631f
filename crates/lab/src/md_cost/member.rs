//! Member that does nothing but count.

use base::random::Random;
use base::time::Instant;
use block::device::{BlockDevice, Command, Completion, Geometry, Op, Status};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Blocks that all members were asked.
#[derive(Debug, Default)]
pub struct Counts {
    read: AtomicU64,
    written: AtomicU64,
}

impl Counts {
    /// Blocks read and blocks written so far.
    pub fn so_far(&self) -> (u64, u64) {
        (self.read.load(Ordering::Relaxed), self.written.load(Ordering::Relaxed))
    }
}

/// A member that answers everything at the next poll, in an order that a seed draws. What is read is what the frames held.
pub struct QuietMember {
    geometry: Geometry,
    counts: Arc<Counts>,
    ready: Vec<Completion>,
    random: Random,
}

impl QuietMember {
    /// A member of so many sectors without a volatile cache.
    pub fn new(sectors: u64, counts: Arc<Counts>, seed: u64) -> QuietMember {
        let geometry = Geometry { sectors, atomic_sectors: 8, volatile_cache: false };
        QuietMember { geometry, counts, ready: Vec::new(), random: Random::from_seed(seed) }
    }
}

impl BlockDevice for QuietMember {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, _now: Instant, Command { token, op }: Command) {
        let blocks = |frames: &[base::frame::Frame]| u64::try_from(frames.len()).unwrap_or(u64::MAX);
        match &op {
            Op::Read { frames, .. } => self.counts.read.fetch_add(blocks(frames), Ordering::Relaxed),
            Op::Write { frames, .. } => self.counts.written.fetch_add(blocks(frames), Ordering::Relaxed),
            Op::Flush | Op::WriteZeroes { .. } | Op::Discard { .. } => 0,
        };
        self.ready.push(Completion { token, status: Status::Success, frames: op.into_frames() });
    }

    fn poll(&mut self, _now: Instant, completions: &mut Vec<Completion>) {
        if self.ready.len() > 1 {
            // Each begins where the seed says, so that members answer in orders of their own.
            let first = self.random.index(self.ready.len());
            self.ready.rotate_left(first);
        }
        completions.append(&mut self.ready);
    }
}
