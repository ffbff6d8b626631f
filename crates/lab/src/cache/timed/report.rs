//! What a cell says: a table of numbers with units, and bars.

use serde::Serialize;
use serde_json::{Map, Value, json};
use std::fmt;

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Name of the number, as in JSON.
    pub name: &'static str,
    /// Its unit; empty for ratios and counts.
    pub unit: &'static str,
    /// Digits behind the point in the table.
    pub digits: usize,
}

/// A column.
pub const fn column(name: &'static str, unit: &'static str, digits: usize) -> Column {
    Column { name, unit, digits }
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The setting.
    pub setting: String,
    /// Numbers, by column; `None` where there is none.
    pub values: Vec<Option<f64>>,
}

/// What is wanted of a number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// No more than this.
    AtMost(f64),
    /// No less than this.
    AtLeast(f64),
}

/// A number that is to be reached.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// The number, in words.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// What is wanted.
    pub bound: Bound,
    /// Its unit; empty for ratios.
    pub unit: &'static str,
}

impl Bar {
    /// True when it is reached; what is no number reaches nothing.
    #[must_use]
    pub fn is_met(&self) -> bool {
        match self.bound {
            Bound::AtMost(most) => self.value <= most,
            Bound::AtLeast(least) => self.value >= least,
        }
    }
}

/// What a cell found.
#[derive(Clone, Debug)]
pub struct Report {
    /// The cell.
    pub cell: &'static str,
    /// Seed of drives and clients.
    pub seed: u64,
    /// What was run, and how much smaller than it is meant to be.
    pub scale: String,
    /// Columns of the table.
    pub columns: &'static [Column],
    /// Its rows.
    pub rows: Vec<Row>,
    /// Bars.
    pub bars: Vec<Bar>,
}

impl Report {
    /// True when every bar is reached.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.bars.iter().all(Bar::is_met)
    }

    /// A number of a row.
    #[must_use]
    pub fn value(&self, setting: &str, column: &str) -> Option<f64> {
        let place = self.columns.iter().position(|own| own.name == column)?;
        self.rows.iter().find(|row| row.setting == setting)?.values[place]
    }

    /// As one JSON object.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
            let named = self.columns.iter().zip(&row.values);
            let values: Map<String, Value> =
                named.map(|(column, value)| (column.name.to_owned(), json!(value))).collect();
            json!({ "setting": row.setting, "values": values })
        });
        let bars = self.bars.iter().map(|bar| {
            json!({ "name": bar.name, "value": bar.value, "unit": bar.unit, "bound": bar.bound, "met": bar.is_met() })
        });
        let units: Map<String, Value> =
            self.columns.iter().map(|column| (column.name.to_owned(), json!(column.unit))).collect();
        json!({
            "cell": self.cell,
            "seed": self.seed,
            "scale": self.scale,
            "units": units,
            "rows": rows.collect::<Vec<Value>>(),
            "bars": bars.collect::<Vec<Value>>(),
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = self.rows.iter().map(|row| row.setting.len());
        let first = settings.max().unwrap_or(0);
        writeln!(f, "{}, seed {}: {}", self.cell, self.seed, self.scale)?;
        let shown = |value: Option<f64>, digits: usize| {
            value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
        };
        let width_of = |(place, column): (usize, &Column)| {
            let values = self.rows.iter().map(|row| shown(row.values[place], column.digits).len());
            values.chain([column.name.len(), column.unit.len()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = self.columns.iter().enumerate().map(width_of).collect();
        for head in [|column: &Column| column.name, |column: &Column| column.unit] {
            let cells = self.columns.iter().zip(&widths);
            let line: String =
                cells.map(|(column, width)| format!("  {:>width$}", head(column), width = *width)).collect();
            writeln!(f, "{}", format!("{:first$}{line}", "").trim_end())?;
        }
        for row in &self.rows {
            write!(f, "{:first$}", row.setting)?;
            for ((column, width), value) in self.columns.iter().zip(&widths).zip(&row.values) {
                write!(f, "  {:>width$}", shown(*value, column.digits), width = *width)?;
            }
            writeln!(f)?;
        }
        for bar in &self.bars {
            let (word, limit) = match bar.bound {
                Bound::AtMost(most) => ("at most", most),
                Bound::AtLeast(least) => ("at least", least),
            };
            let unit = if bar.unit.is_empty() { String::new() } else { format!(" {}", bar.unit) };
            let verdict = if bar.is_met() { "met" } else { "missed" };
            writeln!(f, "{}: {:.4}{unit}, {word} {limit}: {verdict}", bar.name, bar.value)?;
        }
        Ok(())
    }
}
