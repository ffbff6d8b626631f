//! Servers in processes of their own, for as long as they are measured.

use super::processor;
use anyhow::{Context, Result, bail, ensure};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time after which a server that does not answer is given up.
const START_LIMIT: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A server, killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    name: String,
}

impl Process {
    /// Starts it, and waits until `answers`.
    ///
    /// # Errors
    /// When it does not start, ends, or takes longer than a minute to answer.
    pub fn serve(command: &mut Command, mut answers: impl FnMut() -> bool) -> Result<Process> {
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let child = child.with_context(|| format!("{name} does not start"))?;
        let mut process = Process { child, name };
        let began = Instant::now();
        while !answers() {
            if let Some(status) = process.child.try_wait()? {
                bail!("{} ended with {status}", process.name);
            }
            ensure!(
                began.elapsed() < START_LIMIT,
                "{} does not answer after {} s",
                process.name,
                START_LIMIT.as_secs()
            );
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(process)
    }

    /// Starts it, and waits until its first line is this one.
    ///
    /// # Errors
    /// When it does not start, or says something else.
    pub fn until_it_says(command: &mut Command, line: &str) -> Result<Process> {
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let child = child.with_context(|| format!("{name} does not start"))?;
        let mut process = Process { child, name };
        let mut said = String::new();
        BufReader::new(process.child.stdout.take().expect("it is piped")).read_line(&mut said)?;
        ensure!(said.trim() == line, "{} says {said:?}", process.name);
        Ok(process)
    }

    /// Seconds on a processor of all its threads so far, to the hundredth. The kernel starts workers for direct writes to files, and ends
    /// them.
    ///
    /// # Errors
    /// When it has ended.
    pub fn seconds_with_ended_threads(&self) -> Result<f64> {
        processor::seconds_of(self.child.id())
    }

    /// Seconds on a processor of all its threads so far, to the nanosecond; those that have ended are left out.
    ///
    /// # Errors
    /// When it has ended.
    pub fn seconds(&self) -> Result<f64> {
        processor::precise_seconds_of(self.child.id())
    }

    /// Number of the process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it as `kill -9` does.
    ///
    /// # Errors
    /// When the kernel refuses to.
    pub fn kill_9(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It fails when the process has ended already.
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// A directory, in memory unless it is asked for elsewhere, removed when dropped.
#[derive(Debug)]
pub struct WorkDirectory(PathBuf);

impl WorkDirectory {
    /// Makes it; `what` is a part of its name.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(what: &str) -> Result<WorkDirectory> {
        WorkDirectory::below(Path::new("/dev/shm"), what)
    }

    /// Makes one elsewhere.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn below(parent: &Path, what: &str) -> Result<WorkDirectory> {
        let path = parent.join(format!("zoneweave-{what}-{}", std::process::id()));
        std::fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        Ok(WorkDirectory(path))
    }

    /// A place in it.
    #[must_use]
    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for WorkDirectory {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}
