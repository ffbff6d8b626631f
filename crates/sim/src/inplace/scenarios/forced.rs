//! Scenarios of arrays that are dirty and degraded, and forced.

use super::{plan, write};
use crate::inplace::{Act, Plan, Policy, Run};
use array::inplace::window::Manner;
use block::md::superblock::Version;

/// Writes that are cut off in the middle, and a member that does not come back.
fn lost(cut_after: u64) -> Vec<Act> {
    vec![
        Act::Force,
        write(0, 40),
        Act::Drain,
        Act::Flush,
        Act::Drain,
        write(0, 30),
        Act::Wait { nanos: 10_000_000, events: cut_after },
        Act::Die(1),
        Act::Crash,
    ]
}

/// The copy of a member steps in for it before it is whole, the power fails amid writes, and the copy is lost: what it had is not what
/// parities say.
fn copied_in_part() -> Run {
    let plan = Plan {
        seed: 42_000_007_885,
        level: 6,
        layout: 10,
        members: 5,
        chunk: 64,
        stripes: 14,
        version: Version::V1_1,
        data_offset: 69,
        policy: Policy::Bitmap(4096),
        latency: 20_000,
        window: Manner::Paper,
        rate: Some(256 << 10),
        ..plan()
    };
    let waits = |nanos, events| Act::Wait { nanos, events };
    let first =
        [Act::Replace { member: 1, by_spare: false }, waits(4_194_304, 230), Act::Force, write(17, 7)];
    let second = [Act::Fail(1), Act::Stop, write(302, 4), waits(1_048_576, 60), Act::Crash, Act::Fail(1)];
    Run { plan, acts: first.into_iter().chain(second).chain([Act::ReadAll]).collect() }
}

/// All scenarios with their names.
pub(super) fn all() -> Vec<(&'static str, Run)> {
    let dual = |policy| Plan { level: 6, members: 6, policy, ..plan() };
    let cuts = |acts: &[Act]| {
        (5..45).step_by(5).flat_map(|cut| [lost(cut), acts.to_vec()].concat()).collect::<Vec<_>>()
    };
    let again = [Act::ReadAll, write(4, 9), Act::Drain, Act::Stop, Act::ReadAll];
    let healed =
        [Act::ReadAll, Act::Add(1), Act::Rebuild, Act::Resync, Act::ReadAll, Act::Stop, Act::ReadAll];
    // Both parities of a torn row say otherwise what was lost: one of them has to follow the other before the next member goes.
    let second = [
        Act::ReadAll,
        Act::Resync,
        Act::Die(3),
        Act::ReadAll,
        Act::Add(1),
        Act::Add(3),
        Act::Rebuild,
        Act::Resync,
    ];
    // Before that is done, what the next member had cannot be told in such a row: it is an error, and nothing else.
    let at_once = [Act::Die(3), Act::ReadAll];
    let written = [write(2, 60), Act::Drain, Act::Die(3), Act::ReadAll];
    vec![
        ("a-forced-array-is-written-and-clean", Run { plan: plan(), acts: [&lost(25)[..], &again].concat() }),
        (
            "a-forced-array-with-a-bitmap-is-rebuilt",
            Run { plan: Plan { policy: Policy::Bitmap(4096), ..plan() }, acts: cuts(&healed) },
        ),
        (
            "a-forced-array-with-two-parities-loses-another-member",
            Run { plan: dual(Policy::Bitmap(4096)), acts: cuts(&second) },
        ),
        (
            "a-forced-array-loses-another-member-at-once",
            Run { plan: dual(Policy::Resync), acts: [&lost(25)[..], &at_once].concat() },
        ),
        (
            "a-forced-array-is-written-and-loses-another-member",
            Run { plan: dual(Policy::Resync), acts: [&lost(25)[..], &written].concat() },
        ),
        ("a-forced-array-loses-a-member-that-was-copied-in-part", copied_in_part()),
    ]
}
