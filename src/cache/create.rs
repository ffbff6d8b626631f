//! `zoneweave cache create`: drives, superblocks, `cache.toml`, in this order, so that a cache that is named is one
//! that works.

use super::directory::{CacheDirectory, CacheDrive};
use super::memory;
use super::options::{CacheCreate, CacheShape};
use super::shards::bells;
use crate::exit::Exit;
use crate::force::Force;
use crate::leftover;
use crate::raw::{self, APPEND_BLOCKS_MAX, Asked, Devices, TRANSFER_BLOCKS_MAX};
use crate::signals::Interruption;
use anyhow::{Context, Result};
use base::time::Instant;
use base::units::{BLOCK_BYTES_U64, human_bytes};
use cache::CacheConfig;
use cache::config::{ACTIVE_ZONES_MIN, ZONES_MIN, active_zones};
use cache::spread::{SHARDS_MAX, identity_of};
use drive::any::AnyDrive;
use drive::emulated::CreateOptions;
use drive::slices::sets;
use std::path::{Path, PathBuf};
use uuid::Uuid;
use zone::device::{Geometry, ZonedDevice};

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
/// Shards that these suffice for.
const SHARDS_OF_EMULATED: usize = (OPEN_ZONES_MAX / ACTIVE_ZONES_MIN) as usize;

/// A cache that is to be made.
pub struct Plan {
    drives: Drives,
    /// Drives, and their zones.
    count: usize,
    geometry: Geometry,
    /// Flash of all drives together, in bytes.
    size: u64,
    /// Shards that they are cut into.
    shards: usize,
    force: Force,
}

/// Drives of the new cache.
enum Drives {
    /// Devices that are there already.
    Devices(Devices),
    /// Files that are to be made, by their paths from the directory of the cache.
    Files(Vec<PathBuf>),
}

impl Plan {
    /// Plan by the options, the devices, if there are any, and the cores that will serve the cache.
    ///
    /// # Errors
    /// When no cache can be made like that.
    pub fn of(shape: &CacheShape, cores: usize) -> Result<Plan> {
        let raw = |path: &PathBuf| match raw::device_of(path) {
            Some(_) => path.clone(),
            None => PathBuf::from(format!("raw:{}", path.display())),
        };
        let paths: Vec<PathBuf> =
            shape.drives_path.iter().cloned().chain(shape.conventional.iter().map(raw)).collect();
        let asked = Asked {
            paths: &paths,
            zone_size: shape.zone_size,
            zones_wanted: Some(ZONES_WANTED),
            shapes_zones: false,
            has_areas: false,
            journals: &[],
        };
        let devices = Devices::of(asked)?;
        let count = shape.drives.unwrap_or(if paths.is_empty() { DRIVES } else { paths.len() });
        if count == 0 || count > cache::format::MEMBERS_MAX {
            let most = cache::format::MEMBERS_MAX;
            return Err(Exit::Usage.error(format!("--drives {count}: a cache has 1 to {most} drives")));
        }
        if !paths.is_empty() && paths.len() != count {
            let named = paths.len();
            return Err(Exit::Usage.error(format!("{named} drives are named, --drives asks for {count}")));
        }
        let (geometry, size) = match (&devices, shape.size) {
            (Some(_), Some(_)) => {
                return Err(Exit::Usage.error("--size follows from the devices: leave it out"));
            }
            (Some(devices), None) => {
                let geometry = devices.geometry();
                (geometry, geometry.capacity_bytes() * count as u64)
            }
            (None, size) => {
                let size = size.unwrap_or(SIZE_BYTES);
                (geometry(size, (count as u64, shape.shards.unwrap_or(cores)), shape.zone_size)?, size)
            }
        };
        let drives = match devices {
            Some(devices) => Drives::Devices(devices),
            None if paths.is_empty() => {
                Drives::Files((0..count).map(|index| PathBuf::from(format!("drive-{index}.zns"))).collect())
            }
            // cache.toml must stay right when the command is run from elsewhere.
            None => {
                let paths = paths.iter().map(std::path::absolute).collect::<std::io::Result<_>>();
                Drives::Files(paths.context("--drives-path")?)
            }
        };
        let shards = shards(shape.shards, cores, &geometry)?;
        let plan = Plan { drives, count, geometry, size, shards, force: Force::of(&shape.force) };
        plan.flash_bytes()?;
        Ok(plan)
    }

    /// Bytes of the drives, for which the index is made.
    ///
    /// # Errors
    /// When a cache cannot be made of such drives.
    pub fn flash_bytes(&self) -> Result<u64> {
        let of_one = cache::flash_of(&self.slices()).map_err(|error| Exit::Usage.error(error))?;
        Ok(of_one * self.shards as u64)
    }

    /// Shards of the cache.
    pub fn shards(&self) -> usize {
        self.shards
    }

    /// Slices of the drives that each shard has.
    pub fn slices(&self) -> Vec<Option<Geometry>> {
        vec![Some(self.geometry.slice(self.shards)); self.count]
    }

    /// Refuses what may not be overwritten; returns the drives of the cache.
    fn take(&self, dir: &Path) -> Result<Vec<CacheDrive>> {
        match &self.drives {
            Drives::Devices(devices) => {
                devices.expect_apart(self.force.is_said())?;
                devices.expect_free(&self.force)?;
                let tables = devices.tables()?.into_iter();
                Ok(tables.map(|table| CacheDrive { path: table.path, uuid: table.uuid }).collect())
            }
            Drives::Files(paths) => {
                let full: Vec<PathBuf> = paths.iter().map(|path| dir.join(path)).collect();
                leftover::clear(&full, self.force.is_said())?;
                let drive = |path: &PathBuf| CacheDrive { path: path.clone(), uuid: Uuid::new_v4() };
                Ok(paths.iter().map(drive).collect())
            }
        }
    }
}

