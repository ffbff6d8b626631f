//! The superblock log: finding the newest record, and telling members from strangers.

use crate::log::config::{AppendUse, ArrayConfig, ConfigError, OpenSegments};
use crate::log::membership::{LogPosition, RECORDS_PER_MOUNT, active_members};
use crate::log::mount::older_copies::{self, OlderCopy};
use crate::log::mount::re_add::{ReAdd, ReAddRefusal};
use crate::log::mount::returning;
use crate::log::mount::spokesman::{log_holds, may_leave_behind, spokesman};
use crate::log::mount::{MountError, Session};
use crate::log::policy::mode::common_areas;
use base::erasure::{ErasureCode, PieceSet};
use base::frame::Frame;
use base::time::Instant;
use base::units::{DriveIndex, ZoneIndex};
use zone::device::{Command, Completion, Geometry, Op, Status, Token, ZonedDevice};
use zone::drives::{DriveCommand, DriveSet};
use zone::format::SUPERBLOCK_ZONES;
use zone::format::superblock::{Member, MemberState, Superblock, Uuid, Version};
use zone::stripe::Level;

/// The state of one drive's superblock log.
#[derive(Clone, Copy, Debug)]
pub struct LogState {
    /// Zone that holds the newest record.
    zone: ZoneIndex,
    /// Next block of it, or its capacity when it is full.
    next: u32,
}

impl LogState {
    /// Returns the position at which the engine appends records.
    pub fn position(self) -> LogPosition {
        LogPosition { zone: self.zone, next: self.next }
    }
}

/// The newest record of each drive, by its place.
pub type Records = Vec<Option<(Superblock, LogState)>>;

/// Array as the drives describe it together.
pub struct Found {
    /// Drives by member.
    pub drives: DriveSet,
    /// The newest record, with members that are not there marked as failed.
    pub record: Superblock,
    /// Superblock log of each member that is there.
    pub log_states: Vec<Option<LogState>>,
    /// Drives that are left out because they are older copies of themselves.
    pub older_copies: Vec<OlderCopy>,
    /// The member whose drive is taken in again.
    pub re_added: Option<usize>,
    /// Why the drive that was to be taken in again was not.
    pub refused: Option<ReAddRefusal>,
}

/// A command outside the engine; its token is assigned when it is run.
pub fn command(member: usize, zone: ZoneIndex, op: Op) -> DriveCommand {
    DriveCommand { drive: DriveIndex::at(member), command: Command { token: Token(0), zone, op } }
}

/// Reads the newest superblock of a lone drive.
pub fn identify(device: Box<dyn ZonedDevice>, now: Instant) -> (Box<dyn ZonedDevice>, Option<Superblock>) {
    let mut drives = DriveSet::new(vec![Some(device)]);
    let record = newest_record(&mut drives, 0, now).map(|(record, _)| record);
    let device = drives.remove(DriveIndex(0)).expect("put there above");
    (device, record)
}

