//! Scenarios of consistency policies that change: what is cut off, what clients do meanwhile, and members that fail.

use super::{Act, Plan, Policy, Run, plan, write};
use block::md::policy::Wish;

/// RAID-5 of four members with room for either of bitmap and logs.
fn roomy(policy: Policy) -> Plan {
    Plan { policy, data_offset: 64 + 600, ..plan() }
}

fn events(events: u64) -> Act {
    Act::Wait { nanos: 1_000_000_000, events }
}

/// A change is cut off after so many events; then the array is dirty for a moment, and is cut off again.
fn cut_off(wish: Wish, back: Wish) -> Vec<Act> {
    let step = |step: u64| {
        let change = [write(step % 12, 3), Act::Drain, Act::Grow(wish), events(1 + step), Act::Crash];
        let dirty = [write(0, 5), write(24, 2), events(20), Act::Crash, Act::Resync, Act::Stop];
        let undo = [Act::Grow(back), events(60), Act::Drain, Act::Stop];
        change.into_iter().chain(dirty).chain(undo)
    };
    (0..48).flat_map(step).collect()
}

/// Clients write before, while and after the policy changes; then the power fails.
fn beside_writes(wishes: [Wish; 2]) -> Vec<Act> {
    let step = |step: u64| {
        let wish = wishes[usize::from(step % 2 == 1)];
        let acts = [write(0, 2), write(7, 9), events(step % 7), Act::Grow(wish), write(1, 4), write(30, 1)];
        let more =
            [Act::Flush, events(step), write(12, 6), Act::Read { lba: 0, blocks: 40 }, events(step / 2)];
        let end = if step.is_multiple_of(3) { [Act::Crash, Act::Resync] } else { [Act::Drain, Act::ReadAll] };
        acts.into_iter().chain(more).chain(end)
    };
    (0..60).flat_map(step).collect()
}

/// A member dies, or a write of it fails, while the policy changes.
fn failing(wishes: [Wish; 2]) -> Vec<Act> {
    let step = |step: u64| {
        let member = usize::try_from(step % 4).expect("0 to 3");
        let fault = if step.is_multiple_of(3) { Act::Die(member) } else { Act::WriteFault(member) };
        let acts = [write(step % 12, 2), Act::Drain, Act::Grow(wishes[usize::from(step % 2 == 1)])];
        let lost = [events(1 + step / 2), fault, events(40), write(3, 8), Act::Drain, Act::ReadAll];
        let heal = [Act::Add(member), Act::Rebuild, Act::Resync, Act::Stop];
        acts.into_iter().chain(lost).chain(heal)
    };
    (0..72).flat_map(step).collect()
}

/// A member fails while the policy changes, and a spare is there.
fn with_a_spare(wishes: [Wish; 2]) -> Vec<Act> {
    let step = |step: u64| {
        let member = usize::try_from(step % 4).expect("0 to 3");
        let wish = wishes[usize::from(step % 2 == 1)];
        let wait = events(step / 2);
        let lost = [Act::Spare, Act::Grow(wish)].into_iter().chain((step > 1).then_some(wait));
        let spare = [Act::Fail(member), Act::Rebuild, write(3, 8), Act::Drain, Act::ReadAll, Act::Stop];
        lost.chain(spare)
    };
    (0..60).flat_map(step).collect()
}

/// All of them.
pub fn all() -> Vec<(&'static str, Run)> {
    let bitmap = Wish::Bitmap(Some(4096));
    let run = |policy: Policy, acts: Vec<Act>| Run { plan: roomy(policy), acts };
    let of_10 = Plan { version: block::md::superblock::Version::V1_0, data_offset: 0, stripes: 24, ..plan() };
    vec![
        ("policies-bitmap-that-comes-is-cut-off", run(Policy::Resync, cut_off(bitmap, Wish::Resync))),
        ("policies-bitmap-that-goes-is-cut-off", run(Policy::Bitmap(4096), cut_off(Wish::Resync, bitmap))),
        ("policies-logs-that-come-are-cut-off", run(Policy::Resync, cut_off(Wish::Ppl, Wish::Resync))),
        ("policies-logs-that-go-are-cut-off", run(Policy::Ppl(600), cut_off(Wish::Resync, Wish::Ppl))),
        ("policies-bitmap-at-the-end-is-cut-off", Run { plan: of_10, acts: cut_off(bitmap, Wish::Resync) }),
        ("policies-bitmap-beside-writes", run(Policy::Resync, beside_writes([bitmap, Wish::Resync]))),
        ("policies-logs-beside-writes", run(Policy::Resync, beside_writes([Wish::Ppl, Wish::Resync]))),
        ("policies-bitmap-and-a-member-that-fails", run(Policy::Resync, failing([bitmap, Wish::Resync]))),
        ("policies-logs-and-a-member-that-fails", run(Policy::Resync, failing([Wish::Ppl, Wish::Resync]))),
        ("policies-bitmap-and-a-spare", run(Policy::Resync, with_a_spare([bitmap, Wish::Resync]))),
        ("policies-logs-and-a-spare", run(Policy::Resync, with_a_spare([Wish::Ppl, Wish::Resync]))),
        ("policies-logs-that-go-and-a-spare", run(Policy::Ppl(152), with_a_spare([Wish::Resync, Wish::Ppl]))),
    ]
}
