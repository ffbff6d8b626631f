//! `array.toml`: where the drives of an array are, and what may be chosen anew when it is served.

use crate::exports::table::ExportList;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};

/// Version that is written. Version 1 has neither `kind` nor `id`, and is read for ever.
pub const VERSION: u32 = 2;
const VERSIONS_READ: [u32; 2] = [1, VERSION];

/// Contents of `array.toml`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ArrayFile {
    /// Version of this file.
    pub version: u32,
    /// Identity of the array.
    pub uuid: uuid::Uuid,
    /// Devices that are cut into zones discard a zone that was reset.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub discard: bool,
    /// Exports. NBD clients may ask for its names; the empty name works too.
    pub export: ExportList,
    /// Scheme with which the array was created. The drives' superblocks have the last word.
    pub scheme: SchemeTable,
    /// Choices of the engine; may be changed while the array is not served.
    #[serde(default)]
    pub engine: EngineTable,
    /// The drives, in order; of the superblocks, when both are there (`roster`).
    #[serde(default)]
    pub drive: Vec<DriveTable>,
    /// Blank drives that take the place of the next that fails.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spare: Vec<DriveTable>,
}

/// Default of a choice in the file: yes.
pub fn yes() -> bool {
    true
}

/// True for the default of a choice, which the file leaves out.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's form")]
pub fn is_yes(choice: &bool) -> bool {
    *choice
}

/// The scheme, for people to read.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SchemeTable {
    /// As `--level` takes it.
    pub level: String,
    /// Chunk size.
    pub chunk: String,
    /// Stripes of a group.
    pub group: u32,
    /// Size of the volume.
    pub size: String,
}

/// The engine's choices, made anew each time the array is served: for experiments. No command has options for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct EngineTable {
    /// Policy that decides where writes go and when stripes are closed.
    pub policy: PolicyChoice,
    /// Policy by which garbage collection chooses victims.
    pub gc: GcChoice,
    /// Separation of hot blocks from cold ones when garbage collection moves them.
    pub gc_streams: GcStreamsChoice,
}

/// Policy that decides where writes go and when stripes are closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyChoice {
    /// The engine decides, by what it observes.
    #[default]
    Adaptive,
    /// Sizes of requests and a deadline decide, as in the ZapRAID paper.
    Fixed,
    /// Lifetimes of blocks decide, as in the BIZA paper; with `--write-area 2` blocks that live shortest stay in windows.
    Biza,
}

/// Policy by which garbage collection chooses victims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GcChoice {
    /// The segment with the least live data.
    Greedy,
    /// The segment with the most free space for the longest time.
    #[default]
    CostBenefit,
}

/// Separation of hot blocks from cold ones when garbage collection moves them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum GcStreamsChoice {
    /// All moved blocks go to one segment.
    #[serde(rename = "1")]
    One,
    /// Hot and cold blocks each have a segment, wherever space and active zones allow.
    #[serde(rename = "2")]
    Two,
    /// Hot and cold blocks each have a segment where the adaptive policy finds that it pays.
    #[default]
    #[serde(rename = "auto")]
    Auto,
}

/// Kind of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DriveKind {
    /// An emulated drive in a file.
    Emulated,
    /// An NVMe namespace with zones.
    NvmeZns,
    /// A block device that is cut into zones.
    Conventional,
    /// A zoned block device without metadata.
    Zoned,
    /// A file that is used as such a device.
    RawFile,
}

impl DriveKind {
    /// True of drives that have device nodes, whose names change.
    pub fn is_device(self) -> bool {
        match self {
            DriveKind::NvmeZns | DriveKind::Conventional | DriveKind::Zoned => true,
            DriveKind::Emulated | DriveKind::RawFile => false,
        }
    }
}

/// A drive of the array, or a spare. `uuid` says which drive it is, `id` helps to find it, `path` is where it was last.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DriveTable {
    /// Kind of the drive, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<DriveKind>,
    /// Path of the drive's file; relative paths start at the array's directory.
    pub path: PathBuf,
    /// Name that the device has wherever it is attached, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Device of its identity journal, where that lies apart: where it was last. The drive knows which journal it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<PathBuf>,
    /// Identity of the drive.
    pub uuid: uuid::Uuid,
}

