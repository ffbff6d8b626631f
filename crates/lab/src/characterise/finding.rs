//! What is said about one observation: a verdict with its checks, figures and plots.

use super::bench::Drive;
use super::numbers::six_digits;
use super::plot::Plot;
use super::published::{Number, Published};
use super::setting::{Load, Setting, Summary};
use serde::Serialize;

/// An observation, insight or recommendation and its verdict.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// Stable name.
    pub id: &'static str,
    /// For people.
    pub title: &'static str,
    /// In one sentence.
    pub statement: &'static str,
    /// Verdict: true when it holds; `None` when this drive cannot be asked.
    pub holds: Option<bool>,
    /// True when the finding must hold for this drive.
    pub expected: bool,
    /// Conditions of which the verdict consists.
    pub checks: Vec<Check>,
    /// Numbers that were measured.
    pub figures: Vec<Figure>,
    /// Explanations.
    pub notes: Vec<&'static str>,
    /// Only in the HTML report.
    #[serde(skip)]
    pub plots: Vec<Plot>,
}

/// A condition; the verdict is that all of them hold.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// Condition in words.
    pub rule: String,
    /// True when the condition holds.
    pub holds: bool,
}

/// A number of ours, beside a published one if there is one.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// Stable name.
    pub id: String,
    /// Name of the measured quantity.
    pub name: String,
    /// Our number.
    pub ours: f64,
    /// Published number, if it is for this drive.
    pub published: Option<f64>,
    /// Unit of both numbers.
    pub unit: String,
    /// Error of our number, in per cent of the published one.
    pub error_percent: Option<f64>,
    /// True when the error is tolerable, or there is nothing to compare with.
    pub within: bool,
    /// Why it may differ.
    pub note: Option<String>,
    /// Section and figure of the paper.
    pub source: Option<String>,
    /// The words of the paper.
    #[serde(skip)]
    pub quote: Option<String>,
    /// Tolerance of the error, in per cent.
    #[serde(skip)]
    pub tolerance_percent: Option<f64>,
}

impl Figure {
    /// Returns true when the error is beyond tolerance and a note explains it.
    #[must_use]
    pub fn is_exception(&self) -> bool {
        !self.within && self.note.is_some()
    }
}

/// Source of measurements: a table of what was run, or numbers made up by a test.
pub type Source<'a> = dyn Fn(&Setting) -> Option<Vec<Summary>> + 'a;

/// A finding in the making.
pub struct Draft<'a> {
    drive: &'a Drive,
    published: &'a Published,
    source: &'a Source<'a>,
    checks: Vec<Check>,
    figures: Vec<Figure>,
    notes: Vec<&'static str>,
    plots: Vec<Plot>,
}

impl<'a> Draft<'a> {
    /// Nothing yet.
    #[must_use]
    pub fn new(drive: &'a Drive, published: &'a Published, source: &'a Source<'a>) -> Draft<'a> {
        let (checks, figures, notes, plots) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Draft { drive, published, source, checks, figures, notes, plots }
    }

    /// The drive that is characterised.
    #[must_use]
    pub fn drive(&self) -> &Drive {
        self.drive
    }

    /// Returns the summaries of all programs of a setting; `None` when the drive cannot do this.
    #[must_use]
    pub fn all(&self, setting: &Setting) -> Option<Vec<Summary>> {
        (self.source)(setting)
    }

    /// Returns the summary of one program of a setting.
    #[must_use]
    pub fn one(&self, setting: &Setting, program: usize) -> Option<Summary> {
        let mut summaries = (self.source)(setting)?;
        (program < summaries.len()).then(|| summaries.swap_remove(program))
    }

    /// Returns the summary of a load.
    #[must_use]
    pub fn load(&self, load: Load) -> Option<Summary> {
        self.one(&Setting::Load(load), 0)
    }

    /// A number that a paper quotes.
    pub fn published(&mut self, id: &str, ours: f64) {
        let (number, covered) = self.published.number(id, &self.drive.name);
        self.figures.push(compare(number, ours, covered));
    }

    /// A number of ours alone.
    pub fn ours(&mut self, id: &str, name: &str, ours: f64, unit: &str) {
        self.figures.push(Figure {
            id: id.to_owned(),
            name: name.to_owned(),
            ours: six_digits(ours),
            published: None,
            unit: unit.to_owned(),
            error_percent: None,
            within: true,
            note: None,
            source: None,
            quote: None,
            tolerance_percent: None,
        });
    }

    /// A condition of the verdict.
    pub fn check(&mut self, rule: impl Into<String>, holds: bool) {
        self.checks.push(Check { rule: rule.into(), holds });
    }

    /// An explanation.
    pub fn note(&mut self, note: &'static str) {
        self.notes.push(note);
    }

    /// A plot.
    pub fn plot(&mut self, plot: Plot) {
        self.plots.push(plot);
    }

    /// The value a paper quotes, for plots; `None` for other drives.
    #[must_use]
    pub fn quoted(&self, id: &str) -> Option<f64> {
        let (number, covered) = self.published.number(id, &self.drive.name);
        covered.then_some(number.value)
    }

    /// The whole. A draft without checks, or that was given up, has no verdict.
    #[must_use]
    pub fn finish(self, subject: &Subject, complete: bool) -> Finding {
        let holds =
            (complete && !self.checks.is_empty()).then(|| self.checks.iter().all(|check| check.holds));
        Finding {
            id: subject.id,
            title: subject.title,
            statement: subject.statement,
            holds,
            expected: self.published.covers(subject.paper, &self.drive.name),
            checks: self.checks,
            figures: self.figures,
            notes: self.notes,
            plots: self.plots,
        }
    }
}

/// An observation, insight or recommendation to be judged.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// Stable name.
    pub id: &'static str,
    /// For people.
    pub title: &'static str,
    /// In one sentence.
    pub statement: &'static str,
    /// A word of the title of the paper that says so.
    pub paper: &'static str,
    /// Measures and judges; `None` as soon as the drive cannot do something. Which settings it asks
    /// for must not depend on what it is answered.
    pub find: fn(&mut Draft) -> Option<()>,
}

impl Subject {
    /// The finding.
    pub fn judge(&self, drive: &Drive, published: &Published, source: &Source) -> Finding {
        let mut draft = Draft::new(drive, published, source);
        let complete = (self.find)(&mut draft).is_some();
        draft.finish(self, complete)
    }
}

fn compare(number: &Number, ours: f64, covered: bool) -> Figure {
    let published = covered.then_some(number.value);
    let error_percent = published.map(|published| (ours / published - 1.0) * 100.0);
    let tolerance = number.kind.tolerance_percent();
    Figure {
        id: number.id.clone(),
        name: number.name.clone(),
        ours: six_digits(ours),
        published,
        unit: number.unit.clone(),
        error_percent: error_percent.map(|error| (error * 100.0).round() / 100.0),
        within: error_percent.is_none_or(|error| error.abs() <= tolerance),
        note: number.exception.clone().filter(|_| covered),
        source: covered.then(|| number.source.clone()),
        quote: covered.then(|| number.quote.clone()),
        tolerance_percent: covered.then_some(tolerance),
    }
}
