//! Plan of a run: the cache and its drives.

use super::shards::SHARDS_MAX;
use crate::drive::Manner;
use crate::plan::{Latency, Tearing};
use crate::step::Kind;
use ::cache::Options;
use ::cache::admission::Admission::{self, All, Auto, Second};
use ::cache::config::{Acknowledge, Invalidate};
use ::cache::policy::Eviction::{self, Fifo, Lru, S3Fifo, Sieve};
use ::cache::request::Namespace;
use ::cache::share::{Share, Shares};
use base::random::Random;
use drive::conventional::layout::{Layout, UNIT_BLOCKS, journal_records_min};
use zone::device::Geometry;

/// Conventional drives of a run: files that are cut into zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conventional {
    /// Units of a zone.
    pub zone_units: u32,
    /// Records of the journal beyond the fewest.
    pub journal_spare: u32,
    /// Units whose identities are kept in memory.
    pub cached_units: usize,
    /// Zones are discarded when they were reset.
    pub discards: bool,
}

impl Conventional {
    pub(super) fn options(&self) -> drive::conventional::Options {
        drive::conventional::Options { cached_units: self.cached_units, discards: self.discards }
    }
}

/// Longest value that clients store, in bytes.
pub(super) const VALUE_MAX: usize = 12_000;

/// Plan of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Seed of everything that is drawn while it runs.
    pub seed: u64,
    /// Drives.
    pub drives: usize,
    /// Zones that each shard has of each.
    pub zones: u32,
    /// Blocks of a zone.
    pub zone_blocks: u32,
    /// Most blocks of a transfer.
    pub transfer_blocks: u32,
    /// What was not flushed is lost when the power fails.
    pub is_volatile: bool,
    /// Time of most commands, in nanoseconds; one in fifty takes up to ten times as long.
    pub latency_ns: u64,
    /// Commands of this kind take so many times longer than others.
    pub slow: Option<(Kind, u64)>,
    /// Effect of a power failure on a transfer.
    pub tearing: Tearing,
    /// Commands of a recovery are answered in any order, and not at once.
    pub reorders: bool,
    /// Bits of a tag.
    pub tag_bits: u32,
    /// Bytes of an object on the mean: sizes the index.
    pub object_mean: u64,
    /// Most pages of a batch.
    pub batch_pages: u32,
    /// Memory of a shard, in KiB.
    pub memory_kib: u64,
    /// Most of it for copies of objects, in KiB.
    pub copies_kib: u64,
    /// Which zones go.
    pub eviction: Eviction,
    /// Most of a zone that is written anew when it goes, in hundredths.
    pub reinsert_percent: u32,
    /// Longest time to live of objects in each group, in milliseconds; zero is no group.
    pub ttl_groups: [u64; 3],
    /// Namespaces that have a part of the cache for themselves.
    pub shares: Shares,
    /// Active zones that a drive allows each shard.
    pub active_zones: u32,
    /// Zones of a drive for each open one that young objects have beside the first.
    pub zones_for_more: u32,
    /// What goes to flash.
    pub admission: Admission,
    /// Bytes a day that `auto` admits.
    pub endurance: u64,
    /// Requests under way at most.
    pub depth: usize,
    /// When a store is answered.
    pub acknowledge: Acknowledge,
    /// Longest time without a server, in nanoseconds: after more of it the cache begins empty.
    pub forget_after: Option<u64>,
    /// Where what hides older versions has to be before a client is answered.
    pub invalidate: Invalidate,
    /// Entries for which there is memory that outlives the process.
    pub shared_places: usize,
    /// Shards, each with zones and memory of its own.
    pub shards: usize,
    /// Longest time that a request or a reply is on its way between the loops of two shards, in nanoseconds.
    pub letter_ns: u64,
    /// Drives are conventional ones.
    pub conventional: Option<Conventional>,
}

