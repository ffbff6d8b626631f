//! Making a cache, and finding it again.
//!
//! ```text
//!   superblocks -> who is believed -> zones page by page -> journals decide -> index
//!                                                              \-> entries and resets, before clients come
//! ```
//! There is no clean start: a mount after a stop in good order does the same as one after a crash. What a mount writes
//! are superblocks, journal entries and resets; cut short and repeated, it decides the same.

mod decide;
mod directories;
mod found;
mod list;
mod log;
mod media;
mod members;
mod memory;
mod pages;
mod quorum;
mod reader;
mod scan;

use crate::config::{CacheConfig, DrivesError, Options, check_drives};
use crate::format::NAMESPACES;
use crate::format::journal::JournalBlock;
use crate::format::stamp::{Kind, Life, Stamp};
use crate::format::superblock::{Clears, Member, Standing, Superblock};
use crate::index::PAGES_MAX;
use crate::request::WallMillis;
use crate::shard::{Drive, Identity, Membership, Recovered, Shard, Zone, ZoneUse, stamp_superblock};
use crate::shared::Host;
use crate::spread::{Spread, identity_of};
use crate::status::Recovery;
use crate::volume::CacheVolume;
use base::frame::Frame;
use base::time::Instant;
use base::units::{BLOCK_BYTES_U64, ZoneIndex};
use decide::{Decision, Hidden};
pub use list::list;
use media::Media;
use members::Agreed;
use scan::{DriveScan, scan_drives};
use std::fmt;
use zone::device::{Geometry, Op, Status, ZoneDescriptor, ZoneState};
use zone::drives::DriveSet;

/// More memory than an index takes that names every page.
const MEMORY_UNBOUNDED: u64 = 1 << 40;

/// Why a cache could not be made or found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountError {
    /// The drives do not do.
    Drives(DrivesError),
    /// A drive is missing, where all are needed.
    Missing {
        /// Place of the drive.
        place: usize,
    },
    /// No drive holds a cache.
    NoCache,
    /// A drive holds something else.
    Foreign {
        /// Place of the drive.
        place: usize,
    },
    /// A drive belongs in another place.
    WrongPlace {
        /// Place of the drive.
        place: usize,
        /// Place where it belongs.
        member: usize,
    },
    /// Too few members are there: others may have gone on without these.
    NoMajority {
        /// Members that are there.
        present: usize,
        /// Members in use.
        members: usize,
    },
    /// A drive answered a command with an error.
    Drive {
        /// Place of the drive.
        place: usize,
        /// The answer.
        status: Status,
    },
}

impl fmt::Display for MountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MountError::Drives(error) => error.fmt(f),
            MountError::Missing { place } => {
                write!(f, "drive {place} is missing: a new cache needs all drives")
            }
            MountError::NoCache => f.write_str("no drive holds a cache: make one first"),
            MountError::Foreign { place } => {
                write!(f, "drive {place} holds something else than this cache: take it out or erase it")
            }
            MountError::WrongPlace { place, member } => {
                write!(f, "drive {place} belongs in place {member}: put it there")
            }
            MountError::NoMajority { present, members } => write!(
                f,
                "only {present} of {members} members are there; the others may have gone on without them: \
                 bring more drives back, or make the cache anew"
            ),
            MountError::Drive { place, status } => {
                write!(f, "drive {place} fails ({status:?}): start without it")
            }
        }
    }
}

impl std::error::Error for MountError {}

impl From<DrivesError> for MountError {
    fn from(error: DrivesError) -> MountError {
        MountError::Drives(error)
    }
}

/// Makes a cache on drives, all of which must be there. What they held is gone.
///
/// # Errors
/// When the drives do not do, or one fails.
///
/// # Panics
/// When there are not as many identities as drives.
pub fn format(drives: &mut DriveSet, now: Instant, config: &CacheConfig) -> Result<(), MountError> {
    assert!(config.drives.len() == drives.len(), "one identity for each drive");
    let mut media = Media::new(drives, now);
    let geometries = media.geometries();
    check_drives(&geometries)?;
    if let Some(place) = geometries.iter().position(Option::is_none) {
        return Err(MountError::Missing { place });
    }
    // Zones that are offline are counted by the first mount, which has nothing to lose.
    let member = |uuid: &[u8; 16]| Member { uuid: *uuid, standing: Standing::Member, zones_lost: 0 };
    let superblock = Superblock {
        cache: config.cache,
        secret: config.secret,
        generation: 1,
        epoch: 0,
        wall: WallMillis(0),
        members: config.drives.iter().map(member).collect(),
        // Nothing was before it.
        quorum: 0,
        clears: Clears::default(),
        mark: None,
    };
    for (place, geometry) in geometries.iter().enumerate() {
        let zones = geometry.expect("seen above").zones;
        reset_zones(&mut media, place, 0..zones)?;
    }
    for place in 0..geometries.len() {
        let mut frame = Frame::zeroed();
        superblock.encode(place, &mut frame.data);
        stamp_superblock(config.cache, place, ZoneIndex(0), 0, 1).seal(&mut frame);
        media.run(place, ZoneIndex(0), Op::Write { offset: 0, frames: vec![frame] })?;
        media.run(place, ZoneIndex(0), Op::Flush)?;
    }
    Ok(())
}

