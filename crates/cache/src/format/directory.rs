//! Directories: what the pages before them hold, so that recovery need not read them.
//!
//! ```text
//!   | header | page ... page | directory | page ... | directory |   the last one of a zone closes it
//!              <- covers ----  <- before ------------
//! ```
//! A directory is a run of blocks. It covers the blocks from the one behind the directory before it, or behind the zone's header, to its own
//! first block. A torn directory is no directory: its blocks are covered by the next one, as pages in which no record begins.

use crate::hash::KeyHash;
use crate::request::Namespace;
use base::bytes::{array_at, put, u16_at, u32_at, u64_at};
use base::record_fields;
use base::units::BLOCK_BYTES;
use base::xor::Block;

record_fields! { BLOCK_BYTES;
    MAGIC: 0, 8, "`ZWCDIRE1`";
    RUN: 8, 4, "first block of this directory";
    COVERS: 12, 4, "first block that this directory covers";
    BEFORE: 16, 4, "blocks of the directory that ends there, zero for the first of the zone";
    FIRST: 20, 4, "first block that this block covers";
    COUNT: 24, 2, "blocks that this block covers";
    FLAGS: 26, 1, "bit 0: last block of this directory; bit 1: it closes the zone, in which nothing follows";
    SAMPLES: 27, 1, "samples that were taken";
    RESERVED_0: 28, 4, "zero";
    EXPIRES: 32, 8, "latest time at which a record of the zone up to here expires, in milliseconds since 1970; all ones: never";
    EXPIRES_FIRST: 40, 8, "earliest time at which one of them expires; all ones: none does";
    RECORD_BYTES: 48, 8, "bytes of records of the zone up to here";
    SAMPLE_TIMES: 56, 128, "when the records expire that are samples, 8 bytes each: where each sixteenth of the zone ends, less half of one";
    PAGES: 184, 3912, "of each block that is covered: its sequence (8), its records (2), and of each record its hash (6), namespace (upper four bits) and size class (lower four)";
}

const MAGIC: &[u8; 8] = b"ZWCDIRE1";
const PAGE_BYTES: usize = 10;
const RECORD_BYTES: usize = 7;
const IS_LAST: u8 = 1;
const CLOSES: u8 = 2;

/// Samples of the times at which records of a zone expire.
pub const SAMPLES: usize = 16;

/// Expiry times of the records of a zone, as a directory tells them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToldExpiries {
    /// Earliest of all, in milliseconds since 1970; all ones when none ever does.
    pub first: u64,
    /// Latest of all; all ones when one never does.
    pub last: u64,
    /// Bytes of records.
    pub bytes: u64,
    /// Expiry times of sampled records, in milliseconds since 1970.
    pub samples: [u64; SAMPLES],
    /// Samples that were taken.
    pub count: u8,
}

impl ToldExpiries {
    /// The samples that were taken, in the order in which their records came.
    #[must_use]
    pub fn taken(&self) -> &[u64] {
        assert!(usize::from(self.count) <= SAMPLES, "{} samples of {SAMPLES}", self.count);
        &self.samples[..usize::from(self.count)]
    }
}

/// A record in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Hash of its key.
    pub hash: KeyHash,
    /// Namespace of its key.
    pub namespace: Namespace,
    /// Size class: n for records of up to 2^(n + 6) bytes, 15 for all larger ones.
    pub class: u8,
}

/// Size class of a record.
#[must_use]
pub fn class_of(record_bytes: usize) -> u8 {
    let class = (record_bytes.max(1).next_power_of_two().trailing_zeros()).saturating_sub(6).min(15);
    u8::try_from(class).expect("at most 15")
}

/// A page in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedPage {
    /// Sequence of the page.
    pub sequence: u64,
    /// The records that begin in it.
    pub records: Vec<Listed>,
}

/// Size of a directory that grows by pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Blocks before the last.
    full: u32,
    used: usize,
}

impl Default for Extent {
    fn default() -> Extent {
        Extent { full: 0, used: at::PAGES }
    }
}

