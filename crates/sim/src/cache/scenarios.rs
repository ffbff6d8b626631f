//! Runs that were found by a seed once, or that a mistake asks for: each by name.

mod files;
mod operations;
mod orders;
mod shards;

use super::act::{Act, Change, Expiry, Filler, Moment, draw_first};
use super::{Plan, Run};
use crate::plan::Tearing;
use crate::step::Kind;
use ::cache::admission::Admission;
use ::cache::config::{Acknowledge, Invalidate};
use ::cache::policy::Eviction;

/// Cache of a scenario: two drives without a volatile cache, and little memory.
fn plan() -> Plan {
    Plan {
        seed: 1,
        drives: 2,
        zones: 12,
        zone_blocks: 32,
        transfer_blocks: 4,
        is_volatile: false,
        latency_ns: 100_000,
        slow: None,
        tearing: Tearing::Prefix,
        reorders: true,
        tag_bits: 12,
        object_mean: 512,
        batch_pages: 4,
        memory_kib: 192,
        copies_kib: 0,
        eviction: Eviction::Fifo,
        reinsert_percent: 0,
        admission: Admission::All,
        endurance: 1 << 20,
        depth: 40,
        ttl_groups: [0; 3],
        shares: ::cache::share::Shares::default(),
        active_zones: 6,
        zones_for_more: 128,
        acknowledge: Acknowledge::Memory,
        forget_after: None,
        invalidate: Invalidate::Media,
        shared_places: 0,
        shards: 1,
        letter_ns: 0,
        conventional: None,
    }
}

/// All scenarios with their names.
#[must_use]
pub fn all() -> Vec<(&'static str, Run)> {
    // Updates that store did not wait for room as stores do, and buffers outgrew their share of the memory.
    let update = |key| Act::Update { key, change: Change::StoreIf { exists: false }, bytes: 9_000 };
    let updates = (0..20).map(update).chain([Act::Drain, Act::ReadAll, Act::Rest]);
    // The last drive was gone, and an update was said to be too large.
    let count = Act::Update { key: 1, change: Change::Count, bytes: 200 };
    // A cache without drives told a time that had passed as that of its next turn, and its server ran in a circle.
    let store = |key, filler| Act::Set { key, bytes: 40, filler, expiry: Expiry::Never };
    let orphan = vec![
        store(6, Filler::Dots),
        Act::Wait { nanos: 1 << 25, events: 14 },
        Act::Update { key: 6, change: Change::Count, bytes: 200 },
        store(0, Filler::Record),
        Act::Die { drive: 0, at: None },
        Act::Rest,
    ];
    let lone = Plan { seed: 31, drives: 1, zones: 13, zone_blocks: 31, transfer_blocks: 2, ..plan() };
    let lone =
        Plan { is_volatile: true, latency_ns: 40_000, tag_bits: 3, object_mean: 2048, depth: 21, ..lone };
    let all = vec![
        ("no-drive-and-nothing-due", Run { plan: lone, acts: orphan }),
        ("updates-wait-for-room", Run { plan: plan(), acts: updates.collect() }),
        (
            "no-drive-is-no-size",
            Run {
                plan: Plan { drives: 1, ..plan() },
                acts: vec![count.clone(), Act::Rest, count.clone(), Act::Die { drive: 0, at: None }, count],
            },
        ),
        // An index of few buckets, whose slots move while they are walked over.
        (
            "scan-while-slots-move",
            Run {
                plan: Plan { object_mean: 16_384, memory_kib: 512, ..plan() },
                acts: super::scan::while_slots_move(),
            },
        ),
        ("highest-generation-of-a-cut-mount", highest_generation()),
        ("joining-drive-cut-off", joining_drive()),
        ("journal-of-single-blocks", single_blocks()),
        ("journal-zone-offline", journal_offline()),
        ("journal-zone-ends-elsewhere", journal_ends_elsewhere()),
        ("newest-superblock-misread", newest_superblock_misread()),
        ("zones-for-the-journal-alone", zones_for_the_journal()),
        ("journal-alone-on-one-of-two", journal_alone_on_one()),
        ("expired-on-a-drive-that-dies", expired_on_dying_drive()),
        ("unacknowledged-expires-with-its-mates", unacknowledged_expires()),
        ("torn-header-of-a-life-that-is-over", torn_header(31)),
        // Of two answers one is the header of the life before.
        ("torn-header-in-one-answer-of-two", torn_header(29)),
        ("media-know-a-later-time", later_time()),
        ("clear-comes-after-a-crash", planned_clear()),
        ("clear-at-once-calls-off", clear_called_off()),
        ("expired-zone-and-clock-set-back", expired_zone(20)),
        ("expired-zone-and-time-not-flushed", expired_zone(1)),
        ("expired-in-a-zone-that-is-reset", expired_in_a_victim()),
        ("expired-with-an-entry-on-its-way", missed_beside_a_mate(2, &Act::Get)),
        ("expired-for-who-decides", missed_beside_a_mate(2, &look_and_keep)),
        // A header of a zone is misread once, in a mount.
        ("header-misread-once", drawn(179)),
        // A block is missing in a journal zone that is full, and others follow it.
        ("hole-in-a-finished-journal-zone", reseeded(drawn(4_506), 39)),
        // A journal zone that was carried waited for its reset while a record of the members was written, and was chosen again.
        ("journal-zone-carried-twice", reseeded(carried_twice(), 0)),
        // A mount found a victim of a share that was not reset, beside as many zones as the namespace may have.
        ("victim-of-a-share-is-there-again", drawn(3_967)),
        ("drive-joins-and-is-not-recorded", of_one_shard(7_432)),
    ];
    all.into_iter()
        .chain(orders::all())
        .chain(shards::all())
        .chain(files::all())
        .chain(operations::all())
        .collect()
}

