//! NVMe drives that are yanked out of a machine under load. One comes back under another name and keeps its place; another one comes
//! back too late, and is caught up; a third one never does, and a spare steps in. No client sees an error. `cargo xtask guest` runs it.
//!
//! ```text
//!   yanked ──> waited for ──> back: what was in flight is settled
//!                 │ patience is over
//!                 └──> failed ──> back: caught up by itself
//!                          └────> a spare: rebuilt, and what comes back then is refused
//! ```

#![allow(clippy::unwrap_used)]

mod support;

use base::random::Random;
use std::path::{Path, PathBuf};
use std::time::Duration;
use support::machine::{Inside, Kernel, is_asked_for, is_inside, run_inside};
use support::nvme::{self, Monitor, controller_of, drive_of, is_stalled, node, pull, put_back};
use support::reader::Load;
use support::scratch::Scratch;
use support::server::{Server, ask, assert_clean, let_run, status, wait_until};
use support::writer::Oracle;
use support::{random, text};

/// Drives of an array.
const MEMBERS: usize = 4;
/// And one to step in.
const DRIVES: usize = MEMBERS + 1;
/// Small: each is caught up, rebuilt and checked as a whole.
const DRIVE_BYTES: u64 = 256 << 20;

/// Bytes that a drive moves in a second which has commands in flight when it is yanked.
const SLOW: u64 = 256 << 10;

/// Sparse, and cut into zones of 64 MiB.
const DISK_BYTES: u64 = 4 << 30;

/// Runs a test in a machine with drives of this format.
fn run_with_drives(name: &str, bytes: u64, format: &str) {
    let scratch = Scratch::new("yank");
    let drive = |index| nvme::drive(scratch.path(), index, bytes, format);
    let devices = (0..DRIVES).flat_map(drive).chain(nvme::monitor(scratch.path())).collect();
    run_inside(
        &scratch,
        Inside {
            name,
            kernel: Kernel::Current,
            devices,
            // What a drive does not answer is cut off after a second, and not after half a minute.
            modules: "nvme_core:io_timeout=1 nvme",
            programs: &[],
            prepare: &format!("{}; {}", nvme::wait_for(DRIVES), nvme::MONITOR_LINE),
        },
    );
}

#[test]
fn yanked_drives_cost_no_client_an_error() {
    if is_inside() {
        live();
    } else if is_asked_for(Kernel::Current, &[]) {
        let format = format!("{},{}", nvme::WITH_METADATA, nvme::ZONED);
        run_with_drives("yanked_drives_cost_no_client_an_error", DRIVE_BYTES, &format);
    }
}

/// Format of drives without metadata.
const PLAIN: &str = "logical_block_size=4096,physical_block_size=4096";

/// Identities lie in-band, and the kernel says EIO of whatever a yanked drive had.
#[test]
fn yanked_drives_without_metadata_keep_their_places() {
    if is_inside() {
        plain();
    } else if is_asked_for(Kernel::Current, &[]) {
        let format = format!("{PLAIN},{}", nvme::ZONED);
        run_with_drives("yanked_drives_without_metadata_keep_their_places", DRIVE_BYTES, &format);
    }
}

/// Drives have no zones, and a volatile cache, which QEMU does not lose.
#[test]
fn yanked_drives_without_zones_keep_their_places() {
    if is_inside() {
        plain();
    } else if is_asked_for(Kernel::Current, &[]) {
        run_with_drives("yanked_drives_without_zones_keep_their_places", DISK_BYTES, PLAIN);
    }
}

/// Drives that are block devices come back in time.
fn plain() {
    let mut random = random(64);
    let dir = create(|controller| format!("/dev/nvme{controller}n1"));
    let mut oracle = Oracle::new();
    in_time(&dir, &mut oracle, &mut random);
    // Its data are needed.
    let server = Server::serve(&dir);
    ask(&["drive", "fail", text(&dir), "2"]).expect("fail");
    oracle.verify(&server);
    server.stop();
}

/// Makes an array of the first drives, by the nodes of their controllers.
fn create(node_of: impl Fn(usize) -> String) -> PathBuf {
    let dir = PathBuf::from("/tmp/array");
    let nodes: Vec<String> = (0..MEMBERS).map(node_of).collect();
    ask(&["create", text(&dir), "--drives-path", &nodes.join(","), "--size", "128MiB"]).expect("create");
    dir
}

fn live() {
    let mut random = random(26);
    let dir = create(|controller| text(&node(controller)).to_owned());
    let mut oracle = Oracle::new();
    in_time(&dir, &mut oracle, &mut random);
    too_late(&dir, &mut oracle, &mut random);
    never(&dir, &mut oracle, &mut random);
    assert_clean(&dir);
}

