//! `array.toml` of an array in md's format: where its members are. What the array is, their superblocks say.

use crate::directory::expect_no_cache;
use crate::exit::Exit;
use crate::exports::table::ExportList;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Name of the description.
pub const FILE: &str = "array.toml";
const VERSION: u32 = 1;

/// Format by which the description is told from that of an array of zoned drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Format {
    /// Superblocks of Linux md.
    Md,
}

/// Array in md's format.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    version: u32,
    format: Format,
    /// Array UUID in md's words.
    pub uuid: String,
    /// Exports, and the name of the volume for NBD clients.
    #[serde(default, skip_serializing_if = "is_standard")]
    pub export: ExportList,
    /// Members in the order of their roles; those that are missing are left out.
    #[serde(default)]
    pub member: Vec<MemberTable>,
}

/// Member.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MemberTable {
    /// Device or file; relative paths start at the array's directory.
    pub path: PathBuf,
    /// Device UUID in md's words.
    pub uuid: String,
}

impl Description {
    /// Description of an array.
    pub fn new(uuid: String, member: Vec<MemberTable>) -> Description {
        Description { version: VERSION, format: Format::Md, uuid, export: ExportList::default(), member }
    }

    /// Paths of the members, from the directory of the array where they are not absolute.
    pub fn paths(&self, dir: &Path) -> Vec<PathBuf> {
        self.member.iter().map(|member| dir.join(&member.path)).collect()
    }

    /// Refuses a directory that describes an array.
    pub fn expect_none(dir: &Path) -> Result<()> {
        expect_no_cache(dir)?;
        if dir.join(FILE).exists() {
            let said =
                format!("{} describes an array already; use another directory", dir.join(FILE).display());
            return Err(Exit::Failed.error(said));
        }
        Ok(())
    }

    /// Writes `array.toml`, all at once.
    pub fn save(&self, dir: &Path) -> Result<()> {
        let text = toml::to_string(self).context(FILE)?;
        let header = "# An array of Linux md. Where its members are; what it is, their superblocks say.\n";
        let temporary = dir.join("array.toml.new");
        let mut file = std::fs::File::create(&temporary).with_context(|| temporary.display().to_string())?;
        file.write_all(format!("{header}{text}").as_bytes()).and_then(|()| file.sync_all()).context(FILE)?;
        std::fs::rename(&temporary, dir.join(FILE)).context(FILE)?;
        std::fs::File::open(dir).and_then(|directory| directory.sync_all()).context(FILE)
    }

    /// Writes other exports into the description in a directory.
    pub fn record_exports(dir: &Path, list: &ExportList) -> Result<()> {
        Description { export: list.clone(), ..Description::open(dir)? }.save(dir)
    }

    /// Reads the description in a directory.
    pub fn open(dir: &Path) -> Result<Description> {
        let path = dir.join(FILE);
        let text = std::fs::read_to_string(&path).map_err(|error| {
            Exit::Absent.error(format!("{}: no description of an array: {error}", path.display()))
        })?;
        let found: Result<Description, _> = toml::from_str(&text);
        let found = found.map_err(|error| {
            Exit::Failed.error(format!("{}: describes no array of md: {error}", path.display()))
        })?;
        if found.version != VERSION {
            let version = found.version;
            return Err(Exit::Failed.error(format!("{}: version {version}, not {VERSION}", path.display())));
        }
        Ok(found)
    }
}

fn is_standard(list: &ExportList) -> bool {
    *list == ExportList::default()
}

/// True where `array.toml` describes an array of md, whatever else it says.
pub fn is_md(text: &str) -> bool {
    let table: Option<toml::Table> = text.parse().ok();
    table.is_some_and(|table| table.get("format").and_then(toml::Value::as_str) == Some("md"))
}

/// True of a directory that describes an array of md, whatever else it says.
pub fn is_in(dir: &Path) -> bool {
    std::fs::read_to_string(dir.join(FILE)).is_ok_and(|text| is_md(&text))
}

/// Devices that are meant: a directory with a description stands for its members.
pub fn members(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut members = Vec::new();
    for path in paths {
        if path.join(FILE).is_file() {
            members.extend(Description::open(path)?.paths(path));
        } else {
            members.push(path.clone());
        }
    }
    Ok(members)
}
