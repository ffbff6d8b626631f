//! A drive is lost and replaced while clients go on: the rebuild ends, through kill -9 too, and what it leaves can
//! lose another drive.

use crate::support::run::{SOON, run_for, until};
use crate::support::scratch::Scratch;
use crate::support::server::{Server, ask, check, refused, status, zoneweave};
use crate::support::{random, random_bytes, text};
use serde_json::Value;
use std::path::Path;

const SIZE: &str = "64MiB";

/// An array that is full of random bytes; they come back too.
fn full_array(dir: &Path, seed: u64) -> (Server, Vec<u8>) {
    let server = Server::up(dir, &["--size", SIZE]);
    let data = random_bytes(&mut random(seed), 64 << 20);
    write_all(&server, &data);
    (server, data)
}

fn write_all(server: &Server, data: &[u8]) {
    let mut client = server.client();
    for (at, piece) in (0..).step_by(1 << 20).zip(data.chunks(1 << 20)) {
        client.write(at, piece).unwrap();
    }
    client.flush().unwrap();
}

/// The server rebuilds and is stopped; then the array is clean, and holds everything without another drive.
#[track_caller]
fn assert_whole_without(dir: &Path, server: Server, other: usize, data: &[u8]) {
    run_for(SOON, zoneweave().args(["rebuild", text(dir), "--rate", "0", "--wait"])).expect("rebuild --wait");
    assert_eq!(status(dir)["state"], "clean");
    server.stop_whole_without(other, data);
}

#[track_caller]
fn assert_refused(arguments: &[&str], words: &[&str]) {
    let finished = ask(arguments);
    assert!(finished.code().is_some_and(|code| code != 0), "should fail: {finished}");
    for word in words {
        assert!(finished.stderr.contains(word), "should mention `{word}`: {finished}");
    }
}

#[test]
fn a_failed_drive_is_replaced_while_clients_go_on() {
    let scratch = Scratch::new("replace");
    let dir = scratch.join("array");
    let (server, mut data) = full_array(&dir, 1);
    assert_refused(&["drive", "replace", text(&dir), "1"], &["drive fail"]);
    assert_refused(&["drive", "replace", text(&dir), "4"], &["0 to 3"]);
    ask(&["drive", "fail", text(&dir), "1"]).expect("drive fail");
    assert_refused(
        &["drive", "replace", text(&dir), "1", "--with", text(&dir.join("drive-2.zns"))],
        &["in use"],
    );
    let replace = ["drive", "replace", text(&dir), "1", "--rebuild-rate", "1", "--json"];
    let answer: Value = serde_json::from_str(&ask(&replace).expect("drive replace")).unwrap();
    assert_eq!(answer["served"], true);
    assert_eq!(answer["path"], text(&dir.join("drive-1-1.zns")));
    assert_eq!(answer["old_path"], text(&dir.join("drive-1.zns")));
    let report = status(&dir);
    assert_eq!(report["state"], "rebuilding");
    assert_eq!(report["rebuild"]["drive"], 1);
    assert_eq!(report["rebuild"]["bytes_per_second_max"], 1 << 20);
    assert!(report["rebuild"]["bytes_per_second_min"].is_null(), "it gives way to nobody: {report:#}");
    ask(&["rebuild", text(&dir), "--rate-min", "1", "--rate", "2"]).expect("rebuild --rate-min");
    let report = status(&dir);
    assert_eq!(report["rebuild"]["bytes_per_second_max"], 2 << 20);
    assert_eq!(report["rebuild"]["bytes_per_second_min"], 1 << 20);
    ask(&["rebuild", text(&dir), "--rate", "1"]).expect("rebuild --rate");
    for key in ["percent", "bytes_done", "bytes_total", "bytes_per_second", "seconds_left"] {
        assert!(report["rebuild"].get(key).is_some(), "no `{key}`: {report:#}");
    }
    assert!(ask(&["status", text(&dir)]).stdout.contains("rebuild          drive 1"));
    assert_refused(&["drive", "fail", text(&dir), "2"], &["lose data"]);
    data[..1 << 20].fill(7);
    write_all(&server, &data[..1 << 20]);
    server.assert_holds(&data);
    assert_eq!(status(&dir)["state"], "rebuilding", "a mebibyte a second takes its time");
    // The old drive is not needed, nor believed.
    std::fs::remove_file(dir.join("drive-1.zns")).unwrap();
    assert_whole_without(&dir, server, 2, &data);
}

