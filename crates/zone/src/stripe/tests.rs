//! Layouts whose maps are inverse, the stripe table beside a map, and examples.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn layout(level: Level, members: usize) -> Layout {
    let code = level.erasure_code(members).unwrap();
    let sizes = LayoutSizes { chunk_blocks: 2, group_stripes: 8, capacity_blocks: 500 };
    Layout::fit(code, level, &sizes).unwrap()
}

/// md's left-symmetric layout: D_i on (pd + 1 + i) mod n, pd = n-1 - stripe mod n.
#[test]
fn raid5_rotates_as_md_does() {
    let layout = layout(Level::Raid5, 4);
    for stripe in 0..8 {
        let parity = 3 - stripe as usize % 4;
        assert_eq!(layout.drive_of(stripe, 3), parity);
        for data in 0..3 {
            assert_eq!(layout.drive_of(stripe, data), (parity + 1 + data) % 4);
        }
    }
}

/// md's left-symmetric layout of RAID-6: Q on the drive after P, D_i on (pd + 2 + i) mod n.
#[test]
fn raid6_rotates_as_md_does() {
    let layout = layout(Level::Raid6, 6);
    for stripe in 0..12 {
        let parity = 5 - stripe as usize % 6;
        assert_eq!(layout.drive_of(stripe, 4), parity);
        assert_eq!(layout.drive_of(stripe, 5), (parity + 1) % 6);
        for data in 0..4 {
            assert_eq!(layout.drive_of(stripe, data), (parity + 2 + data) % 6);
        }
    }
}

#[test]
fn every_drive_has_its_share_of_each_rotating_parity() {
    for level in [Level::Raid5, Level::Raid6, Level::TripleParity] {
        let layout = layout(level, 7);
        for piece in 0..7 {
            let mut drives: Vec<usize> = (0..7).map(|stripe| layout.drive_of(stripe, piece)).collect();
            drives.sort_unstable();
            assert_eq!(drives, (0..7).collect::<Vec<_>>(), "{level}, piece {piece}");
        }
    }
    for level in [Level::Raid0, Level::Raid01, Level::Raid4] {
        let layout = layout(level, 4);
        assert!((0..9).all(|stripe| (0..4).all(|piece| layout.drive_of(stripe, piece) == piece)), "{level}");
    }
}

#[test]
fn levels_come_back_from_their_numbers() {
    for level in Level::ALL {
        assert_eq!(Level::from_code(level.code()), Some(level));
    }
    assert_eq!(Level::from_code(2), None);
    assert_eq!(Level::Raid01.erasure_code(5), None, "an odd number has no halves");
    assert_eq!(Level::Raid6.erasure_code(2), None);
    assert_eq!(Level::rotating(3), Some(Level::TripleParity));
    assert_eq!(Level::rotating(4), None);
    assert_eq!((Level::TripleParity.name(8), Level::Raid6.name(8)), ("5+3".to_owned(), "raid6".to_owned()));
}

#[test]
fn the_data_region_and_its_footer_fill_the_zone() {
    for capacity_blocks in [4, 100, 205, 206, 207, 412, 12288, 275_712] {
        for chunk_blocks in [1, 4, 16] {
            let code = ErasureCode::new(3, 1).unwrap();
            let sizes = LayoutSizes { chunk_blocks, group_stripes: 256, capacity_blocks };
            let Some(layout) = Layout::fit(code, Level::Raid5, &sizes) else { continue };
            let end = layout.footer_offset() + layout.footer_blocks();
            assert!(end <= capacity_blocks);
            let more = layout.region_blocks() + chunk_blocks;
            assert!(HEADER_BLOCKS + more + more.div_ceil(ENTRIES_PER_BLOCK) > capacity_blocks);
        }
    }
}

/// The paper's example (section 3.1): a ZN540 zone of 275,712 blocks has 274,366 of data and a
/// footer of 1,345.
#[test]
fn the_paper_example() {
    let code = ErasureCode::new(3, 1).unwrap();
    let sizes = LayoutSizes { chunk_blocks: 1, group_stripes: 256, capacity_blocks: 275_712 };
    let layout = Layout::fit(code, Level::Raid5, &sizes).unwrap();
    assert_eq!(layout.region_blocks(), 274_366);
    assert_eq!(layout.footer_blocks(), 1_345);
}

#[test]
fn the_table_finds_a_stripe_in_its_group() {
    let layout = layout(Level::Raid5, 4);
    let mut table = StripeTable::new(&layout);
    table.set(2, 9, 3);
    table.set(2, 8, 7);
    assert_eq!(table.find(2, 8..16, 3, 11), Some(9));
    assert_eq!(table.find(2, 8..16, 0, 8), None, "an empty slot is not stripe 0");
    assert_eq!(table.find(1, 8..16, 3, 11), None);
    assert_eq!(table.stripe_within(2, 8), Some(7));
}

