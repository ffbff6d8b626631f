//! A model held against a table of measurements, point by point.
//!
//! The table has the columns figure, op, request_bytes, lba_format, stack, concurrency_kind,
//! concurrency, metric, value, n_runs, spread, n_samples, condition, flag. Rows of one experiment
//! are one [`Setting`], which one simulation answers. Rows whose flag names an artefact of the host
//! are left out, and counted.

mod rows;
mod setting;

pub use rows::{Rows, Setting, parse};

use crate::pool;
use crate::workload::percentile;
use anyhow::Result;
use drive::timing::Profile;
use serde::Serialize;
use std::collections::BTreeMap;

/// A row and the model's answer to it.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// The experiment.
    pub setting: String,
    /// The operation.
    pub op: String,
    /// Metric of the row.
    pub metric: String,
    /// Value measured by others, on a drive.
    pub measured: f64,
    /// Value measured by us, on the model.
    pub model: f64,
    /// Relative to what was measured.
    pub error_percent: f64,
}

/// Errors of the model over some rows.
#[derive(Clone, Debug, Serialize)]
pub struct Errors {
    /// Name of the rows: `all`, an operation, or an operation and a metric.
    pub rows: String,
    /// Count of these rows.
    pub count: usize,
    /// Median of the absolute errors.
    pub median_percent: f64,
    /// 90th percentile of the absolute errors.
    pub p90_percent: f64,
    /// The largest.
    pub max_percent: f64,
    /// Median of the signed errors.
    pub bias_percent: f64,
}

/// A whole comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The model.
    pub profile: String,
    /// Seed of the model.
    pub seed: u64,
    /// Rows of the table.
    pub rows: usize,
    /// Rows that were left out as artefacts of the host.
    pub rows_flagged: usize,
    /// Rows that nothing of the model answers.
    pub rows_without_model: usize,
    /// Errors over all rows, by operation, and by operation and metric.
    pub errors: Vec<Errors>,
    /// Every row that was answered.
    pub points: Vec<Point>,
}

/// Runs the model for every row of a table, on all cores. `progress` is told how many of how many settings
/// are done.
///
/// # Errors
/// When the table is not one.
///
/// # Panics
/// When a worker panics.
pub fn compare(
    text: &str,
    profile: &Profile,
    conventional: Option<&Profile>,
    seed: u64,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Comparison> {
    let Rows { settings, rows, rows_flagged } = parse(text)?;
    let answer = |setting: &Setting| setting.run(profile, conventional, seed);
    let answers = pool::map(&settings, answer, |done, _| progress(done, settings.len()));
    let points: Vec<Point> = answers.into_iter().flatten().collect();
    Ok(Comparison {
        profile: profile.name().to_owned(),
        seed,
        rows,
        rows_flagged,
        rows_without_model: rows - rows_flagged - points.len(),
        errors: errors(&points),
        points,
    })
}

fn errors(points: &[Point]) -> Vec<Errors> {
    let mut groups: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for point in points {
        for group in ["all".to_owned(), point.op.clone(), format!("{} {}", point.op, point.metric)] {
            groups.entry(group).or_default().push(point.error_percent);
        }
    }
    let summarise = |(rows, mut signed): (String, Vec<f64>)| {
        signed.sort_by(f64::total_cmp);
        let mut absolute: Vec<f64> = signed.iter().map(|error| error.abs()).collect();
        absolute.sort_by(f64::total_cmp);
        Errors {
            rows,
            count: absolute.len(),
            median_percent: percentile(&absolute, 50.0),
            p90_percent: percentile(&absolute, 90.0),
            max_percent: percentile(&absolute, 100.0),
            bias_percent: percentile(&signed, 50.0),
        }
    };
    groups.into_iter().map(summarise).collect()
}

impl Comparison {
    /// The error table in Markdown, for `docs/drive-model.md`.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut text = format!(
            "Profile `{}`, seed {}: {} rows, of which {} are artefacts of the host and {} have no model.\n\n\
             | rows | n | median | 90th percentile | largest | bias |\n|---|---:|---:|---:|---:|---:|\n",
            self.profile, self.seed, self.rows, self.rows_flagged, self.rows_without_model
        );
        for errors in &self.errors {
            text += &format!(
                "| {} | {} | {:.1} % | {:.1} % | {:.1} % | {:+.1} % |\n",
                errors.rows,
                errors.count,
                errors.median_percent,
                errors.p90_percent,
                errors.max_percent,
                errors.bias_percent
            );
        }
        text
    }
}
