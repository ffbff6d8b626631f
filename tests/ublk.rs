//! A volume as a disk of its own host (ublk): the host is a machine with a kernel of Debian 13, and this program runs in it.
//! `cargo xtask guest` runs it: it takes QEMU and that kernel, which is downloaded.

#![allow(clippy::unwrap_used)]

mod support;

use serde_json::Value;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use support::machine::{Inside, Kernel, is_asked_for, is_inside, run_inside};
use support::run::{SOON, run_for, until};
use support::scratch::Scratch;
use support::server::{Server, ask, assert_clean, let_run, refused, status};
use support::text;

const PROGRAMS: [&str; 6] = ["mkfs.ext4", "e2fsck", "blkdiscard", "fio", "nbd-client", "udevadm"];

const DISK: &str = "/dev/ublkb0";

/// Ends of servers whose disk is in use.
const ENDS: u32 = 6;

fn run(name: &str, inside: fn()) {
    if is_inside() {
        inside();
    } else if is_asked_for(Kernel::V6_12, &PROGRAMS) {
        let inside = Inside {
            name,
            kernel: Kernel::V6_12,
            devices: Vec::new(),
            modules: "ublk_drv nbd nvmet-tcp nvme-tcp ext4 crc32c_generic",
            programs: &PROGRAMS,
            prepare: "mount -t configfs none /sys/kernel/config",
        };
        run_inside(&Scratch::new("ublk"), inside);
    }
}

#[test]
fn ext4_outlives_the_server_of_its_disk_on_one_host() {
    run("ext4_outlives_the_server_of_its_disk_on_one_host", outlive);
}

#[test]
fn disks_come_and_go_with_their_servers() {
    run("disks_come_and_go_with_their_servers", come_and_go);
}

#[test]
fn disks_have_the_names_of_their_arrays() {
    run("disks_have_the_names_of_their_arrays", names);
}

#[test]
fn an_array_of_md_is_a_disk_of_its_host() {
    run("an_array_of_md_is_a_disk_of_its_host", in_place);
}

#[test]
fn a_volume_is_on_the_network() {
    run("a_volume_is_on_the_network", on_the_network);
}

#[test]
fn what_a_request_costs() {
    run("what_a_request_costs", cost);
}

#[track_caller]
fn shell(script: &str) -> String {
    let finished = run_for(SOON * 2, Command::new("sh").args(["-c", script]));
    assert_eq!(finished.code(), Some(0), "{finished}");
    finished.stdout
}

fn array() -> PathBuf {
    let dir = PathBuf::from("/tmp/array");
    ask(&["create", text(&dir), "--size", "256MiB"]).expect("create");
    dir
}

/// A server whose disk is there.
#[track_caller]
fn serve(dir: &Path, options: &[&str]) -> Server {
    let server = Server::serve_with(dir, &[&["--ublk"], options].concat());
    let is_served =
        || exports(dir).iter().any(|export| export["kind"] == "ublk" && export["state"] == "served");
    assert!(until(SOON, is_served), "{:?}\n{}", exports(dir), server.log());
    server
}

/// Exports that are the kernel's, with places there.
#[track_caller]
fn exports(dir: &Path) -> Vec<Value> {
    let listed = ask(&["export", text(dir), "--json"]);
    assert_eq!(listed.code(), Some(0), "{listed}");
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    let exports = listed["exports"].as_array().unwrap().iter();
    exports.filter(|export| export["kind"] != "nbd" && export["path"].is_string()).cloned().collect()
}

/// The disk is there and its server is not: the kernel sees that some time after the server has ended.
#[track_caller]
fn assert_waits(dir: &Path) {
    assert!(until(SOON, || exports(dir)[0]["state"] == "waiting"), "{:?}", exports(dir));
}

/// Contents of a file, by its number.
fn contents(file: u64) -> Vec<u8> {
    let mut random = base::random::Random::from_seed(file);
    (0..8192).flat_map(|_| random.bits().to_le_bytes()).collect()
}

/// Writes files and makes them durable, until told to end. Returns how many there are: any error is one of the disk.
fn write_files(folder: &'static str, ends: Arc<AtomicBool>) -> std::thread::JoinHandle<u64> {
    std::thread::spawn(move || {
        let mut count = 0;
        while !ends.load(Ordering::Relaxed) {
            let mut file = std::fs::File::create(format!("{folder}/f{count}")).unwrap();
            file.write_all(&contents(count)).unwrap();
            file.sync_all().unwrap();
            count += 1;
            if count % 5 == 0 {
                std::fs::remove_file(format!("{folder}/f{}", count - 2)).unwrap();
            }
        }
        count
    })
}

