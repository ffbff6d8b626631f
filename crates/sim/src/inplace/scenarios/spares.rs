//! Scenarios of spares.

use super::{Act, Plan, Policy, Run, plan, write};

/// Time without writes after which an array is clean.
const CLEAN: Act = Act::Wait { nanos: 300_000_000, events: 40_000 };

fn run(plan: Plan, acts: impl IntoIterator<Item = Act>) -> Run {
    Run { plan, acts: acts.into_iter().collect() }
}

/// All of them.
pub(super) fn all() -> Vec<(&'static str, Run)> {
    let cut = |step: u64| {
        [Act::Spare, write(step, 20), Act::Drain, CLEAN, Act::Fail(1)]
            .into_iter()
            .chain([Act::Wait { nanos: step * 30_000, events: 60 }, Act::Crash, Act::ReadAll])
            .chain([Act::Rebuild, CLEAN, Act::Stop, Act::ReadAll])
    };
    let with_bitmap = || Plan { policy: Policy::Bitmap(4096), ..plan() };
    vec![
        (
            "a-spare-steps-in",
            run(
                plan(),
                [write(0, 40), Act::Spare, Act::Drain, Act::Die(1), write(3, 20), Act::Drain, Act::Rebuild]
                    .into_iter()
                    .chain([Act::ReadAll, Act::Stop, Act::ReadAll, Act::Die(3), Act::ReadAll]),
            ),
        ),
        ("crashes-as-a-spare-steps-in", run(with_bitmap(), (0..24).flat_map(cut))),
        // Nothing was written to it since, and it is a spare all the same.
        (
            "a-spare-outlasts-restarts",
            run(
                with_bitmap(),
                [Act::Spare, write(0, 9), Act::Drain, CLEAN, Act::Stop, write(3, 9), Act::Drain, CLEAN]
                    .into_iter()
                    .chain([Act::Crash, write(1, 2), Act::Drain, CLEAN, Act::Stop, Act::Fail(2)])
                    .chain([Act::Rebuild, write(0, 9), Act::Stop, Act::Die(0), Act::ReadAll]),
            ),
        ),
        (
            "two-spares-for-two-members",
            run(
                Plan { level: 6, members: 5, stripes: 24, ..plan() },
                [write(0, 70), Act::Spare, Act::Spare, Act::Drain, Act::Fail(0), Act::Die(4), write(9, 30)]
                    .into_iter()
                    .chain([Act::Rebuild, Act::Drain, Act::Stop, Act::ReadAll, Act::Die(1), Act::Die(2)])
                    .chain([Act::ReadAll]),
            ),
        ),
    ]
}