/// Finds the array on the drives and puts them in order of membership. The drive of `re_add` is taken in again though it
/// missed what the others were told.
pub fn assemble(
    devices: Vec<Option<Box<dyn ZonedDevice>>>,
    re_add: Option<ReAdd>,
    now: Instant,
) -> Result<Found, MountError> {
    let places = devices.len();
    let mut drives = DriveSet::new(devices);
    let mut records: Records = (0..places).map(|place| newest_record(&mut drives, place, now)).collect();
    let (returning, refused) = returning::admit(&mut drives, &mut records, re_add, now)?;
    let spoken = match &returning {
        Some(own) => Ok(own.record.clone()),
        None => speaker(&mut drives, &records, &records, now),
    };
    let mut record = spoken.map_err(|error| match other_version(&mut drives, now) {
        Some(found) if error == MountError::NoSuperblock => MountError::Version { found },
        _ => error,
    })?;
    let members = record.members.len();
    let mut devices = drives.into_inner();
    let mut by_member: Vec<Option<Box<dyn ZonedDevice>>> = (0..members).map(|_| None).collect();
    let mut log_states = vec![None; members];
    let mut older_copies: Vec<OlderCopy> = Vec::new();
    for (place, found) in records.iter().enumerate() {
        let Some((own, state)) = found else { continue };
        if own.array != record.array {
            return Err(MountError::ForeignDrive { place, found: own.array, wanted: record.array });
        }
        let member = usize::from(own.member);
        let known = own.members[member].uuid == record.members[member].uuid;
        if returning.as_ref().is_some_and(|own| own.place == place) {
            by_member[member] = devices[place].take();
            log_states[member] = Some(*state);
            continue;
        }
        if !known || record.members[member].state == MemberState::Failed {
            let is_behind = known && own.generation < record.generation;
            older_copies.extend(is_behind.then(|| OlderCopy::of(own, &record)));
            continue;
        }
        if by_member[member].is_some()
            || older_copies.iter().any(|older| older.member == member && !older.is_recorded)
        {
            return Err(MountError::DuplicateMember { member });
        }
        let older = older_copy(own, &records).or_else(|| believe_rebuilding(&mut record, own));
        if let Some(older) = older {
            older_copies.push(older);
            continue;
        }
        by_member[member] = devices[place].take();
        log_states[member] = Some(*state);
    }
    for (member, device) in by_member.iter().enumerate() {
        if device.is_none() {
            record.members[member].state = MemberState::Failed;
        }
    }
    // What a member that is being rebuilt lacks can be had from all others only.
    let code = code_of(&record)?;
    let active = active_members(&record);
    let missing: Vec<usize> = code.pieces().without(active).iter().collect();
    if !code.can_decode(active) {
        let (present, needed) = (members - missing.len(), code.data_count());
        return Err(MountError::TooFewMembers { present, needed, missing, older_copies });
    }
    let re_added = returning.map(|own| own.member);
    Ok(Found { drives: DriveSet::new(by_member), record, log_states, older_copies, re_added, refused })
}

/// The drive of a record, if it is an older copy of itself by the word of the others of its array.
pub fn older_copy(own: &Superblock, records: &Records) -> Option<OlderCopy> {
    let all = records.iter().flatten().map(|(record, _)| record);
    older_copies::find(own, all.filter(|record| record.array == own.array))
}

/// A member that says of itself that it is being rebuilt is: either its own record is the last to say otherwise, or the
/// drive went back to a moment at which it was, and lacks zones that were rebuilt since. An older copy of itself for
/// certain when another member is being rebuilt by now, for one is at a time.
fn believe_rebuilding(record: &mut Superblock, own: &Superblock) -> Option<OlderCopy> {
    let member = usize::from(own.member);
    let is_over = own.members[member].state == MemberState::Rebuilding
        && record.members[member].state == MemberState::Active;
    if !is_over {
        return None;
    }
    if record.members.iter().any(|other| other.state == MemberState::Rebuilding) {
        return Some(OlderCopy::of(own, record));
    }
    record.members[member].state = MemberState::Rebuilding;
    record.rebuild_from = own.rebuild_from;
    None
}

/// The array that most drives belong to.
pub fn array_of_most(records: &Records) -> Result<Uuid, MountError> {
    let all = || records.iter().flatten().map(|(record, _)| record);
    let votes = |array: &Uuid| all().filter(|record| record.array == *array).count();
    all().map(|record| record.array).max_by_key(votes).ok_or(MountError::NoSuperblock)
}

