//! What the engine itself costs per write: the real engine over null drives, on one core, in a
//! closed loop.
//!
//! Everything a write needs is done: index, ordering, CRC of data and of metadata, parity, the group
//! rule, out-of-band metadata, collection when space runs short. Only the drives do nothing, so
//! what collection reads back from them fails its checksum; the volume is therefore sized and
//! written so that victims are empty.
//!
//! ```text
//! log       64 in flight:            full stripes
//! padded    one, flushed:            a stripe for each
//! slots     one, flushed, anywhere:  a slot of the write area, and a full stripe later
//! absorbed  64, to blocks in slots:  over the older version there, and nothing more
//! ```

pub mod by_path;

use crate::allocations;
use crate::instructions::Instructions;
use crate::precise::precise_u64;
use crate::{null_array, sizing};
use anyhow::{Context, Result, ensure};
use array::log::config::{ArrayConfig, OpenSegments, Tuning};
use array::log::status::WriteAreaStatus;
use array::log::volume::LogVolume;
use array::request::{Outcome, Reply, Request, RequestId, RequestOp, Volume};
use base::frame::Frame;
use base::time::Instant;
use base::units::{BLOCK_BYTES_U64, Lba};
use serde::Serialize;
use std::time::Duration;
use zone::device::{Areas, Geometry};
use zone::stripe::Level;

/// Requests in flight.
const QUEUE_DEPTH: u64 = 64;
/// Size of the volume: 4 GiB, so that the index is larger than the caches, as in real use.
const VOLUME_BLOCKS: u64 = 1 << 20;
/// Places that are written in scrambled order before the next ones.
const WINDOW_PLACES: u64 = 1 << 16;
/// Longest warm-up: it ends when every segment has been collected once, so that every frame, table
/// and page of the index has been touched.
const WARM_UP_MAX: Duration = Duration::from_secs(30);
/// Zones of each drive for the write area, where writes go through it, and windows of a ZN540.
const AREA_ZONES: u32 = 4;
const AREAS: Areas = Areas { zones_max: 14, window_blocks: 256, granule_blocks: 4, explicit_commit: true };
/// Blocks that are overwritten in slots, about half as many as there are.
const HOT_BLOCKS: u64 = 1024;
/// Parts of the volume of which one is written where a stripe may hold one block: otherwise the log could not hold it.
const LONE_SHARE: u64 = 8;
/// Turns in which the write area is opened at most.
const OPENING_TURNS_MAX: u64 = 10_000;
/// Number of a flush, of which one is on its way at most.
const FLUSH: RequestId = RequestId(0);

/// Way of a write through the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Path {
    /// Many in flight, so that stripes are full.
    Log,
    /// Lone writes, flushed: a padded stripe for each.
    Padded,
    /// Lone writes, flushed: to a slot of the write area, which they leave in a full stripe.
    Slots,
    /// Many in flight, to blocks that slots hold.
    Absorbed,
}

impl Path {
    /// All of them.
    pub const ALL: [Path; 4] = [Path::Log, Path::Padded, Path::Slots, Path::Absorbed];

    /// Name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Path::Log => "log",
            Path::Padded => "padded",
            Path::Slots => "slots",
            Path::Absorbed => "absorbed",
        }
    }

    fn is_lone(self) -> bool {
        matches!(self, Path::Padded | Path::Slots)
    }

    fn area_zones(self) -> u32 {
        if matches!(self, Path::Slots | Path::Absorbed) { AREA_ZONES } else { 0 }
    }

    /// Blocks that are written, of a volume of so many.
    fn blocks(self, volume_blocks: u64) -> u64 {
        match self {
            Path::Log => volume_blocks,
            Path::Padded | Path::Slots => volume_blocks / LONE_SHARE,
            Path::Absorbed => HOT_BLOCKS,
        }
    }
}

impl std::str::FromStr for Path {
    type Err = String;

