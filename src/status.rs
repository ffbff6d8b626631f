//! `zoneweave status`: what an operator wants to know, from the server if there is one, else from
//! the drives.

mod lifetime;

pub use lifetime::{DamageCounts, LifetimeCounters};

use crate::array_file::DriveKind;
use crate::cli::Query;
use crate::directory::{Directory, DriveTable, PolicyChoice};
use crate::drive_health::DriveHealth;
use crate::drive_watch::Trouble;
use crate::exit::{self, Exit};
use crate::export::WithExports;
use crate::host::Host;
use crate::kernel_calls::KernelCallsReport;
use crate::progress::Progress;
use crate::room;
use crate::roster::{Absence, Place, Roster};
use crate::scrub::ScrubReport;
use crate::shared_hardware::{self, SharedHardware};
use anyhow::{Context, Result, ensure};
use array::log::channels::{ChannelStatus, RuleKind};
use array::log::memory::Memory;
use array::log::status::{Health, Status, StreamStatus};
use array::log::{DamagedChunk, DamagedCopy, MountReport, OlderCopy, ReAdded, mount_read_only};
use array::pacer::Rates;
use base::erasure::PieceSet;
use base::time::Instant;
use base::units::human_bytes;
use serde::{Deserialize, Serialize};
use server::control::{self, AskError};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use zone::condition::IdentityCache;
use zone::format::header::Stream;
use zone::format::superblock::MemberState;

/// The JSON object of `zoneweave status --json`.
#[derive(Debug, Deserialize, Serialize)]
pub struct StatusReport {
    /// Identity of the array.
    pub array: String,
    /// A server answers for it.
    pub served: bool,
    /// clean, degraded, rebuilding or failed.
    pub state: String,
    #[serde(flatten)]
    pub upkeep: UpkeepReport,
    /// As `--level` takes it.
    pub level: String,
    /// The drives.
    pub members: Vec<MemberReport>,
    /// Disks and controllers that several drives lie on; emulated drives do not count.
    #[serde(default)]
    pub shared: Vec<SharedHardware>,
    /// Blank drives that take the place of the next that fails.
    #[serde(default)]
    pub spares: Vec<SpareReport>,
    #[serde(flatten)]
    pub space: SpaceReport,
    #[serde(flatten)]
    pub layout: LayoutReport,
    #[serde(flatten)]
    pub blocks: BlocksReport,
    /// Bytes of memory that the engine's structures take; of a server's, if there is one.
    #[serde(default)]
    pub memory: MemoryReport,
    /// State of an index that is only partly in memory; null when all of it is.
    #[serde(default)]
    pub index: Option<IndexReport>,
    /// Policy that decides where writes go, as `array.toml` has it.
    #[serde(default)]
    pub policy: PolicyChoice,
    /// State of the write area; null where it is off.
    #[serde(default)]
    pub write_area: Option<WriteAreaReport>,
    /// Channel groups of each drive, as the time of its writes since the server started shows them.
    #[serde(default)]
    pub channels: Vec<ChannelsReport>,
    /// Lines of the server's log that nobody took.
    #[serde(default)]
    pub log_lines_lost: u64,
    /// Counters since the array was created.
    pub counters: LifetimeCounters,
}

/// Work on the array as a whole.
#[derive(Debug, Deserialize, Serialize)]
pub struct UpkeepReport {
    /// While a drive is being rebuilt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebuild: Option<RebuildReport>,
    /// A spare is about to take the place of a drive that failed.
    #[serde(default)]
    pub rebuild_due: bool,
    /// The scrub that is running, or the last one since the server started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scrub: Option<ScrubReport>,
}

/// Space of the volume and of its drives.
#[derive(Debug, Deserialize, Serialize)]
pub struct SpaceReport {
    /// Size of the volume.
    pub capacity_bytes: u64,
    /// Bytes of the volume that hold data.
    pub used_bytes: u64,
    /// Zones in no segment, over all drives.
    pub free_zones: u64,
    /// Zones for segments, over all drives.
    pub total_zones: u64,
    /// Segments being written.
    pub open_segments: u64,
    /// Segments only read.
    pub sealed_segments: u64,
}

/// Chunks, groups and open segments.
#[derive(Debug, Deserialize, Serialize)]
pub struct LayoutReport {
    /// Chunk size.
    pub chunk_bytes: u64,
    /// Stripes of a group.
    pub group_stripes: u32,
    /// Segments of small chunks open at once.
    pub small_segments: u32,
    /// Segments of large chunks open at once.
    pub large_segments: u32,
    /// Chunk size of those; zero without.
    pub large_chunk_bytes: u64,
    /// Segments by what is written together.
    #[serde(default)]
    pub streams: Vec<StreamReport>,
}