/// The run of a seed, from before some of them had stores that the media answer.
fn drawn(seed: u64) -> Run {
    let plan = Plan::draw(seed);
    let mut acts = draw_first(&plan);
    acts.retain(|act| {
        let came_later = matches!(act, Act::Absent(_) | Act::Freeze(_) | Act::CutMemory { .. });
        !came_later && !matches!(act, Act::EndWell { .. } | Act::Recut(_))
    });
    let plan = Plan { acknowledge: Acknowledge::Memory, forget_after: None, slow: None, ..plan };
    let plan = Plan { shards: 1, letter_ns: 0, conventional: None, ..plan };
    Run { plan: Plan { invalidate: Invalidate::Media, ..plan }, acts }
}

/// The same acts under another seed, that of the mutant's search when others no longer found it.
fn reseeded(Run { plan, acts }: Run, seed: u64) -> Run {
    Run { plan: Plan { seed, ..plan }, acts }
}

/// The run of a seed, from before it had several shards.
fn of_one_shard(seed: u64) -> Run {
    let plan = Plan::draw(seed);
    let mut acts = draw_first(&plan);
    acts.retain(|act| !matches!(act, Act::Recut(_)));
    Run { plan: Plan { shards: 1, letter_ns: 0, slow: None, conventional: None, ..plan }, acts }
}

/// It takes a record of the members in the moment in which the last entries are durable: a little less memory than was drawn brings both together.
fn carried_twice() -> Run {
    let Run { plan, acts } = drawn(658);
    Run { plan: Plan { memory_kib: plan.memory_kib * 49 / 50, ..plan }, acts }
}

/// Objects expired, and entries that hide them, for keys that the index cannot tell from theirs, were on their way when they were missed. With
/// this seed the process ended before the entries were there, and the clock was set back.
fn missed_beside_a_mate(seed: u64, ask: &dyn Fn(usize) -> Act) -> Run {
    let plan = Plan { seed, drives: 1, tag_bits: 3, object_mean: 131_072, reorders: false, ..plan() };
    let short = |key| Act::Set { key, bytes: 100, filler: Filler::Dots, expiry: Expiry::After(40) };
    // The journal has a zone, whose header tells an earlier time.
    let mut acts: Vec<Act> = vec![store(23), Act::Rest, store(23)];
    acts.extend((0..12).map(short).chain([Act::Rest, Act::SetClock(60)]));
    acts.extend((12..24).map(store));
    acts.extend((0..12).map(ask));
    acts.extend([Act::SetClock(-60), stop(), Act::ReadAll, Act::Rest]);
    Run { plan, acts }
}

fn look_and_keep(key: usize) -> Act {
    Act::Update { key, change: Change::Keep, bytes: 100 }
}

fn store(key: usize) -> Act {
    Act::Set { key, bytes: 100, filler: Filler::Dots, expiry: Expiry::Never }
}

