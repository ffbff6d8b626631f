//! The image of a checkpoint: the index and the stripe tables of sealed segments as bytes (docs/FORMAT.md).
//!
//! It is never in memory as a whole while it is written: each block is made of what the engine holds at that
//! moment. So parts of one image are of different moments, which a mount allows for.

use crate::log::config::REGION_BLOCKS;
use crate::log::index::Index;
use crate::log::index::entries::{Entries, EntryBytes};
use crate::log::segment::{Segment, SegmentSlot, SegmentState, SegmentTable};
use base::bytes::u64_at;
use base::units::{BLOCK_BYTES_U64, Lba, index_of};
use base::xor::Block;
use std::collections::BTreeMap;
use std::ops::Range;
use zone::format::checkpoint::{Checkpoint, HEAD_BYTES, Head, SEGMENT_BYTES, SegmentRows, WIDTH_IN_FOOTERS};
use zone::format::header::WriteMode;
use zone::stripe::table::{Packing, StripeTable};
use zone::stripe::{Layout, StripeNumber};

/// Contents of an image, of which its blocks are made.
pub struct Image {
    /// Head, lost blocks and segments: of the moment it began.
    head: Vec<u8>,
    segments: Vec<(SegmentSlot, SegmentRows)>,
    parts: Parts,
}

/// Places of the parts of an image, in bytes from its start.
struct Parts {
    rows: u64,
    blocks: Range<u64>,
    tombstones: Range<u64>,
    trimmed: Range<u64>,
}

impl Parts {
    /// Returns the parts for a volume whose entries have `entry` bytes, behind rows that end at `rows_end`.
    fn of(volume_blocks: u64, entry: EntryBytes, rows: u64, rows_end: u64) -> Parts {
        let after = |end: u64, bytes: u64| end.next_multiple_of(8)..end.next_multiple_of(8) + bytes;
        let entry = u64::from(entry.count());
        let blocks = after(rows_end, entry * volume_blocks);
        let tombstones = after(blocks.end, entry * volume_blocks.div_ceil(REGION_BLOCKS));
        let trimmed = after(tombstones.end, 8 * volume_blocks.div_ceil(64));
        assert!(rows <= rows_end, "rows end behind their start");
        assert!(
            blocks.end <= tombstones.start && tombstones.end <= trimmed.start,
            "parts follow one another"
        );
        Parts { rows, blocks, tombstones, trimmed }
    }

    /// Returns the parts for what the engine holds.
    fn of_engine(index: &Index, table: &SegmentTable) -> Parts {
        let (count, bytes) = described(table)
            .fold((0, 0), |(count, bytes), (_, rows)| (count + SEGMENT_BYTES, bytes + rows.bytes()));
        let rows = (HEAD_BYTES + 8 * index.lost().count() + count) as u64;
        Parts::of(index.blocks(), index.entry_bytes(), rows, rows + bytes)
    }

    fn blocks_in_all(&self) -> u64 {
        self.trimmed.end.div_ceil(BLOCK_BYTES_U64)
    }
}

/// The segments that an image describes.
fn described(table: &SegmentTable) -> impl Iterator<Item = (SegmentSlot, SegmentRows)> + '_ {
    let sealed =
        |segment: &Segment| matches!(segment.state, SegmentState::Sealed | SegmentState::Resetting { .. });
    let segments = table.iter().filter(move |(_, segment)| sealed(segment));
    segments.map(|(slot, segment)| (slot, rows_of(segment)))
}

impl Image {
    /// The image of a checkpoint that begins now.
    #[must_use]
    pub fn new(number: u32, sequence: u64, index: &Index, table: &SegmentTable) -> Image {
        let segments: Vec<(SegmentSlot, SegmentRows)> = described(table).collect();
        let lost: Vec<Lba> = index.lost().collect();
        let parts = Parts::of_engine(index, table);
        let head = Head {
            number,
            segments: u32::try_from(segments.len()).expect("a u32 of segments"),
            sequence,
            volume_blocks: index.blocks(),
            lost: lost.len() as u64,
            bytes: parts.trimmed.end,
            entry_bytes: index.entry_bytes().count(),
        };
        let mut bytes = head.encode().to_vec();
        bytes.extend(lost.iter().flat_map(|lba| lba.0.to_le_bytes()));
        bytes.extend(segments.iter().flat_map(|(_, rows)| rows.encode()));
        assert!(bytes.len() as u64 == parts.rows, "rows of segments follow the head");
        Image { head: bytes, segments, parts }
    }

