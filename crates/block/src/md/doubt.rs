//! Doubt: what may be wrong of an array whose parities an operator takes for right (`--force`), by addresses of the volume.
//!
//! A crash tears a row between its members, not their blocks: what a member that is there has is right, and what a missing one had is
//! what parities say, which may be anything in a row in doubt.

use super::assembly::{Assembly, Part};
use super::geometry::{Geometry, Place, Stripe};
use super::reader::{ROW_SECTORS, Row, unsynced};
use super::{Role, SECTOR_BYTES_U64};
use std::ops::Range;

/// Blocks in doubt that lie near one another: missing members have some in each stripe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// Bytes of the volume, from the first of these blocks to the end of the last.
    pub bytes: Range<u64>,
    /// Blocks of 4 KiB in doubt, of those that lie there.
    pub blocks: u64,
}

/// Blocks of missing members in rows in doubt, by ranges in order; of a log that leaves rows in doubt, these are `torn`.
///
/// # Panics
/// When the shape of the array is none.
#[must_use]
pub fn doubts(assembly: &Assembly<'_>, torn: &[Row]) -> Vec<Doubt> {
    let geometry = Geometry::of(&assembly.superblock().shape).expect("an array that can be served");
    let size = geometry.stripes() * geometry.chunk_sectors();
    let of_log = torn.iter().map(|row| row.0..row.0 + ROW_SECTORS);
    let mut ranges: Vec<Range<u64>> = unsynced(assembly).ranges(size).into_iter().chain(of_log).collect();
    ranges.sort_by_key(|range| range.start);
    let lost = lost(assembly);
    let mut found = Found { stripe_bytes: stripe_bytes(&geometry), doubts: Vec::new() };
    let mut from = 0;
    for range in ranges {
        found.look_at(&geometry, &lost, range.start.max(from)..range.end.min(size));
        from = range.end.max(from);
    }
    found.doubts
}

/// Roles that lack a member, each with the sector of its data from which on it does.
fn lost(assembly: &Assembly<'_>) -> Vec<(Role, u64)> {
    let recovered = |role: Role| {
        let of = |(_, part): &(_, Part)| match part {
            Part::Recovering(other, sectors) if *other == role => Some(*sectors),
            _ => None,
        };
        assembly.devices.iter().find_map(of).unwrap_or(0)
    };
    assembly.missing.iter().map(|role| (*role, recovered(*role))).collect()
}

fn stripe_bytes(geometry: &Geometry) -> u64 {
    u64::from(geometry.data_chunks()) * geometry.chunk_sectors() * SECTOR_BYTES_U64
}

/// Ranges found so far.
struct Found {
    stripe_bytes: u64,
    doubts: Vec<Doubt>,
}

impl Found {
    /// Adds what was lost in rows of these sectors of the members.
    fn look_at(&mut self, geometry: &Geometry, lost: &[(Role, u64)], sectors: Range<u64>) {
        let chunk = geometry.chunk_sectors();
        for stripe in sectors.start / chunk..sectors.end.div_ceil(chunk) {
            let mut here: Vec<Range<u64>> = Vec::new();
            for (role, from) in lost {
                let Place::Data(number) = geometry.place(Stripe(stripe), *role) else { continue };
                let start = sectors.start.max(*from).max(stripe * chunk) / ROW_SECTORS * ROW_SECTORS;
                let end = sectors.end.min((stripe + 1) * chunk).next_multiple_of(ROW_SECTORS);
                let within = |sector: u64| (number.0 * chunk + sector - stripe * chunk) * SECTOR_BYTES_U64;
                if start < end {
                    here.push(within(start)..within(end));
                }
            }
            here.sort_by_key(|bytes| bytes.start);
            here.into_iter().for_each(|bytes| self.add(bytes));
        }
    }

    /// Adds bytes behind all others, or beside the last.
    fn add(&mut self, bytes: Range<u64>) {
        let blocks = (bytes.end - bytes.start) / (ROW_SECTORS * SECTOR_BYTES_U64);
        match self.doubts.last_mut() {
            Some(last) if bytes.start <= last.bytes.end + self.stripe_bytes => {
                last.bytes = last.bytes.start.min(bytes.start)..last.bytes.end.max(bytes.end);
                last.blocks += blocks;
            }
            _ => self.doubts.push(Doubt { bytes, blocks }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::md::superblock::Shape;

    #[test]
    fn blocks_of_the_missing_member_alone_are_named() {
        let shape = Shape { level: 5, layout: 2, size: 256, chunk: 16, members: 3 };
        let geometry = Geometry::of(&shape).expect("a shape");
        let named = |lost: &[(Role, u64)], ranges: &[[u64; 2]]| {
            let mut found = Found { stripe_bytes: stripe_bytes(&geometry), doubts: Vec::new() };
            ranges.iter().for_each(|[start, end]| found.look_at(&geometry, lost, *start..*end));
            found.doubts.into_iter().map(|doubt| (doubt.bytes, doubt.blocks)).collect::<Vec<_>>()
        };
        // Left-symmetric, stripes of two chunks of two blocks: role 2 has the parity of the first, chunk 2 of the second, chunk 5 of the third.
        assert_eq!(named(&[(Role(2), 0)], &[[0, 16]]), []);
        assert_eq!(named(&[(Role(2), 0)], &[[16, 32]]), [(2 * 8192..3 * 8192, 2)]);
        assert_eq!(named(&[(Role(2), 0)], &[[0, 48]]), [(2 * 8192..6 * 8192, 4)]);
        assert_eq!(named(&[(Role(2), 0)], &[[24, 32]]), [(2 * 8192 + 4096..3 * 8192, 1)]);
        assert_eq!(named(&[(Role(2), 32)], &[[0, 48]]), [(5 * 8192..6 * 8192, 2)]);
        let all = named(&[(Role(2), 0)], &[[0, 256]]);
        assert!(all.len() == 1 && all[0].1 == 2 * (16 - 6), "{all:?}");
        let two = named(&[(Role(2), 0)], &[[16, 32], [160, 176]]);
        assert!(two.len() == 2 && two.iter().all(|(_, blocks)| *blocks == 2), "{two:?}");
    }
}
