//! The host: where experiments on the wall clock run, with real clients, a real file system and a real database.
//!
//! ```text
//!   sysbench, mariadbd -> ext4 -> /dev/nbdN, or /dev/loopN -> nbdfuse -> zoneweave serve --profile -> emulated drives
//! ```
//! Everything is in one scratch directory. What is started, attached or mounted belongs to a value that ends it when
//! dropped, in the opposite order, after errors and after a signal as well: whoever waits looks at [`Host::go_on`].

pub mod array;
pub mod block_device;
pub mod database;
pub mod file_system;
pub mod fio;
pub mod process;
pub mod processor;
pub mod program;
pub mod sysbench;

use anyhow::{Context, Result, bail, ensure};
use program::Program;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Parent of the scratch directory unless told otherwise: in memory, so that no disk sets the pace.
pub const SCRATCH_DEFAULT: &str = "/dev/shm";

/// A machine to run on. Its scratch directory is removed when dropped.
#[derive(Debug)]
pub struct Host {
    binary: PathBuf,
    scratch: PathBuf,
    interrupted: Arc<AtomicBool>,
}

impl Host {
    /// Makes a scratch directory in `parent`. `binary` is the `zoneweave` command; `interrupted` is set when the
    /// operator wants no more.
    ///
    /// # Errors
    /// When one of `programs` is not installed, the process is not root, or there is too little room.
    pub fn new(
        binary: PathBuf,
        parent: &Path,
        programs: &[Program],
        interrupted: Arc<AtomicBool>,
    ) -> Result<Host> {
        check(programs)?;
        let there = rustix::fs::statvfs(parent).with_context(|| format!("--scratch {}", parent.display()))?;
        let free_mib = (there.f_bavail * there.f_frsize) >> 20;
        let needed_mib = array::BYTES_MAX >> 20;
        ensure!(
            free_mib >= needed_mib,
            "--scratch {}: {free_mib} MiB are free, the drives take up to {needed_mib} MiB: name another directory",
            parent.display()
        );
        let scratch = parent.join(format!("zoneweave-lab-{}", std::process::id()));
        std::fs::create_dir(&scratch).with_context(|| format!("{}", scratch.display()))?;
        Ok(Host { binary, scratch, interrupted })
    }

    /// An error when the operator wants no more.
    ///
    /// # Errors
    /// Then.
    pub fn go_on(&self) -> Result<()> {
        if self.interrupted.load(Ordering::Relaxed) {
            bail!("interrupted; what was started is stopped, what was mounted is unmounted");
        }
        Ok(())
    }

    /// The `zoneweave` command.
    #[must_use]
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// A place in the scratch directory.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.join(name)
    }

    /// A new folder in the scratch directory, removed when dropped.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn folder(&self, name: &str) -> Result<Folder> {
        let path = self.path(name);
        std::fs::create_dir(&path).with_context(|| format!("{}", path.display()))?;
        Ok(Folder(path))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        remove(&self.scratch);
    }
}

/// A folder that is removed when dropped.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Returns the path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

/// Nothing may be left that is mounted below: then removing fails, and what is mounted stays as it is.
fn remove(path: &Path) {
    if let Err(error) = std::fs::remove_dir_all(path) {
        log::warn!("{} is left behind: {error}", path.display());
    }
}

/// Reports all that is missing in one error.
fn check(programs: &[Program]) -> Result<()> {
    let mut wants: Vec<String> = program::missing(programs).into_iter().collect();
    if !rustix::process::geteuid().is_root() {
        wants.push(String::from("root, to attach a block device and mount it"));
    }
    ensure!(wants.is_empty(), "experiments on the wall clock need {}", wants.join(", and "));
    Ok(())
}
