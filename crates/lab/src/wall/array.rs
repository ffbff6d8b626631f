//! The array: one of a cell's setting, served to NBD clients with drives that take the time of its profile.

use super::Host;
use super::processor;
use super::program::{self, Background, command};
use crate::experiment::draft::Cell;
use crate::experiment::rig::{Plan, Space, blocks_of_kib, bytes_of};
use crate::experiment::scheme::Scheme;
use anyhow::{Context, Result};
use array::log::config::ArrayConfig;
use base::units::{BLOCK_BYTES_U64, human_bytes};
use drive::emulated::{CreateOptions, EmulatedDrive};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use zone::device::{Geometry, ZonedDevice};
use zone::drives::DriveSet;

/// Size of the volume. The paper has 1 TiB.
pub const VOLUME_BYTES: u64 = 2 << 30;
/// Zones so small that the volume takes 43 segments, and a run collects garbage.
const ZONE_CAPACITY_KIB: u32 = 16 << 10;
/// The same for all schemes: 2 for superblocks, 43 for the volume, 11 in reserve, which is the paper's 25 %, and 13 that
/// are free or open when eight are open for clients.
const ZONES: u32 = 69;
/// Bytes that four drives take at most, with metadata.
pub const BYTES_MAX: u64 = 5 << 30;
/// Creating an array of sparse files.
const PROMPT: Duration = Duration::from_secs(60);

/// An array that is served. Stopped when dropped.
#[derive(Debug)]
pub struct ServedArray {
    server: Background,
    socket: PathBuf,
}

impl ServedArray {
    /// Makes the array in `folder` and serves it.
    ///
    /// # Errors
    /// When there can be no such array.
    pub fn start(host: &Host, folder: &Path, cell: &Cell) -> Result<ServedArray> {
        let directory = folder.join("array");
        if cell.scheme == Scheme::Adaptive {
            program::run(host, PROMPT, &mut create(host, &directory, &config(cell)?))?;
        } else {
            write_fixed(&directory, &config(cell)?)?;
        }
        let socket = folder.join("nbd.sock");
        let mut serve = command(host.binary());
        serve.arg("serve").arg(&directory).args(["--profile", cell.setting.profile]);
        serve.arg("--listen").arg(format!("unix:{}", socket.display())).env("RUST_LOG", "warn");
        let server = Background::serve(host, &mut serve, folder.join("server.log"), &socket)?;
        Ok(ServedArray { server, socket })
    }

    /// Returns the socket that clients connect to.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Processor time of the server so far.
    ///
    /// # Errors
    /// When it has ended.
    pub fn processor_seconds(&self) -> Result<f64> {
        processor::seconds_of(self.server.process()).context("the server")
    }
}

/// The array of a setting.
fn config(cell: &Cell) -> Result<ArrayConfig> {
    let mut plan = Plan::new(cell.scheme, &cell.setting, 0)?;
    plan.zone_capacity_blocks = blocks_of_kib(ZONE_CAPACITY_KIB);
    plan.volume_blocks = VOLUME_BYTES / BLOCK_BYTES_U64;
    plan.space = Space::Stripes(0);
    let config = plan.config()?;
    // As `create` makes drives.
    let geometry = Geometry {
        zones: ZONES,
        zone_size_blocks: plan.zone_capacity_blocks.next_power_of_two(),
        active_zones_max: config.geometry.open_zones_max,
        append_blocks_max: 32,
        transfer_blocks_max: 64,
        volatile_cache: false,
        areas: None,
        ..config.geometry
    };
    Ok(ArrayConfig { geometry, ..config })
}

/// `zoneweave create`, which leaves chunks and segments to the engine.
fn create(host: &Host, directory: &Path, config: &ArrayConfig) -> Command {
    let mut create = command(host.binary());
    create.arg("create").arg(directory);
    let options = [
        ("--drives", config.members.to_string()),
        ("--level", config.level.name(config.members)),
        ("--size", VOLUME_BYTES.to_string()),
        ("--zones", ZONES.to_string()),
        ("--zone-capacity", bytes_of(config.geometry.zone_capacity_blocks).to_string()),
        ("--max-open", config.geometry.open_zones_max.to_string()),
    ];
    for (name, value) in options {
        create.args([name, value.as_str()]);
    }
    create
}

/// An array with a scheme of its own, which `create` does not make: drives, superblocks, `array.toml`.
fn write_fixed(directory: &Path, config: &ArrayConfig) -> Result<()> {
    std::fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    let mut devices: Vec<Option<Box<dyn ZonedDevice>>> = Vec::new();
    let mut members = Vec::new();
    let mut tables = String::new();
    for member in 0..config.members {
        let (path, uuid) = (format!("drive-{member}.zns"), random_uuid()?);
        let file = directory.join(&path);
        drive::emulated::create(&file, &CreateOptions::new(config.geometry, uuid))?;
        devices.push(Some(Box::new(EmulatedDrive::open(&file)?)));
        members.push(uuid);
        tables += &format!("\n[[drive]]\npath = \"{path}\"\nuuid = \"{}\"\n", uuid_in_words(&uuid));
    }
    let config = ArrayConfig { array: random_uuid()?, ..config.clone() };
    array::log::format(&mut DriveSet::new(devices), &config, &members)?;
    let text = format!(
        "version = 1\nuuid = \"{}\"\nexport = \"zoneweave\"\n\n\
         [scheme]\nlevel = \"{}\"\nchunk = \"{}\"\ngroup = {}\nsize = \"{}\"\n\n\
         [engine]\npolicy = \"fixed\"\ngc = \"greedy\"\n{tables}",
        uuid_in_words(&config.array),
        config.level.name(config.members),
        human_bytes(u64::from(config.chunk_blocks) * BLOCK_BYTES_U64),
        config.group_stripes,
        human_bytes(config.volume_blocks * BLOCK_BYTES_U64),
    );
    std::fs::write(directory.join("array.toml"), text).context("array.toml")
}

/// A random UUID of the kernel.
fn random_uuid() -> Result<[u8; 16]> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/uuid").context("a random UUID")?;
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    Ok(u128::from_str_radix(&digits, 16).context("a random UUID")?.to_be_bytes())
}

fn uuid_in_words(uuid: &[u8; 16]) -> String {
    let digits = format!("{:032x}", u128::from_be_bytes(*uuid));
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|range| &digits[range]);
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_written_as_others_write_it() {
        let uuid = 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff_u128.to_be_bytes();
        assert_eq!(uuid_in_words(&uuid), "00112233-4455-6677-8899-aabbccddeeff");
    }
}
