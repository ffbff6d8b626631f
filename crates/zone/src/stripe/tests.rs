//! Layouts whose maps are inverse, and examples.

use super::*;
use crate::format::HEADER_BLOCKS;
use proptest::prelude::*;

fn layout(level: Level, members: usize) -> Layout {
    let code = level.erasure_code(members).unwrap();
    let sizes =
        LayoutSizes { header_blocks: HEADER_BLOCKS, chunk_blocks: 2, group_stripes: 8, capacity_blocks: 500 };
    Layout::fit(code, level, &sizes).unwrap()
}

/// md's left-symmetric layout: D_i on (pd + 1 + i) mod n, pd = n-1 - stripe mod n.
#[test]
fn raid5_rotates_as_md_does() {
    let layout = layout(Level::Raid5, 4);
    for stripe in (0..8).map(StripeNumber) {
        let parity = 3 - stripe.index() % 4;
        assert_eq!(layout.drive_of(stripe, Piece(3)), parity);
        for data in 0..3 {
            assert_eq!(layout.drive_of(stripe, Piece::at(data)), (parity + 1 + data) % 4);
        }
    }
}

/// md's left-symmetric layout of RAID-6: Q on the drive after P, D_i on (pd + 2 + i) mod n.
#[test]
fn raid6_rotates_as_md_does() {
    let layout = layout(Level::Raid6, 6);
    for stripe in (0..12).map(StripeNumber) {
        let parity = 5 - stripe.index() % 6;
        assert_eq!(layout.drive_of(stripe, Piece(4)), parity);
        assert_eq!(layout.drive_of(stripe, Piece(5)), (parity + 1) % 6);
        for data in 0..4 {
            assert_eq!(layout.drive_of(stripe, Piece::at(data)), (parity + 2 + data) % 6);
        }
    }
}

#[test]
fn every_drive_has_its_share_of_each_rotating_parity() {
    for level in [Level::Raid5, Level::Raid6, Level::TripleParity] {
        let layout = layout(level, 7);
        for piece in 0..7 {
            let mut drives: Vec<usize> =
                (0..7).map(|stripe| layout.drive_of(StripeNumber(stripe), Piece::at(piece))).collect();
            drives.sort_unstable();
            assert_eq!(drives, (0..7).collect::<Vec<_>>(), "{level}, piece {piece}");
        }
    }
    for level in [Level::Raid0, Level::Raid01, Level::Raid4] {
        let layout = layout(level, 4);
        assert!(
            (0..9)
                .map(StripeNumber)
                .all(|stripe| (0..4).all(|piece| layout.drive_of(stripe, Piece::at(piece)) == piece)),
            "{level}"
        );
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
            let sizes = LayoutSizes {
                header_blocks: HEADER_BLOCKS,
                chunk_blocks,
                group_stripes: 256,
                capacity_blocks,
            };
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
    let sizes = LayoutSizes {
        header_blocks: HEADER_BLOCKS,
        chunk_blocks: 1,
        group_stripes: 256,
        capacity_blocks: 275_712,
    };
    let layout = Layout::fit(code, Level::Raid5, &sizes).unwrap();
    assert_eq!(layout.region_blocks(), 274_366);
    assert_eq!(layout.footer_blocks(), 1_345);
}

/// Layouts of all shapes, the group sizes around the table's widths among them.
pub fn any_layout() -> impl Strategy<Value = Layout> {
    let level = proptest::sample::select(&Level::ALL[..]);
    let group = prop_oneof![1..9_u32, 255..259_u32, Just(1 << 16), Just(GROUP_STRIPES_MAX)];
    (level, 2..17_usize, group, prop_oneof![Just(1), 1..17_u32], 20..900_u32).prop_map(
        |(level, half, group_stripes, chunk_blocks, capacity_blocks)| {
            // An odd number where the level allows it.
            let code = level.erasure_code(2 * half - 1).or(level.erasure_code(2 * half)).unwrap();
            let sizes =
                LayoutSizes { header_blocks: HEADER_BLOCKS, chunk_blocks, group_stripes, capacity_blocks };
            Layout::fit(code, level, &sizes).expect("20 blocks hold a chunk of 16")
        },
    )
}

proptest! {
    /// Pieces and drives, blocks and slots, groups and stripes, footer blocks and what they describe.
    #[test]
    fn the_maps_of_a_layout_are_inverse(layout in any_layout(), stripe in 0..900_u32, offset in 0..1000_u32) {
        let stripe = StripeNumber(stripe % layout.stripes);
        let mut drives: Vec<usize> = (0..layout.members()).map(|piece| layout.drive_of(stripe, Piece::at(piece))).collect();
        prop_assert!(drives.iter().enumerate().all(|(piece, drive)| layout.piece_of(stripe, *drive).index() == piece));
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
        let group = layout.group_of(stripe);
        prop_assert!(layout.stripes_of_group(group).any(|member| member == stripe));
        prop_assert!(of_group(group).contains(&stripe.static_slot()) && layout.group_of_slot(stripe.static_slot()) == group);
        prop_assert_eq!(layout.stripe_within(group, layout.within_group(stripe)), stripe);

        let described = (0..layout.footer_blocks()).flat_map(|index| layout.footer_entries(index));
        prop_assert!(described.eq(0..layout.region_blocks() as usize), "footer blocks tile the region");
    }
}