/// Resets zones of a drive that are not empty.
fn reset_zones(media: &mut Media<'_>, place: usize, zones: std::ops::Range<u32>) -> Result<(), MountError> {
    let count = zones.end - zones.start;
    let report = media.run(place, ZoneIndex(zones.start), Op::Report { count })?.report;
    let is_written = |found: &ZoneDescriptor| !matches!(found.state, ZoneState::Empty | ZoneState::Offline);
    let written = zones.zip(report).filter(|(_, found)| is_written(found)).map(|(zone, _)| ZoneIndex(zone));
    let written: Vec<ZoneIndex> = written.collect();
    let places = vec![place; written.len()];
    let resets = media.side_by_side(&places, |job, seat| {
        let zone = written[job];
        async move { seat.ask(zone, Op::Reset).await }
    });
    resets.into_iter().collect::<Result<Vec<_>, _>>()?;
    media.run(place, ZoneIndex(0), Op::Flush)?;
    Ok(())
}

/// Finds the cache on drives, `None` for those that are missing, and makes it ready for clients.
///
/// # Errors
/// When it cannot be believed, or a drive fails. Nothing of it is lost by that.
pub fn mount(
    drives: DriveSet,
    now: Instant,
    wall: WallMillis,
    options: Options,
) -> Result<CacheVolume, MountError> {
    mount_on(Host::default(), drives, now, (wall, options))
}

/// Finds the cache as [`mount`] does, on a machine whose memory may hold entries that the media do not.
///
/// # Errors
/// As [`mount`].
pub fn mount_on(
    host: Host,
    drives: DriveSet,
    now: Instant,
    how: (WallMillis, Options),
) -> Result<CacheVolume, MountError> {
    Seen::of(drives, now)?.mount(host, how)
}

/// Drives of a cache, `None` for those that are missing, and what their superblocks say of it. Nothing was changed.
pub struct Seen {
    drives: DriveSet,
    agreed: Agreed,
    now: Instant,
}

impl Seen {
    /// Reads superblocks.
    ///
    /// # Errors
    /// When the cache cannot be believed, or a drive fails.
    pub fn of(mut drives: DriveSet, now: Instant) -> Result<Seen, MountError> {
        let mut media = Media::new(&mut drives, now);
        let agreed = members::agree(&mut media)?;
        let now = media.now();
        Ok(Seen { drives, agreed, now })
    }

    /// The drives.
    #[must_use]
    pub fn into_drives(self) -> DriveSet {
        self.drives
    }

    /// Finds the cache as [`mount_on`] does.
    ///
    /// # Errors
    /// As [`mount`].
    pub fn mount(self, host: Host, how: (WallMillis, Options)) -> Result<CacheVolume, MountError> {
        let (survey, drives, now) = self.survey()?;
        mount_as_found(survey, (host, drives), now, how)
    }

    /// Finds the cache as [`mount`] does, with an index in which everything has room that is there, whatever memory that takes: for what is
    /// done without a server. A smaller index would hide for good what finds no slot in it.
    ///
    /// # Errors
    /// As [`mount`].
    pub fn mount_whole(self, host: Host, wall: WallMillis) -> Result<CacheVolume, MountError> {
        let (survey, drives, now) = self.survey()?;
        let options = survey.options();
        mount_as_found(survey, (host, drives), now, (wall, options))
    }

    fn survey(self) -> Result<(Survey, DriveSet, Instant), MountError> {
        let Seen { mut drives, agreed, now } = self;
        let mut media = Media::new(&mut drives, now);
        let survey = Survey::of(&mut media, agreed)?;
        let now = media.now();
        Ok((survey, drives, now))
    }
}

fn mount_as_found(
    survey: Survey,
    (host, mut drives): (Host, DriveSet),
    now: Instant,
    (wall, options): (WallMillis, Options),
) -> Result<CacheVolume, MountError> {
    let mut media = Media::new(&mut drives, now);
    for place in &survey.agreed.torn {
        media.run(*place, ZoneIndex(0), Op::Reset)?;
    }
    let (recovered, recovery) = survey.recover(wall, options, &host);
    finish_leftovers(&mut media, &recovered)?;
    let now = media.now();
    let mut volume = CacheVolume::new(Shard::new(recovered), drives, recovery, host.memory);
    volume.make_ready(now, wall);
    Ok(volume)
}

