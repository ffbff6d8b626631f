//! Caches on devices: files that are cut into zones.

use crate::support::cache::{CacheServer, assert_clean};
use crate::support::run::Finished;
use crate::support::scratch::Scratch;
use crate::support::server::ask;
use crate::support::{cache_shadow, have, text};
use serde_json::Value;
use std::path::{Path, PathBuf};

fn device(scratch: &Scratch, name: &str) -> PathBuf {
    let path = scratch.join(name);
    std::fs::File::create(&path).unwrap().set_len(256 << 20).unwrap();
    path
}

fn create(scratch: &Scratch, name: &str, devices: &[&Path], more: &[&str]) -> (PathBuf, Finished) {
    let dir = scratch.join(name);
    let paths: Vec<&str> = devices.iter().map(|path| text(path)).collect();
    let paths = paths.join(",");
    let fixed = ["cache", "create", text(&dir), "--conventional", &paths, "--zone-size", "4MiB"];
    let created = ask(&[&fixed[..], more].concat());
    (dir, created)
}

fn store(server: &CacheServer, prefix: &str) {
    for index in 0..60 {
        assert_eq!(server.say(&["set", &format!("{prefix}{index}"), &"v".repeat(3000)]), "OK\n");
    }
    assert!(server.is_flushed());
}

fn status_of(dir: &Path) -> String {
    ask(&["cache", "status", text(dir), "--json"]).stdout
}

fn found(server: &CacheServer, prefix: &str) -> usize {
    let keys: Vec<String> = (0..60).map(|index| format!("{prefix}{index}")).collect();
    let words: Vec<&str> = std::iter::once("exists").chain(keys.iter().map(String::as_str)).collect();
    server.say(&words).trim().parse().unwrap()
}

#[test]
fn a_cache_on_devices_survives_kills_moves_and_lost_devices() {
    if !have(&["redis-cli"]) {
        return;
    }
    let scratch = Scratch::new("cache-devices");
    let [one, two, fixed, three] = ["disk0", "disk1", "disk2", "disk3"].map(|name| device(&scratch, name));
    let (dir, created) = create(&scratch, "cache", &[&one, &two, &fixed], &[]);
    assert_eq!(created.code(), Some(0), "{created}");
    let server = CacheServer::serve(&dir);
    store(&server, "a");
    server.say(&["del", "a0"]);
    server.kill_9();
    assert_clean(&dir);
    // Devices have other names when a machine begins anew.
    let aside = scratch.join("aside");
    std::fs::rename(&one, &aside).unwrap();
    std::fs::rename(&two, &one).unwrap();
    std::fs::rename(&aside, &two).unwrap();
    let server = CacheServer::serve(&dir);
    assert_eq!((found(&server, "a"), server.say(&["get", "a0"])), (59, "\n".to_owned()), "{}", server.log());
    // Another device takes the place of one in service.
    let drive = |words: &[&str]| ask(&[&["cache", "drive", words[0], text(&dir)], &words[1..]].concat());
    assert_eq!(drive(&["fail", "0"]).code(), Some(0));
    let unnamed = drive(&["replace", "0"]);
    assert!(unnamed.code() == Some(2) && unnamed.stderr.contains("--with PATH"), "{unnamed}");
    let with = format!("raw:{}", three.display());
    let replaced = drive(&["replace", "0", "--with", &with]);
    assert_eq!(replaced.code(), Some(0), "{replaced}");
    store(&server, "b");
    server.kill_9();
    // One is lost without a server, and a larger one takes its place; a third one comes without a server, too.
    std::fs::remove_file(&three).unwrap();
    let [four, five] = ["disk4", "disk5"].map(|name| device(&scratch, name));
    std::fs::File::options().write(true).open(&four).unwrap().set_len(300 << 20).unwrap();
    let with = format!("raw:{}", four.display());
    let replaced = drive(&["replace", "0", "--with", &with]);
    assert_eq!(replaced.code(), Some(0), "{replaced}");
    let added = drive(&["add", &format!("raw:{}", five.display())]);
    assert_eq!(added.code(), Some(0), "{added}");
    let server = CacheServer::serve(&dir);
    let left = found(&server, "b");
    assert!((1..60).contains(&left), "{left} of 60 are left");
    store(&server, "c");
    assert_eq!(found(&server, "c"), 60);
    let status: Value = serde_json::from_str(&status_of(&dir)).unwrap();
    assert_eq!(status["drives"], 4, "{status}");
    server.stop();
    assert_clean(&dir);
}

