//! The rig: an array on modelled drives in virtual time, as an experiment sets it up, breaks it and mounts it.
//!
//! The engine is the one that is served. The clock jumps from event to event, so what is measured is what drives
//! take, and the host between a completion and the next submission ([`HostedDrive`]); computing parity, looking
//! up the index and the like take no virtual time.

use super::filled::FilledDrive;
use super::host::{Clock, HostedDrive};
use super::scheme::Scheme;
use super::setting::Setting;
use super::wear::Meter;
use crate::allocations::{Bytes, bytes_during};
use crate::sizing;
use crate::workload::whole_ns;
use anyhow::{Context, Result, ensure};
use array::engine::Engine;
use array::log::area::NoWriteArea;
use array::log::config::{ArrayConfig, CheckpointEvery, OpenSegments, SummaryEvery, Tuning};
use array::log::lifetime::Lifetimes;
use array::log::policy::adaptive::DriveTraits;
use array::log::policy::decision::{Decision, Seen};
use array::log::policy::slots::SlotUse;
use array::log::policy::tuned::{Shape, Tuned};
use array::log::status::Health;
use array::log::volume::LogVolume;
use array::log::{format, mount};
use array::request::{Outcome, Reply, Request, RequestId, RequestOp, Volume};
use base::frame::Frame;
use base::time::{Instant, Nanos};
use base::units::{BLOCK_BYTES, BLOCK_BYTES_U64, DriveIndex, Lba};
use drive::emulated::{EmulatedDrive, TimedDrive};
use drive::timing::{HostStack, ModelOptions, Profile, ZoneMap};
use zone::device::{Geometry, ZonedDevice};
use zone::drives::DriveSet;
use zone::stripe::Level;

/// Turns at one instant after which the engine is stuck.
pub(super) const TURNS_MAX: u32 = 1_000_000;
/// Drives in virtual time have been busy until some instant; mounting waits for them from there.
pub(super) const MOUNTED_AT: Instant = Instant(1_000_000_000);
/// Time at which clients begin.
pub(super) const BEGIN: Instant = Instant(2_000_000_000);
/// Segments beyond those that are written: so many that the collector never begins and space limits nothing, as with
/// the thousands of zones of the drives.
const SEGMENTS_SPARE: u64 = 160;
/// Segments that a volume fills where what is in reserve counts: those of 200 GiB in zones of the drive.
const SEGMENTS_FILLED: u64 = 63;
/// Blocks of a KiB size.
const BLOCK_KIB: u32 = 4;

/// The array to set up.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The drives.
    pub profile: Profile,
    /// The first drive, where it is another than the others.
    pub odd_profile: Option<Profile>,
    /// Scheme by which stripes are placed.
    pub scheme: Scheme,
    /// RAID level.
    pub level: Level,
    /// Count of drives.
    pub drives: usize,
    /// C, in blocks.
    pub chunk_blocks: u32,
    /// Segments that are open for clients.
    pub open: OpenSegments,
    /// G, where the scheme lets it be chosen.
    pub group: Option<u32>,
    /// Capacity of each zone; that of the drive unless a run must fill many.
    pub zone_capacity_blocks: u32,
    /// Size of the volume.
    pub volume_blocks: u64,
    /// Physical space of the array.
    pub space: Space,
    /// Clients begin on drives that have been written to for long: see [`HostedDrive::busy_from`].
    pub busy: bool,
    /// Segments that clients have filled before, from the start of the volume on: [`FilledDrive`].
    pub filled_segments: Option<u32>,
    /// Map of zones to channel groups; `None` is that of the profile.
    pub zone_map: Option<ZoneMap>,
    /// Interval of checkpoints.
    pub checkpoints: CheckpointEvery,
    /// Interval of summaries of open segments.
    pub summaries: SummaryEvery,
    /// Bytes of the index that are kept in memory; `None` is no limit.
    pub index_memory: Option<u64>,
    /// Entries of a group of the index; `None` is as many as a block holds.
    pub index_group_entries: Option<usize>,
    /// Zones of each drive for the write area.
    pub write_area_zones: u32,
    /// Lifetime estimate that tells which blocks are worth a slot of it.
    pub lifetimes: Lifetimes,
    /// Use of its slots.
    pub slot_use: SlotUse,
    /// Constants of the adaptive policy.
    pub constants: Constants,
    /// Seed of the drives.
    pub seed: u64,
}

