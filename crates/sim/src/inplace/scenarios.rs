//! Runs that were found by a seed once, or that a mistake of others asks for: each by name.

mod bad_blocks;
mod forced;
mod journals;
mod lies;
mod logs;
mod policies;
mod rebuilds;
mod replacements;
mod returns;
mod shards;
mod shared_logs;
mod spares;

use super::{Act, Plan, Policy, Run};
use array::inplace::window::Manner;
use block::md::superblock::Version;

/// Array of a scenario: RAID-5 of four members, with chunks of two rows.
fn plan() -> Plan {
    Plan {
        seed: 1,
        level: 5,
        layout: 2,
        members: 4,
        chunk: 16,
        stripes: 8,
        version: Version::V1_2,
        data_offset: 64,
        policy: Policy::Resync,
        is_volatile: true,
        latency: 50_000,
        is_clean: true,
        window: Manner::Adaptive,
        cache_bytes: 64 << 20,
        rate: None,
        has_lists: true,
        shards: 0,
        unit_stripes: 1,
    }
}

fn write(lba: u64, blocks: u64) -> Act {
    Act::Write { lba, blocks, durable: false }
}

/// All scenarios with their names.
#[must_use]
pub fn all() -> Vec<(&'static str, Run)> {
    let of_engine =
        of_writes().into_iter().chain(of_many()).chain(of_streams()).chain(of_members()).chain(of_sweeps());
    let of_engine = of_engine.chain(of_bits());
    let of_members =
        rebuilds::all().into_iter().chain(returns::all()).chain(bad_blocks::all()).chain(spares::all());
    let of_members = of_members.chain(replacements::all()).chain(forced::all());
    of_engine
        .chain(of_members)
        .chain(logs::all())
        .chain(journals::all())
        .chain(policies::all())
        .chain(shards::all())
        .chain(shared_logs::all())
        .chain(lies::all())
        .collect()
}

/// Scenarios of writes and crashes.
fn of_writes() -> Vec<(&'static str, Run)> {
    // A write that came while the flush before the clean mark was under way was not flushed, and the mark was set.
    let meets_the_flush = |nanos: u64| {
        vec![
            write(0, 3),
            Act::Wait { nanos: 200_000_000 + nanos, events: 4000 },
            write(20, 1),
            Act::Wait { nanos: 3_000_000, events: 8 },
            Act::Stop,
            Act::ReadAll,
        ]
    };
    vec![
        (
            "a-write-meets-the-flush-before-the-clean-mark",
            Run {
                plan: Plan { latency: 600_000, ..plan() },
                acts: (0..24).flat_map(|step| meets_the_flush(step * 100_000)).collect(),
            },
        ),
        (
            "a-write-over-several-stripes",
            Run { plan: plan(), acts: vec![write(1, 30), Act::Drain, Act::ReadAll, Act::Stop, Act::ReadAll] },
        ),
        (
            "writes-to-one-stripe-at-once",
            Run {
                plan: plan(),
                acts: (0..60)
                    .map(|index| write(index % 6, 1))
                    .chain([Act::Drain, Act::Stop, Act::ReadAll])
                    .collect(),
            },
        ),
        (
            "a-member-dies-during-the-first-resync",
            Run {
                plan: Plan { is_clean: false, latency: 200_000, ..plan() },
                acts: vec![write(40, 2), Act::Drain, Act::Die(1), Act::ReadAll],
            },
        ),
        (
            "a-crash-in-the-middle-of-writes-with-a-bitmap",
            Run {
                plan: Plan { policy: Policy::Bitmap(4096), ..plan() },
                acts: vec![
                    write(0, 20),
                    Act::Wait { nanos: 10_000_000, events: 12 },
                    Act::Crash,
                    Act::Resync,
                    Act::Stop,
                    Act::ReadAll,
                ],
            },
        ),
    ]
}