    fn from_str(name: &str) -> Result<Path, String> {
        let found = Path::ALL.into_iter().find(|path| path.name() == name);
        found.ok_or_else(|| {
            format!("there is no path `{name}`: one of {}", Path::ALL.map(Path::name).join(", "))
        })
    }
}

/// Options of a measurement.
#[derive(Clone, Debug)]
pub struct NullWrite {
    /// Bytes of each write.
    pub block_bytes: u64,
    /// Bytes of each chunk.
    pub chunk_bytes: u64,
    /// RAID level.
    pub level: Level,
    /// Drives.
    pub drives: usize,
    /// Stripes of a group.
    pub group_stripes: u32,
    /// Way of writes.
    pub path: Path,
    /// Length of the measurement.
    pub span: Span,
}

impl NullWrite {
    /// Writes of 4 KiB to RAID-5 of four drives in chunks of as much.
    #[must_use]
    pub fn of_4_kib() -> NullWrite {
        let (block_bytes, chunk_bytes, level) = (BLOCK_BYTES_U64, BLOCK_BYTES_U64, Level::Raid5);
        let span = Span::Seconds(3.0);
        NullWrite { block_bytes, chunk_bytes, level, drives: 4, group_stripes: 256, path: Path::Log, span }
    }
}

/// Length of a measurement.
#[derive(Clone, Copy, Debug)]
pub enum Span {
    /// Wall-clock time, after a warm-up.
    Seconds(f64),
    /// Turns of the engine from a fresh array on, without a warm-up: the same instructions in every run, for a program
    /// that counts them from outside.
    Turns(u64),
}

/// Results of a measurement. Figures are per 4-KiB block written by the client.
#[derive(Clone, Debug, Serialize)]
pub struct NullWriteReport {
    /// Time per 4-KiB write.
    pub ns_per_write: f64,
    /// 4-KiB writes per second.
    pub writes_per_second: f64,
    /// Allocations per 4-KiB write.
    pub allocations_per_write: f64,
    /// Instructions per 4-KiB write, where the machine counts them.
    pub instructions_per_write: Option<f64>,
    /// Blocks written to drives per block written, parity not counted.
    pub write_amplification: f64,
    /// 4-KiB writes measured.
    pub writes: u64,
    /// Way of writes.
    pub path: Path,
    /// Bytes of each write request.
    pub block_bytes: u64,
    /// Bytes of each chunk.
    pub chunk_bytes: u64,
    /// RAID level.
    pub level: u8,
    /// Drives.
    pub drives: usize,
    /// Stripes of a group.
    pub group_stripes: u32,
}

/// A client in a closed loop.
struct Client {
    volume: LogVolume,
    path: Path,
    blocks_per_write: u64,
    places: u64,
    /// True when one write is on its way at a time, and a flush behind it.
    is_lone: bool,
    unanswered: u64,
    next: u64,
    replies: Vec<Reply>,
    /// Emptied frame vectors of answered writes.
    spare: Vec<Vec<Frame>>,
    answered: u64,
    clock: u64,
    segments: u64,
}

