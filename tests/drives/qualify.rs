//! `zoneweave drive qualify` on drives of files; tests/zns.rs has NVMe ones.

use crate::support::run::{Finished, SOON, run_for};
use crate::support::scratch::Scratch;
use crate::support::server::{Server, zoneweave};
use crate::support::text;
use serde_json::Value;
use std::path::Path;

fn qualify(path: &str, more: &[&str]) -> Finished {
    run_for(SOON, zoneweave().args(["drive", "qualify", path, "--steps", "500"]).args(more))
}

fn create_drive(path: &Path) {
    let made = run_for(
        SOON,
        zoneweave().args([
            "drive",
            "create",
            text(path),
            "--zones",
            "20",
            "--zone-capacity",
            "1MiB",
            "--max-open",
            "4",
        ]),
    );
    assert_eq!(made.code(), Some(0), "{made}");
}

#[track_caller]
fn expect_passed(qualified: &Finished) {
    assert_eq!(qualified.code(), Some(0), "{qualified}");
    let report: Value = serde_json::from_str(&qualified.stdout).unwrap();
    assert_eq!(report["passed"], true, "{report:#}");
    assert_eq!(report["checks"].as_array().unwrap().len(), 7, "{report:#}");
    assert!(report["traits"]["write_us"].as_f64().unwrap() > 0.0, "{report:#}");
}

#[test]
fn emulated_drives_pass_and_are_left_empty() {
    let scratch = Scratch::new("qualify");
    let path = scratch.join("drive");
    create_drive(&path);
    for seed in ["1", "2"] {
        expect_passed(&qualify(text(&path), &["--destroy", "--json", "--seed", seed]));
    }
    let shown = qualify(text(&path), &["--destroy"]);
    assert!(shown.stdout.contains("random walk") && shown.stdout.ends_with("passed\n"), "{shown}");
}

#[test]
fn devices_that_are_cut_into_zones_pass() {
    let scratch = Scratch::new("qualify");
    let path = scratch.join("disk");
    std::fs::File::create(&path).unwrap().set_len(1 << 30).unwrap();
    let raw = format!("raw:{}", text(&path));
    expect_passed(&qualify(&raw, &["--destroy", "--json"]));
    // It is no drive any more, so that it may be used again.
    expect_passed(&qualify(&raw, &["--destroy", "--json"]));
}

#[test]
fn what_holds_something_is_not_destroyed() {
    let scratch = Scratch::new("qualify");
    let path = scratch.join("drive");
    create_drive(&path);
    assert_eq!(qualify(text(&path), &[]).code(), Some(2));
    assert_eq!(qualify(text(&scratch.join("none")), &["--destroy"]).code(), Some(6));
    assert_eq!(qualify(text(&path), &["--destroy", "--ignore-quirks"]).code(), Some(2));
    let dir = scratch.join("array");
    let server = Server::up(&dir, &["--size", "64MiB"]);
    let member = dir.join("drive-1.zns");
    let refused = qualify(text(&member), &["--destroy"]);
    assert_eq!(refused.code(), Some(4), "{refused}");
    assert!(refused.stderr.contains("is a drive of array"), "{refused}");
    server.stop();
    let file = scratch.join("file");
    std::fs::write(&file, "something").unwrap();
    let refused = qualify(text(&file), &["--destroy"]);
    assert_eq!(refused.code(), Some(4), "{refused}");
    assert_eq!(std::fs::read(&file).unwrap(), b"something");
}
