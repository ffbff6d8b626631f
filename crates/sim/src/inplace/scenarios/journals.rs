//! Scenarios of journals: crashes beside a lost member, a ring that is full, a journal that is lost.

use super::{Act, Plan, Policy, Run, plan, write};
use crate::inplace::act::Loss;

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

fn runs(name: &'static str, plan: &Plan, count: u64, acts: impl Fn(u64) -> Vec<Act>) -> (&'static str, Run) {
    (name, Run { plan: plan.clone(), acts: (0..count).flat_map(acts).collect() })
}

/// All of them.
pub fn all() -> Vec<(&'static str, Run)> {
    let slow = Plan { latency: 200_000, ..journaled(600) };
    let uncached = Plan { is_volatile: false, ..journaled(600) };
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
    let mut all = vec![
        runs("journal-and-a-member-lost-in-the-crash", &slow, 40, |step| cut_off_without(&[1], step)),
        runs("journal-and-a-member-lost-without-a-cache", &uncached, 40, |step| cut_off_without(&[2], step)),
        runs("journal-and-two-members-lost", &twofold(1024), 40, |step| cut_off_without(&[1, 4], step)),
        runs("journal-of-raid-6-without-a-parity", &twofold(1024), 24, |step| {
            [vec![Act::Fail(4)], cut_off_without(&[0], step), vec![Act::Add(4), Act::Rebuild]].concat()
        }),
        runs("journal-and-a-replay-that-is-cut-off", &slow, 40, cut_off_again),
        runs("journal-that-is-full", &journaled(424), 30, many),
        runs("journal-of-rows-without-parity", &slow, 24, without_parity),
        runs("journal-of-an-array-that-was-never-in-sync", &is_new, 12, new),
    ];
    let losses = [
        ("journal-that-dies", Loss::Dies),
        ("journal-that-fails-a-write", Loss::Fails),
        ("journal-that-is-taken-out", Loss::TakenOut),
    ];
    all.extend(losses.map(|(name, loss)| {
        let acts = losing(loss, 7).into_iter().chain([Act::Stop]).collect();
        (name, Run { plan: slow.clone(), acts })
    }));
    all
}
