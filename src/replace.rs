//! `zoneweave drive replace`: an empty drive takes the place of one that failed.
//!
//! `array.toml` is written before the superblocks: a crash between the two leaves an array that lacks the
//! failed drive as before, and a blank file in its place: the next server has it as a spare (`roster.rs`).

use crate::cli::Replace;
use crate::directory::{Directory, DriveTable};
use crate::exit::Exit;
use crate::force::expect_given_up;
use crate::hosting::Hosting;
use crate::raw;
use crate::roster::{Absence, Roster, within};
use crate::seek::Seek;
use crate::sighting::Sighting;
use crate::{rebuild, serve, spare, status};
use anyhow::{Context, Result, bail};
use array::engine::Engine;
use array::log::config::Tuning;
use array::log::volume::LogVolume;
use array::log::{ReplaceError, mount, mount_read_only};
use array::request::Volume;
use base::time::Instant;
use base::units::DriveIndex;
use drive::any::{AnyDrive, reset_all};
use drive::emulated::{CreateOptions, Pace};
use drive::zoned;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;
use zone::device::Geometry;

/// Time between two questions to a busy array, and the most of them.
const ASK_AGAIN_EVERY: Duration = Duration::from_millis(50);
const ASK_AGAIN_MAX: u32 = 1_200;
/// Turns after which an array that is not served has not recorded its new member.
const TURNS_MAX: u32 = 1_000_000;

/// The JSON object of `zoneweave drive replace --json`.
#[derive(Debug, Deserialize, Serialize)]
pub struct Replaced {
    /// The drive's number.
    pub drive: u8,
    /// File of the new drive.
    pub path: PathBuf,
    /// File of the old one, which nobody needs any more.
    pub old_path: PathBuf,
    /// A server is rebuilding it.
    pub served: bool,
}

/// Outcome of an attempt to give a member a drive.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Attempt<T> {
    /// The drive is in its place.
    Done(T),
    /// Something under way must end first.
    Busy,
}

/// Replaces a drive, through the server if there is one.
pub fn run(options: &Replace) -> Result<Exit> {
    let mut directory = Directory::open(&options.dir)?;
    let seek = Seek::of(options.with.as_deref(), options.identity_journal.as_deref(), &options.force)?;
    let is_served = status::ask(&directory, "status")?.is_some();
    if options.rebuild_rate.is_some() && is_served {
        rebuild::set_rates(&directory, options.rebuild_rate, None)?;
    }
    let question = format!("replace {} {seek}", options.drive);
    let replaced = match ask_until_done(&directory, question.trim_end())? {
        Some(replaced) => replaced,
        None => replace_offline(&mut directory, options.drive, &seek)?,
    };
    if options.json {
        println!("{}", serde_json::to_string_pretty(&replaced)?);
    } else {
        print(options, &replaced);
    }
    match (options.wait, replaced.served) {
        (false, _) => Ok(Exit::Well),
        (true, true) => rebuild::follow(&directory, Some(usize::from(replaced.drive)), options.json),
        (true, false) => Ok(Exit::Degraded),
    }
}

fn print(options: &Replace, replaced: &Replaced) {
    let Replaced { drive, path, old_path, served } = replaced;
    println!(
        "drive {drive} is now {}; {} is no longer part of the array",
        path.display(),
        old_path.display()
    );
    let dir = options.dir.display();
    match (served, options.wait) {
        (true, true) => {}
        (true, false) => println!("it is being rebuilt; `zoneweave rebuild {dir} --wait` follows"),
        (false, _) => {
            println!("nobody serves the array: the rebuild begins with the next `zoneweave serve {dir}`");
        }
    }
}

/// Asks the server, again while it is busy; `None` when there is none.
///
/// # Errors
/// What the server says, and when it is busy for a minute.
pub fn ask_until_done<T: DeserializeOwned>(directory: &Directory, line: &str) -> Result<Option<T>> {
    ask_at_until_done(&directory.control_path(), "array", line)
}

/// The same of the server of an array or a cache that listens at a socket.
///
/// # Errors
/// As [`ask_until_done`].
pub fn ask_at_until_done<T: DeserializeOwned>(
    control_path: &Path,
    what: &str,
    line: &str,
) -> Result<Option<T>> {
    for attempt in 0..ASK_AGAIN_MAX {
        let Some(answer) = status::ask_at(control_path, line)? else { return Ok(None) };
        if let Attempt::Done(done) = serde_json::from_str(&answer).context("the server's answer")? {
            return Ok(Some(done));
        }
        std::thread::sleep(ASK_AGAIN_EVERY.min(Duration::from_millis(1 << attempt.min(10))));
    }
    Err(Exit::Busy.error(format!("`{line}`: the {what} has been changing for a minute; try again later")))
}

