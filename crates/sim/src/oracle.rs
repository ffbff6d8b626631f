//! What may be read: for every block, the versions it had and which of them may come back.
//!
//! ```text
//!   version   begun ──> acknowledged ──> durable         (durable at once without a volatile cache)
//!   a read    the newest version acknowledged before it began, or any later one
//!   a crash   the newest durable version, or any later one; what is then read first, stays
//! ```
//! Contents are told apart by their stamp, which is the arrival number of the write; zero is a block
//! of zeros. The engine orders writes by arrival, so a version that arrived before an acknowledged
//! one cannot come back.

use base::units::BLOCK_BYTES;
use base::xor::Block;

/// Contents of a block: 0 is zeros, anything else the arrival number of a write.
pub type Stamp = u64;

/// A version of a block.
#[derive(Clone, Copy, Debug)]
pub struct Version {
    /// Order among all requests.
    pub arrival: u64,
    /// Contents of the block.
    pub contents: Stamp,
    /// True when the client was told so.
    pub acknowledged: bool,
    /// True when the version must survive a power failure.
    pub durable: bool,
    /// True when the version was never acknowledged, and was gone after a power failure.
    pub dismissed: bool,
}

/// The versions of all blocks.
#[derive(Clone, Debug)]
pub struct Oracle {
    blocks: Vec<Vec<Version>>,
    next_arrival: u64,
    /// Acknowledged means durable.
    write_through: bool,
}

impl Oracle {
    /// A volume of zeros.
    #[must_use]
    pub fn new(blocks: usize, write_through: bool) -> Oracle {
        assert!(blocks > 0, "a volume has blocks");
        let first = Version { arrival: 0, contents: 0, acknowledged: true, durable: true, dismissed: false };
        Oracle { blocks: vec![vec![first]; blocks], next_arrival: 1, write_through }
    }

    /// Size of the volume.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// The next arrival number, which is also a stamp.
    pub fn arrive(&mut self) -> u64 {
        self.next_arrival += 1;
        self.next_arrival - 1
    }

    /// A write or trim of a block has begun.
    pub fn begin(&mut self, lba: u64, arrival: u64, contents: Stamp) {
        assert!(arrival < self.next_arrival, "request {arrival} has arrived");
        let newest = self.versions(lba).last().map_or(0, |version| version.arrival);
        assert!(newest <= arrival, "requests come in their order: {newest}, {arrival}");
        let version = Version { arrival, contents, acknowledged: false, durable: false, dismissed: false };
        self.versions_mut(lba).push(version);
    }

    /// Notes that a version was acknowledged; `forced` means with force-unit-access.
    pub fn acknowledge(&mut self, lba: u64, arrival: u64, forced: bool) {
        let durable = forced || self.write_through;
        let version = self.versions_mut(lba).iter_mut().rfind(|version| version.arrival == arrival);
        if let Some(version) = version {
            version.acknowledged = true;
            version.durable |= durable;
        }
    }

    /// The number that the next request gets.
    #[must_use]
    pub fn next_arrival(&self) -> u64 {
        self.next_arrival
    }

    /// A flush was acknowledged: writes that arrived before number `before` are durable, those that were not
    /// acknowledged yet among them, unless writes may fail.
    pub fn flushed(&mut self, before: u64, all_succeed: bool) {
        assert!(before <= self.next_arrival, "a flush covers what has arrived");
        for versions in &mut self.blocks {
            let covered = |version: &&mut Version| {
                let succeeded = all_succeed && !version.dismissed || version.acknowledged;
                version.arrival < before && succeeded
            };
            if let Some(version) = versions.iter_mut().rev().find(covered) {
                version.acknowledged = true;
                version.durable = true;
            }
        }
    }

    /// Arrival of the newest version that was acknowledged: older ones may no longer be read.
    #[must_use]
    pub fn floor(&self, lba: u64) -> u64 {
        self.versions(lba).iter().rfind(|version| version.acknowledged).map_or(0, |version| version.arrival)
    }

    /// True when a read whose floor was `floor` may return these contents now. What was gone once may come back
    /// only when `proof_is_lost`: more members are, than hold the proof that it was never acknowledged.
    #[must_use]
    pub fn may_read(&self, lba: u64, floor: u64, contents: Stamp, proof_is_lost: bool) -> bool {
        let newer = self.versions(lba).iter().rev().take_while(|version| version.arrival >= floor);
        let mut possible = newer.filter(|version| proof_is_lost || !version.dismissed);
        possible.any(|version| version.contents == contents)
    }

    /// The power failed: of every block, the newest durable version or a later one remains.
    pub fn power_failed(&mut self) {
        for versions in &mut self.blocks {
            for version in &mut *versions {
                version.acknowledged = version.durable;
            }
            assert!(versions.iter().any(|version| version.durable), "some version of a block is durable");
        }
    }