/// Bytes of an object on the mean; with the most of them, the index is full with a dozen objects.
pub(super) fn draw_object_mean(random: &mut Random) -> u64 {
    64 << random.below(12)
}

impl Plan {
    /// Plan of a seed.
    #[must_use]
    pub fn draw(seed: u64) -> Plan {
        let mut random = Random::from_seed(seed ^ 0x0cac_4e00);
        let narrow = |value: u64| u32::try_from(value).expect("a small number");
        let plan = Plan {
            seed,
            drives: [1, 2, 2, 3, 3, 4][random.index(6)],
            zones: narrow(9 + random.below(6)),
            zone_blocks: narrow(14 + random.below(20)),
            transfer_blocks: narrow(1 + random.below(9)),
            is_volatile: random.chance(1, 2),
            latency_ns: 10_000 << random.below(8),
            slow: None,
            tearing: if random.chance(1, 4) { Tearing::Holes } else { Tearing::Prefix },
            reorders: random.chance(2, 3),
            tag_bits: if random.chance(3, 5) { 3 } else { 12 },
            object_mean: draw_object_mean(&mut random),
            batch_pages: narrow(1 + random.below(8)),
            memory_kib: [192, 512, 512][random.index(3)],
            depth: 1 + random.index(40),
            copies_kib: [0, 0, 1, 8, 40, 512][random.index(6)],
            eviction: [S3Fifo, S3Fifo, S3Fifo, Sieve, Lru, Fifo][random.index(6)],
            reinsert_percent: [0, 25, 60, 100][random.index(4)],
            admission: [All, All, All, All, All, Second, Auto, Auto][random.index(8)],
            // Little enough for a run of a second: of a day's, an hour's is kept.
            endurance: 1 << (18 + random.below(10)),
            ttl_groups: [0; 3],
            shares: Shares::default(),
            active_zones: 6,
            zones_for_more: 128,
            acknowledge: Acknowledge::Memory,
            forget_after: None,
            invalidate: Invalidate::Media,
            shared_places: 0,
            shards: 1,
            letter_ns: 0,
            conventional: None,
        };
        plan.with_groups()
            .with_shares()
            .with_acknowledgement()
            .with_absences()
            .with_memory()
            .with_shards()
            .with_slow()
            .with_more()
            .with_conventional()
    }

    /// Half of the plans have groups of objects that expire together, and zones for none to all of them. Drawn from a stream of its own.
    fn with_groups(self) -> Plan {
        let mut random = Random::from_seed(self.seed ^ 0x0cac_4e66);
        if random.chance(1, 2) {
            return self;
        }
        let mut narrow = |limit: u64| u32::try_from(random.below(limit)).expect("a small number");
        let (active_zones, zones) = (5 + narrow(6), self.zones + narrow(14));
        let ttl_groups = [1 + random.below(8), 8 + random.below(8), 16 + random.below(30)];
        Plan { ttl_groups, active_zones, zones, ..self }
    }

    /// A third of the plans have shares for one or both of the namespaces that clients use, on drives that have the zones for them, or not quite.
    /// Drawn from a stream of its own.
    fn with_shares(self) -> Plan {
        let mut random = Random::from_seed(self.seed ^ 0x0cac_4e77);
        if random.chance(2, 3) {
            return self;
        }
        let mut narrow = |limit: u64| u32::try_from(random.below(limit)).expect("a small number");
        let mut share = |namespace, memory: [u32; 3]| Share {
            namespace: Namespace(namespace),
            flash_percent: 5 + narrow(40),
            memory_percent: memory[narrow(3) as usize],
            eviction: [S3Fifo, S3Fifo, Sieve, Lru, Fifo][narrow(5) as usize],
            ttl_max: None,
        };
        let all = [share(1, [0, 45, 80]), share(0, [0, 5, 10])];
        let count = 1 + narrow(2) as usize;
        let shares = Shares::new(&all[..count]).expect("at most 90 %");
        let (active_zones, zones) = (self.active_zones + narrow(4), self.zones + 4 + narrow(20));
        Plan { shares, active_zones, zones, ..self }
    }

