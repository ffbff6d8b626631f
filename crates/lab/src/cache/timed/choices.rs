//! `policies` as a cell: hit ratios of policies and models, by load and size of the cache.

use super::report::{Bar, Bound, Column, Report, Row, column};
use super::{Cell, Run};
use crate::cache::policies::{self, Case, Outcome};
use crate::cache::rig::mean;
use anyhow::Result;
use std::collections::BTreeSet;

/// Settings that a seed draws at scale 1.
const DRAWN: u64 = 4;

/// Hit ratios by the names of policies and models, but for the last.
const COLUMNS: &[Column] = &[
    column("fifo", "", 3),
    column("lru", "", 3),
    column("sieve", "", 3),
    column("s3fifo-0", "", 3),
    column("s3fifo", "", 3),
    column("s3fifo-100", "", 3),
    column("region-lru", "", 3),
    column("object-lru", "", 3),
    column("object-sieve", "", 3),
    column("belady", "", 3),
    column("written", "B/B", 2),
];

/// The loads with published statistics by the run's seed, and the mean of settings that are drawn.
pub(super) fn run(run: &Run) -> Result<Report> {
    let count = run.scaled(DRAWN, 1);
    let first = run.seed.wrapping_sub(1).wrapping_mul(count).wrapping_add(1);
    let drawn: Vec<Case> = (0..count).map(|more| Case::drawn(first.wrapping_add(more))).collect();
    let mut report = report(run.seed, &policies::run(&Case::named(run.seed), |_, _, _| ())?);
    let all: Vec<Row> = policies::run(&drawn, |_, _, _| ())?.iter().map(row).collect();
    let of = |at: usize| mean(&all, |row| row.values[at].unwrap_or(f64::NAN));
    let values = (0..COLUMNS.len()).map(|at| Some(of(at))).collect();
    report.rows.push(Row { setting: format!("drawn, mean of {count}"), values });
    Ok(report)
}

/// Report of the runs, each setting in a row, with its bars.
#[must_use]
pub fn report(seed: u64, outcomes: &[Outcome]) -> Report {
    let loads: BTreeSet<&str> = outcomes.iter().map(|outcome| outcome.load.as_str()).collect();
    Report {
        cell: Cell::Policies,
        seed,
        scale: loads.into_iter().collect::<Vec<&str>>().join("; "),
        columns: COLUMNS,
        rows: outcomes.iter().map(row).collect(),
        bars: outcomes.iter().flat_map(bars).collect(),
    }
}

fn row(outcome: &Outcome) -> Row {
    let of = |name: &str| outcome.rows.iter().find(|row| row.policy == name);
    let value = |column: &Column| match column.name {
        "written" => of("s3fifo").and_then(|row| row.write_amplification),
        name => of(name).map(|row| row.hit_ratio),
    };
    Row { setting: outcome.setting.clone(), values: COLUMNS.iter().map(value).collect() }
}

fn bars(outcome: &Outcome) -> [Bar; 2] {
    let bar = |than: &str, value, least| Bar {
        name: format!("{}, s3fifo above {than}", outcome.setting),
        value,
        bound: Bound::AtLeast(least),
        unit: "",
    };
    [
        bar("regions", outcome.ahead_of_regions, policies::BAR_REGIONS),
        bar("objects", outcome.ahead_of_objects, policies::least_to_objects(outcome.flash_percent)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::load::{Ask, Kind, Load};

    #[test]
    fn what_policies_found_is_a_report_with_both_bars() {
        let asks = (0..8_000_u64).map(|at| Ask { key: at * at % 4_001, bytes: 16_384, kind: Kind::Get });
        let load = Load { name: "squares".to_owned(), asks: asks.collect() };
        let outcomes = policies::run(&Case::of_trace(load, &[60, 80], &[24]), |_, _, _| ()).unwrap();
        let report = report(1, &outcomes);
        let settings: Vec<&str> = report.rows.iter().map(|row| row.setting.as_str()).collect();
        assert_eq!(settings, ["squares, 60 %, 24 zones", "squares, 80 %, 24 zones"]);
        assert!(report.rows.iter().flat_map(|row| &row.values).all(Option::is_some), "{report}");
        assert_eq!(report.is_good(), outcomes.iter().all(|outcome| outcome.met), "{report}");
        assert_eq!(report.bars.len(), 4);
    }
}
