//! What a device holds already, by the marks that formats leave: whoever makes an array of it wants to know.

use super::member::Member;
use super::superblock::{MAGIC, Version};
use super::{Media, SECTOR_BYTES, SECTOR_BYTES_U64, foreign};

/// Name of what our own drives are.
const ZONEWEAVE: &str = "a drive of Zoneweave";
/// First bytes of the label of a device that is cut into zones, which lies in its first and its last block of 4 KiB.
const LABEL: &[u8] = b"ZWconv\x01\0";
const BLOCK_SECTORS: u64 = 8;

/// Marks: byte offset, bytes, and the name of what they mark.
const MARKS: &[(u64, &[u8], &str)] = &[
    (0, b"ZWEAVDRV", ZONEWEAVE),
    (0, LABEL, ZONEWEAVE),
    (0, b"ZWjrnl\x01\0", "an identity journal of Zoneweave"),
    (510, &[0x55, 0xaa], "a partition table or a boot sector"),
    (512, b"EFI PART", "a partition table (GPT)"),
    (4096, b"EFI PART", "a partition table (GPT, 4-KiB blocks)"),
    (1080, &[0x53, 0xef], "a file system (ext2, ext3 or ext4)"),
    (0, b"XFSB", "a file system (XFS)"),
    (0x1_0040, b"_BHRfS_M", "a file system (Btrfs)"),
    (1024, &[0x10, 0x20, 0xf5, 0xf2], "a file system (F2FS)"),
    (1024, &[0xe2, 0xe1, 0xf5, 0xe0], "a file system (EROFS)"),
    (0, b"hsqs", "a file system (squashfs)"),
    (3, b"NTFS    ", "a file system (NTFS)"),
    (3, b"EXFAT   ", "a file system (exFAT)"),
    (0x8001, b"CD001", "a file system (ISO 9660)"),
    (0x8000, b"JFS1", "a file system (JFS)"),
    (0x1_0034, b"ReIsEr", "a file system (ReiserFS)"),
    (4086, b"SWAPSPACE2", "swap space"),
    (4086, b"SWAP-SPACE", "swap space"),
    (0, b"LUKS\xba\xbe", "an encrypted volume (LUKS)"),
    (0, b"LABELONE", "a physical volume (LVM)"),
    (512, b"LABELONE", "a physical volume (LVM)"),
    (1024, b"LABELONE", "a physical volume (LVM)"),
    (1536, b"LABELONE", "a physical volume (LVM)"),
    // The first pair of the list in a label: the version of the pool.
    (0x4014, b"\0\0\0\x07version\0", "a pool of ZFS"),
];

/// Places of 4 KiB where a superblock 1.x begins by its magic number, whatever else it says.
#[must_use]
pub fn superblock_sectors<M: Media + ?Sized>(media: &M) -> Vec<u64> {
    let places = Version::ALL.into_iter().filter_map(|version| version.sector(media.sectors()));
    places.filter(|sector| holds(media, sector * SECTOR_BYTES_U64, &MAGIC.to_le_bytes())).collect()
}

/// Contents seen on a device, in words; empty where nothing is.
#[must_use]
pub fn seen<M: Media + ?Sized>(media: &M) -> Vec<String> {
    let mut seen = Vec::new();
    if let Ok(member) = Member::read("", media) {
        let superblock = member.superblock();
        let (name, uuid) = (superblock.name(), superblock.array.uuid);
        seen.push(format!("a superblock {} of the md array {uuid} ({name})", member.version));
    } else if !superblock_sectors(media).is_empty() {
        seen.push("a superblock of md that makes no sense".to_owned());
    }
    seen.extend(foreign::look(media).map(|foreign| foreign.to_string()));
    let marks = MARKS.iter().filter(|(offset, mark, _)| holds(media, *offset, mark));
    seen.extend(marks.map(|(_, _, name)| (*name).to_owned()));
    let last = (media.sectors() / BLOCK_SECTORS).saturating_sub(1) * BLOCK_SECTORS * SECTOR_BYTES_U64;
    if !seen.iter().any(|name| name == ZONEWEAVE) && holds(media, last, LABEL) {
        seen.push(ZONEWEAVE.to_owned());
    }
    seen
}

/// True when the bytes lie there; false also where the device does not return them.
fn holds<M: Media + ?Sized>(media: &M, offset: u64, mark: &[u8]) -> bool {
    let mut sector = [0; SECTOR_BYTES];
    let number = offset / SECTOR_BYTES_U64;
    let within = usize::try_from(offset % SECTOR_BYTES_U64).unwrap_or(SECTOR_BYTES);
    let end = within + mark.len();
    if end > SECTOR_BYTES || number >= media.sectors() || media.read(number, &mut sector).is_err() {
        return false;
    }
    sector[within..end] == *mark
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mark_is_seen_where_it_lies() {
        for (offset, mark, name) in MARKS {
            let mut media = vec![0; 1 << 20];
            assert!(seen(&media[..]).is_empty());
            let start = usize::try_from(*offset).expect("a small offset");
            media[start..start + mark.len()].copy_from_slice(mark);
            assert_eq!(seen(&media[..]), [(*name).to_owned()]);
        }
    }

    #[test]
    fn the_second_label_of_a_device_is_seen_alone() {
        let mut media = vec![0; (1 << 20) + 512];
        let last = (1 << 20) - 4096;
        media[last..last + LABEL.len()].copy_from_slice(LABEL);
        assert_eq!(seen(&media[..]), [ZONEWEAVE.to_owned()]);
        media[..LABEL.len()].copy_from_slice(LABEL);
        assert_eq!(seen(&media[..]), [ZONEWEAVE.to_owned()]);
    }

    #[test]
    fn a_torn_superblock_is_seen_at_each_place() {
        for version in Version::ALL {
            let mut media = vec![0; 1 << 20];
            let sector = version.sector(2048).expect("room");
            let start = usize::try_from(sector).expect("small") * SECTOR_BYTES;
            media[start..start + 4].copy_from_slice(&MAGIC.to_le_bytes());
            assert_eq!(superblock_sectors(&media[..]), [sector]);
            assert!(seen(&media[..])[0].contains("makes no sense"), "{version}");
        }
    }
}
