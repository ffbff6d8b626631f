//! The write area on emulated drives with random write areas: what is in slots is there after kill -9, without a drive, and
//! with a rotten copy; `check`, `scrub` and `status` tell of it.

use crate::support::run::{SOON, run_for, until};
use crate::support::scratch::Scratch;
use crate::support::server::{Server, assert_clean, check, status, zoneweave};
use crate::support::stamp::{BLOCK_BYTES, BLOCK_BYTES_U64, push_block, stamp_of};
use crate::support::text;
use serde_json::Value;
use std::path::Path;

const UP: [&str; 6] = ["--size", "64MiB", "--zrwa-window", "256KiB", "--write-area", "2"];
/// Folder in which files of drives have no volatile cache.
const MEMORY: &str = "/dev/shm";
/// Fewer than there are slots.
const BLOCKS: u64 = 90;
/// Distance of blocks that are written: no two are in a row.
const APART: u64 = 7;

fn write_area(dir: &Path) -> Value {
    status(dir)["write_area"].clone()
}

/// A server with a write area that is open.
#[track_caller]
fn up(dir: &Path) -> Server {
    let server = Server::up(dir, &UP);
    let is_open = || write_area(dir)["slots"].as_u64().is_some_and(|slots| slots > BLOCKS);
    assert!(until(SOON, is_open), "the write area is open");
    server
}

/// Writes single blocks, each flushed; every third of them once more.
fn write(server: &Server, stamp: u64) {
    let mut client = server.client();
    for (step, stamp) in [(1, stamp), (3, stamp + 1)] {
        for number in (0..BLOCKS).step_by(step) {
            let (lba, mut data) = (number * APART, Vec::new());
            push_block(&mut data, lba, stamp);
            client.write(lba * BLOCK_BYTES_U64, &data).unwrap();
            client.flush().unwrap();
        }
    }
}

#[track_caller]
fn verify(server: &Server, stamp: u64) {
    let mut client = server.client();
    for number in 0..BLOCKS {
        let lba = number * APART;
        let data = client.read(lba * BLOCK_BYTES_U64, 4096).unwrap();
        let expected = stamp + u64::from(number % 3 == 0);
        assert_eq!(stamp_of(lba, &data), Some(expected), "block {lba}\n{}", server.log());
    }
}

/// Byte of a block's data, and of its metadata.
const DATA: usize = 2_000;
const METADATA: usize = BLOCK_BYTES + 9;

/// Flips a bit in every place of a drive's file that holds this version of a block; returns how many there are.
fn spoil(path: &Path, lba: u64, stamp: u64, byte: usize) -> usize {
    let mut block = Vec::new();
    push_block(&mut block, lba, stamp);
    let mut bytes = std::fs::read(path).unwrap();
    let first = &block[..64];
    let places: Vec<usize> =
        (0..bytes.len() - BLOCK_BYTES).filter(|at| bytes[*at..].starts_with(first)).collect();
    places.iter().for_each(|at| bytes[at + byte] ^= 4);
    std::fs::write(path, bytes).unwrap();
    places.len()
}

#[test]
fn what_slots_hold_outlives_kill_9_and_a_drive() {
    let scratch = Scratch::below(MEMORY, "slots");
    for lost in [None, Some(0), Some(3)] {
        let dir = scratch.join(&format!("a{}", lost.unwrap_or(9)));
        let server = up(&dir);
        write(&server, 5);
        let area = write_area(&dir);
        assert_eq!(
            (&area["live"], &area["written"]),
            (&BLOCKS.into(), &(BLOCKS + BLOCKS / 3).into()),
            "{area}"
        );
        assert_eq!(area["absorbed"], BLOCKS / 3, "{area}");
        let share = area["hit_share"].as_f64().unwrap();
        assert!(share > 0.0 && share <= 1.0, "{area}");
        let words = run_for(SOON, zoneweave().args(["status", text(&dir)]));
        assert!(words.stdout.contains("write area"), "{words}");
        server.kill_9();
        let (code, report) = check(&dir);
        assert_eq!((code, &report["slots_to_move"]), (Some(0), &BLOCKS.into()), "{report:#}");
        if let Some(drive) = lost {
            std::fs::remove_file(dir.join(format!("drive-{drive}.zns"))).unwrap();
        }
        // What the area held goes to the log.
        let server = Server::serve_degraded(&dir);
        verify(&server, 5);
        assert!(status(&dir)["write_area"].is_null() || write_area(&dir)["live"] == 0, "{}", status(&dir));
        server.kill_9();
        assert_eq!(check(&dir).1["slots_to_move"], 0);
        let server = Server::serve_degraded(&dir);
        verify(&server, 5);
        server.stop();
    }
}

/// Makes an array of 16 MiB on drives of so many zones, of which so many may be active.
#[track_caller]
fn create(dir: &Path, zones: &str, max_open: &str) {
    let make = ["create", text(dir), "--size", "16MiB", "--zones", zones, "--zone-capacity", "512KiB"];
    let windows = ["--max-open", max_open, "--zrwa-window", "64KiB", "--zrwa-granule", "16KiB"];
    let made = run_for(SOON, zoneweave().args(make).args(windows));
    assert_eq!(made.code(), Some(0), "{made}");
}

