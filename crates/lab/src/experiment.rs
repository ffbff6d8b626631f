//! The experiments of the ZapRAID paper, run again: one file per experiment, one command for all.
//!
//! ```text
//!   experiment --names--> cells (scheme, setting) --one run per seed--> values --judged--> outcome --> report
//! ```
//! An [`Experiment`] names its cells, says how one is measured, and judges what came out beside the paper's numbers
//! (`crates/lab/data/zapraid-experiments.toml`). All but those of [`WALL_CLOCK`] are virtual time on modelled drives: a
//! run is a function of code, cell, seed and scale, and two runs print the same bytes. docs/experiments.md says what is
//! scaled down and why it does not matter.

mod area;
mod beyond;
mod biza10;
mod biza11;
mod biza12;
mod biza14;
mod biza15;
mod biza16;
mod biza5;
mod biza_rig;
mod by_map;
mod channels;
pub mod clients;
pub mod contest;
mod design;
pub mod draft;
mod exp1;
mod exp10;
mod exp11;
mod exp12;
mod exp2;
mod exp3;
mod exp4;
mod exp5;
mod exp6;
mod exp7;
mod exp8;
mod exp9;
mod fig2;
pub mod filled;
pub mod host;
pub mod measurement;
mod page;
pub mod published;
mod raizn_load;
mod read_load;
mod replay;
pub mod rig;
pub mod scheme;
mod search;
pub mod setting;
pub mod slots;
mod slots_auto;
mod slots_bars;
mod stacks;
mod straid;
mod student;
mod text;
mod volume_rig;
mod wall_load;
mod wear;
mod write_load;
mod zraid7;

use crate::characterise::finding::Check;
use crate::characterise::plot::Plot;
use crate::pool;
use crate::precise::precise_u64;
use crate::trace::Event;
use crate::wall::Host;
use crate::wall::program::{Program, missing};
use anyhow::{Context, Result, bail, ensure};
use draft::{Cell, Comparison, Draft, Measured};
use measurement::{Measurement, Value, summarise};
use published::Published;
use setting::Setting;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
pub(crate) use student::mean_and_ci95;

/// An experiment.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// As it is asked for: `exp1`.
    pub id: &'static str,
    /// For people.
    pub title: &'static str,
    /// Finding of the paper, in a sentence.
    pub statement: &'static str,
    /// Usual milliseconds of a run at the usual scale: an estimate of the time left depends on them, nothing else.
    pub run_ms: u64,
    /// Cells that are measured.
    pub cells: fn() -> Vec<Cell>,
    /// The cell that stands for this one: what stands for several is measured once.
    pub alike: fn(&Cell) -> Cell,
    /// Measures one cell.
    pub measure: fn(&Cell, Conditions) -> Result<Vec<Value>>,
    /// Judges the measurements.
    pub judge: fn(&mut Draft),
}

/// Conditions of a run beside its cell.
#[derive(Clone, Copy, Debug)]
pub struct Conditions<'a> {
    /// Seed of drives and clients.
    pub seed: u64,
    /// Scale: how much is written and read, as a multiple of what is usual.
    pub scale: f64,
    /// Replayed by the experiments that replay traces: the first one in place of that which they make up.
    pub traces: &'a [Vec<Event>],
    /// Host of experiments on the wall clock.
    pub host: Option<&'a Host>,
}

impl Conditions<'_> {
    /// A usual count at this scale, at least 1.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts far below 2^53")]
    pub fn scaled(self, count: u64) -> u64 {
        ((precise_u64(count) * self.scale).round() as u64).max(1)
    }

    /// Blocks of a zone where zones are small: so many at most, fewer at small scales.
    #[must_use]
    pub fn zone_blocks(self, most: u32) -> u32 {
        let scaled = self.scaled(u64::from(most)).try_into().unwrap_or(most);
        scaled.clamp(ZONE_BLOCKS_MIN, most)
    }
}

/// Options of all runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Runs of each cell; their seeds are 1, 2 and so on.
    pub seeds: u64,
    /// As in [`Conditions`].
    pub scale: f64,
    /// As in [`Conditions`].
    pub traces: Vec<Vec<Event>>,
}

/// Outcome of one experiment.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The experiment.
    pub experiment: Experiment,
    /// Cells and their measurements.
    pub measured: Vec<Measured>,
    /// Numbers beside the paper's.
    pub comparisons: Vec<Comparison>,
    /// Rules.
    pub checks: Vec<Check>,
    /// Figures.
    pub plots: Vec<Plot>,
}

