//! `zoneweave lab run`: the experiments of the ZapRAID paper, run again.

use crate::characterise::write;
use crate::exit::Exit;
use crate::steps::Steps;
use anyhow::{Context, Result, ensure};
use clap::Args;
use lab::experiment::{self, Done, Experiment, Options, WALL_CLOCK};
use lab::trace::{self, Event, FORMATS, Format};
use lab::wall::Host;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

#[derive(Debug, Args)]
pub struct ExperimentRun {
    /// exp1 exp2 ... or all; exp11 and exp12 take the wall clock, root and real software, and are not among all
    #[arg(required = true, value_name = "EXP")]
    pub experiments: Vec<String>,
    /// Runs of each setting, with seeds 1, 2 and so on
    #[arg(long, default_value_t = 5)]
    pub seeds: u64,
    /// Amount written and read, as a multiple of what is usual (docs/experiments.md)
    #[arg(long, default_value_t = 1.0)]
    pub scale: f64,
    /// A block trace for exp10, biza12 and straid (as prxy_0) to replay, in place of the one it makes up; biza12 takes up to four
    #[arg(long, value_name = "FILE")]
    pub trace: Vec<PathBuf>,
    /// Format of the traces: alibaba, tencent, msr, cloudphysics, fiu or systor
    #[arg(long, value_parser = parse_format, requires = "trace", default_value = "alibaba")]
    pub trace_format: Format,
    /// Requests of each trace to replay, from its start
    #[arg(long, requires = "trace", default_value_t = 100_000)]
    pub trace_requests: usize,
    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,
    /// Directory with 5 GiB to spare in which experiments on the wall clock (exp11, exp12) keep their drives
    #[arg(long, value_name = "DIR", default_value = lab::wall::SCRATCH_DEFAULT)]
    pub scratch: PathBuf,
    /// Write the report as one self-contained page
    #[arg(long, value_name = "FILE.html")]
    pub out: Option<PathBuf>,
}

/// Runs experiments and prints what they measured beside what the paper says.
pub fn run(options: &ExperimentRun) -> Result<()> {
    let usage = |error| Exit::Usage.because(error);
    let experiments = experiment::named(&options.experiments).map_err(usage)?;
    let traces =
        options.trace.iter().map(|path| read_trace(path, options)).collect::<Result<_>>().map_err(usage)?;
    let settings = Options { seeds: options.seeds, scale: options.scale, traces };
    experiment::expect(&experiments, &settings).map_err(usage)?;
    if options.experiments.iter().any(|name| name == "all") {
        say_what_is_left_out(&experiments);
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    let host = host(&experiments, &options.scratch, &interrupted)?;
    match host {
        None => on_signals(&[SIGINT, SIGTERM], &interrupted, true)?,
        Some(_) => on_signals(&[SIGINT, SIGTERM, SIGHUP], &interrupted, false)?,
    }
    let steps = Steps::new("runs");
    let progress = |done: &Done| {
        steps.show_work((done.runs, done.runs_all), (done.work_ms, done.work_all_ms), done.last);
    };
    let report = experiment::run(&experiments, &settings, host.as_ref(), &progress, &interrupted)?;
    steps.end();
    if let Some(path) = &options.out {
        write(path, &report.to_html())?;
    }
    if options.json {
        print!("{}", report.to_json_lines());
    } else {
        print!("{}", report.to_text());
    }
    ensure!(report.left_out.is_empty(), "interrupted, without: {}", report.left_out.join(", "));
    Ok(())
}

/// `all` are those that print the same on every machine.
fn say_what_is_left_out(experiments: &[Experiment]) {
    let is_there = |id: &str| experiments.iter().any(|experiment| experiment.id == id);
    let left: Vec<&str> =
        WALL_CLOCK.iter().map(|experiment| experiment.id).filter(|id| !is_there(id)).collect();
    if !left.is_empty() {
        log::info!(
            "left out: {}, which take the wall clock, exp11 and exp12 root as well; name them to run them",
            left.join(", ")
        );
    }
}

/// Makes signals end the runs, so that what was measured is reported. The second ends the process, where `may_leave`:
/// no other program runs that has to be stopped.
pub fn on_signals(signals: &[i32], interrupted: &Arc<AtomicBool>, may_leave: bool) -> Result<()> {
    let (mut heard, told) = UnixStream::pair().context("signal handling")?;
    for signal in signals.iter().copied() {
        if may_leave {
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(interrupted))?;
        }
        flag::register(signal, Arc::clone(interrupted))?;
        signal_hook::low_level::pipe::register(signal, told.try_clone()?)?;
    }
    std::thread::spawn(move || {
        if heard.read_exact(&mut [0]).is_ok() {
            let what = match may_leave {
                true => "runs under way are finished (the next signal ends this at once)",
                false => "what was started is stopped",
            };
            log::warn!("interrupted: {what}, whole seeds are reported");
        }
    });
    Ok(())
}

/// The machine, for experiments with real software. When they are interrupted, they stop what they have started.
fn host(experiments: &[Experiment], scratch: &Path, interrupted: &Arc<AtomicBool>) -> Result<Option<Host>> {
    let programs = experiment::programs(experiments);
    if programs.is_empty() {
        return Ok(None);
    }
    let binary = std::env::current_exe().context("the path of this command")?;
    Ok(Some(Host::new(binary, scratch, &programs, Arc::clone(interrupted))?))
}

fn read_trace(path: &Path, options: &ExperimentRun) -> Result<Vec<Event>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
    let events = trace::parse(&text, options.trace_format, options.trace_requests);
    events.with_context(|| format!("{}", path.display()))
}

fn parse_format(text: &str) -> Result<Format, String> {
    let found = FORMATS.iter().find(|(name, _)| *name == text);
    let names: Vec<&str> = FORMATS.iter().map(|(name, _)| *name).collect();
    found.map(|(_, format)| *format).ok_or_else(|| format!("`{text}`: use {}", names.join(", ")))
}
