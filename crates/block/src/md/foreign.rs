//! Superblocks of other formats: recognised, so that they are refused by their name.

use super::{Media, SECTOR_BYTES};
use base::bytes::{u32_at, u64_at};
use std::fmt;

/// Format that is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// Superblock 0.90 of md, with its minor version.
    Old {
        /// Minor version: 90, or 91 during a reshape.
        minor: u32,
    },
    /// Intel Matrix Storage (IMSM).
    Imsm,
    /// Disk Data Format of SNIA (DDF).
    Ddf,
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Foreign::Old { minor } => write!(
                f,
                "old metadata: a superblock of version 0.{minor}; `mdadm --assemble --update=metadata` makes it 1.0"
            ),
            Foreign::Imsm => {
                f.write_str("a container of Intel Matrix Storage (IMSM): its arrays are served by md only")
            }
            Foreign::Ddf => f.write_str("a container of DDF: its arrays are served by md only"),
        }
    }
}

const IMSM: &[u8] = b"Intel Raid ISM Cfg Sig. ";
const DDF: [u8; 4] = [0xde, 0x11, 0xde, 0x11];

/// Other format that lies on a device; `None` where none is seen, or where the device does not return its places.
#[must_use]
pub fn look<M: Media + ?Sized>(media: &M) -> Option<Foreign> {
    let sectors = media.sectors();
    let sector_at = |from_end: u64| {
        let mut sector = [0; SECTOR_BYTES];
        media.read(sectors.checked_sub(from_end)?, &mut sector).ok().map(|()| sector)
    };
    let old = (sectors / 128).checked_sub(1).and_then(|index| {
        let mut sector = [0; SECTOR_BYTES];
        media.read(index * 128, &mut sector).ok()?;
        let words = [u32_at(&sector, 0), u32_at(&sector, 4), u32_at(&sector, 8)];
        // Hosts of either byte order write their own.
        [words, words.map(u32::swap_bytes)]
            .into_iter()
            .find(|words| words[..2] == [super::superblock::MAGIC, 0])
    });
    if let Some([_, _, minor]) = old {
        return Some(Foreign::Old { minor });
    }
    if sector_at(2).is_some_and(|sector| sector.starts_with(IMSM)) {
        return Some(Foreign::Imsm);
    }
    let anchor = sector_at(1)?;
    let is_ddf = anchor.starts_with(&DDF) && u64_at(&anchor, 8) != 0;
    is_ddf.then_some(Foreign::Ddf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_named() {
        let mut media = vec![0; 1 << 20];
        assert_eq!(look(&media[..]), None);
        let last = media.len() - SECTOR_BYTES;
        media[last..last + 4].copy_from_slice(&DDF);
        media[last + 8..last + 32].fill(b'x');
        assert_eq!(look(&media[..]), Some(Foreign::Ddf));
        let before = last - SECTOR_BYTES;
        media[before..before + IMSM.len()].copy_from_slice(IMSM);
        assert_eq!(look(&media[..]), Some(Foreign::Imsm));
        assert_eq!(look(&[][..]), None);
    }
}
