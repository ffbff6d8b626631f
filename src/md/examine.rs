//! `zoneweave md examine`: members in mdadm's words, and whether they make an array that can be served.

use super::Examine;
use super::description;
use super::device::Device;
use super::words::local_time;
use crate::exit::{self, Exit};
use anyhow::Result;
use block::md::assembly::{self, Assembly, Part};
use block::md::examine;
use block::md::member::{Member, NotAMember};
use block::md::superblock::seconds;
use serde::Serialize;
use std::path::Path;

/// Examines members.
pub fn run(options: &Examine) -> Result<Exit> {
    let mut members = Vec::new();
    let mut faults = Vec::new();
    for path in &description::members(&options.members)? {
        match look(path) {
            Ok(member) => members.push(member),
            Err(fault) => faults.push(fault),
        }
    }
    if options.bitmap || options.badblocks {
        return print_logs(options, &members, &faults);
    }
    let arrays = assembly::judge(&members);
    if options.json {
        println!("{}", serde_json::to_string_pretty(&report(&arrays, &faults))?);
    } else {
        print!("{}", text(options, &members, &arrays)?);
        faults.iter().for_each(Fault::say);
    }
    let of_arrays = arrays.iter().map(exit_of);
    let of_faults = faults.iter().map(|fault| fault.exit);
    Ok(of_arrays.chain(of_faults).max().unwrap_or(Exit::Absent))
}

fn exit_of(array: &Assembly<'_>) -> Exit {
    match (array.can_be_served(), array.is_degraded()) {
        (false, _) => Exit::Failed,
        (true, true) => Exit::Degraded,
        (true, false) => Exit::Well,
    }
}

/// Device that holds no member.
#[derive(Debug, Serialize)]
struct Fault {
    path: String,
    problem: String,
    #[serde(skip)]
    exit: Exit,
}

impl Fault {
    fn say(&self) {
        eprintln!("zoneweave: {}: {}", self.path, self.problem);
    }
}

/// Prints bitmaps, or lists of bad blocks, as they are, whatever else is said of their members.
fn print_logs(options: &Examine, members: &[Member], faults: &[Fault]) -> Result<Exit> {
    let (mut text, mut lacking) = (String::new(), Vec::new());
    for member in members {
        if options.badblocks {
            examine::print_bad_blocks(member, &mut text)?;
        } else if !examine::print_bitmap(member, &mut text)? {
            let problem = match &member.bitmap {
                Some(Err(reason)) => reason.clone(),
                _ => "has no bitmap".to_owned(),
            };
            lacking.push(Fault { path: member.name.clone(), problem, exit: Exit::Absent });
        }
    }
    print!("{text}");
    faults.iter().chain(&lacking).for_each(Fault::say);
    Ok(faults.iter().chain(&lacking).map(|fault| fault.exit).max().unwrap_or(Exit::Well))
}

fn look(path: &Path) -> Result<Member, Fault> {
    let name = path.display().to_string();
    let device = Device::open(path).map_err(|error| Fault {
        path: name.clone(),
        problem: exit::in_words(&error),
        exit: Exit::of(&error),
    })?;
    Member::read(&name, &device).map_err(|error| {
        let exit = match error {
            NotAMember::NoSuperblock => Exit::Absent,
            NotAMember::Wrong(..) | NotAMember::Foreign(_) | NotAMember::Unreadable(_) => Exit::Failed,
        };
        Fault { path: name, problem: error.to_string(), exit }
    })
}

