//! Blocks of an NVMe drive with zones that cannot be read any more (QEMU's blkdebug): what they held is decoded, and written elsewhere by a
//! scrub; the member keeps its place, and no client sees an error. `cargo xtask guest` runs it.
//!
//! ```text
//!   written ──> blocks of one drive spoilt ──> read: decoded ──> scrub: moved ──> another drive fails: all is there
//!   load ──> spoilt under it, killed, mounted with blocks that cannot be read
//! ```

#![allow(clippy::unwrap_used)]

mod support;

use base::random::Random;
use std::path::{Path, PathBuf};
use std::time::Duration;
use support::machine::{Inside, Kernel, is_asked_for, is_inside, run_inside};
use support::nvme::{self, Monitor, controller_of, drive_of, node};
use support::reader::Load;
use support::run::{SOON, command, run_for};
use support::scratch::Scratch;
use support::server::{Server, ask, assert_clean, let_run, status, zoneweave};
use support::writer::Oracle;
use support::{random, text};

const DRIVES: usize = 4;
const DRIVE_BYTES: u64 = 512 << 20;
const ZONE_BLOCKS: u64 = 4096;

/// Zones of superblocks, which are not spoilt: their newest record is of one copy on each drive.
const KEPT_ZONES: u64 = 4;

/// Spoilt blocks of each zone that holds something.
const SPOILT_OF_ZONE: u64 = 3;

/// The drive whose blocks are spoilt.
const MEMBER: usize = 1;

#[test]
fn blocks_that_cannot_be_read_cost_no_member_its_place() {
    if is_inside() {
        live();
    } else if is_asked_for(Kernel::Current, &["blkzone"]) {
        let scratch = Scratch::new("media");
        let format = format!("{},{}", nvme::WITH_METADATA, nvme::ZONED);
        let drive = |index| nvme::drive(scratch.path(), index, DRIVE_BYTES, &format);
        let devices = (0..DRIVES).flat_map(drive).chain(nvme::monitor(scratch.path())).collect();
        run_inside(
            &scratch,
            Inside {
                name: "blocks_that_cannot_be_read_cost_no_member_its_place",
                kernel: Kernel::Current,
                devices,
                modules: "nvme",
                programs: &["blkzone"],
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
    at_rest(&dir, &mut monitor, &mut oracle, &mut random);
    under_load(&dir, &mut monitor, &mut oracle, &mut random);
}

/// Spoils blocks in all zones of a member that hold something; returns how many.
fn spoil(dir: &Path, monitor: &mut Monitor, random: &mut Random) -> usize {
    let controller = controller_of(dir, MEMBER);
    let disk = format!("/dev/nvme{controller}n1");
    let report = run_for(SOON, command("blkzone").args(["report", &disk])).expect("blkzone");
    let mut blocks = Vec::new();
    for (zone, line) in (0..).zip(report.lines()).skip(usize::try_from(KEPT_ZONES).unwrap()) {
        let written = line.split("wptr 0x").nth(1).and_then(|rest| rest.split_whitespace().next());
        let written = u64::from_str_radix(written.unwrap(), 16).unwrap() / 8;
        let is_empty = line.contains("zcond: 1(em)");
        let end = if line.contains("zcond:14(fu)") { 12 << 8 } else { written };
        if !is_empty && end > 0 {
            blocks.extend((0..SPOILT_OF_ZONE).map(|_| zone * ZONE_BLOCKS + random.below(end)));
        }
    }
    blocks.sort_unstable();
    blocks.dedup();
    monitor.spoil(drive_of(controller), &blocks);
    blocks.len()
}

/// The member is one, and nothing is lost.
#[track_caller]
fn assert_kept(dir: &Path, server: &Server) {
    let now = status(dir);
    let member = &now["members"][MEMBER];
    assert_eq!(
        (&member["state"], &now["lost_blocks"]),
        (&"active".into(), &0.into()),
        "{now:#}\n{}",
        server.log()
    );
}

fn corrected(dir: &Path) -> u64 {
    status(dir)["corrected_errors"].as_u64().unwrap()
}

/// Blocks that nobody writes any more are spoilt, read, and moved; without another drive, they are there.
fn at_rest(dir: &Path, monitor: &mut Monitor, oracle: &mut Oracle, random: &mut Random) {
    let server = Server::serve(dir);
    let writers = oracle.write(&server, random);
    let_run(Duration::from_secs(3));
    println!("- {} acknowledged requests", oracle.end(writers));
    server.client().flush().unwrap();
    let spoilt = spoil(dir, monitor, random);
    oracle.verify(&server);
    let decoded = corrected(dir);
    assert!(decoded > 0, "of {spoilt} spoilt blocks none was read: {:#}", status(dir));
    assert_kept(dir, &server);
    let scrubbed = run_for(SOON * 2, zoneweave().args(["scrub", text(dir), "--repair"]));
    assert_eq!(scrubbed.code(), Some(0), "{scrubbed}");
    assert_kept(dir, &server);
    println!("- {spoilt} blocks spoilt, {decoded} decoded by reads, {} with the scrub", corrected(dir));
    let before = corrected(dir);
    oracle.verify(&server);
    assert_eq!(corrected(dir), before, "what was moved is read where it is now");
    // Nothing is left to decode a spoilt block from.
    ask(&["drive", "fail", text(dir), "2"]).expect("fail");
    oracle.verify(&server);
    monitor.unspoil(drive_of(controller_of(dir, MEMBER)));
    ask(&["drive", "re-add", text(dir), "2", "--wait"]).expect("re-add");
    server.stop();
    assert_clean(dir);
}

/// Blocks are spoilt while clients read and write; the server is killed, and mounts what can be read.
fn under_load(dir: &Path, monitor: &mut Monitor, oracle: &mut Oracle, random: &mut Random) {
    let server = Server::serve(dir);
    let load = Load::begin(&server, oracle, random);
    let_run(Duration::from_secs(2));
    let spoilt = spoil(dir, monitor, random);
    let_run(Duration::from_secs(4));
    assert_kept(dir, &server);
    load.kill(server, oracle, &format!("{spoilt} blocks spoilt"));
    let server = Server::serve(dir);
    assert_kept(dir, &server);
    oracle.verify(&server);
    let scrubbed = run_for(SOON * 2, zoneweave().args(["scrub", text(dir), "--repair"]));
    assert_eq!(scrubbed.code(), Some(0), "{scrubbed}");
    assert_kept(dir, &server);
    println!("- mounted and scrubbed beside them, {} blocks decoded", corrected(dir));
    monitor.unspoil(drive_of(controller_of(dir, MEMBER)));
    server.stop();
    assert_clean(dir);
}
