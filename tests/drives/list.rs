//! `zoneweave drive list` on the block devices of this host, and on a loop device where one can be had.

use crate::support::loop_device::Loop;
use crate::support::run::{SOON, run_for};
use crate::support::scratch::Scratch;
use crate::support::server::zoneweave;
use crate::support::text;
use serde_json::Value;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

fn listed() -> Vec<Value> {
    let ran = run_for(SOON, zoneweave().args(["drive", "list", "--json"]));
    assert_eq!(ran.code(), Some(0), "{ran}");
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    report["drives"].as_array().unwrap().clone()
}

#[track_caller]
fn listing(path: &Path) -> Value {
    let found = listed().into_iter().find(|drive| drive["path"] == text(path));
    found.unwrap_or_else(|| panic!("{} is not listed", path.display()))
}

#[test]
fn every_device_has_a_state_and_an_advice() {
    for drive in listed() {
        assert!(drive["size_bytes"].as_u64().unwrap() > 0, "{drive}");
        let states = ["free", "holds", "in-use", "unreadable", "read-only", "unsuited"];
        assert!(states.iter().any(|state| drive["state"] == *state), "{drive}");
        assert!(!drive["advice"].as_str().unwrap().is_empty(), "{drive}");
    }
    let ran = run_for(SOON, zoneweave().args(["drive", "list"]));
    assert_eq!(ran.code(), Some(0), "{ran}");
}

/// A member of an array is none that is free, whichever of its labels is left.
#[test]
fn a_member_of_an_array_is_told_with_its_array() {
    let scratch = Scratch::new("drive-list");
    let files = ["a", "b", "c"].map(|name| scratch.join(name));
    for file in &files {
        std::fs::File::create(file).unwrap().set_len(256 << 20).unwrap();
    }
    let dir = scratch.join("array");
    let paths = files.each_ref().map(|file| format!("raw:{}", file.display())).join(",");
    let fixed = ["--drives-path", &paths, "--zone-size", "4MiB"];
    run_for(SOON, zoneweave().arg("create").arg(&dir).args(fixed)).expect("create");
    let toml = std::fs::read_to_string(dir.join("array.toml")).unwrap();
    let uuid = toml.split("uuid = \"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let Some(disk) = Loop::over(&files[1]) else {
        println!("skipped: there is no loop device to be had");
        return;
    };
    let told = listing(&disk.0);
    assert!(told["state"] == "holds", "{told}");
    assert!(
        told["holds"][0].as_str().unwrap().contains(&format!("drive of Zoneweave, of array {uuid}")),
        "{told}"
    );
    assert!(told["advice"].as_str().unwrap().contains("zoneweave examine"), "{told}");
    std::fs::OpenOptions::new().write(true).open(&disk.0).unwrap().write_all(&[0; 4096]).unwrap();
    let told = listing(&disk.0);
    assert!(told["holds"][0].as_str().unwrap().contains("drive of Zoneweave"), "{told}");
}

#[test]
fn a_device_is_told_by_what_it_holds_and_who_uses_it() {
    let scratch = Scratch::new("drive-list");
    let path = scratch.join("disk");
    let mut file = std::fs::File::create(&path).unwrap();
    file.set_len(8 << 30).unwrap();
    let Some(disk) = Loop::over(&path) else {
        println!("skipped: there is no loop device to be had");
        return;
    };
    let free = listing(&disk.0);
    assert!(free["state"] == "free" && free["kind"] == "loop" && free["size_bytes"] == 8_u64 << 30, "{free}");
    assert!(free["advice"].as_str().unwrap().contains("zoneweave create DIR --drives-path /dev/"), "{free}");
    // Through the device, whose pages the kernel may have read before.
    std::fs::OpenOptions::new().write(true).open(&disk.0).unwrap().write_all(b"XFSB").unwrap();
    let held = listing(&disk.0);
    assert!(held["state"] == "holds" && held["holds"][0].as_str().unwrap().contains("XFS"), "{held}");
    assert!(held["advice"].as_str().unwrap().contains("--force"), "{held}");
    let ran = run_for(SOON, zoneweave().args(["drive", "list"]));
    assert!(ran.stdout.contains("holds a file system (XFS)"), "{ran}");
    drop(disk);
    file.set_len(16 << 20).unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.write_all(&[0; 4]).unwrap();
    let small = Loop::over(&path).unwrap();
    let listed = listing(&small.0);
    assert!(listed["advice"].as_str().unwrap().contains("too small"), "{listed}");
}
