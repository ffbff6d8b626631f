//! State of an array of md, for people and as JSON.

use super::member_io::MemberIoReport;
use super::upkeep::Upkeep;
use crate::exit::Exit;
use crate::kernel_calls::KernelCallsReport;
use crate::progress::Progress;
use array::inplace::Counters;
use array::inplace::scribe::Mark;
use array::inplace::scrub::{ScrubState, ScrubStatus};
use array::inplace::start::journal_of;
use array::inplace::status::{JournalStatus, Status};
use base::units::human_bytes;
use block::md::assembly::{Assembly, Part};
use block::md::examine::array_bytes;
use block::md::member::Member;
use block::md::policy::word;
use block::md::superblock::RoleEntry;
use block::md::{Role, SECTOR_BYTES_U64, names};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The JSON object of `zoneweave status --json` of an array of md.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Report {
    /// Always `md`.
    pub format: String,
    #[serde(flatten)]
    pub identity: Identity,
    /// True when a server answers for it.
    pub served: bool,
    /// `clean`, `active`, `resyncing`, `replacing`, `rebuilding`, `degraded`, `read-only` or `failed`.
    pub state: String,
    /// True when it is served, and nothing is written.
    #[serde(default)]
    pub read_only: bool,
    /// Reason why it cannot be served; null when it can.
    #[serde(default)]
    pub refused: Option<String>,
    /// Members by role.
    pub members: Vec<MemberReport>,
    /// Paths of spares.
    #[serde(default)]
    pub spares: Vec<String>,
    /// Journal; null without one.
    #[serde(default)]
    pub journal: Option<JournalReport>,
    /// Events of the superblocks.
    pub events: u64,
    /// The dirty mark is on the superblocks.
    pub dirty: bool,
    /// Regions of the bitmap; null without one.
    pub bitmap: Option<BitmapReport>,
    #[serde(flatten)]
    pub upkeep: Upkeep,
    /// Cache of parities and rows that were just written; null without a server.
    #[serde(default)]
    pub cache: Option<CacheReport>,
    /// Work since the server started; null without one.
    pub counters: Option<CountersReport>,
    /// Reads and writes of members since the server started, by cause; null without one.
    #[serde(default)]
    pub member_io: Option<MemberIoReport>,
}

/// Cache.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct CacheReport {
    /// Bytes of blocks that it holds.
    pub bytes: u64,
    /// The same at most.
    pub bytes_max: u64,
    /// Blocks that writes needed and that it had.
    pub hits: u64,
    /// Blocks that writes needed and that were read.
    pub misses: u64,
}

/// Scrub.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ScrubReport {
    /// `running`, `done`, `stopped` or `interrupted` by a member that failed.
    pub state: String,
    /// Parities that are wrong are written anew.
    pub repair: bool,
    /// Progress in bytes of one member.
    #[serde(flatten)]
    pub progress: Progress,
    /// Sectors whose parities were not those of their data, as md's `mismatch_cnt`.
    pub mismatch_cnt: u64,
    /// Sectors that could not be compared.
    pub sectors_not_compared: u64,
    /// Members that alone are wrong in so many of these sectors: RAID-6 can tell.
    #[serde(default)]
    pub located: Vec<LocatedReport>,
}

/// Member that is wrong where parities do not fit.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct LocatedReport {
    pub role: u16,
    pub sectors: u64,
}

impl ScrubReport {
    /// A scrub that was begun.
    pub fn of(status: &ScrubStatus, bytes_per_second: Option<u64>) -> ScrubReport {
        let state = match status.state {
            ScrubState::Running => "running",
            ScrubState::Done => "done",
            ScrubState::Stopped => "stopped",
            ScrubState::Interrupted => "interrupted",
        };
        let bytes = |sectors: u64| sectors * SECTOR_BYTES_U64;
        ScrubReport {
            state: state.to_owned(),
            repair: status.repairs,
            progress: Progress::new(
                bytes(status.sectors_done),
                bytes(status.sectors_total),
                bytes_per_second,
            ),
            mismatch_cnt: status.mismatches,
            sectors_not_compared: status.sectors_not_compared,
            located: (0_u16..)
                .zip(status.located)
                .filter(|(_, sectors)| *sectors > 0)
                .map(|(role, sectors)| LocatedReport { role, sectors })
                .collect(),
        }
    }

