//! Devices that other programs made: what `mkfs`, `mkswap`, `cryptsetup`, `pvcreate` and `mdadm` leave is known by its name, and not overwritten.

use crate::support::loop_device::Loop;
use crate::support::run::{SOON, command, run_for};
use crate::support::scratch::Scratch;
use crate::support::server::zoneweave;
use crate::support::{have, is_root, text};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// XFS wants 300 MiB.
const DEVICE_BYTES: u64 = 320 << 20;

/// Bytes at both ends that are compared.
const END_BYTES: usize = 4 << 20;

fn file(scratch: &Scratch, name: &str) -> PathBuf {
    let path = scratch.join(name);
    std::fs::File::create(&path).unwrap().set_len(DEVICE_BYTES).unwrap();
    path
}

/// Runs a program among the mounts of the host but those of FUSE: `mkfs.btrfs` asks each of them, and one whose server a test has killed
/// refuses to say anything.
#[track_caller]
fn run(program: &str, args: &[&str]) {
    let mut bare = command(program);
    let mut apart = command("unshare");
    apart.args(["--mount", "sh", "-c", "umount -l -a -t fuse; exec \"$@\"", "sh", program]);
    let ran = run_for(SOON, if is_root() { apart.args(args) } else { bare.args(args) });
    assert_eq!(ran.code(), Some(0), "{program} {args:?}: {ran}");
}

fn ends(path: &Path) -> [Vec<u8>; 2] {
    let file = std::fs::File::open(path).unwrap();
    [0, DEVICE_BYTES - END_BYTES as u64].map(|place| {
        let mut bytes = vec![0; END_BYTES];
        file.read_exact_at(&mut bytes, place).unwrap();
        bytes
    })
}

/// `create` refuses the device between two empty ones, says what is on it, and writes to none of them.
#[track_caller]
fn expect_refused(scratch: &Scratch, device: &Path, what: &str) {
    let empty = [file(scratch, "empty-0"), file(scratch, "empty-1")];
    let drives = [&empty[0], device, &empty[1]].map(|path| format!("raw:{}", path.display())).join(",");
    let before = ends(device);
    let dir = scratch.join("array");
    let create = ["create", text(&dir), "--zone-size", "4MiB", "--drives-path", &drives];
    let ran = run_for(SOON, zoneweave().args(create));
    assert_eq!(ran.code(), Some(4), "{what}: {ran}");
    for word in [what, text(device), "--force"] {
        assert!(ran.stderr.contains(word), "`{word}` is not said: {ran}");
    }
    assert!(before == ends(device), "{what}: something was written to it");
    for path in &empty {
        assert!(
            ends(path).iter().flatten().all(|byte| *byte == 0),
            "{what}: {} was written to",
            path.display()
        );
    }
    assert!(!dir.join("array.toml").exists(), "{what}: an array was made");
}

/// Signature that a program makes in a file is named when a drive there is refused.
fn made_by(program: &str, args: &[&str], what: &str) {
    if !have(&[program]) {
        return;
    }
    let scratch = Scratch::new(&format!("signature-{program}"));
    let device = file(&scratch, "device");
    run(program, &[args, &[text(&device)]].concat());
    expect_refused(&scratch, &device, what);
}

#[test]
fn a_file_system_ext4_is_named() {
    made_by("mkfs.ext4", &["-q", "-F"], "a file system (ext2, ext3 or ext4)");
}

#[test]
fn a_file_system_xfs_is_named() {
    made_by("mkfs.xfs", &["-q", "-f"], "a file system (XFS)");
}

#[test]
fn a_file_system_btrfs_is_named() {
    made_by("mkfs.btrfs", &["-q", "-f"], "a file system (Btrfs)");
}

#[test]
fn a_file_system_f2fs_is_named() {
    made_by("mkfs.f2fs", &["-q", "-f"], "a file system (F2FS)");
}

#[test]
fn swap_space_is_named() {
    made_by("mkswap", &[], "swap space");
}