#[track_caller]
fn assert_files(folder: &str, count: u64) {
    for file in (0..count).filter(|file| (file + 2) % 5 != 0) {
        assert!(
            std::fs::read(format!("{folder}/f{file}")).unwrap() == contents(file),
            "file {file} is wrong"
        );
    }
}

/// A mounted file system goes on over three servers that are killed and one that stops.
fn outlive() {
    let dir = array();
    let mut server = serve(&dir, &[]);
    assert_eq!(shell("cat /sys/block/ublkb0/queue/logical_block_size").trim(), "4096");
    shell(&format!("mkfs.ext4 -q -F {DISK}; mount -t ext4 -o discard {DISK} /m"));
    let ends = Arc::new(AtomicBool::new(false));
    let writer = write_files("/m", Arc::clone(&ends));
    for _ in 0..3 {
        let_run(Duration::from_secs(2));
        server.kill_9();
        server = serve(&dir, &[]);
    }
    let_run(Duration::from_secs(1));
    // It is mounted: the disk stays, and requests wait.
    server.stop();
    assert_waits(&dir);
    refused(&["export", text(&dir), "--ublk", "--remove"], 5, "in use");
    let server = serve(&dir, &[]);
    refused(&["export", text(&dir), "--ublk", "--remove"], 5, "stays: it is in use");
    let_run(Duration::from_secs(1));
    ends.store(true, Ordering::Relaxed);
    let count = writer.join().expect("no I/O error");
    println!("- {count} files over four servers that ended");
    shell(&format!("umount /m; e2fsck -f -n {DISK}; mount -t ext4 {DISK} /m"));
    assert_files("/m", count);
    shell("umount /m");
    let said = shell("dmesg | grep -iE 'I/O error|blk_update|EXT4-fs error' || true");
    assert!(said.is_empty(), "{said}");
    server.stop();
    assert!(!Path::new(DISK).exists() && exports(&dir).is_empty(), "nobody uses it any more");
    assert_clean(&dir);
    println!("- all files are right, and the disk went with its last server");
}

/// A partition table with one partition of 8,192 blocks behind 256.
fn one_partition() -> [u8; 512] {
    let mut table = [0; 512];
    table[450] = 0x83;
    table[454..458].copy_from_slice(&256_u32.to_le_bytes());
    table[458..462].copy_from_slice(&8192_u32.to_le_bytes());
    table[510..].copy_from_slice(&[0x55, 0xaa]);
    table
}

/// Links that the package's rules make, by systemd's udev.
fn names() {
    std::fs::create_dir_all("/etc/udev/rules.d").unwrap();
    std::fs::create_dir_all("/usr/bin").unwrap();
    std::fs::write("/etc/udev/rules.d/60-zoneweave.rules", include_str!("../packaging/60-zoneweave.rules"))
        .unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_zoneweave"), "/usr/bin/zoneweave").unwrap();
    // It is the daemon by its name.
    shell("ln -s /bin/udevadm /bin/systemd-udevd; systemd-udevd --daemon; udevadm settle");
    let dir = array();
    let uuid = status(&dir)["array"].as_str().unwrap().to_owned();
    let links = ["/dev/zoneweave/array".to_owned(), format!("/dev/zoneweave/by-uuid/{uuid}")];
    let lead_to = |node: &str| {
        shell("udevadm settle");
        links.iter().all(|link| std::fs::canonicalize(link).is_ok_and(|found| found == Path::new(node)))
    };
    let server = serve(&dir, &[]);
    assert!(
        until(SOON, || lead_to(DISK)),
        "{}",
        shell("udevadm info /dev/ublkb0; ls -lR /dev/zoneweave || true")
    );
    // A partition has the name of its disk and its number.
    let mut disk = std::fs::File::options().write(true).open(DISK).unwrap();
    disk.write_all(&one_partition()).unwrap();
    disk.sync_all().unwrap();
    drop(disk);
    shell(&format!("blockdev --rereadpt {DISK}"));
    let part = format!("{}-part1", links[0]);
    let is_named = || std::fs::canonicalize(&part).is_ok_and(|found| found == Path::new("/dev/ublkb0p1"));
    assert!(until(SOON, is_named), "{}", shell("ls -lR /dev/zoneweave"));
    shell(&format!("udevadm settle; blkdiscard -f {DISK}"));
    // Another server takes it over, and it keeps its names.
    server.kill_9();
    let server = serve(&dir, &[]);
    assert!(lead_to(DISK));
    server.stop();
    let is_gone = || links.iter().all(|link| std::fs::symlink_metadata(link).is_err());
    assert!(until(SOON, is_gone), "{}", shell("ls -lR /dev/zoneweave"));
    assert!(!Path::new("/run/zoneweave/ublk/0").exists());
    // A name that was left behind does not count for a disk of another array.
    let server = serve(&dir, &[]);
    let names = || ask(&["udev-name", "ublkb0"]).expect("an answer");
    assert!(names().contains(&uuid), "{}", names());
    std::fs::write("/run/zoneweave/ublk/0", format!("array={}\nname=array\n", uuid.replace('-', ":")))
        .unwrap();
    assert_eq!(names(), "");
    server.stop();
    println!("- a disk has links by its array's name and UUID, a partition too, as long as it is there");
}

