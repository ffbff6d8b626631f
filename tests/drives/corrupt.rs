//! Bits that rot: a read is right or fails, never wrong; what can be rebuilt is rebuilt.

use crate::support::nbd::{Client, EIO, Failure};
use crate::support::random;
use crate::support::run::{SOON, run_for};
use crate::support::scratch::Scratch;
use crate::support::server::{Server, assert_clean, check, status, zoneweave};
use crate::support::stamp::{BLOCK_BYTES_U64, push_block, stamp_of};
use crate::support::text;
use base::random::Random;
use std::collections::BTreeSet;
use std::path::Path;

const BLOCKS: u64 = 32 * 256;
const WRITE_BLOCKS: u64 = 64;

/// Distance of blocks in a drive's file: data and metadata.
const STRIDE: usize = 4160;
const PAGE_BYTES: usize = 4096;
const TABLE_ENTRY_BYTES: usize = 8;
/// The first zones of a drive hold its superblocks, of which one record is all there is to lose.
const SUPERBLOCK_ZONES: usize = 2;

/// Blocks spoiled in a drive's file.
struct Spoiled {
    zones: BTreeSet<u64>,
    count: usize,
}

/// Contents of the volume: the stamp of each block, never 0, and never the same twice.
struct Contents {
    stamps: Vec<u64>,
    stamp_last: u64,
}

impl Contents {
    fn write(&mut self, client: &mut Client, first: u64) {
        self.stamp_last += 1;
        let mut data = Vec::new();
        for lba in first..first + WRITE_BLOCKS {
            push_block(&mut data, lba, self.stamp_last);
            self.stamps[usize::try_from(lba).unwrap()] = self.stamp_last;
        }
        client.write(first * BLOCK_BYTES_U64, &data).unwrap();
    }

    /// Writes all blocks.
    fn write_all(&mut self, client: &mut Client) {
        (0..BLOCKS).step_by(64).for_each(|first| self.write(client, first));
    }

    /// Reads every block alone; returns how many failed. None may be wrong.
    #[track_caller]
    fn count_unreadable(&self, client: &mut Client) -> u64 {
        let (mut unreadable, mut wrong) = (0, Vec::new());
        for (lba, &stamp) in (0..).zip(&self.stamps) {
            match client.read(lba * BLOCK_BYTES_U64, 4096) {
                Ok(data) if stamp_of(lba, &data) == Some(stamp) => {}
                Ok(data) => wrong.push((lba, stamp_of(lba, &data), stamp)),
                Err(Failure::Answered(error)) => {
                    assert_eq!(error, EIO, "block {lba}");
                    unreadable += 1;
                }
                Err(Failure::Broken(error)) => panic!("block {lba}: {error}"),
            }
        }
        let shown = &wrong[..wrong.len().min(8)];
        assert!(wrong.is_empty(), "{} blocks are wrong (block, found, expected): {shown:?}", wrong.len());
        unreadable
    }
}

/// Writes every block twice over in random order, so that collection has been at work, and stops.
fn filled_array(dir: &Path, random: &mut Random) -> Contents {
    let server = Server::up(dir, &["--size", "32MiB"]);
    let mut client = server.client();
    let mut contents = Contents { stamps: vec![0; usize::try_from(BLOCKS).unwrap()], stamp_last: 0 };
    contents.write_all(&mut client);
    for _ in 0..2 * BLOCKS / WRITE_BLOCKS {
        let first = random.below(BLOCKS / WRITE_BLOCKS) * WRITE_BLOCKS;
        contents.write(&mut client, first);
    }
    client.flush().unwrap();
    server.stop();
    assert_clean(dir);
    contents
}

/// Flips bits in `share` of a hundred of the written blocks of a drive.
fn spoil(path: &Path, share: u64, random: &mut Random) -> Spoiled {
    let mut bytes = std::fs::read(path).unwrap();
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    // The header says how many zones there are and how much each holds.
    let (zones, capacity) = (number(20), number(28));
    let data_at = PAGE_BYTES + (zones * TABLE_ENTRY_BYTES).next_multiple_of(PAGE_BYTES);
    let mut spoiled = Spoiled { zones: BTreeSet::new(), count: 0 };
    for block in SUPERBLOCK_ZONES * capacity..zones * capacity {
        let at = data_at + block * STRIDE;
        let is_written = bytes[at..at + STRIDE].iter().any(|&byte| byte != 0);
        if !is_written || !random.chance(share, 100) {
            continue;
        }
        for _ in 0..1 + random.below(8) {
            bytes[at + random.index(STRIDE)] ^= 1 << random.below(8);
        }
        spoiled.zones.insert((block / capacity) as u64);
        spoiled.count += 1;
    }
    assert!(spoiled.count > 100, "only {} blocks spoiled: is the layout another?", spoiled.count);
    std::fs::write(path, bytes).unwrap();
    println!("{} blocks of {} spoiled", spoiled.count, path.display());
    spoiled
}

