//! Troubles of the host under a running server: files that go away, file systems that freeze or fill up, logs that
//! nobody reads. None of them ends the process, and none stops what does not need the drive in question.
//!
//! Frozen and full file systems are ext4 in a file, which only root can mount; without root those tests say so and pass.

#![allow(clippy::unwrap_used)]

mod support;

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use support::disk::SmallDisk;
use support::nbd::Client;
use support::run::{SOON, command, kill, run_for, until, wait_for};
use support::scratch::Scratch;
use support::server::{Server, assert_clean, check, status, zoneweave};
use support::text;

const MIB: u64 = 1 << 20;

fn member(dir: &Path, drive: usize) -> Value {
    status(dir)["members"][drive].clone()
}

fn is_failed(dir: &Path, drive: usize) -> bool {
    member(dir, drive)["state"] == "failed"
}

/// Writes and reads back some blocks at `at`.
#[track_caller]
fn exercise(client: &mut Client, at: u64, fill: u8) {
    let data = vec![fill; 256 << 10];
    client.write(at, &data).unwrap();
    assert!(client.read(at, 256 << 10).unwrap() == data, "what was written at {at}");
}

#[test]
fn a_drive_file_that_is_removed_is_a_failed_drive() {
    for place in ["/tmp", "/dev/shm"] {
        let folder = Scratch::below(place, "unlinked");
        let dir = folder.join("a");
        let mut server = Server::up(&dir, &["--size", "64MiB"]);
        let mut client = server.client();
        exercise(&mut client, 0, 1);
        std::fs::remove_file(dir.join("drive-1.zns")).unwrap();
        // Nobody writes or reads meanwhile.
        assert!(until(SOON, || is_failed(&dir, 1)), "{place}: {}", server.log());
        let named = || server.log().contains("drive-1.zns): its file was removed while in use");
        assert!(until(SOON, named), "{}", server.log());
        assert!(client.read(0, 4096).unwrap() == [1; 4096]);
        exercise(&mut client, MIB, 2);
        server.assert_alive();
        assert_eq!(member(&dir, 1)["trouble"]["lost"], "its file was removed while in use");
        server.stop();
        let server = Server::serve(&dir);
        assert!(server.client().read(MIB, 4096).unwrap() == [2; 4096]);
        server.stop();
    }
}

#[test]
fn a_drive_file_that_is_cut_short_is_a_failed_drive() {
    for place in ["/tmp", "/dev/shm"] {
        let folder = Scratch::below(place, "cut");
        let dir = folder.join("a");
        let mut server = Server::up(&dir, &["--size", "64MiB"]);
        let mut client = server.client();
        exercise(&mut client, 0, 1);
        std::fs::File::options().write(true).open(dir.join("drive-2.zns")).unwrap().set_len(0).unwrap();
        // In the middle of service: reads and writes find pages that are gone.
        for round in 0..8 {
            exercise(&mut client, round * MIB, 3);
        }
        assert!(until(SOON, || is_failed(&dir, 2)), "{place}: {}", server.log());
        exercise(&mut client, 0, 4);
        server.assert_alive();
        let named = || server.log().contains("drive-2.zns): its file was cut short while in use");
        assert!(until(SOON, named), "{}", server.log());
        server.stop();
    }
}

