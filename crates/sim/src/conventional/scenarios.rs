//! Runs that a mistake asks for, each by name.

use super::{Act, Plan, Run};

fn plan() -> Plan {
    Plan {
        seed: 1,
        zones: 3,
        zone_units: 2,
        active_zones_max: 2,
        journal_spare: 0,
        is_volatile: false,
        latency: 20_000,
        cached_units: 0,
        discards: true,
    }
}

fn write(zone: u32, blocks: u32) -> Act {
    Act::Write { zone, blocks, is_append: false }
}

fn crash() -> Act {
    Act::Crash(Vec::new())
}

/// Acts, each of them answered before the next.
fn settled(acts: Vec<Act>) -> Vec<Act> {
    acts.into_iter().flat_map(|act| [act, Act::Settle]).collect()
}

/// More records than the ring has, while zone 0 waits with what it wrote first.
fn around_the_ring() -> Vec<Act> {
    (0..120).flat_map(|_| settled(vec![write(1, 1), Act::Reset(1)])).collect()
}

/// All scenarios with their names.
#[must_use]
pub fn all() -> Vec<(&'static str, Run)> {
    let runs = zones().into_iter().chain(records()).chain([(
        "both-copies-of-a-label-in-turn",
        settled(vec![write(0, 1), Act::Label(0), crash(), Act::Label(1), Act::Reopen]),
    )]);
    let volatile = |name: &str| name.ends_with("volatile-cache") || name.ends_with("come-back");
    runs.map(|(name, acts)| (name, Run { plan: Plan { is_volatile: volatile(name), ..plan() }, acts }))
        .collect()
}

/// Zones in each of their states.
fn zones() -> Vec<(&'static str, Vec<Act>)> {
    vec![
        ("blocks-of-a-unit-that-is-not-full", settled(vec![write(0, 5), crash(), write(0, 3), crash()])),
        ("a-unit-gets-full-over-a-crash", settled(vec![write(0, 56), crash(), write(0, 9), crash()])),
        ("a-full-zone-over-a-crash", settled(vec![write(0, 59), write(0, 59), crash(), Act::ReadAll])),
        (
            "what-a-reset-killed-stays-dead",
            settled(vec![write(0, 40), Act::Reset(0), crash(), write(0, 2), crash(), Act::ReadAll]),
        ),
        ("a-finished-zone-keeps-its-end", settled(vec![write(0, 7), Act::Finish(0), crash(), Act::ReadAll])),
        ("an-empty-zone-is-finished", settled(vec![Act::Finish(0), crash(), Act::Reset(0), write(0, 1)])),
    ]
}

/// Records that are carried, and openings that are cut.
fn records() -> Vec<(&'static str, Vec<Act>)> {
    let lost = [write(0, 3), Act::Settle, write(0, 2), write(0, 1), Act::Settle, crash()];
    vec![
        (
            "records-are-carried-before-the-ring-overwrites-them",
            [settled(vec![write(0, 5)]), around_the_ring(), vec![crash(), Act::ReadAll]].concat(),
        ),
        (
            "records-are-carried-behind-a-volatile-cache",
            [settled(vec![write(0, 5), Act::Flush]), around_the_ring(), vec![crash(), Act::ReadAll]].concat(),
        ),
        ("writes-that-were-never-answered-do-not-come-back", vec![lost.to_vec(); 60].concat()),
        (
            "an-opening-is-cut-again-and-again",
            settled(vec![
                write(0, 50),
                write(1, 20),
                Act::Crash((0..60).collect()),
                Act::ReadAll,
                write(0, 5),
                crash(),
            ]),
        ),
    ]
}
