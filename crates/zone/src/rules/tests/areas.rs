//! The rules of random write areas: the table of outcomes once more, over sets of blocks.
//!
//! The model keeps, of a zone with an area, which blocks were written and which the write pointer has passed, and finds
//! the write pointer of an implicit commit by trying granule after granule.

use super::{A, B, C, D, geometry};
use crate::device::{Areas, Geometry, Status, ZoneState};
use crate::rules::{Zone, ZoneTable};
use base::units::ZoneIndex;
use proptest::prelude::*;
use std::collections::BTreeSet;

const CAPACITY: u32 = 12;
const WINDOW: u32 = 4;
const GRANULE: u32 = 2;

fn with_area(table: &ZoneTable, zone: ZoneIndex) -> (ZoneState, u32, Option<u32>) {
    let Zone { state, write_pointer, area } = table.zone(zone);
    (state, write_pointer, area)
}

#[test]
fn a_window_takes_writes_in_any_order_and_moves_by_granules() {
    let mut table = ZoneTable::new(geometry());
    assert_eq!(table.open_with_area(A), Ok(()));
    assert_eq!(table.write(A, 3, 1), Ok(()));
    assert_eq!(table.write(A, 0, 2), Ok(()));
    assert_eq!(table.write(A, 3, 1), Ok(()), "again");
    assert_eq!(with_area(&table, A), (ZoneState::ExplicitOpen, 0, Some(4)));
    assert_eq!(table.write(A, 4, 1), Ok(()), "one beyond the window takes a granule");
    assert_eq!(with_area(&table, A), (ZoneState::ExplicitOpen, 2, Some(5)));
    assert_eq!(table.write(A, 1, 1), Err(Status::ZoneInvalidWrite), "below the write pointer");
    assert_eq!(table.write(A, 9, 2), Err(Status::ZoneInvalidWrite), "beyond two windows");
    assert_eq!(table.write(A, 9, 1), Ok(()));
    assert_eq!(with_area(&table, A), (ZoneState::ExplicitOpen, 6, Some(10)));
    assert_eq!(table.write(A, 11, 2), Err(Status::ZoneBoundaryError));
    assert_eq!(table.append(A, 1), Err(Status::InvalidZoneOperation));
}

#[test]
fn the_end_of_a_zone_is_reached_by_a_commit_or_a_finish_alone() {
    let mut table = ZoneTable::new(geometry());
    for zone in [A, B] {
        assert_eq!(table.open_with_area(zone), Ok(()));
        assert_eq!(table.write(zone, 0, 8), Ok(()));
        assert_eq!(table.write(zone, 4, 8), Ok(()));
        assert_eq!(with_area(&table, zone), (ZoneState::ExplicitOpen, 8, Some(12)));
        assert_eq!(table.write(zone, 8, 4), Ok(()), "all of what is left, again");
    }
    assert_eq!(table.commit(A, 10), Ok(()));
    assert_eq!(table.write(A, 11, 1), Ok(()));
    assert_eq!(table.commit(A, 12), Ok(()));
    assert_eq!(with_area(&table, A), (ZoneState::Full, 12, None));
    assert_eq!(table.area_count(), 1);
    assert_eq!(table.finish(B), Ok(()));
    assert_eq!(with_area(&table, B), (ZoneState::Full, 12, None));
    assert_eq!((table.area_count(), table.active_count()), (0, 0));
}

#[test]
fn areas_are_given_to_empty_zones_while_there_are_any() {
    let mut table = ZoneTable::new(geometry());
    assert_eq!(table.append(C, 1), Ok(0));
    assert_eq!(table.open_with_area(C), Err(Status::InvalidZoneOperation), "not empty");
    assert_eq!(table.open_with_area(A), Ok(()));
    assert_eq!(table.close(A), Ok(()));
    assert_eq!(table.open_with_area(A), Ok(()), "it has one");
    assert_eq!(table.zone(A).state, ZoneState::Closed, "nothing changes");
    assert_eq!(table.open_with_area(B), Ok(()));
    assert_eq!(table.open_with_area(D), Err(Status::NoAreaLeft));
    assert_eq!(table.reset(A), Ok(()));
    assert_eq!(table.open_with_area(D), Ok(()));
    table.degrade(D, ZoneState::ReadOnly);
    assert_eq!((table.area_count(), table.zone(D).area), (1, None));
    assert_eq!(
        table.report(A, 2).unwrap().iter().map(|zone| zone.has_area).collect::<Vec<_>>(),
        [false, true]
    );
    let mut none = ZoneTable::new(Geometry { areas: None, ..geometry() });
    assert_eq!(none.open_with_area(A), Err(Status::InvalidZoneOperation));
    assert_eq!(none.commit(A, 2), Err(Status::InvalidField));
}

#[test]
fn a_commit_moves_to_whole_granules_of_the_window() {
    let mut table = ZoneTable::new(geometry());
    assert_eq!(table.commit(A, 2), Err(Status::InvalidZoneOperation));
    assert_eq!(table.open_with_area(A), Ok(()));
    for end in [0, 1, 3, 6, 14] {
        assert_eq!(table.commit(A, end), Err(Status::InvalidField), "{end}");
    }
    assert_eq!(table.close(A), Ok(()));
    assert_eq!(table.commit(A, 4), Ok(()), "blocks that were not written");
    assert_eq!(with_area(&table, A), (ZoneState::ImplicitOpen, 4, Some(4)));
    let areas = geometry().areas.map(|areas| Areas { explicit_commit: false, ..areas });
    let mut implicit = ZoneTable::new(Geometry { areas, ..geometry() });
    assert_eq!(implicit.open_with_area(A), Ok(()));
    assert_eq!(implicit.commit(A, 2), Err(Status::InvalidField));
    assert_eq!(implicit.write(A, 4, 1), Ok(()));
    assert_eq!(implicit.zone(A).write_pointer, 2, "implicit commits are made all the same");
}

