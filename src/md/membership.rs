//! Members that come and go while an array is served: what the server does about it.

use super::device::Device;
use super::served::ServedMd;
use crate::exit::Exit;
use anyhow::{Context, Result};
use array::inplace::members::role;
use array::inplace::recovery::AddRefused;
use array::inplace::returning::{ReturnRefused, Returning};
use array::inplace::spares::Spare;
use block::md::create::Blank;
use block::md::join::join;
use block::md::member::Member;
use block::md::returning::{returning, spare};
use block::md::superblock::Superblock;
use block::md::{Media, Role, Uuid, occupied};
use drive::ordinary::OrdinaryDrive;
use std::path::Path;

/// New member as the command asks for it.
struct Wanted<'a> {
    role: Option<Role>,
    uuid: Uuid,
    path: &'a str,
}

/// Role of a word.
pub fn role_of(word: &str) -> Result<Role> {
    word.parse().map(Role).map_err(|_| Exit::Usage.error(format!("`{word}` is no role")))
}

/// The same; `-` is the first that lacks a member.
fn role_or_first(word: &str) -> Result<Option<Role>> {
    (word != "-").then(|| role_of(word)).transpose()
}

fn refused(refused: AddRefused) -> anyhow::Error {
    match refused {
        AddRefused::Busy(_) | AddRefused::Changing | AddRefused::Stopping => Exit::Busy.because(refused),
        AddRefused::NoneMissing | AddRefused::Present(_) | AddRefused::NoRole(..) => {
            Exit::Usage.because(refused)
        }
        AddRefused::Broken => Exit::Failed.because(refused),
    }
}

impl ServedMd {
    /// `can-add ROLE|- SECTORS`: whether an empty device of that size would be taken, and its role. Nothing changes.
    pub fn can_add(&self, rest: &str) -> Result<String> {
        let (role, sectors) = rest.split_once(' ').with_context(|| format!("`can-add {rest}`"))?;
        let sectors = sectors.parse().context("the sectors of the device")?;
        let wanted = role_or_first(role)?;
        self.superblock(Blank { sectors, uuid: Uuid([0; 16]) })?;
        // With nobody missing it becomes a spare, as with mdadm.
        if self.volume.engine.core().keeps_spare(wanted) {
            return Ok(serde_json::json!({ "role": null }).to_string());
        }
        let role = self.volume.engine.core().role_for(wanted).map_err(refused)?;
        Ok(serde_json::json!({ "role": role.0 }).to_string())
    }

    /// `add ROLE|- UUID PATH`: takes an empty device in, which is rebuilt from then on.
    pub fn add(&mut self, rest: &str) -> Result<String> {
        let words: Vec<&str> = rest.splitn(3, ' ').collect();
        let [role, uuid, path] = words[..] else {
            return Err(Exit::Usage.error(format!("`add {rest}` is no question: ask `add ROLE|- UUID PATH`")));
        };
        let uuid = super::words::uuid(uuid).map_err(|wrong| Exit::Usage.error(wrong))?;
        let role = self.take_in(&Wanted { role: role_or_first(role)?, uuid, path })?;
        log::info!("{} joins, and is rebuilt beside what clients do", self.name(role));
        Ok(serde_json::json!({ "role": role.0 }).to_string())
    }

    fn take_in(&mut self, wanted: &Wanted<'_>) -> Result<Role> {
        let role = self.volume.engine.core().role_for(wanted.role).map_err(refused)?;
        let (superblock, drive) = self.empty_drive(wanted.path, wanted.uuid)?;
        self.volume.add_member(role, superblock, self.bells.ways(drive)?).map_err(refused)?;
        self.paths[role.index()] = Some(wanted.path.to_owned());
        self.watch.note_added(role);
        Ok(role)
    }

    /// An empty device, with the superblock with which it joins.
    pub fn empty_drive(&self, path: &str, uuid: Uuid) -> Result<(Superblock, OrdinaryDrive)> {
        let device = Device::open_to_write(Path::new(path))?;
        if !occupied::superblock_sectors(&device).is_empty() {
            return Err(Exit::Failed.error(format!("{path} holds a superblock of md")));
        }
        let superblock = self.superblock(Blank { sectors: device.sectors(), uuid })?;
        Ok((superblock, self.drive_of(device, path)?))
    }

    /// A device as one of those that are served.
    fn drive_of(&self, mut device: Device, path: &str) -> Result<OrdinaryDrive> {
        device.make_direct().with_context(|| format!("reading {path}"))?;
        device.into_drive(&self.bells.descriptor()?)
    }

