//! Tries the simulator with deliberate bugs: each must be found by a scenario, or by a seed within so many
//! runs. `cargo xtask mutants` builds and runs this.
//!
//! Of the run that finds a mutant it is also told what it takes: what can be left out of it without the
//! mutant being missed is left out, one kind of step after the other. `--minimise` prints the smallest scenario
//! that finds it instead: what a bug of the past leaves behind once it is a mutant. `--only NAME --aim SCENARIO`
//! prints a seed of that scenario's plan with which it finds the mutant.

mod acted;
mod aim;
mod switch;

use serde::Serialize;
use sim::campaign::Campaign;
use sim::minimise::{fails_like, minimise};
use sim::scenarios::SCENARIOS;
use sim::{Failure, Keep, Scenario, Step, Tearing, catch_panics, run};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;
use switch::{ALL, About, World, choose};

const HELP: &str = "mutants [--only NAME]... [--runs N] [--jobs N] [--no-scenarios] [--no-needs] [--world log|inplace|conventional|inband|cache] [--markdown | --json | --minimise | --aim SCENARIO]";
/// Runs within which a seed must find a mutant.
const RUNS: u64 = 5_000;
/// Other fates of the same steps that are tried before a kind of step counts as needed.
const FATES: u64 = 8;
/// Executions after which a scenario is small enough.
const EXECUTIONS_MAX: u64 = 4_000;
/// Letters of a failure that are shown.
const SHOWN: usize = 100;

/// Options of the command.
struct Options {
    only: Vec<String>,
    /// Only bugs that the engine once had.
    past: bool,
    /// The first seed that is tried.
    seed: u64,
    runs: u64,
    jobs: usize,
    scenarios: bool,
    /// What the run that finds a mutant takes is told.
    needs: bool,
    form: Form,
    /// Scenario whose plan gets another seed.
    aim: Option<String>,
    /// World that looks for the mutants instead of their own: what the cache sees of a bug of conventional drives.
    world: Option<World>,
}

/// Format in which the result is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Markdown,
    Json,
    Scenarios,
}

/// Verdict on a mutant.
#[derive(Serialize)]
struct Verdict {
    name: &'static str,
    what: &'static str,
    source: &'static str,
    /// The scenario or seed, if any.
    found_by: Option<String>,
    /// Runs until then.
    runs: u64,
    seconds: f64,
    /// Failure by which the mutant showed.
    failure: String,
    /// Kinds of steps, and properties of drives, without which that run does not find it.
    needs: Vec<&'static str>,
}

/// Outcome of a search for a mutant.
struct Search {
    /// Scenario or seed, and the failure.
    found: Option<(String, Failure)>,
    /// Runs until then.
    runs: u64,
    /// What the run takes.
    needs: Vec<&'static str>,
}

fn main() -> ExitCode {
    let options = match options(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(what) => {
            eprintln!("mutants: {what}; {HELP}");
            return ExitCode::FAILURE;
        }
    };
    if ALL.is_empty() {
        eprintln!("mutants: this build has none; `cargo xtask mutants` makes one that has");
        return ExitCode::FAILURE;
    }
    catch_panics();
    let known: BTreeSet<&str> = ALL.iter().map(|about| about.name).collect();
    if let Some(name) = options.only.iter().find(|name| !known.contains(name.as_str())) {
        eprintln!("mutants: there is no mutant `{name}`; crates/sim/mutants lists them");
        return ExitCode::FAILURE;
    }
    if let Some(scenario) = &options.aim {
        return aimed(scenario, &options);
    }
    let wanted = |about: &&About| {
        let named = options.only.is_empty() || options.only.iter().any(|name| name == about.name);
        named && (!options.past || about.source == "past")
    };
    let verdicts: Vec<Verdict> = ALL.iter().filter(wanted).map(|about| try_one(about, &options)).collect();
    let survivors: Vec<&str> =
        verdicts.iter().filter(|verdict| verdict.found_by.is_none()).map(|verdict| verdict.name).collect();
    match options.form {
        Form::Text | Form::Scenarios => {}
        Form::Markdown => print!("{}", markdown(&verdicts)),
        Form::Json => println!("{}", serde_json::to_string_pretty(&verdicts).expect("names and numbers")),
    }
    eprintln!("{} of {} mutants found", verdicts.len() - survivors.len(), verdicts.len());
    if options.only.is_empty() && !options.past && options.needs {
        let unneeded = unneeded(&verdicts);
        if !unneeded.is_empty() {
            eprintln!("no mutant needs: {}", unneeded.join(", "));
        }
    }
    if survivors.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("not found: {}", survivors.join(", "));
    ExitCode::FAILURE
}