fn in_place() {
    let dir = PathBuf::from("/tmp/array");
    Server::up(&dir, &["--engine", "inplace", "--drives", "4", "--level", "raid5", "--size", "128MiB"])
        .stop();
    let server = serve(&dir, &[]);
    let data: Vec<u8> = (0..256).flat_map(contents).collect();
    std::fs::write("/tmp/data", &data).unwrap();
    shell(&format!("dd if=/tmp/data of={DISK} bs=1M seek=3 oflag=direct conv=fsync 2> /dev/null"));
    server.kill_9();
    let server = serve(&dir, &[]);
    assert!(server.client().read(3 << 20, 16 << 20).unwrap() == data);
    shell(&format!("dd if={DISK} bs=1M skip=3 count=16 iflag=direct 2> /dev/null | cmp - /tmp/data"));
    server.stop();
    assert!(!Path::new(DISK).exists());
    println!("- a killed server of an array of md left everything");
}

/// Connects to the array's subsystem as a host, by the kernel's own interface. Returns whether it may.
fn connect(name: &str, host: &str) -> bool {
    let line = format!(
        "transport=tcp,traddr=127.0.0.1,trsvcid=4420,nqn={name},hostnqn={host},hostid=00112233-4455-6677-8899-aabbccddeeff"
    );
    std::fs::write("/dev/nvme-fabrics", line).is_ok()
}

/// The kernel's own target on top of the disk, and the kernel's own host on top of that: a file system outlives servers.
fn on_the_network() {
    const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:00112233-4455-6677-8899-aabbccddeeff";
    let dir = array();
    let export = |options: &[&str]| ask(&[&["export", text(&dir)], options].concat());
    let address = ["--nvme-tcp", "127.0.0.1:4420"];
    let allowed = [&address[..], &["--allow-host", HOST]].concat();
    refused(&[&["export", text(&dir)], &allowed[..]].concat(), 6, "--ublk` first");
    let server = serve(&dir, &[]);
    refused(&[&["export", text(&dir)], &address[..]].concat(), 2, "--allow-host NQN");
    refused(
        &["export", text(&dir), "--nvme-tcp", "127.0.0.1:4420", "--allow-host", "me"],
        2,
        "no NVMe qualified name",
    );
    let planned = export(&[&allowed[..], &["--dry-run"]].concat());
    assert!(planned.code() == Some(0) && planned.stdout.contains("device_path"), "{planned}");
    assert!(exports(&dir).len() == 1, "nothing was made");
    for _ in 0..2 {
        let made = export(&allowed);
        assert!(
            made.code() == Some(0) && made.stdout.contains("nvme connect -t tcp -a 127.0.0.1 -s 4420"),
            "{made}"
        );
    }
    let listed = exports(&dir);
    let name = listed[1]["nqn"].as_str().unwrap().to_owned();
    assert_eq!(listed[1]["addresses"], serde_json::json!(["127.0.0.1:4420"]));
    assert!(!connect(&name, "nqn.2014-08.org.nvmexpress:uuid:another"), "a stranger may not");
    assert!(connect(&name, HOST));
    // Paths of a disk are listed beside it, and have no nodes.
    let disk = || {
        let names = std::fs::read_dir("/sys/block").unwrap().flatten();
        let paths = names.map(|entry| Path::new("/dev").join(entry.file_name()));
        paths.into_iter().find(|path| text(path).starts_with("/dev/nvme") && path.exists())
    };
    assert!(until(SOON, || disk().is_some()), "no disk of the network");
    let disk = disk().unwrap();
    let disk = text(&disk);
    shell(&format!("mkfs.ext4 -q -F {disk}; mount -t ext4 -o discard {disk} /m"));
    let ends = Arc::new(AtomicBool::new(false));
    let writer = write_files("/m", Arc::clone(&ends));
    let_run(Duration::from_secs(2));
    server.kill_9();
    let server = serve(&dir, &[]);
    let_run(Duration::from_secs(2));
    // The target has the disk, so it stays.
    let server = end_in_turn(&dir, server);
    server.stop();
    assert_waits(&dir);
    refused(&["export", text(&dir), "--ublk", "--remove"], 5, "in use");
    let server = serve(&dir, &[]);
    let_run(Duration::from_secs(1));
    ends.store(true, Ordering::Relaxed);
    let count = writer.join().expect("no I/O error");
    shell(&format!("umount /m; e2fsck -f -n {disk}; mount -t ext4 {disk} /m"));
    assert_files("/m", count);
    println!("- {count} files over the network and {} servers that ended", ENDS + 2);
    shell("umount /m; for host in /sys/class/nvme/nvme*; do echo 1 > $host/delete_controller; done");
    for _ in 0..2 {
        let removed = export(&["--nvme-tcp", "--remove"]);
        assert_eq!(removed.code(), Some(0), "{removed}");
    }
    let left = shell("cd /sys/kernel/config/nvmet; ls ports subsystems hosts");
    assert!(!left.contains("nqn."), "{left}");
    server.stop();
    assert!(exports(&dir).is_empty(), "{:?}", exports(&dir));
    println!("- nothing of it is left");
    by_the_server(&dir, &name);
}