/// Creates a cache and says so.
pub fn run(options: &CacheCreate) -> Result<Exit> {
    let plan = Plan::of(&options.shape, 1)?;
    let directory = create(&options.dir, &plan)?;
    let dir = options.dir.display();
    println!("created {dir}: {} of flash on {} drives", directory.file.size, directory.file.drive.len());
    let memory = memory::beyond_default(plan.flash_bytes()?, plan.shards);
    let memory = memory.map(|memory| format!(" --memory {memory}")).unwrap_or_default();
    println!("serve it with `zoneweave cache serve {dir}{memory}`");
    Ok(Exit::Well)
}

/// Creates a cache, or leaves nothing behind but devices that are empty.
pub fn create(dir: &Path, plan: &Plan) -> Result<CacheDirectory> {
    match CacheDirectory::open(dir) {
        Ok(_) => {
            let dir = dir.display();
            return Err(Exit::Failed.error(format!("{dir}: holds a cache already; use another directory")));
        }
        Err(error) if Exit::of(&error) == Exit::Absent => {}
        Err(error) => return Err(error),
    }
    let drives = plan.take(dir)?;
    let made_folder = !dir.exists();
    std::fs::create_dir_all(dir).with_context(|| format!("{}", dir.display()))?;
    let mut made = Vec::new();
    make(dir, plan, drives, &mut made).inspect_err(|_| {
        for path in &made {
            let _ = std::fs::remove_file(path);
        }
        if made_folder {
            let _ = std::fs::remove_dir(dir);
        }
    })
}

/// Shards that drives are cut into: as many as are asked for, or as cores serve the cache, as far as drives allow it.
fn shards(asked: Option<usize>, cores: usize, geometry: &Geometry) -> Result<usize> {
    let fits = |shards: usize| cache::config::check_drive(0, &geometry.slice(shards)).is_ok();
    let most = (1..=SHARDS_MAX).rev().find(|shards| fits(*shards)).unwrap_or(1);
    match asked {
        Some(shards) if shards > most => {
            let (active, zones) = (active_zones(geometry), geometry.zones);
            Err(Exit::Usage.error(format!(
                "--shards {shards}: drives with {active} active zones and {zones} zones can be cut into {most}, for each shard needs \
                 {ACTIVE_ZONES_MIN} active zones and {ZONES_MIN} zones of each drive: say --shards {most}"
            )))
        }
        Some(shards) => Ok(shards),
        None => {
            if cores > most {
                log::info!("the cache has {most} shards, not {cores}: drives allow no more active zones");
            }
            Ok(most.min(cores))
        }
    }
}

/// Emulated drives for this much flash in so many shards, with zones of so many blocks or as many as suit them.
fn geometry(size: u64, (drives, shards): (u64, usize), zone_size: Option<u32>) -> Result<Geometry> {
    // More would be refused for want of active zones.
    let shards = shards.min(SHARDS_OF_EMULATED) as u64;
    let blocks = size / BLOCK_BYTES_U64 / drives;
    let (least, most) = CAPACITY_BLOCKS;
    let capacity = match zone_size {
        Some(blocks) => u64::from(blocks),
        None => (blocks / ZONES_WANTED).next_multiple_of(least).clamp(least, most),
    };
    let zones = (blocks.div_ceil(capacity).max(2 * shards) + shards * ZONES_BEYOND).next_multiple_of(shards);
    let too_large =
        || Exit::Usage.error("--size needs too many zones: use more drives, larger zones, or less");
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

/// Drives, superblocks, `cache.toml`.
fn make(dir: &Path, plan: &Plan, drives: Vec<CacheDrive>, made: &mut Vec<PathBuf>) -> Result<CacheDirectory> {
    let interruption = Interruption::watch().context("signal handling")?;
    let mut devices: Vec<Option<Box<dyn ZonedDevice>>> = Vec::new();
    for drive in &drives {
        if interruption.is_asked() {
            return Err(Exit::Failed.error("interrupted: what was made is removed"));
        }
        let (path, uuid) = (dir.join(&drive.path), *drive.uuid.as_bytes());
        match &plan.drives {
            Drives::Devices(devices) => devices.format(&path, uuid)?,
            Drives::Files(_) => {
                drive::emulated::create(&path, &CreateOptions::new(plan.geometry, uuid))?;
                made.push(path.clone());
            }
        }
        devices.push(Some(AnyDrive::open_as(&path, uuid)?.into_device()));
    }
    let uuid = Uuid::new_v4();
    // Random, and told to nobody: strangers who choose keys do not know where they fall.
    let secret = *Uuid::new_v4().as_bytes();
    for (number, mut set) in sets(devices, &bells(plan.shards)?).into_iter().enumerate() {
        let identities = drives.iter().map(|drive| *drive.uuid.as_bytes()).collect();
        let cache = identity_of(*uuid.as_bytes(), number, plan.shards);
        let config = CacheConfig { cache, secret, drives: identities };
        cache::format(&mut set, Instant(0), &config).map_err(|error| Exit::Usage.error(error))?;
    }
    made.extend(["cache.toml.new", "cache.toml"].map(|name| dir.join(name)));
    CacheDirectory::create(dir, uuid, human_bytes(plan.size), (plan.shards, drives))
}
