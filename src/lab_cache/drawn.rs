//! Experiments in settings that seeds draw, one after the other.

use super::timed::Timed;
use anyhow::Result;
use clap::Args;
use serde::Serialize;
use std::io::{self, Write};

#[derive(Debug, Args)]
pub struct Drawn {
    /// As a cell beside others, by several seeds or with a page: means over settings
    #[command(flatten)]
    pub timed: Timed,
    /// A line for each of so many settings, of which the first has the seed
    #[arg(long, default_value_t = 12, value_name = "N", conflicts_with_all = ["cells", "seeds", "scale", "out"], value_parser = clap::value_parser!(u64).range(1..=10_000))]
    settings: u64,
}

impl Drawn {
    /// Runs all settings: a table with a last line for all of them, or one object a line.
    pub fn run<C: Serialize>(
        &self,
        header: &str,
        compare: impl Fn(u64) -> Result<C>,
        in_words: impl Fn(&C) -> String,
        last: impl Fn(&[C]) -> String,
    ) -> Result<()> {
        let mut out = io::stdout().lock();
        let mut all = Vec::new();
        if !self.timed.json {
            writeln!(out, "{header}")?;
        }
        for seed in (self.timed.seed..).take(usize::try_from(self.settings)?) {
            let compared = compare(seed)?;
            match self.timed.json {
                true => writeln!(out, "{}", serde_json::to_string(&compared)?)?,
                false => writeln!(out, "{}", in_words(&compared))?,
            }
            all.push(compared);
        }
        if !self.timed.json {
            writeln!(out, "{}", last(&all))?;
        }
        Ok(())
    }
}
