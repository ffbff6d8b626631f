//! What the engine's structures take in memory, per TiB of the volume, beside the formulas of the ZapRAID paper.
//!
//! A volume is written from start to end over null drives with zones of a ZN540, and the sizes of the live structures
//! are read off. What grows with the volume is given per TiB: the index in proportion to the volume, stripe tables in
//! proportion to the data of the segments that are sealed. The paper counts 4 bytes per block for the L2P table (section
//! 3.1) and (k+m) S Z ceil(log2 G) bits for the stripe tables of Z segments (section 3.2).

use crate::precise::precise_u64;
use crate::{null_array, sizing};
use anyhow::{Context, Result, ensure};
use array::log::config::{ArrayConfig, OpenSegments, Tuning};
use array::log::volume::LogVolume;
use array::request::{Outcome, Reply, Request, RequestId, RequestOp, Volume};
use base::time::Instant;
use base::units::{BLOCK_BYTES_U64, Lba};
use serde::Serialize;
use zone::device::Geometry;
use zone::stripe::table::Packing;
use zone::stripe::{Layout, Level};

/// Blocks of a request while the volume is written, and requests in flight.
const REQUEST_BLOCKS: u64 = 64;
const QUEUE_DEPTH: u64 = 16;
/// Capacity of a zone: 1,077 MiB.
const ZONE_CAPACITY_BLOCKS: u32 = 275_712;
const TIB: u64 = 1 << 40;

/// The array.
#[derive(Clone, Debug)]
pub struct MemoryRun {
    /// RAID level.
    pub level: Level,
    /// Drives.
    pub drives: usize,
    /// Bytes of each chunk.
    pub chunk_bytes: u64,
    /// Stripes of a group.
    pub group_stripes: u32,
    /// Packing of stripe tables.
    pub stripe_table: Packing,
    /// Most bytes of stripe tables of sealed segments that stay.
    pub stripe_tables_bytes_max: Option<u64>,
    /// Bytes of the volume that is written.
    pub size_bytes: u64,
}

/// Memory of one structure.
#[derive(Clone, Debug, Serialize)]
pub struct StructureMemory {
    /// Name of the structure.
    pub structure: &'static str,
    /// Bytes in the volume that was written.
    pub bytes: u64,
    /// Per TiB of the volume; null for what does not grow with it.
    pub bytes_per_tib: Option<f64>,
    /// The same by the paper's formula, where it has one.
    pub paper_bytes_per_tib: Option<f64>,
}

/// Results of a run.
#[derive(Clone, Debug, Serialize)]
pub struct MemoryReport {
    /// RAID level.
    pub level: u8,
    /// Drives.
    pub drives: usize,
    /// Bytes of each chunk.
    pub chunk_bytes: u64,
    /// Stripes of a group.
    pub group_stripes: u32,
    /// `bits` or `bytes`.
    pub stripe_table: &'static str,
    /// Bytes of the volume that was written.
    pub volume_bytes: u64,
    /// Each structure.
    pub structures: Vec<StructureMemory>,
    /// All that grow with the volume.
    pub bytes_per_tib: f64,
    /// The paper's formulas together.
    pub paper_bytes_per_tib: f64,
}

/// Writes a volume and measures its structures.
///
/// # Errors
/// When there can be no such array, or the volume fills no segment.
pub fn run(options: &MemoryRun) -> Result<MemoryReport> {
    let config = config_of(options)?;
    let layout = config.user_layout();
    let MemoryRun { stripe_table, stripe_tables_bytes_max, .. } = *options;
    let tuning = Tuning { stripe_table, stripe_tables_bytes_max, ..Tuning::default() };
    let mut volume = null_array::mounted(&config, tuning)?;
    write_all(&mut volume, config.volume_blocks)?;
    let sealed = volume.engine.status().segments_sealed;
    ensure!(sealed > 0, "a volume of this size fills no segment: raise --size");
    let sealed_bytes = sealed * u64::from(layout.segment_data_blocks()) * BLOCK_BYTES_U64;
    let volume_bytes = config.volume_blocks * BLOCK_BYTES_U64;
    let structures: Vec<StructureMemory> = volume
        .engine
        .memory()
        .rows()
        .into_iter()
        .map(|(structure, bytes)| {
            let per_tib = |of: u64| precise_u64(bytes) * precise_u64(TIB) / precise_u64(of);
            let (bytes_per_tib, paper) = match structure {
                "index" => (Some(per_tib(volume_bytes)), Some(l2p_bytes_per_tib())),
                "stripe_tables" => (Some(per_tib(sealed_bytes)), Some(stripe_table_bytes_per_tib(&layout))),
                "trimmed" | "segments" => (Some(per_tib(volume_bytes)), None),
                _ => (None, None),
            };
            StructureMemory { structure, bytes, bytes_per_tib, paper_bytes_per_tib: paper }
        })
        .collect();
    Ok(MemoryReport {
        level: options.level.code(),
        drives: options.drives,
        chunk_bytes: options.chunk_bytes,
        group_stripes: options.group_stripes,
        stripe_table: match options.stripe_table {
            Packing::Bits => "bits",
            Packing::Bytes => "bytes",
        },
        volume_bytes,
        bytes_per_tib: structures.iter().filter_map(|structure| structure.bytes_per_tib).sum(),
        paper_bytes_per_tib: structures.iter().filter_map(|structure| structure.paper_bytes_per_tib).sum(),
        structures,
    })
}