    /// Superblock of a device that joins; refused where it is too small.
    pub fn superblock(&self, blank: Blank) -> Result<Superblock> {
        let engine = &self.volume.engine;
        let member = engine.core().template().context("no member is in sync")?;
        join(member, blank, engine.core().bitmap_bytes()).map_err(|error| Exit::Usage.because(error))
    }

    /// `spare-number`: a number for a device that becomes a spare.
    pub fn spare_number(&mut self) -> String {
        let number = self.volume.engine.core_mut().number_for_spare();
        serde_json::json!({ "number": number.0 }).to_string()
    }

    /// `add-spare PATH`: keeps a device whose superblock says that it is a spare.
    pub fn add_spare(&mut self, path: &str) -> Result<String> {
        let device = Device::open_to_write(Path::new(path))?;
        let cannot = |why: String| Exit::Failed.error(format!("{path} is no spare of this array: {why}"));
        let found = Member::read(path, &device).map_err(|why| cannot(why.to_string()))?;
        let engine = &self.volume.engine;
        let member = engine.core().template().context("no member is in sync")?;
        let superblock =
            spare(member, &found, engine.core().bitmap_bytes()).map_err(|why| cannot(why.to_string()))?;
        let drive = self.drive_of(device, path)?;
        let device = self.bells.ways(drive)?;
        self.volume.spares.push(Spare { name: path.to_owned(), superblock, device });
        log::info!("{path} is a spare");
        Ok("{}".to_owned())
    }

    /// Spares that took a role are members.
    pub fn note_spares(&mut self) {
        for (role, path) in self.volume.spares.take_stepped_in() {
            log::warn!("member {role} has failed: {path}, a spare, takes its role and is rebuilt");
            self.paths[role.index()] = Some(path);
            self.watch.note_added(role);
        }
    }

    /// `re-add PATH`: takes a member back, which gets what it missed from then on.
    pub fn re_add(&mut self, path: &str) -> Result<String> {
        // A member that failed is held open: it is the one that comes back.
        if let Some(role) = self.paths.iter().position(|other| other.as_deref() == Some(path)).map(role) {
            let is_vacant = self.volume.engine.core().is_vacant(role);
            if is_vacant && !self.volume.close_failed(role) {
                return Err(refused(AddRefused::Busy(role)));
            }
        }
        let role = self.take_back(path)?;
        log::info!("{} is back, and gets what it missed beside what clients do", self.name(role));
        Ok(serde_json::json!({ "role": role.0 }).to_string())
    }

    fn take_back(&mut self, path: &str) -> Result<Role> {
        let device = Device::open_to_write(Path::new(path))?;
        let remedy = "`zoneweave md add --force` rebuilds all of it";
        let cannot = |why: String| Exit::Failed.error(format!("{path} is not taken back: {why}; {remedy}"));
        let found = Member::read(path, &device).map_err(|why| cannot(why.to_string()))?;
        let engine = &self.volume.engine;
        let member = engine.core().template().context("no member is in sync")?;
        let judged = returning(member, &found, engine.core().bitmap_bytes());
        let (role, superblock) = judged.map_err(|why| cannot(why.to_string()))?;
        engine.core().can_return(role, found.events()).map_err(|why| match why {
            ReturnRefused::Role(why) => refused(why),
            why => cannot(why.to_string()),
        })?;
        let drive = self.drive_of(device, path)?;
        let events = found.events();
        let bad_blocks = found.bad_blocks.map_err(|why| Exit::Failed.error(why))?;
        let back = Returning { superblock, events, bad_blocks };
        let back = self.volume.return_member(role, back, self.bells.ways(drive)?);
        back.map_err(|why| match why {
            ReturnRefused::Role(why) => refused(why),
            why => cannot(why.to_string()),
        })?;
        self.paths[role.index()] = Some(path.to_owned());
        self.watch.note_added(role);
        Ok(role)
    }

    /// `remove MEMBER`: closes the device of a member that has failed, or of a spare.
    pub fn remove(&mut self, text: &str) -> Result<String> {
        if self.volume.spares.remove(text) {
            log::info!("{text} is no spare any more");
            return Ok(serde_json::json!({ "role": null }).to_string());
        }
        let Some(role) = self.role_by_name(text) else {
            return Ok(serde_json::json!({ "role": null }).to_string());
        };
        if !self.volume.engine.core().is_vacant(role) {
            let said = format!("{} is in use: `zoneweave md fail` takes it out first", self.name(role));
            return Err(Exit::Usage.error(said));
        }
        if !self.volume.close_failed(role) {
            return Err(refused(AddRefused::Busy(role)));
        }
        log::info!("{} is closed", self.name(role));
        self.paths[role.index()] = None;
        Ok(serde_json::json!({ "role": role.0 }).to_string())
    }
}
