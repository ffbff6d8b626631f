//! Runs that a mistake asks for, each by name.

use super::{Act, Plan, Run};
use crate::inplace::disk::Away;

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
        is_patient: false,
        loses_blocks: false,
    }
}

fn write(zone: u32, blocks: u32) -> Act {
    Act::Write { zone, blocks, is_append: false }
}

fn append(zone: u32, blocks: u32) -> Act {
    Act::Write { zone, blocks, is_append: true }
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
        .chain([("torn-records-of-two-openings", torn_twice())])
        .chain(outages())
        .chain([lost_behind_a_discard(), cut_behind_kills()])
        .collect()
}

/// The power fails while a drive is opened whose server was killed: what was answered lies in the disk's cache, beside the records of the opening.
fn cut_behind_kills() -> (&'static str, Run) {
    let round = |cut| {
        let cut = vec![Act::Kill(vec![cut]), Act::ReadAll, Act::Reset(0), Act::Reset(1), Act::Settle];
        [settled(vec![write(0, 3), write(1, 2)]), cut].concat()
    };
    let acts = (0..10).flat_map(|_| (4..24).flat_map(round)).collect();
    let plan = Plan { is_volatile: true, loses_blocks: true, ..plan() };
    ("an-opening-behind-a-kill-is-cut", Run { plan, acts })
}

/// The disk is away, without power, until the next command.
fn away(is_removed: bool) -> Act {
    Act::Away(Away { nanos: 1, loses_power: true, is_removed })
}

/// Disks that are away, and lose what their caches hold.
fn outages() -> Vec<(&'static str, Run)> {
    let many = |acts: Vec<Act>| vec![acts; 12].concat();
    let end = |zone| settled(vec![Act::ReadAll, Act::Flush, crash(), Act::ReadAll, Act::Reset(zone)]);
    let runs = [
        (
            "a-disk-that-lost-its-cache-has-it-again",
            many([settled(vec![write(0, 5), away(true), write(0, 1)]), end(0)].concat()),
        ),
        (
            "a-disk-loses-its-cache-twice",
            many(
                [settled(vec![write(0, 5), away(true), write(0, 1), away(true), write(0, 1)]), end(0)]
                    .concat(),
            ),
        ),
        (
            "a-flush-of-a-disk-that-lost-its-cache",
            many(
                [
                    settled(vec![write(0, 5)]),
                    vec![write(1, 3), away(false), Act::Wait(2), Act::Flush, Act::Settle, crash()],
                    settled(vec![Act::ReadAll, Act::Reset(0), Act::Reset(1)]),
                ]
                .concat(),
            ),
        ),
        (
            "what-comes-after-a-flush-began",
            many(
                [
                    settled(vec![write(0, 1)]),
                    vec![Act::Flush, write(1, 1), Act::Settle, away(true), write(1, 1)],
                    end(0),
                    end(1),
                ]
                .concat(),
            ),
        ),
        (
            "a-zone-that-is-written-again-before-a-flush",
            many(
                [settled(vec![write(0, 5), Act::Reset(0), write(0, 6), away(true), write(0, 1)]), end(0)]
                    .concat(),
            ),
        ),
    ];
    let plan = Plan { is_volatile: true, is_patient: true, discards: false, ..plan() };
    runs.into_iter().map(|(name, acts)| (name, Run { plan: plan.clone(), acts })).collect()
}

/// A disk is given up while a write waits for the discard of its zone: it is refused as soon as it is given, and has to be told.
fn lost_behind_a_discard() -> (&'static str, Run) {
    let for_ever = Act::Away(Away { nanos: 70_000_000_000, loses_power: true, is_removed: true });
    let acts = [settled(vec![write(0, 5), Act::Reset(0)]), vec![for_ever, write(0, 1), Act::Settle]].concat();
    let plan = Plan { is_patient: true, ..plan() };
    ("a-disk-is-lost-behind-a-discard", Run { plan, acts })
}

/// Torn records of two openings that add up to a third: a seed found it, and its disk has to tear in the same places.
fn torn_twice() -> Run {
    let plan = Plan {
        seed: 12_158,
        zones: 7,
        zone_units: 3,
        active_zones_max: 4,
        journal_spare: 6,
        is_volatile: true,
        latency: 160_000,
        cached_units: 11,
        discards: true,
        is_patient: false,
        loses_blocks: false,
    };
    Run { plan, acts: [before_the_disk_dies(), from_then_on()].concat() }
}

fn before_the_disk_dies() -> Vec<Act> {
    vec![
        Act::Reopen,
        write(5, 59),
        write(4, 2),
        append(2, 2),
        Act::Label(0),
        write(6, 8),
        write(4, 59),
        Act::ReadAll,
        Act::Reset(4),
        write(6, 59),
        Act::Wait(250_032),
        Act::Flush,
        write(2, 5),
        append(5, 14),
        Act::Wait(74_498),
        append(5, 4),
        append(3, 6),
        Act::Wait(188_860),
        Act::Flush,
        Act::WriteFault,
        append(2, 59),
        append(5, 5),
        write(6, 4),
        Act::Reset(3),
        Act::Wait(185_821),
        append(3, 6),
        Act::WriteFault,
        Act::Flush,
        Act::Finish(0),
        Act::Wait(297_195),
        Act::Flush,
        Act::ReadAll,
        Act::ReadAll,
        Act::Read { zone: 6, offset: 65, blocks: 54 },
        Act::Flush,
    ]
}

fn from_then_on() -> Vec<Act> {
    vec![
        Act::Die,
        Act::Flush,
        Act::Flush,
        Act::Flush,
        Act::Flush,
        Act::Flush,
        Act::Flush,
        Act::Finish(4),
        Act::Wait(177_835),
        crash(),
        append(4, 4),
        crash(),
        Act::WriteFault,
        Act::Flush,
        write(5, 4),
        append(2, 6),
        write(3, 8),
        append(5, 2),
        Act::Wait(306_733),
        Act::Crash(vec![20, 20, 18]),
        Act::Flush,
        append(5, 5),
        append(5, 5),
        Act::Finish(6),
        Act::Flush,
        Act::Settle,
        Act::Flush,
        append(5, 5),
        write(5, 7),
        Act::Wait(31_909),
        Act::Wait(68_495),
        write(5, 6),
        write(5, 4),
        write(2, 5),
        Act::Wait(316_923),
        Act::Crash(vec![27, 9, 9]),
    ]
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
