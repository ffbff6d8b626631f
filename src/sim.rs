//! `zoneweave sim`: runs of the simulator, one told in full or many summed up.
//!
//! `one` tells a run, `many` runs scenarios and seeds and sums them up, `shrink` makes a failure small, `acted` does all of it in
//! the worlds of acts.

mod acted;
mod many;
mod one;
mod report;
mod shrink;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use report::Report;
use sim::campaign::Totals;
use sim::{AREA_SEEDS, Keep, Outcome, SEED_MAX, Scenario, run as simulate};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Seconds to run when no option says what to run.
const SECONDS_DEFAULT: u64 = 10;

#[derive(Debug, Args)]
pub struct Sim {
    /// Run this seed and tell everything; with --runs or --seconds the first of many [default: 0]
    #[arg(long, value_parser = parse_seed)]
    pub seed: Option<u64>,
    /// Run all scenarios, then this many seeds
    #[arg(long, conflicts_with = "seconds", value_parser = clap::value_parser!(u64).range(1..))]
    pub runs: Option<u64>,
    /// Run all scenarios, then seeds for this long [default: 10, unless something else says what to run]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub seconds: Option<u64>,
    /// Threads that run seeds [default: the cores of this machine]
    #[arg(long, value_parser = parse_jobs)]
    pub jobs: Option<usize>,
    /// Run a scenario: a file, or one of those built in by its name
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seed", "runs", "seconds", "jobs"])]
    pub scenario: Option<PathBuf>,
    /// Make the failing run, or the first one of many, as small as it gets and print it as a scenario
    #[arg(long, conflicts_with_all = ["trace", "json"])]
    pub minimise: bool,
    /// File to write the smallest scenario to, instead of printing it
    #[arg(long, value_name = "FILE", requires = "minimise")]
    pub output: Option<PathBuf>,
    /// Write every event of the one run in words; `-` prints them
    #[arg(long, value_name = "FILE", conflicts_with_all = ["runs", "seconds"])]
    pub trace: Option<PathBuf>,
    /// Run the in-place engine on ordinary drives; scenarios are its own, by name
    #[arg(long, conflicts_with_all = ["trace", "output"])]
    pub inplace: bool,
    /// Run the cache; scenarios are its own, by name
    #[arg(long, conflicts_with_all = ["trace", "output", "inplace"])]
    pub cache: bool,
    /// Run conventional drives; scenarios are their own, by name
    #[arg(long, conflicts_with_all = ["trace", "output", "inplace", "cache"])]
    pub conventional: bool,
    /// Run drives with zones and without metadata, whose identities lie in-band; scenarios are their own, by name
    #[arg(long, conflicts_with_all = ["trace", "output", "inplace", "cache", "conventional"])]
    pub inband: bool,
    /// Draw plans whose drives have random write areas: seeds from 2^40 on
    #[arg(long, conflicts_with_all = ["scenario", "inplace", "cache", "conventional", "inband"])]
    pub areas: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

fn parse_seed(text: &str) -> Result<u64, String> {
    let seed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    let seed = seed.ok().filter(|seed| *seed <= SEED_MAX);
    seed.ok_or_else(|| format!("`{text}` is not a seed: use a number from 0 to {SEED_MAX}"))
}

fn parse_jobs(text: &str) -> Result<usize, String> {
    let jobs = text.parse().ok().filter(|jobs| (1..=1024).contains(jobs));
    jobs.ok_or_else(|| format!("`{text}` is not a number of threads: use 1 to 1024"))
}

impl Sim {
    /// Returns the seed that was asked for, with areas if those were.
    fn first_seed(&self) -> Option<u64> {
        match (self.areas, self.seed) {
            (true, seed) => Some(seed.unwrap_or(0) | AREA_SEEDS),
            (false, seed) => seed,
        }
    }
}

/// Origin of a run.
#[derive(Clone, Debug)]
enum Origin {
    Seed(u64),
    /// A file, or the name of a scenario that is built in.
    Scenario(PathBuf),
}

impl Origin {
    /// Returns the command that repeats the run.
    fn command(&self) -> String {
        match self {
            Origin::Seed(seed) => format!("zoneweave sim --seed {seed}"),
            Origin::Scenario(path) => format!("zoneweave sim --scenario {}", path.display()),
        }
    }

    fn load(&self) -> Result<Scenario> {
        match self {
            Origin::Seed(seed) => Ok(Scenario::draw(*seed)),
            Origin::Scenario(path) => load(path),
        }
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::Seed(seed) => write!(f, "seed {seed}"),
            Origin::Scenario(path) => write!(f, "scenario {}", path.display()),
        }
    }
}

