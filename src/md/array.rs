//! Array of closed members, for commands that read it.

use super::description;
use super::device::Device;
use crate::exit::Exit;
use anyhow::Result;
use block::md::assembly::{Assembly, judge};
use block::md::member::Member;
use block::md::reader::Reader;
use std::path::PathBuf;

/// Members of one array with their devices, in the same order.
pub struct Array {
    devices: Vec<Device>,
    members: Vec<Member>,
}

impl Array {
    /// Opens the members of an array.
    pub fn open(paths: &[PathBuf]) -> Result<Array> {
        let mut array = Array { devices: Vec::new(), members: Vec::new() };
        for path in &description::members(paths)? {
            let device = Device::open(path)?;
            let member = Member::read(&path.display().to_string(), &device);
            array
                .members
                .push(member.map_err(|error| Exit::Failed.error(format!("{}: {error}", path.display())))?);
            array.devices.push(device);
        }
        Ok(array)
    }

    /// Judges the members, and reads the array for `with` when it can be served.
    pub fn read<T>(&self, with: impl FnOnce(&Assembly<'_>, &Reader<'_, Device>) -> Result<T>) -> Result<T> {
        let mut arrays = judge(&self.members);
        let Some(assembly) = arrays.pop().filter(|_| arrays.is_empty()) else {
            let uuids: Vec<String> = arrays.iter().map(|array| array.array.to_string()).collect();
            let others = uuids.join(", ");
            return Err(
                Exit::Usage.error(format!("members of more than one array: {others} too; give those of one"))
            );
        };
        if !assembly.can_be_served() {
            return Err(Exit::Failed.error(format!("the array {}", assembly.in_words())));
        }
        let media: Vec<&Device> = self.devices.iter().collect();
        let reader = Reader::new(&assembly, &media).map_err(|failed| Exit::Failed.because(failed))?;
        with(&assembly, &reader)
    }
}
