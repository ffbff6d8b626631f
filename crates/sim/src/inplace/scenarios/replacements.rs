//! Scenarios of members that are replaced while they work.

use super::{Act, Plan, Policy, Run, plan, write};
use crate::inplace::act::Loss;
use array::inplace::window::Manner;

fn pause(nanos: u64) -> Act {
    Act::Wait { nanos, events: 400 }
}

fn replace(member: usize) -> Act {
    Act::Replace { member, by_spare: false }
}

/// Writes all over a volume of so many blocks, some at a time.
fn writes(blocks: u64) -> impl Iterator<Item = Act> {
    (0..60).flat_map(move |index| [write(index * 7 % (blocks - 3), 1 + index % 3), pause(60_000)])
}

fn run(plan: Plan, acts: impl IntoIterator<Item = Act>) -> Run {
    Run { plan, acts: acts.into_iter().collect() }
}

/// RAID-6 of five members.
fn of_two_parities() -> Plan {
    Plan { level: 6, members: 5, ..plan() }
}

/// Copies that take a minute and more.
fn slow(policy: Policy) -> Plan {
    Plan { stripes: 64, rate: Some(8 << 10), policy, latency: 400_000, ..plan() }
}

/// All of them.
pub(super) fn all() -> Vec<(&'static str, Run)> {
    of_writes().into_iter().chain(of_losses()).chain(of_crashes()).collect()
}

fn of_writes() -> Vec<(&'static str, Run)> {
    let begin = [write(0, 40), Act::Drain, replace(1)];
    let trim = Act::Trim { lba: 3, blocks: 30, durable: false };
    let end = || [Act::Rebuild, Act::Drain, Act::Stop, Act::ReadAll, Act::Die(3), Act::ReadAll];
    let by_spare = [write(0, 40), Act::Spare, Act::Drain, Act::Replace { member: 1, by_spare: true }];
    vec![
        // md's e7c0c3fa2928: the replacement completes, and a write reaches neither.
        (
            "writes-reach-a-member-and-its-replacement",
            run(plan(), begin.into_iter().chain(writes(48)).chain([trim]).chain(writes(48)).chain(end())),
        ),
        (
            "a-spare-replaces-a-member-that-works",
            run(
                Plan { policy: Policy::Bitmap(4096), ..plan() },
                by_spare.into_iter().chain(writes(48)).chain(end()),
            ),
        ),
        // Of a member that cannot return a row, the row is decoded; where another is gone it is listed on the replacement alone.
        (
            "a-row-that-cannot-be-copied-is-listed",
            run(
                plan(),
                [
                    write(0, 48),
                    Act::Drain,
                    Act::Spoil { member: 1, row: 3 },
                    Act::Spoil { member: 1, row: 9 },
                    Act::Fail(0),
                    replace(1),
                    Act::Rebuild,
                    Act::ReadAll,
                    write(0, 24),
                    Act::Drain,
                    Act::ReadAll,
                    Act::Add(0),
                    Act::Rebuild,
                    Act::Stop,
                    Act::ReadAll,
                ],
            ),
        ),
    ]
}

fn of_losses() -> Vec<(&'static str, Run)> {
    let member_fails = |step: u64| {
        [replace(1), pause(40_000 * step), Act::Fail(1), write(step % 20, 5), Act::Drain, Act::ReadAll]
            .into_iter()
            .chain([Act::Rebuild, Act::Drain, Act::Stop, Act::ReadAll])
    };
    // A new array gets some updates first, so that none comes before the one that names the replacement.
    let idles = Act::Wait { nanos: 400_000_000, events: 400 };
    let begins = [write(0, 48), Act::Drain, idles, write(0, 48), Act::Drain];
    let joins = [replace(1), Act::Wait { nanos: 100_000_000, events: 2 }];
    let fails = [Act::Fail(1), write(0, 3), Act::Wait { nanos: 100_000_000, events: 8 }];
    let replacement_fails = |step: u64| {
        let how = [Loss::Fails, Loss::Dies, Loss::TakenOut][usize::try_from(step % 3).expect("less than 3")];
        [replace(1), pause(60_000 * step), Act::LoseReplacement { member: 1, how }].into_iter().chain([
            write(0, 20),
            Act::Drain,
            Act::Crash,
            Act::ReadAll,
            Act::Resync,
            Act::Rebuild,
            Act::Stop,
        ])
    };
    // Rows that it cannot return are read one by one when it is gone: the copy has its place then, and lacks them.
    let fails_beside_a_read = |stripe: u64| {
        let spoils = (0..4).map(move |row| Act::Spoil { member: 1, row: 8 * stripe + row });
        let idles = Act::Wait { nanos: 400_000_000, events: 400 };
        let reads = [write(24 * stripe, 4), Act::Fail(1), Act::Drain, Act::ReadAll];
        let heal = [Act::Rebuild, Act::Drain, Act::Stop, Act::ReadAll];
        [replace(1), idles].into_iter().chain(spoils).chain(reads).chain(heal)
    };
    vec![
        (
            "a-member-fails-beside-a-read-of-it-and-its-copy-steps-in",
            run(
                Plan { chunk: 64, window: Manner::Paper, ..slow(Policy::Resync) },
                [write(0, 240), Act::Drain].into_iter().chain((0..10).flat_map(fails_beside_a_read)),
            ),
        ),
        (
            "a-member-fails-while-it-is-replaced",
            run(
                Plan { latency: 200_000, ..plan() },
                [write(0, 48), Act::Drain].into_iter().chain((0..24).flat_map(member_fails)),
            ),
        ),
        // The role was not vacant: that the member failed was on no superblock when the write was answered.
        (
            "a-member-fails-as-its-replacement-joins",
            run(
                Plan { seed: 5, latency: 200_000, is_volatile: false, ..plan() },
                begins.into_iter().chain(joins).chain(fails).chain([Act::Crash, Act::ReadAll]),
            ),
        ),
        (
            "a-replacement-is-lost-and-its-member-goes-on",
            run(
                Plan { latency: 200_000, policy: Policy::Bitmap(4096), ..plan() },
                [write(0, 48), Act::Drain].into_iter().chain((0..24).flat_map(replacement_fails)),
            ),
        ),
    ]
}

