//! Devices that become conventional drives: `raw:PATH` for a file, or the path of a block device.

use crate::cli::Create;
use crate::exit::Exit;
use crate::md::target::Target;
use anyhow::Result;
use base::units::human_bytes;
use drive::conventional::device::{format_device, is_conventional, layout_for, size_of};
use drive::conventional::label::Label;
use drive::conventional::layout::{Layout, UNIT_BLOCKS, UNIT_PLACES};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use zone::device::Geometry;

/// Path of a device that is to be a conventional drive; `None` of a path for an emulated drive.
pub fn device_of(path: &Path) -> Option<PathBuf> {
    if let Some(raw) = path.to_str().and_then(|path| path.strip_prefix("raw:")) {
        return Some(PathBuf::from(raw));
    }
    let is_block = std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device());
    is_block.then(|| path.to_owned())
}

/// The path from wherever the command is run, which keeps its `raw:`.
pub fn absolute(path: &Path) -> std::io::Result<PathBuf> {
    match path.to_str().and_then(|path| path.strip_prefix("raw:")) {
        Some(raw) => Ok(PathBuf::from(format!("raw:{}", std::path::absolute(raw)?.display()))),
        None => std::path::absolute(path),
    }
}

/// Devices of a new array, and how each of them is divided.
pub struct Devices {
    paths: Vec<PathBuf>,
    layout: Layout,
}

impl Devices {
    /// The devices among `--drives-path`; `None` when they are files of emulated drives.
    pub fn of(options: &Create) -> Result<Option<Devices>> {
        let devices: Vec<PathBuf> = options.drives_path.iter().filter_map(|path| device_of(path)).collect();
        if devices.is_empty() {
            return Ok(None);
        }
        if devices.len() != options.drives_path.len() {
            return Err(Exit::Usage.error(
                "--drives-path mixes emulated drives and devices: name files as raw:PATH to use them as devices",
            ));
        }
        if options.zones.is_some() || options.zone_capacity.is_some() {
            return Err(
                Exit::Usage.error("--zones and --zone-capacity follow from the devices: leave them out")
            );
        }
        let mut paths = Vec::new();
        let mut least = u64::MAX;
        for path in devices {
            let path = std::path::absolute(&path)?;
            if !path.exists() {
                return Err(Exit::Absent.error(format!(
                    "{}: is not there; `truncate --size 4G {0}` makes a file",
                    path.display()
                )));
            }
            least = least.min(size_of(&path)?);
            paths.push(path);
        }
        let zone_bytes = options.zone_size.map(|blocks| u64::from(blocks) * base::units::BLOCK_BYTES_U64);
        let layout = layout_for(least, zone_bytes);
        layout.validate().map_err(|error| {
            Exit::Usage.error(format!(
                "a device of {} cannot be cut into zones of {}: {error}; use larger devices or a smaller --zone-size",
                human_bytes(least),
                human_bytes(u64::from(layout.zone_units * UNIT_PLACES) * base::units::BLOCK_BYTES_U64)
            ))
        })?;
        Ok(Some(Devices { paths, layout }))
    }

    /// Paths of the devices.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Options with what follows from the devices.
    pub fn settle(&self, options: &mut Create) {
        options.zones = Some(self.layout.zones);
        options.zone_capacity = Some(self.layout.capacity());
        options.zone_size = Some(self.layout.zone_units * UNIT_PLACES);
        options.max_open = self.layout.active_zones_max;
    }

    /// Refuses devices that somebody uses, or that hold something unless it is forced.
    pub fn expect_free(&self, force: bool) -> Result<()> {
        self.paths.iter().try_for_each(|path| expect_free(path, force))
    }

    /// Makes a drive of a device.
    pub fn format(&self, path: &Path, uuid: [u8; 16]) -> Result<()> {
        // All are divided alike, the larger ones up to where the smallest ends.
        let layout = Layout { blocks: size_of(path)? / base::units::BLOCK_BYTES_U64, ..self.layout };
        Ok(format_device(path, &Label { uuid, layout })?)
    }
}

/// Refuses a device that somebody uses, or that holds something unless it is forced.
pub fn expect_free(path: &Path, force: bool) -> Result<()> {
    if is_conventional(path) && !force {
        return Err(Exit::Failed.error(format!(
            "{}: is a drive of Zoneweave; nothing was written. --force uses it all the same, and what it holds is lost",
            path.display()
        )));
    }
    Target::open(path)?.expect_empty(force)
}

/// Makes a conventional drive for an array of these drives.
pub fn format_like(path: &Path, geometry: &Geometry, uuid: [u8; 16]) -> Result<()> {
    let refused = |why: String| Exit::Usage.error(format!("{}: {why}", path.display()));
    let zone_units = geometry.zone_capacity_blocks / UNIT_BLOCKS;
    let is_alike = geometry.zone_capacity_blocks == zone_units * UNIT_BLOCKS
        && geometry.zone_size_blocks == zone_units * UNIT_PLACES;
    if !is_alike {
        return Err(refused(
            "the array's zones are not those of conventional drives: use an emulated drive".into(),
        ));
    }
    let layout = Layout { zones: geometry.zones, zone_units, ..layout_for(size_of(path)?, None) };
    layout.validate().map_err(|error| refused(format!("too small for this array: {error}")))?;
    Ok(format_device(path, &Label { uuid, layout })?)
}
