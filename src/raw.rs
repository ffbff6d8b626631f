//! Devices that become drives: NVMe namespaces with zones (`/dev/ng0n1`), zoned block devices without metadata, block devices that
//! are cut into zones, and files as such (`raw:PATH`).

use crate::array_file::{DriveKind, DriveTable};
use crate::exit::Exit;
use crate::force::{Force, expect_given_up};
use crate::host::Host;
use crate::md::target::Target;
use crate::shared_hardware::{self, SharedHardware};
use anyhow::Result;
use base::units::human_bytes;
use block::md::{Media, SECTOR_BYTES_U64};
use clap::builder::{PathBufValueParser, TypedValueParser};
use drive::any::Kind;
use drive::conventional::device::{ENDS_BYTES, format_device, is_conventional, layout_for, size_of};
use drive::conventional::label::Label;
use drive::conventional::layout::{Layout, UNIT_BLOCKS, UNIT_PLACES};
use drive::emulated::{DriveError, DriveProblem};
use drive::nvme::node;
use drive::nvme::open::{self, NvmeProblem, WornZones};
use drive::zoned::{self, Journal};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use uuid::Uuid;
use zone::device::Geometry;

/// Most blocks of a Zone Append and of any other transfer of a drive that is cut out of a device.
pub const APPEND_BLOCKS_MAX: u32 = 32;
pub const TRANSFER_BLOCKS_MAX: u32 = 64;

/// Bounds of zones of which a device is to have a number.
const ZONE_BYTES_FOR_MANY: (u64, u64) = (2 << 20, 1 << 30);

/// Path of a device that is to be a drive; `None` of a path for an emulated drive.
pub fn device_of(path: &Path) -> Option<PathBuf> {
    if let Some(raw) = path.to_str().and_then(|path| path.strip_prefix("raw:")) {
        return Some(PathBuf::from(raw));
    }
    let is_block = std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device());
    (is_block || node::is_nvme(path)).then(|| path.to_owned())
}

/// Path of a drive that is there: what `raw:FILE` was made of is looked at as FILE.
pub fn plain(path: PathBuf) -> PathBuf {
    device_of(&path).unwrap_or(path)
}

/// Parser of such paths.
pub fn path_parser() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().map(plain)
}

/// The path from wherever the command is run, which keeps its `raw:`.
pub fn absolute(path: &Path) -> std::io::Result<PathBuf> {
    match path.to_str().and_then(|path| path.strip_prefix("raw:")) {
        Some(raw) => Ok(PathBuf::from(format!("raw:{}", std::path::absolute(raw)?.display()))),
        None => std::path::absolute(path),
    }
}

/// Demands on the drives of a new array or cache.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Paths of drives that exist, or are to be made.
    pub paths: &'a [PathBuf],
    /// Zone size, in blocks.
    pub zone_size: Option<u32>,
    /// Zones that a drive is to have, about, where its zones may have any size; none leaves that to the drive.
    pub zones_wanted: Option<u64>,
    /// Zones are numbered or sized in ways that emulated drives take, and no others.
    pub shapes_zones: bool,
    /// Zones are to have random write areas.
    pub has_areas: bool,
    /// Devices for identity journals, one for each drive.
    pub journals: &'a [PathBuf],
}

/// Devices of a new array or cache, and what they are to it.
pub struct Devices {
    paths: Vec<PathBuf>,
    /// Devices of identity journals, one for each or none.
    journals: Vec<PathBuf>,
    zoning: Zoning,
}

/// Origin of the zones of devices.
enum Zoning {
    /// Ordinary devices, cut into zones by this layout.
    Cut(Layout),
    /// Zoned devices with metadata.
    Own(Geometry),
    /// Zoned devices without metadata, which lie in-band.
    InBand(Geometry),
}

