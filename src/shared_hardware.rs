//! Drives of an array that share a disk or a controller: what takes that takes all of them.

use crate::host::{Hardware, Host};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// A disk or a controller that several drives lie on.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct SharedHardware {
    /// Name of the hardware, as the kernel has it.
    pub name: String,
    /// Numbers of the drives.
    pub drives: Vec<usize>,
}

impl fmt::Display for SharedHardware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SharedHardware { name, drives } = self;
        let drives: Vec<String> = drives.iter().map(ToString::to_string).collect();
        write!(f, "{name} holds drives {}: what takes it takes all of them", drives.join(", "))
    }
}

/// Hardware that drives share, with their numbers; for drives in files, the hardware below.
pub fn among(paths: impl Iterator<Item = (usize, PathBuf)>) -> Vec<SharedHardware> {
    let host = Host::here();
    let under = paths.map(|(index, path)| (index, host.hardware_under(&path)));
    shared(under.map(|(index, hardware)| (index, hardware.all().map(str::to_owned).collect())))
}

/// Hardware of which devices are parts that share it: a disk by two of its partitions, a controller by two of its namespaces.
/// Files and loop devices may be anywhere.
pub fn among_devices(paths: &[PathBuf]) -> Vec<SharedHardware> {
    let host = Host::here();
    let under = paths.iter().map(|path| host.hardware_under(path));
    let whole = |hardware: Hardware| hardware.whole.into_iter().collect();
    shared(under.map(whole).enumerate())
}

fn shared(under: impl Iterator<Item = (usize, Vec<String>)>) -> Vec<SharedHardware> {
    let mut drives_of: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, names) in under {
        names.into_iter().for_each(|name| drives_of.entry(name).or_default().push(index));
    }
    // A drive and its own journal are one.
    drives_of.values_mut().for_each(Vec::dedup);
    drives_of.retain(|_, drives| drives.len() > 1);
    drives_of.into_iter().map(|(name, drives)| SharedHardware { name, drives }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_of_several_drives_is_named() {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let under = [names(&["sda"]), names(&["nvme0", "sda"]), names(&[]), names(&["nvme1"])];
        let found = shared(under.into_iter().enumerate());
        assert_eq!(found, [SharedHardware { name: "sda".to_owned(), drives: vec![0, 1] }]);
        assert_eq!(found[0].to_string(), "sda holds drives 0, 1: what takes it takes all of them");
    }
}
