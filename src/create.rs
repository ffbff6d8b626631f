//! `zoneweave create`: drives, superblocks, `array.toml`, in this order, so that an array that is
//! named is an array that works.

use crate::array_file::{DriveKind, VERSION};
use crate::cli::{AreaOptions, Create, CreateDrive, Scheme};
use crate::directory::{ArrayFile, Directory, DriveTable, EngineTable, SchemeTable, expect_no_cache};
use crate::exit::Exit;
use crate::exports::table::ExportList;
use crate::force::Force;
use crate::leftover;
use crate::raw::{APPEND_BLOCKS_MAX, Asked, Devices, TRANSFER_BLOCKS_MAX};
use crate::room::Room;
use crate::signals::Interruption;
use crate::steps::Steps;
use anyhow::{Context, Result};
use array::log::config::{ArrayConfig, OpenSegments};
use array::log::policy::adaptive::DriveTraits;
use base::units::{BLOCK_BYTES_U64, human_bytes};
use drive::any::AnyDrive;
use drive::emulated::CreateOptions;
use std::path::{Path, PathBuf};
use zone::device::{Areas, Geometry, ZonedDevice};
use zone::drives::DriveSet;
use zone::stripe::Level;

const DRIVES: usize = 4;
const SIZE_BYTES: u64 = 4 << 30;
/// A volume takes about this many segments unless told otherwise: few enough to be quick to look at,
/// enough to collect from smoothly.
const SEGMENTS_WANTED: u64 = 48;
/// Bounds of the zone capacity chosen, in blocks: 1 MiB to the ZN540's 1,077 MiB.
const CAPACITY_BLOCKS: (u64, u64) = (256, 275_712);
/// Space beyond the least that works (10 % over-provisioning): the collector moves about a third of
/// what it would have to move without. On a disk, emulated drives take room only for what is written.
pub const SPARE_PERCENT: u64 = 16;
/// More zones than any drive we know; beyond, the zones are too small for the volume.
const ZONES_MAX: u32 = 1 << 17;
/// C and G of the ZapRAID paper: what is validated before the engine chooses its segments.
const CHUNK_BLOCKS: u32 = 1;
const GROUP_STRIPES: u32 = 256;

/// Creates an array and says so.
pub fn run(options: &Create) -> Result<Exit> {
    let (directory, room) = create(options)?;
    let scheme = &directory.file.scheme;
    let dir = directory.path.display();
    println!("created {dir}: {} of {} over {} drives", scheme.size, scheme.level, room.drives);
    if room.drive_bytes > 0 {
        println!(
            "  on disk  {} when all of it was written: {} files of {}",
            human_bytes(room.drive_bytes.saturating_mul(room.drives)),
            room.drives,
            human_bytes(room.drive_bytes)
        );
    }
    println!("  memory   {} for the index while it is served", human_bytes(room.index_bytes));
    println!("serve it with `zoneweave serve {dir}`");
    Ok(Exit::Well)
}

/// The options of `create` that `up` leaves at their defaults.
pub fn with_defaults(dir: &Path, scheme: &Scheme, areas: AreaOptions) -> Create {
    Create {
        areas,
        dir: dir.to_owned(),
        scheme: Scheme { drives: scheme.drives, level: scheme.level, size: scheme.size },
        zones: None,
        zone_size: None,
        zone_capacity: None,
        max_open: 14,
        drives_path: Vec::new(),
        identity_journal: Vec::new(),
        force: Vec::new(),
    }
}