/// Constants of the adaptive policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Constants {
    /// Constants of which segments are open, and of their chunks.
    pub shape: Shape,
    /// Constants of decisions while the array is served.
    pub tuned: Tuned,
}

/// Physical space of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// So much that this many stripes can be written before anything is collected.
    Stripes(u64),
    /// Blocks of data that fit at least, and no more than a segment beyond.
    Blocks(u64),
}

impl Plan {
    /// The array of a setting: zones as large as those of the drive.
    ///
    /// # Errors
    /// When there is no such profile or level.
    pub fn new(scheme: Scheme, setting: &Setting, seed: u64) -> Result<Plan> {
        let profile = Profile::load(setting.profile)?;
        let level = Level::from_code(setting.level).context("a level of this version")?;
        Ok(Plan {
            zone_capacity_blocks: profile.geometry().zone_capacity_blocks,
            profile,
            odd_profile: None,
            scheme,
            level,
            drives: setting.drives,
            chunk_blocks: setting.chunk_kib / BLOCK_KIB,
            open: OpenSegments {
                small: setting.small_segments,
                large: setting.large_segments,
                large_chunk_blocks: blocks_of_kib(setting.large_chunk_kib.unwrap_or(0)),
                append: scheme.append_use(),
            },
            group: setting.group,
            volume_blocks: 0,
            space: Space::Stripes(0),
            busy: false,
            filled_segments: None,
            zone_map: setting.zone_map.map(str::parse::<ZoneMap>).transpose().map_err(anyhow::Error::msg)?,
            checkpoints: CheckpointEvery::Never,
            summaries: SummaryEvery::Auto,
            index_memory: None,
            index_group_entries: None,
            write_area_zones: setting.write_area_zones.unwrap_or(0),
            lifetimes: Lifetimes::default(),
            slot_use: SlotUse::default(),
            constants: Constants::default(),
            seed,
        })
    }

    /// A volume of [`SEGMENTS_FILLED`] segments in zones of so many blocks, with so much space in reserve, and clients
    /// that keep drives busy from the start.
    ///
    /// # Errors
    /// When there can be no such array.
    pub fn fill_segments(&mut self, zone_blocks: u32, reserved_percent: u32) -> Result<()> {
        self.fill_so_many(SEGMENTS_FILLED, zone_blocks, reserved_percent)
    }

    /// The same with a volume of so many segments.
    ///
    /// # Errors
    /// When there can be no such array.
    pub fn fill_so_many(&mut self, segments: u64, zone_blocks: u32, reserved_percent: u32) -> Result<()> {
        self.zone_capacity_blocks = zone_blocks;
        self.profile = self.profile.with_small_zones(zone_blocks);
        self.odd_profile = self.odd_profile.take().map(|odd| odd.with_small_zones(zone_blocks));
        self.volume_blocks = 1;
        self.busy = true;
        let segment_blocks = u64::from(self.config()?.user_layout().segment_data_blocks());
        self.volume_blocks = segments * segment_blocks / 16 * 16;
        self.space = Space::Blocks(self.volume_blocks * u64::from(100 + reserved_percent) / 100);
        Ok(())
    }

    /// The write area gets fewer zones where the array cannot afford as many.
    ///
    /// # Errors
    /// When there can be no such array.
    pub fn afford_write_area(&mut self) -> Result<()> {
        let config = self.config()?;
        if let Some(NoWriteArea::TooMany { zones_max }) =
            config.no_write_area(self.write_area_zones, &self.tuning())
        {
            self.write_area_zones = zones_max;
        }
        Ok(())
    }

