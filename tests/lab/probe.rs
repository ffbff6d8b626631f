//! `zoneweave drive probe` and `lab array`: modelled drives in virtual time, real files on the wall clock.

use crate::support::run::{Finished, SOON, run_for};
use crate::support::scratch::Scratch;
use crate::support::server::{Server, zoneweave};
use crate::support::text;
use serde_json::Value;
use std::time::Duration;

const KEYS: [&str; 7] = ["mean_us", "p50_us", "p95_us", "p99_us", "p999_us", "kiops", "mib_s"];

fn ran(arguments: &str) -> Finished {
    run_for(SOON, zoneweave().args(arguments.split_whitespace()))
}

#[track_caller]
fn probe(arguments: &str) -> Value {
    let ran = ran(&format!("drive probe {arguments} --json"));
    assert_eq!(ran.code(), Some(0), "{ran}");
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    for key in KEYS {
        assert!(report[key].as_f64().unwrap() >= 0.0, "{key}: {report}");
    }
    report
}

/// `value` of a report is within `percent` of `expected`.
#[track_caller]
fn assert_near(report: &Value, key: &str, expected: f64, percent: f64) {
    let value = report[key].as_f64().unwrap();
    assert!((value / expected - 1.0).abs() * 100.0 <= percent, "{key} is {value}, not {expected}: {report}");
}

/// Figures of the characterisation paper's text: sections III-C to III-E.
#[test]
fn the_zn540_takes_what_it_was_measured_to_take() {
    let zn540 = |arguments: &str| probe(&format!("--profile zn540-1tb {arguments}"));
    assert_near(&zn540("--op write --bytes 4k"), "mean_us", 11.36, 5.0);
    assert_near(&zn540("--op append --bytes 8k"), "mean_us", 14.02, 5.0);
    assert_near(&zn540("--op append --bytes 4k --queue-depth 4"), "kiops", 132.0, 5.0);
    assert_near(&zn540("--op write --bytes 4k --zones 8"), "kiops", 186.0, 5.0);
    assert_near(&zn540("--op read --queue-depth 128"), "kiops", 424.0, 5.0);
    assert_near(&zn540("--op reset --occupancy 1"), "mean_us", 16_190.0, 5.0);
    assert_near(&zn540("--op reset --occupancy 0.5"), "mean_us", 11_600.0, 5.0);
    assert_near(&zn540("--op finish --occupancy 0.000004"), "mean_us", 907_510.0, 5.0);
    assert_near(&zn540("--op open"), "mean_us", 9.56, 5.0);
    assert_near(&zn540("--op close"), "mean_us", 11.01, 5.0);
    assert_near(&zn540("--op write --stack kernel"), "mean_us", 12.62, 5.0);
    assert_near(&zn540("--op write --stack mq-deadline"), "mean_us", 14.47, 5.0);
}

#[test]
fn one_seed_gives_the_same_bytes_and_another_only_other_noise() {
    let run = |seed: u32| {
        let ran =
            ran(&format!("drive probe --profile zn540-1tb --op append --queue-depth 8 --seed {seed} --json"));
        assert_eq!(ran.code(), Some(0), "{ran}");
        ran.stdout
    };
    let (first, again, other) = (run(7), run(7), run(8));
    assert_eq!(first, again);
    assert_ne!(first, other);
    let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    assert_near(&parse(&other), "mean_us", parse(&first)["mean_us"].as_f64().unwrap(), 1.0);
}

/// Wear that windows keep from the flash is told, and zones lie on channel groups as asked.
#[test]
fn wear_is_told_and_zones_are_mapped() {
    let report = probe("--profile zn540-4tb --op zrwa --queue-depth 4 --seconds 0.2");
    let wear = &report["wear"];
    let bytes = |key: &str| wear[key].as_u64().unwrap();
    assert!(bytes("window_bytes") > 0 && bytes("backing_bytes") == bytes("window_bytes"), "{wear}");
    assert!(bytes("committed_bytes") + (1 << 20) == bytes("window_bytes"), "all but the window: {wear}");
    // An overwrite reaches the backing of the window, and no zone.
    let overwritten = probe("--profile zn540-4tb --op zrwa-overwrite --queue-depth 4 --seconds 0.2");
    let wear = &overwritten["wear"];
    let bytes = |key: &str| wear[key].as_u64().unwrap();
    assert_eq!((bytes("programmed_bytes"), bytes("committed_bytes")), (0, 0), "{wear}");
    assert_eq!(bytes("absorbed_bytes") + (1 << 20), bytes("window_bytes"), "all but the window: {wear}");
    assert_eq!(bytes("backing_bytes"), bytes("window_bytes"), "{wear}");
    // A commit takes as long as the profile says, whatever it brings to the zone.
    for size in ["16k", "1m"] {
        let commit = probe(&format!("--profile zn540-4tb --op zrwa-commit --bytes {size}"));
        assert_near(&commit, "mean_us", 6.8, 4.0);
    }
    let rate = |map: &str| {
        let report = probe(&format!("--profile zn540-4tb --op write --bytes 64k --zones 2 --zone-map {map}"));
        report["mib_s"].as_f64().unwrap()
    };
    let (apart, any) = (rate("opening"), rate("mostly:1000"));
    assert!(apart > 1900.0 && any > 1900.0, "both zones are exceptions, and still apart: {apart} {any}");
    let wrong = ran("drive probe --profile zn540-4tb --op write --zone-map mostly:2000");
    assert!(wrong.code() != Some(0) && wrong.stderr.contains("0 to 1000"), "{wrong}");
}

