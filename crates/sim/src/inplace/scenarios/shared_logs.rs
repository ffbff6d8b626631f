//! Partial parity logs that are lent to shards, and what shards hand over when a member does not take a write.

use super::logs::{self, events};
use super::{plan, write};
use crate::inplace::{Act, Plan, Policy, Run};
use array::inplace::window::Manner;
use block::md::policy::Wish;

/// Array with logs of so many sectors, and two shards.
fn logged(sectors: u16) -> Plan {
    Plan { shards: 2, latency: 100_000, ..logs::logged(sectors) }
}

/// The first write begins the logs, and those that come with it end before they are lent.
fn lending() -> Vec<Act> {
    vec![write(0, 48), Act::Drain, write(3, 1), events(30)]
}

/// Writes of both shards, alone and several of a row.
fn meeting() -> Vec<Act> {
    (0..10).map(|number| write(number * 11 % 44, 1 + number % 4)).collect()
}

/// Cut off after so many events, with all members or without one.
fn cut_off(step: u64, lost: Option<usize>) -> Vec<Act> {
    let first = lending().into_iter().chain(meeting()).chain([events(1 + 3 * step)]);
    let heal = |member| [Act::ReadAll, write(0, 48), Act::Drain, Act::Add(member), Act::Rebuild];
    let dies = lost.map(Act::Die).into_iter().chain([Act::Crash]);
    first.chain(dies).chain(lost.into_iter().flat_map(heal)).chain([Act::Stop, Act::ReadAll]).collect()
}

/// A member does not take a write, of data or of a log, and the power fails a little later.
fn failing(step: u64) -> Vec<Act> {
    let member = usize::try_from(step % 4).expect("0 to 3");
    let first =
        lending().into_iter().chain([write(step % 40, 2), events(1 + step % 3), Act::WriteFault(member)]);
    let heal = [Act::Drain, Act::Add(member), Act::Rebuild, Act::Stop, Act::ReadAll];
    first.chain(meeting()).chain([events(1 + step), Act::Crash]).chain(heal).collect()
}

/// A member does not take a block while another write waits for the same log, and the power fails before its failure is recorded. The
/// parities of stripes 0 and 4 have one log.
fn overtaken(step: u64) -> Vec<Act> {
    let first = lending().into_iter().chain([Act::WriteFault(0), write(0, 1), write(24, 1), write(25, 1)]);
    let cut_off = [events(4 + step / 2), Act::Crash, Act::Drain];
    let heal = [Act::Add(0), Act::Rebuild, Act::Stop, Act::ReadAll];
    first.chain(cut_off).chain(heal).collect()
}

/// All is recalled for a scrub while a member does not take a batch.
fn failing_in_a_recall(step: u64) -> Vec<Act> {
    let member = usize::try_from(step % 4).expect("0 to 3");
    let first = lending().into_iter().chain([Act::WriteFault(member), write(step % 40, 1), write(7, 2)]);
    let scrub = [events(1 + step / 4 % 5), Act::Scrub { repairs: false }];
    let heal =
        [Act::Drain, Act::Add(member), Act::Rebuild, Act::Drain, Act::StopScrub, Act::Stop, Act::ReadAll];
    first.chain(scrub).chain(heal).collect()
}

/// Blocks that are not neighbours are written to a row without logs, when logs come.
fn apart(step: u64) -> Vec<Act> {
    let first = lending().into_iter().chain([Act::Grow(Wish::Resync), Act::Drain, write(9, 1), Act::Drain]);
    let second = [write(0, 1), write(4, 1), write(1, 1), write(5, 1), events(1 + step), Act::Grow(Wish::Ppl)];
    first.chain(second).chain([Act::Drain, Act::ReadAll]).collect()
}

/// A member does not take a write, and another one of its row is lost before the row's round has ended; blocks of both are read at once.
fn torn(step: u64) -> Vec<Act> {
    let lost = [0, 1, 3, 4, 5][usize::try_from(step % 5).expect("0 to 4")];
    let first = [write(0, 32), Act::Drain, Act::WriteFault(2), write(0, 8)];
    let reads = || (0..8).map(|lba| Act::Read { lba, blocks: 1 });
    let then = [events(1 + step / 5 % 8), Act::Fail(lost)].into_iter().chain(reads()).chain([events(1)]);
    let more = [write(3, 2), Act::Drain, Act::ReadAll, write(0, 32), Act::Drain];
    let heal = [Act::Add(lost), Act::Rebuild, Act::ReadAll];
    first.into_iter().chain(then).chain(reads()).chain(more).chain(heal).collect()
}

