//! What a run is made of: the array, its drives and how they behave, drawn from a seed.
//!
//! Every run draws its own shape (swarm testing; Groce et al., ISSTA 2012): most features are off in
//! most runs, so that those that are on meet often.

mod areas;

use crate::engine::Array;
use array::log::config::{AppendUse, ArrayConfig, CheckpointEvery, OpenSegments, SummaryEvery, Tuning};
use array::log::policy::adaptive::Policy;
use array::log::policy::victim::GcPolicy;
use array::log::survivors::GcStreams;
use base::random::Random;
use base::time::Nanos;
use baseline::config::{Header, RaiznConfig};
use baseline::zraid::config::Limits;
use drive::timing::ZoneMap;
use serde::{Deserialize, Serialize};
use zone::device::Geometry;
use zone::stripe::Level;
use zone::stripe::table::Packing;

pub use areas::{AREA_SEEDS, DriveAreas, Fate};

/// Count of seeds of which one is a run of the baseline.
const BASELINE_ONE_IN: u64 = 8;
/// Count of seeds with random write areas of which one is a run of the baseline after ZRAID.
const ZRAID_ONE_IN: u64 = 6;

/// Effect of a power failure on a transfer of several blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tearing {
    /// The first blocks of the transfer are there.
    Prefix,
    /// Any blocks of the transfer are there; the write pointer is behind all of them.
    Holes,
}

/// Timing of drives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Latency {
    /// Every command its own time, in any order: `typical_ns`, but `slow_ns` for some of a thousand.
    Random {
        /// Time of most commands; a command takes half to one and a half of it.
        typical_ns: u64,
        /// Longest time of slow commands.
        slow_ns: u64,
        /// Count of slow commands, of a thousand.
        slow_per_mille: u64,
    },
    /// The drive model with a profile's timing.
    Model {
        /// Name of the profile.
        profile: String,
        /// How zones lie on channel groups, if not as the profile says.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        zone_map: Option<ZoneMap>,
    },
}

/// Several open segments, of small and large chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hybrid {
    /// N_s.
    pub small: u32,
    /// N_l.
    pub large: u32,
    /// C_l.
    pub large_chunk_blocks: u32,
    /// All are written with Zone Append, not only one of small chunks.
    pub append_all: bool,
}

/// Only some of the index is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OffLoading {
    /// Entries of a group.
    pub entries: usize,
    /// Groups in memory.
    pub groups: usize,
}

/// Options of the baseline after RAIZN. Of the rest of a plan it knows what concerns drives, and the chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    /// Partial parity has its metadata in a block of its own; otherwise out of band.
    pub header_block: bool,
    /// Stripes of a logical zone that may be written at once.
    pub stripes_in_flight: u32,
    /// Most blocks of one Zone Write.
    pub write_blocks: u32,
    /// It is the one after ZRAID, which has neither of these options.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub zraid: bool,
}

/// The array, its drives and how they behave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Seed of everything that is left to chance in a run: delays, order, what a power failure tears.
    pub seed: u64,
    /// RAID level: 0, 1 (RAID-01), 4, 5, 6, or 7 (three parities).
    pub level: u8,
    /// Drives.
    pub members: usize,
    /// C.
    pub chunk_blocks: u32,
    /// G; 1 uses Zone Write.
    pub group_stripes: u32,
    /// Zones of each drive.
    pub zones: u32,
    /// Blocks of a zone.
    pub zone_capacity_blocks: u32,
    /// Open and active zones.
    pub open_zones: u32,
    /// Most blocks of an append.
    pub append_blocks: u32,
    /// Most blocks of another transfer.
    pub transfer_blocks: u32,
    /// The drives lose what was not flushed.
    pub volatile_cache: bool,
    /// Volume, in percent of the largest one possible.
    pub fill_percent: u64,
    /// Frames clients may hold.
    pub client_frames: usize,
    /// Longest time for which a stripe waits for more blocks.
    pub stripe_deadline_us: u64,
    /// Requests in flight.
    pub depth: usize,
    /// Most KiB a second that a rebuild writes; zero is no limit.
    #[serde(default)]
    pub rebuild_kib_per_second: u64,
    /// A rebuild without a limit takes what clients leave.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rebuild_by_load: bool,
    /// A checkpoint is written whenever so many blocks were; zero is never.
    #[serde(default)]
    pub checkpoint_blocks: u64,
    /// A summary of an open segment is written whenever so many rows of it were; zero is never.
    #[serde(default)]
    pub summary_rows: u32,
    /// Most bytes of stripe tables of sealed segments in memory; all of them without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stripe_tables_bytes: Option<u64>,
    /// Time for which a drive that is away is waited for; zero is none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub patience_ms: u64,
    /// Time after which a drive that is waited for counts as away when it does not answer; zero is none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub limit_ms: u64,
    /// The engine notices other servers that take its drives.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fences: bool,
    /// The engine looks for zones that turn by themselves.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub watches_zones: bool,
    /// Effect of a power failure on transfers.
    pub tearing: Tearing,
    /// Several open segments for clients; one without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hybrid: Option<Hybrid>,
    /// The engine chooses chunks and closes stripes by what it observes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub adaptive: bool,
    /// The engine goes by lifetimes of blocks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub biza: bool,
    /// The engine is the baseline after RAIZN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raizn: Option<Baseline>,
    /// The collector weighs free space by age; otherwise it takes the least live data.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cost_benefit: bool,
    /// The collector keeps hot blocks from cold ones wherever it can; otherwise as it sees fit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub two_gc_streams: bool,
    /// All of the index is in memory without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off_loading: Option<OffLoading>,
    /// Random write areas of drives; none without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub areas: Option<DriveAreas>,
    /// Timing of commands.
    pub latency: Latency,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Picks one of the choices.