/// Zones of a ZN540 lie on two groups: which, is found whatever the drive's map.
#[test]
fn channel_groups_are_found() {
    let groups = |arguments: &str| {
        let ran = ran(&format!("drive probe --channels --profile zn540-4tb --json {arguments}"));
        assert_eq!(ran.code(), Some(0), "{ran}");
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert!(report["confidence"].as_f64().unwrap() > 0.8, "{report}");
        report["groups"].clone()
    };
    assert_eq!(groups("--zones 5").to_string(), "[[0,2,4],[1,3]]");
    let odd = groups("--zone-map mostly:300 --seed 3");
    let count = |group: usize| odd[group].as_array().unwrap().len();
    assert!(odd != groups("") && count(0) + count(1) == 14, "{odd}");
}

#[test]
fn a_load_beside_it_is_felt() {
    let alone = probe("--profile zn540-1tb --op read");
    let beside = probe("--profile zn540-1tb --op read --with write:500MiB --seconds 1");
    assert!(beside["p99_us"].as_f64() > alone["p99_us"].as_f64(), "{beside} {alone}");
}

#[test]
fn what_cannot_be_measured_is_named_with_its_fix() {
    for (arguments, words) in [
        ("--profile zn540-1tb --op write --queue-depth 2", "--op append"),
        ("--profile nosuch --op read", "zn540-1tb"),
        ("--profile zn540-1tb --op read --bytes 1000", "multiple of 512"),
        ("--profile zn540-1tb --op read --bytes 512", "multiple of 4096"),
        ("--profile zn540-1tb --op reset --occupancy 1.5", "0 to 1"),
        ("--profile zn540-1tb --op read --with erase:max", "read, write or append"),
        ("--profile zn540-1tb --op read --with write", "OP:RATE"),
        ("--profile zn540-1tb --op read --with write:0", "above 0"),
        ("--profile zn540-1tb --op write --zones 1000000", "zones"),
        ("--op read", "--profile"),
        ("--profile femu-zapraid --op zrwa-overwrite", "no random write area"),
        ("--profile zn540-4tb --op zrwa-overwrite --bytes 2m", "a window of 1 MiB"),
        ("--profile zn540-4tb --op zrwa-overwrite --zones 15", "14 areas"),
        ("--profile zn540-4tb --op zrwa-commit", "use --bytes 16384"),
        ("--profile zn540-4tb --op zrwa-commit --bytes 2m", "use --bytes 16384"),
        ("--profile zn540-4tb", "--op"),
        ("--profile zn540-4tb --channels --zones 15", "from 2 to 14"),
        ("--profile zn540-4tb --channels --bytes 4k", "cannot be used with"),
    ] {
        let ran = ran(&format!("drive probe {arguments}"));
        assert_ne!(ran.code(), Some(0), "{arguments}: {ran}");
        assert!(ran.stderr.contains(words), "{arguments}: {ran}");
        assert!(!ran.stderr.contains("panicked"), "{ran}");
    }
}

/// The same command on the file of a drive; a drive of an array is not written to.
#[test]
fn a_file_is_measured_on_the_wall_clock() {
    let scratch = Scratch::new("probe");
    let dir = scratch.join("array");
    let created = run_for(SOON, zoneweave().args(["create", text(&dir), "--size", "16MiB"]));
    assert_eq!(created.code(), Some(0), "{created}");
    let drive = dir.join("drive-0.zns");
    let report = probe(&format!("--device {} --op read --seconds 0.2", text(&drive)));
    assert!(report["kiops"].as_f64().unwrap() > 0.0);
    let refused = ran(&format!("drive probe --device {} --op write --seconds 0.2", text(&drive)));
    assert_eq!(refused.code(), Some(4), "{refused}");
    assert!(refused.stderr.contains("would destroy data"), "{refused}");
}

