//! Scenarios in which commands end in an unusual order, drives answer for long with what was there before, or an index is much smaller in one
//! life than in others.

use super::super::act::{Act, Filler, Moment};
use super::super::{Expiry, Plan, Run};
use super::{plan, stop, store};
use crate::step::Kind;
use ::cache::config::Invalidate;

pub(super) fn all() -> Vec<(&'static str, Run)> {
    vec![
        ("index-of-one-bucket-between-two-lives", narrow_index()),
        ("clear-and-superblocks-of-an-earlier-life", stale_clear()),
        ("directory-of-an-earlier-life", old_directory()),
        ("drive-joins-before-slow-resets", slow_resets()),
        ("stop-in-good-order-with-a-slow-journal", slow_journal()),
        ("drive-joins-beside-a-record", joins_beside_a_record()),
        ("journal-goes-beside-a-victim", journal_beside_a_victim()),
    ]
}

/// A life whose index has a bucket finds no slot for half of what is there; a key of these is removed, and the next life has slots for all.
fn narrow_index() -> Run {
    let mut acts: Vec<Act> = (0..24).map(store).chain([Act::Rest, Act::Resize(1 << 20), stop()]).collect();
    acts.extend((0..24).map(Act::Remove).chain([
        Act::Rest,
        Act::Resize(512),
        stop(),
        Act::ReadAll,
        Act::Rest,
    ]));
    Run { plan: Plan { drives: 1, ..plan() }, acts }
}

/// The newest superblocks tell of a clear, and are read once as those that were in their places when the log last passed through its zone.
fn stale_clear() -> Run {
    let clear = [Act::Clear { key: None }, Act::Drain];
    let mut acts: Vec<Act> = (0..28).flat_map(|_| clear.clone()).chain([store(0), Act::Rest]).collect();
    acts.extend(clear.into_iter().chain([Act::Stale { drive: 0, count: 1 }, stop(), Act::ReadAll]));
    Run { plan: Plan { drives: 1, zone_blocks: 14, ..plan() }, acts }
}

/// Zones are filled in the same way in each of their lives, and their closing directories read as those of the life before, three times each.
fn old_directory() -> Run {
    let plan = Plan { drives: 1, zones: 9, zone_blocks: 14, memory_kib: 512, ..plan() };
    let store = |key| Act::Set { key, bytes: 9_000, filler: Filler::Dots, expiry: Expiry::Never };
    let mut acts: Vec<Act> = (0..60).flat_map(|count| [store(count % 23), Act::Drain]).collect();
    acts.extend([Act::Rest, Act::Relapse { drive: 0, reads: 3 }, stop(), Act::ReadAll]);
    acts.extend((0..23).map(Act::Remove).chain([Act::Rest, stop(), Act::ReadAll, Act::Rest]));
    Run { plan, acts }
}

/// A drive that missed removals comes back and begins empty; its zones take long to be reset, and the power fails before they are.
fn slow_resets() -> Run {
    let mut acts: Vec<Act> =
        (0..12).flat_map(|key| [store(key), Act::Rest]).chain([Act::Away(2), stop()]).collect();
    acts.extend((0..12).map(Act::Remove).chain([Act::Rest, Act::Back]));
    let at = Moment { kind: Kind::Reset, skip: 0 };
    acts.extend([Act::Stop { power: true, cut: Some(at) }, Act::ReadAll, Act::Rest]);
    Run { plan: Plan { seed: 0, drives: 3, slow: Some((Kind::Reset, 48)), ..plan() }, acts }
}

/// Entries go from memory to the journal as a process ends in good order, and take longer than superblocks; then the power fails.
fn slow_journal() -> Run {
    let at = Moment { kind: Kind::Log, skip: 0 };
    let mut acts: Vec<Act> = (0..8).map(store).chain([Act::Rest]).collect();
    acts.extend((0..8).map(Act::Remove).chain([
        Act::Drain,
        Act::StopAt { power: true, at },
        Act::EndWell { power: true },
    ]));
    acts.extend([Act::ReadAll, Act::Rest]);
    let plan = Plan { drives: 1, invalidate: Invalidate::Process, shared_places: 64, ..plan() };
    Run { plan: Plan { seed: 0, slow: Some((Kind::Log, 48)), ..plan }, acts }
}

/// A drive dies while a record of the members is being made, and another one is put in its place: too early, until a record says that the
/// first one is left out.
fn joins_beside_a_record() -> Run {
    let at = Moment { kind: Kind::Superblock, skip: 2 };
    let soon = Act::Wait { nanos: 400_000, events: 4 };
    let acts = vec![
        store(0),
        Act::Rest,
        Act::Clear { key: None },
        Act::Wait { nanos: 1, events: 1 },
        Act::Die { drive: 1, at: None },
        soon,
        Act::StopAt { power: true, at },
        Act::Join(1),
        Act::Wait { nanos: 1 << 27, events: 1_000 },
        Act::ReadAll,
        Act::Rest,
    ];
    Run { plan: Plan { seed: 7, drives: 2, slow: Some((Kind::Superblock, 24)), ..plan() }, acts }
}

/// A victim takes long to be reset; meanwhile entries that hide what it holds are not written again, if it is not counted, the journal zone
/// that had them is reset, and the power fails.
fn journal_beside_a_victim() -> Run {
    let large = |key| Act::Set { key, bytes: 9_000, filler: Filler::Dots, expiry: Expiry::Never };
    let mut acts: Vec<Act> = (0..24).map(store).chain([Act::Rest]).collect();
    acts.extend((0..10).flat_map(|key| [Act::Remove(key), Act::Drain]).chain([Act::Rest]));
    let at = Moment { kind: Kind::Reset, skip: 4 };
    acts.push(Act::StopAt { power: true, at });
    for count in 0..120 {
        acts.push(large(10 + count % 5));
        acts.extend((0..4).flat_map(|more| [store(15 + (count * 4 + more) % 9), Act::Drain]));
    }
    acts.extend([Act::ReadAll, Act::Rest]);
    let plan = Plan { drives: 1, zones: 9, zone_blocks: 14, depth: 8, ..plan() };
    Run { plan: Plan { seed: 11, slow: Some((Kind::Reset, 400)), ..plan }, acts }
}
