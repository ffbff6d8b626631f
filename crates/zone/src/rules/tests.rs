//! The rules one by one, and under random command sequences.

mod areas;

use super::*;
use crate::device::Areas;
use proptest::prelude::*;

fn geometry() -> Geometry {
    Geometry {
        zones: 6,
        zone_size_blocks: 16,
        zone_capacity_blocks: 12,
        open_zones_max: 2,
        active_zones_max: 3,
        append_blocks_max: 4,
        transfer_blocks_max: 8,
        volatile_cache: false,
        areas: Some(Areas { zones_max: 2, window_blocks: 4, granule_blocks: 2, explicit_commit: true }),
    }
}

const A: ZoneIndex = ZoneIndex(0);
const B: ZoneIndex = ZoneIndex(1);
const C: ZoneIndex = ZoneIndex(2);
const D: ZoneIndex = ZoneIndex(3);

#[test]
fn writes_go_to_the_write_pointer_and_fill_the_zone() {
    let mut table = ZoneTable::new(geometry());
    assert_eq!(table.write(A, 0, 8), Ok(()));
    assert_eq!(table.zone(A).state, ZoneState::ImplicitOpen);
    assert_eq!(table.write(A, 0, 1), Err(Status::ZoneInvalidWrite));
    assert_eq!(table.write(A, 8, 5), Err(Status::ZoneBoundaryError));
    assert_eq!(table.append(A, 4), Ok(8));
    assert_eq!(table.zone(A).state, ZoneState::Full);
    assert_eq!(table.append(A, 1), Err(Status::ZoneIsFull));
    assert_eq!(table.report(A, 1).unwrap()[0].write_pointer, u32::MAX);
    assert_eq!(table.reset(A), Ok(()));
    assert_eq!(table.zone(A), Zone::new(ZoneState::Empty, 0));
}

#[test]
fn transfers_and_zones_have_limits() {
    let mut table = ZoneTable::new(geometry());
    assert_eq!(table.append(A, 5), Err(Status::InvalidField));
    assert_eq!(table.append(A, 0), Err(Status::InvalidField));
    assert_eq!(table.write(A, 0, 9), Err(Status::InvalidField));
    assert_eq!(table.write(ZoneIndex(6), 0, 1), Err(Status::LbaOutOfRange));
    assert_eq!(table.read(A, 12, 4), Ok(()), "between capacity and size");
    assert_eq!(table.read(A, 12, 5), Err(Status::ZoneBoundaryError));
}

#[test]
fn an_implicitly_open_zone_gives_way_and_an_explicit_one_does_not() {
    let mut table = ZoneTable::new(geometry());
    assert_eq!(table.append(A, 1), Ok(0));
    assert_eq!(table.open(B), Ok(()));
    assert_eq!(table.append(C, 1), Ok(0));
    assert_eq!(table.zone(A).state, ZoneState::Closed);
    assert_eq!(table.append(D, 1), Err(Status::TooManyActiveZones));
    assert_eq!(table.open(C), Ok(()));
    assert_eq!(table.append(A, 1), Err(Status::TooManyOpenZones));
    assert_eq!(table.close(B), Ok(()));
    assert_eq!(table.append(A, 1), Ok(1));
}

#[test]
fn bad_transitions_are_refused() {
    let mut table = ZoneTable::new(geometry());
    assert_eq!(table.close(A), Err(Status::InvalidZoneStateTransition));
    assert_eq!(table.finish(A), Ok(()));
    assert_eq!(table.open(A), Err(Status::InvalidZoneStateTransition));
    table.degrade(B, ZoneState::ReadOnly);
    assert_eq!(table.reset(B), Err(Status::InvalidZoneStateTransition));
    assert_eq!(table.append(B, 1), Err(Status::ZoneIsReadOnly));
    assert_eq!(table.read(B, 0, 1), Ok(()));
    table.degrade(C, ZoneState::Offline);
    assert_eq!(table.write(C, 0, 1), Err(Status::ZoneIsOffline));
    assert_eq!(table.read(C, 0, 1), Err(Status::ZoneIsOffline));
    assert_eq!(table.finish(C), Err(Status::InvalidZoneStateTransition));
}

/// The specification's figure and text once more, without counters: what is open is counted when asked.
#[derive(Clone, Debug, PartialEq)]
struct Naive(Vec<Zone>);

impl Naive {
    fn open_as(&mut self, zone: usize, state: ZoneState) -> Result<(), Status> {
        let before = self.0[zone].state;
        let active = self.0.iter().filter(|zone| zone.state.is_active()).count();
        let open = self.0.iter().filter(|zone| zone.state.is_open()).count();
        if before == ZoneState::Empty && active == geometry().active_zones_max as usize {
            return Err(Status::TooManyActiveZones);
        }
        if !before.is_open() && open == geometry().open_zones_max as usize {
            let gives_way = self.0.iter_mut().find(|zone| zone.state == ZoneState::ImplicitOpen);
            gives_way.ok_or(Status::TooManyOpenZones)?.state = ZoneState::Closed;
        }
        self.0[zone].state = state;
        Ok(())
    }

