//! The whole array on modelled drives, in virtual time: the engine is the one that is served, the clock
//! jumps from event to event, and a run is a function of code, options and seed.

use crate::experiment::scheme::{GROUP_STRIPES, Scheme};
use crate::precise::precise_u64;
use crate::sizing;
use crate::workload::{Figures, Measured, whole_ns};
use anyhow::{Result, ensure};
use array::engine::Engine;
use array::log::config::{ArrayConfig, OpenSegments, Tuning};
use array::log::policy::adaptive::DriveTraits;
use array::log::volume::LogVolume;
use array::log::{format, mount};
use array::request::{Outcome, Reply, Request, RequestId, RequestOp, Volume};
use base::random::Random;
use base::time::Instant;
use base::units::{BLOCK_BYTES_U64, Lba};
use drive::emulated::{EmulatedDrive, TimedDrive};
use drive::inband::layout::{JOURNAL_ZONES, Layout};
use drive::inband::{self, InbandDrive};
use drive::timing::{ModelOptions, Profile};
use drive::units::CACHED_UNITS;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use zone::device::{Command, Completion, Geometry, Op, ZonedDevice};
use zone::drives::DriveSet;
use zone::stripe::Level;

/// Zones of a run, scaled down so that a volume of some hundred MiB has many: costs of whole zones scale
/// with what is in them.
const ZONE_CAPACITY_BLOCKS: u32 = 4096;
/// Turns at one instant after which the engine is stuck.
const TURNS_MAX: u32 = 1_000_000;

/// Virtual time in which a drive answers, and more than anybody waits for.
const SECONDS_MIN: f64 = 0.0001;
const SECONDS_MAX: f64 = 86_400.0;
/// The drives lie in memory.
const SIZE_BYTES_MAX: u64 = 1 << 36;

/// Access pattern of clients, in fio's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Random reads of a volume that was filled.
    RandRead,
    /// Random writes of a volume that was filled.
    RandWrite,
    /// Sequential reads of a volume that was filled.
    Read,
    /// Sequential writes.
    Write,
}

/// Options of a run.
#[derive(Clone, Debug)]
pub struct ArrayRun {
    /// The drives.
    pub profile: Profile,
    /// RAID level.
    pub level: Level,
    /// Drives.
    pub drives: usize,
    /// Placement scheme of stripes: adaptive, as arrays that are made have it, or one of the fixed ones of the log.
    pub scheme: Scheme,
    /// Bytes of each chunk of a fixed scheme.
    pub chunk_bytes: u64,
    /// Size of the volume.
    pub size_bytes: u64,
    /// Space beyond what the volume needs, in percent of it.
    pub spare_percent: u64,
    /// Access pattern of clients.
    pub pattern: Pattern,
    /// Bytes of each request.
    pub block_bytes: u64,
    /// Requests in flight.
    pub queue_depth: u32,
    /// Virtual time measured.
    pub seconds: f64,
    /// Seed of the drives and of the clients.
    pub seed: u64,
    /// Place of the metadata of blocks.
    pub identity: Identity,
}

/// Memory for identities of each drive, where a drive of its own keeps them, in bytes.
pub const IDENTITY_CACHE_BYTES: u64 = CACHED_UNITS as u64 * BLOCK_BYTES_U64;

/// Place of the metadata of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// The drives keep metadata with their blocks.
    Metadata,
    /// In-band: the drives keep no metadata, and it lies among the data (ADR 64).
    InBand {
        /// Memory for them of each drive, in bytes.
        cache_bytes: u64,
    },
}

/// Results of a run.
#[derive(Clone, Debug, Serialize)]
pub struct ArrayRunReport {
    /// The drives.
    pub profile: String,
    /// Latencies and throughput.
    #[serde(flatten)]
    pub figures: Figures,
    /// Blocks written to drives per block written by clients, parity not counted, filling included.
    pub write_amplification: Option<f64>,
    /// Bytes of blocks written to drives while it was measured, for each byte that clients wrote: parity and identities in-band included.
    pub drive_bytes_per_user_byte: Option<f64>,
}