/// 4 bytes for each block (section 3.1).
fn l2p_bytes_per_tib() -> f64 {
    4.0 * precise_u64(TIB / BLOCK_BYTES_U64)
}

/// ceil(log2 G) bits for each chunk of the segments that hold a TiB of data (section 3.2); nothing under Zone Write.
fn stripe_table_bytes_per_tib(layout: &Layout) -> f64 {
    if layout.group_stripes == 1 {
        return 0.0;
    }
    let bits = f64::from(layout.group_stripes.min(layout.stripes)).log2().ceil();
    let stripes = precise_u64(TIB) / precise_u64(u64::from(layout.stripe_data_blocks()) * BLOCK_BYTES_U64);
    stripes * precise_u64(layout.members() as u64) * bits / 8.0
}

fn config_of(options: &MemoryRun) -> Result<ArrayConfig> {
    let geometry = Geometry {
        zones: 0,
        zone_size_blocks: ZONE_CAPACITY_BLOCKS.next_power_of_two(),
        zone_capacity_blocks: ZONE_CAPACITY_BLOCKS,
        open_zones_max: 14,
        active_zones_max: 14,
        append_blocks_max: 256,
        transfer_blocks_max: 256,
        volatile_cache: false,
        areas: None,
    };
    let config = ArrayConfig {
        array: *b"null array 00001",
        level: options.level,
        members: options.drives,
        chunk_blocks: u32::try_from(options.chunk_bytes / BLOCK_BYTES_U64).context("--chunk is too large")?,
        group_stripes: options.group_stripes,
        open: OpenSegments::default(),
        volume_blocks: 0,
        geometry,
    };
    let blocks = (options.size_bytes / BLOCK_BYTES_U64).next_multiple_of(REQUEST_BLOCKS);
    Ok(sizing::fit_volume(config, blocks)?)
}

/// Writes the volume from start to end.
fn write_all(volume: &mut LogVolume, volume_blocks: u64) -> Result<()> {
    let (mut next, mut in_flight, mut clock) = (0, 0, 0);
    let mut replies: Vec<Reply> = Vec::new();
    while next < volume_blocks || in_flight > 0 || !volume.is_at_rest() {
        while next < volume_blocks && in_flight < QUEUE_DEPTH {
            let mut frames = Vec::new();
            volume.frames().take_many(usize::try_from(REQUEST_BLOCKS)?, &mut frames);
            let op = RequestOp::Write { lba: Lba(next), frames, force_unit_access: false };
            volume.submit(Instant(clock), Request { id: RequestId(next), op });
            next += REQUEST_BLOCKS;
            in_flight += 1;
        }
        clock += 1_000;
        volume.turn(Instant(clock), &mut replies);
        for mut reply in replies.drain(..) {
            ensure!(reply.outcome == Outcome::Done, "a write failed");
            volume.frames().give_many(&mut reply.frames);
            in_flight -= 1;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing that grows with the volume takes more than the paper's formulas, but for the list of segments.
    #[test]
    fn no_more_than_the_paper() {
        for (level, drives, chunk_bytes, group_stripes) in
            [(Level::Raid5, 4, 16384, 256), (Level::Raid6, 6, 8192, 4096), (Level::Raid0, 2, 16384, 20)]
        {
            let options = MemoryRun {
                level,
                drives,
                chunk_bytes,
                group_stripes,
                stripe_table: Packing::Bits,
                stripe_tables_bytes_max: None,
                size_bytes: 5 << 30,
            };
            let run = super::run(&options).unwrap();
            let of = |name| run.structures.iter().find(|row| row.structure == name).unwrap();
            let table = of("stripe_tables");
            let ratio = table.bytes_per_tib.unwrap() / table.paper_bytes_per_tib.unwrap();
            assert!((ratio - 1.0).abs() < 1e-4, "{level} {group_stripes}: {ratio}");
            let index = of("index");
            assert!(index.bytes_per_tib.unwrap() < 1.001 * index.paper_bytes_per_tib.unwrap());
            let (ours, paper) = (run.bytes_per_tib, run.paper_bytes_per_tib);
            assert!(ours < 1.001 * paper, "{level} {group_stripes}: {ours} and {paper}");
            let dropped = super::run(&MemoryRun { stripe_tables_bytes_max: Some(0), ..options }).unwrap();
            assert!(dropped.bytes_per_tib < run.bytes_per_tib - 0.999 * table.bytes_per_tib.unwrap());
        }
    }
}
