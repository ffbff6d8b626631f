//! What a cell says by several seeds: means and their 95 % confidence intervals, and bars that means reach or miss.

use super::Cell;
use super::report::{Bound, Column, Report};
use crate::experiment::mean_and_ci95;
use anyhow::{Result, ensure};
use serde_json::{Map, Value, json};
use std::fmt;

/// A number over all seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// Mean.
    pub mean: f64,
    /// Half the width of its interval; none of one seed.
    pub ci95: Option<f64>,
}

/// A line of the table.
#[derive(Clone, Debug)]
pub struct Line {
    /// The setting.
    pub setting: String,
    /// Numbers, by column; `None` where some seed has none.
    pub figures: Vec<Option<Figure>>,
}

/// A number that is to be reached.
#[derive(Clone, Debug)]
pub struct Goal {
    /// The number, in words.
    pub name: String,
    /// Figure of the number, over the seeds.
    pub figure: Figure,
    /// Bound of its mean.
    pub bound: Bound,
    /// Unit; empty for ratios.
    pub unit: &'static str,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The cell.
    pub cell: Cell,
    /// Seeds by which it was run.
    pub seeds: Vec<u64>,
    /// Description of the runs, and how much smaller they are than meant to be.
    pub scale: String,
    /// Columns of the table.
    pub columns: &'static [Column],
    /// Lines of the table.
    pub lines: Vec<Line>,
    /// Bars.
    pub goals: Vec<Goal>,
}

impl Figure {
    fn of(values: &[f64]) -> Figure {
        let (mean, ci95) = mean_and_ci95(values);
        Figure { mean, ci95 }
    }

    fn shown(&self, digits: usize) -> String {
        let Figure { mean, ci95 } = self;
        let spread = ci95.map_or(String::new(), |ci95| format!(" \u{b1}{ci95:.digits$}"));
        format!("{mean:.digits$}{spread}")
    }
}

impl Goal {
    /// True when it is reached.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.bound.is_met(self.figure.mean)
    }

    /// Figure and bound in one line.
    #[must_use]
    pub fn rule(&self) -> String {
        let (word, limit) = match self.bound {
            Bound::AtMost(most) => ("at most", most),
            Bound::AtLeast(least) => ("at least", least),
        };
        let unit = if self.unit.is_empty() { String::new() } else { format!(" {}", self.unit) };
        format!("{}: {}{unit}, {word} {limit}", self.name, self.figure.shown(4))
    }
}

impl Summary {
    /// Summary of reports of one cell by different seeds.
    ///
    /// # Errors
    /// When they have other rows than the first one.
    ///
    /// # Panics
    /// When there is none.
    pub fn of(reports: &[Report]) -> Result<Summary> {
        let first = reports.first().expect("a cell was run");
        let settings =
            |report: &Report| -> Vec<String> { report.rows.iter().map(|row| row.setting.clone()).collect() };
        for report in reports {
            let is_alike = settings(report) == settings(first) && report.bars.len() == first.bars.len();
            ensure!(is_alike, "{}: seed {} has other rows than {}", first.cell, report.seed, first.seed);
        }
        let figure = |of: &dyn Fn(&Report) -> Option<f64>| -> Option<Figure> {
            let values: Option<Vec<f64>> = reports.iter().map(of).collect();
            values.map(|values| Figure::of(&values))
        };
        let line = |(at, setting): (usize, String)| {
            let columns = 0..first.columns.len();
            let figures = columns.map(|column| figure(&|report| report.rows[at].values[column])).collect();
            Line { setting, figures }
        };
        let goal = |(at, bar): (usize, &super::report::Bar)| {
            let figure = figure(&|report| Some(report.bars[at].value)).expect("bars have values");
            Goal { name: bar.name.clone(), figure, bound: bar.bound, unit: bar.unit }
        };
        Ok(Summary {
            cell: first.cell,
            seeds: reports.iter().map(|report| report.seed).collect(),
            scale: first.scale.clone(),
            columns: first.columns,
            lines: settings(first).into_iter().enumerate().map(line).collect(),
            goals: first.bars.iter().enumerate().map(goal).collect(),
        })
    }

