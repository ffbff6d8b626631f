//! The sections of a profile file, and what makes each sound.

use super::curve::Curve;
use super::profile::{ProfileError, StackCosts, demand, demand_curve, demand_probability, demand_time};
use super::zone_map::ZoneMap;
use base::units::BLOCK_BYTES_U64;
use serde::Deserialize;
use zone::device::{Areas, Geometry};

/// `[geometry]`: zones, limits, and how zones share the drive.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GeometrySection {
    pub(super) zones: u32,
    pub(super) zone_size_bytes: u64,
    pub(super) zone_capacity_bytes: u64,
    pub(super) open_zones_max: u32,
    pub(super) active_zones_max: u32,
    pub(super) append_bytes_max: u64,
    pub(super) transfer_bytes_max: u64,
    pub(super) volatile_cache: bool,
    /// Channel groups: sets of dies with a buffer of their own.
    pub(super) groups: u32,
    /// How zones lie on them.
    #[serde(default)]
    pub(super) zone_map: ZoneMap,
    /// Areas of an emulated drive; those of the real one are in `[zrwa]`.
    #[serde(skip)]
    pub(super) areas: Option<Areas>,
}

impl GeometrySection {
    pub(super) fn check(&self) -> Result<(), ProfileError> {
        const BLOCKS: &str = "must be a multiple of 4096 from 4096 up, and below 16 TiB";
        let is_blocks = |bytes: u64| {
            bytes > 0
                && bytes.is_multiple_of(BLOCK_BYTES_U64)
                && bytes / BLOCK_BYTES_U64 <= u64::from(u32::MAX)
        };
        demand(self.zones > 0, "geometry.zones", "must be at least 1")?;
        demand(is_blocks(self.zone_size_bytes), "geometry.zone_size_bytes", BLOCKS)?;
        demand(is_blocks(self.zone_capacity_bytes), "geometry.zone_capacity_bytes", BLOCKS)?;
        demand(is_blocks(self.append_bytes_max), "geometry.append_bytes_max", BLOCKS)?;
        demand(is_blocks(self.transfer_bytes_max), "geometry.transfer_bytes_max", BLOCKS)?;
        let fits = self.zone_capacity_bytes <= self.zone_size_bytes;
        demand(fits, "geometry.zone_capacity_bytes", "must be at most zone_size_bytes")?;
        demand(self.open_zones_max > 0, "geometry.open_zones_max", "must be at least 1")?;
        let active = self.active_zones_max >= self.open_zones_max;
        demand(active, "geometry.active_zones_max", "must be at least open_zones_max")?;
        demand((1..=4096).contains(&self.groups), "geometry.groups", "must be from 1 to 4096")
    }

    pub(super) fn geometry(&self) -> Geometry {
        let blocks = |bytes: u64| u32::try_from(bytes / BLOCK_BYTES_U64).expect("sizes were checked");
        Geometry {
            zones: self.zones,
            zone_size_blocks: blocks(self.zone_size_bytes),
            zone_capacity_blocks: blocks(self.zone_capacity_bytes),
            open_zones_max: self.open_zones_max,
            active_zones_max: self.active_zones_max,
            append_blocks_max: blocks(self.append_bytes_max),
            transfer_blocks_max: blocks(self.transfer_bytes_max),
            volatile_cache: self.volatile_cache,
            areas: self.areas,
        }
    }

    pub(super) fn take(&mut self, geometry: &Geometry) {
        let bytes = |blocks: u32| u64::from(blocks) * BLOCK_BYTES_U64;
        self.zones = geometry.zones;
        self.zone_size_bytes = bytes(geometry.zone_size_blocks);
        self.zone_capacity_bytes = bytes(geometry.zone_capacity_blocks);
        self.open_zones_max = geometry.open_zones_max;
        self.active_zones_max = geometry.active_zones_max;
        self.append_bytes_max = bytes(geometry.append_blocks_max);
        self.transfer_bytes_max = bytes(geometry.transfer_blocks_max);
        self.areas = geometry.areas;
    }
}

