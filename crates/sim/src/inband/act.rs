//! Acts of a run: what the host asks, and what goes wrong.

use super::plan::Plan;
use crate::acted::with_kills;
use base::random::Random;
use drive::inband::layout::JOURNAL_ZONES;
use drive::units::UNIT_BLOCKS;

/// Commands that no opening takes: the power fails when it is through.
pub(super) const WHOLE: u64 = 1_000_000;

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
    /// A zone is written up to so many blocks before its end.
    Fill {
        /// Zone.
        zone: u32,
        /// Blocks that are left.
        left: u32,
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
    /// Blocks are written one at a time, each answered before the next, and the zone reset when it is full: records of the journal.
    Churn {
        /// Zone.
        zone: u32,
        /// Blocks.
        blocks: u32,
    },
    /// Time passes, in nanoseconds.
    Wait(u64),
    /// All commands are answered.
    Settle,
    /// All zones are read.
    ReadAll,
    /// The power fails, and while the drive is opened, again after each of these commands of the device.
    Crash(Vec<u64>),
    /// The power fails, and again right behind each opening, until the journal's zone has room for no more than so many records: nobody else
    /// has written records meanwhile, nor made the other zone ready.
    CrashNearTurn(u64),
    /// The server is killed, and caches of the device stay; the power fails while the drive is opened, after each of these commands.
    Kill(Vec<u64>),
    /// The drive is closed in good order, and opened.
    Reopen,
    /// The next write of the device fails.
    WriteFault,
    /// A block cannot be read.
    Spoil {
        /// Zone.
        zone: u32,
        /// Block.
        offset: u32,
    },
    /// A zone of the host turns read-only, or offline, whatever is in flight.
    Degrade {
        /// Zone.
        zone: u32,
        /// Offline.
        is_offline: bool,
    },
    /// A zone of the device does, when it has carried out some more commands; that may be while the drive is opened.
    Doom {
        /// Zone of the device.
        zone: u32,
        /// Commands.
        after: u64,
        /// Offline.
        is_offline: bool,
    },
    /// The device is gone, and back after a power failure.
    Die,
    /// The next write to the disk of the journal fails.
    JournalFault,
    /// The disk of the journal is gone, and back after a power failure.
    JournalDie,
}

