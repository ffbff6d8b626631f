//! Our server and `nbdkit memory` under the same fio jobs, in turn.
//!
//! Both serve a volume that lives in memory over a Unix socket. Ours does RAID-5, CRC, and the
//! bookkeeping that recovery needs; nbdkit's copies. The runs alternate, so that a machine whose
//! speed drifts is fair to both, and medians are compared. The processor time of the server process
//! is read from /proc before and after each run.

use crate::paired::median;
use crate::wall::fio;
use crate::wall::process::{Process, WorkDirectory};
use anyhow::{Result, ensure};
use serde::Serialize;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Options of a comparison.
#[derive(Clone, Debug)]
pub struct NbdCompare {
    /// The zoneweave binary.
    pub binary: PathBuf,
    /// Seconds of each run.
    pub seconds: u32,
    /// Runs of each server.
    pub rounds: u32,
    /// fio's rw.
    pub rw: String,
    /// fio's bs.
    pub bs: String,
    /// fio's iodepth.
    pub iodepth: u32,
    /// Size of the volume.
    pub size_bytes: u64,
}

/// Measurements of one run of one server.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// Requests per second.
    pub iops: f64,
    /// Processor time of the server per request.
    pub cpu_us_per_io: f64,
}

/// Medians of both and their ratio.
#[derive(Clone, Debug, Serialize)]
pub struct NbdCompareReport {
    /// Ours.
    pub iops: f64,
    /// nbdkit's.
    pub peer_iops: f64,
    /// Ours over nbdkit's.
    pub iops_ratio: f64,
    /// Ours.
    pub cpu_us_per_io: f64,
    /// nbdkit's.
    pub peer_cpu_us_per_io: f64,
    /// The job.
    pub rw: String,
    /// The job's block size.
    pub bs: String,
    /// The job's queue depth.
    pub iodepth: u32,
    /// Every run of ours.
    pub runs: Vec<Run>,
    /// Every run of nbdkit's.
    pub peer_runs: Vec<Run>,
}

/// A server being measured.
struct Server {
    process: Process,
    uri: String,
}

/// Runs the comparison; `progress` is told each run as it ends.
///
/// # Errors
/// When fio or nbdkit is missing, or a run fails.
pub fn run(options: &NbdCompare, mut progress: impl FnMut(&str, &Run)) -> Result<NbdCompareReport> {
    ensure!(options.rounds > 0, "--rounds must be at least 1");
    for tool in ["fio", "nbdkit"] {
        let found = Command::new(tool).arg("--version").output();
        ensure!(found.is_ok(), "{tool} is not installed (Debian: apt-get install fio nbdkit)");
    }
    let directory = WorkDirectory::new("compare")?;
    let ours = start_ours(options, directory.path())?;
    let peer = start_nbdkit(options, directory.path())?;
    for server in [&ours, &peer] {
        fill(options, server)?;
    }
    let (mut runs, mut peer_runs) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        for (name, server, runs) in [("zoneweave", &ours, &mut runs), ("nbdkit", &peer, &mut peer_runs)] {
            let run = measure(options, server)?;
            progress(name, &run);
            runs.push(run);
        }
    }
    let (iops, peer_iops) = (median_of(&runs, |run| run.iops), median_of(&peer_runs, |run| run.iops));
    Ok(NbdCompareReport {
        iops,
        peer_iops,
        iops_ratio: iops / peer_iops,
        cpu_us_per_io: median_of(&runs, |run| run.cpu_us_per_io),
        peer_cpu_us_per_io: median_of(&peer_runs, |run| run.cpu_us_per_io),
        rw: options.rw.clone(),
        bs: options.bs.clone(),
        iodepth: options.iodepth,
        runs,
        peer_runs,
    })
}

fn median_of(runs: &[Run], figure: impl Fn(&Run) -> f64) -> f64 {
    median(&runs.iter().map(figure).collect::<Vec<_>>())
}

fn start_ours(options: &NbdCompare, directory: &Path) -> Result<Server> {
    let socket = directory.join("zoneweave.sock");
    let mut command = Command::new(&options.binary);
    command
        .args(["up", "--level", "raid5", "--drives", "4"])
        .arg("--size")
        .arg(options.size_bytes.to_string())
        .arg("--dir")
        .arg(directory.join("array"))
        .arg("--listen")
        .arg(format!("unix:{}", socket.display()))
        .env("RUST_LOG", "warn");
    started(&mut command, &socket)
}

fn start_nbdkit(options: &NbdCompare, directory: &Path) -> Result<Server> {
    let socket = directory.join("nbdkit.sock");
    let mut command = Command::new("nbdkit");
    command.arg("--foreground").arg("--unix").arg(&socket).args(["memory", &options.size_bytes.to_string()]);
    started(&mut command, &socket)
}

fn started(command: &mut Command, socket: &Path) -> Result<Server> {
    let process = Process::serve(command, || UnixStream::connect(socket).is_ok())?;
    Ok(Server { process, uri: format!("nbd+unix:///?socket={}", socket.display()) })
}

/// Writes the whole volume once, so that every run finds all blocks allocated.
fn fill(options: &NbdCompare, server: &Server) -> Result<()> {
    fio::run(
        &server.uri,
        &["--rw=write", "--bs=1m", "--iodepth=8", &format!("--size={}", options.size_bytes)],
    )?;
    Ok(())
}

fn measure(options: &NbdCompare, server: &Server) -> Result<Run> {
    let before = server.process.seconds()?;
    let report = fio::run(
        &server.uri,
        &[
            &format!("--rw={}", options.rw),
            &format!("--bs={}", options.bs),
            &format!("--iodepth={}", options.iodepth),
            &format!("--size={}", options.size_bytes),
            "--time_based",
            &format!("--runtime={}", options.seconds),
        ],
    )?;
    let cpu = server.process.seconds()? - before;
    let job = &report["jobs"][0];
    let figure = |way: &str, key: &str| job[way][key].as_f64().unwrap_or(0.0);
    let requests = figure("read", "total_ios") + figure("write", "total_ios");
    ensure!(requests > 0.0, "fio did nothing");
    Ok(Run { iops: figure("read", "iops") + figure("write", "iops"), cpu_us_per_io: cpu * 1e6 / requests })
}
