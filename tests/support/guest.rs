//! A kernel of Debian in user mode, with md, for members that are files: what Linux itself makes of an array.

use super::run::{Finished, command, run_for};
use super::text;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Programs that [`run`] needs.
pub const TOOLS: &[&str] = &["linux.uml", "mdadm", "dmsetup", "busybox", "modprobe", "cpio", "ldd", "mknod"];

/// Longest time that a guest may take.
const GUEST_MAX: Duration = Duration::from_secs(120);

const MODULES: &str = "/usr/lib/uml/modules";

const INIT: &str = "#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t tmpfs run /run
for module in /modules/*; do insmod $module; done
sh /work.sh 2>&1
poweroff -f
";

/// Runs a shell script as root in the guest. Disks are `/dev/ubda`, `/dev/ubdb`, ...; `data` is `/data`. As root only.
#[track_caller]
pub fn run(scratch: &Path, disks: &[PathBuf], script: &str, data: &[u8]) -> Finished {
    run_with(&[], scratch, disks, script, data)
}

/// The same with other programs of this machine beside those that are there anyway.
#[track_caller]
pub fn run_with(others: &[&str], scratch: &Path, disks: &[PathBuf], script: &str, data: &[u8]) -> Finished {
    let programs: Vec<&str> = ["mdadm", "dmsetup"].iter().chain(others).copied().collect();
    let initrd = initrd(scratch, &programs.join(" "), script, data);
    let mut guest = command("linux.uml");
    guest.args(["mem=256M", "rootfstype=ramfs", "con=null", "con0=null,fd:1", "quiet", "loglevel=3"]);
    guest.arg(format!("initrd={}", text(&initrd))).arg(format!("uml_dir={}", text(scratch)));
    for (number, disk) in disks.iter().enumerate() {
        guest.arg(format!("ubd{number}={}", text(disk)));
    }
    run_for(GUEST_MAX, &mut guest)
}

/// A root file system with busybox, programs, the modules of md and the script.
fn initrd(scratch: &Path, programs: &str, script: &str, data: &[u8]) -> PathBuf {
    let root = scratch.join("initrd-root");
    let _none_yet = std::fs::remove_dir_all(&root);
    let mut make = String::new();
    let at = text(&root);
    writeln!(make, "set -e; mkdir -p {at}/bin {at}/dev {at}/proc {at}/sys {at}/run {at}/modules {at}/lib64")
        .unwrap();
    writeln!(make, "ln -s lib64 {at}/lib; mknod {at}/dev/console c 5 1").unwrap();
    writeln!(make, "for program in busybox {programs}; do cp \"$(command -v $program)\" {at}/bin/; done")
        .unwrap();
    // Libraries are found by their names in one folder.
    writeln!(
        make,
        "for program in {programs}; do ldd \"$(command -v $program)\"; done | sed -n 's/^[^/]*\\(\\/[^ ]*\\) .*/\\1/p' | \
         sort -u | while read -r library; do cp -L $library {at}/lib64/; done"
    )
    .unwrap();
    writeln!(make, "mkdir -p {at}.tree/lib; ln -sfn {MODULES} {at}.tree/lib/modules; n=100").unwrap();
    writeln!(
        make,
        "for module in raid456 dm-delay; do modprobe -d {at}.tree -S $(ls {MODULES}) --show-depends $module; done | \
         sed -n 's/^insmod \\([^ ]*\\).*/\\1/p' | \
         while read -r module; do cp $module {at}/modules/$n-module.ko; n=$((n+1)); done"
    )
    .unwrap();
    run_for(GUEST_MAX, command("sh").args(["-c", &make])).expect("the guest's root");
    std::fs::write(root.join("init"), INIT).unwrap();
    std::fs::write(root.join("work.sh"), script).unwrap();
    std::fs::write(root.join("data"), data).unwrap();
    let image = scratch.join("initrd");
    let pack = format!("chmod 755 {at}/init; cd {at} && find . | cpio --quiet -o -H newc > {}", text(&image));
    run_for(GUEST_MAX, command("sh").args(["-c", &pack])).expect("the guest's image");
    image
}
