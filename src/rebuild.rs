//! `zoneweave rebuild`: how far the rebuild of a drive is.

use crate::cli::{Rate, Rebuild};
use crate::directory::Directory;
use crate::exit::Exit;
use crate::progress::Display;
use crate::rates;
use crate::status::{self, StatusReport};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::time::Duration;

/// Between two questions to the server.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// Shows, or follows.
pub fn run(options: &Rebuild) -> Result<Exit> {
    let mut directory = Directory::open(&options.dir)?;
    if options.rate.is_some() || options.rate_min.is_some() {
        set_rates(&directory, options.rate, options.rate_min)?;
    }
    let exit = match options.wait {
        true => follow(&directory, None, options.json)?,
        false => Exit::Well,
    };
    let report = status::current(&mut directory)?;
    if options.json {
        println!("{}", serde_json::to_string_pretty(&report.upkeep.rebuild)?);
        return Ok(exit);
    }
    match &report.upkeep.rebuild {
        Some(rebuild) => println!("drive {} is being rebuilt: {}", rebuild.drive, rebuild.progress),
        None => println!("no drive is being rebuilt; the array is {}", report.state),
    }
    if report.upkeep.rebuild.is_some() && !report.served {
        println!(
            "nobody serves the array: the rebuild goes on with `zoneweave serve {}`",
            options.dir.display()
        );
    }
    if report.state == "degraded" {
        println!(
            "`zoneweave drive re-add {0}` takes in a drive that is back, `zoneweave drive replace {0} N` gives it a new one",
            options.dir.display()
        );
    }
    Ok(exit)
}

/// Changes the limits of rebuilds until the server stops.
pub fn set_rates(directory: &Directory, most: Option<Rate>, least: Option<Rate>) -> Result<()> {
    let answer = status::ask(directory, &rates::question(most, least))?;
    let nobody = || Exit::Absent.error("nobody serves the array: give --rebuild-rate to `zoneweave serve`");
    answer.map(|_| ()).ok_or_else(nobody)
}

/// Waits until the server has rebuilt what it is rebuilding, and what spares are about to take the place of. A rebuild may
/// be over before it is asked for the first time: that of `begun`, if any.
pub fn follow(directory: &Directory, begun: Option<usize>, is_quiet: bool) -> Result<Exit> {
    let mut lacking: BTreeSet<usize> = begun.into_iter().collect();
    let mut shown: Option<(usize, Display)> = None;
    loop {
        let report = ask(directory)?;
        let drive = report.upkeep.rebuild.as_ref().map(|rebuild| rebuild.drive);
        if let Some((before, display)) = shown.take_if(|(before, _)| drive != Some(*before)) {
            display.end();
            let state = &report.members[before].state;
            if state != "active" {
                bail!("drive {before} was not rebuilt: it is {state} now; replace it by another");
            }
        }
        note_rebuilt(&report, &mut lacking, is_quiet);
        match &report.upkeep.rebuild {
            Some(rebuild) => {
                let what = format!("rebuilding drive {}", rebuild.drive);
                let new = || (rebuild.drive, Display::new(&what, is_quiet));
                shown.get_or_insert_with(new).1.show(&rebuild.progress);
            }
            // A spare is about to be taken, or the end of a rebuild is being recorded.
            None if report.upkeep.rebuild_due || report.state == "rebuilding" => {}
            None => return Ok(status::exit_of(&report)),
        }
        if report.state == "failed" {
            bail!("too many drives have failed: the rebuild cannot go on until they are back");
        }
        std::thread::sleep(ASK_EVERY);
    }
}

/// Says which drives have been rebuilt, on a terminal and without.
fn note_rebuilt(report: &StatusReport, lacking: &mut BTreeSet<usize>, is_quiet: bool) {
    for member in &report.members {
        if member.state != "active" {
            lacking.insert(member.index);
        } else if lacking.remove(&member.index) && !is_quiet {
            println!("drive {} is rebuilt", member.index);
        }
    }
}

fn ask(directory: &Directory) -> Result<StatusReport> {
    let dir = directory.path.display();
    let answer = status::ask(directory, "status")?.ok_or_else(|| {
        let said = "nobody serves the array: the rebuild goes on where it was with";
        Exit::Absent.error(format!("{said} `zoneweave serve {dir}`"))
    })?;
    serde_json::from_str(&answer).context("the server's answer")
}
