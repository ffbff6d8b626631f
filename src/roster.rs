//! The drives of an array, found: `array.toml` says where they were, their superblocks say who they are.
//!
//! `array.toml` is a cache: a drive that is not where it says is looked for in the array's directory and in those of
//! the other drives, and where it is a device on all devices of this machine (ADR 63); the order is that of the superblocks.
//! A drive that the superblocks count on and that cannot be had is trouble of this host until the operator says otherwise:
//! whoever would write refuses to go on without it.

use crate::array_file::VERSION;
use crate::candidates;
use crate::directory::{Directory, DriveTable};
use crate::exit::Exit;
use crate::fence_note;
use crate::hosting::Hosting;
use crate::lack;
use crate::patience::Patience;
use crate::sighting::{self, Sighting};
use anyhow::{Context, Result};
use array::log::MountError;
use base::erasure::PieceSet;
use drive::any::AnyDrive;
use drive::emulated::{DriveError, DriveProblem, Pace};
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use zone::device::ZonedDevice;
use zone::format::superblock::{MemberState, Superblock};
use zone::stripe::Level;

/// Handling of a drive that the array counts on and that cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// Refused.
    Refused,
    /// Refused, but of this drive, which is to be given up anyway.
    OnlyOf(u8),
    /// The operator said so (`--degraded`).
    Accepted,
    /// Nothing will be written.
    Looking,
}

/// Place of a drive in the array.
#[derive(Clone, Debug)]
pub struct Place {
    /// Path of the drive's file, or where it should be.
    pub path: PathBuf,
    /// Identity of the drive: another one is not opened.
    uuid: uuid::Uuid,
    /// State of the member as the superblocks have it; none when no superblock was found.
    pub state: Option<MemberState>,
    /// Why it cannot be had.
    pub problem: Option<String>,
}

impl Place {
    /// True of a drive that the array counts on and that cannot be had.
    pub fn is_missing(&self) -> bool {
        self.problem.is_some() && self.state != Some(MemberState::Failed)
    }
}

/// The drives of an array by number.
pub struct Roster {
    /// The array's directory.
    dir: PathBuf,
    /// The superblock that speaks for the array.
    pub record: Option<Superblock>,
    /// The drives.
    pub places: Vec<Place>,
}

/// The drives as they could be opened.
pub struct OpenDrives {
    /// By number; `None` where one is missing or unusable.
    pub devices: Vec<Option<Box<dyn ZonedDevice>>>,
    /// Numbers of those that the array counts on and that are not there.
    pub absent: Vec<usize>,
    /// Readable when a drive has something to say.
    pub wake_fds: Vec<OwnedFd>,
    /// The clocks of drives that take the time of a profile.
    pub paces: Vec<Pace>,
}

/// Files that were looked at.
struct Looked {
    /// Each `[[drive]]` of `array.toml`, in its order.
    listed: Vec<Result<Sighting, DriveError>>,
    /// All drives that were seen.
    seen: Vec<Sighting>,
}

impl Roster {
    /// Finds the drives, and corrects what `directory.file` says of them. Nothing is opened or written.
    ///
    /// # Errors
    /// When a drive is there twice, or this host lacks what it takes to look at one.
    pub fn find(directory: &mut Directory) -> Result<Roster> {
        let mut looked = look(directory)?;
        let lost = lost_devices(directory, &looked);
        if !lost.is_empty() {
            candidates::find(&lost.iter().collect::<Vec<_>>(), &mut looked.seen);
        }
        let array = array_of(directory, &looked);
        let own = || looked.seen.iter().filter(|sighting| sighting.array() == Some(array));
        if let Some((one, other)) = sighting::clone_among(own()) {
            return Err(sighting::clone_error(one, other));
        }
        let record = record_of(&looked, array);
        correct_spares(directory, &looked);
        let places = match &record {
            Some(record) => places_of(directory, &looked, record),
            None => directory
                .file
                .drive
                .iter()
                .zip(&looked.listed)
                .map(|(table, look)| {
                    let problem = look.as_ref().err().map(|error| error.problem.to_string());
                    Place { path: directory.path.join(&table.path), uuid: table.uuid, state: None, problem }
                })
                .collect(),
        };
        Ok(Roster { dir: directory.path.clone(), record, places })
    }

