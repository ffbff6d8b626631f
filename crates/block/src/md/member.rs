//! Device of an array, as it lies there: superblock, and what the superblock points at.

use super::bad_blocks::{self, BadBlocks};
use super::bitmap::{self, Bits};
use super::foreign::{self, Foreign};
use super::ppl;
use super::superblock::{
    BadBlockPlace, NotASuperblock, Reading, SUPERBLOCK_BYTES, Superblock, Version, feature, seconds,
};
use super::{Media, ReadFailed, SECTOR_BYTES, SECTOR_BYTES_U64};
use std::fmt;

/// Reason why a device is no member of an array that is known here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotAMember {
    /// No superblock at any of the places.
    NoSuperblock,
    /// Superblock with the magic number that is nevertheless none.
    Wrong(Version, NotASuperblock),
    /// Other format.
    Foreign(Foreign),
    /// Device that does not return the places.
    Unreadable(ReadFailed),
}

impl fmt::Display for NotAMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotAMember::NoSuperblock => f.write_str("no md superblock detected"),
            NotAMember::Wrong(version, wrong) => {
                write!(f, "where superblocks {version} lie there is {wrong}")
            }
            NotAMember::Foreign(foreign) => write!(f, "{foreign}"),
            NotAMember::Unreadable(failed) => write!(f, "{failed}"),
        }
    }
}

impl std::error::Error for NotAMember {}

/// Bitmap of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bitmap {
    /// Head.
    pub head: bitmap::Head,
    /// Bits.
    pub bits: Bits,
}

/// Device of an array.
#[derive(Clone, Debug)]
pub struct Member {
    /// Name of the device, for messages.
    pub name: String,
    /// Sectors of the device.
    pub sectors: u64,
    /// Version of the superblock.
    pub version: Version,
    /// Superblock.
    pub reading: Reading,
    /// Bitmap, where the superblock says there is one; else why it cannot be used.
    pub bitmap: Option<Result<Bitmap, String>>,
    /// Entries of the bad-block log, where the superblock says that there are some; else why it cannot be used.
    pub bad_blocks: Result<Vec<BadBlocks>, String>,
    /// Headers of the partial parity log, where there is one; else why it cannot be read.
    pub ppl: Result<Vec<ppl::Found>, String>,
    /// Spare header of the partial parity log, where an engine of ours wrote one.
    pub ppl_spare: Option<ppl::Found>,
}

impl Member {
    /// Reads what lies on a device.
    ///
    /// # Errors
    /// When it holds no superblock 1.x.
    pub fn read<M: Media + ?Sized>(name: &str, media: &M) -> Result<Member, NotAMember> {
        let (version, reading) = find(media)?;
        let superblock = &reading.superblock;
        let (ppl, ppl_spare) = ppl_of(media, superblock)
            .map_or_else(|reason| (Err(reason), None), |(headers, spare)| (Ok(headers), spare));
        Ok(Member {
            name: name.to_owned(),
            sectors: media.sectors(),
            version,
            bitmap: bitmap_of(media, superblock),
            bad_blocks: bad_blocks_of(media, superblock),
            ppl,
            ppl_spare,
            reading,
        })
    }

    /// Superblock.
    #[must_use]
    pub fn superblock(&self) -> &Superblock {
        &self.reading.superblock
    }

    /// Events of the superblock.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.superblock().state.events
    }

    /// Header of the partial parity log that counts while the array is dirty, whose newest superblock is this one.
    #[must_use]
    pub fn newest_ppl(&self, newest: &Superblock) -> Option<&ppl::Found> {
        let last = self.ppl.as_ref().ok()?.last();
        let is_newest = |spare: &&ppl::Found| {
            let generation = last.map_or(0, |last| last.header.generation);
            spare.header.generation > generation && spare.header.origin.is_last(newest)
        };
        self.ppl_spare.as_ref().filter(is_newest).or(last)
    }
}