#[test]
fn one_rotten_drive_is_corrected() {
    let mut random = random(21);
    let scratch = Scratch::new("rot");
    let dir = scratch.join("array");
    let contents = filled_array(&dir, &mut random);
    let spoiled = spoil(&dir.join("drive-2.zns"), 20, &mut random);
    let (code, report) = check(&dir);
    assert_eq!(code, Some(1), "check of {} spoiled blocks: {report:#}", spoiled.count);
    assert_places(&report, 2, &spoiled);
    let words = run_for(SOON, zoneweave().args(["check", text(&dir)]));
    assert!(words.stdout.contains("drive 2 zone"), "places are named: {words}");
    let server = Server::serve(&dir);
    assert_eq!(contents.count_unreadable(&mut server.client()), 0, "all can be rebuilt\n{}", server.log());
    let report = status(&dir);
    assert!(report["corrected_errors"].as_u64().unwrap() > 0, "{report:#}");
    assert_eq!(report["unreadable_blocks"], 0, "{report:#}");
    server.stop();
    // Saved at the end of service.
    assert!(status(&dir)["corrected_errors"].as_u64().unwrap() > 0);
}

/// Blocks of a drive that were found damaged since it was created.
fn damaged(report: &serde_json::Value, drive: usize) -> u64 {
    let damage = &report["members"][drive]["damage"];
    ["unreadable", "data", "metadata"].map(|kind| damage[kind].as_u64().unwrap()).iter().sum()
}

#[test]
fn rot_names_its_drive() {
    let mut random = random(26);
    let scratch = Scratch::new("rotnamed");
    let dir = scratch.join("array");
    let contents = filled_array(&dir, &mut random);
    let spoiled = spoil(&dir.join("drive-2.zns"), 20, &mut random);
    let server = Server::serve(&dir);
    let (code, found) = scrub(&dir, &[]);
    assert_eq!(code, Some(1), "{found:#}");
    let places = found["damage"].as_array().unwrap();
    assert!(!places.is_empty(), "{found:#}");
    for place in places {
        assert_eq!(place["drive"], 2, "{place}");
        assert!(spoiled.zones.contains(&place["zone"].as_u64().unwrap()), "{place}");
    }
    assert_eq!(contents.count_unreadable(&mut server.client()), 0, "all can be rebuilt");
    let report = status(&dir);
    assert!(damaged(&report, 2) > 0, "{report:#}");
    assert!([0, 1, 3].iter().all(|drive| damaged(&report, *drive) == 0), "{report:#}");
    server.assert_says("drive 2 is damaged");
    let lines = server.log().matches("drive 2 is damaged").count();
    assert!((1..=2).contains(&lines), "{lines} lines\n{}", server.log());
    server.kill_9();
    let report = status(&dir);
    assert!(damaged(&report, 2) > 0, "it is kept: {report:#}");
    let words = run_for(SOON, zoneweave().args(["status", text(&dir)]));
    assert!(words.stdout.contains("blocks were damaged"), "{words}");
}

/// `zoneweave scrub --json`: exit code and answer.
#[track_caller]
fn scrub(dir: &Path, options: &[&str]) -> (Option<i32>, serde_json::Value) {
    let finished = run_for(SOON, zoneweave().args(["scrub", text(dir), "--json"]).args(options));
    let answer = serde_json::from_str(&finished.stdout);
    (finished.code(), answer.unwrap_or_else(|error| panic!("scrub is not JSON: {error}\n{finished}")))
}

#[test]
fn a_scrub_finds_rot_and_repairs_it_while_clients_go_on() {
    let mut random = random(24);
    let scratch = Scratch::new("scrub");
    let dir = scratch.join("array");
    let mut contents = filled_array(&dir, &mut random);
    let refused = run_for(SOON, zoneweave().args(["scrub", text(&dir)]));
    assert!(refused.stderr.contains("nobody serves"), "{refused}");
    spoil(&dir.join("drive-2.zns"), 10, &mut random);
    let server = Server::serve(&dir);
    let (code, found) = scrub(&dir, &[]);
    assert_eq!(code, Some(1), "{found:#}");
    assert_eq!((found["state"].as_str(), &found["percent"]), (Some("done"), &100.0.into()), "{found:#}");
    assert!(found["blocks_damaged"].as_u64().unwrap() > 100, "{found:#}");
    assert_eq!(found["segments_left"], found["segments_damaged"], "{found:#}");
    // Slowly, beside writes, and faster before it is over.
    let slow = ["--rate", "1", "--repair", "--background"];
    assert_eq!(scrub(&dir, &slow).1["bytes_per_second_max"], 1 << 20);
    let second = run_for(SOON, zoneweave().args(["scrub", text(&dir), "--repair", "--background"]));
    assert!(second.succeeded(), "it joins the one that runs: {second}");
    let mut client = server.client();
    contents.write(&mut client, 0);
    assert_eq!(status(&dir)["scrub"]["state"], "running");
    let (code, repaired) = scrub(&dir, &["--rate", "0", "--repair"]);
    assert_eq!(code, Some(0), "{repaired:#}");
    assert_eq!(repaired["segments_left"], 0, "{repaired:#}");
    assert_eq!(repaired["blocks_lost"], 0, "{repaired:#}");
    assert_eq!(repaired["blocks_repaired"], repaired["blocks_damaged"], "{repaired:#}");
    assert_eq!(scrub(&dir, &[]).0, Some(0), "nothing is left");
    drop(client);
    server.stop();
    assert_clean(&dir);
    std::fs::remove_file(dir.join("drive-0.zns")).unwrap();
    let server = Server::serve_degraded(&dir);
    assert_eq!(contents.count_unreadable(&mut server.client()), 0, "all is there without another drive");
    server.stop();
}

