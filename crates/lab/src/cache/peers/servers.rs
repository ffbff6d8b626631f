//! The servers that are compared, each at a port of its own, with its files in memory, or where a cell wants them.

use super::load::{self, Answered, Load, is_ready};
use super::protocol::Protocol;
use crate::precise::precise_u64;
use crate::wall::process::{Process, WorkDirectory};
use anyhow::{Context, Result, ensure};
use base::units::parse_bytes;
use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Drives of our server, in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drives {
    /// Emulated drives with zones.
    Emulated,
    /// Files as devices that are cut into zones.
    Conventional,
}

/// Drives of a cache.
const DRIVES: u64 = 4;

/// Our server: how large its cache is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own<'a> {
    pub(super) drives: Drives,
    pub(super) flash: &'a str,
    pub(super) memory: &'a str,
    pub(super) object_mean: &'a str,
}

/// The other side.
#[derive(Clone, Copy, Debug)]
pub(super) enum Peer {
    /// memcached with so many MiB of memory and a file of a GiB for the values, which goes there as soon as it may.
    Extstore(u32),
    /// memcached as it comes, with so many MiB of memory and of file; values of up to 2 MiB.
    ExtstoreOf(u32, u32),
    Redis,
    /// Redis with its log of commands (`appendonly yes`).
    RedisLog,
}

/// A server that runs, and how clients reach it.
pub(super) struct Served {
    pub(super) process: Process,
    pub(super) port: u16,
}

/// Cost of a load to a server, once.
pub(super) struct Cost {
    pub(super) answered: Answered,
    pub(super) us_per_request: f64,
    pub(super) requests_per_second: f64,
}

impl Served {
    /// Applies a load; every value that was read has to be right.
    pub(super) fn measure(&self, load: &Load, seed: u64) -> Result<Cost> {
        let (seconds, began) = (self.process.seconds()?, Instant::now());
        let answered = load::apply(self.port, load, seed)?;
        let took = began.elapsed().as_secs_f64();
        let us = (self.process.seconds()? - seconds) * 1e6;
        ensure!(answered.requests > 0, "nothing was answered");
        ensure!(answered.wrong == 0, "{} values that were read are wrong", answered.wrong);
        let requests = precise_u64(answered.requests);
        Ok(Cost { answered, us_per_request: us / requests, requests_per_second: requests / took })
    }
}

impl Own<'_> {
    /// Creates the cache if it is not there, and serves it by both protocols.
    pub(super) fn start(&self, binary: &Path, dir: &Path, protocol: Protocol) -> Result<Served> {
        self.start_with(binary, dir, protocol, &[])
    }

    /// The same with more options.
    pub(super) fn start_with(
        &self,
        binary: &Path,
        dir: &Path,
        protocol: Protocol,
        options: &[&str],
    ) -> Result<Served> {
        let [port, other] = free_ports()?;
        let (resp, memcached) = if protocol == Protocol::Resp { (port, other) } else { (other, port) };
        let mut command = Command::new(binary);
        command.args(["cache", "up", "--dir"]).arg(dir).args(["--drives", &DRIVES.to_string()]);
        match self.drives {
            Drives::Emulated => command.args(["--size", self.flash]),
            Drives::Conventional => command.args(["--conventional", &self.devices(dir)?]),
        };
        command.args(["--memory", self.memory, "--object-mean", self.object_mean]);
        command.args(["--listen", &format!("tcp:127.0.0.1:{resp}")]);
        command.args(["--memcached", &format!("tcp:127.0.0.1:{memcached}")]);
        command.args(options).env("RUST_LOG", "error");
        let process = Process::serve(&mut command, || is_ready(port, protocol))?;
        Ok(Served { process, port })
    }

    /// Files that are devices of a cache, as an option names them; made where they are not there.
    fn devices(&self, dir: &Path) -> Result<String> {
        std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
        let bytes = parse_bytes(self.flash).context(self.flash.to_owned())? / DRIVES;
        let mut paths = Vec::new();
        for drive in 0..DRIVES {
            let path = dir.join(format!("disk-{drive}"));
            let file = File::options().write(true).create(true).truncate(false).open(&path);
            file.and_then(|file| file.set_len(bytes)).with_context(|| path.display().to_string())?;
            paths.push(path.display().to_string());
        }
        Ok(paths.join(","))
    }
}