/// `[command]`: the processor that every write and append passes through.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Command {
    /// Work of the processor, which all commands share.
    pub(super) write_demand_us: Curve,
    pub(super) append_demand_us: Curve,
    /// The whole of a lone command.
    pub(super) write_latency_us: Curve,
    pub(super) append_latency_us: Curve,
    /// Spread of the demand, as a fraction.
    pub(super) demand_spread: f64,
    /// Speed of the processor while appends to one zone (three or more), two zones, and more are in
    /// it.
    pub(super) append_speed_one_zone: f64,
    pub(super) append_speed_two_zones: f64,
    pub(super) append_speed_many_zones: f64,
    /// Larger appends do not count for that: their cost is that of moving data.
    #[serde(default = "unlimited")]
    pub(super) append_speed_bytes_max: u64,
    /// A stall of the processor that now and then comes with an append.
    pub(super) append_stall_probability: f64,
    pub(super) append_stall_us: f64,
    /// Time that the first write or append to an empty zone takes in addition.
    pub(super) first_write_us: f64,
    pub(super) first_append_us: f64,
    /// Time that a write which opens a closed zone takes in addition.
    pub(super) reopen_us: f64,
}

fn unlimited() -> u64 {
    u64::MAX
}

impl Command {
    pub(super) fn check(&self) -> Result<(), ProfileError> {
        demand_curve(&self.write_demand_us, "command.write_demand_us")?;
        demand_curve(&self.append_demand_us, "command.append_demand_us")?;
        demand_curve(&self.write_latency_us, "command.write_latency_us")?;
        demand_curve(&self.append_latency_us, "command.append_latency_us")?;
        demand_probability(self.demand_spread, "command.demand_spread")?;
        let speeds = [self.append_speed_one_zone, self.append_speed_two_zones, self.append_speed_many_zones];
        let sound = speeds.iter().all(|speed| (0.01..=1.0).contains(speed));
        demand(sound, "command.append_speed_*", "must be from 0.01 to 1: a fraction of full speed")?;
        demand_probability(self.append_stall_probability, "command.append_stall_probability")?;
        demand_time(self.append_stall_us, "command.append_stall_us")?;
        demand_time(self.first_write_us, "command.first_write_us")?;
        demand_time(self.first_append_us, "command.first_append_us")?;
        demand_time(self.reopen_us, "command.reopen_us")
    }
}

/// `[small_blocks]`: writes of a namespace formatted with 512-byte blocks, below `bytes_max`. They go
/// through the processor one at a time.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SmallBlocks {
    pub(super) bytes_max: u64,
    pub(super) write_us: Curve,
    pub(super) append_us: Curve,
    pub(super) spread: f64,
    /// Probability and mean time of an exponential addition to the work.
    pub(super) slow_probability: f64,
    pub(super) slow_us: Curve,
    /// Time that a lone command takes beyond its work.
    pub(super) latency_us: Curve,
}

impl SmallBlocks {
    pub(super) fn check(&self) -> Result<(), ProfileError> {
        demand_curve(&self.write_us, "small_blocks.write_us")?;
        demand_curve(&self.append_us, "small_blocks.append_us")?;
        demand_probability(self.spread, "small_blocks.spread")?;
        demand_probability(self.slow_probability, "small_blocks.slow_probability")?;
        demand_curve(&self.slow_us, "small_blocks.slow_us")?;
        demand_curve(&self.latency_us, "small_blocks.latency_us")
    }
}

/// `[buffer]`: where writes wait to be programmed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Buffer {
    /// Per group. 0: no buffer; a write is done when its pages are programmed.
    pub(super) bytes: u64,
    /// A read waits for all writes that came before it but these.
    pub(super) read_bypass_bytes: u64,
}

impl Buffer {
    pub(super) fn check(&self) -> Result<(), ProfileError> {
        let sound = self.bytes == 0 || self.bytes >= 64 << 10;
        demand(sound, "buffer.bytes", "must be 0 for a drive without, or at least 65536")
    }
}

/// `[program]`: dies and how they write.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Program {
    pub(super) dies_per_group: u32,
    /// Channels of the whole drive; dies share them in turn within a group.
    pub(super) channels: u32,
    /// Bytes that one program writes.
    pub(super) unit_bytes: u64,
    pub(super) program_us: f64,
    /// Spread of the program time, as a fraction.
    pub(super) spread: f64,
    /// Pieces in which a program gives its buffer space back.
    pub(super) parts: u32,
    /// Share of the program rate that data of the host reaches.
    pub(super) host_efficiency: f64,
    /// The group stands still for `row_stall_us` whenever a zone has taken this much.
    pub(super) row_bytes: u64,
    pub(super) row_stall_us: f64,
    pub(super) row_stall_spread: f64,
    /// Padding gets a die when nothing else wants it, or after this many programs.
    pub(super) padding_every: u32,
}

