//! `zoneweave rebuild`: how far the rebuild of a drive is.

use crate::cli::{Rate, Rebuild};
use crate::directory::Directory;
use crate::progress::Display;
use crate::status::{self, StatusReport};
use anyhow::{Context, Result, bail};
use std::time::Duration;

/// Between two questions to the server.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// Shows, or follows.
pub fn run(options: &Rebuild) -> Result<()> {
    let directory = Directory::open(&options.dir)?;
    if let Some(rate) = options.rate {
        set_rate(&directory, rate)?;
    }
    if options.wait {
        follow(&directory, options.json)?;
    }
    let report = status::current(&directory)?;
    if options.json {
        println!("{}", serde_json::to_string_pretty(&report.rebuild)?);
        return Ok(());
    }
    match &report.rebuild {
        Some(rebuild) => println!("drive {} is being rebuilt: {}", rebuild.drive, rebuild.progress),
        None => println!("no drive is being rebuilt; the array is {}", report.state),
    }
    if report.rebuild.is_some() && !report.served {
        println!(
            "nobody serves the array: the rebuild goes on with `zoneweave serve {}`",
            options.dir.display()
        );
    }
    Ok(())
}

/// Changes the limit of rebuilds until the server stops.
pub fn set_rate(directory: &Directory, rate: Rate) -> Result<()> {
    let line = format!("rebuild-rate {}", rate.mib_per_second);
    let answer = status::ask(directory, &line)?;
    answer.map(|_| ()).context("nobody serves the array: give --rebuild-rate to `zoneweave serve`")
}

/// Waits until the server has rebuilt what it is rebuilding.
pub fn follow(directory: &Directory, is_quiet: bool) -> Result<()> {
    let mut shown: Option<(usize, Display)> = None;
    loop {
        let report = ask(directory)?;
        let Some(rebuild) = &report.rebuild else {
            let Some((drive, display)) = shown else { return Ok(()) };
            display.end();
            return match report.members[drive].state.as_str() {
                "active" => Ok(()),
                state => bail!("drive {drive} was not rebuilt: it is {state} now; replace it by another"),
            };
        };
        let new = || (rebuild.drive, Display::new(&format!("rebuilding drive {}", rebuild.drive), is_quiet));
        shown.get_or_insert_with(new).1.show(&rebuild.progress);
        if report.state == "failed" {
            bail!("too many drives have failed: the rebuild cannot go on until they are back");
        }
        std::thread::sleep(ASK_EVERY);
    }
}

fn ask(directory: &Directory) -> Result<StatusReport> {
    let dir = directory.path.display();
    let answer = status::ask(directory, "status")?.with_context(|| {
        format!("nobody serves the array: the rebuild goes on where it was with `zoneweave serve {dir}`")
    })?;
    serde_json::from_str(&answer).context("the server's answer")
}
