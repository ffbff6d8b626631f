//! Drives that come back under other names, and an `array.toml` that is lost or of another version.

use crate::support::loop_device::Loop;
use crate::support::run::{Finished, SOON, until};
use crate::support::scratch::Scratch;
use crate::support::server::{Server, ask, status};
use crate::support::{have, is_root, skip, text};
use serde_json::Value;
use std::path::{Path, PathBuf};

const MIB: usize = 1 << 20;
const DISK_BYTES: u64 = 128 << 20;

/// Empty files that become devices.
fn disks(scratch: &Scratch, name: &str, count: usize) -> Vec<PathBuf> {
    let disk = |index| {
        let path = scratch.join(&format!("{name}{index}"));
        std::fs::File::create(&path).unwrap().set_len(DISK_BYTES).unwrap();
        path
    };
    (0..count).map(disk).collect()
}

fn paths(devices: &[Loop]) -> String {
    devices.iter().map(|device| text(&device.0)).collect::<Vec<_>>().join(",")
}

/// Loop devices over these files, or why the test is skipped.
fn attach(files: &[PathBuf]) -> Option<Vec<Loop>> {
    if !have(&["losetup"]) || !is_root() && !skip("only root makes loop devices") {
        return None;
    }
    let devices = Loop::over_all(files);
    if devices.is_none() {
        skip("there is no loop device to be had");
    }
    devices
}

#[track_caller]
fn create(dir: &Path, drives: &str) {
    let asked = ["create", text(dir), "--zone-size", "4MiB", "--drives-path", drives];
    ask(&asked).expect("create");
}

#[track_caller]
fn assert_ends(finished: &Finished, code: i32, words: &[&str]) {
    assert_eq!(finished.code(), Some(code), "{finished}");
    for word in words {
        assert!(finished.to_string().contains(word), "should mention `{word}`: {finished}");
    }
}

#[track_caller]
fn json(finished: &Finished) -> Value {
    serde_json::from_str(&finished.stdout).unwrap_or_else(|error| panic!("no JSON: {error}\n{finished}"))
}

fn array_toml(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("array.toml")).unwrap()
}

fn write_sevens(dir: &Path) {
    let server = Server::serve(dir);
    server.client().write(0, &vec![7; MIB]).unwrap();
    server.stop();
}

#[track_caller]
fn assert_sevens(server: &Server) {
    assert!(server.client().read(0, 1 << 20).unwrap() == vec![7; MIB]);
}

/// The file as the version before kinds and ids had it.
fn as_version_1(text: &str) -> String {
    let is_old = |line: &&str| !line.starts_with("kind = ") && !line.starts_with("id = ");
    let lines: Vec<&str> = text.lines().filter(is_old).collect();
    lines.join("\n").replace("version = 2", "version = 1") + "\n"
}

#[test]
fn a_file_of_version_1_is_served_unchanged_and_one_of_version_3_refused() {
    let scratch = Scratch::new("versions");
    let dir = scratch.join("array");
    let server = Server::up(&dir, &["--size", "64MiB"]);
    server.client().write(0, &vec![7; MIB]).unwrap();
    server.stop();
    let new = array_toml(&dir);
    assert!(new.contains("version = 2") && new.matches("kind = \"emulated\"").count() == 4, "{new}");
    let old = as_version_1(&new);
    std::fs::write(dir.join("array.toml"), &old).unwrap();
    let server = Server::serve(&dir);
    assert_sevens(&server);
    server.stop();
    assert_eq!(array_toml(&dir), old, "nothing was to be corrected");
    // What is written anew is of the new version.
    std::fs::rename(dir.join("drive-1.zns"), dir.join("renamed")).unwrap();
    let server = Server::serve(&dir);
    assert_sevens(&server);
    server.stop();
    let corrected = array_toml(&dir);
    assert!(corrected.contains("version = 2") && corrected.contains("path = \"renamed\""), "{corrected}");
    assert_eq!(corrected.matches("kind = \"emulated\"").count(), 4, "{corrected}");
    let later = corrected.replace("version = 2", "version = 3\nnews = true");
    std::fs::write(dir.join("array.toml"), &later).unwrap();
    for command in ["serve", "status", "check", "assemble", "create", "destroy"] {
        assert_ends(&ask(&[command, text(&dir)]), 2, &["array.toml has version 3", "1 and 2"]);
    }
    assert_eq!(array_toml(&dir), later, "it is that of a newer program");
}