/// Measures.
///
/// # Errors
/// When the array cannot be made like this, or a write fails.
pub fn run(options: &NullWrite) -> Result<NullWriteReport> {
    let mut client = client(options)?;
    client.begin()?;
    if matches!(options.span, Span::Seconds(_)) {
        client.warm_up()?;
    }
    let absorbed = client.volume.engine.counters().slot_blocks_absorbed;
    let allocations = allocations::count();
    let answered = client.answered;
    let mut instructions = Instructions::start();
    let started = std::time::Instant::now();
    match options.span {
        Span::Seconds(seconds) => client.run_for(Duration::from_secs_f64(seconds))?,
        Span::Turns(turns) => (0..turns).try_for_each(|_| client.turn())?,
    }
    let elapsed = started.elapsed();
    let instructions = instructions.as_mut().and_then(Instructions::count);
    let allocations = allocations::count() - allocations;
    let writes = (client.answered - answered) * client.blocks_per_write;
    ensure!(writes > 0, "no write was answered: raise --seconds or --turns");
    let counters = client.volume.engine.counters();
    let took_slots = counters.slot_blocks_written > 0;
    ensure!(took_slots == (options.path.area_zones() > 0), "writes took another path");
    let absorbed = counters.slot_blocks_absorbed - absorbed;
    // Those that are on their way when the measurement ends are not counted.
    let all_absorbed = absorbed + 2 * QUEUE_DEPTH >= writes;
    ensure!(options.path != Path::Absorbed || all_absorbed, "{absorbed} of {writes} writes were absorbed");
    let ns_per_write = elapsed.as_secs_f64() * 1e9 / precise_u64(writes);
    Ok(NullWriteReport {
        ns_per_write,
        writes_per_second: 1e9 / ns_per_write,
        allocations_per_write: precise_u64(allocations) / precise_u64(writes),
        instructions_per_write: instructions.map(|count| precise_u64(count) / precise_u64(writes)),
        write_amplification: client.volume.engine.counters().write_amplification().unwrap_or(0.0),
        writes,
        path: options.path,
        block_bytes: options.block_bytes,
        chunk_bytes: options.chunk_bytes,
        level: options.level.code(),
        drives: options.drives,
        group_stripes: options.group_stripes,
    })
}

/// A bijection of `0..window`, a power of two: odd multiplications and a shifted XOR.
fn scramble(place: u64, window: u64) -> u64 {
    let bits = window.trailing_zeros();
    let mixed = place.wrapping_mul(0x9e37_79b1) & (window - 1);
    (mixed ^ (mixed >> (bits / 2).max(1))).wrapping_mul(0x85eb_ca6b) & (window - 1)
}

fn client(options: &NullWrite) -> Result<Client> {
    ensure!(
        options.block_bytes > 0 && options.block_bytes.is_multiple_of(BLOCK_BYTES_U64),
        "--block {}: must be a multiple of 4096",
        options.block_bytes
    );
    let zones = options.path.area_zones();
    ensure!(zones == 0 || options.block_bytes == BLOCK_BYTES_U64, "--block: slots hold 4096 bytes");
    let tuning = Tuning { write_area_zones: zones, ..Tuning::default() };
    let config = config(options, &tuning)?;
    let blocks_per_write = options.block_bytes / BLOCK_BYTES_U64;
    Ok(Client {
        volume: null_array::mounted(&config, tuning)?,
        path: options.path,
        blocks_per_write,
        places: options.path.blocks(config.volume_blocks) / blocks_per_write,
        is_lone: options.path.is_lone(),
        unanswered: 0,
        next: 0,
        replies: Vec::new(),
        spare: Vec::new(),
        answered: 0,
        clock: 0,
        segments: u64::from(config.segments()),
    })
}

fn config(options: &NullWrite, tuning: &Tuning) -> Result<ArrayConfig> {
    let zones = tuning.write_area_zones;
    let geometry = Geometry {
        zones: 0,
        zone_size_blocks: 16384,
        zone_capacity_blocks: 12288,
        open_zones_max: 14,
        active_zones_max: 14,
        append_blocks_max: 32,
        transfer_blocks_max: 64,
        volatile_cache: false,
        areas: (zones > 0).then_some(AREAS),
    };
    let chunk_blocks =
        u32::try_from(options.chunk_bytes / BLOCK_BYTES_U64).context("--chunk is too large")?;
    let config = ArrayConfig {
        array: *b"null-write array",
        level: options.level,
        members: options.drives,
        chunk_blocks,
        group_stripes: options.group_stripes,
        open: OpenSegments::default(),
        volume_blocks: 0,
        geometry,
    };
    let blocks_max = VOLUME_BLOCKS + VOLUME_BLOCKS / 8;
    let area_blocks = u64::from(zones) * u64::from(geometry.zone_capacity_blocks) * options.drives as u64;
    let is_enough = |config: &ArrayConfig| config.volume_blocks_max() >= blocks_max + area_blocks;
    let config = sizing::fit_zones(config, VOLUME_BLOCKS, is_enough)?;
    let refused = (zones > 0).then(|| config.no_write_area(zones, tuning)).flatten();
    ensure!(refused.is_none(), "no write area of {zones} zones of each drive: {refused:?}");
    Ok(config)
}

