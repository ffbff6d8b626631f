//! The zone table on the media: of each zone, the stamp of its life and whether it is full.
//!
//! A page of the table has two places. The newer whole copy counts; the older one is overwritten next, so a torn write
//! leaves the page as it was. A page is written with FUA: what follows a write of the table relies on it.
//!
//! Each sector of a page ends with a tag of its own write. Otherwise two torn writes of one place, before and after a crash,
//! might make a page that was never whole, such as one with a reset that the crash undid.

use super::layout::{Layout, PAGE_ZONES};
use base::bytes::{array_at, put, u32_at, u64_at};
use base::checksum::crc32c;
use base::record_fields;
use base::units::{BLOCK_BYTES, ZoneIndex};

const MAGIC: [u8; 4] = *b"ZWzt";
const ENTRY_BYTES: usize = 16;
const SECTOR_BYTES: usize = 512;
/// Bytes of a sector that entries have; behind them is the tag.
const ENTRIES_END: usize = 496;
const OPEN: u32 = 0;
const FULL: u32 = 1;

record_fields! { BLOCK_BYTES;
    MAGIC: 0, 4, "`ZWzt`";
    CRC: 4, 4, "CRC32C of the block with this field zero";
    UUID: 8, 16, "identity of the drive";
    SEQUENCE: 24, 8, "writes of this page; of its two copies the one with the higher number counts";
    PAGE: 32, 4, "number of the page";
    RESERVED: 36, 28, "zero";
    ENTRIES: 64, 4032, "for each of 244 zones: stamp of its life (8), write pointer of a full zone (4), 1 when it is full, else 0 (4); 27 in the first sector, 31 in each other, none across two. The last 16 bytes of each sector are the write's tag (8) and zeros (8)";
}

/// Entry of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Stamp of the zone's life: what has a lower one is of an earlier life.
    pub birth: u64,
    /// Write pointer of a zone that is full.
    pub full: Option<u32>,
}

/// State of a page between memory and media.
#[derive(Clone, Copy, Debug, Default)]
struct Page {
    /// Writes of the page that were begun.
    sequence: u64,
    in_flight: bool,
    /// Changed since the write in flight, or the last one, was begun.
    is_dirty: bool,
    /// Changes of the page so far, and those that the write in flight, and the last complete one, have.
    changes: u64,
    changes_in_flight: u64,
    changes_durable: u64,
}

/// A change of the table: durable when the page says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Page of the change.
    pub page: u32,
    number: u64,
}

/// The zone table.
#[derive(Clone, Debug)]
pub struct Table {
    uuid: [u8; 16],
    entries: Vec<Entry>,
    pages: Vec<Page>,
    /// Opening of the drive, and writes since: the next write's tag.
    opening: u64,
    writes: u32,
}

/// Places of the entries of a page.
fn places() -> impl Iterator<Item = usize> {
    let first = (at::ENTRIES..ENTRIES_END).step_by(ENTRY_BYTES);
    let sectors = (1..BLOCK_BYTES / SECTOR_BYTES).map(|sector| sector * SECTOR_BYTES);
    first.chain(sectors.flat_map(|sector| (sector..sector + ENTRIES_END).step_by(ENTRY_BYTES)))
}

impl Table {
    /// The table of a drive that is formatted: all zones empty, in their first life.
    #[must_use]
    pub fn new(uuid: [u8; 16], layout: &Layout) -> Table {
        let pages = vec![Page::default(); layout.pages() as usize];
        Table {
            uuid,
            entries: vec![Entry { birth: 1, full: None }; layout.zones as usize],
            pages,
            opening: 1,
            writes: 0,
        }
    }

    /// The table of a drive that was opened, under the stamp of that.
    #[must_use]
    pub fn opened(self, opening: u64) -> Table {
        Table { opening, writes: 0, ..self }
    }

    /// Entry of a zone.
    #[must_use]
    pub fn entry(&self, zone: ZoneIndex) -> Entry {
        self.entries[zone.index()]
    }

    /// Highest stamp in the table.
    #[must_use]
    pub fn stamp_max(&self) -> u64 {
        self.entries.iter().map(|entry| entry.birth).max().unwrap_or(0)
    }

    /// Changes the entry of a zone.
    ///
    /// # Panics
    /// When the life would be an earlier one.
    pub fn set(&mut self, zone: ZoneIndex, entry: Entry) -> Change {
        let before = &mut self.entries[zone.index()];
        assert!(entry.birth >= before.birth, "zone {}: {entry:?} after {before:?}", zone.0);
        *before = entry;
        let page = zone.0 / PAGE_ZONES;
        let state = &mut self.pages[page as usize];
        state.is_dirty = true;
        state.changes += 1;
        Change { page, number: state.changes }
    }

    /// True when a change is on the media.
    #[must_use]
    pub fn is_durable(&self, change: Change) -> bool {
        self.pages[change.page as usize].changes_durable >= change.number
    }

