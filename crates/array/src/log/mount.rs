//! Mounting: from what the drives hold to a running engine. Straight-line code that runs before
//! service; every step may itself crash and be repeated.
//!
//! 1. `superblocks`: who belongs to the array, who is missing or stale, by the word of the `spokesman`; `older_copies`: whose drive went back to an earlier
//!    moment; `re_add`: whose drive was away and is taken in again, unless it is a stranger by now (`returning`).
//! 2. `scan`: which zones form which segments, `lacking`: which of them a drive that went back lacks.
//!    `windows`: how far zones with random write areas were written beyond what is committed, and whose windows lost what they held; where
//!    more members did than the array can lose, the mount is refused, and nothing was changed.
//!    The findings of 1 and 2 are recorded before anything else is written, so that a member that missed this mount is never believed again, and
//!    once more when all hold that record, so that one that goes back behind it is noticed.
//!    `entries`: what each block says of itself, some segments at a time.
//! 3. `decide`: which stripes count. A pure function of the metadata on the media, so that a repeated
//!    recovery decides the same.
//! 4. `repair`: missing pieces of stripes that count are written in place, the rest of the open
//!    groups is filled.
//! 5. `witness`: what metadata beyond rescue said is asked of its neighbours.
//! 6. `index`: the newest copy of every name; `settled`: what the engine keeps of a segment.
//! 7. `covered`: where a checkpoint says what sealed segments hold, they are left out of 2 to 6 and what they hold is
//!    taken from it. When it cannot be had, or does not fit what is there, they go through 2 to 6 like the others.
//! 8. `assemble`: free zones, writers, the engine.
//!
//! `summaries`: what they describe of segments that are open is left out of `entries`.
//! `reader` reads single blocks by their places: tombstones, and those of checkpoints.

mod assemble;
mod covered;
mod decide;
mod entries;
mod index;
mod lacking;
mod older_copies;
mod re_add;
mod reader;
mod repair;
mod returning;
mod scan;
mod settled;
mod spokesman;
mod summaries;
mod superblocks;
mod windows;
mod witness;
mod write_area;

use crate::log::Shard;
use crate::log::config::{ArrayConfig, CheckpointEvery, ConfigError, Tuning};
use crate::log::index::entries::EntryBytes;
use crate::log::membership::active_members;
use crate::log::pba::PbaFormat;
use base::erasure::PieceSet;
use base::time::Instant;
use base::units::DriveIndex;
use index::{Newest, NewestOfAll, Recovered};
use scan::FoundSegment;
use std::fmt;
use std::iter::Peekable;
use write_area::FoundSlot;
use zone::device::{Status, ZonedDevice};
use zone::drives::DriveSet;
use zone::format::FORMAT_VERSION;
use zone::format::checkpoint::Checkpoint;
use zone::format::superblock::{MemberState, Superblock, Uuid};
use zone::stripe::table::Packing;

/// Blocks of the segments that are read at a time, parity included: what is known of them takes 200 MiB.
const BATCH_BLOCKS_MAX: usize = 1 << 22;

pub(in crate::log) use assemble::EPOCH_SHIFT_SEQUENCE;
pub use older_copies::OlderCopy;
pub use re_add::{ReAdd, ReAddRefusal, ReAdded};
pub use spokesman::{log_holds, may_leave_behind, spokesman};
pub use superblocks::identify;
pub(in crate::log) use superblocks::newest_record;