    /// A write at `offset`, or an append where there is none.
    fn transfer(&mut self, zone: usize, offset: Option<u32>, blocks: u32) -> Result<u32, Status> {
        let limit =
            if offset.is_some() { geometry().transfer_blocks_max } else { geometry().append_blocks_max };
        let Zone { state, write_pointer, .. } = self.0[zone];
        let at = offset.unwrap_or(write_pointer);
        match state {
            _ if blocks == 0 || blocks > limit => return Err(Status::InvalidField),
            ZoneState::Full => return Err(Status::ZoneIsFull),
            ZoneState::ReadOnly => return Err(Status::ZoneIsReadOnly),
            ZoneState::Offline => return Err(Status::ZoneIsOffline),
            _ if at + blocks > geometry().zone_capacity_blocks => return Err(Status::ZoneBoundaryError),
            _ if at != write_pointer => return Err(Status::ZoneInvalidWrite),
            ZoneState::ExplicitOpen => {}
            _ => self.open_as(zone, ZoneState::ImplicitOpen)?,
        }
        self.0[zone].write_pointer += blocks;
        if self.0[zone].write_pointer == geometry().zone_capacity_blocks {
            self.0[zone].state = ZoneState::Full;
        }
        Ok(at)
    }

    fn manage(&mut self, zone: usize, kind: u8) -> Result<(), Status> {
        match (kind, self.0[zone].state) {
            (_, ZoneState::ReadOnly | ZoneState::Offline) => Err(Status::InvalidZoneStateTransition),
            (2, _) => {
                self.0[zone] = Zone::new(ZoneState::Empty, 0);
                Ok(())
            }
            (3, _) => {
                self.0[zone].state = ZoneState::Full;
                Ok(())
            }
            (4, ZoneState::Full) => Err(Status::InvalidZoneStateTransition),
            (4, _) => self.open_as(zone, ZoneState::ExplicitOpen),
            (_, ZoneState::Empty | ZoneState::Full) => Err(Status::InvalidZoneStateTransition),
            (_, _) => {
                self.0[zone].state = ZoneState::Closed;
                Ok(())
            }
        }
    }

    fn apply(&mut self, (kind, zone, offset, blocks): (u8, u32, u32, u32)) -> Result<u32, Status> {
        if zone >= geometry().zones {
            return Err(Status::LbaOutOfRange);
        }
        let zone = zone as usize;
        match kind {
            0 => self.transfer(zone, Some(offset), blocks),
            1 => self.transfer(zone, None, blocks),
            2..=5 => self.manage(zone, kind).map(|()| 0),
            6 if blocks == 0 || blocks > geometry().transfer_blocks_max => Err(Status::InvalidField),
            6 if offset + blocks > geometry().zone_size_blocks => Err(Status::ZoneBoundaryError),
            6 if self.0[zone].state == ZoneState::Offline => Err(Status::ZoneIsOffline),
            6 => Ok(offset),
            _ => {
                self.0[zone].state = if kind == 7 { ZoneState::ReadOnly } else { ZoneState::Offline };
                Ok(0)
            }
        }
    }
}

/// Stands for the write pointer.
const AT_POINTER: u32 = u32::MAX;

/// A command as kind, zone, offset and blocks, mostly one that is allowed. Kinds 7 and 8 are not asked but
/// happen.
fn command() -> impl Strategy<Value = (u8, u32, u32, u32)> {
    let kind = prop_oneof![20 => 0..7_u8, 1 => 7..9_u8];
    let zone = prop_oneof![20 => 0..4_u32, 1 => 4..7_u32];
    (kind, zone, prop_oneof![4 => Just(AT_POINTER), 1 => 0..14_u32], 0..10_u32)
}

proptest! {
    /// Same answers and same states as the naive rules, within the limits.
    #[test]
    fn the_rules_are_the_naive_ones(commands in proptest::collection::vec(command(), 1..100)) {
        let mut table = ZoneTable::new(geometry());
        let mut naive = Naive(table.zones.clone());
        for mut command in commands {
            if command.2 == AT_POINTER {
                command.2 = naive.0.get(command.1 as usize).map_or(0, |zone| zone.write_pointer);
            }
            let (kind, zone, offset, blocks) = (command.0, ZoneIndex(command.1), command.2, command.3);
            let exists = zone.0 < geometry().zones;
            let result = match kind {
                0 => table.write(zone, offset, blocks).map(|()| offset),
                1 => table.append(zone, blocks),
                2 => table.reset(zone).map(|()| 0),
                3 => table.finish(zone).map(|()| 0),
                4 => table.open(zone).map(|()| 0),
                5 => table.close(zone).map(|()| 0),
                6 => table.read(zone, offset, blocks).map(|()| offset),
                _ if !exists => Err(Status::LbaOutOfRange),
                _ => {
                    table.degrade(zone, if kind == 7 { ZoneState::ReadOnly } else { ZoneState::Offline });
                    Ok(0)
                }
            };
            prop_assert_eq!(result, naive.apply(command), "{:?}", command);
            prop_assert_eq!(&table.zones, &naive.0, "after {:?}", command);
            table.check_invariants();
            let again = ZoneTable::from_zones(geometry(), naive.0.clone());
            let counts = (again.open_count(), again.active_count());
            prop_assert_eq!((table.open_count(), table.active_count()), counts);
        }
    }
}