fn stop() -> Act {
    Act::Stop { power: false, cut: None }
}

/// Mounts of drives 0 and 1 that were cut short left the highest generation on drive 0 alone, while drives 1 and 2 went on
/// without it and acknowledged.
fn highest_generation() -> Run {
    let cut = Act::Try { without: 2, cut: Moment { kind: Kind::Superblock, skip: 1 } };
    let plan = Plan { drives: 3, reorders: false, ..plan() };
    let before = vec![store(0), Act::Rest, cut.clone(), cut.clone(), cut, Act::Away(0), stop()];
    let after = vec![store(0), Act::Remove(0), Act::Rest, Act::Back, stop(), Act::ReadAll];
    Run { plan, acts: [before, after].concat() }
}

/// A drive that was taken in again was a member to the other one, and did not know it itself.
fn joining_drive() -> Run {
    let at = Moment { kind: Kind::Superblock, skip: 1 };
    let acts = vec![
        store(0),
        Act::Rest,
        Act::Die { drive: 1, at: None },
        store(1),
        Act::Rest,
        Act::Stop { power: false, cut: Some(at) },
        Act::ReadAll,
    ];
    Run { plan: Plan { reorders: false, ..plan() }, acts }
}

/// The first write of a journal zone was header and block in one command, which a drive may refuse.
fn single_blocks() -> Run {
    let acts = vec![store(0), Act::Rest, store(0), Act::Rest, stop(), Act::ReadAll];
    Run { plan: Plan { transfer_blocks: 1, ..plan() }, acts }
}

/// The journal zone goes offline, and with it what hides a removed object.
fn journal_offline() -> Run {
    let acts = vec![
        store(0),
        Act::Rest,
        Act::Remove(0),
        Act::Rest,
        Act::LoseZone { drive: 0, zone: 1 },
        stop(),
        Act::ReadAll,
    ];
    Run { plan: Plan { drives: 1, ..plan() }, acts }
}

/// The last block of a journal zone lands elsewhere, and the zone looks as if it had been finished before.
fn journal_ends_elsewhere() -> Run {
    let mut acts = vec![store(0), Act::Rest];
    (0..12).for_each(|_| acts.extend([store(0), Act::Rest]));
    acts.push(Act::Miswrite { drive: 0, at: Moment { kind: Kind::Log, skip: 0 } });
    acts.extend([Act::Remove(0), Act::Drain, stop(), Act::ReadAll]);
    Run { plan: Plan { drives: 1, zone_blocks: 14, ..plan() }, acts }
}

/// A mount is answered with another block for the newest superblock, and would give sequences that were given before.
fn newest_superblock_misread() -> Run {
    let misread = Act::Misread { drive: 0, count: 1 };
    let before = vec![store(0), Act::Rest, store(0), Act::Rest, misread, stop()];
    let after = vec![store(0), Act::Rest, stop(), Act::ReadAll];
    Run { plan: Plan { seed: 13, drives: 1, ..plan() }, acts: [before, after].concat() }
}

/// Of the zones of a lone drive two are left, which are for its journal: no page found a zone, and a store waited for ever.
fn zones_for_the_journal() -> Run {
    let plan = Plan { drives: 1, zones: 9, ..plan() };
    let lost = [4, 5, 6, 2, 1].map(|zone| Act::LoseZone { drive: 0, zone });
    Run { plan, acts: [lost.to_vec(), vec![stop(), store(9), Act::Rest]].concat() }
}

/// The same of one drive of two: the other goes on alone, and what they hold is found after the next mount.
fn journal_alone_on_one() -> Run {
    let plan = Plan { zones: 9, ..plan() };
    let lost = [4, 5, 6, 2, 1].map(|zone| Act::LoseZone { drive: 0, zone });
    let before = vec![store(0), store(1), Act::Rest];
    let after = vec![stop(), store(9), store(0), Act::Rest, stop(), Act::ReadAll, Act::Rest];
    Run { plan, acts: [before, lost.to_vec(), after].concat() }
}

