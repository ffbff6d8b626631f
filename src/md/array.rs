//! Members of one array with their devices: for commands that read it, and for its server.

use super::description;
use super::device::Device;
use super::doubt;
use crate::exit::{self, Exit};
use crate::lack;
use crate::patience::Patience;
use anyhow::Result;
use block::md::assembly::{Assembly, judge};
use block::md::member::Member;
use block::md::reader::Reader;
use block::md::recovered::{Recovered, recover};
use block::md::superblock::Superblock;
use std::path::{Path, PathBuf};

/// Use that is made of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads, whoever else uses the members.
    Look,
    /// Reads, and nobody else may use the members.
    ReadAlone,
    /// Writes, and nobody else may use the members.
    WriteAlone,
}

impl Access {
    /// Use by one who does nothing but read, or not.
    pub fn alone(is_read_only: bool) -> Access {
        if is_read_only { Access::ReadAlone } else { Access::WriteAlone }
    }

    fn open(self, path: &Path) -> Result<Device> {
        match self {
            Access::Look => Device::open(path),
            Access::ReadAlone => Device::open_to_read_alone(path),
            Access::WriteAlone => Device::open_to_write(path),
        }
    }
}

/// Members of one array with their devices, in the same order.
#[derive(Default)]
pub struct Array {
    devices: Vec<Device>,
    members: Vec<Member>,
    /// Members that cannot be had: why, in words.
    pub absent: Vec<String>,
}

impl Array {
    /// Opens the members of an array for reading. All of them have to be there.
    pub fn open(paths: &[PathBuf]) -> Result<Array> {
        Array::open_for(Access::Look, paths)
    }

    /// The same for a use of them.
    pub fn open_for(access: Access, paths: &[PathBuf]) -> Result<Array> {
        let mut array = Array::default();
        for path in &description::members(paths)? {
            let device = access.open(path)?;
            let member = member_on(path, &device).map_err(|why| Exit::Failed.error(why))?;
            array.push(member, device);
        }
        Ok(array)
    }

    /// Opens those of these devices for reading that can be had, and are members of an array that is `wanted`.
    pub fn open_wanted(paths: &[PathBuf], wanted: impl Fn(&Superblock) -> bool) -> Array {
        let mut array = Array::default();
        for path in paths {
            let Ok(device) = Device::open(path) else { continue };
            let Ok(member) = Member::read(&path.display().to_string(), &device) else { continue };
            if wanted(member.superblock()) {
                array.push(member, device);
            }
        }
        array
    }

    /// Members, each with its path as its name.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Opens those members of an array that can be had. One that somebody else uses ends it where it must not be shared, unless that is
    /// over soon.
    pub fn open_those_there(uuid: &str, paths: &[PathBuf], access: Access) -> Result<Array> {
        let mut array = Array::default();
        let patience = Patience::begin();
        for path in paths {
            let device = match open_patiently(path, access, patience) {
                Ok(device) => device,
                Err(error) if Exit::of(&error) == Exit::Busy => return Err(error),
                Err(error) if lack::is_of_host(error.as_ref()) => {
                    return Err(lack::error(exit::in_words(&error)));
                }
                Err(error) => {
                    array.absent.push(exit::in_words(&error));
                    continue;
                }
            };
            match member_on(path, &device) {
                Ok(member) if member.superblock().array.uuid.to_string() == uuid => {
                    array.push(member, device)
                }
                Ok(member) => {
                    let other = member.superblock().array.uuid;
                    let path = path.display();
                    array.absent.push(format!("{path} is a member of another array, {other}"));
                }
                Err(why) => array.absent.push(why),
            }
        }
        Ok(array)
    }

    fn push(&mut self, member: Member, device: Device) {
        self.members.push(member);
        self.devices.push(device);
    }