/// Outcomes of all experiments that were asked for.
#[derive(Clone, Debug)]
pub struct Report {
    /// Options of the runs.
    pub options: Options,
    /// The paper.
    pub paper: String,
    /// In the order of the paper.
    pub outcomes: Vec<Outcome>,
    /// Measurements that are missing because somebody stopped the runs: `exp8 (2 of 5 seeds)`.
    pub left_out: Vec<String>,
}

/// Experiments in virtual time: in the order of the paper, then those that it does not have.
pub const ALL: &[Experiment] = &[
    fig2::EXPERIMENT,
    design::EXPERIMENT,
    exp1::EXPERIMENT,
    exp2::EXPERIMENT,
    exp3::EXPERIMENT,
    exp4::EXPERIMENT,
    exp5::EXPERIMENT,
    exp6::EXPERIMENT,
    exp7::EXPERIMENT,
    exp8::EXPERIMENT,
    exp9::EXPERIMENT,
    exp10::EXPERIMENT,
    beyond::EXPERIMENT,
    straid::fig10::EXPERIMENT,
    straid::fig11::EXPERIMENT,
    straid::fig12::EXPERIMENT,
    straid::fig15::EXPERIMENT,
    straid::fig16::EXPERIMENT,
    straid::fig17::EXPERIMENT,
    straid::fig18::EXPERIMENT,
    straid::fig19::EXPERIMENT,
    straid::fig20::EXPERIMENT,
    straid::fig21::EXPERIMENT,
    straid::table4::EXPERIMENT,
    straid::table5::EXPERIMENT,
];

/// Experiments in virtual time that are not among `all`: they are asked for by name.
pub const BY_NAME: &[Experiment] = &[
    area::EXPERIMENT,
    slots::EXPERIMENT,
    slots_auto::EXPERIMENT,
    slots_bars::EXPERIMENT,
    biza5::EXPERIMENT,
    biza10::EXPERIMENT,
    biza11::EXPERIMENT,
    biza12::EXPERIMENT,
    biza14::EXPERIMENT,
    biza15::EXPERIMENT,
    biza16::EXPERIMENT,
    zraid7::EXPERIMENT,
    channels::EXPERIMENT,
    by_map::EXPERIMENT,
    straid::fig1::EXPERIMENT,
    straid::fig13::EXPERIMENT,
];

/// Experiments that count instructions: they need [`VALGRIND`].
pub const COUNTED: &[Experiment] = &[straid::fig1::EXPERIMENT, straid::fig13::EXPERIMENT];

/// Counts instructions where the machine does not.
const VALGRIND: Program = Program { name: "valgrind", package: "valgrind" };

/// Names of several experiments: those whose own begin with one.
pub const GROUPS: &[&str] = &["straid", "biza"];

/// Figures of papers that other commands measure, and how.
const ELSEWHERE: &[(&str, &str)] = &[
    (
        "biza13",
        "record what programs write with `serve --record FILE`, and replay it with `lab run biza12 --trace FILE`",
    ),
    ("biza17", "`lab null-write --by-path` counts instructions and copied bytes"),
];

/// Experiments on the wall clock: not among `all`, for they take a machine of their own. Experiments with real software
/// need [`Host`].
pub const WALL_CLOCK: &[Experiment] = &[search::EXPERIMENT, exp11::EXPERIMENT, exp12::EXPERIMENT];

/// The smallest zones that are small.
const ZONE_BLOCKS_MIN: u32 = 256;
/// Sizes of requests and chunks that the paper compares.
const SIZES_KIB: [u32; 3] = [4, 8, 16];

