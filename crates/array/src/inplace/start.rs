//! Start of a served array: an engine of members that were judged together. Nothing is written.

use super::bad_blocks::BadBlocks;
use super::cache::{CACHE_BYTES, Cache};
use super::clients::Clients;
use super::core::{Background, Core, WriteAhead};
use super::journal::{self, Journal};
use super::logs::{self, Logs, SECTORS_MIN};
use super::map::{Map, STRIP_ROWS_MAX};
use super::members::{Members, role};
use super::missed::Missed;
use super::newcomer::Newcomer;
use super::pages::{PAGE_BYTES, Pages};
use super::policy::PolicyState;
use super::recovery::Recovery;
use super::replay::Replay;
use super::scribe::Scribe;
use super::stock::Stock;
use super::strips::Strips;
use super::sync::{Believed, Sync};
use super::window::{Manner, Window};
use super::{Counters, InPlace};
use crate::pacer::Rates;
use base::slab::Slab;
use block::md::SECTOR_BYTES_U64;
use block::md::assembly::{Assembly, Part, Policy, journal_unsynced_from};
use block::md::bitmap::Bits;
use block::md::geometry::Geometry;
use block::md::member::{Bitmap, Member};
use block::md::policy::levelled;
use block::md::ppl::verdict::unsynced_from;
use block::md::reader::ROW_SECTORS;
use block::md::recovered::Recovered;
use block::md::returning::spare;
use block::md::superblock::{SUPERBLOCK_SECTORS, Shape, Superblock, feature};
use block::md::{MEMBERS_MAX, Role};
use std::fmt;
use std::ops::Range;

/// Memory and time of an engine.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// Frames that clients may have.
    pub client_frames: usize,
    /// Frames of strips in work.
    pub strip_frames: usize,
    /// Bytes of the cache, at most.
    pub cache_bytes: u64,
    /// Manner in which writes of a part of a strip wait for the rest.
    pub window: Manner,
    /// Time of the engine's zero in seconds since 1970.
    pub began: u64,
    /// Nothing may be written to members.
    pub is_read_only: bool,
}

/// Frames that one round may need: all old and all new pieces of a strip.
const ROUND_FRAMES_MAX: usize = 2 * 32 * 128;

impl Default for Tuning {
    fn default() -> Tuning {
        assert!(u64::try_from(ROUND_FRAMES_MAX) == Ok(2 * u64::from(MEMBERS_MAX) * STRIP_ROWS_MAX));
        Tuning {
            client_frames: 8192,
            strip_frames: 2 * ROUND_FRAMES_MAX,
            cache_bytes: CACHE_BYTES,
            window: Manner::default(),
            began: 0,
            is_read_only: false,
        }
    }
}

/// Reason why an array that md would serve is not served here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotServed {
    /// It is refused, in words.
    Refused(String),
    /// Partial parity log that was not read.
    Ppl,
    /// Member whose partial parity log has too few sectors, or none.
    PplRoom(String, u64),
    /// Partial parity log with a generation that cannot be counted on.
    PplGeneration(u64),
    /// Member that lists bad blocks, beside a partial parity log.
    PplBadBlocks(String),
    /// Journal that was not read.
    Journal,
    /// Journal with so many sectors, too few for the rows of so many members.
    JournalRoom(u64, u64),
    /// Member that lists bad blocks, beside a journal.
    JournalBadBlocks(String),
    /// Copy in the making of a member that still works, beside a log.
    Replacement(String),
    /// Member whose bad-block log counts in units of several sectors.
    BadBlocks(String),
    /// Member without a bitmap that others have.
    NoBitmap(String),
    /// Bitmap whose pages overlap something else.
    BitmapRoom(String),
    /// Log that has so many blocks which members lack, where nothing may be written.
    LogAhead(usize),
    /// Chunk or size that cannot be.
    Shape,
}

