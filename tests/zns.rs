//! Arrays on NVMe drives with zones: QEMU emulates the drives, and this program runs in the machine that has them.
//! `cargo xtask guest` runs it: it takes QEMU and a kernel of Debian, which is downloaded.
//!
//! ```text
//!   here: boots a machine with this program in it ──> there: qualify, create, serve, write, kill, lose a drive, rebuild
//! ```

#![allow(clippy::unwrap_used)]

mod support;

use base::frame::Frame;
use base::random::Random;
use base::time::Instant;
use base::units::ZoneIndex;
use drive::nvme::NvmeDrive;
use drive::nvme::open;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process;
use std::time::Duration;
use support::machine::{Inside, Kernel, is_asked_for, is_asked_for_in_full, is_inside, is_short, run_inside};
use support::nvme::{self, controller_of, is_stalled, node, pull, put_back};
use support::run::{SOON, run_for, until};
use support::scratch::Scratch;
use support::server::{Server, ask, let_run, refused, status, zoneweave};
use support::writer::Oracle;
use support::{cache_shadow, random, text};
use zone::device::{Areas, Command, Completion, Op, Status, Token, ZoneDescriptor, ZoneState, ZonedDevice};

/// Drives of the machine: four for an array, and one to replace another.
const DRIVES: usize = 5;
const DRIVE_BYTES: u64 = 1 << 30;

/// Namespaces of the machine: the last drive has a second one.
const NODES: usize = DRIVES + 1;

/// A controller with a namespace, the last one with two.
fn drive(scratch: &Path, index: usize) -> Vec<String> {
    let numbers = if index + 1 == DRIVES { 1..=2 } else { 1..=1 };
    let format = format!("{},{}", nvme::WITH_METADATA, nvme::ZONED);
    let namespaces =
        numbers.flat_map(|number| nvme::namespace(scratch, (index, number), DRIVE_BYTES, &format));
    nvme::controller(index).into_iter().chain(namespaces).collect()
}

/// Boots a machine with NVMe drives in which this program runs one of its tests.
fn run_with_nvme(name: &str) {
    let scratch = Scratch::new("zns");
    let devices = (0..DRIVES).flat_map(|index| drive(scratch.path(), index)).collect();
    let prepare = &nvme::wait_for(DRIVES);
    run_inside(
        &scratch,
        Inside { name, kernel: Kernel::Current, devices, modules: "nvme", programs: &[], prepare },
    );
}

#[test]
fn an_array_on_nvme_drives_survives() {
    if is_inside() {
        live();
    } else if is_asked_for(Kernel::Current, &[]) {
        run_with_nvme("an_array_on_nvme_drives_survives");
    }
}

#[test]
fn a_server_whose_drives_another_one_takes_ends() {
    if is_inside() {
        taken();
    } else if is_asked_for_in_full(Kernel::Current, &[]) {
        run_with_nvme("a_server_whose_drives_another_one_takes_ends");
    }
}

#[test]
fn a_cache_on_nvme_drives_survives() {
    if is_inside() {
        let nodes: Vec<String> = (0..4).map(|index| text(&node(index)).to_owned()).collect();
        let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
        cache_shadow::live(Path::new("/tmp/cache"), &nodes[..3], nodes[3]);
    } else if is_asked_for_in_full(Kernel::Current, &[]) {
        run_with_nvme("a_cache_on_nvme_drives_survives");
    }
}

/// Windows of 64 KiB in granules of 16, in four zones at a time.
const AREAS: &str = "zoned.zrwas=64K,zoned.zrwafg=16K,zoned.numzrwa=4";

#[test]
fn windows_of_nvme_drives_are_written_in_any_order() {
    let name = "windows_of_nvme_drives_are_written_in_any_order";
    if is_inside() {
        Windows::open().write();
        // Whoever opens the drive anew finds the same.
        Windows::open().finish();
    } else if is_asked_for(Kernel::Current, &[]) {
        let scratch = Scratch::new("zns");
        let format = format!("{},{},{AREAS}", nvme::WITH_METADATA, nvme::ZONED);
        let devices = nvme::drive(scratch.path(), 0, DRIVE_BYTES, &format);
        let prepare = &nvme::wait_for(1);
        let inside =
            Inside { name, kernel: Kernel::Current, devices, modules: "nvme", programs: &[], prepare };
        run_inside(&scratch, inside);
    }
}

