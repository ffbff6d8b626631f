//! `zoneweave cache check`: reads every block of a cache that is not served, makes its index as a start would, and changes nothing.

use super::directory::CacheDirectory;
use super::host::host;
use super::offline::Offline;
use super::options::CacheCheck;
use super::serve::wall;
use super::shards::failed;
use crate::exit::Exit;
use anyhow::Result;
use base::time::Instant;
use cache::config::Invalidate;
use cache::mount::Findings;
use serde_json::json;

/// Verifies a cache.
pub fn run(options: &CacheCheck) -> Result<Exit> {
    let directory = CacheDirectory::open(&options.dir)?;
    let (mut findings, mut objects) = (Findings::default(), 0_u64);
    for (number, mut set) in Offline::sets(&directory)?.into_iter().enumerate() {
        let found = cache::check(&mut set, Instant(0)).map_err(|error| failed(&directory, &error))?;
        add(&mut findings, found, (number, directory.file.shards));
        let host = host(&directory, number, Invalidate::Media)?;
        if let Err(error) = cache::list(&mut set, Instant(0), (wall(), &host), &mut |_| objects += 1) {
            findings.problems.push(format!("a start would fail: {}", failed(&directory, &error)));
        }
    }
    let missed = findings.absent.iter().filter(|place| !directory.file.drive[**place].is_free());
    findings.problems.extend(missed.map(|place| format!("drive {place} is missing or left out")));
    let is_clean = findings.problems.is_empty();
    if options.json {
        let report = json!({
            "clean": is_clean,
            "problems": findings.problems,
            "data_zones": findings.data_zones,
            "journal_zones": findings.journal_zones,
            "records": findings.records,
            "objects": objects,
            "entries": findings.entries,
        });
        println!("{report}");
    } else {
        for problem in &findings.problems {
            println!("{problem}");
        }
        println!(
            "{} records in {} zones, {objects} of them objects that a start would find; {} journal entries in {} zones: {}",
            findings.records,
            findings.data_zones,
            findings.entries,
            findings.journal_zones,
            if is_clean { "clean" } else { "damaged" }
        );
    }
    Ok(if is_clean { Exit::Well } else { Exit::Damage })
}

/// Adds what was found in a shard. A drive that is missing there is missed once.
fn add(all: &mut Findings, found: Findings, (number, shards): (usize, usize)) {
    let Findings { problems, absent, data_zones, journal_zones, records, entries } = found;
    let named = |problem| if shards == 1 { problem } else { format!("shard {number}: {problem}") };
    all.problems.extend(problems.into_iter().map(named));
    all.absent.extend(absent);
    all.absent.sort_unstable();
    all.absent.dedup();
    all.data_zones += data_zones;
    all.journal_zones += journal_zones;
    all.records += records;
    all.entries += entries;
}