impl Devices {
    /// The devices among `--drives-path`; `None` when they are files of emulated drives.
    pub fn of(asked: Asked<'_>) -> Result<Option<Devices>> {
        asked.paths.iter().try_for_each(|path| expect_no_folder(path))?;
        let devices: Vec<PathBuf> = asked.paths.iter().filter_map(|path| device_of(path)).collect();
        if devices.is_empty() {
            expect_no_journals(asked.journals)?;
            return asked.paths.iter().try_for_each(|path| expect_file(path)).map(|()| None);
        }
        if devices.len() != asked.paths.len() {
            asked.paths.iter().try_for_each(|path| expect_there(path))?;
            return Err(Exit::Usage.error(
                "--drives-path mixes emulated drives and devices: name files as raw:PATH to use them as devices",
            ));
        }
        if asked.shapes_zones {
            return Err(
                Exit::Usage.error("--zones and --zone-capacity follow from the devices: leave them out")
            );
        }
        let paths = devices.iter().map(std::path::absolute).collect::<std::io::Result<Vec<_>>>()?;
        expect_different(&paths)?;
        paths.iter().try_for_each(|path| expect_no_metadata(path))?;
        let with_metadata = paths.iter().filter(|path| node::is_nvme(path)).count();
        let in_band = paths.iter().filter(|path| zoned::is_zoned(path)).count();
        if in_band == 0 {
            expect_no_journals(asked.journals)?;
        }
        let mut journals = Vec::new();
        let zoning = match with_metadata + in_band {
            0 => Zoning::Cut(common_layout(&paths, asked)?),
            _ if with_metadata.max(in_band) < paths.len() => {
                return Err(Exit::Usage.error(
                    "--drives-path mixes NVMe drives with zones (/dev/ngXnY), zoned block devices and devices without zones: take \
                     one kind",
                ));
            }
            _ if asked.zone_size.is_some() || asked.has_areas => {
                return Err(Exit::Usage.error(
                    "--zone-size and --zrwa-window are not for drives that have zones of their own: leave them out",
                ));
            }
            _ if in_band > 0 => {
                journals = journals_of(&paths, asked.journals)?;
                Zoning::InBand(common_geometry(&paths, |path| {
                    Ok(zoned::geometry_with(path, journal_of(&paths, &journals, path))?.0)
                })?)
            }
            _ => Zoning::Own(common_geometry(&paths, |path| Ok(open::look(path)?.geometry))?),
        };
        Ok(Some(Devices { paths, journals, zoning }))
    }

    /// Paths of the devices.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Zones and limits that all of them have.
    pub fn geometry(&self) -> Geometry {
        match self.zoning {
            Zoning::Own(geometry) | Zoning::InBand(geometry) => geometry,
            Zoning::Cut(layout) => Geometry {
                zones: layout.zones,
                zone_size_blocks: layout.zone_units * UNIT_PLACES,
                zone_capacity_blocks: layout.capacity(),
                open_zones_max: layout.active_zones_max,
                active_zones_max: layout.active_zones_max,
                append_blocks_max: APPEND_BLOCKS_MAX,
                transfer_blocks_max: TRANSFER_BLOCKS_MAX,
                volatile_cache: false,
                areas: None,
            },
        }
    }

    /// Refuses devices that are parts of one disk or of one controller, unless it is forced.
    pub fn expect_apart(&self, force: bool) -> Result<()> {
        let devices: Vec<PathBuf> = self.paths.iter().chain(&self.journals).cloned().collect();
        expect_apart(&devices, force, |_| true)
    }

    /// Refuses devices that somebody uses, or that hold something unless it is forced.
    pub fn expect_free(&self, force: &Force) -> Result<()> {
        self.paths.iter().chain(&self.journals).try_for_each(|path| expect_free(path, force, None))
    }

    /// Makes a drive of a device.
    pub fn format(&self, path: &Path, uuid: [u8; 16]) -> Result<()> {
        match self.zoning {
            Zoning::Own(_) => Ok(open::erase(path, WornZones::Refused, &mut |_, _| {}).map(|_| ())?),
            Zoning::InBand(_) => {
                let own = *uuid::Uuid::new_v4().as_bytes();
                let journal = self.journal_of(path).map(|path| Journal { path, uuid: own });
                Ok(zoned::format_device(path, uuid, journal)?)
            }
            Zoning::Cut(layout) => {
                // All are divided alike, the larger ones up to where the smallest ends.
                let layout = Layout { blocks: size_of(path)? / base::units::BLOCK_BYTES_U64, ..layout };
                Ok(format_device(path, &Label { uuid, layout })?)
            }
        }
    }

    /// Entries of the drives in `array.toml`. Their identities are their own where they have one.
    pub fn tables(&self) -> Result<Vec<DriveTable>> {
        let tables = self.paths.iter().map(|path| self.table_of(path)).collect::<Result<Vec<_>>>()?;
        for (index, table) in tables.iter().enumerate() {
            if let Some(other) = tables[..index].iter().find(|other| other.uuid == table.uuid) {
                return Err(Exit::Usage.error(format!(
                    "{} and {} are the same drive",
                    other.path.display(),
                    table.path.display()
                )));
            }
        }
        Ok(tables)
    }