/// Scenarios of much that is written at once.
fn of_many() -> Vec<(&'static str, Run)> {
    vec![
        // More strips than the table has room for, and many more than fifty that wait.
        (
            "more-strips-than-the-table-has-room-for",
            Run {
                plan: Plan { chunk: 8, stripes: 400, ..plan() },
                acts: (0..380)
                    .map(|stripe| write(stripe * 3, 1))
                    .chain([Act::Drain, Act::Stop, Act::ReadAll])
                    .collect(),
            },
        ),
        // What was written whole is right, wherever the resync is.
        (
            "a-member-dies-after-writes-ahead-of-the-first-resync",
            Run {
                plan: Plan { is_clean: false, rate: Some(16 << 10), ..plan() },
                acts: vec![write(0, 48), Act::Drain, Act::Die(1), Act::ReadAll],
            },
        ),
    ]
}

/// Scenarios of the cache, and of what waits for a stream.
fn of_streams() -> Vec<(&'static str, Run)> {
    vec![
        // A stream that ends in the middle of a stripe is waited for, and nobody comes.
        (
            "a-stream-ends-in-the-middle-of-a-stripe",
            Run {
                plan: Plan { chunk: 64, ..plan() },
                acts: (0..21).map(|lba| write(lba, 1)).chain([Act::Drain, Act::Stop, Act::ReadAll]).collect(),
            },
        ),
        // Each write is a round of its own, one after the other, and a crash comes between.
        (
            "writes-that-nothing-joins",
            Run {
                plan: Plan { window: Manner::Alone, policy: Policy::Bitmap(4096), ..plan() },
                acts: (0..60)
                    .map(|index| write(index % 7, 1 + index % 3))
                    .chain([Act::Wait { nanos: 10_000_000, events: 40 }, Act::Crash, Act::Resync])
                    .chain((0..30).map(|index| write(index % 5, 2)))
                    .chain([Act::Drain, Act::Stop, Act::ReadAll])
                    .collect(),
            },
        ),
        // What the cache has of a stripe is not what lies there after a trim.
        (
            "a-stripe-is-trimmed-between-writes",
            Run {
                plan: plan(),
                acts: [0, 1, 2]
                    .into_iter()
                    .flat_map(|lba| {
                        let trim = Act::Trim { lba: 0, blocks: 6, durable: false };
                        [write(lba, 1), Act::Drain, trim, Act::Drain, write(lba, 1), Act::Drain]
                    })
                    .chain([Act::Stop, Act::ReadAll])
                    .collect(),
            },
        ),
    ]
}

/// Scenarios of scrubs, and of bits that go while the array stays dirty.
fn of_sweeps() -> Vec<(&'static str, Run)> {
    let beside_writes = |index: u64| {
        let again = index.is_multiple_of(10).then_some(Act::Scrub { repairs: index.is_multiple_of(20) });
        [write(index % 40, 1 + index % 3), Act::Wait { nanos: 60_000, events: 4 }].into_iter().chain(again)
    };
    // Writes elsewhere keep the array dirty, so that no clean mark flushes what the bits stood for.
    let keeps_dirty = (0..160).flat_map(|_| [write(40, 1), Act::Wait { nanos: 100_000_000, events: 40 }]);
    let lasting = |round: u64| {
        [write(round % 2, 3)].into_iter().chain(keeps_dirty.clone()).chain([
            Act::Crash,
            Act::Resync,
            Act::Stop,
        ])
    };
    vec![
        (
            "wrong-parities-are-counted-and-repaired",
            Run {
                plan: Plan { level: 6, members: 5, ..plan() },
                acts: vec![write(0, 40), Act::Rot { rows: 6 }, Act::Stop, Act::ReadAll, Act::Rot { rows: 2 }],
            },
        ),
        (
            "a-scrub-beside-writes-finds-nothing",
            Run {
                plan: plan(),
                acts: (0..200).flat_map(beside_writes).chain([Act::Drain, Act::Stop]).collect(),
            },
        ),
        (
            "a-scrub-rebuilds-what-cannot-be-read",
            Run {
                plan: plan(),
                acts: vec![
                    write(0, 40),
                    Act::Drain,
                    Act::Spoil { member: 0, row: 3 },
                    Act::Spoil { member: 2, row: 9 },
                    Act::Scrub { repairs: false },
                    Act::Wait { nanos: 1_000_000_000, events: 4000 },
                    Act::Stop,
                    Act::ReadAll,
                ],
            },
        ),
        (
            "a-member-dies-during-a-scrub",
            Run {
                plan: plan(),
                acts: vec![
                    write(0, 40),
                    Act::Scrub { repairs: true },
                    Act::Wait { nanos: 100_000, events: 3 },
                    Act::Die(1),
                    write(5, 3),
                    Act::Drain,
                    Act::Scrub { repairs: true },
                    Act::ReadAll,
                ],
            },
        ),
        (
            "bits-go-while-the-array-stays-dirty",
            Run {
                plan: Plan { policy: Policy::Bitmap(4096), ..plan() },
                acts: (0..12).flat_map(lasting).collect(),
            },
        ),
    ]
}