    /// Notes that the block holds what was read first after a crash. Of versions with the same contents it may be the
    /// oldest: a trim that was lost does not prove that what came before it is gone.
    pub fn settle(&mut self, lba: u64, contents: Stamp) {
        let versions = self.versions_mut(lba);
        let newest = versions.iter().rposition(|version| version.acknowledged).unwrap_or(0);
        assert!(!versions.is_empty(), "a block has a version");
        versions.drain(..newest);
        let Some(found) = versions.iter().position(|version| version.contents == contents) else { return };
        versions.drain(..found);
        for version in &mut *versions {
            version.dismissed = true;
        }
        versions[0] = Version { acknowledged: true, durable: true, dismissed: false, ..versions[0] };
        assert!(versions[0].contents == contents, "block {lba} holds what was read");
    }

    /// The versions of a block, oldest first.
    #[must_use]
    pub fn versions(&self, lba: u64) -> &[Version] {
        &self.blocks[base::units::Lba(lba).index()]
    }

    fn versions_mut(&mut self, lba: u64) -> &mut Vec<Version> {
        &mut self.blocks[base::units::Lba(lba).index()]
    }
}

/// Fills a block so that every part of it tells its stamp and its address.
pub fn fill(block: &mut Block, lba: u64, stamp: Stamp) {
    for (index, chunk) in (0_u64..).zip(block.chunks_exact_mut(16)) {
        chunk[..8].copy_from_slice(&(stamp ^ index << 48).to_le_bytes());
        chunk[8..].copy_from_slice(&lba.to_le_bytes());
    }
}

/// The stamp of a block; `None` when its parts disagree or it belongs to another address.
#[must_use]
pub fn stamp_of(block: &Block, lba: u64) -> Option<Stamp> {
    let stamp = base::bytes::u64_at(block, 0);
    let mut expected = [0; BLOCK_BYTES];
    if stamp == 0 && *block == expected {
        return Some(0);
    }
    fill(&mut expected, lba, stamp);
    (*block == expected).then_some(stamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledged_write_stays_and_an_older_one_is_gone() {
        let mut oracle = Oracle::new(1, true);
        let (first, second) = (oracle.arrive(), oracle.arrive());
        oracle.begin(0, first, first);
        assert!(oracle.may_read(0, 0, 0, false) && oracle.may_read(0, 0, first, false));
        oracle.begin(0, second, second);
        oracle.acknowledge(0, second, false);
        oracle.power_failed();
        let floor = oracle.floor(0);
        assert!(!oracle.may_read(0, floor, 0, true) && !oracle.may_read(0, floor, first, true));
        assert!(oracle.may_read(0, floor, second, false));
    }

    #[test]
    fn what_a_volatile_cache_holds_may_be_lost_until_flushed() {
        let mut oracle = Oracle::new(1, false);
        let (first, second) = (oracle.arrive(), oracle.arrive());
        oracle.begin(0, first, first);
        oracle.acknowledge(0, first, false);
        oracle.begin(0, second, second);
        oracle.acknowledge(0, second, false);
        oracle.flushed(second, true);
        oracle.power_failed();
        let floor = oracle.floor(0);
        assert!(oracle.may_read(0, floor, first, false) && oracle.may_read(0, floor, second, false));
        assert!(!oracle.may_read(0, floor, 0, true));
        oracle.settle(0, first);
        assert!(!oracle.may_read(0, oracle.floor(0), second, false));
        assert!(oracle.may_read(0, oracle.floor(0), second, true));
    }

    #[test]
    fn zeros_after_a_crash_do_not_say_which_trim_they_are() {
        let mut oracle = Oracle::new(1, false);
        let (write, trim) = (oracle.arrive(), oracle.arrive());
        oracle.begin(0, write, write);
        oracle.acknowledge(0, write, false);
        oracle.begin(0, trim, 0);
        oracle.power_failed();
        oracle.settle(0, 0);
        assert!(!oracle.may_read(0, oracle.floor(0), write, false));
        assert!(oracle.may_read(0, oracle.floor(0), write, true));
    }

    #[test]
    fn a_flush_covers_what_arrived_before_it() {
        let mut oracle = Oracle::new(1, false);
        let (first, second) = (oracle.arrive(), oracle.next_arrival());
        oracle.begin(0, first, first);
        oracle.flushed(second, false);
        assert!(oracle.may_read(0, oracle.floor(0), 0, false), "the write may have failed");
        oracle.flushed(second, true);
        oracle.power_failed();
        assert!(!oracle.may_read(0, oracle.floor(0), 0, false));
    }

    #[test]
    fn stamps_tell_mixtures() {
        let mut block = [0; BLOCK_BYTES];
        assert_eq!(stamp_of(&block, 3), Some(0));
        fill(&mut block, 3, 77);
        assert_eq!(stamp_of(&block, 3), Some(77));
        assert_eq!(stamp_of(&block, 4), None);
        block[2048] ^= 1;
        assert_eq!(stamp_of(&block, 3), None);
    }
}