    /// Opens the drives, for this process alone.
    ///
    /// # Errors
    /// When one is in use, or cannot be had and `absence` does not allow for that, or when another host has taken them and something
    /// would be written.
    pub fn open(&mut self, absence: Absence, hosting: Option<&Hosting>) -> Result<OpenDrives> {
        if absence != Absence::Looking {
            fence_note::expect_none(&self.dir)?;
        }
        let patience = Patience::begin();
        let mut drives = Vec::new();
        for (index, place) in self.places.iter_mut().enumerate() {
            let drive = match place.problem {
                Some(_) => None,
                None => open_one(place, patience).with_context(|| format!("drive {index}"))?,
            };
            drives.push(drive);
        }
        self.judge(absence)?;
        let absent = (0..self.places.len()).filter(|index| self.places[*index].is_missing()).collect();
        let mut open = OpenDrives { devices: Vec::new(), absent, wake_fds: Vec::new(), paces: Vec::new() };
        for (index, drive) in drives.into_iter().enumerate() {
            let device = drive.map(|drive| open.host(drive, index, hosting)).transpose()?;
            open.devices.push(device);
        }
        Ok(open)
    }

    /// Refuses to go on without drives that the array counts on.
    fn judge(&self, absence: Absence) -> Result<()> {
        let excused = |index: usize| match absence {
            Absence::Refused => false,
            Absence::OnlyOf(drive) => usize::from(drive) == index,
            Absence::Accepted | Absence::Looking => true,
        };
        let missing = || self.places.iter().enumerate().filter(|(_, place)| place.problem.is_some());
        let refused: Vec<String> = missing()
            .filter(|(index, place)| place.is_missing() && !excused(*index))
            .map(|(index, place)| {
                let problem = place.problem.as_deref().unwrap_or_default();
                format!("drive {index} ({}) is not there or cannot be read: {problem}", place.path.display())
            })
            .collect();
        if refused.is_empty() {
            for (index, place) in missing() {
                if let Some(problem) = place.problem.as_ref().filter(|_| absence != Absence::Looking) {
                    log::warn!("drive {index} is left out: {}: {problem}", place.path.display());
                }
            }
            return Ok(());
        }
        Err(Exit::Failed.error(format!("{}\n{}", refused.join("\n"), self.remedy())))
    }

    /// A refusal to mount, with what is known of the drives that are not there.
    pub fn explain(&self, error: MountError) -> anyhow::Error {
        let problems: Vec<String> = self
            .places
            .iter()
            .enumerate()
            .filter_map(|(index, place)| Some((index, place, place.problem.as_ref()?)))
            .map(|(index, place, problem)| format!("\n  drive {index} ({}): {problem}", place.path.display()))
            .collect();
        // Drives that cannot be read may hold an array all the same.
        let said = match error {
            MountError::NoSuperblock if problems.len() == self.places.len() => {
                "none of the array's drives can be had".to_owned()
            }
            error => error.to_string(),
        };
        Exit::Failed.error(format!("{said}{}", problems.concat()))
    }

    fn remedy(&self) -> String {
        let dir = self.dir.display();
        let bring_back = "nothing was recorded on any drive; bring it back (is its file system mounted? is its path in \
                          array.toml right?)";
        if self.can_go_on() {
            format!(
                "{bring_back}, or go on without it: `zoneweave serve {dir} --degraded`; after that it has to be \
                 re-added (`zoneweave drive re-add`) or replaced"
            )
        } else {
            format!("{bring_back}: too few drives are left to go on without")
        }
    }

    /// True when the drives that are there hold all data.
    fn can_go_on(&self) -> bool {
        let Some(record) = &self.record else { return false };
        let there = |place: &Place| place.problem.is_none() && place.state == Some(MemberState::Active);
        let active: PieceSet = self
            .places
            .iter()
            .enumerate()
            .filter(|(_, place)| there(place))
            .map(|(index, _)| index)
            .collect();
        let code = Level::from_code(record.level).and_then(|level| level.erasure_code(record.members.len()));
        code.is_some_and(|code| code.can_decode(active))
    }
}

impl OpenDrives {
    /// Takes a drive: as one of an array that is served, or as it is.
    fn host(
        &mut self,
        drive: AnyDrive,
        index: usize,
        hosting: Option<&Hosting>,
    ) -> Result<Box<dyn ZonedDevice>> {
        let Some(hosting) = hosting else { return Ok(drive.into_device()) };
        let hosted = hosting.host(drive, index as u64).with_context(|| format!("drive {index}"))?;
        self.wake_fds.extend(hosted.wake_fd);
        self.paces.extend(hosted.pace);
        Ok(hosted.device)
    }
}

/// Looks at every file that may be a drive of the array.
fn look(directory: &Directory) -> Result<Looked> {
    let path_of = |table: &DriveTable| directory.path.join(&table.path);
    let listed: Vec<Result<Sighting, DriveError>> =
        directory.file.drive.iter().map(|table| Sighting::of(&path_of(table))).collect();
    if let Some(error) =
        listed.iter().filter_map(|look| look.as_ref().err()).find(|error| lack::is_of_host(*error))
    {
        return Err(lack::error(error));
    }
    let spares = directory.file.spare.iter().filter_map(|table| Sighting::of(&path_of(table)).ok());
    let mut seen = Vec::new();
    sighting::add_new(&mut seen, listed.iter().filter_map(|look| look.as_ref().ok()).cloned().collect());
    sighting::add_new(&mut seen, spares.collect());
    let mut folders: BTreeSet<PathBuf> = BTreeSet::from([directory.path.clone()]);
    folders
        .extend(directory.file.drive.iter().filter_map(|table| path_of(table).parent().map(Path::to_owned)));
    // Of devices all are looked at, where one is lost.
    sighting::add_in_folders(folders, &mut seen);
    Ok(Looked { listed, seen })
}