/// The superblock of a device: where several places hold one, the array that was made last counts.
fn find<M: Media + ?Sized>(media: &M) -> Result<(Version, Reading), NotAMember> {
    let mut best: Option<(Version, Reading)> = None;
    let mut wrong = None;
    let mut block = [0; SUPERBLOCK_BYTES];
    for version in Version::ALL.into_iter().rev() {
        let Some(sector) = version.sector(media.sectors()) else { continue };
        media.read(sector, &mut block).map_err(NotAMember::Unreadable)?;
        match Superblock::decode(&block) {
            Ok(reading) if reading.superblock.device.super_offset == sector => {
                let created = seconds(reading.superblock.array.created);
                let newest = best.as_ref().map(|(_, best)| seconds(best.superblock.array.created));
                if newest.is_none_or(|newest| created > newest) {
                    best = Some((version, reading));
                }
            }
            Ok(_) | Err(NotASuperblock::Magic(_)) => {}
            Err(error) => wrong = wrong.or(Some((version, error))),
        }
    }
    best.ok_or_else(|| match (foreign::look(media), wrong) {
        (Some(foreign), _) => NotAMember::Foreign(foreign),
        (None, Some((version, error))) => NotAMember::Wrong(version, error),
        (None, None) => NotAMember::NoSuperblock,
    })
}

fn bitmap_of<M: Media + ?Sized>(media: &M, superblock: &Superblock) -> Option<Result<Bitmap, String>> {
    if !superblock.has(feature::BITMAP) {
        return None;
    }
    let Some(sector) = superblock.bitmap_sector() else {
        return Some(Err(
            "the superblock names a bitmap without a place: one in an external file is not served".to_owned(),
        ));
    };
    Some(read_bitmap(media, sector))
}

fn read_bitmap<M: Media + ?Sized>(media: &M, sector: u64) -> Result<Bitmap, String> {
    let mut first = [0; SECTOR_BYTES];
    media.read(sector, &mut first).map_err(|failed| format!("the bitmap: {failed}"))?;
    let head: &[u8; bitmap::HEAD_BYTES] =
        first.first_chunk().expect("the head of a bitmap is shorter than a sector");
    let head = bitmap::Head::decode(head).map_err(|error| error.to_string())?;
    let room = media.sectors().saturating_sub(sector).saturating_mul(SECTOR_BYTES_U64);
    if head.bytes() > room.min(Bits::BYTES_MAX) {
        let (regions, bytes) = (head.regions(), head.bytes());
        return Err(format!("the bitmap has {regions} regions, whose {bytes} bytes lie beyond the device"));
    }
    let sectors =
        usize::try_from(head.bytes().div_ceil(SECTOR_BYTES_U64)).map_err(|error| error.to_string())?;
    let mut bytes = vec![0; sectors * SECTOR_BYTES];
    media.read(sector, &mut bytes).map_err(|failed| format!("the bitmap: {failed}"))?;
    let bits = Bits::of(head.regions(), bytes.split_off(bitmap::HEAD_BYTES));
    Ok(Bitmap { bits: bits.expect("as many bytes as the head says"), head })
}

fn bad_blocks_of<M: Media + ?Sized>(media: &M, superblock: &Superblock) -> Result<Vec<BadBlocks>, String> {
    if !superblock.has(feature::BAD_BLOCKS) {
        return Ok(Vec::new());
    }
    let BadBlockPlace { shift, sectors, .. } = superblock.device.bad_blocks;
    let Some((start, _)) = superblock.bad_block_place() else {
        return Err("the superblock names bad blocks without a place of their log".to_owned());
    };
    if sectors > bad_blocks::SECTORS_MAX {
        return Err(format!("the bad-block log has {sectors} sectors; 8 is the most"));
    }
    let mut log = vec![0; usize::from(sectors) * SECTOR_BYTES];
    media.read(start, &mut log).map_err(|failed| format!("the bad-block log: {failed}"))?;
    bad_blocks::decode(&log, shift).map_err(|error| error.to_string())
}

/// Headers of a partial parity log, and the spare one.
type Headers = (Vec<ppl::Found>, Option<ppl::Found>);

fn ppl_of<M: Media + ?Sized>(media: &M, superblock: &Superblock) -> Result<Headers, String> {
    let Some(place) = superblock.ppl_place() else { return Ok((Vec::new(), None)) };
    let array = superblock.array.uuid;
    let headers =
        ppl::walk(media, place, array).and_then(|found| Ok((found, ppl::spare(media, place, array)?)));
    headers.map_err(|failed| format!("the partial parity log: {failed}"))
}
