//! Running programs in view of the developer, and how long each part took.

use crate::root;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Cargo, in the root of the repository; the one that runs us, so that the toolchain is the same.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// The folder that cargo builds into.
pub fn target() -> PathBuf {
    root().join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// The program that users run, as `cargo build --release` leaves it.
pub fn program() -> PathBuf {
    target().join("release/zoneweave")
}

/// Runs `command` with our input and output.
///
/// # Errors
/// When it cannot be started or does not succeed.
pub fn run(command: &mut Command) -> Result<()> {
    let line = line_of(command);
    println!("$ {line}");
    let status = command.status().with_context(|| format!("could not start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed: {status}");
    }
    Ok(())
}

/// Returns what `command` prints; its errors are shown.
///
/// # Errors
/// As [`run`].
pub fn output(command: &mut Command) -> Result<String> {
    let line = line_of(command);
    println!("$ {line}");
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("could not start `{line}`"))?;
    if !output.status.success() {
        bail!("`{line}` failed: {}", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{line}` did not print text"))
}

/// Output of a program, with errors, and whether it succeeded.
pub struct Said {
    pub text: String,
    pub is_success: bool,
}

/// Lets a program say what it has to into a file, until it ends or has taken too long, which is said and no success.
///
/// # Errors
/// When it cannot be started, or the file not be written.
pub fn said(command: &mut Command, log: &Path, longest: Duration) -> Result<Said> {
    let file = std::fs::File::create(log).with_context(|| format!("{}", log.display()))?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let mut child = command.spawn().with_context(|| format!("{:?} did not start", command.get_program()))?;
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if started.elapsed() > longest {
            child.kill()?;
            child.wait()?;
            println!("    took more than {} s and was ended", longest.as_secs());
            break None;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let text = String::from_utf8_lossy(&std::fs::read(log)?).into_owned();
    Ok(Said { text, is_success: status.is_some_and(|status| status.success()) })
}

fn line_of(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// Names and durations of the parts of a command.
#[derive(Default)]
pub struct Phases {
    done: Vec<(&'static str, Duration, bool)>,
}

impl Phases {
    /// Does `work` and takes its time. An error is remembered and returned.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn time(&mut self, name: &'static str, work: impl FnOnce() -> Result<()>) -> Result<()> {
        println!("== {name}");
        let started = Instant::now();
        let result = work();
        self.done.push((name, started.elapsed(), result.is_ok()));
        result
    }

    /// Returns true when every part succeeded.
    pub fn all_succeeded(&self) -> bool {
        self.done.iter().all(|&(_, _, succeeded)| succeeded)
    }

    /// Returns one line: every part with its time, and whether it succeeded.
    pub fn summary(&self) -> String {
        let total: Duration = self.done.iter().map(|&(_, time, _)| time).sum();
        let parts = self.done.iter().map(|(name, time, succeeded)| {
            format!("{name} {} {:.1} s", if *succeeded { "ok" } else { "FAILED" }, time.as_secs_f64())
        });
        format!("{}; total {:.1} s", parts.collect::<Vec<_>>().join(", "), total.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_returned_and_shown() {
        let mut phases = Phases::default();
        phases.time("good", || Ok(())).unwrap();
        assert!(phases.all_succeeded());
        assert!(phases.time("bad", || bail!("no")).is_err());
        assert!(!phases.all_succeeded());
        assert!(phases.summary().starts_with("good ok 0.0 s, bad FAILED 0.0 s; total"));
    }

    #[test]
    fn what_a_program_says_is_returned_however_it_ends() {
        let log = std::env::temp_dir().join(format!("zoneweave-said-{}", std::process::id()));
        let shell = |script: &str, longest| {
            said(Command::new("sh").args(["-c", script]), &log, Duration::from_millis(longest)).unwrap()
        };
        let good = shell("echo a; echo b >&2", 60_000);
        assert!(good.is_success && good.text == "a\nb\n");
        let bad = shell("echo a; exit 3", 60_000);
        assert!(!bad.is_success && bad.text == "a\n");
        assert!(!shell("exec sleep 60", 1).is_success);
        std::fs::remove_file(log).unwrap();
    }

    #[test]
    fn a_program_that_fails_is_an_error() {
        assert!(run(&mut Command::new("false")).is_err());
        assert_eq!(output(Command::new("echo").arg("hello")).unwrap(), "hello\n");
    }
}