    fn uses_areas(&self) -> bool {
        matches!(self.scheme, Scheme::Area | Scheme::Biza | Scheme::Zraid) || self.write_area_zones > 0
    }

    /// The array as the engine knows it.
    ///
    /// # Errors
    /// When there can be no such array.
    pub fn config(&self) -> Result<ArrayConfig> {
        let areas = self.profile.geometry_with_areas().areas.filter(|_| self.uses_areas());
        let geometry = Geometry {
            zones: 0,
            zone_size_blocks: self.zone_capacity_blocks,
            zone_capacity_blocks: self.zone_capacity_blocks,
            volatile_cache: false,
            areas,
            ..self.profile.geometry()
        };
        let mut config = ArrayConfig {
            array: *b"virtual array 02",
            level: self.level,
            members: self.drives,
            chunk_blocks: self.chunk_blocks,
            group_stripes: 1,
            open: self.open,
            volume_blocks: 1,
            geometry,
        };
        config.geometry.zones = sizing::zones_min(&config);
        config.validate()?;
        config.group_stripes = self.scheme.group_stripes(self.group, config.user_layout().stripes);
        let layout = config.user_layout();
        let stripes_per_segment = u64::from(layout.stripes);
        let spare_open = u64::from(self.open.small + self.open.large).saturating_sub(1);
        let segments = match self.space {
            Space::Stripes(stripes) => {
                let data = stripes.div_ceil(stripes_per_segment);
                data + SEGMENTS_SPARE + spare_open + u64::from(self.write_area_zones)
            }
            Space::Blocks(blocks) => blocks.div_ceil(u64::from(layout.segment_data_blocks())),
        };
        let is_enough = |config: &ArrayConfig| {
            let holds = matches!(self.space, Space::Blocks(_))
                || config.volume_blocks_max() >= self.volume_blocks + self.image_blocks_max();
            holds && u64::from(config.segments()) >= segments
        };
        let config = sizing::fit_zones(config, self.volume_blocks, is_enough)?;
        Ok(match self.scheme {
            Scheme::Adaptive => {
                let traits = DriveTraits { has_write_buffer: self.profile.has_write_buffer() };
                config.adaptive_as(traits, &self.constants.shape)
            }
            Scheme::BizaPolicy => config.biza(self.write_area_zones),
            _ => config,
        })
    }

    /// The array whose clients have filled a volume of so many blocks at least: whole segments. Checkpoints are written.
    ///
    /// # Errors
    /// When there can be no such array.
    pub fn filled(mut self, volume_blocks: u64) -> Result<Plan> {
        self.volume_blocks = 1;
        let layout = self.config()?.user_layout();
        let segment_blocks = u64::from(layout.segment_data_blocks());
        let segments = volume_blocks.div_ceil(segment_blocks);
        self.volume_blocks = segments * segment_blocks;
        self.space = Space::Stripes(segments * u64::from(layout.stripes));
        self.filled_segments = Some(u32::try_from(segments)?);
        self.checkpoints = CheckpointEvery::Auto;
        Ok(self)
    }

    /// Room for a checkpoint and for the one before it: each is about a 900th of the volume.
    fn image_blocks_max(&self) -> u64 {
        match self.checkpoints {
            CheckpointEvery::Never => 0,
            _ => self.volume_blocks / 256,
        }
    }

    fn tuning(&self) -> Tuning {
        let (policy, gc) = self.scheme.policies();
        Tuning {
            policy,
            gc,
            checkpoints: self.checkpoints,
            summaries: self.summaries,
            index_memory: self.index_memory,
            index_group_entries: self.index_group_entries,
            write_area_zones: self.write_area_zones,
            lifetimes: self.lifetimes,
            slot_use: self.slot_use,
            tuned: self.constants.tuned,
            ..Tuning::default()
        }
    }
}

