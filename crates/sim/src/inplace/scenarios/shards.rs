//! Engines of several shards: strips that are lent, recalled and handed over, beside writes.

use super::{plan, write};
use crate::inplace::{Act, Plan, Policy, Run};
use block::md::policy::Wish;

/// Array of three shards, whose units are single stripes.
fn shared() -> Plan {
    Plan { shards: 3, unit_stripes: 1, latency: 200_000, policy: Policy::Bitmap(4096), ..plan() }
}

/// Writes of one block each, all over the volume and again in places.
fn writes(count: u64) -> impl Iterator<Item = Act> {
    (0..count).map(|number| write(number * 7 % 40, 1 + number % 3))
}

fn pause(events: u64) -> Act {
    Act::Wait { nanos: 10_000_000, events }
}

/// Writes, an act among them, and writes again; then the array is stopped and read.
fn among(acts: Vec<Act>) -> Vec<Act> {
    let mut all: Vec<Act> = writes(20).chain([pause(9)]).collect();
    for act in acts {
        all.push(act);
        all.extend(writes(15));
        all.push(pause(7));
    }
    all.extend([Act::Drain, Act::ReadAll, Act::Stop, Act::ReadAll]);
    all
}

/// All scenarios with their names.
pub(super) fn all() -> Vec<(&'static str, Run)> {
    let run = |plan: Plan, acts: Vec<Act>| Run { plan, acts };
    let crashes = (0..12).flat_map(|step| {
        let idle = Act::Wait { nanos: 30_000_000_000, events: 2_000 };
        [idle].into_iter().chain(writes(6)).chain([
            pause(3 + 5 * step),
            Act::Crash,
            Act::Resync,
            Act::ReadAll,
        ])
    });
    let fails = (0..6).flat_map(|step: usize| {
        let member = step % 4;
        writes(12)
            .chain([pause(5), Act::Die(member), write(3, 2), Act::Read { lba: 0, blocks: 30 }])
            .chain(writes(9))
            .chain([pause(40), Act::Drain, Act::Add(member), Act::Rebuild])
    });
    let spoils = (0..24).flat_map(|step| {
        let block = step % 12;
        [
            Act::Spoil { member: usize::try_from(step % 4).expect("few"), row: step % 16 },
            write(block, 1),
            Act::Read { lba: block / 2, blocks: 12 },
            write(block / 3, 2),
            pause(4),
        ]
    });
    vec![
        ("shards-and-the-power-fails", run(shared(), crashes.collect())),
        ("shards-and-members-that-die", run(shared(), fails.chain([Act::Stop, Act::ReadAll]).collect())),
        (
            "shards-and-sectors-that-cannot-be-read",
            run(shared(), spoils.chain([Act::Drain, Act::Stop]).collect()),
        ),
    ]
    .into_iter()
    .chain(of_acts())
    .chain(of_rows())
    .collect()
}

/// Scenarios of a few rows, again and again.
fn of_rows() -> Vec<(&'static str, Run)> {
    let run = |plan, acts: Vec<Act>| Run { plan, acts };
    // Rows that a shard keeps are written by the control shard meanwhile, and the other way round.
    let kept = (0..12).flat_map(|step| {
        let scrub = [Act::Drain, Act::Scrub { repairs: false }, pause(2 + step)];
        let then = [Act::Drain, Act::StopScrub, pause(60)];
        let one = |block: u64| write(2 * ((block + step) % 3), 1);
        [one(0)].into_iter().chain(scrub).chain([one(1)]).chain(then).chain([one(2), Act::Drain])
    });
    // What a member did not take is not what it returns afterwards.
    let unwritten = |member| {
        let hot = || (0..12).map(|block| write(block, 1)).chain([Act::Drain]);
        let acts = hot().chain([Act::WriteFault(member)]).chain(hot()).chain([Act::ReadAll]).chain(hot());
        run(Plan { has_lists: member % 2 == 0, ..shared() }, acts.chain([Act::ReadAll, Act::Stop]).collect())
    };
    // A block is decoded while another one of its row is written.
    let decoded = (0..100).flat_map(|step| {
        let wait = |events| Act::Wait { nanos: step * 2_000, events };
        let read = Act::Read { lba: 0, blocks: 1 };
        [Act::Spoil { member: 0, row: 0 }, read, wait(3), write(2, 1), wait(2), write(4, 1), Act::Drain]
    });
    // A block cannot be read while another one of its row is being written: commands take longer than what shards tell each other.
    let unread = (0..60).flat_map(|step| {
        [Act::Spoil { member: 1, row: 0 }, Act::Wait { nanos: 100_000 * step, events: 9 }, write(0, 1)]
            .into_iter()
            .chain([Act::Read { lba: 2, blocks: 1 }, Act::Drain])
    });
    let slow = Plan { latency: 3_000_000, ..shared() };
    // A member does not take a piece and returns what it held; a read that decodes another piece of the row is handed over during the
    // recall, before the round has ended. Of stripe 0, members 1 to 3 have the data, 4 has P and answers late.
    let stuck = (0..24).flat_map(|step| {
        let member = 1;
        let marred = [Act::Stick { member, row: 0 }, Act::Spoil { member: 2, row: 0 }, write(0, 1)];
        let late = Act::Hang { member: 4, nanos: 2_000_000 };
        let recalled =
            [pause(2 + step), late, Act::Scrub { repairs: false }, Act::Read { lba: 0, blocks: 4 }];
        let again = [Act::Drain, Act::StopScrub, Act::Fail(member), Act::Add(member), Act::Rebuild];
        marred.into_iter().chain(recalled).chain(again).chain(writes(9)).chain([Act::Drain])
    });
    let of_two_parities = || Plan { level: 6, members: 5, ..shared() };
    vec![
        ("shards-and-rows-that-are-kept", run(shared(), kept.chain([Act::Stop, Act::ReadAll]).collect())),
        ("shards-and-a-read-beside-a-write", run(slow, unread.chain([Act::Stop]).collect())),
        (
            "shards-and-a-member-that-keeps-what-it-held",
            run(of_two_parities(), writes(20).chain([Act::Drain]).chain(stuck).collect()),
        ),
        ("shards-and-a-piece-that-is-not-written", unwritten(1)),
        ("shards-and-a-piece-that-is-listed", unwritten(2)),
        ("shards-and-a-block-that-is-decoded", run(shared(), decoded.chain([Act::Stop]).collect())),
    ]
}

/// Scenarios of an act among writes.
fn of_acts() -> Vec<(&'static str, Run)> {
    let run = |acts| Run { plan: shared(), acts: among(acts) };
    vec![
        (
            "shards-and-rows-that-cannot-be-written",
            run(vec![Act::Scar { member: 2, row: 3 }, pause(100), Act::Crash, Act::Resync]),
        ),
        (
            "shards-and-scrubs",
            run(vec![
                Act::Scrub { repairs: true },
                Act::StopScrub,
                Act::Scrub { repairs: false },
                Act::Rot { rows: 3 },
            ]),
        ),
        (
            "shards-and-policies-that-change",
            run(vec![
                Act::Grow(Wish::Resync),
                Act::Grow(Wish::Bitmap(Some(4096))),
                pause(300),
                Act::Crash,
                Act::Resync,
            ]),
        ),
        (
            "shards-and-members-that-are-replaced",
            run(vec![
                Act::Replace { member: 1, by_spare: false },
                Act::Rebuild,
                Act::Fail(3),
                Act::Add(3),
                Act::Rebuild,
            ]),
        ),
    ]
}
