//! What every experiment promises.

#![allow(clippy::unwrap_used, reason = "a test")]

use super::measurement::{
    ABSORBED_BYTES, BACKING_BYTES, DATA_BYTES, DRIVE_READS, DRIVE_WRITES, FINISH_BYTES, FLASH_BYTES,
    INDEX_RESIDENT, INTERFACE_BYTES, MEAN, METADATA_BYTES, MOVED_BYTES, Metric, P50, P95, P99, P999, P9999,
    PADDING_BYTES, PARITY_BYTES, READ_THROUGHPUT, THROUGHPUT, WRITE_AMPLIFICATION, WRITE_THROUGHPUT,
};
use super::scheme::{self, Scheme};
use super::*;
use std::collections::BTreeSet;

/// Everything that any experiment measures, but for `design`.
const METRICS: [Metric; 50] = [
    WRITE_THROUGHPUT,
    READ_THROUGHPUT,
    THROUGHPUT,
    P50,
    P95,
    P99,
    P999,
    P9999,
    WRITE_AMPLIFICATION,
    DRIVE_WRITES,
    FLASH_BYTES,
    INDEX_RESIDENT,
    exp5::MOUNT,
    exp5::MOUNT_AT_REST,
    exp5::MOUNT_FOOTERS,
    exp5::REBUILD,
    exp5::RATE,
    exp11::METRICS[0],
    exp11::METRICS[1],
    exp12::TRANSACTIONS,
    wall_load::SERVER_PROCESSOR,
    wall_load::MACHINE_PROCESSOR,
    beyond::READ_P99,
    beyond::WRITE_P99,
    search::SEARCH,
    DRIVE_READS,
    straid::fig11::DRIVES_THROUGHPUT,
    straid::traces::CACHE_HITS,
    MEAN,
    straid::fig12::SPREAD,
    straid::fig19::DRIVES_THROUGHPUT,
    straid::fig18::P10,
    straid::fig18::P25,
    straid::fig18::P75,
    straid::fig18::P90,
    straid::table4::METRICS[0],
    straid::table4::METRICS[1],
    straid::table4::METRICS[2],
    DATA_BYTES,
    PARITY_BYTES,
    ABSORBED_BYTES,
    MOVED_BYTES,
    PADDING_BYTES,
    METADATA_BYTES,
    FINISH_BYTES,
    INTERFACE_BYTES,
    BACKING_BYTES,
    biza16::AREA_ZONES,
    straid::counted::INSTRUCTIONS,
    straid::counted::LOCKS,
];

/// Iterates over all experiments, those on the wall clock as well.
fn every() -> impl Iterator<Item = &'static Experiment> {
    ALL.iter().chain(BY_NAME).chain(WALL_CLOCK)
}

/// A run whose every value is 1.
fn made_up_run() -> Vec<Value> {
    let all = METRICS.into_iter().chain(design::METRICS).chain(channels::METRICS);
    let all = all.chain(straid::fig13::METRICS);
    all.map(|metric| Value { metric, value: 1.0 }).collect()
}

/// The outcome of an experiment with such runs.
fn made_up(experiment: &Experiment) -> Outcome {
    let runs = vec![made_up_run(); 2];
    let measured = (experiment.cells)().into_iter().map(|cell| Measured { cell, runs: runs.clone() });
    judge(experiment, measured.collect(), &Published::load())
}

#[test]
fn experiments_have_names_of_their_own_and_cells_are_named_once() {
    let ids: BTreeSet<&str> = every().map(|experiment| experiment.id).collect();
    assert_eq!(ids.len(), every().count());
    for experiment in every() {
        let cells = (experiment.cells)();
        assert!(!cells.is_empty());
        for (place, cell) in cells.iter().enumerate() {
            assert!(!cells[..place].contains(cell), "{}: {cell:?} is there twice", experiment.id);
        }
    }
}

#[test]
fn every_published_number_is_compared() {
    let outcomes: Vec<Outcome> = every().map(made_up).collect();
    let said = || outcomes.iter().flat_map(|outcome| &outcome.comparisons);
    let used: BTreeSet<&str> = said().map(|said| said.id).collect();
    let published = Published::load();
    let known: BTreeSet<&str> = published.numbers().iter().map(|number| number.id.as_str()).collect();
    assert_eq!(used, known);
    assert_eq!(known.len(), published.numbers().len(), "a number is there twice");
    assert!(said().all(|said| said.ci95 == Some(0.0)));
}

#[test]
fn of_what_was_interrupted_whole_seeds_are_reported() {
    let plans = [exp1::EXPERIMENT, exp8::EXPERIMENT, exp9::EXPERIMENT]
        .each_ref()
        .map(|experiment| Plan::new(experiment, 0));
    // More of the second seed than the next experiment has for one.
    let begun = plans[2].measured_cells().count() + 1;
    assert!(
        begun < plans[1].measured_cells().count() && plans[1].measured_cells().count() < plans[1].cells.len()
    );
    let count = 2 * plans[0].measured_cells().count() + plans[1].measured_cells().count() + begun;
    let results = (0..count).map(|_| Ok(made_up_run())).collect();
    let options = Options { seeds: 2, scale: 1.0, traces: Vec::new() };
    let report = gather(&plans, results, &options).unwrap();
    assert_eq!(report.left_out, ["exp8 (1 of 2 seeds)", "exp9 (0 of 2 seeds)"]);
    let runs = |outcome: &Outcome| outcome.measured.iter().map(|measured| measured.runs.len()).collect();
    let runs: Vec<BTreeSet<usize>> = report.outcomes.iter().map(runs).collect();
    assert_eq!(runs, [BTreeSet::from([2]), BTreeSet::from([1])]);
}