pub fn pick<T: Clone>(random: &mut Random, choices: &[T]) -> T {
    assert!(!choices.is_empty(), "something can be picked");
    choices[random.index(choices.len())].clone()
}

impl Hybrid {
    fn open(self) -> OpenSegments {
        OpenSegments {
            small: self.small,
            large: self.large,
            large_chunk_blocks: self.large_chunk_blocks,
            append: if self.append_all { AppendUse::All } else { AppendUse::OneSmall },
        }
    }
}

impl Plan {
    /// Draws a plan that works.
    #[must_use]
    pub fn draw(seed: u64) -> Plan {
        // A stream of its own: the plans of other seeds are what they were before there was a baseline.
        let random = &mut Random::from_seed(seed ^ 0x7261_697a);
        if seed < AREA_SEEDS && random.chance(1, BASELINE_ONE_IN) {
            return Plan::draw_baseline(random, seed);
        }
        let random = &mut Random::from_seed(seed ^ 0x7a72_6169);
        if seed >= AREA_SEEDS && random.chance(1, ZRAID_ONE_IN) {
            return Plan::draw_zraid(random, seed);
        }
        let random = &mut Random::from_seed(seed ^ 0x7061_6e6c);
        loop {
            let plan = Plan::draw_any(random, seed);
            if plan.config().is_some() {
                let checkpoint_blocks = Plan::draw_checkpoints(seed);
                let summary_rows = Plan::draw_summaries(seed);
                let stripe_tables_bytes = Plan::draw_stripe_tables(seed);
                let plan = Plan { checkpoint_blocks, summary_rows, stripe_tables_bytes, ..plan };
                let plan = plan.or_hybrid().or_adaptive().or_off_loading().or_two_gc_streams();
                return plan.or_rebuild_by_load().or_areas().or_biza().or_patient().or_fenced().or_watching();
            }
        }
    }

    /// A plan of the baseline, with logs so small that they are replaced often.
    fn draw_baseline(random: &mut Random, seed: u64) -> Plan {
        let chunk_blocks = pick(random, &[1, 1, 2, 4]);
        let (open, stripes_in_flight) = (pick(random, &[1, 1, 2, 3]), pick(random, &[1, 2, 3, 6]));
        assert!(chunk_blocks > 0 && open > 0 && stripes_in_flight > 0, "a baseline that can work");
        let reserve = open * stripes_in_flight * 2 * chunk_blocks + 16;
        let capacity = 2 * reserve + 8 * chunk_blocks + pick(random, &[10, 20, 40, 80]);
        let mut plan = Plan::draw_any(random, seed);
        plan.level = 5;
        plan.members = pick(random, &[2, 3, 3, 4, 4, 5, 6]);
        plan.chunk_blocks = chunk_blocks;
        plan.group_stripes = 1;
        plan.zones = baseline::config::LOG_ZONES + open + pick(random, &[0, 1, 2]);
        plan.zone_capacity_blocks = capacity.next_multiple_of(chunk_blocks);
        plan.open_zones = baseline::config::LOG_ZONES + open;
        plan.append_blocks = pick(random, &[2, 3, 16]);
        plan.transfer_blocks = pick(random, &[4, 8, 32]);
        // What the baseline does not promise anything for.
        plan.volatile_cache = false;
        plan.tearing = Tearing::Prefix;
        plan.fill_percent = 100;
        plan.rebuild_kib_per_second = 0;
        plan.raizn = Some(Baseline {
            header_block: random.chance(1, 2),
            stripes_in_flight,
            write_blocks: chunk_blocks * pick(random, &[1, 2, 8]),
            zraid: false,
        });
        assert!(plan.array().is_some(), "such a baseline works");
        plan
    }

