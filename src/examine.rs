//! `zoneweave examine`: what drives say of themselves and of their array, and whether they agree. In use or not, and
//! nothing is written.

use crate::cli::Examine;
use crate::directory::Directory;
use crate::exit::Exit;
use crate::sighting::{self, Sighting};
use anyhow::Result;
use base::units::{BLOCK_BYTES_U64, human_bytes};
use drive::emulated::{DriveError, DriveProblem};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use zone::format::superblock::{MemberState, Superblock};
use zone::stripe::Level;

/// Report on one drive.
#[derive(Debug, Serialize)]
struct DriveReport {
    path: String,
    /// Identity of the drive.
    uuid: Option<String>,
    /// Identity of the drive's array; null of a drive that is in none.
    array: Option<String>,
    /// The array's name, where `array.toml` beside the drive tells it.
    name: Option<String>,
    member: Option<usize>,
    level: Option<String>,
    members: Option<usize>,
    volume_bytes: Option<u64>,
    chunk_bytes: Option<u64>,
    zones: Option<u32>,
    zone_capacity_bytes: Option<u64>,
    /// Counts superblocks of the array.
    generation: Option<u64>,
    /// Counts its mounts.
    epoch: Option<u32>,
    /// Time at which the file was last written, in seconds since 1970.
    modified: Option<u64>,
    /// The state of each member as this drive has it.
    states: Vec<&'static str>,
    /// Blocks behind the newest superblock that are torn or damaged.
    records_damaged: u32,
    /// Problems of the drive, and disagreements with other drives.
    problems: Vec<String>,
    #[serde(skip)]
    exit: Exit,
}

/// Examines drives; directories stand for the drives in them.
pub fn run(options: &Examine) -> Result<Exit> {
    let looks = look_at_all(&options.paths)?;
    let seen: Vec<&Sighting> = looks.iter().filter_map(|(_, look)| look.as_ref().ok()).collect();
    let reports: Vec<DriveReport> = looks
        .iter()
        .map(|(path, look)| match look {
            Ok(sighting) => report_of(sighting, &seen),
            Err(error) => unreadable(path, error),
        })
        .collect();
    let exit =
        reports.iter().map(|report| report.exit).max_by_key(|exit| severity(*exit)).unwrap_or(Exit::Absent);
    let agree = reports.iter().all(|report| report.problems.is_empty());
    if options.json {
        let json = serde_json::json!({ "drives": reports, "agree": agree });
        println!("{}", serde_json::to_string_pretty(&json)?);
        return Ok(exit);
    }
    reports.iter().for_each(print);
    match (reports.is_empty(), agree) {
        (true, _) => println!("no drives found"),
        (false, true) => println!("the superblocks agree"),
        (false, false) => {}
    }
    Ok(exit)
}

/// Damage weighs more than a member that is known to have failed.
fn severity(exit: Exit) -> u8 {
    match exit {
        Exit::Well => 0,
        Exit::Degraded => 1,
        Exit::Absent => 2,
        Exit::Usage | Exit::Busy => 3,
        Exit::Failed => 4,
        Exit::Damage => 5,
    }
}

type Look = (PathBuf, Result<Sighting, DriveError>);

fn look_at_all(paths: &[PathBuf]) -> Result<Vec<Look>> {
    let mut looks: Vec<Look> = Vec::new();
    for path in paths {
        if path.is_dir() {
            let found = sighting::in_folder(path).map_err(anyhow::Error::from)?;
            looks.extend(found.into_iter().map(|sighting| (sighting.path.clone(), Ok(sighting))));
        } else {
            looks.push((path.clone(), Sighting::of(path)));
        }
    }
    Ok(looks)
}

fn unreadable(path: &Path, error: &DriveError) -> DriveReport {
    let exit = match error.problem {
        DriveProblem::NotFound => Exit::Absent,
        DriveProblem::Io { .. }
        | DriveProblem::NotPermitted(_)
        | DriveProblem::NoDriveOnDevice
        | DriveProblem::NotAFile
        | DriveProblem::WrongVersion { .. } => Exit::Failed,
        _ => Exit::Damage,
    };
    DriveReport {
        path: path.display().to_string(),
        uuid: None,
        array: None,
        name: None,
        member: None,
        level: None,
        members: None,
        volume_bytes: None,
        chunk_bytes: None,
        zones: None,
        zone_capacity_bytes: None,
        generation: None,
        epoch: None,
        modified: None,
        states: Vec::new(),
        records_damaged: 0,
        problems: vec![error.problem.to_string()],
        exit,
    }
}

fn report_of(sighting: &Sighting, seen: &[&Sighting]) -> DriveReport {
    let record = sighting.record.as_ref();
    let problems = problems_of(sighting, seen);
    let is_degraded =
        record.is_some_and(|record| record.members.iter().any(|member| member.state != MemberState::Active));
    let since_1970 = |time: SystemTime| time.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs());
    DriveReport {
        path: sighting.path.display().to_string(),
        uuid: Some(sighting.uuid.to_string()),
        array: sighting.array().map(|array| array.to_string()),
        name: name_of(sighting),
        member: sighting.member(),
        level: record.map(level_of),
        members: record.map(|record| record.members.len()),
        volume_bytes: record.map(|record| record.volume_blocks.saturating_mul(BLOCK_BYTES_U64)),
        chunk_bytes: record.map(|record| u64::from(record.chunk_blocks) * BLOCK_BYTES_U64),
        zones: Some(sighting.geometry.zones),
        zone_capacity_bytes: Some(u64::from(sighting.geometry.zone_capacity_blocks) * BLOCK_BYTES_U64),
        generation: record.map(|record| record.generation),
        epoch: record.map(|record| record.epoch),
        modified: sighting.modified.and_then(since_1970),
        states: record.map(states_of).unwrap_or_default(),
        records_damaged: sighting.records_damaged,
        exit: match (problems.is_empty(), is_degraded) {
            (false, _) => Exit::Damage,
            (true, true) => Exit::Degraded,
            (true, false) => Exit::Well,
        },
        problems,
    }
}