/// A drive whose zones have windows, asked one command at a time.
struct Windows(NvmeDrive);

impl Windows {
    fn open() -> Windows {
        let opened = open::open_path(&node(0)).unwrap();
        let areas = opened.found.geometry.areas.unwrap();
        let expected = Areas { zones_max: 4, window_blocks: 16, granule_blocks: 4, explicit_commit: true };
        assert_eq!(areas, expected);
        println!("- {areas:?}, {} zones in use", opened.found.written_zones());
        Windows(opened.drive)
    }

    /// Answers to commands of a zone that are given at once, in their order.
    fn ask(&mut self, zone: u32, ops: Vec<Op>) -> Vec<Completion> {
        let count = ops.len();
        for (token, op) in (0..).zip(ops) {
            self.0.submit(Instant(0), Command { token: Token(token), zone: ZoneIndex(zone), op });
        }
        let mut answers = Vec::new();
        let have_come = until(SOON, || {
            self.0.poll(Instant(0), &mut answers);
            answers.len() == count
        });
        assert!(have_come, "{} of {count} answers", answers.len());
        answers.sort_by_key(|answer| answer.token.0);
        answers
    }

    fn status(&mut self, zone: u32, op: Op) -> Status {
        self.ask(zone, vec![op])[0].status
    }

    /// First bytes of data and metadata of blocks.
    fn bytes(&mut self, zone: u32, offset: u32, count: usize) -> Vec<(u8, u8)> {
        let frames = (0..count).map(|_| block_of(0xee)).collect();
        let read = self.ask(zone, vec![Op::Read { offset, frames }]).remove(0);
        assert_eq!(read.status, Status::Success);
        let is_even = |frame: &Frame| {
            let (data, oob) = (frame.data[0], frame.oob[0]);
            frame.data.iter().all(|byte| *byte == data) && frame.oob.iter().all(|byte| *byte == oob)
        };
        assert!(read.frames.iter().all(is_even), "a block of one byte each");
        read.frames.iter().map(|frame| (frame.data[0], frame.oob[0])).collect()
    }

    fn report(&mut self, zone: u32) -> ZoneDescriptor {
        self.ask(zone, vec![Op::Report { count: 1 }]).remove(0).report[0]
    }

    fn write(mut self) {
        let write =
            |byte, offset, count| Op::Write { offset, frames: (0..count).map(|_| block_of(byte)).collect() };
        assert_eq!(self.status(2, Op::OpenWithArea), Status::Success);
        let at_once = vec![write(5, 9, 3), write(1, 0, 1), write(3, 4, 2), write(9, 15, 1)];
        assert!(self.ask(2, at_once).iter().all(|answer| answer.status == Status::Success), "in any order");
        assert_eq!(self.status(2, write(2, 0, 1)), Status::Success, "again");
        assert_eq!(self.bytes(2, 0, 16), window(), "nothing is committed");
        let report = self.report(2);
        assert_eq!((report.state, report.write_pointer, report.has_area), (ZoneState::ExplicitOpen, 0, true));
        assert_ne!(self.status(2, Op::Commit { end: 3 }), Status::Success, "no whole granule");
        assert_eq!(self.status(2, Op::Commit { end: 8 }), Status::Success);
        assert_eq!((self.report(2).write_pointer, self.report(2).has_area), (8, true));
        assert_eq!(self.status(2, write(7, 7, 1)), Status::ZoneInvalidWrite, "it is committed");
        assert_eq!(self.status(2, write(8, 27, 1)), Status::Success);
        assert_eq!(self.report(2).write_pointer, 12, "by the write, a granule");
        assert_eq!(self.status(2, Op::Append { frames: vec![block_of(1)] }), Status::InvalidZoneOperation);
        assert_ne!(self.status(3, Op::Commit { end: 4 }), Status::Success, "a zone without a window");
        let opened: Vec<Status> = (4..8).map(|zone| self.status(zone, Op::OpenWithArea)).collect();
        println!("- windows beside another: {opened:?}");
        assert_eq!(opened.last(), Some(&Status::NoAreaLeft));
    }

