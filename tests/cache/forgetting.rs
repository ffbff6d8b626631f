//! Flushes, at once and later, by clients and by an operator; and the keys that are there.

use crate::support::cache::{CacheServer, assert_clean, talk};
use crate::support::run::{SOON, until};
use crate::support::scratch::Scratch;
use crate::support::server::ask;
use crate::support::{have, text};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

fn dump(dir: &Path, more: &[&str]) -> BTreeSet<String> {
    let finished = ask(&[&["cache", "dump", text(dir), "--keys"], more].concat());
    assert_eq!(finished.code(), Some(0), "{finished}");
    finished.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn an_operator_flushes_with_and_without_a_server() {
    if !have(&["redis-cli"]) {
        return;
    }
    let scratch = Scratch::new("cache-flush");
    let dir = scratch.join("cache");
    let server = CacheServer::up(&dir);
    let flush = |more: &[&str]| ask(&[&["cache", "flush", text(&dir)], more].concat());
    assert_eq!(server.say(&["mset", "a", "1", "b", "2"]), "OK\n");
    assert_eq!(server.say(&["-n", "3", "set", "c", "3"]), "OK\n");
    let done = flush(&["--namespace", "3", "--json"]);
    assert_eq!(done.code(), Some(0), "{done}");
    let report: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!((&report["namespace"], &report["served"]), (&Value::from(3), &Value::from(true)));
    assert_eq!(server.say(&["-n", "3", "get", "c"]), "\n");
    assert_eq!(server.say(&["mget", "a", "b"]), "1\n2\n");
    assert!(server.is_flushed());
    assert_eq!(flush(&[]).code(), Some(0));
    server.kill_9();
    let server = CacheServer::serve(&dir);
    assert_eq!(server.say(&["mget", "a", "b"]), "\n\n");
    assert_eq!(server.say(&["mset", "d", "4", "e", "5"]), "OK\n");
    assert_eq!(server.say(&["-n", "3", "set", "f", "6"]), "OK\n");
    assert!(server.is_flushed());
    server.stop();
    let done = flush(&["--namespace", "0"]);
    assert_eq!((done.code(), done.stdout.contains("database 0 is empty")), (Some(0), true), "{done}");
    assert_eq!(dump(&dir, &[]), ["f"].map(str::to_owned).into());
    let checked: Value =
        serde_json::from_str(&ask(&["cache", "check", text(&dir), "--json"]).stdout).unwrap();
    assert_eq!((&checked["clean"], &checked["objects"]), (&true.into(), &1.into()), "{checked}");
    assert!(checked["records"].as_u64() > Some(1), "what was flushed lies there still: {checked}");
    let server = CacheServer::serve(&dir);
    assert_eq!(server.say(&["mget", "d", "e"]), "\n\n");
    assert_eq!(server.say(&["-n", "3", "get", "f"]), "6\n");
    server.stop();
}

#[test]
fn a_flush_with_a_delay_survives_kill_9() {
    if !have(&["redis-cli"]) {
        return;
    }
    let scratch = Scratch::new("cache-delay");
    let (dir, door) = (scratch.join("cache"), scratch.join("memcached.sock"));
    let place = format!("unix:{}", text(&door));
    let up = ["up", "--dir", text(&dir), "--size", "256MiB", "--memcached", &place];
    let server = CacheServer::start(&dir, &up);
    assert_eq!(server.say(&["mset", "a", "1", "b", "2"]), "OK\n");
    assert!(server.is_flushed());
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + 2;
    // The later one counts.
    assert_eq!(talk(&door, &format!("flush_all 3600\r\nflush_all {seconds}\r\nquit\r\n")), "OK\r\nOK\r\n");
    server.kill_9();
    let server = CacheServer::start(&dir, &up);
    assert!(until(SOON, || talk(&door, "get a b\r\nquit\r\n") == "END\r\n"));
    assert!(
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() >= seconds,
        "not before its time"
    );
    assert_eq!(server.say(&["set", "a", "3"]), "OK\n");
    assert_eq!(talk(&door, "get a b\r\nquit\r\n"), "VALUE a 0 1\r\n3\r\nEND\r\n");
    server.stop();
    assert_clean(&dir);
}

#[test]
fn a_dump_tells_the_same_keys_with_and_without_a_server() {
    if !have(&["redis-cli"]) {
        return;
    }
    let scratch = Scratch::new("cache-dump");
    let dir = scratch.join("cache");
    let server = CacheServer::up(&dir);
    for part in (0..600).collect::<Vec<_>>().chunks(100) {
        let words: Vec<String> =
            part.iter().flat_map(|key| [format!("key{key}"), "v".repeat(40 + key % 3)]).collect();
        let words: Vec<&str> = ["mset"].into_iter().chain(words.iter().map(String::as_str)).collect();
        assert_eq!(server.say(&words), "OK\n");
    }
    assert_eq!(server.say(&["set", "a b\\\"", "quoted"]), "OK\n");
    assert_eq!(server.say(&["set", "large", &"x".repeat(20_000), "px", "7200000"]), "OK\n");
    assert_eq!(server.say(&["set", "gone", "soon", "px", "1"]), "OK\n");
    assert_eq!(server.say(&["-n", "15", "set", "other", "1"]), "OK\n");
    assert_eq!(server.say(&["del", "key0", "key1"]), "2\n");
    assert_eq!(server.say(&["set", "key2", "anew"]), "OK\n");
    assert!(server.is_flushed());
    let mut keys: BTreeSet<String> = (2..600).map(|key| format!("key{key}")).collect();
    keys.extend(["\"a b\\\\\\\"\"", "large", "other"].map(str::to_owned));
    assert_eq!(dump(&dir, &[]), keys);
    assert_eq!(dump(&dir, &["--namespace", "15"]), ["other"].map(str::to_owned).into());
    let long = dump(&dir, &["--long"]);
    assert!(long.contains("15 1 -1 other") && long.contains("0 4 -1 key2"), "{long:?}");
    let json = dump(&dir, &["--json"]);
    server.stop();
    let files = || ["drive-0.zns", "drive-3.zns"].map(|name| std::fs::read(dir.join(name)).unwrap());
    let before = files();
    assert_eq!(
        (dump(&dir, &[]), dump(&dir, &["--long"]), dump(&dir, &["--json"])),
        (keys, long, json.clone())
    );
    assert!(before == files(), "a dump writes nothing");
    let large = json.iter().find(|line| line.contains("large")).unwrap();
    let large: Value = serde_json::from_str(large).unwrap();
    assert_eq!((&large["value_bytes"], &large["namespace"]), (&Value::from(20_000), &Value::from(0)));
    assert!(large["expires_ms"].as_u64().is_some());
    assert_eq!(ask(&["cache", "dump", text(&dir)]).code(), Some(2), "values are not dumped");
}

/// Count of expired zones by the server; a request makes it look.
fn zones_expired(server: &CacheServer, dir: &Path) -> u64 {
    assert_eq!(server.say(&["get", "stays"]), "1\n");
    let finished = ask(&["cache", "status", text(dir), "--json"]);
    let report: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert!(report["expired_share"].as_f64().is_some_and(|share| (0.0..=1.0).contains(&share)), "{report}");
    report["zones"]["expired"].as_u64().unwrap()
}

#[test]
fn zones_go_when_all_in_them_has_expired_also_after_kill_9() {
    if !have(&["redis-cli"]) {
        return;
    }
    let scratch = Scratch::new("cache-expiry");
    let dir = scratch.join("cache");
    let server = CacheServer::up(&dir);
    assert_eq!(server.say(&["set", "stays", "1"]), "OK\n");
    let value = "v".repeat(100_000);
    let fill = |server: &CacheServer| {
        // Several zones of a MiB.
        (0..60).for_each(|key| {
            assert_eq!(server.say(&["set", &format!("short{key}"), &value, "px", "1500"]), "OK\n");
        });
        assert!(server.is_flushed());
    };
    fill(&server);
    assert!(until(SOON, || zones_expired(&server, &dir) > 0), "{}", server.log());
    let told = ask(&["cache", "status", text(&dir)]).stdout;
    assert!(told.contains("went when all had expired; what has expired takes "), "{told}");
    assert!(server.say(&["info", "zoneweave"]).contains("expired_share:"));
    fill(&server);
    let zones = zones_expired(&server, &dir);
    server.kill_9();
    let server = CacheServer::serve(&dir);
    assert!(until(SOON, || zones_expired(&server, &dir) > 0), "after {zones} before: {}", server.log());
    server.stop();
    assert_clean(&dir);
}