/// The record that speaks for the array that most drives belong to, of these records. Where all of them accuse one another, those
/// are not heard whom the logs of all drives there are show to be left behind.
pub fn speaker(
    drives: &mut DriveSet,
    records: &Records,
    all: &Records,
    now: Instant,
) -> Result<Superblock, MountError> {
    let array = array_of_most(records)?;
    let is_own = |found: &&(Superblock, LogState)| found.0.array == array;
    let own: Vec<&Superblock> = records.iter().flatten().filter(is_own).map(|(record, _)| record).collect();
    let spoken = spokesman(&own).or_else(|| {
        let mut heard = own.clone();
        heard.retain(|record| !is_left_behind(drives, record, all, now));
        spokesman(&heard)
    });
    let Some(speaker) = spoken else {
        // A drive of another array may be in the place of the one that knows.
        let foreign = records.iter().enumerate().find_map(|(place, found)| {
            let (other, _) = found.as_ref().filter(|(record, _)| record.array != array)?;
            Some(MountError::ForeignDrive { place, found: other.array, wanted: array })
        });
        return Err(foreign.unwrap_or(MountError::SplitBrain));
    };
    // Whatever was written before, the next generation is above it.
    let generation = own.iter().map(|record| record.generation).max().unwrap_or(speaker.generation);
    let epoch = own.iter().map(|record| record.epoch).max().unwrap_or(speaker.epoch);
    Ok(Superblock { generation, epoch, ..speaker })
}

/// True when another drive wrote the newest record of this one, too, and newer ones after it.
fn is_left_behind(drives: &mut DriveSet, own: &Superblock, all: &Records, now: Instant) -> bool {
    all.iter().enumerate().any(|(place, found)| {
        found.as_ref().is_some_and(|(other, _)| may_leave_behind(other, own))
            && has_written(drives, place, own, now)
    })
}

fn level_of(record: &Superblock) -> Result<Level, MountError> {
    Level::from_code(record.level).ok_or(MountError::Level(record.level))
}

/// The code of the array's stripes.
fn code_of(record: &Superblock) -> Result<ErasureCode, MountError> {
    let (level, members) = (level_of(record)?, record.members.len());
    level.erasure_code(members).ok_or(MountError::Config(ConfigError::Members { level, members }))
}

/// Returns the configuration that the record describes, checked against the drives.
pub fn config_of(record: &Superblock, drives: &DriveSet) -> Result<ArrayConfig, MountError> {
    let level = level_of(record)?;
    let present = (0..drives.len()).find_map(|member| drives.geometry(DriveIndex::at(member)));
    let mut geometry = Geometry { zones: record.zones, ..*present.expect("enough members are there") };
    for member in 0..drives.len() {
        let Some(own) = drives.geometry(DriveIndex::at(member)) else { continue };
        // Zones beyond those of the smallest drive are not used.
        let fits = own.zones >= record.zones
            && own.zone_size_blocks == record.zone_size_blocks
            && own.zone_capacity_blocks == record.zone_capacity_blocks;
        if !fits {
            return Err(MountError::Geometry { member });
        }
        // Limits may differ from drive to drive; the array keeps to the lowest.
        geometry.open_zones_max = geometry.open_zones_max.min(own.open_zones_max);
        geometry.active_zones_max = geometry.active_zones_max.min(own.active_zones_max);
        geometry.append_blocks_max = geometry.append_blocks_max.min(own.append_blocks_max);
        geometry.transfer_blocks_max = geometry.transfer_blocks_max.min(own.transfer_blocks_max);
        geometry.volatile_cache |= own.volatile_cache;
        geometry.areas = common_areas(&geometry, own);
    }
    let mut config = ArrayConfig {
        array: record.array,
        level,
        members: record.members.len(),
        chunk_blocks: record.chunk_blocks,
        group_stripes: record.group_stripes,
        open: OpenSegments {
            small: record.segments_small.into(),
            large: record.segments_large.into(),
            large_chunk_blocks: record.large_chunk_blocks,
            append: AppendUse::from_code(record.append_use()).ok_or(MountError::Append(record.append))?,
        },
        volume_blocks: record.volume_blocks,
        geometry,
    };
    if config.validate().is_err() {
        // The array was made without areas, or with others, and these take more of its zones.
        config.geometry.areas = None;
    }
    config.validate().map_err(MountError::Config)?;
    Ok(config)
}

