//! `zoneweave lab cache ttl`: what zones of their own for objects that expire together give a cache.

use super::drawn::Drawn;
use anyhow::Result;
use lab::cache::rig::mean;
use lab::cache::ttl::{Compared, Outcomes, Setting, compare};

const HEADER: &str =
    "                                         hit ratio       expired share   write amplification
setting  eviction  hours  live            mixed  grouped   mixed  grouped   mixed  grouped";

/// Runs an experiment.
pub fn run(options: &Drawn) -> Result<()> {
    options.run(
        HEADER,
        |seed| compare(Setting::draw(seed)),
        in_words,
        |all| {
            let pairs = [hits, expired, written].map(|of| {
                (mean(all, |compared| of(&compared.mixed)), mean(all, |compared| of(&compared.grouped)))
            });
            format!("{:36}{}", "mean", columns(pairs))
        },
    )
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
