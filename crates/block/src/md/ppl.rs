//! Partial parity log of RAID-5: what a crash in the middle of a stripe's write leaves to be put right.
//!
//! Headers follow one another through the log's area, each with the partial parity of its entries behind it. Of the headers
//! of a member only the newest counts, and only while the array is dirty: old ones stay behind after a clean stop.
//!
//! Beside entries of rows there are two kinds without rows, which md passes over: a *mark* says whether all parities that no entry
//! names are right ([`verdict`]), and what lies behind a [`witness`] tells rows that were written whole from those that were cut off.

pub mod verdict;
pub mod witness;

use super::superblock::Superblock;
use super::{Media, ReadFailed, SECTOR_BYTES_U64, Uuid};
use base::bytes::{put, u32_at, u64_at};
use base::checksum::{crc32c, crc32c_of_pieces};
use base::record_fields;

record_fields! { HEADER_BYTES;
    RESERVED: 0, 512, "all ones";
    SIGNATURE: 512, 4, "CRC32C of the array UUID";
    PADDING: 516, 4, "zero";
    GENERATION: 520, 8, "counts headers of all members";
    ENTRIES_COUNT: 528, 4, "entries, at most 148";
    CHECKSUM: 532, 4, "CRC32C of the header with this field zero";
    ENTRIES: 536, 3552, "entries of 24 bytes";
    MARK: 4088, 4, "spare header of ours: microseconds of the update time on superblocks of its writer. Not used by md";
    START: 4092, 4, "spare header of ours: CRC32C of events and update time on the superblocks before that writer's first. Not used by md";
}

/// Fields of an entry.
pub mod entry {
    use base::record_fields;

    record_fields! { ENTRY_BYTES;
        DATA_SECTOR: 0, 8, "first logical block of the array that is modified";
        PP_SIZE: 8, 4, "bytes of partial parity; zero for a whole stripe";
        DATA_SIZE: 12, 4, "bytes modified: those of a row times the data chunks modified";
        PARITY_MEMBER: 16, 4, "role that holds the parity";
        CHECKSUM: 20, 4, "CRC32C of the partial parity";
    }

    /// Bytes of an entry.
    pub const ENTRY_BYTES: usize = 24;

    pub(super) fn offset(entry: usize) -> usize {
        super::at::ENTRIES + entry * ENTRY_BYTES
    }

    pub(super) use at::*;
}

/// Bytes of a header.
pub const HEADER_BYTES: usize = 4096;
/// Sectors of the same.
pub const HEADER_SECTORS: u64 = 8;
/// Most entries of a header.
pub const ENTRIES_MAX: usize = 148;
/// From this many sectors on, the kernel uses the area as a ring of several logs.
pub const RING_SECTORS_MIN: u64 = 528;

/// Rows that were written together and the place of their partial parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// First logical block of the array.
    pub data_sector: u64,
    /// Bytes of partial parity; zero for a whole stripe.
    pub pp_bytes: u32,
    /// Bytes modified, over all data chunks.
    pub data_bytes: u32,
    /// Role that holds the parity.
    pub parity_member: u32,
    /// CRC32C of the partial parity.
    pub checksum: u32,
}

impl Entry {
    /// Entry without rows. Where parities are in doubt that no entry names, its checksum is wrong: md resyncs all of an array
    /// then, and counts the log as in order otherwise.
    #[must_use]
    pub fn mark(parity_member: u32, is_in_doubt: bool) -> Entry {
        let checksum = if is_in_doubt { u32::MAX } else { 0 };
        Entry { data_sector: 0, pp_bytes: 0, data_bytes: 0, parity_member, checksum }
    }

    /// True of a mark that says that parities are in doubt.
    #[must_use]
    pub fn is_doubt(&self) -> bool {
        self.pp_bytes == 0 && self.checksum != 0
    }

    /// Entry without rows, whose block of partial parity is a witness.
    #[must_use]
    pub fn witness(parity_member: u32, checksum: u32) -> Entry {
        let pp_bytes = u32::try_from(witness::BLOCK_BYTES).expect("4096");
        Entry { data_sector: 0, pp_bytes, data_bytes: 0, parity_member, checksum }
    }

