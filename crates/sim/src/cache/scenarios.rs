//! Runs that were found by a seed once, or that a mistake asks for: each by name.

use super::act::{Act, Change, Expiry, Filler};
use super::{Plan, Run};
use crate::plan::Tearing;

/// Cache of a scenario: two drives without a volatile cache, and little memory.
fn plan() -> Plan {
    Plan {
        seed: 1,
        drives: 2,
        zones: 12,
        zone_blocks: 32,
        transfer_blocks: 4,
        is_volatile: false,
        latency_ns: 100_000,
        tearing: Tearing::Prefix,
        reorders: true,
        tag_bits: 12,
        object_mean: 512,
        batch_pages: 4,
        memory_kib: 128,
        depth: 40,
    }
}

/// All scenarios with their names.
#[must_use]
pub fn all() -> Vec<(&'static str, Run)> {
    // Updates that store did not wait for room as stores do, and buffers outgrew their share of the memory.
    let update = |key| Act::Update { key, change: Change::StoreIf { exists: false }, bytes: 9_000 };
    let updates = (0..20).map(update).chain([Act::Drain, Act::ReadAll, Act::Rest]);
    // The last drive was gone, and an update was said to be too large.
    let count = Act::Update { key: 1, change: Change::Count, bytes: 200 };
    // A cache without drives told a time that had passed as that of its next turn, and its server ran in a circle.
    let store = |key, filler| Act::Set { key, bytes: 40, filler, expiry: Expiry::Never };
    let orphan = vec![
        store(6, Filler::Dots),
        Act::Wait { nanos: 1 << 25, events: 14 },
        Act::Update { key: 6, change: Change::Count, bytes: 200 },
        store(0, Filler::Record),
        Act::Die { drive: 0, at: None },
        Act::Rest,
    ];
    let lone = Plan { seed: 31, drives: 1, zones: 13, zone_blocks: 31, transfer_blocks: 2, ..plan() };
    let lone =
        Plan { is_volatile: true, latency_ns: 40_000, tag_bits: 3, object_mean: 2048, depth: 21, ..lone };
    vec![
        ("no-drive-and-nothing-due", Run { plan: lone, acts: orphan }),
        ("updates-wait-for-room", Run { plan: plan(), acts: updates.collect() }),
        (
            "no-drive-is-no-size",
            Run {
                plan: Plan { drives: 1, ..plan() },
                acts: vec![count.clone(), Act::Rest, count.clone(), Act::Die { drive: 0, at: None }, count],
            },
        ),
    ]
}
