//! `zoneweave drive list`: devices of this host that could be drives, what they hold, and what to do with them.
//!
//! Nothing is written, and only block devices are opened.

use crate::exit::Exit;
use crate::host::{BlockNode, Host};
use crate::md::device::Device;
use crate::raw::data_at_the_ends;
use crate::sighting::Sighting;
use anyhow::{Context, Result};
use base::units::human_bytes;
use block::md::occupied;
use clap::Args;
use drive::conventional::device::layout_for;
use drive::emulated::{DriveError, DriveProblem};
use drive::nvme::identify::FormatProblem;
use drive::nvme::{self, open::NvmeProblem};
use drive::ordinary::open::is_held;
use drive::zoned;
use serde::Serialize;
use std::fmt;
use std::io::ErrorKind;
use std::path::Path;

#[derive(Debug, Args)]
pub struct DriveList {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// State of a device: free for a drive, or the reason why not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
enum State {
    /// Nobody uses it, and it holds nothing that is known.
    Free,
    /// Holds data: a file system, an array or the like.
    Holds { holds: Vec<String> },
    /// Somebody uses it.
    InUse,
    /// Unreadable, for this reason.
    Unreadable { error: String, is_denied: bool },
    /// Read-only device.
    ReadOnly,
    /// Blocks or zones that cannot be used as they are.
    Unsuited {
        why: String,
        #[serde(skip)]
        remedy: Option<String>,
    },
}

/// A device with what to do.
#[derive(Debug, Serialize)]
struct Candidate {
    #[serde(flatten)]
    node: BlockNode,
    #[serde(flatten)]
    state: State,
    /// Advice for the operator.
    advice: String,
}

/// Lists devices.
pub fn run(options: &DriveList) -> Result<Exit> {
    let host = Host::here();
    let nodes = host.block_nodes().with_context(|| format!("{}/class/block", host.sys.display()))?;
    let unusable = host.unusable_namespaces().unwrap_or_default();
    let unusable = unusable.into_iter().filter_map(Candidate::of_unusable);
    let candidates: Vec<Candidate> = nodes.into_iter().map(Candidate::of).chain(unusable).collect();
    if options.json {
        println!("{}", serde_json::json!({ "drives": candidates }));
        return Ok(Exit::Well);
    }
    if candidates.is_empty() {
        println!("no block devices; `zoneweave up` makes drives of files, to try it");
    }
    for candidate in &candidates {
        println!("{candidate}");
    }
    Ok(Exit::Well)
}

impl Candidate {
    fn of(mut node: BlockNode) -> Candidate {
        // Blocks with metadata are reached through the other node of the namespace.
        let own = node.zones.is_some().then(|| nvme::node::of_block_node(&node.path)).flatten();
        let block_path = node.path.clone();
        let mut state = match own {
            Some(path) => {
                node.path = path;
                state_of_nvme(&node)
            }
            None => state_of(&node),
        };
        // One without metadata is used by its block node, with identities in-band.
        let may_be_plain = match &state {
            State::Unsuited { .. } => zoned::geometry_of(&block_path).is_ok(),
            State::InUse => node.path != block_path,
            _ => false,
        };
        let plain = if may_be_plain { plain_format(&node.path) } else { None };
        // What would make it one with metadata.
        let format = plain.as_ref().and_then(|(problem, block)| problem.command(block));
        if plain.is_some() {
            node.path = block_path;
            state = state_of(&node);
        }
        let mut advice = advice(&node, &state);
        if let (Some(command), State::Free) = (format, &state) {
            advice = format!(
                "{advice}; or format it first, for metadata apart: `{command}`, and all that it holds is lost"
            );
        }
        Candidate { node, state, advice }
    }

