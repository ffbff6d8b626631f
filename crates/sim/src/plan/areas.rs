//! Random write areas of a plan's drives, and what becomes of them when the power fails.

use super::{Plan, pick};
use array::log::lifetime::Lifetimes;
use array::log::policy::slots::SlotUse;
use array::log::policy::tuned::Tuned;
use base::random::Random;
use drive::emulated::AreaFate;
use serde::{Deserialize, Serialize};
use zone::device::{Areas, Geometry};

/// Seeds from here on draw random write areas, and of the baselines the one after ZRAID; those below draw what they always did.
pub const AREA_SEEDS: u64 = 1 << 40;

/// Of those, seeds from here on draw BIZA's policy, too.
const BIZA_SEEDS: u64 = AREA_SEEDS + (1 << 34);

/// Random write areas of drives. The array writes clients' segments in them where it can.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveAreas {
    /// Zones that may have one; none: drives have no areas, and the array asks for them in vain.
    pub zones: u32,
    /// W.
    pub window_blocks: u32,
    /// F.
    pub granule_blocks: u32,
    /// Drives do not commit when told to.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_implicit: bool,
    /// Member whose windows are twice as large; it has none where zones are too small for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unlike: Option<usize>,
    /// Zones of each drive that the write area gets, where the volume leaves room for them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub write_area: u32,
    /// How it is told which blocks are worth a slot of it.
    #[serde(default, skip_serializing_if = "Forecasts::are_off")]
    pub lifetimes: Forecasts,
    /// Blocks that are worth a slot get one however many writes are under way.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_any_depth: bool,
    /// Slots are used only where they cost no time: while few blocks were under way in so many writes of late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_writes: Option<u32>,
    /// The area gets fewer zones where there is no room for as many, and none where no segment is to spare for each.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_be_smaller: bool,
    /// What drives do when the power fails, in turn.
    pub fates: Vec<Fate>,
}

/// What becomes of a zone with an area when the power fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// Closed, with its area.
    Kept,
    /// Empty if its write pointer never moved, else closed with its area.
    KeptOnceMoved,
    /// Closed without its area; what was written is committed.
    Committed,
    /// Full.
    Full,
}

/// How it is told which blocks are worth a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Forecasts {
    /// Not at all.
    #[default]
    Off,
    /// By levels.
    Levels,
    /// By queues.
    Queues,
}

impl Forecasts {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
    fn are_off(&self) -> bool {
        *self == Forecasts::Off
    }

    fn of_engine(self) -> Lifetimes {
        match self {
            Forecasts::Off => Lifetimes::Off,
            Forecasts::Levels => Lifetimes::Levels,
            Forecasts::Queues => Lifetimes::Queues,
        }
    }
}

impl Fate {
    fn of_drive(self) -> AreaFate {
        match self {
            Fate::Kept => AreaFate::Kept,
            Fate::KeptOnceMoved => AreaFate::KeptOnceMoved,
            Fate::Committed => AreaFate::Committed,
            Fate::Full => AreaFate::Full,
        }
    }
}

impl DriveAreas {
    /// True when there can be drives like this.
    pub(super) fn are_possible(&self, zone_capacity_blocks: u32, active_zones_max: u32) -> bool {
        let is_whole = |blocks: u32| self.granule_blocks > 0 && blocks.is_multiple_of(self.granule_blocks);
        let fits = self.window_blocks > 0 && self.window_blocks <= zone_capacity_blocks / 2;
        let has_few = self.zones <= active_zones_max && !self.fates.is_empty();
        fits && has_few && is_whole(self.window_blocks) && is_whole(zone_capacity_blocks)
    }

    /// With a write area in most plans. Drawn from a stream of its own, so that the others stay as they are.
    fn or_write_area(self, seed: u64) -> DriveAreas {
        let random = &mut Random::from_seed(seed ^ 0x736c_6f74);
        let write_area = if random.chance(2, 3) { pick(random, &[1, 1, 1, 2, 2, 3]) } else { 0 };
        let lifetimes = match write_area {
            0 => Forecasts::Off,
            _ => pick(random, &[Forecasts::Off, Forecasts::Levels, Forecasts::Queues]),
        };
        let at_any_depth = lifetimes != Forecasts::Off && random.chance(1, 2);
        DriveAreas { write_area, lifetimes, at_any_depth, ..self }.or_idle(seed)
    }

    /// With slots that are used as `--write-area auto` uses them. Drawn from a stream of its own as well; what is under way is forgotten
    /// sooner than in service in most, for runs are short.
    fn or_idle(self, seed: u64) -> DriveAreas {
        let random = &mut Random::from_seed(seed ^ 0x6964_6c65);
        let is_idle = self.write_area > 0 && !self.at_any_depth && random.chance(1, 3);
        let idle_writes = is_idle.then(|| pick(random, &[4, 16, Tuned::default().demand_writes]));
        DriveAreas { idle_writes, may_be_smaller: is_idle && random.chance(1, 2), ..self }
    }

    /// Areas for the baseline after ZRAID: it writes windows itself.
    pub(super) fn of_zraid(
        zones: u32,
        window_blocks: u32,
        granule_blocks: u32,
        fates: Vec<Fate>,
    ) -> DriveAreas {
        DriveAreas {
            zones,
            window_blocks,
            granule_blocks,
            only_implicit: false,
            unlike: None,
            write_area: 0,
            lifetimes: Forecasts::Off,
            at_any_depth: false,
            idle_writes: None,
            may_be_smaller: false,
            fates,
        }
    }

