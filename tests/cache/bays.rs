//! Drives of a cache: taken out, put in, and served without.

use crate::support::cache::{CacheServer, assert_clean};
use crate::support::run::{Finished, SOON, until, wait_for};
use crate::support::scratch::Scratch;
use crate::support::server::{ask, zoneweave};
use crate::support::{have, text};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

fn status(dir: &Path) -> (Option<i32>, Value) {
    let finished = ask(&["cache", "status", text(dir), "--json"]);
    (finished.code(), serde_json::from_str(&finished.stdout).unwrap())
}

fn drive(dir: &Path, word: &str, number: &str) -> Finished {
    ask(&["cache", "drive", word, text(dir), number, "--json"])
}

/// Stores objects, all on flash.
fn store(server: &CacheServer, prefix: &str) {
    for index in 0..120 {
        assert_eq!(server.say(&["set", &format!("{prefix}{index}"), &"v".repeat(2000)]), "OK\n");
    }
    assert!(until(SOON, || server.say(&["info", "zoneweave"]).contains("buffer_bytes:0\r\n")));
}

/// Objects that are found; whatever is found is what was stored.
fn found(server: &CacheServer, prefix: &str) -> usize {
    let value = format!("{}\n", "v".repeat(2000));
    let answers: Vec<String> =
        (0..120).map(|index| server.say(&["get", &format!("{prefix}{index}")])).collect();
    assert!(answers.iter().all(|answer| answer == &value || answer == "\n"), "{answers:?}");
    answers.iter().filter(|answer| **answer == value).count()
}

#[test]
fn a_drive_is_taken_out_and_another_takes_its_place() {
    if !have(&["redis-cli"]) {
        return;
    }
    let scratch = Scratch::new("cache-bays");
    let dir = scratch.join("cache");
    let server = CacheServer::up(&dir);
    store(&server, "a");
    assert_eq!(drive(&dir, "replace", "1").code(), Some(4), "it works");
    assert_eq!(drive(&dir, "fail", "4").code(), Some(2), "there are 0 to 3");
    let failed = drive(&dir, "fail", "1");
    assert_eq!(failed.code(), Some(0), "{failed}");
    assert_eq!(drive(&dir, "fail", "1").code(), Some(4), "it has failed already");
    let (code, report) = status(&dir);
    assert_eq!((code, &report["drives"]), (Some(3), &Value::from(3)), "{report}");
    let left = found(&server, "a");
    assert!((60..120).contains(&left), "about three of four are left, not {left} of 120");
    // What is removed while the drive is away stays so, whatever that drive holds.
    assert_eq!(
        server.say(&["del", "a0", "a1", "a2", "a3"]).trim().parse::<u32>().map(|count| count <= 4),
        Ok(true)
    );
    let replaced = drive(&dir, "replace", "1");
    assert_eq!(replaced.code(), Some(0), "{replaced}");
    assert!(dir.join("drive-1-1.zns").exists() && dir.join("drive-1.zns").exists());
    assert_eq!(status(&dir).0, Some(0));
    store(&server, "b");
    server.kill_9();
    let server = CacheServer::serve(&dir);
    assert_eq!(status(&dir).1["drives"], 4);
    assert!(found(&server, "b") > 115 && (55..120).contains(&found(&server, "a")));
    assert_eq!(server.say(&["exists", "a0", "a1", "a2", "a3"]), "0\n");
    server.stop();
    assert_clean(&dir);
}

