//! Runs that a mistake asks for, each by name.

use super::act::WHOLE;
use super::plan::Apart;
use super::{Act, Plan, Run};

fn plan() -> Plan {
    Plan {
        seed: 1,
        zones: 3,
        places_spare: 7,
        active_zones_max: 2,
        open_zones_max: 1,
        is_volatile: false,
        latency: 20_000,
        cached_units: 0,
        leaves_stale: true,
        apart: None,
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

/// All scenarios with their names.
#[must_use]
pub fn all() -> Vec<(&'static str, Run)> {
    let volatile = |name: &str| name.ends_with("volatile-cache") || name.ends_with("come-back");
    zones()
        .into_iter()
        .chain(journal())
        .chain(deaths())
        .chain(journal_deaths())
        .chain(journal_deaths_beside())
        .map(|(name, acts)| {
            let leaves_stale = name != "an-empty-zone-is-finished";
            (name, Run { plan: Plan { is_volatile: volatile(name), leaves_stale, ..plan() }, acts })
        })
        .chain(moves_that_are_cut())
        .chain([("more-dead-zones-than-zones-in-use", more_dead_than_active())])
        .chain([("a-unit-whose-end-is-on-its-way", unit_on_its_way())])
        .chain(turns())
        .chain(journal_apart())
        .collect()
}

/// Power failures soon after the journal went from one zone to the other: openings one after another bring it near the end of a zone.
fn turns() -> Vec<(&'static str, Run)> {
    let round = |left, behind: Vec<Act>| {
        let lone = Act::Churn { zone: 0, blocks: 40 };
        [vec![Act::CrashNearTurn(left), write(1, 9), Act::Settle, lone, crash()], behind].concat()
    };
    let apart = Some(Apart { places_spare: 3, is_volatile: true, loses_blocks: true });
    let once = (0..20).flat_map(|left| round(8 + left, Vec::new())).collect();
    let twice = (0..20).flat_map(|left| round(8 + left, vec![crash(), Act::ReadAll])).collect();
    let dead_zones = |zone| [write(zone, 55), Act::Settle, dies(zone), write(zone, 1), Act::Settle];
    let dead_plan = Plan { zones: 6, active_zones_max: 1, ..plan() };
    let openings = [Act::Crash(vec![WHOLE; 200]), Act::ReadAll];
    let dead_acts = (0..6).flat_map(dead_zones).chain(openings).collect();
    vec![
        ("a-journal-apart-turns-behind-an-opening", Run { plan: Plan { apart, ..plan() }, acts: once }),
        (
            "a-journal-turns-and-is-opened-twice",
            Run { plan: Plan { is_volatile: true, ..plan() }, acts: twice },
        ),
        ("more-dead-zones-than-zones-in-use-and-openings", Run { plan: dead_plan, acts: dead_acts }),
    ]
}

/// A write that gets no entries, because the journal is busy with another zone's until the unit is handed over to its end, and a crash while
/// that end is on its way.
fn unit_on_its_way() -> Run {
    let round = |wait| {
        vec![
            write(1, 1),
            Act::Wait(2_000),
            write(0, 5),
            Act::Wait(2_000),
            write(0, 58),
            Act::Wait(wait),
            crash(),
            Act::Settle,
            Act::Reset(0),
            Act::Settle,
        ]
    };
    let acts = (0..60).flat_map(|round_number| round(round_number * 1_000)).collect();
    Run { plan: Plan { open_zones_max: 2, ..plan() }, acts }
}

/// A journal on a disk of its own, whose cache loses any sectors; the device has none, so that all that is lost is lost there.
fn journal_apart() -> Vec<(&'static str, Run)> {
    let round = |cuts: Vec<u64>| {
        vec![Act::Churn { zone: 0, blocks: 150 }, write(1, 2), Act::Settle, Act::Crash(cuts), Act::ReadAll]
    };
    let of = |acts| {
        let apart = Some(Apart { places_spare: 3, is_volatile: true, loses_blocks: false });
        Run { plan: Plan { apart, ..plan() }, acts }
    };
    let flushed =
        settled(vec![write(0, 5), Act::Flush, crash(), write(0, 3), Act::Flush, crash(), Act::ReadAll]);
    let turns = (0..12).flat_map(|_| round(Vec::new())).collect();
    let cut = (0..24).flat_map(|number| round(vec![number, number / 2, 3])).collect();
    let faults = (0..8).flat_map(|_| {
        settled(vec![
            write(0, 5),
            Act::Flush,
            Act::JournalFault,
            Act::Churn { zone: 1, blocks: 20 },
            crash(),
            Act::ReadAll,
            Act::Reset(0),
        ])
    });
    let gone = settled(vec![
        write(0, 5),
        Act::Flush,
        Act::JournalDie,
        write(0, 3),
        Act::Flush,
        Act::Reset(1),
        crash(),
        Act::ReadAll,
        write(0, 3),
        Act::Flush,
        crash(),
    ]);
    vec![
        ("what-a-journal-apart-has-is-flushed-with-the-rest", of(vec![flushed; 20].concat())),
        ("a-journal-apart-is-used-in-turn", of(turns)),
        ("an-opening-with-a-journal-apart-is-cut-again-and-again", of(cut)),
        ("a-write-to-a-journal-apart-fails", of(faults.collect())),
        ("a-journal-apart-is-gone-for-a-while", of(gone)),
    ]
}

/// Zones in each of their states.
fn zones() -> Vec<(&'static str, Vec<Act>)> {
    vec![
        ("blocks-of-a-unit-that-is-not-full", settled(vec![write(0, 5), crash(), write(0, 3), crash()])),
        ("a-unit-gets-full-over-a-crash", settled(vec![write(0, 56), crash(), write(0, 9), crash()])),
        (
            "a-full-zone-over-a-crash",
            settled(vec![Act::Fill { zone: 0, left: 3 }, write(0, 3), crash(), Act::ReadAll, Act::Reset(0)]),
        ),
        (
            "what-a-reset-killed-stays-dead",
            settled(vec![write(0, 40), Act::Reset(0), crash(), write(0, 2), crash(), Act::ReadAll]),
        ),
        ("a-finished-zone-keeps-its-end", settled(vec![write(0, 7), Act::Finish(0), crash(), Act::ReadAll])),
        ("an-empty-zone-is-finished", settled(vec![Act::Finish(0), crash(), Act::Reset(0), write(0, 1)])),
        (
            "a-finished-zone-over-an-older-life",
            settled(vec![
                Act::Fill { zone: 0, left: 0 },
                Act::Reset(0),
                write(0, 61),
                Act::Finish(0),
                crash(),
                Act::ReadAll,
            ]),
        ),
        (
            "a-finish-that-is-lost-behind-a-volatile-cache",
            vec![
                vec![write(0, 7), Act::Settle, Act::Finish(0), Act::Wait(90_000), crash(), Act::Reset(0)];
                40
            ]
            .concat(),
        ),
        (
            "a-read-only-zone-keeps-what-it-has",
            settled(vec![
                write(0, 61),
                write(0, 20),
                Act::Degrade { zone: 0, is_offline: false },
                crash(),
                Act::ReadAll,
                Act::Churn { zone: 1, blocks: 600 },
                crash(),
                Act::ReadAll,
            ]),
        ),
        (
            "an-offline-zone-takes-nothing-along",
            settled(vec![
                write(0, 61),
                write(1, 20),
                Act::Degrade { zone: 0, is_offline: true },
                crash(),
                write(2, 5),
                write(1, 5),
                crash(),
            ]),
        ),
    ]
}

fn dies(zone: u32) -> Act {
    Act::Degrade { zone, is_offline: false }
}

/// Zones that die, which the host learns from a command that fails, and what goes on beside them.
fn deaths() -> Vec<(&'static str, Vec<Act>)> {
    vec![
        (
            "a-zone-that-died-leaves-its-place",
            settled(vec![write(0, 5), write(1, 5), dies(0), write(0, 3), write(2, 5), crash(), Act::ReadAll]),
        ),
        (
            "a-zone-that-is-offline-leaves-its-place-when-it-is-read",
            settled(vec![
                write(0, 5),
                write(1, 5),
                Act::Degrade { zone: 0, is_offline: true },
                Act::Read { zone: 0, offset: 0, blocks: 5 },
                write(2, 5),
                crash(),
            ]),
        ),
        (
            "a-zone-dies-with-writes-in-flight",
            [
                vec![write(0, 61), write(0, 7), write(1, 3), Act::Wait(9_000), dies(0), Act::Settle],
                vec![Act::ReadAll, write(2, 4), Act::Settle, crash(), Act::ReadAll],
            ]
            .concat(),
        ),
        (
            "a-zone-dies-as-it-is-reset",
            settled(vec![
                Act::Fill { zone: 0, left: 0 },
                dies(0),
                Act::Reset(0),
                Act::Churn { zone: 1, blocks: 700 },
                write(2, 5),
                crash(),
                crash(),
            ]),
        ),
        (
            "a-zone-dies-as-it-is-finished",
            settled(vec![
                write(0, 7),
                write(1, 7),
                dies(0),
                Act::Finish(0),
                write(2, 5),
                Act::ReadAll,
                crash(),
            ]),
        ),
        (
            "a-zone-dies-while-the-drive-is-opened",
            (0..12)
                .flat_map(|after| {
                    let doom = Act::Doom { zone: 2, after, is_offline: false };
                    [write(0, 30), write(0, 31), write(1, 5), Act::Settle, doom, crash(), Act::ReadAll]
                })
                .collect(),
        ),
    ]
}

/// Zones of the journal that die, in each of their states.
fn journal_deaths() -> Vec<(&'static str, Vec<Act>)> {
    let doom = |zone, is_offline| Act::Doom { zone, after: 0, is_offline };
    let churn = |blocks| Act::Churn { zone: 1, blocks };
    let goes_on = |death| {
        settled(vec![
            write(0, 5),
            write(1, 20),
            death,
            write(0, 3),
            churn(50),
            crash(),
            Act::ReadAll,
            write(0, 2),
            crash(),
        ])
    };
    // The first turn of the journal is behind it: the other zone has what is needed.
    let over_a_turn = |death| {
        settled(vec![
            write(0, 5),
            churn(320),
            death,
            write(0, 3),
            write(2, 70),
            crash(),
            Act::ReadAll,
            write(0, 2),
            crash(),
        ])
    };
    vec![
        ("the-journal-zone-turns-read-only", goes_on(doom(0, false))),
        ("the-journal-zone-turns-read-only-volatile-cache", goes_on(doom(0, false))),
        ("the-journal-zone-turns-offline", goes_on(doom(0, true))),
        ("the-journal-zone-turns-offline-volatile-cache", goes_on(doom(0, true))),
        ("the-spare-journal-zone-turns-read-only", goes_on(doom(1, false))),
        ("the-spare-journal-zone-turns-offline", goes_on(doom(1, true))),
        ("the-journal-zone-dies-after-a-turn", over_a_turn(doom(1, false))),
        ("the-journal-zone-dies-after-a-turn-volatile-cache", over_a_turn(doom(1, true))),
        ("the-old-journal-zone-dies-after-a-turn", over_a_turn(doom(0, false))),
    ]
}

/// Zones of the journal that die while something else is at work, and the last of them.
fn journal_deaths_beside() -> Vec<(&'static str, Vec<Act>)> {
    let doom = |zone, is_offline| Act::Doom { zone, after: 0, is_offline };
    let churn = |blocks| Act::Churn { zone: 1, blocks };
    vec![
        (
            "the-journal-zone-is-found-read-only-by-an-opening",
            settled(vec![
                write(0, 5),
                churn(320),
                doom(1, false),
                crash(),
                write(0, 3),
                crash(),
                Act::ReadAll,
            ]),
        ),
        (
            "the-journal-zone-dies-while-the-drive-is-opened",
            settled(vec![
                write(0, 5),
                Act::Doom { zone: 0, after: 12, is_offline: false },
                crash(),
                write(0, 3),
                crash(),
                Act::ReadAll,
            ]),
        ),
        (
            "a-zone-is-reset-while-the-journal-moves",
            [
                vec![write(0, 70), write(1, 9), Act::Settle, doom(0, false), Act::Reset(0), write(1, 4)],
                vec![Act::Settle, write(0, 3), Act::Settle, crash(), Act::ReadAll],
            ]
            .concat(),
        ),
        (
            "the-last-journal-zone-is-full",
            settled(vec![write(0, 5), doom(1, false), churn(600), Act::ReadAll, crash(), Act::ReadAll]),
        ),
        (
            "both-journal-zones-die",
            settled(vec![
                write(0, 5),
                doom(0, false),
                write(0, 3),
                doom(1, false),
                write(0, 3),
                write(1, 1),
                Act::ReadAll,
                crash(),
            ]),
        ),
    ]
}

/// The power fails again and again, soon after a journal zone has died.
fn moves_that_are_cut() -> Vec<(&'static str, Run)> {
    let names = [
        "a-move-of-the-journal-is-cut-1",
        "a-move-of-the-journal-is-cut-2",
        "a-move-of-the-journal-is-cut-3",
        "a-move-of-the-journal-is-cut-4",
        "a-move-of-the-journal-is-cut-5",
        "a-move-of-the-journal-is-cut-6",
    ];
    (0_u64..)
        .zip(names)
        .map(|(number, name)| {
            let doom = Act::Doom { zone: 0, after: 0, is_offline: number % 2 > 0 };
            let acts = [
                vec![write(0, 5), write(1, 20), Act::Settle, doom, write(0, 3), write(1, 2)],
                vec![
                    Act::Wait(15_000 * (number + 1)),
                    crash(),
                    Act::ReadAll,
                    write(0, 2),
                    Act::Settle,
                    crash(),
                ],
            ];
            (name, Run { plan: Plan { is_volatile: number % 4 > 1, ..plan() }, acts: acts.concat() })
        })
        .chain([("a-move-of-the-journal-is-cut-with-one-record-of-two", move_in_two_records())])
        .collect()
}

/// A move that takes two records, of which the power failure leaves one: all that zone 0 needs, and nothing of zone 1.
fn move_in_two_records() -> Run {
    let round = |wait| {
        let fault = [Act::WriteFault, write(0, 1)];
        let first = settled(vec![write(0, 47), write(1, 50)]);
        let cut = vec![Act::Wait(wait), crash(), Act::ReadAll, Act::Reset(0), Act::Reset(1), Act::Settle];
        [&first[..], &fault, &cut].concat()
    };
    Run { plan: plan(), acts: (1..80).flat_map(|number| round(2_000 * number)).collect() }
}

/// One zone may be in use, and all of them die with blocks that only the journal knows.
fn more_dead_than_active() -> Run {
    let zone = |zone| [write(zone, 55), Act::Settle, dies(zone), write(zone, 1), Act::Settle];
    let acts = (0..6).flat_map(zone).chain((0..120).map(|_| crash())).collect();
    Run { plan: Plan { zones: 6, active_zones_max: 1, ..plan() }, acts }
}

/// Journal zones in turn, and openings that are cut.
fn journal() -> Vec<(&'static str, Vec<Act>)> {
    let lost = [write(0, 3), Act::Settle, write(0, 2), write(0, 1), Act::Settle, crash()];
    let churn = Act::Churn { zone: 1, blocks: 1_500 };
    vec![
        (
            "what-is-alive-is-carried-before-its-journal-zone-is-reset",
            settled(vec![write(0, 5), churn.clone(), crash(), Act::ReadAll, churn.clone(), crash()]),
        ),
        (
            "what-is-alive-is-carried-behind-a-volatile-cache",
            settled(vec![write(0, 5), Act::Flush, churn.clone(), crash(), Act::ReadAll, churn, crash()]),
        ),
        ("writes-that-were-never-answered-do-not-come-back", vec![lost.to_vec(); 60].concat()),
        (
            "a-reset-is-cut-again-and-again",
            vec![vec![write(0, 70), Act::Settle, Act::Reset(0), Act::Wait(30_000), crash()]; 60].concat(),
        ),
        ("a-reset-waits-for-a-flush-that-fails-volatile-cache", flushes_that_fail()),
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

/// The device dies while the mark of a reset is made durable.
fn flushes_that_fail() -> Vec<Act> {
    let once = |wait| {
        [write(0, 5), Act::Settle, write(1, 1), Act::Settle, Act::Reset(0), Act::Wait(wait), Act::Die]
            .into_iter()
            .chain([Act::Settle, crash()])
    };
    (0..40).flat_map(|number| once(1_000 * number)).collect()
}