    /// Begins the write of a page that has changed; the block and which of the page's places it goes to.
    pub fn begin_write(&mut self, page: u32, block: &mut [u8; BLOCK_BYTES]) -> Option<usize> {
        let state = &mut self.pages[page as usize];
        if !state.is_dirty || state.in_flight {
            return None;
        }
        state.sequence += 1;
        state.is_dirty = false;
        state.in_flight = true;
        state.changes_in_flight = state.changes;
        let sequence = state.sequence;
        self.writes = self.writes.wrapping_add(1);
        self.encode(page, sequence, self.opening << 32 | u64::from(self.writes), block);
        Some(usize::from(sequence % 2 == 1))
    }

    /// The write of a page is through.
    ///
    /// # Panics
    /// When none was in flight.
    pub fn end_write(&mut self, page: u32, has_succeeded: bool) {
        let state = &mut self.pages[page as usize];
        assert!(state.in_flight, "a write of page {page} ends that was not begun");
        state.in_flight = false;
        if has_succeeded {
            state.changes_durable = state.changes_in_flight;
        } else {
            // The other copy is the one that counts: the next write goes to this one again.
            state.sequence -= 1;
        }
    }

    /// A page as it is now, under the tag of its write.
    pub fn encode(&self, page: u32, sequence: u64, tag: u64, block: &mut [u8; BLOCK_BYTES]) {
        block.fill(0);
        put(block, at::MAGIC, &MAGIC);
        put(block, at::UUID, &self.uuid);
        put(block, at::SEQUENCE, &sequence.to_le_bytes());
        put(block, at::PAGE, &page.to_le_bytes());
        let first = (page * PAGE_ZONES) as usize;
        for (place, entry) in places().zip(&self.entries[first..]) {
            put(block, place, &entry.birth.to_le_bytes());
            put(block, place + 8, &entry.full.unwrap_or(0).to_le_bytes());
            put(block, place + 12, &(if entry.full.is_some() { FULL } else { OPEN }).to_le_bytes());
        }
        for sector in (0..BLOCK_BYTES).step_by(SECTOR_BYTES) {
            put(block, sector + ENTRIES_END, &tag.to_le_bytes());
        }
        let crc = crc32c(block);
        put(block, at::CRC, &crc.to_le_bytes());
    }

    /// Takes a page from its two copies; false when neither is whole and makes sense.
    pub fn take_page(&mut self, page: u32, copies: [Option<&[u8; BLOCK_BYTES]>; 2], layout: &Layout) -> bool {
        let whole = |copy: &&[u8; BLOCK_BYTES]| self.is_whole(page, copy, layout);
        let newest =
            copies.into_iter().flatten().filter(whole).max_by_key(|copy| u64_at(*copy, at::SEQUENCE));
        let Some(copy) = newest else { return false };
        self.pages[page as usize].sequence = u64_at(copy, at::SEQUENCE);
        let first = (page * PAGE_ZONES) as usize;
        for (place, entry) in places().zip(&mut self.entries[first..]) {
            let full = (u32_at(copy, place + 12) == FULL).then(|| u32_at(copy, place + 8));
            *entry = Entry { birth: u64_at(copy, place), full };
        }
        true
    }

    fn is_whole(&self, page: u32, copy: &[u8; BLOCK_BYTES], layout: &Layout) -> bool {
        let mut blank = *copy;
        put(&mut blank, at::CRC, &[0; 4]);
        array_at::<4>(copy, at::MAGIC) == MAGIC
            && array_at::<16>(copy, at::UUID) == self.uuid
            && u32_at(copy, at::PAGE) == page
            && crc32c(&blank) == u32_at(copy, at::CRC)
            && places()
                .all(|place| u32_at(copy, place + 8) <= layout.capacity() && u32_at(copy, place + 12) <= FULL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: Layout =
        Layout { blocks: 1 << 20, zones: 300, zone_units: 4, active_zones_max: 3, journal_records: 64 };

    #[test]
    fn the_newer_whole_copy_counts() {
        let mut table = Table::new([5; 16], &LAYOUT);
        let change = table.set(ZoneIndex(260), Entry { birth: 7, full: Some(9) });
        let mut first = [0; BLOCK_BYTES];
        assert_eq!((change.page, table.begin_write(1, &mut first)), (1, Some(1)));
        let later = table.set(ZoneIndex(260), Entry { birth: 8, full: None });
        assert_eq!(table.begin_write(1, &mut [0; BLOCK_BYTES]), None, "one write of a page at a time");
        table.end_write(1, true);
        assert!(table.is_durable(change) && !table.is_durable(later));
        let mut second = [0; BLOCK_BYTES];
        assert_eq!(table.begin_write(1, &mut second), Some(0));

        let mut read = Table::new([5; 16], &LAYOUT);
        assert!(read.take_page(1, [Some(&second), Some(&first)], &LAYOUT));
        assert_eq!(read.entry(ZoneIndex(260)), Entry { birth: 8, full: None });
        second[70] ^= 1;
        assert!(read.take_page(1, [Some(&second), Some(&first)], &LAYOUT));
        assert_eq!(read.entry(ZoneIndex(260)), Entry { birth: 7, full: Some(9) });
        assert!(!read.take_page(1, [None, Some(&second)], &LAYOUT));
    }
}