#[test]
fn auto_takes_what_there_is_room_for_and_says_why() {
    let scratch = Scratch::below(MEMORY, "slotsauto");
    let auto = ["--write-area", "auto"];
    // Many active zones and segments to spare leave room for more than is taken.
    let roomy = scratch.join("roomy");
    create(&roomy, "200", "40");
    // Few of them, for there are few active zones; or few segments to spare.
    let (tight, scarce) = (scratch.join("tight"), scratch.join("scarce"));
    // None, for drives have no windows, or the array is of another kind.
    let (plain, mirror) = (scratch.join("plain"), scratch.join("mirror"));
    let up = |dir: &Path, options: &[&str]| Server::up(dir, &[options, &auto[..]].concat());
    let with_windows = ["--size", "64MiB", "--zrwa-window", "256KiB"];
    let of = |server: Server, dir: &Path, because: &str| {
        let area = write_area(dir);
        let zones = area["zones_per_drive"].as_u64().unwrap();
        let why = area["why"].as_str().unwrap().to_owned();
        assert!(why.contains(because), "{area}");
        let words = run_for(SOON, zoneweave().args(["status", text(dir)]));
        assert!(words.stdout.contains(&format!("{zones} zones of each drive: {why}")), "{words}");
        assert!(until(SOON, || write_area(dir)["zones"] == zones * 4), "{}", write_area(dir));
        write(&server, 5);
        verify(&server, 5);
        assert_eq!(write_area(dir)["written"].as_u64().unwrap() > 0, zones > 0, "{}", write_area(dir));
        server.stop();
        assert_clean(dir);
        zones
    };
    assert_eq!(of(Server::serve_with(&roomy, &auto), &roomy, "the most that `auto` takes"), 8);
    create(&tight, "60", "14");
    let some = of(Server::serve_with(&tight, &auto), &tight, "leave room for no more");
    assert!((1..8).contains(&some), "{some}");
    assert_eq!(of(up(&scarce, &with_windows), &scarce, "one for 10 segments to spare"), 0);
    assert_eq!(of(up(&plain, &["--size", "64MiB"]), &plain, "drive 0 has no random write areas"), 0);
    let mirrors = [&with_windows[..], &["--level", "raid01"]].concat();
    assert_eq!(of(up(&mirror, &mirrors), &mirror, "mirrors"), 0);
    // What is asked for by number is told, too; `off` says nothing. Who says nothing has `auto` where drives have windows.
    let server = Server::serve_with(&tight, &["--write-area", "1"]);
    assert_eq!(
        (&write_area(&tight)["zones_per_drive"], &write_area(&tight)["why"]),
        (&1.into(), &"as asked for".into())
    );
    server.stop();
    for (dir, options, zones) in
        [(&tight, &["--write-area", "off"][..], None), (&tight, &[], Some(some)), (&plain, &[], None)]
    {
        let server = Server::serve_with(dir, options);
        assert_eq!(write_area(dir)["zones_per_drive"].as_u64(), zones, "{}", write_area(dir));
        server.stop();
    }
}

#[test]
fn a_rotten_copy_in_a_slot_is_named_and_the_other_one_serves() {
    let scratch = Scratch::below(MEMORY, "slotrot");
    let dir = scratch.join("a");
    let server = up(&dir);
    write(&server, 5);
    server.kill_9();
    // Block 7 was written once.
    let drive = |drive: usize| dir.join(format!("drive-{drive}.zns"));
    let copies: Vec<usize> = (0..4).filter(|number| spoil(&drive(*number), APART, 5, DATA) > 0).collect();
    assert_eq!(copies.len(), 2, "a copy on each of two drives: {copies:?}");
    // The second one is whole again.
    assert!(spoil(&drive(copies[1]), APART, 5, DATA) > 0, "flipped twice");
    let (code, report) = check(&dir);
    let problems = report["problems"].as_array().unwrap();
    assert_eq!((code, problems.len()), (Some(1), 1), "{report:#}");
    assert_eq!(
        (&problems[0]["drive"], &problems[0]["rebuildable"]),
        (&copies[0].into(), &true.into()),
        "{report:#}"
    );
    let server = Server::serve(&dir);
    verify(&server, 5);
    server.stop();
    assert_clean(&dir);
}

#[test]
fn a_block_without_a_whole_copy_fails_and_is_never_older() {
    let scratch = Scratch::below(MEMORY, "slotlost");
    let dir = scratch.join("a");
    let server = up(&dir);
    write(&server, 5);
    server.kill_9();
    (0..4).for_each(|drive| _ = spoil(&dir.join(format!("drive-{drive}.zns")), APART, 5, DATA));
    let (code, report) = check(&dir);
    assert_eq!(code, Some(1), "{report:#}");
    let kinds: Vec<&Value> =
        report["problems"].as_array().unwrap().iter().map(|problem| &problem["kind"]).collect();
    assert_eq!(kinds, ["block_damaged", "block_damaged", "block_lost"], "{report:#}");
    for _ in 0..2 {
        let server = Server::serve(&dir);
        let mut client = server.client();
        assert!(client.read(APART * BLOCK_BYTES_U64, 4096).is_err(), "{}", server.log());
        assert!(client.read(2 * APART * BLOCK_BYTES_U64, 4096).is_ok());
        server.kill_9();
    }
    // Written anew, it is whole.
    let server = Server::serve(&dir);
    write(&server, 8);
    verify(&server, 8);
    server.stop();
    assert_clean(&dir);
}

