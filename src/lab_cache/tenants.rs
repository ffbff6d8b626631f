//! `zoneweave lab cache tenants`: what a share gives a namespace whose neighbour floods the cache.

use anyhow::Result;
use clap::Args;
use lab::cache::tenants::{Compared, Setting, compare, mean};
use std::io::{self, Write};

#[derive(Debug, Args)]
pub struct CacheTenants {
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
pub fn run(options: &CacheTenants) -> Result<()> {
    let mut out = io::stdout().lock();
    let mut all = Vec::new();
    if !options.json {
        writeln!(
            out,
            "                                                      hit ratio of the quiet namespace"
        )?;
        writeln!(out, "setting  eviction  share  footprint  flood  footprint   alone  flooded   shared")?;
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
        let ratios: [fn(&Compared) -> f64; 3] =
            [|compared| compared.alone, |compared| compared.flooded, |compared| compared.shared];
        let [alone, flooded, shared] = ratios.map(|of| mean(&all, of));
        writeln!(out, "{:53}{alone:6.3}   {flooded:6.3}   {shared:6.3}", "mean")?;
    }
    Ok(())
}

fn in_words(compared: &Compared) -> String {
    let Compared { setting, alone, flooded, shared } = compared;
    let Setting { seed, eviction, share_percent, footprint, flood, loud_footprint, .. } = setting;
    let loud = loud_footprint.map_or("none".to_owned(), |footprint| format!("{footprint:.2}"));
    let eviction = eviction.to_string();
    format!(
        "{seed:7}  {eviction:8} {share_percent:4} %  {footprint:9.2}  {flood:5.1}  {loud:>9}  {alone:6.3}   {flooded:6.3}   {shared:6.3}"
    )
}
