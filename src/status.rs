//! `zoneweave status`: what an operator wants to know, from the server if there is one, else from
//! the drives.

use crate::cli::Query;
use crate::directory::{Directory, DriveTable};
use crate::drive_watch::Trouble;
use crate::progress::Progress;
use crate::scrub::ScrubReport;
use anyhow::{Context, Result, bail, ensure};
use array::log::memory::Memory;
use array::log::status::{Health, Status};
use array::log::{Counters, MountReport, mount_read_only};
use base::erasure::PieceSet;
use base::time::Instant;
use base::units::human_bytes;
use serde::{Deserialize, Serialize};
use server::control;
use std::collections::BTreeMap;
use std::path::Path;
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
    /// While a drive is being rebuilt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebuild: Option<RebuildReport>,
    /// The scrub that is running, or the last one since the server started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scrub: Option<ScrubReport>,
    /// As `--level` takes it.
    pub level: String,
    /// The drives.
    pub members: Vec<MemberReport>,
    /// Blank drives that take the place of the next that fails.
    #[serde(default)]
    pub spares: Vec<SpareReport>,
    /// Size of the volume.
    pub capacity_bytes: u64,
    /// Of which hold data.
    pub used_bytes: u64,
    /// Zones in no segment, over all drives.
    pub free_zones: u64,
    /// Zones for segments, over all drives.
    pub total_zones: u64,
    /// Segments being written.
    pub open_segments: u64,
    /// Segments only read.
    pub sealed_segments: u64,
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
    /// Blocks written to drives per block written by clients, parity not counted; null before the
    /// first write.
    pub write_amplification: Option<f64>,
    /// Blocks rebuilt because a drive returned an error or wrong data.
    pub corrected_errors: u64,
    /// Blocks rebuilt because their drive is missing.
    pub degraded_reads: u64,
    /// Reads of blocks that could be neither read nor rebuilt.
    pub unreadable_blocks: u64,
    /// Blocks written off: lost for good until they are written or trimmed.
    pub lost_blocks: u64,
    /// Bytes of memory that the engine's structures take; of a server's, if there is one.
    #[serde(default)]
    pub memory: MemoryReport,
    /// How much of the index is in memory; null when all of it is.
    #[serde(default)]
    pub index: Option<IndexReport>,
    /// Lines of the server's log that nobody took.
    #[serde(default)]
    pub log_lines_lost: u64,
    /// What was counted since the array was created.
    pub counters: LifetimeCounters,
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
    /// Of them, how many lie in a mapping block.
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

/// How far a rebuild has come.
#[derive(Debug, Deserialize, Serialize)]
pub struct RebuildReport {
    /// The drive that is being rebuilt.
    pub drive: usize,
    /// Bytes of it, and how fast.
    #[serde(flatten)]
    pub progress: Progress,
    /// Most bytes a second that it may write; null without limit.
    pub bytes_per_second_max: Option<u64>,
}

/// A spare.
#[derive(Debug, Deserialize, Serialize)]
pub struct SpareReport {
    /// Its file.
    pub path: String,
    /// spare, or missing.
    pub state: String,
}

/// One drive.
#[derive(Debug, Deserialize, Serialize)]
pub struct MemberReport {
    /// Its number.
    pub index: usize,
    /// Its file.
    pub path: String,
    /// active, failed or rebuilding.
    pub state: String,
    /// What troubles the drive, as the server sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<Trouble>,
}

/// Counters over the life of an array, in 4-KiB blocks. Saved every ten seconds and at the end of
/// service.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct LifetimeCounters {
    user_blocks_written: u64,
    user_blocks_read: u64,
    tombstone_blocks_written: u64,
    moved_blocks_written: u64,
    cold_blocks_written: u64,
    padding_blocks_written: u64,
    parity_blocks_written: u64,
    metadata_blocks_written: u64,
    checkpoint_blocks_written: u64,
    mapping_blocks_written: u64,
    groups_used: u64,
    groups_loaded: u64,
    summary_blocks_written: u64,
    stripe_tables_read: u64,
    segments_collected: u64,
    blocks_corrected: u64,
    blocks_read_degraded: u64,
    blocks_unreadable: u64,
    blocks_lost: u64,
}