#[test]
fn a_rebuild_goes_on_after_kill_9() {
    let scratch = Scratch::new("rekill");
    let dir = scratch.join("array");
    let (mut server, data) = full_array(&dir, 2);
    ask(&["drive", "fail", text(&dir), "3"]).expect("drive fail");
    ask(&["drive", "replace", text(&dir), "3", "--rebuild-rate", "5"]).expect("drive replace");
    let done = || status(&dir)["rebuild"]["bytes_done"].as_u64().unwrap_or(u64::MAX);
    let mut before = 0;
    for _ in 0..3 {
        // A few segments are there, which no later start writes again.
        assert!(until(SOON, || done() >= before + (5 << 20)), "the rebuild stands still");
        server.kill_9();
        let kept = done();
        assert!(kept >= before && kept < u64::MAX, "{kept} of {before} bytes are left");
        before = kept;
        server = Server::up(&dir, &["--rebuild-rate", "5"]);
        assert_eq!(status(&dir)["state"], "rebuilding");
    }
    assert!(before > 0, "no segment was finished in time");
    server.assert_holds(&data);
    assert_whole_without(&dir, server, 0, &data);
}

#[test]
fn a_drive_is_replaced_while_nobody_serves() {
    let scratch = Scratch::new("reoff");
    let dir = scratch.join("array");
    let (server, data) = full_array(&dir, 3);
    server.stop();
    std::fs::remove_file(dir.join("drive-0.zns")).unwrap();
    assert_refused(&["drive", "replace", text(&dir), "9"], &["0 to 3"]);
    let with = scratch.join("spare");
    let answer = ask(&["drive", "replace", text(&dir), "0", "--with", text(&with)]).expect("drive replace");
    assert!(answer.contains("next `zoneweave serve"), "{answer}");
    assert_eq!(status(&dir)["state"], "rebuilding");
    assert_eq!(check(&dir).0, Some(3), "it is not whole yet");
    let server = Server::serve(&dir);
    server.assert_holds(&data);
    assert_whole_without(&dir, server, 1, &data);
}

#[test]
fn a_spare_takes_the_place_of_a_drive_that_fails() {
    let scratch = Scratch::new("spare");
    let dir = scratch.join("array");
    let (server, data) = full_array(&dir, 5);
    assert_refused(&["drive", "add-spare", text(&dir), text(&dir.join("drive-2.zns"))], &["in use"]);
    let other = scratch.join("other");
    ask(&["drive", "create", text(&other), "--zones", "9"]).expect("drive create");
    assert_refused(&["drive", "add-spare", text(&dir), text(&other)], &["geometry"]);
    ask(&["drive", "add-spare", text(&dir)]).expect("drive add-spare");
    ask(&["drive", "add-spare", text(&dir), text(&scratch.join("second"))]).expect("drive add-spare");
    let report = status(&dir);
    assert_eq!(report["spares"].as_array().unwrap().len(), 2, "{report:#}");
    assert_eq!(report["spares"][0]["state"], "spare");
    ask(&["drive", "fail", text(&dir), "1"]).expect("drive fail");
    let is_rebuilt = || status(&dir)["state"] == "clean";
    assert!(until(SOON, is_rebuilt), "the spare steps in by itself\n{}", server.log());
    let report = status(&dir);
    assert_eq!(report["members"][1]["path"], "spare-1.zns", "{report:#}");
    assert_eq!(report["spares"].as_array().unwrap().len(), 1, "{report:#}");
    // A drive that is lost while nobody serves, and a server that dies in the middle of it.
    server.stop();
    std::fs::remove_file(dir.join("drive-3.zns")).unwrap();
    let server = Server::up(&dir, &["--rebuild-rate", "2", "--degraded"]);
    let is_rebuilding = || status(&dir)["members"][3]["state"] == "rebuilding";
    assert!(until(SOON, is_rebuilding), "the second spare steps in\n{}", server.log());
    server.kill_9();
    let server = Server::serve(&dir);
    server.assert_holds(&data);
    assert_whole_without(&dir, server, 0, &data);
    assert_eq!(status(&dir)["spares"].as_array().unwrap().len(), 0);
}