/// What a client was never told of had expired, and when a read removed it, a key went that the index cannot tell from it:
/// the ledger held that loss to have no cause.
fn unacknowledged_expires() -> Run {
    let plan = Plan { seed: 20_782_004_669, zones: 10, zone_blocks: 28, transfer_blocks: 5, ..plan() };
    let plan = Plan { latency_ns: 20_000, tearing: Tearing::Holes, reorders: false, tag_bits: 3, ..plan };
    let plan = Plan { object_mean: 65_536, batch_pages: 7, memory_kib: 512, depth: 32, ..plan };
    let count = |key| Act::Update { key, change: Change::Count, bytes: 9_000 };
    let set = |key, bytes, expiry| Act::Set { key, bytes, filler: Filler::Block, expiry };
    let acts = vec![
        count(7),
        count(4),
        set(11, 100, Expiry::Never),
        Act::Wait { nanos: 1 << 26, events: 32 },
        set(12, 20, Expiry::Never),
        set(13, 9_000, Expiry::After(18)),
        set(1, 700, Expiry::After(33)),
        Act::Wait { nanos: 1 << 15, events: 31 },
        set(12, 9_000, Expiry::After(38)),
        set(4, 700, Expiry::After(12)),
        set(15, 9_000, Expiry::After(21)),
        set(12, 20, Expiry::After(35)),
        Act::Stop { power: true, cut: Some(Moment { kind: Kind::Superblock, skip: 5 }) },
        Act::Wait { nanos: 1 << 25, events: 15 },
        set(7, 700, Expiry::After(6)),
        Act::Get(4),
        set(12, 3_000, Expiry::After(16)),
    ];
    Run { plan, acts }
}

/// The clock was set back, and the media knew a later time than the record of the last mount. By that time something had
/// expired, and while a read removed it, a key was missed that the index cannot tell from it: to the ledger without a cause.
fn later_time() -> Run {
    let plan =
        Plan { seed: 20_784_008_179, drives: 1, zones: 13, zone_blocks: 19, transfer_blocks: 3, ..plan() };
    let plan = Plan { is_volatile: true, latency_ns: 160_000, tag_bits: 3, object_mean: 131_072, ..plan };
    let plan = Plan { batch_pages: 2, memory_kib: 512, depth: 6, ..plan };
    let set = |key, bytes, filler, expiry| Act::Set { key, bytes, filler, expiry };
    let acts = vec![
        set(8, 20, Filler::Dots, Expiry::Never),
        set(2, 700, Filler::Dots, Expiry::After(6)),
        Act::Wait { nanos: 1 << 24, events: 22 },
        Act::Scan { key: 1, count: 6 },
        set(18, 20, Filler::Dots, Expiry::After(13)),
        Act::Rest,
        Act::SetClock(-32),
        Act::Scan { key: 0, count: 6 },
        stop(),
        set(19, 700, Filler::Record, Expiry::Never),
        Act::SetClock(-36),
        set(2, 3_000, Filler::Dots, Expiry::After(24)),
        Act::SetClock(39),
        set(4, 9_000, Filler::Record, Expiry::Never),
        Act::Get(4),
        set(0, 100, Filler::Dots, Expiry::Never),
        set(19, 3_000, Filler::Dots, Expiry::After(20)),
        set(17, 9_000, Filler::Block, Expiry::After(3)),
        set(23, 9_000, Filler::Record, Expiry::Never),
        set(9, 3_000, Filler::Dots, Expiry::Never),
        set(4, 3_000, Filler::Record, Expiry::Never),
    ];
    Run { plan, acts }
}

/// A drive that begins empty had a zone reset; a crash tore the header of its next life, and the drive answered with that of
/// the life before. The zone went on in it, and pages of that life were believed.
fn torn_header(seed: u64) -> Run {
    let plan = Plan { seed, is_volatile: true, tearing: Tearing::Holes, transfer_blocks: 2, ..plan() };
    let mut acts = Vec::new();
    (0..16).for_each(|_| acts.extend([store(0), Act::Rest]));
    acts.extend([Act::Die { drive: 1, at: None }, store(1), Act::Rest, stop(), Act::Rest]);
    acts.push(Act::Stale { drive: 1, count: 3 });
    acts.push(Act::StopAt { power: true, at: Moment { kind: Kind::Header, skip: 0 } });
    (0..6).for_each(|_| acts.extend([store(0), Act::Rest, Act::Get(0)]));
    Run { plan, acts }
}

