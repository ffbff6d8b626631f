//! Experiments in settings that seeds draw, one after the other.

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use std::io::{self, Write};

#[derive(Debug, Args)]
pub struct Drawn {
    /// Seed of the first setting; the others follow
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Settings
    #[arg(long, default_value_t = 12, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    settings: u64,
    /// Print one JSON object a line for each setting
    #[arg(long)]
    json: bool,
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
        if !self.json {
            writeln!(out, "{header}")?;
        }
        for seed in (self.seed..).take(usize::try_from(self.settings)?) {
            let compared = compare(seed)?;
            match self.json {
                true => writeln!(out, "{}", serde_json::to_string(&compared)?)?,
                false => writeln!(out, "{}", in_words(&compared))?,
            }
            all.push(compared);
        }
        if !self.json {
            writeln!(out, "{}", last(&all))?;
        }
        Ok(())
    }
}