impl fmt::Display for NotServed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotServed::Refused(words) => write!(f, "the array {words}"),
            NotServed::Ppl => f.write_str("the array has a partial parity log, which was not read"),
            NotServed::PplRoom(member, sectors) => write!(
                f,
                "{member}: its partial parity log has {sectors} sectors, and {SECTORS_MIN} are the least: \
                 `mdadm --grow --consistency-policy=resync` takes it away"
            ),
            NotServed::PplGeneration(generation) => write!(
                f,
                "a header of the partial parity log has generation {generation}, which no array comes to: it is damaged. \
                 Assembled with mdadm and stopped, the array gets new ones"
            ),
            NotServed::PplBadBlocks(member) => write!(
                f,
                "{member} lists bad blocks, which are not served here beside a partial parity log: \
                 `mdadm --grow --consistency-policy=resync` takes the log away"
            ),
            NotServed::Journal => f.write_str("the array has a journal, which was not read"),
            NotServed::JournalRoom(sectors, members) => write!(
                f,
                "the journal has {sectors} sectors for data, which is too few for an array of {members} members"
            ),
            NotServed::JournalBadBlocks(member) => write!(
                f,
                "{member} lists bad blocks, which are not served here beside a journal: replace the member with mdadm"
            ),
            NotServed::Replacement(member) => write!(
                f,
                "{member} is the copy in the making of a member that still works, which is not served here beside a partial parity log or a \
                 journal: let md finish that, or leave it out"
            ),
            NotServed::BadBlocks(member) => write!(
                f,
                "{member} lists bad blocks in units of more than a sector, which mdadm does not make: leave the member out"
            ),
            NotServed::NoBitmap(member) => {
                write!(f, "{member} has no bitmap, though other members have one: leave the member out")
            }
            NotServed::BitmapRoom(member) => {
                write!(f, "{member}: whole pages of its bitmap of 4 KiB do not fit where it lies")
            }
            NotServed::LogAhead(blocks) => write!(
                f,
                "the log or journal of the array has {blocks} blocks that its members lack, and read-only they would never get them: \
                 serve it without --readonly, or copy the volume with `zoneweave md read`"
            ),
            NotServed::Shape => f.write_str("the array's chunk or size cannot be served"),
        }
    }
}

impl std::error::Error for NotServed {}

/// True of a device that is, or was, to replace a member, and is not whole.
fn is_replacement(member: &Member) -> bool {
    member.superblock().has(feature::REPLACEMENT) && member.superblock().has(feature::RECOVERY_OFFSET)
}

/// Role and member of each device that serves, those that are being recovered included. Devices that are to replace a member have
/// places of their own ([`Role::replacement`]).
///
/// # Errors
/// When the array is not served here.
pub fn members_of<'a>(assembly: &Assembly<'a>) -> Result<Vec<(Role, &'a Member)>, NotServed> {
    if !assembly.can_be_served() {
        return Err(NotServed::Refused(assembly.in_words()));
    }
    let mut found = Vec::new();
    for (member, part) in &assembly.devices {
        match part {
            Part::Active(role) | Part::Recovering(role, _) => found.push((*role, *member)),
            Part::Replacement(role, _) => found.push((role.replacement(), *member)),
            Part::Journal | Part::Spare | Part::Stale => continue,
        }
        if is_replacement(member) && matches!(assembly.policy(), Policy::Ppl | Policy::Journal) {
            return Err(NotServed::Replacement(member.name.clone()));
        }
        let has_entries = member.bad_blocks.as_ref().is_ok_and(|entries| !entries.is_empty());
        if has_entries && assembly.policy() == Policy::Ppl {
            return Err(NotServed::PplBadBlocks(member.name.clone()));
        }
        if has_entries && assembly.policy() == Policy::Journal {
            return Err(NotServed::JournalBadBlocks(member.name.clone()));
        }
        if has_entries && member.superblock().device.bad_blocks.shift != 0 {
            return Err(NotServed::BadBlocks(member.name.clone()));
        }
        if assembly.policy() == Policy::Ppl {
            let sectors = superblock_in(assembly, member).ppl_place().map_or(0, |(_, sectors)| sectors);
            if sectors < SECTORS_MIN {
                return Err(NotServed::PplRoom(member.name.clone(), sectors));
            }
        }
        if assembly.policy() == Policy::Bitmap {
            let superblock = superblock_in(assembly, member);
            let has_own = member.superblock().has(feature::BITMAP);
            let of = if has_own { *member } else { assembly.devices[assembly.newest].0 };
            let bitmap = of.bitmap.as_ref().and_then(|bitmap| bitmap.as_ref().ok());
            let bitmap = bitmap.filter(|_| superblock.has(feature::BITMAP));
            let bitmap = bitmap.ok_or_else(|| NotServed::NoBitmap(member.name.clone()))?;
            if !has_room(&superblock, bitmap) {
                return Err(NotServed::BitmapRoom(member.name.clone()));
            }
        }
    }
    Ok(found)
}