impl Act {
    /// An act is about zones and blocks that are there: others would be judged by nothing.
    pub(super) fn check(&self, zones: u32, capacity: u32) {
        match *self {
            Act::Write { zone, blocks, .. } | Act::Churn { zone, blocks } => {
                assert!(zone < zones, "zone {zone} of {zones}");
                assert!(blocks > 0, "a write of no blocks to zone {zone}");
            }
            Act::Fill { zone, left } => {
                assert!(zone < zones, "zone {zone} of {zones}");
                assert!(left <= capacity, "{left} blocks of {capacity} are to be left");
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
            Act::Reset(zone) | Act::Finish(zone) | Act::Close(zone) | Act::Degrade { zone, .. } => {
                assert!(zone < zones, "zone {zone} of {zones}");
            }
            Act::Doom { zone, .. } => {
                let of_device = zones + JOURNAL_ZONES;
                assert!(zone < of_device, "zone {zone} of {of_device} of the device");
            }
            Act::Flush
            | Act::Wait(_)
            | Act::Settle
            | Act::ReadAll
            | Act::Crash(_)
            | Act::CrashNearTurn(_)
            | Act::Kill(_)
            | Act::Reopen
            | Act::WriteFault
            | Act::Die
            | Act::JournalFault
            | Act::JournalDie => {}
        }
    }
}

/// Acts of a plan.
#[must_use]
pub fn draw(plan: &Plan) -> Vec<Act> {
    with_kills(plan.seed, draw_without_kills(plan), |act| match act {
        Act::Crash(cuts) => Some(Act::Kill(cuts.clone())),
        _ => None,
    })
}

fn draw_without_kills(plan: &Plan) -> Vec<Act> {
    let mut random = Random::from_seed(plan.seed ^ 0x0ac7_5eed);
    let count = 40 + random.below(160);
    let small =
        |random: &mut Random, below: u32| u32::try_from(random.below(u64::from(below))).expect("small");
    let capacity = plan.layout().capacity();
    // Some runs write a lot between crashes, some hardly anything.
    let crash_rarity = 10 + random.below(60);
    let has_faults = random.chance(1, 3);
    let churns = random.chance(1, 3);
    let mut acts = Vec::new();
    for _ in 0..count {
        let zone = small(&mut random, plan.zones);
        let act = match random.below(100) {
            0..38 => {
                let blocks = match random.below(6) {
                    0 => UNIT_BLOCKS,
                    1 => 1 + small(&mut random, 32),
                    _ => 1 + small(&mut random, 8),
                };
                Act::Write { zone, blocks, is_append: random.chance(1, 2) }
            }
            38..41 => Act::Fill { zone, left: small(&mut random, 70) },
            41..50 => {
                Act::Read { zone, offset: small(&mut random, capacity), blocks: 1 + small(&mut random, 64) }
            }
            50..56 => Act::Reset(zone),
            56..59 => Act::Finish(zone),
            59..61 => Act::Close(zone),
            61..68 => Act::Flush,
            68..82 => Act::Wait(random.below(2 * plan.latency)),
            82..84 if churns => Act::Churn { zone, blocks: 20 + small(&mut random, 200) },
            82..88 => Act::Settle,
            88 => Act::ReadAll,
            89..91 => Act::Reopen,
            91 if has_faults => Act::WriteFault,
            92 if has_faults => Act::Spoil { zone, offset: small(&mut random, capacity) },
            93 if has_faults && random.chance(1, 4) => Act::Degrade { zone, is_offline: random.chance(1, 4) },
            94 if has_faults && random.chance(1, 4) => Act::Die,
            _ => Act::Wait(random.below(plan.latency / 4)),
        };
        acts.push(act);
        if random.chance(1, crash_rarity) {
            let cuts = if random.chance(1, 3) { 1 + random.below(3) } else { 0 };
            acts.push(Act::Crash((0..cuts).map(|_| random.below(40)).collect()));
        }
    }
    if acts.iter().any(|act| matches!(act, Act::Degrade { .. })) {
        add_deaths(plan, &mut acts);
    }
    if plan.apart.is_some() {
        add_journal_faults(plan, &mut acts);
    }
    add_turns(plan, &mut acts);
    acts
}

/// In every fifth run the journal goes from zone to zone between power failures, from a source of its own: openings one after another, each of
/// which takes some records, bring it near the end of a zone, and what is written behind them takes it over.
fn add_turns(plan: &Plan, acts: &mut Vec<Act>) {
    let mut random = Random::from_seed(plan.seed ^ 0x7412_2a6e);
    if !random.chance(1, 5) {
        return;
    }
    for _ in 0..=random.below(4) {
        let mut round = vec![Act::CrashNearTurn(4 + random.below(50))];
        for _ in 0..=random.below(2) {
            let zone = u32::try_from(random.below(u64::from(plan.zones))).expect("small");
            let blocks = 4 + u32::try_from(random.below(60)).expect("small");
            round.push(Act::Churn { zone, blocks });
            let cuts = (0..random.below(3)).map(|_| random.below(40)).collect();
            round.push(Act::Crash(cuts));
        }
        if random.chance(1, 2) {
            round.push(Act::Crash(Vec::new()));
        }
        let place = random.index(acts.len() + 1);
        acts.splice(place..place, round);
    }
}

/// A journal on a disk of its own has faults of its own; half of the runs have none.
fn add_journal_faults(plan: &Plan, acts: &mut Vec<Act>) {
    let mut random = Random::from_seed(plan.seed ^ 0x70a7_f417);
    for _ in 0..random.below(5).saturating_sub(2) {
        let act = if random.chance(1, 4) { Act::JournalDie } else { Act::JournalFault };
        let place = random.index(acts.len() + 1);
        acts.insert(place, act);
    }
}

/// Where one zone dies others do, from a source of its own: runs in which none does stay as they were.
fn add_deaths(plan: &Plan, acts: &mut Vec<Act>) {
    let mut random = Random::from_seed(plan.seed ^ 0xdead_20e5);
    for _ in 0..random.below(5) {
        let of_journal = random.chance(1, 2);
        let zones = if of_journal { JOURNAL_ZONES } else { plan.zones };
        let first = if of_journal { 0 } else { JOURNAL_ZONES };
        let zone = first + u32::try_from(random.below(u64::from(zones))).expect("small");
        let after = if random.chance(1, 2) { random.below(30) } else { 0 };
        let act = Act::Doom { zone, after, is_offline: random.chance(1, 3) };
        let place = random.index(acts.len() + 1);
        acts.insert(place, act);
        // A power failure soon after.
        if random.chance(1, 3) {
            let cuts = (0..random.below(3)).map(|_| random.below(40)).collect();
            let place = (place + 1 + random.index(4)).min(acts.len());
            acts.insert(place, Act::Crash(cuts));
        }
    }
}