    fn finish(mut self) {
        assert_eq!(self.bytes(2, 0, 16), window());
        assert_eq!(self.bytes(2, 26, 3), [(0, 0), (8, !8), (0, 0)]);
        assert_eq!(self.status(2, Op::Finish), Status::Success);
        assert_eq!(self.bytes(2, 0, 16), window(), "what a window held counts");
        assert_eq!(self.status(2, Op::Reset), Status::Success);
        assert_eq!(self.bytes(2, 0, 16), [(0, 0); 16]);
        println!("- windows were written, committed, finished and erased");
    }
}

/// A block whose data and metadata are of one byte each.
fn block_of(byte: u8) -> Frame {
    let mut frame = Frame::zeroed();
    frame.data.fill(byte);
    frame.oob.fill(!byte);
    frame
}

/// First bytes of the first sixteen blocks after the writes: zeros where there was none.
fn window() -> [(u8, u8); 16] {
    let mut blocks = [(0, 0); 16];
    for (at, byte) in [(0, 2), (4, 3), (5, 3), (9, 5), (10, 5), (11, 5), (15, 9)] {
        blocks[at] = (byte, !byte);
    }
    blocks
}

fn signal(server: &Server, name: &str) {
    let sent = run_for(SOON, process::Command::new("kill").args([name, &server.process().to_string()]));
    assert_eq!(sent.code(), Some(0), "{sent}");
}

/// A server that was only paused goes on after another one has mounted the array: it ends with code 4. Nodes that are made anew
/// have no locks, as those of another host.
fn taken() {
    let mut random = random(73);
    let (dir, other) = (PathBuf::from("/tmp/array"), PathBuf::from("/tmp/other"));
    let nodes: Vec<String> = (0..4).map(|index| text(&node(index)).to_owned()).collect();
    let made = ask(&["create", text(&dir), "--drives-path", &nodes.join(",")]);
    assert_eq!(made.code(), Some(0), "{made}");
    let mut first = Server::serve(&dir);
    let mut oracle = Oracle::new();
    let writers = oracle.write(&first, &mut random);
    let_run(Duration::from_secs(1));
    signal(&first, "-STOP");
    std::fs::create_dir(&other).unwrap();
    std::fs::copy(dir.join("array.toml"), other.join("array.toml")).unwrap();
    for index in 0..4 {
        let numbers = std::fs::read_to_string(format!("/sys/class/nvme-generic/ng{index}n1/dev")).unwrap();
        let (major, minor) = numbers.trim().split_once(':').unwrap();
        // The first one's node stays: without it, its drive would count as pulled.
        std::fs::rename(node(index), format!("/dev/paused-{index}")).unwrap();
        std::fs::remove_file(format!("/dev/nvme{index}n1")).unwrap();
        let made =
            process::Command::new("mknod").args([text(&node(index)), "c", major, minor]).status().unwrap();
        assert!(made.success());
    }
    let second = Server::serve(&other);
    let mut client = second.client();
    let contents = |block: u64| vec![u8::try_from(block % 251).unwrap(); 65_536];
    for block in 0..256 {
        client.write(block << 16, &contents(block)).unwrap();
    }
    client.flush().unwrap();
    signal(&first, "-CONT");
    assert!(until(SOON, || first.has_ended()), "it goes on\n{}", first.log());
    assert_eq!(first.exit_code(), Some(4), "{}", first.log());
    let log = first.log();
    let line = log
        .lines()
        .find(|line| line.contains("was taken by another server"))
        .unwrap_or_else(|| panic!("{log}"));
    println!("- {line}");
    println!("- {} requests were acknowledged before", oracle.join(writers));
    for block in 0..256 {
        assert!(client.read(block << 16, 65_536).unwrap() == contents(block), "block {block}");
    }
    drop(client);
    second.kill_9();
    let second = Server::serve(&other);
    let mut client = second.client();
    for block in 0..256 {
        assert!(client.read(block << 16, 65_536).unwrap() == contents(block), "block {block}, mounted anew");
    }
    drop(client);
    second.stop();
    println!("- the other one kept what it acknowledged, mounted anew too");
}