    /// Exit code of a scrub that is over: 1 when damage is left, or a member was lost.
    pub fn exit(&self) -> Exit {
        let is_well = self.mismatch_cnt == 0 || self.repair;
        match self.state.as_str() {
            "done" if is_well && self.sectors_not_compared == 0 => Exit::Well,
            "stopped" => Exit::Failed,
            _ => Exit::Damage,
        }
    }
}

impl fmt::Display for ScrubReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.repair { "repair" } else { "check" };
        write!(f, "{what} {}, {}; mismatches: {} sectors", self.state, self.progress, self.mismatch_cnt)?;
        if self.repair && self.mismatch_cnt > 0 {
            f.write_str(", written anew")?;
        }
        for LocatedReport { role, sectors } in &self.located {
            write!(f, "; in {sectors} of them member {role} alone is wrong")?;
        }
        if self.sectors_not_compared > 0 {
            write!(f, "; {} sectors could not be compared", self.sectors_not_compared)?;
        }
        Ok(())
    }
}

/// Identity of an array; only its policy may change while it is served.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Identity {
    /// Array UUID.
    pub array: String,
    /// Name with the host that made it.
    pub name: String,
    /// `raid4`, `raid5` or `raid6`.
    pub level: String,
    /// Layout by md's name; null of RAID-4.
    pub layout: Option<String>,
    pub chunk_bytes: u64,
    /// Size of the volume.
    pub capacity_bytes: u64,
    /// `resync`, `bitmap`, `ppl` or `journal`.
    pub policy: String,
}

/// Member.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct MemberReport {
    pub role: u16,
    /// Path; null where none is known.
    pub path: Option<String>,
    /// `active`, `rebuilding` or `missing`.
    pub state: String,
    /// Progress of its rebuild; null where it is whole or missing.
    #[serde(default)]
    pub rebuild: Option<Progress>,
    /// Rows of 4 KiB that cannot be rebuilt until they are written.
    #[serde(default)]
    pub rows_stuck: u64,
    /// Device that is to replace it; null without one.
    #[serde(default)]
    pub replacement: Option<ReplacementReport>,
    /// Sectors of the device that it lists as bad: first and count of each range.
    #[serde(default)]
    pub bad_blocks: Vec<(u64, u64)>,
    /// Trouble with it at present; null without any.
    #[serde(default)]
    pub trouble: Option<String>,
    /// Operations that the kernel was given for it since the server opened it; null without a server.
    #[serde(default)]
    pub kernel_calls: Option<KernelCallsReport>,
}

/// Device that is to replace a member which works.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ReplacementReport {
    /// Path; null where none is known.
    pub path: Option<String>,
    /// Progress of the copy to it.
    #[serde(flatten)]
    pub progress: Progress,
    /// Rows of 4 KiB that cannot be copied until they are written.
    pub rows_stuck: u64,
    /// Trouble with it at present; null without any.
    pub trouble: Option<String>,
}

/// Journal.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct JournalReport {
    /// Path; null where none is known.
    pub path: Option<String>,
    /// `active`, or `failed`: the array is read-only.
    pub state: String,
    /// Bytes of its ring; null without a server.
    pub bytes: Option<u64>,
    /// Bytes that a replay would read; null without a server.
    pub bytes_used: Option<u64>,
    /// Trouble with it at present; null without any.
    pub trouble: Option<String>,
}

/// Regions of a bitmap.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct BitmapReport {
    pub regions: u64,
    pub regions_set: u64,
}