    /// Blocks it takes.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        u32::try_from(self.parts.blocks_in_all()).expect("16 TiB of images")
    }

    /// Blocks that one would take which began now.
    #[must_use]
    pub fn blocks_now(index: &Index, table: &SegmentTable) -> u64 {
        Parts::of_engine(index, table).blocks_in_all()
    }

    /// Makes one of its blocks of what there is now.
    pub fn write_block(&self, number: u32, index: &Index, table: &SegmentTable, block: &mut Block) {
        assert!(number < self.blocks(), "block {number} of {}", self.blocks());
        block.fill(0);
        let mut window = Window { first: u64::from(number) * BLOCK_BYTES_U64, block };
        window.fill(0..self.head.len() as u64, 1, |at| u64::from(self.head[at]));
        let mut rows_at = self.parts.rows;
        for (slot, rows) in &self.segments {
            let part = rows_at..rows_at + rows.bytes();
            rows_at = part.end;
            // One that was erased meanwhile is of no interest.
            if window.meets(&part)
                && let Some(segment) = table.find(*slot, rows.segment)
            {
                write_rows(&mut window, part.start, rows, segment);
            }
        }
        let entry = u64::from(index.entry_bytes().count());
        window.fill(self.parts.blocks.clone(), entry, |at| index.block_entry(at));
        window.fill(self.parts.tombstones.clone(), entry, |at| index.tombstone_entry(at));
        window.fill(self.parts.trimmed.clone(), 8, |at| index.trimmed_word(at));
    }
}

/// Returns the rows of a segment in an image.
fn rows_of(segment: &Segment) -> SegmentRows {
    let layout = &segment.layout;
    SegmentRows {
        segment: segment.id,
        stripes: layout.stripes,
        members: u16::try_from(layout.members()).expect("at most 32 members"),
        width: match segment.mode {
            WriteMode::Append if segment.has_dropped_table() => WIDTH_IN_FOOTERS,
            WriteMode::Append => SegmentRows::width_for(layout.group_stripes),
            WriteMode::Write | WriteMode::Area => 0,
        },
    }
}

fn write_rows(window: &mut Window<'_>, start: u64, rows: &SegmentRows, segment: &Segment) {
    if rows.width == WIDTH_IN_FOOTERS {
        return;
    }
    let place = |at: usize| {
        let slots = segment.layout.stripes as usize;
        (at / slots, u32::try_from(at % slots).expect("a u32 of slots"))
    };
    let table_end = start + rows.bits() * u64::from(rows.width);
    if let Some(table) = &segment.table {
        window.fill(start..table_end, u64::from(rows.width), |at| {
            let (drive, slot) = place(at);
            table.stripe_within(drive, slot).map_or(0, u64::from)
        });
    }
    let bitmap = start + rows.table_bytes();
    window.fill(bitmap..bitmap + rows.bits().div_ceil(8), 1, |at| {
        let bits = (8 * at..8 * at + 8).take_while(|bit| (*bit as u64) < rows.bits()).map(place);
        let held = bits.map(|(drive, slot)| u64::from(segment.stripe_in_slot(drive, slot).is_some()));
        (0..).zip(held).map(|(bit, held)| held << bit).sum()
    });
}

/// A block of an image, to be filled with the parts that it meets.
struct Window<'a> {
    /// Byte of the image at which the block begins.
    first: u64,
    block: &'a mut Block,
}

impl Window<'_> {
    fn meets(&self, part: &Range<u64>) -> bool {
        part.start < self.first + BLOCK_BYTES_U64 && self.first < part.end
    }

    /// Fills in what the window shows of a part that consists of numbers of `unit` bytes each.
    fn fill(&mut self, part: Range<u64>, unit: u64, number: impl Fn(usize) -> u64) {
        let shown = self.first..self.first + BLOCK_BYTES_U64;
        assert!((1..=8).contains(&unit), "numbers of {unit} bytes");
        assert!(part.start <= part.end, "a part ends behind its start");
        let end = part.end.min(shown.end);
        let before = shown.start.saturating_sub(part.start) / unit;
        let mut at = part.start + before * unit;
        while at < end {
            let bytes = number(index_of((at - part.start) / unit)).to_le_bytes();
            // One of five bytes may lie in two blocks.
            let (from, to) = (at.max(shown.start), (at + unit).min(shown.end));
            let source = &bytes[index_of(from - at)..index_of(to - at)];
            self.block[index_of(from - shown.start)..index_of(to - shown.start)].copy_from_slice(source);
            at += unit;
        }
    }
}