    /// A plan of the baseline after ZRAID, with small windows that meet the ends of zones, and small logs.
    fn draw_zraid(random: &mut Random, seed: u64) -> Plan {
        let granule_blocks = pick(random, &[1, 1, 2]);
        let chunk_blocks = 2 * granule_blocks * pick(random, &[1, 1, 2]);
        let half: u32 = chunk_blocks * pick(random, &[1, 2, 3, 4]);
        let open = pick(random, &[1, 1, 2, 3]);
        let log: u32 = 2 * (open * half + 16) + pick(random, &[20, 60, 100]);
        let zone_capacity_blocks = log.max(4 * half).next_multiple_of(chunk_blocks);
        let mut plan = Plan::draw_any(random, seed);
        plan.level = 5;
        plan.members = pick(random, &[3, 3, 4, 4, 5, 6]);
        plan.chunk_blocks = chunk_blocks;
        plan.group_stripes = 1;
        plan.zones = baseline::zraid::config::LOG_ZONES + open + pick(random, &[0, 1, 2]);
        plan.zone_capacity_blocks = zone_capacity_blocks;
        plan.open_zones = baseline::zraid::config::LOG_ZONES + open;
        plan.append_blocks = chunk_blocks.max(pick(random, &[2, 3, 16]));
        plan.transfer_blocks = chunk_blocks.max(pick(random, &[4, 8, 32]));
        // What it does not promise anything for.
        plan.volatile_cache = false;
        plan.tearing = Tearing::Prefix;
        plan.fill_percent = 100;
        plan.rebuild_kib_per_second = 0;
        plan.raizn = Some(Baseline {
            header_block: false,
            stripes_in_flight: 1,
            write_blocks: chunk_blocks,
            zraid: true,
        });
        // One drive may give windows up with the power; what the array knows of it then is that it is lost.
        let mut fates = vec![Fate::Kept; plan.members];
        if random.chance(1, 3) {
            fates[random.index(plan.members)] = pick(random, &[Fate::KeptOnceMoved, Fate::Committed]);
        }
        plan.areas = Some(DriveAreas::of_zraid(open, 2 * half, granule_blocks, fates));
        assert!(plan.array().is_some(), "such a baseline works");
        plan
    }

    /// Acknowledged means durable: not where drives have volatile caches, and not in the baseline after ZRAID.
    #[must_use]
    pub fn is_write_through(&self) -> bool {
        !self.volatile_cache && !self.is_zraid()
    }

    /// The engine is the baseline after ZRAID.
    #[must_use]
    pub fn is_zraid(&self) -> bool {
        self.raizn.is_some_and(|baseline| baseline.zraid)
    }

    /// The plan, or one whose rebuilds take what clients leave.
    fn or_rebuild_by_load(mut self) -> Plan {
        let random = &mut Random::from_seed(self.seed ^ 0x6C6F_6164);
        self.rebuild_by_load =
            self.raizn.is_none() && self.rebuild_kib_per_second == 0 && random.chance(1, 3);
        self
    }

    /// The plan, or one whose drives are waited for.
    fn or_patient(mut self) -> Plan {
        let random = &mut Random::from_seed(self.seed ^ 0x6869_6363);
        if self.areas.is_none() && random.chance(1, 4) {
            self.patience_ms = pick(random, &[3_000, 8_000]);
            self.limit_ms = pick(random, &[0, 50, 1_000]);
        }
        self
    }

    /// The plan, or one whose engine notices other servers.
    fn or_fenced(mut self) -> Plan {
        let random = &mut Random::from_seed(self.seed ^ 0x6665_6e63);
        self.fences = self.raizn.is_none() && random.chance(1, 6);
        self
    }

    /// The plan, or one whose engine looks for zones that turn by themselves.
    fn or_watching(mut self) -> Plan {
        let random = &mut Random::from_seed(self.seed ^ 0x7475_726e);
        self.watches_zones = self.raizn.is_none() && random.chance(1, 3);
        self
    }