/// Servers stop and are killed while their disk is busy: the kernel keeps every request for the next one.
fn end_in_turn(dir: &Path, mut server: Server) -> Server {
    for round in 0..ENDS {
        match round % 2 {
            0 => server.stop(),
            _ => server.kill_9(),
        }
        assert_waits(dir);
        server = serve(dir, &[]);
        let_run(Duration::from_millis(300));
    }
    server
}

/// As after a restart of the machine: the server makes all of it by what is written down.
fn by_the_server(dir: &Path, name: &str) {
    let export = |options: &[&str]| ask(&[&["export", text(dir)], options].concat());
    for options in [&["--ublk"][..], &["--nvme-tcp", "127.0.0.1:4420", "--allow-any-host"]] {
        let written = export(options);
        assert!(written.code() == Some(0) && written.stdout.contains("not served"), "{written}");
    }
    let server = Server::serve(dir);
    assert!(until(SOON, || exports(dir).len() == 2), "{:?}\n{}", exports(dir), server.log());
    assert_eq!(exports(dir)[1]["any_host"], true);
    assert!(until(SOON, || connect(name, "nqn.2014-08.org.nvmexpress:uuid:another")), "{}", server.log());
    refused(&["export", text(dir), "--ublk", "--remove"], 5, "--nvme-tcp --remove` first");
    shell("for host in /sys/class/nvme/nvme*; do echo 1 > $host/delete_controller; done");
    for options in [["--nvme-tcp", "--remove"], ["--ublk", "--remove"]] {
        let removed = export(&options);
        assert!(removed.code() == Some(0) && removed.stdout.contains("removed"), "{removed}");
    }
    assert!(exports(dir).is_empty(), "{:?}", exports(dir));
    server.stop();
    println!("- the next server made it anew");
}

/// Ticks for which processors were busy.
fn busy() -> f64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let fields: Vec<f64> =
        stat.lines().next().unwrap().split_whitespace().filter_map(|field| field.parse().ok()).collect();
    fields.iter().sum::<f64>() - fields[3] - fields[4]
}

/// Time of all processors for a random write of 4 KiB at depth 32: load, kernel and server, in turn over ublk and over the kernel's
/// client of NBD.
fn cost() {
    let dir = array();
    let server = serve(&dir, &[]);
    shell(&format!("nbd-client -unix {} /dev/nbd0 -b 4096", text(&server.socket())));
    let mut ratios = Vec::new();
    for round in 0..5 {
        let us = [DISK, "/dev/nbd0"].map(|device| {
            let before = busy();
            let said = shell(&format!(
                "fio --name=cost --filename={device} --rw=randwrite --bs=4k --iodepth=32 --ioengine=libaio --direct=1 \
                 --number_ios=4000 --randseed={round} --output-format=json --size=200m"
            ));
            let report: Value = serde_json::from_str(&said[said.find('{').unwrap()..]).unwrap();
            let requests = report["jobs"][0]["write"]["total_ios"].as_f64().unwrap();
            (busy() - before) * 10_000.0 / requests
        });
        println!("- us of all processors per write: ublk {:.1}, client of NBD {:.1}", us[0], us[1]);
        ratios.push(us[0] / us[1]);
    }
    ratios.sort_by(f64::total_cmp);
    println!("- ratio {:.2}, in the middle of five", ratios[2]);
    shell("nbd-client -d /dev/nbd0");
    server.stop();
}

