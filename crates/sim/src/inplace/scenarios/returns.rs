//! Scenarios of members that come back after they missed writes.

use super::{Act, Plan, Policy, Run, plan, write};

/// Time without writes after which an array is clean.
const CLEAN: Act = Act::Wait { nanos: 300_000_000, events: 40_000 };
/// Time after which bits that may go are gone.
const BITS_GO: Act = Act::Wait { nanos: 30_000_000_000, events: 40_000 };

fn with_bitmap() -> Plan {
    Plan { policy: Policy::Bitmap(4096), stripes: 32, ..plan() }
}

fn run(plan: Plan, acts: impl IntoIterator<Item = Act>) -> Run {
    Run { plan, acts: acts.into_iter().collect() }
}

fn pause(nanos: u64) -> Act {
    Act::Wait { nanos, events: 400 }
}

/// All of them.
pub(super) fn all() -> Vec<(&'static str, Run)> {
    beside_writes().into_iter().chain(of_goings()).chain(of_several()).collect()
}

/// What happens when all has come back.
fn end() -> [Act; 6] {
    [Act::Rebuild, Act::Drain, Act::Stop, Act::ReadAll, Act::Die(3), Act::ReadAll]
}

/// One that comes back beside writes and crashes.
fn beside_writes() -> Vec<(&'static str, Run)> {
    let meets = |step: u64| {
        let during = (0..6).map(move |index| write((step * 13 + index * 29) % 180, 1 + index % 3));
        [Act::Fail(1), write(step, 2), pause(4_000_000), Act::Return(1)]
            .into_iter()
            .chain(during)
            .chain([pause(step * 40_000)])
            .chain((0..6).map(move |index| write((step * 7 + index * 31) % 180, 1)))
            .chain([Act::Rebuild, CLEAN])
    };
    let cut = |step: u64| {
        [
            write(0, 60),
            Act::Drain,
            BITS_GO,
            Act::Fail(1),
            write(step * 4, 9),
            write(100, 2),
            Act::Drain,
            CLEAN,
        ]
        .into_iter()
        .chain([Act::Return(1), Act::Wait { nanos: step * 60_000, events: 1 + step }, Act::Crash])
        .chain([Act::ReadAll, Act::Return(1), Act::Rebuild, Act::Drain, Act::Stop, Act::ReadAll])
    };
    vec![
        (
            "a-member-comes-back-beside-writes",
            run(
                with_bitmap(),
                [write(0, 190), Act::Drain, BITS_GO, Act::Fail(1), write(2, 9), write(90, 3), Act::Return(1)]
                    .into_iter()
                    .chain(end()),
            ),
        ),
        // What is in flight as it comes back is written without it.
        (
            "writes-meet-a-member-that-comes-back",
            run(Plan { latency: 400_000, ..with_bitmap() }, (0..24).flat_map(meets)),
        ),
        ("crashes-as-a-member-comes-back", run(with_bitmap(), (0..24).flat_map(cut))),
    ]
}

/// Ways in which it went.
fn of_goings() -> Vec<(&'static str, Run)> {
    vec![
        // It missed a start: nothing was recorded about it until something is written.
        (
            "a-member-that-missed-a-start-comes-back",
            run(
                with_bitmap(),
                [write(0, 60), Act::Drain, BITS_GO, Act::Die(2), Act::Stop, Act::Revive, Act::Return(2)]
                    .into_iter()
                    .chain([write(20, 9), Act::Rebuild, Act::Stop, Act::Die(2), Act::Stop, write(5, 20)])
                    .chain([Act::Drain, Act::Revive, Act::Return(2)])
                    .chain(end()),
            ),
        ),
        // Its successor took its place, and bits were cleared: it lacks more than they say.
        (
            "a-member-whose-successor-failed-is-too-old",
            run(
                with_bitmap(),
                [write(0, 60), Act::Drain, BITS_GO, Act::Fail(1), Act::Add(1), write(7, 9), Act::Rebuild]
                    .into_iter()
                    .chain([write(70, 9), Act::Drain, BITS_GO, Act::Die(1), write(3, 1), Act::Drain])
                    .chain([Act::Return(1), Act::Rebuild, Act::Add(1)])
                    .chain(end()),
            ),
        ),
        // Kernel 1a855a060665: one that was being rebuilt was taken back as whole.
        (
            "a-member-that-was-being-rebuilt-does-not-come-back",
            run(
                Plan { rate: Some(64 << 10), ..with_bitmap() },
                [
                    write(0, 190),
                    Act::Drain,
                    BITS_GO,
                    Act::Fail(1),
                    Act::Add(1),
                    pause(600_000_000),
                    Act::Fail(1),
                ]
                .into_iter()
                .chain([write(3, 9), Act::Drain, Act::Return(1), pause(2_000_000_000), Act::Drain])
                .chain([Act::Stop, Act::ReadAll]),
            ),
        ),
    ]
}

/// Goings and comings of more than one.
fn of_several() -> Vec<(&'static str, Run)> {
    vec![
        // Brought up to date by half, it fails again, and the bits are still there.
        (
            "a-member-goes-again-as-it-comes-back",
            run(
                Plan { rate: Some(16 << 10), ..with_bitmap() },
                [write(0, 190), Act::Drain, BITS_GO, Act::Fail(1), write(3, 90), Act::Drain, Act::Return(1)]
                    .into_iter()
                    .chain([pause(900_000_000), Act::WriteFault(1), write(150, 9), Act::Drain, BITS_GO])
                    .chain([Act::Return(1), pause(700_000_000), write(1, 5), Act::Fail(1), BITS_GO])
                    .chain([Act::Return(1)])
                    .chain(end()),
            ),
        ),
        // RAID-6: one comes back, the other is new.
        (
            "one-comes-back-beside-one-that-is-new",
            run(
                Plan { level: 6, members: 5, ..with_bitmap() },
                [write(0, 90), Act::Drain, BITS_GO, Act::Fail(0), write(5, 20), Act::Fail(3), write(50, 9)]
                    .into_iter()
                    .chain([Act::Drain, Act::Add(3), pause(1_000_000), Act::Return(0), write(1, 60)])
                    .chain([Act::Rebuild, Act::Drain, Act::Stop, Act::ReadAll, Act::Die(1), Act::Die(2)])
                    .chain([Act::ReadAll]),
            ),
        ),
    ]
}