/// Runs what was asked for; exit code 1 when a run failed.
pub fn run(options: &Sim) -> Result<ExitCode> {
    sim::catch_panics();
    if options.inplace || options.cache || options.conventional || options.inband {
        let failed = match (options.cache, options.conventional, options.inband) {
            (true, ..) => acted::run::<sim::cache::CacheWorld>(options)?,
            (_, true, _) => acted::run::<sim::conventional::ConventionalWorld>(options)?,
            (.., true) => acted::run::<sim::inband::InbandWorld>(options)?,
            _ => acted::run::<sim::inplace::InPlaceWorld>(options)?,
        };
        return Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS });
    }
    let origin = match (&options.scenario, options.first_seed()) {
        (Some(path), _) => Some(Origin::Scenario(path.clone())),
        (None, Some(seed))
            if options.seed.is_some() && options.runs.is_none() && options.seconds.is_none() =>
        {
            Some(Origin::Seed(seed))
        }
        _ => None,
    };
    let failed = match origin {
        Some(origin) => run_one(options, &origin)?,
        None => run_many(options)?,
    };
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn run_one(options: &Sim, origin: &Origin) -> Result<bool> {
    let is_printed = options.trace.as_deref() == Some(Path::new("-"));
    ensure!(!(is_printed && options.json), "--trace - and --json both print: give --trace a file");
    let scenario = origin.load()?;
    let begun = Instant::now();
    let keep = if options.trace.is_some() { Keep::All } else { Keep::Nothing };
    let mut outcome = simulate(&scenario, keep);
    if let Some(path) = &options.trace {
        write(path, &lines(&std::mem::take(&mut outcome.lines)))?;
    }
    let report = report_of(origin, &outcome, begun.elapsed());
    let told = || one::tell(origin, &scenario, &outcome, &report);
    match options {
        Sim { json: true, .. } => println!("{}", serde_json::to_string(&report)?),
        // What is printed there is for programs.
        _ if is_printed || options.minimise => eprint!("{}", told()),
        _ => print!("{}", told()),
    }
    if options.minimise {
        shrink(options, origin, &scenario, &outcome)?;
    }
    Ok(outcome.failure.is_some())
}

fn report_of(origin: &Origin, outcome: &Outcome, took: Duration) -> Report {
    let mut totals = Totals::default();
    let first_seed = match origin {
        Origin::Seed(seed) => {
            totals.add_seed(*seed, outcome.clone());
            Some(*seed)
        }
        Origin::Scenario(path) => {
            totals.add_scenario(&path.display().to_string(), outcome.clone());
            None
        }
    };
    let mut report = Report::new(&totals, first_seed, took);
    report.hash = format!("{:016x}", outcome.hash);
    report
}

fn settings_of(options: &Sim) -> Result<many::Settings> {
    Ok(many::Settings {
        first: options.first_seed().unwrap_or(0),
        runs: options.runs,
        seconds: if options.runs.is_some() { None } else { Some(options.seconds.unwrap_or(SECONDS_DEFAULT)) },
        jobs: options.jobs.map_or_else(many::cores, Ok)?,
    })
}

fn run_many(options: &Sim) -> Result<bool> {
    if options.trace.is_some() {
        bail!("--trace writes the events of one run: say which with --seed or --scenario");
    }
    let settings = settings_of(options)?;
    let (totals, took) = many::run(&settings)?;
    let report = Report::new(&totals, Some(settings.first), took);
    match options {
        Sim { json: true, .. } => println!("{}", serde_json::to_string(&report)?),
        Sim { minimise: true, .. } => eprint!("{report}"),
        _ => print!("{report}"),
    }
    if options.minimise {
        let scenario = totals.scenario_failures.iter().next();
        let scenario = scenario.map(|(name, outcome)| (Origin::Scenario(PathBuf::from(name)), outcome));
        let seed = || totals.failures.iter().next().map(|(seed, outcome)| (Origin::Seed(*seed), outcome));
        match scenario.or_else(seed) {
            Some((origin, outcome)) => shrink(options, &origin, &origin.load()?, outcome)?,
            None => eprintln!("nothing failed: there is nothing to minimise"),
        }
    }
    Ok(totals.failed() > 0)
}

/// Makes a failure small and says where it is then.
fn shrink(options: &Sim, origin: &Origin, scenario: &Scenario, outcome: &Outcome) -> Result<()> {
    let Some(smallest) = shrink::run(scenario, outcome)? else {
        eprintln!("{origin} does not fail: there is nothing to minimise");
        return Ok(());
    };
    let path = options.output.as_deref().unwrap_or(Path::new("-"));
    write(path, &smallest.to_toml())?;
    if options.output.is_some() {
        eprintln!("reproduce it: {}", Origin::Scenario(path.to_owned()).command());
    }
    Ok(())
}

/// A scenario file; if there is none, the scenario of this name.
fn load(path: &Path) -> Result<Scenario> {
    let built_in = path.to_str().and_then(sim::scenarios::named);
    let text = match (std::fs::read_to_string(path), built_in) {
        (Ok(text), _) => text,
        (Err(_), Some(text)) => text.to_owned(),
        (Err(error), None) => {
            let names: Vec<&str> = sim::scenarios::SCENARIOS.iter().map(|(name, _)| *name).collect();
            bail!("{}: {error}; nor is it one of those built in: {}", path.display(), names.join(", "));
        }
    };
    Scenario::from_toml(&text).with_context(|| format!("{}", path.display()))
}

fn lines(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Writes a file, or prints when it is `-`.
fn write(path: &Path, text: &str) -> Result<()> {
    if path == Path::new("-") {
        return std::io::stdout().write_all(text.as_bytes()).context("standard output");
    }
    std::fs::write(path, text).with_context(|| format!("{}", path.display()))
}
