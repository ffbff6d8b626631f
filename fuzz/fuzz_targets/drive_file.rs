//! The header page and the zone table of an emulated drive's file: what is read is written as it was. The
//! input is zone words, then the page, as much of it as there is.
#![no_main]

use drive::emulated::fuzzing::{header, header_of, word_of, zone_of};
use fuzz::{block, seed};
use libfuzzer_sys::fuzz_target;
use zone::device::{Areas, Geometry, ZoneState};
use zone::rules::{Zone, ZoneTable};

const WORDS: usize = 4;
const TABLE_BYTES: usize = 8 * WORDS;
/// Offset of the page's checksum.
const CRC_AT: usize = 4092;
/// Offset from which on the page is zeros, for drives without random write areas and for those with.
const HEADER_BYTES: usize = 64;
const HEADER_BYTES_WITH_AREAS: usize = 80;

fn seeds() {
    let geometry = Geometry {
        zones: 4,
        zone_size_blocks: 64,
        zone_capacity_blocks: 48,
        open_zones_max: 2,
        active_zones_max: 3,
        append_blocks_max: 8,
        transfer_blocks_max: 16,
        volatile_cache: true,
        areas: None,
    };
    let states =
        [(ZoneState::Empty, 0), (ZoneState::Closed, 7), (ZoneState::Full, 48), (ZoneState::ReadOnly, 9)];
    let words = (0..).zip(states).flat_map(|(index, (state, write_pointer))| {
        word_of(index, Zone::new(state, write_pointer)).to_le_bytes()
    });
    let words: Vec<u8> = words.collect();
    let mut without = words.clone();
    without.extend(&header_of(geometry, *b"0123456789abcdef")[..HEADER_BYTES]);
    let areas = Areas { zones_max: 2, window_blocks: 8, granule_blocks: 2, explicit_commit: true };
    let geometry = Geometry { areas: Some(areas), ..geometry };
    let mut with = words;
    with.extend(&header_of(geometry, *b"0123456789abcdef")[..HEADER_BYTES_WITH_AREAS]);
    seed("drive_file", &[without, with]);
}

fuzz_target!(init: seeds(), |data: &[u8]| {
    let Some((table, page)) = data.split_first_chunk::<TABLE_BYTES>() else { return };
    let raw = block(page);
    let mut sealed = raw;
    // The checksum is the last field and covers all before it.
    let crc = base::checksum::crc32c(&sealed[..CRC_AT]);
    sealed[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    for page in [raw, sealed] {
        let Some((geometry, uuid)) = header(&page) else { continue };
        let again = header_of(geometry, uuid);
        let length = geometry.areas.map_or(HEADER_BYTES, |_| HEADER_BYTES_WITH_AREAS);
        assert!(again[..length] == page[..length], "the header is not written as it was read");
        assert_eq!(header(&again), Some((geometry, uuid)));
        let words = table.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")));
        let mut zones = Vec::new();
        for (index, word) in (0..).zip(words) {
            let Some(zone) = zone_of(index, word, geometry.zone_capacity_blocks) else { continue };
            assert_eq!(word_of(index, zone), word, "zone {index} is not written as it was read");
            assert!(zone_of(index ^ 1, word, u32::MAX).is_none(), "an entry in the wrong place is refused");
            zones.push(zone);
        }
        // Zones that are possible make a table, as long as they keep to the limits.
        let active = zones.iter().filter(|zone| zone.state.is_active()).count();
        if zones.len() == geometry.zones as usize && active <= geometry.active_zones_max as usize {
            ZoneTable::from_zones(geometry, zones).check_invariants();
        }
    }
});