    /// True of an entry whose block is a witness.
    #[must_use]
    pub fn is_witness(&self) -> bool {
        self.data_bytes == 0 && usize::try_from(self.pp_bytes) == Ok(witness::BLOCK_BYTES)
    }
}

/// Writer of a spare header. md does not see such a header, and counts its own generations from zero: what tells whether md wrote
/// since are the superblocks, where it leaves no microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Mark of the writer on superblocks: microseconds of their update time.
    pub mark: u32,
    /// Sum of the newest superblock before the writer's first.
    pub start: u32,
}

impl Origin {
    /// Writer that starts from this newest superblock: another one of ours where ours wrote last, else one with a mark of its own.
    #[must_use]
    pub fn at_start(newest: &Superblock) -> Origin {
        // Microseconds, and never zero.
        let fresh = u32::try_from(newest.state.events % 999_999).expect("below 999,999") + 1;
        let mark = if newest.mark() == 0 { fresh } else { newest.mark() };
        Origin { mark, start: Origin::start_of(newest) }
    }

    fn start_of(newest: &Superblock) -> u32 {
        let state = newest.state;
        crc32c_of_pieces([&state.events.to_le_bytes()[..], &state.updated.to_le_bytes()[..]])
    }

    /// True when nobody else wrote superblocks since, whose newest is this one.
    #[must_use]
    pub fn is_last(self, newest: &Superblock) -> bool {
        self.mark == newest.mark() || self.start == Origin::start_of(newest)
    }
}

/// Header of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// CRC32C of the array UUID.
    pub signature: u32,
    /// Counts headers of all members.
    pub generation: u64,
    /// Entries, in order.
    pub entries: Vec<Entry>,
    /// Writer of a spare header; zeros in others.
    pub origin: Origin,
}

/// Signature of the logs of an array.
#[must_use]
pub fn signature(array: Uuid) -> u32 {
    crc32c(&array.0)
}

impl Header {
    /// Reads a header; `None` when the checksum is wrong, or there are more entries than fit.
    #[must_use]
    pub fn decode(block: &[u8; HEADER_BYTES]) -> Option<Header> {
        let mut zeroed = *block;
        put(&mut zeroed, at::CHECKSUM, &[0; 4]);
        let count = usize::try_from(u32_at(block, at::ENTRIES_COUNT)).ok()?;
        if crc32c(&zeroed) != u32_at(block, at::CHECKSUM) || count > ENTRIES_MAX {
            return None;
        }
        let entries = (0..count).map(|index| {
            let start = entry::offset(index);
            Entry {
                data_sector: u64_at(block, start + entry::DATA_SECTOR),
                pp_bytes: u32_at(block, start + entry::PP_SIZE),
                data_bytes: u32_at(block, start + entry::DATA_SIZE),
                parity_member: u32_at(block, start + entry::PARITY_MEMBER),
                checksum: u32_at(block, start + entry::CHECKSUM),
            }
        });
        Some(Header {
            signature: u32_at(block, at::SIGNATURE),
            generation: u64_at(block, at::GENERATION),
            entries: entries.collect(),
            origin: Origin { mark: u32_at(block, at::MARK), start: u32_at(block, at::START) },
        })
    }

    /// Writes the header.
    ///
    /// # Panics
    /// When it has more entries than fit.
    pub fn encode(&self, block: &mut [u8; HEADER_BYTES]) {
        assert!(self.entries.len() <= ENTRIES_MAX, "{} entries", self.entries.len());
        block.fill(0);
        block[..at::SIGNATURE].fill(0xff);
        put(block, at::SIGNATURE, &self.signature.to_le_bytes());
        put(block, at::GENERATION, &self.generation.to_le_bytes());
        let count = u32::try_from(self.entries.len()).expect("at most 148 entries");
        put(block, at::ENTRIES_COUNT, &count.to_le_bytes());
        for (index, own) in self.entries.iter().enumerate() {
            let start = entry::offset(index);
            put(block, start + entry::DATA_SECTOR, &own.data_sector.to_le_bytes());
            put(block, start + entry::PP_SIZE, &own.pp_bytes.to_le_bytes());
            put(block, start + entry::DATA_SIZE, &own.data_bytes.to_le_bytes());
            put(block, start + entry::PARITY_MEMBER, &own.parity_member.to_le_bytes());
            put(block, start + entry::CHECKSUM, &own.checksum.to_le_bytes());
        }
        put(block, at::MARK, &self.origin.mark.to_le_bytes());
        put(block, at::START, &self.origin.start.to_le_bytes());
        let sum = crc32c(block);
        put(block, at::CHECKSUM, &sum.to_le_bytes());
    }

