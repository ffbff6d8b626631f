//! What a cell says: a table of numbers with units, and bars.

use super::Cell;
use super::summary::Summary;
use serde::Serialize;
use serde_json::Value;
use std::fmt;

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Name of the number, as in JSON.
    pub name: &'static str,
    /// Unit; empty for ratios and counts.
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

/// Bound of a number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// No more than this.
    AtMost(f64),
    /// No less than this.
    AtLeast(f64),
}

impl Bound {
    /// True of a number with which it is reached; what is no number reaches nothing.
    #[must_use]
    pub fn is_met(self, value: f64) -> bool {
        match self {
            Bound::AtMost(most) => value <= most,
            Bound::AtLeast(least) => value >= least,
        }
    }
}

/// A number that is to be reached.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// The number, in words.
    pub name: String,
    /// Value of the number.
    pub value: f64,
    /// Bound that it is to keep.
    pub bound: Bound,
    /// Unit; empty for ratios.
    pub unit: &'static str,
}

impl Bar {
    /// True when it is reached.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.bound.is_met(self.value)
    }
}

/// Report of a cell.
#[derive(Clone, Debug)]
pub struct Report {
    /// The cell.
    pub cell: Cell,
    /// Seed of drives and clients.
    pub seed: u64,
    /// Description of the runs, and how much smaller they are than meant to be.
    pub scale: String,
    /// Columns of the table.
    pub columns: &'static [Column],
    /// Rows of the table.
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
        self.summary().to_json()
    }

    fn summary(&self) -> Summary {
        Summary::of(std::slice::from_ref(self)).expect("one report agrees with itself")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.summary().fmt(f)
    }
}