    /// True when every bar is reached.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.goals.iter().all(Goal::is_met)
    }

    /// Seeds in words.
    #[must_use]
    pub fn seeds_in_words(&self) -> String {
        match self.seeds.as_slice() {
            _ if self.cell.is_measured() => "measured".to_owned(),
            [] => "no seed".to_owned(),
            [seed] => format!("seed {seed}"),
            [first, .., last] => format!("means of seeds {first} to {last}"),
        }
    }

    /// Numbers of a line as they are shown.
    pub fn shown<'a>(&'a self, line: &'a Line) -> impl Iterator<Item = String> + 'a {
        let figures = self.columns.iter().zip(&line.figures);
        figures.map(|(column, figure)| figure.map_or("-".to_owned(), |figure| figure.shown(column.digits)))
    }

    /// As one JSON object.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let named = |line: &Line, of: &dyn Fn(&Figure) -> Option<f64>| -> Map<String, Value> {
            let named = self.columns.iter().zip(&line.figures);
            let value = |figure: &Option<Figure>| json!(figure.as_ref().and_then(of));
            named.map(|(column, figure)| (column.name.to_owned(), value(figure))).collect()
        };
        let is_one = self.seeds.len() == 1;
        let rows = self.lines.iter().map(|line| {
            let values = named(line, &|figure| Some(figure.mean));
            match is_one {
                true => json!({ "setting": line.setting, "values": values }),
                false => {
                    json!({ "setting": line.setting, "values": values, "ci95": named(line, &|figure| figure.ci95) })
                }
            }
        });
        let bars = self.goals.iter().map(|goal| {
            let Goal { name, figure, bound, unit } = goal;
            let mut bar = json!({ "name": name, "value": figure.mean, "unit": unit, "bound": bound, "met": goal.is_met() });
            if let Some(ci95) = figure.ci95 {
                bar["ci95"] = json!(ci95);
            }
            bar
        });
        let units: Map<String, Value> =
            self.columns.iter().map(|column| (column.name.to_owned(), json!(column.unit))).collect();
        let mut all = json!({
            "cell": self.cell.name(),
            "scale": self.scale,
            "units": units,
            "rows": rows.collect::<Vec<Value>>(),
            "bars": bars.collect::<Vec<Value>>(),
        });
        match self.seeds.as_slice() {
            [seed] => all["seed"] = json!(seed),
            seeds => all["seeds"] = json!(seeds),
        }
        all
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.lines.iter().map(|line| line.setting.len()).max().unwrap_or(0);
        writeln!(f, "{}, {}: {}", self.cell, self.seeds_in_words(), self.scale)?;
        let lines: Vec<Vec<String>> = self.lines.iter().map(|line| self.shown(line).collect()).collect();
        let width_of = |(place, column): (usize, &Column)| {
            let values = lines.iter().map(|shown| shown[place].chars().count());
            values.chain([column.name.len(), column.unit.len()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = self.columns.iter().enumerate().map(width_of).collect();
        for head in [|column: &Column| column.name, |column: &Column| column.unit] {
            let cells = self.columns.iter().zip(&widths);
            let line: String =
                cells.map(|(column, width)| format!("  {:>width$}", head(column), width = *width)).collect();
            writeln!(f, "{}", format!("{:first$}{line}", "").trim_end())?;
        }
        for (line, shown) in self.lines.iter().zip(&lines) {
            write!(f, "{:first$}", line.setting)?;
            for (value, width) in shown.iter().zip(&widths) {
                write!(f, "  {value:>width$}", width = *width)?;
            }
            writeln!(f)?;
        }
        for goal in &self.goals {
            writeln!(f, "{}: {}", goal.rule(), if goal.is_met() { "met" } else { "missed" })?;
        }
        Ok(())
    }
}
