//! `zoneweave scan`: the arrays whose drives are devices of this machine, or lie in some directories, and in those directly
//! below.

use crate::candidates;
use crate::cli::Scan;
use crate::examine::{level_of, name_of};
use crate::exit::Exit;
use crate::sighting::{self, Sighting};
use anyhow::{Context, Result};
use base::units::{BLOCK_BYTES_U64, human_bytes};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use zone::format::superblock::MemberState;

/// An array of which drives were found.
#[derive(Debug, Serialize)]
struct ArrayReport {
    array: String,
    name: Option<String>,
    level: String,
    volume_bytes: u64,
    members: usize,
    /// complete, degraded or incomplete.
    state: &'static str,
    drives: Vec<FoundDrive>,
    /// Members that have failed or are not yet rebuilt, as the newest superblock has it.
    failed: Vec<usize>,
    /// Members that should be there and were not found.
    missing: Vec<usize>,
    /// Files that are the same drive.
    clones: Vec<String>,
}

#[derive(Debug, Serialize)]
struct FoundDrive {
    member: usize,
    path: String,
    /// True when another drive has the place of this one.
    replaced: bool,
}

/// Lists arrays.
pub fn run(options: &Scan) -> Result<Exit> {
    let here = [PathBuf::from(".")];
    let is_everywhere = options.paths.is_empty();
    let paths = match (is_everywhere, options.dir.is_empty()) {
        (true, true) => &here[..],
        (true, false) => &options.dir,
        (false, _) => &options.paths,
    };
    let mut seen = if is_everywhere { candidates::on_devices() } else { Vec::new() };
    for path in paths {
        sighting::add_new(&mut seen, at(path)?);
    }
    let arrays: Vec<ArrayReport> =
        by_array(&seen).into_values().filter_map(|drives| report_of(&drives)).collect();
    if options.json {
        println!("{}", serde_json::to_string_pretty(&serde_json::json!({ "arrays": arrays }))?);
    } else {
        arrays.iter().for_each(print);
    }
    if arrays.is_empty() {
        let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        let devices = if is_everywhere { "on the devices of this machine, nor in " } else { "in " };
        return Err(Exit::Absent
            .error(format!("no drive of an array {devices}{}, nor directly below", paths.join(", "))));
    }
    let is_well = arrays.iter().all(|array| array.state == "complete" && array.clones.is_empty());
    Ok(if is_well { Exit::Well } else { Exit::Degraded })
}

/// The drive at a path, or those in a folder.
fn at(path: &Path) -> Result<Vec<Sighting>> {
    if path.is_dir() || !path.exists() {
        return below(path);
    }
    Ok(vec![Sighting::of(path)?])
}

/// The drives in a folder and in those directly below it.
fn below(folder: &Path) -> Result<Vec<Sighting>> {
    let said = || format!("{}", folder.display());
    let entries = std::fs::read_dir(folder);
    let entries = match entries {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(Exit::Absent
                .error(format!("{}: there is no such file, device or directory", folder.display())));
        }
        entries => entries.with_context(said)?,
    };
    let mut seen = sighting::in_folder(folder).with_context(said)?;
    let mut folders: Vec<PathBuf> = Vec::new();
    for entry in entries {
        let entry = entry.with_context(said)?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            folders.push(entry.path());
        }
    }
    folders.sort();
    for folder in folders {
        match sighting::in_folder(&folder) {
            Ok(more) => sighting::add_new(&mut seen, more),
            Err(error) => log::warn!("{}: {error}", folder.display()),
        }
    }
    Ok(seen)
}

/// Drives by array.
pub fn by_array(seen: &[Sighting]) -> BTreeMap<uuid::Uuid, Vec<&Sighting>> {
    let mut arrays: BTreeMap<uuid::Uuid, Vec<&Sighting>> = BTreeMap::new();
    for sighting in seen {
        if let Some(array) = sighting.array() {
            arrays.entry(array).or_default().push(sighting);
        }
    }
    arrays
}

fn report_of(drives: &[&Sighting]) -> Option<ArrayReport> {
    let newest =
        || drives.iter().filter_map(|drive| drive.record.as_ref()).max_by_key(|record| record.generation);
    let record = sighting::speaker(drives.iter().copied()).or_else(|| newest().cloned())?;
    let numbered = || record.members.iter().enumerate();
    let is_here = |uuid: &[u8; 16]| drives.iter().any(|drive| drive.uuid.as_bytes() == uuid);
    let failed: Vec<usize> = numbered()
        .filter(|(_, member)| member.state != MemberState::Active)
        .map(|(index, _)| index)
        .collect();
    let missing: Vec<usize> = numbered()
        .filter(|(_, member)| member.state != MemberState::Failed && !is_here(&member.uuid))
        .map(|(index, _)| index)
        .collect();
    let clones = sighting::clone_among(drives.iter().copied());
    let clones = clones.map(|(one, other)| vec![path_of(one), path_of(other)]).unwrap_or_default();
    Some(ArrayReport {
        array: uuid::Uuid::from_bytes(record.array).to_string(),
        name: drives.iter().find_map(|drive| name_of(drive)),
        level: level_of(&record),
        volume_bytes: record.volume_blocks.saturating_mul(BLOCK_BYTES_U64),
        members: record.members.len(),
        state: match (missing.is_empty(), failed.is_empty()) {
            (true, true) => "complete",
            (true, false) => "degraded",
            (false, _) => "incomplete",
        },
        drives: drives
            .iter()
            .filter_map(|drive| {
                let member = drive.member()?;
                let replaced =
                    record.members.get(member).is_none_or(|known| known.uuid != *drive.uuid.as_bytes());
                Some(FoundDrive { member, path: path_of(drive), replaced })
            })
            .collect(),
        failed,
        missing,
        clones,
    })
}

fn path_of(sighting: &Sighting) -> String {
    sighting.path.display().to_string()
}

fn print(report: &ArrayReport) {
    let name = report.name.as_ref().map(|name| format!(" `{name}`")).unwrap_or_default();
    println!(
        "{}{name}: {} of {} over {} drives, {}",
        report.array,
        human_bytes(report.volume_bytes),
        report.level,
        report.members,
        report.state
    );
    for drive in &report.drives {
        let more = if drive.replaced { " (was replaced, and is not needed)" } else { "" };
        println!("  drive {:<2} {}{more}", drive.member, drive.path);
    }
    for member in &report.missing {
        println!("  drive {member:<2} was not found");
    }
    for member in &report.failed {
        println!("  drive {member:<2} has failed or is not yet rebuilt");
    }
    if let [one, other] = &report.clones[..] {
        println!("  {one} and {other} are the same drive: one is a copy");
    }
}