impl Extent {
    /// A page with so many records is covered, too.
    ///
    /// # Panics
    /// When so many records cannot begin in a page.
    pub fn add(&mut self, records: usize) {
        let bytes = PAGE_BYTES + RECORD_BYTES * records;
        assert!(at::PAGES + bytes <= BLOCK_BYTES, "a page's records fit a block");
        if self.used + bytes > BLOCK_BYTES {
            *self = Extent { full: self.full + 1, used: at::PAGES };
        }
        self.used += bytes;
    }

    /// Blocks of the directory: one where it covers nothing.
    #[must_use]
    pub fn blocks(self) -> u32 {
        self.full + 1
    }
}

/// Listing of the pages since the last directory of a zone: the next directory, as it grows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    covers: u32,
    before: u32,
    extent: Extent,
    pages: u32,
    /// Pages of each block of the directory: their count, and their encoded bytes.
    parts: Vec<(u16, Vec<u8>)>,
}

impl Listing {
    /// Listing of the pages from block `covers` on, behind a directory of so many blocks.
    #[must_use]
    pub fn new(covers: u32, before: u32) -> Listing {
        assert!(covers > before, "before everything is the header");
        Listing { covers, before, extent: Extent::default(), pages: 0, parts: Vec::new() }
    }

    /// The next page, with the records that begin in it.
    pub fn add(&mut self, sequence: u64, records: impl ExactSizeIterator<Item = Listed>) {
        let full = self.extent.full;
        self.extent.add(records.len());
        if self.extent.full > full || self.parts.is_empty() {
            self.parts.push((0, Vec::new()));
        }
        self.pages += 1;
        let (count, bytes) = self.parts.last_mut().expect("seen above");
        *count += 1;
        bytes.extend_from_slice(&sequence.to_le_bytes());
        bytes.extend_from_slice(&u16::try_from(records.len()).expect("they fit a block").to_le_bytes());
        for record in records {
            bytes.extend_from_slice(&record.hash.to_bytes());
            bytes.push(record.namespace.0 << 4 | record.class);
        }
    }

    /// Size of the directory so far.
    #[must_use]
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// Pages that are listed.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// The block behind the last page that is listed.
    #[must_use]
    pub fn end(&self) -> u32 {
        self.covers + self.pages
    }

    /// Bytes of memory that it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let part = size_of::<(u16, Vec<u8>)>();
        self.parts.capacity() * part + self.parts.iter().map(|(_, bytes)| bytes.capacity()).sum::<usize>()
    }

    /// Ends the directory, whose blocks lie behind the last page that is listed, and returns these. The next one begins.
    pub fn end_directory(&mut self, expiries: &ToldExpiries, closes: bool) -> Vec<Box<Block>> {
        let (run, covers) = (self.end(), self.covers);
        let next = Listing::new(run + self.extent.blocks(), self.extent.blocks());
        let Listing { before, mut parts, extent, .. } = std::mem::replace(self, next);
        parts.resize_with(extent.blocks() as usize, || (0, Vec::new()));
        let mut first = covers;
        let last = parts.len() - 1;
        let block = |(number, (count, bytes)): (usize, (u16, Vec<u8>))| {
            let mut block = Box::new([0; BLOCK_BYTES]);
            put(&mut *block, at::MAGIC, MAGIC);
            put(&mut *block, at::RUN, &run.to_le_bytes());
            put(&mut *block, at::COVERS, &covers.to_le_bytes());
            put(&mut *block, at::BEFORE, &before.to_le_bytes());
            put(&mut *block, at::FIRST, &first.to_le_bytes());
            put(&mut *block, at::COUNT, &count.to_le_bytes());
            block[at::FLAGS] = if number == last { IS_LAST } else { 0 } | if closes { CLOSES } else { 0 };
            block[at::SAMPLES] = expiries.count;
            put(&mut *block, at::EXPIRES, &expiries.last.to_le_bytes());
            put(&mut *block, at::EXPIRES_FIRST, &expiries.first.to_le_bytes());
            put(&mut *block, at::RECORD_BYTES, &expiries.bytes.to_le_bytes());
            for (sample, time) in expiries.samples.iter().enumerate() {
                put(&mut *block, at::SAMPLE_TIMES + 8 * sample, &time.to_le_bytes());
            }
            put(&mut *block, at::PAGES, &bytes);
            first += u32::from(count);
            block
        };
        let blocks = parts.into_iter().enumerate().map(block).collect();
        assert!(first == run, "all pages before a directory are covered");
        blocks
    }
}

