//! A drive that was away is taken in again by what it lacks: beside clients, without a server, from elsewhere; and then
//! another drive can be lost.

use crate::support::run::{SOON, run_for, until};
use crate::support::scratch::Scratch;
use crate::support::server::{Server, ask, assert_clean, drive_file, let_run, status, zoneweave};
use crate::support::writer::Oracle;
use crate::support::{random, random_bytes, text};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

const PIECE: usize = 1 << 20;

/// Random bytes, and a client that writes them to a range of the volume, flushed.
fn fill(server: &Server, seed: u64, mib: std::ops::Range<usize>, data: &mut Vec<u8>) {
    let fresh = random_bytes(&mut random(seed), mib.len() * PIECE);
    data.resize(data.len().max(mib.end * PIECE), 0);
    data[mib.start * PIECE..mib.end * PIECE].copy_from_slice(&fresh);
    let mut client = server.client();
    for (at, piece) in mib.zip(fresh.chunks(PIECE)) {
        client.write((at * PIECE) as u64, piece).unwrap();
    }
    client.flush().unwrap();
}

fn re_add(dir: &Path, more: &[&str]) -> Value {
    let mut arguments = vec!["drive", "re-add", text(dir), "--json"];
    arguments.extend(more);
    let answer = run_for(SOON, zoneweave().args(&arguments)).expect("drive re-add");
    serde_json::from_str(&answer).unwrap()
}

fn bytes_in(answer: &Value, field: &str) -> u64 {
    answer[field].as_u64().unwrap()
}

#[track_caller]
fn assert_refused(arguments: &[&str], code: i32, words: &str) {
    let finished = ask(arguments);
    assert_eq!(finished.code(), Some(code), "{finished}");
    assert!(finished.stderr.contains(words), "should mention `{words}`: {finished}");
}

/// Everything is there without another drive.
#[track_caller]
fn assert_whole_without(dir: &Path, server: Server, other: usize, data: &[u8]) {
    until(SOON, || status(dir)["state"] == "clean");
    server.stop_whole_without(other, data);
}

#[test]
fn a_drive_comes_back_to_a_served_array() {
    let scratch = Scratch::new("re-add");
    let dir = scratch.join("array");
    let server = Server::up(&dir, &["--size", "256MiB"]);
    let mut data = Vec::new();
    fill(&server, 1, 0..256, &mut data);
    assert_refused(&["drive", "re-add", text(&dir), "1"], 2, "it has not failed");
    assert_refused(&["drive", "re-add", text(&dir), "4"], 2, "0 to 3");
    assert!(
        ask(&["drive", "re-add", text(&dir)]).expect("re-add of none").contains("nothing is to be re-added")
    );
    ask(&["drive", "fail", text(&dir), "1"]).expect("drive fail");
    fill(&server, 2, 32..48, &mut data);
    let answer = re_add(&dir, &["--wait"]);
    let (whole, lacking) = (&answer["segments_whole"], &answer["segments_to_rebuild"]);
    assert!(whole.as_u64() > lacking.as_u64().map(|lacking| 2 * lacking), "most is there: {answer}");
    assert!(lacking.as_u64() > Some(0), "{answer}");
    assert!(bytes_in(&answer, "bytes_whole") > 2 * bytes_in(&answer, "bytes_to_rebuild"), "{answer}");
    server.assert_says(" were written, ");
    server.assert_says("drive 1 is back: ");
    server.assert_holds(&data);
    assert_whole_without(&dir, server, 3, &data);
}

#[test]
fn clients_go_on_while_a_drive_comes_back() {
    let scratch = Scratch::new("re-add-load");
    let dir = scratch.join("array");
    let mut server = Server::up(&dir, &["--size", "64MiB"]);
    let (mut oracle, mut random) = (Oracle::new(), random(3));
    for other in ["0", "3"] {
        ask(&["drive", "fail", text(&dir), "2"]).expect("drive fail");
        let writers = oracle.write(&server, &mut random);
        let_run(Duration::from_millis(300));
        re_add(&dir, &["2", "--wait"]);
        let_run(Duration::from_millis(300));
        server.kill_9();
        oracle.join(writers);
        server = Server::serve(&dir);
        oracle.verify(&server);
        // What was re-added must do now.
        ask(&["drive", "fail", text(&dir), other]).expect("drive fail");
        oracle.verify(&server);
        re_add(&dir, &[other, "--wait"]);
    }
    server.stop();
    assert_clean(&dir);
}