/// The experiments of these names, in the order of the paper; `all` are those of [`ALL`], and names of [`GROUPS`] stand for several.
///
/// # Errors
/// When there is none of a name, with those there are.
pub fn named(names: &[String]) -> Result<Vec<Experiment>> {
    let is_group = |name: &str| GROUPS.contains(&name);
    let stands_for = |name: &str, id: &str| name == id || is_group(name) && id.starts_with(name);
    let is_asked_for = |experiment: &&Experiment| names.iter().any(|name| stands_for(name, experiment.id));
    let every = || ALL.iter().chain(BY_NAME).chain(WALL_CLOCK);
    for name in names.iter().filter(|name| *name != "all" && !is_group(name)) {
        if let Some((name, how)) = ELSEWHERE.iter().find(|(other, _)| other == name) {
            bail!("{name} is no experiment of `lab run`: {how}");
        }
        if !every().any(|experiment| experiment.id == name) {
            let known: Vec<&str> = every().map(|experiment| experiment.id).collect();
            let groups = GROUPS.join(", ");
            bail!("there is no experiment `{name}`: use all, {groups} or some of {}", known.join(", "));
        }
    }
    let takes_all = names.iter().any(|name| name == "all");
    let in_virtual_time = ALL.iter().filter(|experiment| takes_all || is_asked_for(experiment));
    let others = BY_NAME.iter().chain(WALL_CLOCK).filter(is_asked_for);
    Ok(in_virtual_time.chain(others).copied().collect())
}

impl Experiment {
    /// Returns true when the experiment takes real time.
    #[must_use]
    pub fn is_on_wall_clock(&self) -> bool {
        WALL_CLOCK.iter().any(|experiment| experiment.id == self.id)
    }
}

/// True for an experiment that replays the trace that is given in place of one that it makes up, and has cells for no other.
fn takes_one_trace(id: &str) -> bool {
    id == exp10::EXPERIMENT.id || id.starts_with("straid")
}

/// Lists the programs that experiments on the wall clock need installed.
#[must_use]
pub fn programs(experiments: &[Experiment]) -> Vec<Program> {
    let wants = |id| experiments.iter().any(|experiment| experiment.id == id);
    let mut programs = Vec::new();
    if wants(exp11::EXPERIMENT.id) {
        programs.extend(exp11::programs());
    }
    if wants(exp12::EXPERIMENT.id) {
        programs.extend(exp12::programs());
    }
    programs
}

/// Progress of all runs.
#[derive(Clone, Copy, Debug)]
pub struct Done<'a> {
    /// Runs that are done.
    pub runs: usize,
    /// Runs in all.
    pub runs_all: usize,
    /// Usual milliseconds of the runs that are done.
    pub work_ms: u64,
    /// Usual milliseconds of all runs.
    pub work_all_ms: u64,
    /// Description of the run that ended last.
    pub last: &'a str,
}

/// Told after each run. From any thread.
pub type Progress<'a> = dyn Fn(&Done) + Sync + 'a;

/// A run of one cell.
struct Run<'a> {
    experiment: &'a Experiment,
    cell: &'a Cell,
    conditions: Conditions<'a>,
}

impl Run<'_> {
    fn describe(&self) -> String {
        let Cell { scheme, setting } = self.cell;
        format!("{} {} {setting} seed {}", self.experiment.id, scheme.name(), self.conditions.seed)
    }

    fn measure(&self) -> Result<Vec<Value>> {
        (self.experiment.measure)(self.cell, self.conditions).with_context(|| self.describe())
    }
}

/// Refuses options that no experiment, or not these, can be run with.
///
/// # Errors
/// Says which, and what can be.
pub fn expect(experiments: &[Experiment], options: &Options) -> Result<()> {
    let Options { seeds, scale, traces } = options;
    ensure!(*seeds > 0, "--seeds {seeds}: use at least 1");
    ensure!(*scale > 0.0 && *scale <= 100.0, "--scale {scale}: use more than 0, and at most 100");
    let count = traces.len();
    ensure!(count <= biza12::TRACES_MAX, "--trace: {count} files, at most {}", biza12::TRACES_MAX);
    let takes_any = |id: &str| takes_one_trace(id) || id == biza12::EXPERIMENT.id;
    let is_replayed = experiments.iter().any(|experiment| takes_any(experiment.id));
    ensure!(
        count == 0 || is_replayed,
        "--trace: none of these experiments replays one; biza12, exp10 and straid do"
    );
    let takes_one = |experiment: &&Experiment| count > 1 && takes_one_trace(experiment.id);
    if let Some(one) = experiments.iter().find(takes_one) {
        bail!("{} replays one --trace: {count} were given, which biza12 takes", one.id);
    }
    Ok(())
}