    /// Device of the identity journal of a drive, if that lies apart.
    fn journal_of(&self, path: &Path) -> Option<&Path> {
        journal_of(&self.paths, &self.journals, path)
    }

    fn table_of(&self, path: &Path) -> Result<DriveTable> {
        let journal = self.journal_of(path).map(Path::to_owned);
        let path = path.to_owned();
        Ok(match self.zoning {
            Zoning::Own(_) => {
                let found = open::look(&path)?;
                let (id, uuid) = (Some(found.name()), uuid::Uuid::from_bytes(found.uuid()));
                DriveTable { kind: Some(DriveKind::NvmeZns), path, id, journal, uuid }
            }
            Zoning::InBand(_) | Zoning::Cut(_) => {
                let kind = match self.zoning {
                    Zoning::InBand(_) => DriveKind::Zoned,
                    _ if path.is_file() => DriveKind::RawFile,
                    _ => DriveKind::Conventional,
                };
                let id = Host::here().node_at(&path).and_then(|node| node.id);
                DriveTable { kind: Some(kind), path, id, journal, uuid: uuid::Uuid::new_v4() }
            }
        })
    }
}

/// Refuses devices that are parts of one disk or of one controller, unless it is forced. Of the groups that share something, those
/// count that are `of_interest`.
fn expect_apart(devices: &[PathBuf], force: bool, of_interest: impl Fn(&[usize]) -> bool) -> Result<()> {
    let mut shared = shared_hardware::among_devices(devices);
    shared.retain(|shared| of_interest(&shared.drives));
    let Some(SharedHardware { name, drives }) = shared.first() else { return Ok(()) };
    let paths: Vec<String> = drives.iter().map(|index| devices[*index].display().to_string()).collect();
    let said = format!("{} are parts of {name}, and what takes it takes all of them", paths.join(" and "));
    match force {
        true => log::warn!("{said}"),
        false => return Err(Exit::Failed.error(format!("{said}: use other devices, or --force"))),
    }
    Ok(())
}

/// The device that is to hold the identity journal of a drive that comes to others, whose devices and journals are `others`. Nothing is
/// written.
///
/// # Errors
/// When the drive has no use for it, it is not there, somebody uses it, it holds something or shares hardware with the others and that is
/// not forced.
pub fn journal_for(
    (drive, said): (Option<&Path>, &Path),
    others: impl Iterator<Item = PathBuf>,
    (force, own): (&Force, Option<Uuid>),
) -> Result<PathBuf> {
    let Some(drive) = drive.filter(|drive| zoned::is_zoned(drive)) else { return Err(of_no_use(said)) };
    let journal = journal_device(said)?;
    expect_different(&[drive.to_owned(), journal.clone()])?;
    let mut devices: Vec<PathBuf> = others.collect();
    let own_index = devices.len();
    devices.push(journal.clone());
    expect_apart(&devices, force.is_said(), |shared| shared.contains(&own_index))?;
    expect_free(&journal, force, own)?;
    Ok(journal)
}

/// Refuses `--identity-journal` where drives have no use for it.
fn expect_no_journals(journals: &[PathBuf]) -> Result<()> {
    journals.first().map_or(Ok(()), |journal| Err(of_no_use(journal)))
}

fn of_no_use(journal: &Path) -> anyhow::Error {
    Exit::Usage.error(format!(
        "--identity-journal {}: only zoned block devices without metadata have such a journal: leave it out",
        journal.display()
    ))
}

/// Device of the identity journal of one of these drives; journals are in their order.
fn journal_of<'a>(drives: &[PathBuf], journals: &'a [PathBuf], drive: &Path) -> Option<&'a Path> {
    let index = drives.iter().position(|of| of == drive)?;
    journals.get(index).map(PathBuf::as_path)
}

/// Devices of the identity journals of drives: none, or one for each.
fn journals_of(drives: &[PathBuf], said: &[PathBuf]) -> Result<Vec<PathBuf>> {
    if said.is_empty() {
        return Ok(Vec::new());
    }
    if said.len() != drives.len() {
        return Err(Exit::Usage.error(format!(
            "--identity-journal names {} devices, and there are {} drives: name one for each, in the same order (partitions divide a \
             device)",
            said.len(),
            drives.len()
        )));
    }
    let journals = said.iter().map(|path| journal_device(path)).collect::<Result<Vec<_>>>()?;
    let all: Vec<PathBuf> = drives.iter().chain(&journals).cloned().collect();
    expect_different(&all)?;
    Ok(journals)
}

