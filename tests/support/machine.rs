//! A virtual machine: a kernel of Debian under QEMU without KVM, with a volume as its disk over vhost-user.

use super::run::{Finished, command, line_of, run_for};
use super::text;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

/// Programs that [`Machine::boot`] needs.
pub const TOOLS: &[&str] =
    &["qemu-system-x86_64", "busybox", "modprobe", "depmod", "cpio", "mkfs.ext4", "e2fsck", "dpkg"];

const PREPARATION_MAX: Duration = Duration::from_secs(180);

const MODULES: &str = "virtio_pci virtio_blk ext4 crc32c_generic";

const INIT: &str = "#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
for module in $(ls /modules); do insmod /modules/$module; done
sh /work.sh > /dev/ttyS0 2>&1
echo \"work ended with $?\" > /dev/ttyS0
sync; sleep 1; poweroff -f
";

/// A machine that runs, ended when dropped.
pub struct Machine {
    pub child: Child,
    console: PathBuf,
}

impl Machine {
    /// Boots, and runs the shell script as root. The disk is `/dev/vda`.
    #[track_caller]
    pub fn boot(scratch: &Path, disk: &Path, script: &str) -> Machine {
        let (kernel, version) = kernel();
        let image = initrd(scratch, &kernel, &version, script);
        let console = scratch.join("console");
        let mut qemu = command("qemu-system-x86_64");
        qemu.args([
            "-nodefaults",
            "-display",
            "none",
            "-no-reboot",
            "-cpu",
            "max",
            "-accel",
            "tcg,thread=multi",
        ]);
        qemu.args(["-machine", "q35,memory-backend=ram", "-m", "512M", "-smp", "2"]);
        qemu.args(["-object", "memory-backend-memfd,id=ram,size=512M,share=on"]);
        qemu.arg("-chardev").arg(format!("socket,id=disk,path={},reconnect=1", text(disk)));
        qemu.args(["-device", "vhost-user-blk-pci,chardev=disk,num-queues=2"]);
        qemu.arg("-serial").arg(format!("file:{}", text(&console)));
        qemu.arg("-kernel").arg(kernel.join("boot").join(format!("vmlinuz-{version}")));
        qemu.arg("-initrd").arg(image);
        qemu.args([
            "-append",
            "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off tsc=reliable random.trust_cpu=on",
        ]);
        let log = File::create(scratch.join("qemu.log")).unwrap();
        qemu.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let line = line_of(&qemu);
        let child = qemu.spawn().unwrap_or_else(|error| panic!("`{line}` did not start: {error}"));
        Machine { child, console }
    }

    /// What it has said so far.
    pub fn console(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.console).unwrap_or_default()).into_owned()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        super::run::kill(&mut self.child);
        if std::thread::panicking() {
            println!("--- console of the machine\n{}", self.console());
        }
    }
}

/// An unpacked kernel package and its version: that of `ZONEWEAVE_KERNEL`, or the newest that apt knows, which is
/// downloaded once and never installed.
#[track_caller]
fn kernel() -> (PathBuf, String) {
    let named = std::env::var_os("ZONEWEAVE_KERNEL").map(PathBuf::from);
    let folder =
        named.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/guest/kernel"));
    if !folder.join("boot").is_dir() {
        let download = "set -e; mkdir -p \"$1.new\"; cd \"$1.new\"
            package=$(apt-cache depends linux-image-amd64 | sed -n 's/^ *Depends: \\(linux-image-[0-9][^ ]*\\)$/\\1/p' | head -1)
            apt-get download -q \"$package\"; dpkg -x ./*.deb .; rm ./*.deb; mv \"$1.new\" \"$1\"";
        done(run_for(PREPARATION_MAX, command("sh").args(["-c", download, "sh", text(&folder)])));
    }
    let versions = std::fs::read_dir(folder.join("lib/modules")).expect("an unpacked linux-image package");
    let version = versions.flatten().next().expect("the modules of a kernel").file_name();
    (folder, version.into_string().expect("a version is text"))
}

/// A root file system with busybox, the tools of ext4, modules and the script.
#[track_caller]
fn initrd(scratch: &Path, kernel: &Path, version: &str, script: &str) -> PathBuf {
    let root = scratch.join("root");
    std::fs::create_dir_all(&root).unwrap();
    std::fs::write(root.join("init"), INIT).unwrap();
    std::fs::write(root.join("work.sh"), script).unwrap();
    let image = scratch.join("initrd");
    let make = "set -e; root=$1 kernel=$2 version=$3 image=$4; shift 4
        cd \"$root\"; mkdir -p bin dev proc sys tmp run modules lib lib64 m; chmod 755 init
        [ -f \"$kernel/lib/modules/$version/modules.dep.bin\" ] || depmod -b \"$kernel\" \"$version\"
        for program in busybox mkfs.ext4 e2fsck; do cp -L \"$(command -v $program)\" bin/; done
        for program in mkfs.ext4 e2fsck; do ldd \"$(command -v $program)\"; done | grep -o '/[^ ]*' | sort -u |
            while read -r library; do cp -L \"$library\" lib/; cp -L \"$library\" lib64/; done
        number=100
        for module in \"$@\"; do modprobe -d \"$kernel\" -S \"$version\" --show-depends $module; done |
            sed -n 's/^insmod \\([^ ]*\\).*/\\1/p' | awk '!seen[$0]++' |
            while read -r module; do cp \"$module\" modules/$number.ko; number=$((number + 1)); done
        find . | cpio --quiet -o -H newc > \"$image\"";
    let mut shell = command("sh");
    shell.args(["-c", make, "sh", text(&root), text(kernel), version, text(&image)]).args(MODULES.split(' '));
    done(run_for(PREPARATION_MAX, &mut shell));
    image
}

#[track_caller]
fn done(finished: Finished) {
    finished.expect("the machine's kernel and root");
}