/// Runs experiments: those in virtual time on as many threads as there are processors, then those on the wall clock
/// one by one, for which `host` is needed. Once `stop` is set, none is begun; what has a whole seed by then is reported.
///
/// # Errors
/// When a run fails; the message says which.
pub fn run(
    experiments: &[Experiment],
    options: &Options,
    host: Option<&Host>,
    progress: &Progress,
    stop: &AtomicBool,
) -> Result<Report> {
    expect(experiments, options)?;
    let is_counted = |experiment: &&Experiment| COUNTED.iter().any(|counted| counted.id == experiment.id);
    if let Some(counted) = experiments.iter().find(is_counted) {
        let missing = missing(&[VALGRIND]);
        ensure!(missing.is_none(), "{} needs {}", counted.id, missing.unwrap_or_default());
    }
    let plans: Vec<Plan> =
        experiments.iter().map(|experiment| Plan::new(experiment, options.traces.len())).collect();
    let conditions = |seed| Conditions { seed, scale: options.scale, traces: &options.traces, host };
    // Seed by seed: a machine whose speed drifts is fair to all schemes.
    let in_order = plans.iter().flat_map(|plan| (1..=options.seeds).map(move |seed| (plan, seed)));
    let runs: Vec<Run> = in_order.flat_map(|(plan, seed)| plan.runs(conditions(seed))).collect();
    let first_on_wall_clock = runs.iter().position(|run| run.experiment.is_on_wall_clock());
    let (in_virtual_time, on_wall_clock) = runs.split_at(first_on_wall_clock.unwrap_or(runs.len()));
    let work_all_ms = runs.iter().map(|run| run.experiment.run_ms).sum();
    let work_done_ms = AtomicU64::new(0);
    let tell = |done: usize, run: &Run| {
        let run_ms = run.experiment.run_ms;
        let work_ms = work_done_ms.fetch_add(run_ms, Ordering::Relaxed) + run_ms;
        progress(&Done { runs: done, runs_all: runs.len(), work_ms, work_all_ms, last: &run.describe() });
    };
    let mut values = pool::map_until(stop, in_virtual_time, Run::measure, tell);
    let is_stopped = || stop.load(Ordering::Relaxed);
    for run in on_wall_clock.iter().take_while(|_| !is_stopped()) {
        let measured = run.measure();
        // It was told to stop what it had started, and may have failed for it.
        if is_stopped() {
            break;
        }
        values.push(Ok(measured?));
        tell(values.len(), run);
    }
    gather(&plans, values, options)
}

/// The cells of an experiment.
struct Plan<'a> {
    experiment: &'a Experiment,
    cells: Vec<Cell>,
    /// For each cell the first that is measured for it.
    firsts: Vec<usize>,
}

impl Plan<'_> {
    fn new(experiment: &Experiment, traces: usize) -> Plan<'_> {
        let mut cells = (experiment.cells)();
        cells.retain(|cell| biza12::needs_traces(cell) <= traces);
        let keys: Vec<Cell> = cells.iter().map(experiment.alike).collect();
        let first = |key: &Cell| keys.iter().position(|other| other == key).expect("it is one of them");
        let firsts = keys.iter().map(first).collect();
        Plan { experiment, cells, firsts }
    }

    /// Cells that are measured, once for each seed.
    fn measured_cells(&self) -> impl Iterator<Item = &Cell> {
        let own = (0..).zip(&self.cells).zip(&self.firsts).filter(|((index, _), first)| index == *first);
        own.map(|((_, cell), _)| cell)
    }

    /// Runs of one seed.
    fn runs<'b>(&'b self, conditions: Conditions<'b>) -> impl Iterator<Item = Run<'b>> {
        self.measured_cells().map(move |cell| Run { experiment: self.experiment, cell, conditions })
    }

    /// Gathers the values of each cell from the runs of some seeds in their order.
    fn measured(&self, seeds: usize, runs: Vec<Result<Vec<Value>>>) -> Result<Vec<Measured>> {
        let cells = self.cells.iter().cloned();
        let mut measured: Vec<Measured> = cells.map(|cell| Measured { cell, runs: Vec::new() }).collect();
        let mut runs = runs.into_iter();
        for _ in 0..seeds {
            for (index, first) in self.firsts.iter().copied().enumerate() {
                let of_cell = if first < index {
                    measured[first].runs.last().expect("it was measured before").clone()
                } else {
                    runs.next().expect("one result per run")?
                };
                measured[index].runs.push(of_cell);
            }
        }
        Ok(measured)
    }
}