/// Runs.
///
/// # Errors
/// When the array cannot be made like this, or a request fails.
pub fn run(options: &ArrayRun) -> Result<ArrayRunReport> {
    let mut clients = Clients::new(options)?;
    if options.pattern != Pattern::Write {
        clients.fill()?;
    }
    let written_before = clients.written_bytes();
    let measured = clients.measure()?;
    let written = clients.written_bytes() - written_before;
    ensure!(
        !measured.latencies_us.is_empty(),
        "no request was answered within --seconds {}: give more",
        options.seconds
    );
    let writes = matches!(options.pattern, Pattern::RandWrite | Pattern::Write);
    Ok(ArrayRunReport {
        profile: options.profile.name().to_owned(),
        write_amplification: clients.volume.engine.counters().write_amplification(),
        drive_bytes_per_user_byte: writes.then(|| precise_u64(written) / precise_u64(measured.bytes)),
        figures: measured.figures(),
    })
}

/// Clients in a closed loop, and the array they use.
struct Clients<'a> {
    options: &'a ArrayRun,
    volume: LogVolume,
    /// Bytes written to each drive.
    written: Vec<Arc<AtomicU64>>,
    now: Instant,
    random: Random,
    next_id: u64,
    next_place: u64,
    /// Times at which the requests in flight were submitted.
    submitted: BTreeMap<u64, Instant>,
    replies: Vec<Reply>,
}