/// Scenarios of members that fail to write bits.
fn of_bits() -> Vec<(&'static str, Run)> {
    // Whole stripes of six blocks, so that data follow the four writes of a bit at once. The superblocks do not know yet that the
    // member failed as the power does: it is a member at the next start, the first of the newest, and its bitmap counts.
    let fails = |step: u64| {
        [write(0, 6), Act::Drain, Act::WriteFault(0)]
            .into_iter()
            .chain([Act::Write { lba: 6 + step % 7 * 6, blocks: 6, durable: true }])
            .chain([Act::Wait { nanos: 1_000_000_000, events: 4 + step % 3 }, Act::Crash, Act::Resync])
            .chain([Act::Wait { nanos: 30_000_000_000, events: 4000 }, Act::Stop, Act::ReadAll])
    };
    let plan = Plan { policy: Policy::Bitmap(4096), ..plan() };
    vec![("a-member-fails-the-write-of-a-bit", Run { plan, acts: (0..21).flat_map(fails).collect() })]
}

/// Scenarios with bits, and with members that fail.
fn of_members() -> Vec<(&'static str, Run)> {
    vec![
        (
            "bits-are-cleared-after-a-while-and-not-too-early",
            Run {
                plan: Plan { policy: Policy::Bitmap(4096), ..plan() },
                acts: vec![
                    write(0, 20),
                    Act::Wait { nanos: 30_000_000_000, events: 4000 },
                    write(7, 3),
                    Act::Wait { nanos: 1_000_000, events: 6 },
                    Act::Crash,
                    Act::Resync,
                    Act::Stop,
                ],
            },
        ),
        (
            "a-member-that-failed-a-write-comes-back",
            Run {
                plan: plan(),
                acts: vec![
                    write(0, 9),
                    Act::Drain,
                    Act::WriteFault(2),
                    write(0, 30),
                    Act::Drain,
                    Act::Stop,
                    Act::ReadAll,
                ],
            },
        ),
        // The failure was on no superblock until something was written: the next start believed the member again.
        (
            "a-member-is-taken-out-while-nothing-is-written",
            Run { plan: plan(), acts: vec![Act::Fail(1), Act::Stop, Act::ReadAll, write(0, 9), Act::Stop] },
        ),
        (
            "unreadable-rows-are-rebuilt",
            Run {
                plan: Plan { level: 6, members: 5, ..plan() },
                acts: vec![
                    write(0, 30),
                    Act::Drain,
                    Act::Spoil { member: 0, row: 3 },
                    Act::Spoil { member: 1, row: 3 },
                    Act::Spoil { member: 3, row: 4 },
                    write(9, 1),
                    Act::ReadAll,
                    Act::Die(4),
                    write(8, 2),
                    Act::ReadAll,
                ],
            },
        ),
        (
            "trims-of-whole-stripes-and-parts",
            Run {
                plan: plan(),
                acts: vec![
                    write(0, 48),
                    Act::Drain,
                    Act::Trim { lba: 3, blocks: 40, durable: true },
                    Act::Drain,
                    Act::Crash,
                    Act::ReadAll,
                    Act::Resync,
                    Act::Stop,
                ],
            },
        ),
    ]
}