/// Findings of a mount beside the volume itself; for status and check.
#[derive(Clone, Debug, Default)]
pub struct MountReport {
    /// Stripes whose missing pieces were written (or would be, when mounting read-only).
    pub stripes_completed: u64,
    /// Stripes that were never acknowledged and hold nothing.
    pub stripes_void: u64,
    /// Segments that were neither wholly made nor wholly erased, and are erased.
    pub segments_discarded: u64,
    /// Stripes that could not be completed in place; their blocks move elsewhere.
    pub stripes_weak: u64,
    /// Segments that cannot be completed in place and are collected first.
    pub segments_condemned: u64,
    /// Chunks that should be there and are not whole, by place.
    pub damaged_chunks: Vec<DamagedChunk>,
    /// Regions of 32 MiB whose record of trimmed blocks is beyond rescue: what was there before it was
    /// written may be trimmed or not, and reading it fails.
    pub regions_doubtful: Vec<u64>,
    /// Segments whose blocks were not asked, for a checkpoint says what they hold.
    pub segments_covered: u64,
    /// Rows of stripes of open segments that were not asked, for a summary says what they hold.
    pub rows_described: u64,
    /// The superblocks name a checkpoint, and it could not be used.
    pub checkpoint_refused: bool,
    /// Drives that were left out because they are older copies of themselves.
    pub older_copies: Vec<OlderCopy>,
    /// The drive that was taken in again, if that was asked for.
    pub re_added: Option<ReAdded>,
    /// Why it was not, where the array was to be mounted without it then.
    pub re_add_refused: Option<ReAddRefusal>,
    /// Zones that hold data of this array but belong to no segment that could be read.
    pub zones_orphaned: Vec<(DriveIndex, base::units::ZoneIndex)>,
    /// Members that lost what their random write areas held, which is decoded from the others and moved.
    pub windows_gone: PieceSet,
    /// Blocks whose newest version only slots of the write area hold, and that go to the log.
    pub slots_found: u64,
    /// Copies in slots that are damaged.
    pub slot_copies_damaged: Vec<DamagedCopy>,
    /// Writes that could not be decoded, and were given up as the operator allowed.
    pub writes_lost: Option<LostWrites>,
}

/// A chunk whose metadata is not whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DamagedChunk {
    /// Member.
    pub drive: DriveIndex,
    /// Zone.
    pub zone: base::units::ZoneIndex,
    /// First block of the chunk within the zone.
    pub offset: u32,
}

/// A copy in a slot of the write area that is not whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DamagedCopy {
    /// Where it lies.
    pub at: DamagedChunk,
    /// True when another copy of the slot is whole, and goes to the log.
    pub has_other: bool,
}

/// Why an array cannot be mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountError {
    /// No drive holds a superblock.
    NoSuperblock,
    /// The drives hold superblocks of another format version.
    Version {
        /// The version found.
        found: u32,
    },
    /// The drives belong to different arrays; the first names the array of most.
    ForeignDrive {
        /// Place of the drive in the list that was given.
        place: usize,
        /// Array of that drive.
        found: Uuid,
        /// The array of the others.
        wanted: Uuid,
    },
    /// Two drives say they are the same member.
    DuplicateMember {
        /// The member.
        member: usize,
    },
    /// A drive that was away cannot be taken in again.
    NotReAdded {
        /// The member.
        member: usize,
        /// Why not.
        why: ReAddRefusal,
    },
    /// Every member is called failed by another: parts of the array were used apart.
    SplitBrain,
    /// More members are missing, stale or not yet rebuilt than the array can lose.
    TooFewMembers {
        /// Members that are there and up to date.
        present: usize,
        /// Members needed; of mirrors, one copy of each.
        needed: usize,
        /// Members that are missing, stale, failed or not yet rebuilt.
        missing: Vec<usize>,
        /// Missing members whose drives are older copies of themselves.
        older_copies: Vec<OlderCopy>,
    },
    /// Drives lost what their random write areas held, more than the array can lose with those that are not there.
    WindowsGone(LostWrites),
    /// A drive's geometry is not the one the array was made with.
    Geometry {
        /// The member.
        member: usize,
    },
    /// The superblock describes an array this version cannot run.
    Config(ConfigError),
    /// The RAID level is not known to this version.
    Level(u8),
    /// The way in which segments are written is not known to this version.
    Append(u8),
    /// A drive failed a command that mounting cannot do without.
    Drive {
        /// The member.
        member: usize,
        /// Command that the drive failed.
        what: &'static str,
        /// Status that the drive answered.
        status: Status,
    },
}