    /// In a fifth of the plans whose objects all go to flash a store is answered when its object is there. Drawn from a stream of its own.
    fn with_acknowledgement(self) -> Plan {
        let is_drawn = Random::from_seed(self.seed ^ 0x0cac_4e88).chance(1, 5);
        match is_drawn && self.admission == All {
            true => Plan { acknowledge: Acknowledge::Media, ..self },
            false => self,
        }
    }

    /// A fifth of the plans forget after an absence. Drawn from a stream of its own.
    fn with_absences(self) -> Plan {
        let mut random = Random::from_seed(self.seed ^ 0x0cac_4eab);
        match random.chance(1, 5) {
            true => Plan { forget_after: Some(1 << (20 + random.below(8))), ..self },
            false => self,
        }
    }

    /// A fifth of the plans have their entries in memory first, with room for few or many of them. Drawn from a stream of its own.
    fn with_memory(self) -> Plan {
        let mut random = Random::from_seed(self.seed ^ 0x0cac_4e5d);
        match random.chance(1, 5) {
            true => {
                let most = 3 << random.below(7);
                let shared_places = 2 + random.index(most);
                Plan { invalidate: Invalidate::Process, shared_places, ..self }
            }
            false => self,
        }
    }

    /// A sixth of the plans have several shards. Drawn from a stream of its own.
    fn with_shards(self) -> Plan {
        let mut random = Random::from_seed(self.seed ^ 0x0cac_4e54);
        if random.chance(5, 6) {
            return self;
        }
        let shards = 2 + random.index(SHARDS_MAX - 1);
        let letter_ns = if random.chance(1, 4) { 0 } else { 1 << (10 + random.below(14)) };
        Plan { shards, letter_ns, ..self }
    }

    /// On the drives of a quarter of the plans one kind of commands takes much longer than the others: what is begun together ends in another
    /// order. Drawn from a stream of its own.
    fn with_slow(self) -> Plan {
        let mut random = Random::from_seed(self.seed ^ 0x0cac_4e51 ^ 1 << 40);
        if !random.chance(1, 4) {
            return self;
        }
        let kinds = [Kind::Reset, Kind::Reset, Kind::Log, Kind::Chunk, Kind::Superblock, Kind::Flush];
        let slow = Some((kinds[random.index(kinds.len())], 3 << random.below(5)));
        Plan { slow, ..self }
    }

    /// In a sixth of the plans young objects may have more open zones, with active zones for that, or not quite. Drawn from a stream of its own.
    fn with_more(self) -> Plan {
        let mut random = Random::from_seed(self.seed ^ 0x0cac_4e22);
        if !random.chance(1, 6) {
            return self;
        }
        let mut narrow = |limit: u64| u32::try_from(random.below(limit)).expect("a small number");
        let (zones, active_zones) = (self.zones + narrow(30), self.active_zones.max(8 + narrow(6)));
        let (zones_for_more, batch_pages) = (6 + narrow(20), 1 + narrow(3));
        Plan { zones, active_zones, zones_for_more, batch_pages, depth: self.depth.max(16), ..self }
    }

    /// A sixth of the plans have conventional drives. Drawn from a stream of its own.
    fn with_conventional(self) -> Plan {
        let mut random = Random::from_seed(self.seed ^ 0x0cac_4ec0);
        if !random.chance(1, 6) {
            return self;
        }
        let zone_units = [1, 1, 1, 2][random.index(4)];
        let journal_spare = u32::try_from(random.below(31)).expect("a small number");
        let (cached_units, discards) = (random.index(17), random.chance(3, 4));
        let conventional = Conventional { zone_units, journal_spare, cached_units, discards };
        Plan { conventional: Some(conventional), zone_blocks: zone_units * UNIT_BLOCKS, ..self }
    }

