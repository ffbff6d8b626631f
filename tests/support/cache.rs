//! A served cache, and what clients say to it.

use super::cache_shadow::Client;
use super::run::{SOON, command, kill, run_for, until, wait_for};
use super::server::zoneweave;
use super::text;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// A served cache.
pub struct CacheServer {
    pub child: Child,
    pub socket: PathBuf,
    log: PathBuf,
}

impl CacheServer {
    /// Runs a command of the cache that serves.
    pub fn start(dir: &Path, arguments: &[&str]) -> CacheServer {
        let (socket, log) = (dir.with_extension("sock"), dir.with_extension("log"));
        let file = File::options().create(true).append(true).open(&log).unwrap();
        let listen = format!("unix:{}", text(&socket));
        let mut command = zoneweave();
        command.args(["cache"]).args(arguments).args(["--listen", &listen]);
        if !arguments.contains(&"--memory") {
            command.args(["--memory", "64MiB"]);
        }
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        let mut server = CacheServer { child: command.spawn().unwrap(), socket, log };
        let answers = until(SOON, || {
            server.child.try_wait().unwrap().is_some()
                || Client::connect(&server.socket).and_then(|mut client| client.call(&[b"PING"])).is_ok()
        });
        assert!(answers && server.child.try_wait().unwrap().is_none(), "{}", server.log());
        server
    }

    /// Creates a cache and serves it.
    pub fn up(dir: &Path) -> CacheServer {
        CacheServer::start(dir, &["up", "--dir", text(dir), "--size", "256MiB"])
    }

    /// Serves a cache.
    pub fn serve(dir: &Path) -> CacheServer {
        CacheServer::start(dir, &["serve", text(dir)])
    }

    /// A client of it.
    pub fn client(&self) -> Client {
        Client::connect(&self.socket).unwrap()
    }

    /// Asserts that its log says `words`, soon: lines are written beside what the server does.
    #[track_caller]
    pub fn assert_says(&self, words: &str) {
        assert!(until(SOON, || self.log().contains(words)), "{words:?} is not said\n{}", self.log());
    }

    /// Log of the server so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// An answer by redis-cli, if there is one.
    pub fn try_say(&self, words: &[&str]) -> Option<String> {
        let finished = run_for(SOON, command("redis-cli").args(["-s", text(&self.socket)]).args(words));
        finished.succeeded().then_some(finished.stdout)
    }

    /// An answer by redis-cli.
    #[track_caller]
    pub fn say(&self, words: &[&str]) -> String {
        self.try_say(words).unwrap_or_else(|| panic!("{words:?}\n{}", self.log()))
    }

    /// True when all that was stored is on flash; waits for that.
    pub fn is_flushed(&self) -> bool {
        until(SOON, || self.say(&["info", "zoneweave"]).contains("buffer_bytes:0\r\n"))
    }

    /// Tells the process to end at once, while others have it.
    pub fn signal_9(&self) {
        let process = self.child.id().to_string();
        run_for(SOON, command("kill").args(["-KILL", &process])).expect("kill -KILL");
    }

    /// Ends the process at once.
    pub fn kill_9(mut self) {
        kill(&mut self.child);
    }

    /// Stops it in good order.
    #[track_caller]
    pub fn stop(mut self) {
        let process = self.child.id().to_string();
        run_for(SOON, command("kill").args(["-TERM", &process])).expect("kill -TERM");
        let status = wait_for(SOON, &mut self.child);
        assert!(status.is_some_and(|status| status.success()), "{status:?}\n{}", self.log());
    }
}

impl Drop for CacheServer {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// All that a listener of memcached says.
pub fn talk(door: &Path, words: &str) -> String {
    let mut socket = UnixStream::connect(door).unwrap();
    socket.set_read_timeout(Some(SOON)).unwrap();
    socket.write_all(words.as_bytes()).unwrap();
    let mut said = String::new();
    socket.read_to_string(&mut said).unwrap();
    said
}

/// A cache that is not served is undamaged.
#[track_caller]
pub fn assert_clean(dir: &Path) {
    let finished = run_for(SOON * 3, zoneweave().args(["cache", "check", text(dir), "--json"]));
    assert_eq!(finished.code(), Some(0), "{finished}");
}