impl fmt::Display for MountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MountError::NoSuperblock => {
                write!(
                    f,
                    "no drive holds a Zoneweave superblock: create an array first, or check the drive paths"
                )
            }
            MountError::Version { found } => write!(
                f,
                "the array has format version {found}, this zoneweave reads version {FORMAT_VERSION} only: use the \
                 zoneweave it was made with to copy its data off"
            ),
            MountError::ForeignDrive { place, .. } => write!(
                f,
                "drive {place} of the list belongs to another array: put the right drive there, or take it out to \
                 run degraded"
            ),
            MountError::DuplicateMember { member } => {
                write!(f, "two drives say they are member {member}: a drive was copied; remove one of them")
            }
            MountError::NotReAdded { member, why } => write!(f, "drive {member} cannot be re-added: {why}"),
            MountError::SplitBrain => write!(
                f,
                "the members accuse one another of having failed: parts of the array were used apart; take out the \
                 drives whose data you give up"
            ),
            MountError::TooFewMembers { present, needed, missing, older_copies } => {
                if present >= needed {
                    write!(f, "both copies of some data are missing ")?;
                } else {
                    write!(f, "{present} members are there and up to date, {needed} are needed ")?;
                }
                write!(f, "(missing, stale, failed or not yet rebuilt: {missing:?})")?;
                older_copies.iter().try_for_each(|older| write!(f, "; {older}"))?;
                let remedy = if older_copies.is_empty() {
                    "bring a drive back"
                } else {
                    "bring the newer drives back"
                };
                write!(f, ": {remedy}; nothing was changed")
            }
            MountError::WindowsGone(lost) => {
                let bring_back = match lost.missing.is_empty() {
                    true => String::new(),
                    false => format!("bring {} back, or ", drives_in_words(lost.missing)),
                };
                write!(
                    f,
                    "{lost}: {bring_back}go on with older versions (`zoneweave serve --accept-lost-writes`); nothing \
                     was changed"
                )
            }
            MountError::Geometry { member } => {
                write!(f, "member {member} has another zone geometry than the array was made with")
            }
            MountError::Config(error) => write!(f, "the superblock describes an unusable array: {error}"),
            MountError::Level(level) => write!(f, "RAID level {level} is not known to this version"),
            MountError::Append(append) => {
                write!(f, "use {append} of Zone Append is not known to this version")
            }
            MountError::Drive { member, what, status } => write!(
                f,
                "member {member} answered {status:?} to {what} while mounting: mark it failed (`zoneweave drive \
                 fail`) or repair it; nothing acknowledged is lost"
            ),
        }
    }
}

impl std::error::Error for MountError {}

/// Writes that were acknowledged and may be gone with what random write areas held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostWrites {
    /// Members that lost what their areas held.
    pub members: PieceSet,
    /// Members that lack the same writes, for they are not there or not rebuilt.
    pub missing: PieceSet,
    /// Most blocks whose newest version may be gone.
    pub blocks_max: u64,
}

impl fmt::Display for LostWrites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LostWrites { members, missing, blocks_max } = *self;
        write!(
            f,
            "{} lost what random write areas held, as when a buffer loses its power",
            drives_in_words(members)
        )?;
        if !missing.is_empty() {
            write!(f, ", and {} cannot make up for it", drives_in_words(missing))?;
        }
        write!(f, "; up to {blocks_max} blocks would be older than what was acknowledged")
    }
}

fn drives_in_words(members: PieceSet) -> String {
    let numbers: Vec<String> = members.iter().map(|member| member.to_string()).collect();
    let noun = if numbers.len() == 1 { "drive" } else { "drives" };
    format!("{noun} {}", numbers.join(", "))
}

/// Makes an array on empty drives: one superblock on each. Everything else follows from use.
///
/// # Errors
/// When the configuration cannot work or a drive fails.
pub fn format(drives: &mut DriveSet, config: &ArrayConfig, members: &[Uuid]) -> Result<(), MountError> {
    config.validate().map_err(MountError::Config)?;
    assert!(members.len() == config.members && drives.len() == config.members);
    superblocks::write_first(drives, config, members)
}

/// Mounts the array on these drives, in any order; `None` where one could not be opened. A drive
/// that fails a command mounting cannot do without is left out, as if it were missing.
///
/// # Errors
/// When too few members are there, or they do not fit together. Nothing was changed then.
pub fn mount(
    devices: Vec<Option<Box<dyn ZonedDevice>>>,
    tuning: Tuning,
    now: Instant,
) -> Result<(Shard, DriveSet, MountReport), MountError> {
    mount_to_serve(devices, None, tuning, now)
}

/// As [`mount`], and the drive of a member that was away is taken in again: what it holds of segments that are still there
/// counts, and what it lacks is rebuilt. The report says how much that is, or why the drive was refused, if the array is to be
/// mounted without it then.
///
/// # Errors
/// As [`mount`], and when the drive is refused otherwise. Nothing was changed then. A drive that fails on the way is left out,
/// and the report does not name it.
pub fn mount_with_re_add(
    devices: Vec<Option<Box<dyn ZonedDevice>>>,
    re_add: ReAdd,
    tuning: Tuning,
    now: Instant,
) -> Result<(Shard, DriveSet, MountReport), MountError> {
    mount_to_serve(devices, Some(re_add), tuning, now)
}