    /// Sectors of partial parity behind the header.
    #[must_use]
    pub fn parity_sectors(&self) -> u64 {
        self.entries.iter().map(|entry| u64::from(entry.pp_bytes).div_ceil(SECTOR_BYTES_U64)).sum()
    }
}

/// Header with the sector where it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Sector of the header on its member.
    pub sector: u64,
    /// Header.
    pub header: Header,
}

/// Sector of an area's spare header, the last place of the area, where md does not look. A batch that is written over the one before
/// and cut off may leave no header, or another one's blocks behind the old one: the spare header says what the old one did of rows in
/// doubt, after all rounds of that ended. It counts while nobody else wrote ([`Origin`]).
#[must_use]
pub fn spare_sector((start, sectors): (u64, u64)) -> u64 {
    start.saturating_add((sectors / HEADER_SECTORS).saturating_sub(1) * HEADER_SECTORS)
}

/// Headers of an area, from its start to the first one that is damaged, of another array, or older than the one before.
///
/// # Errors
/// When the device does not return a header.
pub fn walk<M: Media + ?Sized>(
    media: &M,
    (start, sectors): (u64, u64),
    array: Uuid,
) -> Result<Vec<Found>, ReadFailed> {
    let end = start.saturating_add(sectors).min(media.sectors());
    let mut found: Vec<Found> = Vec::new();
    let mut sector = start;
    while sector.checked_add(HEADER_SECTORS).is_some_and(|behind| behind < end) {
        let Some(header) = header_at(media, sector, array)? else { break };
        if found.last().is_some_and(|last| header.generation < last.header.generation) {
            break;
        }
        let next = (sector + HEADER_SECTORS).saturating_add(header.parity_sectors());
        found.push(Found { sector, header });
        sector = next;
    }
    Ok(found)
}

/// Spare header of an area; `None` without one.
///
/// # Errors
/// When the device does not return it.
pub fn spare<M: Media + ?Sized>(
    media: &M,
    (start, sectors): (u64, u64),
    array: Uuid,
) -> Result<Option<Found>, ReadFailed> {
    let sector = spare_sector((start, sectors));
    let end = start.saturating_add(sectors).min(media.sectors());
    if sector <= start || sector.checked_add(HEADER_SECTORS).is_none_or(|behind| behind > end) {
        return Ok(None);
    }
    Ok(header_at(media, sector, array)?.map(|header| Found { sector, header }))
}

/// Header at a sector, when there is one of the array.
fn header_at<M: Media + ?Sized>(media: &M, sector: u64, array: Uuid) -> Result<Option<Header>, ReadFailed> {
    let mut block = [0; HEADER_BYTES];
    media.read(sector, &mut block)?;
    Ok(Header::decode(&block).filter(|header| header.signature == signature(array)))
}