/// Superblock of a member: what all agree on, and who belongs to the array, is what the newest says. The consistency policy is so of a
/// clean array alone: a change of it was cut off.
fn superblock_in(assembly: &Assembly<'_>, member: &Member) -> Superblock {
    let (own, newest) = (member.superblock(), assembly.superblock());
    let (features, log) = if newest.is_clean() { levelled(own, newest) } else { (own.features, own.log) };
    Superblock { device: own.device.clone(), features, log, ..newest.clone() }
}

/// Spares, with the superblocks that they get as members. Who is no spare by its own account is left out.
#[must_use]
pub fn spares_of<'a>(assembly: &Assembly<'a>) -> Vec<(&'a Member, Superblock)> {
    let newest = assembly.devices[assembly.newest].0;
    let bitmap = newest.bitmap.as_ref().and_then(|bitmap| bitmap.as_ref().ok());
    let bitmap_bytes = bitmap.map_or(0, |bitmap| bitmap.head.bytes());
    // The newest may be one that is being recovered, or a spare itself.
    let member = assembly.devices.iter().find(|(_, part)| matches!(part, Part::Active(_)));
    let Some((member, _)) = member else { return Vec::new() };
    let of = |device: &'a Member| Some((device, spare(member.superblock(), device, bitmap_bytes).ok()?));
    let spares = assembly.devices.iter().filter(|(_, part)| *part == Part::Spare);
    spares.filter_map(|(device, _)| of(device)).collect()
}

/// True when whole pages of the bitmap overlap nothing else.
fn has_room(superblock: &Superblock, bitmap: &Bitmap) -> bool {
    let Some(start) = superblock.bitmap_sector() else { return false };
    let page_sectors = u64::try_from(PAGE_BYTES).expect("4096") / SECTOR_BYTES_U64;
    let end = start + bitmap.head.bytes().div_ceil(page_sectors * SECTOR_BYTES_U64) * page_sectors;
    let device = &superblock.device;
    let mut others = vec![
        device.super_offset..device.super_offset + SUPERBLOCK_SECTORS,
        device.data_offset..device.data_offset + superblock.shape.size,
    ];
    others.extend(superblock.bad_block_place().map(|(start, sectors)| start..start + sectors));
    others.iter().all(|other: &Range<u64>| end <= other.start || other.end <= start)
}

/// Rows whose parities may not be right.
fn unsynced(assembly: &Assembly<'_>, map: &Map) -> Sync {
    let superblock = assembly.superblock();
    if superblock.is_clean() {
        return Sync::default();
    }
    let from = match assembly.policy() {
        Policy::Ppl => Some(unsynced_from(assembly)),
        Policy::Journal => Some(journal_unsynced_from(assembly)),
        Policy::Resync | Policy::Bitmap => None,
    };
    if let Some(from) = from {
        return Sync::new(from.map(|sector| sector / ROW_SECTORS..map.rows()));
    }
    let bitmap = assembly.devices[assembly.newest].0.bitmap.as_ref().and_then(|bitmap| bitmap.as_ref().ok());
    match bitmap.filter(|_| assembly.policy() == Policy::Bitmap) {
        None => Sync::new(std::iter::once(superblock.state.resync_offset / ROW_SECTORS..map.rows())),
        Some(bitmap) if bitmap.head.is_void(superblock.state.events) => {
            Sync::new(std::iter::once(0..map.rows()))
        }
        Some(bitmap) => {
            let sectors = bitmap.head.region_sectors();
            let rows = |region: u64| {
                let end = ((region + 1) * sectors).div_ceil(ROW_SECTORS);
                region * sectors / ROW_SECTORS..end.min(map.rows())
            };
            Sync::new(bitmap.bits.set().map(rows))
        }
    }
}

