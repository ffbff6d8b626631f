//! `zoneweave md zero-superblock`: devices that are to be members no more.

use super::Zero;
use super::target::Target;
use crate::exit::Exit;
use anyhow::Result;
use block::md::member::Member;
use block::md::occupied;

/// Opens all devices before the first is written to, so that one that is in use stops all.
pub fn run(options: &Zero) -> Result<Exit> {
    let targets: Result<Vec<Target>> = options.members.iter().map(|path| Target::open(path)).collect();
    let targets = targets?;
    for target in &targets {
        let path = target.path.display();
        if occupied::superblock_sectors(target.media()).is_empty() {
            return Err(Exit::Absent.error(format!("{path}: no md superblock detected; nothing was written")));
        }
        let member = Member::read("", target.media());
        let whole = member.is_ok_and(|member| member.reading.stored == member.reading.computed);
        if !whole && !options.force {
            return Err(Exit::Failed.error(format!(
                "{path}: its superblock makes no sense; nothing was written. --force takes it away all the same"
            )));
        }
    }
    for target in &targets {
        target.zero_superblocks()?;
        println!("{}: no member of an md array any more", target.path.display());
    }
    Ok(Exit::Well)
}
