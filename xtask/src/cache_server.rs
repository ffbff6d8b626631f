//! A cache that is served for a suite or a client, to clients of both protocols.

use crate::phase;
use anyhow::{Context, Result, bail};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const START_MAX: Duration = Duration::from_secs(20);

/// See the module. Ended when dropped.
pub struct CacheServer {
    child: Child,
    /// Port for clients of Redis.
    pub redis: u16,
    /// Port for clients of memcached.
    pub memcached: u16,
    /// Directory for what is said by suites.
    pub folder: PathBuf,
}

/// A port that nobody has; somebody may take it before the server does, who then says so.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

impl CacheServer {
    /// Creates a cache in a directory and serves it.
    pub fn up(folder: &Path, options: &[&str]) -> Result<CacheServer> {
        std::fs::create_dir_all(folder)?;
        let (redis, memcached) = (free_port()?, free_port()?);
        let log = std::fs::File::create(folder.join("server.log"))?;
        let mut command = Command::new(phase::program());
        command.args(["cache", "up", "--dir"]).arg(folder.join("cache")).args(options);
        command.args(["--listen", &format!("tcp:127.0.0.1:{redis}")]);
        command.args(["--memcached", &format!("tcp:127.0.0.1:{memcached}")]);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().context("the cache did not start")?;
        let mut server = CacheServer { child, redis, memcached, folder: folder.to_owned() };
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", redis)).is_err()
            || TcpStream::connect(("127.0.0.1", memcached)).is_err()
        {
            if server.child.try_wait()?.is_some() || started.elapsed() > START_MAX {
                bail!("the cache is not served:\n{}", server.log());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("server.log")).unwrap_or_default()
    }

    /// Stops it in good order.
    pub fn stop(mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("the server of the cache ended before its time: {status}\n{}", self.log());
        }
        Command::new("kill").arg(self.child.id().to_string()).status()?;
        let status = self.child.wait()?;
        if !status.success() {
            bail!("the server of the cache did not stop in good order: {status}\n{}", self.log());
        }
        Ok(())
    }
}

impl Drop for CacheServer {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// A directory that is gone with us.
pub struct Scratch(pub PathBuf);

impl Scratch {
    /// An empty one for a command.
    pub fn new(command: &str) -> Result<Scratch> {
        let path = std::env::temp_dir().join(format!("zoneweave-{command}-{}", std::process::id()));
        std::fs::create_dir_all(&path).with_context(|| format!("{}", path.display()))?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _what_is_left_is_in_the_way_of_nobody = std::fs::remove_dir_all(&self.0);
    }
}