fn mount_to_serve(
    mut devices: Vec<Option<Box<dyn ZonedDevice>>>,
    mut re_add: Option<ReAdd>,
    tuning: Tuning,
    now: Instant,
) -> Result<(Shard, DriveSet, MountReport), MountError> {
    loop {
        let mut session = Session::begin(devices, Purpose::Serve { re_add }, now)?;
        session.uses_checkpoints = true;
        match session.recover(tuning) {
            Ok(shard) => return Ok((shard, session.drives, session.report)),
            Err(MountError::Drive { member, what, status }) => {
                let others = active_members(&session.record).without([member].into_iter().collect());
                if !session.config.code().can_decode(others) {
                    return Err(MountError::Drive { member, what, status });
                }
                // The array goes on without it; that it is not in the report says so.
                re_add = re_add.filter(|returning| returning.member != member);
                session.drives.remove(DriveIndex::at(member));
                devices = session.drives.into_inner();
            }
            Err(error) => return Err(error),
        }
    }
}

/// As [`mount`], but writes nothing and uses no checkpoint and no summaries: for looking at an array that is not served. The engine
/// it returns may only be looked at.
///
/// # Errors
/// As [`mount`].
pub fn mount_read_only(
    devices: Vec<Option<Box<dyn ZonedDevice>>>,
    now: Instant,
) -> Result<(Shard, DriveSet, MountReport), MountError> {
    let mut session = Session::begin(devices, Purpose::Look, now)?;
    let shard = session.recover(Tuning::default())?;
    Ok((shard, session.drives, session.report))
}

/// Comparison of a mount that used what was written down for it with one that did not.
#[derive(Clone, Debug)]
pub struct Compared {
    /// True when there is a checkpoint that can be used.
    pub uses_checkpoint: bool,
    /// Summaries said what is in some open segment.
    pub uses_summaries: bool,
    /// Differences between the two; empty if all is well.
    pub differences: Vec<String>,
}

/// Mounts twice without writing anything, with the checkpoint that the superblocks name and summaries, and without them:
/// for tests and simulation.
///
/// # Errors
/// As [`mount`].
pub fn compare_checkpoint(
    devices: Vec<Option<Box<dyn ZonedDevice>>>,
    tuning: Tuning,
    now: Instant,
) -> Result<Compared, MountError> {
    let mut session = Session::begin(devices, Purpose::Look, now)?;
    session.uses_checkpoints = true;
    // All of its index is compared.
    let with = session.recover(Tuning { index_memory: None, ..tuning })?;
    let uses_checkpoint = with.has_checkpoint();
    let uses_summaries = session.report.rows_described > 0;
    let mut differences = Vec::new();
    if uses_checkpoint || uses_summaries {
        let (without, mut drives, _) = mount_read_only(session.drives.into_inner(), now)?;
        differences = with.differences(&without, &mut drives, now);
    }
    Ok(Compared { uses_checkpoint, uses_summaries, differences })
}

/// Purpose of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// Nothing is written.
    Look,
    /// The array will be served, with a drive that was away, if that is asked for.
    Serve { re_add: Option<ReAdd> },
}

/// A mount in progress.
struct Session {
    drives: DriveSet,
    now: Instant,
    record: Superblock,
    config: ArrayConfig,
    log_positions: Vec<Option<superblocks::LogState>>,
    entry_bytes: EntryBytes,
    writable: bool,
    /// The member whose drive is taken in again.
    re_add: Option<usize>,
    /// Set when what the checkpoint covers and summaries describe need not be read.
    uses_checkpoints: bool,
    /// Blocks of each zone that are read first of segments that summaries may describe.
    summary_window: u32,
    /// What slots of the write area hold.
    slots: Vec<FoundSlot>,
    report: MountReport,
    /// A member that vanished while it was read.
    vanished: Option<usize>,
}

