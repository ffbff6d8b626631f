//! A file as a block device.

use super::run::{SOON, command, run_for};
use super::text;
use std::path::{Path, PathBuf};

/// A loop device over a file, until it is dropped.
pub struct Loop(pub PathBuf);

impl Loop {
    /// Loop device over a file; `None` where this host has none for us.
    pub fn over(file: &Path) -> Option<Loop> {
        let made = run_for(SOON, command("losetup").args(["--find", "--show", text(file)]));
        made.succeeded().then(|| Loop(PathBuf::from(made.stdout.trim())))
    }

    /// Loop devices over files, in this order.
    pub fn over_all(files: &[PathBuf]) -> Option<Vec<Loop>> {
        files.iter().map(|file| Loop::over(file)).collect()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = command("losetup").arg("--detach").arg(&self.0).status();
    }
}