/// A segment that is one group, in zones of a real drive: 19 bits, so three bytes for each slot.
#[test]
fn the_table_numbers_the_stripes_of_a_whole_segment() {
    let code = Level::Raid5.erasure_code(4).unwrap();
    let sizes = LayoutSizes { chunk_blocks: 1, group_stripes: GROUP_STRIPES_MAX, capacity_blocks: 275_712 };
    let layout = Layout::fit(code, Level::Raid5, &sizes).unwrap();
    let mut table = StripeTable::new(&layout);
    table.set(1, 7, 274_365);
    table.set(1, 274_365, 0x1_0007);
    let all = 0..layout.stripes;
    assert_eq!(table.find(1, all.clone(), 274_365, 274_365), Some(7));
    assert_eq!(table.find(1, all.clone(), 0x1_0007, 0x1_0007), Some(274_365));
    assert_eq!(table.find(1, all, 7, 7), None);
    let entries = 4 * 274_366_usize;
    assert_eq!(table.memory_bytes(), 3 * entries + 8 * entries.div_ceil(64));
}

/// Layouts of all shapes, the group sizes around the table's widths among them.
fn any_layout() -> impl Strategy<Value = Layout> {
    let level = proptest::sample::select(&Level::ALL[..]);
    let group = prop_oneof![1..9_u32, 255..259_u32, Just(1 << 16), Just(GROUP_STRIPES_MAX)];
    (level, 2..17_usize, group, prop_oneof![Just(1), 1..17_u32], 20..900_u32).prop_map(
        |(level, half, group_stripes, chunk_blocks, capacity_blocks)| {
            // An odd number where the level allows it.
            let code = level.erasure_code(2 * half - 1).or(level.erasure_code(2 * half)).unwrap();
            let sizes = LayoutSizes { chunk_blocks, group_stripes, capacity_blocks };
            Layout::fit(code, level, &sizes).expect("20 blocks hold a chunk of 16")
        },
    )
}

/// Drive, slot and stripe within its group, the last ones of a byte among them; and 0 to clear the table.
fn table_step() -> impl Strategy<Value = (usize, u32, u32, u8)> {
    (0..32_usize, 0..900_u32, prop_oneof![0..4_u32, 250..260_u32, any::<u32>()], 0..40_u8)
}

proptest! {
    /// Pieces and drives, blocks and slots, groups and stripes, footer blocks and what they describe.
    #[test]
    fn the_maps_of_a_layout_are_inverse(layout in any_layout(), stripe in 0..900_u32, offset in 0..1000_u32) {
        let stripe = stripe % layout.stripes;
        let mut drives: Vec<usize> = (0..layout.members()).map(|piece| layout.drive_of(stripe, piece)).collect();
        prop_assert!(drives.iter().enumerate().all(|(piece, drive)| layout.piece_of(stripe, *drive) == piece));
        drives.sort_unstable();
        prop_assert_eq!(drives, (0..layout.members()).collect::<Vec<_>>());

        let in_region = (HEADER_BLOCKS..layout.footer_offset()).contains(&offset);
        let back = layout.slot_at(offset).map(|(slot, row)| {
            assert!(slot < layout.stripes && row < layout.chunk_blocks);
            layout.slot_offset(slot) + row
        });
        prop_assert_eq!(back, in_region.then_some(offset));

        let groups = 0..layout.groups();
        let of_group = |group| layout.group_start(group)..layout.group_start(group) + layout.group_len(group);
        prop_assert!(groups.clone().flat_map(of_group).eq(0..layout.stripes), "groups tile the stripes");
        prop_assert!(of_group(layout.group_of(stripe)).contains(&stripe));

        let described = (0..layout.footer_blocks()).flat_map(|index| layout.footer_entries(index));
        prop_assert!(described.eq(0..layout.region_blocks() as usize), "footer blocks tile the region");
    }

    #[test]
    fn the_table_says_what_a_map_says(
        layout in any_layout(),
        steps in proptest::collection::vec(table_step(), 0..60),
        asked in proptest::collection::vec((0..900_u32, 0..900_u32, any::<proptest::sample::Index>()), 1..20),
    ) {
        let mut table = StripeTable::new(&layout);
        let mut model = BTreeMap::new();
        for (drive, slot, within, kind) in steps {
            let (drive, slot) = (drive % layout.members(), slot % layout.stripes);
            let within = within % layout.group_len(layout.group_of(slot));
            if kind == 0 {
                table.clear();
                model.clear();
            } else {
                table.set(drive, slot, within);
                model.insert((drive, slot), within);
            }
        }
        for place in (0..layout.members()).flat_map(|drive| (0..layout.stripes).map(move |slot| (drive, slot))) {
            prop_assert_eq!(table.stripe_within(place.0, place.1), model.get(&place).copied(), "{:?}", place);
        }
        // Of what was put in, the table knows the place; of what was not, that it has none.
        for (slot, likely, index) in asked {
            let places: Vec<_> = model.iter().map(|((drive, _), within)| (*drive, *within)).collect();
            let (drive, within) = if places.is_empty() { (0, 0) } else { *index.get(&places) };
            let group = layout.group_of(slot % layout.stripes);
            let start = layout.group_start(group);
            let slots = start..start + layout.group_len(group);
            let likely = start + likely % layout.group_len(group);
            let mut candidates = std::iter::once(likely).chain(slots.clone());
            let expected = candidates.find(|slot| model.get(&(drive, *slot)) == Some(&within));
            prop_assert_eq!(table.find(drive, slots, within, likely), expected);
        }
    }
}