/// Largest generation of any header that lies at a place of an area where one may begin, reached by a walk or not: the next header
/// has to be newer, or a later walk would go on to an older one. Blocks that cannot be read are passed over. Zero without one.
#[must_use]
pub fn highest_generation<M: Media + ?Sized>(media: &M, (start, sectors): (u64, u64), array: Uuid) -> u64 {
    let signature = signature(array);
    let mut block = [0; HEADER_BYTES];
    let mut highest = 0;
    for index in 0..sectors / HEADER_SECTORS {
        let sector = start.saturating_add(index * HEADER_SECTORS);
        if media.read(sector, &mut block).is_err() || u32_at(&block, at::SIGNATURE) != signature {
            continue;
        }
        highest = Header::decode(&block).map_or(highest, |header| highest.max(header.generation));
    }
    highest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::md::superblock::{MAGIC, SUPERBLOCK_BYTES, time};

    fn header(generation: u64, pp_bytes: u32) -> Header {
        let entry = Entry { data_sector: 24, pp_bytes, data_bytes: 8192, parity_member: 2, checksum: 7 };
        let signature = signature(Uuid([3; 16]));
        Header { signature, generation, entries: vec![entry], origin: Origin { mark: 3, start: 4 } }
    }

    fn area(headers: &[(usize, Header)]) -> Vec<u8> {
        let mut area = vec![0; 64 * 512];
        for (sector, header) in headers {
            let mut block = [0; HEADER_BYTES];
            header.encode(&mut block);
            put(&mut area, sector * 512, &block);
        }
        area
    }

    #[test]
    fn the_walk_goes_behind_partial_parity_and_stops_at_older_ones() {
        let media = area(&[(0, header(5, 4096)), (16, header(6, 0)), (24, header(4, 0))]);
        let found = walk(&media[..], (0, 64), Uuid([3; 16])).unwrap();
        assert_eq!(found.iter().map(|found| found.sector).collect::<Vec<_>>(), [0, 16]);
        assert_eq!(walk(&media[..], (0, 64), Uuid([4; 16])).unwrap(), []);
        assert_eq!(walk(&media[..], (0, 7), Uuid([3; 16])).unwrap(), []);
        assert_eq!(walk(&media[..], (u64::MAX, 8), Uuid([3; 16])).unwrap(), []);
    }

    #[test]
    fn the_spare_header_lies_at_the_end() {
        let media = area(&[(0, header(5, 4096)), (56, header(9, 0))]);
        assert_eq!(walk(&media[..], (0, 64), Uuid([3; 16])).unwrap().len(), 1);
        let spare = |area: (u64, u64), array: u8| super::spare(&media[..], area, Uuid([array; 16])).unwrap();
        assert_eq!(spare((0, 64), 3).unwrap(), Found { sector: 56, header: header(9, 0) });
        assert_eq!(
            [spare((0, 64), 4), spare((0, 56), 3), spare((0, 8), 3), spare((u64::MAX, 8), 3)],
            [None, None, None, None]
        );
    }

    #[test]
    fn a_spare_header_counts_until_somebody_else_writes() {
        let superblock = |events: u64, updated: u64| {
            let mut block = [0; SUPERBLOCK_BYTES];
            put(&mut block, 0, &MAGIC.to_le_bytes());
            put(&mut block, 4, &1_u32.to_le_bytes());
            let mut superblock = Superblock::decode(&block).unwrap().superblock;
            superblock.state.events = events;
            superblock.state.updated = updated;
            superblock
        };
        let of_md = superblock(7, 1_700_000_000);
        let origin = Origin::at_start(&of_md);
        assert_eq!(origin.mark, 8);
        assert!(origin.is_last(&of_md), "before the first record");
        let ours = superblock(9, time(1_700_000_009, origin.mark));
        assert!(origin.is_last(&ours) && Origin::at_start(&ours).mark == origin.mark, "another start");
        assert!(!origin.is_last(&superblock(8, 1_700_000_009)), "md wrote");
        assert_eq!(Origin::at_start(&superblock(999_998, 5)).mark, 999_999);
        assert_eq!(Origin::at_start(&superblock(999_999, 5)).mark, 1);
    }

    #[test]
    fn headers_that_no_walk_reaches_count_for_the_highest_generation() {
        let media = area(&[(0, header(5, 4096)), (16, header(3, 0)), (40, header(9, 0))]);
        assert_eq!(walk(&media[..], (0, 64), Uuid([3; 16])).unwrap().len(), 1);
        assert_eq!(highest_generation(&media[..], (0, 64), Uuid([3; 16])), 9);
        assert_eq!(highest_generation(&media[..], (0, 40), Uuid([3; 16])), 5);
        assert_eq!(highest_generation(&media[..], (0, 64), Uuid([4; 16])), 0);
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_noticed() {
        let mut block = [0; HEADER_BYTES];
        header(5, 4096).encode(&mut block);
        assert_eq!(Header::decode(&block).unwrap(), header(5, 4096));
        for bit in 0..HEADER_BYTES * 8 {
            block[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::decode(&block), None, "bit {bit}");
            block[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