impl<'a> Clients<'a> {
    fn new(options: &'a ArrayRun) -> Result<Clients<'a>> {
        let sizes = [options.block_bytes, options.chunk_bytes, options.size_bytes];
        ensure!(
            sizes.iter().all(|bytes| *bytes > 0 && bytes.is_multiple_of(BLOCK_BYTES_U64)),
            "sizes must be multiples of 4096 and not zero"
        );
        ensure!(options.profile.has_zones(), "profile {} has no zones", options.profile.name());
        ensure!(options.queue_depth > 0, "--iodepth is at least 1");
        ensure!(
            (SECONDS_MIN..=SECONDS_MAX).contains(&options.seconds),
            "--seconds {}: give at least {SECONDS_MIN}, and at most {SECONDS_MAX}",
            options.seconds
        );
        ensure!(
            options.block_bytes <= options.size_bytes,
            "--bs {} exceeds --size {}",
            options.block_bytes,
            options.size_bytes
        );
        ensure!(
            options.size_bytes <= SIZE_BYTES_MAX,
            "--size {}: the drives lie in memory, so at most {SIZE_BYTES_MAX}",
            options.size_bytes
        );
        let config = config_of(options)?;
        let members: Vec<[u8; 16]> =
            (1..=options.drives).map(|member| [u8::try_from(member).unwrap_or(u8::MAX); 16]).collect();
        let mut devices: Vec<Option<Box<dyn ZonedDevice>>> = Vec::new();
        let mut written = Vec::new();
        for (uuid, seed) in members.iter().zip(options.seed..) {
            let (device, bytes) = device_of(options, config.geometry, (*uuid, seed))?;
            devices.push(Some(device));
            written.push(bytes);
        }
        let mut drives = DriveSet::new(devices);
        format(&mut drives, &config, &members)?;
        // Drives in virtual time have been busy until some instant; mounting waits for them from there.
        let now = Instant(1_000_000_000);
        let (policy, gc) = options.scheme.policies();
        let tuning = Tuning { policy, gc, ..Tuning::default() };
        let (shard, drives, _) = mount(drives.into_inner(), tuning, now)?;
        let frames = u64::from(options.queue_depth).saturating_mul(options.block_bytes / BLOCK_BYTES_U64);
        let frames_max = shard.client_frames_available() as u64;
        ensure!(
            frames <= frames_max,
            "--iodepth {} requests of --bs {} hold {frames} blocks of 4096 bytes at a time; the engine has {frames_max} for \
             clients",
            options.queue_depth,
            options.block_bytes
        );
        Ok(Clients {
            options,
            volume: LogVolume::new(shard, drives),
            written,
            now: Instant(2_000_000_000),
            random: Random::from_seed(options.seed),
            next_id: 0,
            next_place: 0,
            submitted: BTreeMap::new(),
            replies: Vec::new(),
        })
    }

    fn written_bytes(&self) -> u64 {
        self.written.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum()
    }

    fn blocks_per_request(&self) -> u64 {
        self.options.block_bytes / BLOCK_BYTES_U64
    }

    fn places(&self) -> u64 {
        self.volume.engine.blocks() / self.blocks_per_request()
    }

    /// Writes the whole volume once.
    fn fill(&mut self) -> Result<()> {
        let first = self.places().min(u64::from(self.options.queue_depth));
        let mut left = self.places() - first;
        for _ in 0..first {
            self.submit(Pattern::Write);
        }
        while !self.submitted.is_empty() {
            for _ in 0..self.wait(None)? {
                if left > 0 {
                    left -= 1;
                    self.submit(Pattern::Write);
                }
            }
        }
        Ok(())
    }

    fn measure(&mut self) -> Result<Measured> {
        let span_us = self.options.seconds * 1e6;
        let end = Instant(self.now.0 + whole_ns(span_us));
        let mut measured = Measured { span_us, ..Measured::default() };
        for _ in 0..self.options.queue_depth {
            self.submit(self.options.pattern);
        }
        while self.now < end {
            for _ in 0..self.wait(Some(&mut measured))? {
                self.submit(self.options.pattern);
            }
        }
        Ok(measured)
    }

    fn submit(&mut self, pattern: Pattern) {
        let blocks = self.blocks_per_request();
        let place = match pattern {
            Pattern::RandRead | Pattern::RandWrite => self.random.below(self.places()),
            Pattern::Read | Pattern::Write => self.next_place % self.places(),
        };
        self.next_place += 1;
        let lba = Lba(place * blocks);
        let op = match pattern {
            Pattern::RandRead | Pattern::Read => {
                RequestOp::Read { lba, blocks: u32::try_from(blocks).expect("a u32 of blocks") }
            }
            Pattern::RandWrite | Pattern::Write => {
                let mut frames = Vec::new();
                let count = usize::try_from(blocks).expect("a usize of blocks");
                self.volume.frames().take_many(count, &mut frames);
                RequestOp::Write { lba, frames, force_unit_access: false }
            }
        };
        self.next_id += 1;
        self.submitted.insert(self.next_id, self.now);
        self.volume.submit(self.now, Request { id: RequestId(self.next_id), op });
    }

    /// Lets time pass until requests are answered; returns how many.
    fn wait(&mut self, mut measured: Option<&mut Measured>) -> Result<usize> {
        let mut answered = 0;
        let mut turns = 0;
        while answered == 0 {
            while self.volume.turn(self.now, &mut self.replies) {
                turns += 1;
                ensure!(turns < TURNS_MAX, "the engine does not come to rest");
            }
            for mut reply in std::mem::take(&mut self.replies) {
                ensure!(reply.outcome == Outcome::Done, "a request failed");
                self.volume.frames().give_many(&mut reply.frames);
                let submitted = self.submitted.remove(&reply.id.0).expect("answered once");
                if let Some(measured) = &mut measured {
                    measured.latencies_us.push(precise_u64(self.now.since(submitted).0) / 1000.0);
                    measured.bytes += self.options.block_bytes;
                }
                answered += 1;
            }
            if answered == 0 {
                let next = self.volume.next_deadline();
                self.now = next.map_or(self.now, |next| next.max(Instant(self.now.0 + 1)));
                ensure!(next.is_some(), "nothing is under way and nothing answered");
            }
        }
        Ok(answered)
    }
}

/// Limits of the drives, and scaled-down zones: as few as make a drive.
fn geometry_of(options: &ArrayRun) -> Geometry {
    Geometry {
        zones: JOURNAL_ZONES + 1,
        zone_size_blocks: ZONE_CAPACITY_BLOCKS,
        zone_capacity_blocks: ZONE_CAPACITY_BLOCKS,
        volatile_cache: false,
        areas: None,
        ..options.profile.geometry()
    }
}

/// A drive of the array, and how many bytes are written to it.
fn device_of(
    options: &ArrayRun,
    geometry: Geometry,
    (uuid, seed): ([u8; 16], u64),
) -> Result<(Box<dyn ZonedDevice>, Arc<AtomicU64>)> {
    let bytes = Arc::default();
    let counted = |geometry| -> Result<CountedDrive> {
        let model = ModelOptions { seed, ..ModelOptions::default() };
        let drive = TimedDrive::new(EmulatedDrive::on_heap(geometry, uuid)?, &options.profile, model);
        Ok(CountedDrive { drive, bytes: Arc::clone(&bytes) })
    };
    let device: Box<dyn ZonedDevice> = match options.identity {
        Identity::Metadata => Box::new(counted(geometry)?),
        Identity::InBand { cache_bytes } => {
            let units = usize::try_from(cache_bytes / BLOCK_BYTES_U64)?;
            ensure!(units > 0, "--identity-cache {cache_bytes}: give at least {BLOCK_BYTES_U64}");
            let zones = geometry.zones + JOURNAL_ZONES;
            Box::new(in_band(counted(Geometry { zones, ..geometry_of(options) })?, uuid, units)?)
        }
    };
    Ok((device, bytes))
}

/// A drive with identities in-band over one whose metadata nobody looks at.
fn in_band(mut device: CountedDrive, uuid: [u8; 16], units: usize) -> Result<InbandDrive<CountedDrive>> {
    let mut now = Instant(1);
    let mut carry_out = |device: &mut CountedDrive, command: Command| {
        device.submit(now, command);
        let mut completions = Vec::new();
        while completions.is_empty() {
            now = device.next_event()?.max(now);
            device.poll(now, &mut completions);
        }
        completions.pop()
    };
    inband::format(&mut device, uuid, &mut carry_out)?;
    Ok(inband::open(device, units, &mut carry_out)?)
}

/// A drive whose written blocks are counted.
struct CountedDrive {
    drive: TimedDrive,
    bytes: Arc<AtomicU64>,
}

impl ZonedDevice for CountedDrive {
    fn geometry(&self) -> &Geometry {
        self.drive.geometry()
    }