/// Bytes of the disk, past the page cache.
fn direct() -> std::fs::OpenOptions {
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).custom_flags(0o40000);
    options
}

fn come_and_go() {
    let dir = array();
    let remove = ["export", text(&dir), "--ublk", "--remove"];
    assert!(exports(&dir).is_empty());
    let server = serve(&dir, &[]);
    // What NBD wrote is read, and the other way round; large requests and small ones.
    let data: Vec<u8> = (0..256).flat_map(contents).collect();
    server.client().write(1 << 20, &data).unwrap();
    std::fs::write("/tmp/data", &data).unwrap();
    shell(&format!("dd if={DISK} bs=1M skip=1 count=16 iflag=direct 2> /dev/null | cmp - /tmp/data"));
    shell(&format!("dd if=/tmp/data of={DISK} bs=4k seek=8192 oflag=direct conv=fsync 2> /dev/null"));
    assert!(server.client().read(32 << 20, 16 << 20).unwrap() == data);
    drop(direct().open(DISK).unwrap());
    println!("- the disk and NBD see the same");
    let used = || status(&dir)["used_bytes"].as_u64().unwrap();
    let before = used();
    shell(&format!("blkdiscard -o 1048576 -l 16777216 {DISK}"));
    assert!(server.client().read(1 << 20, 1 << 20).unwrap() == vec![0; 1 << 20]);
    assert_eq!(before - used(), 16 << 20, "the array has the space back");
    println!("- what was discarded is free");
    server.kill_9();
    assert!(until(SOON, || exports(&dir)[0]["state"] == "waiting"), "{:?}", exports(&dir));
    refused(
        &["serve", text(&dir), "--ublk", "--block-size", "512"],
        4,
        "`zoneweave export DIR --ublk --remove` takes it away",
    );
    refused(&["destroy", "--yes", text(&dir)], 5, DISK);
    let removed = ask(&remove);
    assert!(removed.code() == Some(0) && removed.stdout.contains(DISK), "{removed}");
    let removed = ask(&remove);
    assert!(removed.code() == Some(0) && !removed.stdout.contains(DISK), "{removed}");
    assert!(!Path::new(DISK).exists());
    println!("- an orphan was removed");
    let server = serve(&dir, &["--block-size", "512"]);
    assert_eq!(shell("cat /sys/block/ublkb0/queue/logical_block_size").trim(), "512");
    shell(&format!(
        "dd if=/tmp/data of={DISK} bs=512 seek=5 count=3001 oflag=direct conv=fsync 2> /dev/null"
    ));
    let mut wanted = vec![0; 5 * 512];
    wanted.extend(&data[..3001 * 512]);
    let found = server.client().read(0, 1_540_096).unwrap();
    assert!(found[..wanted.len()] == wanted[..]);
    server.stop();
    assert!(!Path::new(DISK).exists());
    println!("- blocks of 512 bytes");
    in_service(&dir, &data);
    assert_clean(&dir);
}

/// The disk comes and goes while the array is served.
fn in_service(dir: &Path, data: &[u8]) {
    let make = ["export", text(dir), "--ublk"];
    let remove = ["export", text(dir), "--ublk", "--remove"];
    let server = Server::serve(dir);
    for _ in 0..3 {
        for _ in 0..2 {
            let made = ask(&make);
            assert!(made.code() == Some(0) && made.stdout.contains(DISK), "{made}\n{}", server.log());
        }
        refused(&[&make[..], &["--block-size", "512"]].concat(), 5, "blocks of 4096 bytes");
        shell(&format!("dd if=/tmp/data of={DISK} bs=1M oflag=direct conv=fsync 2> /dev/null"));
        let user = direct().open(DISK).unwrap();
        refused(&remove, 5, "stays: it is in use");
        shell(&format!("dd if={DISK} bs=1M count=16 iflag=direct 2> /dev/null | cmp - /tmp/data"));
        drop(user);
        let removed = ask(&remove);
        assert!(removed.code() == Some(0) && removed.stdout.contains(DISK), "{removed}\n{}", server.log());
        assert!(!Path::new(DISK).exists());
        server.assert_holds(data);
    }
    ask(&make).expect("made");
    server.kill_9();
    let server = Server::serve(dir);
    assert!(until(SOON, || exports(dir)[0]["state"] == "served"), "{:?}", exports(dir));
    server.stop();
    assert!(!Path::new(DISK).exists());
    println!("- the disk came and went in service");
}
