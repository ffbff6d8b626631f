//! `zoneweave drive wipe`: makes drives empty again that were an array's, or that hold what nobody misses.
//!
//! All drives are looked at before the first one is written to. What is wiped is what would be found: zones are reset, and of a device
//! without zones the first and last MiB become zeros. What lies between stays on the media, unseen.

use crate::exit::Exit;
use crate::force::{Force, Forced, Owner, expect_given_up};
use crate::raw::{self, device_of, expect_different};
use crate::sighting::Sighting;
use crate::steps::Steps;
use anyhow::{Context, Result};
use clap::Args;
use drive::any::{self, AnyDrive, Kind};
use drive::emulated::DriveProblem;
use drive::zoned;
use serde::Serialize;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub struct Wipe {
    /// Drives: /dev/ngXnY, block devices, raw:FILE to use a file as a device, or files of emulated drives
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Give up what they hold; a drive of an array or a cache of Zoneweave wants its name, --force=UUID
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = crate::force::ALONE,
          value_parser = Forced::parse, value_name = "UUID")]
    pub force: Vec<Forced>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// A drive that was wiped.
#[derive(Debug, Serialize)]
struct Wiped {
    path: PathBuf,
    kind: &'static str,
    /// UUID of the array or cache that it was of.
    #[serde(skip_serializing_if = "Option::is_none")]
    array: Option<uuid::Uuid>,
    /// Zones that were reset.
    zones_reset: usize,
    /// Zones that can be written no more, and stay as they are.
    zones_worn: usize,
}

/// Wipes drives, all or none that can be told before.
pub fn run(options: &Wipe) -> Result<Exit> {
    let force = Force::of(&options.force);
    let named = |path: &PathBuf| device_of(path).unwrap_or_else(|| path.clone());
    let paths: Vec<PathBuf> = options.paths.iter().map(named).collect();
    expect_different(&paths)?;
    let mut owners = Vec::new();
    for (given, path) in options.paths.iter().zip(&paths) {
        owners.push(expect_wipeable(given, path, &force)?);
    }
    let mut wiped = Vec::new();
    for ((given, path), owner) in options.paths.iter().zip(&paths).zip(owners) {
        let array = owner.and_then(Owner::uuid);
        wiped.push(wipe(path, device_of(given).is_some(), array).with_context(|| left_over(&wiped))?);
    }
    if options.json {
        println!("{}", serde_json::json!({ "wiped": wiped }));
        return Ok(Exit::Well);
    }
    for Wiped { path, zones_reset, zones_worn, .. } in &wiped {
        let reset =
            if *zones_reset > 0 { format!(": {zones_reset} zones were reset") } else { String::new() };
        let worn = match zones_worn {
            0 => String::new(),
            count => format!("; {count} zones can be written no more, and stay as they are"),
        };
        println!("{} is empty{reset}{worn}", path.display());
    }
    Ok(Exit::Well)
}

/// Clause on the devices wiped before the one that could not be.
fn left_over(wiped: &[Wiped]) -> String {
    match wiped {
        [] => "not wiped".to_owned(),
        [.., last] => format!("{} and those before it are wiped, then", last.path.display()),
    }
}

/// Refuses what is not there, what somebody uses, and what holds something unless that is given up.
fn expect_wipeable(given: &Path, path: &Path, force: &Force) -> Result<Option<Owner>> {
    let shown = path.display();
    if path.is_dir() {
        return Err(Exit::Usage.error(format!("{shown}: is a directory; name a drive")));
    }
    if !path.exists() {
        let said = format!("{shown}: is not there; `zoneweave drive list` shows the devices of this host");
        return Err(Exit::Absent.error(said));
    }
    if device_of(given).is_some() {
        let owner = Owner::of(path);
        return raw::expect_free(path, force, None).map(|()| owner);
    }
    let opened = match Kind::of(path) {
        Kind::Emulated => AnyDrive::open(path),
        _ => {
            let said = format!("{shown}: is used as a device: name it raw:{shown}");
            return Err(Exit::Usage.error(said));
        }
    };
    drop(opened.map_err(|error| match error.problem {
        DriveProblem::InUse => Exit::Busy.because(error),
        _ => Exit::Usage.error(format!("{error}; raw:{shown} wipes a file as a device")),
    })?);
    let owner = expect_given_up(path, force, None)?;
    if !Sighting::of(path)?.holds_no_data && !force.is_said() {
        return Err(Exit::Failed.error(format!(
            "{shown}: has zones that are not empty; nothing was written. --force wipes it all the same"
        )));
    }
    Ok(owner)
}

/// Wipes one that may be.
fn wipe(path: &Path, is_device: bool, array: Option<uuid::Uuid>) -> Result<Wiped> {
    let kind = match Kind::of(path) {
        Kind::Nvme => "nvme-zns",
        _ if zoned::is_zoned(path) => "zoned",
        _ if is_device => "conventional",
        _ => "emulated",
    };
    let steps = Steps::new("zones reset");
    let mut show = |done, total| steps.show(done, total, "");
    let any::Emptied { zones_reset, zones_worn } = match is_device {
        true => any::wipe(path, &mut show)?,
        false => any::reset_all(path, &mut show)?,
    };
    steps.end();
    if kind == "conventional" {
        raw::expect_free(path, &Force::default(), None).context("it was wiped, and is not empty yet")?;
    }
    Ok(Wiped { path: path.to_owned(), kind, array, zones_reset, zones_worn })
}
