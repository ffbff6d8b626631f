//! Note in an array's directory that another host has taken its drives (ADR 73): `DIR/fenced`.
//!
//! A mount takes drives from whoever has them. Supervisors start a server again that has ended, and two hosts would take the drives
//! from each other for ever; so whoever would mount the array waits for an operator's word.

use crate::exit::Exit;
use anyhow::Result;
use std::path::{Path, PathBuf};

/// Name of the note in the array's directory.
pub const NAME: &str = "fenced";

/// Leaves the note, with what was found.
pub fn leave(dir: &Path, found: &str) {
    let path = path_in(dir);
    if let Err(error) = std::fs::write(&path, format!("{found}\n")) {
        log::error!("{}: {error}; a server that is started again here takes the drives back", path.display());
    }
}

/// Refuses to take the drives back.
///
/// # Errors
/// When the note is there; [`Exit::Usage`], after which supervisors start nothing again.
pub fn expect_none(dir: &Path) -> Result<()> {
    let path = path_in(dir);
    let Ok(found) = std::fs::read_to_string(&path) else { return Ok(()) };
    Err(Exit::Usage.error(format!(
        "{}: another host has the drives of this array, and two would take them from each other for ever; nothing was written. Stop the \
         server there, remove {} and start again. When this server ended: {}",
        dir.display(),
        path.display(),
        found.trim()
    )))
}

fn path_in(dir: &Path) -> PathBuf {
    dir.join(NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_keeps_the_array_from_being_mounted() {
        let folder = std::env::temp_dir().join(format!("zw-fence-note-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        expect_none(&folder).unwrap();
        leave(&folder, "drive 1 was taken by another server: generation 7");
        let refused = expect_none(&folder).unwrap_err();
        assert_eq!(Exit::of(&refused), Exit::Usage);
        let said = refused.to_string();
        assert!(said.contains("generation 7") && said.contains("/fenced and start again"), "{said}");
        std::fs::remove_file(folder.join(NAME)).unwrap();
        expect_none(&folder).unwrap();
        std::fs::remove_dir(&folder).unwrap();
    }

    #[test]
    fn the_service_is_not_started_again_after_it() {
        let unit = include_str!("../packaging/zoneweave@.service");
        assert!(unit.contains(&format!("\nRestartPreventExitStatus={}\n", Exit::Usage.number())), "{unit}");
    }
}