impl Session {
    fn begin(
        devices: Vec<Option<Box<dyn ZonedDevice>>>,
        purpose: Purpose,
        now: Instant,
    ) -> Result<Session, MountError> {
        let (writable, re_add) = match purpose {
            Purpose::Look => (false, None),
            Purpose::Serve { re_add } => (true, re_add),
        };
        let found = superblocks::assemble(devices, re_add, now)?;
        let config = superblocks::config_of(&found.record, &found.drives)?;
        assert!(
            found.drives.len() == config.members,
            "{} places for the drives of {} members",
            found.drives.len(),
            config.members
        );
        let entry_bytes = PbaFormat::new(config.members, &config.geometry).expect("validated").entry_bytes();
        Ok(Session {
            drives: found.drives,
            now,
            record: found.record,
            config,
            log_positions: found.log_states,
            entry_bytes,
            writable,
            re_add: found.re_added,
            uses_checkpoints: false,
            summary_window: u32::MAX,
            slots: Vec::new(),
            report: MountReport {
                older_copies: found.older_copies,
                re_add_refused: found.refused,
                ..MountReport::default()
            },
            vanished: None,
        })
    }

    /// A new generation and epoch on every active member, before anything else is written; then one more generation, which
    /// says that all of them hold it.
    fn record_mount(&mut self, mount_tag: u64) -> Result<(), MountError> {
        assert!(self.writable, "a mount that only looks records nothing");
        self.record.epoch += 1;
        self.record.mount_tag = mount_tag;
        self.record.generation += 1;
        superblocks::write_record(self)?;
        self.record.generation += 1;
        superblocks::write_record(self)
    }

    fn recover(&mut self, mut tuning: Tuning) -> Result<Shard, MountError> {
        if tuning.wide_entries {
            self.entry_bytes = EntryBytes::Five;
        }
        // Images are made of a whole index, and dropped stripe tables are read back with its help.
        if self.config.index_limit(&tuning).is_some() {
            tuning.checkpoints = CheckpointEvery::Never;
            tuning.stripe_tables_bytes_max = None;
        }
        if self.uses_checkpoints {
            self.summary_window = summaries::window_of(tuning.summaries);
        }
        let mut scan = scan::run(self)?;
        windows::judge(self, &mut scan.segments, tuning.accepts_lost_writes)?;
        tuning.write_area_zones = if self.writable { self.config.write_area_zones(&tuning) } else { 0 };
        self.slots = write_area::read(self, &scan, tuning.accepts_lost_writes)?;
        self.record.set_write_area(tuning.write_area_zones > 0 || !scan.areas.is_empty());
        assert!(
            self.writable || tuning.write_area_zones == 0,
            "a mount that only looks makes no write area of {} zones",
            tuning.write_area_zones
        );
        if self.writable {
            self.record_mount(tuning.mount_tag)?;
            lacking::mark(self, &scan.zones_to_mark)?;
        }
        self.report.re_added = self.re_add.map(|member| ReAdded::count(member, &scan.segments));
        let found = std::mem::take(&mut scan.segments);
        let recovered = match self.record.checkpoint.clone().filter(|_| self.uses_checkpoints) {
            Some(checkpoint) => self.recover_since(&checkpoint, found, &tuning)?,
            None => self.recover_all(Vec::new(), found, tuning.stripe_table)?,
        };
        if self.writable {
            repair::reset_zones(self, &mut scan)?;
        }
        assemble::run(self, recovered, &scan, tuning)
    }

    /// With a checkpoint: reads what was written since, and all when the two do not fit.
    fn recover_since(
        &mut self,
        checkpoint: &Checkpoint,
        found: Vec<FoundSegment>,
        tuning: &Tuning,
    ) -> Result<Recovered, MountError> {
        // What was sealed when it began stays so: a drive went back to before, and its chunks may go elsewhere now.
        let went_back = |segment: &FoundSegment| !segment.sealed && checkpoint.covers(segment.header.segment);
        if found.iter().any(went_back) {
            self.give_up_checkpoint()?;
            return self.recover_all(Vec::new(), found, tuning.stripe_table);
        }
        let (covered, mut found): (Vec<_>, Vec<_>) = found.into_iter().partition(|segment| segment.covered);
        entries::read_all(self, &mut found);
        self.expect_all_there()?;
        let decided = self.decide_all(found)?;
        let recovered = covered::run(self, checkpoint, &decided, &covered, tuning)?;
        self.expect_all_there()?;
        if let Some(recovered) = recovered {
            return Ok(recovered);
        }
        self.give_up_checkpoint()?;
        self.recover_all(decided, covered, tuning.stripe_table)
    }

