//! The pool of zones beside an obvious one, under random lives of segments.

use super::*;
use crate::log::channels::RuleKind;
use base::erasure::ErasureCode;
use proptest::prelude::*;
use std::collections::BTreeMap;
use zone::format::HEADER_BLOCKS;
use zone::stripe::{LayoutSizes, Level};

const MEMBERS: usize = 3;
const ZONES: u32 = 6;

/// Next step of a test; numbers choose among what is there.
#[derive(Clone, Debug)]
enum Step {
    Open,
    Enter {
        nth: usize,
        state: SegmentState,
    },
    DropWriter {
        nth: usize,
    },
    /// The zones of the drives in `retired` are given up.
    Remove {
        nth: usize,
        retired: u32,
    },
    /// A zone that was given up is usable after all.
    FreeRetired {
        nth: usize,
    },
}

/// Zones as three plain lists.
struct Model {
    /// Oldest first, by drive.
    free: Vec<Vec<ZoneIndex>>,
    segments: BTreeMap<SegmentSlot, (Vec<ZoneIndex>, SegmentState)>,
    retired: Vec<(usize, ZoneIndex)>,
}

impl Model {
    fn nth_segment(&self, nth: usize) -> Option<SegmentSlot> {
        let count = self.segments.len();
        (count > 0).then(|| *self.segments.keys().nth(nth % count).unwrap())
    }

    fn owner(&self, drive: usize, zone: ZoneIndex) -> Option<SegmentSlot> {
        let owner = self.segments.iter().find(|(_, (zones, _))| zones[drive] == zone);
        owner.map(|(slot, _)| *slot)
    }
}

fn step() -> impl Strategy<Value = Step> {
    let state = prop_oneof![
        Just(SegmentState::Opening { headers_pending: 1 }),
        Just(SegmentState::Open),
        Just(SegmentState::Sealing { zones_pending: 1 }),
        Just(SegmentState::Sealed),
        Just(SegmentState::Condemned),
        Just(SegmentState::Resetting { zones_pending: 1 }),
    ];
    let nth = || 0..8_usize;
    prop_oneof![
        4 => Just(Step::Open),
        2 => (nth(), state).prop_map(|(nth, state)| Step::Enter { nth, state }),
        1 => nth().prop_map(|nth| Step::DropWriter { nth }),
        3 => (nth(), 0..1_u32 << MEMBERS).prop_map(|(nth, retired)| Step::Remove { nth, retired }),
        1 => nth().prop_map(|nth| Step::FreeRetired { nth }),
    ]
}

fn layout() -> Layout {
    let sizes =
        LayoutSizes { header_blocks: HEADER_BLOCKS, chunk_blocks: 1, group_stripes: 4, capacity_blocks: 16 };
    Layout::fit(ErasureCode::new(MEMBERS - 1, 1).unwrap(), Level::Raid5, &sizes).unwrap()
}

/// A segment that used all it was given, which must have been as good as new.
fn open(table: &mut SegmentTable, zones: Vec<ZoneIndex>) -> SegmentSlot {
    let layout = layout();
    let (mut stripes, mut writer) = (table.take_table(&layout), table.take_writer(&layout));
    for (drive, slot) in (0..MEMBERS).flat_map(|drive| (0..layout.stripes).map(move |slot| (drive, slot))) {
        assert_eq!(stripes.stripe_within(drive, slot), None);
        stripes.set(drive, slot, 1);
    }
    assert!(writer.next_stripe == 0 && writer.zones.iter().all(|zone| zone.landed == 0 && !zone.finished));
    writer.next_stripe = 1;
    writer.zones.iter_mut().for_each(|zone| (zone.landed, zone.finished) = (1, true));
    table.insert(Segment {
        state: SegmentState::Open,
        table: Some(stripes),
        writer: Some(writer),
        ..Segment::sealed(0, 0, Stream::Small, WriteMode::Append, layout, zones)
    })
}

fn apply(table: &mut SegmentTable, model: &mut Model, step: &Step) {
    match *step {
        Step::Open => {
            if model.free.iter().any(Vec::is_empty) {
                return;
            }
            let zones = table.take_zones(None);
            let expected: Vec<ZoneIndex> = model.free.iter_mut().map(|free| free.remove(0)).collect();
            assert_eq!(zones, expected);
            let slot = open(table, zones);
            assert!(model.segments.insert(slot, (expected, SegmentState::Open)).is_none());
        }
        Step::Enter { nth, state } => {
            let Some(slot) = model.nth_segment(nth) else { return };
            table.get_mut(slot).state = state;
            model.segments.get_mut(&slot).unwrap().1 = state;
        }
        Step::DropWriter { nth } => {
            let Some(slot) = model.nth_segment(nth) else { return };
            table.drop_writer(slot);
        }
        Step::Remove { nth, retired } => {
            let Some(slot) = model.nth_segment(nth) else { return };
            table.get_mut(slot).zones_retired = retired;
            table.remove(slot);
            for (drive, zone) in model.segments.remove(&slot).unwrap().0.into_iter().enumerate() {
                if retired & 1 << drive == 0 {
                    model.free[drive].push(zone);
                } else {
                    model.retired.push((drive, zone));
                }
            }
        }
        Step::FreeRetired { nth } => {
            if model.retired.is_empty() {
                return;
            }
            let (drive, zone) = model.retired.remove(nth % model.retired.len());
            table.free_zone(drive, zone);
            model.free[drive].push(zone);
        }
    }
}

