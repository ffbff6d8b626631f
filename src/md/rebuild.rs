//! `zoneweave rebuild` of an array of md: how far the members that are rebuilt are.

use super::description::Description;
use super::report::{MemberReport, Report};
use super::status::{control_path, current};
use crate::cli::Rebuild;
use crate::exit::Exit;
use crate::progress::Display;
use crate::rates;
use crate::status::ask_at;
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

/// Between two questions to the server.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// Shows, or follows.
pub fn run(options: &Rebuild) -> Result<Exit> {
    Description::open(&options.dir)?;
    if options.rate.is_some() || options.rate_min.is_some() {
        set_rates(options)?;
    }
    let exit = match options.wait {
        true => follow(&options.dir, options.json)?,
        false => Exit::Well,
    };
    let report = current(&options.dir)?;
    let rebuilding: Vec<&MemberReport> =
        report.members.iter().filter(|member| member.rebuild.is_some() || is_copied(member)).collect();
    if options.json {
        println!("{}", serde_json::to_string_pretty(&rebuilding)?);
        return Ok(exit);
    }
    for MemberReport { role, rebuild, rows_stuck, .. } in &rebuilding {
        if let Some(progress) = rebuild {
            println!("member {role} is being rebuilt: {progress}");
        }
        if *rows_stuck > 0 {
            println!("{rows_stuck} rows of member {role} cannot be rebuilt until they are written");
        }
    }
    for member in &report.members {
        let Some(replacement) = &member.replacement else { continue };
        let path = replacement.path.as_deref().unwrap_or("-");
        println!(
            "member {} is copied to {path}, which replaces it then: {}",
            member.role, replacement.progress
        );
    }
    let dir = options.dir.display();
    match (rebuilding.is_empty(), report.served) {
        (true, _) => println!("no member is being rebuilt; the array is {}", report.state),
        (false, false) => {
            println!("nobody serves the array: the rebuild goes on with `zoneweave serve {dir}`");
        }
        (false, true) => {}
    }
    if report.members.iter().any(|member| member.state == "missing") {
        println!("`zoneweave md add {dir} MEMBER` takes in an empty device for a member that is missing");
    }
    Ok(exit)
}

fn is_copied(member: &MemberReport) -> bool {
    member.replacement.is_some()
}

/// Changes the limits of resyncs and rebuilds until the server stops.
fn set_rates(options: &Rebuild) -> Result<()> {
    let answer = ask_at(&control_path(&options.dir), &rates::question(options.rate, options.rate_min))?;
    let nobody = || Exit::Absent.error("nobody serves the array: a limit holds until its server stops");
    answer.map(|_| ()).ok_or_else(nobody)
}

/// Waits until the members that are rebuilt are whole.
fn follow(dir: &Path, is_quiet: bool) -> Result<Exit> {
    let mut display: Option<Display> = None;
    let mut lacking: BTreeSet<u16> = BTreeSet::new();
    // Roles that are copied, with the devices that they are copied to.
    let mut copied: BTreeMap<u16, Option<String>> = BTreeMap::new();
    loop {
        let report = ask(dir)?;
        for member in &report.members {
            match (&member.replacement, copied.remove(&member.role)) {
                (Some(replacement), _) => drop(copied.insert(member.role, replacement.path.clone())),
                (None, Some(path)) if path != member.path => {
                    let path = path.as_deref().unwrap_or("-");
                    bail!(
                        "{path} does not replace member {} any more: it has failed, and the member goes on",
                        member.role
                    )
                }
                (None, Some(_)) if member.state == "active" && !is_quiet => {
                    println!(
                        "member {} is replaced by {}",
                        member.role,
                        member.path.as_deref().unwrap_or("-")
                    );
                }
                (None, _) => {}
            }
            match member.state.as_str() {
                "rebuilding" => drop(lacking.insert(member.role)),
                "active" if lacking.remove(&member.role) && !is_quiet => {
                    println!("member {} is rebuilt", member.role);
                }
                "missing" if lacking.contains(&member.role) => {
                    bail!("member {} was not rebuilt: it has failed; add another", member.role)
                }
                _ => {}
            }
        }
        if report.state == "failed" {
            bail!("too many members have failed: the rebuild cannot go on until they are back");
        }
        let copies = report.members.iter().filter_map(|member| Some(&member.replacement.as_ref()?.progress));
        let slowest = report.members.iter().filter_map(|member| member.rebuild.as_ref()).chain(copies);
        let Some(progress) = slowest.min_by_key(|progress| progress.bytes_done) else {
            display.into_iter().for_each(|display| display.end());
            return Ok(report.exit());
        };
        let is_stuck = |member: &MemberReport| {
            member.rows_stuck > 0 || member.replacement.as_ref().is_some_and(|copy| copy.rows_stuck > 0)
        };
        if !report.upkeep.is_rebuilding && report.members.iter().any(is_stuck) {
            bail!(
                "rows cannot be rebuilt, for other members do not return them: they wait until they are written"
            );
        }
        display.get_or_insert_with(|| Display::new("rebuilding", is_quiet)).show(progress);
        std::thread::sleep(ASK_EVERY);
    }
}

fn ask(dir: &Path) -> Result<Report> {
    let answer = ask_at(&control_path(dir), "status")?.ok_or_else(|| {
        let said = "nobody serves the array: the rebuild goes on where it was with";
        Exit::Absent.error(format!("{said} `zoneweave serve {}`", dir.display()))
    })?;
    serde_json::from_str(&answer).context("the server's answer")
}