/// The first superblocks of a new array.
pub fn write_first(drives: &mut DriveSet, config: &ArrayConfig, members: &[Uuid]) -> Result<(), MountError> {
    let code = config.code();
    let record = Superblock {
        array: config.array,
        member: 0,
        generation: 1,
        epoch: 0,
        data_count: u8::try_from(code.data_count()).expect("at most 32 members"),
        parity_count: u8::try_from(code.parity_count()).expect("at most 32 members"),
        level: config.level.code(),
        chunk_blocks: config.chunk_blocks,
        group_stripes: config.group_stripes,
        zones: config.geometry.zones,
        zone_size_blocks: config.geometry.zone_size_blocks,
        zone_capacity_blocks: config.geometry.zone_capacity_blocks,
        volume_blocks: config.volume_blocks,
        large_chunk_blocks: config.open.large_chunk_blocks,
        segments_small: u8::try_from(config.open.small).expect("validated"),
        segments_large: u8::try_from(config.open.large).expect("validated"),
        append: config.open.append.code(),
        rebuild_from: 0,
        windows_gone: PieceSet::EMPTY,
        checkpoint: None,
        settled: Version::default(),
        mount_tag: 0,
        members: members.iter().map(|uuid| Member { uuid: *uuid, state: MemberState::Active }).collect(),
    };
    assert!(members.len() == config.members, "each member has an identity");
    for member in 0..config.members {
        let position = LogState { zone: ZoneIndex(0), next: 0 };
        write_one(drives, &record, member, position, Instant(0))?;
        expect_success(
            drives.execute(Instant(0), command(member, ZoneIndex(0), Op::Flush)),
            member,
            "flush",
        )?;
    }
    Ok(())
}

/// Writes the session's record to every member that is there and flushes it: the next one says that this one has settled. A log that is nearly full changes zones: the
/// old one is finished, which keeps its records and frees its place among the active zones, then the
/// other one is reset and gets the record. A drive that is taken in again comes last: it never holds a record that no other does.
pub fn write_record(session: &mut Session) -> Result<(), MountError> {
    let capacity = session.config.geometry.zone_capacity_blocks;
    let record = session.record.clone();
    assert!(session.writable, "a mount that only looks writes nothing");
    assert!(record.settled < record.version(), "a record is newer than what has settled");
    let others = (0..session.config.members).filter(|member| session.re_add != Some(*member));
    let in_order: Vec<usize> = others.chain(session.re_add).collect();
    for member in in_order {
        let Some(mut state) = session.log_positions[member].filter(|_| session.is_present(member)) else {
            continue;
        };
        let old = state.zone;
        assert!(old.0 < SUPERBLOCK_ZONES, "zone {old} holds no superblocks");
        let full = state.next + RECORDS_PER_MOUNT.min(capacity / 2) > capacity;
        if full {
            run(session, member, old, Op::Finish, "finish of a superblock zone")?;
            let other = ZoneIndex(SUPERBLOCK_ZONES - 1 - old.0);
            run(session, member, other, Op::Reset, "reset of a superblock zone")?;
            state = LogState { zone: other, next: 0 };
        }
        write_one(&mut session.drives, &record, member, state, session.now)?;
        state.next += 1;
        session.log_positions[member] = Some(state);
        run(session, member, ZoneIndex(0), Op::Flush, "flush")?;
    }
    session.record.settled = record.version();
    Ok(())
}

fn run(
    session: &mut Session,
    member: usize,
    zone: ZoneIndex,
    op: Op,
    what: &'static str,
) -> Result<(), MountError> {
    let completion = session.drives.execute(session.now, command(member, zone, op));
    expect_success(completion, member, what)
}

