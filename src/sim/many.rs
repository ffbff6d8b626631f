//! Many runs: all scenarios, then seeds, with a word now and then about how far it is.

use crate::steps::LogLines;
use anyhow::{Context, Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use sim::campaign::{Campaign, Totals};
use sim::{Failure, SEED_MAX};
use std::time::{Duration, Instant};

/// Failures after which it is enough.
pub const FAILURES_MAX: usize = 10;

/// Between two lines about progress where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Seeds to run, time limit and threads.
pub struct Settings {
    pub first: u64,
    pub runs: Option<u64>,
    pub seconds: Option<u64>,
    pub jobs: usize,
}

/// The cores of this machine.
pub fn cores() -> Result<usize> {
    Ok(std::thread::available_parallelism().context("the number of cores is unknown: use --jobs")?.get())
}

/// Says what is about to run; how many runs that is at most.
pub fn announce(settings: &Settings) -> Result<u64> {
    let Settings { first, jobs, .. } = *settings;
    let runs_max = SEED_MAX - first + 1;
    let runs = settings.runs.unwrap_or(runs_max);
    ensure!(runs <= runs_max, "--runs {runs}: from seed {first} on there are only {runs_max}");
    let range = match settings.runs {
        Some(runs) => format!("seeds {first} to {}", first + runs - 1),
        None => format!("seeds from {first} on"),
    };
    eprintln!("all scenarios, then {range} (jobs: {jobs})");
    Ok(runs)
}

/// Runs them; how long it took.
pub fn run(settings: &Settings) -> Result<(Totals, Duration)> {
    let Settings { first, jobs, .. } = *settings;
    let runs = announce(settings)?;
    let begun = Instant::now();
    let totals = Totals::of_scenarios();
    let progress = Progress::new(settings, "zoneweave sim")?;
    let go_on = |done: u64, failed: usize| progress.is_wanted(done, failed);
    let failed = |seed: u64, failure: &Failure| progress.tell_failure(seed, failure);
    let campaign = Campaign { first, runs, jobs, failures_max: FAILURES_MAX, failed: &failed, go_on: &go_on };
    let totals = campaign.run_after(totals);
    progress.bar.finish_and_clear();
    Ok((totals, begun.elapsed()))
}

/// Display of progress: a bar on a terminal, lines elsewhere.
pub struct Progress {
    begun: Instant,
    /// Command that repeats a run, without its seed.
    command: &'static str,
    runs: Option<u64>,
    limit: Option<Duration>,
    pub bar: ProgressBar,
    /// Lines about progress; none on a terminal.
    lines: Option<LogLines>,
}

impl Progress {
    pub fn new(settings: &Settings, command: &'static str) -> Result<Progress> {
        let begun = Instant::now();
        let limit = settings.seconds.map(Duration::from_secs);
        let length = settings.runs.or(settings.seconds.map(|seconds| seconds * 1_000)).unwrap_or(0);
        let bar = ProgressBar::new(length);
        bar.set_style(ProgressStyle::with_template("{wide_bar} {msg} (ETA {eta})")?);
        Ok(Progress {
            begun,
            command,
            runs: settings.runs,
            limit,
            bar,
            lines: LogLines::unless_terminal(LINE_EVERY),
        })
    }

    /// Names a seed that failed, so that it can be looked at while others run.
    pub fn tell_failure(&self, seed: u64, failure: &Failure) {
        let what = failure.what.lines().next().unwrap_or_default();
        let told = format!("seed {seed} failed: {what}; {} --seed {seed}", self.command);
        match &self.lines {
            None => self.bar.println(told),
            Some(_) => eprintln!("{told}"),
        }
    }

    /// Says how far it is; false when the time is over.
    pub fn is_wanted(&self, done: u64, failed: usize) -> bool {
        let took = self.begun.elapsed();
        let of = self.runs.map(|runs| format!(" of {runs}")).unwrap_or_default();
        let rate = u128::from(done) * 1_000 / took.as_millis().max(1);
        let message = || format!("{done}{of} seeds, {rate}/s, {failed} failed");
        match &self.lines {
            None => {
                let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
                self.bar.set_position(self.runs.map_or(ms, |_| done));
                self.bar.set_message(message());
            }
            Some(lines) => lines.tell(message),
        }
        self.limit.is_none_or(|limit| took < limit)
    }
}
