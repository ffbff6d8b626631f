//! Caches of several shards: one cache to whoever looks at it, with slices of all drives.

use crate::support::cache::{CacheServer, assert_clean};
use crate::support::have;
use crate::support::run::{SOON, until};
use crate::support::scratch::Scratch;
use crate::support::server::{ask, refused};
use crate::support::text;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

fn up(dir: &Path, more: &[&str]) -> CacheServer {
    let options = ["up", "--dir", text(dir), "--size", "256MiB", "--cores", "2"];
    CacheServer::start(dir, &[&options[..], more].concat())
}

fn status(dir: &Path) -> Value {
    serde_json::from_str(&ask(&["cache", "status", text(dir), "--json"]).stdout).unwrap()
}

fn store(server: &CacheServer, names: std::ops::Range<usize>) {
    for number in names {
        assert_eq!(server.say(&["set", &format!("k{number}"), &"v".repeat(1000)]), "OK\n");
    }
    assert!(until(SOON, || server.is_flushed()));
}

/// Objects that are found; whatever is found is what was stored.
fn found(server: &CacheServer, names: std::ops::Range<usize>) -> usize {
    let value = format!("{}\n", "v".repeat(1000));
    let answers: Vec<String> = names.map(|number| server.say(&["get", &format!("k{number}")])).collect();
    assert!(answers.iter().all(|answer| *answer == value || answer == "\n"), "{answers:?}");
    answers.iter().filter(|answer| **answer == value).count()
}

fn dumped(dir: &Path) -> BTreeSet<String> {
    let lines = ask(&["cache", "dump", text(dir), "--keys"]).stdout;
    let keys: BTreeSet<String> = lines.lines().map(str::to_owned).collect();
    assert_eq!(keys.len(), lines.lines().count(), "each key is told once");
    keys
}

fn drive(dir: &Path, words: &[&str], code: i32) {
    let (word, rest) = words.split_first().unwrap();
    let said = ask(&[&["cache", "drive", word, text(dir)], rest].concat());
    assert_eq!(said.code(), Some(code), "{words:?}: {said}");
}

#[test]
fn keys_of_all_shards_are_told_dumped_and_flushed() {
    if !have(&["redis-cli"]) {
        return;
    }
    let scratch = Scratch::new("cache-shards-keys");
    let dir = scratch.join("cache");
    let server = up(&dir, &[]);
    store(&server, 0..200);
    let report = status(&dir);
    assert_eq!(
        (&report["shards"], &report["objects"], &report["stores"]),
        (&2.into(), &200.into(), &200.into())
    );
    let all: BTreeSet<String> = (0..200).map(|number| format!("k{number}")).collect();
    for words in [&["keys", "k*"][..], &["--scan"], &["--scan", "--pattern", "k*"]] {
        let told: BTreeSet<String> = server.say(words).lines().map(str::to_owned).collect();
        assert_eq!(told, all, "{words:?}");
    }
    assert!(all.contains(server.say(&["randomkey"]).trim()));
    assert_eq!((server.say(&["dbsize"]), dumped(&dir)), ("200\n".into(), all.clone()));
    let pairs: Vec<String> = (0..8).flat_map(|number| [format!("new{number}"), "1".into()]).collect();
    let pairs: Vec<&str> = ["msetnx"].into_iter().chain(pairs.iter().map(String::as_str)).collect();
    assert!(server.say(&pairs).contains("give them one hash tag"));
    assert_eq!(server.say(&["msetnx", "{t}a", "1", "{t}b", "2"]), "1\n");
    assert_eq!(server.say(&["msetnx", "{t}c", "1", "{t}b", "2"]), "0\n");
    assert_eq!(server.say(&["del", "{t}a", "{t}b", "k199"]), "3\n");
    server.stop();
    assert_clean(&dir);
    assert_eq!(dumped(&dir).len(), 199, "of a cache that nobody serves");
    let server = up(&dir, &[]);
    assert_eq!(found(&server, 0..200), 199);
    assert_eq!(ask(&["cache", "flush", text(&dir)]).code(), Some(0));
    assert_eq!((server.say(&["dbsize"]), found(&server, 0..200)), ("0\n".into(), 0));
    store(&server, 0..50);
    server.kill_9();
    assert_eq!(ask(&["cache", "flush", text(&dir)]).code(), Some(0));
    assert!(dumped(&dir).is_empty());
    let server = up(&dir, &[]);
    assert_eq!(found(&server, 0..50), 0, "nothing that was flushed comes back");
    server.stop();
}

