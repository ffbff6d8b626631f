//! Scenarios of journals: crashes beside a lost member, a ring that is full, a journal that is lost.

use super::{Act, Plan, Policy, Run, plan, write};
use crate::inplace::act::Loss;
use array::inplace::window::Manner;
use block::md::policy::Wish;
use block::md::superblock::Version;

/// RAID-5 of four members with a ring of so many sectors, and chunks of two rows: 48 blocks, six to a stripe.
fn journaled(sectors: u64) -> Plan {
    Plan { policy: Policy::Journal(sectors), ..plan() }
}

/// RAID-6 of five members, the same.
fn twofold(sectors: u64) -> Plan {
    Plan { level: 6, members: 5, ..journaled(sectors) }
}

fn events(events: u64) -> Act {
    Act::Wait { nanos: 20_000_000, events }
}

/// Writes of single blocks and of several of a row, which meet in few strips.
fn meeting() -> Vec<Act> {
    let first = [write(0, 1), write(2, 3), write(7, 2), events(12), write(1, 1), write(5, 1), write(0, 5)];
    let second = [Act::Flush, write(18, 6), write(20, 1), write(0, 2), events(9), write(1, 4)];
    first.into_iter().chain(second).collect()
}

/// Writes that are cut off after so many events, and a member is lost with each crash: all is read, and rebuilt.
fn cut_off_without(members: &[usize], step: u64) -> Vec<Act> {
    let dies = members.iter().map(|member| Act::Die(*member));
    let heal = members.iter().flat_map(|member| [Act::Add(*member), Act::Rebuild]);
    let first = meeting().into_iter().chain([events(1 + step)]).chain(dies);
    first.chain([Act::Crash, Act::ReadAll]).chain(heal).chain([Act::Drain, Act::Stop, Act::ReadAll]).collect()
}

/// The same, and the next start is cut off too.
fn cut_off_again(step: u64) -> Vec<Act> {
    let first = meeting().into_iter().chain([events(1 + step), Act::Crash, events(step % 9)]);
    let lost = [Act::Die(1), Act::Crash, Act::ReadAll, write(3, 2), events(step % 7), Act::Crash];
    first.chain(lost).chain([Act::ReadAll, Act::Add(1), Act::Rebuild, Act::Stop, Act::ReadAll]).collect()
}

/// More members die than there are parities while a journal is replayed: what was not written to the others may be torn there, or old,
/// and is not read.
fn broken_in_a_replay(step: u64) -> Vec<Act> {
    let writes = (0..4).map(|index| write(40 * index, 36));
    let cut_off = [Act::Drain, Act::Crash, events(step)];
    let lost = [Act::Die(0), Act::Die(1), Act::Die(3)];
    let reads = (0..156).map(|lba| Act::Read { lba, blocks: 1 });
    writes
        .chain(cut_off)
        .chain(lost)
        .chain(reads)
        .chain([Act::Drain, Act::Revive, Act::Stop, Act::ReadAll])
        .collect()
}

/// More is written than a ring holds.
fn many(step: u64) -> Vec<Act> {
    let writes = (0..40).map(|index| write((7 * index + step) % 44, 1 + index % 4));
    writes
        .chain([events(30 + 9 * step), Act::Die(2), Act::Crash, Act::ReadAll, Act::Add(2), Act::Rebuild])
        .collect()
}

/// A member without which parities are gone: what is written then has data alone, and the member that comes is whole soon.
fn without_parity(step: u64) -> Vec<Act> {
    let first = [write(0, 48), Act::Drain, Act::Fail(3), write(0, 2), write(12, 5), Act::Drain, Act::Add(3)];
    let second =
        [Act::Rebuild, write(1, 1), write(13, 2), events(1 + step), Act::Die(0), Act::Crash, Act::ReadAll];
    let heal = [Act::Add(0), Act::Rebuild, Act::Stop, Act::ReadAll];
    first.into_iter().chain(second).chain(heal).collect()
}

/// The journal is lost while writes are under way.
fn losing(loss: Loss, step: u64) -> Vec<Act> {
    let lost = [events(1 + step), Act::LoseJournal(loss), write(30, 2), Act::Drain, Act::ReadAll];
    meeting().into_iter().chain(lost).collect()
}