    fn areas(&self) -> Option<Areas> {
        let areas = Areas {
            zones_max: self.zones,
            window_blocks: self.window_blocks,
            granule_blocks: self.granule_blocks,
            explicit_commit: !self.only_implicit,
        };
        (self.zones > 0).then_some(areas)
    }
}

fn is_zero(zones: &u32) -> bool {
    *zones == 0
}

impl Plan {
    /// The plan, or one with random write areas: small windows in small zones, so that they meet the ends of zones.
    pub(super) fn or_areas(self) -> Plan {
        if self.seed < AREA_SEEDS {
            return self;
        }
        let random = &mut Random::from_seed(self.seed ^ 0x6172_6561);
        let granule_blocks: u32 = pick(random, &[1, 1, 2, 4, 8]);
        let granules: u32 = pick(random, &[1, 2, 3, 4, 8, 16]);
        let zones = pick(random, &[1, 1, 2, self.open_zones, self.open_zones, self.open_zones]);
        let all = [Fate::Kept, Fate::KeptOnceMoved, Fate::Committed, Fate::Full];
        let alike = vec![pick(random, &all)];
        let mixed: Vec<Fate> = (0..self.members).map(|_| pick(random, &all)).collect();
        let zone_capacity_blocks = self.zone_capacity_blocks.next_multiple_of(granule_blocks);
        let window_max = zone_capacity_blocks / 2 / granule_blocks * granule_blocks;
        let window_blocks = (granules * granule_blocks).clamp(2, 64).next_multiple_of(granule_blocks);
        let areas = DriveAreas {
            zones: if random.chance(1, 30) { 0 } else { zones },
            window_blocks: window_blocks.min(window_max),
            granule_blocks,
            only_implicit: random.chance(1, 30),
            unlike: random.chance(1, 20).then(|| random.index(self.members)),
            write_area: 0,
            lifetimes: Forecasts::Off,
            at_any_depth: false,
            idle_writes: None,
            may_be_smaller: false,
            fates: if random.chance(1, 2) { alike } else { mixed },
        };
        let areas = areas.or_write_area(self.seed);
        // Beside volatile caches, windows are not used.
        let volatile_cache = self.volatile_cache && random.chance(1, 6);
        let plan = Plan { areas: Some(areas), zone_capacity_blocks, volatile_cache, ..self.clone() };
        if plan.config().is_some() { plan } else { self }
    }

    /// The plan, or one whose engine goes by lifetimes of blocks.
    pub(super) fn or_biza(self) -> Plan {
        let random = &mut Random::from_seed(self.seed ^ 0x6269_7a61);
        if self.seed < BIZA_SEEDS || !random.chance(1, 4) {
            return self;
        }
        Plan { biza: true, adaptive: false, ..self }
    }

    /// All drives have the same areas.
    pub(super) fn areas_are_alike(&self) -> bool {
        self.areas.as_ref().is_some_and(|areas| areas.unlike.is_none())
    }

    /// Areas of a member's drive.
    pub(crate) fn areas_of(&self, member: usize) -> Option<Areas> {
        let drives = self.areas.as_ref()?;
        let areas = drives.areas()?;
        if drives.unlike != Some(member) {
            return Some(areas);
        }
        let window_blocks = areas.window_blocks * 2;
        Some(Areas { window_blocks, ..areas }).filter(|_| window_blocks <= self.zone_capacity_blocks / 2)
    }

    /// What a member's drive does with areas when the power fails.
    pub(crate) fn area_fate(&self, member: usize) -> AreaFate {
        let fates = self.areas.as_ref().map(|areas| areas.fates.as_slice()).unwrap_or_default();
        let fate = fates.get(member % fates.len().max(1)).copied();
        fate.unwrap_or(Fate::Kept).of_drive()
    }

    /// A member's drive does not keep all of its windows when the power fails.
    pub(crate) fn gives_windows_up(&self, member: usize) -> bool {
        self.area_fate(member) != AreaFate::Kept
    }

    /// How it is told which blocks are worth a slot.
    pub(super) fn lifetimes(&self) -> Lifetimes {
        self.areas.as_ref().map_or(Lifetimes::Off, |areas| areas.lifetimes.of_engine())
    }

    /// What slots are for.
    pub(super) fn slot_use(&self) -> SlotUse {
        match &self.areas {
            Some(areas) if areas.at_any_depth => SlotUse::AnyDepth,
            Some(areas) if areas.idle_writes.is_some() => SlotUse::Idle,
            _ => SlotUse::Wear,
        }
    }

    /// Constants of what is decided in service.
    pub(super) fn tuned(&self) -> Tuned {
        let tuned = Tuned::default();
        let demand_writes = self.areas.as_ref().and_then(|areas| areas.idle_writes);
        Tuned { demand_writes: demand_writes.unwrap_or(tuned.demand_writes), ..tuned }
    }

    /// Geometry of a member's drive: areas are those of the plan, where it draws any.
    pub(crate) fn geometry_of(&self, geometry: Geometry, member: usize) -> Geometry {
        match &self.areas {
            None => geometry,
            Some(_) => Geometry { areas: self.areas_of(member), ..geometry },
        }
    }
}