/// A drive of no array is written and left empty; one that holds data is only written when told to.
#[test]
fn a_blank_drive_is_measured_in_all_ways() {
    let scratch = Scratch::new("blank");
    std::fs::create_dir_all(scratch.join("out")).unwrap();
    let path = scratch.join("out/blank.zns");
    let create =
        || run_for(SOON, zoneweave().args(["drive", "create", text(&path), "--zone-capacity", "1MiB"]));
    let created = create();
    assert_eq!(created.code(), Some(0), "{created}");
    assert!(create().stderr.contains("will not be overwritten"));
    let device = text(&path);
    for arguments in [
        "--op write",
        "--op append --queue-depth 4 --zones 2",
        "--op read --with write:10MiB",
        "--op reset --occupancy 0.5",
        "--op finish",
        "--op open",
        "--op close",
    ] {
        let report = probe(&format!("--device {device} {arguments} --seconds 0.5"));
        assert!(report["samples"].as_u64().unwrap() > 0, "{arguments}: {report}");
    }
    let windows = scratch.join("out/windows.zns");
    let made = ["drive", "create", text(&windows), "--zone-capacity", "1MiB", "--zrwa-window", "64KiB"];
    assert_eq!(run_for(SOON, zoneweave().args(made)).code(), Some(0));
    for arguments in ["--op zrwa-overwrite --queue-depth 4", "--op zrwa-commit --bytes 16k"] {
        let report = probe(&format!("--device {} {arguments} --seconds 0.5", text(&windows)));
        assert!(report["samples"].as_u64().unwrap() > 0, "{arguments}: {report}");
    }
    let without = ran(&format!("drive probe --device {device} --op zrwa-commit --bytes 16k"));
    assert!(without.stderr.contains("drive create --zrwa-window"), "{without}");
    let too_large = ran(&format!("drive probe --device {device} --op write --bytes 1m"));
    assert!(too_large.stderr.contains("at most"), "{too_large}");
}

/// The array runs on modelled drives, and a run repeats to the byte.
#[test]
fn the_array_runs_in_virtual_time() {
    let run = || {
        let ran = ran("lab array --profile zn540-4tb --size 32MiB --seconds 0.05 --json");
        assert_eq!(ran.code(), Some(0), "{ran}");
        ran.stdout
    };
    let (first, again) = (run(), run());
    assert_eq!(first, again);
    let report: Value = serde_json::from_str(&first).unwrap();
    assert!(report["kiops"].as_f64().unwrap() > 10.0, "{report}");
}

/// Identities among the data cost writes of their own, and what a scheme or a kind of drive has no use for is refused.
#[test]
fn identities_among_the_data_are_written_too() {
    let written = |identity: &str| {
        let ran = ran(&format!("lab array --size 32MiB --seconds 0.02 --json --identity {identity}"));
        assert_eq!(ran.code(), Some(0), "{ran}");
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        report["drive_bytes_per_user_byte"].as_f64().unwrap()
    };
    let (beside, among) = (written("metadata"), written("in-band"));
    // A block and its share of parity at least; a record for each block at most.
    assert!(beside > 4.0 / 3.0 && among > beside * 1.01 && among < beside * 2.5, "{beside} {among}");
    for useless in ["--chunk 16k", "--identity-cache 4k"] {
        let refused = ran(&format!("lab array --size 32MiB --seconds 0.02 {useless}"));
        assert_eq!(refused.code(), Some(2), "{refused}");
    }
}

/// An array whose drives take the time of a profile is served like any other.
#[test]
fn a_profile_slows_drives_and_changes_nothing_else() {
    let scratch = Scratch::new("profile");
    let dir = scratch.join("array");
    let server = Server::up(&dir, &["--size", "32MiB", "--profile", "zn540-4tb"]);
    let mut client = server.client();
    for block in 0..64_u8 {
        client.write(u64::from(block) * 4096, &[block; 4096]).unwrap();
    }
    client.flush().unwrap();
    for block in 0..64_u8 {
        assert!(client.read(u64::from(block) * 4096, 4096).unwrap() == [block; 4096], "block {block}");
    }
    server.assert_says("zn540-4tb");
    server.stop();
    let refused = run_for(SOON, zoneweave().args(["serve", text(&dir), "--profile", "nosuch"]));
    assert_eq!(refused.code(), Some(2), "{refused}");
    assert!(refused.stderr.contains("zn540-1tb"), "the profiles are named: {refused}");
}

/// The characterisation as a whole, in short: every verdict, and the same bytes twice.
#[test]
fn the_characterisation_holds_and_repeats() {
    let scratch = Scratch::new("characterise");
    std::fs::create_dir_all(scratch.join("out")).unwrap();
    let run = |name: &str| {
        let (json, html) =
            (scratch.join(&format!("out/{name}.json")), scratch.join(&format!("out/{name}.html")));
        let arguments = ["lab", "characterise", "--quick", "--out", text(&json), "--html", text(&html)];
        let ran = run_for(Duration::from_secs(300), zoneweave().args(arguments));
        assert_eq!(ran.code(), Some(0), "{ran}");
        (std::fs::read(json).unwrap(), std::fs::read_to_string(html).unwrap())
    };
    let (first, again) = (run("first"), run("again"));
    assert!(first == again, "one seed, two reports");
    let report: Value = serde_json::from_slice(&first.0).unwrap();
    assert_eq!(report["summary"]["fails"], 0, "{}", report["summary"]);
    assert!(report["findings"].as_array().unwrap().len() > 25);
    assert!(!first.1.contains("<script") && !first.1.contains("<link"), "the page needs nothing else");
}
