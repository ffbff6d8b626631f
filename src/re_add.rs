//! `zoneweave drive re-add`: a drive that was away, or marked failed by mistake, is taken in again, by what it lacks.

use crate::cli::ReAdd;
use crate::directory::Directory;
use crate::exit::Exit;
use crate::raw;
use crate::replace::ask_until_done;
use crate::roster::{self, Absence, Roster};
use crate::sighting::Sighting;
use crate::{rebuild, serve, status};
use anyhow::{Context, Result, bail};
use array::engine::Engine;
use array::log::config::Tuning;
use array::log::volume::LogVolume;
use array::log::{
    MountError, MountReport, ReAdd as Return, ReAddRefusal, ReAdded, mount_read_only, mount_with_re_add,
};
use array::request::Volume;
use base::time::Instant;
use base::units::{DriveIndex, human_bytes};
use drive::emulated::DriveProblem;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;
use zone::format::superblock::MemberState;

/// Turns after which an array that is not served has not come to rest.
const TURNS_MAX: u32 = 1_000_000;

/// The JSON object of `zoneweave drive re-add --json`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ReAddedDrive {
    /// The drive's number.
    pub drive: u8,
    /// Path of the drive's file.
    pub path: PathBuf,
    /// Segments of which it holds its part.
    pub segments_whole: u64,
    /// Bytes of that.
    #[serde(default)]
    pub bytes_whole: u64,
    /// Segments whose part of it is to be rebuilt.
    pub segments_to_rebuild: u64,
    /// Bytes of that.
    #[serde(default)]
    pub bytes_to_rebuild: u64,
    /// A server rebuilds it.
    pub served: bool,
}

impl ReAddedDrive {
    /// Returns the report on a drive that a mount re-added.
    ///
    /// # Errors
    /// When the drive was refused, or failed during the mount.
    pub fn new(report: &MountReport, drive: u8, path: PathBuf, served: bool) -> Result<ReAddedDrive> {
        if let Some(why) = report.re_add_refused {
            bail!("drive {drive} cannot be re-added: {why}; the array goes on without it");
        }
        let Some(ReAdded { segments_whole, bytes_whole, segments_to_rebuild, bytes_to_rebuild, .. }) =
            report.re_added
        else {
            bail!(
                "drive {drive} cannot be re-added: it failed while the array was mounted, which goes on without it"
            );
        };
        Ok(ReAddedDrive {
            drive,
            path,
            segments_whole,
            bytes_whole,
            segments_to_rebuild,
            bytes_to_rebuild,
            served,
        })
    }

    /// Describes in words how many segments of the drive are whole.
    pub fn in_words(&self) -> String {
        let ReAddedDrive { segments_whole, segments_to_rebuild, .. } = self;
        let all = segments_whole + segments_to_rebuild;
        let (whole, to_rebuild) = (human_bytes(self.bytes_whole), human_bytes(self.bytes_to_rebuild));
        format!(
            "{segments_whole} of {all} segments are whole ({whole}), {segments_to_rebuild} to rebuild ({to_rebuild})"
        )
    }
}

/// The drive that is to be taken in again.
struct Target {
    drive: u8,
    path: PathBuf,
}

impl Target {
    fn of(roster: &Roster, drive: usize) -> Result<Target> {
        let path = std::path::absolute(&roster.places[drive].path).context("path of the drive")?;
        Ok(Target { drive: u8::try_from(drive).context("the drive's number")?, path })
    }
}

/// Takes a drive in again, through the server if there is one.
pub fn run(options: &ReAdd) -> Result<Exit> {
    let mut directory = Directory::open(&options.dir)?;
    let is_served = status::ask(&directory, "status")?.is_some();
    let Some(target) = find_target(&mut directory, options.drive.as_deref(), is_served)? else {
        println!("no drive is away: nothing is to be re-added");
        return Ok(Exit::Well);
    };
    let line = format!("re-add {} {}", target.drive, target.path.display());
    let re_added: ReAddedDrive = match ask_until_done(&directory, &line)? {
        Some(re_added) => re_added,
        None => re_add_offline(&mut directory, &target)?,
    };
    if options.json {
        println!("{}", serde_json::to_string_pretty(&re_added)?);
    } else {
        print(options, &re_added);
    }
    match (options.wait, re_added.served, re_added.segments_to_rebuild) {
        (false, ..) | (true, false, 0) => Ok(Exit::Well),
        (true, true, _) => rebuild::follow(&directory, Some(usize::from(re_added.drive)), options.json),
        (true, false, _) => Ok(Exit::Degraded),
    }
}

fn print(options: &ReAdd, re_added: &ReAddedDrive) {
    println!("drive {} ({}) is back: {}", re_added.drive, re_added.path.display(), re_added.in_words());
    let dir = options.dir.display();
    match (re_added.segments_to_rebuild, re_added.served, options.wait) {
        (0, ..) | (_, true, true) => {}
        (_, true, false) => println!("`zoneweave rebuild {dir} --wait` follows"),
        (_, false, _) => {
            println!("nobody serves the array: the rebuild begins with the next `zoneweave serve {dir}`");
        }
    }
}