#[test]
fn a_cache_on_devices_never_lies() {
    let scratch = Scratch::new("cache-devices-life");
    let devices = ["disk0", "disk1", "disk2", "disk3"].map(|name| device(&scratch, name));
    let raw = devices.map(|path| format!("raw:{}", path.display()));
    let drives: Vec<&str> = raw.iter().map(String::as_str).collect();
    cache_shadow::live(&scratch.join("cache"), &drives[..3], drives[3]);
}

#[test]
fn emulated_drives_take_the_time_of_a_profile() {
    if !have(&["redis-cli"]) {
        return;
    }
    let scratch = Scratch::new("cache-profile");
    let dir = scratch.join("cache");
    let profile = ["--profile", "zn540-4tb"];
    let server =
        CacheServer::start(&dir, &[&["up", "--dir", text(&dir), "--size", "256MiB"], &profile[..]].concat());
    server.assert_says("the drives take the time of zn540-4tb");
    store(&server, "a");
    let added = ask(&["cache", "drive", "add", text(&dir)]);
    assert_eq!(added.code(), Some(0), "{added}");
    store(&server, "b");
    server.kill_9();
    let server = CacheServer::start(&dir, &[&["serve", text(&dir)], &profile[..]].concat());
    assert_eq!((found(&server, "a"), found(&server, "b")), (60, 60));
    server.stop();
    assert_clean(&dir);
    let unknown = ask(&["cache", "serve", text(&dir), "--profile", "zn540-40tb"]);
    assert!(unknown.code() != Some(0) && unknown.stderr.contains("zn540-40tb"), "{unknown}");
    let disk = device(&scratch, "disk");
    let (dir, created) = create(&scratch, "devices", &[&disk], &[]);
    assert_eq!(created.code(), Some(0), "{created}");
    let refused = ask(&["cache", "serve", text(&dir), "--profile", "zn540-4tb"]);
    assert!(refused.code() == Some(2) && refused.stderr.contains("this is a device"), "{refused}");
}

#[test]
fn devices_that_hold_something_are_refused() {
    let scratch = Scratch::new("cache-devices-refused");
    let [one, two, small] = ["disk0", "disk1", "small"].map(|name| device(&scratch, name));
    let (dir, created) = create(&scratch, "cache", &[&one], &[]);
    assert_eq!(created.code(), Some(0), "{created}");
    let uuid = std::fs::read_to_string(dir.join("cache.toml")).unwrap();
    let uuid =
        uuid.lines().find_map(|line| line.strip_prefix("uuid = ")).unwrap().trim_matches('"').to_owned();
    let mut others = 0;
    let mut refuse = |devices: &[&Path], more: &[&str], code: i32, why: &str| {
        others += 1;
        let (dir, refused) = create(&scratch, &format!("other{others}"), devices, more);
        assert!(refused.code() == Some(code) && refused.stderr.contains(why), "{why}: {refused}");
        assert!(!dir.exists(), "{why}");
    };
    refuse(&[&one], &[], 4, &uuid);
    refuse(&[&one], &["--force"], 4, &uuid);
    refuse(&[&two, &two], &[], 2, "the same drive");
    refuse(&[&two], &["--drives", "3"], 2, "--drives asks for 3");
    refuse(&[&two], &["--size", "1GiB"], 2, "--size follows from the devices");
    std::fs::write(&small, vec![7; 1 << 20]).unwrap();
    refuse(&[&small], &["--force"], 2, "cannot be cut into zones");
    std::fs::write(&small, [vec![7; 1 << 20], vec![0; 255 << 20]].concat()).unwrap();
    refuse(&[&small], &[], 4, "data in its first MiB");
    let absent = scratch.join("absent");
    refuse(&[&absent], &[], 6, "is not there");
    let added = ask(&["cache", "drive", "add", text(&dir), &format!("raw:{}", small.display())]);
    assert!(added.code() == Some(4) && added.stderr.contains("data in its first MiB"), "{added}");
    let added = ask(&["cache", "drive", "add", text(&dir), &format!("raw:{}", one.display())]);
    assert!(added.code().is_some_and(|code| code > 0), "{added}");
    // What is named may be given up.
    let force = format!("--force={uuid}");
    let (_, created) = create(&scratch, "anew", &[&one, &small], &[&force]);
    assert_eq!(created.code(), Some(0), "{created}");
    let lost = ask(&["cache", "check", text(&dir)]);
    assert!(lost.code() == Some(4) && lost.stderr.contains("none of the drives"), "{lost}");
}
