//! Programs: which are installed, and running them for a while or beside others.
//!
//! Each has a process group of its own, so that Ctrl-C reaches this process alone, which ends them in good order.

use super::Host;
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::File;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Between two looks at something awaited.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// A program that is asked to end gets this long; a database writes out what it has in memory.
const PATIENCE: Duration = Duration::from_secs(60);
/// Commands that only talk to the kernel, and the start of a server.
const PROMPT: Duration = Duration::from_secs(60);
/// Most lines that are shown of what a failed program said last.
const LINES_SHOWN: usize = 20;

/// A program and the Debian package that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// Name of the program on the path.
    pub name: &'static str,
    /// The package.
    pub package: &'static str,
}

impl Program {
    /// Returns true when the program is on the path, or where Debian keeps an administrator's programs.
    #[must_use]
    pub fn is_here(self) -> bool {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let administrators = ["/usr/sbin", "/sbin"].map(PathBuf::from);
        std::env::split_paths(&path).chain(administrators).any(|folder| folder.join(self.name).is_file())
    }
}

/// Programs that are not here, and how to get them; none when all are.
#[must_use]
pub fn missing(programs: &[Program]) -> Option<String> {
    let missing: Vec<&Program> = programs.iter().filter(|program| !program.is_here()).collect();
    let mut names: Vec<&str> = missing.iter().map(|program| program.name).collect();
    let mut packages: Vec<&str> = missing.iter().map(|program| program.package).collect();
    for list in [&mut names, &mut packages] {
        list.sort_unstable();
        list.dedup();
    }
    (!names.is_empty())
        .then(|| format!("{} (Debian: apt-get install {})", names.join(", "), packages.join(" ")))
}

/// A command of this name, in a process group of its own.
#[must_use]
pub fn command(name: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(name);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin")).env("LC_ALL", "C").stdin(Stdio::null());
    command.process_group(0);
    command
}

/// Runs a program and returns what it prints.
///
/// # Errors
/// When it fails or takes longer than `limit`, with what it said; when the operator wants no more.
pub fn run(host: &Host, limit: Duration, command: &mut Command) -> Result<String> {
    finish(limit, command, host, || host.go_on())
}

/// The same for a command that talks to the kernel: it is not cut short, so that one knows what it has done.
///
/// # Errors
/// When it fails or takes too long.
pub fn run_to_end(host: &Host, command: &mut Command) -> Result<String> {
    finish(PROMPT, command, host, || Ok(()))
}

/// Takes something apart: goes on after a signal, and only warns of a failure. True when it succeeded.
pub fn undo(host: &Host, command: &mut Command) -> bool {
    let done = run_to_end(host, command);
    done.inspect_err(|error| log::warn!("while taking apart: {error:#}")).is_ok()
}

/// Waits until `done`.
///
/// # Errors
/// When it does not come to pass in time; when the operator wants no more.
pub fn wait_until(host: &Host, what: &str, mut done: impl FnMut() -> Result<bool>) -> Result<()> {
    let began = Instant::now();
    while !done()? {
        host.go_on()?;
        if began.elapsed() > PROMPT {
            bail!("{what}: nothing after {} s", PROMPT.as_secs());
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

fn finish(
    limit: Duration,
    command: &mut Command,
    host: &Host,
    go_on: impl Fn() -> Result<()>,
) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    // Files, not pipes: nobody has to read them while the program runs.
    let [out, err] = ["output", "errors"].map(|name| host.path(name));
    command.stdout(File::create(&out)?).stderr(File::create(&err)?);
    let mut background = Background::spawn(command, err.clone())?;
    let began = Instant::now();
    let status = loop {
        if let Some(status) = background.child.try_wait()? {
            break status;
        }
        go_on()?;
        if began.elapsed() > limit {
            bail!("{name} takes longer than {} s\n{}", limit.as_secs(), said_last(&err));
        }
        std::thread::sleep(LOOK_EVERY);
    };
    // sysbench and others complain on standard output.
    let text = || std::fs::read(&out).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    if !status.success() {
        bail!("{name} ended with {status}\n{}{}", said_last(&out), said_last(&err));
    }
    text().with_context(|| format!("the output of {name}"))
}

/// The end of a log.
fn said_last(log: &Path) -> String {
    let text =
        std::fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n")
}

/// A program that runs beside others. Dropped, it is asked to end, and killed when that takes too long.
#[derive(Debug)]
pub struct Background {
    child: Child,
    name: String,
    log: PathBuf,
}

impl Background {
    /// Starts it; what it says goes to `log`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(command: &mut Command, log: PathBuf) -> Result<Background> {
        let file = File::create(&log).with_context(|| format!("{}", log.display()))?;
        command.stdout(file.try_clone()?).stderr(file);
        Background::spawn(command, log)
    }

    fn spawn(command: &mut Command, log: PathBuf) -> Result<Background> {
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().with_context(|| format!("{name} does not start"))?;
        Ok(Background { child, name, log })
    }

    /// Returns the number of the process.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it is `ready`.
    ///
    /// # Errors
    /// As [`wait_until`], and when it ends; with what it said.
    pub fn wait_until(&mut self, host: &Host, mut ready: impl FnMut() -> bool) -> Result<()> {
        let waited = wait_until(host, &self.name, || {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended with {status}", self.name);
            }
            Ok(ready())
        });
        waited.with_context(|| said_last(&self.log))
    }

    /// Starts a server, as [`Background::start`], and waits until clients can connect to its socket.
    ///
    /// # Errors
    /// As [`Background::start`] and [`Background::wait_until`].
    pub fn serve(host: &Host, command: &mut Command, log: PathBuf, socket: &Path) -> Result<Background> {
        let mut server = Background::start(command, log)?;
        server.wait_until(host, || UnixStream::connect(socket).is_ok())?;
        Ok(server)
    }

    /// Returns true while the process still runs.
    pub fn is_running(&mut self) -> bool {
        self.status().is_none()
    }

    /// True when it ended by itself within the usual patience.
    pub fn wait_for_end(&mut self) -> bool {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if self.status().is_some() {
                return true;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        false
    }

    fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    fn signal(&self, signal: Signal) {
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let sent = group.map(|group| kill_process_group(group, signal));
        if let Some(Err(error)) = sent {
            log::warn!("{}: {error}", self.name);
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if self.status().is_some() {
            return;
        }
        self.signal(Signal::TERM);
        if !self.wait_for_end() {
            log::warn!("{} does not end when asked to, and is killed", self.name);
            self.signal(Signal::KILL);
            if !self.wait_for_end() {
                log::warn!("{} does not end when killed", self.name);
            }
        }
    }
}
