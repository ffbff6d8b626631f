//! The stripe table beside a map, and examples.

use super::*;
use crate::format::HEADER_BLOCKS;
use crate::stripe::tests::any_layout;
use crate::stripe::{LayoutSizes, Level};
use proptest::prelude::*;
use std::collections::BTreeMap;

#[test]
fn the_table_finds_a_stripe_in_its_group() {
    let sizes =
        LayoutSizes { header_blocks: HEADER_BLOCKS, chunk_blocks: 2, group_stripes: 8, capacity_blocks: 500 };
    let layout = Layout::fit(Level::Raid5.erasure_code(4).unwrap(), Level::Raid5, &sizes).unwrap();
    let mut table = StripeTable::new(&layout, Packing::Bits);
    table.set(2, 9, 3);
    table.set(2, 8, 7);
    assert_eq!(table.find(2, 8..16, 3, 11), Some(9));
    assert_eq!(table.find(2, 8..16, 0, 8), None, "an empty slot is not stripe 0");
    assert_eq!(table.find(1, 8..16, 3, 11), None);
    assert_eq!(table.stripe_within(2, 8), Some(7));
}

/// A segment that is one group, in zones of a real drive: 19 bits, or three bytes, for each slot.
#[test]
fn the_table_numbers_the_stripes_of_a_whole_segment() {
    let code = Level::Raid5.erasure_code(4).unwrap();
    let sizes = LayoutSizes {
        header_blocks: HEADER_BLOCKS,
        chunk_blocks: 1,
        group_stripes: GROUP_STRIPES_MAX,
        capacity_blocks: 275_712,
    };
    let layout = Layout::fit(code, Level::Raid5, &sizes).unwrap();
    for (packing, bits) in [(Packing::Bits, 19), (Packing::Bytes, 24)] {
        let mut table = StripeTable::new(&layout, packing);
        table.set(1, 7, 274_365);
        table.set(1, 274_365, 0x1_0007);
        let all = 0..layout.stripes;
        assert_eq!(table.find(1, all.clone(), 274_365, 274_365), Some(7));
        assert_eq!(table.find(1, all.clone(), 0x1_0007, 0x1_0007), Some(274_365));
        assert_eq!(table.find(1, all, 7, 7), None);
        let entries = 4 * 274_366_usize;
        let filled_bytes = 8 * entries.div_ceil(64);
        assert_eq!(table.memory_bytes(), (bits * entries).div_ceil(8) + PADDING_BYTES + filled_bytes);
        assert_eq!(table.settle(), None, "slots are empty");
    }
}

/// Section 3.2 of the paper: 3.77 GiB for 3,690 segments of 3+1 at G = 256, 8.95 GiB at G = S.
#[test]
fn a_settled_table_takes_what_the_paper_computes() {
    let code = Level::Raid5.erasure_code(4).unwrap();
    for (group_stripes, gib) in [(256, 3.77), (GROUP_STRIPES_MAX, 8.95)] {
        let sizes = LayoutSizes {
            header_blocks: HEADER_BLOCKS,
            chunk_blocks: 1,
            group_stripes,
            capacity_blocks: 275_712,
        };
        let layout = Layout::fit(code, Level::Raid5, &sizes).unwrap();
        let mut table = StripeTable::new(&layout, Packing::Bits);
        for (drive, slot) in (0..4).flat_map(|drive| (0..layout.stripes).map(move |slot| (drive, slot))) {
            table.set(drive, slot, slot % layout.group_stripes);
        }
        assert!(table.settle().is_some());
        let bytes = 3690 * u64::try_from(table.memory_bytes()).unwrap();
        let mib = u32::try_from(bytes >> 20).unwrap();
        assert!((f64::from(mib) / 1024.0 - gib).abs() < 0.01, "{mib} MiB");
    }
}

/// A table that was settled and is cleared takes what it is given, and is as good as a new one.
#[test]
fn a_settled_table_is_filled_again() {
    let sizes =
        LayoutSizes { header_blocks: HEADER_BLOCKS, chunk_blocks: 1, group_stripes: 5, capacity_blocks: 20 };
    let layout = Layout::fit(Level::Raid5.erasure_code(3).unwrap(), Level::Raid5, &sizes).unwrap();
    let places = || (0..3).flat_map(|drive| (0..layout.stripes).map(move |slot| (drive, slot)));
    let mut table = StripeTable::new(&layout, Packing::Bits);
    let mut spare = Vec::new();
    for round in 0..3 {
        for (drive, slot) in places() {
            assert_eq!(table.stripe_within(drive, slot), None);
            table.set(drive, slot, (slot + round) % 5);
        }
        spare.extend(table.settle());
        assert_eq!(spare.len(), 1);
        assert!(places().all(|(drive, slot)| table.stripe_within(drive, slot) == Some((slot + round) % 5)));
        table.clear(&mut spare);
        assert!(spare.is_empty());
    }
}

/// Drive, slot and stripe within its group, the last ones of a byte among them; and 0 to clear the table.
fn table_step() -> impl Strategy<Value = (usize, u32, u32, u8)> {
    (0..32_usize, 0..900_u32, prop_oneof![0..4_u32, 250..260_u32, any::<u32>()], 0..40_u8)
}

proptest! {
    #[test]
    fn the_table_says_what_a_map_says(
        layout in any_layout(),
        packing in proptest::sample::select(&[Packing::Bits, Packing::Bytes][..]),
        steps in proptest::collection::vec(table_step(), 0..60),
        asked in proptest::collection::vec((0..900_u32, 0..900_u32, any::<proptest::sample::Index>()), 1..20),
    ) {
        let mut table = StripeTable::new(&layout, packing);
        let mut model = BTreeMap::new();
        let mut spare = Vec::new();
        for (drive, slot, within, kind) in steps {
            let (drive, slot) = (drive % layout.members(), slot % layout.stripes);
            let within = within % layout.group_len(layout.group_of_slot(slot));
            if kind == 0 {
                table.clear(&mut spare);
                model.clear();
            } else {
                table.set(drive, slot, within);
                model.insert((drive, slot), within);
            }
        }
        // Bits that are not needed any more are given away, and change nothing.
        let filled = table.settle();
        prop_assert_eq!(filled.is_some(), model.len() == layout.members() * layout.stripes as usize);
        for place in (0..layout.members()).flat_map(|drive| (0..layout.stripes).map(move |slot| (drive, slot))) {
            prop_assert_eq!(table.stripe_within(place.0, place.1), model.get(&place).copied(), "{:?}", place);
        }
        // Of what was put in, the table knows the place; of what was not, that it has none.
        for (slot, likely, index) in asked {
            let places: Vec<_> = model.iter().map(|((drive, _), within)| (*drive, *within)).collect();
            let (drive, within) = if places.is_empty() { (0, 0) } else { *index.get(&places) };
            let group = layout.group_of_slot(slot % layout.stripes);
            let start = layout.group_start(group);
            let slots = start..start + layout.group_len(group);
            let likely = start + likely % layout.group_len(group);
            let mut candidates = std::iter::once(likely).chain(slots.clone());
            let expected = candidates.find(|slot| model.get(&(drive, *slot)) == Some(&within));
            prop_assert_eq!(table.find(drive, slots, within, likely), expected);
        }
    }
}