impl DriveTable {
    /// Entry of a drive of which no more is known than who it is.
    pub fn unseen(index: usize, uuid: uuid::Uuid) -> DriveTable {
        DriveTable {
            kind: None,
            path: PathBuf::from(format!("drive-{index}.zns")),
            id: None,
            journal: None,
            uuid,
        }
    }

    /// True of a drive that is found by its device node; without a kind, its path tells.
    pub fn is_device(&self) -> bool {
        let is_node = |path: &Path| path.starts_with("/dev") && !path.starts_with("/dev/shm");
        self.kind.map_or_else(|| is_node(&self.path), DriveKind::is_device)
    }
}

/// Reason why a text is no `array.toml`.
#[derive(Debug)]
pub enum ParseError {
    /// The file of another version of this program.
    Version(u32),
    /// Nonsense.
    Toml(toml::de::Error),
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [oldest, newest] = VERSIONS_READ;
        match self {
            ParseError::Version(version) => write!(
                f,
                "has version {version}, and this program reads versions {oldest} and {newest}: use the one that wrote it"
            ),
            ParseError::Toml(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ParseError {}

impl ArrayFile {
    /// Reads the text of `array.toml`.
    ///
    /// # Errors
    /// When it makes no sense, or is of a version that this program does not know.
    pub fn parse(text: &str) -> Result<ArrayFile, ParseError> {
        // Another version may have other keys.
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let Versioned { version } = toml::from_str(text).map_err(ParseError::Toml)?;
        if !VERSIONS_READ.contains(&version) {
            return Err(ParseError::Version(version));
        }
        toml::from_str(text).map_err(ParseError::Toml)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of the version before kinds and ids, as it was written.
    const VERSION_1: &str = include_str!("array_file/version1.toml");
    const VERSION_2: &str = include_str!("array_file/version2.toml");

    #[test]
    fn a_file_of_version_1_is_read_for_ever() {
        let file = ArrayFile::parse(VERSION_1).expect("version 1");
        assert_eq!((file.version, file.drive.len(), file.spare.len()), (1, 4, 1));
        assert!(file.drive.iter().chain(&file.spare).all(|drive| drive.kind.is_none() && drive.id.is_none()));
        assert_eq!(file.drive[1].path, Path::new("/dev/ng1n1"));
        assert_eq!(file.drive[1].uuid.to_string(), "0b21c5a4-7d2e-4f57-9c1e-1f6f0e6b8a01");
        let devices: Vec<bool> = file.drive.iter().map(DriveTable::is_device).collect();
        assert_eq!(devices, [false, true, false, true]);
    }

    #[test]
    fn a_file_of_version_2_is_read_and_written_as_it_is() {
        let file = ArrayFile::parse(VERSION_2).expect("version 2");
        let kinds: Vec<Option<DriveKind>> = file.drive.iter().map(|drive| drive.kind).collect();
        let all = [DriveKind::Emulated, DriveKind::NvmeZns, DriveKind::Conventional, DriveKind::RawFile];
        assert_eq!(kinds, all.map(Some));
        assert_eq!(file.drive[1].id.as_deref(), Some("eui.0025385b71b0a1c3"));
        assert_eq!(toml::to_string(&file).expect("it can be written"), VERSION_2);
    }

    #[test]
    fn zones_are_discarded_unless_the_file_says_no() {
        let discards = |text: &str| ArrayFile::parse(text).expect("version 2").discard;
        let without = VERSION_2.replace("export = ", "discard = false\nexport = ");
        assert!(discards(VERSION_2) && !discards(&without));
        let file = ArrayFile::parse(&without).expect("version 2");
        assert_eq!(toml::to_string(&file).expect("it can be written"), without);
    }

    #[test]
    fn a_file_of_a_later_version_is_refused_by_name() {
        let later = VERSION_2.replace("version = 2", "version = 3\nkey_of_tomorrow = true");
        let error = ArrayFile::parse(&later).expect_err("version 3");
        assert!(matches!(error, ParseError::Version(3)), "{error}");
        assert!(error.to_string().contains("version 3"), "{error}");
    }
}
