//! Names of disks of this host (ublk) for udev: `/dev/zoneweave/NAME`, where NAME is that of the array's directory.
//!
//! ```text
//! server: attach ──> /run/zoneweave/ublk/N ──> start: the kernel shows /dev/ublkbN ──> udev: `zoneweave udev-name ublkbN` ──> links
//!                                                                     asks the kernel for the mark of N <──┘
//! ```
//! The kernel keeps 64 bits of a server's with a device and no name, so the server leaves one beside it before the device is seen. It
//! counts only while the kernel has the array's mark on that device: numbers are used again, by others too.

use super::host_disk::mark;
use super::nvme_tcp::standard;
use crate::exit::Exit;
use anyhow::{Context, Result};
use clap::Args;
use server::ublk::Control;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

const FOLDER: &str = "/run/zoneweave/ublk";

/// Names below `/dev/zoneweave` that are folders of links.
const FOLDERS: [&str; 2] = ["by-id", "by-uuid"];

#[derive(Debug, Args)]
pub struct UdevName {
    /// Name of the node, as the kernel has it: ublkbN
    pub node: String,
}

/// Prints the names of a disk as udev imports them; nothing of one that is not ours.
pub fn run(options: &UdevName) -> Result<Exit> {
    let number = options.node.strip_prefix("ublkb").and_then(|number| number.parse().ok());
    let Some(number) = number else {
        return Err(Exit::Usage.error(format!("`{}`: name a disk of this host, ublkbN", options.node)));
    };
    let Ok(note) = std::fs::read_to_string(note_of(number)) else { return Ok(Exit::Well) };
    let array = note.lines().next().and_then(|line| line.strip_prefix("array=")).unwrap_or_default();
    let mut control = Control::open().context("the kernel's interface")?;
    if control.marked(mark(array))?.iter().any(|disk| disk.number == number) {
        print!("{}", words(&note));
    }
    Ok(Exit::Well)
}

/// Leaves the name of an array's disk, before the kernel shows it.
pub fn note(number: u32, array: &str, dir: &Path) {
    let path = note_of(number);
    let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let name = dir.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let noted = std::fs::create_dir_all(FOLDER).and_then(|()| {
        let new = path.with_extension("new");
        std::fs::write(&new, format!("array={array}\nname={}\n", link_name(&name)))?;
        std::fs::rename(&new, &path)
    });
    if let Err(error) = noted {
        log::warn!("{}: {error}; the disk has no link in /dev/zoneweave", path.display());
    }
}

/// Takes the name of a disk away that is gone.
pub fn forget(number: u32) {
    let path = note_of(number);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => log::warn!("{}: {error}", path.display()),
        _ => {}
    }
}

fn note_of(number: u32) -> PathBuf {
    Path::new(FOLDER).join(number.to_string())
}

/// A name as a link may have it; none where nothing is left, or a folder is there.
fn link_name(name: &str) -> String {
    let is_fine = |letter: char| letter.is_ascii_alphanumeric() || "._+-".contains(letter);
    let name: String = name.chars().map(|letter| if is_fine(letter) { letter } else { '_' }).collect();
    match name.trim_matches('.').is_empty() || FOLDERS.contains(&&*name) {
        true => String::new(),
        false => name,
    }
}

/// Properties of a device from what was noted.
fn words(note: &str) -> String {
    let value = |key: &str| note.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let mut words = String::new();
    if let Some(array) = value("array") {
        words += &format!("ZONEWEAVE_ARRAY={}\n", standard(array));
    }
    if let Some(name) = value("name").filter(|name| !name.is_empty()) {
        words += &format!("ZONEWEAVE_NAME={name}\n");
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_links_are_safe() {
        let cases =
            [("vm", "vm"), ("a b/c", "a_b_c"), ("data-1.x", "data-1.x"), ("by-id", ""), ("..", ""), ("", "")];
        for (name, link) in cases {
            assert_eq!(link_name(name), link);
        }
        assert_eq!(link_name("größe"), "gr__e");
    }

    #[test]
    fn properties_are_those_of_the_note() {
        let uuid = "0123abcd-0000-0000-0000-000000000007";
        assert_eq!(
            words(&format!("array={uuid}\nname=vm\n")),
            format!("ZONEWEAVE_ARRAY={uuid}\nZONEWEAVE_NAME=vm\n")
        );
        let of_md = "0123abcd:00000000:00000000:00000007";
        assert_eq!(words(&format!("array={of_md}\nname=\n")), format!("ZONEWEAVE_ARRAY={uuid}\n"));
    }
}
