//! `zoneweave lab explain`: what the adaptive policy decides in a setting of the contest, and from what.

use crate::contest::parse_scale;
use anyhow::Result;
use base::time::Nanos;
use clap::Args;
use lab::contest;
use std::io::{self, Write};

#[derive(Debug, Args)]
pub struct Explain {
    /// Seed of the contest's settings
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Number of the setting
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u64).range(..=100_000))]
    pub cell: u64,
    /// Amount written and read, as in `lab contest`
    #[arg(long, default_value_t = 1.0, value_parser = parse_scale, value_name = "X")]
    pub scale: f64,
    /// Begin at this time after clients began, the warm-up included
    #[arg(long, default_value_t = 0.0, value_parser = parse_millis, value_name = "MS")]
    pub at: f64,
    /// Print what is decided for so long; until the end if not given
    #[arg(long = "for", value_parser = parse_millis, value_name = "MS")]
    pub span: Option<f64>,
}

fn parse_millis(text: &str) -> Result<f64, String> {
    let millis: f64 = text.parse().map_err(|_| format!("`{text}` is no number of milliseconds"))?;
    if (0.0..=1e9).contains(&millis) { Ok(millis) } else { Err(format!("`{text}`: 0 to 1000000000 ms")) }
}

#[allow(clippy::cast_precision_loss, reason = "a run takes less than 2^53 ns")]
fn millis(time: Nanos) -> f64 {
    time.0 as f64 / 1e6
}

/// Runs the setting and prints decisions.
pub fn run(options: &Explain) -> Result<()> {
    let Explain { seed, cell, scale, at, span } = *options;
    let contest::Explained { cell, begin, decided } = contest::explain(seed, cell, scale)?;
    let mut out = io::stdout().lock();
    writeln!(out, "{cell}")?;
    for told in decided {
        let time = millis(told.at.since(begin));
        if time >= at && span.is_none_or(|span| time <= at + span) {
            writeln!(out, "{time:11.3} ms  {}\n                {}", told.decision, told.seen)?;
        }
    }
    Ok(())
}