/// A member dies that was to take a batch, as a seed drew it: its rounds are handed over after the recall.
fn dying() -> Run {
    let plan = Plan {
        seed: 40_000_000_884,
        layout: 0,
        members: 3,
        chunk: 8,
        stripes: 119,
        data_offset: 216,
        policy: Policy::Ppl(152),
        latency: 20_000,
        is_clean: false,
        has_lists: false,
        cache_bytes: 200_000,
        shards: 1,
        ..plan()
    };
    let idle = Act::Wait { nanos: 30_000_000_000, events: 2_000 };
    let first = [Act::Read { lba: 13, blocks: 1 }, idle, write(12, 1), write(3, 4), write(19, 2)];
    let second =
        [Act::Read { lba: 2, blocks: 3 }, write(27, 1), Act::Wait { nanos: 536_870_912, events: 25 }];
    let third =
        [Act::Crash, Act::ReadAll, write(6, 2), Act::Flush, Act::Wait { nanos: 2_097_152, events: 16 }];
    let last = [write(0, 1), write(3, 1), Act::Die(1), Act::Drain, Act::ReadAll];
    Run { plan, acts: first.into_iter().chain(second).chain(third).chain(last).collect() }
}

/// A row is lost with a sector that cannot be read and a member that dies, while another row of its strip is written, as a seed drew it.
fn beside_a_lost_row() -> Run {
    let plan = Plan {
        seed: 40_000_025_062,
        level: 4,
        layout: 0,
        members: 6,
        chunk: 64,
        stripes: 5,
        policy: Policy::Bitmap(4096),
        latency: 40_000,
        window: Manner::Md,
        rate: Some(65_536),
        shards: 2,
        unit_stripes: 2,
        ..plan()
    };
    let durable = Act::Write { lba: 5, blocks: 1, durable: true };
    let acts = vec![Act::Spoil { member: 3, row: 4 }, durable, write(28, 2), Act::Die(0), Act::Drain];
    Run { plan, acts }
}

/// All scenarios with their names.
pub(super) fn all() -> Vec<(&'static str, Run)> {
    let all = |plan: Plan, steps: u64, acts: &dyn Fn(u64) -> Vec<Act>| Run {
        plan,
        acts: (0..steps).flat_map(acts).chain([Act::Stop, Act::ReadAll]).collect(),
    };
    let policies = |step: u64| {
        let wish = if step.is_multiple_of(2) { Wish::Resync } else { Wish::Ppl };
        let change = [events(4 + 9 * step), Act::Grow(wish)];
        lending().into_iter().chain(meeting()).chain(change).chain(meeting()).chain([Act::Drain]).collect()
    };
    let six =
        Plan { level: 6, members: 6, shards: 2, latency: 200_000, policy: Policy::Bitmap(4096), ..plan() };
    vec![
        ("shared-logs-and-the-power-fails", all(logged(280), 24, &|step| cut_off(step, None))),
        ("shared-logs-and-a-member-lost-with-it", all(logged(152), 24, &|step| cut_off(step, Some(1)))),
        ("shared-logs-and-writes-that-fail", all(logged(152), 24, &failing)),
        (
            "shared-logs-and-a-write-behind-one-that-failed",
            all(Plan { is_volatile: false, ..logged(280) }, 60, &overtaken),
        ),
        ("shared-logs-and-policies-that-change", all(logged(600), 8, &policies)),
        ("shared-logs-and-a-batch-that-fails-in-a-recall", all(logged(152), 20, &failing_in_a_recall)),
        ("shared-logs-and-writes-apart-before-them", all(logged(280), 8, &apart)),
        ("shards-and-a-torn-piece-beside-a-lost-one", all(six, 80, &torn)),
        ("shards-and-a-write-beside-a-lost-row", beside_a_lost_row()),
        ("shared-logs-and-a-member-that-dies", dying()),
    ]
}
