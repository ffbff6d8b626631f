//! `zoneweave scrub` of an array of md that is served: what `check` and `repair` are for md.

use super::description::Description;
use super::report::{Report, ScrubReport};
use super::status::control_path;
use crate::cli::Scrub;
use crate::exit::Exit;
use crate::progress::Display;
use crate::status::ask_at;
use anyhow::{Context, Result};
use array::inplace::InPlace;
use array::pacer::Rates;
use std::path::Path;
use std::time::Duration;

/// Between two questions to the server.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// Has the server scrub, and waits for the end.
pub fn run(options: &Scrub) -> Result<Exit> {
    Description::open(&options.dir)?;
    let dir = options.dir.display();
    if options.locate {
        expect_two_parities(&options.dir)?;
    }
    let rate = options.rate.map_or("-".to_owned(), |rate| rate.mib_per_second.to_string());
    let line = match (options.stop, options.repair) {
        (true, _) => "scrub-stop".to_owned(),
        (false, true) => format!("scrub {rate} repair"),
        (false, false) => format!("scrub {rate}"),
    };
    let control = control_path(&options.dir);
    ask_at(&control, &line)?.ok_or_else(|| {
        Exit::Absent.error(format!(
            "nobody serves the array: `zoneweave check {dir}` compares its parities, `zoneweave serve {dir}` serves it"
        ))
    })?;
    if options.background {
        println!("scrubbing; `zoneweave status {dir}` tells how far it is");
        return Ok(Exit::Well);
    }
    let report = if options.stop { ask(&control)? } else { follow(&control, options.json)? };
    if options.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        println!("{report}");
    }
    Ok(if options.stop { Exit::Well } else { report.exit() })
}

/// Refuses an array with one parity.
fn expect_two_parities(dir: &Path) -> Result<()> {
    let Some(answer) = ask_at(&control_path(dir), "status")? else { return Ok(()) };
    let report: Report = serde_json::from_str(&answer).context("the server's answer")?;
    if report.identity.level != "raid6" {
        return Err(Exit::Usage.error(format!(
            "--locate: {} has one parity, which does not say which member is wrong; RAID-6 does",
            report.identity.level
        )));
    }
    Ok(())
}

fn ask(control: &Path) -> Result<ScrubReport> {
    let answer = ask_at(control, "status")?.context("the server has gone, and the scrub with it")?;
    let report: Report = serde_json::from_str(&answer).context("the server's answer")?;
    report.upkeep.scrub.context("no scrub was begun since the server started")
}

fn follow(control: &Path, is_quiet: bool) -> Result<ScrubReport> {
    let mut display = Display::new("scrubbing", is_quiet);
    loop {
        let report = ask(control)?;
        if report.state != "running" {
            display.end();
            return Ok(report);
        }
        display.show(&report.progress);
        std::thread::sleep(ASK_EVERY);
    }
}

/// `scrub MIB|- [repair]`: what the server does about it. The rate is that of all members together.
pub fn start(engine: &mut InPlace, members: usize, rest: &str) -> Result<()> {
    let words: Vec<&str> = rest.split_whitespace().collect();
    let (rate, repairs) = match words[..] {
        [rate] => (rate, false),
        [rate, "repair"] => (rate, true),
        _ => {
            let said = format!("`scrub {rest}` is no question: ask `scrub MIB|- [repair]`");
            return Err(Exit::Usage.error(said));
        }
    };
    let rates = match rate {
        "-" => Rates::default(),
        mib => {
            let mib: u64 = mib.parse().context("the rate in MiB per second")?;
            let members = u64::try_from(members).unwrap_or(u64::MAX).max(1);
            Rates { min: None, max: Some((mib.saturating_mul(1 << 20)).div_ceil(members)) }
        }
    };
    engine.core_mut().begin_scrub(repairs).map_err(|refused| Exit::Busy.error(refused))?;
    engine.core_mut().set_rates(rates);
    log::info!("scrub: begun{}", if repairs { ", with repair" } else { "" });
    Ok(())
}

/// `scrub-stop`.
pub fn stop(engine: &mut InPlace) -> Result<()> {
    if !engine.core_mut().stop_scrub() {
        return Err(Exit::Usage.error("no scrub goes on"));
    }
    Ok(())
}
