//! `zoneweave md add-journal`: another journal for an array that lost its own, while nobody serves it.
//!
//! All members are opened and looked at before the first is written to. A command that is cut off leaves an array without its journal, for
//! which it is typed again, or one with the new one ([`block::md::new_journal`]).

use super::AddJournal;
use super::add::path_in;
use super::array::{Access, Array};
use super::description::{Description, MemberTable};
use super::status::control_path;
use super::target::Target;
use crate::exit::Exit;
use crate::status::ask_at;
use anyhow::{Context, Result};
use array::inplace::journal::sectors_min;
use block::md::Uuid;
use block::md::create::{Blank, MemberPlan};
use block::md::new_journal::{NewJournal, plan};
use std::time::{SystemTime, UNIX_EPOCH};

/// Adds it.
pub fn run(options: &AddJournal) -> Result<Exit> {
    let dir = &options.dir;
    let mut description = Description::open(dir)?;
    if ask_at(&control_path(dir), "policy")?.is_some() {
        return Err(Exit::Busy.error(format!(
            "the array is served; a journal comes while nobody writes: `zoneweave stop {}` first",
            dir.display()
        )));
    }
    let full = options.device.canonicalize().with_context(|| options.device.display().to_string())?;
    let target = Target::open(&options.device)?;
    let mut paths = description.paths(dir);
    planned(&Array::open_those_there(&description.uuid, &paths, Access::Look)?, &target)?;
    // A journal that has failed may be used again.
    paths.retain(|path| !path.canonicalize().is_ok_and(|path| path == full));
    let array = Array::open_those_there(&description.uuid, &paths, Access::WriteAlone)?;
    let NewJournal { first, journal, last } = planned(&array, &target)?;
    target.expect_unowned_and_empty(options.force)?;
    target.zero_superblocks()?;
    target.prepare(&journal)?;
    commit(&array, &first)?;
    let path = path_in(dir, &full)?;
    let uuids = array.members().iter().map(|member| member.superblock().device.uuid.to_string());
    let there: Vec<String> = uuids.collect();
    description.member.retain(|member| there.contains(&member.uuid));
    description.member.push(MemberTable { path, uuid: journal.superblock.device.uuid.to_string() });
    description.save(dir)?;
    target.commit(&journal)?;
    commit(&array, &last)?;
    println!("{} is the journal now", full.display());
    println!("  what the journal before had is not known: all parities are made right by a resync");
    println!("serve it with `zoneweave serve {}`, or assemble it with `mdadm --assemble`", dir.display());
    Ok(Exit::Well)
}

fn planned(array: &Array, target: &Target) -> Result<NewJournal> {
    let assembly = array.judge()?;
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?.as_secs();
    let device = Blank { sectors: target.sectors(), uuid: Uuid(uuid::Uuid::new_v4().into_bytes()) };
    let least = sectors_min(u64::from(assembly.superblock().shape.members));
    plan(&assembly, &device, least, seconds).map_err(|refused| {
        let absent = array.absent_in_words();
        let why = if absent.is_empty() { String::new() } else { format!(" ({absent})") };
        Exit::Failed.error(format!("{refused}{why}; nothing was written"))
    })
}

/// Writes superblocks of members, and makes them durable.
fn commit(array: &Array, plans: &[(usize, MemberPlan)]) -> Result<()> {
    for (index, plan) in plans {
        let (device, member) = (&array.devices()[*index], &array.members()[*index]);
        let written = device.write(plan.superblock.device.super_offset, &plan.record());
        written.and_then(|()| device.sync()).with_context(|| format!("writing {}", member.name))?;
    }
    Ok(())
}