/// Blocks of 4 KiB and others, since the server started.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct CountersReport {
    /// Blocks that clients read and wrote.
    pub blocks_read: u64,
    pub blocks_written: u64,
    /// Blocks read for writes, and written: data and parities.
    pub member_blocks_read: u64,
    pub member_blocks_written: u64,
    /// Rows whose parities changed by differences, and were computed anew.
    pub rows_modified: u64,
    pub rows_reconstructed: u64,
    /// Blocks decoded because their member could not return them.
    pub blocks_decoded: u64,
    pub blocks_unreadable: u64,
    /// Parities that a resync found wrong.
    pub parities_resynced: u64,
    /// Rows that were written to members that are new, or came back, and to those that are to replace one.
    #[serde(default)]
    pub rows_rebuilt: u64,
    /// Blocks that were written to devices which are to replace a member: copies, and what was written meanwhile.
    #[serde(default)]
    pub replacement_blocks_written: u64,
    /// Writes over all members.
    pub superblock_writes: u64,
    pub bitmap_writes: u64,
    /// Blocks of partial parity logs, and of a journal.
    #[serde(default)]
    pub ppl_blocks_written: u64,
    #[serde(default)]
    pub journal_blocks_written: u64,
}

impl JournalReport {
    /// Journal of an array that is served.
    fn of(journal: JournalStatus) -> JournalReport {
        JournalReport {
            path: None,
            state: if journal.has_failed { "failed" } else { "active" }.to_owned(),
            bytes: Some(journal.sectors * SECTOR_BYTES_U64),
            bytes_used: Some(journal.sectors_used * SECTOR_BYTES_U64),
            trouble: None,
        }
    }
}

impl CountersReport {
    fn of(counters: &Counters) -> CountersReport {
        CountersReport {
            blocks_read: counters.read,
            blocks_written: counters.written,
            member_blocks_read: counters.read_for_writes,
            member_blocks_written: counters.member_written,
            rows_modified: counters.modified,
            rows_reconstructed: counters.reconstructed,
            blocks_decoded: counters.decoded,
            blocks_unreadable: counters.unreadable,
            parities_resynced: counters.resynced,
            rows_rebuilt: counters.rebuilt,
            replacement_blocks_written: counters.copied,
            superblock_writes: counters.superblocks,
            bitmap_writes: counters.bitmap_pages,
            ppl_blocks_written: counters.logged,
            journal_blocks_written: counters.journaled,
        }
    }
}

impl Identity {
    /// Identity as the members' superblocks say.
    pub fn of(assembly: &Assembly<'_>) -> Identity {
        let superblock = assembly.superblock();
        let shape = superblock.shape;
        Identity {
            array: assembly.array.to_string(),
            name: superblock.name(),
            level: names::level(shape.level).unwrap_or("unknown").to_owned(),
            layout: names::layout(shape.level, shape.layout).map(str::to_owned),
            chunk_bytes: u64::from(shape.chunk) * SECTOR_BYTES_U64,
            capacity_bytes: array_bytes(superblock).and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0),
            policy: word(assembly.policy()).to_owned(),
        }
    }
}