#[test]
fn a_frozen_file_system_fails_its_drive_and_stops_nothing_else() {
    let scratch = Scratch::new("frozen");
    let Some(disk) = SmallDisk::make(&scratch, 128) else { return };
    let dir = scratch.join("a");
    Server::up(&dir, &["--size", "64MiB"]).stop();
    disk.take_drive(&dir, 3);
    let mut server = Server::up(&dir, &["--drive-timeout", "2"]);
    let mut client = server.client();
    exercise(&mut client, 0, 1);
    disk.freeze("-f");
    // The client waits for as long as the drive is given time; everybody else goes on.
    let mut waiting = server.client();
    let write = std::thread::spawn(move || exercise(&mut waiting, 8 * MIB, 9));
    assert!(until(SOON, || !member(&dir, 3)["trouble"]["unanswered_s"].is_null()), "{}", server.log());
    let mut newcomer = server.client();
    assert!(newcomer.read(0, 256 << 10).unwrap() == [1; 256 << 10], "reads go on");
    assert!(until(SOON, || is_failed(&dir, 3)), "{}", server.log());
    write.join().unwrap();
    exercise(&mut client, 16 * MIB, 5);
    server.assert_says("has not been answered for");
    server.assert_says("the drive is given up and handled");
    // What comes late does no harm.
    disk.freeze("-u");
    exercise(&mut client, 24 * MIB, 6);
    server.assert_alive();
    server.stop();
    let server = Server::serve(&dir);
    let mut client = server.client();
    assert!(client.read(8 * MIB, 256 << 10).unwrap() == [9; 256 << 10]);
    assert!(client.read(16 * MIB, 256 << 10).unwrap() == [5; 256 << 10]);
    server.stop();
    let (_, report) = check(&dir);
    let problems = report["problems"].as_array().unwrap();
    assert!(problems.iter().all(|problem| problem["kind"] == "member_missing"), "{report:#}");
}

#[test]
fn a_frozen_file_system_of_all_drives_fails_none() {
    let scratch = Scratch::new("all");
    let Some(disk) = SmallDisk::make(&scratch, 128) else { return };
    let dir = scratch.join("a");
    Server::up(&dir, &["--size", "64MiB"]).stop();
    (0..4).for_each(|drive| disk.take_drive(&dir, drive));
    let server = Server::up(&dir, &["--drive-timeout", "1"]);
    let mut client = server.client();
    disk.freeze("-f");
    let writing = std::thread::spawn(move || exercise(&mut client, 0, 9));
    let waits = || server.log().contains("so none is given up");
    assert!(until(SOON, waits), "{}", server.log());
    assert!((0..4).all(|drive| member(&dir, drive)["state"] == "active"), "{}", server.log());
    disk.freeze("-u");
    writing.join().unwrap();
    assert!(until(SOON, || (0..4).all(|drive| member(&dir, drive)["trouble"]["unanswered_s"].is_null())));
    assert_eq!(status(&dir)["state"], "clean");
    server.stop();
    assert_clean(&dir);
}

#[test]
fn a_drive_whose_device_vanishes_in_service_is_a_failed_drive() {
    let scratch = Scratch::new("vanish");
    let Some(disk) = SmallDisk::make(&scratch, 128) else { return };
    let dir = scratch.join("a");
    Server::up(&dir, &["--size", "64MiB"]).stop();
    disk.take_drive(&dir, 2);
    let mut server = Server::serve(&dir);
    let mut client = server.client();
    exercise(&mut client, 0, 1);
    disk.vanish();
    // Nobody writes or reads meanwhile.
    assert!(until(SOON, || is_failed(&dir, 2)), "{:#}\n{}", status(&dir), server.log());
    server.assert_says("drive 2 (");
    exercise(&mut client, MIB, 2);
    assert!(client.read(0, 256 << 10).unwrap() == [1; 256 << 10]);
    server.assert_alive();
    server.stop();
    // It is recorded as failed, so it is not missed.
    let server = Server::serve(&dir);
    assert!(server.client().read(MIB, 256 << 10).unwrap() == [2; 256 << 10]);
    server.stop();
}