/// Survey of the drives, before anything is decided.
struct Survey {
    geometries: Vec<Option<Geometry>>,
    agreed: Agreed,
    scans: Vec<Option<DriveScan>>,
    recovery: Recovery,
}

impl Survey {
    /// Reads all drives, of which the superblocks are known.
    fn of(media: &mut Media<'_>, agreed: Agreed) -> Result<Survey, MountError> {
        let geometries = media.geometries();
        check_drives(&geometries)?;
        let mut recovery = Recovery::default();
        let mut scans = scan_drives(media, &geometries, agreed.order(false))?;
        for (scan, is_believed) in scans.iter_mut().zip(&agreed.believed) {
            if let Some(scan) = scan.as_mut().filter(|_| !is_believed) {
                // Its journals stay until its pages are gone: what a cut leaves of it may be believed next time.
                recovery.drives_emptied += 1;
                scan.drop_data();
            }
        }
        Ok(Survey { geometries, agreed, scans, recovery })
    }

    /// Options by which each record that was found has room in the index, twice over.
    fn options(&self) -> Options {
        let records: u64 = self.scans.iter().flatten().map(DriveScan::records).sum();
        let blocks = self.geometries.iter().flatten().map(Geometry::capacity_blocks);
        let flash = blocks.sum::<u64>() * BLOCK_BYTES_U64;
        let object_mean = (flash / (records * 2 + 1)).saturating_sub(7).max(1);
        Options { memory_bytes: MEMORY_UNBOUNDED, object_mean, ..Options::default() }
    }

    /// Decides what counts.
    fn recover(self, wall: WallMillis, options: Options, host: &Host) -> (Recovered, Recovery) {
        let Survey { geometries, agreed, scans, mut recovery } = self;
        let recovered = recover((&agreed, host), scans, &geometries, (wall, options), &mut recovery);
        (recovered, recovery)
    }
}

/// Ends zones that take no more although they could: a drive allows few that are neither empty nor full. The last block of
/// a journal zone says that it is the last, for a zone that is finished ends in blocks that were never written, and one
/// that is blank for another reason may have held entries.
fn finish_leftovers(media: &mut Media<'_>, recovered: &Recovered) -> Result<(), MountError> {
    let serves = |drive: &Drive| drive.up && !drive.is_worn_out();
    for (place, drive) in recovered.drives.iter().enumerate().filter(|(_, drive)| serves(drive)) {
        let open = drive.journal.zones.back().filter(|_| drive.journal.is_open).map(|last| last.zone);
        for (zone, own) in (0..).map(ZoneIndex).zip(drive.zones.iter()) {
            let takes_more = open == Some(zone) || own.end == drive.capacity;
            if !matches!(own.used(), ZoneUse::Full | ZoneUse::Journal) || takes_more {
                continue;
            }
            if drive.journal.unclosed.contains(&zone) {
                let frame = closing_block(&recovered.identity, recovered.wall, (place, zone, own));
                media.run(place, zone, Op::Write { offset: own.end, frames: vec![frame] })?;
            }
            media.run(place, zone, Op::Finish)?;
        }
    }
    Ok(())
}

fn closing_block(identity: &Identity, wall: WallMillis, at: (usize, ZoneIndex, &Zone)) -> Frame {
    let (place, zone, own) = at;
    let mut frame = Frame::zeroed();
    JournalBlock { wall, closes: true, entries: Vec::new() }.encode(&mut frame.data);
    let member = u8::try_from(place).expect("at most 32 members");
    let life = Life { cache: identity.cache, member, zone, birth: own.birth, stream: own.stream };
    // Below all sequences of this mount, and above all before it.
    let sequence = u64::from(identity.epoch) << 40;
    Stamp { life, page: own.end, kind: Kind::Journal, sequence, origin: 0 }.seal(&mut frame);
    frame
}

fn pages(geometry: &Geometry) -> u32 {
    u32::try_from(geometry.capacity_blocks()).expect("drives were checked")
}

/// Pages in the place of a drive that is missing: one may join there that is like the largest of the others, if the index can name as
/// many.
fn span_of_absent(geometries: &[Option<Geometry>]) -> u32 {
    let there = || geometries.iter().flatten().map(pages);
    let span = there().max().unwrap_or(0);
    let absent = geometries.iter().filter(|geometry| geometry.is_none()).count() as u64;
    let all = there().map(u64::from).sum::<u64>() + absent * u64::from(span);
    if all < PAGES_MAX { span } else { 0 }
}

/// Bytes of drives of these geometries, for which the index is made; `None` is a drive that is missing.
///
/// # Errors
/// When a cache cannot be made of them.
pub fn flash_of(geometries: &[Option<Geometry>]) -> Result<u64, DrivesError> {
    check_drives(geometries)?;
    Ok(flash_bytes(geometries))
}