#[test]
fn reports_have_all_plots_and_lines_have_all_keys() {
    let outcomes: Vec<Outcome> = every().map(made_up).collect();
    let plots: Vec<&str> =
        outcomes.iter().flat_map(|outcome| outcome.plots.iter().map(|plot| plot.id)).collect();
    assert_eq!(plots.iter().collect::<BTreeSet<_>>().len(), plots.len());
    let report = Report {
        options: Options { seeds: 2, scale: 1.0, traces: Vec::new() },
        paper: String::from("a paper"),
        outcomes,
        left_out: vec![String::from("exp8 (2 of 5 seeds)")],
    };
    let page = report.to_html();
    assert!(plots.iter().all(|id| page.contains(&format!("id=\"plot-{id}\""))));
    let lines = report.to_json_lines();
    assert!(lines.lines().count() > 1000);
    for line in lines.lines() {
        let object: serde_json::Value = serde_json::from_str(line).unwrap();
        let keys: BTreeSet<&str> = object.as_object().unwrap().keys().map(String::as_str).collect();
        let all = ["experiment", "scheme", "setting", "metric", "value", "ci95", "unit", "paper_value"];
        assert_eq!(keys, all.into_iter().collect());
    }
    let text = report.to_text();
    assert!(text.contains("numbers of papers agree"));
    assert!([&text, &page].iter().all(|all| all.contains("Interrupted, without: exp8 (2 of 5 seeds)")));
}

/// The first and the last cell of each experiment, for real: two runs give the same, another seed does not.
#[test]
fn a_run_is_a_function_of_its_cell_and_seed() {
    let conditions = Conditions { seed: 1, scale: 0.01, traces: &[], host: None };
    for experiment in ALL.iter().chain(&[biza15::EXPERIMENT, zraid7::EXPERIMENT]) {
        let cells = (experiment.cells)();
        for cell in [&cells[0], &cells[cells.len() - 1]] {
            let first = (experiment.measure)(cell, conditions).unwrap();
            assert!(first.iter().all(|value| value.value.is_finite()), "{}: {first:?}", experiment.id);
            assert_eq!((experiment.measure)(cell, conditions).unwrap(), first, "{}", experiment.id);
            let other = (experiment.measure)(cell, Conditions { seed: 2, ..conditions }).unwrap();
            // Sizes are computed: nothing of them is left to chance.
            assert_eq!(other == first, experiment.id == design::EXPERIMENT.id, "{}", experiment.id);
        }
    }
}

/// Why writing 256 MiB in place of 64 GiB does not matter: half of it says the same.
#[test]
fn twice_the_volume_gives_the_same_throughput() {
    for (scheme, size_kib) in [(Scheme::ZapRaid, 4), (Scheme::ZoneWriteOnly, 16), (Scheme::ZapRaid, 16)] {
        let cell = Cell { scheme, setting: Setting::paper(size_kib, size_kib) };
        let [half, whole] = [0.5, 1.0].map(|scale| {
            let values =
                write_load::measure(&cell, Conditions { seed: 1, scale, traces: &[], host: None }).unwrap();
            assert_eq!(values[0].metric, WRITE_THROUGHPUT);
            values[0].value
        });
        assert!((half / whole - 1.0).abs() < 0.02, "{scheme:?} {size_kib} KiB: {half} and {whole} MiB/s");
    }
}

/// Why zones of 2 MiB in place of 1,077 do not matter where space is collected: those of 4 MiB say the same.
#[test]
fn larger_zones_give_the_same_throughput() {
    for scheme in [Scheme::ZapRaid, Scheme::Adaptive] {
        let cell = exp8::of_scheme(scheme, "randwrite-4k", 4, 16, 60);
        let [small, large] = [1, 2].map(|times| {
            // A single seed scatters by more than zones matter: a block more in the first zone shifts all that follows.
            let of_seed = |seed| {
                let conditions = Conditions { seed, scale: 0.1, traces: &[], host: None };
                let values = exp8::measure_in_zones(times * exp8::ZONE_BLOCKS, &cell, conditions).unwrap();
                assert_eq!(values[0].metric, WRITE_THROUGHPUT);
                values[0].value
            };
            (1..=4).map(of_seed).sum::<f64>() / 4.0
        });
        assert!((small / large - 1.0).abs() < 0.1, "{scheme:?}: {small} and {large} MiB/s");
    }
}

