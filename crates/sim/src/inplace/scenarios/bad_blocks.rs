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
    [of_sectors(), of_flushes(), of_stuck_rows(), of_losses()].concat()
}

/// What is lost and stays so when members were rebuilt.
fn of_losses() -> Vec<(&'static str, Run)> {
    let of_two_parities = || Plan { level: 6, members: 5, ..plan() };
    let end = |member| [Act::Drain, Act::Add(member), Act::Rebuild];
    vec![
        // Of stripe 4, members 2 to 4 have the data. Its parities were never right: the block of member 4 is lost and listed on the new
        // one, and that of member 3 cannot be decoded though it was written.
        (
            "a-row-in-doubt-loses-a-member-beside-one-that-lists-it",
            run(
                Plan { is_clean: false, ..of_two_parities() },
                [Act::Die(4), write(26, 1)].into_iter().chain(end(4)).chain([
                    Act::Fail(3),
                    Act::Read { lba: 26, blocks: 1 },
                    Act::Drain,
                ]),
            ),
        ),
        // Members 3 and 4 have the parities. Each fails one row of a stripe that is written, and both rows when it is zeroed.
        (
            "a-trim-fails-in-rows-that-were-written-in-part",
            run(
                Plan { layout: 5, ..of_two_parities() },
                [Act::Die(0), Act::Scar { member: 3, row: 0 }, Act::Scar { member: 4, row: 1 }, write(0, 6)]
                    .into_iter()
                    .chain([Act::Drain, Act::Trim { lba: 0, blocks: 6, durable: false }])
                    .chain(end(0))
                    .chain([Act::ReadAll]),
            ),
        ),
    ]
}

/// Sectors that cannot be written, and writes that heal them.
fn of_sectors() -> Vec<(&'static str, Run)> {
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

/// What happens while lists are written.
fn of_flushes() -> Vec<(&'static str, Run)> {
    // P of row 0 lies on member 3.
    let held = |step: u64| {
        [write(0, 1), Act::Wait { nanos: step * 20_000, events: 40 }, Act::Die(0), Act::Drain, Act::Add(0)]
            .into_iter()
            .chain([Act::Rebuild, Act::Read { lba: 0, blocks: 1 }, Act::Drain])
    };
    let flushed = |step: u64| {
        [Act::Write { lba: 0, blocks: 1, durable: true }, soon(step * 10_000), Act::Fail(0), Act::Drain]
            .into_iter()
            .chain([Act::Add(0), Act::Rebuild, Act::Read { lba: 0, blocks: 1 }, Act::Drain])
    };
    // All data lie on member 0, which is replaced before its parities were ever right: all of its rows are listed.
    let mirrored = || Plan {
        layout: 5,
        members: 2,
        chunk: 32,
        stripes: 25,
        policy: Policy::Bitmap(32 << 10),
        is_clean: false,
        ..plan()
    };
    let over_strips =
        |step: u64| [write(step * 4 % 92 + 2, 3), soon(300_000 + step % 16 * 50_000), Act::Crash];
    vec![
        // A parity was listed, and before a list said so the member went that had the block.
        (
            "a-member-dies-while-a-list-is-written",
            run(
                plan(),
                [write(0, 48), Act::Drain, CLEAN, Act::Scar { member: 3, row: 0 }]
                    .into_iter()
                    .chain((0..40).flat_map(held))
                    .chain([Act::Stop, Act::ReadAll]),
            ),
        ),
        // A row was listed, and before a write there was answered the member went that had the block.
        (
            "a-member-fails-before-a-listed-row-is-answered",
            run(
                plan(),
                [write(0, 48), Act::Drain, CLEAN, Act::Scar { member: 1, row: 0 }, write(2, 1), Act::Drain]
                    .into_iter()
                    .chain((0..40).flat_map(flushed))
                    .chain([Act::Stop, Act::ReadAll]),
            ),
        ),
        // A list was written without what was written after the flush before it had begun.
        (
            "a-write-meets-the-flush-before-a-list",
            run(
                mirrored(),
                [Act::Fail(0), Act::Add(0), Act::Rebuild]
                    .into_iter()
                    .chain((0..23).flat_map(over_strips))
                    .chain([Act::Stop, Act::ReadAll]),
            ),
        ),
    ]
}

/// Sectors that cannot be written, and are read as they were.
fn of_stuck_rows() -> Vec<(&'static str, Run)> {
    // The first block of each stripe, which lies on another member each time.
    let kept = |stripe: u64| {
        let member = usize::try_from((4 - stripe % 4) % 4).expect("four members");
        [CLEAN, Act::Stick { member, row: 2 * stripe }, write(6 * stripe, 1), soon(100_000 + 40_000 * stripe)]
            .into_iter()
            .chain([Act::Crash, Act::ReadAll, Act::Resync])
    };
    vec![
        // A row keeps what it held, and the power fails before a list says that it is old.
        (
            "a-row-keeps-what-it-held-as-the-power-fails",
            run(
                Plan { is_volatile: false, ..plan() },
                [write(0, 48), Act::Drain].into_iter().chain((0..8).flat_map(kept)).chain([Act::Stop]),
            ),
        ),
        // A row in doubt is computed from all of its data, and a member does not take what is written there.
        (
            "a-member-keeps-what-it-held-in-a-row-in-doubt",
            run(
                plan(),
                [write(0, 48), Act::Drain, CLEAN, Act::Stick { member: 0, row: 0 }, write(36, 1), Act::Drain]
                    .into_iter()
                    .chain([Act::Crash, write(0, 2), Act::Drain, Act::ReadAll, Act::Resync, Act::Stop]),
            ),
        ),
    ]
}
