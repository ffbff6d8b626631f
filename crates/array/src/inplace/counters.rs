//! Counters of a served array since its start, in blocks of 4 KiB where nothing else is said.

use super::plan::{Method, Plan};
use base::pieces::PieceSet;
use std::ops::AddAssign;

/// What members were asked, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Blocks that clients read.
    pub read: u64,
    /// Blocks that clients wrote.
    pub written: u64,
    /// Blocks read from members before a write: old data, old parities, data of reconstructions.
    pub read_for_writes: u64,
    /// Blocks that their members returned to clients as they are.
    pub read_direct: u64,
    /// Of those read before a write, old data that a write goes over, where parities change by differences.
    pub old_data: u64,
    /// Old parities, of the same.
    pub old_parity: u64,
    /// Data and parities of rows whose parities are computed anew.
    pub others: u64,
    /// Blocks read for resync, recovery and scrub.
    pub swept: u64,
    /// Data and parities written to members.
    pub member_written: u64,
    /// Of those, parities that clients' writes change.
    pub parity_written: u64,
    /// Of those, what resync, recovery and scrub write.
    pub sweep_written: u64,
    /// Blocks that were decoded, because their member is missing or could not return them.
    pub decoded: u64,
    /// Blocks that a member could not return and that were written anew.
    pub corrected: u64,
    /// Blocks that could not be read.
    pub unreadable: u64,
    /// Rows whose parities changed by differences.
    pub modified: u64,
    /// Rows whose parities were computed anew.
    pub reconstructed: u64,
    /// Writes that joined a round under way.
    pub joined: u64,
    /// Blocks that a write needed, and that the cache had.
    pub cache_hits: u64,
    /// Blocks that a write needed and that were read.
    pub cache_misses: u64,
    /// Parities that a resync found wrong.
    pub resynced: u64,
    /// Rows that were rebuilt for members that are new in their roles.
    pub rebuilt: u64,
    /// Blocks that were written to replacements, copies and what clients wrote.
    pub copied: u64,
    /// Writes of superblocks, over all members.
    pub superblocks: u64,
    /// Writes of bitmap pages, over all members.
    pub bitmap_pages: u64,
    /// Blocks of partial parity logs: headers, partial parities, witnesses.
    pub logged: u64,
    /// Blocks of the journal: metadata, data, parities.
    pub journaled: u64,
    /// Rows of members that could not be written, and are listed as bad.
    pub listed: u64,
    /// Members that came back.
    pub returns: u64,
    /// Members that failed.
    pub failures: u64,
}

impl Counters {
    /// A row is about to be read for a write: pieces from `data_count` on are parities.
    #[inline]
    pub(super) fn note_reads(&mut self, plan: &Plan, data_count: usize) {
        let count = |pieces: PieceSet| u64::from(pieces.bits().count_ones());
        if plan.method != Method::Modify {
            self.others += count(plan.reads);
            return;
        }
        let data = count(plan.reads.and(PieceSet::first(data_count)));
        self.old_data += data;
        self.old_parity += count(plan.reads) - data;
    }
}

impl AddAssign<&Counters> for Counters {
    fn add_assign(&mut self, other: &Counters) {
        self.read += other.read;
        self.written += other.written;
        self.read_for_writes += other.read_for_writes;
        self.read_direct += other.read_direct;
        self.old_data += other.old_data;
        self.old_parity += other.old_parity;
        self.others += other.others;
        self.swept += other.swept;
        self.member_written += other.member_written;
        self.parity_written += other.parity_written;
        self.sweep_written += other.sweep_written;
        self.decoded += other.decoded;
        self.corrected += other.corrected;
        self.unreadable += other.unreadable;
        self.modified += other.modified;
        self.reconstructed += other.reconstructed;
        self.joined += other.joined;
        self.cache_hits += other.cache_hits;
        self.cache_misses += other.cache_misses;
        self.resynced += other.resynced;
        self.rebuilt += other.rebuilt;
        self.copied += other.copied;
        self.superblocks += other.superblocks;
        self.bitmap_pages += other.bitmap_pages;
        self.logged += other.logged;
        self.journaled += other.journaled;
        self.listed += other.listed;
        self.returns += other.returns;
        self.failures += other.failures;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of all counters, in their order.
    fn numbers(counters: &Counters) -> Vec<u64> {
        let words = format!("{counters:?}");
        words
            .split(|letter: char| !letter.is_ascii_digit())
            .filter_map(|number| number.parse().ok())
            .collect()
    }

    #[test]
    fn each_counter_is_added_to_its_own() {
        let counters = Counters {
            read: 1,
            written: 2,
            read_for_writes: 3,
            read_direct: 4,
            old_data: 5,
            old_parity: 6,
            others: 7,
            swept: 8,
            member_written: 9,
            parity_written: 10,
            sweep_written: 11,
            decoded: 12,
            corrected: 13,
            unreadable: 14,
            modified: 15,
            reconstructed: 16,
            joined: 17,
            cache_hits: 18,
            cache_misses: 19,
            resynced: 20,
            rebuilt: 21,
            copied: 22,
            superblocks: 23,
            bitmap_pages: 24,
            logged: 25,
            journaled: 26,
            listed: 27,
            returns: 28,
            failures: 29,
        };
        let mut sum = counters;
        sum += &counters;
        sum += &Counters { read: 10, ..counters };
        let expected: Vec<u64> = numbers(&counters).iter().map(|number| 3 * number).collect();
        assert_eq!(numbers(&Counters { read: sum.read - 9, ..sum }), expected);
    }
}