    /// What every plan, drawn or written by hand, holds.
    pub(super) fn check(&self) {
        let Plan { drives, zones, zone_blocks, transfer_blocks, active_zones, shards, .. } = *self;
        assert!(drives > 0, "a cache without drives");
        assert!(shards > 0 && shards <= SHARDS_MAX, "{shards} shards of {SHARDS_MAX}");
        assert!(zones > 0 && zone_blocks > 0, "{zones} zones of {zone_blocks} blocks");
        assert!(transfer_blocks > 0, "commands that may move nothing");
        assert!(active_zones > 0, "no zone may be active");
        assert!(self.latency_ns > 0, "commands take no time");
        assert!(self.depth > 0, "no request may be under way");
        assert!(self.slow.is_none_or(|(_, times)| times > 0), "{:?} take no time", self.slow);
        assert!(self.reinsert_percent <= 100, "{} % of a zone are written anew", self.reinsert_percent);
        assert!(self.ttl_groups.is_sorted(), "groups that expire together: {:?}", self.ttl_groups);
        assert!(self.forget_after != Some(0), "an absence of no time is none");
        let is_kept = self.invalidate == Invalidate::Process;
        assert!(!is_kept || self.shared_places > 0, "entries go to memory that has no place for them");
    }

    /// How the files of conventional drives are divided.
    pub(super) fn layout(&self, conventional: &Conventional) -> Layout {
        let Geometry { zones, active_zones_max, .. } = self.zoned_geometry();
        let layout = Layout {
            blocks: 0,
            zones,
            zone_units: conventional.zone_units,
            active_zones_max,
            journal_records: journal_records_min(active_zones_max) + conventional.journal_spare,
        };
        Layout { blocks: layout.blocks_needed(), ..layout }
    }

    /// Geometry of a drive.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        match &self.conventional {
            Some(conventional) => self.layout(conventional).geometry(self.is_volatile),
            None => self.zoned_geometry(),
        }
    }

    /// Geometry of a drive with zones of its own: each shard has a slice of it, and what is left over nobody.
    fn zoned_geometry(&self) -> Geometry {
        let shards = u32::try_from(self.shards).expect("few shards");
        Geometry {
            zones: self.zones * shards + shards - 1,
            zone_size_blocks: self.zone_blocks.next_power_of_two(),
            zone_capacity_blocks: self.zone_blocks,
            open_zones_max: self.active_zones * shards,
            active_zones_max: self.active_zones * shards,
            append_blocks_max: 8,
            transfer_blocks_max: self.transfer_blocks,
            volatile_cache: self.is_volatile,
            areas: None,
        }
    }

    /// Timing of the drives.
    pub(super) fn latency(&self) -> Latency {
        let typical_ns = self.latency_ns;
        Latency::Random { typical_ns, slow_ns: typical_ns * 10, slow_per_mille: 20 }
    }

    /// How the drives behave.
    pub(super) fn manner<'a>(&self, latency: &'a Latency) -> Manner<'a> {
        Manner {
            seed: self.seed,
            latency,
            tearing: self.tearing,
            volatile_cache: self.is_volatile,
            is_of_baseline: false,
        }
    }

    /// Options of a shard: its part of what the cache is given.
    #[must_use]
    pub fn options(&self) -> Options {
        let shards = self.shards as u64;
        let whole = Options {
            memory_bytes: (self.memory_kib << 10) * shards,
            copies_bytes_max: self.copies_kib << 10,
            eviction: self.eviction,
            reinsert_percent: self.reinsert_percent,
            admission: self.admission,
            endurance: Some(self.endurance * shards),
            object_mean: self.object_mean,
            ttl_groups: self.ttl_groups,
            shares: self.shares,
            tag_bits: self.tag_bits,
            object_max: VALUE_MAX,
            batch_pages: self.batch_pages,
            zones_for_more: self.zones_for_more,
            acknowledge: self.acknowledge,
            invalidate: self.invalidate,
        };
        whole.part_of(self.shards)
    }
}