    /// The members judged as one array, whatever the judgement.
    pub fn judge(&self) -> Result<Assembly<'_>> {
        let mut arrays = judge(&self.members);
        match arrays.pop().filter(|_| arrays.is_empty()) {
            Some(assembly) => Ok(assembly),
            None if self.members.is_empty() => Err(Exit::Absent.error(self.absent_in_words())),
            None => {
                let uuids: Vec<String> = arrays.iter().map(|array| array.array.to_string()).collect();
                let others = uuids.join(", ");
                let said = format!("members of more than one array: {others} too; give those of one");
                Err(Exit::Usage.error(said))
            }
        }
    }

    /// Judges the members, and reads the array for `with` when it can be served; what is refused for what is in doubt alone, where the
    /// operator accepts that.
    pub fn read<T>(
        &self,
        accepts_doubt: bool,
        with: impl FnOnce(&Assembly<'_>, &Reader<'_, Device>) -> Result<T>,
    ) -> Result<T> {
        let assembly = self.judge()?;
        let can_be_forced = assembly.is_only_in_doubt();
        if !(assembly.can_be_served() || accepts_doubt && can_be_forced) {
            let remedy = if can_be_forced { doubt::REMEDIES } else { "" };
            return Err(Exit::Failed.error(format!("the array {}{remedy}", assembly.in_words())));
        }
        let media: Vec<&Device> = self.devices.iter().collect();
        let reader = Reader::new(&assembly, &media).map_err(|failed| Exit::Failed.because(failed))?;
        with(&assembly, &reader)
    }

    /// The members judged as one array, whose parities are taken for right where an operator `forces` that, and nothing else speaks against
    /// serving it.
    pub fn judge_forced(&self, forces: bool) -> Result<Assembly<'_>> {
        let mut assembly = self.judge()?;
        if forces && (assembly.can_be_served() || assembly.is_only_in_doubt()) {
            assembly.force();
        }
        Ok(assembly)
    }

    /// Recovery of a dirty array, for its server: pieces to write, rows in doubt, end of the journal.
    pub fn recover(&self, forces: bool) -> Result<Recovered> {
        let assembly = self.judge_forced(forces)?;
        if !assembly.can_be_served() {
            return Ok(Recovered::default());
        }
        let media: Vec<&Device> = self.devices.iter().collect();
        recover(&assembly, &media).map_err(|failed| Exit::Failed.because(failed))
    }

    /// Their devices, in the same order.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// The devices, for work on all of them.
    pub fn devices_mut(&mut self) -> &mut [Device] {
        &mut self.devices
    }

    /// Members and devices.
    pub fn into_parts(self) -> (Vec<Member>, Vec<Device>) {
        (self.members, self.devices)
    }

    /// Members that cannot be had, in words.
    pub fn absent_in_words(&self) -> String {
        self.absent.join("; ")
    }
}

/// Opens a device; what somebody else is about to close is waited for.
fn open_patiently(path: &Path, access: Access, patience: Patience) -> Result<Device> {
    patience.open(|| access.open(path), |error| Exit::of(error) == Exit::Busy)
}

fn member_on(path: &Path, device: &Device) -> Result<Member, String> {
    Member::read(&path.display().to_string(), device).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_device_of_a_server_that_just_died_is_waited_for() {
        let path = std::env::temp_dir().join(format!("zoneweave-array-{}", std::process::id()));
        std::fs::write(&path, [0; 4096]).expect("a file");
        let held = Device::open_to_write(&path).expect("nobody has it");
        let refused = open_patiently(&path, Access::ReadAlone, Patience::lasting(Duration::ZERO));
        let refused = refused.map(drop).expect_err("it is in use");
        assert_eq!(Exit::of(&refused), Exit::Busy);
        let closes = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(40));
            drop(held);
        });
        open_patiently(&path, Access::WriteAlone, Patience::lasting(Duration::from_secs(60)))
            .expect("it was closed");
        closes.join().expect("a thread that sleeps");
        std::fs::remove_file(&path).expect("its file");
    }
}