impl LifetimeCounters {
    /// The counters saved last; zeros when there are none.
    pub fn load(path: &Path) -> LifetimeCounters {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Saves them, all at once.
    pub fn save(&self, path: &Path) -> Result<()> {
        let temporary = path.with_extension("json.new");
        std::fs::write(&temporary, serde_json::to_string(self)?)?;
        std::fs::rename(&temporary, path)?;
        Ok(())
    }

    /// These and those of the current service.
    #[must_use]
    pub fn plus(&self, now: &Counters) -> LifetimeCounters {
        LifetimeCounters {
            user_blocks_written: self.user_blocks_written + now.user_blocks_written,
            user_blocks_read: self.user_blocks_read + now.user_blocks_read,
            tombstone_blocks_written: self.tombstone_blocks_written + now.tombstone_blocks_written,
            moved_blocks_written: self.moved_blocks_written + now.moved_blocks_written,
            cold_blocks_written: self.cold_blocks_written + now.cold_blocks_written,
            padding_blocks_written: self.padding_blocks_written + now.padding_blocks_written,
            parity_blocks_written: self.parity_blocks_written + now.parity_blocks_written,
            metadata_blocks_written: self.metadata_blocks_written + now.metadata_blocks_written,
            checkpoint_blocks_written: self.checkpoint_blocks_written + now.checkpoint_blocks_written,
            mapping_blocks_written: self.mapping_blocks_written + now.mapping_blocks_written,
            groups_used: self.groups_used + now.groups_used,
            groups_loaded: self.groups_loaded + now.groups_loaded,
            summary_blocks_written: self.summary_blocks_written + now.summary_blocks_written,
            stripe_tables_read: self.stripe_tables_read + now.stripe_tables_read,
            segments_collected: self.segments_collected + now.segments_collected,
            blocks_corrected: self.blocks_corrected + now.blocks_corrected,
            blocks_read_degraded: self.blocks_read_degraded + now.blocks_read_degraded,
            blocks_unreadable: self.blocks_unreadable + now.blocks_unreadable,
            blocks_lost: self.blocks_lost + now.blocks_lost,
        }
    }

    fn write_amplification(&self) -> Option<f64> {
        let counters = Counters {
            user_blocks_written: self.user_blocks_written,
            tombstone_blocks_written: self.tombstone_blocks_written,
            moved_blocks_written: self.moved_blocks_written,
            padding_blocks_written: self.padding_blocks_written,
            metadata_blocks_written: self.metadata_blocks_written,
            checkpoint_blocks_written: self.checkpoint_blocks_written,
            mapping_blocks_written: self.mapping_blocks_written,
            summary_blocks_written: self.summary_blocks_written,
            ..Counters::default()
        };
        counters.write_amplification()
    }
}

/// Prints the status of an array.
pub fn run(options: &Query) -> Result<()> {
    let directory = Directory::open(&options.dir)?;
    let report = current(&directory)?;
    if options.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print(&report);
    }
    Ok(())
}

/// The status of an array, from the server if there is one, else from the drives.
pub fn current(directory: &Directory) -> Result<StatusReport> {
    match ask_server(directory)? {
        Some(report) => Ok(report),
        None => look(directory),
    }
}

/// Asks the server; `None` when there is none.
fn ask_server(directory: &Directory) -> Result<Option<StatusReport>> {
    match ask(directory, "status")? {
        Some(answer) => Ok(Some(serde_json::from_str(&answer).context("the server's answer")?)),
        None => Ok(None),
    }
}

/// One question to the server; `None` when there is none.
pub fn ask(directory: &Directory, line: &str) -> Result<Option<String>> {
    let path = directory.control_path();
    if !path.exists() {
        return Ok(None);
    }
    let Ok(answer) = control::ask(&path, line) else { return Ok(None) };
    if let Some(error) = serde_json::from_str::<serde_json::Value>(&answer)?.get("error") {
        bail!("{}", error.as_str().unwrap_or("the server refused"));
    }
    Ok(Some(answer))
}

/// Looks at the drives of an array that is not served. Writes nothing.
fn look(directory: &Directory) -> Result<StatusReport> {
    let drives = directory.open_drives()?;
    let (shard, _, _) = mount_read_only(drives.devices, Instant(0))?;
    let counters = LifetimeCounters::load(&directory.counters_path());
    Ok(report(directory, &shard.status(), &counters, None))
}

/// What only a server knows.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// Speed of the rebuild.
    pub rebuild_bytes_per_second: Option<u64>,
    /// Its limit.
    pub rebuild_bytes_per_second_max: Option<u64>,
    /// The scrub that is running, or the last one.
    pub scrub: Option<ScrubReport>,
}