impl Program {
    pub(super) fn check(&self, geometry: &GeometrySection) -> Result<(), ProfileError> {
        let dies = (1..=1024).contains(&self.dies_per_group);
        demand(dies, "program.dies_per_group", "must be from 1 to 1024")?;
        demand((1..=1024).contains(&self.channels), "program.channels", "must be from 1 to 1024")?;
        let even =
            self.channels.is_multiple_of(geometry.groups) || geometry.groups.is_multiple_of(self.channels);
        demand(even, "program.channels", "must divide geometry.groups evenly, or be divided by it")?;
        let unit =
            self.unit_bytes >= 4096 && self.unit_bytes.is_multiple_of(4096) && self.unit_bytes < 1 << 30;
        demand(unit, "program.unit_bytes", "must be a multiple of 4096 below 1 GiB")?;
        demand_time(self.program_us, "program.program_us")?;
        demand(self.program_us > 0.0, "program.program_us", "must be above 0")?;
        demand_probability(self.spread, "program.spread")?;
        demand((1..=64).contains(&self.parts), "program.parts", "must be from 1 to 64")?;
        let efficiency = (0.01..=1.0).contains(&self.host_efficiency);
        demand(efficiency, "program.host_efficiency", "must be from 0.01 to 1")?;
        demand(
            self.row_bytes > 0,
            "program.row_bytes",
            "must be above 0; set row_stall_us = 0 to do without",
        )?;
        demand_time(self.row_stall_us, "program.row_stall_us")?;
        demand_probability(self.row_stall_spread, "program.row_stall_spread")?;
        demand(self.padding_every > 0, "program.padding_every", "must be above 0")
    }
}

/// `[suspend]`: how a program makes way for reads.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Suspend {
    /// Mean time until a program yields, and the stages of its Erlang distribution.
    pub(super) wait_us: f64,
    pub(super) wait_stages: u32,
    pub(super) resume_us: f64,
    /// A program that has made way for this long runs to its end. 0: programs do not yield.
    pub(super) suspended_max_us: f64,
}

impl Suspend {
    pub(super) fn check(&self) -> Result<(), ProfileError> {
        demand_time(self.wait_us, "suspend.wait_us")?;
        demand((1..=64).contains(&self.wait_stages), "suspend.wait_stages", "must be from 1 to 64")?;
        demand_time(self.suspended_max_us, "suspend.suspended_max_us")?;
        demand_time(self.resume_us, "suspend.resume_us")
    }
}

/// `[read]`: reads that go to the dies.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadSection {
    /// The front end, one read at a time.
    pub(super) front_us: Curve,
    /// Sensing, by kind of page: [share, microseconds]. The shares add up to 1.
    pub(super) sense: Vec<(f64, f64)>,
    pub(super) sense_spread: f64,
    /// Time of 4 KiB over the channel.
    pub(super) transfer_us: f64,
    /// From the last transfer to the completion.
    pub(super) finish_us: f64,
    /// Reads of one die that can be sensed together, and the chance that the next one can join.
    pub(super) batch: u32,
    pub(super) batch_probability: f64,
    /// Bytes on one die before the next one's turn; larger reads are sensed by several dies.
    pub(super) stripe_bytes: u64,
}

impl ReadSection {
    pub(super) fn check(&self) -> Result<(), ProfileError> {
        demand_curve(&self.front_us, "read.front_us")?;
        let share: f64 = self.sense.iter().map(|(share, _)| share).sum();
        demand(
            (share - 1.0).abs() < 1e-3,
            "read.sense",
            "must be [[share, microseconds], ..] with shares that add up to 1",
        )?;
        self.sense.iter().try_for_each(|(_, time)| demand_time(*time, "read.sense"))?;
        demand_probability(self.sense_spread, "read.sense_spread")?;
        demand_time(self.transfer_us, "read.transfer_us")?;
        demand_time(self.finish_us, "read.finish_us")?;
        demand((1..=64).contains(&self.batch), "read.batch", "must be from 1 to 64")?;
        demand_probability(self.batch_probability, "read.batch_probability")?;
        let stripe = self.stripe_bytes >= 4096 && self.stripe_bytes.is_multiple_of(4096);
        demand(stripe, "read.stripe_bytes", "must be a multiple of 4096 from 4096 up")
    }
}