    /// Without a checkpoint: reads segments, oldest first and few at a time, and keeps of each what the engine needs.
    /// Some may be decided already.
    fn recover_all(
        &mut self,
        decided: Vec<decide::Decided>,
        found: Vec<FoundSegment>,
        packing: Packing,
    ) -> Result<Recovered, MountError> {
        let mut newest = Newest::of_volume(self);
        let (mut segments, mut sequence_max) = (Vec::new(), 0);
        let mut settle = |segment: decide::Decided| {
            newest.add(&segment, 0..segment.layout.stripes);
            sequence_max = sequence_max.max(settled::sequence_max(&segment));
            segments.push(settled::segment_of(&segment, packing));
        };
        let mut decided = decided.into_iter().peekable();
        let mut found = found.into_iter().peekable();
        while found.peek().is_some() {
            let mut batch = take_batch(&mut found);
            entries::read_all(self, &mut batch);
            self.expect_all_there()?;
            for segment in self.decide_all(batch)? {
                while let Some(older) = decided.next_if(|older| older.header.segment < segment.header.segment)
                {
                    settle(older);
                }
                settle(segment);
            }
        }
        decided.for_each(&mut settle);
        assert!(
            segments.is_sorted_by_key(|segment| segment.id),
            "segments are settled in the order in which they were made"
        );
        let NewestOfAll { index, doubtful, slots } = newest.finish(self, &segments)?;
        Ok(Recovered { index, doubtful, segments, checkpoint: None, sequence_max, slots })
    }

    /// Decides what counts of segments, and completes those that are not sealed.
    fn decide_all(&mut self, found: Vec<FoundSegment>) -> Result<Vec<decide::Decided>, MountError> {
        let mut segments = Vec::new();
        for found in found {
            let mut decided = decide::run(self, found);
            repair::void_unreadable(self, &mut decided);
            if !decided.sealed {
                repair::run(self, &mut decided)?;
            }
            decided.weak = repair::weak_stripes(&decided);
            assert!(
                decided.weak.iter().all(|stripe| decided.layout.has_stripe(*stripe)),
                "stripes of the segment"
            );
            self.report.stripes_weak += decided.weak.len() as u64;
            decided.place_damaged();
            witness::run(self, &mut decided);
            segments.push(decided);
        }
        self.expect_all_there()?;
        Ok(segments)
    }

    /// True for a segment that the checkpoint describes, if one is used.
    fn covers(&self, segment: u64) -> bool {
        let checkpoint = self.record.checkpoint.as_ref().filter(|_| self.uses_checkpoints);
        checkpoint.is_some_and(|checkpoint| checkpoint.covers(segment))
    }

    /// From now on, no mount may use the checkpoint either: it may say of a missing member's chunks that they belong
    /// elsewhere than where a rebuild will put them now.
    fn give_up_checkpoint(&mut self) -> Result<(), MountError> {
        if !self.uses_checkpoints || self.record.checkpoint.is_none() {
            return Ok(());
        }
        assert!(!self.report.checkpoint_refused, "a checkpoint is given up once");
        self.report.checkpoint_refused = true;
        self.record.checkpoint = None;
        if self.writable {
            self.record.generation += 1;
            superblocks::write_record(self)?;
        }
        Ok(())
    }

    /// Fails when a drive is gone: what it did not answer is not damage, and mounting begins anew without it.
    fn expect_all_there(&self) -> Result<(), MountError> {
        match self.vanished {
            Some(member) => Err(MountError::Drive { member, what: "read", status: Status::DeviceGone }),
            None => Ok(()),
        }
    }

    /// True when a member is there, and being rebuilt at worst.
    fn is_present(&self, member: usize) -> bool {
        self.record.members[member].state != MemberState::Failed
    }

    fn array_tag(&self) -> u64 {
        array_tag(&self.config.array)
    }
}

/// As many of the next segments as are read at a time, at least one.
fn take_batch(found: &mut Peekable<impl Iterator<Item = FoundSegment>>) -> Vec<FoundSegment> {
    let blocks = |segment: &FoundSegment| segment.layout.region_blocks() as usize * segment.zones.len();
    let (mut batch, mut left) = (Vec::new(), BATCH_BLOCKS_MAX);
    while let Some(segment) = found.next_if(|next| batch.is_empty() || blocks(next) <= left) {
        left = left.saturating_sub(blocks(&segment));
        batch.push(segment);
    }
    assert!(
        batch.len() <= 1 || batch.iter().map(&blocks).sum::<usize>() <= BATCH_BLOCKS_MAX,
        "a batch is bounded"
    );
    batch
}

/// The part of the array UUID that every block carries.
pub(crate) fn array_tag(array: &Uuid) -> u64 {
    base::bytes::u64_at(array, 0)
}