/// The device, or file, that is to hold a journal.
fn journal_device(said: &Path) -> Result<PathBuf> {
    let path = std::path::absolute(device_of(said).unwrap_or_else(|| said.to_owned()))?;
    let refused = |why: &str| Exit::Usage.error(format!("--identity-journal {}: {why}", said.display()));
    let Ok(metadata) = std::fs::metadata(&path) else {
        return Err(refused(
            "nothing is there; name a partition, a disk or a file that exists (`truncate --size 64M FILE` makes one)",
        ));
    };
    let kind = metadata.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return Err(refused("this is neither a file nor a block device; name a partition, a disk or a file"));
    }
    if zoned::is_zoned(&path) {
        return Err(refused("this device has zones itself; name one that takes writes anywhere"));
    }
    Ok(path)
}

/// Refuses a device that is not there. What is no device may be made.
fn expect_there(path: &Path) -> Result<()> {
    let is_node = path.starts_with("/dev") && !path.starts_with("/dev/shm");
    if is_node && !path.exists() {
        return Err(Exit::Absent.error(format!(
            "{}: there is no such device; `zoneweave drive list` shows those that are there",
            path.display()
        )));
    }
    Ok(())
}

/// Refuses a device that is given twice, under one name or several.
pub fn expect_different(paths: &[PathBuf]) -> Result<()> {
    let identity = |path: &PathBuf| {
        let found = std::fs::metadata(path).ok()?;
        // A device has a number, whichever node it is reached by.
        let is_device = found.file_type().is_block_device() || found.file_type().is_char_device();
        Some(if is_device { (is_device, 0, found.rdev()) } else { (is_device, found.dev(), found.ino()) })
    };
    for (index, path) in paths.iter().enumerate() {
        let own = identity(path);
        let is_same = |other: &&PathBuf| own.is_some() && identity(other) == own;
        if let Some(other) = paths[..index].iter().find(is_same) {
            return Err(Exit::Usage.error(format!(
                "{} and {} are the same drive: name each once",
                other.display(),
                path.display()
            )));
        }
    }
    Ok(())
}

/// Refuses a directory.
fn expect_no_folder(path: &Path) -> Result<()> {
    match device_of(path).as_deref().unwrap_or(path).is_dir() {
        true => {
            Err(Exit::Usage
                .error(format!("{}: is a directory; name a device, or a file in it", path.display())))
        }
        false => Ok(()),
    }
}

/// Refuses what an emulated drive could not be made of.
fn expect_file(path: &Path) -> Result<()> {
    expect_there(path)?;
    let metadata = std::fs::metadata(path);
    match metadata.is_ok_and(|metadata| metadata.file_type().is_char_device()) {
        true => Err(Exit::Usage.error(format!(
            "{}: is a character device and no NVMe namespace; those are /dev/ngXnY, `zoneweave drive list` shows them",
            path.display()
        ))),
        false => Ok(()),
    }
}

/// Refuses the block device of a namespace that has metadata: those are reached through its character device, when it is of
/// the format for that.
fn expect_no_metadata(path: &Path) -> Result<()> {
    let Some(own) = node::of_block_node(path) else { return Ok(()) };
    match open::look(&own) {
        Ok(_) => Err(Exit::Usage.error(format!(
            "{}: its blocks have metadata: give the character device of its namespace, {}",
            path.display(),
            own.display()
        ))),
        Err(error) if has_other_metadata(&error) => Err(error.into()),
        Err(_) => Ok(()),
    }
}

fn has_other_metadata(error: &DriveError) -> bool {
    match &error.problem {
        DriveProblem::Nvme(NvmeProblem::Format { problem, .. }) => problem.has_metadata(),
        _ => false,
    }
}