/// The journal is lost, another one is added by a command that is cut off, and a member is lost later.
fn lost_and_another(loss: Loss, step: u64) -> Vec<Act> {
    let cut = usize::try_from(step).expect("few superblocks");
    let first = [Act::AddJournal(cut), Act::ReadAll, write(2, 9), events(1 + 3 * step), Act::Crash];
    let healed = [Act::Resync, Act::ReadAll, Act::Stop, Act::Die(1), write(7, 9), events(20), Act::Crash];
    let last = [Act::ReadAll, Act::Add(1), Act::Rebuild, Act::Stop];
    losing(loss, 7).into_iter().chain(first).chain(healed).chain(last).collect()
}

/// A write fails, for two members are gone, and is read as it was; then one of them is back, and the journal has the write.
fn failed_and_replayed() -> Vec<Act> {
    let long = || Act::Wait { nanos: 30_000_000_000, events: 2000 };
    let short = Act::Wait { nanos: 134_217_728, events: 19 };
    let first = [write(35, 4), long(), write(25, 1), write(13, 6), short, write(19, 19), Act::Fail(2)];
    let second = [long(), Act::Die(3), write(6, 2), Act::Wait { nanos: 4_194_304, events: 26 }];
    let last = [Act::Read { lba: 7, blocks: 1 }, Act::Revive, Act::Stop, Act::ReadAll];
    first.into_iter().chain(second).chain(last).collect()
}

/// The power fails while a batch is on its way: the tail that a superblock names may not go that far.
fn batch_cut_off() -> Run {
    let plan = Plan {
        seed: 94,
        level: 4,
        layout: 0,
        members: 5,
        stripes: 19,
        version: Version::V1_0,
        data_offset: 0,
        latency: 160_000,
        is_clean: false,
        cache_bytes: 200_000,
        ..journaled(1029)
    };
    let durable = |lba| Act::Write { lba, blocks: 23, durable: true };
    let waits = [(33_554_432, 34), (524_288, 28)].map(|(nanos, events)| Act::Wait { nanos, events });
    Run {
        plan,
        acts: [durable(45), durable(68)].into_iter().chain(waits).chain([Act::Crash, Act::ReadAll]).collect(),
    }
}

/// A member that died is replaced and rebuilt, and the array gives its journal up: all members have to know of it.
fn policy_after_newcomer() -> Run {
    let plan = Plan {
        seed: 512,
        layout: 0,
        members: 2,
        stripes: 31,
        version: Version::V1_1,
        data_offset: 226,
        latency: 40_000,
        has_lists: false,
        window: Manner::Md,
        cache_bytes: 200_000,
        ..journaled(4099)
    };
    let wait = Act::Wait { nanos: 33_554_432, events: 32 };
    Run {
        plan,
        acts: vec![Act::Die(0), wait, Act::Add(0), Act::Rebuild, Act::Grow(Wish::Resync), Act::ReadAll],
    }
}

/// The journal's write of a batch fails, the server is killed, and the power fails at the next start.
fn failed_then_killed() -> Run {
    let plan = Plan {
        seed: 20_786_000_791,
        level: 6,
        layout: 8,
        members: 8,
        chunk: 64,
        stripes: 9,
        version: Version::V1_1,
        data_offset: 74,
        latency: 160_000,
        window: Manner::Paper,
        cache_bytes: 64 << 20,
        ..journaled(607)
    };
    let durable = Act::Write { lba: 315, blocks: 7, durable: true };
    let stream = (0..4).map(|step| write(335 + 8 * step, 8));
    let first = [write(284, 1), durable].into_iter().chain(stream).chain([write(67, 1), write(309, 1)]);
    let fails = [Act::Drain, Act::LoseJournal(Loss::Fails), write(359, 2)];
    let last = [Act::Wait { nanos: 262_144, events: 36 }, Act::Kill, Act::Crash];
    Run { plan, acts: first.chain(fails).chain(last).collect() }
}

/// Writes of a new array that go on without a pause long after its resync, then a member is lost with a crash.
fn past_the_first_resync() -> Vec<Act> {
    let steady = (0..60).flat_map(|index| [write(7 * index % 44, 1 + index % 3), events(20)]);
    let lost = [Act::Die(1), Act::Crash, Act::ReadAll, Act::Add(1), Act::Rebuild, Act::Stop, Act::ReadAll];
    steady.chain(lost).collect()
}