fn check(table: &SegmentTable, model: &Model) {
    assert_eq!(table.free_segments() as usize, model.free.iter().map(Vec::len).min().unwrap());
    for (drive, zone) in (0..MEMBERS).flat_map(|drive| (0..ZONES).map(move |zone| (drive, ZoneIndex(zone)))) {
        assert_eq!(table.owner(DriveIndex::at(drive), zone), model.owner(drive, zone));
    }
    let seen: BTreeMap<_, _> =
        table.iter().map(|(slot, segment)| (slot, (segment.zones.clone(), segment.state))).collect();
    assert_eq!(seen, model.segments);
    let is_active = |state: &SegmentState| {
        matches!(state, SegmentState::Opening { .. } | SegmentState::Open | SegmentState::Sealing { .. })
    };
    let active = model.segments.values().filter(|(_, state)| is_active(state)).count();
    assert_eq!(table.active_count() as usize, active);
}

proptest! {
    #[test]
    fn every_zone_is_free_or_owned_or_given_up(steps in proptest::collection::vec(step(), 0..60)) {
        let mut table = SegmentTable::new(MEMBERS, ZONES, ZONES, Packing::Bits);
        let zones: Vec<ZoneIndex> = (0..ZONES).map(ZoneIndex).collect();
        for drive in 0..MEMBERS {
            zones.iter().for_each(|zone| table.free_zone(drive, *zone));
        }
        let mut model =
            Model { free: vec![zones; MEMBERS], segments: BTreeMap::new(), retired: Vec::new() };
        for step in &steps {
            apply(&mut table, &mut model, step);
            check(&table, &model);
        }
    }
}

/// Zones share as few low bits with those that are written as the free ones allow, whoever writes there.
#[test]
fn zones_that_are_written_lie_apart() {
    let taken = |of: fn(usize) -> Option<Stream>| -> Vec<u32> {
        let mut table = SegmentTable::new(MEMBERS, ZONES, ZONES, Packing::Bits);
        for (drive, zone) in (0..MEMBERS).flat_map(|drive| [1, 3, 5, 2, 4].map(|zone| (drive, zone))) {
            table.free_zone(drive, ZoneIndex(zone));
        }
        let mut take = |nth| {
            let zones = table.take_zones(of(nth));
            assert!(zones.iter().all(|zone| *zone == zones[0]));
            let first = zones[0].0;
            open(&mut table, zones);
            first
        };
        (0..5).map(&mut take).collect()
    };
    assert_eq!(taken(|_| None), [1, 3, 5, 2, 4]);
    assert_eq!(taken(|_| Some(Stream::Small)), [1, 2, 3, 4, 5]);
    assert_eq!(taken(|_| Some(Stream::Large)), [1, 2, 3, 4, 5]);
}

#[test]
fn zones_of_the_write_area_are_in_nobodys_way() {
    let next = |is_write_area| {
        let mut table = SegmentTable::new(MEMBERS, 8, 8, Packing::Bits);
        for (drive, zone) in (0..MEMBERS).flat_map(|drive| [1, 3, 2].map(|zone| (drive, zone))) {
            table.free_zone(drive, ZoneIndex(zone));
        }
        let zones = table.take_zones(None);
        let slot = open(&mut table, zones);
        table.get_mut(slot).is_write_area = is_write_area;
        table.take_zones(Some(Stream::Small))[0].0
    };
    assert_eq!((next(false), next(true)), (2, 3), "apart from what is written, and the oldest");
}

/// Where verdicts bear a rule out, it says what lies apart; numbers modulo a power of two are as good as their low bits.
#[test]
fn zones_lie_apart_by_the_rule_that_is_believed() {
    let taken = |rule: Option<Rule>| -> Vec<u32> {
        let mut table = SegmentTable::new(MEMBERS, 8, 8, Packing::Bits);
        rule.into_iter().for_each(|rule| table.channels.believe(rule));
        for (drive, zone) in (0..MEMBERS).flat_map(|drive| [1, 4, 2, 7, 3].map(|zone| (drive, zone))) {
            table.free_zone(drive, ZoneIndex(zone));
        }
        let mut take = |_| {
            let zones = table.take_zones(Some(Stream::Small));
            let first = zones[0].0;
            open(&mut table, zones);
            first
        };
        (0..5).map(&mut take).collect()
    };
    let rule = |kind, groups| taken(Some(Rule { kind, groups }));
    assert_eq!(rule(RuleKind::Number, 3), [1, 2, 3, 4, 7]);
    assert_eq!(rule(RuleKind::Opening, 3), [1, 4, 2, 7, 3], "the oldest: the drive decides");
    assert_eq!(rule(RuleKind::Number, 2), taken(None));
    assert_ne!(rule(RuleKind::Number, 3), taken(None));
}
