//! A conventional drive: any page may be written at any time, so old copies have to be collected.
//!
//! ```text
//!   map: logical page -> place            block 0       block 1       block 2     ...
//!   places: (block, page), in order      [ . x . x ]   [ x x . x ]   [ free    ]
//! ```
//! Pages of the host fill one open block, pages that the collector moves another. When free blocks
//! run short, admission of writes stops and the collector empties the block with the fewest valid
//! pages (greedy), until there are enough again; where blocks are small, several together (a batch).
//! Moving takes program time on the dies, erasing takes all of them. That is what makes throughput
//! come in waves and lets reads wait behind writes.
//!
//! Bad at: memory. It takes 8 bytes per page; the profile's drive is smaller than a real one.

use super::core::Core;
use super::die::{Job, Owner};
use super::dies::Flash;
use super::profile::Profile;
use std::collections::VecDeque;

const NOWHERE: u32 = u32::MAX;

/// An open block: where the next page goes.
#[derive(Clone, Copy, Debug)]
struct Open {
    block: u32,
    page: u32,
}

/// State of the translation layer.
#[derive(Debug)]
pub(super) struct Ftl {
    page_bytes: u64,
    block_pages: u32,
    /// Place of each logical page.
    map: Vec<u32>,
    /// Logical page of each place.
    pages: Vec<u32>,
    valid: Vec<u32>,
    /// Neither free nor open.
    sealed: Vec<bool>,
    free: VecDeque<u32>,
    host: Open,
    moved: Open,
    /// Pages that were given a place, of the host and moved.
    pages_placed: u64,
    /// Writes wait.
    pub(super) collecting: bool,
    /// Writes that may pass all the same: one per batch that was emptied.
    pub(super) passes: u32,
    /// The blocks that are emptied.
    batch: Vec<u32>,
    /// Their programs and erasures that are not done.
    jobs: u32,
}

impl Ftl {
    /// The empty layer of a drive without zones.
    pub(super) fn of(profile: &Profile) -> Option<Ftl> {
        let translation = profile.translation.as_ref()?;
        let block_bytes = u64::from(translation.block_units) * profile.program.unit_bytes;
        let capacity = profile.geometry.zone_capacity_bytes;
        let logical = capacity.div_ceil(translation.page_bytes);
        let physical = super::noise::scaled(capacity, 1.0 + translation.over_provision);
        let block_pages = u32::try_from(block_bytes / translation.page_bytes).ok()?.max(1);
        // At least what collection needs to get anywhere, besides the two open blocks.
        let spare = u64::from(translation.collect_until_blocks) + 2;
        let blocks = physical.div_ceil(block_bytes).max(logical.div_ceil(u64::from(block_pages)) + spare);
        let blocks = u32::try_from(blocks).ok()?;
        Some(Ftl {
            page_bytes: translation.page_bytes,
            block_pages,
            map: vec![NOWHERE; usize::try_from(logical).ok()?],
            pages: vec![NOWHERE; blocks as usize * block_pages as usize],
            valid: vec![0; blocks as usize],
            sealed: vec![false; blocks as usize],
            free: (2..blocks).collect(),
            host: Open { block: 0, page: 0 },
            moved: Open { block: 1, page: 0 },
            pages_placed: 0,
            collecting: false,
            passes: 0,
            batch: Vec::new(),
            jobs: 0,
        })
    }

    /// The host has written these bytes.
    fn written(&mut self, offset_bytes: u64, bytes: u64) {
        let first = offset_bytes / self.page_bytes;
        let last = (offset_bytes + bytes.max(1) - 1) / self.page_bytes;
        for page in first..=last.min(self.map.len() as u64 - 1) {
            let open = self.put(self.host, u32::try_from(page).expect("pages are counted by a u32"));
            self.host = open;
        }
    }

    /// Puts a logical page at the next place; returns the place after it.
    fn put(&mut self, open: Open, page: u32) -> Open {
        self.pages_placed += 1;
        let place = open.block * self.block_pages + open.page;
        let old = std::mem::replace(&mut self.map[page as usize], place);
        if old != NOWHERE {
            self.pages[old as usize] = NOWHERE;
            self.valid[(old / self.block_pages) as usize] -= 1;
        }
        self.pages[place as usize] = page;
        self.valid[open.block as usize] += 1;
        if open.page + 1 < self.block_pages {
            return Open { page: open.page + 1, ..open };
        }
        self.sealed[open.block as usize] = true;
        let block = self.free.pop_front().expect("collection begins before the last free block is taken");
        Open { block, page: 0 }
    }

