//! `zoneweave destroy`: removes an array with its drives. `array.toml` goes last, so that it can be repeated.

use crate::cli::Destroy;
use crate::directory::Directory;
use crate::exit::Exit;
use crate::exports::host_disk;
use crate::fence_note;
use crate::roster::Roster;
use crate::sighting::Sighting;
use crate::status;
use anyhow::{Context, Result};
use drive::any::{AnyDrive, discard};
use drive::emulated::DriveProblem;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Files beside `array.toml` that an array makes.
const OTHERS: [&str; 8] = [
    "counters.json",
    "counters.json.new",
    "control.sock",
    "nbd.sock",
    fence_note::NAME,
    "array.toml.new",
    "array.toml.old",
    "array.toml",
];

/// Removes an array that is not served. On a terminal it asks first.
pub fn run(options: &Destroy) -> Result<Exit> {
    let mut directory = Directory::open(&options.dir)?;
    status::expect_unserved(&directory)?;
    fence_note::expect_none(&directory.path)?;
    host_disk::expect_no_disk(&directory.file.uuid.to_string())?;
    let files = files_of(&mut directory)?;
    if !options.yes && std::io::stdin().is_terminal() && !is_agreed(&options.dir, files.len())? {
        println!("nothing was changed");
        return Ok(Exit::Failed);
    }
    for path in &files {
        discard(path)?;
    }
    for name in OTHERS {
        let path = options.dir.join(name);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("{}", path.display()));
            }
            _ => {}
        }
    }
    // Others may have put something here; that stays.
    let _ = std::fs::remove_dir(&options.dir);
    println!("destroyed {}: {} drives are removed", options.dir.display(), files.len());
    Ok(Exit::Well)
}

/// The files of the array's drives and spares. One that is in use, or that is another drive, is not removed.
fn files_of(directory: &mut Directory) -> Result<Vec<PathBuf>> {
    // Where the drives are now.
    Roster::find(directory)?;
    let mut files = Vec::new();
    for table in directory.file.drive.iter().chain(&directory.file.spare) {
        let path = directory.path.join(&table.path);
        match Sighting::of(&path) {
            Ok(sighting) if sighting.uuid == table.uuid => expect_unused(&path)?,
            Ok(_) => {
                log::warn!("{}: is another drive, and stays", path.display());
                continue;
            }
            Err(error) if matches!(error.problem, DriveProblem::NotFound) => continue,
            Err(error) => {
                log::warn!("{error}; the file stays");
                continue;
            }
        }
        files.push(path);
    }
    Ok(files)
}

fn expect_unused(path: &Path) -> Result<()> {
    match AnyDrive::open(path) {
        Err(error) if matches!(error.problem, DriveProblem::InUse | DriveProblem::Held(_)) => {
            Err(error.into())
        }
        _ => Ok(()),
    }
}

/// Asks on the terminal.
pub fn is_agreed(dir: &Path, drives: usize) -> Result<bool> {
    print!(
        "{}: all data of the array and its {drives} drives will be gone for good. Go on? [y/N] ",
        dir.display()
    );
    std::io::stdout().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
