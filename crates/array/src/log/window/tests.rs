//! Windows against the rules of drives, with commands that take effect in any order.

use super::{DurableStripes, Window};
use base::units::ZoneIndex;
use proptest::prelude::*;
use std::collections::BTreeSet;
use zone::device::{Areas, Geometry};
use zone::rules::ZoneTable;
use zone::stripe::StripeNumber;

fn geometry(areas: Areas) -> Geometry {
    Geometry {
        zones: 3,
        zone_size_blocks: 256,
        zone_capacity_blocks: 240,
        open_zones_max: 3,
        active_zones_max: 3,
        append_blocks_max: 64,
        transfer_blocks_max: 64,
        volatile_cache: false,
        areas: Some(areas),
    }
}

#[test]
fn durable_stripes_end_at_the_first_that_is_not() {
    let mut durable = DurableStripes::up_to(5);
    durable.add(StripeNumber(7));
    durable.add(StripeNumber(6));
    assert_eq!(durable.end(), 5);
    durable.add(StripeNumber(5));
    assert_eq!(durable.end(), 8);
    (9..136).map(StripeNumber).for_each(|stripe| durable.add(stripe));
    assert_eq!(durable.end(), 8);
    durable.add(StripeNumber(8));
    assert_eq!(durable, DurableStripes::up_to(136));
}

#[test]
fn a_window_of_two_granules_keeps_a_block_that_is_durable() {
    let areas = Areas { zones_max: 1, window_blocks: 4, granule_blocks: 2, explicit_commit: true };
    let mut window = Window::new(areas, 2);
    assert_eq!(window.blocks_max(), 2);
    assert!(window.may_write(&(5..6), 3));
    assert!(!window.may_write(&(6..7), 3), "the first granule is not durable");
    assert!(!window.may_write(&(6..7), 4), "nothing that is durable would be left in the window");
    assert!(window.may_write(&(6..7), 5));
    (3..7).for_each(|block| window.write(&(block..block + 1)));
    assert_eq!((window.write_pointer(), window.commit(5), window.commit(6)), (4, None, Some(6)));
}

proptest! {
    /// Whatever the order in which chunks take effect, the drive takes each of them and commits none that is in flight, nor
    /// the last block of those that are durable; and something may always be written.
    #[test]
    fn drives_take_what_windows_allow(
        (granules, granule_blocks, chunk_blocks) in (1..20_u32, prop::sample::select(vec![1_u32, 2, 4, 8]), 1..5_u32),
        order in proptest::collection::vec(0..64_usize, 1..400),
    ) {
        let window_blocks = granules * granule_blocks;
        prop_assume!(window_blocks >= granule_blocks + chunk_blocks);
        let areas = Areas { zones_max: 1, window_blocks, granule_blocks, explicit_commit: true };
        let mut drive = ZoneTable::new(geometry(areas));
        let zone = ZoneIndex(2);
        drive.open_with_area(zone).unwrap();
        // Header, and marker.
        let header_blocks = granule_blocks + 1;
        drive.write(zone, 0, header_blocks).unwrap();
        drive.commit(zone, granule_blocks).unwrap();
        let mut window = Window::new(areas, granule_blocks);
        let (mut durable, mut next) = (DurableStripes::default(), 0_u32);
        let mut in_flight: BTreeSet<u32> = BTreeSet::new();
        let stripes = (240 - header_blocks) / chunk_blocks;
        let range = |stripe: u32| {
            let start = header_blocks + stripe * chunk_blocks;
            start..start + chunk_blocks
        };
        for pick in order {
            while next < stripes && in_flight.len() < 32 && next - durable.end() < 128
                && window.may_write(&range(next), range(durable.end()).start)
            {
                in_flight.insert(next);
                next += 1;
            }
            let Some(stripe) = in_flight.iter().nth(pick % in_flight.len().max(1)).copied() else { break };
            in_flight.remove(&stripe);
            prop_assert_eq!(drive.write(zone, range(stripe).start, chunk_blocks), Ok(()));
            window.write(&range(stripe));
            durable.add(StripeNumber(stripe));
            let write_pointer = drive.zone(zone).write_pointer;
            prop_assert_eq!(window.write_pointer(), write_pointer);
            prop_assert!(write_pointer < range(durable.end()).start, "what is committed is durable, but for its last block");
        }
        prop_assert!(!in_flight.is_empty() || next == stripes || durable.end() < stripes);
        while let Some(stripe) = in_flight.pop_first() {
            prop_assert_eq!(drive.write(zone, range(stripe).start, chunk_blocks), Ok(()));
            window.write(&range(stripe));
        }
        let end = range(next).start;
        if let Some(end) = window.commit(end) {
            prop_assert_eq!(drive.commit(zone, end), Ok(()));
        }
        prop_assert_eq!(drive.zone(zone).write_pointer, window.write_pointer());
    }
}
