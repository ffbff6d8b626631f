//! An array's directory: `array.toml` says where the drives are, the drives say all the rest.

use crate::hosting::Hosting;
use anyhow::{Context, Result, bail, ensure};
use drive::emulated::{EmulatedDrive, Pace};
use serde::{Deserialize, Serialize};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use zone::device::ZonedDevice;

const VERSION: u32 = 1;

/// Contents of `array.toml`.
#[derive(Clone, Debug, Deserialize, Serialize)]
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
    /// The drives, in order.
    pub drive: Vec<DriveTable>,
    /// Blank drives that take the place of the next that fails.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spare: Vec<DriveTable>,
}

/// The scheme, for people to read.
#[derive(Clone, Debug, Deserialize, Serialize)]
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

/// What may be chosen anew each time the array is served.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
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
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DriveTable {
    /// Its file; relative paths start at the array's directory.
    pub path: PathBuf,
    /// Identity of the drive.
    pub uuid: uuid::Uuid,
}

/// A directory that holds an array.
pub struct Directory {
    /// Where it is.
    pub path: PathBuf,
    /// What `array.toml` says.
    pub file: ArrayFile,
}

/// The drives as they could be opened.
pub struct OpenDrives {
    /// `None` where one is missing or unusable.
    pub devices: Vec<Option<Box<dyn ZonedDevice>>>,
    /// Readable when a drive has something to say.
    pub wake_fds: Vec<OwnedFd>,
    /// The clocks of drives that take the time of a profile.
    pub paces: Vec<Pace>,
}

/// True when the directory holds an array.
pub fn exists(path: &Path) -> bool {
    path.join("array.toml").exists()
}

impl ArrayFile {
    /// Reads the text of `array.toml`.
    pub fn parse(text: &str) -> Result<ArrayFile> {
        let file: ArrayFile = toml::from_str(text)?;
        ensure!(file.version == VERSION, "key `version` is {}, this program reads {VERSION}", file.version);
        ensure!(!file.drive.is_empty(), "lists no [[drive]]");
        Ok(file)
    }
}

impl Directory {
    /// Reads `array.toml`.
    pub fn open(path: &Path) -> Result<Directory> {
        let toml_path = path.join("array.toml");
        let text = std::fs::read_to_string(&toml_path).with_context(|| {
            format!(
                "{}: no array here; make one with `zoneweave create {}`",
                toml_path.display(),
                path.display()
            )
        })?;
        let file = ArrayFile::parse(&text).with_context(|| format!("{}", toml_path.display()))?;
        Ok(Directory { path: path.to_owned(), file })
    }

    /// Writes `array.toml` of a new array, last of all its files and all at once.
    pub fn create(path: &Path, file: ArrayFile) -> Result<Directory> {
        let directory = Directory { path: path.to_owned(), file };
        directory.save()?;
        Ok(directory)
    }

    /// Writes `array.toml` anew, all at once.
    pub fn save(&self) -> Result<()> {
        let path = &self.path;
        let text = toml::to_string(&self.file).context("array.toml")?;
        let header = "# A Zoneweave array. Drives may move: change their `path`. The rest is for reading;\n\
                      # what counts is in the drives' superblocks.\n";
        let temporary = path.join("array.toml.new");
        std::fs::write(&temporary, format!("{header}{text}"))
            .with_context(|| format!("{}", temporary.display()))?;
        std::fs::File::open(&temporary).and_then(|file| file.sync_all()).context("array.toml")?;
        std::fs::rename(&temporary, path.join("array.toml")).context("array.toml")?;
        std::fs::File::open(path).and_then(|directory| directory.sync_all()).context("array.toml")
    }

    /// File of a drive.
    pub fn drive_path(&self, index: usize) -> PathBuf {
        self.path.join(&self.file.drive[index].path)
    }

    /// Where a server answers questions.
    pub fn control_path(&self) -> PathBuf {
        self.path.join("control.sock")
    }

    /// Where NBD clients connect unless told otherwise.
    pub fn nbd_path(&self) -> PathBuf {
        self.path.join("nbd.sock")
    }

    /// Where counters survive the server.
    pub fn counters_path(&self) -> PathBuf {
        self.path.join("counters.json")
    }

    /// Opens the drives. One that is missing or damaged is left out, with a warning; one that is in
    /// use by another process is an error.
    pub fn open_drives(&self) -> Result<OpenDrives> {
        let devices = (0..self.file.drive.len()).map(|index| {
            let drive = self.open_drive(index)?;
            Ok(drive.map(|drive| Box::new(drive) as Box<dyn ZonedDevice>))
        });
        Ok(OpenDrives { devices: devices.collect::<Result<_>>()?, wake_fds: Vec::new(), paces: Vec::new() })
    }

    /// The same, as drives of an array that is served. The time of a profile begins when their paces are started.
    pub fn open_drives_as(&self, hosting: &Hosting) -> Result<OpenDrives> {
        let mut open = OpenDrives { devices: Vec::new(), wake_fds: Vec::new(), paces: Vec::new() };
        for index in 0..self.file.drive.len() {
            let Some(drive) = self.open_drive(index)? else {
                open.devices.push(None);
                continue;
            };
            let hosted = hosting.host(drive, index as u64)?;
            open.devices.push(Some(hosted.device));
            open.wake_fds.extend(hosted.wake_fd);
            open.paces.extend(hosted.pace);
        }
        Ok(open)
    }

    fn open_drive(&self, index: usize) -> Result<Option<EmulatedDrive>> {
        let drive = match EmulatedDrive::open(&self.drive_path(index)) {
            Ok(drive) => drive,
            Err(error) if matches!(error.problem, drive::emulated::DriveProblem::InUse) => {
                bail!("{error} (is the array being served, or checked?)")
            }
            Err(error) => {
                log::warn!("drive {index} is left out: {error}");
                return Ok(None);
            }
        };
        if drive.uuid() != *self.file.drive[index].uuid.as_bytes() {
            log::warn!(
                "drive {index} is left out: {} is not the drive that array.toml names (uuid {})",
                self.drive_path(index).display(),
                self.file.drive[index].uuid
            );
            return Ok(None);
        }
        Ok(Some(drive))
    }
}