/// Rows of a sealed segment in an image.
pub struct CoveredSegment<'a> {
    rows: SegmentRows,
    bytes: &'a [u8],
}

impl CoveredSegment<'_> {
    /// Returns the stripe table of the segment, which is missing under Zone Write and where it was dropped, and the
    /// stripes that hold nothing; `None` when the rows are not of this layout.
    #[must_use]
    pub fn restore(
        &self,
        layout: &Layout,
        mode: WriteMode,
        packing: Packing,
    ) -> Option<(Option<StripeTable>, Vec<StripeNumber>)> {
        let expected = match mode {
            WriteMode::Append => SegmentRows::width_for(layout.group_stripes),
            WriteMode::Write | WriteMode::Area => 0,
        };
        let SegmentRows { stripes, members, width, .. } = self.rows;
        if (stripes, usize::from(members)) != (layout.stripes, layout.members()) {
            return None;
        }
        if mode == WriteMode::Append && width == WIDTH_IN_FOOTERS {
            return Some((None, Vec::new()));
        }
        if width != expected {
            return None;
        }
        if mode.has_static_slots() {
            let void = layout.all_stripes().filter(|stripe| !self.holds(stripe.index())).collect();
            return Some((None, void));
        }
        let mut table = StripeTable::new(layout, packing);
        for drive in 0..layout.members() {
            for slot in 0..stripes {
                let at = drive * stripes as usize + slot as usize;
                if !self.holds(at) {
                    continue;
                }
                let mut number = [0; 4];
                let width = usize::from(width);
                number[..width].copy_from_slice(&self.bytes[at * width..][..width]);
                let within = u32::from_le_bytes(number);
                if within >= layout.group_len(layout.group_of_slot(slot)) {
                    return None;
                }
                table.set(drive, slot, within);
            }
        }
        table.settle();
        Some((Some(table), Vec::new()))
    }

    fn holds(&self, bit: usize) -> bool {
        let bitmap = &self.bytes[index_of(self.rows.table_bytes())..];
        bitmap[bit / 8] >> (bit % 8) & 1 == 1
    }
}

/// The index of an image, and what it says of segments, by id; `None` when it is not the image of this
/// checkpoint and volume. The index has entries of `entry_bytes`, whatever the image has.
#[must_use]
pub fn restore<'a>(
    bytes: &'a [u8],
    checkpoint: &Checkpoint,
    volume_blocks: u64,
    entry_bytes: EntryBytes,
) -> Option<(Index, BTreeMap<u64, CoveredSegment<'a>>)> {
    let head = Head::decode(bytes)?;
    let is_it = head.number == checkpoint.number
        && head.sequence == checkpoint.sequence
        && head.volume_blocks == volume_blocks
        && head.bytes <= bytes.len() as u64
        && head.lost <= volume_blocks;
    if !is_it {
        return None;
    }
    let lost_end = HEAD_BYTES + 8 * index_of(head.lost);
    let rows_at = lost_end + SEGMENT_BYTES * head.segments as usize;
    let lost: Vec<u64> = bytes.get(HEAD_BYTES..lost_end)?.chunks(8).map(|lba| u64_at(lba, 0)).collect();
    let mut segments = BTreeMap::new();
    let mut at = rows_at;
    for rows in bytes.get(lost_end..rows_at)?.chunks(SEGMENT_BYTES) {
        let rows = SegmentRows::decode(rows)?;
        let end = at.checked_add(usize::try_from(rows.bytes()).ok()?)?;
        segments.insert(rows.segment, CoveredSegment { rows, bytes: bytes.get(at..end)? });
        at = end;
    }
    let stored = EntryBytes::of(head.entry_bytes)?;
    let parts = Parts::of(volume_blocks, stored, rows_at as u64, at as u64);
    if parts.trimmed.end != head.bytes {
        return None;
    }
    let part = |part: &Range<u64>| &bytes[index_of(part.start)..index_of(part.end)];
    let entries = |range| Entries::decode(entry_bytes, stored, part(range));
    let trimmed = part(&parts.trimmed).chunks(8).map(|word| u64_at(word, 0)).collect();
    let index = Index::restore(entries(&parts.blocks)?, entries(&parts.tombstones)?, trimmed, &lost)?;
    Some((index, segments))
}

#[cfg(test)]
mod tests;