impl Peer {
    pub(super) fn protocol(self) -> Protocol {
        match self {
            Peer::Extstore(_) | Peer::ExtstoreOf(..) => Protocol::Memcached,
            Peer::Redis | Peer::RedisLog => Protocol::Resp,
        }
    }

    pub(super) fn start(self, dir: &Path) -> Result<Served> {
        std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
        let [port] = free_ports()?;
        let number = port.to_string();
        let mut command = match self {
            Peer::Extstore(memory_mib) => {
                let store = ":1G,ext_item_age=0,ext_item_size=512,ext_threads=1";
                extstore(dir, &number, (memory_mib, store))
            }
            Peer::ExtstoreOf(memory_mib, file_mib) => {
                let mut command =
                    extstore(dir, &number, (memory_mib, &format!(":{file_mib}M,ext_threads=1")));
                command.args(["-I", "2m"]);
                command
            }
            Peer::Redis | Peer::RedisLog => {
                let mut command = Command::new("redis-server");
                let log = if matches!(self, Peer::RedisLog) { "yes" } else { "no" };
                command.args(["--bind", "127.0.0.1", "--port", &number, "--save", "", "--appendonly", log]);
                command.arg("--dir").arg(dir);
                command
            }
        };
        let protocol = self.protocol();
        let process = Process::serve(&mut command, || is_ready(port, protocol))?;
        Ok(Served { process, port })
    }
}

/// memcached with so many MiB of memory, and a file with these options.
fn extstore(dir: &Path, port: &str, (memory_mib, options): (u32, &str)) -> Command {
    let mut command = Command::new("memcached");
    let store = format!("ext_path={}{options}", dir.join("extstore").display());
    command.args(["-l", "127.0.0.1", "-p", port, "-t", "1", "-o", &store]);
    command.args(["-m", &memory_mib.to_string()]);
    // It refuses to be root unless told who to be.
    if rustix::process::geteuid().is_root() {
        command.args(["-u", "root"]);
    }
    command
}

/// Hits of our server so far, and those of them from flash.
pub(super) struct Hits {
    flash: u64,
    all: u64,
}

impl Hits {
    pub(super) fn now(dir: &Path) -> Result<Hits> {
        let status = status(dir)?;
        let count = |name: &str| number(&status, &format!("/hits/{name}"));
        let (flash, memory, buffers) = (count("flash")?, count("memory")?, count("buffers")?);
        Ok(Hits { flash, all: flash + memory + buffers })
    }

    /// Share of flash among the hits since `before`.
    pub(super) fn flash_share_since(&self, before: &Hits) -> f64 {
        precise_u64(self.flash - before.flash) / precise_u64((self.all - before.all).max(1))
    }
}

/// Status that our server reports.
pub(super) fn status(dir: &Path) -> Result<serde_json::Value> {
    let status = server::control::ask(&dir.join("control.sock"), "status").context("our server")?;
    Ok(serde_json::from_str(&status)?)
}

/// A number of that.
pub(super) fn number(status: &serde_json::Value, pointer: &str) -> Result<u64> {
    let value = status.pointer(pointer).and_then(serde_json::Value::as_u64);
    value.with_context(|| format!("our server does not say {pointer}"))
}

/// Bytes that our server has written, and that were stored.
pub(super) fn bytes_written_and_stored(dir: &Path) -> Result<[f64; 2]> {
    let status = status(dir)?;
    let bytes = |pointer| number(&status, pointer).map(precise_u64);
    Ok([bytes("/bytes_written")?, bytes("/bytes_stored")?])
}

/// A directory in memory, with one for each side.
pub(super) fn directories() -> Result<(WorkDirectory, PathBuf, PathBuf)> {
    let directory = WorkDirectory::new("cache-peers")?;
    let (own, peer) = (directory.join("own"), directory.join("peer"));
    Ok((directory, own, peer))
}

/// Different ports on which nobody listens.
fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let held: Vec<TcpListener> =
        (0..N).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<_, _>>()?;
    let mut ports = [0; N];
    for (port, listener) in ports.iter_mut().zip(&held) {
        *port = listener.local_addr()?.port();
    }
    Ok(ports)
}
