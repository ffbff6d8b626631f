//! Runs of caches on conventional drives: files that are cut into zones.

use super::super::Run;
use super::super::act::{Act, Expiry, Filler, KEYS, Moment};
use super::super::plan::{Conventional, Plan};
use super::{plan, stop, store};
use crate::step::Kind;

/// All of them, with their names.
pub(super) fn all() -> Vec<(&'static str, Run)> {
    vec![
        ("files-torn-at-pages-of-the-table", torn_at(Kind::Reset)),
        ("files-torn-at-records-of-the-journal", torn_at(Kind::Log)),
        ("files-torn-between-writes-and-flush", torn_at(Kind::Flush)),
        ("files-tidy-up-under-shards", tidies_up()),
        ("file-added-as-the-power-fails", added()),
    ]
}

fn on_files(discards: bool) -> Plan {
    let conventional = Conventional { zone_units: 1, journal_spare: 3, cached_units: 2, discards };
    let plan = Plan { conventional: Some(conventional), zone_blocks: 59, is_volatile: true, ..plan() };
    Plan { zones: 12, object_mean: 4_096, memory_kib: 512, ..plan }
}

fn large(key: usize) -> Act {
    Act::Set { key, bytes: 9_000, filler: Filler::Dots, expiry: Expiry::Never }
}

/// The power fails at calls of a kind, one after the other, while zones get full and are reset.
fn torn_at(kind: Kind) -> Run {
    let mut acts = Vec::new();
    for skip in 0..12 {
        acts.push(Act::StopAt { power: true, at: Moment { kind, skip: skip / 2 } });
        for _ in 0..3 {
            acts.extend((0..KEYS).map(|key| if key % 3 == 0 { store(key) } else { large(key) }));
            acts.extend((0..KEYS).step_by(5).map(Act::Remove));
        }
        acts.extend([Act::ReadAll, Act::Rest]);
        let cut = Moment { kind, skip: skip / 4 };
        acts.extend([Act::Stop { power: true, cut: Some(cut) }, Act::ReadAll]);
    }
    Run { plan: on_files(true), acts }
}

/// A drive flushes and writes its table when no shard has asked it for anything: a slice did not look, and the world turned without end.
fn tidies_up() -> Run {
    let mut acts = Vec::new();
    for drive in [1, 2, 0] {
        for _ in 0..4 {
            acts.extend((0..KEYS).map(|key| if key % 2 == 0 { store(key) } else { large(key) }));
        }
        acts.extend([Act::GiveUp(drive), Act::Rest, Act::AddDrive { joins: true }, Act::Rest]);
    }
    acts.extend([stop(), Act::ReadAll, Act::Rest]);
    Run { plan: Plan { drives: 3, shards: 2, letter_ns: 1 << 18, ..on_files(true) }, acts }
}

/// The power fails at calls by which a new drive is opened that joins in service.
fn added() -> Run {
    let mut acts = vec![];
    for skip in 0..6 {
        acts.extend((0..KEYS).map(store).chain([Act::Rest, Act::GiveUp(1), Act::Rest]));
        acts.push(Act::StopAt { power: true, at: Moment { kind: Kind::Any, skip } });
        acts.extend([Act::AddDrive { joins: true }, Act::ReadAll, Act::Rest]);
        acts.extend([Act::AddDrive { joins: true }, Act::Rest]);
    }
    Run { plan: Plan { drives: 3, ..on_files(false) }, acts }
}