/// Segments of a stream.
#[derive(Debug, Deserialize, Serialize)]
pub struct StreamReport {
    /// small and large, by the chunks of clients' requests; moved and cold, by age, of the collector; index. Of the policy `biza` lived-near
    /// and lived-long instead of the first two: blocks that are overwritten soon, and all others.
    pub stream: String,
    /// Segments being written.
    pub open_segments: u64,
    /// Segments only read.
    pub sealed_segments: u64,
}

impl StreamReport {
    fn of(status: StreamStatus, policy: PolicyChoice) -> StreamReport {
        let stream = match (status.stream, policy) {
            (Stream::Small, PolicyChoice::Biza) => "lived-near",
            (Stream::Large, PolicyChoice::Biza) => "lived-long",
            (Stream::Small, _) => "small",
            (Stream::Large, _) => "large",
            (Stream::Gc, _) => "moved",
            (Stream::Cold, _) => "cold",
            (Stream::Mapping, _) => "index",
        };
        StreamReport {
            stream: stream.to_owned(),
            open_segments: status.segments_open,
            sealed_segments: status.segments_sealed,
        }
    }

    /// The streams that have segments.
    fn in_words(streams: &[StreamReport]) -> String {
        let has_some = |report: &&StreamReport| report.open_segments + report.sealed_segments > 0;
        let words = |StreamReport { stream, open_segments, sealed_segments }: &StreamReport| {
            format!("{stream} {open_segments} open, {sealed_segments} sealed")
        };
        streams.iter().filter(has_some).map(words).collect::<Vec<_>>().join("; ")
    }
}

/// Blocks that were written beyond those of clients, rebuilt, or lost.
#[derive(Debug, Deserialize, Serialize)]
pub struct BlocksReport {
    /// Blocks written to drives per block written by clients, parity not counted; null before the
    /// first write.
    pub write_amplification: Option<f64>,
    /// Bytes written to zones for good for each byte of clients, parity among them, since the array was created (ADR 81); null before the
    /// first write.
    #[serde(default)]
    pub flash_bytes_per_user_byte: Option<f64>,
    /// The same since the server started.
    #[serde(default)]
    pub flash_bytes_per_user_byte_since_start: Option<f64>,
    /// Blocks rebuilt because a drive returned an error or wrong data.
    pub corrected_errors: u64,
    /// Blocks rebuilt because their drive is missing.
    pub degraded_reads: u64,
    /// Reads of blocks that could be neither read nor rebuilt.
    pub unreadable_blocks: u64,
    /// Blocks written off: lost for good until they are written or trimmed.
    pub lost_blocks: u64,
    /// Zones that took no more writes and were given up.
    pub retired_zones: u64,
}

/// Choice for the write area, and the reason.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct AreaChoice {
    /// Zones of each drive that were chosen for it; none where it cannot be had, or was given up.
    pub zones_per_drive: u32,
    /// Reason for that number.
    pub why: String,
}

/// The write area, where small writes wait and are overwritten without wear.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct WriteAreaReport {
    #[serde(flatten)]
    pub choice: AreaChoice,
    /// Zones that it has now, over all drives.
    pub zones: u64,
    /// Slots of these zones.
    pub slots: u64,
    /// Slots that hold the newest version of a block.
    pub live: u64,
    /// Versions written to slots since the array was created.
    pub written: u64,
    /// Versions of those that were overwritten there.
    pub absorbed: u64,
    /// Part that these are of the blocks that clients wrote.
    pub hit_share: Option<f64>,
    /// Versions of those that were moved to the log.
    pub moved: u64,
}

/// Channel groups of a drive: zones of one wait for each other.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ChannelsReport {
    /// Groups that it has, as far as zones are open on them.
    pub groups: u32,
    /// Confidence in the groups of its open zones, from 0 to 1.
    pub confidence: f64,
    /// Rule that decides where a zone lies, `number` or `opening`, where that is known.
    #[serde(default)]
    pub rule: Option<String>,
    /// Times that a zone turned out to lie elsewhere than was believed.
    pub flips: u64,
    /// Open zones of each group.
    pub zones: Vec<Vec<u32>>,
}

impl ChannelsReport {
    fn of(status: &ChannelStatus) -> ChannelsReport {
        let mut by_group: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (zone, group) in &status.zones {
            by_group.entry(*group).or_default().push(zone.0);
        }
        by_group.values_mut().for_each(|zones| zones.sort_unstable());
        let mut zones: Vec<Vec<u32>> = by_group.into_values().collect();
        zones.sort_unstable();
        let name = |kind: RuleKind| match kind {
            RuleKind::Number => "number",
            RuleKind::Opening => "opening",
        };
        ChannelsReport {
            groups: status.groups,
            confidence: f64::from(status.confidence_per_mille) / 1000.0,
            rule: status.rule.map(|rule| name(rule.kind).to_owned()),
            flips: status.flips,
            zones,
        }
    }

