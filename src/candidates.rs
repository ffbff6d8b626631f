//! Devices of this machine that may hold a drive of Zoneweave: NVMe namespaces with zones, and block devices without.
//!
//! They are looked at, not opened to be written, and may be in use. A device that is part of another one (a path of
//! multipath, a physical volume) is left out, for its contents are those of the other one, or not its own.

use crate::array_file::DriveTable;
use crate::host::Host;
use crate::sighting::{self, Sighting};
use drive::emulated::{DriveError, DriveProblem};
use drive::nvme::node;
use drive::nvme::open::NvmeProblem;
use drive::zoned;
use std::path::PathBuf;

/// A device that is not looked at yet.
struct Candidate {
    path: PathBuf,
    /// Name that the device has wherever it is attached, where the kernel tells one.
    id: Option<String>,
}

/// Drives on the devices of this machine.
pub fn on_devices() -> Vec<Sighting> {
    let (mut seen, mut denied) = (Vec::new(), Vec::new());
    for candidate in all() {
        let path = candidate.path.display().to_string();
        if let Err(error) = look_at(candidate, &mut seen)
            && is_denied(&error)
        {
            denied.push(path);
        }
    }
    if !denied.is_empty() {
        log::warn!(
            "this user may not look at {}: run this as root to have drives found there",
            denied.join(", ")
        );
    }
    seen
}

fn is_denied(error: &DriveError) -> bool {
    matches!(
        error.problem,
        DriveProblem::NotPermitted(_) | DriveProblem::Nvme(NvmeProblem::NotPermitted { .. })
    )
}

/// Adds what there is of these drives on the devices of this machine: those that have the id of one of them are looked at
/// first, and the others where a drive is lost then.
pub fn find(lost: &[&DriveTable], seen: &mut Vec<Sighting>) {
    let has_id =
        |candidate: &Candidate| candidate.id.is_some() && lost.iter().any(|table| table.id == candidate.id);
    let (likely, others): (Vec<Candidate>, Vec<Candidate>) = all().into_iter().partition(has_id);
    look_at_all(likely, seen);
    let is_found = |table: &&DriveTable| seen.iter().any(|sighting| sighting.uuid == table.uuid);
    if !lost.is_empty() && lost.iter().all(is_found) {
        return;
    }
    look_at_all(others, seen);
}

/// Block devices of this machine that are no part of another one.
pub fn block_devices() -> Vec<PathBuf> {
    let nodes = Host::here().block_nodes().unwrap_or_else(|error| {
        log::debug!("block devices: {error}");
        Vec::new()
    });
    let is_part_of_another =
        |users: &[String]| users.iter().any(|user: &String| user.starts_with("member of"));
    nodes.into_iter().filter(|node| !is_part_of_another(&node.users)).map(|node| node.path).collect()
}

fn look_at_all(candidates: Vec<Candidate>, seen: &mut Vec<Sighting>) {
    for candidate in candidates {
        // What cannot be read has been logged.
        let _ = look_at(candidate, seen);
    }
}

fn look_at(candidate: Candidate, seen: &mut Vec<Sighting>) -> Result<(), DriveError> {
    let sighting = Sighting::of(&candidate.path).inspect_err(|error| log::debug!("{error}"))?;
    sighting::add_new(seen, vec![sighting]);
    Ok(())
}

fn all() -> Vec<Candidate> {
    // Their names are asked of the drives.
    let mut all: Vec<Candidate> = node::all().into_iter().map(|path| Candidate { path, id: None }).collect();
    let nodes = Host::here().block_nodes().unwrap_or_else(|error| {
        log::debug!("block devices: {error}");
        Vec::new()
    });
    for node in nodes {
        let is_part_of_another = node.users.iter().any(|user| user.starts_with("member of"));
        // A namespace with zones is looked at by its other node, but for one without metadata.
        let is_nvme = node.zones.is_some() && node::of_block_node(&node.path).is_some();
        if !is_part_of_another && (!is_nvme || zoned::is_inband(&node.path)) {
            all.push(Candidate { path: node.path, id: node.id });
        }
    }
    all
}
