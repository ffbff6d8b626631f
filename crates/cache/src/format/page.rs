//! Pages of records: records one after the other, offsets of those that begin in a page at its end.
//!
//! ```text
//! | rest of a record | record | record | record begins ...   free   | offset .. | lead | count |
//!   lead bytes                                                        2 each      2      2
//! ```
//! A record of up to [`WHOLE_BYTES_MAX`] bytes lies in one page; a longer one may go on in the pages that follow, but its
//! head and key never do.

use base::bytes::{put, u16_at};
use base::units::BLOCK_BYTES;
use base::xor::Block;

/// Longest record that never crosses a page.
pub const WHOLE_BYTES_MAX: usize = 512;
/// Bytes of a page that records can fill: all but count and lead.
pub const ROOM_BYTES: usize = BLOCK_BYTES - 4;
const OFFSET_BYTES: usize = 2;

/// Place of a record: the page it begins in, and the offset there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Page, counted from the first of the run.
    pub page: usize,
    /// Offset in the page.
    pub offset: usize,
}

/// Finds places for records in a run of pages, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Packer {
    pages_max: usize,
    /// Pages in use, the one being filled included.
    pages: usize,
    used: usize,
    count: usize,
}

impl Packer {
    /// A packer for so many pages.
    #[must_use]
    pub fn new(pages_max: usize) -> Packer {
        Packer { pages_max, pages: 0, used: 0, count: 0 }
    }

    /// Pages in use.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// Place of the next record, of so many bytes of which so many are head and key; `None` when it does not fit.
    ///
    /// # Panics
    /// When head and key do not fit a page.
    pub fn place(&mut self, record_bytes: usize, head_bytes: usize) -> Option<Place> {
        assert!(head_bytes <= record_bytes, "{head_bytes} bytes of a record of {record_bytes} are its head");
        assert!(head_bytes + OFFSET_BYTES <= ROOM_BYTES, "head and key fit a page");
        let mut next = *self;
        let free = ROOM_BYTES.saturating_sub(next.used + OFFSET_BYTES * (next.count + 1));
        let begins_here = record_bytes <= free || (record_bytes > WHOLE_BYTES_MAX && head_bytes < free);
        if next.pages == 0 || !begins_here {
            next = Packer { pages: next.pages + 1, used: 0, count: 0, ..next };
        }
        next.count += 1;
        let place = Place { page: next.pages - 1, offset: next.used };
        let table = ROOM_BYTES - OFFSET_BYTES * next.count;
        assert!(place.offset + head_bytes <= table, "head and key lie in one page, before the offsets");
        let here = record_bytes.min(table - next.used);
        next.used += here;
        let mut rest = record_bytes - here;
        while rest > 0 {
            let lead = rest.min(ROOM_BYTES);
            next = Packer { pages: next.pages + 1, used: lead, count: 0, ..next };
            rest -= lead;
        }
        if next.pages > next.pages_max {
            return None;
        }
        *self = next;
        Some(place)
    }
}

/// A page being written.
#[derive(Debug)]
pub struct PageWriter<'a> {
    block: &'a mut Block,
}

impl<'a> PageWriter<'a> {
    /// An empty page.
    pub fn new(block: &'a mut Block) -> PageWriter<'a> {
        block.fill(0);
        PageWriter { block }
    }

    /// Goes on with a page that was begun.
    pub fn resume(block: &'a mut Block) -> PageWriter<'a> {
        PageWriter { block }
    }

    /// Begins a record at an offset: head and key, which the page has room for, and as much of its value as it takes. Returns how many
    /// bytes of the value that is. Records that begin later in the same page come after records that lie in it wholly.
    pub fn begin(&mut self, offset: usize, front: &[u8], value: &[u8]) -> usize {
        let count = usize::from(u16_at(self.block, BLOCK_BYTES - 2)) + 1;
        let table = ROOM_BYTES - OFFSET_BYTES * count;
        assert!(offset < table, "a record begins before the offsets");
        let value_at = offset + front.len();
        assert!(value_at <= table, "head and key lie in one page");
        let here = value.len().min(table - value_at);
        put(self.block, offset, front);
        put(self.block, value_at, &value[..here]);
        put(self.block, table, &u16::try_from(offset).expect("within a page").to_le_bytes());
        put(self.block, BLOCK_BYTES - 2, &u16::try_from(count).expect("within a page").to_le_bytes());
        here
    }

    /// Goes on with a record at the start of the page and returns how many of its bytes the page takes.
    pub fn go_on(&mut self, rest: &[u8]) -> usize {
        let (lead, count) = (u16_at(self.block, BLOCK_BYTES - 4), u16_at(self.block, BLOCK_BYTES - 2));
        assert!(lead == 0 && count == 0, "nothing comes before the rest of a record");
        assert!(!rest.is_empty(), "a record that goes on has bytes left");
        let here = rest.len().min(ROOM_BYTES);
        put(self.block, 0, &rest[..here]);
        put(self.block, BLOCK_BYTES - 4, &u16::try_from(here).expect("within a page").to_le_bytes());
        here
    }
}

/// A page that was read.
#[derive(Clone, Copy, Debug)]
pub struct PageView<'a> {
    block: &'a Block,
    lead: usize,
    count: usize,
}

impl<'a> PageView<'a> {
    /// Reads a page; `None` when its offsets contradict each other.
    #[must_use]
    pub fn parse(block: &'a Block) -> Option<PageView<'a>> {
        let lead = usize::from(u16_at(block, BLOCK_BYTES - 4));
        let count = usize::from(u16_at(block, BLOCK_BYTES - 2));
        let view = PageView { block, lead, count };
        if count * OFFSET_BYTES > ROOM_BYTES || lead > view.table_at() {
            return None;
        }
        let mut end = lead;
        for index in 0..count {
            let offset = view.offset(index);
            if offset < end || offset >= view.table_at() {
                return None;
            }
            end = offset + 1;
        }
        Some(view)
    }

    fn table_at(&self) -> usize {
        ROOM_BYTES - OFFSET_BYTES * self.count
    }

    fn offset(&self, index: usize) -> usize {
        usize::from(u16_at(self.block, ROOM_BYTES - OFFSET_BYTES * (index + 1)))
    }

    /// The bytes at the start of the page that end, or go on with, a record of an earlier page.
    #[must_use]
    pub fn lead(&self) -> &'a [u8] {
        &self.block[..self.lead]
    }

    /// Records that begin here: the bytes from each one's beginning on, which may hold more than the record or less.
    pub fn records(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (block, view) = (self.block, *self);
        (0..view.count).map(move |index| &block[view.offset(index)..view.table_at()])
    }
}