#[test]
fn a_drive_whose_device_is_gone_at_the_start_refuses_it() {
    let scratch = Scratch::new("eio");
    let Some(disk) = SmallDisk::make(&scratch, 128) else { return };
    let dir = scratch.join("a");
    Server::up(&dir, &["--size", "64MiB"]).stop();
    disk.take_drive(&dir, 2);
    let others = || [0, 1, 3].map(|drive| std::fs::read(dir.join(format!("drive-{drive}.zns"))).unwrap());
    let before = others();
    disk.vanish();
    let refused = support::server::ask(&["serve", text(&dir)]);
    assert_eq!(refused.code(), Some(4), "{refused}");
    for words in ["drive 2", "Input/output error", "nothing was recorded", "--degraded"] {
        assert!(refused.stderr.contains(words), "should mention `{words}`: {refused}");
    }
    assert!(others() == before, "something was recorded");
    let server = Server::serve_degraded(&dir);
    exercise(&mut server.client(), 0, 1);
    server.stop();
}

#[test]
fn a_drive_that_is_slow_is_named() {
    let scratch = Scratch::new("slow");
    let Some(disk) = SmallDisk::make(&scratch, 128) else { return };
    let dir = scratch.join("a");
    Server::up(&dir, &["--size", "64MiB"]).stop();
    disk.take_drive(&dir, 0);
    let server = Server::serve(&dir);
    let mut client = server.client();
    let named = (0..200_u64).any(|round| {
        disk.freeze("-f");
        let mut waiting = server.client();
        let write = std::thread::spawn(move || exercise(&mut waiting, round % 32 * MIB, 1));
        std::thread::sleep(std::time::Duration::from_millis(60));
        disk.freeze("-u");
        write.join().unwrap();
        !member(&dir, 0)["trouble"]["slow_p99_us"].is_null()
    });
    assert!(named, "{:#}\n{}", status(&dir), server.log());
    assert!(member(&dir, 1)["trouble"].is_null(), "the others are not slow");
    exercise(&mut client, 0, 1);
    server.stop();
    assert_clean(&dir);
}

#[test]
fn a_full_file_system_makes_writes_wait_and_fails_no_drive() {
    let scratch = Scratch::new("full");
    let Some(disk) = SmallDisk::make(&scratch, 64) else { return };
    let dir = scratch.join("a");
    Server::up(&dir, &["--size", "96MiB"]).stop();
    disk.take_drive(&dir, 1);
    let ballast = disk.at.join("ballast");
    let filled =
        run_for(SOON, command("dd").args(["if=/dev/zero", "bs=64k", &format!("of={}", text(&ballast))]));
    assert!(!filled.succeeded(), "dd fills the file system: {filled}");
    // Room for the superblocks of a start, which waits like any write.
    let file = std::fs::File::options().write(true).open(&ballast).unwrap();
    file.set_len(file.metadata().unwrap().len() - (256 << 10)).unwrap();
    drop(file);
    // Shorter than the disk stays full.
    let mut server = Server::up(&dir, &["--drive-timeout", "1"]);
    let mut writer = server.client();
    let writing = std::thread::spawn(move || {
        (0..48).for_each(|round| exercise(&mut writer, round * MIB, u8::try_from(round).unwrap()));
    });
    let waits =
        |least: u64| member(&dir, 1)["trouble"]["waits_for_room_s"].as_u64().is_some_and(|s| s >= least);
    assert!(until(SOON, || waits(4)), "{:#}\n{}", status(&dir), server.log());
    assert!(!is_failed(&dir, 1), "a full disk is no failed drive: {}", server.log());
    server.assert_says("its file system is full");
    let shown = support::server::ask(&["status", text(&dir)]).expect("status");
    assert!(shown.contains("waits for room on its file system"), "{shown}");
    // What needs no room goes on.
    let mut reader = server.client();
    reader.read(0, 4096).unwrap();
    std::fs::remove_file(&ballast).unwrap();
    assert!(until(SOON, || writing.is_finished()), "writes go on by themselves: {}", server.log());
    writing.join().unwrap();
    assert!(until(SOON, || member(&dir, 1)["trouble"].is_null()));
    assert!((0..4).all(|drive| member(&dir, drive)["state"] == "active"), "{:#}", status(&dir));
    for round in 0..48_u8 {
        assert!(reader.read(u64::from(round) * MIB, 256 << 10).unwrap() == vec![round; 256 << 10]);
    }
    server.assert_alive();
    server.stop();
    assert_clean(&dir);
}