    /// Groups in one line; `None` where nothing is known.
    fn in_words(&self) -> Option<String> {
        let ChannelsReport { groups, confidence, rule, zones, .. } = self;
        if *confidence == 0.0 {
            return None;
        }
        let rule = rule.as_ref().map_or_else(String::new, |rule| format!(" by {rule}"));
        let words = |zones: &Vec<u32>| zones.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
        let zones = zones.iter().map(words).collect::<Vec<_>>().join(" | ");
        Some(format!("channel groups {groups}{rule}, {:.0} % sure: zones {zones}", confidence * 100.0))
    }
}

/// An index of which only some is in memory.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct IndexReport {
    /// Bytes of groups that may be in memory.
    pub limit_bytes: u64,
    /// Bytes of those that are.
    pub resident_bytes: u64,
    /// Groups.
    pub groups: u64,
    /// Groups that lie in a mapping block.
    pub mapping_blocks: u64,
    /// Uses of a group that was in memory.
    pub hits: u64,
    /// Uses of one that had to be read.
    pub misses: u64,
}

/// Bytes of memory by structure.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct MemoryReport {
    /// All of them.
    pub total: u64,
    /// Each by name.
    #[serde(flatten)]
    pub structures: BTreeMap<String, u64>,
}

impl From<Memory> for MemoryReport {
    fn from(memory: Memory) -> MemoryReport {
        let named = |(name, bytes): (&str, u64)| (name.to_owned(), bytes);
        MemoryReport { total: memory.total(), structures: memory.rows().into_iter().map(named).collect() }
    }
}

/// Progress of a rebuild.
#[derive(Debug, Deserialize, Serialize)]
pub struct RebuildReport {
    /// The drive that is being rebuilt.
    pub drive: usize,
    /// Bytes of it, and how fast.
    #[serde(flatten)]
    pub progress: Progress,
    /// Bytes that it held when it was re-added, which are done; null of an empty drive, and after a restart of the server.
    #[serde(default)]
    pub bytes_kept: Option<u64>,
    /// Most bytes a second that it may write; null without limit.
    pub bytes_per_second_max: Option<u64>,
    /// Rate that it keeps while clients are at work; null where it does not give way to them.
    #[serde(default)]
    pub bytes_per_second_min: Option<u64>,
}

/// A spare.
#[derive(Debug, Deserialize, Serialize)]
pub struct SpareReport {
    /// Path of the spare's file.
    pub path: String,
    /// Device of its identity journal, where that lies apart: as needed as the spare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<String>,
    /// spare, or missing.
    pub state: String,
}

/// Report on one drive.
#[derive(Debug, Deserialize, Serialize)]
pub struct MemberReport {
    /// Number of the drive.
    pub index: usize,
    /// Path of the drive's file.
    pub path: String,
    /// Kind of the drive, where `array.toml` has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<DriveKind>,
    /// Identity that its superblock has, which decides who it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<uuid::Uuid>,
    /// Name that the device has wherever it is attached, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Device of its identity journal, where that lies apart: as needed as the drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<String>,
    /// active, failed, rebuilding, stalled: away, and waited for, or missing: of a drive that the array counts on and that cannot
    /// be had.
    pub state: String,
    /// Times that it was away for a while since the server has it, and nothing was lost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub hiccups: u32,
    /// Trouble of the drive, as the server sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<Trouble>,
    /// Why it cannot be had, or is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The cache of identities of a drive that keeps them among the data, as the server has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity_cache: Option<IdentityCacheReport>,
    /// Operations that the kernel was given for the drive since the server opened it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_calls: Option<KernelCallsReport>,
    /// Health that the drive reports, as whoever asks for the status may know.
    #[serde(flatten)]
    pub health: DriveHealth,
    /// Blocks of it that were found damaged since it was created.
    #[serde(default)]
    pub damage: DamageCounts,
}

impl MemberReport {
    /// Asks the drive for its health, unless it might not answer.
    fn ask_health(&mut self, host: &Host, dir: &Path) {
        let answers = matches!(self.state.as_str(), "active" | "rebuilding") && self.trouble.is_none();
        if answers && !self.path.is_empty() {
            self.health = DriveHealth::of(host, &dir.join(&self.path));
        }
    }
}

/// Cache of identities of a drive since its server opened it.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct IdentityCacheReport {
    /// Bytes of identities that are cached.
    pub bytes: u64,
    /// The same at most.
    pub bytes_max: u64,
    /// Units of 59 blocks whose identities a read found there.
    pub hits: u64,
    /// Units whose identities were read beside the data.
    pub misses: u64,
    /// Share of hits; null before the first read.
    pub hit_ratio: Option<f64>,
    /// Blocks written to the device, identities, journal and tables among them, for each that the engine has written; null before the
    /// first write.
    #[serde(default)]
    pub write_amplification: Option<f64>,
}