/// A row that a crash left torn is copied, and a newcomer joins meanwhile: the copy does not make its parities right.
fn joins_beside_a_copy() -> Run {
    let plan = Plan {
        seed: 40_000_030_879,
        layout: 1,
        members: 5,
        chunk: 256,
        stripes: 2,
        data_offset: 239,
        latency: 80_000,
        cache_bytes: 0,
        ..plan()
    };
    let read = Act::Read { lba: 85, blocks: 51 };
    let first = [Act::Scar { member: 4, row: 13 }, Act::Spoil { member: 0, row: 30 }, Act::Spare, replace(0)];
    let second =
        [write(229, 3), Act::Wait { nanos: 30_000_000_000, events: 2000 }, replace(0), write(207, 1)];
    let third = [Act::Rebuild, write(247, 2), replace(0), read, write(214, 15)];
    let torn = [Act::Wait { nanos: 2_097_152, events: 277 }, write(59, 6)];
    let lost = [Act::Wait { nanos: 131_072, events: 250 }, Act::Crash, Act::Die(4), Act::Rebuild];
    run(plan, first.into_iter().chain(second).chain(third).chain(torn).chain(lost))
}

fn of_crashes() -> Vec<(&'static str, Run)> {
    let completes = |step: u64| {
        [replace(0), replace(3), Act::Wait { nanos: 100_000_000, events: step }, Act::Crash]
            .into_iter()
            .chain([Act::Resync, Act::Rebuild, write(step % 9, 9), Act::Drain, Act::ReadAll])
    };
    // One is whole, the other is not: what the second one says of the first member comes last.
    let completes_beside_another = |step: u64| {
        [replace(0), Act::Wait { nanos: 2_000_000, events: 20 + step % 30 }, replace(3)]
            .into_iter()
            .chain([Act::Wait { nanos: 30_000_000_000, events: 100 + 4 * step }, Act::Crash])
            .chain([Act::Resync, Act::Rebuild, write(step % 9, 9), Act::Drain, Act::ReadAll])
    };
    let differs = |step: u64| {
        [replace(1), write(0, 9), Act::Drain, Act::Wait { nanos: 40_000_000_000, events: 20_000 }]
            .into_iter()
            .chain([write(step % 9, 12), pause(400_000 + 100_000 * step), Act::Crash])
            .chain([Act::Resync, Act::Stop, Act::ReadAll])
    };
    let by_regions = Plan { is_volatile: false, ..slow(Policy::Bitmap(4096)) };
    // It fails as it is to be told that the array is dirty, and still says what it said of a clean one.
    let untold = |step: u64| {
        let loss = Act::LoseReplacement { member: 1, how: Loss::Fails };
        let lost = [replace(1), Act::Wait { nanos: 400_000_000, events: 400 }, loss, write(step % 40, 2)];
        let crash = [Act::Wait { nanos: 40_000_000, events: 2 + step }, Act::Crash, Act::ReadAll];
        lost.into_iter().chain(crash).chain([Act::Resync, Act::Drain])
    };
    vec![
        ("a-newcomer-joins-beside-the-copy-of-a-torn-row", joins_beside_a_copy()),
        // Nobody can be three updates behind the first one.
        (
            "a-member-of-a-new-array-is-replaced",
            run(
                Plan { is_clean: false, ..slow(Policy::Resync) },
                [
                    replace(1),
                    Act::Wait { nanos: 40_000_000, events: 40 },
                    Act::Crash,
                    Act::Resync,
                    Act::ReadAll,
                ],
            ),
        ),
        (
            "a-replacement-fails-before-it-is-told-that-the-array-is-dirty",
            run(
                Plan { latency: 300_000, rate: Some(64 << 10), ..plan() },
                [write(0, 48), Act::Drain].into_iter().chain((0..30).flat_map(untold)),
            ),
        ),
        // Two were recorded as whole at once: the one that was told first said of the other that it was the member.
        (
            "replacements-complete-as-the-power-fails",
            run(
                Plan { latency: 300_000, stripes: 4, ..of_two_parities() },
                [write(0, 24), Act::Drain].into_iter().chain((1..100).flat_map(completes)),
            ),
        ),
        (
            "a-replacement-completes-beside-another-as-the-power-fails",
            run(
                Plan { seed: 3, latency: 300_000, stripes: 24, rate: Some(256 << 10), ..of_two_parities() },
                [write(0, 24), Act::Drain].into_iter().chain((1..56).flat_map(completes_beside_another)),
            ),
        ),
        (
            "a-crash-leaves-a-row-otherwise-on-a-replacement",
            run(slow(Policy::Resync), (0..24).flat_map(differs)),
        ),
        ("a-crash-leaves-a-region-otherwise-on-a-replacement", run(by_regions, (0..24).flat_map(differs))),
    ]
}