fn states_of(record: &Superblock) -> Vec<&'static str> {
    let in_words = |state| match state {
        MemberState::Active => "active",
        MemberState::Failed => "failed",
        MemberState::Rebuilding => "rebuilding",
    };
    record.members.iter().map(|member| in_words(member.state)).collect()
}

/// A level as `--level` takes it.
pub fn level_of(record: &Superblock) -> String {
    let level = Level::from_code(record.level);
    level.map_or_else(|| format!("unknown ({})", record.level), |level| level.name(record.members.len()))
}

/// The array's name, where the `array.toml` beside the drive is this array's.
pub fn name_of(sighting: &Sighting) -> Option<String> {
    let folder = sighting.path.parent()?;
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let file = Directory::open(folder).ok()?.file;
    (Some(file.uuid) == sighting.array()).then(|| file.export.name().to_owned())
}

/// Returns the problems of a drive's superblocks, by themselves and beside those of the others.
fn problems_of(sighting: &Sighting, seen: &[&Sighting]) -> Vec<String> {
    let mut problems = Vec::new();
    if sighting.records_damaged > 0 {
        problems.push(format!(
            "{} blocks behind its newest superblock are torn or damaged",
            sighting.records_damaged
        ));
    }
    let Some(record) = &sighting.record else {
        match sighting.other_version {
            Some(found) => {
                problems.push(format!("its superblocks have format version {found}, unknown here"))
            }
            None if sighting.holds_no_data => {}
            None => problems.push("it holds data and no superblock that is whole".to_owned()),
        }
        return problems;
    };
    let index = usize::from(record.member);
    if record.members[index].uuid != *sighting.uuid.as_bytes() {
        problems.push(format!(
            "its superblock is that of drive {}",
            uuid::Uuid::from_bytes(record.members[index].uuid)
        ));
    }
    for other in seen.iter().filter(|other| other.file_id != sighting.file_id) {
        if other.uuid == sighting.uuid {
            problems
                .push(format!("is a copy of {}, or that of it: both have this uuid", other.path.display()));
            continue;
        }
        let Some(judge) = other.record.as_ref().filter(|judge| judge.array == record.array) else { continue };
        problems.extend(disagreement(sighting, record, other, judge));
    }
    problems.sort();
    problems.dedup();
    problems
}

/// Returns what another drive of the array says against this one. Superblocks of one mount follow each other quickly,
/// so that a crash leaves them one apart.
fn disagreement(
    sighting: &Sighting,
    record: &Superblock,
    other: &Sighting,
    judge: &Superblock,
) -> Option<String> {
    if (judge.epoch, judge.generation) < (record.epoch, record.generation) {
        return None;
    }
    let said = judge.members.get(usize::from(record.member))?;
    let path = other.path.display();
    if said.uuid != *sighting.uuid.as_bytes() {
        return Some(format!("was replaced by another drive, says {path}"));
    }
    if said.state == MemberState::Failed {
        return Some(format!("has failed, says {path}, and is not believed any more"));
    }
    (record.epoch < judge.epoch || record.generation + 1 < judge.generation).then(|| {
        format!(
            "is behind: epoch {} and generation {}, {path} has {} and {}",
            record.epoch, record.generation, judge.epoch, judge.generation
        )
    })
}

fn print(report: &DriveReport) {
    println!("{}", report.path);
    let line = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            println!("  {name:<14} {value}");
        }
    };
    line("drive", report.uuid.clone());
    if report.uuid.is_some() && report.array.is_none() {
        println!("  {:<14} none: no superblock", "array");
    }
    let name = report.name.as_ref().map(|name| format!(", `{name}`")).unwrap_or_default();
    line("array", report.array.as_ref().map(|array| format!("{array}{name}")));
    line("member", report.member.zip(report.members).map(|(member, count)| format!("{member} of {count}")));
    line("level", report.level.clone());
    line("volume", report.volume_bytes.map(human_bytes));
    line("chunk", report.chunk_bytes.map(human_bytes));
    let zones = report.zones.zip(report.zone_capacity_bytes);
    line("zones", zones.map(|(count, bytes)| format!("{count} of {}", human_bytes(bytes))));
    line("generation", report.generation.map(|count| count.to_string()));
    line("epoch", report.epoch.map(|count| count.to_string()));
    line("written", report.modified.map(utc));
    line("states", (!report.states.is_empty()).then(|| report.states.join(", ")));
    for problem in &report.problems {
        line("PROBLEM", Some(problem.clone()));
    }
}

/// A time as `YYYY-MM-DD HH:MM:SS UTC`. Years begin in March here, so that a leap day is the last of its year.
fn utc(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute) = (second / 3_600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{:02} UTC", second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_782_399), "2000-02-28 23:59:59 UTC");
        assert_eq!(utc(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(utc(1_709_251_199), "2024-02-29 23:59:59 UTC");
        assert_eq!(utc(1_709_251_200), "2024-03-01 00:00:00 UTC");
    }
}
