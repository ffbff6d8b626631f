//! `zoneweave md assemble`: a directory for an array that lies on members, which mdadm or `md create` made. Nothing is written to
//! a member.

use super::Assemble;
use super::array::{Access, Array};
use super::description::{self, Description, MemberTable};
use super::doubt::{self, REMEDIES};
use crate::candidates;
use crate::exit::Exit;
use anyhow::{Context, Result};
use array::inplace::start::members_of;
use block::md::assembly::{Assembly, Part};
use block::md::doubt::doubts;
use block::md::superblock::Superblock;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Judges the members and describes the array.
pub fn run(options: &Assemble) -> Result<Exit> {
    Description::expect_none(&options.dir)?;
    // Nobody else may use them: what md has assembled changes under whoever looks.
    let array = Array::open_for(Access::alone(options.readonly), &members_of_one(options)?)?;
    let recovered = array.recover(options.force)?;
    let assembly = array.judge_forced(options.force)?;
    if let Err(refused) = members_of(&assembly) {
        let remedies = if assembly.is_only_in_doubt() { REMEDIES } else { "" };
        return Err(Exit::Failed.error(format!("{refused}{remedies}")));
    }
    if !assembly.absent().is_empty() && !options.run {
        return Err(Exit::Degraded.error(format!(
            "the array {}; nothing was written. --run takes it without them",
            assembly.in_words()
        )));
    }
    let is_doubtful = assembly.is_forced && !assembly.superblock().is_clean() && assembly.is_degraded();
    if is_doubtful {
        doubt::say(&doubts(&assembly, &recovered.in_doubt));
    }
    describe(options, &assembly)?;
    println!("{}: the array {}", options.dir.display(), assembly.in_words());
    let doubt = if is_doubtful { " --degraded --force" } else { "" };
    let readonly = if options.readonly { " --readonly" } else { "" };
    println!("serve it with `zoneweave serve {}{doubt}{readonly}`", options.dir.display());
    Ok(if assembly.is_degraded() { Exit::Degraded } else { Exit::Well })
}

/// Writes the description of an array.
fn describe(options: &Assemble, assembly: &Assembly<'_>) -> Result<()> {
    std::fs::create_dir_all(&options.dir).with_context(|| options.dir.display().to_string())?;
    let dir = options.dir.canonicalize().with_context(|| options.dir.display().to_string())?;
    let mut tables = Vec::new();
    for (member, part) in &assembly.devices {
        if *part == Part::Stale {
            continue;
        }
        let full = std::fs::canonicalize(&member.name).with_context(|| member.name.clone())?;
        let path = full.strip_prefix(&dir).map(std::path::Path::to_owned).unwrap_or(full);
        tables.push(MemberTable { path, uuid: member.superblock().device.uuid.to_string() });
    }
    Description::new(assembly.array.to_string(), tables).save(&options.dir)
}

/// Paths of the members of the one array that is meant.
fn members_of_one(options: &Assemble) -> Result<Vec<PathBuf>> {
    let mut paths = description::members(&options.members)?;
    let is_any = options.uuid.is_none() && options.name.is_none();
    if is_any && !options.scan {
        return Ok(paths);
    }
    if options.scan {
        paths.extend(candidates::block_devices());
    }
    let is_wanted = |superblock: &Superblock| is_wanted(options, superblock);
    let array = Array::open_wanted(&paths, is_wanted);
    let mut arrays: BTreeMap<_, (String, Vec<PathBuf>)> = BTreeMap::new();
    for member in array.members() {
        let (uuid, name) = (member.superblock().array.uuid, member.superblock().name());
        arrays.entry(uuid).or_insert((name, Vec::new())).1.push(PathBuf::from(&member.name));
    }
    let Some((_, (_, found))) = arrays.pop_first().filter(|_| arrays.is_empty()) else {
        return Err(none_or_many(options, &array));
    };
    Ok(found)
}

/// True of members of the array that is asked for.
fn is_wanted(options: &Assemble, superblock: &Superblock) -> bool {
    let full = superblock.name();
    let short = full.split_once(':').map_or(full.as_str(), |(_, short)| short);
    let has_name = |name: &String| *name == full || name == short;
    options.uuid.is_none_or(|uuid| uuid == superblock.array.uuid)
        && options.name.as_ref().is_none_or(has_name)
}

/// Says why no array, or not which one, is meant.
fn none_or_many(options: &Assemble, found: &Array) -> anyhow::Error {
    let mut arrays: Vec<String> = found.members().iter().map(in_words).collect();
    arrays.sort();
    arrays.dedup();
    let asked = [
        options.uuid.map(|uuid| format!(" with UUID {uuid}")),
        options.name.as_ref().map(|name| format!(" with the name {name}")),
    ];
    let asked: String = asked.into_iter().flatten().collect();
    if arrays.is_empty() {
        let place = if options.scan {
            "no device of this machine, and none that is given,"
        } else {
            "no device that is given"
        };
        return Exit::Absent.error(format!("{place} is a member of an array of md{asked}"));
    }
    Exit::Usage.error(format!(
        "there are members of several arrays{asked}: {}; say which one with --uuid",
        arrays.join(", ")
    ))
}

fn in_words(member: &block::md::member::Member) -> String {
    let superblock = member.superblock();
    format!("{} ({})", superblock.array.uuid, superblock.name())
}
