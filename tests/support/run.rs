//! Running programs with a limit, and showing everything they said when they fail.

use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Enough for anything that is not meant to take long.
pub const SOON: Duration = Duration::from_secs(60);

/// Times as much in a machine, which has no KVM and whose host may have other work.
const SOON_INSIDE: u32 = 3;

fn patience(limit: Duration) -> Duration {
    if limit >= SOON && super::machine::is_inside() { limit * SOON_INSIDE } else { limit }
}

/// Between two looks at something awaited.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Pause after a look, in times of what it took.
const PAUSES_OF_LOOK: u32 = 2;

/// A program that has ended, or was killed at its limit.
pub struct Finished {
    pub line: String,
    /// Exit status; `None` when the program had to be killed.
    pub status: Option<ExitStatus>,
    pub stdout: String,
    pub stderr: String,
}

impl Finished {
    pub fn succeeded(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// The exit code; `None` when a signal ended it.
    pub fn code(&self) -> Option<i32> {
        self.status?.code()
    }

    /// Returns the program's output; panics when it failed.
    #[track_caller]
    pub fn expect(self, what: &str) -> String {
        assert!(self.succeeded(), "{what}: {self}");
        self.stdout
    }
}

impl std::fmt::Display for Finished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let end = self.status.map_or("killed at its time limit".to_owned(), |status| status.to_string());
        write!(f, "`{}`: {end}\n--- stdout\n{}\n--- stderr\n{}", self.line, self.stdout, self.stderr)
    }
}

/// Runs `command` for at most `limit`.
pub fn run_for(limit: Duration, command: &mut Command) -> Finished {
    // Files, not pipes: whoever inherits them cannot keep us waiting for their end.
    let (mut out, mut err) = (unnamed_file(), unnamed_file());
    command.stdin(Stdio::null()).stdout(out.try_clone().unwrap()).stderr(err.try_clone().unwrap());
    let line = line_of(command);
    let mut child = command.spawn().unwrap_or_else(|error| panic!("`{line}` did not start: {error}"));
    let status = wait_for(limit, &mut child);
    if status.is_none() {
        kill(&mut child);
    }
    Finished { line, status, stdout: contents(&mut out), stderr: contents(&mut err) }
}

/// Runs a program of this name with these arguments.
pub fn run(program: &str, arguments: &[&str]) -> Finished {
    run_for(SOON, command(program).args(arguments))
}

/// A command of an administrator's or any other program.
pub fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin")).env("LC_ALL", "C");
    command
}

/// The end of `child`, if it comes in time.
pub fn wait_for(limit: Duration, child: &mut Child) -> Option<ExitStatus> {
    let (started, limit) = (Instant::now(), patience(limit));
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        if started.elapsed() > limit {
            return None;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Kills `child`. One that hangs in the kernel is left behind after some seconds.
pub fn kill(child: &mut Child) {
    let _ended_already = child.kill();
    wait_for(Duration::from_secs(10), child);
}

/// Waits until `done`; false when it does not come to pass in time. A look that takes long, such as one by a program, is followed by as
/// long a pause and more, so that what is awaited has the processors.
pub fn until(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let (started, limit) = (Instant::now(), patience(limit));
    let mut look = started;
    while !done() {
        if started.elapsed() > limit {
            return false;
        }
        std::thread::sleep(LOOK_EVERY.max(look.elapsed() * PAUSES_OF_LOOK));
        look = Instant::now();
    }
    true
}

fn unnamed_file() -> File {
    let path = super::scratch::new_path("output");
    let file = File::options().read(true).append(true).create_new(true).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file
}

fn contents(file: &mut File) -> String {
    file.rewind().unwrap();
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

pub fn line_of(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}
