//! An array whose drives are polled for their answers (`serve --poll`): QEMU's NVMe drives, whose driver has queues for that.
//! `cargo xtask guest` runs it. The kernel is a newer one: Linux 6.1 crashes when such a server is killed.
//!
//! ```text
//!   here: boots a machine with this program in it ──> there: create, serve polled, write, kill, pull a drive, put it back, verify
//! ```

#![allow(clippy::unwrap_used)]

mod support;

use rustix::fs::OFlags;
use serde_json::Value;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use support::machine::{Inside, Kernel, is_asked_for, is_inside, run_inside};
use support::scratch::Scratch;
use support::server::{Server, ask, let_run, refused, status, wait_until};
use support::writer::Oracle;
use support::{nvme, random, text};

const DRIVES: usize = 4;

/// Most calls of the kernel for a drive in a second without requests.
const IDLE_CALLS_MAX: u64 = 200;

#[test]
fn an_array_whose_drives_are_polled_survives() {
    if is_inside() {
        return live();
    }
    if !is_asked_for(Kernel::V6_12, &[]) {
        return;
    }
    let scratch = Scratch::new("polled");
    let format = format!("{},{}", nvme::WITH_METADATA, nvme::ZONED);
    let drive = |index| nvme::drive(scratch.path(), index, 512 << 20, &format);
    let devices = (0..DRIVES).flat_map(drive).collect();
    let (name, modules) = ("an_array_whose_drives_are_polled_survives", "nvme:poll_queues=2");
    let prepare = &nvme::wait_for(DRIVES);
    run_inside(&scratch, Inside { name, kernel: Kernel::V6_12, devices, modules, programs: &[], prepare });
}

#[test]
fn emulated_drives_cannot_be_polled() {
    let scratch = Scratch::new("unpolled");
    let dir = scratch.join("array");
    ask(&["create", text(&dir), "--size", "64MiB"]).expect("create");
    // Or the kernel is too old.
    refused(&["serve", text(&dir), "--poll"], 2, "--poll");
    Server::serve(&dir).stop();
    let none = scratch.join("none");
    refused(&["up", "--dir", text(&none), "--size", "64MiB", "--poll"], 2, "--poll");
    assert!(!none.exists(), "nothing is made that cannot be served so");
}

fn kernel_calls(dir: &Path) -> Vec<Value> {
    let members = status(dir)["members"].as_array().unwrap().clone();
    members.iter().map(|member| member["kernel_calls"].clone()).collect()
}

fn live() {
    let mut random = random(93);
    let nodes = (0..DRIVES).map(|index| text(&nvme::node(index)).to_owned()).collect::<Vec<_>>();
    let dir = PathBuf::from("/tmp/array");
    ask(&["create", text(&dir), "--drives-path", &nodes.join(",")]).expect("create");
    let mut oracle = Oracle::new();
    for _ in 0..2 {
        let server = Server::serve_with(&dir, &["--poll"]);
        oracle.verify(&server);
        oracle.write_and_kill(server, &mut random);
    }
    let server = Server::serve_with(&dir, &["--poll"]);
    oracle.verify(&server);
    let writers = oracle.write(&server, &mut random);
    let controller = nvme::controller_of(&dir, 1);
    nvme::pull(controller);
    wait_until(&dir, &server, "a drive that is away", || nvme::is_stalled(&dir, 1));
    nvme::put_back(DRIVES);
    wait_until(&dir, &server, "a drive that is back", || !nvme::is_stalled(&dir, 1));
    let_run(Duration::from_secs(1));
    println!("- {} requests, one drive pulled and put back", oracle.end(writers));
    // Its nodes have other numbers than before, and numbers of their own.
    let at = PathBuf::from(status(&dir)["members"][1]["path"].as_str().unwrap());
    let block = drive::nvme::node::block_node(text(&at).strip_prefix("/dev/").unwrap()).unwrap();
    let open =
        std::fs::File::options().read(true).custom_flags(OFlags::EXCL.bits().cast_signed()).open(&block);
    assert_eq!(
        open.unwrap_err().kind(),
        std::io::ErrorKind::ResourceBusy,
        "{} of {}",
        text(&block),
        text(&at)
    );
    println!("- it is {} and {} now, and held", text(&at), text(&block));
    oracle.verify(&server);

    // Without requests nobody asks, and the processor sleeps.
    let before = kernel_calls(&dir);
    let_run(Duration::from_secs(2));
    for (before, after) in before.iter().zip(kernel_calls(&dir)) {
        assert_eq!(after["polled"], true, "{after}");
        let idle = after["calls"].as_u64().unwrap() - before["calls"].as_u64().unwrap();
        assert!(idle <= 2 * IDLE_CALLS_MAX, "{idle} calls in 2 s without requests: {before} {after}");
    }
    println!("- {}", before[0]);
    server.stop();

    let server = Server::serve(&dir);
    oracle.verify(&server);
    assert!(kernel_calls(&dir).iter().all(|calls| calls["polled"] == false));
    println!("- with interrupts: {}", kernel_calls(&dir)[0]);
    server.stop();
}
