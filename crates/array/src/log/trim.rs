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

use crate::engine::Effects;
use crate::log::Shard;
use crate::log::clients::Clients;
use crate::log::core::Core;
use crate::log::index::{Name, region_of, region_range};
use crate::log::stripe::Origin;
use crate::log::write::{Placement, Work};
use base::checksum::crc32c;
use base::time::Instant;
use base::units::Lba;
use std::ops::Range;
use zone::format::oob::{Kind, Protected};

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
        let regions = Lba(regions).index();
        RegionLocks { writes: vec![0; regions], trimming: vec![false; regions], since: vec![0; regions] }
    }

    /// A write enters its regions, or none of them when one is being trimmed.
    pub fn enter_write(&mut self, regions: Range<u64>, next_sequence: u64) -> bool {
        let regions = Lba(regions.start).index()..Lba(regions.end).index();
        if self.trimming[regions.clone()].iter().any(|trimming| *trimming) {
            return false;
        }
        for region in regions {
            if self.writes[region] == 0 {
                self.since[region] = next_sequence;
            }
            self.writes[region] += 1;
        }
        true
    }

    /// A write leaves its regions.
    pub fn leave_write(&mut self, regions: Range<u64>) {
        for writes in &mut self.writes[Lba(regions.start).index()..Lba(regions.end).index()] {
            assert!(*writes > 0);
            *writes -= 1;
        }
    }

    /// A trim enters its regions, or none of them when one is being written or trimmed.
    pub fn enter_trim(&mut self, regions: Range<u64>, next_sequence: u64) -> bool {
        let regions = Lba(regions.start).index()..Lba(regions.end).index();
        let busy = self.writes[regions.clone()].iter().any(|writes| *writes > 0)
            || self.trimming[regions.clone()].iter().any(|trimming| *trimming);
        if !busy {
            self.trimming[regions.clone()].fill(true);
            self.since[regions].fill(next_sequence);
        }
        !busy
    }

    /// A trim leaves its regions.
    pub fn leave_trim(&mut self, regions: Range<u64>) {
        for trimming in &mut self.trimming[Lba(regions.start).index()..Lba(regions.end).index()] {
            assert!(*trimming);
            *trimming = false;
        }
    }

    /// While a region is being trimmed, a sequence below that of the trim and above all in it before.
    #[must_use]
    pub fn sequence_before_trim(&self, region: u64) -> Option<u64> {
        let region = Lba(region).index();
        self.trimming[region].then(|| self.since[region] - 1)
    }

    /// While somebody is in a region, a sequence below theirs and above those of trims before.
    #[must_use]
    pub fn sequence_before(&self, region: u64) -> Option<u64> {
        let region = Lba(region).index();
        (self.trimming[region] || self.writes[region] > 0).then(|| self.since[region] - 1)
    }

    /// True when nobody is in any region.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.writes.iter().all(|writes| *writes == 0) && self.trimming.iter().all(|trimming| !trimming)
    }
}

impl Shard {
    /// Places the tombstones of a trim, as far as stripe slots allow. True when all are under way.
    pub(super) fn admit_trim(&mut self, slot: u32, now: Instant, fx: &mut Effects) -> bool {
        let request = self.clients.requests.get(slot);
        if !request.started {
            let regions = request.regions();
            if !self.clients.regions.enter_trim(regions.clone(), self.core.next_sequence) {
                // What keeps us out may wait for company in a stripe; and it may end at once, by failing.
                self.seal_clients(fx);
                if !self.clients.regions.enter_trim(regions, self.core.next_sequence) {
                    return false;
                }
            }
            self.clients.requests.get_mut(slot).started = true;
            self.clients.writes_outstanding += 1;
        }
        loop {
            let request = self.clients.requests.get(slot);
            let Work::Trim { range, region_next } = &request.work else { unreachable!("a trim") };
            let (range, region) = (range.clone(), *region_next);
            if region > region_of(range.end - 1) {
                break;
            }
            if !self.may_place(self.core.config.stream_for(1)) {
                return false;
            }
            self.place_tombstone(slot, region, &range, now, fx);
            let Work::Trim { region_next, .. } = &mut self.clients.requests.get_mut(slot).work else {
                unreachable!("a trim")
            };
            *region_next += 1;
        }
        self.request_placed(slot, fx);
        true
    }

    /// Writes the tombstone of one region, unless the trim changes nothing there.
    fn place_tombstone(
        &mut self,
        slot: u32,
        region: u64,
        range: &Range<u64>,
        now: Instant,
        fx: &mut Effects,
    ) {
        let blocks = intersect(range, &region_range(region, self.core.index.blocks()));
        // A write that failed may be on the media all the same, and nothing else would hide it.
        if self.core.index.is_zeros(&blocks) && !self.clients.writes_failed {
            return;
        }
        let mut frame = self.core.frames.take();
        self.core.index.write_tombstone(region, range, &mut frame.data);
        let data_crc = crc32c(&frame.data);
        let protected = Protected { lba: region, sequence: self.core.next_sequence, kind: Kind::Tombstone };
        self.core.next_sequence += 1;
        self.clients.requests.get_mut(slot).blocks_pending += 1;
        self.core.counters.tombstone_blocks_written += 1;
        let name = Some(Name::Tombstone(region));
        let origin = Origin::Request(slot);
        let stream = self.core.config.stream_for(1);
        self.place(stream, now, Placement { frame, protected, name, origin, data_crc }, fx);
    }
}

impl Clients {
    /// The tombstone of a region is durable: its blocks are gone.
    pub(super) fn apply_trim(&mut self, core: &mut Core, request: u32, region: u64) {
        for lba in self.blocks_of_trim(core, request, region) {
            if let Some(before) = core.index.trim(Lba(lba)) {
                core.forget(before);
            }
        }
    }
}

fn intersect(a: &Range<u64>, b: &Range<u64>) -> Range<u64> {
    a.start.max(b.start)..a.end.min(b.end)
}
