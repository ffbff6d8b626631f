//! Plan of a run: the device under the drive.

use base::random::Random;
use drive::inband::layout::{JOURNAL_ZONES, Layout};
use drive::inband::layout_elsewhere;
use drive::inband::table::COPIES;
use drive::units::live_records;
use zone::device::Geometry;

/// Blocks of a command that devices take.
const TRANSFER: u32 = 128;
/// Records of a journal zone beyond what zones in use need.
const SPARE_RECORDS: u32 = 256;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Seed of everything that is drawn while it runs.
    pub seed: u64,
    /// Zones of the host.
    pub zones: u32,
    /// Places of a zone beyond the fewest.
    pub places_spare: u32,
    /// Most active zones of the host.
    pub active_zones_max: u32,
    /// Most zones of the device that are open beside those of the journal.
    pub open_zones_max: u32,
    /// The device has a volatile cache.
    pub is_volatile: bool,
    /// Longest time of most commands, in nanoseconds.
    pub latency: u64,
    /// Units whose identities are kept in memory.
    pub cached_units: usize,
    /// The device leaves what zones held before they were reset.
    pub leaves_stale: bool,
    /// The journal lies on a disk of its own.
    pub apart: Option<Apart>,
}

/// A journal on a disk of its own, which has no zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Apart {
    /// Places of a journal zone beyond the fewest, where the device's zones have as many.
    pub places_spare: u32,
    /// The disk has a volatile cache, which loses any sectors.
    pub is_volatile: bool,
    /// It loses most blocks whole, instead.
    pub loses_blocks: bool,
}

impl Apart {
    /// Of every fourth seed, from a source of its own: runs of the others stay as they were.
    fn draw(seed: u64) -> Option<Apart> {
        let mut random = Random::from_seed(seed ^ 0xa9a2_7d15);
        let is_apart = random.chance(1, 4);
        let places_spare = u32::try_from(random.below(71)).expect("small");
        let is_volatile = random.below(4) > 0;
        let loses_blocks = Random::from_seed(seed ^ 0x0b10_c105).chance(1, 3);
        is_apart.then_some(Apart { places_spare, is_volatile, loses_blocks })
    }
}

impl Plan {
    /// Plan of a seed.
    #[must_use]
    pub fn draw(seed: u64) -> Plan {
        let mut random = Random::from_seed(seed ^ 0x1b_a4d0);
        let mut draw =
            |from: u32, to: u32| from + u32::try_from(random.below(u64::from(to - from + 1))).expect("small");
        let active_zones_max = draw(1, 3);
        Plan {
            seed,
            zones: active_zones_max + draw(1, 3),
            places_spare: draw(0, 70),
            active_zones_max,
            open_zones_max: draw(1, active_zones_max),
            is_volatile: draw(0, 2) > 0,
            latency: 20_000 << draw(0, 4),
            cached_units: usize::try_from(draw(0, 16)).expect("small"),
            leaves_stale: draw(0, 1) > 0,
            apart: Apart::draw(seed),
        }
    }

    fn places_needed(&self) -> u32 {
        16 * live_records(self.active_zones_max) + SPARE_RECORDS
    }

    /// Blocks of the disk that the journal lies on.
    #[must_use]
    pub fn journal_blocks(&self) -> Option<u64> {
        let zone = |apart: Apart| u64::from(self.places_needed() + apart.places_spare);
        self.apart.map(|apart| u64::from(COPIES) + u64::from(JOURNAL_ZONES) * zone(apart) + 1)
    }

    /// The device.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        let places = self.places_needed() + self.places_spare;
        Geometry {
            zones: self.zones + JOURNAL_ZONES,
            zone_size_blocks: places.next_power_of_two(),
            zone_capacity_blocks: places,
            open_zones_max: self.open_zones_max + JOURNAL_ZONES,
            active_zones_max: self.active_zones_max + JOURNAL_ZONES,
            append_blocks_max: 0,
            transfer_blocks_max: TRANSFER,
            volatile_cache: self.is_volatile,
            areas: None,
        }
    }

    /// What every plan, drawn or written by hand, holds.
    pub(super) fn check(&self) {
        let Plan { zones, active_zones_max: active, open_zones_max: open, latency, .. } = *self;
        assert!(active > 0 && active <= zones, "{active} zones of {zones} may be active");
        assert!(open > 0 && open <= active, "{open} zones of {active} active ones may be open");
        assert!(latency > 0, "commands take no time");
    }

    /// Layout of the drive.
    ///
    /// # Panics
    /// When the device is too small for one.
    #[must_use]
    pub fn layout(&self) -> Layout {
        let layout = match self.journal_blocks() {
            Some(blocks) => layout_elsewhere(&self.geometry(), blocks),
            None => Layout::of(&self.geometry(), None),
        };
        let layout = layout.expect("a device that is large enough");
        assert_eq!(layout.active_zones_max, self.active_zones_max);
        layout
    }
}