/// Devices of the array that were not seen: those that `array.toml` lists, spares too, and in an array of devices those that
/// only superblocks know.
fn lost_devices(directory: &Directory, looked: &Looked) -> Vec<DriveTable> {
    let is_lost = |uuid: uuid::Uuid| looked.seen.iter().all(|sighting| sighting.uuid != uuid);
    let file = &directory.file;
    let listed = || file.drive.iter().chain(&file.spare);
    let mut lost: Vec<DriveTable> =
        listed().filter(|table| table.is_device() && is_lost(table.uuid)).cloned().collect();
    if !file.drive.iter().any(DriveTable::is_device) {
        return lost;
    }
    let record = record_of(looked, array_of(directory, looked));
    for member in record.iter().flat_map(|record| &record.members) {
        let uuid = uuid::Uuid::from_bytes(member.uuid);
        if is_lost(uuid) && listed().all(|table| table.uuid != uuid) {
            lost.push(DriveTable { kind: None, path: PathBuf::new(), id: None, journal: None, uuid });
        }
    }
    lost
}

/// The superblock that speaks for an array.
fn record_of(looked: &Looked, array: uuid::Uuid) -> Option<Superblock> {
    let own = looked.seen.iter().filter(|sighting| sighting.array() == Some(array));
    sighting::speaker(own)
}

/// Corrects the list of spares: one that is elsewhere is still the one that was named.
fn correct_spares(directory: &mut Directory, looked: &Looked) {
    let Directory { path: dir, file } = directory;
    for spare in &mut file.spare {
        let full = dir.join(&spare.path);
        let is_it = |sighting: &&Sighting| sighting.uuid == spare.uuid;
        let mut found = looked.seen.iter().filter(is_it);
        let Some(sighting) = found.clone().find(|sighting| sighting.path == full).or_else(|| found.next())
        else {
            continue;
        };
        if sighting.path != full {
            log::info!("spare {} is {} now", spare.path.display(), sighting.path.display());
            *spare = sighting.table(within(dir, &sighting.path));
        } else {
            // It may have moved without the drive.
            spare.journal.clone_from(&sighting.journal);
        }
    }
}

/// The array that `array.toml` names, or when no drive knows it, that of most drives it lists.
fn array_of(directory: &Directory, looked: &Looked) -> uuid::Uuid {
    let named = directory.file.uuid;
    if looked.seen.iter().any(|sighting| sighting.array() == Some(named)) {
        return named;
    }
    let arrays = || looked.listed.iter().flatten().filter_map(Sighting::array);
    let votes = |array: &uuid::Uuid| arrays().filter(|other| other == array).count();
    arrays().max_by_key(votes).unwrap_or(named)
}

/// Finds each member among what was seen, and corrects the list of drives.
fn places_of(directory: &mut Directory, looked: &Looked, record: &Superblock) -> Vec<Place> {
    let before = directory.file.drive.clone();
    directory.file.uuid = uuid::Uuid::from_bytes(record.array);
    directory.file.drive.clear();
    let mut places = Vec::new();
    for (index, member) in record.members.iter().enumerate() {
        let uuid = uuid::Uuid::from_bytes(member.uuid);
        let mut found = looked.seen.iter().filter(|sighting| sighting.uuid == uuid);
        let newcomer = newcomer_of(&before, looked, record, index);
        let (table, problem) = match found.next() {
            Some(sighting) => {
                let was = before.iter().position(|table| directory.path.join(&table.path) == sighting.path);
                let path = was
                    .map_or_else(|| within(&directory.path, &sighting.path), |was| before[was].path.clone());
                if was != Some(index) {
                    say_where(index, sighting, before.get(index));
                }
                let is_blank = sighting.record.is_none() && member.state == MemberState::Active;
                let problem = is_blank.then(|| "the drive holds no superblock that is whole".to_owned());
                let id = before.iter().find(|table| table.uuid == uuid).and_then(|table| table.id.clone());
                let table = sighting.table(path);
                (DriveTable { id: table.id.clone().or(id), ..table }, problem)
            }
            None => match &newcomer {
                Some(newcomer) => failed_for_now(newcomer, index, uuid),
                None => not_found(&before, looked, record, index),
            },
        };
        let spares = &mut directory.file.spare;
        spares.extend(newcomer.filter(|newcomer| spares.iter().all(|spare| spare.uuid != newcomer.uuid)));
        places.push(Place {
            path: directory.path.join(&table.path),
            uuid: table.uuid,
            state: Some(member.state),
            problem,
        });
        directory.file.drive.push(table);
    }
    let is_same = |(one, other): (&DriveTable, &DriveTable)| one.path == other.path && one.uuid == other.uuid;
    let drives = &directory.file.drive;
    if directory.file.version < VERSION
        && drives.len() == before.len()
        && drives.iter().zip(&before).all(is_same)
    {
        // A file of an older version stays as it is for as long as it is right.
        directory.file.drive = before;
    }
    places
}