/// Layout of zones on devices, by the smallest of them.
fn common_layout(paths: &[PathBuf], asked: Asked<'_>) -> Result<Layout> {
    let (mut least, mut smallest_path) = (u64::MAX, Path::new(""));
    for path in paths {
        if !path.exists() {
            return Err(Exit::Absent
                .error(format!("{}: is not there; `truncate --size 4G {0}` makes a file", path.display())));
        }
        let bytes = size_of(path)?;
        if bytes < least {
            (least, smallest_path) = (bytes, path);
        }
    }
    let said = asked.zone_size.map(|blocks| u64::from(blocks) * base::units::BLOCK_BYTES_U64);
    let (smallest, largest) = ZONE_BYTES_FOR_MANY;
    let zone_bytes =
        said.or_else(|| asked.zones_wanted.map(|zones| (least / zones).clamp(smallest, largest)));
    let layout = layout_for(least, zone_bytes);
    layout.validate().map_err(|error| {
        Exit::Usage.error(format!(
            "{}: a device of {} cannot be cut into zones of {}: {error}; use larger devices or a smaller --zone-size",
            smallest_path.display(),
            human_bytes(least),
            human_bytes(u64::from(layout.zone_units * UNIT_PLACES) * base::units::BLOCK_BYTES_U64)
        ))
    })?;
    Ok(layout)
}

/// Zones and limits that all drives have: zones have to be alike; of their numbers and of limits the lowest count.
fn common_geometry(paths: &[PathBuf], geometry_of: impl Fn(&Path) -> Result<Geometry>) -> Result<Geometry> {
    let mut common: Option<Geometry> = None;
    for path in paths {
        let found = geometry_of(path)?;
        let Some(least) = &mut common else {
            common = Some(found);
            continue;
        };
        let zones = |geometry: &Geometry| {
            let [size, capacity] = [geometry.zone_size_blocks, geometry.zone_capacity_blocks]
                .map(|blocks| human_bytes(u64::from(blocks) * base::units::BLOCK_BYTES_U64));
            format!("zones of {capacity}, {size} apart")
        };
        let shape = |geometry: &Geometry| (geometry.zone_size_blocks, geometry.zone_capacity_blocks);
        if shape(&found) != shape(least) {
            return Err(Exit::Usage.error(format!(
                "{} has {}, and {} has {}: drives of an array need zones of one size and capacity",
                path.display(),
                zones(&found),
                paths[0].display(),
                zones(least)
            )));
        }
        least.zones = least.zones.min(found.zones);
        least.open_zones_max = least.open_zones_max.min(found.open_zones_max);
        least.active_zones_max = least.active_zones_max.min(found.active_zones_max);
        least.append_blocks_max = least.append_blocks_max.min(found.append_blocks_max);
        least.transfer_blocks_max = least.transfer_blocks_max.min(found.transfer_blocks_max);
        least.volatile_cache |= found.volatile_cache;
    }
    Ok(common.expect("there are drives"))
}

/// Refuses a device that somebody uses, that holds something unless it is forced, or that is of another array than `own` unless that is
/// named.
pub fn expect_free(path: &Path, force: &Force, own: Option<Uuid>) -> Result<()> {
    expect_no_users(path)?;
    if node::is_nvme(path) {
        return expect_blank(path, force, own);
    }
    if Host::here().node_at(path).is_some_and(|node| node.read_only) {
        return Err(Exit::Usage.error(format!(
            "{0}: is read-only; nothing was written. Make it writable (`blockdev --setrw {0}`), or use another one",
            path.display()
        )));
    }
    expect_no_metadata(path)?;
    if zoned::is_zoned(path) {
        return expect_blank_zones(path, force, own);
    }
    if let Some(table) = zoned::journal_at(path)
        && !force.is_said()
    {
        return Err(Exit::Failed.error(format!(
            "{}: has the identity journal of drive {}; nothing was written. --force uses it all the same, and that drive is lost",
            path.display(),
            Uuid::from_bytes(table.drive)
        )));
    }
    if is_conventional(path) && !force.is_said() {
        expect_given_up(path, force, own)?;
        return Err(Exit::Failed.error(format!(
            "{}: is a drive of Zoneweave; nothing was written. --force uses it all the same, and what it holds is lost",
            path.display()
        )));
    }
    if let Some(why) = Host::here().node_at(path).and_then(|node| node.misalignment()) {
        return Err(Exit::Usage.error(format!("{}: {why}; nothing was written", path.display())));
    }
    let target = Target::open(path)?;
    expect_given_up(path, force, own)?;
    target.expect_empty(force.is_said())?;
    match data_at_the_ends(target.media()).filter(|_| !force.is_said()) {
        Some(what) => Err(Exit::Failed.error(format!(
            "{} holds {what}; nothing was written. --force uses it all the same, and what it holds is lost",
            path.display()
        ))),
        None => Ok(()),
    }
}

