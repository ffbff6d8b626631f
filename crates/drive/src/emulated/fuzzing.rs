//! The parsers of a drive's file without a file, for `fuzz/`; compiled nowhere else.

#![allow(missing_docs, reason = "nobody but fuzz/ sees it")]

use super::entry::{pack, unpack};
use super::header::{FileLayout, Header, PAGE_BYTES};
use base::units::ZoneIndex;
use zone::device::Geometry;
use zone::rules::Zone;

/// Geometry and identity in a header page. The layout of the file is computed as when a drive is opened.
pub fn header(page: &[u8; PAGE_BYTES]) -> Option<(Geometry, [u8; 16])> {
    let header = Header::decode(page).ok()?;
    let layout = FileLayout::new(&header.geometry);
    let last = layout.block_at(ZoneIndex(header.geometry.zones - 1), header.geometry.zone_capacity_blocks);
    assert!(last == layout.seconds_at());
    assert!(layout.seconds_at() <= layout.file_bytes());
    Some((header.geometry, header.uuid))
}

pub fn header_of(geometry: Geometry, uuid: [u8; 16]) -> [u8; PAGE_BYTES] {
    Header { geometry, uuid }.encode()
}

pub fn zone_of(index: u32, word: u64, capacity_blocks: u32) -> Option<Zone> {
    unpack(ZoneIndex(index), word, capacity_blocks).ok()
}

pub fn word_of(index: u32, zone: Zone) -> u64 {
    pack(ZoneIndex(index), zone)
}
