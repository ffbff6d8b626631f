//! `zoneweave lab cache tenants`: what a share gives a namespace whose neighbour floods the cache.

use super::drawn::Drawn;
use anyhow::Result;
use lab::cache::rig::mean;
use lab::cache::tenants::{Compared, Setting, compare};

const HEADER: &str = "                                                      hit ratio of the quiet namespace
setting  eviction  share  footprint  flood  footprint   alone  flooded   shared";

/// Runs an experiment.
pub fn run(options: &Drawn) -> Result<()> {
    options.run(
        HEADER,
        |seed| compare(Setting::draw(seed)),
        in_words,
        |all| {
            let ratios: [fn(&Compared) -> f64; 3] =
                [|compared| compared.alone, |compared| compared.flooded, |compared| compared.shared];
            let [alone, flooded, shared] = ratios.map(|of| mean(all, of));
            format!("{:53}{alone:6.3}   {flooded:6.3}   {shared:6.3}", "mean")
        },
    )
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
