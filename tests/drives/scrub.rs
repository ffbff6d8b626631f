//! What a scrub says of drives, beside what they hold: superblock records, headers of their files, drives that are lost.

use crate::support::run::{SOON, run_for, until};
use crate::support::scratch::Scratch;
use crate::support::server::{Server, assert_clean, check, status, zoneweave};
use crate::support::text;
use serde_json::Value;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Distance of blocks in a drive's file: data and metadata.
const STRIDE: usize = 4160;
const PAGE_BYTES: usize = 4096;

/// `zoneweave scrub --json`: exit code and answer.
#[track_caller]
fn scrub(dir: &Path, options: &[&str]) -> (Option<i32>, Value) {
    let finished = run_for(SOON, zoneweave().args(["scrub", text(dir), "--json"]).args(options));
    let answer = serde_json::from_str(&finished.stdout);
    (finished.code(), answer.unwrap_or_else(|error| panic!("scrub is not JSON: {error}\n{finished}")))
}

/// Flips a bit in the newest superblock record in a drive's file.
fn spoil_newest_record(path: &Path) {
    let bytes = std::fs::read(path).unwrap();
    let zones = u32::from_le_bytes(bytes[20..24].try_into().unwrap()) as usize;
    let data_at = PAGE_BYTES + (zones * 8).next_multiple_of(PAGE_BYTES);
    let blocks = (data_at..bytes.len() - STRIDE).step_by(STRIDE);
    let records = blocks.filter(|at| bytes[*at..].starts_with(b"ZWSUPER1"));
    let generation = |at: usize| u64::from_le_bytes(bytes[at + 48..at + 56].try_into().unwrap());
    let newest = records.max_by_key(|at| generation(*at)).expect("a superblock");
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(&[bytes[newest + 700] ^ 1], (newest + 700) as u64).unwrap();
}

fn overwrite_header(path: &Path) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(&[0x5a; PAGE_BYTES], 0).unwrap();
}

#[test]
fn a_damaged_superblock_record_is_named_and_written_anew() {
    let scratch = Scratch::new("scrubsuper");
    let dir = scratch.join("a");
    let server = Server::up(&dir, &["--size", "64MiB"]);
    server.client().write(0, &[7; 1 << 20]).unwrap();
    spoil_newest_record(&dir.join("drive-1.zns"));
    spoil_newest_record(&dir.join("drive-3.zns"));
    let (code, found) = scrub(&dir, &[]);
    assert_eq!(code, Some(1), "{found:#}");
    assert_eq!((&found["superblocks_damaged"], &found["descriptions_left"]), (&2.into(), &2.into()));
    let drives: Vec<&Value> =
        found["damage"].as_array().unwrap().iter().map(|place| &place["drive"]).collect();
    assert_eq!(drives, [1, 3], "{found:#}");
    assert!(found["damage"][0]["text"].as_str().unwrap().contains("superblock record"), "{found:#}");
    let (code, repaired) = scrub(&dir, &["--repair"]);
    assert_eq!(code, Some(0), "{repaired:#}");
    assert_eq!((&repaired["superblocks_damaged"], &repaired["descriptions_left"]), (&2.into(), &0.into()));
    assert_eq!(scrub(&dir, &[]).1["superblocks_damaged"], 0, "nothing is left");
    // Nobody writes superblocks at the end.
    server.kill_9();
    let (code, report) = check(&dir);
    let is_record = |problem: &&Value| problem["kind"] == "record_damaged";
    assert!(
        !report["problems"].as_array().unwrap().iter().any(|problem| is_record(&problem)),
        "{code:?} {report:#}"
    );
    Server::serve(&dir).stop();
    assert_clean(&dir);
}

#[test]
fn a_header_that_is_gone_under_service_is_named_and_written_anew() {
    for root in ["/tmp", "/dev/shm"] {
        let folder = Scratch::below(root, "scrubhead");
        let dir = folder.join("a");
        let server = Server::up(&dir, &["--size", "64MiB"]);
        server.client().write(0, &[7; 1 << 20]).unwrap();
        overwrite_header(&dir.join("drive-2.zns"));
        let (code, found) = scrub(&dir, &[]);
        assert_eq!((code, &found["headers_damaged"]), (Some(1), &1.into()), "{root}: {found:#}");
        assert_eq!(found["damage"][0]["text"], "drive 2: the header of its file is damaged");
        let trouble = || status(&dir)["members"][2]["trouble"]["header_damaged"] == true;
        assert!(until(SOON, trouble), "{root}: {:#}", status(&dir));
        assert_eq!(status(&dir)["state"], "clean", "the drive works");
        server.client().write(1 << 20, &[8; 1 << 20]).unwrap();
        let (code, repaired) = scrub(&dir, &["--repair"]);
        assert_eq!((code, &repaired["descriptions_left"]), (Some(0), &0.into()), "{root}: {repaired:#}");
        assert!(until(SOON, || status(&dir)["members"][2]["trouble"].is_null()), "{:#}", status(&dir));
        server.kill_9();
        // Nothing damaged was left, so nobody is left out.
        let server = Server::serve(&dir);
        assert_eq!(status(&dir)["state"], "clean");
        assert!(server.client().read(1 << 20, 4096).unwrap() == [8; 4096]);
        server.stop();
        assert_clean(&dir);
    }
}

#[test]
fn a_drive_file_that_is_cut_to_nothing_is_damage_that_a_scrub_names() {
    for root in ["/tmp", "/dev/shm"] {
        let folder = Scratch::below(root, "scrubcut");
        let dir = folder.join("a");
        let server = Server::up(&dir, &["--size", "64MiB"]);
        server.client().write(0, &[7; 1 << 20]).unwrap();
        std::fs::File::options().write(true).open(dir.join("drive-1.zns")).unwrap().set_len(0).unwrap();
        // At once, and when the server has noticed by itself.
        for round in 0..2 {
            let (code, report) = scrub(&dir, &["--repair"]);
            assert_eq!(code, Some(1), "{root}, {round}: {report:#}");
            assert_eq!(report["drives_out"][0]["drive"], 1, "{root}: {report:#}");
            let lost = || status(&dir)["members"][1]["trouble"]["lost"].is_string();
            assert!(until(SOON, lost), "{:#}", status(&dir));
        }
        let words = run_for(SOON, zoneweave().args(["scrub", text(&dir)]));
        assert!(words.stdout.contains("drive 1 is left out: its file was cut short"), "{words}");
        server.stop();
    }
}

#[test]
fn a_scrub_of_a_degraded_array_says_so() {
    let scratch = Scratch::new("scrubout");
    let dir = scratch.join("a");
    let server = Server::up(&dir, &["--size", "64MiB"]);
    run_for(SOON, zoneweave().args(["drive", "fail", text(&dir), "0"])).expect("drive fail");
    let (code, report) = scrub(&dir, &["--repair"]);
    assert_eq!(code, Some(3), "{report:#}");
    assert_eq!(report["drives_out"][0]["text"], "drive 0 is left out: it has failed");
    server.stop();
}
