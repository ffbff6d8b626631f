//! `zoneweave lab cache ttl`: what zones of their own for objects that expire together give a cache.

use anyhow::Result;
use clap::Args;
use lab::cache::ttl::{Compared, Outcomes, Setting, compare, mean};
use std::io::{self, Write};

#[derive(Debug, Args)]
pub struct CacheTtl {
    /// Seed of the first setting; the others follow
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Settings
    #[arg(long, default_value_t = 12, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub settings: u64,
    /// Print one JSON object a line for each setting
    #[arg(long)]
    pub json: bool,
}

/// Runs an experiment.
pub fn run(options: &CacheTtl) -> Result<()> {
    let mut out = io::stdout().lock();
    let mut all = Vec::new();
    if !options.json {
        writeln!(
            out,
            "                                         hit ratio       expired share   write amplification"
        )?;
        writeln!(
            out,
            "setting  eviction  hours  live            mixed  grouped   mixed  grouped   mixed  grouped"
        )?;
    }
    for seed in (options.seed..).take(usize::try_from(options.settings)?) {
        let compared = compare(Setting::draw(seed))?;
        match options.json {
            true => writeln!(out, "{}", serde_json::to_string(&compared)?)?,
            false => writeln!(out, "{}", in_words(&compared))?,
        }
        all.push(compared);
    }
    if !options.json {
        let pairs = [hits, expired, written].map(|of| mean(&all, of));
        writeln!(out, "{:36}{}", "mean", columns(pairs))?;
    }
    Ok(())
}

fn hits(outcomes: &Outcomes) -> f64 {
    outcomes.hit_ratio
}

fn expired(outcomes: &Outcomes) -> f64 {
    outcomes.expired_share
}

fn written(outcomes: &Outcomes) -> f64 {
    outcomes.write_amplification
}

fn in_words(compared: &Compared) -> String {
    let Setting { seed, eviction, turnover_hours, mix, .. } = &compared.setting;
    let parts: Vec<String> = mix.iter().map(|part| format!("{:.0}", part * 100.0)).collect();
    let pairs = [hits, expired, written].map(|of| (of(&compared.mixed), of(&compared.grouped)));
    format!(
        "{seed:7}  {:8} {turnover_hours:6.1}  {:12}{}",
        eviction.to_string(),
        parts.join("/"),
        columns(pairs)
    )
}

fn columns(pairs: [(f64, f64); 3]) -> String {
    pairs.iter().map(|(mixed, grouped)| format!("  {mixed:6.3}  {grouped:7.3}")).collect()
}
