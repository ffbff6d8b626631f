//! `zoneweave cache check`: reads every block of a cache that is not served, and changes nothing.

use super::directory::CacheDirectory;
use super::drives;
use crate::cli::Query;
use crate::exit::Exit;
use anyhow::Result;
use base::time::Instant;
use serde_json::json;
use zone::drives::DriveSet;

/// Verifies a cache.
pub fn run(options: &Query) -> Result<Exit> {
    let directory = CacheDirectory::open(&options.dir)?;
    let drives = drives::open(&directory, None)?;
    let dir = options.dir.display();
    let findings = cache::check(&mut DriveSet::new(drives.devices), Instant(0))
        .map_err(|error| Exit::Failed.error(format!("{dir}: {error}")))?;
    let mut findings = findings;
    let is_missed = |place: &&usize| !directory.file.drive[**place].is_free();
    let missed: Vec<usize> = findings.absent.iter().filter(is_missed).copied().collect();
    findings.problems.extend(missed.iter().map(|place| format!("drive {place} is missing or left out")));
    let is_clean = findings.problems.is_empty();
    if options.json {
        let report = json!({
            "clean": is_clean,
            "problems": findings.problems,
            "data_zones": findings.data_zones,
            "journal_zones": findings.journal_zones,
            "records": findings.records,
            "entries": findings.entries,
        });
        println!("{report}");
    } else {
        for problem in &findings.problems {
            println!("{problem}");
        }
        println!(
            "{} records in {} zones, {} journal entries in {} zones: {}",
            findings.records,
            findings.data_zones,
            findings.entries,
            findings.journal_zones,
            if is_clean { "clean" } else { "damaged" }
        );
    }
    Ok(if is_clean { Exit::Well } else { Exit::Damage })
}
