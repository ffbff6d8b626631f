//! `zoneweave md assemble`: a directory for an array that lies on members, which mdadm or `md create` made. Nothing is written to
//! a member.

use super::Assemble;
use super::array::Array;
use super::description::{Description, MemberTable};
use crate::exit::Exit;
use anyhow::{Context, Result};
use array::inplace::start::members_of;
use block::md::assembly::Part;

/// Judges the members and describes the array.
pub fn run(options: &Assemble) -> Result<Exit> {
    Description::expect_none(&options.dir)?;
    // Nobody else may use them: what md has assembled changes under whoever looks.
    let array = Array::open_exclusively(&options.members)?;
    let assembly = array.judge()?;
    if let Some(uuid) = options.uuid
        && uuid != assembly.array
    {
        return Err(Exit::Usage.error(format!("the members are of array {}, not {uuid}", assembly.array)));
    }
    members_of(&assembly).map_err(|refused| Exit::Failed.because(refused))?;
    if !assembly.absent().is_empty() && !options.run {
        return Err(Exit::Degraded.error(format!(
            "the array {}; nothing was written. --run takes it without them",
            assembly.in_words()
        )));
    }
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
    Description::new(assembly.array.to_string(), tables).save(&options.dir)?;
    println!("{}: the array {}", options.dir.display(), assembly.in_words());
    println!("serve it with `zoneweave serve {}`", options.dir.display());
    Ok(if assembly.is_degraded() { Exit::Degraded } else { Exit::Well })
}