/// Creates an array, or leaves nothing behind.
pub fn create(options: &Create) -> Result<(Directory, Room)> {
    expect_none(options)?;
    let devices = Devices::of(asked(options))?;
    let config = config(options, devices.as_ref().map(Devices::geometry))?;
    let paths = match &devices {
        Some(devices) => expect_count(devices.paths().to_vec(), config.members)?,
        None => drive_paths(options, config.members)?,
    };
    let full: Vec<PathBuf> = paths.iter().map(|path| options.dir.join(path)).collect();
    let mut room = Room::of(&config);
    let force = Force::of(&options.force);
    match &devices {
        Some(devices) => {
            // They are there already.
            room.drive_bytes = 0;
            devices.expect_apart(force.is_said())?;
            devices.expect_free(&force)?;
        }
        None => leftover::clear(&full, force.is_said())?,
    }
    room.expect_on_host(&full, force.is_said())?;
    let tables = match &devices {
        Some(devices) => devices.tables()?,
        None => paths.into_iter().map(emulated).collect(),
    };
    let uuids: Vec<uuid::Uuid> = tables.iter().map(|table| table.uuid).collect();
    let file = file_of(&config, tables);
    let mut made = Made::default();
    match make((options, devices.as_ref()), &config, (&full, &uuids), file, &mut made) {
        Ok(directory) => Ok((directory, room)),
        Err(error) => {
            made.undo();
            Err(error)
        }
    }
}

/// Demands of the options on drives.
fn asked(options: &Create) -> Asked<'_> {
    Asked {
        paths: &options.drives_path,
        zone_size: options.zone_size,
        zones_wanted: None,
        shapes_zones: options.zones.is_some() || options.zone_capacity.is_some(),
        has_areas: options.areas.zrwa_window.is_some(),
        journals: &options.identity_journal,
    }
}

/// Refuses where an array is already, whatever can be told of it.
fn expect_none(options: &Create) -> Result<()> {
    let dir = options.dir.display();
    expect_no_cache(&options.dir)?;
    match Directory::open(&options.dir) {
        Ok(_) => Err(Exit::Failed.error(format!(
            "{dir}: holds an array already; use another directory, or give up its data with `zoneweave destroy {dir}`"
        ))),
        Err(error) if Exit::of(&error) == Exit::Absent => Ok(()),
        // An interrupted `create` has drives and no array.toml.
        Err(_) if !options.force.is_empty() && !options.dir.join("array.toml").exists() => Ok(()),
        Err(error) if !options.dir.join("array.toml").exists() => {
            let said = crate::exit::in_words(&error);
            Err(Exit::Failed.error(format!(
                "{said}; if an interrupted `create` left them, `zoneweave create {dir} --force` begins anew"
            )))
        }
        Err(error) => Err(error),
    }
}

/// Folder and files made for an array whose creation may still fail.
#[derive(Default)]
struct Made {
    folder: Option<PathBuf>,
    files: Vec<PathBuf>,
}