/// A block of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryBlock {
    /// First block of the directory.
    pub run: u32,
    /// First block that the directory covers.
    pub covers: u32,
    /// Blocks of the directory that ends there.
    pub before: u32,
    /// First block that this block covers.
    pub first: u32,
    /// True for the last block of the directory.
    pub is_last: bool,
    /// The directory closes the zone.
    pub closes: bool,
    /// Expiry times of the records of the zone up to this directory.
    pub expiries: ToldExpiries,
    /// The pages.
    pub pages: Vec<ListedPage>,
}

impl DirectoryBlock {
    /// The block behind the last one that this block covers.
    #[must_use]
    pub fn end(&self) -> u32 {
        self.first + u32::try_from(self.pages.len()).expect("they fit a block")
    }

    /// Reads a block of a zone; `None` when it holds no part of a directory that could lie there.
    #[must_use]
    pub fn decode_at(block: &Block, page: u32) -> Option<DirectoryBlock> {
        DirectoryBlock::decode(block).filter(|directory| directory.run <= page)
    }

    /// Reads a block; `None` when it holds no part of a directory.
    #[must_use]
    pub fn decode(block: &Block) -> Option<DirectoryBlock> {
        if &block[..8] != MAGIC {
            return None;
        }
        let pages = decode_pages(block)?;
        let times = |sample| u64_at(block, at::SAMPLE_TIMES + 8 * sample);
        let expiries = ToldExpiries {
            first: u64_at(block, at::EXPIRES_FIRST),
            last: u64_at(block, at::EXPIRES),
            bytes: u64_at(block, at::RECORD_BYTES),
            samples: std::array::from_fn(times),
            count: block[at::SAMPLES],
        };
        let [run, covers, before, first] =
            [at::RUN, at::COVERS, at::BEFORE, at::FIRST].map(|field| u32_at(block, field));
        let flags = block[at::FLAGS];
        let (is_last, closes) = (flags & IS_LAST != 0, flags & CLOSES != 0);
        let end = u64::from(first) + pages.len() as u64;
        let is_possible = covers > before && first >= covers && end <= u64::from(run);
        let ends_right = is_last == (end == u64::from(run)) && usize::from(expiries.count) <= SAMPLES;
        (is_possible && ends_right && flags <= IS_LAST | CLOSES).then_some(DirectoryBlock {
            run,
            covers,
            before,
            first,
            is_last,
            closes,
            expiries,
            pages,
        })
    }
}

fn decode_pages(block: &Block) -> Option<Vec<ListedPage>> {
    let mut place = at::PAGES;
    let mut pages = Vec::new();
    for _ in 0..u16_at(block, at::COUNT) {
        if place + PAGE_BYTES > BLOCK_BYTES {
            return None;
        }
        let sequence = u64_at(block, place);
        let count = usize::from(u16_at(block, place + 8));
        place += PAGE_BYTES;
        if place + count * RECORD_BYTES > BLOCK_BYTES {
            return None;
        }
        let listed = |index: usize| {
            let place = place + index * RECORD_BYTES;
            let kind = block[place + 6];
            let hash = KeyHash::from_bytes(array_at(block, place));
            Listed { hash, namespace: Namespace(kind >> 4), class: kind & 15 }
        };
        pages.push(ListedPage { sequence, records: (0..count).map(listed).collect() });
        place += count * RECORD_BYTES;
    }
    Some(pages)
}
