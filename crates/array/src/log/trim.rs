//! Trim and write-zeroes: durable, and as cheap for a terabyte as for a block.
//!
//! A trim writes, for each region of 32 MiB it touches, one tombstone block: a bitmap of all blocks
//! of the region that are trimmed as of the block's sequence. The newest tombstone of a region
//! counts; in recovery it hides every copy of its blocks with a lower sequence. Tombstones are named
//! and indexed like data, so the collector moves the newest and drops the rest, and they live
//! exactly as long as they may hide something.
//!
//! For a bitmap with one sequence to be right, no write of its region may be in flight when it is
//! made. So trims and writes of one region exclude each other; writes share.

use crate::log::clients::Clients;
use crate::log::core::Core;
use crate::log::index::Region;
use crate::log::requests::RequestSlot;
use base::units::{Lba, index_of};
use std::ops::Range;

/// Users of each region: any number of writes, or one trim.
#[derive(Debug)]
pub struct RegionLocks {
    writes: Vec<u32>,
    trimming: Vec<bool>,
    /// The next sequence when the first of those in it came.
    since: Vec<u64>,
}

impl RegionLocks {
    /// Nobody in any region.
    #[must_use]
    pub fn new(regions: u64) -> RegionLocks {
        let regions = index_of(regions);
        assert!(regions > 0, "a volume has a region");
        RegionLocks { writes: vec![0; regions], trimming: vec![false; regions], since: vec![0; regions] }
    }

    /// A write enters its regions, or none of them when one is being trimmed.
    pub fn enter_write(&mut self, regions: Range<Region>, next_sequence: u64) -> bool {
        let regions = regions.start.index()..regions.end.index();
        if self.trimming[regions.clone()].iter().any(|trimming| *trimming) {
            return false;
        }
        for region in regions {
            if self.writes[region] == 0 {
                debug_assert!(next_sequence > 0, "sequences begin at one");
                self.since[region] = next_sequence;
            }
            self.writes[region] += 1;
        }
        true
    }

    /// A write leaves its regions.
    pub fn leave_write(&mut self, regions: Range<Region>) {
        for writes in &mut self.writes[regions.start.index()..regions.end.index()] {
            assert!(*writes > 0);
            *writes -= 1;
        }
    }

    /// A trim enters its regions, or none of them when one is being written or trimmed.
    pub fn enter_trim(&mut self, regions: Range<Region>, next_sequence: u64) -> bool {
        let regions = regions.start.index()..regions.end.index();
        let busy = self.writes[regions.clone()].iter().any(|writes| *writes > 0)
            || self.trimming[regions.clone()].iter().any(|trimming| *trimming);
        if !busy {
            self.trimming[regions.clone()].fill(true);
            self.since[regions].fill(next_sequence);
        }
        !busy
    }

    /// A trim leaves its regions.
    pub fn leave_trim(&mut self, regions: Range<Region>) {
        for trimming in &mut self.trimming[regions.start.index()..regions.end.index()] {
            assert!(*trimming);
            *trimming = false;
        }
    }

    /// While a region is being trimmed, a sequence below that of the trim and above all in it before.
    #[must_use]
    pub fn sequence_before_trim(&self, region: Region) -> Option<u64> {
        let region = region.index();
        self.trimming[region].then(|| self.since[region] - 1)
    }

    /// While somebody is in a region, a sequence below theirs and above those of trims before.
    #[must_use]
    pub fn sequence_before(&self, region: Region) -> Option<u64> {
        let region = region.index();
        (self.trimming[region] || self.writes[region] > 0).then(|| self.since[region] - 1)
    }

    /// True when nobody is in any region.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.writes.iter().all(|writes| *writes == 0) && self.trimming.iter().all(|trimming| !trimming)
    }
}

impl Clients {
    /// The tombstone of a region is durable: its blocks are gone.
    pub(super) fn apply_trim(&mut self, core: &mut Core, request: RequestSlot, region: Region) {
        for lba in self.blocks_of_trim(core, request, region) {
            if let Some(before) = core.index.trim(Lba(lba)) {
                core.forget(before);
            }
        }
    }
}

pub(in crate::log) fn intersect(a: &Range<u64>, b: &Range<u64>) -> Range<u64> {
    a.start.max(b.start)..a.end.min(b.end)
}
