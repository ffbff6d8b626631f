//! Devices that a command is about to write to: opened by nobody else, and looked at before.

use super::device::Device;
use crate::exit::Exit;
use crate::force::Owner;
use anyhow::{Context, Result};
use block::md::create::MemberPlan;
use block::md::{Media, SECTOR_BYTES, occupied};
use std::path::{Path, PathBuf};

/// Device for writing.
pub struct Target {
    /// Path as it was given.
    pub path: PathBuf,
    device: Device,
}

impl Target {
    /// Opens a device.
    pub fn open(path: &Path) -> Result<Target> {
        Ok(Target { path: path.to_owned(), device: Device::open_to_write(path)? })
    }

    /// Device, for reading.
    pub fn media(&self) -> &Device {
        &self.device
    }

    /// Sectors of the device.
    pub fn sectors(&self) -> u64 {
        self.device.sectors()
    }

    /// Refuses a drive of an array or a cache of Zoneweave, whatever is said, and any other device that holds something.
    pub fn expect_unowned_and_empty(&self, force: bool) -> Result<()> {
        let path = self.path.display();
        if let Some(owner) = Owner::of(&self.path).filter(|_| force) {
            let wipe = owner.name().map_or_else(String::new, |uuid| {
                format!(". If all of that may be lost: `zoneweave drive wipe {path} --force={uuid}` first")
            });
            let said = format!("{path}: is a drive of Zoneweave, of {owner}; nothing was written{wipe}");
            return Err(Exit::Failed.error(said));
        }
        self.expect_empty(force)
    }

    /// Refuses a device that holds something.
    pub fn expect_empty(&self, force: bool) -> Result<()> {
        let path = self.path.display();
        let seen = occupied::seen(&self.device);
        match (seen.is_empty(), force) {
            (true, _) => Ok(()),
            (false, true) => {
                log::warn!("{path} holds {}: given up", seen.join(", and "));
                Ok(())
            }
            (false, false) => Err(Exit::Failed.error(format!(
                "{path} holds {}; nothing was written. --force uses it all the same, and what it holds is lost",
                seen.join(", and ")
            ))),
        }
    }

    /// Takes the superblocks away, wherever one lies; returns how many there were.
    pub fn zero_superblocks(&self) -> Result<usize> {
        let sectors = occupied::superblock_sectors(&self.device);
        sectors.iter().try_for_each(|sector| self.write(*sector, &[0; 8 * SECTOR_BYTES]))?;
        if !sectors.is_empty() {
            self.sync()?;
        }
        Ok(sectors.len())
    }

    /// Writes what is to be durable before the superblock.
    pub fn prepare(&self, plan: &MemberPlan) -> Result<()> {
        plan.before.iter().try_for_each(|(sector, bytes)| self.write(*sector, bytes))?;
        self.sync()
    }

    /// Writes the superblock.
    pub fn commit(&self, plan: &MemberPlan) -> Result<()> {
        self.write(plan.superblock.device.super_offset, &plan.record())?;
        self.sync()
    }

    fn write(&self, sector: u64, bytes: &[u8]) -> Result<()> {
        self.device.write(sector, bytes).with_context(|| format!("writing {}", self.path.display()))
    }

    fn sync(&self) -> Result<()> {
        self.device.sync().with_context(|| format!("writing {}", self.path.display()))
    }
}