#[test]
fn a_scrub_empties_slots_and_finds_nothing() {
    let scratch = Scratch::below(MEMORY, "slotscrub");
    let dir = scratch.join("a");
    let server = up(&dir);
    write(&server, 5);
    let finished = run_for(SOON, zoneweave().args(["scrub", text(&dir), "--json"]));
    let found: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!((finished.code(), &found["blocks_damaged"]), (Some(0), &0.into()), "{found:#}");
    let area = write_area(&dir);
    assert_eq!((&area["live"], &area["moved"]), (&0.into(), &BLOCKS.into()), "{area}");
    verify(&server, 5);
    write(&server, 7);
    assert!(write_area(&dir)["live"].as_u64().unwrap() > 0, "slots are used again: {}", write_area(&dir));
    server.kill_9();
    let server = Server::serve(&dir);
    verify(&server, 7);
    server.stop();
}

#[test]
fn a_slot_that_nobody_knows_is_not_taken_for_an_empty_one() {
    let scratch = Scratch::below(MEMORY, "slotgone");
    let dir = scratch.join("a");
    let server = up(&dir);
    write(&server, 5);
    server.kill_9();
    (0..4).for_each(|drive| _ = spoil(&dir.join(format!("drive-{drive}.zns")), APART, 5, METADATA));
    for command in ["serve", "check"] {
        let refused = run_for(SOON, zoneweave().args([command, text(&dir)]));
        assert_eq!(refused.code(), Some(4), "{refused}");
        assert!(refused.stderr.contains("--accept-lost-writes"), "{refused}");
        assert!(refused.stderr.contains("nothing was changed"), "{refused}");
    }
    let server = Server::serve_with(&dir, &["--accept-lost-writes"]);
    let mut client = server.client();
    let older = client.read(APART * BLOCK_BYTES_U64, 4096).unwrap();
    assert_eq!(stamp_of(APART, &older), Some(0), "it was never written before");
    let other = client.read(2 * APART * BLOCK_BYTES_U64, 4096).unwrap();
    assert_eq!(stamp_of(2 * APART, &other), Some(5));
    server.stop();
    Server::serve(&dir).stop();
    assert_clean(&dir);
}

/// The policy of `array.toml` may be another one each time an array is served.
#[test]
fn blocks_go_by_lifetimes_where_the_array_says_so() {
    let scratch = Scratch::below(MEMORY, "lifetimes");
    let dir = scratch.join("a");
    Server::up(&dir, &UP).stop();
    let file = dir.join("array.toml");
    let adaptive = std::fs::read_to_string(&file).unwrap();
    assert!(adaptive.contains("policy = \"adaptive\""), "{adaptive}");
    std::fs::write(&file, adaptive.replace("policy = \"adaptive\"", "policy = \"biza\"")).unwrap();
    let server = Server::serve_with(&dir, &["--write-area", "2"]);
    let is_open = || write_area(&dir)["slots"].as_u64().is_some_and(|slots| slots > BLOCKS);
    assert!(until(SOON, is_open), "the write area is open");
    write(&server, 1);
    write(&server, 3);
    let area = write_area(&dir);
    assert!(area["absorbed"].as_u64().unwrap() >= BLOCKS, "blocks are overwritten in their slots: {area}");
    server.kill_9();
    // Without an area blocks are placed by lifetime alone.
    let server = Server::serve_with(&dir, &["--write-area", "off"]);
    verify(&server, 3);
    write(&server, 5);
    let told = run_for(SOON, zoneweave().args(["status", text(&dir)])).stdout;
    assert!(told.contains("placed by lifetime, and none is absorbed"), "{told}");
    let told = status(&dir);
    assert_eq!(told["policy"], "biza");
    let streams: Vec<&str> =
        told["streams"].as_array().unwrap().iter().map(|own| own["stream"].as_str().unwrap()).collect();
    assert_eq!(streams, ["lived-near", "lived-long", "moved", "cold", "index"]);
    let open = |own: &serde_json::Value| own["open_segments"].as_u64().unwrap();
    let sum: u64 = told["streams"].as_array().unwrap().iter().map(open).sum();
    assert_eq!(Some(sum), told["open_segments"].as_u64(), "{told}");
    server.kill_9();
    std::fs::write(&file, adaptive).unwrap();
    let server = Server::serve(&dir);
    verify(&server, 5);
    assert_eq!(status(&dir)["policy"], "adaptive");
    server.stop();
    assert_clean(&dir);
}