/// The same, of an array whose parities an operator takes for right. Where no more members may be missing, and none of these is there
/// in part, nothing is left that could say otherwise.
fn forced(assembly: &Assembly<'_>, unsynced: Sync, members: &Members) -> Sync {
    let parities = members.parities();
    if assembly.missing.len() == parities && assembly.absent().len() == parities {
        return Sync::default();
    }
    let newcomer = |role: Role| members.newcomers().find(|(place, _)| *place == role.index());
    let believed =
        |role: &Role| Believed { role: *role, there: newcomer(*role).map(|(_, there)| there.clone()) };
    unsynced.believing(assembly.missing.iter().map(believed).collect())
}

/// A member that is being recovered, in an array of so many rows; `None` where it is whole.
fn newcomer(superblock: &Superblock, pages: Option<&Pages>, rows: u64) -> Option<Newcomer> {
    if !superblock.has(feature::RECOVERY_OFFSET) {
        return None;
    }
    let done = (superblock.device.recovery_offset / ROW_SECTORS).min(rows);
    // By bits that say nothing, all of it is recovered.
    let by_bits = pages.filter(|pages| superblock.has(feature::RECOVERY_BITMAP) && !pages.is_void());
    Some(match by_bits {
        Some(pages) => Newcomer::returned_at(done, Missed::of(pages, rows)),
        None => Newcomer::recorded_at(done),
    })
}

/// A device that is to replace a member. What a crash left of a row on the member may lie otherwise on it, or not at all: it counts
/// below the first row whose parities are not known to be right.
fn replacement(superblock: &Superblock, sync: &Sync, rows: u64) -> Newcomer {
    let offset = superblock.device.recovery_offset / ROW_SECTORS;
    let done = if superblock.has(feature::RECOVERY_OFFSET) { offset.min(rows) } else { rows };
    Newcomer::recorded_at(sync.first().map_or(done, |row| done.min(row)))
}

/// Map of a shape, where it can be served.
pub(super) fn map_of(shape: &Shape, has_logs: bool) -> Option<Map> {
    let strip_rows_max = if has_logs { logs::STRIP_ROWS_MAX } else { STRIP_ROWS_MAX };
    Map::with_strips(Geometry::of(shape)?, strip_rows_max)
}

/// Journal device of an array that has one.
#[must_use]
pub fn journal_of<'a>(assembly: &Assembly<'a>) -> Option<&'a Member> {
    let has_journal = assembly.policy() == Policy::Journal;
    let device = assembly.devices.iter().find(|(_, part)| *part == Part::Journal && has_journal);
    device.map(|(member, _)| *member)
}

/// Map of an array, and its journal.
fn map_and_journal(
    assembly: &Assembly<'_>,
    recovered: &Recovered,
) -> Result<(Map, Option<Journal>), NotServed> {
    let shape = assembly.superblock().shape;
    let Some(device) = journal_of(assembly) else {
        let map = map_of(&shape, assembly.policy() == Policy::Ppl).ok_or(NotServed::Shape)?;
        return Ok((map, None));
    };
    let (sectors, members) = (device.superblock().device.data_size, u64::from(shape.members));
    let rows = journal::strip_rows(sectors, members).ok_or(NotServed::JournalRoom(sectors, members))?;
    let geometry = Geometry::of(&shape).ok_or(NotServed::Shape)?;
    let map = Map::with_strips(geometry, rows).ok_or(NotServed::Shape)?;
    assert!(
        map.strip_rows() <= rows,
        "strips of {} rows where the journal has room for {rows}",
        map.strip_rows()
    );
    let end = recovered.journal.as_ref().ok_or(NotServed::Journal)?;
    let role = role(usize::from(geometry.members()));
    Ok((map, Some(Journal::new(device.superblock(), role, end))))
}

/// Largest generation that headers go on from.
const GENERATION_MAX: u64 = u64::MAX / 2;

