//! The numbers that papers quote, as data: `crates/lab/data/*.toml`.

use serde::Deserialize;

const TEXTS: [&str; 4] = [
    include_str!("../../data/zns-characterisation.toml"),
    include_str!("../../data/zapraid.toml"),
    include_str!("../../data/biza.toml"),
    include_str!("../../data/zraid.toml"),
];

/// All numbers.
#[derive(Clone, Debug)]
pub struct Published {
    papers: Vec<Paper>,
}

/// A paper and its numbers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Paper {
    #[serde(rename = "paper")]
    title: String,
    /// Drives it measured, by the names of their profiles.
    profiles: Vec<String>,
    #[serde(rename = "number")]
    numbers: Vec<Number>,
}

/// A published number.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Number {
    /// Used by exactly one figure.
    pub id: String,
    /// The finding it belongs to.
    pub finding: String,
    /// Name of the measured quantity.
    pub name: String,
    /// The words of the paper, shortened.
    pub quote: String,
    /// As quoted.
    pub value: f64,
    /// As quoted.
    pub unit: String,
    /// Kind of the number, which sets its tolerance.
    pub kind: Kind,
    /// Section and figure.
    pub source: String,
    /// Why ours may differ, or what is wrong with the text.
    pub exception: Option<String>,
    /// Drives it was measured on, if not all of the paper's.
    pub profiles: Option<Vec<String>>,
}

/// Kind of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A mean.
    Mean,
    /// A rate.
    Throughput,
    /// A percentile from the 95th up.
    Tail,
    /// The 50th percentile.
    Median,
    /// A ratio of two means.
    Ratio,
    /// A difference of two means, absolute or as a share.
    Difference,
    /// Quoted with one digit, or as "about".
    About,
    /// Exact.
    Count,
}

impl Kind {
    /// Returns by how much ours may differ from the published number, in per cent.
    #[must_use]
    pub fn tolerance_percent(self) -> f64 {
        match self {
            Kind::Mean | Kind::Throughput | Kind::Ratio => 5.0,
            Kind::Tail | Kind::Median | Kind::Difference => 15.0,
            Kind::About => 10.0,
            Kind::Count => 0.01,
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
        let parse = |text| toml::from_str(text).expect("the built-in numbers are tested");
        Published { papers: TEXTS.into_iter().map(parse).collect() }
    }

    /// The number and whether it was measured on this drive.
    ///
    /// # Panics
    /// When there is no such number.
    #[must_use]
    pub fn number(&self, id: &str, drive: &str) -> (&Number, bool) {
        let found = self.papers.iter().find_map(|paper| {
            let number = paper.numbers.iter().find(|number| number.id == id)?;
            let covered = match &number.profiles {
                Some(profiles) => profiles.iter().any(|profile| profile == drive),
                None => paper.covers(drive),
            };
            Some((number, covered))
        });
        found.unwrap_or_else(|| panic!("crates/lab/data has no number `{id}`"))
    }

    /// Returns true when a finding that has its numbers from this paper must hold for this drive. Papers are
    /// known by a word of their titles.
    ///
    /// # Panics
    /// When there is no such paper.
    #[must_use]
    pub fn covers(&self, word: &str, drive: &str) -> bool {
        self.paper(word).covers(drive)
    }

    /// The title of the paper with this word in it.
    ///
    /// # Panics
    /// When there is no such paper.
    #[must_use]
    pub fn title(&self, word: &str) -> &str {
        &self.paper(word).title
    }

    /// All numbers.
    pub fn numbers(&self) -> impl Iterator<Item = &Number> {
        self.papers.iter().flat_map(|paper| &paper.numbers)
    }

    fn paper(&self, word: &str) -> &Paper {
        let found = self.papers.iter().find(|paper| paper.title.contains(word));
        found.unwrap_or_else(|| panic!("crates/lab/data has no paper with `{word}` in its title"))
    }
}

impl Paper {
    fn covers(&self, drive: &str) -> bool {
        self.profiles.iter().any(|profile| profile == drive)
    }
}
