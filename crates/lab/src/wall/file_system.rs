//! The file system: ext4 on a block device.

use super::Host;
use super::block_device::BlockDevice;
use super::program::{self, Program, command, undo};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Making a file system of some GiB.
const LIMIT: Duration = Duration::from_secs(120);

/// Programs that the file system needs.
pub const PROGRAMS: [Program; 3] = [
    Program { name: "mkfs.ext4", package: "e2fsprogs" },
    Program { name: "mount", package: "mount" },
    Program { name: "umount", package: "mount" },
];

/// A mounted file system; unmounted when dropped.
#[derive(Debug)]
pub struct FileSystem<'a> {
    host: &'a Host,
    path: PathBuf,
}

impl<'a> FileSystem<'a> {
    /// Makes ext4 and mounts it in `folder`.
    ///
    /// # Errors
    /// When a program fails.
    pub fn make(host: &'a Host, folder: &Path, device: &BlockDevice) -> Result<FileSystem<'a>> {
        let path = folder.join("mount");
        std::fs::create_dir(&path).with_context(|| format!("{}", path.display()))?;
        let mut mkfs = command("mkfs.ext4");
        // All of it is written now and nothing behind the measurement's back.
        mkfs.args(["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"]).arg(device.path());
        program::run(host, LIMIT, &mut mkfs)?;
        program::run_to_end(host, command("mount").arg(device.path()).arg(&path))?;
        Ok(FileSystem { host, path })
    }

    /// Returns the path at which the file system is mounted.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for FileSystem<'_> {
    fn drop(&mut self) {
        if !undo(self.host, command("umount").arg(&self.path)) {
            undo(self.host, command("umount").arg("-l").arg(&self.path));
        }
    }
}
