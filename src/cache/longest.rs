//! Longest value that a cache stores: as long as is asked for, where zones, the engine's memory and that of clients hold it.

use super::memory;
use super::options::CacheServiceOptions;
use crate::exit::Exit;
use anyhow::Result;
use base::units::{BLOCK_BYTES_U64, human_bytes};
use cache::Options;
use cache::format::page::ROOM_BYTES;
use cache::format::record::KEY_BYTES_MAX;
use server::cache_loop;
use zone::device::Geometry;

const MIB: u64 = 1 << 20;
/// Longest value, unless somebody asks for longer ones.
const OBJECT_BYTES: u64 = 16 * MIB;
/// A value has room several times in what clients have: arriving, under way, leaving.
const OBJECTS_IN_CLIENTS: u64 = 4;
/// Bytes beside a value in its zone: the longest key, and the head of the record.
const BESIDE_IN_ZONE: u64 = KEY_BYTES_MAX as u64 + 64;
/// Blocks of half a zone that hold no values.
const BLOCKS_BESIDE: u64 = 2;
/// Bytes beside a value in buffers: more than the longest key, and what they keep of a record.
const BESIDE_IN_BUFFERS: u64 = 2 * KEY_BYTES_MAX as u64;

/// Longest value in zones of so many blocks.
fn in_zone(blocks: u64) -> u64 {
    ((blocks / 2).saturating_sub(BLOCKS_BESIDE) * ROOM_BYTES as u64).saturating_sub(BESIDE_IN_ZONE)
}

/// Blocks of the smallest zones, in whole MiB, that hold such a value.
fn zone_for(value: u64) -> u64 {
    let blocks = 2 * ((value + BESIDE_IN_ZONE).div_ceil(ROOM_BYTES as u64) + BLOCKS_BESIDE);
    blocks.next_multiple_of(MIB / BLOCK_BYTES_U64)
}

/// Sharers of `--memory`.
#[derive(Clone, Copy)]
struct Sharers {
    /// Shards.
    shards: usize,
    /// Threads that serve connections.
    fronts: usize,
}

impl Sharers {
    /// Longest value for which there is memory.
    fn in_memory(self, memory: u64) -> u64 {
        let engine = Options { memory_bytes: memory::of_engine(memory), ..Options::default() };
        let buffers = engine.part_of(self.shards).stored_bytes_full().saturating_sub(BESIDE_IN_BUFFERS);
        buffers.min(memory::of_clients(memory) / self.fronts as u64 / OBJECTS_IN_CLIENTS)
    }

    /// The least `--memory` for such a value, in whole MiB.
    fn memory_for(self, value: u64) -> u64 {
        let enough = |mib: &u64| self.in_memory(mib * MIB) >= value;
        (1..1 << 24).find(enough).expect("a value of 512 MiB fits into a part of 16 TiB") * MIB
    }
}

/// The longest value of a cache whose shards have such slices of the drives, and what those need that nobody asked for but
/// that are usual.
///
/// # Errors
/// When a longer one is asked for, with what it would take.
pub fn judge(
    options: &CacheServiceOptions,
    slices: &[Option<Geometry>],
    shards: usize,
) -> Result<(u64, Option<String>)> {
    let wanted = options.object_max.unwrap_or(OBJECT_BYTES);
    let sharers = Sharers { shards, fronts: cache_loop::fronts(shards, options.cores) };
    let blocks = slices.iter().flatten().map(|slice| u64::from(slice.zone_capacity_blocks)).min();
    let (of_zones, of_memory) = (in_zone(blocks.unwrap_or(0)), sharers.in_memory(options.memory));
    let most = of_zones.min(of_memory);
    if wanted <= most {
        return Ok((wanted, None));
    }
    let memory = (of_memory < wanted).then(|| format!("--memory {}MiB", sharers.memory_for(wanted) / MIB));
    let zone = zone_for(wanted) * BLOCK_BYTES_U64 / MIB;
    let zones = (of_zones < wanted).then(|| format!("drives that were made with --zone-size {zone}MiB"));
    let lacking: Vec<String> = memory.into_iter().chain(zones).collect();
    let needs = format!("need {}", lacking.join(", and "));
    if options.object_max.is_some() {
        return Err(Exit::Usage.error(format!(
            "--object-max {}: values of up to {most} bytes can be stored; larger ones {needs}",
            human_bytes(wanted)
        )));
    }
    Ok((most, Some(format!("those of {} {needs}", human_bytes(wanted)))))
}

/// The same, and the log says what longer ones need.
///
/// # Errors
/// As [`judge`].
pub fn value(options: &CacheServiceOptions, slices: &[Option<Geometry>], shards: usize) -> Result<u64> {
    let (most, needs) = judge(options, slices, shards)?;
    if let Some(needs) = needs {
        log::info!("values of up to {most} bytes are stored: {needs}");
    }
    Ok(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_to_be_enough_is_enough() {
        for value in [1, 4096, 1_000_000, 16 * MIB, 512 * MIB] {
            let blocks = zone_for(value);
            assert!(in_zone(blocks) >= value && in_zone(blocks - 256) < value, "{value}: {blocks} blocks");
            for (shards, fronts) in [(1, 1), (2, 1), (2, 2), (1, 3), (64, 64)] {
                let sharers = Sharers { shards, fronts };
                let memory = sharers.memory_for(value);
                assert!(sharers.in_memory(memory) >= value && sharers.in_memory(memory - MIB) < value);
            }
        }
        assert!(in_zone(8192) < 16 * MIB, "half a zone of 32 MiB, and a key, is more than half a zone");
    }
}
