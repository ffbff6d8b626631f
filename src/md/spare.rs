//! `zoneweave md add-spare`: an empty device that waits for a member to fail, while the array is served.
//!
//! The command writes all that a spare has; the server opens it, and lets it step in.

use super::AddSpare;
use super::add::{answer, path_in};
use super::array::{Access, Array};
use super::description::{Description, MemberTable};
use super::target::Target;
use crate::exit::Exit;
use anyhow::{Context, Result};
use block::md::assembly::Part;
use block::md::create::{Blank, MemberPlan};
use block::md::spare::plan_spare;
use block::md::{DeviceNumber, Uuid};
use std::path::Path;

/// Adds one.
pub fn run(options: &AddSpare) -> Result<Exit> {
    add(&options.dir, &options.member, options.force)
}

/// The same.
pub fn add(dir: &Path, member: &Path, force: bool) -> Result<Exit> {
    let before = Description::open(dir)?;
    let target = Target::open(member)?;
    target.expect_unowned_and_empty(force)?;
    let number = answer(dir, "spare-number")?;
    let number = number.get("number").and_then(serde_json::Value::as_u64);
    let number = u32::try_from(number.context("the server's answer names no number")?)?;
    let plan = plan(dir, &before, &target, DeviceNumber(number))?;
    target.zero_superblocks()?;
    target.prepare(&plan)?;
    target.commit(&plan)?;
    drop(target);
    let full = member.canonicalize().with_context(|| member.display().to_string())?;
    let path = path_in(dir, &full)?;
    let mut after = before.clone();
    after.member.retain(|member| member.path != path);
    after.member.push(MemberTable { path, uuid: plan.superblock.device.uuid.to_string() });
    after.save(dir)?;
    if let Err(refused) = answer(dir, &format!("add-spare {}", full.display())) {
        before.save(dir)?;
        return Err(refused);
    }
    println!("{} is a spare now: it takes the role of a member that fails", full.display());
    Ok(Exit::Well)
}

/// Plan of the device as a spare, by what lies on a member.
fn plan(dir: &Path, description: &Description, target: &Target, number: DeviceNumber) -> Result<MemberPlan> {
    let array = Array::open_those_there(&description.uuid, &description.paths(dir), Access::Look)?;
    let assembly = array.judge()?;
    let is_whole = |part: &Part| matches!(part, Part::Active(_));
    let member = assembly.devices.iter().find(|(_, part)| is_whole(part)).map(|(member, _)| *member);
    let member = member.context("no member of the array can be read")?;
    let bitmap = member.bitmap.as_ref().and_then(|bitmap| bitmap.as_ref().ok());
    let bitmap_bytes = bitmap.map_or(0, |bitmap| bitmap.head.bytes());
    let uuid = Uuid(uuid::Uuid::new_v4().into_bytes());
    let device = Blank { sectors: target.sectors(), uuid };
    plan_spare(member.superblock(), number, device, bitmap_bytes).map_err(|error| Exit::Usage.because(error))
}