impl Client {
    /// Opens the write area where there is one, and has the first requests on their way.
    fn begin(&mut self) -> Result<()> {
        let has_area = self.path.area_zones() > 0;
        for _ in 0..OPENING_TURNS_MAX {
            if !has_area || self.area().slots > 0 {
                break;
            }
            self.turn()?;
        }
        if self.path == Path::Absorbed {
            self.fill_slots()?;
        }
        (0..if self.is_lone { 1 } else { QUEUE_DEPTH }).for_each(|_| self.ask());
        Ok(())
    }

    fn area(&self) -> WriteAreaStatus {
        self.volume.engine.status().write_area.unwrap_or_default()
    }

    /// Writes hot blocks one by one until slots hold them all: the first may come before the area takes blocks.
    fn fill_slots(&mut self) -> Result<()> {
        self.is_lone = true;
        for _ in 0..2 * self.places {
            self.ask();
            while self.unanswered > 0 {
                self.turn_once(false)?;
            }
        }
        self.is_lone = false;
        let live = self.area().live;
        ensure!(live == self.places, "{live} of {} hot blocks are in slots", self.places);
        Ok(())
    }

    /// A request more, and the flush behind it where it is alone.
    fn ask(&mut self) {
        self.write();
        if self.is_lone {
            self.unanswered += 1;
            self.volume.submit(Instant(self.clock), Request { id: FLUSH, op: RequestOp::Flush });
        }
    }

    fn write(&mut self) {
        let mut frames = self.spare.pop().unwrap_or_default();
        let count = usize::try_from(self.blocks_per_write).unwrap_or(1);
        self.volume.frames().take_many(count, &mut frames);
        let lba = Lba(self.place() * self.blocks_per_write);
        let op = RequestOp::Write { lba, frames, force_unit_access: false };
        self.next += 1;
        self.unanswered += 1;
        self.volume.submit(Instant(self.clock), Request { id: RequestId(self.next), op });
    }

    /// Returns the place of the next write: every place of a window once, in scrambled order, then the next
    /// window. So writes are random to the index and the caches, and old segments hold nothing live
    /// when they are collected.
    fn place(&self) -> u64 {
        let window = WINDOW_PLACES.min(1 << self.places.ilog2());
        let base = self.next / window * window;
        (base + scramble(self.next % window, window)) % self.places
    }

    fn warm_up(&mut self) -> Result<()> {
        if self.path == Path::Absorbed {
            return self.run_for(Duration::from_millis(200));
        }
        let began = std::time::Instant::now();
        let segments = self.segments;
        while self.volume.engine.counters().segments_collected < segments {
            ensure!(began.elapsed() < WARM_UP_MAX, "not warm after {} s", WARM_UP_MAX.as_secs());
            self.run_for(Duration::from_millis(50))?;
        }
        Ok(())
    }

    fn run_for(&mut self, span: Duration) -> Result<()> {
        let end = std::time::Instant::now() + span;
        while std::time::Instant::now() < end {
            for _ in 0..256 {
                self.turn()?;
            }
        }
        Ok(())
    }

    /// Runs one turn; each answered write is followed by another.
    fn turn(&mut self) -> Result<()> {
        self.turn_once(true)
    }

    fn turn_once(&mut self, goes_on: bool) -> Result<()> {
        self.clock += 1_000;
        let mut replies = std::mem::take(&mut self.replies);
        self.volume.turn(Instant(self.clock), &mut replies);
        for reply in replies.drain(..) {
            ensure!(reply.outcome == Outcome::Done, "a write failed");
            self.unanswered -= 1;
            if reply.id != FLUSH {
                self.answered += 1;
                self.spare.push(reply.frames);
            }
            if goes_on && (!self.is_lone || self.unanswered == 0) {
                self.ask();
            }
        }
        self.replies = replies;
        Ok(())
    }
}