fn runs(name: &'static str, plan: &Plan, count: u64, acts: impl Fn(u64) -> Vec<Act>) -> (&'static str, Run) {
    (name, Run { plan: plan.clone(), acts: (0..count).flat_map(acts).collect() })
}

/// All of them.
pub fn all() -> Vec<(&'static str, Run)> {
    let slow = Plan { latency: 200_000, ..journaled(600) };
    let wide = Plan { stripes: 32, ..twofold(4096) };
    let uncached = Plan { is_volatile: false, ..journaled(600) };
    let seeded = Plan {
        seed: 77_200_018_324,
        layout: 5,
        chunk: 64,
        stripes: 9,
        version: Version::V1_0,
        data_offset: 0,
        latency: 160_000,
        is_clean: false,
        cache_bytes: 200_000,
        rate: Some(16 << 10),
        ..journaled(600)
    };
    let busy = Plan { is_clean: false, ..journaled(1024) };
    let is_new = Plan { is_clean: false, rate: Some(1 << 20), ..journaled(1024) };
    let new = |step: u64| {
        vec![
            write(0, 4),
            Act::Drain,
            Act::Crash,
            events(step),
            Act::Resync,
            Act::Stop,
            write(9, 9),
            Act::Crash,
        ]
    };
    let killed = |step: u64| {
        let first = [write(0, 20), Act::Drain, Act::Flush, write(step % 9, 8), Act::Drain, Act::Kill];
        let second = [write(12 + step % 7, 2), Act::Drain, Act::Flush, events(1 + step * 3), Act::Crash];
        first.into_iter().chain(second).chain([Act::ReadAll, Act::Stop]).collect()
    };
    let mut all = vec![
        runs("journal-of-a-server-that-was-killed", &slow, 40, killed),
        runs("journal-and-a-member-lost-in-the-crash", &slow, 40, |step| cut_off_without(&[1], step)),
        runs("journal-and-a-member-lost-without-a-cache", &uncached, 40, |step| cut_off_without(&[2], step)),
        runs("journal-and-two-members-lost", &twofold(1024), 40, |step| cut_off_without(&[1, 4], step)),
        runs("journal-of-raid-6-without-a-parity", &twofold(1024), 24, |step| {
            [vec![Act::Fail(4)], cut_off_without(&[0], step), vec![Act::Add(4), Act::Rebuild]].concat()
        }),
        runs("journal-and-a-replay-that-is-cut-off", &slow, 40, cut_off_again),
        runs("journal-and-too-many-lost-in-its-replay", &wide, 12, broken_in_a_replay),
        runs("journal-that-is-full", &journaled(424), 30, many),
        runs("journal-of-rows-without-parity", &slow, 24, without_parity),
        runs("journal-of-an-array-that-was-never-in-sync", &is_new, 12, new),
        runs("journal-and-a-failed-write-that-is-replayed", &seeded, 1, |_| failed_and_replayed()),
        runs("journal-and-writes-past-the-first-resync", &busy, 1, |_| past_the_first_resync()),
        ("journal-batch-under-way-is-cut-off", batch_cut_off()),
        ("journal-given-up-after-a-newcomer", policy_after_newcomer()),
        ("journal-fails-before-a-kill-and-a-crash", failed_then_killed()),
    ];
    let losses = [
        ("journal-that-dies", Loss::Dies),
        ("journal-that-fails-a-write", Loss::Fails),
        ("journal-that-is-taken-out", Loss::TakenOut),
    ];
    let others = [
        ("journal-that-dies-and-another", Loss::Dies),
        ("journal-that-fails-a-write-and-another", Loss::Fails),
        ("journal-that-is-taken-out-and-another", Loss::TakenOut),
    ];
    // Superblocks of four members, of the journal, and of four members again.
    all.extend(others.map(|(name, loss)| runs(name, &slow, 10, |step| lost_and_another(loss, step))));
    all.extend(losses.map(|(name, loss)| {
        let acts = losing(loss, 7).into_iter().chain([Act::Stop]).collect();
        (name, Run { plan: slow.clone(), acts })
    }));
    all
}
