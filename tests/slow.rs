//! An NVMe drive that answers too late: the kernel begins to give its commands up, which are carried out all the same. No client sees an
//! error, the member keeps its place, and nothing is lost or done twice. `cargo xtask guest` runs it.
//!
//! ```text
//!   throttled ──> limit of the server: stalled ──> no longer throttled: all is answered, late
//!             └─> timeout of the kernel: it aborts, which QEMU does not do
//! ```
//! The reset of the controller, which is what the kernel does after one more timeout, is not waited for: tests/zns.rs resets one.

#![allow(clippy::unwrap_used)]

mod support;

use base::random::Random;
use std::path::{Path, PathBuf};
use std::time::Duration;
use support::machine::{Inside, Kernel, is_asked_for, is_inside, run_inside};
use support::nvme::{self, Monitor, controller_of, drive_of, is_stalled, node};
use support::reader::Load;
use support::scratch::Scratch;
use support::server::{Server, ask, assert_clean, let_run, status, wait_until};
use support::writer::Oracle;
use support::{random, text};

const DRIVES: usize = 4;
const DRIVE_BYTES: u64 = 512 << 20;

/// Seconds after which the kernel aborts a command; after as many again it resets the controller.
const TIMEOUT: u64 = 2;

/// Bytes that a drive moves in a second which answers too late: what it has in flight takes longer than the kernel waits.
const SLOW: u64 = 16 << 10;

#[test]
fn a_drive_that_answers_too_late_keeps_its_place() {
    if is_inside() {
        live();
    } else if is_asked_for(Kernel::Current, &[]) {
        let scratch = Scratch::new("slow");
        let format = format!("{},{}", nvme::WITH_METADATA, nvme::ZONED);
        let drive = |index| nvme::drive(scratch.path(), index, DRIVE_BYTES, &format);
        let devices = (0..DRIVES).flat_map(drive).chain(nvme::monitor(scratch.path())).collect();
        run_inside(
            &scratch,
            Inside {
                name: "a_drive_that_answers_too_late_keeps_its_place",
                kernel: Kernel::Current,
                devices,
                modules: &format!("nvme_core:io_timeout={TIMEOUT} nvme"),
                programs: &[],
                prepare: &format!("{}; {}", nvme::wait_for(DRIVES), nvme::MONITOR_LINE),
            },
        );
    }
}

fn live() {
    let mut random = random(26);
    let dir = PathBuf::from("/tmp/array");
    let nodes: Vec<String> = (0..DRIVES).map(|index| text(&node(index)).to_owned()).collect();
    ask(&["create", text(&dir), "--drives-path", &nodes.join(","), "--size", "256MiB"]).expect("create");
    let mut oracle = Oracle::new();
    let mut monitor = Monitor::new();
    late(&dir, &mut monitor, &mut oracle, &mut random);
    let default = TIMEOUT.to_string();
    timed_out(&dir, &["--drive-timeout", &default], 1, (&mut monitor, &mut oracle), &mut random);
    // Its data are needed.
    let server = Server::serve(&dir);
    ask(&["drive", "fail", text(&dir), "2"]).expect("fail");
    oracle.verify(&server);
    server.stop();
}

/// A drive answers nothing for so long that the kernel begins to abort, and then all: that is nothing but late.
fn late(dir: &Path, monitor: &mut Monitor, oracle: &mut Oracle, random: &mut Random) {
    let server = Server::serve(dir);
    let load = Load::begin(&server, oracle, random);
    let drive = drive_of(controller_of(dir, 0));
    monitor.throttle(drive, 256);
    let_run(Duration::from_millis(TIMEOUT * 1500));
    monitor.throttle(drive, 0);
    let_run(Duration::from_secs(1));
    let now = status(dir);
    assert_eq!(now["state"], "clean", "{now:#}\n{}", server.log());
    load.kill(server, oracle, "late");
    let server = Server::serve(dir);
    oracle.verify(&server);
    server.stop();
    assert_clean(dir);
}

/// A drive answers nothing for as long as `--drive-timeout`, which is the timeout of the kernel, and then all.
fn timed_out(
    dir: &Path,
    options: &[&str],
    member: usize,
    (monitor, oracle): (&mut Monitor, &mut Oracle),
    random: &mut Random,
) {
    let server = Server::serve_with(dir, options);
    oracle.verify(&server);
    let load = Load::begin(&server, oracle, random);
    let before = status(dir)["retired_zones"].clone();
    for round in 1..=2 {
        let drive = drive_of(controller_of(dir, member));
        monitor.throttle(drive, SLOW);
        wait_until(dir, &server, "it is away", || is_stalled(dir, member));
        monitor.throttle(drive, 0);
        wait_until(dir, &server, "it is back", || {
            let now = &status(dir)["members"][member];
            now["state"] == "active" && now["hiccups"].as_u64().unwrap() >= round
        });
        let_run(Duration::from_secs(1));
    }
    let after = status(dir);
    let log = server.log();
    assert_eq!((&after["state"], &after["retired_zones"]), (&"clean".into(), &before), "{after:#}\n{log}");
    assert!(!log.contains("is there again"), "it was a member all the time: {log}");
    log.lines().filter(|line| line.contains(" is back after ")).for_each(|line| println!("- {line}"));
    load.kill(server, oracle, "not answered in time twice");
    let server = Server::serve(dir);
    oracle.verify(&server);
    server.stop();
    assert_clean(dir);
}
