//! The servers that are measured: they start together, and each works only while it is measured.

use super::load::{self, Load, Way};
use super::null_volume::NullVolume;
use super::{ExportCompare, Side};
use crate::wall::process::{Process, WorkDirectory};
use crate::wall::{fio, processor};
use anyhow::{Context, Result, bail, ensure};
use base::units::BLOCK_BYTES_U64;
use server::{Listen, ServerConfig, Service, Stop, StopHandle, WallClock};
use std::fs::File;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::JoinHandle;
use std::time::Duration;

const PEER: &str = "qemu-storage-daemon";

/// The server of a volume that does nothing, in a thread.
struct NullServer {
    stop: StopHandle,
    thread: JoinHandle<Result<(), server::RunError>>,
    /// Place where the kernel accounts the thread's time.
    account: PathBuf,
}

pub(super) struct Servers {
    own: Process,
    null: NullServer,
    /// With null-co, and with a file.
    peers: Option<[Process; 2]>,
    directory: WorkDirectory,
}

impl Servers {
    pub(super) fn start(options: &ExportCompare) -> Result<Servers> {
        let found = Command::new("fio").arg("--version").output();
        ensure!(found.is_ok(), "fio is not installed (Debian: apt-get install fio)");
        let directory = WorkDirectory::new("exports")?;
        let own = start_own(options, directory.path())?;
        let null = NullServer::start(&directory.join("null.sock"), options.size_bytes)?;
        let has_peer = Command::new(PEER).arg("--version").output().is_ok();
        let peers = if has_peer { Some(start_peers(options, directory.path())?) } else { None };
        let servers = Servers { own, null, peers, directory };
        servers.fill(options)?;
        Ok(servers)
    }

    pub(super) fn has_peer(&self) -> bool {
        self.peers.is_some()
    }

    /// Every block is written once, so that all loads find them there.
    fn fill(&self, options: &ExportCompare) -> Result<()> {
        fio::run(
            &self.nbd_uri(),
            &["--rw=write", "--bs=1m", "--iodepth=8", &format!("--size={}", options.size_bytes)],
        )?;
        Ok(())
    }

    fn nbd_uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.directory.join("nbd.sock").display())
    }

    /// Applies the load to one of them.
    pub(super) fn us_per_request(&mut self, side: Side, load: Load, options: &ExportCompare) -> Result<f64> {
        let time = Duration::from_secs(options.seconds.into());
        let vhost_user = |name: &str| load::apply(&self.directory.join(name), load, time, options.size_bytes);
        let before = self.seconds_of(side)?;
        let answered = match side {
            Side::OwnVhostUser => vhost_user("vm.sock")?,
            Side::OwnNull => vhost_user("null.sock")?,
            Side::PeerNull => vhost_user("peer-null.sock")?,
            Side::PeerFile => vhost_user("peer-file.sock")?,
            Side::OwnNbd => self.nbd(load, options)?,
        };
        ensure!(answered > 0, "nothing was answered");
        #[allow(clippy::cast_precision_loss, reason = "a count of some millions")]
        let requests = answered as f64;
        Ok((self.seconds_of(side)? - before) * 1e6 / requests)
    }

    fn nbd(&self, load: Load, options: &ExportCompare) -> Result<u64> {
        let rw = if load.way == Way::Write { "randwrite" } else { "randread" };
        let report = fio::run(
            &self.nbd_uri(),
            &[
                &format!("--rw={rw}"),
                "--bs=4k",
                &format!("--iodepth={}", load.depth),
                &format!("--size={}", options.size_bytes),
                "--time_based",
                &format!("--runtime={}", options.seconds),
            ],
        )?;
        let way = if load.way == Way::Write { "write" } else { "read" };
        report["jobs"][0][way]["total_ios"].as_u64().context("fio's count of requests")
    }

    fn seconds_of(&self, side: Side) -> Result<f64> {
        let peer = |index: usize| {
            let peers = self.peers.as_ref().context("qemu-storage-daemon is not installed")?;
            peers[index].seconds()
        };
        match side {
            Side::OwnVhostUser | Side::OwnNbd => self.own.seconds(),
            Side::OwnNull => processor::seconds_of_account(&self.null.account),
            Side::PeerNull => peer(0),
            Side::PeerFile => peer(1),
        }
    }

    pub(super) fn stop(self) -> Result<()> {
        self.null.stop.request();
        match self.null.thread.join() {
            Ok(ended) => Ok(ended?),
            Err(_) => bail!("the server of the null volume panicked"),
        }
    }
}

impl NullServer {
    fn start(path: &Path, size_bytes: u64) -> Result<NullServer> {
        let guests = vec![Listen::Unix(path.to_owned()).bind()?.into()];
        let (stop, handle) = Stop::new()?;
        let (sender, receiver) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let number = rustix::thread::gettid().as_raw_nonzero();
            let _is_heard = sender.send(PathBuf::from(format!("/proc/self/task/{number}/schedstat")));
            let service = Service { guests, ..Service::new(stop, WallClock::start()) };
            let mut volume = NullVolume::new(size_bytes / BLOCK_BYTES_U64);
            server::run(&ServerConfig::default(), service, &mut volume)
        });
        let account = receiver.recv().context("the server of the null volume")?;
        Ok(NullServer { stop: handle, thread, account })
    }
}

fn start_own(options: &ExportCompare, directory: &Path) -> Result<Process> {
    let mut command = Command::new(&options.binary);
    command
        .args(["up", "--level", "raid5", "--drives", "4", "--size"])
        .arg(options.size_bytes.to_string())
        .arg("--dir")
        .arg(directory.join("array"))
        .arg("--listen")
        .arg(format!("unix:{}", directory.join("nbd.sock").display()))
        .arg("--vhost-user")
        .arg(directory.join("vm.sock"))
        .env("RUST_LOG", "warn");
    let socket = directory.join("nbd.sock");
    Process::serve(&mut command, || UnixStream::connect(&socket).is_ok())
}

fn start_peers(options: &ExportCompare, directory: &Path) -> Result<[Process; 2]> {
    let path = directory.join("file");
    let mut file = File::create(&path)?;
    // Blocks that are there, as those of the array are.
    let block = vec![1_u8; 1 << 20];
    for _ in 0..options.size_bytes >> 20 {
        file.write_all(&block)?;
    }
    let null = format!("driver=null-co,node-name=node,size={},read-zeroes=off", options.size_bytes);
    let file = format!("driver=file,node-name=node,aio=io_uring,filename={}", path.display());
    let start = |node: &str, name: &str| {
        let path = directory.join(name);
        let export = format!(
            "type=vhost-user-blk,id=export,node-name=node,writable=on,addr.type=unix,addr.path={}",
            path.display()
        );
        let mut command = Command::new(PEER);
        command.args(["--blockdev", node, "--export", &export]);
        Process::serve(&mut command, || UnixStream::connect(&path).is_ok())
    };
    Ok([start(&null, "peer-null.sock")?, start(&file, "peer-file.sock")?])
}
