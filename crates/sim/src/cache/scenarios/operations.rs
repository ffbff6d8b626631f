//! Scenarios of operations on one key or several, and of what the index does with their slots.

use super::super::act::{Act, Expiry, Filler, Moment};
use super::super::{Plan, Run};
use super::{plan, store};
use crate::step::Kind;
use ::cache::policy::Eviction;
use ::cache::request::Part;

pub(super) fn all() -> Vec<(&'static str, Run)> {
    vec![
        ("read-beside-a-write-that-is-cut-off", cut_off()),
        ("slots-move-to-make-room", slots_move()),
        ("several-keys-in-one-command", several_keys()),
        ("parts-of-a-large-value", parts()),
        ("parts-that-begin-anywhere", parts_from_anywhere()),
        ("superseded-copy-and-a-full-journal", superseded_copy()),
    ]
}

/// Parts of a large value on flash that begin with each byte of its first pages, among them the last byte of a page and the first.
fn parts_from_anywhere() -> Run {
    let large = Act::Set { key: 0, bytes: 12_000, filler: Filler::Dots, expiry: Expiry::Never };
    let part = |first| [Act::GetPart { key: 0, part: Part { first, last: first + 9 } }, Act::Drain];
    let acts = [large, Act::Rest].into_iter().chain((0..8_200).flat_map(part)).chain([Act::Rest]).collect();
    Run { plan: Plan { drives: 1, ..plan() }, acts }
}

/// What hides a version is on its way when the key is read, and the power fails before it is there: the read has to wait.
fn cut_off() -> Run {
    let at = Moment { kind: Kind::Log, skip: 0 };
    let acts = vec![
        store(0),
        Act::Rest,
        Act::StopAt { power: true, at },
        store(0),
        Act::Get(0),
        Act::Drain,
        Act::ReadAll,
        Act::Rest,
    ];
    Run { plan: Plan { drives: 1, ..plan() }, acts }
}

/// An index of two buckets that gets full: what fits one of them alone takes slots that others leave for the other bucket.
fn slots_move() -> Run {
    let acts = (0..24).flat_map(|key| [store(key), Act::Rest]).collect();
    Run { plan: Plan { drives: 1, object_mean: 100_000, ..plan() }, acts }
}

/// Commands of several keys and exchanges, over shards and over the end of a life.
fn several_keys() -> Run {
    let mut acts = vec![
        Act::SetSeveral { first: 0, count: 6, bytes: 100, only_new: true },
        Act::Drain,
        Act::GetSeveral { first: 0, count: 6 },
        Act::SetSeveral { first: 2, count: 6, bytes: 700, only_new: false },
        Act::SetSeveral { first: 0, count: 12, bytes: 100, only_new: true },
        Act::Drain,
    ];
    // What one of two saw is replaced, and the other comes too late.
    acts.extend([
        Act::Get(2),
        Act::Drain,
        Act::Exchange { key: 2, bytes: 40 },
        Act::Exchange { key: 2, bytes: 40 },
    ]);
    acts.extend([Act::GetSeveral { first: 1, count: 6 }, Act::Rest, super::stop()]);
    acts.extend([Act::Exchange { key: 2, bytes: 40 }, Act::GetSeveral { first: 0, count: 12 }, Act::Rest]);
    Run { plan: Plan { shards: 2, letter_ns: 50_000, ..plan() }, acts }
}

/// Parts of a value of several pages, in buffers, on flash and after a life: each page between is passed over.
fn parts() -> Run {
    let parts =
        [(0, 9), (4_000, 4_300), (8_150, 8_250), (-5_000, -1), (0, -1), (9_000, 20_000), (30_000, 40_000)];
    let read = || parts.map(|(first, last)| Act::GetPart { key: 0, part: Part { first, last } });
    let large = Act::Set { key: 0, bytes: 11_000, filler: Filler::Record, expiry: Expiry::Never };
    let mut acts = vec![store(0), Act::Rest, large.clone(), Act::Rest, large];
    acts.extend(read());
    acts.push(Act::Rest);
    acts.extend(read());
    acts.extend([super::stop(), Act::Rest]);
    acts.extend(read());
    Run { plan: Plan { drives: 1, ..plan() }, acts }
}

/// A mount tells other keys apart than the life before, whose journal zone cannot be written again: it goes with the zones of data that it is about. One of
/// these waits for a copy of what was hit in it; a write supersedes that copy, and waits for room in the journal, which the zone's reset makes.
fn superseded_copy() -> Run {
    // Key and bytes of a store; without bytes, a removal.
    let change = |number: usize| match (number / 1_000_000, number % 1_000_000) {
        (key, 0) => Act::Remove(key),
        (key, bytes) => Act::Set { key, bytes, filler: Filler::Dots, expiry: Expiry::Never },
    };
    let mut acts = Vec::new();
    acts.extend([17_009_000, 22_009_000].map(change));
    acts.push(Act::Wait { nanos: 1 << 20, events: 3 });
    acts.extend([22_009_000, 2_003_900, 21_009_000, 11_000_040, 15_009_000, 3_000, 3_000_040].map(change));
    acts.push(Act::Wait { nanos: 1 << 20, events: 16 });
    acts.extend(
        [
            12_009_000, 20_009_000, 15_000_040, 5_000_040, 22_009_000, 18_009_000, 2_002_100, 17_009_000,
            11_009_000, 14_009_000, 12_009_000, 9_009_000, 3_009_000, 5_000_040, 20_009_000, 22_009_000,
            17_009_000, 9_000_000, 15_000_040, 3_000_000, 11_009_000,
        ]
        .map(change),
    );
    acts.push(Act::Resize(700));
    acts.push(Act::Stop { power: false, cut: None });
    acts.extend([18_000_040, 13_000_040, 12_000_040, 3_900].map(change));
    acts.push(Act::Get(2));
    acts.extend(
        [
            5_009_000, 18_000_000, 17_009_000, 3_900, 1_003_000, 13_000_040, 2_003_000, 5_000_000,
            12_000_040, 1_000_000, 2_100, 12_009_000,
        ]
        .map(change),
    );
    let plan = Plan { seed: 52, drives: 1, zones: 10, zone_blocks: 14, transfer_blocks: 3, ..plan() };
    let plan = Plan { latency_ns: 10_000, memory_kib: 512, eviction: Eviction::S3Fifo, ..plan };
    Run { plan: Plan { reinsert_percent: 60, active_zones: 7, depth: 1, ..plan }, acts }
}
