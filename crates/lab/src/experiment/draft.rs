//! The draft of an experiment's outcome: what was measured, held against what the paper says.

use super::measurement::{Metric, Value, summarise};
use super::published::{Kind, Published};
use super::scheme::Scheme;
use super::setting::Setting;
use super::student::mean_and_ci95;
use crate::characterise::finding::Check;
use crate::characterise::plot::{Plot, Series};

/// A scheme in a setting, which is measured once per seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Scheme by which stripes are placed.
    pub scheme: Scheme,
    /// Setting of the measurement.
    pub setting: Setting,
}

/// A cell and what its runs measured, by seed.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The cell.
    pub cell: Cell,
    /// The values of each run, in the same order for all of them.
    pub runs: Vec<Vec<Value>>,
}

impl Measured {
    /// The values of a metric, by seed; `None` when nothing of the kind was measured.
    #[must_use]
    pub fn values(&self, metric: Metric) -> Option<Vec<f64>> {
        let of_run = |run: &Vec<Value>| Some(run.iter().find(|value| value.metric == metric)?.value);
        self.runs.iter().map(of_run).collect()
    }
}

/// A number of ours beside one of the paper.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Name of the published number.
    pub id: &'static str,
    /// Cell that our value belongs to.
    pub cell: Cell,
    /// Metric that is compared.
    pub metric: Metric,
    /// Our value.
    pub value: f64,
    /// Confidence interval of our value.
    pub ci95: Option<f64>,
    /// Value of the paper.
    pub paper_value: f64,
    /// Kind of the number.
    pub kind: Kind,
    /// Verdict of the comparison.
    pub verdict: Verdict,
    /// The words of the paper.
    pub quote: String,
    /// Place of these words in the paper.
    pub source: String,
    /// Why ours may differ.
    pub note: Option<String>,
    /// True when our value is one of a cell, printed with the cell's others.
    pub is_of_cell: bool,
}

/// Verdict of the comparison of a number of ours with a published one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Within tolerance.
    Agrees,
    /// Not, and it is known why.
    Explained,
    /// Not.
    Differs,
}

/// The outcome in the making.
pub struct Draft<'a> {
    measured: &'a [Measured],
    published: &'a Published,
    /// Numbers beside the paper's.
    pub comparisons: Vec<Comparison>,
    /// Rules.
    pub checks: Vec<Check>,
    /// Figures.
    pub plots: Vec<Plot>,
}

impl<'a> Draft<'a> {
    /// Nothing yet.
    #[must_use]
    pub fn new(measured: &'a [Measured], published: &'a Published) -> Draft<'a> {
        Draft { measured, published, comparisons: Vec::new(), checks: Vec::new(), plots: Vec::new() }
    }

    /// Returns the measurements.
    #[must_use]
    pub fn measured(&self) -> &'a [Measured] {
        self.measured
    }

    /// The values of a cell, by seed.
    ///
    /// # Panics
    /// When the experiment has no such cell or measured nothing of the kind.
    #[must_use]
    pub fn values(&self, cell: &Cell, metric: Metric) -> Vec<f64> {
        let found = self.measured.iter().find(|measured| measured.cell == *cell);
        let measured = found.unwrap_or_else(|| panic!("the experiment has no cell {cell:?}"));
        let values = measured.values(metric);
        values.unwrap_or_else(|| panic!("{} was not measured in {cell:?}", metric.name))
    }

    /// The mean over the seeds.
    #[must_use]
    pub fn mean(&self, cell: &Cell, metric: Metric) -> f64 {
        mean_and_ci95(&self.values(cell, metric)).0
    }

    /// Holds a value of a cell against a published one.
    pub fn value(&mut self, id: &'static str, cell: &Cell, metric: Metric) {
        let values = self.values(cell, metric);
        self.compare(id, cell.clone(), metric, &values, true);
    }

    /// Holds the ratio of two cells, seed by seed, against a published one. `versus` says what the second is.
    pub fn ratio(&mut self, id: &'static str, of: (&Cell, &Cell), metric: Metric, versus: &str) {
        let (above, below) = (self.values(of.0, metric), self.values(of.1, metric));
        let ratios: Vec<f64> = above.iter().zip(&below).map(|(above, below)| above / below).collect();
        let setting = Setting { versus: Some(versus.to_owned()), ..of.0.setting.clone() };
        let cell = Cell { scheme: of.0.scheme, setting };
        self.compare(id, cell, ratio_of(metric), &ratios, false);
    }

    /// Holds numbers, one per seed, against a published one.
    pub fn number(&mut self, id: &'static str, cell: Cell, metric: Metric, values: &[f64]) {
        self.compare(id, cell, metric, values, false);
    }

    fn compare(&mut self, id: &'static str, cell: Cell, metric: Metric, values: &[f64], is_of_cell: bool) {
        let number = self.published.number(id);
        let (value, ci95) = summarise(values);
        let verdict = match (number.kind.agrees(value, number.value), &number.note) {
            (true, _) => Verdict::Agrees,
            (false, Some(_)) => Verdict::Explained,
            (false, None) => Verdict::Differs,
        };
        self.comparisons.push(Comparison {
            id,
            cell,
            metric,
            value,
            ci95,
            paper_value: number.value,
            kind: number.kind,
            verdict,
            quote: number.quote.clone(),
            source: number.source.clone(),
            note: number.note.clone(),
            is_of_cell,
        });
    }

    /// A rule.
    pub fn check(&mut self, rule: impl Into<String>, holds: bool) {
        self.checks.push(Check { rule: rule.into(), holds });
    }

    /// A figure.
    pub fn plot(&mut self, plot: Plot) {
        self.plots.push(plot);
    }

    /// Bars of cells, in this order.
    #[must_use]
    pub fn bars(&self, name: &str, cells: &[Cell], metric: Metric) -> Series {
        Series::by_name(name, cells.iter().map(|cell| Some(self.mean(cell, metric))))
    }

    /// The published number of a plot.
    #[must_use]
    pub fn quoted(&self, id: &str) -> f64 {
        self.published.number(id).value
    }
}

/// The ratio of two values of a metric.
fn ratio_of(metric: Metric) -> Metric {
    let name = match metric.name {
        "write_throughput_mib_s" => "write_throughput_ratio",
        "read_throughput_mib_s" => "read_throughput_ratio",
        "throughput_mib_s" => "throughput_ratio",
        "p50_latency_us" => "p50_latency_ratio",
        "p95_latency_us" => "p95_latency_ratio",
        "p99_latency_us" => "p99_latency_ratio",
        "p9999_latency_us" => "p9999_latency_ratio",
        "transactions_per_s" => "transactions_ratio",
        "rebuild_time_ms" => "rebuild_time_ratio",
        _ => "ratio",
    };
    Metric { name, unit: "x" }
}