fn write_one(
    drives: &mut DriveSet,
    record: &Superblock,
    member: usize,
    state: LogState,
    now: Instant,
) -> Result<(), MountError> {
    let mut frame = Frame::zeroed();
    record.for_member(u8::try_from(member).expect("at most 32 members")).encode(&mut frame.data);
    assert!(state.zone.0 < SUPERBLOCK_ZONES, "zone {} holds no superblocks", state.zone);
    let op = Op::Write { offset: state.next, frames: vec![frame] };
    expect_success(drives.execute(now, command(member, state.zone, op)), member, "write of a superblock")
}

/// An answer that mounting cannot do without.
pub fn expect_success(completion: Completion, member: usize, what: &'static str) -> Result<(), MountError> {
    match completion.status {
        Status::Success => Ok(()),
        status => Err(MountError::Drive { member, what, status }),
    }
}

/// The newest whole record in the superblock zones of a drive.
pub fn newest_record(drives: &mut DriveSet, place: usize, now: Instant) -> Option<(Superblock, LogState)> {
    let capacity = drives.geometry(DriveIndex::at(place))?.zone_capacity_blocks;
    let report = command(place, ZoneIndex(0), Op::Report { count: SUPERBLOCK_ZONES });
    let descriptors = drives.execute(now, report).report;
    let mut newest: Option<(Superblock, LogState)> = None;
    for (zone, descriptor) in (0..).map(ZoneIndex).zip(descriptors) {
        let next = descriptor.written_blocks(capacity);
        let Some(record) = last_record(drives, place, zone, next, now) else { continue };
        if newest.as_ref().is_none_or(|(before, _)| record.generation > before.generation) {
            newest = Some((record, LogState { zone, next }));
        }
    }
    newest
}

/// True when a drive's superblock log holds this record, as a member of its own.
pub fn has_written(drives: &mut DriveSet, place: usize, wanted: &Superblock, now: Instant) -> bool {
    let Some(geometry) = drives.geometry(DriveIndex::at(place)) else { return false };
    let capacity = geometry.zone_capacity_blocks;
    let report = command(place, ZoneIndex(0), Op::Report { count: SUPERBLOCK_ZONES });
    let descriptors = drives.execute(now, report).report;
    (0..).map(ZoneIndex).zip(descriptors).any(|(zone, descriptor)| {
        let written = (0..descriptor.written_blocks(capacity)).rev();
        log_holds(written.filter_map(|offset| record_at(drives, place, (zone, offset), now)), wanted)
    })
}

/// The format version of the first superblock that is not of ours.
fn other_version(drives: &mut DriveSet, now: Instant) -> Option<u32> {
    let places = (0..drives.len()).flat_map(|place| (0..SUPERBLOCK_ZONES).map(move |zone| (place, zone)));
    places.into_iter().find_map(|(place, zone)| {
        let op = Op::Read { offset: 0, frames: vec![Frame::zeroed()] };
        let completion = drives.execute(now, command(place, ZoneIndex(zone), op));
        Superblock::other_version(&completion.frames.first()?.data)
    })
}

/// The last whole record before block `end` of a superblock zone: the newest of that zone, unless
/// it was torn, then the one before it.
fn last_record(
    drives: &mut DriveSet,
    place: usize,
    zone: ZoneIndex,
    end: u32,
    now: Instant,
) -> Option<Superblock> {
    (0..end).rev().find_map(|offset| record_at(drives, place, (zone, offset), now))
}

/// The record in a block of a superblock zone. A drive may have returned another block, once, and an older record where a
/// newer one names a failed member takes that member for a current one: each block is asked twice, and the newer answer
/// counts.
fn record_at(
    drives: &mut DriveSet,
    place: usize,
    (zone, offset): (ZoneIndex, u32),
    now: Instant,
) -> Option<Superblock> {
    let answers = (0..2).filter_map(|_| {
        let op = Op::Read { offset, frames: vec![Frame::zeroed()] };
        let completion = drives.execute(now, command(place, zone, op));
        Superblock::decode(&completion.frames.first()?.data)
    });
    answers.max_by_key(|record| record.generation)
}
