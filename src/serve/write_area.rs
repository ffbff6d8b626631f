//! `--write-area`: a write area that an array cannot have is refused by name before clients are served.

use crate::exit::Exit;
use anyhow::Result;
use array::log::Shard;
use array::log::area::NoWriteArea;
use base::units::{BLOCK_BYTES_U64, DriveIndex, human_bytes};
use zone::device::Areas;
use zone::drives::DriveSet;

/// Refuses so many zones of each drive where array or drives cannot have them.
///
/// # Errors
/// When there can be no such area: what is in its way, and what to do.
pub fn expect(shard: &Shard, drives: &DriveSet, zones: u32) -> Result<()> {
    let Some(why) = (zones > 0).then(|| shard.no_write_area(zones)).flatten() else { return Ok(()) };
    let why = match why {
        NoWriteArea::Level => "mirrors and RAID-0 have none: leave --write-area away".to_owned(),
        NoWriteArea::NoWindows => format!("{}; leave --write-area away", windows_in_words(drives)),
        NoWriteArea::IndexOnDrives => {
            "it needs all of the index in memory: leave --index-memory away".to_owned()
        }
        NoWriteArea::TooMany { zones_max: 0 } => {
            let status = shard.status();
            format!(
                "the volume leaves no room for it, or the {} segments that are open for clients no active zones of the drives: \
                 create the array with a smaller --size, or on drives with more active zones (--max-open)",
                status.small_segments + status.large_segments
            )
        }
        NoWriteArea::TooMany { zones_max } => {
            format!(
                "the volume and the drives leave room for {zones_max} at most: use --write-area {zones_max}"
            )
        }
    };
    Err(Exit::Usage.error(format!("--write-area {zones}: {why}")))
}

/// Which drive has no windows that can be used, or other ones than the first.
fn windows_in_words(drives: &DriveSet) -> String {
    let all = (0..drives.len()).filter_map(|drive| Some((drive, drives.geometry(DriveIndex::at(drive))?)));
    let all: Vec<_> = all.collect();
    if let Some((drive, _)) = all.iter().find(|(_, geometry)| geometry.areas.is_none()) {
        return format!(
            "drive {drive} has no random write areas (emulated drives get them by --zrwa-window)"
        );
    }
    let has_cache = all.iter().find(|(_, geometry)| geometry.volatile_cache);
    if let Some((drive, _)) = has_cache {
        return format!(
            "drive {drive} has a volatile write cache, beside which no windows are used (files of emulated drives have one unless they \
             lie in memory, such as below /dev/shm)"
        );
    }
    let mut of_drives = all.iter().filter_map(|(drive, geometry)| Some((drive, geometry.areas?)));
    let Some((first, areas)) = of_drives.next() else { return "no drive is there".to_owned() };
    match of_drives.find(|(_, other)| *other != areas) {
        Some((drive, other)) => {
            format!("drive {drive} has {}, and drive {first} {}", in_words(&other), in_words(&areas))
        }
        None => format!("the drives have {}, in which no write area has room", in_words(&areas)),
    }
}

fn in_words(areas: &Areas) -> String {
    let bytes = |blocks: u32| human_bytes(u64::from(blocks) * BLOCK_BYTES_U64);
    let commit = if areas.explicit_commit { "" } else { " and no explicit commit" };
    format!(
        "random write areas of {} in units of {} in {} zones{commit}",
        bytes(areas.window_blocks),
        bytes(areas.granule_blocks),
        areas.zones_max
    )
}
