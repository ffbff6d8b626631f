//! Scenarios of members that come in the place of others and are rebuilt.

use super::{Act, Plan, Policy, Run, plan, write};

/// Time without writes after which an array is clean.
const CLEAN: Act = Act::Wait { nanos: 300_000_000, events: 40_000 };

fn pause(nanos: u64) -> Act {
    Act::Wait { nanos, events: 400 }
}

/// RAID-6 of five members.
fn of_two_parities() -> Plan {
    Plan { level: 6, members: 5, stripes: 24, ..plan() }
}

/// Writes all over a volume of so many blocks, some at a time.
fn writes(blocks: u64) -> impl Iterator<Item = Act> {
    (0..60).flat_map(move |index| [write(index * 7 % (blocks - 3), 1 + index % 3), pause(60_000)])
}

/// All of them.
pub(super) fn all() -> Vec<(&'static str, Run)> {
    of_one().into_iter().chain(of_two()).chain(of_failures()).chain(of_crashes()).collect()
}

fn run(plan: Plan, acts: impl IntoIterator<Item = Act>) -> Run {
    Run { plan, acts: acts.into_iter().collect() }
}

/// One member that is replaced.
fn of_one() -> Vec<(&'static str, Run)> {
    let end = || [Act::Rebuild, Act::Drain, Act::Stop, Act::ReadAll, Act::Die(3), Act::ReadAll];
    let begin = || [write(0, 40), Act::Drain, Act::Fail(1), write(2, 9), Act::Add(1)];
    let ahead = |round: u64| {
        [Act::Fail(1), Act::Add(1)]
            .into_iter()
            .chain((0..60).flat_map(move |index| [write((index * 24 + round) % 168, 24), pause(120_000)]))
            .chain([Act::Rebuild, Act::Drain, Act::Stop])
    };
    vec![
        (
            "a-member-is-replaced-beside-writes",
            run(plan(), begin().into_iter().chain(writes(48)).chain(end())),
        ),
        // A row was rebuilt while a strip before it was in work: a write did not keep it up to date, and then it counted.
        (
            "writes-meet-rows-that-are-rebuilt-before-others",
            run(Plan { stripes: 64, chunk: 8, latency: 400_000, ..plan() }, (0..12).flat_map(ahead)),
        ),
        // What cannot be decoded does not count as rebuilt; a write makes it whole.
        (
            "a-row-that-cannot-be-rebuilt-waits-for-a-write",
            run(
                Plan { has_lists: false, ..plan() },
                [write(0, 48), Act::Drain, Act::Spoil { member: 0, row: 3 }, Act::Fail(1), Act::Add(1)]
                    .into_iter()
                    .chain([
                        Act::Rebuild,
                        Act::ReadAll,
                        CLEAN,
                        Act::Stop,
                        Act::ReadAll,
                        Act::Rebuild,
                        write(0, 24),
                        Act::Drain,
                    ])
                    .chain(end()),
            ),
        ),
        // A read meets a row that is stuck, and is answered when a write has healed it: it may fail.
        ("a-read-fails-as-a-write-heals-its-row", healed_beside_a_read()),
        // Of an array whose first resync did not end, parities that are new can be had, and data cannot.
        (
            "a-member-is-replaced-after-it-died-during-the-first-resync",
            run(
                Plan { is_clean: false, latency: 200_000, stripes: 24, ..plan() },
                [write(40, 2), Act::Drain, Act::Die(1), pause(1_000_000), Act::Add(1)]
                    .into_iter()
                    .chain([Act::Rebuild, Act::ReadAll, write(0, 144), Act::Drain, Act::Rebuild, Act::Drain])
                    .chain([Act::Resync, Act::Stop, Act::ReadAll]),
            ),
        ),
    ]
}

/// As a seed drew it.
fn healed_beside_a_read() -> Run {
    run(
        Plan {
            seed: 883_006_210,
            layout: 4,
            members: 3,
            chunk: 8,
            stripes: 57,
            data_offset: 674,
            policy: Policy::Ppl(600),
            is_volatile: false,
            latency: 160_000,
            has_lists: false,
            cache_bytes: 0,
            ..plan()
        },
        [
            Act::Spoil { member: 1, row: 3 },
            Act::WriteFault(2),
            write(106, 5),
            write(98, 6),
            Act::Wait { nanos: 33_554_432, events: 12 },
            Act::Add(2),
            write(96, 15),
            Act::Rebuild,
            write(88, 1),
            Act::Write { lba: 0, blocks: 1, durable: true },
            Act::Read { lba: 4, blocks: 28 },
            write(1, 9),
        ],
    )
}

/// RAID-6 without two members.
fn of_two() -> Vec<(&'static str, Run)> {
    let without_two = || [write(0, 72), Act::Drain, Act::Fail(0), Act::Fail(3), write(5, 20), Act::Add(0)];
    let at_once = |round: u64| {
        [Act::Fail(0), Act::Fail(3), Act::Add(0), pause(300_000 + round * 90_000), Act::Add(3)]
            .into_iter()
            .chain([write(round, 3), Act::Rebuild, Act::Stop])
    };
    let read_before = |round: u64| {
        [Act::Fail(0), Act::Add(0), pause(60_000 + round * 30_000), Act::Fail(3), Act::Add(3)]
            .into_iter()
            .chain([Act::Rebuild, Act::Drain, Act::Stop])
    };
    vec![
        // Pieces of the second one were read for the first one's rebuild before it failed: its follower gets them.
        (
            "a-member-is-replaced-while-another-is-rebuilt-from-it",
            run(
                Plan { latency: 400_000, chunk: 8, stripes: 96, ..of_two_parities() },
                std::iter::once(write(0, 90)).chain((0..40).flat_map(read_before)).chain([Act::ReadAll]),
            ),
        ),
        // md once lost the block that was recovered.
        (
            "writes-meet-the-rebuild-of-a-doubly-degraded-array",
            run(
                Plan { rate: Some(64 << 10), ..of_two_parities() },
                without_two().into_iter().chain(writes(72)).chain([Act::ReadAll]).chain(writes(70)).chain([
                    Act::Rebuild,
                    Act::ReadAll,
                    Act::Die(2),
                    Act::ReadAll,
                ]),
            ),
        ),
        // The second one joins while strips are in work that are written to the first one alone.
        (
            "two-members-are-rebuilt-at-once",
            run(Plan { latency: 400_000, ..of_two_parities() }, (0..20).flat_map(at_once)),
        ),
    ]
}

