//! An array's directory: `array.toml` says where the drives are, the drives say all the rest.

pub use crate::array_file::{
    ArrayFile, DriveTable, EngineTable, GcChoice, GcStreamsChoice, PolicyChoice, SchemeTable,
};
use crate::array_file::{ParseError, VERSION};
use crate::exit::Exit;
use crate::sighting::{self, Sighting};
use anyhow::{Context, Result};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A directory that holds an array.
pub struct Directory {
    /// Path of the directory.
    pub path: PathBuf,
    /// Contents of `array.toml`.
    pub file: ArrayFile,
}

/// Refuses the directory of a cache.
///
/// # Errors
/// [`Exit::Failed`] where there is one.
pub fn expect_no_cache(path: &Path) -> Result<()> {
    if !crate::cache::is_in(path) {
        return Ok(());
    }
    let dir = path.display();
    Err(Exit::Failed.error(format!(
        "{dir}: holds a cache; `zoneweave cache serve {dir}` serves it, see `zoneweave cache --help`; an array needs a directory of \
         its own"
    )))
}

/// A directory without `array.toml`: one that never held an array, or one that has lost it.
fn without_file(path: &Path) -> anyhow::Error {
    if let Err(error) = expect_no_cache(path) {
        return error;
    }
    let drives = sighting::in_folder(path).unwrap_or_default();
    let toml_path = path.join("array.toml");
    let Some(array) = drives.iter().find_map(Sighting::array) else {
        return Exit::Absent.error(format!(
            "{}: no array here; make one with `zoneweave create {}`, or see what `zoneweave scan` finds",
            toml_path.display(),
            path.display()
        ));
    };
    let count = drives.iter().filter(|drive| drive.array() == Some(array)).count();
    Exit::Failed.error(format!(
        "{}: is lost, but {count} drives of array {array} are here: `zoneweave assemble {}` writes it anew from what they \
         say",
        toml_path.display(),
        path.display()
    ))
}

impl Directory {
    /// Reads `array.toml`.
    ///
    /// # Errors
    /// [`Exit::Absent`] where there is no array; others when there is one whose `array.toml` is lost, cannot be read,
    /// or makes no sense.
    pub fn open(path: &Path) -> Result<Directory> {
        let toml_path = path.join("array.toml");
        let nonsense = |why: &dyn std::fmt::Display| {
            Exit::Failed.error(format!(
                "{}: makes no sense: {why}\n`zoneweave assemble {}` writes it anew from what the drives say",
                toml_path.display(),
                path.display()
            ))
        };
        let text = match std::fs::read_to_string(&toml_path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(without_file(path)),
            Err(error) if error.kind() == ErrorKind::InvalidData => return Err(nonsense(&"it is not text")),
            Err(error) => {
                let said =
                    format!("{}: cannot be read: {error}; the array was not touched", toml_path.display());
                return Err(Exit::Failed.error(said));
            }
        };
        if crate::md::description::is_md(&text) {
            let dir = path.display();
            return Err(Exit::Failed.error(format!(
                "{dir}: holds an array of Linux md, for which this command is not made; see `zoneweave md --help`"
            )));
        }
        let file = ArrayFile::parse(&text).map_err(|error| match error {
            ParseError::Version(_) => Exit::Usage.error(format!("{} {error}", toml_path.display())),
            ParseError::Toml(_) => nonsense(&error),
        })?;
        Ok(Directory { path: path.to_owned(), file })
    }

    /// Writes `array.toml` of a new array, last of all its files and all at once.
    pub fn create(path: &Path, file: ArrayFile) -> Result<Directory> {
        let directory = Directory { path: path.to_owned(), file };
        directory.save()?;
        Ok(directory)
    }

    /// Writes `array.toml` anew, all at once and in the newest version.
    pub fn save(&self) -> Result<()> {
        let path = &self.path;
        let file = ArrayFile { version: VERSION, ..self.file.clone() };
        let text = toml::to_string(&file).context("array.toml")?;
        let header = "# A Zoneweave array. A cache of what the drives' superblocks say, who have the last word: files that move\n\
                      # within their directories and devices that get other names are found, others after their `path` is\n\
                      # changed here, or with `zoneweave assemble`.\n";
        let temporary = path.join("array.toml.new");
        std::fs::write(&temporary, format!("{header}{text}"))
            .with_context(|| format!("{}", temporary.display()))?;
        std::fs::File::open(&temporary).and_then(|file| file.sync_all()).context("array.toml")?;
        std::fs::rename(&temporary, path.join("array.toml")).context("array.toml")?;
        std::fs::File::open(path).and_then(|directory| directory.sync_all()).context("array.toml")
    }

    /// Path of the socket at which a server answers questions.
    pub fn control_path(&self) -> PathBuf {
        self.path.join("control.sock")
    }

    /// Path of the file in which counters survive the server.
    pub fn counters_path(&self) -> PathBuf {
        self.path.join("counters.json")
    }
}