fn text(options: &Examine, members: &[Member], arrays: &[Assembly<'_>]) -> Result<String> {
    let mut text = String::new();
    if options.export {
        members.iter().try_for_each(|member| examine::print_export(member, &mut text))?;
        return Ok(text);
    }
    if !options.brief {
        members.iter().try_for_each(|member| examine::print(member, &local_time, &mut text))?;
    }
    for array in arrays {
        if options.brief {
            let devices: Vec<&Member> = array.devices.iter().map(|(member, _)| *member).collect();
            examine::print_brief(&devices, &mut text)?;
            text += "# ";
        } else {
            text += "\n      Zoneweave : ";
        }
        if arrays.len() > 1 {
            text += &format!("array {}: ", array.array);
        }
        text += &array.in_words();
        text += "\n";
    }
    Ok(text)
}

#[derive(Debug, Serialize)]
struct Report {
    arrays: Vec<ArrayReport>,
    /// Devices that hold no member.
    problems: Vec<FaultReport>,
}

#[derive(Debug, Serialize)]
struct FaultReport {
    path: String,
    problem: String,
}

#[derive(Debug, Serialize)]
struct ArrayReport {
    uuid: String,
    name: String,
    level: Option<&'static str>,
    layout: Option<&'static str>,
    chunk_bytes: u64,
    members: u32,
    events: u64,
    clean: bool,
    can_be_served: bool,
    degraded: bool,
    missing: Vec<u16>,
    refusals: Vec<String>,
    notes: Vec<String>,
    devices: Vec<DeviceReport>,
}

#[derive(Debug, Serialize)]
struct DeviceReport {
    path: String,
    uuid: String,
    version: String,
    features: u32,
    number: u32,
    part: &'static str,
    role: Option<u16>,
    recovered_sectors: Option<u64>,
    events: u64,
    updated: u64,
    data_offset_sectors: u64,
    data_sectors: u64,
    bitmap_regions: Option<u64>,
    bitmap_regions_set: Option<usize>,
    /// First sector and sectors of each entry.
    bad_blocks: Vec<(u64, u64)>,
}

fn report(arrays: &[Assembly<'_>], faults: &[Fault]) -> Report {
    let problems =
        faults.iter().map(|fault| FaultReport { path: fault.path.clone(), problem: fault.problem.clone() });
    Report { arrays: arrays.iter().map(array_report).collect(), problems: problems.collect() }
}

fn array_report(array: &Assembly<'_>) -> ArrayReport {
    let superblock = array.superblock();
    let shape = superblock.shape;
    ArrayReport {
        uuid: array.array.to_string(),
        name: superblock.name(),
        level: block::md::names::level(shape.level),
        layout: block::md::names::layout(shape.level, shape.layout),
        chunk_bytes: u64::from(shape.chunk) * 512,
        members: shape.members,
        events: superblock.state.events,
        clean: superblock.is_clean(),
        can_be_served: array.can_be_served(),
        degraded: array.is_degraded(),
        missing: array.missing.iter().map(|role| role.0).collect(),
        refusals: array.refusals.iter().map(ToString::to_string).collect(),
        notes: array.notes.iter().map(ToString::to_string).collect(),
        devices: array.devices.iter().map(|(member, part)| device_report(member, *part)).collect(),
    }
}

fn device_report(member: &Member, part: Part) -> DeviceReport {
    let superblock = member.superblock();
    let bitmap = member.bitmap.as_ref().and_then(|bitmap| bitmap.as_ref().ok());
    let (part, role, recovered_sectors) = match part {
        Part::Active(role) => ("active", Some(role.0), None),
        Part::Recovering(role, sectors) => ("recovering", Some(role.0), Some(sectors)),
        Part::Replacement(role, sectors) => {
            ("replacement", Some(role.0), (sectors != u64::MAX).then_some(sectors))
        }
        Part::Journal => ("journal", None, None),
        Part::Spare => ("spare", None, None),
        Part::Stale => ("stale", None, None),
    };
    let entries = member.bad_blocks.iter().flatten();
    DeviceReport {
        path: member.name.clone(),
        uuid: superblock.device.uuid.to_string(),
        version: member.version.to_string(),
        features: superblock.features,
        number: superblock.device.number.0,
        part,
        role,
        recovered_sectors,
        events: member.events(),
        updated: seconds(superblock.state.updated),
        data_offset_sectors: superblock.device.data_offset,
        data_sectors: superblock.device.data_size,
        bitmap_regions: bitmap.map(|bitmap| bitmap.bits.regions()),
        bitmap_regions_set: bitmap.map(|bitmap| bitmap.bits.set().count()),
        bad_blocks: entries.map(|entry| (entry.sector, entry.sectors)).collect(),
    }
}
