//! `array.toml`: where the drives of an array are, and what may be chosen anew when it is served.

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

const VERSION: u32 = 1;

/// Contents of `array.toml`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ArrayFile {
    /// Version of this file.
    pub version: u32,
    /// Identity of the array.
    pub uuid: uuid::Uuid,
    /// Name that NBD clients may ask for; the empty name works too.
    pub export: String,
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

/// A drive of the array, or a spare.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DriveTable {
    /// Path of the drive's file; relative paths start at the array's directory.
    pub path: PathBuf,
    /// Identity of the drive.
    pub uuid: uuid::Uuid,
}

impl ArrayFile {
    /// Reads the text of `array.toml`.
    pub fn parse(text: &str) -> Result<ArrayFile> {
        let file: ArrayFile = toml::from_str(text)?;
        ensure!(file.version == VERSION, "key `version` is {}, this program reads {VERSION}", file.version);
        Ok(file)
    }
}
