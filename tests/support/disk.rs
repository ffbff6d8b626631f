//! A small file system of its own, which can be frozen, filled and lost: ext4 in a file, which only root can mount.

use super::run::{Finished, SOON, command, run_for, until};
use super::scratch::Scratch;
use super::{have, is_root, skip, text};
use std::path::{Path, PathBuf};

const MIB: u64 = 1 << 20;

/// A small ext4 that drives lie on. Thawed and unmounted with its owner.
pub struct SmallDisk {
    pub at: PathBuf,
    image: PathBuf,
}

impl SmallDisk {
    /// Makes one beside the array, or says why not.
    pub fn make(scratch: &Scratch, mib: u64) -> Option<SmallDisk> {
        if !have(&["mkfs.ext4", "mount", "umount", "fsfreeze", "python3"])
            || !is_root() && !skip("only root can mount")
        {
            return None;
        }
        let (image, at) = (scratch.join("image"), scratch.join("small"));
        std::fs::create_dir(&at).unwrap();
        std::fs::File::create(&image).unwrap().set_len(mib * MIB).unwrap();
        run_for(SOON, command("mkfs.ext4").args(["-q", "-F", "-m", "0", text(&image)])).expect("mkfs.ext4");
        let disk = SmallDisk { at, image };
        let mounted = disk.mount();
        if !mounted.succeeded() {
            let _never = skip(&format!("no loop mounts here: {mounted}"));
            return None;
        }
        Some(disk)
    }

    fn mount(&self) -> Finished {
        run_for(SOON, command("mount").args(["-o", "loop", text(&self.image), text(&self.at)]))
    }

    /// Loss of power of the disk: writes that were not flushed are lost, and the file system is there again. Nobody may use
    /// it meanwhile. True when a file that was written right before is lost, as it is but for a chance.
    pub fn lose_power(&self) -> bool {
        let last = self.at.join("last");
        std::fs::write(&last, [7; 8192]).unwrap();
        self.vanish();
        assert!(until(SOON, || run_for(SOON, command("umount").arg(&self.at)).succeeded()), "umount");
        let mounted = self.mount();
        assert!(mounted.succeeded(), "{mounted}");
        let is_lost = std::fs::read(&last).is_err();
        let _lost_already = std::fs::remove_file(&last);
        is_lost
    }

    /// Moves a drive of an array that is not served here.
    pub fn take_drive(&self, dir: &Path, drive: u32) {
        let name = format!("drive-{drive}.zns");
        let moved = self.at.join(&name);
        run_for(SOON, command("cp").args(["--sparse=always", text(&dir.join(&name)), text(&moved)]))
            .expect("cp");
        std::fs::remove_file(dir.join(&name)).unwrap();
        std::os::unix::fs::symlink(&moved, dir.join(&name)).unwrap();
    }

    /// The device below is gone, as far as the file system is concerned: everything is an input/output error from now on.
    pub fn vanish(&self) {
        // EXT4_IOC_SHUTDOWN, without writing the log.
        let script = "import fcntl, os, struct, sys; \
                      fcntl.ioctl(os.open(sys.argv[1], 0), 0x8004587d, struct.pack('I', 2))";
        run_for(SOON, command("python3").args(["-c", script, text(&self.at)])).expect("shutdown of ext4");
    }

    /// Fills the file system, until [`SmallDisk::empty`].
    pub fn fill(&self) {
        let room = run_for(SOON, command("df").args(["--output=avail", "-B1", text(&self.at)])).expect("df");
        // The file system needs some for what it knows of the file.
        let bytes =
            room.lines().last().unwrap().trim().parse::<u64>().unwrap().saturating_sub(8 * MIB).to_string();
        let at_once =
            run_for(SOON, command("fallocate").args(["-l", &bytes, text(&self.at.join("ballast"))]));
        println!("filled by {bytes} bytes at once: {}", at_once.succeeded());
        let rest = format!("of={}", text(&self.at.join("ballast.rest")));
        let filled = run_for(SOON, command("dd").args(["if=/dev/zero", "bs=64k", &rest]));
        assert!(!filled.succeeded(), "dd fills the file system: {filled}");
    }

    /// Makes room again.
    pub fn empty(&self) {
        for ballast in ["ballast", "ballast.rest"] {
            let _never_made = std::fs::remove_file(self.at.join(ballast));
        }
    }

    pub fn freeze(&self, option: &str) {
        run_for(SOON, command("fsfreeze").args([option, text(&self.at)])).expect("fsfreeze");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _not_frozen = run_for(SOON, command("fsfreeze").args(["-u", text(&self.at)]));
        until(SOON, || run_for(SOON, command("umount").arg(&self.at)).succeeded());
    }
}
