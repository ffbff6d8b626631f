//! The array: one of a cell's setting, served to NBD clients with drives that take the time of its profile.

use super::Host;
use super::processor;
use super::program::{self, Background, command};
use crate::experiment::draft::Cell;
use crate::experiment::rig::{Plan, Space, blocks_of_kib, bytes_of};
use crate::experiment::scheme::Scheme;
use anyhow::{Context, Result};
use array::log::config::AppendUse;
use base::units::BLOCK_BYTES_U64;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Size of the volume. The paper has 1 TiB.
pub const VOLUME_BYTES: u64 = 2 << 30;
/// Zones so small that the volume takes 43 segments, and a run collects garbage.
const ZONE_CAPACITY_KIB: u32 = 16 << 10;
/// The same for all schemes: 2 for superblocks, 43 for the volume, 11 in reserve, which is the paper's 25 %, and 13 that
/// are free or open when eight are open for clients.
const ZONES: u32 = 69;
/// What four drives take, with metadata.
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
    /// Creates it in `folder` and serves it.
    ///
    /// # Errors
    /// When there can be no such array.
    pub fn start(host: &Host, folder: &Path, cell: &Cell) -> Result<ServedArray> {
        let directory = folder.join("array");
        program::run(host, PROMPT, &mut create(host, &directory, cell)?)?;
        let socket = folder.join("nbd.sock");
        let mut serve = command(host.binary());
        serve.arg("serve").arg(&directory).args(["--profile", cell.setting.profile]);
        serve.arg("--listen").arg(format!("unix:{}", socket.display())).env("RUST_LOG", "warn");
        let server = Background::serve(host, &mut serve, folder.join("server.log"), &socket)?;
        Ok(ServedArray { server, socket })
    }

    /// Where clients connect.
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

/// `zoneweave create` as the setting has it. `adaptive` is told no setting.
fn create(host: &Host, directory: &Path, cell: &Cell) -> Result<Command> {
    let setting = &cell.setting;
    let mut plan = Plan::new(cell.scheme, setting, 0)?;
    plan.zone_capacity_blocks = blocks_of_kib(ZONE_CAPACITY_KIB);
    plan.volume_blocks = VOLUME_BYTES / BLOCK_BYTES_U64;
    plan.space = Space::Stripes(0);
    let config = plan.config()?;
    let mut create = command(host.binary());
    create.arg("create").arg(directory);
    let options = [
        ("--drives", setting.drives.to_string()),
        ("--level", format!("raid{}", setting.level)),
        ("--size", VOLUME_BYTES.to_string()),
        ("--zones", ZONES.to_string()),
        ("--zone-capacity", bytes_of(plan.zone_capacity_blocks).to_string()),
        ("--max-open", config.geometry.open_zones_max.to_string()),
    ];
    for (name, value) in options {
        create.args([name, value.as_str()]);
    }
    if cell.scheme == Scheme::Adaptive {
        return Ok(create);
    }
    create.args(["--policy", "fixed", "--gc", "greedy"]);
    let fixed = [
        ("--chunk", bytes_of(config.chunk_blocks).to_string()),
        ("--group", config.group_stripes.to_string()),
        ("--small-segments", config.open.small.to_string()),
        ("--large-segments", config.open.large.to_string()),
    ];
    for (name, value) in fixed {
        create.args([name, value.as_str()]);
    }
    if config.open.large > 0 {
        create.arg("--large-chunk").arg(bytes_of(config.open.large_chunk_blocks).to_string());
    }
    if config.open.append == AppendUse::All {
        create.arg("--append-all");
    }
    Ok(create)
}
