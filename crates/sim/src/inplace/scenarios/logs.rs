//! Scenarios of partial parity logs: what is in flight at a crash, and a member that is lost with it.

use super::{Act, Plan, Policy, Run, plan, write};

/// RAID-5 of four members with logs of so many sectors, and chunks of two rows: 48 blocks, six to a stripe.
fn logged(sectors: u16) -> Plan {
    Plan { policy: Policy::Ppl(sectors), data_offset: 64 + u64::from(sectors), ..plan() }
}

fn events(events: u64) -> Act {
    Act::Wait { nanos: 20_000_000, events }
}

/// Writes that are cut off after so many events, again and again; then parities are looked at.
fn cut_off(writes: &[Act], steps: u64) -> Vec<Act> {
    let step = |step: u64| writes.iter().cloned().chain([events(1 + step), Act::Crash, Act::Stop]);
    (0..steps).flat_map(step).collect()
}

/// The same, and a member is lost with each crash: everything is read, written anew and rebuilt.
fn cut_off_without(member: usize, writes: &[Act], steps: u64) -> Vec<Act> {
    let step = |step: u64| {
        let heal = [Act::ReadAll, write(0, 48), Act::Drain, Act::Add(member), Act::Rebuild, Act::Stop];
        let writes = writes.iter().cloned();
        writes.chain([events(1 + step), Act::Die(member), Act::Crash]).chain(heal)
    };
    [write(0, 48), Act::Drain].into_iter().chain((0..steps).flat_map(step)).collect()
}

/// Writes of single blocks and of several of a row, which meet in few strips.
fn meeting() -> Vec<Act> {
    vec![
        write(0, 1),
        write(2, 3),
        write(7, 2),
        events(12),
        write(1, 1),
        write(5, 1),
        write(0, 5),
        Act::Flush,
        write(18, 6),
        write(20, 1),
    ]
}

/// All of them.
pub fn all() -> Vec<(&'static str, Run)> {
    let trims =
        [write(0, 48), Act::Drain, write(3, 2), events(9), Act::Trim { lba: 0, blocks: 24, durable: false }];
    // A failure that is on no superblock: the member is believed again after the crash.
    let fails = |step: u64| {
        let member = usize::try_from(step % 4).expect("0 to 3");
        let heal = [Act::Drain, Act::Add(member), Act::Rebuild, Act::Stop, Act::ReadAll];
        meeting()
            .into_iter()
            .chain([Act::WriteFault(member)])
            .chain(meeting())
            .chain([events(1 + step), Act::Crash])
            .chain(heal)
    };
    let on_disks = |latency: u64, acts: Vec<Act>| Run { plan: Plan { latency, ..logged(600) }, acts };
    vec![
        ("logs-of-writes-that-are-cut-off", on_disks(200_000, cut_off(&meeting(), 60))),
        (
            "logs-in-a-ring-that-is-full-soon",
            Run {
                plan: logged(528),
                acts: cut_off(&[meeting(), meeting(), meeting(), meeting()].concat(), 60),
            },
        ),
        ("logs-without-a-ring", Run { plan: logged(144), acts: cut_off(&meeting(), 40) }),
        (
            "logs-without-a-cache",
            Run { plan: Plan { is_volatile: false, ..logged(600) }, acts: cut_off(&meeting(), 60) },
        ),
        ("logs-of-trims-that-are-cut-off", Run { plan: logged(600), acts: cut_off(&trims, 40) }),
        ("logs-and-a-member-lost-in-the-crash", on_disks(100_000, cut_off_without(1, &meeting(), 40))),
        (
            "logs-and-the-other-member-lost-without-a-cache",
            Run {
                plan: Plan { is_volatile: false, ..logged(280) },
                acts: cut_off_without(2, &meeting(), 40),
            },
        ),
        // What nobody flushed may be read once, and then has to stay.
        (
            "logs-and-reads-before-the-replay-is-through",
            on_disks(
                800_000,
                (0..30)
                    .flat_map(|step| {
                        meeting().into_iter().chain([
                            events(4 + step),
                            Act::Crash,
                            Act::Read { lba: 0, blocks: 8 },
                            Act::Wait { nanos: 600_000, events: 3 },
                            Act::Die(usize::try_from(step % 4).expect("0 to 3")),
                            Act::Crash,
                            Act::ReadAll,
                            write(0, 48),
                            Act::Drain,
                            Act::Add(usize::try_from(step % 4).expect("0 to 3")),
                            Act::Rebuild,
                            Act::Stop,
                        ])
                    })
                    .collect(),
            ),
        ),
        (
            "logs-and-rows-in-doubt-over-a-second-crash",
            Run {
                plan: logged(600),
                acts: (0..12)
                    .flat_map(|step| {
                        meeting().into_iter().chain([
                            events(8 + step),
                            Act::Die(1),
                            Act::Crash,
                            write(24, 2),
                            write(30, 1),
                            write(36, 1),
                            Act::Drain,
                            Act::Crash,
                            Act::ReadAll,
                            Act::Stop,
                            Act::ReadAll,
                            write(0, 48),
                            Act::Drain,
                            Act::Add(1),
                            Act::Rebuild,
                            Act::Stop,
                        ])
                    })
                    .collect(),
            },
        ),
        // Other sectors of the block were older than its parity, and a rewrite was lost in the cache.
        (
            "logs-and-a-block-that-cannot-be-read",
            Run {
                plan: Plan { latency: 320_000, ..logged(600) },
                acts: (0..24)
                    .flat_map(|step| {
                        [
                            write(0, 8),
                            events(10 + step),
                            Act::Spoil { member: 0, row: 1 },
                            Act::Spoil { member: 1, row: 0 },
                            Act::Crash,
                            Act::ReadAll,
                            Act::Stop,
                            write(0, 12),
                            Act::Drain,
                        ]
                    })
                    .collect(),
            },
        ),
        (
            "logs-of-an-array-that-was-never-in-sync",
            Run {
                plan: Plan { is_clean: false, rate: Some(1 << 20), ..logged(600) },
                acts: vec![
                    write(0, 4),
                    Act::Drain,
                    Act::Crash,
                    Act::Resync,
                    Act::Stop,
                    write(9, 9),
                    events(9),
                    Act::Crash,
                ],
            },
        ),
        ("logs-and-failures-that-nobody-recorded", on_disks(300_000, (0..40).flat_map(fails).collect())),
    ]
}
