//! The real binary: `zoneweave` as a child that serves, and as a command that answers.

use super::nbd::Client;
use super::run::{Finished, SOON, kill, run_for, until, wait_for};
use super::text;
use serde_json::Value;
use std::fs::File;
use std::io::PipeReader;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// Lines of the server's log shown with a failure.
const LOG_LINES_SHOWN: usize = 30;

/// The binary under test.
pub fn zoneweave() -> Command {
    Command::new(env!("CARGO_BIN_EXE_zoneweave"))
}

/// Runs the binary with these arguments.
pub fn ask(arguments: &[&str]) -> Finished {
    run_for(SOON, zoneweave().args(arguments))
}

/// Asserts that these arguments are refused with this code, for this reason.
#[track_caller]
pub fn refused(arguments: &[&str], code: i32, why: &str) {
    let ran = ask(arguments);
    assert_eq!(ran.code(), Some(code), "{ran}");
    assert!(ran.to_string().contains(why), "{why}: {ran}");
}

/// `zoneweave status --json`.
#[track_caller]
pub fn status(dir: &Path) -> Value {
    let finished = ask(&["status", text(dir), "--json"]);
    assert!(matches!(finished.code(), Some(0 | 3)), "{finished}");
    let output = finished.stdout;
    serde_json::from_str(&output).unwrap_or_else(|error| panic!("status is not JSON: {error}\n{output}"))
}

/// `zoneweave check --json`: exit code and answer. A whole array may take a while.
#[track_caller]
pub fn check(dir: &Path) -> (Option<i32>, Value) {
    let finished = run_for(SOON * 3, zoneweave().args(["check", text(dir), "--json"]));
    let answer = serde_json::from_str(&finished.stdout);
    (finished.code(), answer.unwrap_or_else(|error| panic!("check is not JSON: {error}\n{finished}")))
}

/// Waits until something is so of an array that is served.
#[track_caller]
pub fn wait_until(dir: &Path, server: &Server, what: &str, is_so: impl Fn() -> bool) {
    assert!(until(SOON * 2, is_so), "{what}: {:#}\n{}", status(dir), server.log());
}

/// Asserts that an array that is not served is clean.
#[track_caller]
pub fn assert_clean(dir: &Path) {
    let (code, report) = check(dir);
    assert_eq!(code, Some(0), "check: {report:#}");
    assert_eq!(report["clean"], true, "check: {report:#}");
}

/// File of a drive, as `zoneweave status` names it.
pub fn drive_file(dir: &Path, drive: usize) -> PathBuf {
    dir.join(status(dir)["members"][drive]["path"].as_str().unwrap())
}

/// A server, killed with its owner.
pub struct Server {
    child: Child,
    dir: PathBuf,
    log: PathBuf,
    /// Outputs of the server, which nobody reads.
    _unread: Option<PipeReader>,
}

impl Server {
    /// `zoneweave up`: makes the array in `dir` if there is none.
    #[track_caller]
    pub fn up(dir: &Path, options: &[&str]) -> Server {
        Server::start(dir, &[&["up", "--dir", text(dir)], options].concat())
    }

    /// `zoneweave serve`.
    #[track_caller]
    pub fn serve(dir: &Path) -> Server {
        Server::serve_with(dir, &[])
    }

    /// `zoneweave serve`, with options.
    #[track_caller]
    pub fn serve_with(dir: &Path, options: &[&str]) -> Server {
        Server::start(dir, &[&["serve", text(dir)], options].concat())
    }

    /// `zoneweave serve --degraded`: without the drives that are gone.
    #[track_caller]
    pub fn serve_degraded(dir: &Path) -> Server {
        Server::serve_with(dir, &["--degraded"])
    }

    /// `zoneweave serve` that says all it can into a pipe which nobody reads, or which is closed.
    #[track_caller]
    pub fn serve_unheard(dir: &Path, is_closed: bool) -> Server {
        let (reading, writing) = std::io::pipe().unwrap();
        let (out, err) = (writing.try_clone().unwrap().into(), writing.into());
        let mut command = zoneweave();
        command.args(["serve", text(dir)]).env("RUST_LOG", "trace").stdout::<Stdio>(out).stderr::<Stdio>(err);
        Server::spawn(dir, command, Some(reading).filter(|_| !is_closed))
    }