    /// Empties the sealed block with the fewest valid pages, in the map; tells it and its pages.
    fn empty_one(&mut self) -> Option<(u32, u32)> {
        let sealed = (0..self.valid.len()).filter(|block| self.sealed[*block]);
        let victim = sealed.min_by_key(|block| self.valid[*block])?;
        let first = victim * self.block_pages as usize;
        let mut count = 0;
        for place in first..first + self.block_pages as usize {
            let page = self.pages[place];
            if page != NOWHERE {
                self.moved = self.put(self.moved, page);
                count += 1;
            }
        }
        self.sealed[victim] = false;
        Some((u32::try_from(victim).expect("blocks are counted by a u32"), count))
    }

    /// Fills the drive and overwrites it at random, without time.
    fn condition(&mut self, noise: &mut super::noise::Noise, below: usize, stretch_pages: u64) {
        let logical = self.map.len() as u64;
        self.written(0, logical * self.page_bytes);
        let stretches = (logical / stretch_pages).max(1);
        for _ in 0..stretches * 3 {
            let first = noise.below(stretches) * stretch_pages;
            self.written(first * self.page_bytes, stretch_pages * self.page_bytes);
            while self.free.len() < below + 1 {
                let Some((block, _)) = self.empty_one() else { return };
                self.free.push_back(block);
            }
        }
    }
}

impl Ftl {
    /// Bytes that are or will be programmed: what is in the buffer counts.
    pub(super) fn bytes_placed(&self) -> u64 {
        self.pages_placed * self.page_bytes
    }

    /// True when writes have to wait for the collector.
    pub(super) fn holds_writes(&self) -> bool {
        self.collecting && self.passes == 0
    }

    /// A write of a conventional drive has landed: the map follows, and the collector may have to
    /// begin.
    pub(super) fn landed(&mut self, core: &mut Core, flash: &mut Flash, (offset_bytes, bytes): (u64, u64)) {
        let Some(section) = &core.profile.translation else { return };
        let below = section.collect_below_blocks as usize;
        self.written(offset_bytes, bytes);
        if !self.collecting && self.free.len() < below {
            self.collecting = true;
            self.collect(core, flash);
        }
    }

    /// Empties the next blocks, or lets writes go on.
    fn collect(&mut self, core: &mut Core, flash: &mut Flash) {
        assert!(self.batch.is_empty(), "one batch is emptied at a time");
        let Some(section) = &core.profile.translation else { return };
        let until = section.collect_until_blocks as usize;
        if self.free.len() >= until {
            self.collecting = false;
            return;
        }
        let most = section.batch_blocks as usize;
        let unit = core.profile.program.unit_bytes;
        let dies = flash.dies.len();
        let mut place = 0;
        while self.batch.len() < most && self.free.len() + self.batch.len() < until {
            // What is moved takes free blocks, at most one for each that it frees.
            if !self.batch.is_empty() && self.free.len() < 2 {
                break;
            }
            let Some((block, pages)) = self.empty_one() else { break };
            self.batch.push(block);
            for _ in 0..(u64::from(pages) * self.page_bytes).div_ceil(unit) {
                flash.give(core, place % dies, Job { bytes: unit, owner: Owner::Collector });
                place += 1;
            }
        }
        for die in (0..dies).cycle().take(dies * self.batch.len()) {
            flash.give(core, die, Job { bytes: 0, owner: Owner::Collector });
        }
        self.jobs = u32::try_from(place + dies * self.batch.len()).expect("jobs of a few blocks");
    }

    /// A program or erasure of the collector is done; true when that was the last of a batch, so that writes may go on.
    pub(super) fn collected(&mut self, core: &mut Core, flash: &mut Flash) -> bool {
        assert!(self.jobs > 0, "blocks that are emptied have programs or erasures left");
        self.jobs -= 1;
        if self.jobs > 0 {
            return false;
        }
        self.free.extend(self.batch.drain(..));
        self.passes = 1;
        self.collect(core, flash);
        true
    }

    /// Fills a conventional drive and overwrites it at random until collection is in its steady
    /// state.
    pub(super) fn fill(&mut self, core: &mut Core) {
        let Some(section) = &core.profile.translation else { return };
        let below = section.collect_below_blocks as usize;
        let stretch_pages = ((1 << 20) / section.page_bytes).max(1);
        self.condition(&mut core.noise, below, stretch_pages);
    }
}
