//! Identify data and zone reports of an NVMe drive: whatever a drive says, a geometry that is accepted can be used, and a report that is
//! accepted is about zones that there are.
#![no_main]

use drive::emulated::check_geometry;
use drive::nvme::health::Health;
use drive::nvme::identify::{Controller, Identity, Namespace, Page, Zoned, append_blocks_max};
use drive::nvme::quirk::Quirks;
use drive::nvme::report;
use fuzz::{seed, trimmed};
use libfuzzer_sys::fuzz_target;
use zone::device::{ZoneDescriptor, ZoneState};

const ZONES: u32 = 5;
const ZONE_SIZE_BLOCKS: u32 = 16_384;

fn zones() -> Vec<ZoneDescriptor> {
    let states = [
        (ZoneState::Empty, 0),
        (ZoneState::ImplicitOpen, 7),
        (ZoneState::Closed, 12_288),
        (ZoneState::Full, u32::MAX),
        (ZoneState::Offline, u32::MAX),
    ];
    let zone =
        |(state, write_pointer)| ZoneDescriptor { state, write_pointer, capacity: 12_288, has_area: false };
    states.map(zone).to_vec()
}

fn seeds() {
    let mut namespace = vec![0; 4096];
    namespace[..8].copy_from_slice(&262_144_u64.to_le_bytes());
    namespace[25..27].copy_from_slice(&[7, 7]);
    namespace[156..160].copy_from_slice(&[64, 0, 12, 0]);
    namespace[2816 + 16 * 7..2816 + 16 * 7 + 4].copy_from_slice(&ZONE_SIZE_BLOCKS.to_le_bytes());
    seed("nvme_identify", &[report::encode(0, &zones(), ZONE_SIZE_BLOCKS), trimmed(&namespace)]);
}

/// The same bytes as each of the pages.
fn identity(page: &Page) -> Identity {
    let namespace = Namespace::parse(page);
    Identity {
        controller: Controller::parse(page),
        number: 1,
        zoned: Zoned::parse(page, namespace.format),
        namespace,
        append_blocks_max: append_blocks_max(page),
    }
}

fuzz_target!(init: seeds(), |data: &[u8]| {
    let mut page: Page = [0; 4096];
    let count = data.len().min(page.len());
    page[..count].copy_from_slice(&data[..count]);
    let found = identity(&page);
    let quirks = Quirks::of(&found.controller);
    assert!(!found.name(quirks).is_empty());
    if let Ok(geometry) = found.geometry(1, quirks) {
        assert!((1..=127).contains(&geometry.transfer_blocks_max));
        assert!((1..=geometry.transfer_blocks_max).contains(&geometry.append_blocks_max));
        assert!(geometry.open_zones_max <= geometry.active_zones_max && geometry.active_zones_max <= geometry.zones.max(1));
        if check_geometry(&geometry).is_ok() {
            assert!(report::zones_max(&geometry) >= 63);
        }
    }
    let health = Health::parse(page.first_chunk().expect("a page is longer than a log"));
    assert!(health.temperature_celsius.is_none_or(|degrees| degrees > -273));
    if let Ok(Some((zone, found))) = report::parse_first(data, 2, ZONE_SIZE_BLOCKS) {
        assert!(zone >= 2);
        let again = report::encode(zone, &[found], ZONE_SIZE_BLOCKS);
        assert_eq!(report::parse_first(&again, 2, ZONE_SIZE_BLOCKS), Ok(Some((zone, found))));
    }
    if let Ok(found) = report::parse(data, (0, ZONES), ZONE_SIZE_BLOCKS) {
        assert_eq!(found.len(), ZONES as usize);
        let again = report::encode(0, &found, ZONE_SIZE_BLOCKS);
        assert_eq!(report::parse(&again, (0, ZONES), ZONE_SIZE_BLOCKS), Ok(found));
    }
});