/// An array at work.
pub struct Rig {
    config: ArrayConfig,
    plan: Plan,
    volume: LogVolume,
    clock: Clock,
    now: Instant,
    mount_time: Nanos,
    mount_memory: Bytes,
    next_id: u64,
    replies: Vec<Reply>,
    /// Decisions of the policy that nobody has taken yet, where they are kept.
    decisions: Vec<Decided>,
    /// Drives made so far; each has a seed and a UUID of its own.
    drives_made: u64,
}

/// A decision of the policy, and when it was made.
#[derive(Clone, Copy, Debug)]
pub struct Decided {
    /// Time of the decision.
    pub at: Instant,
    /// The decision.
    pub decision: Decision,
    /// Snapshot that it was made from.
    pub seen: Seen,
}

/// A request was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Number that [`Rig::submit`] returned.
    pub id: u64,
    /// Time of the answer.
    pub at: Instant,
}

/// Request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Write, or else read.
    pub writes: bool,
    /// First block.
    pub lba: u64,
    /// Count of blocks.
    pub blocks: u32,
}

/// An array that clients ask, whatever its engine.
pub trait Array {
    /// The time.
    fn now(&self) -> Instant;

    /// Size of the volume.
    fn volume_blocks(&self) -> u64;

    /// Hands a request to the engine; zeros are written. Returns its number.
    fn submit(&mut self, ask: Ask) -> u64;

    /// Hands a write to the engine that is durable when it is answered, also where drives have volatile caches. To an array that knows no
    /// other writes it is any.
    fn submit_forced(&mut self, ask: Ask) -> u64 {
        self.submit(ask)
    }

    /// Hands a flush to the engine.
    fn flush(&mut self) -> u64;

    /// Lets time pass until requests are answered, but not beyond `until`.
    ///
    /// # Errors
    /// When a request fails, or nothing is under way that could answer one.
    fn wait(&mut self, until: Option<Instant>, answers: &mut Vec<Answer>) -> Result<()>;

    /// Returns how many blocks were decoded for reads.
    fn blocks_decoded(&self) -> u64;
}

impl<A: Array + ?Sized> Array for Box<A> {
    fn now(&self) -> Instant {
        (**self).now()
    }

    fn volume_blocks(&self) -> u64 {
        (**self).volume_blocks()
    }

    fn submit(&mut self, ask: Ask) -> u64 {
        (**self).submit(ask)
    }

    fn submit_forced(&mut self, ask: Ask) -> u64 {
        (**self).submit_forced(ask)
    }

    fn flush(&mut self) -> u64 {
        (**self).flush()
    }

    fn wait(&mut self, until: Option<Instant>, answers: &mut Vec<Answer>) -> Result<()> {
        (**self).wait(until, answers)
    }

    fn blocks_decoded(&self) -> u64 {
        (**self).blocks_decoded()
    }
}

impl Rig {
    /// Meter of the writes to drives.
    #[must_use]
    pub fn meter(&self) -> &Meter {
        self.clock.meter()
    }
}

impl Array for Rig {
    fn now(&self) -> Instant {
        Rig::now(self)
    }

    fn volume_blocks(&self) -> u64 {
        Rig::volume_blocks(self)
    }

    fn submit(&mut self, ask: Ask) -> u64 {
        Rig::submit(self, ask)
    }

    fn submit_forced(&mut self, ask: Ask) -> u64 {
        self.submit_as(ask, true)
    }

    fn flush(&mut self) -> u64 {
        Rig::flush(self)
    }

    fn wait(&mut self, until: Option<Instant>, answers: &mut Vec<Answer>) -> Result<()> {
        Rig::wait(self, until, answers)
    }

    fn blocks_decoded(&self) -> u64 {
        self.volume.engine.counters().blocks_read_degraded
    }
}

