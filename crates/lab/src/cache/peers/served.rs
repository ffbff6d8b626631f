//! Our server by itself on the wall clock: what cells in virtual time cannot say, who have neither processors nor a network.
//!
//! ```text
//! sizes, changes: settings ──> load over TCP ──> server, emulated drives in memory ──> figures: medians of rounds ──> report
//! ```
//! Processor time is that of all threads of the server, emulated drives included. Every value that is read is verified.

mod changes;
mod sizes;

use crate::cache::timed::Cell;
use crate::cache::timed::report::{Column, Report, Row};
use crate::paired::median;
use anyhow::{Context, Result, bail, ensure};
use std::path::PathBuf;
use std::time::Duration;

/// Options of the measurement.
pub struct ServedOptions<'a> {
    /// The zoneweave binary.
    pub binary: PathBuf,
    /// Seconds of each measurement.
    pub seconds: u32,
    /// Measurements of each setting.
    pub rounds: u32,
    /// Only settings in whose names this is; all, if it is empty.
    pub only: String,
    /// Told how many measurements are made, of how many, and what the last one was.
    pub progress: &'a dyn Fn(usize, usize, &str),
}

/// Runs `sizes --wall` or `invalidate --wall`.
///
/// # Errors
/// When the cell has no such form, or a server or a load fails.
pub fn run(cell: Cell, options: &ServedOptions<'_>) -> Result<Report> {
    ensure!(options.rounds > 0 && options.seconds > 0, "--rounds and --seconds must be at least 1");
    match cell {
        Cell::SizesWall => sizes::run(options),
        Cell::InvalidateWall => changes::run(options),
        _ => bail!("{cell} asks no server by itself"),
    }
}

impl ServedOptions<'_> {
    fn time(&self) -> Duration {
        Duration::from_secs(self.seconds.into())
    }

    /// Measures settings that are asked for, each with its name.
    fn report<S>(
        &self,
        cell: Cell,
        columns: &'static [Column],
        settings: Vec<(String, S)>,
        measure: impl Fn(&S, &mut dyn FnMut()) -> Result<Vec<Option<f64>>>,
    ) -> Result<Report> {
        let ServedOptions { seconds, rounds, only, .. } = self;
        let settings = super::named(&settings, |(name, _)| name, ("setting", only))?;
        let (mut rows, mut done) = (Vec::new(), 0);
        let all = settings.len() * usize::try_from(*rounds)?;
        for (name, setting) in settings {
            let mut told = || {
                done += 1;
                (self.progress)(done, all, name);
            };
            let values = measure(setting, &mut told).with_context(|| name.clone())?;
            rows.push(Row { setting: name.clone(), values });
        }
        let scale = format!("a server on this host, medians of {rounds} measurements of {seconds} s at most");
        Ok(Report { cell, seed: 0, scale, columns, rows, bars: Vec::new() })
    }
}

/// Figures of each round, by column; a row has their medians.
struct Figures(Vec<Vec<f64>>);

impl Figures {
    fn new(columns: usize) -> Figures {
        Figures(vec![Vec::new(); columns])
    }

    /// Adds those of a round.
    fn push(&mut self, of_round: impl IntoIterator<Item = Option<f64>>) {
        self.0.iter_mut().zip(of_round).for_each(|(figures, figure)| figures.extend(figure));
    }

    /// Medians; none where no round has one.
    fn medians(&self) -> Vec<Option<f64>> {
        self.0.iter().map(|figures| (!figures.is_empty()).then(|| median(figures))).collect()
    }
}
