//! `zoneweave scrub`: has the server read and verify everything while clients go on.

use crate::cli::Scrub;
use crate::directory::Directory;
use crate::exit::Exit;
use crate::progress::{Display, Progress};
use crate::status::{self, StatusReport};
use anyhow::{Context, Result, bail, ensure};
use array::log::rot::DamagedPlace;
use array::log::scrub::{ScrubOptions, ScrubState, ScrubStatus};
use array::log::volume::LogVolume;
use base::units::BLOCK_BYTES_U64;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Between two questions to the server.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// The JSON object of `zoneweave scrub --json`, and `scrub` in that of `zoneweave status`. Blocks are 4 KiB.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ScrubReport {
    /// running, repairing, done or stopped.
    pub state: String,
    /// Damage is to be repaired.
    pub repair: bool,
    /// Progress of the scrub.
    #[serde(flatten)]
    pub progress: Progress,
    /// Most bytes a second that it may read; null without limit.
    pub bytes_per_second_max: Option<u64>,
    /// Blocks read and verified.
    pub blocks_read: u64,
    /// Blocks that cannot be read, fail their checksum, or are not what was written there.
    pub blocks_damaged: u64,
    /// Damaged blocks that nothing can rebuild. They are lost if they hold something.
    pub blocks_beyond_rescue: u64,
    /// Stripes whose parity is not that of their data, though every block is whole.
    pub stripes_mismatched: u64,
    /// Damaged headers and blocks of footers.
    pub records_damaged: u64,
    /// Segments with any of these.
    pub segments_damaged: u64,
    /// Damaged superblock records; the newest of each drive counts.
    #[serde(default)]
    pub superblocks_damaged: u64,
    /// Drives whose header is damaged: they work, and cannot be opened again.
    #[serde(default)]
    pub headers_damaged: u64,
    /// Superblock records and headers that are damaged and were not written anew.
    #[serde(default)]
    pub descriptions_left: u64,
    /// Drives that the scrub found lost.
    #[serde(default)]
    pub drives_lost: u64,
    /// Drives that the next start is without, unless they come back.
    #[serde(default)]
    pub drives_out: Vec<DriveOut>,
    /// Damaged segments that are not repaired.
    pub segments_left: u64,
    /// Blocks that were damaged and are written elsewhere, or hold nothing.
    pub blocks_repaired: u64,
    /// Blocks that were written off: lost for good until they are written or trimmed.
    pub blocks_lost: u64,
    /// Places of damage: the first hundred.
    #[serde(default)]
    pub damage: Vec<PlaceReport>,
}

/// A drive that has failed.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct DriveOut {
    /// Drive.
    pub drive: usize,
    /// Why, as far as the server knows.
    pub text: String,
    /// True when the drive is lost to the server.
    pub is_lost: bool,
}

impl DriveOut {
    /// The drive that has this number, and what lost it.
    pub fn new(drive: usize, lost: Option<String>) -> DriveOut {
        let is_lost = lost.is_some();
        let why = lost.unwrap_or_else(|| "it has failed".to_owned());
        DriveOut { drive, text: format!("drive {drive} is left out: {why}"), is_lost }
    }
}

/// A damaged block.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct PlaceReport {
    /// Drive.
    pub drive: usize,
    /// Zone.
    pub zone: u32,
    /// Block within the zone.
    pub block: u32,
    /// The same in words, and how it is damaged.
    pub text: String,
}

impl From<&DamagedPlace> for PlaceReport {
    fn from(place: &DamagedPlace) -> PlaceReport {
        PlaceReport {
            drive: place.drive.index(),
            zone: place.zone.0,
            block: place.block,
            text: place.to_string(),
        }
    }
}

