//! Acts of a run: what the host asks, and what goes wrong.

use super::plan::Plan;
use crate::acted::with_kills;
use crate::inplace::disk::Away;
use base::random::Random;
use drive::conventional::layout::UNIT_BLOCKS;

/// An act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Blocks are written at the write pointer, or appended.
    Write {
        /// Zone.
        zone: u32,
        /// Blocks; as many as there is room for.
        blocks: u32,
        /// By Zone Append.
        is_append: bool,
    },
    /// Blocks are read.
    Read {
        /// Zone.
        zone: u32,
        /// First block.
        offset: u32,
        /// Blocks.
        blocks: u32,
    },
    /// A zone is emptied.
    Reset(u32),
    /// A zone is made full.
    Finish(u32),
    /// A zone is closed.
    Close(u32),
    /// A flush.
    Flush,
    /// Time passes, in nanoseconds.
    Wait(u64),
    /// All commands are answered.
    Settle,
    /// All zones are read.
    ReadAll,
    /// The power fails, and while the drive is opened, again after each of these commands of the disk.
    Crash(Vec<u64>),
    /// The server is killed, and caches of the disk stay; the power fails while the drive is opened, after each of these commands.
    Kill(Vec<u64>),
    /// The drive is closed in good order, and opened.
    Reopen,
    /// The next write of the disk fails.
    WriteFault,
    /// A block cannot be read until it is written.
    Spoil {
        /// Zone.
        zone: u32,
        /// Block.
        offset: u32,
    },
    /// A copy of the label is overwritten; a self-test finds and repairs that.
    Label(usize),
    /// The disk is gone, and back after a power failure.
    Die,
    /// The disk is away for a while, and waited for.
    Away(Away),
}

impl Act {
    /// An act is about zones and blocks that are there: others would be judged by nothing.
    pub(super) fn check(&self, zones: u32, capacity: u32) {
        match *self {
            Act::Write { zone, blocks, .. } => {
                assert!(zone < zones, "zone {zone} of {zones}");
                assert!(blocks > 0, "a write of no blocks to zone {zone}");
            }
            Act::Read { zone, offset, blocks } => {
                assert!(
                    zone < zones && offset < capacity,
                    "block {offset} of zone {zone}: {zones} zones of {capacity}"
                );
                assert!(blocks > 0, "a read of no blocks of zone {zone}");
            }
            Act::Spoil { zone, offset } => {
                assert!(
                    zone < zones && offset < capacity,
                    "block {offset} of zone {zone}: {zones} zones of {capacity}"
                );
            }
            Act::Reset(zone) | Act::Finish(zone) | Act::Close(zone) => {
                assert!(zone < zones, "zone {zone} of {zones}");
            }
            Act::Away(away) => assert!(away.nanos > 0, "the disk is away for no time"),
            Act::Label(copy) => assert!(copy < 2, "copy {copy} of the label, of two"),
            Act::Flush
            | Act::Wait(_)
            | Act::Settle
            | Act::ReadAll
            | Act::Crash(_)
            | Act::Kill(_)
            | Act::Reopen
            | Act::WriteFault
            | Act::Die => {}
        }
    }
}

/// Acts of a plan.
#[must_use]
pub fn draw(plan: &Plan) -> Vec<Act> {
    let acts = with_kills(plan.seed, draw_without_kills(plan), |act| match act {
        Act::Crash(cuts) => Some(Act::Kill(cuts.clone())),
        _ => None,
    });
    if plan.is_patient { with_outages(plan, acts) } else { acts }
}

/// The same, and the disk is away now and then.
fn with_outages(plan: &Plan, acts: Vec<Act>) -> Vec<Act> {
    assert!(plan.is_patient && plan.latency > 0, "somebody waits for a disk that takes its time");
    let mut random = Random::from_seed(plan.seed ^ 0x0a3a_7001);
    let rarity = 4 + random.below(40);
    let mut with = Vec::new();
    for act in acts {
        with.push(act);
        if random.chance(1, rarity) {
            let nanos = match random.below(12) {
                0 => 70_000_000_000,
                1 => random.below(20_000_000_000),
                2..6 => random.below(400_000_000),
                _ => random.below(plan.latency),
            };
            let (loses_power, is_removed) = (random.chance(2, 3), random.chance(1, 2));
            with.push(Act::Away(Away { nanos: nanos + 1, loses_power, is_removed }));
        }
    }
    with
}

fn draw_without_kills(plan: &Plan) -> Vec<Act> {
    let mut random = Random::from_seed(plan.seed ^ 0x0ac7_5eed);
    let count = 40 + random.below(260);
    let small =
        |random: &mut Random, below: u32| u32::try_from(random.below(u64::from(below))).expect("small");
    let capacity = plan.zone_units * UNIT_BLOCKS;
    // Some runs write a lot between crashes, some hardly anything.
    let crash_rarity = 10 + random.below(60);
    let has_faults = random.chance(1, 3);
    let mut acts = Vec::new();
    for _ in 0..count {
        let zone = small(&mut random, plan.zones);
        let act = match random.below(100) {
            0..40 => {
                let blocks = match random.below(6) {
                    0 => UNIT_BLOCKS,
                    1 => 1 + small(&mut random, 32),
                    _ => 1 + small(&mut random, 8),
                };
                Act::Write { zone, blocks, is_append: random.chance(1, 2) }
            }
            40..50 => {
                Act::Read { zone, offset: small(&mut random, capacity), blocks: 1 + small(&mut random, 64) }
            }
            50..56 => Act::Reset(zone),
            56..59 => Act::Finish(zone),
            59..61 => Act::Close(zone),
            61..68 => Act::Flush,
            68..84 => Act::Wait(random.below(2 * plan.latency)),
            84..88 => Act::Settle,
            88..90 => Act::ReadAll,
            90 => Act::Reopen,
            91 if has_faults => Act::WriteFault,
            92 if has_faults => Act::Spoil { zone, offset: small(&mut random, capacity) },
            93 if has_faults => Act::Label(random.index(2)),
            94 if has_faults && random.chance(1, 4) => Act::Die,
            _ => Act::Wait(random.below(plan.latency / 4)),
        };
        acts.push(act);
        if random.chance(1, crash_rarity) {
            let cuts = if random.chance(1, 3) { 1 + random.below(3) } else { 0 };
            acts.push(Act::Crash((0..cuts).map(|_| random.below(40)).collect()));
        }
    }
    acts
}