    /// The plan, or one with several open segments.
    fn or_hybrid(self) -> Plan {
        let random = &mut Random::from_seed(self.seed ^ 0x6879_6272);
        if random.chance(2, 3) {
            return self;
        }
        assert!(self.raizn.is_none(), "the baseline has one kind of segments");
        let hybrids: Vec<Hybrid> = std::iter::repeat_with(|| Hybrid {
            small: pick(random, &[0, 1, 1, 1, 2, 3]),
            large: pick(random, &[0, 1, 1, 2, 3]),
            large_chunk_blocks: pick(random, &[1, 2, 4, 8]),
            append_all: random.chance(1, 4),
        })
        .take(8)
        .collect();
        let plans = hybrids.into_iter().map(|hybrid| Plan { hybrid: Some(hybrid), ..self.clone() });
        let mut plans = plans.filter(|plan| plan.config().is_some());
        plans.next().unwrap_or_else(|| self.clone())
    }

    /// The plan, or one whose engine adapts (more often where there are two sizes of chunks to choose from), or whose
    /// collector weighs.
    fn or_adaptive(self) -> Plan {
        let random = &mut Random::from_seed(self.seed ^ 0x6164_6170);
        let of_ten = if self.hybrid.is_some() { 7 } else { 4 };
        Plan { adaptive: random.chance(of_ten, 10), cost_benefit: random.chance(1, 2), ..self }
    }

    /// The plan, or one that keeps only some of the index in memory, on drives that leave room for the rest.
    fn or_off_loading(self) -> Plan {
        let random = &mut Random::from_seed(self.seed ^ 0x6f66_666c);
        if random.chance(3, 4) {
            return self;
        }
        let entries = pick(random, &[3, 8, 8, 32, 100]);
        let groups = pick(random, &[1, 4, 6, 10, 20, 40]);
        let candidates: Vec<Plan> = std::iter::repeat_with(|| Plan {
            off_loading: Some(OffLoading { entries: entries.min(pick(random, &[3, 8, 100])), groups }),
            zones: self.zones + pick(random, &[0, 2, 4, 6]),
            open_zones: self.open_zones + pick(random, &[0, 1, 2]),
            fill_percent: self.fill_percent.min(pick(random, &[60, 90, 100])),
            ..self.clone()
        })
        .take(8)
        .collect();
        // One that keeps all in memory after all is worth a run now and then.
        let may_be = |plan: &Plan| {
            let config = plan.config();
            config.is_some_and(|config| config.index_limit(&plan.tuning()).is_some() || random.chance(1, 16))
        };
        candidates.into_iter().find(may_be).unwrap_or(self)
    }

    /// The plan, or one whose collector has two segments open.
    fn or_two_gc_streams(self) -> Plan {
        let random = &mut Random::from_seed(self.seed ^ 0x7375_7276);
        Plan { two_gc_streams: random.chance(1, 2), ..self }
    }

    fn draw_checkpoints(seed: u64) -> u64 {
        let random = &mut Random::from_seed(seed ^ 0x6368_6563);
        pick(random, &[0, 0, 1, 20, 50, 100, 300])
    }

    fn draw_summaries(seed: u64) -> u32 {
        let random = &mut Random::from_seed(seed ^ 0x7375_6d6d);
        pick(random, &[0, 0, 1, 4, 10, 30])
    }

    fn draw_stripe_tables(seed: u64) -> Option<u64> {
        let random = &mut Random::from_seed(seed ^ 0x7461_626c);
        pick(random, &[None, None, None, Some(0), Some(0), Some(1_000), Some(10_000)])
    }

    fn draw_zone_map(seed: u64) -> Option<ZoneMap> {
        let random = &mut Random::from_seed(seed ^ 0x6368_616e);
        let mostly = Some(ZoneMap::Mostly { exceptions_per_mille: 100 });
        pick(random, &[None, Some(ZoneMap::Opening), Some(ZoneMap::Random), mostly])
    }