    /// Candidate whose blocks the kernel cannot use.
    fn of_unusable(mut node: BlockNode) -> Option<Candidate> {
        node.path = nvme::node::of_block_node(&node.path)?;
        let state = state_of_nvme(&node);
        let advice = advice(&node, &state);
        Some(Candidate { node, state, advice })
    }
}

/// Format problem of a namespace whose blocks have no metadata, in use or not, and its block node.
fn plain_format(path: &Path) -> Option<(FormatProblem, String)> {
    match nvme::open::look(path).err()?.problem {
        DriveProblem::Nvme(NvmeProblem::Format { problem, block }) if !problem.has_metadata() => {
            Some((problem, block))
        }
        _ => None,
    }
}

/// State of an NVMe namespace with zones.
fn state_of_nvme(node: &BlockNode) -> State {
    let unreadable =
        |error: String| State::Unreadable { is_denied: error.contains("may not send commands"), error };
    if !node.users.is_empty() {
        return State::InUse;
    }
    match nvme::open::is_held(&node.path) {
        Ok(true) => return State::InUse,
        Ok(false) => {}
        Err(error) => {
            let is_denied = error.kind() == ErrorKind::PermissionDenied;
            return State::Unreadable { error: error.to_string(), is_denied };
        }
    }
    match nvme::open::look(&node.path) {
        Ok(found) if found.written_zones() == 0 => State::Free,
        Ok(found) => holding(node, found.written_zones(), found.zones.len()),
        Err(DriveError { problem: DriveProblem::Nvme(NvmeProblem::Format { problem, block }), .. }) => {
            State::Unsuited { why: problem.to_string(), remedy: problem.command(&block) }
        }
        Err(error) => unreadable(error.problem.to_string()),
    }
}

fn state_of(node: &BlockNode) -> State {
    if !node.users.is_empty() {
        return State::InUse;
    }
    match is_held(&node.path) {
        Ok(true) => return State::InUse,
        Err(error) => {
            let is_denied = error.kind() == ErrorKind::PermissionDenied;
            return State::Unreadable { error: error.to_string(), is_denied };
        }
        Ok(false) if node.read_only => return State::ReadOnly,
        Ok(false) => {}
    }
    if let Some(why) = node.misalignment() {
        return State::Unsuited { why, remedy: None };
    }
    if zoned::is_zoned(&node.path) {
        return state_of_zoned(node);
    }
    match Device::open(&node.path) {
        Err(error) => State::Unreadable { error: format!("{error:#}"), is_denied: false },
        Ok(device) => {
            let mut holds = occupied::seen(&device);
            let array = || Sighting::of(&node.path).ok().and_then(|sighting| sighting.array());
            if let Some(own) = holds.iter_mut().find(|what| what.contains("drive of Zoneweave"))
                && let Some(array) = array()
            {
                *own = format!("a drive of Zoneweave, of array {array}");
            }
            if holds.is_empty() {
                holds.extend(data_at_the_ends(&device).map(str::to_owned));
            }
            if holds.is_empty() { State::Free } else { State::Holds { holds } }
        }
    }
}

/// State of a drive with so many zones that are not empty.
fn holding(node: &BlockNode, written: usize, zones: usize) -> State {
    let array = Sighting::of(&node.path).ok().and_then(|sighting| sighting.array());
    let whose = array.map(|array| format!("a drive of Zoneweave, of array {array}"));
    State::Holds { holds: whose.into_iter().chain([format!("data in {written} of {zones} zones")]).collect() }
}

/// State of a zoned block device that nobody uses.
fn state_of_zoned(node: &BlockNode) -> State {
    match zoned::geometry_of(&node.path) {
        Ok((_, 0)) => State::Free,
        Ok((geometry, written)) => holding(node, written, geometry.zones as usize),
        Err(DriveError { problem: DriveProblem::Zoned(problem), .. }) => {
            State::Unsuited { why: problem.to_string(), remedy: None }
        }
        Err(error) => State::Unreadable { error: error.problem.to_string(), is_denied: false },
    }
}

fn advice(node: &BlockNode, state: &State) -> String {
    let path = node.path.display();
    let create = |force: &str| format!("zoneweave create DIR --drives-path {path},...{force}");
    let least = least_bytes();
    match state {
        State::Unsuited { remedy: Some(command), .. } => {
            format!("`{command}` makes it one that can be used, and all that it holds is lost")
        }
        State::Unsuited { remedy: None, .. } => "use another one".to_owned(),
        State::InUse => "free it first, or use another one".to_owned(),
        State::Unreadable { is_denied: true, .. } => "run this as root".to_owned(),
        State::Unreadable { .. } => "see `dmesg` for what is wrong with it".to_owned(),
        State::ReadOnly => "make it writable: blockdev --setrw".to_owned(),
        State::Free | State::Holds { .. } if node.zones.is_none() && node.size_bytes < least => {
            format!("too small: {} are the least", human_bytes(least))
        }
        State::Free if zoned::is_zoned(&node.path) => {
            format!("{}; metadata lie in-band, which takes 1 block of 60, and two zones", create(""))
        }
        State::Free => create(""),
        State::Holds { holds } if holds.iter().any(|what| what.contains("of the md array")) => {
            format!("zoneweave md examine {path}; zoneweave md assemble DIR {path} ...")
        }
        State::Holds { holds } if holds.iter().any(|what| what.contains("drive of Zoneweave")) => {
            format!(
                "zoneweave examine {path}; if all of its array may be lost: zoneweave drive wipe {path} --force=UUID"
            )
        }
        State::Holds { .. } => format!("if that may be lost: {}", create(" --force")),
    }
}

/// Bytes of the smallest device that can be cut into zones, in whole MiB.
fn least_bytes() -> u64 {
    let fits = |mib: u64| layout_for(mib << 20, None).validate().is_ok();
    let mut most = 1;
    while !fits(most) {
        most *= 2;
    }
    let mut least = most / 2;
    while least + 1 < most {
        let middle = least.midpoint(most);
        if fits(middle) { most = middle } else { least = middle }
    }
    most << 20
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BlockNode {
            path,
            kind,
            model,
            serial,
            size_bytes,
            logical_block_bytes,
            rotating,
            zones,
            users,
            ..
        } = &self.node;
        write!(f, "{}", path.display())?;
        if *size_bytes > 0 {
            write!(f, "  {}", human_bytes(*size_bytes))?;
        }
        write!(f, "  {}", kind.name())?;
        let rotating = rotating.then_some("rotating");
        for word in [model.as_deref(), serial.as_deref(), rotating].into_iter().flatten() {
            write!(f, "  {word}")?;
        }
        write!(f, "  blocks of {logical_block_bytes}")?;
        if let Some(zones) = zones {
            let (count, bytes) = (zones.count, human_bytes(zones.zone_bytes));
            write!(f, "  {count} zones of {bytes}, {}", zones.model)?;
            if zones.active_max > 0 {
                write!(f, ", {} active", zones.active_max)?;
            }
        }
        match &self.state {
            State::Free => write!(f, "\n    free")?,
            State::Unsuited { why, .. } => write!(f, "\n    cannot be used as it is: {why}")?,
            State::ReadOnly => write!(f, "\n    read-only")?,
            State::Holds { holds } => write!(f, "\n    holds {}", holds.join(", and "))?,
            State::InUse if users.is_empty() => {
                write!(f, "\n    in use: another program has it open for itself")?
            }
            State::InUse => write!(f, "\n    in use: {}", users.join(", "))?,
            State::Unreadable { error, .. } => write!(f, "\n    unreadable: {error}")?,
        }
        write!(f, "\n    {}", self.advice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The least size is just that.
    #[test]
    fn the_least_size_can_be_cut_into_zones_and_less_cannot() {
        let least = least_bytes();
        assert!(layout_for(least, None).validate().is_ok());
        assert!(layout_for(least - (1 << 20), None).validate().is_err());
    }
}
