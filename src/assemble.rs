//! `zoneweave assemble`: writes `array.toml` anew from what drives say, wherever they are.

use crate::array_file::VERSION;
use crate::candidates;
use crate::cli::Assemble;
use crate::directory::{ArrayFile, Directory, DriveTable, EngineTable, SchemeTable, expect_no_cache};
use crate::examine::level_of;
use crate::exit::Exit;
use crate::exports::table::ExportList;
use crate::roster::within;
use crate::scan::by_array;
use crate::sighting::{self, Sighting};
use crate::status;
use anyhow::{Context, Result};
use base::erasure::PieceSet;
use base::units::{BLOCK_BYTES_U64, human_bytes};
use std::path::Path;
use zone::format::superblock::{MemberState, Superblock};
use zone::stripe::Level;

/// Finds the drives of an array and writes down where they are.
pub fn run(options: &Assemble) -> Result<Exit> {
    let dir = &options.dir;
    expect_no_cache(dir)?;
    let before = match Directory::open(dir) {
        Ok(before) => Some(before),
        // The file of another version makes sense to others.
        Err(error) if Exit::of(&error) == Exit::Usage => return Err(error),
        Err(_) => None,
    };
    if let Some(before) = &before {
        status::expect_unserved(before)?;
    }
    let seen = look(options)?;
    let drives = choose(options, &seen)?;
    if let Some((one, other)) = sighting::clone_among(drives.iter().copied()) {
        return Err(sighting::clone_error(one, other));
    }
    let record = sighting::speaker(drives.iter().copied()).ok_or_else(|| {
        Exit::Failed
            .error("the drives accuse one another of having failed: name only those whose data you keep")
    })?;
    let array = uuid::Uuid::from_bytes(record.array);
    if let Some(other) =
        before.as_ref().filter(|before| before.file.uuid != array && !before.file.drive.is_empty())
    {
        return Err(Exit::Usage.error(format!(
            "{}: array.toml is that of array {}; assemble array {array} in another directory",
            dir.display(),
            other.file.uuid
        )));
    }
    expect_enough(&record, &drives)?;
    std::fs::create_dir_all(dir).with_context(|| format!("{}", dir.display()))?;
    keep_old(dir)?;
    let (file, missing) = file_of(dir, &record, &drives, before.map(|before| before.file));
    let count = file.drive.len() - missing.len();
    let directory = Directory::create(dir, file)?;
    println!("assembled {}: array {array}, {count} of {} drives", dir.display(), directory.file.drive.len());
    for index in &missing {
        println!("  drive {index} was not found (uuid {})", directory.file.drive[*index].uuid);
    }
    for (member, path) in replaced(&record, &drives) {
        println!("  {} was drive {member}, is replaced, and is left out", path.display());
    }
    let is_whole =
        missing.is_empty() && record.members.iter().all(|member| member.state == MemberState::Active);
    Ok(if is_whole { Exit::Well } else { Exit::Degraded })
}

/// The drives in the directory and at the paths that were given.
fn look(options: &Assemble) -> Result<Vec<Sighting>> {
    let mut seen = Vec::new();
    let named = || options.paths.iter().chain(&options.drives_path);
    for path in named() {
        let more = match path.is_dir() {
            true => sighting::in_folder(path).with_context(|| format!("{}", path.display()))?,
            false => vec![Sighting::of(path)?],
        };
        sighting::add_new(&mut seen, more);
    }
    if options.dir.is_dir() {
        let more = sighting::in_folder(&options.dir).with_context(|| format!("{}", options.dir.display()))?;
        sighting::add_new(&mut seen, more);
    }
    if options.array.is_some() && named().next().is_none() {
        sighting::add_new(&mut seen, candidates::on_devices());
    }
    Ok(seen)
}