/// `array.toml` has a spare in the place of the failed drive, and the server died before superblocks had: they are put back.
#[test]
fn a_spare_that_no_superblock_names_steps_in_again() {
    for is_gone in [false, true] {
        steps_in_again(is_gone);
    }
}

fn steps_in_again(is_gone: bool) {
    let scratch = Scratch::new("spare-unnamed");
    let dir = scratch.join("array");
    let (server, data) = full_array(&dir, 6);
    ask(&["drive", "fail", text(&dir), "1"]).expect("drive fail");
    server.stop();
    ask(&["drive", "add-spare", text(&dir)]).expect("drive add-spare");
    let files = ["drive-0.zns", "drive-2.zns", "drive-3.zns", "spare-1.zns"];
    for file in files {
        std::fs::copy(dir.join(file), scratch.join(file)).unwrap();
    }
    let stepped_in = || status(&dir)["state"] == "clean";
    let server = Server::serve(&dir);
    assert!(until(SOON, stepped_in), "the spare steps in by itself\n{}", server.log());
    server.stop();
    for file in files {
        std::fs::copy(scratch.join(file), dir.join(file)).unwrap();
    }
    if is_gone {
        std::fs::remove_file(dir.join("drive-1.zns")).unwrap();
    }
    assert_eq!(status(&dir)["members"][1]["state"], "failed", "as if it had not been");
    let server = Server::serve(&dir);
    assert!(until(SOON, stepped_in), "it steps in again\n{}", server.log());
    let report = status(&dir);
    assert_eq!(report["members"][1]["path"], "spare-1.zns", "{report:#}");
    assert_eq!(report["spares"].as_array().unwrap().len(), 0, "{report:#}");
    assert_whole_without(&dir, server, 0, &data);
}

/// `tests/zoned.rs` has drives that take them.
#[test]
fn an_identity_journal_is_for_zoned_disks_alone() {
    let scratch = Scratch::new("rejournal");
    let (dir, new, journal) = (scratch.join("array"), scratch.join("new one"), scratch.join("a \"journal\""));
    std::fs::File::create(&journal).unwrap().set_len(64 << 20).unwrap();
    let server = Server::up(&dir, &["--size", SIZE]);
    ask(&["drive", "fail", text(&dir), "1"]).expect("drive fail");
    let with = ["--identity-journal", text(&journal)];
    let raw = format!("raw:{}", text(&new));
    let replace = |new| [&["drive", "replace", text(&dir), "1", "--with", new], &with[..]].concat();
    let add = |new| [&["drive", "add-spare", text(&dir), new], &with[..]].concat();
    let refuse = || {
        for new in [text(&new), &raw] {
            for command in [replace(new), add(new)] {
                refused(&command, 2, "only zoned block devices without metadata");
                refused(&[&command[..], &["--force"]].concat(), 2, text(&journal));
            }
        }
        refused(&[&["drive", "add-spare", text(&dir)], &with[..]].concat(), 2, "<PATH>");
    };
    refuse();
    server.stop();
    refuse();
    ask(&["drive", "add-spare", text(&dir), text(&new)]).expect("drive add-spare");
    refused(&replace(text(&new)), 2, "is a spare");
    assert!(std::fs::read(&journal).unwrap().iter().all(|byte| *byte == 0));
}

#[test]
fn a_wrong_drive_is_refused_and_nothing_changes() {
    let scratch = Scratch::new("rewrong");
    let dir = scratch.join("array");
    let (server, data) = full_array(&dir, 4);
    ask(&["drive", "fail", text(&dir), "1"]).expect("drive fail");
    let before = std::fs::read_to_string(dir.join("array.toml")).unwrap();
    let other = scratch.join("other");
    ask(&["drive", "create", text(&other), "--zones", "9"]).expect("drive create");
    assert_refused(&["drive", "replace", text(&dir), "1", "--with", text(&other)], &["geometry"]);
    assert_refused(
        &["drive", "replace", text(&dir), "1", "--with", text(&scratch.join("no/such/folder"))],
        &["no/such/folder"],
    );
    assert_eq!(std::fs::read_to_string(dir.join("array.toml")).unwrap(), before);
    assert_eq!(status(&dir)["state"], "degraded");
    server.assert_holds(&data);
    server.stop();
}
