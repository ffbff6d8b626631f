//! `zoneweave check`: verifies everything an array that is not served holds.

use crate::cli::Query;
use crate::directory::Directory;
use crate::exit::Exit;
use crate::roster::{Absence, Roster};
use crate::status;
use anyhow::Result;
use array::log::check::{CheckReport, Problem, Record, check};
use array::log::mount_read_only;
use base::time::Instant;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

/// Checks and reports.
pub fn run(options: &Query) -> Result<Exit> {
    let mut directory = Directory::open(&options.dir)?;
    status::expect_unserved(&directory)?;
    let drives = Roster::find(&mut directory)?.open(Absence::Accepted, None)?;
    let (shard, mut drives, mount) = mount_read_only(drives.devices, Instant(0))?;
    let bar = ProgressBar::new(1_000);
    bar.set_style(ProgressStyle::with_template("checking {wide_bar} {percent} % ({eta})")?);
    let report = check(&shard, &mut drives, &mount, Instant(0), |permille| bar.set_position(permille));
    bar.finish_and_clear();
    if options.json {
        println!("{}", serde_json::to_string_pretty(&as_json(&report))?);
    } else {
        print(&report);
    }
    Ok(exit_of(&report))
}

/// Drives that are not there are no damage.
fn exit_of(report: &CheckReport) -> Exit {
    let is_of_member = |problem: &&Problem| {
        matches!(problem, Problem::MemberMissing { .. } | Problem::MemberRebuilding { .. })
    };
    let of_members = report.problems.iter().filter(is_of_member).count() as u64;
    match (report.problems_count, report.problems_count - of_members) {
        (0, _) => Exit::Well,
        (_, 0) => Exit::Degraded,
        _ => Exit::Damage,
    }
}

fn as_json(report: &CheckReport) -> Value {
    json!({
        "clean": report.problems_count == 0,
        "stripes_checked": report.stripes_checked,
        "blocks_checked": report.blocks_checked,
        "entries_checked": report.entries_checked,
        "stripes_to_complete": report.stripes_to_complete,
        "slots_to_move": report.slots_to_move,
        "problems_count": report.problems_count,
        "problems": report.problems.iter().map(problem_as_json).collect::<Vec<Value>>(),
    })
}

fn problem_as_json(problem: &Problem) -> Value {
    match problem {
        Problem::MemberMissing { drive } => json!({ "kind": "member_missing", "drive": drive.0 }),
        Problem::MemberRebuilding { drive } => json!({ "kind": "member_rebuilding", "drive": drive.0 }),
        Problem::BlockDamaged { drive, zone, offset, rebuildable } => json!({
            "kind": "block_damaged", "drive": drive.0, "zone": zone.0, "offset": offset, "rebuildable": rebuildable
        }),
        Problem::ParityMismatch { segment, stripe } => {
            json!({ "kind": "parity_mismatch", "segment": segment, "stripe": stripe.0 })
        }
        Problem::IndexMismatch { lba, drive, zone, offset } => json!({
            "kind": "index_mismatch", "lba": lba, "drive": drive.0, "zone": zone.0, "offset": offset
        }),
        Problem::RecordDamaged { record, drive, zone, offset } => json!({
            "kind": "record_damaged", "record": record_name(*record), "drive": drive.0, "zone": zone.0, "offset": offset
        }),
        Problem::BlockLost { lba } => json!({ "kind": "block_lost", "lba": lba }),
        Problem::ZoneOrphaned { drive, zone } => {
            json!({ "kind": "zone_orphaned", "drive": drive.0, "zone": zone.0 })
        }
    }
}

fn record_name(record: Record) -> &'static str {
    match record {
        Record::Superblock => "superblock",
        Record::Header => "header",
        Record::Footer => "footer",
    }
}

fn print(report: &CheckReport) {
    println!(
        "{} blocks in {} stripes and {} index entries checked",
        report.blocks_checked, report.stripes_checked, report.entries_checked
    );
    if report.stripes_to_complete > 0 {
        println!(
            "{} stripes were cut short by a crash; the next start completes them",
            report.stripes_to_complete
        );
    }
    if report.slots_to_move > 0 {
        println!(
            "{} blocks are in the write area; the next start moves them to the log",
            report.slots_to_move
        );
    }
    for problem in &report.problems {
        println!("  {}", in_words(problem));
    }
    let more = report.problems_count - report.problems.len() as u64;
    if more > 0 {
        println!("  and {more} more");
    }
    match report.problems_count {
        0 => println!("clean"),
        count => println!("{count} problems"),
    }
}

fn in_words(problem: &Problem) -> String {
    match problem {
        Problem::MemberMissing { drive } => format!("drive {drive}: missing, stale or failed"),
        Problem::MemberRebuilding { drive } => format!("drive {drive}: not yet rebuilt"),
        Problem::BlockDamaged { drive, zone, offset, rebuildable } => {
            let hope = if *rebuildable { "can be rebuilt" } else { "cannot be rebuilt" };
            format!("drive {drive} zone {zone} block {offset}: damaged, {hope} from its stripe")
        }
        Problem::ParityMismatch { segment, stripe } => {
            format!("segment {segment:#x} stripe {stripe}: parity does not match its data")
        }
        Problem::IndexMismatch { lba, drive, zone, offset } => {
            format!(
                "LBA {lba}: indexed at drive {drive} zone {zone} block {offset}, which holds something else"
            )
        }
        Problem::RecordDamaged { record, drive, zone, offset } => {
            format!("drive {drive} zone {zone} block {offset}: damaged {}", record_name(*record))
        }
        Problem::BlockLost { lba } => format!("LBA {lba}: lost for good until it is written or trimmed"),
        Problem::ZoneOrphaned { drive, zone } => {
            format!("drive {drive} zone {zone}: holds data of no segment with a good header")
        }
    }
}
