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
    let mut findings = cache::check(&mut DriveSet::new(drives.devices), Instant(0))
        .map_err(|error| Exit::Failed.error(format!("{dir}: {error}")))?;
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
