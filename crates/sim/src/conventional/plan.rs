//! Plan of a run: drive and disk.

use base::random::Random;
use drive::conventional::layout::{Layout, UNIT_PLACES, journal_records_min};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Seed of everything that is drawn while it runs.
    pub seed: u64,
    /// Zones.
    pub zones: u32,
    /// Units of a zone.
    pub zone_units: u32,
    /// Most active zones.
    pub active_zones_max: u32,
    /// Records of the journal beyond the fewest.
    pub journal_spare: u32,
    /// The disk has a volatile cache.
    pub is_volatile: bool,
    /// Longest time of most commands, in nanoseconds.
    pub latency: u64,
    /// Units whose identities are kept in memory.
    pub cached_units: usize,
    /// Zones are discarded when they were reset.
    pub discards: bool,
    /// The disk is waited for when it is away.
    pub is_patient: bool,
    /// The disk's cache loses most blocks whole, instead of sectors.
    pub loses_blocks: bool,
}

impl Plan {
    /// Plan of a seed.
    #[must_use]
    pub fn draw(seed: u64) -> Plan {
        let mut random = Random::from_seed(seed ^ 0x00c0_4e17);
        let mut draw =
            |from: u32, to: u32| from + u32::try_from(random.below(u64::from(to - from + 1))).expect("small");
        let active_zones_max = draw(1, 4);
        Plan {
            seed,
            zones: active_zones_max + draw(1, 6),
            zone_units: draw(1, 4),
            active_zones_max,
            journal_spare: draw(0, 30),
            is_volatile: draw(0, 2) > 0,
            latency: 20_000 << draw(0, 4),
            cached_units: usize::try_from(draw(0, 16)).expect("small"),
            discards: draw(0, 3) > 0,
            is_patient: Random::from_seed(seed ^ 0x0a3a_7b4c).chance(1, 3),
            loses_blocks: Random::from_seed(seed ^ 0x0b10_c105).chance(1, 3),
        }
    }

    /// What every plan, drawn or written by hand, holds.
    pub(super) fn check(&self) {
        let Plan { zones, active_zones_max: active, zone_units, latency, .. } = *self;
        assert!(active > 0 && active <= zones, "{active} zones of {zones} may be active");
        assert!(zone_units > 0, "zones without units");
        assert!(latency > 0, "commands take no time");
    }

    /// Layout of the drive.
    #[must_use]
    pub fn layout(&self) -> Layout {
        let layout = Layout {
            blocks: 0,
            zones: self.zones,
            zone_units: self.zone_units,
            active_zones_max: self.active_zones_max,
            journal_records: journal_records_min(self.active_zones_max) + self.journal_spare,
        };
        Layout { blocks: layout.blocks_needed() + u64::from(UNIT_PLACES), ..layout }
    }
}