impl Report {
    /// State of an array that is not served, as its members say.
    pub fn of_assembly(assembly: &Assembly<'_>, paths: &[Option<String>]) -> Report {
        let superblock = assembly.superblock();
        let size = superblock.shape.size;
        let recovered = |role: u16| {
            assembly.devices.iter().find_map(|(_, part)| match part {
                Part::Recovering(other, sectors) if other.0 == role => Some((*sectors).min(size)),
                _ => None,
            })
        };
        let mut members = members(paths, |role| match recovered(role) {
            Some(sectors) => MemberState::Rebuilding(progress_of(sectors, size, None), 0),
            None if assembly.missing.contains(&Role(role)) => MemberState::Missing,
            None => MemberState::Active,
        });
        for (member, part) in &assembly.devices {
            if let Part::Replacement(role, sectors) = part {
                members[role.index()].replacement = Some(ReplacementReport {
                    path: Some(member.name.clone()),
                    progress: progress_of((*sectors).min(size), size, None),
                    rows_stuck: 0,
                    trouble: None,
                });
            }
        }
        let state = match (assembly.can_be_served(), assembly.is_degraded(), superblock.is_clean()) {
            (false, ..) => "failed",
            (true, true, _) if assembly.absent().is_empty() => "rebuilding",
            (true, true, _) => "degraded",
            (true, false, _) if members.iter().any(|member| member.replacement.is_some()) => "replacing",
            (true, false, true) => "clean",
            (true, false, false) => "active",
        };
        let regions =
            assembly.devices[assembly.newest].0.bitmap.as_ref().and_then(|found| found.as_ref().ok());
        let bitmap = regions.map(|bitmap| BitmapReport {
            regions: bitmap.bits.regions(),
            regions_set: u64::try_from(bitmap.bits.set().count()).unwrap_or(u64::MAX),
        });
        let is_spare = |(_, part): &&(_, Part)| *part == Part::Spare;
        let spares =
            assembly.devices.iter().filter(is_spare).map(|(member, _)| member.name.clone()).collect();
        Report {
            format: "md".to_owned(),
            identity: Identity::of(assembly),
            served: false,
            read_only: false,
            state: state.to_owned(),
            refused: (!assembly.can_be_served()).then(|| assembly.in_words()),
            members,
            spares,
            journal: journal_of(assembly).map(|member| JournalReport {
                path: Some(member.name.clone()),
                state: "active".to_owned(),
                bytes: None,
                bytes_used: None,
                trouble: None,
            }),
            events: superblock.state.events,
            dirty: !superblock.is_clean(),
            bitmap,
            upkeep: Upkeep::default(),
            cache: None,
            counters: None,
            member_io: None,
        }
    }

    /// State of an array that is served.
    pub fn of_service(
        identity: &Identity,
        status: &Status,
        paths: &[Option<String>],
        bytes_per_second: Option<u64>,
    ) -> Report {
        let members = members(paths, |role| {
            let rebuilding = status.rebuilding.iter().find(|member| member.role.0 == role);
            match rebuilding {
                Some(member) => MemberState::Rebuilding(
                    progress_of(member.sectors_done, member.sectors_total, bytes_per_second),
                    u64::try_from(member.rows_stuck).unwrap_or(u64::MAX),
                ),
                None if status.missing.contains(&Role(role)) => MemberState::Missing,
                None => MemberState::Active,
            }
        });
        let state = match status {
            Status { is_broken: true, .. } => "failed",
            Status { journal: Some(JournalStatus { has_failed: true, .. }), .. } => "read-only",
            Status { missing, .. } if !missing.is_empty() => "degraded",
            Status { rebuilding, .. } if !rebuilding.is_empty() => "rebuilding",
            Status { is_resyncing: true, .. } => "resyncing",
            Status { replacing, .. } if !replacing.is_empty() => "replacing",
            Status { mark: Mark::Dirty | Mark::Unsure, .. } => "active",
            Status { mark: Mark::Clean, .. } => "clean",
        };
        let mut members = members;
        for replacing in &status.replacing {
            members[replacing.role.index()].replacement = Some(ReplacementReport {
                path: None,
                progress: progress_of(replacing.sectors_done, replacing.sectors_total, bytes_per_second),
                rows_stuck: u64::try_from(replacing.rows_stuck).unwrap_or(u64::MAX),
                trouble: None,
            });
        }
        for (role, entries) in &status.bad_blocks {
            members[role.index()].bad_blocks =
                entries.iter().map(|entry| (entry.sector, entry.sectors)).collect();
        }
        let counters = status.counters;
        Report {
            format: "md".to_owned(),
            identity: identity.clone(),
            served: true,
            read_only: status.is_read_only,
            state: state.to_owned(),
            refused: None,
            members,
            spares: Vec::new(),
            journal: status.journal.map(JournalReport::of),
            events: status.events,
            dirty: status.mark != Mark::Clean,
            bitmap: status.regions.map(|(set, regions)| BitmapReport {
                regions,
                regions_set: u64::try_from(set).unwrap_or(u64::MAX),
            }),
            upkeep: Upkeep::of(status, bytes_per_second),
            cache: Some(CacheReport {
                bytes: status.cache.0,
                bytes_max: status.cache.1,
                hits: counters.cache_hits,
                misses: counters.cache_misses,
            }),
            counters: Some(CountersReport::of(&status.counters)),
            member_io: Some(MemberIoReport::of(&status.counters)),
        }
    }

