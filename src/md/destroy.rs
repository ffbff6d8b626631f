//! `zoneweave destroy` of an array of md: its members carry no superblocks any more, and those in its directory are removed.
//! `array.toml` goes last, so that it can be repeated.

use super::description::{Description, FILE};
use super::status::control_path;
use super::target::Target;
use crate::cli::Destroy;
use crate::destroy::is_agreed;
use crate::exit::Exit;
use crate::exports::host_disk;
use crate::status::ask_at;
use anyhow::{Context, Result};
use block::md::member::Member;
use std::io::{ErrorKind, IsTerminal};
use std::path::{Path, PathBuf};

/// Files beside `array.toml` that an array makes.
const OTHERS: [&str; 4] = ["control.sock", "nbd.sock", "array.toml.new", FILE];

/// Destroys an array that is not served. On a terminal it asks first.
pub fn run(options: &Destroy) -> Result<Exit> {
    let dir = &options.dir;
    let description = Description::open(dir)?;
    if ask_at(&control_path(dir), "status")?.is_some() {
        let said = format!("{}: the array is being served; stop the server first", dir.display());
        return Err(Exit::Busy.error(said));
    }
    host_disk::expect_no_disk(&description.uuid)?;
    let targets = own_members(&description, dir)?;
    if !options.yes && std::io::stdin().is_terminal() && !is_agreed(dir, targets.len())? {
        println!("nothing was changed");
        return Ok(Exit::Failed);
    }
    let mut removed = 0;
    for target in &targets {
        target.zero_superblocks()?;
        if is_within(dir, &target.path) {
            std::fs::remove_file(&target.path).with_context(|| target.path.display().to_string())?;
            removed += 1;
        }
    }
    for name in OTHERS {
        let path = dir.join(name);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| path.display().to_string());
            }
            _ => {}
        }
    }
    // Others may have put something here; that stays.
    let _ = std::fs::remove_dir(dir);
    println!(
        "destroyed {}: {} members carry no superblock any more, {removed} files of them are removed",
        dir.display(),
        targets.len()
    );
    Ok(Exit::Well)
}

/// Members that are there and belong to this array; others are left alone. One that is in use ends it before anything is changed.
fn own_members(description: &Description, dir: &Path) -> Result<Vec<Target>> {
    let mut targets = Vec::new();
    for path in description.paths(dir) {
        let target = match Target::open(&path) {
            Ok(target) => target,
            Err(error) if Exit::of(&error) == Exit::Absent => continue,
            Err(error) => return Err(error),
        };
        match Member::read("", target.media()) {
            Ok(member) if member.superblock().array.uuid.to_string() == description.uuid => {
                targets.push(target)
            }
            _ => log::warn!("{} is no member of this array: left alone", path.display()),
        }
    }
    Ok(targets)
}

/// True of a regular file that lies in the directory itself.
fn is_within(dir: &Path, path: &Path) -> bool {
    let full = |path: &Path| -> Option<PathBuf> { path.canonicalize().ok() };
    let parent = full(path).and_then(|path| path.parent().map(Path::to_owned));
    path.is_file() && parent.is_some() && parent == full(dir)
}