    #[track_caller]
    fn start(dir: &Path, arguments: &[&str]) -> Server {
        let file = File::options().create(true).append(true).open(dir.with_extension("log")).unwrap();
        let mut command = zoneweave();
        command.args(arguments).stdout(file.try_clone().unwrap()).stderr(file);
        Server::spawn(dir, command, None)
    }

    #[track_caller]
    fn spawn(dir: &Path, mut command: Command, unread: Option<PipeReader>) -> Server {
        let socket = dir.join("nbd.sock");
        let listen = format!("unix:{}", text(&socket));
        let child = command.args(["--listen", &listen]).stdin(Stdio::null()).spawn().unwrap();
        let log = dir.with_extension("log");
        let mut server = Server { child, dir: dir.to_owned(), log, _unread: unread };
        let mut ended = None;
        let answered = until(SOON, || {
            ended = server.child.try_wait().unwrap();
            ended.is_some() || Client::open(&socket).is_ok()
        });
        assert!(answered && ended.is_none(), "the server did not start ({ended:?})\n{}", server.log());
        server
    }

    /// Asserts that the volume begins with `data`, which is whole MiB.
    #[track_caller]
    pub fn assert_holds(&self, data: &[u8]) {
        let mut client = self.client();
        for (at, piece) in (0..).step_by(1 << 20).zip(data.chunks(1 << 20)) {
            assert!(client.read(at, 1 << 20).unwrap() == piece, "the data at {at} is wrong; {}", self.log());
        }
    }

    /// Stops the server, and asserts that the array is clean then and begins with `data` without a drive.
    #[track_caller]
    pub fn stop_whole_without(self, drive: usize, data: &[u8]) {
        let dir = self.dir.clone();
        self.stop();
        assert_clean(&dir);
        std::fs::remove_file(drive_file(&dir, drive)).unwrap();
        let server = Server::serve_degraded(&dir);
        server.assert_holds(data);
        server.stop();
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.join("nbd.sock")
    }

    pub fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", text(&self.socket()))
    }

    /// A client of our own.
    #[track_caller]
    pub fn client(&self) -> Client {
        match Client::open(&self.socket()) {
            Ok(client) => client,
            Err(error) => panic!("{error}\n{}", self.log()),
        }
    }

    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Ends it in the middle of whatever it does, and waits until its socket is gone too: the
    /// kernel takes a moment after the process to close what io_uring had in hand.
    pub fn kill_9(self) {
        let socket = self.socket();
        self.kill_9_at_once();
        assert!(
            until(SOON, || UnixStream::connect(&socket).is_err()),
            "somebody serves a dead server's socket"
        );
    }

    /// As [`Server::kill_9`], without waiting for more than the process.
    pub fn kill_9_at_once(mut self) {
        kill(&mut self.child);
    }

    /// Ends it as an operator does; it must not fail.
    #[track_caller]
    pub fn stop(mut self) {
        let status = self.terminate();
        assert!(status.is_some_and(|status| status.success()), "stopping: {status:?}\n{}", self.log());
    }

    fn terminate(&mut self) -> Option<ExitStatus> {
        let process = self.child.id().to_string();
        run_for(SOON, Command::new("kill").args(["-TERM", &process])).expect("kill -TERM");
        wait_for(SOON, &mut self.child)
    }

    /// Asserts that it is still there.
    #[track_caller]
    pub fn assert_alive(&mut self) {
        let ended = self.child.try_wait().unwrap();
        assert!(ended.is_none(), "the server ended: {ended:?}\n{}", self.log());
    }

    /// True when it is not there any more.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Exit code, once the server has ended by itself.
    pub fn exit_code(&mut self) -> Option<i32> {
        self.child.try_wait().unwrap().and_then(|status| status.code())
    }

    /// Asserts that its log says `words`, soon: lines are written beside what the server does.
    #[track_caller]
    pub fn assert_says(&self, words: &str) {
        assert!(until(SOON, || self.log().contains(words)), "{words:?} is not said\n{}", self.log());
    }

    /// The end of its log, for messages.
    pub fn log(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let shown = &lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..];
        format!("--- log of the server\n{}", shown.join("\n"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            kill(&mut self.child);
        }
        if std::thread::panicking() {
            println!("{}", self.log());
        }
    }
}

/// Waits a moment that is part of the test, such as the one before a kill.
pub fn let_run(time: Duration) {
    std::thread::sleep(time);
}