/// A drive died while an object of it was read that had expired. The miss was answered before it was recorded that the drive
/// is left out, the power failed, and the clock had been set back: the object was there again.
fn expired_on_dying_drive() -> Run {
    let plan =
        Plan { seed: 20_782_022_877, zone_blocks: 30, transfer_blocks: 2, is_volatile: true, ..plan() };
    let plan = Plan { latency_ns: 10_000, tag_bits: 3, object_mean: 256, batch_pages: 7, depth: 29, ..plan };
    let set = |key, bytes, expiry| Act::Set { key, bytes, filler: Filler::Dots, expiry };
    let acts = vec![
        Act::Set { key: 21, bytes: 9_000, filler: Filler::Record, expiry: Expiry::Never },
        set(20, 3_000, Expiry::After(14)),
        Act::Rest,
        Act::ReadAll,
        Act::Get(20),
        set(16, 3_000, Expiry::Never),
        Act::SetClock(19),
        Act::Get(21),
        set(23, 3_000, Expiry::After(11)),
        Act::SetClock(-45),
        Act::Die { drive: 1, at: None },
        Act::Stop { power: true, cut: None },
    ];
    Run { plan, acts }
}

/// A key has expired when it is asked for while its zone is being reset, which the power ends; then the clock is set back.
fn expired_in_a_victim() -> Run {
    let plan = Plan { seed: 55, drives: 1, zones: 9, zone_blocks: 12, memory_kib: 512, ..plan() };
    let store = |key, expiry| Act::Set { key, bytes: 9_000, filler: Filler::Dots, expiry };
    let mut acts = vec![
        Act::StopAt { power: true, at: Moment { kind: Kind::Reset, skip: 0 } },
        store(20, Expiry::After(2_000)),
    ];
    for key in 0..8 {
        acts.extend([store(key, Expiry::Never), Act::Wait { nanos: 12_000_000, events: 1_000 }]);
    }
    acts.extend([store(8, Expiry::Never), Act::Wait { nanos: 224_000, events: 1_000 }]);
    acts.extend([Act::SetClock(3_000), Act::Get(20), Act::SetClock(-3_500)]);
    acts.extend([Act::Wait { nanos: 12_000_000, events: 1_000 }, Act::Get(20), Act::Rest]);
    Run { plan, acts }
}

/// A clear that was planned comes in a later life than it was asked for, and what is asked then is asked after it.
fn planned_clear() -> Run {
    let acts = vec![
        store(0),
        store(1),
        Act::Rest,
        Act::ClearAt { key: 0, after: 200 },
        Act::Drain,
        Act::Stop { power: true, cut: None },
        Act::ReadAll,
        Act::SetClock(300),
        Act::Get(0),
        Act::ReadAll,
        Act::Rest,
    ];
    Run { plan: plan(), acts }
}

/// A clear at once leaves none to come: what is stored after it stays.
fn clear_called_off() -> Run {
    let acts = vec![
        store(0),
        Act::ClearAt { key: 0, after: 200 },
        Act::Drain,
        Act::ClearAt { key: 0, after: 0 },
        Act::Drain,
        store(0),
        Act::Rest,
        Act::SetClock(300),
        Act::ReadAll,
        Act::Rest,
    ];
    Run { plan: plan(), acts }
}

/// All in a zone has expired, and the zone is being reset: what it held is missed. The power fails before the reset, the clock was set
/// back, and nothing but the journal, which told the time first, knows that it has expired.
fn expired_zone(seed: u64) -> Run {
    let plan = Plan { seed, drives: 1, zones: 20, zone_blocks: 14, memory_kib: 512, ..plan() };
    let plan = Plan { ttl_groups: [60, 80, 100], active_zones: 10, is_volatile: true, ..plan };
    let short = |key| Act::Set { key, bytes: 9_000, filler: Filler::Dots, expiry: Expiry::After(40) };
    let mut acts: Vec<Act> = [store(20)].into_iter().chain((0..12).map(short)).collect();
    // What hides the first version of another key flushes the drive.
    acts.extend([Act::Drain, Act::Wait { nanos: 20_000_000, events: 1_000 }, store(20), Act::Drain]);
    acts.push(Act::StopAt { power: true, at: Moment { kind: Kind::Reset, skip: 0 } });
    acts.push(Act::Wait { nanos: 50_000_000, events: 1_000 });
    acts.extend((0..12).map(Act::Get));
    acts.extend([Act::SetClock(-60), Act::Rest, Act::ReadAll, Act::Rest]);
    Run { plan, acts }
}