/// Refuses an array that cannot be served with the drives that were found.
fn expect_enough(record: &Superblock, drives: &[&Sighting]) -> Result<()> {
    let is_found = |uuid: &[u8; 16]| drives.iter().any(|drive| drive.uuid.as_bytes() == uuid);
    let numbered = || record.members.iter().enumerate();
    let usable =
        numbered().filter(|(_, member)| member.state == MemberState::Active && is_found(&member.uuid));
    let usable: PieceSet = usable.map(|(index, _)| index).collect();
    let code = Level::from_code(record.level).and_then(|level| level.erasure_code(record.members.len()));
    if code.is_some_and(|code| code.can_decode(usable)) {
        return Ok(());
    }
    let away = numbered().filter(|(_, member)| !is_found(&member.uuid));
    let away: Vec<String> = away
        .map(|(index, member)| format!("drive {index} (uuid {})", uuid::Uuid::from_bytes(member.uuid)))
        .collect();
    Err(Exit::Failed.error(format!(
        "{} of {} drives were found and hold what they should, which are too few; not found: {}; nothing was written: name \
         the drives that lie elsewhere",
        usable.count(),
        record.members.len(),
        if away.is_empty() { "none".to_owned() } else { away.join(", ") }
    )))
}

/// The drives of the array that was asked for, or of the only one.
fn choose<'a>(options: &Assemble, seen: &'a [Sighting]) -> Result<Vec<&'a Sighting>> {
    let mut arrays = by_array(seen);
    let absent = |said: String| Exit::Absent.error(said);
    if let Some(wanted) = options.array {
        return arrays.remove(&wanted).ok_or_else(|| absent(format!("no drive of array {wanted} was found")));
    }
    let names: Vec<String> = arrays.keys().map(ToString::to_string).collect();
    match arrays.len() {
        0 => Err(absent(format!(
            "{}: no drive of an array here: name files or directories, or with --array one of those that `zoneweave scan` \
             finds on devices",
            options.dir.display()
        ))),
        1 => Ok(arrays.into_values().next().expect("there is one")),
        _ => {
            let said =
                format!("drives of several arrays were found: choose one with --array: {}", names.join(", "));
            Err(Exit::Usage.error(said))
        }
    }
}

/// Drives whose place another one has.
fn replaced<'a>(record: &'a Superblock, drives: &'a [&Sighting]) -> impl Iterator<Item = (usize, &'a Path)> {
    let is_member =
        |drive: &Sighting| record.members.iter().any(|member| member.uuid == *drive.uuid.as_bytes());
    let others = drives.iter().filter(move |drive| !is_member(drive));
    others.filter_map(|drive| Some((drive.member()?, drive.path.as_path())))
}

/// Keeps an `array.toml` that is there already, whatever it holds, beside the new file.
fn keep_old(dir: &Path) -> Result<()> {
    let path = dir.join("array.toml");
    match std::fs::rename(&path, dir.join("array.toml.old")) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).context("array.toml"),
        _ => Ok(()),
    }
}

/// `array.toml` as the drives have it, and the members that were not found. Names, engine and spares are those of the
/// old file, if it made sense.
fn file_of(
    dir: &Path,
    record: &Superblock,
    drives: &[&Sighting],
    before: Option<ArrayFile>,
) -> (ArrayFile, Vec<usize>) {
    let mut missing = Vec::new();
    let mut tables = Vec::new();
    for (index, member) in record.members.iter().enumerate() {
        let uuid = uuid::Uuid::from_bytes(member.uuid);
        let known = before.as_ref().and_then(|file| file.drive.iter().find(|table| table.uuid == uuid));
        let table =
            drives.iter().find(|drive| drive.uuid == uuid).map(|drive| drive.table(within(dir, &drive.path)));
        tables.push(table.unwrap_or_else(|| {
            missing.push(index);
            known.cloned().unwrap_or_else(|| DriveTable::unseen(index, uuid))
        }));
    }
    let file = ArrayFile {
        version: VERSION,
        uuid: uuid::Uuid::from_bytes(record.array),
        discard: before.as_ref().is_none_or(|file| file.discard),
        export: before.as_ref().map_or_else(ExportList::default, |file| file.export.clone()),
        scheme: SchemeTable {
            level: level_of(record),
            chunk: human_bytes(u64::from(record.chunk_blocks) * BLOCK_BYTES_U64),
            group: record.group_stripes,
            size: human_bytes(record.volume_blocks.saturating_mul(BLOCK_BYTES_U64)),
        },
        engine: before.as_ref().map_or_else(EngineTable::default, |file| file.engine),
        drive: tables,
        spare: before.map(|file| file.spare).unwrap_or_default(),
    };
    (file, missing)
}
