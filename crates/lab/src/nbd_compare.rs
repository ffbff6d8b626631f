//! Our server and `nbdkit memory` under the same fio jobs, in turn.
//!
//! Both serve a volume that lives in memory over a Unix socket. Ours does RAID-5, CRC, and the
//! bookkeeping that recovery needs; nbdkit's copies. The runs alternate, so that a machine whose
//! speed drifts is fair to both, and medians are compared. The processor time of the server process
//! is read from /proc before and after each run.

use crate::wall::{fio, listening, processor};
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Time after which a server that does not listen is given up.
const START_LIMIT: Duration = Duration::from_secs(20);

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

/// A server being measured. Stopped when dropped.
struct Server {
    child: Child,
    uri: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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
    let directory = WorkDirectory::new()?;
    let ours = start_ours(options, &directory.0)?;
    let peer = start_nbdkit(options, &directory.0)?;
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
    let (iops, peer_iops) = (median(&runs, |run| run.iops), median(&peer_runs, |run| run.iops));
    Ok(NbdCompareReport {
        iops,
        peer_iops,
        iops_ratio: iops / peer_iops,
        cpu_us_per_io: median(&runs, |run| run.cpu_us_per_io),
        peer_cpu_us_per_io: median(&peer_runs, |run| run.cpu_us_per_io),
        rw: options.rw.clone(),
        bs: options.bs.clone(),
        iodepth: options.iodepth,
        runs,
        peer_runs,
    })
}

fn median(runs: &[Run], figure: impl Fn(&Run) -> f64) -> f64 {
    let mut figures: Vec<f64> = runs.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    f64::midpoint(figures[(figures.len() - 1) / 2], figures[figures.len() / 2])
}

/// A directory in memory, removed when dropped.
struct WorkDirectory(PathBuf);

impl WorkDirectory {
    fn new() -> Result<WorkDirectory> {
        let path = PathBuf::from(format!("/dev/shm/zoneweave-compare-{}", std::process::id()));
        std::fs::create_dir_all(&path).with_context(|| format!("{}", path.display()))?;
        Ok(WorkDirectory(path))
    }
}

impl Drop for WorkDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn start_ours(options: &NbdCompare, directory: &Path) -> Result<Server> {
    let socket = directory.join("zoneweave.sock");
    let child = Command::new(&options.binary)
        .args(["up", "--level", "raid5", "--drives", "4"])
        .arg("--size")
        .arg(options.size_bytes.to_string())
        .arg("--dir")
        .arg(directory.join("array"))
        .arg("--listen")
        .arg(format!("unix:{}", socket.display()))
        .env("RUST_LOG", "warn")
        .stdout(Stdio::null())
        .spawn()
        .with_context(|| format!("{}", options.binary.display()))?;
    started(Server { child, uri: format!("nbd+unix:///?socket={}", socket.display()) }, &socket)
}

fn start_nbdkit(options: &NbdCompare, directory: &Path) -> Result<Server> {
    let socket = directory.join("nbdkit.sock");
    let child = Command::new("nbdkit")
        .arg("--foreground")
        .arg("--unix")
        .arg(&socket)
        .args(["memory", &options.size_bytes.to_string()])
        .stdout(Stdio::null())
        .spawn()
        .context("nbdkit")?;
    started(Server { child, uri: format!("nbd+unix:///?socket={}", socket.display()) }, &socket)
}

/// Waits until the server answers.
fn started(mut server: Server, socket: &Path) -> Result<Server> {
    listening::wait(&mut server.child, socket, START_LIMIT)?;
    Ok(server)
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
    let before = processor::seconds_of(server.child.id())?;
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
    let cpu = processor::seconds_of(server.child.id())? - before;
    let job = &report["jobs"][0];
    let figure = |way: &str, key: &str| job[way][key].as_f64().unwrap_or(0.0);
    let requests = figure("read", "total_ios") + figure("write", "total_ios");
    ensure!(requests > 0.0, "fio did nothing");
    Ok(Run { iops: figure("read", "iops") + figure("write", "iops"), cpu_us_per_io: cpu * 1e6 / requests })
}