#[test]
fn a_drive_comes_back_to_an_array_that_nobody_serves() {
    let scratch = Scratch::new("re-add-offline");
    let dir = scratch.join("array");
    let mut server = Server::up(&dir, &["--size", "256MiB"]);
    let mut data = Vec::new();
    fill(&server, 4, 0..256, &mut data);
    server.stop();
    // A start without it, its file elsewhere afterwards.
    let (file, elsewhere) = (drive_file(&dir, 2), scratch.join("back.zns"));
    std::fs::rename(&file, &elsewhere).unwrap();
    server = Server::serve_degraded(&dir);
    fill(&server, 5, 100..116, &mut data);
    server.kill_9();
    assert_refused(&["drive", "re-add", text(&dir), "2"], 6, "give its file if it is elsewhere");
    assert_refused(&["drive", "re-add", text(&dir)], 6, "drive 2 failed and is not back");
    assert_refused(&["drive", "re-add", text(&dir), text(&file)], 6, "there is no such file");
    assert_refused(&["drive", "re-add", text(&dir), text(&drive_file(&dir, 0))], 2, "needs no re-add");
    let answer = re_add(&dir, &[text(&elsewhere)]);
    assert_eq!((&answer["drive"], &answer["served"]), (&2.into(), &false.into()), "{answer}");
    assert!(answer["segments_whole"].as_u64() > answer["segments_to_rebuild"].as_u64(), "{answer}");
    server = Server::serve(&dir);
    server.assert_holds(&data);
    assert_whole_without(&dir, server, 0, &data);
}

#[test]
fn an_older_copy_of_a_drive_is_taken_in_when_the_operator_says_so() {
    let scratch = Scratch::new("re-add-older");
    let dir = scratch.join("array");
    let mut server = Server::up(&dir, &["--size", "256MiB"]);
    let mut data = Vec::new();
    fill(&server, 6, 0..256, &mut data);
    server.stop();
    let file = drive_file(&dir, 3);
    let copy = scratch.join("copy");
    std::fs::copy(&file, &copy).unwrap();
    server = Server::serve(&dir);
    fill(&server, 7, 10..26, &mut data);
    server.stop();
    std::fs::copy(&copy, &file).unwrap();
    let answer = re_add(&dir, &[]);
    assert_eq!(answer["drive"], 3, "{answer}");
    assert!(answer["segments_whole"].as_u64() > answer["segments_to_rebuild"].as_u64(), "{answer}");
    server = Server::serve(&dir);
    assert_whole_without(&dir, server, 1, &data);
}

#[test]
fn a_drive_whose_place_another_one_took_stays_out() {
    let scratch = Scratch::new("re-add-replaced");
    let dir = scratch.join("array");
    let server = Server::up(&dir, &["--size", "64MiB"]);
    let mut data = Vec::new();
    fill(&server, 8, 0..64, &mut data);
    let old = drive_file(&dir, 1);
    ask(&["drive", "fail", text(&dir), "1"]).expect("drive fail");
    run_for(SOON, zoneweave().args(["drive", "replace", text(&dir), "1", "--wait"])).expect("drive replace");
    assert_refused(&["drive", "re-add", text(&dir), text(&old)], 2, "it has not failed");
    ask(&["drive", "fail", text(&dir), "1"]).expect("drive fail");
    assert_refused(&["drive", "re-add", text(&dir), text(&old)], 4, "another drive took its place");
    server.assert_holds(&data);
    re_add(&dir, &["1", "--wait"]);
    assert_whole_without(&dir, server, 2, &data);
}

