//! The rules one by one, and under random command sequences.

use super::*;
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
    assert_eq!(table.zone(A), Zone { state: ZoneState::Empty, write_pointer: 0 });
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

proptest! {
    /// Whatever is asked, the limits hold and a refused command changes nothing.
    #[test]
    fn limits_hold_under_any_command(commands in proptest::collection::vec((0..7_u8, 0..7_u32, 0..14_u32, 0..10_u32), 1..200)) {
        let mut table = ZoneTable::new(geometry());
        for (kind, zone, offset, blocks) in commands {
            let zone = ZoneIndex(zone);
            let before = table.clone();
            let result = match kind {
                0 => table.write(zone, offset, blocks),
                1 => table.append(zone, blocks).map(|_| ()),
                2 => table.reset(zone),
                3 => table.finish(zone),
                4 => table.open(zone),
                5 => table.close(zone),
                _ => table.read(zone, offset, blocks),
            };
            table.check_invariants();
            if result.is_err() {
                prop_assert_eq!(&before.zones, &table.zones);
            }
        }
    }
}
