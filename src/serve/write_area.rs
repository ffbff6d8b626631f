//! `--write-area`: a write area that an array cannot have is refused by name before clients are served; `auto` takes what there is room
//! for, and says why.

use crate::cli::WriteAreaChoice;
use crate::directory::PolicyChoice;
use crate::exit::Exit;
use crate::status::AreaChoice;
use anyhow::Result;
use array::log::Shard;
use array::log::area::NoWriteArea;
use array::log::config::Tuning;
use array::log::policy::slots::SlotUse;
use base::units::{BLOCK_BYTES_U64, DriveIndex, human_bytes};
use zone::device::{Areas, ZonedDevice};
use zone::drives::DriveSet;

/// Most zones of each drive that `auto` takes: each of the first eight saves flash bytes (`lab run biza16`, docs/experiments.md), more
/// were not measured.
const AUTO_ZONES_MAX: u32 = 8;

/// Segments to spare for each zone of each drive that `auto` takes: with one of twelve clients have 0.98 of the throughput at least, with
/// four 0.97 (`lab run slots-auto`, docs/adr/0085).
pub const AUTO_SPARE_OF_ZONE: u32 = 10;

/// Choice of an operator. Who says nothing has `auto` where a drive has random write areas, and has not to hear of areas where none has;
/// the paper's schemes have none.
pub fn choice_of(
    asked: Option<WriteAreaChoice>,
    policy: PolicyChoice,
    devices: &[Option<Box<dyn ZonedDevice>>],
) -> WriteAreaChoice {
    let has_areas = || devices.iter().flatten().any(|device| device.geometry().areas.is_some());
    match asked {
        Some(choice) => choice,
        None if policy != PolicyChoice::Fixed && has_areas() => WriteAreaChoice::Auto,
        None => WriteAreaChoice::Off,
    }
}

/// Zones of each drive that are asked for.
pub fn zones_of(choice: WriteAreaChoice) -> u32 {
    match choice {
        WriteAreaChoice::Off => 0,
        WriteAreaChoice::Auto => AUTO_ZONES_MAX,
        WriteAreaChoice::Zones(zones) => zones,
    }
}

/// Use of slots: `auto` uses them where that costs clients no time, and whoever names a number wants less wear.
pub fn use_of(choice: WriteAreaChoice) -> SlotUse {
    match choice {
        WriteAreaChoice::Auto => SlotUse::Idle,
        WriteAreaChoice::Off | WriteAreaChoice::Zones(_) => SlotUse::Wear,
    }
}

/// Refuses so many zones of each drive where array or drives cannot have them. With `auto`, says what there is instead.
///
/// # Errors
/// When there can be no such area: what is in its way, and what to do.
pub fn expect(shard: &Shard, drives: &DriveSet, tuning: &Tuning) -> Result<()> {
    if let Some(AreaChoice { zones_per_drive, why }) = choice(shard, drives, tuning)
        && tuning.write_area_spare.is_some()
    {
        log::info!("--write-area auto: {zones_per_drive} zones of each drive: {why}");
        return Ok(());
    }
    let zones = tuning.write_area_zones;
    let Some(why) = (zones > 0).then(|| shard.no_write_area(zones)).flatten() else { return Ok(()) };
    let (reason, remedy) = reason_and_remedy(why, shard, drives);
    Err(Exit::Usage.error(format!("--write-area {zones}: {reason}: {remedy}")))
}

/// Choice for the write area where so much was asked for, and why; `None` where it is off.
pub fn choice(shard: &Shard, drives: &DriveSet, asked: &Tuning) -> Option<AreaChoice> {
    let zones = shard.write_area_zones();
    let why = if asked.write_area_zones == 0 {
        return None;
    } else if zones == 0 && shard.had_write_area() {
        "given up, for a drive refused an area or space ran out".to_owned()
    } else if asked.write_area_spare.is_none() {
        "as asked for".to_owned()
    } else if zones == AUTO_ZONES_MAX {
        "the most that `auto` takes".to_owned()
    } else {
        let spare = shard.segments_spare();
        match shard.no_write_area(zones + 1) {
            Some(NoWriteArea::TooMany { zones_max: 1.. }) => {
                "the volume and the drives leave room for no more".to_owned()
            }
            Some(why) => reason_and_remedy(why, shard, drives).0,
            None if zones == spare / AUTO_SPARE_OF_ZONE => {
                format!(
                    "`auto` takes one for {AUTO_SPARE_OF_ZONE} segments to spare, of which there are {spare}"
                )
            }
            // A drive with fewer areas was replaced since.
            None => "there was room for no more when the array was mounted".to_owned(),
        }
    };
    Some(AreaChoice { zones_per_drive: zones, why })
}

/// Reason why there is no write area of so many zones, and remedy.
fn reason_and_remedy(why: NoWriteArea, shard: &Shard, drives: &DriveSet) -> (String, String) {
    let away = "leave --write-area away".to_owned();
    match why {
        NoWriteArea::Level => ("mirrors and RAID-0 have none".to_owned(), away),
        NoWriteArea::NoWindows => (windows_in_words(drives), away),
        NoWriteArea::IndexOnDrives => {
            ("it needs all of the index in memory".to_owned(), "leave --index-memory away".to_owned())
        }
        NoWriteArea::TooMany { zones_max: 0 } => {
            let status = shard.status();
            let reason = format!(
                "the volume leaves no room for it, or the {} segments that are open for clients no active zones of the drives",
                status.small_segments + status.large_segments
            );
            let remedy =
                "create the array with a smaller --size, or on drives with more active zones (--max-open)";
            (reason, remedy.to_owned())
        }
        NoWriteArea::TooMany { zones_max } => {
            let reason = format!("the volume and the drives leave room for {zones_max} at most");
            (reason, format!("use --write-area {zones_max}, or auto"))
        }
    }
}

/// Drive without windows that can be used, or with other ones than the first, in words.
fn windows_in_words(drives: &DriveSet) -> String {
    let all = (0..drives.len()).filter_map(|drive| Some((drive, drives.geometry(DriveIndex::at(drive))?)));
    let all: Vec<_> = all.collect();
    if let Some((drive, _)) = all.iter().find(|(_, geometry)| geometry.areas.is_none()) {
        return format!(
            "drive {drive} has no random write areas (emulated drives get them by --zrwa-window)"
        );
    }
    let has_cache = all.iter().find(|(_, geometry)| geometry.volatile_cache);
    if let Some((drive, _)) = has_cache {
        return format!(
            "drive {drive} has a volatile write cache, beside which no windows are used (files of emulated drives have one unless they \
             lie in memory, such as below /dev/shm)"
        );
    }
    let mut of_drives = all.iter().filter_map(|(drive, geometry)| Some((drive, geometry.areas?)));
    let Some((first, areas)) = of_drives.next() else { return "no drive is there".to_owned() };
    match of_drives.find(|(_, other)| *other != areas) {
        Some((drive, other)) => {
            format!("drive {drive} has {}, and drive {first} {}", in_words(&other), in_words(&areas))
        }
        None => format!("the drives have {}, in which no write area has room", in_words(&areas)),
    }
}

fn in_words(areas: &Areas) -> String {
    let bytes = |blocks: u32| human_bytes(u64::from(blocks) * BLOCK_BYTES_U64);
    let commit = if areas.explicit_commit { "" } else { " and no explicit commit" };
    format!(
        "random write areas of {} in units of {} in {} zones{commit}",
        bytes(areas.window_blocks),
        bytes(areas.granule_blocks),
        areas.zones_max
    )
}
