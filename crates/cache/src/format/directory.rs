//! Directories: what the pages before them hold, so that recovery need not read them.
//!
//! A directory is a run of blocks. It covers the pages from the block after the directory before it, or after the zone's
//! header, to its own first block. Each block of it stands for itself.

use crate::hash::KeyHash;
use crate::request::Namespace;
use base::bytes::{array_at, put, u16_at, u32_at, u64_at};
use base::record_fields;
use base::units::BLOCK_BYTES;
use base::xor::Block;

record_fields! { BLOCK_BYTES;
    MAGIC: 0, 8, "`ZWCDIRE1`";
    RUN: 8, 4, "first block of this directory";
    COVERS: 12, 4, "first page that this directory covers";
    FIRST: 16, 4, "first page that this block covers";
    COUNT: 20, 2, "pages that this block covers";
    RESERVED_0: 22, 2, "zero";
    PAGES: 24, 4072, "of each page: its sequence (8), its records (2), and of each record its hash (6), namespace (upper four bits) and size class (lower four)";
}

const MAGIC: &[u8; 8] = b"ZWCDIRE1";
const PAGE_BYTES: usize = 10;
const RECORD_BYTES: usize = 7;

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
    /// Its sequence.
    pub sequence: u64,
    /// The records that begin in it.
    pub records: Vec<Listed>,
}

impl ListedPage {
    fn bytes(&self) -> usize {
        PAGE_BYTES + RECORD_BYTES * self.records.len()
    }
}

/// Size of a directory that grows by pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    blocks: u32,
    used: usize,
}

impl Extent {
    /// A page with so many records is covered, too.
    pub fn add(&mut self, records: usize) {
        let bytes = PAGE_BYTES + RECORD_BYTES * records;
        assert!(at::PAGES + bytes <= BLOCK_BYTES, "a page's records fit a block");
        if self.blocks == 0 || self.used + bytes > BLOCK_BYTES {
            *self = Extent { blocks: self.blocks + 1, used: at::PAGES };
        }
        self.used += bytes;
    }

    /// Blocks of the directory.
    #[must_use]
    pub fn blocks(self) -> u32 {
        self.blocks
    }
}

/// A block of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryBlock {
    /// First block of the directory.
    pub run: u32,
    /// First page that the directory covers.
    pub covers: u32,
    /// First page that this block covers.
    pub first: u32,
    /// The pages.
    pub pages: Vec<ListedPage>,
}

impl DirectoryBlock {
    /// The directory at block `run` of the pages from `covers` on, in blocks.
    #[must_use]
    pub fn of_pages(run: u32, covers: u32, pages: &[ListedPage]) -> Vec<DirectoryBlock> {
        let mut blocks: Vec<DirectoryBlock> = Vec::new();
        let mut extent = Extent::default();
        for (number, page) in (covers..).zip(pages) {
            let before = extent.blocks;
            extent.add(page.records.len());
            if extent.blocks > before {
                blocks.push(DirectoryBlock { run, covers, first: number, pages: Vec::new() });
            }
            blocks.last_mut().expect("the first page begins a block").pages.push(page.clone());
        }
        blocks
    }

    /// Writes it into a block.
    ///
    /// # Panics
    /// When the pages do not fit.
    pub fn encode(&self, block: &mut Block) {
        block.fill(0);
        put(block, at::MAGIC, MAGIC);
        put(block, at::RUN, &self.run.to_le_bytes());
        put(block, at::COVERS, &self.covers.to_le_bytes());
        put(block, at::FIRST, &self.first.to_le_bytes());
        let count = u16::try_from(self.pages.len()).expect("they fit a block");
        put(block, at::COUNT, &count.to_le_bytes());
        let mut place = at::PAGES;
        for page in &self.pages {
            assert!(place + page.bytes() <= BLOCK_BYTES);
            put(block, place, &page.sequence.to_le_bytes());
            let records = u16::try_from(page.records.len()).expect("they fit a block");
            put(block, place + 8, &records.to_le_bytes());
            place += PAGE_BYTES;
            for record in &page.records {
                put(block, place, &record.hash.to_bytes());
                block[place + 6] = record.namespace.0 << 4 | record.class;
                place += RECORD_BYTES;
            }
        }
    }

    /// Reads a block; `None` when it holds no part of a directory.
    #[must_use]
    pub fn decode(block: &Block) -> Option<DirectoryBlock> {
        if &block[..8] != MAGIC {
            return None;
        }
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
        let (run, covers, first) =
            (u32_at(block, at::RUN), u32_at(block, at::COVERS), u32_at(block, at::FIRST));
        let last = u64::from(first) + pages.len() as u64;
        let possible = covers >= 1 && first >= covers && last <= u64::from(run) && !pages.is_empty();
        possible.then_some(DirectoryBlock { run, covers, first, pages })
    }
}
