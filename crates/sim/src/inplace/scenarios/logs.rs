//! Scenarios of partial parity logs: what is in flight at a crash, and a member that is lost with it.

use super::{Act, Plan, Policy, Run, plan, write};

/// RAID-5 of four members with logs of so many sectors, and chunks of two rows: 48 blocks, six to a stripe.
pub(super) fn logged(sectors: u16) -> Plan {
    Plan { policy: Policy::Ppl(sectors), data_offset: 64 + u64::from(sectors), ..plan() }
}

pub(super) fn events(events: u64) -> Act {
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

/// A write of a member fails, and the power with it: where the failure is on no superblock, the member is believed again.
fn failing(step: u64) -> Vec<Act> {
    let member = usize::try_from(step % 4).expect("0 to 3");
    let first = [write(0, 48), Act::Drain, write(step % 12, 2), events(3), Act::WriteFault(member)];
    let second =
        [write(0, 2), write(24, 2), write(13, 1), write(37, 2), events(1 + step / 4 % 24), Act::Crash];
    let heal = [Act::Drain, Act::Add(member), Act::Rebuild, Act::Stop, Act::ReadAll];
    first.into_iter().chain(second).chain(heal).collect()
}

/// The same with a flush between two batches: what it was to cover is lost with the power.
fn failing_flush(step: u64) -> Vec<Act> {
    let member = usize::try_from(step % 4).expect("0 to 3");
    let first = [write(0, 48), Act::Drain, Act::FlushFault(member), write(step % 12, 2), write(24, 2)];
    let second = [write(1, 1), write(25, 1), write(13, 2), events(20 + step / 4 % 24), Act::Crash];
    let heal = [Act::Drain, Act::Add(member), Act::Rebuild, Act::Stop, Act::ReadAll];
    first.into_iter().chain(second).chain(heal).collect()
}

/// The log of a parity's member fails, and what waited for it is written without one.
fn failing_log(step: u64) -> Vec<Act> {
    let first =
        [write(0, 48), Act::Drain, Act::WriteFault(3), write(step % 2, 1), events(1 + step % 8), Act::Crash];
    let heal = [Act::Drain, Act::Add(3), Act::Rebuild, Act::Stop, Act::ReadAll];
    first.into_iter().chain(heal).collect()
}

/// Two members die while a batch may be on its way, and the array is stopped.
fn breaking(step: u64) -> Vec<Act> {
    let member = |next: u64| usize::try_from((step + next) % 4).expect("0 to 3");
    let dies = [write(1 + step, 1), Act::Die(member(0)), Act::Die(member(1)), events(2 + step % 6)];
    dies.into_iter().chain([Act::Revive, Act::Stop, events(34)]).collect()
}

/// A member is new, and the power fails before a stop.
fn joining(step: u64) -> Vec<Act> {
    let first = [write(0, 48), Act::Drain, Act::Fail(1), Act::Drain, Act::Add(1), Act::Rebuild];
    first.into_iter().chain(meeting()).chain([events(1 + step), Act::Crash, Act::Stop]).collect()
}

/// A member is new that has been one before: its old log names a row of which another block was written while it was away.
fn joining_again(step: u64) -> Vec<Act> {
    let place = step % 2;
    let first =
        [write(0, 48), Act::Drain, write(12 + place, 1), Act::Drain, Act::Fail(1), write(14 + place, 1)];
    let second =
        [Act::Drain, Act::Add(1), Act::Rebuild, write(step % 6, 1), events(1 + step), Act::Crash, Act::Stop];
    first.into_iter().chain(second).collect()
}

/// Blocks are read before the replay has settled their rows; then the power fails again, and a member is lost.
fn read_early(step: u64) -> Vec<Act> {
    let member = usize::try_from(step % 2).expect("0 or 1");
    let first = [write(0, 5), write(3, 1), events(1 + step / 2), Act::Crash];
    let second = [Act::Read { lba: 0, blocks: 6 }, Act::Wait { nanos: 900_000, events: 1 + step % 5 }];
    let heal = [Act::ReadAll, write(0, 16), Act::Drain, Act::Add(member), Act::Rebuild, Act::Stop];
    first.into_iter().chain(second).chain([Act::Die(member), Act::Crash]).chain(heal).collect()
}

/// A block in flight cannot be read after a crash; other sectors of it were older than its parity, and a rewrite was lost in the
/// cache. As a seed drew it.
fn unreadable() -> Run {
    let plan = Plan {
        seed: 0,
        layout: 1,
        members: 6,
        chunk: 64,
        stripes: 4,
        data_offset: 234,
        policy: Policy::Ppl(160),
        latency: 160_000,
        is_clean: false,
        rate: Some(262_144),
        ..plan()
    };
    let acts = vec![
        write(63, 2),
        write(106, 6),
        write(154, 2),
        Act::Wait { nanos: 30_000_000_000, events: 2000 },
        write(39, 6),
        Act::Wait { nanos: 1_048_576, events: 56 },
        Act::Spoil { member: 0, row: 12 },
        Act::Crash,
        Act::ReadAll,
    ];
    Run { plan, acts }
}

/// A replay has settled its rows, and nothing was written since, when a member and the power fail.
fn settled(step: u64) -> Vec<Act> {
    let first = [write(0, 48), Act::Drain].into_iter().chain(meeting());
    let second = [events(1 + step), Act::Crash, Act::ReadAll, events(200), Act::Die(1), Act::Crash];
    let heal = [Act::ReadAll, write(0, 48), Act::Drain, Act::Add(1), Act::Rebuild, Act::Stop];
    first.chain(second).chain(heal).collect()
}

/// The server is killed while caches have what it wrote, and the power fails when its logs were given up.
fn killed(step: u64) -> Vec<Act> {
    let first = [write(0, 48), Act::Drain, Act::Flush, Act::Fail(3), write(step % 9, 4), Act::Drain];
    let second =
        [Act::Kill, Act::ReadAll, write(30 + step % 9, 2), events(1 + step), Act::Crash, Act::ReadAll];
    let heal = [write(0, 48), Act::Drain, Act::Add(3), Act::Rebuild, Act::Stop];
    first.into_iter().chain(second).chain(heal).collect()
}

/// Rows are in doubt over more than one crash.
fn in_doubt(step: u64) -> Vec<Act> {
    let lost = [events(8 + step), Act::Die(1), Act::Crash];
    let second = [
        write(24, 2),
        write(30, 1),
        write(36, 1),
        Act::Drain,
        Act::Crash,
        Act::ReadAll,
        Act::Stop,
        Act::ReadAll,
    ];
    let heal = [write(0, 48), Act::Drain, Act::Add(1), Act::Rebuild, Act::Stop];
    meeting().into_iter().chain(lost).chain(second).chain(heal).collect()
}

/// A header is cut off that is written over another one, which named rows in doubt.
fn over_doubts(step: u64) -> Vec<Act> {
    let lost = [events(8 + step % 12), Act::Die(1), Act::Crash];
    let second = [write(24, 6), write(36, 6), write(30, 1), events(1 + step), Act::Crash, Act::ReadAll];
    let heal = [Act::Stop, Act::ReadAll, write(0, 48), Act::Drain, Act::Add(1), Act::Rebuild, Act::Stop];
    meeting().into_iter().chain(lost).chain(second).chain(heal).collect()
}

/// Stripes of one row, of which the parities of twenty are on each member.
fn many_rows(acts: Vec<Act>) -> Run {
    Run {
        plan: Plan { seed: 24, chunk: 8, stripes: 80, is_volatile: false, latency: 50_000, ..logged(280) },
        acts,
    }
}

/// Headers name more rows in doubt than a sector has room for, and one that is written after the crash is torn.
fn in_many_doubts(step: u64) -> Vec<Act> {
    let writes = (0..80).map(|stripe| write(3 * stripe, 2));
    let lost = [events(60 + 12 * step), Act::Die(1), Act::Crash, events(1 + step), Act::Crash, Act::ReadAll];
    let heal = [Act::Stop, Act::ReadAll, write(0, 240), Act::Drain, Act::Add(1), Act::Rebuild, Act::Stop];
    [write(0, 240), Act::Drain].into_iter().chain(writes).chain(lost).chain(heal).collect()
}

/// The same over one whose rows were answered, and have a witness.
fn over_a_witness(step: u64) -> Vec<Act> {
    let first = [write(0, 48), Act::Drain, write(step % 12, 1), write(24 + step % 12, 1)];
    let lost = [events(1 + step % 24), Act::Die(1), Act::Crash, Act::ReadAll, Act::Drain];
    let heal = [write(0, 48), Act::Drain, Act::Add(1), Act::Rebuild, Act::Stop];
    first.into_iter().chain(lost).chain(heal).collect()
}

/// md takes over, whose generations are below that of the spare header, and is cut off too.
fn taken_over(step: u64) -> Vec<Act> {
    let own = [write(step % 12, 2), write(24 + step % 12, 1), events(1 + step), Act::TakeOver, Act::ReadAll];
    own.into_iter().chain([Act::Stop, write(0, 3), Act::Drain]).collect()
}

fn again(count: u64, acts: impl Fn(u64) -> Vec<Act>) -> Vec<Act> {
    (0..count).flat_map(acts).collect()
}

/// All of them.
pub fn all() -> Vec<(&'static str, Run)> {
    of_crashes().into_iter().chain(of_members()).collect()
}

/// What is in flight at a crash.
fn of_crashes() -> Vec<(&'static str, Run)> {
    let trim = Act::Trim { lba: 0, blocks: 24, durable: false };
    let trims = [write(0, 48), Act::Drain, write(3, 2), events(9), trim];
    let on_disks = |latency: u64, acts: Vec<Act>| Run { plan: Plan { latency, ..logged(600) }, acts };
    let many = [meeting(), meeting(), meeting(), meeting()].concat();
    let is_new = Plan { is_clean: false, rate: Some(1 << 20), ..logged(600) };
    let first =
        vec![write(0, 4), Act::Drain, Act::Crash, Act::Resync, Act::Stop, write(9, 9), events(9), Act::Crash];
    vec![
        ("logs-of-writes-that-are-cut-off", on_disks(200_000, cut_off(&meeting(), 60))),
        ("logs-in-a-ring-that-is-full-soon", Run { plan: logged(528), acts: cut_off(&many, 60) }),
        ("logs-without-a-ring", Run { plan: logged(152), acts: cut_off(&meeting(), 40) }),
        (
            "logs-without-a-cache",
            Run { plan: Plan { is_volatile: false, ..logged(600) }, acts: cut_off(&meeting(), 60) },
        ),
        ("logs-of-trims-that-are-cut-off", Run { plan: logged(600), acts: cut_off(&trims, 40) }),
        ("logs-of-an-array-that-was-never-in-sync", Run { plan: is_new, acts: first }),
        ("logs-and-a-block-that-cannot-be-read", unreadable()),
        ("logs-of-a-server-that-was-killed", Run { plan: logged(600), acts: again(40, killed) }),
        ("logs-that-md-took-over", on_disks(100_000, again(24, taken_over))),
        ("logs-without-a-ring-that-md-took-over", Run { plan: logged(152), acts: again(24, taken_over) }),
    ]
}

/// Members that are lost, fail and join.
fn of_members() -> Vec<(&'static str, Run)> {
    let on_disks = |latency: u64, acts: Vec<Act>| Run { plan: Plan { latency, ..logged(600) }, acts };
    let uncached = Plan { is_volatile: false, ..logged(280) };
    let small = |latency: u64, acts: Vec<Act>| Run { plan: Plan { latency, ..logged(280) }, acts };
    let broken = Plan { is_volatile: false, latency: 160_000, ..logged(280) };
    let mirror = Plan { members: 2, latency: 320_000, ..logged(280) };
    vec![
        ("logs-and-a-member-lost-in-the-crash", on_disks(100_000, cut_off_without(1, &meeting(), 40))),
        (
            "logs-and-the-other-member-lost-without-a-cache",
            Run { plan: uncached.clone(), acts: cut_off_without(2, &meeting(), 40) },
        ),
        // What was read before a replay is through has to stay.
        ("logs-and-reads-before-the-replay-is-through", Run { plan: mirror, acts: again(60, read_early) }),
        ("logs-that-were-applied-before-a-second-crash", on_disks(50_000, again(40, settled))),
        ("logs-and-rows-in-doubt-over-a-second-crash", on_disks(50_000, again(12, in_doubt))),
        ("logs-that-go-over-rows-in-doubt", small(50_000, again(60, over_doubts))),
        ("logs-that-go-over-a-witness", Run { plan: uncached.clone(), acts: again(60, over_a_witness) }),
        ("logs-with-many-rows-in-doubt", many_rows(again(30, in_many_doubts))),
        // Wiped devices come again where the seed is even.
        (
            "logs-of-members-that-join-again",
            Run { plan: Plan { seed: 2, ..logged(600) }, acts: again(20, joining_again) },
        ),
        ("logs-and-failures-that-nobody-recorded", on_disks(300_000, again(96, failing))),
        ("logs-and-flushes-that-fail", on_disks(300_000, again(96, failing_flush))),
        (
            "logs-and-failures-without-a-cache",
            Run { plan: Plan { seed: 19, ..uncached.clone() }, acts: again(96, failing) },
        ),
        ("logs-that-fail", Run { plan: uncached, acts: again(96, failing_log) }),
        // A batch is on its way to a member that works when two others die.
        ("logs-and-a-stop-of-a-broken-array", Run { plan: broken, acts: again(24, breaking) }),
        ("logs-of-members-that-join", on_disks(200_000, again(30, joining))),
    ]
}