    fn draw_any(random: &mut Random, seed: u64) -> Plan {
        let chunk_blocks = pick(random, &[1, 1, 1, 2, 4]);
        let latency = match random.below(12) {
            0 => Latency::Model {
                profile: pick(random, &["zn540-1tb", "zn540-4tb", "femu-zapraid"]).to_owned(),
                zone_map: Plan::draw_zone_map(seed),
            },
            1..=3 => Latency::Random { typical_ns: 1_000, slow_ns: 1_000, slow_per_mille: 0 },
            4..=7 => Latency::Random { typical_ns: 20_000, slow_ns: 200_000, slow_per_mille: 100 },
            _ => Latency::Random { typical_ns: 50_000, slow_ns: 50_000_000, slow_per_mille: 20 },
        };
        Plan {
            seed,
            level: pick(random, &[0, 1, 4, 5, 5, 5, 5, 6, 6, 6, 7, 7]),
            members: pick(random, &[2, 3, 3, 4, 4, 5, 6, 8]),
            chunk_blocks,
            group_stripes: pick(random, &[1, 1, 2, 4, 16, 256]),
            zones: pick(random, &[8, 9, 10, 12, 16]),
            zone_capacity_blocks: pick(random, &[20, 28, 40, 64, 100, 200]),
            open_zones: pick(random, &[4, 5, 6, 14]),
            append_blocks: pick(random, &[4, 16, 64]),
            transfer_blocks: pick(random, &[4, 8, 32, 64]),
            volatile_cache: random.chance(1, 3),
            fill_percent: pick(random, &[20, 60, 90, 100, 100]),
            client_frames: pick(random, &[64, 128, 1024]),
            stripe_deadline_us: pick(random, &[1, 100, 100, 10_000]),
            depth: pick(random, &[1, 2, 8, 24, 64]),
            tearing: pick(random, &[Tearing::Prefix, Tearing::Holes]),
            hybrid: None,
            raizn: None,
            adaptive: false,
            biza: false,
            cost_benefit: false,
            two_gc_streams: false,
            checkpoint_blocks: 0,
            off_loading: None,
            summary_rows: 0,
            stripe_tables_bytes: None,
            patience_ms: 0,
            limit_ms: 0,
            fences: false,
            watches_zones: false,
            rebuild_kib_per_second: pick(random, &[0, 0, 0, 300, 20_000]),
            rebuild_by_load: false,
            areas: None,
            latency,
        }
    }

    /// What every plan that was drawn holds.
    ///
    /// # Panics
    /// When it does not.
    pub fn check(&self) {
        let Plan { level, members, chunk_blocks, zones, open_zones, fill_percent, depth, .. } = *self;
        assert!(level <= 7, "level {level} is none of ours");
        assert!(members > 1, "{members} drives are no array");
        assert!(chunk_blocks > 0 && self.group_stripes > 0, "chunks of {chunk_blocks} blocks");
        assert!(zones > 0 && self.zone_capacity_blocks > 0, "{zones} zones of no blocks");
        assert!(open_zones > 0, "no zone may be open");
        assert!(self.append_blocks > 0 && self.transfer_blocks > 0, "commands that move nothing");
        assert!((1..=100).contains(&fill_percent), "a volume of {fill_percent} % of the largest one");
        assert!(self.client_frames > 0 && depth > 0, "clients may ask for nothing");
        assert!(self.limit_ms == 0 || self.patience_ms > 0, "a limit, and nobody is waited for");
        if let Some(Hybrid { small, large, large_chunk_blocks, .. }) = self.hybrid {
            assert!(small + large > 0, "no segment is open for clients");
            assert!(large == 0 || large_chunk_blocks > 0, "{large} segments for chunks of no blocks");
        }
        if let Some(OffLoading { entries, groups }) = self.off_loading {
            assert!(entries > 0 && groups > 0, "{groups} groups of {entries} entries are in memory");
        }
        if let Latency::Random { typical_ns, slow_per_mille, .. } = self.latency {
            assert!(typical_ns > 0, "commands take no time");
            assert!(slow_per_mille <= 1_000, "{slow_per_mille} of a thousand commands are slow");
        }
        if let Some(Baseline { stripes_in_flight, write_blocks, .. }) = self.raizn {
            assert!(stripes_in_flight > 0 && write_blocks > 0, "the baseline may write nothing");
            assert!(self.off_loading.is_none() && self.hybrid.is_none(), "what the baseline does not have");
        }
        assert!(!(self.adaptive && self.biza), "the engine goes by two policies");
    }

