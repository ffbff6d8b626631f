//! `zoneweave md fail`: takes a member out of an array that is served.

use super::Fail;
use super::description::Description;
use super::status::control_path;
use crate::exit::Exit;
use crate::status::ask_at;
use anyhow::Result;

/// Tells the server.
pub fn run(options: &Fail) -> Result<Exit> {
    Description::open(&options.dir)?;
    let dir = options.dir.display();
    // A path is told as the server names it.
    let full = options.member.canonicalize();
    let member = full.as_deref().unwrap_or(&options.member).display();
    if ask_at(&control_path(&options.dir), &format!("fail {member}"))?.is_none() {
        return Err(Exit::Absent.error(format!(
            "{dir}: nobody serves the array; a member that is not there when it is served with --degraded counts as failed"
        )));
    }
    println!("{member} is marked failed; the array runs without it");
    Ok(Exit::Well)
}