#[test]
fn a_server_that_was_stopped_for_a_while_blames_no_drive() {
    let folder = Scratch::below("/tmp", "stopped");
    let dir = folder.join("a");
    let server = Server::up(&dir, &["--size", "64MiB", "--drive-timeout", "1"]);
    let signal = |name: &str| {
        run_for(SOON, command("kill").args([name, &server.process().to_string()])).expect("kill");
    };
    let mut writer = server.client();
    let writing =
        std::thread::spawn(move || (0..400).for_each(|round| exercise(&mut writer, round % 60 * MIB, 3)));
    for _ in 0..2 {
        std::thread::sleep(std::time::Duration::from_millis(50));
        signal("-STOP");
        // Longer than a drive is given time, and than nobody may look without having been stopped.
        std::thread::sleep(std::time::Duration::from_secs(6));
        signal("-CONT");
    }
    writing.join().unwrap();
    assert!((0..4).all(|drive| member(&dir, drive)["state"] == "active"), "{}", server.log());
    server.stop();
    assert_clean(&dir);
}

/// Starts a server with these for its outputs, and waits for its socket.
fn serve_with(dir: &Path, out: Stdio, err: Stdio, level: &str) -> std::process::Child {
    let mut command: Command = zoneweave();
    command.args(["serve", text(dir)]).env("RUST_LOG", level);
    let child = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn().unwrap();
    assert!(until(SOON, || Client::open(&dir.join("nbd.sock")).is_ok()), "the server did not start");
    child
}

#[test]
fn outputs_that_nobody_reads_cost_log_lines_and_nothing_else() {
    let scratch = Scratch::new("logs");
    let dir = scratch.join("a");
    Server::up(&dir, &["--size", "64MiB"]).stop();
    let full = || Stdio::from(std::fs::File::options().write(true).open("/dev/full").unwrap());
    let closed = || {
        let (reading, writing) = std::io::pipe().unwrap();
        drop(reading);
        Stdio::from(writing)
    };
    // Closed, full, and a pipe that is there and never emptied.
    for kind in ["closed", "full", "stalled"] {
        let mut kept = Vec::new();
        let mut stalled = || {
            let (reading, writing) = std::io::pipe().unwrap();
            kept.push(reading);
            Stdio::from(writing)
        };
        let (out, err) = match kind {
            "closed" => (closed(), closed()),
            "full" => (full(), full()),
            _ => (stalled(), stalled()),
        };
        let mut server = serve_with(&dir, out, err, "trace");
        for _ in 0..3000 {
            let mut client = Client::open(&dir.join("nbd.sock")).unwrap();
            client.read(0, 4096).unwrap();
        }
        exercise(&mut Client::open(&dir.join("nbd.sock")).unwrap(), 0, 7);
        assert!(server.try_wait().unwrap().is_none(), "{kind} outputs ended the server");
        let lost = status(&dir)["log_lines_lost"].as_u64().unwrap();
        assert!(lost > 0, "{kind}: lost lines are counted");
        let id = server.id().to_string();
        run_for(SOON, command("kill").args(["-TERM", &id])).expect("kill -TERM");
        let ended = wait_for(SOON, &mut server);
        kill(&mut server);
        assert!(ended.is_some_and(|ended| ended.success()), "{kind}: {ended:?}");
    }
}

#[test]
fn connections_are_logged_at_debug_level() {
    let scratch = Scratch::new("quiet");
    let dir = scratch.join("a");
    let server = Server::up(&dir, &["--size", "64MiB"]);
    (0..20).for_each(|_| drop(server.client()));
    let log = server.log();
    assert!(!log.contains("client "), "{log}");
    server.stop();
}
