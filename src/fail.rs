//! `zoneweave drive fail`: takes a drive out.

use crate::cli::Fail;
use crate::directory::Directory;
use crate::exit::Exit;
use crate::roster::{Absence, Place, Roster};
use crate::{serve, status};
use anyhow::Result;
use array::log::config::Tuning;
use array::log::{mount, mount_read_only};
use base::time::Instant;

/// Tells the server, or when there is none, the superblocks of the other drives.
pub fn run(options: &Fail) -> Result<Exit> {
    let mut directory = Directory::open(&options.dir)?;
    if status::ask(&directory, &format!("fail {}", options.drive))?.is_none() {
        let mut roster = Roster::find(&mut directory)?;
        let looked = mount_read_only(roster.open(Absence::Looking, None)?.devices, Instant(0));
        let looked = looked.map_err(|error| roster.explain(error))?;
        let is_missing = roster.places.get(usize::from(options.drive)).is_some_and(Place::is_missing);
        status::check_can_fail(&looked.0.status(), options.drive, is_missing)?;
        drop(looked);
        let mut drives = roster.open(Absence::OnlyOf(options.drive), None)?;
        // A member that is not there when the array is mounted is recorded as failed.
        drives.devices[usize::from(options.drive)] = None;
        let tuning = serve::tagged(Tuning::default());
        mount(drives.devices, tuning, Instant(0))?;
    }
    println!("drive {} is marked failed; the array runs without it", options.drive);
    Ok(Exit::Well)
}