impl IdentityCacheReport {
    /// What the drive does beside reading and writing data, in lines of its own.
    fn words(&self) -> Vec<String> {
        let IdentityCacheReport { bytes, bytes_max, hits, misses, hit_ratio, write_amplification } = self;
        let ratio = hit_ratio.map_or_else(String::new, |ratio| format!(" ({:.1} % hits)", ratio * 100.0));
        let (bytes, bytes_max) = (human_bytes(*bytes), human_bytes(*bytes_max));
        let cache =
            format!("identities {bytes} of at most {bytes_max} cached, {hits} hits, {misses} misses{ratio}");
        let written = write_amplification.map(|ratio| {
            format!("writes {ratio:.2} blocks with identities and journal for each block of the engine")
        });
        [Some(cache), written].into_iter().flatten().collect()
    }
}

impl From<IdentityCache> for IdentityCacheReport {
    fn from(cache: IdentityCache) -> IdentityCacheReport {
        let IdentityCache { bytes, bytes_max, hits, misses, host_blocks, device_blocks } = cache;
        #[allow(clippy::cast_precision_loss, reason = "a ratio for people")]
        let ratio = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        let (hit_ratio, write_amplification) =
            (ratio(hits, hits + misses), ratio(device_blocks, host_blocks));
        IdentityCacheReport { bytes, bytes_max, hits, misses, hit_ratio, write_amplification }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Prints the status of an array, or why it cannot be had.
pub fn run(options: &Query) -> Result<Exit> {
    let mut opened = Directory::open(&options.dir);
    let result = match &mut opened {
        Ok(directory) => current(directory),
        Err(error) => Err(Exit::of(error).error(exit::in_words(error))),
    };
    let report = match result {
        Ok(mut report) => {
            let host = Host::here();
            report.members.iter_mut().for_each(|member| member.ask_health(&host, &options.dir));
            report
        }
        Err(error) => {
            if options.json {
                println!("{}", serde_json::to_string_pretty(&without_mount(opened.ok(), &error))?);
            }
            return Err(error);
        }
    };
    let shown = WithExports::of(&options.dir, report.space.capacity_bytes, &report);
    if options.json {
        println!("{}", serde_json::to_string_pretty(&shown)?);
    } else {
        print(&report);
        shown.words().for_each(|export| println!("export           {export}"));
    }
    Ok(exit_of(&report))
}

/// The exit code that tells the state of an array.
pub fn exit_of(report: &StatusReport) -> Exit {
    match report.state.as_str() {
        "clean" => Exit::Well,
        "degraded" | "rebuilding" => Exit::Degraded,
        _ => Exit::Failed,
    }
}

/// An array whose state cannot be told: why, and what can be told of its drives.
fn without_mount(directory: Option<Directory>, error: &anyhow::Error) -> serde_json::Value {
    let Some(mut directory) = directory else {
        return serde_json::json!({ "served": false, "state": "failed", "error": exit::in_words(error) });
    };
    let places = Roster::find(&mut directory).map(|roster| roster.places).unwrap_or_default();
    let table = |index: usize| directory.file.drive.get(index);
    let member = |(index, place): (usize, &Place)| MemberReport {
        index,
        path: place.path.display().to_string(),
        kind: table(index).and_then(|table| table.kind),
        uuid: table(index).map(|table| table.uuid),
        id: table(index).and_then(|table| table.id.clone()),
        journal: table(index).and_then(journal_in_words),
        state: match (place.is_missing(), place.state) {
            (true, _) => "missing".to_owned(),
            (false, Some(state)) => state_in_words(state).to_owned(),
            (false, None) => "unknown".to_owned(),
        },
        problem: place.problem.clone(),
        trouble: None,
        hiccups: 0,
        identity_cache: None,
        kernel_calls: None,
        health: DriveHealth::default(),
        damage: DamageCounts::default(),
    };
    serde_json::json!({
        "array": directory.file.uuid.to_string(),
        "served": false,
        "state": "failed",
        "error": exit::in_words(error),
        "level": directory.file.scheme.level,
        "members": places.iter().enumerate().map(member).collect::<Vec<MemberReport>>(),
    })
}

/// The status of an array, from the server if there is one, else from the drives.
pub fn current(directory: &mut Directory) -> Result<StatusReport> {
    let read = |answer: String| serde_json::from_str(&answer).context("the server's answer");
    if let Some(answer) = ask(directory, "status")? {
        return read(answer);
    }
    let looked = look(directory);
    if looked.as_ref().is_err_and(|error| Exit::of(error) == Exit::Busy)
        && let Some(answer) = ask(directory, "status")?
    {
        // A server that was about to start.
        return read(answer);
    }
    looked
}

/// Refuses while the array is being served.
pub fn expect_unserved(directory: &Directory) -> Result<()> {
    if ask(directory, "status")?.is_some() {
        let said = format!("{}: the array is being served; stop the server first", directory.path.display());
        return Err(Exit::Busy.error(said));
    }
    Ok(())
}

/// Asks the server one question; returns `None` when there is no server.
pub fn ask(directory: &Directory, line: &str) -> Result<Option<String>> {
    ask_at(&directory.control_path(), line)
}

/// The same of the server that listens at a socket.
pub fn ask_at(control_path: &Path, line: &str) -> Result<Option<String>> {
    let answer = match control::ask(control_path, line) {
        Ok(answer) => answer,
        Err(AskError::NoServer { source, .. })
            if matches!(source.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) =>
        {
            return Ok(None);
        }
        // It ended while it was asked.
        Err(AskError::Io(error))
            if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) =>
        {
            return Ok(None);
        }
        Err(error @ AskError::BadLine) => return Err(Exit::Usage.because(error)),
        Err(error) => return Err(Exit::Busy.because(error)),
    };
    if answer.is_empty() {
        return Ok(None);
    }
    let parsed: serde_json::Value = serde_json::from_str(&answer).context("the server's answer")?;
    let Some(error) = parsed.get("error") else { return Ok(Some(answer)) };
    let exit = parsed.get("exit").and_then(serde_json::Value::as_u64).map_or(Exit::Failed, Exit::from_number);
    Err(exit.error(error.as_str().unwrap_or("the server refused")))
}

/// Looks at the drives of an array that is not served. Writes nothing.
fn look(directory: &mut Directory) -> Result<StatusReport> {
    let mut roster = Roster::find(directory)?;
    let drives = roster.open(Absence::Looking, None)?;
    if let Some(record) = &roster.record {
        room::expect_index_fits(record)?;
    }
    let mounted = mount_read_only(drives.devices, Instant(0));
    let (shard, _, mounted) = mounted.map_err(|error| roster.explain(error))?;
    let counters = LifetimeCounters::load(&directory.counters_path());
    let mut report = report(directory, &shard.status(), &counters, None);
    for (member, place) in report.members.iter_mut().zip(&roster.places) {
        if place.is_missing() {
            member.state = "missing".to_owned();
        }
        member.problem.clone_from(&place.problem);
    }
    name_older_copies(&mut report, &mounted.older_copies);
    Ok(report)
}

/// Says of drives that failed what they lack, as long as they are not replaced.
pub fn name_older_copies(report: &mut StatusReport, older_copies: &[OlderCopy]) {
    for older in older_copies {
        let failed = report.members.get_mut(older.member).filter(|member| member.state == "failed");
        if let Some(member) = failed {
            member.problem.get_or_insert_with(|| older.to_string());
        }
    }
}

fn state_in_words(state: MemberState) -> &'static str {
    match state {
        MemberState::Active => "active",
        MemberState::Failed => "failed",
        MemberState::Rebuilding => "rebuilding",
    }
}

