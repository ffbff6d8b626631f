//! The published characterisation of zoned drives, run again on a drive of ours.
//!
//! ```text
//!   subjects --ask for--> settings --run once each--> summaries --judged by--> subjects --> report
//! ```
//! A [`Subject`](finding::Subject) is one observation, insight or recommendation of a paper with the
//! rule that decides whether it holds; a [`Setting`](setting::Setting) is one run against a fresh
//! drive. Subjects ask for settings and judge what comes back, so that tests can answer with numbers
//! of their own. Published numbers are data (`crates/lab/data`); nothing is compared with numbers
//! that were measured on another drive.
//!
//! Everything follows from the profile and the seed: two runs give the same report.

pub mod bench;
mod biza;
mod emulators;
pub mod finding;
mod interference;
mod latency;
#[cfg(test)]
pub(crate) mod made_up;
mod numbers;
pub mod plot;
pub mod published;
mod recommendations;
mod reset;
mod run;
mod scaling;
pub mod setting;
mod transitions;
mod windows;
mod zapraid_figure_2;

pub use numbers::readable;
pub use run::Progress;
pub use zapraid_figure_2::FIGURE_2;

use bench::{Bench, ModelBench, WallBench};
use drive::timing::{Profile, ZoneMap};
use finding::{Figure, Finding, Subject};
use published::Published;
use serde::Serialize;
use zone::device::ZonedDevice;

/// Everything that is found out about one drive.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The drive.
    pub profile: String,
    /// Seed of all variation.
    pub seed: u64,
    /// True when runs were shortened.
    pub quick: bool,
    /// In the order of the papers.
    pub findings: Vec<Finding>,
    /// Counts.
    pub summary: Summary,
}

/// Counts over a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Findings that hold, of those expected to.
    pub holds: usize,
    /// Findings that do not, of those expected to; also those that could not be measured.
    pub fails: usize,
    /// Figures within tolerance of a published number.
    pub within: usize,
    /// Figures outside of it, without explanation.
    pub outside: usize,
    /// Figures outside of it that are explained.
    pub exceptions: usize,
}

/// Options of a run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Seed of all variation.
    pub seed: u64,
    /// Short runs, to see that everything works; figures are then rough.
    pub quick: bool,
    /// Map of zones of a modelled drive to channel groups, if not as the profile says.
    pub zone_map: Option<ZoneMap>,
}

/// Characterises a modelled drive. `conventional` is what observation 11 compares it with.
#[must_use]
pub fn run(
    profile: &Profile,
    conventional: Option<&Profile>,
    options: Options,
    progress: &Progress,
) -> Report {
    let bench =
        ModelBench::new(profile, conventional, options.seed, options.quick).with_zone_map(options.zone_map);
    run_on(&bench, options, progress)
}

/// Characterises a drive on the wall clock, by shorter runs; what it holds is lost.
#[must_use]
pub fn run_on_device(
    device: Box<dyn ZonedDevice>,
    name: &str,
    options: Options,
    progress: &Progress,
) -> Report {
    run_on(&WallBench::new(device, name), options, progress)
}

/// Characterises whatever this bench measures.
#[must_use]
pub fn run_on(bench: &dyn Bench, options: Options, progress: &Progress) -> Report {
    let published = Published::load();
    let findings = run::findings(&subjects(), bench, &published, progress);
    let summary = summarise(&findings);
    Report {
        profile: bench.drive().name.clone(),
        seed: options.seed,
        quick: options.quick,
        findings,
        summary,
    }
}

impl Report {
    /// Returns the count of findings that must hold for this drive and do not.
    #[must_use]
    pub fn failures(&self) -> usize {
        self.summary.fails
    }
}

/// In the order of the papers.
fn subjects() -> Vec<Subject> {
    let mut subjects = vec![
        latency::TABLE_2,
        latency::OBSERVATION_1,
        latency::OBSERVATION_2,
        latency::OBSERVATION_3,
        latency::OBSERVATION_4,
        scaling::OBSERVATION_5,
        scaling::OBSERVATION_6,
        scaling::OBSERVATION_7,
        scaling::OBSERVATION_8,
        transitions::OBSERVATION_9,
        transitions::OBSERVATION_10,
        interference::OBSERVATION_11,
        reset::OBSERVATION_12,
        reset::OBSERVATION_13,
        scaling::APPENDIX,
    ];
    subjects.extend(recommendations::ALL);
    subjects.extend([emulators::COMMANDS, emulators::TRANSITIONS, emulators::OTHERS]);
    subjects.extend([zapraid_figure_2::FIGURE_2, biza::ISOLATION, biza::ZRWA]);
    subjects.extend([windows::ORDER, windows::OVERWRITE, windows::COMMITS, windows::END, windows::PUBLISHED]);
    subjects
}

fn summarise(findings: &[Finding]) -> Summary {
    let mut summary = Summary::default();
    for finding in findings {
        match finding.holds {
            _ if !finding.expected => {}
            Some(true) => summary.holds += 1,
            Some(false) | None => summary.fails += 1,
        }
    }
    let compared = |figure: &&Figure| figure.published.is_some();
    for figure in findings.iter().flat_map(|finding| &finding.figures).filter(compared) {
        match () {
            () if figure.within => summary.within += 1,
            () if figure.is_exception() => summary.exceptions += 1,
            () => summary.outside += 1,
        }
    }
    summary
}

#[cfg(test)]
mod tests;