impl Rig {
    /// Formats and mounts the array; its clock begins when it is there.
    ///
    /// # Errors
    /// When there can be no such array.
    pub fn new(plan: Plan) -> Result<Rig> {
        ensure!(plan.profile.has_zones(), "profile {} has no zones", plan.profile.name());
        let config = plan.config()?;
        let clock = Clock::default();
        let mut devices: Vec<Option<Box<dyn ZonedDevice>>> = Vec::new();
        let mut members = Vec::new();
        for number in 1..=plan.drives as u64 {
            let (device, uuid) = match plan.filled_segments {
                None => new_drive(&plan, config.geometry, &clock, number)?,
                Some(segments) => filled_drive(&plan, &config, segments, (&clock, number))?,
            };
            devices.push(Some(device));
            members.push(uuid);
        }
        let mut drives = DriveSet::new(devices);
        format(&mut drives, &config, &members)?;
        let mounted = bytes_during(|| mount(drives.into_inner(), plan.tuning(), MOUNTED_AT));
        let ((shard, drives, _), mount_memory) = (mounted.0?, mounted.1);
        let drives_made = plan.drives as u64;
        let volume = LogVolume::new(shard, drives);
        let (now, mount_time) = (BEGIN.max(clock.now()), clock.now().since(MOUNTED_AT));
        Ok(Rig {
            config,
            plan,
            volume,
            clock,
            now,
            mount_time,
            mount_memory,
            next_id: 0,
            replies: Vec::new(),
            decisions: Vec::new(),
            drives_made,
        })
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Returns the time that the first mount took.
    #[must_use]
    pub fn mount_time(&self) -> Nanos {
        self.mount_time
    }

    /// Returns the memory that the last mount allocated; nothing where the binary does not count.
    #[must_use]
    pub fn mount_memory(&self) -> Bytes {
        self.mount_memory
    }

    /// Has a checkpoint written, and waits until it counts.
    ///
    /// # Errors
    /// When there is no room for one, or as [`Rig::quiesce`].
    pub fn write_checkpoint(&mut self) -> Result<()> {
        self.volume.ask_for_checkpoint();
        self.quiesce()?;
        ensure!(self.volume.engine.has_checkpoint(), "no checkpoint was written");
        Ok(())
    }

    /// Keeps the policy's decisions from now on.
    pub fn keep_decisions(&mut self) {
        self.volume.engine.keep_decisions();
    }

    /// Returns the decisions since this was asked last.
    pub fn take_decisions(&mut self) -> Vec<Decided> {
        std::mem::take(&mut self.decisions)
    }

    /// Size of the volume.
    #[must_use]
    pub fn volume_blocks(&self) -> u64 {
        self.config.volume_blocks
    }

    /// The engine with its drives.
    #[must_use]
    pub fn volume(&self) -> &LogVolume {
        &self.volume
    }

    /// Hands a request to the engine; zeros are written.
    pub fn submit(&mut self, ask: Ask) -> u64 {
        self.submit_as(ask, false)
    }

    fn submit_as(&mut self, ask: Ask, force_unit_access: bool) -> u64 {
        let lba = Lba(ask.lba);
        let op = if ask.writes {
            let mut frames = Vec::new();
            let count = usize::try_from(ask.blocks).expect("a usize of blocks");
            self.volume.frames().take_many(count, &mut frames);
            fill_with_zeros(&mut frames);
            RequestOp::Write { lba, frames, force_unit_access }
        } else {
            RequestOp::Read { lba, blocks: ask.blocks }
        };
        self.next_id += 1;
        self.volume.submit(self.now, Request { id: RequestId(self.next_id), op });
        self.next_id
    }

    /// Hands a flush to the engine.
    pub fn flush(&mut self) -> u64 {
        self.next_id += 1;
        self.volume.submit(self.now, Request { id: RequestId(self.next_id), op: RequestOp::Flush });
        self.next_id
    }

    /// Lets time pass until requests are answered, but not beyond `until`.
    ///
    /// # Errors
    /// When a request fails, or nothing is under way that could answer one.
    pub fn wait(&mut self, until: Option<Instant>, answers: &mut Vec<Answer>) -> Result<()> {
        loop {
            self.rest()?;
            for mut reply in self.replies.drain(..) {
                ensure!(reply.outcome == Outcome::Done, "request {} failed", reply.id.0);
                self.volume.frames().give_many(&mut reply.frames);
                answers.push(Answer { id: reply.id.0, at: self.now });
            }
            if !answers.is_empty() {
                return Ok(());
            }
            if until.is_some_and(|until| until <= self.now) {
                return Ok(());
            }
            self.pass_time(until)?;
        }
    }

    /// Goes to the next instant at which there is something to do for the engine, but not beyond `until`.
    fn pass_time(&mut self, until: Option<Instant>) -> Result<()> {
        let next = self.volume.pass_time(Instant(self.now.0 + 1), until);
        self.now = next.context("work is left and nothing is under way")?;
        Ok(())
    }

    /// Runs until nothing is under way, background work included.
    ///
    /// # Errors
    /// When it never ends.
    pub fn quiesce(&mut self) -> Result<()> {
        loop {
            self.rest()?;
            ensure!(self.replies.is_empty(), "requests were left behind");
            if self.volume.is_at_rest() {
                return Ok(());
            }
            self.pass_time(None)?;
        }
    }

    /// Lets time pass with no requests.
    ///
    /// # Errors
    /// As [`Rig::quiesce`].
    pub fn idle(&mut self, span: Nanos) -> Result<()> {
        self.quiesce()?;
        self.now = self.now + span;
        self.quiesce()
    }

    /// Everything that can happen at this instant.
    fn rest(&mut self) -> Result<()> {
        let mut turns = 0;
        while self.volume.turn(self.now, &mut self.replies) {
            turns += 1;
            ensure!(turns < TURNS_MAX, "the engine does not come to rest");
        }
        let at = self.now;
        let decided = self.volume.engine.take_decisions().into_iter();
        self.decisions.extend(decided.map(|(decision, seen)| Decided { at, decision, seen }));
        Ok(())
    }

    /// A member is lost for good.
    ///
    /// # Errors
    /// As [`Rig::quiesce`].
    pub fn fail(&mut self, member: usize) -> Result<()> {
        self.volume.fail_member(DriveIndex::at(member));
        self.quiesce()
    }

    /// The power goes while requests are in flight, and comes back: the engine is gone, drives have done what they
    /// were given. Returns how long the mount took.
    ///
    /// # Errors
    /// When the array cannot be mounted.
    pub fn crash(self) -> Result<(Rig, Nanos)> {
        let Rig { config, plan, volume, clock, mut now, mount_time, next_id, drives_made, .. } = self;
        let mut drives = volume.drives;
        let mut ignored = Vec::new();
        while let Some(next) = drives.next_event() {
            now = now.max(next);
            drives.poll(now, &mut ignored);
        }
        let begin = clock.now().max(now);
        let mounted = bytes_during(|| mount(drives.into_inner(), plan.tuning(), begin));
        let ((shard, drives, _), mount_memory) = (mounted.0?, mounted.1);
        let now = clock.now();
        let mut rig = Rig {
            config,
            plan,
            volume: LogVolume::new(shard, drives),
            clock,
            now,
            mount_time,
            mount_memory,
            next_id,
            replies: Vec::new(),
            decisions: Vec::new(),
            drives_made,
        };
        // Blocks of torn stripes are moved before clients are served.
        while rig.volume.engine.has_recovery_debt() {
            rig.rest()?;
            let next = rig.volume.next_deadline();
            ensure!(next.is_some() || !rig.volume.engine.has_recovery_debt(), "recovery is stuck");
            rig.now = next.map_or(rig.now, |next| next.max(rig.now));
        }
        let took = rig.now.since(begin);
        Ok((rig, took))
    }

    /// The power goes while so many blocks are being written: the first answers are there, the others are on their
    /// way. Returns how long the mount took.
    ///
    /// # Errors
    /// As [`Rig::crash`].
    pub fn crash_in_writes(mut self, blocks: u64) -> Result<(Rig, Nanos)> {
        for lba in 0..blocks.min(self.volume_blocks()) {
            self.submit(Ask { writes: true, lba, blocks: 1 });
        }
        self.wait(None, &mut Vec::new())?;
        self.crash()
    }

    /// An empty drive takes the place of a failed member; returns how long its rebuild takes.
    ///
    /// # Errors
    /// When it cannot, or the array is not whole in the end.
    pub fn rebuild(&mut self, member: usize) -> Result<Nanos> {
        self.drives_made += 1;
        let (device, uuid) = new_drive(&self.plan, self.config.geometry, &self.clock, self.drives_made)?;
        let begin = self.now;
        self.volume.replace_member(self.now, DriveIndex::at(member), device, uuid)?;
        self.now = self.now.max(self.clock.now());
        self.quiesce()?;
        ensure!(self.volume.engine.status().health == Health::Clean, "the rebuild did not end");
        Ok(self.now.since(begin))
    }
}

/// A blank drive, and its UUID.
pub(super) fn new_drive(
    plan: &Plan,
    geometry: Geometry,
    clock: &Clock,
    number: u64,
) -> Result<(Box<dyn ZonedDevice>, [u8; 16])> {
    let uuid = uuid_of(number);
    Ok((hosted(plan, EmulatedDrive::sparse(geometry, uuid, Box::new(()))?, clock, number), uuid))
}

/// Fills the frames that clients write with zeros: no time that is measured depends on them, and drives keep nothing of
/// zeros but the metadata.
pub(super) fn fill_with_zeros(frames: &mut [Frame]) {
    frames.iter_mut().for_each(|frame| frame.data = [0; BLOCK_BYTES]);
}

/// The drive of a member that clients have filled, and its UUID.
fn filled_drive(
    plan: &Plan,
    config: &ArrayConfig,
    segments: u32,
    (clock, number): (&Clock, u64),
) -> Result<(Box<dyn ZonedDevice>, [u8; 16])> {
    let uuid = uuid_of(number);
    let filled = FilledDrive::new(config, usize::try_from(number - 1)?, segments);
    let drive = EmulatedDrive::sparse(config.geometry, uuid, Box::new(filled))?;
    Ok((hosted(plan, drive, clock, number), uuid))
}

fn uuid_of(number: u64) -> [u8; 16] {
    u128::from(number).to_be_bytes()
}

fn hosted(plan: &Plan, drive: EmulatedDrive, clock: &Clock, number: u64) -> Box<dyn ZonedDevice> {
    // Seeds of runs are small and follow one another; drives of two runs share none.
    let seed = plan.seed << 16 | number;
    let model = ModelOptions { seed, zone_map: plan.zone_map, ..ModelOptions::default() };
    let odd = plan.odd_profile.as_ref().filter(|_| number == 1);
    let profile = odd.unwrap_or(&plan.profile);
    let think_us = profile.stack(HostStack::Spdk).map_or(0.0, |stack| stack.think_us);
    let drive = TimedDrive::new(drive, profile, model);
    let hosted = HostedDrive::new(drive, Nanos(whole_ns(think_us)), clock.clone());
    Box::new(hosted.busy_from(plan.busy.then_some(BEGIN)))
}

/// Blocks of a size in KiB.
#[must_use]
pub fn blocks_of_kib(kib: u32) -> u32 {
    kib / BLOCK_KIB
}

/// Bytes of blocks.
#[must_use]
pub fn bytes_of(blocks: u32) -> u64 {
    u64::from(blocks) * BLOCK_BYTES_U64
}