/// Facts that only a server knows.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// Speed of the rebuild.
    pub rebuild_bytes_per_second: Option<u64>,
    /// Rates of the rebuild.
    pub rebuild_rates: Rates,
    /// A spare is about to take the place of a drive that failed.
    pub rebuild_due: bool,
    /// Drive that was re-added last, and what it held.
    pub re_added: Option<ReAdded>,
    /// The scrub that is running, or the last one.
    pub scrub: Option<ScrubReport>,
    /// Choice for `--write-area`; `None` where it is off.
    pub write_area: Option<AreaChoice>,
}

impl UpkeepReport {
    fn of(status: &Status, served: Option<Served>) -> UpkeepReport {
        UpkeepReport {
            rebuild: status.rebuild.map(|rebuild| RebuildReport {
                drive: rebuild.member.index(),
                progress: Progress::new(
                    rebuild.bytes_done,
                    rebuild.bytes_total,
                    served.as_ref().and_then(|served| served.rebuild_bytes_per_second),
                ),
                bytes_kept: served
                    .as_ref()
                    .and_then(|served| served.re_added)
                    .filter(|re_added| re_added.member == rebuild.member.index())
                    .map(|re_added| re_added.bytes_whole),
                bytes_per_second_max: served.as_ref().and_then(|served| served.rebuild_rates.max),
                bytes_per_second_min: served.as_ref().and_then(|served| served.rebuild_rates.min),
            }),
            rebuild_due: served.as_ref().is_some_and(|served| served.rebuild_due),
            scrub: served.and_then(|served| served.scrub),
        }
    }
}

impl SpaceReport {
    fn of(status: &Status) -> SpaceReport {
        SpaceReport {
            capacity_bytes: status.capacity_bytes,
            used_bytes: status.used_bytes,
            free_zones: status.zones_free,
            total_zones: status.zones_total,
            open_segments: status.segments_open,
            sealed_segments: status.segments_sealed,
        }
    }
}

impl LayoutReport {
    fn of(status: &Status, policy: PolicyChoice) -> LayoutReport {
        LayoutReport {
            streams: status.streams.iter().map(|stream| StreamReport::of(*stream, policy)).collect(),
            chunk_bytes: status.chunk_bytes,
            group_stripes: status.group_stripes,
            small_segments: status.small_segments,
            large_segments: status.large_segments,
            large_chunk_bytes: status.large_chunk_bytes,
        }
    }
}

