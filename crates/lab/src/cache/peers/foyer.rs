//! What foyer finds after a kill, by a program of its own (`peers/foyer`), with its tombstone log and without, and when it is killed at once
//! or when what was changed has been written.

use super::Bench;
use crate::precise::precise_u64;
use crate::wall::process::{Process, WorkDirectory};
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::{Command, Stdio};

/// Objects of 100 bytes, which take a block of 4 KiB each. The first are overwritten, the next removed.
const OBJECTS: u64 = 100_000;
const CHANGED: u64 = 1_000;

/// Settings: the tombstone log, and what is waited for.
const SETTINGS: [[&str; 2]; 4] = [["none", "wait"], ["none", "now"], ["log", "wait"], ["log", "now"]];

/// Kills of one setting.
#[derive(Clone, Debug, Serialize)]
pub struct Foyer {
    /// The setting.
    pub setting: String,
    /// Kills.
    pub kills: u32,
    /// Longest time until it answers, in seconds.
    pub seconds: f64,
    /// Least share of the others that was found.
    pub share: f64,
    /// Overwritten objects that were found with their older value, over all kills.
    pub older: u64,
    /// Removed objects that were found, over all kills.
    pub removed: u64,
    /// Values of another object, over all kills.
    pub wrong: u64,
}

/// Counts that the program says it finds.
#[derive(Deserialize)]
struct Said {
    seconds: f64,
    kept: u64,
    older: u64,
    removed: u64,
    wrong: u64,
}

/// Kills and opens it.
pub(super) fn run(bench: &mut Bench<'_>, program: &Path) -> Result<Vec<Foyer>> {
    let mut all = Vec::new();
    for [log, wait] in SETTINGS {
        let setting = format!(
            "{}, killed {}",
            if log == "log" { "tombstone log" } else { "no tombstone log" },
            if wait == "wait" { "when changes are written" } else { "at once" }
        );
        let mut foyer = Foyer {
            setting,
            kills: bench.options.rounds,
            seconds: 0.0,
            share: 1.0,
            older: 0,
            removed: 0,
            wrong: 0,
        };
        for _ in 0..bench.options.rounds {
            let said = kill(program, log, wait).with_context(|| program.display().to_string())?;
            let others = precise_u64(OBJECTS - 2 * CHANGED);
            foyer.seconds = foyer.seconds.max(said.seconds);
            foyer.share = foyer.share.min(precise_u64(said.kept) / others);
            foyer.older += said.older;
            foyer.removed += said.removed;
            foyer.wrong += said.wrong;
            bench.step("foyer after a kill");
        }
        all.push(foyer);
    }
    Ok(all)
}

fn kill(program: &Path, log: &str, wait: &str) -> Result<Said> {
    let directory = WorkDirectory::new("cache-foyer")?;
    let dir = directory.join("foyer");
    let command = |what: &str| {
        let mut command = Command::new(program);
        command.arg(what).arg(&dir).args([&OBJECTS.to_string(), &CHANGED.to_string(), log, wait]);
        command.stdin(Stdio::null());
        command
    };
    Process::until_it_says(&mut command("write"), "ready")?.kill_9()?;
    let output = command("read").stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "it ended with {}", output.status);
    serde_json::from_slice(&output.stdout).context("what it found")
}

/// Measurements that are made in a round.
pub(super) const STEPS: usize = SETTINGS.len();