    /// The array; `None` when it cannot work.
    #[must_use]
    pub fn array(&self) -> Option<Array> {
        let Some(baseline) = self.raizn else { return self.config().map(Array::Log) };
        let config = RaiznConfig {
            array: *b"array under test",
            members: self.members,
            chunk_blocks: self.chunk_blocks,
            geometry: self.geometry(),
        };
        let tuning = baseline::config::Tuning {
            header: if baseline.header_block { Header::Block } else { Header::OutOfBand },
            stripes_in_flight: baseline.stripes_in_flight,
            write_blocks_max: baseline.write_blocks,
        };
        if baseline.zraid {
            let is_possible = Limits::of(&config).is_ok() && self.areas_are_alike();
            return is_possible.then_some(Array::Zraid(config));
        }
        // A torn write leaves its first blocks: what the baseline assumes (ADR 16).
        let may_tear = self.tearing == Tearing::Prefix;
        (may_tear && config.validate(&tuning).is_ok()).then_some(Array::Raizn(config, tuning))
    }

    fn geometry(&self) -> Geometry {
        Geometry {
            zones: self.zones,
            zone_size_blocks: self.zone_capacity_blocks.next_power_of_two(),
            zone_capacity_blocks: self.zone_capacity_blocks,
            open_zones_max: self.open_zones,
            active_zones_max: self.open_zones,
            append_blocks_max: self.append_blocks,
            transfer_blocks_max: self.transfer_blocks,
            volatile_cache: self.volatile_cache,
            areas: self.areas_of(usize::MAX),
        }
    }

    fn open_segments(&self) -> OpenSegments {
        let open = self.hybrid.map_or_else(OpenSegments::default, Hybrid::open);
        match self.areas {
            Some(_) => OpenSegments { append: AppendUse::Areas, ..open },
            None => open,
        }
    }

    /// The array of the log-structured engine.
    fn config(&self) -> Option<ArrayConfig> {
        let mut config = ArrayConfig {
            array: *b"array under test",
            level: Level::from_code(self.level)?,
            members: self.members,
            chunk_blocks: self.chunk_blocks,
            group_stripes: self.group_stripes,
            open: self.open_segments(),
            volume_blocks: 1,
            geometry: self.geometry(),
        };
        let areas = self.areas.as_ref();
        if areas.is_some_and(|areas| !areas.are_possible(self.zone_capacity_blocks, self.open_zones)) {
            return None;
        }
        config.validate().ok()?;
        config.volume_blocks = (config.volume_blocks_max() * self.fill_percent / 100).max(1);
        config.validate().ok()?;
        Some(config)
    }

    /// Returns the rebuild rate that the operator asks for: `None` leaves the pace to the engine.
    fn rebuild_rate(&self) -> Option<u64> {
        (!self.rebuild_by_load).then_some(self.rebuild_kib_per_second << 10)
    }

    /// Returns the tuning of the engine.
    #[must_use]
    pub fn tuning(&self) -> Tuning {
        Tuning {
            stripe_deadline: Nanos::from_micros(self.stripe_deadline_us),
            client_frames_max: self.client_frames,
            rebuild_rate: self.rebuild_rate(),
            stripe_table: if self.members.is_multiple_of(2) { Packing::Bits } else { Packing::Bytes },
            stripe_tables_bytes_max: self.stripe_tables_bytes,
            gc: if self.cost_benefit { GcPolicy::CostBenefit } else { GcPolicy::Greedy },
            gc_streams: if self.two_gc_streams { GcStreams::Two } else { GcStreams::Auto },
            policy: match (self.adaptive, self.biza) {
                (true, _) => Policy::Adaptive,
                (false, true) => Policy::Biza,
                (false, false) => Policy::Fixed,
            },
            checkpoints: match self.checkpoint_blocks {
                0 => CheckpointEvery::Never,
                blocks => CheckpointEvery::Blocks(blocks),
            },
            index_memory: self.off_loading.map(|off_loading| {
                let width = if self.members.is_multiple_of(3) { 5 } else { 4 };
                (off_loading.groups * off_loading.entries * width) as u64
            }),
            index_group_entries: self.off_loading.map(|off_loading| off_loading.entries),
            summaries: match self.summary_rows {
                0 => SummaryEvery::Never,
                rows => SummaryEvery::Rows(rows),
            },
            wide_entries: self.members.is_multiple_of(3),
            accepts_lost_writes: false,
            write_area_zones: self.areas.as_ref().map_or(0, |areas| areas.write_area),
            write_area_spare: self.areas.as_ref().and_then(|areas| areas.may_be_smaller.then_some(1)),
            lifetimes: self.lifetimes(),
            slot_use: self.slot_use(),
            tuned: self.tuned(),
            mount_tag: 0,
        }
    }
}