impl Made {
    /// Removes what was made; what was there before stays.
    fn undo(self) {
        for path in self.files {
            let _ = std::fs::remove_file(path);
        }
        if let Some(folder) = self.folder {
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// Drives, superblocks, `array.toml`.
fn make(
    (options, on): (&Create, Option<&Devices>),
    config: &ArrayConfig,
    (paths, uuids): (&[PathBuf], &[uuid::Uuid]),
    file: ArrayFile,
    made: &mut Made,
) -> Result<Directory> {
    let interruption = Interruption::watch().context("signal handling")?;
    let go_on = || match interruption.is_asked() {
        true => Err(Exit::Failed.error("interrupted: what was made is removed")),
        false => Ok(()),
    };
    if !options.dir.exists() {
        std::fs::create_dir_all(&options.dir).with_context(|| format!("{}", options.dir.display()))?;
        made.folder = Some(options.dir.clone());
    }
    let steps = Steps::new("drives made");
    let mut devices: Vec<Option<Box<dyn ZonedDevice>>> = Vec::new();
    for (index, (path, uuid)) in paths.iter().zip(uuids).enumerate() {
        go_on()?;
        steps.show(index, paths.len(), "");
        match on {
            Some(on) => on.format(path, *uuid.as_bytes())?,
            None => {
                drive::emulated::create(path, &CreateOptions::new(config.geometry, *uuid.as_bytes()))?;
                made.files.push(path.clone());
            }
        }
        devices.push(Some(AnyDrive::open(path)?.into_device()));
    }
    go_on()?;
    let members: Vec<[u8; 16]> = uuids.iter().map(|uuid| *uuid.as_bytes()).collect();
    array::log::format(&mut DriveSet::new(devices), config, &members)?;
    go_on()?;
    steps.end();
    made.files.extend(["array.toml.new", "array.toml"].map(|name| options.dir.join(name)));
    Directory::create(&options.dir, file)
}

/// An emulated drive that is to be made.
fn emulated(path: PathBuf) -> DriveTable {
    DriveTable { kind: Some(DriveKind::Emulated), path, id: None, journal: None, uuid: uuid::Uuid::new_v4() }
}

/// `array.toml` of a new array.
fn file_of(config: &ArrayConfig, drive: Vec<DriveTable>) -> ArrayFile {
    ArrayFile {
        version: VERSION,
        uuid: uuid::Uuid::from_bytes(config.array),
        discard: true,
        export: ExportList::default(),
        scheme: SchemeTable {
            level: config.level.name(config.members),
            chunk: human_bytes(u64::from(config.chunk_blocks) * BLOCK_BYTES_U64),
            group: config.group_stripes,
            size: human_bytes(config.volume_blocks * BLOCK_BYTES_U64),
        },
        engine: EngineTable::default(),
        drive,
        spare: Vec::new(),
    }
}

fn drive_paths(options: &Create, members: usize) -> Result<Vec<PathBuf>> {
    if options.drives_path.is_empty() {
        return Ok((0..members).map(|index| PathBuf::from(format!("drive-{index}.zns"))).collect());
    }
    let paths = expect_count(options.drives_path.clone(), members)?;
    // array.toml must stay right when the command is run from elsewhere.
    paths.iter().map(|path| std::path::absolute(path).context("--drives-path")).collect()
}

fn expect_count(paths: Vec<PathBuf>, members: usize) -> Result<Vec<PathBuf>> {
    if paths.len() == members {
        return Ok(paths);
    }
    let said = format!("--drives-path names {} drives, --drives asks for {members}", paths.len());
    Err(Exit::Usage.error(said))
}

/// Creates the file of a drive that is in no array.
pub fn drive(options: &CreateDrive) -> Result<Exit> {
    let geometry = Geometry {
        zones: options.zones,
        zone_size_blocks: options.zone_size.unwrap_or_else(|| options.zone_capacity.next_power_of_two()),
        zone_capacity_blocks: options.zone_capacity,
        open_zones_max: options.max_open,
        active_zones_max: options.max_open,
        append_blocks_max: APPEND_BLOCKS_MAX,
        transfer_blocks_max: TRANSFER_BLOCKS_MAX,
        volatile_cache: false,
        areas: areas_of(options.areas, options.max_open),
    };
    let uuid = *uuid::Uuid::new_v4().as_bytes();
    drive::emulated::create(&options.path, &CreateOptions::new(geometry, uuid))?;
    let bytes = |blocks: u32| human_bytes(u64::from(blocks) * BLOCK_BYTES_U64);
    let capacity = bytes(geometry.zone_capacity_blocks);
    println!("created {}: {} zones of {capacity}", options.path.display(), geometry.zones);
    if let Some(areas) = geometry.areas {
        let (window, granule) = (bytes(areas.window_blocks), bytes(areas.granule_blocks));
        println!(
            "  up to {} zones with a random write area of {window}, in units of {granule}",
            areas.zones_max
        );
    }
    Ok(Exit::Well)
}

/// Random write areas as asked for; what is wrong with them is said when a drive is made.
fn areas_of(options: AreaOptions, max_open: u32) -> Option<Areas> {
    let window_blocks = options.zrwa_window?;
    Some(Areas {
        zones_max: options.zrwa_zones.unwrap_or(max_open),
        window_blocks,
        granule_blocks: options.zrwa_granule.unwrap_or_else(|| (window_blocks / 4).max(1)),
        explicit_commit: true,
    })
}

/// The array's configuration: what was asked, and what follows from it and from the devices, if there are any.
fn config(options: &Create, devices: Option<Geometry>) -> Result<ArrayConfig> {
    let from_paths = Some(options.drives_path.len()).filter(|count| *count > 0);
    let asked = options.scheme.drives.or(from_paths);
    let (level, members) = match options.scheme.level {
        Some(choice) => choice.over(asked, DRIVES)?,
        None => (Level::Raid5, asked.unwrap_or(DRIVES)),
    };
    let data_count = level.erasure_code(members).map_or(1, |code| code.data_count()) as u64;
    let size = options.scheme.size.unwrap_or(SIZE_BYTES);
    let geometry = match devices {
        Some(geometry) => geometry,
        None => emulated_geometry(options, size, data_count)?,
    };
    let mut config = ArrayConfig {
        array: *uuid::Uuid::new_v4().as_bytes(),
        level,
        members,
        chunk_blocks: CHUNK_BLOCKS,
        group_stripes: GROUP_STRIPES,
        open: OpenSegments::default(),
        volume_blocks: size / BLOCK_BYTES_U64,
        geometry,
    };
    settle_zones(&mut config, options, devices.is_some() || options.zones.is_some())?;
    config.validate().map_err(|error| Exit::Usage.because(error))?;
    Ok(config.adaptive(DriveTraits::default()))
}

/// Zones of emulated drives. How many there are may follow from the size of the volume.
fn emulated_geometry(options: &Create, size: u64, data_count: u64) -> Result<Geometry> {
    let capacity = match options.zone_capacity {
        Some(capacity) => capacity,
        None => {
            let free = options.zone_size.map_or_else(|| capacity_for(size, data_count), |size| size / 4 * 3);
            let areas = areas_of(options.areas, options.max_open);
            areas.map_or(free, |areas| free.next_multiple_of(areas.granule_blocks))
        }
    };
    let zone_size = options.zone_size.unwrap_or_else(|| capacity.next_power_of_two());
    if capacity == 0 || capacity > zone_size {
        let (capacity, zone_size) =
            [capacity, zone_size].map(|blocks| human_bytes(u64::from(blocks) * BLOCK_BYTES_U64)).into();
        return Err(Exit::Usage.error(format!("--zone-capacity {capacity} exceeds --zone-size {zone_size}")));
    }
    Ok(Geometry {
        zones: options.zones.unwrap_or(u32::MAX),
        zone_size_blocks: zone_size,
        zone_capacity_blocks: capacity,
        open_zones_max: options.max_open,
        active_zones_max: options.max_open,
        append_blocks_max: APPEND_BLOCKS_MAX,
        transfer_blocks_max: TRANSFER_BLOCKS_MAX,
        volatile_cache: false,
        areas: areas_of(options.areas, options.max_open),
    })
}

/// Finds the number of zones, or where that is known and --size is not given, the size of the volume.
fn settle_zones(config: &mut ArrayConfig, options: &Create, zones_known: bool) -> Result<()> {
    let shape = ArrayConfig {
        volume_blocks: 1,
        geometry: Geometry { zones: 64, ..config.geometry },
        ..config.clone()
    };
    shape.validate().map_err(|error| Exit::Usage.because(error))?;
    if zones_known {
        if options.scheme.size.is_none() {
            config.volume_blocks = config.volume_blocks_max();
        }
        return Ok(());
    }
    let per_segment = u64::from(shape.user_layout().segment_data_blocks());
    let guess = config.volume_blocks / per_segment;
    let too_many =
        || Exit::Usage.error(format!("--size needs more than {ZONES_MAX} zones: raise --zone-capacity"));
    config.geometry.zones = u32::try_from(guess).map_err(|_| too_many())?;
    let wanted = config.volume_blocks + config.volume_blocks * SPARE_PERCENT / 100;
    while config.volume_blocks_max() < wanted {
        if config.geometry.zones >= ZONES_MAX {
            return Err(too_many());
        }
        config.geometry.zones += 1;
    }
    Ok(())
}

/// A zone capacity, in blocks, that gives about [`SEGMENTS_WANTED`] segments: a multiple of 1 MiB.
fn capacity_for(size_bytes: u64, data_count: u64) -> u32 {
    let (capacity_min, capacity_max) = CAPACITY_BLOCKS;
    let blocks = size_bytes / BLOCK_BYTES_U64 / (SEGMENTS_WANTED * data_count);
    let rounded = blocks.div_ceil(capacity_min) * capacity_min;
    u32::try_from(rounded.clamp(capacity_min, capacity_max)).unwrap_or(u32::MAX)
}
