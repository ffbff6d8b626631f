//! `zoneweave md replace`: an empty device, or a spare, takes the place of a member that works, while the array is served.
//!
//! Until the device has all that the member has, both are written, and nothing is read from it.

use super::Replace;
use super::add::{answer, join, retry};
use super::description::Description;
use super::target::Target;
use crate::exit::Exit;
use anyhow::{Context, Result};
use std::path::Path;

/// Replaces a member.
pub fn run(options: &Replace) -> Result<Exit> {
    let description = Description::open(&options.dir)?;
    let dir = options.dir.display();
    // A path is told as the server names it.
    let full = options.member.canonicalize();
    let member = full.as_deref().unwrap_or(&options.member).display().to_string();
    let can = retry(|| answer(&options.dir, &format!("can-replace - {member}")))?;
    let role = can.get("role").and_then(serde_json::Value::as_u64);
    let role = role.context("the server's answer names no role")?;
    let told = match &options.with {
        None => retry(|| answer(&options.dir, &format!("replace {role}")))?,
        Some(new) => {
            let full = new.canonicalize().with_context(|| new.display().to_string())?;
            let spares = can.get("spares").and_then(serde_json::Value::as_array);
            let is_it =
                |spare: &serde_json::Value| spare.as_str().is_some_and(|path| Path::new(path) == full);
            match spares.is_some_and(|spares| spares.iter().any(is_it)) {
                true => retry(|| answer(&options.dir, &format!("replace {role} {}", full.display())))?,
                false => with_empty(options, &description, (role, &member), &full)?,
            }
        }
    };
    let path = told.get("path").and_then(serde_json::Value::as_str).context("the server names no device")?;
    println!(
        "member {role} ({member}) is copied to {path}, which replaces it then; `zoneweave rebuild {dir} --wait` waits for that"
    );
    Ok(Exit::Well)
}

/// A device that is none of the array comes, once it is emptied of superblocks.
fn with_empty(
    options: &Replace,
    before: &Description,
    (role, member): (u64, &str),
    full: &Path,
) -> Result<serde_json::Value> {
    let target = Target::open(full)?;
    answer(&options.dir, &format!("can-replace {} {member}", target.sectors()))?;
    target.expect_unowned_and_empty(options.force)?;
    target.zero_superblocks()?;
    drop(target);
    join(&options.dir, before, full, |uuid| {
        answer(&options.dir, &format!("replace-with {role} {uuid} {}", full.display()))
    })
}