fn flash_bytes(geometries: &[Option<Geometry>]) -> u64 {
    let span = span_of_absent(geometries);
    let places = geometries.iter().map(|geometry| geometry.as_ref().map_or(span, pages));
    places.map(u64::from).sum::<u64>() * BLOCK_BYTES_U64
}

/// Decides what counts of all that was found.
fn recover(
    (agreed, host): (&Agreed, &Host),
    mut scans: Vec<Option<DriveScan>>,
    geometries: &[Option<Geometry>],
    (wall, options): (WallMillis, Options),
    recovery: &mut Recovery,
) -> Recovered {
    let span = span_of_absent(geometries);
    let flash = flash_bytes(geometries);
    assert!(flash >= BLOCK_BYTES_U64, "drives were checked");
    let shape = options.shape(flash);
    let mut base = 0;
    let mut drives = Vec::new();
    let known = || scans.iter().flatten().map(|scan| scan.latest);
    let latest = known().map(|latest| latest.wall).fold(wall.max(agreed.newest.wall), WallMillis::max);
    // A record that is lost may have begun a mount whose sequences are on the media.
    let seen = known().map(|latest| latest.sequence >> 40).max().unwrap_or(0);
    let seen = u32::try_from(seen).expect("epochs are 24 bits");
    let epoch = agreed.newest.epoch.max(seen) + 1;
    for (scan, geometry) in scans.iter_mut().zip(geometries) {
        let (Some(scan), Some(geometry)) = (scan, geometry) else {
            drives.push(Drive::absent(base, span));
            base += span;
            continue;
        };
        let log = agreed.log_of(drives.len());
        // A zone that is offline may have been a journal.
        if scan.zones_lost > agreed.newest.members[drives.len()].zones_lost {
            scan.drop_data();
        }
        recovery.zones_dropped += scan.drop_what_cannot_be_judged();
        drives.push(scan.drive(base, (geometry, &options), (shape, u64::from(epoch) << 40), log));
        base += pages(geometry);
    }
    let mut clears = agreed.newest.clears;
    let (sharing, shared) = memory::recall((agreed, host), (shape, epoch), options.invalidate);
    recovery.is_emptied = shared.is_none();
    if recovery.is_emptied {
        clears.below = [u64::from(epoch) << 40; NAMESPACES];
    }
    let hidden = Hidden { cleared: &clears.below, shared: shared.unwrap_or_default() };
    let Decision { index, entries } = decide::decide(shape, &mut drives, &scans, &hidden, recovery);
    let identity = Identity {
        cache: agreed.newest.cache,
        secret: agreed.newest.secret,
        drives: agreed.uuids(epoch),
        epoch,
    };
    let membership = Membership::new(agreed.newest.generation, agreed.there.clone(), agreed.quorum);
    Recovered { identity, options, index, drives, wall: latest, clears, membership, sharing, entries }
}

/// Shards that have these drives, and which of them has a key; `None` when they are not those that the cache is cut into, or of another
/// one. Nothing is changed.
///
/// # Errors
/// As for mounting.
pub fn see_shards(
    shards: Vec<DriveSet>,
    cache: [u8; 16],
    now: Instant,
) -> Result<Option<(Vec<Seen>, Spread)>, MountError> {
    let (count, mut all, mut secret) = (shards.len(), Vec::new(), [0; 16]);
    for (number, drives) in shards.into_iter().enumerate() {
        let seen = Seen::of(drives, now)?;
        if seen.agreed.newest.cache != identity_of(cache, number, count) {
            return Ok(None);
        }
        secret = seen.agreed.newest.secret;
        all.push(seen);
    }
    Ok(Some((all, Spread::new(count, secret))))
}

/// Findings of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Problems, in words.
    pub problems: Vec<String>,
    /// Places without a drive whose contents count.
    pub absent: Vec<usize>,
    /// Zones with pages.
    pub data_zones: u64,
    /// Zones with journals.
    pub journal_zones: u64,
    /// Records that lie in pages.
    pub records: u64,
    /// Journal entries.
    pub entries: u64,
}

/// Reads every block of a cache that is not served, and changes nothing.
///
/// # Errors
/// As for mounting.
pub fn check(drives: &mut DriveSet, now: Instant) -> Result<Findings, MountError> {
    let mut media = Media::new(drives, now);
    let mut geometries = media.geometries();
    check_drives(&geometries)?;
    let agreed = members::agree(&mut media)?;
    let mut findings = Findings::default();
    for (geometry, is_believed) in geometries.iter_mut().zip(&agreed.believed) {
        *geometry = geometry.filter(|_| *is_believed);
    }
    for (place, scan) in scan_drives(&mut media, &geometries, agreed.order(true))?.into_iter().enumerate() {
        match scan {
            Some(scan) => scan.report(place, &mut findings),
            None => findings.absent.push(place),
        }
    }
    Ok(findings)
}
