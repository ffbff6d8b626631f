//! `zoneweave lab run exp11 exp12`: real software on the wall clock, and nothing of it left behind.

use crate::support::run::{SOON, command, run_for, until, wait_for};
use crate::support::scratch::Scratch;
use crate::support::server::zoneweave;
use crate::support::text;
use lab::experiment::{self, Conditions};
use lab::wall::Host;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Longest time for a cell at a small scale, on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);

/// Returns true when an experiment can be run here; says why not.
fn can_run(id: &str) -> bool {
    let asked = experiment::named(&[id.to_owned()]).unwrap();
    let programs: Vec<&str> = experiment::programs(&asked).iter().map(|program| program.name).collect();
    if !crate::support::is_root() {
        return crate::support::skip("attaching and mounting need root");
    }
    crate::support::have(&programs)
}

/// The first cell: what it measures is there, and nothing is mounted, attached or running afterwards.
fn measures_one_cell(id: &str, metrics: &[&str]) {
    if !can_run(id) {
        return;
    }
    let scratch = Scratch::new("wall");
    let binary = PathBuf::from(env!("CARGO_BIN_EXE_zoneweave"));
    let asked = experiment::named(&[id.to_owned()]).unwrap();
    let programs = experiment::programs(&asked);
    let host = Host::new(binary, scratch.path(), &programs, Arc::new(AtomicBool::new(false))).unwrap();
    let cell = &(asked[0].cells)()[0];
    let conditions = Conditions { seed: 1, scale: 0.05, traces: &[], host: Some(&host) };
    let values = (asked[0].measure)(cell, conditions).unwrap();
    let measured: Vec<&str> = values.iter().map(|value| value.metric.name).collect();
    assert!(metrics.iter().all(|metric| measured.contains(metric)), "{measured:?}");
    assert!(values.iter().all(|value| value.value > 0.0), "{values:?}");
    drop(host);
    assert_nothing_left(scratch.path());
}

#[track_caller]
fn assert_nothing_left(scratch: &Path) {
    let left: Vec<_> = std::fs::read_dir(scratch).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
    assert!(!mounts.contains(text(scratch)), "still mounted:\n{mounts}");
    let processes = run_for(SOON, command("ps").args(["-eo", "args"])).expect("ps");
    let ours: Vec<&str> = processes.lines().filter(|line| line.contains(text(scratch))).collect();
    assert!(ours.is_empty(), "still running: {ours:?}");
}

#[test]
fn files_are_written_on_a_served_volume() {
    let metrics = [
        "write_throughput_mib_s",
        "served_write_throughput_mib_s",
        "modelled_write_throughput_mib_s",
        "server_processor_percent",
        "machine_processor_percent",
    ];
    measures_one_cell("exp11", &metrics);
}

/// Skipped without the database even where other tools are demanded: a test should not install a service.
#[test]
fn a_database_runs_on_a_served_volume() {
    if !lab::wall::database::PROGRAMS.iter().all(|program| program.is_here()) {
        println!("skipped: no MariaDB server (Debian: apt-get install mariadb-server)");
        return;
    }
    measures_one_cell("exp12", &["transactions_per_s", "p95_latency_us"]);
}

/// Ctrl-C while a file system is mounted.
#[test]
fn an_interrupted_run_leaves_nothing_behind() {
    if !can_run("exp11") {
        return;
    }
    let scratch = Scratch::new("wall-stop");
    let mut lab = zoneweave();
    lab.args(["lab", "run", "exp11", "--seeds", "1", "--scale", "0.05", "--scratch", text(scratch.path())]);
    lab.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let mut lab = lab.spawn().unwrap();
    let is_mounted = || {
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
        mounts.lines().any(|line| line.contains(text(scratch.path())) && line.contains("ext4"))
    };
    let came = until(LIMIT, || is_mounted() || lab.try_wait().unwrap().is_some());
    assert!(came && is_mounted(), "nothing was mounted: {:?}", lab.try_wait());
    // As a terminal does: to the whole process group.
    let group = format!("-{}", lab.id());
    run_for(SOON, command("kill").args(["-INT", "--", &group])).expect("kill -INT");
    let status = wait_for(LIMIT, &mut lab).expect("it ends");
    assert_eq!(status.code(), Some(4));
    assert_nothing_left(scratch.path());
}

#[test]
fn what_is_missing_is_named_with_its_package() {
    let scratch = Scratch::new("wall-missing");
    let mut lab = zoneweave();
    lab.args(["lab", "run", "exp12", "exp11", "--scratch", text(scratch.path())]).env("PATH", "/nowhere");
    let ran = run_for(SOON, &mut lab);
    assert_eq!(ran.code(), Some(4), "{ran}");
    for words in ["sysbench", "fio", "apt-get install", "mariadb-server"] {
        assert!(ran.stderr.contains(words), "{words}: {ran}");
    }
    assert_nothing_left(scratch.path());
}

#[test]
fn too_little_room_is_said_before_anything_begins() {
    if !can_run("exp11") {
        return;
    }
    let mut lab = zoneweave();
    lab.args(["lab", "run", "exp11", "--scratch", "/proc"]);
    let ran = run_for(SOON, &mut lab);
    assert_eq!(ran.code(), Some(4), "{ran}");
    assert!(ran.stderr.contains("--scratch /proc") && ran.stderr.contains("MiB are free"), "{ran}");
}