impl BlocksReport {
    fn of(status: &Status, counters: &LifetimeCounters) -> BlocksReport {
        let errors = counters.errors();
        BlocksReport {
            write_amplification: counters.write_amplification(),
            flash_bytes_per_user_byte: counters.flash_bytes_per_user_byte(),
            flash_bytes_per_user_byte_since_start: status.counters.flash_bytes_per_user_byte(),
            corrected_errors: errors.blocks_corrected,
            degraded_reads: errors.blocks_read_degraded,
            unreadable_blocks: errors.blocks_unreadable,
            lost_blocks: errors.blocks_lost,
            retired_zones: errors.zones_retired,
        }
    }
}

impl WriteAreaReport {
    /// Report of the write area; `None` where it is off and slots hold nothing.
    fn of(
        status: &Status,
        counters: &LifetimeCounters,
        choice: Option<AreaChoice>,
    ) -> Option<WriteAreaReport> {
        if status.write_area.is_none() && choice.is_none() {
            return None;
        }
        let area = status.write_area.unwrap_or_default();
        let (written, absorbed, moved) = counters.slots();
        Some(WriteAreaReport {
            choice: choice.unwrap_or_default(),
            zones: area.zones,
            slots: area.slots,
            live: area.live,
            written,
            absorbed,
            hit_share: counters.hit_share(),
            moved,
        })
    }
}

/// Puts a status into words.
pub fn report(
    directory: &Directory,
    status: &Status,
    counters: &LifetimeCounters,
    served: Option<Served>,
) -> StatusReport {
    let table = |index: usize| directory.file.drive.get(index);
    let member = |(index, state): (usize, &MemberState)| MemberReport {
        index,
        path: table(index).map_or_else(String::new, |drive| drive.path.display().to_string()),
        kind: table(index).and_then(|drive| drive.kind),
        uuid: table(index).map(|drive| drive.uuid),
        id: table(index).and_then(|drive| drive.id.clone()),
        journal: table(index).and_then(journal_in_words),
        state: state_in_words(*state).to_owned(),
        problem: None,
        trouble: None,
        hiccups: 0,
        identity_cache: None,
        kernel_calls: None,
        health: DriveHealth::default(),
        damage: counters.damage_of(status.damage.get(index)),
    };
    let spare = |spare: &DriveTable| {
        let mut paths = [Some(&spare.path), spare.journal.as_ref()].into_iter().flatten();
        let is_there = paths.all(|path| directory.path.join(path).exists());
        SpareReport {
            path: spare.path.display().to_string(),
            journal: journal_in_words(spare),
            state: if is_there { "spare" } else { "missing" }.to_owned(),
        }
    };
    let (hits, misses) = counters.group_uses();
    let choice = served.as_ref().and_then(|served| served.write_area.clone());
    StatusReport {
        array: uuid::Uuid::from_bytes(status.array).to_string(),
        served: served.is_some(),
        state: match status.health {
            Health::Clean => "clean".to_owned(),
            Health::Degraded => "degraded".to_owned(),
            Health::Rebuilding { .. } => "rebuilding".to_owned(),
            Health::Failed => "failed".to_owned(),
        },
        upkeep: UpkeepReport::of(status, served),
        level: status.level.name(status.members.len()),
        members: status.members.iter().enumerate().map(member).collect(),
        shared: shared_among(directory),
        spares: directory.file.spare.iter().map(spare).collect(),
        space: SpaceReport::of(status),
        layout: LayoutReport::of(status, directory.file.engine.policy),
        blocks: BlocksReport::of(status, counters),
        memory: status.memory.into(),
        policy: directory.file.engine.policy,
        write_area: WriteAreaReport::of(status, counters, choice),
        index: status.index.map(|index| IndexReport {
            limit_bytes: index.limit_bytes,
            resident_bytes: index.resident_bytes,
            groups: index.groups,
            mapping_blocks: index.mapping_blocks,
            hits,
            misses,
        }),
        channels: status.channels.iter().map(ChannelsReport::of).collect(),
        log_lines_lost: 0,
        counters: counters.clone(),
    }
}

fn journal_in_words(table: &DriveTable) -> Option<String> {
    table.journal.as_ref().map(|path| path.display().to_string())
}

/// Hardware that several drives of the array lie on, or their journals. Emulated drives are there to try things.
fn shared_among(directory: &Directory) -> Vec<SharedHardware> {
    let drives = directory.file.drive.iter().enumerate();
    let real = drives.filter(|(_, drive)| match drive.kind {
        Some(kind) => kind != DriveKind::Emulated,
        None => drive.is_device(),
    });
    shared_hardware::among(real.flat_map(|(index, drive)| {
        let paths = [Some(&drive.path), drive.journal.as_ref()].into_iter().flatten();
        paths.map(move |path| (index, directory.path.join(path)))
    }))
}

