//! Collection: when few zones are free, the live blocks of a victim go to a zone of their own, and the victim is reset.

use super::zones::Place;
use super::{Command, Config, DmZap, Effects, MERGED_BLOCKS_MAX, Op, Sent, VictimPolicy};
use crate::precise::precise_u64;
use base::frame::Frame;
use std::collections::VecDeque;

/// Collection begins when no more zones are free.
const FREE_ZONES_MIN: u32 = 3;
/// Blocks of one read.
const READ_BLOCKS_MAX: u32 = 16;
/// Blocks that are read ahead of what is written.
const AHEAD_BLOCKS: usize = 128;

/// A block on its way.
#[derive(Debug)]
pub(super) struct Moved {
    pub(super) lba: u64,
    pub(super) from: Place,
    pub(super) frame: Frame,
}

/// Stage of collection.
#[derive(Clone, Copy, Debug, Default)]
enum Stage {
    #[default]
    Idle,
    /// Blocks before the offset have been looked at.
    Moving {
        victim: u32,
        next: u32,
    },
    Resetting,
}

/// The collector.
#[derive(Debug, Default)]
pub(super) struct Reclaim {
    stage: Stage,
    /// Zone that moved blocks go to.
    zone: Option<u32>,
    /// Blocks that are being read.
    reading: usize,
    waiting: VecDeque<Moved>,
    is_writing: bool,
    /// Frames that are not in use.
    frames: Vec<Frame>,
}

impl Reclaim {
    /// Blocks have been read.
    pub(super) fn gathered(&mut self, blocks: impl Iterator<Item = Moved>) {
        let before = self.waiting.len();
        self.waiting.extend(blocks);
        self.reading -= self.waiting.len() - before;
    }

    fn take_frames(&mut self, count: usize) -> Vec<Frame> {
        (0..count).map(|_| self.frames.pop().unwrap_or_else(Frame::zeroed)).collect()
    }
}

/// Benefit of freeing a zone, for its cost.
pub(super) fn benefit(config: &Config, live: u32, age: u64) -> f64 {
    let used = f64::from(live) / f64::from(config.zone_blocks);
    match config.policy {
        VictimPolicy::Greedy => 1.0 - used,
        VictimPolicy::CostBenefit => (1.0 - used) / (1.0 + used) * precise_u64(age + 1),
    }
}

impl DmZap {
    /// Goes on with collection.
    pub(super) fn collect(&mut self, fx: &mut Effects) {
        if let Stage::Idle = self.reclaim.stage
            && self.zones.free_count() <= FREE_ZONES_MIN
            && let Some(victim) = self.victim()
        {
            self.reclaim.stage = Stage::Moving { victim, next: 0 };
        }
        let Stage::Moving { victim, .. } = self.reclaim.stage else { return };
        let is_read = self.gather(fx);
        self.send_moves(fx);
        let Reclaim { reading, ref waiting, is_writing, .. } = self.reclaim;
        let is_moved = is_read && reading == 0 && waiting.is_empty() && !is_writing;
        if is_moved && self.zones.is_dead(victim) {
            self.reclaim.stage = Stage::Resetting;
            let token = self.sent.insert(Sent::Reset { zone: victim });
            fx.commands.push(Command { token, zone: victim, offset: 0, op: Op::Reset });
        }
    }

    /// The zone that is worth most; of several the first.
    fn victim(&self) -> Option<u32> {
        let score = |(zone, live, sealed_at): (u32, u32, u64)| {
            (benefit(&self.config, live, self.sequence - sealed_at), std::cmp::Reverse(zone))
        };
        let best = self.zones.victims().map(score);
        best.max_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))).map(|(_, zone)| zone.0)
    }

    /// Reads live blocks, so many ahead; true when the whole victim has been looked at.
    fn gather(&mut self, fx: &mut Effects) -> bool {
        let Stage::Moving { victim, mut next } = self.reclaim.stage else { return false };
        let mut is_read = false;
        while !is_read && self.reclaim.reading + self.reclaim.waiting.len() < AHEAD_BLOCKS {
            let blocks = self.zones.live_run(victim, next, READ_BLOCKS_MAX);
            let (Some((_, first)), Some((_, last))) = (blocks.first().copied(), blocks.last().copied())
            else {
                next = self.config.zone_blocks;
                is_read = true;
                break;
            };
            next = last.offset + 1;
            self.reclaim.reading += blocks.len();
            let frames = self.reclaim.take_frames(blocks.len());
            let token = self.sent.insert(Sent::Gather { blocks });
            fx.commands.push(Command { token, zone: victim, offset: first.offset, op: Op::Read(frames) });
        }
        self.reclaim.stage = Stage::Moving { victim, next };
        is_read
    }

    /// Writes what has been read.
    fn send_moves(&mut self, fx: &mut Effects) {
        if self.reclaim.is_writing || self.reclaim.waiting.is_empty() {
            return;
        }
        let Some(zone) = self.reclaim.zone.or_else(|| self.zones.take_free()) else { return };
        let most = MERGED_BLOCKS_MAX.min(self.zones.room(zone)) as usize;
        let count = most.min(self.reclaim.waiting.len());
        let (mut blocks, mut frames) = (Vec::new(), Vec::new());
        for Moved { lba, from, frame } in self.reclaim.waiting.drain(..count) {
            blocks.push((lba, from));
            frames.push(frame);
        }
        let offset = self.zones.place_at_end(zone, blocks.iter().map(|(lba, _)| *lba));
        (self.reclaim.zone, self.reclaim.is_writing) = (Some(zone), true);
        self.counters.moved += count as u64;
        let token = self.sent.insert(Sent::Move { zone, offset, blocks });
        fx.commands.push(Command { token, zone, offset, op: Op::Write(frames) });
    }

    pub(super) fn on_moved(
        &mut self,
        (zone, offset): (u32, u32),
        blocks: &[(u64, Place)],
        frames: Vec<Frame>,
    ) {
        for (offset, (lba, from)) in (offset..).zip(blocks) {
            self.zones.move_to(*lba, *from, Place { zone, offset });
        }
        self.reclaim.frames.extend(frames);
        self.reclaim.is_writing = false;
        if self.zones.room(zone) == 0 {
            self.zones.seal(zone, self.sequence);
            self.reclaim.zone = None;
        }
    }

    pub(super) fn on_reset(&mut self, zone: u32) {
        self.zones.release(zone);
        self.counters.resets += 1;
        self.reclaim.stage = Stage::Idle;
    }
}