/// Logs of the members, whose superblocks say where they lie.
fn logs_of(
    superblocks: &[Option<Superblock>],
    newest: &Superblock,
    generation: u64,
) -> Result<Logs, NotServed> {
    if generation > GENERATION_MAX {
        return Err(NotServed::PplGeneration(generation));
    }
    assert!(newest.ppl_place().is_some(), "logs of an array whose newest superblock names none");
    let place = |superblock: &Option<Superblock>| superblock.as_ref().and_then(Superblock::ppl_place);
    let places: Vec<Option<(u64, u64)>> = superblocks.iter().map(place).collect();
    Ok(Logs::new(&places, newest, generation))
}

/// Bits of the newest bitmap and of those of all members; `None` where that is not the policy.
fn pages_of(assembly: &Assembly<'_>, found: &[(Role, &Member)]) -> Option<Pages> {
    let bitmap_of = |member: &Member| member.bitmap.as_ref()?.as_ref().ok().cloned();
    let bitmap = bitmap_of(assembly.devices[assembly.newest].0);
    let bitmap = bitmap.filter(|_| assembly.policy() == Policy::Bitmap)?;
    let is_void = bitmap.head.is_void(assembly.superblock().state.events);
    let mut pages = Pages::new(&bitmap.head, &bitmap.bits, is_void);
    assert!(bitmap.bits.regions() > 0, "a bitmap of an array with rows has a bit for its first region");
    // A member without a bitmap has one, without bits, if a change of the policy was cut off.
    let none = Bits::none(bitmap.bits.regions());
    for (_, member) in found {
        pages.note_member(bitmap_of(member).as_ref().map_or(&none, |own| &own.bits));
    }
    Some(pages)
}

/// Scribe of superblocks as they are, of which some may have missed the last update.
fn scribe_of(
    assembly: &Assembly<'_>,
    [found, beside]: [&[(Role, &Member)]; 2],
    superblocks: Vec<Option<Superblock>>,
    began: u64,
) -> Scribe {
    let newest = assembly.superblock();
    let mut scribe = Scribe::new(superblocks, newest.state.events, newest.is_clean(), began);
    let is_lagging = |member: &Member| member.events() < newest.state.events;
    for (place, member) in beside {
        scribe.roster.put(place.index(), superblock_in(assembly, member));
    }
    scribe.set_named(beside.iter().map(|(place, _)| place.of_member().index()).collect());
    // Replacements are behind as long as the array is not clean, and first in each record.
    let lagging = found.iter().filter(|(_, member)| is_lagging(member));
    lagging.for_each(|(role, _)| scribe.roster.note_lagging(role.index()));
    if let Some(device) = journal_of(assembly) {
        scribe.roster.set_journal(superblock_in(assembly, device), is_lagging(device));
    }
    let numbers = assembly.devices.iter().map(|(member, _)| member.superblock().device.number.0);
    scribe.roster.take_numbers(numbers);
    scribe
}

/// Engine of an array without a log; `is_volatile` says whether a member's writes are durable only with a flush.
///
/// # Errors
/// When the array is not served here.
pub fn start(
    assembly: &Assembly<'_>,
    is_volatile: impl Fn(Role) -> bool,
    tuning: Tuning,
) -> Result<InPlace, NotServed> {
    match assembly.policy() {
        Policy::Ppl => Err(NotServed::Ppl),
        _ => start_recovered(assembly, Recovered::default(), is_volatile, tuning),
    }
}