/// All devices have other names, and drives of another array have those that they had.
#[test]
fn devices_that_get_other_names_are_found_and_strangers_are_not_touched() {
    let scratch = Scratch::new("renamed");
    let (own, strange) = (disks(&scratch, "own", 5), disks(&scratch, "strange", 3));
    let Some(devices) = attach(&own) else { return };
    let Some(others) = attach(&strange) else { return };
    let (dir, other) = (scratch.join("array"), scratch.join("other"));
    create(&dir, &paths(&devices[..4]));
    create(&other, &paths(&others));
    ask(&["drive", "add-spare", text(&dir), text(&devices[4].0)]).expect("add-spare");
    write_sevens(&dir);
    let before = array_toml(&dir);
    assert_eq!(before.matches("kind = \"conventional\"").count(), 5, "{before}");
    drop((devices, others));
    let contents = || strange.iter().map(|file| std::fs::read(file).unwrap()).collect::<Vec<_>>();
    let untouched = contents();
    // The strangers first, so that they get the names of the others; and these in another order.
    let _others = attach(&strange).unwrap();
    let turned: Vec<PathBuf> = [2, 4, 0, 3, 1].map(|index: usize| own[index].clone()).to_vec();
    let devices = attach(&turned).unwrap();
    let server = Server::serve(&dir);
    assert_sevens(&server);
    let after = array_toml(&dir);
    let name_of = |index: usize| {
        let place = turned.iter().position(|file| *file == own[index]).unwrap();
        text(&devices[place].0).to_owned()
    };
    for (index, member) in status(&dir)["members"].as_array().unwrap().iter().enumerate() {
        assert_eq!(member["path"], name_of(index), "{after}");
        assert_eq!((&member["state"], &member["kind"]), (&"active".into(), &"conventional".into()));
    }
    assert!(after.contains(&format!("path = \"{}\"", name_of(4))), "the spare is elsewhere, too: {after}");
    server.assert_says("array.toml said /dev/loop");
    ask(&["drive", "fail", text(&dir), "1"]).expect("drive fail");
    assert!(until(SOON * 2, || status(&dir)["state"] == "clean"), "{:#}\n{}", status(&dir), server.log());
    assert_eq!(status(&dir)["members"][1]["path"], *name_of(4), "the spare took the place");
    assert_sevens(&server);
    server.stop();
    assert!(contents() == untouched, "drives of another array were written to");
}

/// A spare that got another name while the array is served.
#[test]
fn a_spare_is_found_when_it_is_needed() {
    let scratch = Scratch::new("spare");
    let own = disks(&scratch, "own", 5);
    let Some(devices) = attach(&own[..4]) else { return };
    let dir = scratch.join("array");
    create(&dir, &paths(&devices));
    let spare = attach(&own[4..]).unwrap();
    ask(&["drive", "add-spare", text(&dir), text(&spare[0].0)]).expect("add-spare");
    let server = Server::serve(&dir);
    server.client().write(0, &vec![7; MIB]).unwrap();
    // Its name goes to a device that is nobody's.
    let (blank, was) = (disks(&scratch, "blank", 1), spare[0].0.clone());
    drop(spare);
    let _stranger = attach(&blank).unwrap();
    let spare = attach(&own[4..]).unwrap();
    if spare[0].0 == was {
        println!("skipped: the spare kept its name");
        return;
    }
    ask(&["drive", "fail", text(&dir), "2"]).expect("drive fail");
    assert!(until(SOON * 2, || status(&dir)["state"] == "clean"), "{:#}\n{}", status(&dir), server.log());
    assert_eq!(status(&dir)["members"][2]["path"], *text(&spare[0].0), "{}", server.log());
    assert_sevens(&server);
    server.stop();
    assert!(std::fs::read(&blank[0]).unwrap().iter().all(|byte| *byte == 0), "a stranger was written to");
}

