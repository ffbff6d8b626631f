//! `zoneweave md re-add`: a member that went and is there again, while the array is served. What it missed is written anew,
//! by the bitmap.

use super::ReAdd;
use super::add::{ask, path_in, retry};
use super::description::{Description, MemberTable};
use super::device::Device;
use crate::exit::Exit;
use anyhow::{Context, Result};
use block::md::member::Member;

/// Takes it back.
pub fn run(options: &ReAdd) -> Result<Exit> {
    let before = Description::open(&options.dir)?;
    let dir = options.dir.display();
    let full = options.member.canonicalize().with_context(|| options.member.display().to_string())?;
    let path = path_in(&options.dir, &full)?;
    let mut after = before.clone();
    let is_listed = before.member.iter().any(|member| member.path == path || member.path == full);
    if !is_listed {
        let member = Member::read(&full.display().to_string(), &Device::open(&full)?);
        let member = member.map_err(|why| Exit::Failed.error(format!("{}: {why}", full.display())))?;
        after.member.push(MemberTable { path, uuid: member.superblock().device.uuid.to_string() });
        // A server that dies as the member comes back finds it at the next start.
        after.save(&options.dir)?;
    }
    let asked = retry(|| ask(&options.dir, &format!("re-add {}", full.display())));
    let role = match asked {
        Ok(role) => role,
        Err(refused) => {
            if !is_listed {
                before.save(&options.dir)?;
            }
            return Err(refused);
        }
    };
    println!(
        "{} is member {role} again, and gets what it missed; `zoneweave rebuild {dir} --wait` waits until it has that",
        full.display()
    );
    Ok(Exit::Well)
}
