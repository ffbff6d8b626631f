//! Runs of caches of several shards.

use super::super::act::{self, Act, Expiry, Filler, KEYS, Moment};
use super::super::{Plan, Run};
use super::{plan, stop, store};
use crate::step::Kind;
use ::cache::config::Acknowledge;
use ::cache::policy::Eviction;

/// A second, in nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// All of them, with their names.
pub(super) fn all() -> Vec<(&'static str, Run)> {
    vec![
        ("shards-clear-reaches-one", clear_reaches_one()),
        ("shards-clear-is-cut-off", clear_cut_off()),
        ("shards-lose-a-drive", drive_dies()),
        ("shards-lose-a-drive-and-get-another", drive_goes()),
        ("shards-of-another-number", another_number(2, &[1, 3, 4])),
        ("shards-where-there-are-none", another_number(1, &[2, 3])),
        ("shards-are-scanned-while-slots-move", scanned()),
        ("shards-mounted-beside-one-that-is-not", mounted_beside_another()),
        ("shards-mounted-in-vain-with-commands-under-way", commands_under_way()),
    ]
}

fn sharded(shards: usize, letter_ns: u64) -> Plan {
    Plan { shards, letter_ns, object_mean: 16_384, memory_kib: 512, ..plan() }
}

fn store_all() -> impl Iterator<Item = Act> {
    (0..KEYS).map(store)
}

fn power_off() -> Act {
    Act::Stop { power: true, cut: None }
}

/// A shard is ready, which took the eviction of what journals of another width are about, and another is not, for a drive has died meanwhile:
/// to the ledger the object was forgotten without a cause.
fn mounted_beside_another() -> Run {
    let set = |key, bytes, filler, expiry| Act::Set { key, bytes, filler, expiry };
    let acts = vec![
        Act::StopAt { power: true, at: Moment { kind: Kind::Any, skip: 13 } },
        set(0, 200, Filler::Dots, Expiry::Never),
        set(3, 10, Filler::Block, Expiry::After(18)),
        set(0, 10, Filler::Block, Expiry::After(11)),
        set(3, 40, Filler::Block, Expiry::Never),
        Act::Rest,
        Act::Die { drive: 0, at: Some(Moment { kind: Kind::Reset, skip: 5 }) },
        Act::Resize(4096),
        power_off(),
        set(3, 40, Filler::Dots, Expiry::Never),
        set(3, 40, Filler::Dots, Expiry::Never),
        set(0, 10, Filler::Dots, Expiry::After(16)),
        set(3, 10, Filler::Block, Expiry::Never),
        Act::Resize(512),
    ];
    let plan = Plan { seed: 30_000_042_145, zones: 14, zone_blocks: 33, transfer_blocks: 7, ..sharded(3, 0) };
    let plan =
        Plan { is_volatile: true, latency_ns: 640_000, batch_pages: 6, copies_kib: 1, depth: 6, ..plan };
    let plan = Plan { eviction: Eviction::S3Fifo, ttl_groups: [1, 9, 38], active_zones: 7, ..plan };
    Run { plan: Plan { endurance: 1 << 26, acknowledge: Acknowledge::Media, ..plan }, acts }
}

/// The run of a seed: a mount is refused for a shard while others, which were ready, have commands under way; their answers came to the shards
/// of the next mount.
fn commands_under_way() -> Run {
    let plan = Plan::draw(30_000_062_631);
    Run { acts: act::draw(&plan), plan }
}

/// Requests are on their way for seconds. The power fails when one shard has cleared everything and the other knows nothing of it, or while
/// the answer of the second is on its way; then all of it is cleared.
fn clear_reaches_one() -> Run {
    let mut acts = Vec::new();
    for round in 0..12 {
        acts.extend(store_all());
        acts.extend([Act::Drain, Act::Clear { key: None }]);
        acts.extend([Act::Wait { nanos: (1 + round) * SECOND / 2, events: 1_000 }, power_off()]);
        acts.extend([Act::ReadAll, Act::Clear { key: Some(0) }, Act::Drain, power_off(), Act::ReadAll]);
    }
    Run { plan: sharded(2, 8 * SECOND), acts: [acts, vec![Act::Rest]].concat() }
}

/// The power fails at a superblock by which a clear becomes durable in a shard.
fn clear_cut_off() -> Run {
    let mut acts = Vec::new();
    for skip in 0..8 {
        acts.extend(store_all().chain([Act::Rest]));
        acts.push(Act::StopAt { power: true, at: Moment { kind: Kind::Superblock, skip } });
        acts.extend([Act::Clear { key: None }, Act::Drain, Act::ReadAll]);
        acts.extend([Act::Clear { key: None }, Act::Drain, power_off(), Act::ReadAll, Act::Rest]);
    }
    Run { plan: Plan { drives: 3, is_volatile: true, ..sharded(3, 1 << 20) }, acts }
}

/// A drive dies under two shards, which go on without it; then it is there again, with what it held.
fn drive_dies() -> Run {
    let mut acts: Vec<Act> = store_all().chain([Act::Rest]).collect();
    acts.push(Act::Die { drive: 1, at: Some(Moment { kind: Kind::Chunk, skip: 1 }) });
    acts.extend(store_all().chain([Act::Drain, Act::ReadAll, Act::Rest, power_off(), Act::ReadAll]));
    acts.extend((0..KEYS).step_by(2).map(Act::Remove).chain([Act::Drain, Act::Back, power_off()]));
    acts.extend([Act::ReadAll, Act::Rest]);
    Run { plan: Plan { drives: 3, ..sharded(2, 1 << 18) }, acts }
}

/// An operator takes a drive out, puts another one in, and removes it; the first one is there again.
fn drive_goes() -> Run {
    let mut acts = Vec::new();
    for act in [Act::TakeOut(1), Act::Join(1), Act::GiveUp(1), Act::AddDrive { joins: true }] {
        acts.extend(store_all().chain([Act::Drain, act, Act::Drain, Act::ReadAll, Act::Rest]));
        acts.extend([power_off(), Act::ReadAll]);
    }
    Run { plan: Plan { drives: 3, ..sharded(2, 1 << 18) }, acts }
}

/// The drives are taken for those of a cache that is cut otherwise.
fn another_number(shards: usize, others: &[usize]) -> Run {
    let mut acts: Vec<Act> = store_all().chain([Act::Rest]).collect();
    for other in others {
        acts.extend([Act::Recut(*other), stop(), Act::ReadAll, Act::Rest]);
    }
    Run { plan: sharded(shards, 0), acts }
}

/// A scan of one key after the other goes from shard to shard.
fn scanned() -> Run {
    Run { plan: sharded(3, 1 << 16), acts: super::super::scan::while_slots_move() }
}