    /// Exit code that tells the state.
    pub fn exit(&self) -> Exit {
        match self.state.as_str() {
            "clean" | "active" | "resyncing" | "replacing" => Exit::Well,
            "degraded" | "rebuilding" => Exit::Degraded,
            _ => Exit::Failed,
        }
    }
}

/// State of a member.
enum MemberState {
    Active,
    /// Progress of the rebuild, and how many rows are stuck.
    Rebuilding(Progress, u64),
    Missing,
}

fn progress_of(sectors: u64, total: u64, bytes_per_second: Option<u64>) -> Progress {
    Progress::new(sectors * SECTOR_BYTES_U64, total * SECTOR_BYTES_U64, bytes_per_second)
}

fn members(paths: &[Option<String>], state_of: impl Fn(u16) -> MemberState) -> Vec<MemberReport> {
    let report = |(role, path): (u16, &Option<String>)| {
        let (state, rebuild, rows_stuck) = match state_of(role) {
            MemberState::Active => ("active", None, 0),
            MemberState::Rebuilding(progress, stuck) => ("rebuilding", Some(progress), stuck),
            MemberState::Missing => ("missing", None, 0),
        };
        MemberReport {
            role,
            path: path.clone(),
            state: state.to_owned(),
            rebuild,
            rows_stuck,
            replacement: None,
            bad_blocks: Vec::new(),
            trouble: None,
            kernel_calls: None,
        }
    };
    (0_u16..).zip(paths).map(report).collect()
}

/// Path of the member that has, or had last, each role.
pub fn paths_by_role(assembly: &Assembly<'_>) -> Vec<Option<String>> {
    let roles = usize::try_from(assembly.superblock().shape.members).unwrap_or(0);
    let mut paths = vec![None; roles];
    let mut put = |role: Role, path: &str| {
        if let Some(place) = paths.get_mut(role.index()).filter(|place: &&mut Option<String>| place.is_none())
        {
            *place = Some(path.to_owned());
        }
    };
    for (member, part) in &assembly.devices {
        if let Part::Active(role) | Part::Recovering(role, _) = part {
            put(*role, &member.name);
        }
    }
    for (member, part) in &assembly.devices {
        if let (Part::Stale, RoleEntry::Member(role)) = (part, member.superblock().role()) {
            put(role, &member.name);
        }
    }
    paths
}

/// Paths of devices that are to replace members, by their places.
pub fn replacements_by_place(assembly: &Assembly<'_>) -> BTreeMap<Role, String> {
    let of = |(member, part): &(&Member, Part)| match part {
        Part::Replacement(role, _) => Some((role.replacement(), member.name.clone())),
        _ => None,
    };
    assembly.devices.iter().filter_map(of).collect()
}

