//! What papers say of their designs and experiments, as data: `crates/lab/data/zapraid-experiments.toml`,
//! `straid-experiments.toml`, `biza-experiments.toml` and `zraid-experiments.toml`. What the first says of a single drive stands where the drive model is held against it, in `zapraid.toml`.

use crate::characterise::FIGURE_2;
use crate::characterise::published as drives;
use serde::Deserialize;

const TEXT: &str = include_str!("../../data/zapraid-experiments.toml");
const STRAID: &str = include_str!("../../data/straid-experiments.toml");
const BIZA: &str = include_str!("../../data/biza-experiments.toml");
const ZRAID: &str = include_str!("../../data/zraid-experiments.toml");

/// All numbers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The papers.
    pub paper: String,
    #[serde(rename = "number")]
    numbers: Vec<Number>,
}

/// A published number.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Number {
    /// Used by one comparison or several.
    pub id: String,
    /// As quoted; shares above or below another value as the ratio to it.
    pub value: f64,
    /// Kind of the number.
    pub kind: Kind,
    /// The words of the paper, shortened; what is computed from them says so.
    pub quote: String,
    /// Section and experiment.
    pub source: String,
    /// Why ours may differ by more than is tolerated, with the evidence.
    pub note: Option<String>,
}

/// Kind of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A throughput.
    Throughput,
    /// A ratio of throughputs or of medians.
    Ratio,
    /// A median latency, or a ratio of them.
    Median,
    /// A latency of the 95th percentile or above, or a ratio of them.
    Tail,
    /// A duration of a recovery.
    Time,
    /// A size that is computed, not measured.
    Size,
    /// At most this.
    AtMost,
}

impl Kind {
    /// Returns by how much ours may differ from the published number, in per cent.
    #[must_use]
    pub fn tolerance_percent(self) -> f64 {
        match self {
            Kind::Throughput | Kind::Ratio | Kind::Median => 10.0,
            Kind::Tail | Kind::Time => 25.0,
            Kind::Size => 0.5,
            Kind::AtMost => 0.0,
        }
    }

    /// Returns true when our number agrees with the published one.
    #[must_use]
    pub fn agrees(self, ours: f64, published: f64) -> bool {
        match self {
            Kind::AtMost => ours <= published,
            _ => ((ours / published - 1.0) * 100.0).abs() <= self.tolerance_percent(),
        }
    }
}

impl Number {
    /// All numbers of figure 2 are throughputs.
    fn of_drive(number: &drives::Number) -> Number {
        assert_eq!(number.kind, drives::Kind::Throughput);
        Number {
            id: number.id.clone(),
            value: number.value,
            kind: Kind::Throughput,
            quote: number.quote.clone(),
            source: number.source.clone(),
            note: number.exception.clone(),
        }
    }
}

impl Published {
    /// Loads the built-in numbers.
    ///
    /// # Panics
    /// Never: the tests parse it.
    #[must_use]
    pub fn load() -> Published {
        let mut published: Published = toml::from_str(TEXT).expect("the built-in numbers are tested");
        for text in [STRAID, BIZA, ZRAID] {
            let other: Published = toml::from_str(text).expect("the built-in numbers are tested");
            published.paper = format!("{}; {}", published.paper, other.paper);
            published.numbers.extend(other.numbers);
        }
        let of_drives = drives::Published::load();
        let of_figure = of_drives.numbers().filter(|number| number.finding == FIGURE_2.id);
        published.numbers.extend(of_figure.map(Number::of_drive));
        published
    }

    /// A number.
    ///
    /// # Panics
    /// When there is none of this name.
    #[must_use]
    pub fn number(&self, id: &str) -> &Number {
        let found = self.numbers.iter().find(|number| number.id == id);
        found.unwrap_or_else(|| panic!("no paper has a number `{id}`"))
    }

    /// All numbers.
    #[must_use]
    pub fn numbers(&self) -> &[Number] {
        &self.numbers
    }
}