/// Tells the seed of a plan with which a scenario finds the mutant.
fn aimed(scenario: &str, options: &Options) -> ExitCode {
    let [mutant] = options.only.as_slice() else {
        eprintln!("mutants: --aim wants one mutant, by --only NAME");
        return ExitCode::FAILURE;
    };
    let about = ALL.iter().find(|about| about.name == mutant).expect("its name was checked");
    let found = match options.world.unwrap_or(about.world) {
        World::Log => aim::aim(scenario, mutant, options.runs),
        World::InPlace => acted::aim::<sim::inplace::InPlaceWorld>(scenario, mutant, options),
        World::Conventional => acted::aim::<sim::conventional::ConventionalWorld>(scenario, mutant, options),
        World::Inband => acted::aim::<sim::inband::InbandWorld>(scenario, mutant, options),
        World::Cache => acted::aim::<sim::cache::CacheWorld>(scenario, mutant, options),
    };
    match found {
        Ok(seed) => {
            println!("{scenario}: seed = {seed}");
            ExitCode::SUCCESS
        }
        Err(what) => {
            eprintln!("mutants: {what}");
            ExitCode::FAILURE
        }
    }
}

fn options(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options {
        only: Vec::new(),
        past: false,
        seed: 0,
        runs: RUNS,
        jobs: 2,
        scenarios: true,
        needs: true,
        form: Form::Text,
        aim: None,
        world: None,
    };
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} wants a value"));
        let number = |text: String| text.parse::<u64>().map_err(|_| format!("`{text}` is no number"));
        match argument.as_str() {
            "--only" => options.only.push(value()?),
            "--seed" => options.seed = number(value()?)?,
            "--runs" => options.runs = number(value()?)?,
            "--jobs" => options.jobs = usize::try_from(number(value()?)?.clamp(1, 64)).expect("at most 64"),
            "--past" => options.past = true,
            "--no-scenarios" => options.scenarios = false,
            "--no-needs" => options.needs = false,
            "--markdown" => options.form = Form::Markdown,
            "--json" => options.form = Form::Json,
            "--minimise" => options.form = Form::Scenarios,
            "--aim" => options.aim = Some(value()?),
            "--world" => options.world = Some(world(&value()?)?),
            _ => return Err(format!("`{argument}` is not understood")),
        }
    }
    Ok(options)
}

fn world(name: &str) -> Result<World, String> {
    Ok(match name {
        "log" => World::Log,
        "inplace" => World::InPlace,
        "conventional" => World::Conventional,
        "inband" => World::Inband,
        "cache" => World::Cache,
        _ => return Err(format!("`{name}` is no world: log, inplace, conventional, inband, cache")),
    })
}

/// Looks for one mutant, tells of it, and leaves none chosen.
fn try_one(about: &About, options: &Options) -> Verdict {
    let began = Instant::now();
    choose(Some(about.name));
    assert!(switch::is(switch::number(about.name)), "this process has the bug");
    let search = || match options.world.unwrap_or(about.world) {
        World::Log => search(about, options),
        World::InPlace => acted::search::<sim::inplace::InPlaceWorld>(about.name, options),
        World::Conventional => acted::search::<sim::conventional::ConventionalWorld>(about.name, options),
        World::Inband => acted::search::<sim::inband::InbandWorld>(about.name, options),
        World::Cache => acted::search::<sim::cache::CacheWorld>(about.name, options),
    };
    let Search { found, runs, needs } = catch_unwind(AssertUnwindSafe(search)).unwrap_or_else(|_| {
        let failure = Failure::new("a panic as a run is drawn");
        Search { found: Some(("no run at all".to_owned(), failure)), runs: 0, needs: Vec::new() }
    });
    choose(None);
    let (found_by, failure) = found.map_or((None, String::new()), |(by, failure)| (Some(by), failure.what));
    let seconds = began.elapsed().as_secs_f64();
    let About { name, what, source, .. } = *about;
    let shown: String = failure.replace('\n', " ").chars().take(SHOWN).collect();
    let by = found_by.as_deref().unwrap_or("NOT FOUND");
    eprintln!("{name:34} {by:34} {runs:5} runs {seconds:6.1} s  [{}]  {shown}", needs.join(", "));
    Verdict { name, what, source, found_by, runs, seconds, failure, needs }
}