    fn submit(&mut self, now: Instant, command: Command) {
        if let Op::Write { frames, .. } | Op::Append { frames } = &command.op {
            self.bytes.fetch_add(frames.len() as u64 * BLOCK_BYTES_U64, Ordering::Relaxed);
        }
        self.drive.submit(now, command);
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        self.drive.poll(now, completions);
    }

    fn next_event(&self) -> Option<Instant> {
        self.drive.next_event()
    }
}

/// An array of scaled-down zones, as many as the volume needs and the spare space.
fn config_of(options: &ArrayRun) -> Result<ArrayConfig> {
    let device = geometry_of(options);
    let geometry = match options.identity {
        Identity::Metadata => device,
        Identity::InBand { .. } => Layout::of(&device, None)?.geometry(&device),
    };
    let geometry = Geometry { zones: 0, ..geometry };
    let is_adaptive = options.scheme == Scheme::Adaptive;
    let chunk_bytes = if is_adaptive { BLOCK_BYTES_U64 } else { options.chunk_bytes };
    let config = ArrayConfig {
        array: *b"virtual array 01",
        level: options.level,
        members: options.drives,
        chunk_blocks: u32::try_from(chunk_bytes / BLOCK_BYTES_U64)?,
        group_stripes: if options.scheme == Scheme::ZapRaid { GROUP_STRIPES } else { 1 },
        open: OpenSegments::default(),
        volume_blocks: 0,
        geometry,
    };
    let volume_blocks = options.size_bytes / BLOCK_BYTES_U64;
    let wanted = volume_blocks + volume_blocks * options.spare_percent / 100;
    let config = sizing::fit_zones(config, volume_blocks, |config| config.volume_blocks_max() >= wanted)?;
    let traits = DriveTraits { has_write_buffer: options.profile.has_write_buffer() };
    Ok(match options.scheme {
        Scheme::Adaptive => config.adaptive(traits),
        Scheme::BizaPolicy => config.biza(0),
        _ => config,
    })
}