/// The drive that is meant: by number, by its file, or the only one that is away and there again.
fn find_target(directory: &mut Directory, named: Option<&str>, is_served: bool) -> Result<Option<Target>> {
    let by_path = named.filter(|named| named.parse::<u8>().is_err());
    if let Some(path) = by_path {
        return member_of_file(directory, Path::new(path)).map(Some);
    }
    let mut roster = Roster::find(directory)?;
    if let Some(drive) = named.and_then(|named| named.parse::<usize>().ok()) {
        let count = roster.places.len();
        if drive >= count {
            let said = format!("drive {drive}: the array has drives 0 to {}", count.saturating_sub(1));
            return Err(Exit::Usage.error(said));
        }
        let place = &roster.places[drive];
        if let Some(problem) = &place.problem {
            let said = format!("drive {drive} ({}) cannot be re-added: {problem}", place.path.display());
            return Err(Exit::Absent.error(format!("{said}; give its file if it is elsewhere")));
        }
        return Target::of(&roster, drive).map(Some);
    }
    let failed =
        || roster.places.iter().enumerate().filter(|(_, place)| place.state == Some(MemberState::Failed));
    let mut away: Vec<usize> =
        failed().filter(|(_, place)| place.problem.is_none()).map(|(drive, _)| drive).collect();
    if away.is_empty()
        && let Some((drive, place)) = failed().next()
    {
        let problem = place.problem.as_deref().unwrap_or_default();
        let said = format!("drive {drive} failed and is not back ({}): {problem}", place.path.display());
        return Err(Exit::Absent.error(format!("{said}; give its file if it is elsewhere")));
    }
    if away.is_empty() && !is_served {
        let looked = mount_read_only(roster.open(Absence::Looking, None)?.devices, Instant(0));
        let (.., report) = looked.map_err(|error| roster.explain(error))?;
        away = report.older_copies.iter().map(|older| older.member).collect();
    }
    match away[..] {
        [] => Ok(None),
        [drive] => Target::of(&roster, drive).map(Some),
        _ => {
            let said = format!("drives {away:?} are away and there again: say which one, one at a time");
            Err(Exit::Usage.error(said))
        }
    }
}

/// The member that a file holds.
fn member_of_file(directory: &Directory, path: &Path) -> Result<Target> {
    let path = raw::plain(path.to_owned());
    let path = std::path::absolute(path).context("path of the drive")?;
    let sighting = Sighting::of(&path).map_err(|error| match error.problem {
        DriveProblem::NotFound => Exit::Absent.because(error),
        _ => error.into(),
    })?;
    let member = sighting.member().filter(|_| sighting.array() == Some(directory.file.uuid));
    let Some(member) = member else {
        let said = format!("{}: the drive {}", path.display(), whose(&sighting, directory));
        return Err(Exit::Usage.error(said));
    };
    Ok(Target { drive: u8::try_from(member).context("the drive's number")?, path })
}

/// Describes a drive that is not of this array.
fn whose(sighting: &Sighting, directory: &Directory) -> String {
    match (sighting.array(), sighting.other_version) {
        (Some(other), _) => format!("belongs to array {other}, this one is {}", directory.file.uuid),
        (None, Some(version)) => {
            format!("has superblocks of format version {version}, which this zoneweave does not read")
        }
        (None, None) => "is in no array: it holds no superblock".to_owned(),
    }
}

/// Makes sure that a file is the drive that the array knows as this member.
pub fn expect_member(directory: &Directory, drive: u8, path: &Path) -> Result<()> {
    let wanted = directory.file.drive.get(usize::from(drive)).map(|table| table.uuid);
    let Some(wanted) = wanted else {
        let said = format!("drive {drive}: the array has drives 0 to {}", directory.file.drive.len() - 1);
        return Err(Exit::Usage.error(said));
    };
    let sighting = Sighting::of(path)?;
    if sighting.uuid != wanted {
        bail!(
            "{} is not drive {drive} (uuid {wanted}) but another one (uuid {}), or another drive took its place",
            path.display(),
            sighting.uuid
        );
    }
    if sighting.array() != Some(directory.file.uuid) {
        bail!(
            "{} {}: `zoneweave drive replace` gives the place of drive {drive} to an empty drive",
            path.display(),
            whose(&sighting, directory)
        );
    }
    Ok(())
}

/// Mounts an array that is not served with the drive, and leaves what it lacks to a server.
fn re_add_offline(directory: &mut Directory, target: &Target) -> Result<ReAddedDrive> {
    let Target { drive, path } = target;
    let index = usize::from(*drive);
    expect_member(directory, *drive, path)?;
    directory.file.drive[index].path = roster::within(&directory.path, path);
    let mut roster = Roster::find(directory)?;
    let devices = roster.open(Absence::Refused, None)?.devices;
    directory.save()?;
    let tuning = serve::tagged(Tuning::default());
    let mounted = mount_with_re_add(devices, Return { member: index, or_without: false }, tuning, Instant(0));
    let (shard, drives, report) = mounted.map_err(|error| match error {
        MountError::NotReAdded { why: ReAddRefusal::NotFailed, .. } => {
            Exit::Usage.error(format!("drive {drive} needs no re-add: it has not failed and missed nothing"))
        }
        error => roster.explain(error),
    })?;
    let re_added = ReAddedDrive::new(&report, *drive, path.clone(), false)?;
    let mut volume = LogVolume::new(shard, drives);
    let mut replies = Vec::new();
    for turn in 0..TURNS_MAX {
        let moved = volume.turn(Instant(u64::from(turn) * 100_000), &mut replies);
        let engine = &volume.engine;
        let is_active = engine.member_state(DriveIndex(*drive)) == MemberState::Active;
        let is_done = is_active || re_added.segments_to_rebuild > 0;
        if is_done && !engine.has_recovery_debt() && !engine.is_recording_members() {
            return Ok(re_added);
        }
        if !moved {
            std::thread::sleep(Duration::from_micros(50));
        }
    }
    bail!("drive {drive} is taken in, but the array does not come to rest: serve it, which goes on with that")
}
