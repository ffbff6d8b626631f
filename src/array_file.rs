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
    /// What the array was made as. The drives' superblocks have the last word.
    pub scheme: SchemeTable,
    /// What the engine does; may be changed while the array is not served.
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
    /// Who decides where writes go and when stripes are closed.
    pub policy: PolicyChoice,
    /// How garbage collection chooses what to collect.
    pub gc: GcChoice,
    /// Whether it keeps hot blocks that it moves from cold ones.
    pub gc_streams: GcStreamsChoice,
}

/// Who decides where writes go and when stripes are closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyChoice {
    /// The engine, by what it observes.
    #[default]
    Adaptive,
    /// Sizes of requests and a deadline, as in the ZapRAID paper.
    Fixed,
}

/// How garbage collection chooses what to collect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GcChoice {
    /// The least live data.
    Greedy,
    /// The most free space for the longest time.
    #[default]
    CostBenefit,
}

/// Whether garbage collection keeps hot blocks that it moves from cold ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum GcStreamsChoice {
    /// All of them go to one segment.
    #[serde(rename = "1")]
    One,
    /// Each kind has its own, wherever space and active zones allow.
    #[serde(rename = "2")]
    Two,
    /// Each kind has its own where the adaptive policy finds that it pays.
    #[default]
    #[serde(rename = "auto")]
    Auto,
}

/// One drive.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DriveTable {
    /// Its file; relative paths start at the array's directory.
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
