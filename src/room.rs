//! Room: what an array takes of its host, on disk and in memory, and whether that is there.

use crate::exit::Exit;
use anyhow::Result;
use array::log::config::ArrayConfig;
use base::units::{BLOCK_BYTES_U64, human_bytes};
use drive::emulated::{HostRoom, file_bytes};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use zone::device::Geometry;
use zone::format::superblock::Superblock;

/// Bytes of all drives together up to which an entry of the index takes four bytes, not five.
const SHORT_ENTRIES_MAX: u64 = 16 << 40;

/// Resources of the host that an array takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes of the file of each drive, once all of its zones were written.
    pub drive_bytes: u64,
    /// Drives.
    pub drives: u64,
    /// Bytes of memory for the index while it is served.
    pub index_bytes: u64,
}

impl Room {
    /// The room that an array of this configuration takes.
    pub fn of(config: &ArrayConfig) -> Room {
        Room {
            drive_bytes: file_bytes(&config.geometry),
            drives: config.members as u64,
            index_bytes: index_bytes(&config.geometry, config.members, config.volume_blocks),
        }
    }

    /// Refuses what the host cannot hold, unless it is forced. Drives in memory take their room at once, so force does
    /// not help there.
    pub fn expect_on_host(&self, paths: &[PathBuf], force: bool) -> Result<()> {
        let mut by_device: BTreeMap<u64, (HostRoom, u64, &Path)> = BTreeMap::new();
        for path in paths {
            let folder = existing_folder(path);
            let room = drive::emulated::host_room(folder)?;
            by_device.entry(room.device).or_insert((room, 0, folder)).1 += 1;
        }
        for (room, count, folder) in by_device.into_values() {
            let needed = self.drive_bytes.saturating_mul(count);
            if needed > room.bytes_free && (room.in_memory || !force) {
                return Err(Exit::Failed.error(format!(
                    "{count} drives need {} in all under {}, where {} are free: {}",
                    human_bytes(needed),
                    folder.display(),
                    human_bytes(room.bytes_free),
                    match room.in_memory {
                        true => "use a smaller --size, enlarge or clean up this file system, or put drives on a disk",
                        false => "use a smaller --size, put drives elsewhere with --drives-path, or let them take room as \
                                  it is written, and fail when there is none, with `zoneweave create --force`",
                    }
                )));
            }
        }
        let memory = memory_bytes("MemTotal").unwrap_or(u64::MAX);
        if self.index_bytes > memory && !force {
            return Err(Exit::Failed.error(format!(
                "the index of this volume takes {} of memory while it is served, and this host has {}: use a smaller \
                 --size, or `zoneweave create --force` to serve it elsewhere",
                human_bytes(self.index_bytes),
                human_bytes(memory)
            )));
        }
        Ok(())
    }
}

/// Refuses to start an array whose index does not fit into memory: an allocation that fails in the middle of a mount
/// would end the process instead.
pub fn expect_index_fits(record: &Superblock) -> Result<()> {
    let geometry = Geometry {
        zones: record.zones,
        zone_size_blocks: record.zone_size_blocks,
        zone_capacity_blocks: record.zone_capacity_blocks,
        open_zones_max: 1,
        active_zones_max: 1,
        append_blocks_max: 1,
        transfer_blocks_max: 1,
        volatile_cache: false,
        areas: None,
    };
    let needed = index_bytes(&geometry, record.members.len(), record.volume_blocks);
    let free = memory_bytes("MemAvailable")
        .map_or(u64::MAX, |bytes| bytes.saturating_add(memory_bytes("SwapFree").unwrap_or(0)));
    if needed <= free && can_allocate(needed) {
        return Ok(());
    }
    Err(Exit::Failed.error(format!(
        "the index of this volume of {} takes {} of memory, which this process cannot have ({} are free, and limits may \
         apply: `ulimit -v`): make room, or serve the array on a host with more memory",
        human_bytes(record.volume_blocks.saturating_mul(BLOCK_BYTES_U64)),
        human_bytes(needed),
        human_bytes(free)
    )))
}

/// Asks for the memory, and gives it back untouched.
fn can_allocate(bytes: u64) -> bool {
    let Ok(bytes) = usize::try_from(bytes) else { return false };
    lab::allocations::can_allocate(bytes)
}

fn index_bytes(geometry: &Geometry, members: usize, volume_blocks: u64) -> u64 {
    let drive = u64::from(geometry.zones).saturating_mul(u64::from(geometry.zone_capacity_blocks));
    let all = drive.saturating_mul(members as u64).saturating_mul(BLOCK_BYTES_U64);
    volume_blocks.saturating_mul(if all > SHORT_ENTRIES_MAX { 5 } else { 4 })
}

/// The folder that a new file lies in, or the next above that exists.
fn existing_folder(path: &Path) -> &Path {
    let there = |folder: &&Path| !folder.as_os_str().is_empty() && folder.is_dir();
    path.ancestors().skip(1).find(there).unwrap_or(Path::new("."))
}

/// A line of `/proc/meminfo`.
fn memory_bytes(name: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_host_has_is_refused_and_what_any_has_is_not() {
        let paths = [PathBuf::from("/tmp/no/such/folder/a"), PathBuf::from("/tmp/no/such/folder/b")];
        let room = |drive_bytes, index_bytes| Room { drive_bytes, drives: 2, index_bytes };
        room(4096, 4096).expect_on_host(&paths, false).unwrap();
        let error = room(1 << 60, 4096).expect_on_host(&paths, false).unwrap_err().to_string();
        assert!(error.contains("2 drives need 2 EiB in all") || error.contains("2 drives need"), "{error}");
        let error = room(4096, 1 << 60).expect_on_host(&paths, false).unwrap_err().to_string();
        assert!(error.contains("memory") && error.contains("--force"), "{error}");
        room(4096, 1 << 60).expect_on_host(&paths, true).unwrap();
        assert!(!can_allocate(u64::MAX) && can_allocate(4096));
    }
}
