//! A cache's directory: `cache.toml` says where the drives are, the drives say all the rest.

use crate::array_file::{is_yes, yes};
use crate::exit::Exit;
use anyhow::{Context, Result};
use cache::spread::SHARDS_MAX;
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Version of a file that older programs know: of a cache with one shard.
const VERSION: u32 = 1;
const VERSION_WITH_SHARDS: u32 = 2;
/// Name of the description of a cache.
pub const NAME: &str = "cache.toml";
const HEADER: &str = "# A Zoneweave cache. Where its drives are; all else is on the drives.\n";

/// Contents of `cache.toml`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CacheFile {
    /// Version of this file.
    pub version: u32,
    /// Identity of the cache.
    pub uuid: uuid::Uuid,
    /// Flash of all drives together, for people to read.
    pub size: String,
    /// Shards that each drive is cut into.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub shards: usize,
    /// Devices that are cut into zones discard a zone that was reset.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub discard: bool,
    /// The drives, in order.
    pub drive: Vec<CacheDrive>,
}

fn one() -> usize {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's form")]
fn is_one(shards: &usize) -> bool {
    *shards == 1
}

/// A place with its drive; one without a path is free.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CacheDrive {
    /// Path, from the directory of the cache where it is not absolute.
    pub path: PathBuf,
    /// Identity.
    pub uuid: uuid::Uuid,
}

impl CacheDrive {
    /// True of a place whose drive was removed.
    pub fn is_free(&self) -> bool {
        self.path.as_os_str().is_empty()
    }
}

impl CacheFile {
    /// Places with a drive.
    pub fn drives(&self) -> usize {
        self.drive.iter().filter(|drive| !drive.is_free()).count()
    }
}

fn version_of(shards: usize) -> u32 {
    if shards == 1 { VERSION } else { VERSION_WITH_SHARDS }
}

/// A directory that holds a cache.
#[derive(Debug)]
pub struct CacheDirectory {
    /// Path of the directory.
    pub path: PathBuf,
    /// Contents of `cache.toml`.
    pub file: CacheFile,
}

impl CacheDirectory {
    /// Reads `cache.toml`.
    ///
    /// # Errors
    /// [`Exit::Absent`] where there is no cache; others when there is something else, or `cache.toml` makes no sense.
    pub fn open(path: &Path) -> Result<CacheDirectory> {
        let toml_path = path.join(NAME);
        let shown = toml_path.display();
        if path.join("array.toml").exists() {
            let dir = path.display();
            return Err(Exit::Failed.error(format!(
                "{dir}: holds an array; `zoneweave serve {dir}` serves it, a cache needs a directory of its own"
            )));
        }
        let text = match std::fs::read_to_string(&toml_path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let dir = path.display();
                return Err(Exit::Absent
                    .error(format!("{shown}: no cache here; make one with `zoneweave cache create {dir}`")));
            }
            Err(error) => return Err(Exit::Failed.error(format!("{shown}: cannot be read: {error}"))),
        };
        let file: CacheFile = toml::from_str(&text)
            .map_err(|error| Exit::Failed.error(format!("{shown}: makes no sense: {error}")))?;
        let version = file.version;
        if version != VERSION && version != VERSION_WITH_SHARDS {
            return Err(Exit::Failed.error(format!(
                "{shown}: is of version {version}; this program knows versions {VERSION} and {VERSION_WITH_SHARDS}"
            )));
        }
        let shards = file.shards;
        if !(1..=SHARDS_MAX).contains(&shards) || version_of(shards) != version {
            return Err(
                Exit::Failed.error(format!("{shown}: {shards} shards make no sense in version {version}"))
            );
        }
        Ok(CacheDirectory { path: path.to_owned(), file })
    }

    /// Writes `cache.toml` of a new cache, last of all its files and all at once.
    pub fn create(
        path: &Path,
        uuid: uuid::Uuid,
        size: String,
        (shards, drive): (usize, Vec<CacheDrive>),
    ) -> Result<CacheDirectory> {
        let file = CacheFile { version: version_of(shards), uuid, size, shards, discard: true, drive };
        let directory = CacheDirectory { path: path.to_owned(), file };
        directory.save()?;
        Ok(directory)
    }

    /// Writes `cache.toml`, all at once.
    pub fn save(&self) -> Result<()> {
        let text = toml::to_string(&self.file).context(NAME)?;
        let temporary = self.path.join("cache.toml.new");
        std::fs::write(&temporary, format!("{HEADER}{text}"))
            .with_context(|| format!("{}", temporary.display()))?;
        std::fs::File::open(&temporary).and_then(|file| file.sync_all()).context(NAME)?;
        std::fs::rename(&temporary, self.path.join(NAME)).context(NAME)?;
        std::fs::File::open(&self.path).and_then(|directory| directory.sync_all()).context(NAME)
    }

    /// Path of a drive.
    pub fn drive_path(&self, drive: &CacheDrive) -> PathBuf {
        self.path.join(&drive.path)
    }

    /// Path of the socket at which a server answers questions.
    pub fn control_path(&self) -> PathBuf {
        self.path.join("control.sock")
    }
}