/// The drive passes by what is known of it. Where its QEMU loses metadata, that is found by asking as if nothing were known.
fn qualify() {
    let asked = ["drive", "qualify", "/dev/ng4n1", "--destroy", "--steps", "300", "--json"];
    refused(&asked[..3], 2, "--destroy");
    let passed = run_for(SOON * 2, zoneweave().args(asked));
    assert_eq!(passed.code(), Some(0), "{passed}");
    let report: Value = serde_json::from_str(&passed.stdout).unwrap();
    let firmware = report["drive"]["firmware"].as_str().unwrap().to_owned();
    println!("- QEMU {firmware}: qualified with {}", report["drive"]["quirks"]);
    if is_short() {
        return;
    }
    let asked = [&asked[..], &["--ignore-quirks"]].concat();
    let strict = run_for(SOON * 2, zoneweave().args(&asked));
    let has_fault = firmware.split('.').next().unwrap().parse::<u32>().unwrap() < 10;
    assert_eq!(strict.code(), Some(i32::from(has_fault)), "{strict}");
    let report: Value = serde_json::from_str(&strict.stdout).unwrap();
    let differs: Vec<&Value> =
        report["checks"].as_array().unwrap().iter().filter(|check| check["outcome"] == "differs").collect();
    println!("- without: {differs:?}");
    assert_eq!(has_fault, differs.iter().any(|check| check["check"] == "transfers"));
}

/// Drives with what is to be done with them.
fn listed() {
    let list = ask(&["drive", "list", "--json"]);
    let list: Value = serde_json::from_str(&list.stdout).unwrap();
    let state = |index: usize| {
        let drives = list["drives"].as_array().unwrap();
        let drive = drives.iter().find(|drive| drive["path"] == text(&node(index)));
        drive.unwrap_or_else(|| panic!("drive {index} is not listed: {list:#}"))["state"].clone()
    };
    assert_eq!((state(0), state(4)), ("in-use".into(), "free".into()));
}

/// A drive of the array is wiped by the array's name only, and not while it is served.
fn wipe(dir: &Path) {
    let array = status(dir);
    let path = array["members"][0]["path"].as_str().unwrap();
    let named = format!("--force={}", array["array"].as_str().unwrap());
    refused(&["drive", "wipe", path, "--force"], 4, &named);
    let server = Server::serve(dir);
    refused(&["drive", "wipe", path, &named], 5, "in use");
    server.stop();
    let wiped = ask(&["drive", "wipe", path, &named, "--json"]).expect("wipe");
    println!("- {}", wiped.trim());
    ask(&["drive", "wipe", path]).expect("it is empty");
}

fn live() {
    let mut random = random(26);
    let dir = PathBuf::from("/tmp/array");
    qualify();
    let server = create(&dir);
    tell_health(&dir);
    let mut oracle = Oracle::new();
    oracle.write_and_kill(server, &mut random);
    // One that is pulled is not waited for, but for a second.
    let server = Server::serve_with(&dir, &["--drive-patience", "1"]);
    oracle.verify(&server);
    pull_and_rebuild(&dir, server, &mut oracle, &mut random);
    if is_short() {
        return;
    }
    come_back(&dir, &mut oracle, &mut random);
    swap_names(&dir, &mut oracle);
    hiccups(&dir, &mut oracle, &mut random);
    stop_while_away(&dir, &mut oracle, &mut random);
    wipe(&dir);
    let destroyed = ask(&["destroy", "--yes", text(&dir)]);
    assert_eq!(destroyed.code(), Some(0), "{destroyed}");
    assert!(node(4).exists(), "devices are emptied, not removed");
}

/// Makes an array of the first four drives and serves it; what must not become one is refused.
fn create(dir: &Path) -> Server {
    let nodes: Vec<String> = (0..4).map(|index| text(&node(index)).to_owned()).collect();
    let all = nodes.join(",");
    let shared = ["create", "/tmp/other", "--drives-path", "/dev/ng3n1,/dev/ng4n1,/dev/ng4n2"];
    refused(&shared, 4, "/dev/ng4n1 and /dev/ng4n2 are parts of nvme");
    let made = ask(&["create", text(dir), "--drives-path", &all]);
    assert_eq!(made.code(), Some(0), "{made}");
    println!("- {}", made.stdout.lines().next().unwrap_or_default());
    let other = ["create", "/tmp/other", "--drives-path", &all];
    refused(&other, 4, "is a drive of Zoneweave, of array");
    let server = Server::serve(dir);
    refused(&[&other[..], &["--force"]].concat(), 5, "in use");
    refused(
        &["create", "/tmp/other", "--drives-path", "/dev/ng0n1,/dev/null,/dev/ng9n1"],
        6,
        "no such device",
    );
    refused(&["create", "/tmp/other", "--drives-path", "/dev/nvme4n1,/dev/nvme3n1"], 2, "/dev/ng4n1");
    listed();
    server
}