/// `[read_ahead]`: reads that continue the last one of their zone.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadAhead {
    /// A lone read that finds its data in memory.
    pub(super) hit_us: Curve,
    /// The link and its engine, one read at a time.
    pub(super) front_us: Curve,
    /// Probability and mean time of a wait for the die, of reads of at least `wait_bytes` that come faster than that.
    pub(super) wait_probability: f64,
    pub(super) wait_us: f64,
    pub(super) wait_bytes: u64,
    /// Streams of reads that a drive without zones follows; one with zones follows one in each.
    #[serde(default = "one")]
    pub(super) streams: u32,
}

impl ReadAhead {
    pub(super) fn check(&self) -> Result<(), ProfileError> {
        demand_curve(&self.hit_us, "read_ahead.hit_us")?;
        demand_curve(&self.front_us, "read_ahead.front_us")?;
        demand_probability(self.wait_probability, "read_ahead.wait_probability")?;
        demand_time(self.wait_us, "read_ahead.wait_us")
    }
}

/// `[management]`: commands on zones, and those that move nothing.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Management {
    pub(super) open_us: f64,
    pub(super) close_us: f64,
    pub(super) flush_us: f64,
    pub(super) report_us: f64,
    /// A command that is refused.
    pub(super) refuse_us: f64,
    /// Reset of an empty zone, what any data takes in addition, and what a full zone does, in
    /// proportion.
    pub(super) reset_us: f64,
    pub(super) reset_touched_us: f64,
    pub(super) reset_occupancy_us: f64,
    /// In addition, when a zone was never finished and has at least `reset_partial_bytes`.
    pub(super) reset_partial_us: f64,
    pub(super) reset_partial_bytes: u64,
    /// In addition, when the host wrote all of the zone.
    pub(super) reset_written_us: f64,
    pub(super) reset_spread_us: f64,
    /// Zones that were not finished: now and then exponentially longer.
    pub(super) reset_tail_probability: f64,
    pub(super) reset_tail_us: f64,
    /// Finish, after the padding.
    pub(super) finish_us: f64,
    pub(super) finish_spread_us: f64,
    /// Finish, when less than a stripe is left: mostly this.
    pub(super) finish_last_us: f64,
    pub(super) finish_last_probability: f64,
    /// Set when a finish pads the zone.
    #[serde(default = "yes")]
    pub(super) finish_pads: bool,
    /// Finish of an open zone with nothing written.
    pub(super) finish_unwritten_us: f64,
    /// With `fig7_host_artefact`: progress of resets while other commands are in flight.
    pub(super) fig7_read_progress: f64,
    pub(super) fig7_write_progress: f64,
    pub(super) fig7_append_progress: f64,
}

fn yes() -> bool {
    true
}

impl Management {
    /// Whole zones take this share of their time.
    pub(super) fn scale_zones(&mut self, share: f64) {
        for time_us in [
            &mut self.reset_us,
            &mut self.reset_touched_us,
            &mut self.reset_occupancy_us,
            &mut self.reset_partial_us,
            &mut self.reset_written_us,
            &mut self.reset_spread_us,
            &mut self.reset_tail_us,
            &mut self.finish_us,
            &mut self.finish_spread_us,
            &mut self.finish_last_us,
        ] {
            *time_us *= share;
        }
    }

    pub(super) fn check(&self) -> Result<(), ProfileError> {
        demand_time(self.open_us, "management.open_us")?;
        demand_time(self.close_us, "management.close_us")?;
        demand_time(self.flush_us, "management.flush_us")?;
        demand_time(self.report_us, "management.report_us")?;
        demand_time(self.refuse_us, "management.refuse_us")?;
        demand_time(self.reset_us, "management.reset_us")?;
        demand_time(self.reset_touched_us, "management.reset_touched_us")?;
        demand_time(self.reset_occupancy_us, "management.reset_occupancy_us")?;
        demand_time(self.reset_partial_us, "management.reset_partial_us")?;
        demand_time(self.reset_written_us, "management.reset_written_us")?;
        demand_time(self.reset_spread_us, "management.reset_spread_us")?;
        demand_probability(self.reset_tail_probability, "management.reset_tail_probability")?;
        demand_time(self.reset_tail_us, "management.reset_tail_us")?;
        demand_time(self.finish_us, "management.finish_us")?;
        demand_time(self.finish_spread_us, "management.finish_spread_us")?;
        demand_time(self.finish_last_us, "management.finish_last_us")?;
        demand_probability(self.finish_last_probability, "management.finish_last_probability")?;
        demand_time(self.finish_unwritten_us, "management.finish_unwritten_us")?;
        let progress = [self.fig7_read_progress, self.fig7_write_progress, self.fig7_append_progress];
        let sound = progress.iter().all(|progress| (0.01..=1.0).contains(progress));
        demand(sound, "management.fig7_*_progress", "must be from 0.01 to 1")
    }
}