/// Judges what was measured: results of runs in their order, fewer than planned if somebody stopped them.
fn gather(plans: &[Plan], results: Vec<Result<Vec<Value>>>, options: &Options) -> Result<Report> {
    let published = Published::load();
    let mut results = results.into_iter();
    let (mut outcomes, mut left_out) = (Vec::new(), Vec::new());
    let seeds_wanted = usize::try_from(options.seeds).context("--seeds is too large")?;
    for plan in plans {
        let per_seed = plan.measured_cells().count();
        let own: Vec<Result<Vec<Value>>> = results.by_ref().take(seeds_wanted * per_seed).collect();
        let seeds = own.len() / per_seed;
        if seeds < seeds_wanted {
            left_out.push(format!("{} ({seeds} of {seeds_wanted} seeds)", plan.experiment.id));
        }
        if seeds > 0 {
            outcomes.push(judge(plan.experiment, plan.measured(seeds, own)?, &published));
        }
    }
    Ok(Report { options: options.clone(), paper: published.paper, outcomes, left_out })
}

fn judge(experiment: &Experiment, measured: Vec<Measured>, published: &Published) -> Outcome {
    let mut draft = Draft::new(&measured, published);
    (experiment.judge)(&mut draft);
    let Draft { comparisons, checks, plots, .. } = draft;
    Outcome { experiment: *experiment, measured, comparisons, checks, plots }
}

impl Outcome {
    /// Describes the machine of the measurements, when they were on the wall clock.
    #[must_use]
    pub fn machine(&self) -> Option<String> {
        if !self.experiment.is_on_wall_clock() {
            return None;
        }
        let attachment = self.measured.first()?.cell.setting.attachment;
        let attached =
            attachment.map(|attachment| format!(", the volume attached by {attachment}")).unwrap_or_default();
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Some(format!(
            "On the wall clock of a machine with {processors} processors{attached}: the next run gives other numbers, \
             other machines very different ones."
        ))
    }

    /// All numbers: those of each cell, then ratios, then rules (1 when one holds).
    #[must_use]
    pub fn measurements(&self) -> Vec<Measurement> {
        let experiment = self.experiment.id;
        let mut all = Vec::new();
        for measured in &self.measured {
            let Cell { scheme, setting } = &measured.cell;
            for (place, Value { metric, .. }) in measured.runs[0].iter().enumerate() {
                let values: Vec<f64> = measured.runs.iter().map(|run| run[place].value).collect();
                let (value, ci95) = summarise(&values);
                let said = self
                    .comparisons
                    .iter()
                    .find(|said| said.is_of_cell && said.cell == measured.cell && said.metric == *metric);
                all.push(Measurement {
                    experiment,
                    scheme: *scheme,
                    setting: setting.clone(),
                    metric: metric.name,
                    value,
                    ci95,
                    unit: metric.unit,
                    paper_value: said.map(|said| said.paper_value),
                });
            }
        }
        let ratios = self.comparisons.iter().filter(|said| !said.is_of_cell);
        all.extend(ratios.map(|said| Measurement {
            experiment,
            scheme: said.cell.scheme,
            setting: said.cell.setting.clone(),
            metric: said.metric.name,
            value: said.value,
            ci95: said.ci95,
            unit: said.metric.unit,
            paper_value: Some(said.paper_value),
        }));
        all.extend(self.checks.iter().map(|check| self.measurement_of(check)));
        all
    }

    fn measurement_of(&self, check: &Check) -> Measurement {
        let Cell { scheme, setting } = &self.measured[0].cell;
        Measurement {
            experiment: self.experiment.id,
            scheme: *scheme,
            setting: Setting { rule: Some(check.rule.clone()), ..setting.clone() },
            metric: "rule_holds",
            value: f64::from(u8::from(check.holds)),
            ci95: None,
            unit: "bool",
            paper_value: Some(1.0),
        }
    }
}

impl Report {
    /// Renders one JSON object per line.
    ///
    /// # Panics
    /// Never: measurements are plain data.
    #[must_use]
    pub fn to_json_lines(&self) -> String {
        let mut lines = String::new();
        for measurement in self.outcomes.iter().flat_map(Outcome::measurements) {
            lines += &serde_json::to_string(&measurement).expect("plain data");
            lines.push('\n');
        }
        lines
    }

    /// Tables for a terminal.
    #[must_use]
    pub fn to_text(&self) -> String {
        text::render(self)
    }

    /// Renders one page that needs nothing else: plots and styles are inside.
    #[must_use]
    pub fn to_html(&self) -> String {
        page::render(self)
    }
}

#[cfg(test)]
mod tests;