impl ScrubReport {
    /// Puts the state of a scrub into words; the speed is what the server measured.
    pub fn new(
        status: &ScrubStatus,
        places: &[DamagedPlace],
        bytes_per_second: Option<u64>,
        drives_out: Vec<DriveOut>,
    ) -> ScrubReport {
        let ScrubStatus { state, options, bytes_done, bytes_total, findings, segments_left, blocks_lost } =
            *status;
        let is_repaired = options.repair && state == ScrubState::Done && segments_left == 0;
        let repaired = findings.blocks_damaged - findings.blocks_beyond_rescue;
        let speed = bytes_per_second.filter(|_| state == ScrubState::Running);
        ScrubReport {
            state: match state {
                ScrubState::Running => "running".to_owned(),
                ScrubState::Repairing => "repairing".to_owned(),
                ScrubState::Done => "done".to_owned(),
                ScrubState::Stopped => "stopped".to_owned(),
            },
            repair: options.repair,
            progress: Progress::new(bytes_done, bytes_total, speed),
            bytes_per_second_max: options.rate.filter(|rate| *rate > 0),
            blocks_read: findings.blocks_read,
            blocks_damaged: findings.blocks_damaged,
            blocks_beyond_rescue: findings.blocks_beyond_rescue,
            stripes_mismatched: findings.stripes_mismatched,
            records_damaged: findings.records_damaged,
            segments_damaged: findings.segments_damaged,
            superblocks_damaged: findings.superblocks_damaged,
            headers_damaged: findings.headers_damaged,
            descriptions_left: findings.descriptions_left,
            drives_lost: findings.drives_lost,
            drives_out,
            segments_left,
            blocks_repaired: if is_repaired { repaired } else { 0 },
            blocks_lost,
            damage: places.iter().map(PlaceReport::from).collect(),
        }
    }

    /// True while it goes on.
    pub fn is_running(&self) -> bool {
        matches!(self.state.as_str(), "running" | "repairing")
    }

    /// True when everything was read and no damage is left.
    pub fn is_clean(&self) -> bool {
        let is_left = self.segments_left + self.blocks_lost + self.descriptions_left + self.drives_lost > 0;
        self.state == "done" && !is_left && !self.drives_out.iter().any(|out| out.is_lost)
    }

    /// Returns the exit code of the command that followed the scrub.
    fn exit(&self) -> Exit {
        match (self.is_clean(), self.drives_out.is_empty()) {
            (false, _) => Exit::Damage,
            (true, false) => Exit::Degraded,
            (true, true) => Exit::Well,
        }
    }

    /// Superblock records, headers and drives, in words.
    fn drives_in_words(&self) -> String {
        let found = self.superblocks_damaged + self.headers_damaged;
        let described = format!(
            "; {} superblock records and {} headers of drives damaged, {} of them left",
            self.superblocks_damaged, self.headers_damaged, self.descriptions_left
        );
        let out = self.drives_out.iter().map(|out| format!("; {}", out.text));
        (found > 0).then_some(described).into_iter().chain(out).collect()
    }
}

impl std::fmt::Display for ScrubReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.state.as_str() {
            "running" => write!(f, "{}, {} blocks damaged", self.progress, self.blocks_damaged),
            "repairing" => write!(f, "read, repairing {} segments", self.segments_left),
            "stopped" => write!(f, "stopped at {:.1} %", self.progress.percent),
            _ if self.segments_damaged == 0 => {
                let drives = self.drives_in_words();
                let clean = if drives.is_empty() { ", clean" } else { "" };
                write!(f, "{} blocks read{clean}{drives}", self.blocks_read)
            }
            _ => write!(
                f,
                "{} blocks read, {} damaged, {} repaired, {} lost; {} stripes with wrong parity, {} damaged headers and \
                 footers; {} of {} damaged segments left{}",
                self.blocks_read,
                self.blocks_damaged,
                self.blocks_repaired,
                self.blocks_lost,
                self.stripes_mismatched,
                self.records_damaged,
                self.segments_left,
                self.segments_damaged,
                self.drives_in_words()
            ),
        }
    }
}

