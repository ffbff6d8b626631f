//! `zoneweave drive qualify`: does a drive do what the engine relies on? It is written all over.

use crate::exit::{Exit, in_words};
use crate::lent::Lent;
use crate::raw::device_of;
use crate::sighting::Sighting;
use anyhow::{Context, Result};
use base::units::human_bytes;
use clap::Args;
use drive::any::{AnyDrive, Kind};
use drive::nvme::open::{self, Found};
use lab::qualify::{Options, Report, run as check};
use serde::Serialize;
use std::path::{Path, PathBuf};
use zone::device::ZonedDevice;

#[derive(Debug, Args)]
pub struct Qualify {
    /// The drive: /dev/ngXnY, a block device, raw:FILE to use a file as a device, or the file of an emulated drive
    pub path: PathBuf,
    /// All that the drive holds is lost; without this nothing is done
    #[arg(long)]
    pub destroy: bool,
    /// Seed of contents and of the random walk
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Commands of the random walk
    #[arg(long, default_value_t = 2000)]
    pub steps: u64,
    /// Ask an NVMe drive as if nothing were known of the faults of its model
    #[arg(long)]
    pub ignore_quirks: bool,
    /// Write the steps of the common walk to this file, with statuses and states: the same for all kinds of drives
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Description of a drive beside its answers.
#[derive(Debug, Default, Serialize)]
struct About {
    path: PathBuf,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    firmware: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    quirks: Vec<&'static str>,
    kernel: String,
}

/// Checks a drive; exit code 1 when it differs.
pub fn run(options: &Qualify) -> Result<Exit> {
    let device = device_of(&options.path);
    let path = device.as_deref().unwrap_or(&options.path);
    if !options.destroy {
        return Err(Exit::Usage.error(format!(
            "{}: all that the drive holds would be lost: say --destroy if that may be",
            path.display()
        )));
    }
    let kind = Kind::of(path);
    if kind != Kind::Nvme && options.ignore_quirks {
        return Err(Exit::Usage.error("--ignore-quirks is for NVMe drives: others have no known faults"));
    }
    if !path.exists() {
        return Err(Exit::Absent.error(format!("{}: is not there", path.display())));
    }
    // A device that is no drive by itself is one for the length of the checks.
    let lent = match device.is_some() && kind != Kind::Nvme {
        true => Some(Lent::of(path).map_err(|error| wiped_first(error, &options.path))?),
        false => {
            expect_blank(path)?;
            None
        }
    };
    let (drive, about) = open_drive(path, options)?;
    let report = check_drive(drive, options);
    if let Some(file) = &options.trace {
        std::fs::write(file, report.trace.join("\n") + "\n")
            .with_context(|| format!("{}", file.display()))?;
    }
    drop(lent);
    print(&about, &report, options.json)?;
    Ok(if report.passed { Exit::Well } else { Exit::Damage })
}

/// A refusal of what `--force` gives up. Drives are qualified when they are empty, so that belongs to another command.
fn wiped_first(error: anyhow::Error, given: &Path) -> anyhow::Error {
    let said = in_words(&error);
    match said.contains("--force") {
        true => Exit::of(&error).error(format!(
            "{said}. That is an option of `zoneweave drive wipe {}`, which makes the drive empty: qualify it then",
            given.display()
        )),
        false => error,
    }
}

/// Refuses a drive that holds something: `--destroy` is for what is written from now on.
fn expect_blank(path: &Path) -> Result<()> {
    let sighting = Sighting::of(path)?;
    let shown = path.display();
    if let Some(array) = sighting.array() {
        return Err(Exit::Failed.error(format!(
            "{shown}: is a drive of array {array}; nothing was written. Take it out of the array, and use a blank drive"
        )));
    }
    if !sighting.holds_no_data {
        return Err(Exit::Failed.error(format!(
            "{shown}: has zones that are not empty; nothing was written. `zoneweave drive wipe {shown} --force` empties it"
        )));
    }
    Ok(())
}

/// Opens a drive, for this process alone, and tells what it is.
fn open_drive(path: &Path, options: &Qualify) -> Result<(Box<dyn ZonedDevice>, About)> {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
    let about = About { path: path.to_owned(), kernel, ..About::default() };
    if options.ignore_quirks {
        let opened = open::open_without_quirks(path)?;
        let about = About { quirks: Vec::new(), ..about_nvme(&opened.found, about) };
        return Ok((Box::new(opened.drive), about));
    }
    let drive = AnyDrive::open(path)?;
    let about = match &drive {
        AnyDrive::Emulated(_) => About { kind: "emulated", ..about },
        AnyDrive::Conventional(_) => About { kind: "conventional", ..about },
        AnyDrive::Zoned(_) => About { kind: "zoned", ..about },
        AnyDrive::Nvme(drive) => about_nvme(&drive.found, about),
    };
    Ok((drive.into_device(), about))
}

fn about_nvme(found: &Found, about: About) -> About {
    let controller = &found.identity.controller;
    About {
        kind: "nvme",
        model: Some(controller.model.clone()),
        firmware: Some(controller.firmware.clone()),
        quirks: found.quirks.in_words(),
        ..about
    }
}

fn check_drive(mut drive: Box<dyn ZonedDevice>, options: &Qualify) -> Report {
    let Qualify { seed, steps, .. } = *options;
    check(&mut *drive, Options { seed, steps }, &|what| log::info!("checking {what}"))
}

fn print(about: &About, report: &Report, is_json: bool) -> Result<()> {
    if is_json {
        let mut json = serde_json::to_value(report)?;
        json["drive"] = serde_json::to_value(about)?;
        println!("{json}");
        return Ok(());
    }
    let About { path, kind, model, firmware, quirks, kernel } = about;
    let bytes =
        u64::from(report.zones) * u64::from(report.zone_capacity_blocks) * base::units::BLOCK_BYTES_U64;
    print!("{}: {kind}, {}", path.display(), human_bytes(bytes));
    for (name, word) in [("model", model), ("firmware", firmware)] {
        if let Some(word) = word {
            print!(", {name} {word}");
        }
    }
    println!(", Linux {kernel}");
    for quirk in quirks {
        println!("  known: {quirk}");
    }
    println!("{report}");
    Ok(())
}