/// Prints the wear: what the flash was written with.
fn print_wear(blocks: &BlocksReport) {
    match blocks.write_amplification {
        Some(amplification) => println!("write amplif.    {amplification:.2}"),
        None => println!("write amplif.    -"),
    }
    let BlocksReport { flash_bytes_per_user_byte, flash_bytes_per_user_byte_since_start, .. } = blocks;
    let Some(ratio) = flash_bytes_per_user_byte else { return println!("flash bytes      -") };
    let since = flash_bytes_per_user_byte_since_start
        .map_or_else(String::new, |ratio| format!(", {ratio:.2} since the server started"));
    println!("flash bytes      {ratio:.2} for each byte of clients{since}");
}

fn print_write_area(report: &StatusReport) {
    if let Some(area) = &report.write_area {
        println!(
            "write area       {} of {} slots in {} zones, {} blocks written, {} absorbed{}, {} moved",
            area.live,
            area.slots,
            area.zones,
            area.written,
            area.absorbed,
            area.hit_share
                .map_or_else(String::new, |share| format!(" ({:.1} % of what clients wrote)", 100.0 * share)),
            area.moved
        );
        let AreaChoice { zones_per_drive, why } = &area.choice;
        if !why.is_empty() {
            println!("                 {zones_per_drive} zones of each drive: {why}");
        }
    }
    if report.policy == PolicyChoice::Biza && report.write_area.is_none() {
        println!("write area       none: blocks are placed by lifetime, and none is absorbed");
    }
}

fn print(report: &StatusReport) {
    println!("array            {}", report.array);
    println!("state            {}{}", report.state, if report.served { ", served" } else { ", not served" });
    if let Some(RebuildReport { drive, progress, bytes_kept, .. }) = &report.upkeep.rebuild {
        let kept =
            bytes_kept.map_or_else(String::new, |bytes| format!(", {} were there", human_bytes(bytes)));
        println!("rebuild          drive {drive}, {progress}{kept}");
    }
    if let Some(scrub) = &report.upkeep.scrub {
        println!("scrub            {scrub}");
    }
    println!("level            {} over {} drives", report.level, report.members.len());
    println!(
        "chunk, group     {}, {} stripes",
        human_bytes(report.layout.chunk_bytes),
        report.layout.group_stripes
    );
    if report.layout.large_segments > 0 {
        println!(
            "open at once     {} segments of {} chunks, {} of {} chunks",
            report.layout.small_segments,
            human_bytes(report.layout.chunk_bytes),
            report.layout.large_segments,
            human_bytes(report.layout.large_chunk_bytes)
        );
    }
    println!("capacity         {}", human_bytes(report.space.capacity_bytes));
    println!("used             {}", human_bytes(report.space.used_bytes));
    println!("zones            {} free of {}", report.space.free_zones, report.space.total_zones);
    println!("segments         {} open, {} sealed", report.space.open_segments, report.space.sealed_segments);
    let streams = StreamReport::in_words(&report.layout.streams);
    if !streams.is_empty() {
        println!("streams          {streams}");
    }
    let MemoryReport { total, structures } = &report.memory;
    let structures: Vec<String> =
        structures.iter().map(|(name, bytes)| format!("{name} {}", human_bytes(*bytes))).collect();
    println!("memory           {}: {}", human_bytes(*total), structures.join(", "));
    print_write_area(report);
    if let Some(index) = &report.index {
        println!(
            "index            {} of at most {}, {} of {} groups on the drives, {} hits, {} misses",
            human_bytes(index.resident_bytes),
            human_bytes(index.limit_bytes),
            index.mapping_blocks,
            index.groups,
            index.hits,
            index.misses
        );
    }
    print_wear(&report.blocks);
    println!("corrected errors {}", report.blocks.corrected_errors);
    println!("degraded reads   {}", report.blocks.degraded_reads);
    println!("unreadable       {}", report.blocks.unreadable_blocks);
    println!("lost for good    {}", report.blocks.lost_blocks);
    println!("retired zones    {}", report.blocks.retired_zones);
    print_drives(report);
    if report.log_lines_lost > 0 {
        println!("lost log lines   {}", report.log_lines_lost);
    }
}