/// Begins a scrub, or joins the one that is running, and follows it; exit code 1 when damage is left, 3 when only drives are missing.
pub fn run(options: &Scrub) -> Result<Exit> {
    if options.locate {
        return Err(Exit::Usage.error(
            "--locate is for RAID-6 of Linux md: arrays of zoned drives know which block is wrong, and every scrub names it",
        ));
    }
    let directory = Directory::open(&options.dir)?;
    let line = match (options.stop, options.rate, options.repair) {
        (true, ..) => "scrub-stop".to_owned(),
        (false, rate, repair) => {
            let rate = rate.map_or("-".to_owned(), |rate| rate.mib_per_second.to_string());
            format!("scrub {rate}{}", if repair { " repair" } else { "" })
        }
    };
    let dir = options.dir.display();
    status::ask(&directory, &line)?.ok_or_else(|| {
        Exit::Absent.error(format!(
            "nobody serves the array: `zoneweave check {dir}` verifies it, `zoneweave serve {dir}` serves it"
        ))
    })?;
    let is_followed = !options.stop && !options.background;
    let report = if is_followed { follow(&directory, options.json)? } else { ask(&directory)? };
    if options.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else if is_followed || options.stop {
        report.damage.iter().for_each(|place| println!("{}", place.text));
        println!("{report}");
        if report.segments_left + report.descriptions_left > 0 && !report.repair {
            println!("`zoneweave scrub {dir} --repair` repairs what is damaged");
        }
    } else {
        println!("scrubbing; `zoneweave status {dir}` tells how far it is");
    }
    Ok(if is_followed { report.exit() } else { Exit::Well })
}

fn ask(directory: &Directory) -> Result<ScrubReport> {
    let answer = status::ask(directory, "status")?.context("the server has gone, and the scrub with it")?;
    let report: StatusReport = serde_json::from_str(&answer).context("the server's answer")?;
    report.upkeep.scrub.context("no scrub was begun since the server started")
}

fn follow(directory: &Directory, is_quiet: bool) -> Result<ScrubReport> {
    let mut display = Display::new("scrubbing", is_quiet);
    loop {
        let report = ask(directory)?;
        if !report.is_running() {
            display.end();
            ensure!(
                report.state != "stopped",
                "the scrub was stopped, or too many drives have failed: {report}"
            );
            return Ok(report);
        }
        display.show(&report.progress);
        std::thread::sleep(ASK_EVERY);
    }
}

/// `scrub RATE|- [repair]`: what the server does about it.
pub fn start(volume: &mut LogVolume, rest: &str) -> Result<()> {
    let words: Vec<&str> = rest.split_whitespace().collect();
    let (rate, repair) = match words[..] {
        [rate] => (rate, false),
        [rate, "repair"] => (rate, true),
        _ => bail!("`scrub {rest}` is not a question: ask `scrub MIB|- [repair]`"),
    };
    let rate = match rate {
        "-" => None,
        rate => Some(crate::cli::parse_rate(rate).map_err(anyhow::Error::msg)?),
    };
    let bytes = rate.map(|rate| rate.bytes_per_second());
    let running = volume.engine.scrub_status().filter(|status| {
        matches!(status.state, ScrubState::Running | ScrubState::Repairing)
            && (status.options.repair || !repair)
    });
    if running.is_none() {
        let options = ScrubOptions { repair, rate: bytes.flatten() };
        volume.start_scrub(options)?;
        log::info!("scrubbing{}", if repair { " and repairing" } else { "" });
    } else if let Some(bytes) = bytes {
        volume.set_scrub_rate(bytes);
    }
    Ok(())
}

/// Bytes that the scrub has read, while one is running.
pub fn bytes_read(volume: &LogVolume) -> Option<u64> {
    let engine = &volume.engine;
    engine.is_scrubbing().then(|| engine.scrub_findings().blocks_read * BLOCK_BYTES_U64)
}

/// `scrub-stop`: what the server does about it.
pub fn stop(volume: &mut LogVolume) -> Result<()> {
    if !volume.engine.is_scrubbing() {
        return Err(Exit::Absent.error("no scrub is running"));
    }
    volume.stop_scrub();
    Ok(())
}
