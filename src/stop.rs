//! `zoneweave stop`: asks a server to stop, and waits until it has ended.

use crate::cache;
use crate::cli::StopServer;
use crate::directory::Directory;
use crate::exit::Exit;
use crate::md::{self, description::is_in as is_md};
use crate::status;
use anyhow::{Context, Result};
use std::time::{Duration, Instant};

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Stops the server of an array or a cache: what is in flight is finished, and everything is flushed.
pub fn run(options: &StopServer) -> Result<Exit> {
    let control = if is_md(&options.dir) {
        md::status::control_path(&options.dir)
    } else if cache::is_in(&options.dir) {
        cache::control_path(&options.dir)?
    } else {
        Directory::open(&options.dir)?.control_path()
    };
    let dir = options.dir.display();
    let Some(answer) = status::ask_at(&control, "stop")? else {
        return Err(Exit::Absent.error(format!("{dir}: nobody serves it")));
    };
    let answer: serde_json::Value = serde_json::from_str(&answer).context("the server's answer")?;
    let process =
        answer.get("pid").and_then(serde_json::Value::as_u64).context("the server's answer has no `pid`")?;
    let asked_at = Instant::now();
    while is_alive(process) {
        if asked_at.elapsed() > Duration::from_secs(options.timeout) {
            let said = format!(
                "{dir}: the server (process {process}) is still stopping after {} s",
                options.timeout
            );
            return Err(Exit::Failed.error(said));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    println!("stopped {dir}");
    Ok(Exit::Well)
}

/// True until the process has ended, whether or not its parent has taken notice.
fn is_alive(process: u64) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{process}/stat")) else { return false };
    // `PID (NAME) STATE ...`; the name may hold anything.
    !stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(['Z', 'X']))
}