/// Health of drives is told: those of QEMU have a temperature that is always the same, and do not wear.
fn tell_health(dir: &Path) {
    let now = status(dir);
    for member in now["members"].as_array().unwrap() {
        let firmware = member["firmware"].as_str().unwrap_or_else(|| panic!("no firmware: {member}"));
        assert!(firmware.starts_with(|first: char| first.is_ascii_digit()), "QEMU's version: {member}");
        assert_eq!(
            (&member["temperature_celsius"], &member["wear_percent"]),
            (&50.into(), &0.into()),
            "{member}"
        );
    }
    let words = ask(&["status", text(dir)]).expect("status");
    let line = words.lines().find(|line| line.contains("firmware")).unwrap_or_else(|| panic!("{words}"));
    assert!(line.contains("50 C") && line.contains("0 % worn"), "{line}");
    println!("- {}", line.trim());
}

/// Pull of a drive while clients write; the server is killed, and rebuilds onto the fifth drive.
fn pull_and_rebuild(dir: &Path, server: Server, oracle: &mut Oracle, random: &mut Random) {
    let place = text(dir);
    let writers = oracle.write(&server, random);
    let_run(Duration::from_millis(500));
    pull(2);
    assert!(
        until(SOON, || status(dir)["state"] == "degraded"),
        "the drive is not missed: {:#}\n{}",
        status(dir),
        server.log()
    );
    let_run(Duration::from_millis(500));
    server.kill_9();
    println!("- a drive was pulled, killed after {} acknowledged requests", oracle.join(writers));
    let server = Server::serve(dir);
    oracle.verify(&server);
    let replaced = run_for(
        SOON * 2,
        zoneweave().args(["drive", "replace", place, "2", "--with", "/dev/ng4n1", "--wait"]),
    );
    assert_eq!(replaced.code(), Some(0), "{replaced}");
    println!("- rebuilt onto /dev/ng4n1");
    oracle.verify(&server);
    server.stop();
    let checked = ask(&["check", place]);
    assert_eq!(checked.code(), Some(0), "{checked}");
}

/// Waits until a member that was lost is caught up, without being asked to.
fn caught_up(dir: &Path, server: &Server, member: usize) {
    let is_whole =
        || status(dir)["state"] == "clean" && server.log().contains(&format!("drive {member} is back"));
    assert!(until(SOON * 2, is_whole), "{:#}\n{}", status(dir), server.log());
    let log = server.log();
    println!("- {}", log.lines().find(|line| line.contains(" is back: ")).unwrap_or_default());
}

/// Loss of another drive, so that what was rebuilt is needed. Both come back while clients write, and the one that is a member is
/// caught up.
fn come_back(dir: &Path, oracle: &mut Oracle, random: &mut Random) {
    pull(0);
    let server = Server::serve_degraded(dir);
    oracle.verify(&server);
    let writers = oracle.write(&server, random);
    let_run(Duration::from_millis(500));
    put_back(NODES);
    caught_up(dir, &server, 0);
    server.kill_9();
    println!("- a drive came back, killed after {} acknowledged requests", oracle.join(writers));
    let server = Server::serve(dir);
    oracle.verify(&server);
    server.stop();
}

