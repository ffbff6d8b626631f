//! ext4 in a virtual machine outlives the server of its disk. `cargo xtask guest` runs it: it takes half a minute, QEMU and
//! a kernel of Debian, which is downloaded.

#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use support::kernel::Unpacked;
use support::machine::{Kernel, Machine, is_asked_for, is_asked_for_in_full};
use support::run::until;
use support::scratch::Scratch;
use support::server::{Server, assert_clean, let_run};
use support::text;

/// Longest time of a machine from its start.
const MACHINE_MAX: Duration = Duration::from_secs(300);

const KILLS: u64 = 3;

/// Files that are written and fsynced, some of them deleted, for as long as the host says `on` the socket dies; at the end
/// everything is compared, mounted anew.
const WORK: &str = r"
set -e
[ $(cat /sys/block/vda/queue/logical_block_size) = 4096 ]
mkfs.ext4 -q -F /dev/vda
mount -t ext4 -o discard /dev/vda /m
echo mounted
begin=$(cut -d. -f1 /proc/uptime); n=0
while [ $(( $(cut -d. -f1 /proc/uptime) - begin )) -lt 16 ]; do
  n=$((n + 1))
  dd if=/dev/urandom of=/m/f$n bs=16k count=4 conv=fsync 2>/dev/null
  md5sum /m/f$n >> /tmp/sums
  if [ $((n % 5)) = 0 ]; then rm /m/f$((n - 1)); sed -i /f$((n - 1))\$/d /tmp/sums; fi
done
umount /m
e2fsck -f -n /dev/vda > /dev/null 2>&1
mount -t ext4 /dev/vda /m
md5sum -c -s /tmp/sums
umount /m
! dmesg | grep -iE 'I/O error|blk_update|EXT4-fs error'
echo all $(wc -l < /tmp/sums) files are right
";

fn outlive(dir: &Path, scratch: &Scratch) {
    let socket = scratch.join("vm.sock");
    let options = ["--vhost-user", text(&socket)];
    let mut server = Server::serve_with(dir, &options);
    let machine = Machine::boot(scratch.path(), &socket, WORK);
    assert!(until(MACHINE_MAX, || machine.console().contains("mounted")), "{}", machine.console());
    for _ in 0..KILLS {
        let_run(Duration::from_secs(3));
        server.kill_9();
        server = Server::serve_with(dir, &options);
    }
    assert!(until(MACHINE_MAX, || machine.console().contains("work ended with")), "{}", machine.console());
    let console = machine.console();
    assert!(console.contains("files are right") && console.contains("work ended with 0"), "{console}");
    println!("{}", console.lines().find(|line| line.starts_with("all ")).unwrap_or_default());
    drop(machine);
    server.stop();
}

#[test]
fn ext4_outlives_the_server_of_its_disk() {
    if !is_asked_for(Kernel::Current, &["mkfs.ext4", "e2fsck"]) {
        return;
    }
    let scratch = Scratch::new("machine");
    let dir = scratch.join("array");
    Server::up(&dir, &["--drives", "4", "--level", "raid5", "--size", "128MiB"]).stop();
    outlive(&dir, &scratch);
    assert_clean(&dir);
}

#[test]
fn ext4_outlives_the_server_of_its_disk_in_place() {
    if !is_asked_for_in_full(Kernel::Current, &["mkfs.ext4", "e2fsck"]) {
        return;
    }
    let scratch = Scratch::new("machine_inplace");
    let dir = scratch.join("array");
    Server::up(&dir, &["--engine", "inplace", "--drives", "4", "--level", "raid5", "--size", "128MiB"])
        .stop();
    outlive(&dir, &scratch);
}

#[test]
fn a_kernel_is_prepared_once_by_whoever_comes_first() {
    let scratch = Scratch::new("kernel");
    let folder = scratch.join("guest/kernel-9.9");
    // What an earlier one had downloaded when it was ended.
    std::fs::create_dir_all(scratch.join("guest/kernel-9.9.new/lib/modules/9.8")).unwrap();
    let made = AtomicUsize::new(0);
    let make = |new: &Path| {
        made.fetch_add(1, Ordering::SeqCst);
        let_run(Duration::from_millis(100));
        std::fs::create_dir_all(new.join("boot")).unwrap();
        std::fs::create_dir_all(new.join("lib/modules/9.9")).unwrap();
        std::fs::write(new.join("lib/modules/9.9/modules.dep.bin"), "").unwrap();
        std::fs::write(new.join("boot/vmlinuz-9.9"), "a kernel").unwrap();
        Ok(())
    };
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let kernel = Unpacked::provide(folder.clone(), make).unwrap();
                assert_eq!(kernel.version, "9.9");
                assert_eq!(std::fs::read(kernel.image).unwrap(), b"a kernel");
            });
        }
    });
    assert_eq!(made.into_inner(), 1);
    let refused = Unpacked::provide(scratch.join("guest/kernel-9.10"), |_| Err("not today".to_owned()));
    assert_eq!(refused.err(), Some("not today".to_owned()));
    assert!(!scratch.join("guest/kernel-9.10").exists(), "what could not be had is not taken for a kernel");
}