#[test]
fn an_encrypted_volume_is_named() {
    for kind in ["luks1", "luks2"] {
        let cost = ["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000", "--key-file", "/proc/self/comm"];
        let args = [&["luksFormat", "--batch-mode", "--type", kind][..], &cost].concat();
        made_by("cryptsetup", &args, "an encrypted volume (LUKS)");
    }
}

/// A program that takes block devices only.
fn made_on_a_loop(program: &str, args: &[&str], what: &str) {
    if !have(&[program, "losetup"]) {
        return;
    }
    let scratch = Scratch::new(&format!("signature-{program}"));
    let device = file(&scratch, "device");
    let Some(looped) = Loop::over(&device).filter(|_| is_root()) else {
        println!("skipped: {program} wants a loop device, and this host has none for us");
        return;
    };
    run(program, &[args, &[text(&looped.0)]].concat());
    run("sync", &[]);
    drop(looped);
    expect_refused(&scratch, &device, what);
}

#[test]
fn a_physical_volume_is_named() {
    made_on_a_loop("pvcreate", &["--yes", "--quiet"], "a physical volume (LVM)");
}

#[test]
fn a_partition_table_is_named() {
    if !have(&["sfdisk"]) {
        return;
    }
    for (label, what) in [("dos", "a partition table or a boot sector"), ("gpt", "a partition table (GPT)")] {
        let scratch = Scratch::new("signature-sfdisk");
        let device = file(&scratch, "device");
        let make = "printf 'label: %s\\n,\\n' \"$1\" | sfdisk --quiet \"$2\"";
        run("sh", &["-c", make, "sh", label, text(&device)]);
        expect_refused(&scratch, &device, what);
    }
}

/// The kernel need not have md: `mdadm` writes a superblock without it where an array is only described.
#[test]
fn a_member_of_md_is_named() {
    if !have(&["mdadm", "losetup"]) {
        return;
    }
    if !Path::new("/proc/mdstat").exists() {
        println!("skipped: mdadm wants md in the kernel, which this host has not");
        return;
    }
    let scratch = Scratch::new("signature-mdadm");
    let devices = [file(&scratch, "device"), file(&scratch, "other")];
    let Some(loops) = Loop::over_all(&devices).filter(|_| is_root()) else {
        println!("skipped: mdadm wants loop devices, and this host has none for us");
        return;
    };
    let node = format!("/dev/md/signature-{}", std::process::id());
    let create =
        ["--create", &node, "--run", "--level=1", "--raid-devices=2", "--metadata=1.2", "--assume-clean"];
    let made = run_for(SOON, command("mdadm").args(create).args(loops.iter().map(|one| text(&one.0))));
    assert_eq!(made.code(), Some(0), "{made}");
    run("mdadm", &["--stop", &node]);
    run("sync", &[]);
    drop(loops);
    expect_refused(&scratch, &devices[0], "of the md array");
}

/// No pool can be made without the kernel's module: a label as `zpool create` writes it.
#[test]
fn a_pool_of_zfs_is_named() {
    let scratch = Scratch::new("signature-zfs");
    let device = file(&scratch, "device");
    // A list of names and values in XDR, of which the first is the version of the pool.
    let list = [
        &[1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1][..],
        &[0, 0, 0, 0x24, 0, 0, 0, 0x20, 0, 0, 0, 7],
        b"version\0",
        &[0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0x13, 0x88],
    ]
    .concat();
    for label in [0, 256 << 10] {
        let file = std::fs::File::options().write(true).open(&device).unwrap();
        file.write_all_at(&list, label + (16 << 10)).unwrap();
    }
    expect_refused(&scratch, &device, "a pool of ZFS");
}

/// Formats that nobody knows are data.
#[test]
fn a_device_with_anything_on_it_is_refused() {
    let scratch = Scratch::new("signature-data");
    for place in [777_777, DEVICE_BYTES - 9] {
        let device = file(&scratch, "device");
        std::fs::File::options().write(true).open(&device).unwrap().write_all_at(b"x", place).unwrap();
        expect_refused(&scratch, &device, "data");
    }
}