/// `[noise]`: variation of every latency.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NoiseSection {
    /// Normal, as a fraction.
    pub(super) latency_spread: f64,
    /// Now and then, exponential.
    pub(super) small_probability: f64,
    pub(super) small_us: f64,
    /// Rarely.
    pub(super) large_probability: f64,
    pub(super) large_us: f64,
}

impl NoiseSection {
    pub(super) fn check(&self) -> Result<(), ProfileError> {
        demand_probability(self.latency_spread, "noise.latency_spread")?;
        demand_probability(self.small_probability, "noise.small_probability")?;
        demand_time(self.small_us, "noise.small_us")?;
        demand_probability(self.large_probability, "noise.large_probability")?;
        demand_time(self.large_us, "noise.large_us")
    }
}

/// `[translation]`: a conventional drive that maps pages and collects garbage.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Translation {
    /// Flash beyond the capacity, as a fraction of it.
    pub(super) over_provision: f64,
    /// Bytes that one entry of the map covers.
    pub(super) page_bytes: u64,
    /// Program units that are erased together.
    pub(super) block_units: u32,
    /// Blocks that the collector empties together.
    #[serde(default = "one")]
    pub(super) batch_blocks: u32,
    /// What the collector programs and erases goes before what is in the buffer.
    #[serde(default)]
    pub(super) collects_first: bool,
    /// Collection begins with fewer free blocks than this, and goes on until there are as many as
    /// the second.
    pub(super) collect_below_blocks: u32,
    pub(super) collect_until_blocks: u32,
    pub(super) erase_us: f64,
    /// Die time of a moved unit besides its program: reading it.
    pub(super) move_us: f64,
}

fn one() -> u32 {
    1
}

impl Translation {
    pub(super) fn check(&self) -> Result<(), ProfileError> {
        let over = (0.01..=4.0).contains(&self.over_provision);
        demand(over, "translation.over_provision", "must be from 0.01 to 4")?;
        let page = self.page_bytes >= 4096 && self.page_bytes.is_multiple_of(4096);
        demand(page, "translation.page_bytes", "must be a multiple of 4096")?;
        demand(self.block_units > 0, "translation.block_units", "must be above 0")?;
        demand(self.batch_blocks > 0, "translation.batch_blocks", "must be above 0")?;
        let rising = 0 < self.collect_below_blocks && self.collect_below_blocks < self.collect_until_blocks;
        demand(
            rising,
            "translation.collect_until_blocks",
            "must be above collect_below_blocks, which is above 0",
        )?;
        demand_time(self.erase_us, "translation.erase_us")?;
        demand_time(self.move_us, "translation.move_us")
    }
}

/// `[host.*]`: what stacks cost with this drive.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Host {
    pub(super) spdk: Option<StackCosts>,
    pub(super) kernel: Option<StackCosts>,
    #[serde(rename = "mq-deadline")]
    pub(super) mq_deadline: Option<StackCosts>,
}

impl Host {
    pub(super) fn check(&self) -> Result<(), ProfileError> {
        let stacks = [
            (&self.spdk, "host.spdk"),
            (&self.kernel, "host.kernel"),
            (&self.mq_deadline, "host.mq-deadline"),
        ];
        for (costs, key) in stacks {
            let Some(costs) = costs else { continue };
            demand_time(costs.submit_us, key)?;
            demand_time(costs.segments_us, key)?;
            demand_time(costs.merge_us, key)?;
            demand_time(costs.complete_us, key)?;
            demand_time(costs.request_us, key)?;
            demand_time(costs.think_us, key)?;
        }
        Ok(())
    }
}
