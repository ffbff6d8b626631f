//! Invalidations in memory that outlives the process: `kill -9`, stops, and a machine that was started anew.

use crate::support::cache::{CacheServer, assert_clean};
use crate::support::scratch::Scratch;
use crate::support::server::ask;
use crate::support::{have, text};
use serde_json::Value;
use std::path::Path;

const KEYS: usize = 200;

fn start(dir: &Path, place: &str) -> CacheServer {
    CacheServer::start(dir, &["up", "--dir", text(dir), "--size", "256MiB", "--invalidate", place])
}

fn status(dir: &Path) -> Value {
    serde_json::from_str(&ask(&["cache", "status", text(dir), "--json"]).stdout).unwrap()
}

/// Values of all keys.
fn all(server: &CacheServer) -> Vec<String> {
    let keys: Vec<String> = (0..KEYS).map(|key| format!("key{key}")).collect();
    let words: Vec<&str> = ["mget"].into_iter().chain(keys.iter().map(String::as_str)).collect();
    server.say(&words).lines().map(str::to_owned).collect()
}

/// Stores, waits until flash holds it, then overwrites a third and removes a third, which memory alone hides.
fn fill_and_hide(server: &CacheServer, round: usize) {
    for key in 0..KEYS {
        server.say(&["set", &format!("key{key}"), &format!("old{round}")]);
    }
    assert!(server.is_flushed());
    for key in (0..KEYS).filter(|key| key % 3 != 0) {
        let name = format!("key{key}");
        match key % 3 {
            1 => server.say(&["set", &name, &format!("new{round}")]),
            _ => server.say(&["del", &name]),
        };
    }
}

/// Asserts that hidden values stay hidden, and new ones are whole or gone; returns the count of old ones found where they may be.
#[track_caller]
fn judge(server: &CacheServer, round: usize) -> usize {
    let (old, new) = (format!("old{round}"), format!("new{round}"));
    let mut found = 0;
    for (key, value) in all(server).iter().enumerate() {
        let may_be = match key % 3 {
            0 => [old.as_str(), ""],
            1 => [new.as_str(), ""],
            _ => ["", ""],
        };
        assert!(may_be.contains(&value.as_str()), "key{key} is {value}");
        found += usize::from(*value == old);
    }
    found
}

#[test]
fn what_memory_hides_stays_hidden_over_kill_9() {
    if !have(&["redis-cli"]) {
        return;
    }
    let scratch = Scratch::new("cache-process");
    let dir = scratch.join("cache");
    for round in 0..3 {
        let server = start(&dir, "process");
        fill_and_hide(&server, round);
        server.kill_9();
        // Who lists the media of a cache that is not served reads the memory, too.
        let listed = ask(&["cache", "dump", text(&dir), "--keys"]);
        assert_eq!(listed.code(), Some(0), "{listed}");
        let is_removed = |line: &str| line.trim_start_matches("key").parse::<usize>().unwrap() % 3 == 2;
        assert!(!listed.stdout.lines().any(is_removed), "{listed}");
        let server = start(&dir, if round == 1 { "media" } else { "process" });
        assert!(judge(&server, round) > KEYS / 4, "what was not hidden is still there");
        let report = status(&dir);
        assert!(report["recovery"]["records_shared"].as_u64() > Some(0), "{report}");
        server.kill_9();
        let server = start(&dir, "process");
        judge(&server, round);
        server.kill_9();
    }
}

#[test]
fn without_its_memory_a_cache_begins_empty_unless_it_was_stopped() {
    if !have(&["redis-cli"]) {
        return;
    }
    let scratch = Scratch::new("cache-process-lost");
    let dir = scratch.join("cache");
    let server = start(&dir, "process");
    fill_and_hide(&server, 0);
    server.stop();
    std::fs::remove_file(dir.join("invalidations")).unwrap();
    let server = start(&dir, "process");
    assert!(judge(&server, 0) > KEYS / 4, "a stop brings all of it to drives");
    fill_and_hide(&server, 1);
    server.kill_9();
    std::fs::remove_file(dir.join("invalidations")).unwrap();
    let server = start(&dir, "process");
    assert!(all(&server).iter().all(String::is_empty), "the memory is gone");
    assert_eq!(status(&dir)["recovery"]["emptied"], true);
    fill_and_hide(&server, 2);
    judge(&server, 2);
    server.stop();
    assert_clean(&dir);
}