/// Names the place of a drive that `array.toml` has elsewhere.
fn say_where(index: usize, sighting: &Sighting, before: Option<&DriveTable>) {
    let name = sighting.id.as_ref().map(|id| format!(" ({id})")).unwrap_or_default();
    let was = before.map(|table| format!(" {}", table.path.display())).unwrap_or_default();
    log::info!("drive {index}{name} is {}, array.toml said{was}", sighting.path.display());
}

/// Returns the entry for `array.toml` of a drive that was not seen, and the reason why it was not, if any.
fn not_found(
    before: &[DriveTable],
    looked: &Looked,
    record: &Superblock,
    index: usize,
) -> (DriveTable, Option<String>) {
    let uuid = uuid::Uuid::from_bytes(record.members[index].uuid);
    let others =
        |table: &DriveTable| record.members.iter().any(|member| member.uuid == *table.uuid.as_bytes());
    let by_uuid = before.iter().position(|table| table.uuid == uuid);
    let by_place = || before.get(index).filter(|table| !others(table)).map(|_| index);
    let Some(listed) = by_uuid.or_else(by_place) else {
        let problem =
            format!("array.toml has no [[drive]] for it (uuid {uuid}), and no file beside the others is it");
        return (DriveTable::unseen(index, uuid), Some(problem));
    };
    let problem = match &looked.listed[listed] {
        Err(error) => Some(error.problem.to_string()),
        // A failed drive whose replacement is not in the superblocks yet.
        Ok(sighting) if sighting.uuid == before[listed].uuid => None,
        Ok(sighting) => {
            Some(format!("the file is another drive (uuid {}), not the one of uuid {uuid}", sighting.uuid))
        }
    };
    let problem = problem.or_else(|| {
        let is_needed = record.members[index].state != MemberState::Failed;
        is_needed.then(|| format!("the file is not the drive of uuid {uuid}"))
    });
    (before[listed].clone(), problem)
}

/// A blank drive that `array.toml` has in the place of one that failed, and that no superblock names: who put it there died before. It is a
/// spare of the next server.
fn newcomer_of(
    before: &[DriveTable],
    looked: &Looked,
    record: &Superblock,
    index: usize,
) -> Option<DriveTable> {
    let listed = before.get(index)?;
    let seen = looked.listed.get(index)?.as_ref().ok()?;
    let is_member = record.members.iter().any(|member| member.uuid == *listed.uuid.as_bytes());
    let is_newcomer = record.members[index].state == MemberState::Failed && !is_member;
    (is_newcomer && seen.uuid == listed.uuid && seen.record.is_none()).then(|| listed.clone())
}

/// The entry for `array.toml` of a failed drive that is not there and has a newcomer, and what is wrong with it.
fn failed_for_now(newcomer: &DriveTable, index: usize, uuid: uuid::Uuid) -> (DriveTable, Option<String>) {
    let problem =
        format!("it has failed; {} was to replace it and is a spare until then", newcomer.path.display());
    (DriveTable::unseen(index, uuid), Some(problem))
}

/// A path as `array.toml` has it: relative within the array's directory.
pub fn within(dir: &Path, path: &Path) -> PathBuf {
    match path.strip_prefix(dir) {
        Ok(inside) => inside.to_owned(),
        Err(_) => std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
    }
}

/// Opens a drive; notes why it cannot be had.
fn open_one(place: &mut Place, patience: Patience) -> Result<Option<AnyDrive>> {
    let is_in_use = |problem: &DriveProblem| matches!(problem, DriveProblem::InUse | DriveProblem::Held(_));
    let opened = patience
        .open(|| AnyDrive::open_as(&place.path, *place.uuid.as_bytes()), |error| is_in_use(&error.problem));
    match opened {
        Ok(drive) => Ok(Some(drive)),
        Err(error) if is_in_use(&error.problem) => {
            Err(Exit::Busy.error(format!("{error} (is the array being served, or checked?)")))
        }
        Err(error) if lack::is_of_host(&error) => Err(lack::error(error)),
        Err(error) => {
            place.problem = Some(error.problem.to_string());
            Ok(None)
        }
    }
}