#[test]
fn drives_of_all_shards_come_and_go_together() {
    if !have(&["redis-cli"]) {
        return;
    }
    let scratch = Scratch::new("cache-shards-drives");
    let dir = scratch.join("cache");
    let server = up(&dir, &[]);
    store(&server, 0..200);
    drive(&dir, &["replace", "1"], 4);
    drive(&dir, &["fail", "1"], 0);
    drive(&dir, &["fail", "1"], 4);
    assert_eq!(
        (&status(&dir)["drives"], &status(&dir)["drive_states"][1]["state"]),
        (&3.into(), &"failed".into())
    );
    let left = found(&server, 0..200);
    assert!((100..200).contains(&left), "about three of four are left, not {left} of 200");
    drive(&dir, &["replace", "1"], 0);
    drive(&dir, &["add"], 0);
    assert_eq!(status(&dir)["drives"], 5);
    store(&server, 200..400);
    server.kill_9();
    drive(&dir, &["add"], 0);
    let server = up(&dir, &[]);
    assert_eq!(status(&dir)["drives"], 6);
    assert!(found(&server, 200..400) > 190 && found(&server, 0..200) >= left - 2);
    drive(&dir, &["remove", "5"], 0);
    assert_eq!(status(&dir)["drives"], 5);
    server.stop();
    assert_clean(&dir);
    // One that cannot be opened is left out of all shards, and replaced in all.
    std::fs::remove_file(dir.join("drive-0.zns")).unwrap();
    drive(&dir, &["replace", "0"], 0);
    let server = up(&dir, &[]);
    assert_eq!(status(&dir)["drives"], 5);
    store(&server, 400..500);
    assert_eq!(found(&server, 400..500), 100);
    server.stop();
    assert_clean(&dir);
}

#[test]
fn shards_forget_together_and_entries_in_memory_are_of_each() {
    if !have(&["redis-cli"]) {
        return;
    }
    let scratch = Scratch::new("cache-shards-forget");
    let dir = scratch.join("cache");
    let server = up(&dir, &["--forget-after", "1s", "--invalidate", "process"]);
    store(&server, 0..40);
    assert!(dir.join("invalidations").exists() && dir.join("invalidations-1").exists());
    store(&server, 0..40);
    assert_eq!(server.say(&["del", "k0", "k1", "k2", "k3", "k4", "k5"]), "6\n");
    server.kill_9();
    let server = up(&dir, &["--forget-after", "1s", "--invalidate", "process"]);
    let left = found(&server, 0..40);
    assert!(left == 34 || left == 0, "{left}: what was removed stays so\n{}", server.log());
    store(&server, 0..40);
    server.kill_9();
    sleep(Duration::from_millis(1500));
    let server = up(&dir, &["--forget-after", "1s", "--invalidate", "process"]);
    assert_eq!(found(&server, 0..40), 0, "{}", server.log());
    assert_eq!(status(&dir)["absences"], 1);
    server.stop();
    assert_clean(&dir);
}

#[test]
fn a_cache_is_not_taken_for_one_of_other_shards() {
    let scratch = Scratch::new("cache-shards-wrong");
    let dir = scratch.join("cache");
    refused(&["cache", "create", text(&dir), "--shards", "3"], 2, "say --shards 2");
    refused(&["cache", "create", text(&dir), "--shards", "65"], 2, "1 to 64");
    let created = ask(&["cache", "create", text(&dir), "--size", "256MiB", "--shards", "2"]);
    assert_eq!(created.code(), Some(0), "{created}");
    let path = dir.join("cache.toml");
    let written = std::fs::read_to_string(&path).unwrap();
    let files: Vec<Vec<u8>> =
        (0..4).map(|number| std::fs::read(dir.join(format!("drive-{number}.zns"))).unwrap()).collect();
    for (file, why) in [
        (written.replace("version = 2", "version = 1").replace("shards = 2\n", ""), "cut into 1 shards"),
        (written.replace("shards = 2", "shards = 3"), "cut into 3 shards"),
        (written.replace("shards = 2", "shards = 1"), "make no sense"),
        (written.replace("version = 2", "version = 3"), "versions 1 and 2"),
    ] {
        std::fs::write(&path, file).unwrap();
        for words in [&["serve"][..], &["check"], &["flush"], &["dump", "--keys"]] {
            let (word, more) = words.split_first().unwrap();
            refused(&[&["cache", word, text(&dir)], more].concat(), 4, why);
        }
    }
    for (number, bytes) in files.iter().enumerate() {
        assert!(std::fs::read(dir.join(format!("drive-{number}.zns"))).unwrap() == *bytes, "drive {number}");
    }
    std::fs::write(&path, written).unwrap();
    assert_clean(&dir);
}

#[test]
fn a_profile_has_active_zones_for_all_shards() {
    let scratch = Scratch::new("cache-shards-profile");
    let dir = scratch.join("cache");
    let created = ask(&["cache", "create", text(&dir), "--size", "256MiB", "--shards", "2"]);
    assert_eq!(created.code(), Some(0), "{created}");
    refused(&["cache", "serve", text(&dir), "--profile", "conventional-nvme"], 2, "without zones");
    refused(
        &["cache", "serve", text(&dir), "--profile", "ns8600g"],
        2,
        "8 active zones; a cache with 2 shards needs 10",
    );
}

#[test]
fn memory_that_a_drive_more_needs_is_that_of_all_shards() {
    let scratch = Scratch::new("cache-shards-no-room");
    let dir = scratch.join("cache");
    let up = ["up", "--dir", text(&dir), "--size", "1GiB", "--object-mean", "204", "--cores", "2"];
    let server = CacheServer::start(&dir, &up);
    let refused = ask(&["cache", "drive", "add", text(&dir)]);
    assert_eq!(refused.code(), Some(4), "{refused}");
    let needed = refused.stderr.split("needs --memory ").nth(1).and_then(|rest| rest.split("MiB").next());
    let needed: u64 = needed.and_then(|mib| mib.parse().ok()).unwrap_or_else(|| panic!("{refused}"));
    assert!(needed > 64, "more than it has: {refused}");
    server.stop();
}
