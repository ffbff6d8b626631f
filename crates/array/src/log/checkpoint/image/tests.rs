//! An image is read as it was written, and nothing else is taken for one.

use super::*;
use crate::log::config::REGION_BLOCKS;
use crate::log::index::{Name, Region};
use crate::log::pba::Pba;
use base::units::{BLOCK_BYTES, ZoneIndex};
use zone::format::HEADER_BLOCKS;
use zone::format::header::Stream;
use zone::stripe::{LayoutSizes, Level};

const MEMBERS: usize = 3;
/// Two regions, the second one short and ending in the middle of a word of bits.
const BLOCKS: u64 = REGION_BLOCKS + 70;

fn layout() -> Layout {
    let sizes =
        LayoutSizes { header_blocks: HEADER_BLOCKS, chunk_blocks: 2, group_stripes: 4, capacity_blocks: 40 };
    let code = Level::Raid5.erasure_code(MEMBERS).unwrap();
    Layout::fit(code, Level::Raid5, &sizes).unwrap()
}

fn sealed(id: u64, mode: WriteMode) -> Segment {
    let layout = layout();
    let mut table = StripeTable::new(&layout, Packing::default());
    for drive in 0..MEMBERS {
        // Within their group, chunks lie in reverse; one slot is empty.
        for slot in 1..layout.stripes {
            let group = layout.group_of_slot(slot);
            table.set(drive, slot, layout.group_len(group) - 1 - (slot - layout.group_start(group)));
        }
    }
    let zones = vec![ZoneIndex(u32::try_from(id).unwrap() + 2); MEMBERS];
    Segment {
        void_stripes: if mode == WriteMode::Write {
            vec![StripeNumber(1), StripeNumber(5)]
        } else {
            Vec::new()
        },
        table: (mode == WriteMode::Append).then_some(table),
        ..Segment::sealed(id, 1, Stream::Small, mode, layout, zones)
    }
}

fn index(entry_bytes: EntryBytes) -> Index {
    let mut index = Index::new(BLOCKS, entry_bytes);
    for lba in (0..BLOCKS).step_by(3) {
        index.set(Name::Block(Lba(lba)), Pba(lba * 7 + 1));
    }
    index.set(Name::Tombstone(Region(1)), Pba(99));
    index.trim(Lba(BLOCKS - 1));
    index.trim(Lba(6));
    index.lose(Lba(8));
    index
}

/// An image of an index and two sealed segments, and what the superblocks say of it.
fn image(entry_bytes: EntryBytes) -> (Checkpoint, Vec<u8>) {
    let (index, mut table) = (index(entry_bytes), SegmentTable::new(MEMBERS, 10, 8, Packing::default()));
    table.insert(sealed(3, WriteMode::Append));
    table.insert(sealed(4, WriteMode::Write));
    let image = Image::new(7, 1000, &index, &table);
    let mut bytes = vec![0; image.blocks() as usize * BLOCK_BYTES];
    for (number, block) in (0..).zip(bytes.chunks_mut(BLOCK_BYTES)) {
        image.write_block(number, &index, &table, block.try_into().unwrap());
    }
    let blocks = image.blocks();
    (Checkpoint { number: 7, blocks, sequence: 1000, segment: 5, unsealed: Vec::new() }, bytes)
}

/// Also where the index has entries of another size by now.
#[test]
fn an_image_comes_back() {
    let sizes = [EntryBytes::Four, EntryBytes::Five];
    for (stored, wanted) in sizes.into_iter().flat_map(|stored| sizes.map(|wanted| (stored, wanted))) {
        let (checkpoint, bytes) = image(stored);
        let (restored, _) = restore(&bytes, &checkpoint, BLOCKS, wanted).unwrap();
        assert_eq!(restored.entry_bytes(), wanted);
        assert_same(&restored, &index(stored));
    }
}

fn assert_same(restored: &Index, index: &Index) {
    assert!(restored.mapped().eq(index.mapped()));
    assert_eq!(restored.mapped_blocks(), index.mapped_blocks());
    assert!(restored.lost().eq(index.lost()));
    for lba in (0..BLOCKS).map(Lba) {
        assert_eq!(restored.is_trimmed(lba), index.is_trimmed(lba), "{lba}");
    }
}

#[test]
fn rows_of_segments_come_back() {
    let (checkpoint, bytes) = image(EntryBytes::Four);
    let (_, segments) = restore(&bytes, &checkpoint, BLOCKS, EntryBytes::Four).unwrap();
    let layout = layout();
    let (table, void) = segments[&3].restore(&layout, WriteMode::Append, Packing::default()).unwrap();
    let (table, expected) = (table.unwrap(), sealed(3, WriteMode::Append).table.unwrap());
    for (drive, slot) in (0..MEMBERS).flat_map(|drive| (0..layout.stripes).map(move |slot| (drive, slot))) {
        assert_eq!(table.stripe_within(drive, slot), expected.stripe_within(drive, slot));
    }
    assert!(void.is_empty());
    let (table, void) = segments[&4].restore(&layout, WriteMode::Write, Packing::default()).unwrap();
    assert!(table.is_none());
    assert_eq!(void, [StripeNumber(1), StripeNumber(5)]);
    assert!(segments[&4].restore(&layout, WriteMode::Append, Packing::default()).is_none());
}

#[test]
fn what_does_not_fit_is_none() {
    let (checkpoint, bytes) = image(EntryBytes::Five);
    let other = Checkpoint { number: 8, ..checkpoint.clone() };
    assert!(restore(&bytes, &other, BLOCKS, EntryBytes::Five).is_none());
    let other = Checkpoint { sequence: 999, ..checkpoint.clone() };
    assert!(restore(&bytes, &other, BLOCKS, EntryBytes::Five).is_none());
    assert!(restore(&bytes, &checkpoint, BLOCKS + 1, EntryBytes::Five).is_none());
    // Whatever is cut off or wrong in the head, nothing panics.
    let own = Lba(Head::decode(&bytes).unwrap().bytes).index();
    for length in (0..own).step_by(509) {
        assert!(restore(&bytes[..length], &checkpoint, BLOCKS, EntryBytes::Five).is_none());
    }
    for at in 0..HEAD_BYTES + 8 + 2 * SEGMENT_BYTES {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x40;
        let _ = restore(&bytes, &checkpoint, BLOCKS, EntryBytes::Five);
    }
}

#[test]
fn what_was_mapped_while_it_was_written_is_neither_trimmed_nor_lost() {
    let mut blocks = Entries::new(EntryBytes::Four, 4);
    blocks.replace(0, Some(Pba(5)));
    blocks.replace(3, Some(Pba(6)));
    let tombstones = Entries::new(EntryBytes::Four, 1);
    let index = Index::restore(blocks, tombstones, vec![0b0011], &[1, 2, 3]).unwrap();
    assert!(!index.is_trimmed(Lba(0)) && index.is_trimmed(Lba(1)));
    assert_eq!(index.lost().collect::<Vec<Lba>>(), [Lba(2)]);
    assert_eq!(index.mapped_blocks(), 2);
}