/// Puts a status into words.
pub fn report(
    directory: &Directory,
    status: &Status,
    counters: &LifetimeCounters,
    served: Option<Served>,
) -> StatusReport {
    let member = |(index, state): (usize, &MemberState)| MemberReport {
        index,
        path: directory
            .file
            .drive
            .get(index)
            .map_or_else(String::new, |drive| drive.path.display().to_string()),
        state: match state {
            MemberState::Active => "active".to_owned(),
            MemberState::Failed => "failed".to_owned(),
            MemberState::Rebuilding => "rebuilding".to_owned(),
        },
        trouble: None,
    };
    let spare = |spare: &DriveTable| SpareReport {
        path: spare.path.display().to_string(),
        state: if directory.path.join(&spare.path).exists() { "spare" } else { "missing" }.to_owned(),
    };
    StatusReport {
        array: uuid::Uuid::from_bytes(status.array).to_string(),
        served: served.is_some(),
        state: match status.health {
            Health::Clean => "clean".to_owned(),
            Health::Degraded => "degraded".to_owned(),
            Health::Rebuilding { .. } => "rebuilding".to_owned(),
            Health::Failed => "failed".to_owned(),
        },
        rebuild: status.rebuild.map(|rebuild| RebuildReport {
            drive: rebuild.member.index(),
            progress: Progress::new(
                rebuild.bytes_done,
                rebuild.bytes_total,
                served.as_ref().and_then(|served| served.rebuild_bytes_per_second),
            ),
            bytes_per_second_max: served.as_ref().and_then(|served| served.rebuild_bytes_per_second_max),
        }),
        scrub: served.and_then(|served| served.scrub),
        level: status.level.name(status.members.len()),
        members: status.members.iter().enumerate().map(member).collect(),
        spares: directory.file.spare.iter().map(spare).collect(),
        capacity_bytes: status.capacity_bytes,
        used_bytes: status.used_bytes,
        free_zones: status.zones_free,
        total_zones: status.zones_total,
        open_segments: status.segments_open,
        sealed_segments: status.segments_sealed,
        chunk_bytes: status.chunk_bytes,
        group_stripes: status.group_stripes,
        small_segments: status.small_segments,
        large_segments: status.large_segments,
        large_chunk_bytes: status.large_chunk_bytes,
        write_amplification: counters.write_amplification(),
        corrected_errors: counters.blocks_corrected,
        degraded_reads: counters.blocks_read_degraded,
        unreadable_blocks: counters.blocks_unreadable,
        lost_blocks: counters.blocks_lost,
        memory: status.memory.into(),
        index: status.index.map(|index| IndexReport {
            limit_bytes: index.limit_bytes,
            resident_bytes: index.resident_bytes,
            groups: index.groups,
            mapping_blocks: index.mapping_blocks,
            hits: counters.groups_used.saturating_sub(counters.groups_loaded),
            misses: counters.groups_loaded,
        }),
        log_lines_lost: 0,
        counters: *counters,
    }
}

fn print(report: &StatusReport) {
    println!("array            {}", report.array);
    println!("state            {}{}", report.state, if report.served { ", served" } else { ", not served" });
    if let Some(RebuildReport { drive, progress, .. }) = &report.rebuild {
        println!("rebuild          drive {drive}, {progress}");
    }
    if let Some(scrub) = &report.scrub {
        println!("scrub            {scrub}");
    }
    println!("level            {} over {} drives", report.level, report.members.len());
    println!("chunk, group     {}, {} stripes", human_bytes(report.chunk_bytes), report.group_stripes);
    if report.large_segments > 0 {
        println!(
            "open at once     {} segments of {} chunks, {} of {} chunks",
            report.small_segments,
            human_bytes(report.chunk_bytes),
            report.large_segments,
            human_bytes(report.large_chunk_bytes)
        );
    }
    println!("capacity         {}", human_bytes(report.capacity_bytes));
    println!("used             {}", human_bytes(report.used_bytes));
    println!("zones            {} free of {}", report.free_zones, report.total_zones);
    println!("segments         {} open, {} sealed", report.open_segments, report.sealed_segments);
    let MemoryReport { total, structures } = &report.memory;
    let structures: Vec<String> =
        structures.iter().map(|(name, bytes)| format!("{name} {}", human_bytes(*bytes))).collect();
    println!("memory           {}: {}", human_bytes(*total), structures.join(", "));
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
    match report.write_amplification {
        Some(amplification) => println!("write amplif.    {amplification:.2}"),
        None => println!("write amplif.    -"),
    }
    println!("corrected errors {}", report.corrected_errors);
    println!("degraded reads   {}", report.degraded_reads);
    println!("unreadable       {}", report.unreadable_blocks);
    println!("lost for good    {}", report.lost_blocks);
    for member in &report.members {
        println!("drive {:<2}         {:<10} {}", member.index, member.state, member.path);
        if let Some(trouble) = &member.trouble {
            println!("                 {trouble}");
        }
    }
    if report.log_lines_lost > 0 {
        println!("lost log lines   {}", report.log_lines_lost);
    }
    for spare in &report.spares {
        println!("spare            {:<10} {}", spare.state, spare.path);
    }
}

/// Logs what mounting found.
pub fn log_mount(directory: &Directory, status: &Status, report: &MountReport) {
    for (index, state) in status.members.iter().enumerate() {
        if *state == MemberState::Failed {
            log::warn!(
                "drive {index} ({}) is not part of the array any more: running degraded",
                directory.drive_path(index).display()
            );
        }
    }
    for older in &report.older_copies {
        log::warn!("{older}; it is left out: `zoneweave drive replace` gives its place to an empty drive");
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

/// Refuses to fail a drive that does not exist, or that the array needs.
pub fn check_can_fail(status: &Status, drive: u8) -> Result<()> {
    let drive = usize::from(drive);
    let count = status.members.len();
    ensure!(drive < count, "drive {drive}: the array has drives 0 to {}", count - 1);
    ensure!(status.members[drive] != MemberState::Failed, "drive {drive} is marked failed already");
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