/// `array.toml` is lost: scan finds the devices, assemble writes it anew.
#[test]
fn an_array_on_devices_is_assembled_by_its_uuid() {
    let scratch = Scratch::new("lost");
    let own = disks(&scratch, "own", 4);
    let Some(devices) = attach(&own) else { return };
    let (dir, new) = (scratch.join("array"), scratch.join("new"));
    create(&dir, &paths(&devices));
    write_sevens(&dir);
    let uuid = status(&dir)["array"].as_str().unwrap().to_owned();
    std::fs::remove_dir_all(&dir).unwrap();
    let scanned = |more: &[&str]| {
        let report = json(&ask(&[&["scan", "--json"], more].concat()));
        let arrays = report["arrays"].as_array().unwrap().clone();
        arrays.into_iter().find(|array| array["array"] == *uuid)
    };
    let found = scanned(&["--dir", text(scratch.path())]).expect("scan finds it");
    assert_eq!((&found["state"], &found["members"]), (&"complete".into(), &4.into()), "{found:#}");
    let drives = found["drives"].as_array().unwrap();
    let mut at: Vec<&str> = drives.iter().filter_map(|drive| drive["path"].as_str()).collect();
    // Which loop devices are free depends on what else runs: `loop10` may be among them, before or behind `loop9`.
    let mut paths: Vec<&str> = devices.iter().map(|device| text(&device.0)).collect();
    at.sort_unstable();
    paths.sort_unstable();
    assert_eq!(at, paths, "each drive once");
    // The files behind them, and nothing else.
    let of_files = scanned(&[text(scratch.path())]).expect("scan finds the files");
    assert!(of_files["drives"][0]["path"].as_str().unwrap().ends_with("own0"), "{of_files:#}");
    assert_ends(&ask(&["assemble", text(&new)]), 6, &["no drive", "--array", "zoneweave scan"]);
    let assemble = ["assemble", text(&new), "--array", &uuid];
    assert_ends(&ask(&assemble), 0, &["4 of 4 drives"]);
    let server = Server::serve(&new);
    assert_sevens(&server);
    assert_ends(&ask(&assemble), 5, &["served"]);
    server.stop();
    // One is missing, then two are.
    let [first, second, third, fourth] = <[Loop; 4]>::try_from(devices).ok().unwrap();
    drop(fourth);
    std::fs::remove_file(new.join("array.toml")).unwrap();
    assert_ends(&ask(&assemble), 3, &["3 of 4 drives", "drive 3 was not found"]);
    drop(third);
    std::fs::remove_file(new.join("array.toml")).unwrap();
    assert_ends(&ask(&assemble), 4, &["too few", "drive 2", "drive 3", "nothing was written"]);
    assert!(!new.join("array.toml").exists());
    // Named ones only: the others are not looked for.
    let named = format!("{},{}", text(&first.0), text(&second.0));
    assert_ends(&ask(&["assemble", text(&new), "--drives-path", &named]), 4, &["too few"]);
    // A directory of another array.
    let other = scratch.join("other");
    ask(&["create", text(&other), "--size", "64MiB"]).expect("create");
    let _all = attach(&own[2..]).unwrap();
    let kept = array_toml(&other);
    assert_ends(&ask(&["assemble", text(&other), "--array", &uuid]), 2, &["another directory"]);
    assert_eq!(array_toml(&other), kept);
}

/// Files on one file system may be members of one array; `status` says so. Emulated drives are for trying things.
#[test]
fn members_on_one_disk_are_named() {
    let scratch = Scratch::new("shared");
    let raw: Vec<String> =
        disks(&scratch, "own", 3).iter().map(|path| format!("raw:{}", text(path))).collect();
    let (dir, emulated) = (scratch.join("array"), scratch.join("emulated"));
    create(&dir, &raw.join(","));
    let report = status(&dir);
    assert_eq!(report["shared"][0]["drives"], serde_json::json!([0, 1, 2]), "{report:#}");
    assert_eq!(report["members"][0]["kind"], "raw-file", "{report:#}");
    assert!(ask(&["status", text(&dir)]).stdout.contains("holds drives 0, 1, 2"));
    ask(&["create", text(&emulated), "--size", "64MiB"]).expect("create");
    assert_eq!(status(&emulated)["shared"], serde_json::json!([]));
}