/// Looks for a mutant of the log engine.
fn search(about: &About, options: &Options) -> Search {
    let (found, runs) = find(about.name, options);
    // Tries of a run that does not end would each leave a thread behind.
    let ended = found.as_ref().filter(|(_, _, failure)| !failure.is_endless);
    let needs = ended.filter(|_| options.needs).map(|(_, scenario, _)| needs(scenario)).unwrap_or_default();
    if let Some((_, scenario, _)) = ended.filter(|_| options.form == Form::Scenarios) {
        println!("{}", smallest(about, scenario).to_toml());
    }
    Search { found: found.map(|(by, _, failure)| (by, failure)), runs, needs }
}

/// The first scenario or seed that fails because of the mutant, and the runs until then.
fn find(mutant: &str, options: &Options) -> (Option<(String, Scenario, Failure)>, u64) {
    let mut runs = 0;
    let scenarios: &[(&str, &str)] = if options.scenarios { SCENARIOS } else { &[] };
    for (name, text) in scenarios {
        // Without the mutant: one may refuse the plan.
        choose(None);
        let scenario = Scenario::from_toml(text).expect("a test reads them all");
        choose(Some(mutant));
        runs += 1;
        let outcome = run(&scenario, Keep::Nothing);
        if let Some((_, failure)) = outcome.failure.filter(|_| passes_without(mutant, &scenario)) {
            return (Some(((*name).to_owned(), scenario, failure)), runs);
        }
    }
    let (mut first, end) = (options.seed, options.seed + options.runs);
    while first < end {
        let campaign = Campaign {
            first,
            runs: end - first,
            jobs: options.jobs,
            failures_max: 1,
            failed: &|_, _| {},
            go_on: &|_, _| true,
        };
        // Every seed below the first that failed was begun before it, and ended: which one it is is no accident.
        let Some((seed, outcome)) = campaign.run().failures.into_iter().next() else { break };
        let scenario = Scenario::draw(seed);
        if let Some((_, failure)) = outcome.failure.filter(|_| passes_without(mutant, &scenario)) {
            return (Some((format!("seed {seed}"), scenario, failure)), runs + seed - options.seed + 1);
        }
        first = seed + 1;
    }
    (None, runs + options.runs)
}

/// False when a run fails without the mutant too, and says nothing of it.
fn passes_without(mutant: &str, scenario: &Scenario) -> bool {
    choose(None);
    let outcome = run(scenario, Keep::Nothing);
    choose(Some(mutant));
    if let Some((_, failure)) = &outcome.failure {
        eprintln!("without any mutant: {}", failure.what);
    }
    outcome.failure.is_none()
}

/// The smallest scenario that the mutant fails in the same way, and that passes without it.
fn smallest(about: &About, found: &Scenario) -> Scenario {
    let outcome = run(found, Keep::Nothing);
    let mut begin = found.clone();
    if let Some((index, _)) = &outcome.failure {
        begin.steps.truncate(index + 1);
    }
    about.what.clone_into(&mut begin.note);
    let fails = fails_like(&outcome);
    minimise(&begin, EXECUTIONS_MAX, |candidate| fails(candidate) && passes_quietly(about.name, candidate))
}

fn passes_quietly(mutant: &str, scenario: &Scenario) -> bool {
    choose(None);
    let passes = run(scenario, Keep::Nothing).failure.is_none();
    choose(Some(mutant));
    passes
}

