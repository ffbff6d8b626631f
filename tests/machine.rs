//! ext4 in a virtual machine outlives the server of its disk. `cargo xtask guest` runs it: it takes half a minute, QEMU and
//! a kernel of Debian, which is downloaded.

#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;
use std::time::Duration;
use support::machine::{Machine, is_asked_for};
use support::run::until;
use support::scratch::Scratch;
use support::server::{Server, assert_clean, let_run};
use support::text;

/// Longest time of a machine from its start.
const MACHINE_MAX: Duration = Duration::from_secs(180);

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
    if !is_asked_for(&["mkfs.ext4", "e2fsck"]) {
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
    if !is_asked_for(&["mkfs.ext4", "e2fsck"]) {
        return;
    }
    let scratch = Scratch::new("machine_inplace");
    let dir = scratch.join("array");
    Server::up(&dir, &["--engine", "inplace", "--drives", "4", "--level", "raid5", "--size", "128MiB"])
        .stop();
    outlive(&dir, &scratch);
}