#[test]
fn a_scrub_can_be_stopped_and_dies_with_its_server() {
    let mut random = random(25);
    let scratch = Scratch::new("scrubstop");
    let dir = scratch.join("array");
    let contents = filled_array(&dir, &mut random);
    let server = Server::serve(&dir);
    assert_eq!(scrub(&dir, &["--rate", "1", "--background"]).0, Some(0));
    let words = run_for(SOON, zoneweave().args(["scrub", text(&dir), "--stop"])).expect("scrub --stop");
    assert!(words.contains("stopped"), "{words}");
    assert_eq!(scrub(&dir, &["--rate", "1", "--repair", "--background"]).0, Some(0));
    server.kill_9();
    let server = Server::serve(&dir);
    assert!(status(&dir).get("scrub").is_none(), "nobody scrubs");
    assert_eq!(contents.count_unreadable(&mut server.client()), 0);
    server.stop();
    assert_clean(&dir);
}

#[test]
fn rot_beside_a_missing_drive_is_never_wrong_data() {
    let mut random = random(22);
    let scratch = Scratch::new("rotmiss");
    let dir = scratch.join("array");
    let mut contents = filled_array(&dir, &mut random);
    std::fs::remove_file(dir.join("drive-0.zns")).unwrap();
    let spoiled = spoil(&dir.join("drive-3.zns"), 10, &mut random);
    let (code, report) = check(&dir);
    assert_eq!(code, Some(1), "{report:#}");
    assert!(report["problems"].as_array().unwrap().iter().any(|problem| problem["kind"] == "member_missing"));
    assert_places(&report, 3, &spoiled);
    let mut server = Server::serve_degraded(&dir);
    let unreadable = contents.count_unreadable(&mut server.client());
    println!("{unreadable} of {BLOCKS} blocks fail");
    assert!(unreadable > 0, "{} blocks were beyond rescue", spoiled.count);
    assert!(unreadable < BLOCKS / 2, "one block in ten was spoiled");
    // The array goes on: what is written now can be read, though every segment holds lost blocks.
    let mut client = server.client();
    for _ in 0..3 {
        contents.write_all(&mut client);
    }
    assert_eq!(contents.count_unreadable(&mut client), 0, "everything was written anew\n{}", server.log());
    server.assert_alive();
    server.kill_9();
    let server = Server::serve(&dir);
    assert_eq!(contents.count_unreadable(&mut server.client()), 0, "after a crash\n{}", server.log());
    server.stop();
}

#[test]
fn a_spoiled_header_makes_a_drive_missing_not_wrong() {
    let mut random = random(23);
    let scratch = Scratch::new("rothead");
    let dir = scratch.join("array");
    let contents = filled_array(&dir, &mut random);
    let path = dir.join("drive-1.zns");
    let mut bytes = std::fs::read(&path).unwrap();
    random.fill(&mut bytes[..PAGE_BYTES]);
    std::fs::write(&path, bytes).unwrap();
    let refused = run_for(SOON, zoneweave().args(["serve", text(&dir)]));
    assert_eq!(refused.code(), Some(4), "{refused}");
    assert!(refused.stderr.contains("drive 1") && refused.stderr.contains("--degraded"), "{refused}");
    let server = Server::serve_degraded(&dir);
    assert_eq!(status(&dir)["state"], "degraded");
    assert_eq!(contents.count_unreadable(&mut server.client()), 0);
    server.stop();
}

/// Asserts that check names places of the spoiled zones of `drive`, and nothing of other drives.
#[track_caller]
fn assert_places(report: &serde_json::Value, drive: u64, spoiled: &Spoiled) {
    let problems = report["problems"].as_array().unwrap();
    let damaged: Vec<_> = problems.iter().filter(|problem| problem["kind"] == "block_damaged").collect();
    assert!(!damaged.is_empty(), "no place is named: {report:#}");
    for problem in damaged {
        assert_eq!(problem["drive"], drive, "{problem}");
        assert!(spoiled.zones.contains(&problem["zone"].as_u64().unwrap()), "{problem}");
    }
}