/// The same of an array whose log was read ([`block::md::recovered::recover`]): what it says is written first.
///
/// # Errors
/// When the array is not served here.
pub fn start_recovered(
    assembly: &Assembly<'_>,
    mut recovered: Recovered,
    is_volatile: impl Fn(Role) -> bool,
    tuning: Tuning,
) -> Result<InPlace, NotServed> {
    let found = members_of(assembly)?;
    let newest = assembly.superblock();
    let has_logs = assembly.policy() == Policy::Ppl;
    let (map, journal) = map_and_journal(assembly, &recovered)?;
    let roles = usize::from(map.geometry().members());
    assert!(tuning.strip_frames >= 3 * roles * usize::try_from(map.strip_rows()).expect("at most 128"));
    let (found, beside): (Vec<_>, Vec<_>) = found.into_iter().partition(|(role, _)| !role.is_replacement());
    let mut superblocks: Vec<Option<Superblock>> = vec![None; roles];
    for (role, member) in &found {
        let before = superblocks[role.index()].replace(superblock_in(assembly, member));
        assert!(before.is_none(), "two members with role {role}");
    }
    let placed: Vec<Option<(u64, bool)>> = superblocks
        .iter()
        .enumerate()
        .map(|(index, superblock)| {
            let superblock = superblock.as_ref()?;
            Some((superblock.device.data_offset, is_volatile(role(index))))
        })
        .collect();
    let pages = pages_of(assembly, &[&found[..], &beside[..]].concat());
    let mut bad_blocks =
        if has_logs || journal.is_some() { BadBlocks::unused() } else { BadBlocks::default() };
    for (place, member) in found.iter().chain(&beside) {
        let entries = member.bad_blocks.clone().expect("members that were judged");
        bad_blocks.set_member(place.index(), entries, member.superblock());
    }
    let mut members = Members::new(&placed, usize::from(map.geometry().parities()));
    let mut cursor = map.rows();
    for (role, member) in &found {
        if let Some(newcomer) = newcomer(member.superblock(), pages.as_ref(), map.rows()) {
            cursor = cursor.min(newcomer.done());
            members.demote(*role, newcomer);
        }
    }
    let mut sync = unsynced(assembly, &map);
    for (place, member) in &beside {
        let newcomer = replacement(member.superblock(), &sync, map.rows());
        cursor = cursor.min(newcomer.done());
        let placed = (member.superblock().device.data_offset, is_volatile(*place));
        members.add_replacement(place.of_member(), newcomer, placed);
    }
    recovered.in_doubt.iter().for_each(|row| sync.note_stuck(row.0 / ROW_SECTORS));
    if assembly.is_forced {
        sync = forced(assembly, sync, &members);
    }
    let logs = has_logs.then(|| logs_of(&superblocks, newest, recovered.generation)).transpose()?;
    // Beside a journal no array is marked dirty.
    let may_be_cached = journal.is_some() || (has_logs && !newest.is_clean());
    let replay = journal::replay_of(journal.as_ref(), &mut recovered, may_be_cached);
    if tuning.is_read_only {
        match replay.blocks() {
            0 => members.forbid_writes(),
            blocks => return Err(NotServed::LogAhead(blocks)),
        }
    }
    assert!(
        members.is_broken() || members.absent().count() <= members.parities() || assembly.is_forced,
        "an array is served without {:?}, more members than it has parities",
        members.absent()
    );
    let scribe = scribe_of(assembly, [&found[..], &beside[..]], superblocks, tuning.began);
    let mut engine = plain(map, members, scribe, &tuning);
    let core = engine.core_mut();
    core.sync = sync;
    core.policy = PolicyState::new(assembly.policy());
    core.ahead = WriteAhead { logs, journal, replay };
    core.background.recovery = Recovery::from_row(cursor);
    core.pages = pages;
    core.bad_blocks = bad_blocks;
    Ok(engine)
}

/// Engine in which nothing is under way, of an array with neither log nor bitmap, all of whose parities are right.
pub(super) fn plain(map: Map, members: Members, scribe: Scribe, tuning: &Tuning) -> InPlace {
    let cache = Cache::new(tuning.cache_bytes, members.count());
    let core = Core {
        sync: Sync::default(),
        policy: PolicyState::new(Policy::Resync),
        ahead: WriteAhead { logs: None, journal: None, replay: Replay::new(None, Vec::new(), false) },
        members,
        background: Background {
            sweeps: super::sweep::Sweeps::new(Rates::default()),
            recovery: Recovery::from_row(map.rows()),
            scrub: super::scrub::Scrub::default(),
        },
        map,
        stock: Stock::new(tuning.client_frames, tuning.strip_frames).with_kept(cache.frames_max()),
        table: super::table::Table::default(),
        requests: super::requests::Requests::default(),
        scribe,
        pages: None,
        bad_blocks: BadBlocks::default(),
        counters: Counters::default(),
        is_stopping: false,
        place: super::shards::Place::default(),
    };
    let strips = Strips { core, cache, window: Window::new(tuning.window), commands: Slab::default() };
    InPlace { clients: Clients { strips, direct: Slab::default() } }
}
