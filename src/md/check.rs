//! `zoneweave md check`: the parities of a closed array, compared with its data.

use super::Check;
use super::array::Array;
use super::doubt::DoubtReport;
use crate::cli::Query;
use crate::exit::Exit;
use anyhow::Result;
use block::md::doubt::doubts;
use block::md::refusal;

/// Most stripes that are named one by one.
const STRIPES_SHOWN_MAX: usize = 16;

/// `zoneweave check` of an array of md.
pub fn of_directory(options: &Query) -> Result<Exit> {
    run(&Check { members: vec![options.dir.clone()], json: options.json, force: false })
}

/// Compares all stripes; nothing is written.
pub fn run(options: &Check) -> Result<Exit> {
    Array::open(&options.members)?.read(options.force, |assembly, reader| {
        let found = reader.check();
        let in_doubt = DoubtReport::of(&doubts(assembly, &reader.recovered().1));
        if options.json {
            let stripes: Vec<u64> = found.stripes.iter().map(|stripe| stripe.0).collect();
            let json = serde_json::json!({
                "uuid": assembly.array.to_string(),
                "mismatch_cnt": found.sectors,
                "stripes": stripes,
                "rows_not_compared": found.rows_not_compared,
                "missing": assembly.missing.iter().map(|role| role.0).collect::<Vec<_>>(),
                "volume_bytes": reader.blocks() * 4096,
                "in_doubt": in_doubt,
                "judgement": assembly.in_words(),
            });
            println!("{}", serde_json::to_string_pretty(&json)?);
        } else {
            println!("{}", assembly.in_words());
            println!("mismatches: {} sectors in {} stripes", found.sectors, found.stripes.len());
            let stripes = found.stripes.iter().take(STRIPES_SHOWN_MAX).map(|stripe| stripe.0.to_string());
            let more = if found.stripes.len() > STRIPES_SHOWN_MAX { " ..." } else { "" };
            if !found.stripes.is_empty() {
                println!("stripes: {}{more}", stripes.collect::<Vec<_>>().join(" "));
            }
            if found.rows_not_compared > 0 {
                let missing = refusal::members(&assembly.missing);
                let rows = found.rows_not_compared;
                println!("{rows} rows of 4 KiB cannot be compared: {missing} missing, or pieces that cannot be read");
            }
            in_doubt.iter().for_each(|doubt| println!("in doubt: {doubt}"));
        }
        let is_degraded = assembly.is_degraded() || found.rows_not_compared > 0;
        Ok(match (found.sectors == 0 && in_doubt.is_empty(), is_degraded) {
            (true, false) => Exit::Well,
            (true, true) => Exit::Degraded,
            (false, _) => Exit::Damage,
        })
    })
}