/// Members that fail meanwhile.
fn of_failures() -> Vec<(&'static str, Run)> {
    let again = |fault: Act| {
        [Act::Add(1), pause(2_000_000), fault, write(4, 30), pause(3_000_000), write(20, 3), Act::Drain]
    };
    vec![
        (
            "a-newcomer-fails-and-another-comes",
            run(
                Plan { stripes: 64, ..plan() },
                [write(0, 40), Act::Fail(1)]
                    .into_iter()
                    .chain(again(Act::WriteFault(1)))
                    .chain(again(Act::Die(1)))
                    .chain(again(Act::Fail(1)))
                    .chain([Act::Add(1), Act::Rebuild, Act::Stop, Act::ReadAll, Act::Die(2), Act::ReadAll]),
            ),
        ),
        (
            "another-member-fails-in-a-rebuild",
            run(
                of_two_parities(),
                [write(0, 72), Act::Fail(0), Act::Add(0), pause(1_500_000), Act::Die(2)]
                    .into_iter()
                    .chain(writes(72))
                    .chain([Act::ReadAll, Act::Rebuild, Act::Add(2), Act::Rebuild, Act::Stop, Act::ReadAll])
                    .chain([Act::Die(1), Act::Die(4), Act::ReadAll]),
            ),
        ),
        (
            "a-member-that-the-array-needs-dies-in-a-rebuild",
            run(
                Plan { stripes: 64, rate: Some(64 << 10), ..plan() },
                [write(0, 90), Act::Fail(0), Act::Add(0), pause(2_500_000), CLEAN, Act::Die(2), write(0, 4)]
                    .into_iter()
                    .chain([Act::ReadAll, Act::Drain]),
            ),
        ),
    ]
}

/// Crashes.
fn of_crashes() -> Vec<(&'static str, Run)> {
    // A member has 64 KiB: a rebuild takes 64 s, and is recorded after 30.
    let slow = || Plan { rate: Some(1 << 10), policy: Policy::Bitmap(4096), ..plan() };
    let crash_at = |nanos: u64| {
        [write(0, 48), Act::Drain, Act::Fail(1), Act::Add(1), write(3, 9), Act::Drain, CLEAN]
            .into_iter()
            .chain([pause(nanos), Act::Crash, Act::ReadAll, CLEAN, pause(nanos), Act::Stop, Act::ReadAll])
            .chain([Act::Rebuild, Act::Stop])
    };
    let twice = |step: u64| {
        let soon = Act::Wait { nanos: step * 9_000, events: 40 };
        [write(step % 40, 1), soon.clone(), Act::Crash, soon, Act::Crash, Act::Resync, Act::Drain, CLEAN]
    };
    let pages = |step: u64| {
        let soon = |nanos| Act::Wait { nanos, events: 40 };
        let places = (0..5).map(move |index| write((step * 11 + index * 10) % 190, 1));
        places.chain([
            soon(step % 13 * 40_000),
            Act::Crash,
            soon(step % 17 * 60_000),
            Act::Crash,
            Act::Resync,
            CLEAN,
            Act::Stop,
        ])
    };
    let joining = |step: u64| {
        [write(0, 20), Act::Drain, CLEAN, Act::Fail(1), pause(5_000_000), Act::Add(1)]
            .into_iter()
            .chain([Act::Wait { nanos: step * 20_000, events: 60 }, Act::Crash, Act::ReadAll, Act::Add(1)])
            .chain([Act::Rebuild, Act::Stop])
    };
    vec![
        (
            "a-rebuild-goes-on-after-a-crash",
            run(slow(), [3, 31, 45, 58].into_iter().flat_map(|seconds| crash_at(seconds * 1_000_000_000))),
        ),
        (
            "crashes-as-a-member-joins",
            run(Plan { policy: Policy::Bitmap(4096), ..plan() }, (0..40).flat_map(joining)),
        ),
        // The second crash left members two updates behind, which missed nothing.
        ("two-crashes-in-the-first-records", run(plan(), (0..40).flat_map(twice))),
        // A page that was cut off reached some members only.
        (
            "two-crashes-as-bits-are-set",
            run(
                Plan { policy: Policy::Bitmap(4096), stripes: 64, latency: 200_000, ..plan() },
                (0..60).flat_map(pages),
            ),
        ),
        // The one that died is one update behind the record that names its successor.
        (
            "a-member-comes-back-beside-its-successor",
            run(
                slow(),
                [write(0, 20), Act::Drain, CLEAN, Act::Die(1), Act::Crash, Act::Add(1), pause(1_000_000_000)]
                    .into_iter()
                    .chain([Act::Revive, Act::Crash, Act::ReadAll, Act::Rebuild, write(0, 9), Act::Stop])
                    .chain([Act::ReadAll]),
            ),
        ),
    ]
}