#[test]
fn a_drive_of_a_clone_stays_out_and_the_server_goes_on() {
    let scratch = Scratch::new("re-add-clone");
    let (dir, clone) = (scratch.join("array"), scratch.join("clone"));
    let mut server = Server::up(&dir, &["--size", "256MiB"]);
    let mut data = Vec::new();
    fill(&server, 9, 0..128, &mut data);
    server.stop();
    std::fs::create_dir(&clone).unwrap();
    for file in std::fs::read_dir(&dir).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), clone.join(file.file_name())).unwrap();
    }
    let elsewhere = Server::serve(&clone);
    fill(&elsewhere, 10, 64..192, &mut data.clone());
    elsewhere.stop();
    server = Server::serve(&dir);
    fill(&server, 11, 64..192, &mut data);
    ask(&["drive", "fail", text(&dir), "1"]).expect("drive fail");
    let (file, own) = (drive_file(&dir, 1), scratch.join("own.zns"));
    std::fs::rename(&file, &own).unwrap();
    std::fs::rename(drive_file(&clone, 1), &file).unwrap();
    assert_refused(&["drive", "re-add", text(&dir), "1"], 4, "newest record (epoch ");
    server.assert_holds(&data);
    assert_eq!(status(&dir)["state"], "degraded");
    fill(&server, 12, 0..16, &mut data);
    server.stop();
    assert_refused(&["drive", "re-add", text(&dir), "1"], 4, "newest record (epoch ");
    std::fs::rename(&own, &file).unwrap();
    server = Server::serve(&dir);
    re_add(&dir, &["1", "--wait"]);
    assert_whole_without(&dir, server, 2, &data);
}

#[test]
fn what_was_rebuilt_counts_when_a_drive_leaves_again() {
    let scratch = Scratch::new("re-add-twice");
    let dir = scratch.join("array");
    let mut server = Server::up(&dir, &["--size", "256MiB"]);
    let mut data = Vec::new();
    fill(&server, 13, 0..64, &mut data);
    ask(&["drive", "fail", text(&dir), "1"]).expect("drive fail");
    fill(&server, 14, 32..256, &mut data);
    ask(&["rebuild", text(&dir), "--rate", "4"]).expect("rebuild --rate");
    let first = re_add(&dir, &["1"]);
    let kept = bytes_in(&first, "bytes_whole");
    let rebuild = || status(&dir)["rebuild"].clone();
    assert!(until(SOON, || rebuild()["bytes_done"].as_u64() > Some(kept + (8 << 20))), "{}", rebuild());
    assert_eq!(rebuild()["bytes_kept"].as_u64(), Some(kept));
    ask(&["drive", "fail", text(&dir), "1"]).expect("drive fail");
    let second = re_add(&dir, &["1"]);
    assert!(bytes_in(&second, "bytes_whole") > kept, "{first} {second}");
    // And again, by a crash.
    server.kill_9();
    server = Server::serve(&dir);
    run_for(SOON, zoneweave().args(["rebuild", text(&dir), "--wait"])).expect("rebuild --wait");
    assert_whole_without(&dir, server, 0, &data);
}

/// Waits until the array is whole again by itself.
#[track_caller]
fn assert_back_by_itself(dir: &Path, server: &Server, drive: usize) {
    let is_whole = until(SOON, || status(dir)["state"] == "clean");
    assert!(is_whole, "{:#}\n{}", status(dir), server.log());
    server.assert_says(&format!("drive {drive} is there again"));
    server.assert_says(&format!("drive {drive} is back: "));
}

#[test]
fn a_drive_that_was_lost_comes_back_by_itself() {
    let scratch = Scratch::new("re-add-lost");
    let dir = scratch.join("array");
    let mut server = Server::up(&dir, &["--size", "64MiB"]);
    let mut data = Vec::new();
    fill(&server, 8, 0..64, &mut data);
    // What is left of a file without a name is gone with the process: a copy stands for the drive.
    let (file, elsewhere) = (drive_file(&dir, 1), scratch.join("away.zns"));
    std::fs::copy(&file, &elsewhere).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(until(SOON, || status(&dir)["state"] == "degraded"), "{}", server.log());
    fill(&server, 9, 32..40, &mut data);
    assert_eq!(status(&dir)["state"], "degraded");
    std::fs::rename(&elsewhere, &file).unwrap();
    assert_back_by_itself(&dir, &server, 1);
    server.assert_holds(&data);
    // One that is not there at a start that goes on without it.
    server.stop();
    std::fs::rename(&file, &elsewhere).unwrap();
    server = Server::serve_degraded(&dir);
    fill(&server, 10, 48..56, &mut data);
    std::fs::rename(&elsewhere, &file).unwrap();
    assert_back_by_itself(&dir, &server, 1);
    assert_whole_without(&dir, server, 3, &data);
}