#[test]
fn status_tells_of_drives_and_is_watched() {
    if !have(&["redis-cli"]) {
        return;
    }
    let scratch = Scratch::new("cache-watch");
    let dir = scratch.join("cache");
    let server = CacheServer::up(&dir);
    store(&server, "a");
    assert_eq!(drive(&dir, "fail", "2").code(), Some(0));
    let (_, report) = status(&dir);
    let states: Vec<&str> =
        (0..4).map(|place| report["drive_states"][place]["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["active", "active", "failed", "active"], "{report}");
    assert!(report["drive_states"][0]["bytes_used"].as_u64().unwrap() > 0, "{report}");
    let words = ask(&["cache", "status", text(&dir)]);
    assert!(words.stdout.contains("drive-0.zns active, ") && words.stdout.contains("failed\n"), "{words}");
    let mut watching = zoneweave();
    watching.args(["cache", "status", text(&dir), "--watch", "1", "--json"]).stdout(Stdio::piped());
    let mut watching = watching.spawn().unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    next();
    store(&server, "b");
    // Two intervals, for the objects may be stored in one or in both of them.
    let sets = next()["sets"].as_f64().unwrap() + next()["sets"].as_f64().unwrap();
    assert!(sets > 0.0, "120 objects were stored");
    server.stop();
    let ended = wait_for(SOON, &mut watching);
    assert_eq!(ended.and_then(|status| status.code()), Some(0), "it ends with the server");
    let unserved = ask(&["cache", "status", text(&dir), "--watch"]);
    assert!(unserved.code() == Some(6) && unserved.stderr.contains("nobody serves"), "{unserved}");
}

#[test]
fn a_drive_that_is_gone_is_replaced_without_a_server() {
    if !have(&["redis-cli"]) {
        return;
    }
    let scratch = Scratch::new("cache-bays-offline");
    let dir = scratch.join("cache");
    let server = CacheServer::up(&dir);
    store(&server, "a");
    server.stop();
    assert_eq!(drive(&dir, "fail", "2").code(), Some(6), "nobody serves it");
    assert_eq!(drive(&dir, "replace", "2").code(), Some(4), "it can be opened");
    std::fs::remove_file(dir.join("drive-2.zns")).unwrap();
    let server = CacheServer::serve(&dir);
    assert_eq!(status(&dir).0, Some(3));
    // In its place from the start of this life.
    let replaced = drive(&dir, "replace", "2");
    assert_eq!(replaced.code(), Some(0), "{replaced}");
    store(&server, "b");
    server.stop();
    std::fs::remove_file(dir.join("drive-0.zns")).unwrap();
    let replaced = drive(&dir, "replace", "0");
    assert_eq!(replaced.code(), Some(0), "{replaced}");
    let server = CacheServer::serve(&dir);
    assert_eq!(status(&dir).0, Some(0));
    assert!(found(&server, "b") > 60);
    server.stop();
    assert_clean(&dir);
}

#[test]
fn drives_are_added_and_removed_in_service() {
    if !have(&["redis-cli"]) {
        return;
    }
    let scratch = Scratch::new("cache-grows");
    let dir = scratch.join("cache");
    let add = |more: &[&str]| ask(&[&["cache", "drive", "add", text(&dir), "--json"], more].concat());
    let server = CacheServer::up(&dir);
    store(&server, "a");
    let added = add(&[]);
    assert_eq!(added.code(), Some(0), "{added}");
    let report: Value = serde_json::from_str(&added.stdout).unwrap();
    assert_eq!((&report["drive"], &report["served"]), (&Value::from(4), &Value::from(true)));
    let share = report["index_share"].as_f64().unwrap();
    assert!(
        (0.7..0.9).contains(&share),
        "an index for four drives names the objects of four of five: {share}"
    );
    store(&server, "b");
    assert_eq!(status(&dir).1["drives"], 5);
    let removed = drive(&dir, "remove", "1");
    assert_eq!(removed.code(), Some(0), "{removed}");
    assert_eq!(drive(&dir, "remove", "1").code(), Some(4), "it is removed already");
    assert_eq!(drive(&dir, "replace", "1").code(), Some(4), "there is nothing to replace");
    let (code, report) = status(&dir);
    assert_eq!((code, &report["drives"], &report["members"]), (Some(0), &Value::from(4), &Value::from(4)));
    let left = found(&server, "a") + found(&server, "b");
    assert!((150..240).contains(&left), "about four of five are left, not {left} of 240");
    let deleted: Vec<String> = (0..120).map(|index| format!("a{index}")).collect();
    server.say(&["del"].into_iter().chain(deleted.iter().map(String::as_str)).collect::<Vec<_>>());
    server.kill_9();
    // The old drive under its old name is not believed: what was deleted while it was gone stays so.
    let server = CacheServer::serve(&dir);
    assert_eq!((status(&dir).0, found(&server, "a")), (Some(0), 0));
    let place = scratch.join("elsewhere.zns");
    let added = add(&[text(&place)]);
    let report: Value = serde_json::from_str(&added.stdout).unwrap();
    assert_eq!((&report["drive"], report.get("index_share")), (&Value::from(1), None), "its number was free");
    assert!(place.exists() && add(&[text(&place)]).code() == Some(4), "a file that is there is left alone");
    store(&server, "c");
    server.stop();
    assert_clean(&dir);
    // Without a server, too.
    assert_eq!(
        (drive(&dir, "remove", "0").code(), add(&[]).code(), add(&[]).code()),
        (Some(0), Some(0), Some(0))
    );
    assert_clean(&dir);
    let server = CacheServer::serve(&dir);
    assert_eq!(status(&dir).1["drives"], 6);
    assert!(found(&server, "c") > 60 && found(&server, "a") == 0);
    server.stop();
}

#[test]
fn an_index_that_would_not_fit_refuses_a_drive() {
    if !have(&["redis-cli"]) {
        return;
    }
    let scratch = Scratch::new("cache-no-room");
    let dir = scratch.join("cache");
    let up = ["up", "--dir", text(&dir), "--size", "1GiB", "--object-mean", "190"];
    let server = CacheServer::start(&dir, &up);
    let refused = ask(&["cache", "drive", "add", text(&dir)]);
    assert_eq!(refused.code(), Some(4), "{refused}");
    assert!(refused.stderr.contains("needs --memory "), "{refused}");
    assert_eq!(
        std::fs::read_dir(&dir)
            .unwrap()
            .filter(|file| { file.as_ref().unwrap().path().extension().is_some_and(|kind| kind == "zns") })
            .count(),
        4,
        "nothing is left behind"
    );
    server.stop();
}

#[test]
fn a_cache_whose_index_would_not_fit_is_not_served() {
    let scratch = Scratch::new("cache-short-memory");
    let (dir, new) = (scratch.join("cache"), scratch.join("new"));
    let shape = ["--size", "1GiB", "--listen", "tcp:127.0.0.1:0", "--memory", "8MiB"];
    let refused = ask(&[&["cache", "up", "--dir", text(&new)], &shape[..]].concat());
    assert_eq!((refused.code(), new.exists()), (Some(2), false), "nothing is made: {refused}");
    let told =
        "--memory 8MiB does not hold the index of 1 GiB of flash for objects of 1024 bytes on the mean";
    assert!(refused.stderr.contains(told), "{refused}");
    let created = ask(&["cache", "create", text(&dir), "--size", "1GiB"]);
    assert!(created.succeeded() && !created.stdout.contains("--memory"), "{created}");
    let serve = ["cache", "serve", text(&dir), "--listen", "tcp:127.0.0.1:0", "--memory"];
    let refused = ask(&[&serve[..], &["8MiB"]].concat());
    assert_eq!(refused.code(), Some(2), "{refused}");
    assert!(refused.stderr.contains(told) && refused.stderr.contains("say --memory 12MiB"), "{refused}");
    // Who makes a cache for which the usual memory does not do is told what will.
    let large = scratch.join("large");
    let created = ask(&["cache", "create", text(&large), "--size", "64GiB"]);
    assert!(created.stdout.contains(" --memory "), "{created}");
    let added = ask(&["cache", "drive", "add", text(&large)]);
    assert!(added.succeeded() && added.stdout.contains("its index needs `zoneweave cache serve"), "{added}");
}
