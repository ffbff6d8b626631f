//! `zoneweave cache create`: drives, superblocks, `cache.toml`, in this order, so that a cache that is named is one
//! that works.

use super::directory::{CacheDirectory, CacheDrive};
use super::memory;
use super::options::{CacheCreate, CacheShape};
use crate::exit::Exit;
use crate::signals::Interruption;
use anyhow::{Context, Result};
use base::time::Instant;
use base::units::{BLOCK_BYTES_U64, human_bytes};
use cache::CacheConfig;
use drive::emulated::{CreateOptions, EmulatedDrive};
use std::path::{Path, PathBuf};
use zone::device::{Geometry, ZonedDevice};
use zone::drives::DriveSet;

const DRIVES: usize = 4;
const SIZE_BYTES: u64 = 4 << 30;
/// Zones of a drive, about: enough that evicting one loses little.
const ZONES_WANTED: u64 = 64;
/// Bounds of the zone capacity, in blocks: 1 MiB to the ZN540's 1,077 MiB.
const CAPACITY_BLOCKS: (u64, u64) = (256, 275_712);
/// Zones beyond those for data: superblocks, journal, and two that are being emptied.
const ZONES_BEYOND: u64 = 6;
/// More zones than any drive we know.
const ZONES_MAX: u64 = 1 << 17;
/// As the emulated drives of arrays have it.
const OPEN_ZONES_MAX: u32 = 14;
const APPEND_BLOCKS_MAX: u32 = 32;
const TRANSFER_BLOCKS_MAX: u32 = 64;

/// Creates a cache and says so.
pub fn run(options: &CacheCreate) -> Result<Exit> {
    let directory = create(&options.dir, options.shape)?;
    let dir = options.dir.display();
    println!("created {dir}: {} of flash on {} drives", directory.file.size, directory.file.drive.len());
    let memory = memory::beyond_default(flash_bytes(options.shape)?);
    let memory = memory.map(|memory| format!(" --memory {memory}")).unwrap_or_default();
    println!("serve it with `zoneweave cache serve {dir}{memory}`");
    Ok(Exit::Well)
}

/// Drives that a new cache is to have, and their geometry.
fn shape_of(shape: CacheShape) -> Result<(usize, u64, Geometry)> {
    let count = shape.drives.unwrap_or(DRIVES);
    if count == 0 || count > cache::format::MEMBERS_MAX {
        let most = cache::format::MEMBERS_MAX;
        return Err(Exit::Usage.error(format!("--drives {count}: a cache has 1 to {most} drives")));
    }
    let size = shape.size.unwrap_or(SIZE_BYTES);
    Ok((count, size, geometry(size, count as u64)?))
}

/// Bytes of the drives of a new cache, for which its index is made.
pub fn flash_bytes(shape: CacheShape) -> Result<u64> {
    let (count, _, geometry) = shape_of(shape)?;
    cache::flash_of(&vec![Some(geometry); count]).map_err(|error| Exit::Usage.error(error))
}

/// Creates a cache, or leaves nothing behind.
pub fn create(dir: &Path, shape: CacheShape) -> Result<CacheDirectory> {
    match CacheDirectory::open(dir) {
        Ok(_) => {
            let dir = dir.display();
            return Err(Exit::Failed.error(format!("{dir}: holds a cache already; use another directory")));
        }
        Err(error) if Exit::of(&error) == Exit::Absent => {}
        Err(error) => return Err(error),
    }
    // What could not be served is not made.
    flash_bytes(shape)?;
    let (count, size, geometry) = shape_of(shape)?;
    let made_folder = !dir.exists();
    std::fs::create_dir_all(dir).with_context(|| format!("{}", dir.display()))?;
    let mut made = Vec::new();
    make(dir, geometry, count, size, &mut made).inspect_err(|_| {
        for path in &made {
            let _ = std::fs::remove_file(path);
        }
        if made_folder {
            let _ = std::fs::remove_dir(dir);
        }
    })
}

/// Drives for this much flash.
fn geometry(size: u64, drives: u64) -> Result<Geometry> {
    let blocks = size / BLOCK_BYTES_U64 / drives;
    let (least, most) = CAPACITY_BLOCKS;
    let capacity = (blocks / ZONES_WANTED).next_multiple_of(least).clamp(least, most);
    let zones = blocks.div_ceil(capacity).max(2) + ZONES_BEYOND;
    let too_large = || Exit::Usage.error("--size needs too many zones: use more drives, or less");
    if zones > ZONES_MAX {
        return Err(too_large());
    }
    let capacity = u32::try_from(capacity).map_err(|_| too_large())?;
    Ok(Geometry {
        zones: u32::try_from(zones).map_err(|_| too_large())?,
        zone_size_blocks: capacity.next_power_of_two(),
        zone_capacity_blocks: capacity,
        open_zones_max: OPEN_ZONES_MAX,
        active_zones_max: OPEN_ZONES_MAX,
        append_blocks_max: APPEND_BLOCKS_MAX,
        transfer_blocks_max: TRANSFER_BLOCKS_MAX,
        volatile_cache: false,
        areas: None,
    })
}

fn make(
    dir: &Path,
    geometry: Geometry,
    count: usize,
    size: u64,
    made: &mut Vec<PathBuf>,
) -> Result<CacheDirectory> {
    let interruption = Interruption::watch().context("signal handling")?;
    let mut devices: Vec<Option<Box<dyn ZonedDevice>>> = Vec::new();
    let mut drives = Vec::new();
    for index in 0..count {
        if interruption.is_asked() {
            return Err(Exit::Failed.error("interrupted: what was made is removed"));
        }
        let uuid = uuid::Uuid::new_v4();
        let drive = CacheDrive { path: PathBuf::from(format!("drive-{index}.zns")), uuid };
        let path = dir.join(&drive.path);
        drive::emulated::create(&path, &CreateOptions::new(geometry, *uuid.as_bytes()))?;
        made.push(path.clone());
        devices.push(Some(Box::new(EmulatedDrive::open(&path)?)));
        drives.push(drive);
    }
    let uuid = uuid::Uuid::new_v4();
    let config = CacheConfig {
        cache: *uuid.as_bytes(),
        // Random, and told to nobody: strangers who choose keys do not know where they fall.
        secret: *uuid::Uuid::new_v4().as_bytes(),
        drives: drives.iter().map(|drive| *drive.uuid.as_bytes()).collect(),
    };
    cache::format(&mut DriveSet::new(devices), Instant(0), &config)
        .map_err(|error| Exit::Usage.error(error))?;
    made.extend(["cache.toml.new", "cache.toml"].map(|name| dir.join(name)));
    CacheDirectory::create(dir, uuid, human_bytes(size), drives)
}