/// The controller of a drive is reset while clients write, and the drive is pulled and put back. Nothing of it is given up, and
/// nothing is rebuilt. Then another drive has to do without it.
fn hiccups(dir: &Path, oracle: &mut Oracle, random: &mut Random) {
    let server = Server::serve(dir);
    let before = status(dir);
    let number = controller_of(dir, 1);
    let writers = oracle.write(&server, random);
    for _ in 0..3 {
        let_run(Duration::from_millis(300));
        std::fs::write(format!("/sys/class/nvme/nvme{number}/reset_controller"), "1").unwrap();
    }
    let_run(Duration::from_secs(2));
    pull(number);
    assert!(until(SOON, || is_stalled(dir, 1)), "{:#}\n{}", status(dir), server.log());
    let mut client = server.client();
    for block in 0..64 {
        client.read(block << 20, 4096).unwrap();
    }
    let away = status(dir)["members"][1].clone();
    assert_eq!(away["state"], "stalled", "reads do not wait for a drive: {away:#}");
    assert!(
        away["temperature_celsius"].is_null() && away["wear_percent"].is_null(),
        "nobody asked it: {away:#}"
    );
    println!("- 64 reads while a drive was away, {} decoded", status(dir)["degraded_reads"]);
    put_back(NODES);
    let is_well = || status(dir)["state"] == "clean" && status(dir)["members"][1]["state"] == "active";
    assert!(until(SOON, is_well), "{:#}\n{}", status(dir), server.log());
    let_run(Duration::from_millis(500));
    let after = status(dir);
    let log = server.log();
    assert_eq!(after["retired_zones"], before["retired_zones"], "{log}");
    assert!(after["members"][1]["hiccups"].as_u64().unwrap() >= 1, "{after:#}\n{log}");
    let path = after["members"][1]["path"].as_str().unwrap();
    assert!(
        Path::new(path).exists() && path != format!("/dev/ng{number}n1"),
        "{path}: it has another name now"
    );
    assert!(!log.contains("drive 1 is there again"), "it was a member all the time: {log}");
    for line in log.lines().filter(|line| line.contains(" is back after ")) {
        println!("- {line}");
    }
    server.kill_9();
    println!("- three resets and a pull, {} acknowledged requests", oracle.join(writers));
    let server = Server::serve(dir);
    let failed = ask(&["drive", "fail", text(dir), "3"]);
    assert_eq!(failed.code(), Some(0), "{failed}");
    oracle.verify(&server);
    let re_added = run_for(SOON * 2, zoneweave().args(["drive", "re-add", text(dir), "3", "--wait"]));
    assert_eq!(re_added.code(), Some(0), "{re_added}");
    server.stop();
}

/// A server is stopped while it waits for a drive. It does not wait any longer, and the drive is a member when it is back.
fn stop_while_away(dir: &Path, oracle: &mut Oracle, random: &mut Random) {
    let mut server = Server::serve(dir);
    let writers = oracle.write(&server, random);
    let_run(Duration::from_millis(500));
    let number = controller_of(dir, 3);
    pull(number);
    assert!(until(SOON, || is_stalled(dir, 3)), "{:#}\n{}", status(dir), server.log());
    let stopped = ask(&["stop", text(dir)]);
    println!("- stopped while a drive was away: {:?}", stopped.code());
    assert!(until(Duration::from_secs(20), || server.has_ended()), "{}", server.log());
    println!("- {} acknowledged requests", oracle.join(writers));
    put_back(NODES);
    let server = Server::serve(dir);
    assert_eq!(status(dir)["state"], "clean");
    oracle.verify(&server);
    server.stop();
}

/// Two drives are lost and come back in the other order, so that each has the name of the other one. Both are found.
fn swap_names(dir: &Path, oracle: &mut Oracle) {
    let of = |index: usize, file: &str| PathBuf::from(format!("/sys/class/nvme/nvme{index}/{file}"));
    let serial =
        |index: usize| std::fs::read_to_string(of(index, "serial")).unwrap_or_default().trim().to_owned();
    let addresses = [0, 1].map(|index| {
        let device = std::fs::canonicalize(of(index, "device")).unwrap();
        device.file_name().unwrap().to_str().unwrap().to_owned()
    });
    let driver = |act: &str, address: &String| {
        std::fs::write(format!("/sys/bus/pci/drivers/nvme/{act}"), address).unwrap();
    };
    addresses.iter().for_each(|address| driver("unbind", address));
    addresses.iter().rev().for_each(|address| driver("bind", address));
    assert!(until(SOON, || node(0).exists() && node(1).exists()));
    assert_eq!([0, 1].map(serial), ["zns1", "zns0"], "the names are exchanged");
    let server = Server::serve(dir);
    oracle.verify(&server);
    for (index, path) in [(0, "/dev/ng1n1"), (1, "/dev/ng0n1")] {
        let member = &status(dir)["members"][index];
        assert_eq!((&member["state"], &member["path"]), (&"active".into(), &path.into()), "{member}");
        assert_eq!(member["kind"], "nvme-zns");
        assert!(member["id"].as_str().unwrap().contains(&format!("zns{index}")), "{member}");
    }
    server.stop();
    let corrected = std::fs::read_to_string(dir.join("array.toml")).unwrap();
    let places = ["/dev/ng1n1", "/dev/ng0n1"].map(|path| corrected.find(path).unwrap());
    assert!(places[0] < places[1], "{corrected}");
    println!("- drives 0 and 1 exchanged their names, and are found");
}