/// Says where a device holds data, of whatever format, in the MiB at either end; none where all is zeros.
pub fn data_at_the_ends(media: &impl Media) -> Option<&'static str> {
    let ends = (ENDS_BYTES / SECTOR_BYTES_U64).min(media.sectors());
    let mut bytes = vec![0; usize::try_from(ends * SECTOR_BYTES_U64).expect("a MiB at most")];
    let mut is_blank = |first| media.read(first, &mut bytes).is_ok() && bytes.iter().all(|byte| *byte == 0);
    if !is_blank(0) {
        return Some("data in its first MiB");
    }
    (!is_blank(media.sectors() - ends)).then_some("data in its last MiB")
}

/// Refuses a device that the kernel says somebody uses.
fn expect_no_users(path: &Path) -> Result<()> {
    let block = node::kernel_name(path).and_then(|name| node::block_node(&name));
    let users =
        Host::here().node_at(block.as_deref().unwrap_or(path)).map(|node| node.users).unwrap_or_default();
    match users.is_empty() {
        true => Ok(()),
        false => Err(Exit::Busy.error(format!(
            "{}: is in use ({}); nothing was written. Free it first, or use another one",
            path.display(),
            users.join(", ")
        ))),
    }
}

/// Refuses a zoned block device that somebody uses, or whose zones are not empty unless it is forced.
fn expect_blank_zones(path: &Path, force: &Force, own: Option<Uuid>) -> Result<()> {
    zoned::expect_unused(path)?;
    expect_given_up(path, force, own)?;
    let (_, written) = zoned::geometry_of(path)?;
    refuse_written(path, written, force)
}

/// Refuses an NVMe drive that somebody uses, or whose zones are not empty unless it is forced.
fn expect_blank(path: &Path, force: &Force, own: Option<Uuid>) -> Result<()> {
    // Opening refuses what is in use.
    let opened = open::open_path(path)?;
    expect_given_up(path, force, own)?;
    let written = opened.found.written_zones();
    refuse_written(path, written, force)
}

/// Refuses a drive with so many zones that are not empty, unless it is forced.
fn refuse_written(path: &Path, written: usize, force: &Force) -> Result<()> {
    let shown = path.display();
    if written == 0 {
        return Ok(());
    }
    if force.is_said() {
        log::warn!("{shown} has {written} zones that are not empty: given up");
        return Ok(());
    }
    Err(Exit::Failed.error(format!(
        "{shown} has {written} zones that are not empty; nothing was written. --force uses it all the same, and what it holds is lost"
    )))
}

/// Makes a drive of a device for an array of these drives, with its identity journal on another device if one is named.
pub fn format_like(path: &Path, journal: Option<&Path>, geometry: &Geometry, uuid: [u8; 16]) -> Result<()> {
    let refused = |why: &str| Exit::Usage.error(format!("{}: {why}", path.display()));
    let expect_alike = |found: Geometry| match found.covers(geometry) {
        true => Ok(()),
        false => Err(refused(match journal {
            Some(_) => {
                "with this journal its zones are not those of the array's drives, too few, or too few of them may be open: use another, or a \
                        larger journal"
            }
            None => {
                "its zones are not those of the array's drives, too few, or too few of them may be open: use another"
            }
        })),
    };
    if Kind::of(path) == Kind::Nvme {
        expect_alike(open::look(path)?.geometry)?;
        open::erase(path, WornZones::Refused, &mut |_, _| {})?;
        return Ok(());
    }
    if zoned::is_zoned(path) {
        expect_alike(zoned::geometry_with(path, journal)?.0)?;
        let own = *Uuid::new_v4().as_bytes();
        let journal = journal.map(|path| Journal { path, uuid: own });
        return Ok(zoned::format_device(path, uuid, journal)?);
    }
    let zone_units = geometry.zone_capacity_blocks / UNIT_BLOCKS;
    let is_alike = geometry.zone_capacity_blocks == zone_units * UNIT_BLOCKS
        && geometry.zone_size_blocks == zone_units * UNIT_PLACES;
    if !is_alike {
        return Err(refused("the array's zones are not those of conventional drives: use an emulated drive"));
    }
    let layout = Layout { zones: geometry.zones, zone_units, ..layout_for(size_of(path)?, None) };
    layout.validate().map_err(|error| refused(&format!("too small for this array: {error}")))?;
    Ok(format_device(path, &Label { uuid, layout })?)
}