/// Mounts an array that is not served, puts the drive into its place, and leaves the rebuild to a server.
fn replace_offline(directory: &mut Directory, drive: u8, seek: &Seek) -> Result<Replaced> {
    let mut roster = Roster::find(directory)?;
    let looked = mount_read_only(roster.open(Absence::Looking, None)?.devices, Instant(0));
    let (looked, ..) = looked.map_err(|error| roster.explain(error))?;
    check_drive(&looked.status(), drive)?;
    drop(looked);
    let tuning = serve::tagged(Tuning::default());
    let (shard, drives, _) = mount(roster.open(Absence::OnlyOf(drive), None)?.devices, tuning, Instant(0))?;
    let mut volume = LogVolume::new(shard, drives);
    let mut replies = Vec::new();
    let mut replaced = None;
    for turn in 0..TURNS_MAX {
        let now = Instant(u64::from(turn) * 100_000);
        let is_rescuing = volume.engine.has_recovery_debt();
        if replaced.is_none()
            && !is_rescuing
            && let (Attempt::Done(done), _) = install(directory, &mut volume, now, (drive, seek), None)?
        {
            replaced = Some(done);
        }
        if !volume.turn(now, &mut replies) && !volume.engine.is_recording_members() {
            if let Some(replaced) = replaced {
                return Ok(Replaced { served: false, ..replaced });
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }
    bail!("drive {drive} cannot be replaced: the array does not come to rest; serve it, then try again")
}

fn check_drive(status: &array::log::status::Status, drive: u8) -> Result<()> {
    let count = status.members.len();
    if usize::from(drive) >= count {
        return Err(Exit::Usage.error(format!("drive {drive}: the array has drives 0 to {}", count - 1)));
    }
    Ok(())
}

/// Puts an empty drive into the place of a failed one, hosted where the array is served.
pub fn install(
    directory: &mut Directory,
    volume: &mut LogVolume,
    now: Instant,
    (member, seek): (u8, &Seek),
    hosting: Option<&Hosting>,
) -> Result<(Attempt<Replaced>, Option<Pace>)> {
    let refused = |error: ReplaceError| {
        let exit = match error {
            ReplaceError::NoSuchMember { .. } => Exit::Usage,
            _ => Exit::Failed,
        };
        exit.error(format!("drive {member} cannot be replaced: {error}"))
    };
    match volume.engine.can_replace(usize::from(member), [0; 16]) {
        Ok(()) => {}
        Err(ReplaceError::Busy) => return Ok((Attempt::Busy, None)),
        Err(error) => return Err(refused(error)),
    }
    let Newcomer { table, drive, uuid, created } =
        Newcomer::find(directory, Some(member), seek, volume.engine.geometry())?;
    let path = directory.path.join(&table.path);
    let undo = |path: &Path| drop(created.then(|| std::fs::remove_file(path)));
    let hosted = match hosting {
        None => Ok((drive.into_device(), None)),
        Some(hosting) => hosting.host(drive, u64::from(member)).map(|hosted| (hosted.device, hosted.pace)),
    };
    let (device, pace) = hosted.inspect_err(|_| undo(&path))?;
    let before = directory.file.clone();
    directory.file.spare.retain(|spare| spare.uuid != table.uuid);
    let old = std::mem::replace(&mut directory.file.drive[usize::from(member)], table);
    let old_path = directory.path.join(&old.path);
    directory.save()?;
    let accepted = volume.replace_member(now, DriveIndex(member), device, uuid);
    if let Err(error) = accepted {
        directory.file = before;
        directory.save()?;
        undo(&path);
        return match error {
            ReplaceError::Busy => Ok((Attempt::Busy, None)),
            error => Err(refused(error)),
        };
    }
    Ok((Attempt::Done(Replaced { drive: member, path, old_path, served: true }), pace))
}

/// A drive that is in no array yet.
pub struct Newcomer {
    /// Entry of the drive for `array.toml`.
    pub table: DriveTable,
    drive: AnyDrive,
    uuid: [u8; 16],
    created: bool,
}

impl Newcomer {
    /// Opens the drive that is sought, or makes one: there if it does not exist, else beside the others. It is for the place of a
    /// member, or a spare.
    pub fn find(
        directory: &Directory,
        member: Option<u8>,
        seek: &Seek,
        geometry: &Geometry,
    ) -> Result<Newcomer> {
        let own_name = member.map_or_else(|| "spare".to_owned(), |member| format!("drive-{member}"));
        let path = seek.with.clone().unwrap_or_else(|| new_name(&directory.path, &own_name));
        if let Some(spare) = spare::at(directory, &path) {
            return Newcomer::spare(directory, spare, seek);
        }
        let device = raw::device_of(&path);
        let path = device.clone().unwrap_or(path);
        let full = directory.path.join(&path);
        let created = !full.exists() && device.is_none();
        let uuid = *uuid::Uuid::new_v4().as_bytes();
        let (force, own) = (&seek.force, Some(directory.file.uuid));
        if force.is_said() {
            expect_no_part(directory, member, &full)?;
        }
        let journal = journal_of(directory, member, (device.as_deref(), seek))?;
        if device.is_some() {
            raw::expect_free(&full, force, own)?;
            raw::format_like(&full, journal.as_deref(), geometry, uuid)?;
        } else if created {
            drive::emulated::create(&full, &CreateOptions::new(*geometry, uuid))?;
        } else if force.is_said() {
            drop(AnyDrive::open(&full)?);
            expect_given_up(&full, force, own)?;
            reset_all(&full, &mut |_, _| {})?;
        }
        let drive = AnyDrive::open(&full)?;
        let uuid = drive.uuid();
        let table = Sighting::of(&full)?.table(path);
        Ok(Newcomer { table, drive, uuid, created })
    }

    /// Opens a spare, wherever it is now. It was made for the array when it was named, and is blank since.
    fn spare(directory: &Directory, spare: &DriveTable, seek: &Seek) -> Result<Newcomer> {
        if let Some(journal) = &seek.journal {
            return Err(Exit::Usage.error(format!(
                "--identity-journal {}: {} is a spare, which was made with the journal that it has: leave it out",
                journal.display(),
                spare.path.display()
            )));
        }
        let found = spare::locate(directory, spare)?;
        let table = found.table(within(&directory.path, &found.path));
        let uuid = *found.uuid.as_bytes();
        Ok(Newcomer { table, drive: AnyDrive::open_as(&found.path, uuid)?, uuid, created: false })
    }
}

/// Drives of the array and its spares, but the one whose place is given to another.
fn others(directory: &Directory, member: Option<u8>) -> impl Iterator<Item = &DriveTable> {
    let drives = directory.file.drive.iter().enumerate();
    let others = drives.filter(move |(index, _)| member.map(usize::from) != Some(*index));
    others.map(|(_, drive)| drive).chain(&directory.file.spare)
}

/// Refuses to give up a drive of the array itself, or its identity journal, but those of the one whose place is given to another.
fn expect_no_part(directory: &Directory, member: Option<u8>, path: &Path) -> Result<()> {
    let drive = Sighting::of(path).ok().map(|found| found.uuid);
    let of_journal = zoned::journal_at(path).map(|table| uuid::Uuid::from_bytes(table.drive));
    let found = [drive, of_journal];
    match others(directory, member).any(|known| found.contains(&Some(known.uuid))) {
        true => Err(Exit::Failed.error(format!("{}: is part of the array already", path.display()))),
        false => Ok(()),
    }
}

/// Device of the identity journal that a drive is to have, if it is to lie apart.
fn journal_of(
    directory: &Directory,
    member: Option<u8>,
    (device, seek): (Option<&Path>, &Seek),
) -> Result<Option<PathBuf>> {
    let Some(said) = &seek.journal else { return Ok(None) };
    let paths = others(directory, member).flat_map(|drive| [Some(&drive.path), drive.journal.as_ref()]);
    let others = paths.flatten().map(|path| directory.path.join(path));
    let journal = raw::journal_for((device, said), others, (&seek.force, Some(directory.file.uuid)))?;
    expect_no_part(directory, member, &journal)?;
    Ok(Some(journal))
}

/// A file beside the others that does not exist yet.
pub fn new_name(folder: &Path, own_name: &str) -> PathBuf {
    let names = (1_u64..).map(|count| PathBuf::from(format!("{own_name}-{count}.zns")));
    let mut free = names.filter(|name| !folder.join(name).exists());
    free.next().expect("names do not run out")
}