impl Report {
    /// Cache in use, and traffic to and from members.
    fn fmt_traffic(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(CacheReport { bytes, bytes_max, hits, misses }) = &self.cache {
            let (bytes, bytes_max) = (human_bytes(*bytes), human_bytes(*bytes_max));
            writeln!(
                f,
                "cache     {bytes} of {bytes_max}; of the blocks that writes needed {hits} were there, {misses} read"
            )?;
        }
        if let Some(counters) = &self.counters {
            writeln!(
                f,
                "blocks    {} read, {} written; of members {} read for that and {} written",
                counters.blocks_read,
                counters.blocks_written,
                counters.member_blocks_read,
                counters.member_blocks_written
            )?;
            if counters.blocks_decoded + counters.blocks_unreadable > 0 {
                writeln!(
                    f,
                    "          {} decoded, {} unreadable",
                    counters.blocks_decoded, counters.blocks_unreadable
                )?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for MemberReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MemberReport {
            role,
            path,
            state,
            rebuild,
            rows_stuck,
            replacement,
            bad_blocks,
            trouble,
            kernel_calls,
        } = self;
        let path = path.as_deref().unwrap_or("-");
        let trouble = trouble.as_ref().map(|trouble| format!(": {trouble}")).unwrap_or_default();
        writeln!(f, "member {role:<2} {state} {path}{trouble}")?;
        if let Some(rebuild) = rebuild {
            writeln!(f, "          {rebuild}")?;
        }
        if *rows_stuck > 0 {
            writeln!(f, "          {rows_stuck} rows of 4 KiB cannot be rebuilt until they are written")?;
        }
        if let Some(ReplacementReport { path, progress, rows_stuck, trouble }) = replacement {
            let path = path.as_deref().unwrap_or("-");
            let trouble = trouble.as_ref().map(|trouble| format!(": {trouble}")).unwrap_or_default();
            writeln!(f, "          replaced by {path}{trouble}: {progress}")?;
            if *rows_stuck > 0 {
                writeln!(f, "          {rows_stuck} rows of 4 KiB cannot be copied until they are written")?;
            }
        }
        for (sector, sectors) in bad_blocks {
            writeln!(f, "          bad on {sector} for {sectors} sectors")?;
        }
        if let Some(calls) = kernel_calls {
            writeln!(f, "          {}", calls.in_words())?;
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Identity { array, name, level, layout, chunk_bytes, capacity_bytes, policy } = &self.identity;
        let layout = layout.as_ref().map(|layout| format!(" {layout}")).unwrap_or_default();
        writeln!(f, "array     {array} ({name}), Linux md")?;
        let served = match (self.served, self.read_only) {
            (true, true) => "served read-only",
            (true, false) => "served",
            (false, _) => "not served",
        };
        writeln!(f, "state     {}, {served}", self.state)?;
        if let Some(refused) = &self.refused {
            writeln!(f, "          {refused}")?;
        }
        let chunk = human_bytes(*chunk_bytes);
        writeln!(f, "level     {level}{layout}, {} members, chunks of {chunk}", self.members.len())?;
        writeln!(f, "capacity  {}", human_bytes(*capacity_bytes))?;
        let bitmap = self
            .bitmap
            .map(|BitmapReport { regions, regions_set }| format!(", {regions_set} of {regions} regions set"));
        let dirty = if self.dirty { "dirty" } else { "clean" };
        writeln!(
            f,
            "parities  {dirty}, policy {policy}{}; events {}",
            bitmap.unwrap_or_default(),
            self.events
        )?;
        write!(f, "{}", self.upkeep)?;
        self.members.iter().try_for_each(|member| write!(f, "{member}"))?;
        if let Some(JournalReport { path, state, bytes, bytes_used, trouble }) = &self.journal {
            let path = path.as_deref().unwrap_or("-");
            let trouble = trouble.as_ref().map(|trouble| format!(": {trouble}")).unwrap_or_default();
            let used = bytes_used
                .zip(*bytes)
                .map(|(used, all)| format!(", {} of {} in use", human_bytes(used), human_bytes(all)));
            writeln!(f, "journal   {state} {path}{}{trouble}", used.unwrap_or_default())?;
        }
        for path in &self.spares {
            writeln!(f, "spare     {path}")?;
        }
        self.fmt_traffic(f)
    }
}
