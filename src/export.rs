//! `zoneweave export`: the disks of this host that servers of an array made, and an end to those whose server is gone.

use crate::cli::Export;
use crate::directory::Directory;
use crate::exit::Exit;
use crate::exports::mark;
use crate::md;
use anyhow::Result;
use serde::Serialize;
use server::ublk::{Control, ControlError, State, Summary, node, stop_unless_used};
use std::path::Path;

/// A disk, as the command prints it.
#[derive(Debug, Serialize)]
struct Listed {
    kind: &'static str,
    path: String,
    state: &'static str,
    /// Process that serves it, or served it last.
    process: i32,
}

impl Listed {
    fn of(disk: &Summary) -> Listed {
        let state = match disk.state {
            State::Dead => "stopped",
            State::Live => "served",
            State::Quiesced => "waiting",
            State::Other(_) => "unknown",
        };
        Listed { kind: "ublk", path: node(disk.number), state, process: disk.process }
    }
}

/// Lists the disks, or removes them.
pub fn run(options: &Export) -> Result<Exit> {
    let mark = mark(&uuid_of(&options.dir)?);
    let mut control = match Control::open() {
        // Without the driver there are no disks.
        Err(ControlError::NoDriver) => return print(&[], options),
        control => control.map_err(|error| Exit::Failed.because(error))?,
    };
    let disks = control.marked(mark)?;
    if options.remove {
        for disk in &disks {
            remove(&mut control, disk, options.force)?;
        }
    }
    print(&disks, options)
}

fn uuid_of(dir: &Path) -> Result<String> {
    if md::description::is_in(dir) {
        return Ok(md::description::Description::open(dir)?.uuid);
    }
    Ok(Directory::open(dir)?.file.uuid.to_string())
}

fn remove(control: &mut Control, disk: &Summary, forced: bool) -> Result<()> {
    let path = node(disk.number);
    if disk.state == State::Live {
        return Err(Exit::Busy.error(format!(
            "{path} is served by process {}: `zoneweave stop` its array first",
            disk.process
        )));
    }
    let stopped = if forced {
        control.stop(disk.number).map(|()| true)
    } else {
        stop_unless_used(control, disk.number)
    };
    let is_stopped =
        stopped.map_err(|error| Exit::Failed.error(format!("{path} cannot be stopped: {error}")))?;
    if !is_stopped {
        return Err(Exit::Busy.error(format!(
            "{path} is in use: serve the array with --ublk and unmount it, or give it up with --force: what was written to it and \
             not synced is lost then"
        )));
    }
    Ok(control.remove(disk.number)?)
}

fn print(disks: &[Summary], options: &Export) -> Result<Exit> {
    let listed: Vec<Listed> = disks.iter().map(Listed::of).collect();
    if options.json {
        let name = if options.remove { "removed" } else { "exports" };
        println!("{}", serde_json::json!({ name: serde_json::to_value(&listed)? }));
        return Ok(Exit::Well);
    }
    for disk in &listed {
        match options.remove {
            true => println!("removed {}", disk.path),
            false => println!("{} {} {} (process {})", disk.kind, disk.path, disk.state, disk.process),
        }
    }
    if listed.is_empty() {
        println!("no disk of this host");
    }
    Ok(Exit::Well)
}