/// The drives, what they share, and the spares.
fn print_drives(report: &StatusReport) {
    for member in &report.members {
        let mut notes = member.problem.iter().map(|problem| format!(": {problem}")).collect::<String>();
        if let Some(found) = member.damage.in_words() {
            notes.push_str(", ");
            notes.push_str(&found);
        }
        match member.hiccups {
            0 => {}
            1 => notes.push_str(", was away once"),
            times => notes.push_str(&format!(", was away {times} times")),
        }
        if let Some(id) = &member.id {
            notes = format!(" ({id}){notes}");
        }
        println!("drive {:<2}         {:<10} {}{notes}", member.index, member.state, member.path);
        if let Some(journal) = &member.journal {
            println!("                 identity journal on {journal}");
        }
        if let Some(trouble) = &member.trouble {
            println!("                 {trouble}");
        }
        if let Some(health) = member.health.in_words() {
            println!("                 {health}");
        }
        if let Some(channels) = report.channels.get(member.index).and_then(ChannelsReport::in_words) {
            println!("                 {channels}");
        }
        for words in member.identity_cache.iter().flat_map(IdentityCacheReport::words) {
            println!("                 {words}");
        }
        if let Some(calls) = member.kernel_calls {
            println!("                 {}", calls.in_words());
        }
    }
    for shared in &report.shared {
        println!("shared           {shared}");
    }
    for spare in &report.spares {
        println!("spare            {:<10} {}", spare.state, spare.path);
        if let Some(journal) = &spare.journal {
            println!("                 identity journal on {journal}");
        }
    }
}

/// Logs what mounting found.
pub fn log_mount(directory: &Directory, status: &Status, report: &MountReport) {
    for (index, state) in status.members.iter().enumerate() {
        if *state == MemberState::Failed {
            log::warn!(
                "drive {index} ({}) is not part of the array any more: running degraded",
                directory
                    .file
                    .drive
                    .get(index)
                    .map_or_else(PathBuf::new, |drive| drive.path.clone())
                    .display()
            );
        }
    }
    for older in &report.older_copies {
        log::warn!("{older}; it is left out: `zoneweave drive re-add` takes it in by what it lacks");
    }
    log::info!(
        "mounted: {} stripes completed, {} never acknowledged, {} segments discarded, {} to be collected first",
        report.stripes_completed,
        report.stripes_void,
        report.segments_discarded,
        report.segments_condemned
    );
    if report.segments_covered > 0 {
        log::info!("{} segments were taken from the last checkpoint, and not read", report.segments_covered);
    }
    if report.checkpoint_refused {
        log::info!("the last checkpoint could not be used: all segments were read");
    }
    if !report.damaged_chunks.is_empty() {
        log::warn!("{} chunks are damaged; they are rebuilt when read", report.damaged_chunks.len());
    }
    if !report.windows_gone.is_empty() {
        let drives: Vec<String> = report.windows_gone.iter().map(|drive| drive.to_string()).collect();
        log::warn!(
            "random write areas lost what they held on drives [{}]: nothing is lost, it is decoded from the others and written anew",
            drives.join(", ")
        );
    }
    if report.slots_found > 0 {
        log::info!("{} blocks are in the write area, and go to the log first", report.slots_found);
    }
    let (healed, lost): (Vec<&DamagedCopy>, Vec<&DamagedCopy>) =
        report.slot_copies_damaged.iter().partition(|copy| copy.has_other);
    for (copies, what) in
        [(healed, "another copy of each is whole"), (lost, "no other copy of these is whole")]
    {
        if let Some(copy) = copies.first() {
            let DamagedChunk { drive, zone, offset } = copy.at;
            log::warn!(
                "{} copies in the write area are damaged, the first in block {offset} of zone {zone} of drive {drive}; {what}",
                copies.len()
            );
        }
    }
    if let Some(lost) = &report.writes_lost {
        log::error!("{lost}; the array goes on with them, as --accept-lost-writes allows");
    }
    for region in &report.regions_doubtful {
        log::error!(
            "the record of trimmed blocks of region {region} (32 MiB each) is beyond rescue: blocks of it that may have been \
             trimmed fail until they are written or trimmed"
        );
    }
    for (drive, zone) in &report.zones_orphaned {
        log::warn!("zone {zone} of drive {drive} holds data of no known segment; it is left alone");
    }
}

/// Refuses to fail a drive that does not exist, or that the array needs. One that is missing looks like one that has
/// failed, though it is not recorded.
pub fn check_can_fail(status: &Status, drive: u8, is_missing: bool) -> Result<()> {
    let drive = usize::from(drive);
    let count = status.members.len();
    if drive >= count {
        return Err(Exit::Usage.error(format!("drive {drive}: the array has drives 0 to {}", count - 1)));
    }
    let is_failed = status.members[drive] == MemberState::Failed && !is_missing;
    ensure!(!is_failed, "drive {drive} is marked failed already");
    let others = || status.members.iter().enumerate().filter(|(other, _)| *other != drive);
    let active: PieceSet =
        others().filter(|(_, state)| **state == MemberState::Active).map(|(other, _)| other).collect();
    ensure!(
        status.level.erasure_code(count).is_some_and(|code| code.can_decode(active)),
        "drive {drive} cannot be failed: {} with {} drives failed or not yet rebuilt would lose data",
        status.level.name(count),
        others().count() - active.count()
    );
    Ok(())
}