/// A kind of step, or a property of the drives, and how to do without it.
type Feature = (&'static str, fn(&mut Scenario));

/// Keeps the steps that are not of a kind.
macro_rules! without {
    ($name:literal, $kind:pat) => {
        ($name, |scenario| scenario.steps.retain(|step| !matches!(step, $kind)))
    };
}

/// In this order they are left out: what is more general is kept rather than what is more particular.
const FEATURES: &[Feature] = &[
    without!("replace", Step::Replace { .. }),
    without!("scrub", Step::Scrub { .. }),
    without!("exchange", Step::Exchange { .. }),
    without!("foreign", Step::Foreign { .. }),
    without!("blank", Step::Blank { .. }),
    without!("back", Step::Back { .. }),
    without!("away", Step::Away { .. }),
    without!("lose", Step::Lose { .. }),
    without!("rot headers", Step::Rot(sim::Damage { scope: sim::Scope::Headers, .. })),
    without!("rot footers", Step::Rot(sim::Damage { scope: sim::Scope::Footers, .. })),
    without!("rot superblocks", Step::Rot(sim::Damage { scope: sim::Scope::Superblocks, .. })),
    without!("rot", Step::Rot(sim::Damage { scope: sim::Scope::All | sim::Scope::Open, .. })),
    without!("unreadable", Step::Unreadable(_)),
    without!("misread", Step::Misread { .. } | Step::MisreadAt { .. }),
    without!("stale", Step::Stale { .. }),
    without!("miswrite", Step::Miswrite { .. }),
    without!("write-fault", Step::WriteFault { .. }),
    without!("zone read-only", Step::Zone { offline: false, .. }),
    without!("zone offline", Step::Zone { offline: true, .. }),
    without!("shrink", Step::Shrink { .. }),
    without!("area refuse", Step::AreaRefuse { .. }),
    without!("hang", Step::Hang { .. }),
    without!("die", Step::Die { .. }),
    without!("fail", Step::Fail { .. }),
    without!("stall", Step::Stall { .. }),
    ("cut", |scenario| {
        for step in &mut scenario.steps {
            if let Step::Mount { cut } = step {
                *cut = None;
            }
        }
    }),
    ("crash", |scenario| {
        let is_outage = |step: &Step| matches!(step, Step::Crash { .. } | Step::Mount { .. });
        scenario.steps.retain(|step| !is_outage(step));
        scenario.steps.insert(0, Step::Mount { cut: None });
    }),
    ("cache", |scenario| scenario.plan.volatile_cache = false),
    ("holes", |scenario| scenario.plan.tearing = Tearing::Prefix),
    without!("trim", Step::Trim { .. }),
    without!("flush", Step::Flush),
];

/// Returns the features that a run needs to find the chosen mutant.
fn needs(found: &Scenario) -> Vec<&'static str> {
    let mut scenario = found.clone();
    let mut needs = Vec::new();
    for (name, leave_out) in FEATURES {
        let mut candidate = scenario.clone();
        leave_out(&mut candidate);
        if candidate == scenario {
            continue;
        }
        match fate_that_fails(&candidate) {
            Some(failing) => scenario = failing,
            None => needs.push(*name),
        }
    }
    needs
}

/// Without a step all that follows happens otherwise: that a run passes may be chance, that some do not is
/// none.
fn fate_that_fails(scenario: &Scenario) -> Option<Scenario> {
    (0..FATES).find_map(|fate| {
        let mut scenario = scenario.clone();
        scenario.plan.seed ^= fate << 8;
        run(&scenario, Keep::Nothing).failure.is_some().then_some(scenario)
    })
}

/// Features that no mutant needs: what they are for, nobody knows.
fn unneeded(verdicts: &[Verdict]) -> Vec<&'static str> {
    let needed: BTreeSet<&str> = verdicts.iter().flat_map(|verdict| verdict.needs.iter().copied()).collect();
    FEATURES.iter().map(|(name, _)| *name).filter(|name| !needed.contains(name)).collect()
}

fn markdown(verdicts: &[Verdict]) -> String {
    let mut text = String::from(
        "| mutant | what is wrong | idea | found by | run | needs |\n|---|---|---|---|---|---|\n",
    );
    for Verdict { name, what, source, found_by, runs, needs, .. } in verdicts {
        let by = found_by.as_deref().unwrap_or("**not found**");
        text += &format!("| `{name}` | {what} | {source} | {by} | {runs} | {} |\n", needs.join(", "));
    }
    let mut needed: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for verdict in verdicts {
        for need in &verdict.needs {
            needed.entry(need).or_default().push(verdict.name);
        }
    }
    text += "\n| what can happen | mutants whose runs need it |\n|---|---|\n";
    for (name, _) in FEATURES {
        let mutants = needed.get(name).map_or(0, Vec::len);
        let example = needed.get(name).and_then(|names| names.first());
        let example = example.map_or("**none**".to_owned(), |name| format!("{mutants}, such as `{name}`"));
        text += &format!("| {name} | {example} |\n");
    }
    text
}