/// A drive is yanked again and again, with commands in flight, and comes back under another name. It keeps its place.
fn in_time(dir: &Path, oracle: &mut Oracle, random: &mut Random) {
    let server = Server::serve(dir);
    let mut monitor = Monitor::new();
    let load = Load::begin(&server, oracle, random);
    let before = status(dir)["retired_zones"].clone();
    for round in 0..3 {
        let path = || status(dir)["members"][1]["path"].clone();
        let (controller, old) = (controller_of(dir, 1), path());
        let drive = drive_of(controller);
        if round > 0 {
            monitor.throttle(drive, SLOW);
            let_run(Duration::from_millis(300));
        }
        pull(controller);
        monitor.throttle(drive, 0);
        wait_until(dir, &server, "it is missed", || is_stalled(dir, 1));
        let_run(Duration::from_millis(random.below(2000)));
        put_back(DRIVES);
        let is_back = || status(dir)["members"][1]["state"] == "active";
        wait_until(dir, &server, "it is back", is_back);
        wait_until(dir, &server, "it has another name", || path() != old);
    }
    let after = status(dir);
    let log = server.log();
    assert_eq!((&after["state"], &after["retired_zones"]), (&"clean".into(), &before), "{after:#}\n{log}");
    assert!(after["members"][1]["hiccups"].as_u64().unwrap() >= 3, "{after:#}\n{log}");
    assert!(!log.contains("drive 1 is there again"), "it was a member all the time: {log}");
    log.lines().filter(|line| line.contains(" is back after ")).for_each(|line| println!("- {line}"));
    load.kill(server, oracle, "yanked three times and back in time");
    let server = Server::serve(dir);
    oracle.verify(&server);
    server.stop();
    assert_clean(dir);
}

/// A drive comes back when nobody waits for it any more, and is caught up without being asked for. Another one is failed then, so
/// that its data are needed.
fn too_late(dir: &Path, oracle: &mut Oracle, random: &mut Random) {
    let server = Server::serve_with(dir, &["--drive-patience", "2"]);
    oracle.verify(&server);
    let load = Load::begin(&server, oracle, random);
    pull(controller_of(dir, 2));
    wait_until(dir, &server, "it is missed", || is_stalled(dir, 2));
    wait_until(dir, &server, "it is failed", || status(dir)["state"] == "degraded");
    let_run(Duration::from_secs(1));
    put_back(DRIVES);
    wait_until(dir, &server, "it is caught up", || {
        status(dir)["state"] == "clean" && server.log().contains("drive 2 is back")
    });
    let log = server.log();
    log.lines().filter(|line| line.contains(" is back: ")).for_each(|line| println!("- {line}"));
    load.kill(server, oracle, "yanked, failed and caught up");
    let server = Server::serve(dir);
    ask(&["drive", "fail", text(dir), "0"]).expect("fail");
    oracle.verify(&server);
    ask(&["drive", "re-add", text(dir), "0", "--wait"]).expect("re-add");
    server.stop();
    assert_clean(dir);
}

/// A drive does not come back, and a spare takes its place under load. While that is rebuilt another member is yanked, waited for and
/// put back; the drive that was replaced is there again by then, too, and is none of the array.
fn never(dir: &Path, oracle: &mut Oracle, random: &mut Random) {
    // A drive that is put back is there after seconds on a busy host.
    let server = Server::serve_with(dir, &["--drive-patience", "15"]);
    oracle.verify(&server);
    let stand_in = (0..).find(|number| drive_of_node(*number) == Some(MEMBERS)).unwrap();
    ask(&["drive", "add-spare", text(dir), text(&node(stand_in))]).expect("add-spare");
    let load = Load::begin(&server, oracle, random);
    pull(controller_of(dir, 3));
    wait_until(dir, &server, "it is missed", || is_stalled(dir, 3));
    let steps_in = || server.log().contains("a spare takes its place");
    wait_until(dir, &server, "the spare steps in", steps_in);
    pull(controller_of(dir, 0));
    wait_until(dir, &server, "another one is missed", || is_stalled(dir, 0));
    let_run(Duration::from_secs(1));
    put_back(DRIVES);
    wait_until(dir, &server, "it is rebuilt", || status(dir)["state"] == "clean");
    assert_eq!(controller_of(dir, 3), stand_in, "{:#}", status(dir));
    // Long enough for a drive that may come back to be taken in.
    let_run(Duration::from_secs(4));
    let now = status(dir);
    assert_eq!(now["state"], "clean", "{now:#}\n{}", server.log());
    assert_eq!(controller_of(dir, 3), stand_in, "{now:#}");
    load.kill(server, oracle, "yanked for ever, a spare stepped in");
    let server = Server::serve(dir);
    oracle.verify(&server);
    assert_eq!(controller_of(dir, 3), stand_in, "{:#}", status(dir));
    ask(&["drive", "fail", text(dir), "1"]).expect("fail");
    oracle.verify(&server);
    ask(&["drive", "re-add", text(dir), "1", "--wait"]).expect("re-add");
    server.stop();
}

/// The drive of a controller of this number, if it is there.
fn drive_of_node(controller: usize) -> Option<usize> {
    node(controller).exists().then(|| drive_of(controller))
}
