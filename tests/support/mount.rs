//! ext4 over a loop device over nbdfuse: the volume as a kernel sees it.
//!
//! Whatever touches a mount whose server is dead may hang. So: nbdfuse is killed before anything is
//! unmounted, which turns waiting into errors; unmounting is lazy; and everything has a limit.

use super::run::{Finished, SOON, command, kill, run_for, until};
use super::text;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

/// Commands that only talk to the kernel.
const PROMPT: Duration = Duration::from_secs(20);

/// Programs that a mount needs.
pub const TOOLS: &[&str] = &["nbdfuse", "fusermount3", "losetup", "mkfs.ext4", "e2fsck", "mount", "umount"];

/// A volume as a block device.
pub struct BlockDevice {
    nbdfuse: Child,
    fuse: PathBuf,
    device: String,
    mounted: Option<PathBuf>,
}

impl BlockDevice {
    /// Attaches the volume behind `socket`; `fuse` is a folder of ours.
    #[track_caller]
    pub fn attach(socket: &Path, fuse: &Path) -> BlockDevice {
        std::fs::create_dir_all(fuse).unwrap();
        let file = fuse.join("disk");
        let mut nbdfuse = command("nbdfuse");
        nbdfuse.args([text(&file), "--unix", text(socket)]).stdin(Stdio::null()).stderr(Stdio::null());
        let nbdfuse = nbdfuse.spawn().unwrap();
        // From here on it is taken apart when something fails.
        let mut block = BlockDevice { nbdfuse, fuse: fuse.to_owned(), device: String::new(), mounted: None };
        let there = until(SOON, || run_for(PROMPT, command("stat").arg(&file)).succeeded());
        assert!(there, "nbdfuse shows no file");
        let mut losetup = command("losetup");
        losetup.args(["--find", "--show", "--direct-io=off", text(&file)]);
        block.device = run_for(PROMPT, &mut losetup).expect("losetup").trim().to_owned();
        block
    }

    /// Makes a file system.
    #[track_caller]
    pub fn format(&self) {
        run_for(SOON, command("mkfs.ext4").args(["-q", "-F", &self.device])).expect("mkfs.ext4");
    }

    /// Replays the journal, then asserts that nothing else was wrong.
    #[track_caller]
    pub fn check_file_system(&self) {
        let replay = run_for(SOON, command("e2fsck").args(["-p", &self.device]));
        assert!(matches!(replay.code(), Some(0 | 1)), "replaying the journal: {replay}");
        let check = run_for(SOON, command("e2fsck").args(["-fn", &self.device]));
        assert_eq!(check.code(), Some(0), "after replaying the journal: {check}");
    }

    /// Mounts; deleted files are trimmed.
    #[track_caller]
    pub fn mount(&mut self, at: &Path) {
        std::fs::create_dir_all(at).unwrap();
        run_for(SOON, command("mount").args(["-o", "discard", &self.device, text(at)])).expect("mount");
        self.mounted = Some(at.to_owned());
    }

    /// Unmounts and detaches while everything is alive; nothing may be lost.
    #[track_caller]
    pub fn detach(mut self) {
        if let Some(at) = self.mounted.take() {
            run_for(SOON, command("umount").arg(at)).expect("umount");
        }
        run_for(PROMPT, command("losetup").args(["-d", &self.device])).expect("losetup -d");
        self.wait_until_detached();
        run_for(PROMPT, command("fusermount3").args(["-u", text(&self.fuse)])).expect("fusermount3");
        self.device.clear();
    }

    /// Takes everything apart over a server that is dead or dying.
    pub fn abandon(self) {
        drop(self);
    }

    fn take_apart(&mut self) {
        // Whoever waits for the file system gets an error from here on.
        kill(&mut self.nbdfuse);
        if let Some(at) = self.mounted.take() {
            tolerate(&run_for(PROMPT, command("umount").args(["-l", text(&at)])));
        }
        if !self.device.is_empty() {
            tolerate(&run_for(PROMPT, command("losetup").args(["-d", &self.device])));
            self.wait_until_detached();
        }
        run_for(PROMPT, command("fusermount3").args(["-u", "-z", text(&self.fuse)]));
    }

    /// A loop device is freed when its last user, such as a file system that is dying, has gone.
    fn wait_until_detached(&self) {
        let attached = || run_for(PROMPT, command("losetup").arg(&self.device)).succeeded();
        if !until(SOON, || !attached()) {
            println!("{} is still in use; going on with another", self.device);
        }
    }
}

impl Drop for BlockDevice {
    fn drop(&mut self) {
        self.take_apart();
    }
}

/// Cleaning up goes on after a failure, which is worth a line.
fn tolerate(finished: &Finished) {
    if !finished.succeeded() {
        println!("while taking apart: {finished}");
    }
}