/// Zone with an area, as sets.
#[derive(Clone, Debug, Default)]
struct Open {
    passed: BTreeSet<u32>,
    written: BTreeSet<u32>,
}

impl Open {
    fn write_pointer(&self) -> u32 {
        u32::try_from(self.passed.len()).unwrap()
    }

    fn pass_to(&mut self, end: u32) {
        self.passed.extend(0..end);
        self.written.extend(0..end);
    }

    fn write(&mut self, offset: u32, blocks: u32) -> Result<(), Status> {
        let mut own = self.clone();
        let touched: BTreeSet<u32> = (offset..offset + blocks).collect();
        if touched.iter().any(|block| *block >= CAPACITY) {
            return Err(Status::ZoneBoundaryError);
        }
        let reach = own.write_pointer() + 2 * WINDOW;
        if touched.iter().any(|block| own.passed.contains(block) || *block >= reach) {
            return Err(Status::ZoneInvalidWrite);
        }
        while touched.iter().any(|block| *block >= own.write_pointer() + WINDOW) {
            own.pass_to(own.write_pointer() + GRANULE);
        }
        own.written.extend(touched);
        *self = own;
        Ok(())
    }

    fn commit(&mut self, end: u32) -> Result<(), Status> {
        let window = (1..=WINDOW / GRANULE).map(|granules| self.write_pointer() + granules * GRANULE);
        if !window.into_iter().any(|possible| possible == end && end <= CAPACITY) {
            return Err(Status::InvalidField);
        }
        self.pass_to(end);
        Ok(())
    }
}

/// A zone as the model knows it.
#[derive(Clone, Debug, Default)]
enum Known {
    #[default]
    Empty,
    Open(Open),
    Over,
}

/// Kinds: 0 write, 1 commit, 2 reset, 3 finish, 4 open with area, 5 close, 6 open, 7 append.
fn apply(zones: &mut [Known], (kind, zone, offset, blocks): (u8, usize, u32, u32)) -> Result<(), Status> {
    let with_area = zones.iter().filter(|zone| matches!(zone, Known::Open(_))).count();
    match (&mut zones[zone], kind) {
        (Known::Open(_), 7) | (Known::Empty | Known::Over, 1) => Err(Status::InvalidZoneOperation),
        (Known::Open(_) | Known::Empty | Known::Over, 2) => {
            zones[zone] = Known::Empty;
            Ok(())
        }
        (_, 3) => {
            zones[zone] = Known::Over;
            Ok(())
        }
        (Known::Open(own), 0) => own.write(offset, blocks),
        (Known::Open(own), 1) => {
            own.commit(offset)?;
            if own.write_pointer() == CAPACITY {
                zones[zone] = Known::Over;
            }
            Ok(())
        }
        (Known::Open(_), _) => Ok(()),
        (Known::Over, 0 | 7) => Err(Status::ZoneIsFull),
        (Known::Over, 4) => Err(Status::InvalidZoneOperation),
        (Known::Over, _) | (Known::Empty, 5) => Err(Status::InvalidZoneStateTransition),
        (Known::Empty, 4) if with_area == 2 => Err(Status::NoAreaLeft),
        (Known::Empty, 4) => {
            zones[zone] = Known::Open(Open::default());
            Ok(())
        }
        (Known::Empty, _) => unreachable!("zones without an area are left empty"),
    }
}

proptest! {
    /// Same answers, write pointers and written ends as the sets. Zones without an area are not written to; with two
    /// areas and as many open zones no limit but that of areas is met.
    #[test]
    fn windows_are_sets_of_blocks(
        commands in proptest::collection::vec((0..8_u8, 0..4_usize, 0..14_u32, 1..9_u32), 1..200),
        ahead in any::<bool>(),
    ) {
        let mut table = ZoneTable::new(geometry());
        let mut zones = vec![Known::default(); 4];
        for (kind, zone, offset, blocks) in commands {
            // Mostly near the write pointer.
            let from = match &zones[zone] {
                Known::Open(own) if ahead || kind == 1 => own.write_pointer() + offset % 6,
                _ => offset,
            };
            let command = (kind, zone, from, blocks.min(4));
            if matches!((&zones[zone], kind), (Known::Empty, 0 | 6 | 7)) {
                continue;
            }
            let index = ZoneIndex(u32::try_from(zone).unwrap());
            let result = match kind {
                0 => table.write(index, command.2, command.3),
                1 => table.commit(index, command.2),
                2 => table.reset(index),
                3 => table.finish(index),
                4 => table.open_with_area(index),
                5 => table.close(index),
                6 => table.open(index),
                _ => table.append(index, command.3).map(|_| ()),
            };
            prop_assert_eq!(result, apply(&mut zones, command), "{:?}", command);
            table.check_invariants();
            for (index, known) in (0..).zip(&zones) {
                let found = table.zone(ZoneIndex(index));
                match known {
                    Known::Open(own) => {
                        let end = own.written.last().map_or(0, |last| last + 1);
                        prop_assert_eq!((found.write_pointer, found.area), (own.write_pointer(), Some(end)));
                    }
                    Known::Empty => prop_assert_eq!(found, Zone::new(ZoneState::Empty, 0)),
                    Known::Over => prop_assert_eq!((found.state, found.area), (ZoneState::Full, None)),
                }
            }
        }
    }
}