/// The adaptive scheme is told no size of chunks: experiment 8 measures it once for both, and may.
#[test]
fn what_adapts_does_the_same_whatever_the_chunk() {
    let conditions = Conditions { seed: 1, scale: 0.01, traces: &[], host: None };
    let [small, large] = [4, 16].map(|chunk_kib| {
        let cell = exp8::of_scheme(Scheme::Adaptive, "zipf-0.99-64k", 64, chunk_kib, 40);
        exp8::measure(&cell, conditions).unwrap()
    });
    assert!(small == large, "{small:?} and {large:?}");
}

/// Ours leaves no setting to an operator, and is at least as fast as the best that one could choose.
#[test]
fn adaptive_is_at_least_as_fast_as_the_best_fixed_scheme() {
    let conditions = Conditions { seed: 1, scale: 0.05, traces: &[], host: None };
    let measure = |scheme, depth, size_kib, metric| {
        let setting = Setting { queue_depth: Some(depth), ..Setting::paper(size_kib, size_kib) };
        let values = write_load::measure(&Cell { scheme, setting }, conditions).unwrap();
        values.iter().find(|value| value.metric == metric).unwrap().value
    };
    for (depth, size_kib) in [(1, 4), (4, 4), (8, 4), (4, 16), (64, 4), (64, 16)] {
        let of = |scheme| measure(scheme, depth, size_kib, WRITE_THROUGHPUT);
        let best = scheme::ALL.map(of).into_iter().fold(0.0, f64::max);
        let ours = of(Scheme::Adaptive);
        assert!(ours > 0.99 * best, "depth {depth}, {size_kib} KiB: {ours:.0} and {best:.0} MiB/s");
    }
    // A lone write waits for nobody: not a tenth of the deadline of stripes more than the drives take.
    assert!(measure(Scheme::Adaptive, 1, 4, P95) < 20.0);
}

#[test]
fn experiments_are_found_by_name() {
    let unknown = named(&[String::from("exp99")]).unwrap_err().to_string();
    assert!(unknown.contains("exp1, "), "{unknown}");
    let named_of =
        |names: &[&str]| named(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap();
    let of_all = named_of(&["all"]);
    assert_eq!(of_all.len(), ALL.len());
    assert!(!of_all.iter().any(Experiment::is_on_wall_clock) && programs(&of_all).is_empty());
    let of_biza: Vec<&str> = named_of(&["biza"]).iter().map(|experiment| experiment.id).collect();
    assert_eq!(of_biza, ["biza5", "biza10", "biza11", "biza12", "biza14", "biza15", "biza16"]);
    let with_files = named_of(&["exp11", "all"]);
    assert_eq!(with_files.len(), ALL.len() + 1);
    assert!(with_files[ALL.len()].is_on_wall_clock());
    assert!(programs(&with_files).iter().any(|program| program.name == "sysbench"));
}

#[test]
fn the_wall_clock_needs_a_host() {
    let experiments = named(&[String::from("exp11")]).unwrap();
    let options = Options { seeds: 1, scale: 0.01, traces: Vec::new() };
    let error = run(&experiments, &options, None, &|_| {}, &AtomicBool::new(false)).unwrap_err();
    assert!(format!("{error:#}").contains("needs a host"), "{error:#}");
}

/// Cells of each given trace, in a closed loop and by its times; traces that were not given have none.
#[test]
fn each_given_trace_has_its_cells() {
    let cells = (biza12::EXPERIMENT.cells)();
    let counted = |traces: usize| cells.iter().filter(|cell| biza12::needs_traces(cell) <= traces).count();
    let rows = counted(1) / 5;
    assert_eq!(counted(0), counted(1), "the first is made up where none is given");
    assert_eq!([2, 3, 4].map(counted), [7, 9, 11].map(|workloads| workloads * rows));
    let given = crate::trace::generated::events(200, 1 << 10, 3);
    let traces = [given[..150].to_vec(), given];
    let conditions = Conditions { seed: 1, scale: 0.01, traces: &traces, host: None };
    let is_ours = |cell: &&Cell| cell.scheme == Scheme::Adaptive && biza12::needs_traces(cell) == 2;
    for cell in cells.iter().filter(is_ours) {
        let values = (biza12::EXPERIMENT.measure)(cell, conditions).unwrap();
        assert!(values.iter().any(|value| value.metric.name == "p9999_latency_us" && value.value > 0.0));
    }
}

/// A trace that is given is replayed, all of it: two runs on drives of other seeds move the same bytes.
#[test]
fn a_given_trace_is_replayed() {
    let events = crate::trace::generated::events(500, 1 << 12, 9);
    let (few, many) = ([events[..100].to_vec()], [events]);
    let cells = (exp10::EXPERIMENT.cells)();
    for cell in [&cells[0], &cells[cells.len() - 1]] {
        let short = Conditions { seed: 1, scale: 0.01, traces: &few, host: None };
        let long = Conditions { traces: &many, ..short };
        let [first, second] =
            [short, long].map(|conditions| (exp10::EXPERIMENT.measure)(cell, conditions).unwrap());
        assert_ne!(first, second);
        assert!(first.iter().chain(&second).all(|value| value.value > 0.0));
    }
}
