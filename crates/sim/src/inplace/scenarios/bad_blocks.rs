//! Scenarios of sectors that members list as bad.

use super::{Act, Plan, Policy, Run, plan, write};

/// Time without writes after which an array is clean.
const CLEAN: Act = Act::Wait { nanos: 300_000_000, events: 40_000 };

fn run(plan: Plan, acts: impl IntoIterator<Item = Act>) -> Run {
    Run { plan, acts: acts.into_iter().collect() }
}

fn soon(nanos: u64) -> Act {
    Act::Wait { nanos, events: 400 }
}

/// All of them. Of the first stripe, members 0 to 2 have the data, rows 0 and 1 of member 0 are blocks 0 and 1, and member 3 has P.
pub(super) fn all() -> Vec<(&'static str, Run)> {
    let heals = |spoilt: usize, rebuilt: usize, step: u64| {
        [write(0, 6), Act::Drain, CLEAN, Act::Spoil { member: spoilt, row: 0 }, Act::Fail(rebuilt)]
            .into_iter()
            .chain([Act::Add(rebuilt), Act::Rebuild, Act::ReadAll, write(0, 1), Act::Drain])
            .chain([soon(step * 50_000), Act::Crash, Act::ReadAll, Act::Resync, Act::Stop, Act::ReadAll])
    };
    let cut = |step: u64| {
        let row = step % 16;
        [Act::Scar { member: 1, row }, write(row, 20), write(30, 9), soon(step * 90_000), Act::Crash]
            .into_iter()
            .chain([Act::ReadAll, Act::Resync, write(row, 20), Act::Drain, CLEAN, Act::Stop, Act::ReadAll])
    };
    // Rows 0 to 3 of member 1 are blocks 4 to 7: the trim fails there, and lists all of them.
    let cleared = |step: u64| {
        [write(0, 12), Act::Flush, Act::Drain, Act::Scar { member: 1, row: 3 }]
            .into_iter()
            .chain([Act::Trim { lba: 0, blocks: 12, durable: true }, Act::Drain, write(4, 1)])
            .chain([soon(step % 8 * 40_000), write(5, 1), soon(step / 8 * 60_000), write(6, 1)])
            .chain([soon(step * 25_000), Act::Crash, Act::ReadAll, Act::Resync, Act::ReadAll, Act::Stop])
    };
    let degraded = || Plan { level: 6, members: 5, ..plan() };
    vec![
        (
            "a-sector-that-cannot-be-written-is-listed",
            run(
                degraded(),
                [write(0, 40), Act::Drain, Act::Scar { member: 1, row: 3 }, Act::Scar { member: 2, row: 4 }]
                    .into_iter()
                    .chain([write(0, 40), Act::Drain, Act::ReadAll, Act::Scrub { repairs: true }, CLEAN])
                    .chain([Act::Stop, Act::ReadAll, Act::Die(0), Act::ReadAll, write(3, 20), Act::Drain])
                    .chain([Act::ReadAll]),
            ),
        ),
        // What was written while members were flushed is not durable: it stays on the list, or a crash brings back what was there.
        (
            "crashes-as-listed-rows-are-written",
            run(
                Plan { chunk: 32, stripes: 8, latency: 100_000, policy: Policy::Bitmap(4096), ..plan() },
                (0..64).flat_map(cleared),
            ),
        ),
        ("crashes-as-a-sector-is-listed", run(plan(), (0..24).flat_map(cut))),
        // A row that lacks a block and its parity is whole once the block is written, and stays so.
        (
            "a-write-heals-a-block-that-was-lost-with-its-parity",
            run(plan(), (0..12).flat_map(|step| heals(0, 3, step))),
        ),
        (
            "a-write-heals-a-block-on-a-member-that-was-rebuilt",
            run(
                Plan { policy: Policy::Bitmap(4096), latency: 200_000, ..plan() },
                (0..12).flat_map(|step| heals(3, 0, step)),
            ),
        ),
        // What was a bad block and is none any more is nowhere said to be one.
        (
            "lists-are-empty-when-all-was-written",
            run(
                plan(),
                heals(1, 2, 3)
                    .chain([write(0, 48), Act::Drain, Act::Stop, Act::ReadAll, Act::Stop, Act::Die(3)])
                    .chain([Act::ReadAll]),
            ),
        ),
    ]
}
