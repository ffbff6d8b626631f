//! What the engine itself costs per write: the real engine over null drives, on one core, in a
//! closed loop.
//!
//! Everything a write needs is done: index, ordering, CRC of data and of metadata, parity, the group
//! rule, out-of-band metadata, collection when space runs short. Only the drives do nothing, so
//! what collection reads back from them fails its checksum; the volume is therefore sized and
//! written so that victims are empty.

use crate::allocations;
use crate::instructions::Instructions;
use crate::precise::precise_u64;
use crate::{null_array, sizing};
use anyhow::{Context, Result, ensure};
use array::log::config::{ArrayConfig, OpenSegments, Tuning};
use array::log::volume::LogVolume;
use array::request::{Outcome, Reply, Request, RequestId, RequestOp, Volume};
use base::frame::Frame;
use base::time::Instant;
use base::units::{BLOCK_BYTES_U64, Lba};
use serde::Serialize;
use std::time::Duration;
use zone::device::Geometry;
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
    /// Length of the measurement.
    pub span: Span,
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
    blocks_per_write: u64,
    places: u64,
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
    for _ in 0..QUEUE_DEPTH {
        client.write();
    }
    if matches!(options.span, Span::Seconds(_)) {
        client.warm_up()?;
    }
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
    let ns_per_write = elapsed.as_secs_f64() * 1e9 / precise_u64(writes);
    Ok(NullWriteReport {
        ns_per_write,
        writes_per_second: 1e9 / ns_per_write,
        allocations_per_write: precise_u64(allocations) / precise_u64(writes),
        instructions_per_write: instructions.map(|count| precise_u64(count) / precise_u64(writes)),
        write_amplification: client.volume.engine.counters().write_amplification().unwrap_or(0.0),
        writes,
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
    let geometry = Geometry {
        zones: 0,
        zone_size_blocks: 16384,
        zone_capacity_blocks: 12288,
        open_zones_max: 14,
        active_zones_max: 14,
        append_blocks_max: 32,
        transfer_blocks_max: 64,
        volatile_cache: false,
        areas: None,
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
    let config = sizing::fit_zones(config, VOLUME_BLOCKS, |config| config.volume_blocks_max() >= blocks_max)?;
    let blocks_per_write = options.block_bytes / BLOCK_BYTES_U64;
    Ok(Client {
        volume: null_array::mounted(&config, Tuning::default())?,
        blocks_per_write,
        places: config.volume_blocks / blocks_per_write,
        next: 0,
        replies: Vec::new(),
        spare: Vec::new(),
        answered: 0,
        clock: 0,
        segments: u64::from(config.segments()),
    })
}

impl Client {
    fn write(&mut self) {
        let mut frames = self.spare.pop().unwrap_or_default();
        let count = usize::try_from(self.blocks_per_write).unwrap_or(1);
        self.volume.frames().take_many(count, &mut frames);
        let lba = Lba(self.place() * self.blocks_per_write);
        let op = RequestOp::Write { lba, frames, force_unit_access: false };
        self.next += 1;
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
        self.clock += 1_000;
        let mut replies = std::mem::take(&mut self.replies);
        self.volume.turn(Instant(self.clock), &mut replies);
        for reply in replies.drain(..) {
            ensure!(reply.outcome == Outcome::Done, "a write failed");
            self.answered += 1;
            self.spare.push(reply.frames);
            self.write();
        }
        self.replies = replies;
        Ok(())
    }
}
