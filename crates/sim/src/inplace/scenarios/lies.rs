//! Scenarios of devices that lie, hang, end too early, or have each other's places.

use super::{plan, write};
use crate::inplace::{Act, Plan, Policy, Run};

fn lost(member: usize) -> Act {
    Act::Lie { member, astray: None }
}

fn astray(member: usize, rows: i64) -> Act {
    Act::Lie { member, astray: Some(rows) }
}

/// All of these scenarios.
pub(super) fn all() -> Vec<(&'static str, Run)> {
    of_lies().into_iter().chain(of_lies_beside_others()).chain(of_hangs()).chain(of_places()).collect()
}

/// Each member of an array lies about a write, one after the other.
fn of_each(members: usize, lie: impl Fn(usize) -> Act) -> Vec<Act> {
    let each = (0..members).flat_map(|member| {
        let lba = 6 * u64::try_from(member).expect("few");
        [lie(member), write(lba, 5), Act::Drain, Act::Expose]
    });
    [write(0, 48), Act::Drain]
        .into_iter()
        .chain(each)
        .chain([Act::ReadAll, Act::Stop, Act::ReadAll])
        .collect()
}

/// Scenarios of writes that are not done where they were to be.
fn of_lies() -> Vec<(&'static str, Run)> {
    vec![
        ("a-check-counts-writes-that-were-lost", Run { plan: plan(), acts: of_each(4, lost) }),
        (
            "a-check-names-the-member-that-lost-a-write",
            Run { plan: Plan { level: 6, members: 5, ..plan() }, acts: of_each(5, lost) },
        ),
        (
            "a-check-counts-writes-that-landed-elsewhere",
            Run {
                plan: Plan { level: 6, members: 6, layout: 10, ..plan() },
                acts: of_each(6, |member| astray(member, if member % 2 == 0 { 5 } else { -3 })),
            },
        ),
        // What lies on a member is old; what is written beside it is computed from that.
        (
            "writes-beside-one-that-was-lost",
            Run {
                plan: Plan { cache_bytes: 0, ..plan() },
                acts: vec![
                    write(0, 48),
                    Act::Drain,
                    lost(0),
                    write(0, 4),
                    Act::Drain,
                    write(1, 1),
                    write(4, 2),
                    Act::Drain,
                    Act::ReadAll,
                    Act::Expose,
                    Act::Stop,
                    Act::ReadAll,
                ],
            },
        ),
    ]
}

/// Scenarios of lies beside power failures and members that go.
fn of_lies_beside_others() -> Vec<(&'static str, Run)> {
    // Nothing but rows of lies may be wrong, whatever is replayed, resynced and rebuilt.
    let cut_off = vec![
        write(0, 48),
        Act::Drain,
        lost(1),
        write(3, 6),
        Act::Wait { nanos: 400_000, events: 20 },
        Act::Crash,
        Act::Resync,
        astray(2, 4),
        write(12, 9),
        Act::Drain,
        Act::Kill,
        Act::Resync,
        Act::ReadAll,
        Act::Expose,
        Act::Stop,
        Act::ReadAll,
    ];
    let of_policy = |policy, data_offset| Plan { policy, data_offset, ..plan() };
    let rebuilt = vec![
        write(0, 48),
        Act::Drain,
        lost(1),
        write(0, 6),
        Act::Drain,
        Act::Die(2),
        Act::ReadAll,
        Act::Add(2),
        astray(2, 1),
        Act::Rebuild,
        Act::ReadAll,
        Act::Expose,
        Act::Stop,
        Act::ReadAll,
    ];
    vec![
        ("lies-and-crashes", Run { plan: of_policy(Policy::Bitmap(4096), 64), acts: cut_off.clone() }),
        ("lies-and-crashes-with-logs", Run { plan: of_policy(Policy::Ppl(152), 216), acts: cut_off.clone() }),
        (
            "lies-and-crashes-with-a-journal",
            Run { plan: of_policy(Policy::Journal(1024), 64), acts: cut_off },
        ),
        ("lies-and-a-member-that-is-rebuilt", Run { plan: plan(), acts: rebuilt }),
    ]
}

/// Scenarios of members that answer nothing for a while.
fn of_hangs() -> Vec<(&'static str, Run)> {
    let hang = |member| Act::Hang { member, nanos: 20_000_000_000 };
    vec![
        (
            "a-member-hangs",
            Run {
                plan: Plan { policy: Policy::Bitmap(4096), ..plan() },
                acts: vec![
                    write(0, 20),
                    hang(1),
                    write(5, 30),
                    Act::Read { lba: 0, blocks: 20 },
                    Act::Flush,
                    Act::Trim { lba: 3, blocks: 20, durable: true },
                    Act::Drain,
                    Act::ReadAll,
                    hang(0),
                    hang(3),
                    Act::Scrub { repairs: true },
                    write(9, 9),
                    Act::Drain,
                    Act::Stop,
                    Act::ReadAll,
                ],
            },
        ),
        (
            "a-member-hangs-as-the-power-fails",
            Run {
                plan: plan(),
                acts: vec![
                    write(0, 48),
                    Act::Drain,
                    hang(2),
                    write(4, 20),
                    Act::Flush,
                    Act::Wait { nanos: 5_000_000_000, events: 200 },
                    Act::Crash,
                    Act::Resync,
                    hang(2),
                    Act::Fail(2),
                    write(8, 8),
                    Act::ReadAll,
                    Act::Add(2),
                    Act::Rebuild,
                    Act::Stop,
                    Act::ReadAll,
                ],
            },
        ),
    ]
}

/// Scenarios of devices that are smaller, or elsewhere.
fn of_places() -> Vec<(&'static str, Run)> {
    vec![
        (
            "a-member-ends-in-the-middle-of-its-data",
            Run {
                plan: plan(),
                acts: vec![
                    write(0, 48),
                    Act::Drain,
                    Act::Cut(1),
                    write(4, 20),
                    Act::ReadAll,
                    Act::Stop,
                    Act::ReadAll,
                    write(9, 20),
                    Act::Drain,
                    Act::Add(1),
                    Act::Rebuild,
                    Act::Stop,
                    Act::ReadAll,
                ],
            },
        ),
        // The superblock is there, and says that it is a member like all others.
        (
            "a-member-is-smaller-at-the-next-start",
            Run {
                plan: plan(),
                acts: vec![
                    write(0, 48),
                    Act::Drain,
                    Act::Wait { nanos: 1_000_000_000, events: 4000 },
                    Act::Cut(1),
                    Act::Stop,
                    Act::ReadAll,
                    write(4, 20),
                    Act::Drain,
                    Act::Add(1),
                    Act::Rebuild,
                    Act::Stop,
                    Act::ReadAll,
                ],
            },
        ),
        // Numbers of devices are not those of roles any more, and neither are their places.
        (
            "members-in-each-other-s-places",
            Run {
                plan: Plan { level: 6, members: 5, ..plan() },
                acts: vec![
                    write(0, 48),
                    Act::Fail(1),
                    Act::Fail(3),
                    Act::Add(3),
                    Act::Rebuild,
                    Act::Add(1),
                    Act::Rebuild,
                    Act::Exchange(0, 3),
                    Act::Exchange(1, 2),
                    Act::Stop,
                    Act::ReadAll,
                    write(7, 9),
                    Act::Drain,
                    Act::Crash,
                    Act::Resync,
                    Act::ReadAll,
                    Act::Stop,
                ],
            },
        ),
    ]
}
