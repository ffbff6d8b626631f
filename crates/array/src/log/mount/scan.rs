//! Scanning: which zones form which segments, and what each block says of itself.
//!
//! A segment that counts has every header durable before its first stripe, so:
//! - any good header copy names all its zones;
//! - a zone of it that is empty, or holds another segment, means that it was being made or being
//!   erased when the power went: it holds nothing that counts, and its zones are reset.
//!
//! That goes for the members a segment was written with. On one that is being rebuilt, an older segment's
//! zone is empty or in part until the rebuild has made it full; then it counts like any other.

use crate::log::mount::superblocks::{command, written_blocks};
use crate::log::mount::{MountError, Session};
use base::frame::Frame;
use base::mutant::{self, Mutant};
use base::units::{DriveIndex, ZoneIndex};
use std::collections::BTreeMap;
use zone::device::{Op, Status, ZoneDescriptor, ZoneState};
use zone::drives::DriveCommand;
use zone::format::footer::{self, Entry, FooterId};
use zone::format::header::{SegmentHeader, Stream, WriteMode};
use zone::format::oob::{self, Bound, Hint, Role};
use zone::format::{HEADER_BLOCKS, SUPERBLOCK_ZONES};
use zone::stripe::{Layout, LayoutSizes};

/// Blocks of one read command while scanning.
const READ_BLOCKS_MAX: u32 = 64;

/// A zone of a segment as it was found.
pub struct FoundZone {
    /// Blocks that may hold data; the capacity when the zone is full.
    pub written: u32,
    /// No more can be written.
    pub full: bool,
    /// It accepts writes.
    pub writable: bool,
    /// What each block of the data region says of itself; `None` where it says nothing whole.
    pub entries: Vec<Option<Entry>>,
    /// What blocks whose metadata fails its checksum seem to say, by place in the data region.
    pub hints: BTreeMap<u32, Hint>,
}

/// A segment that counts.
pub struct FoundSegment {
    /// Its header.
    pub header: SegmentHeader,
    /// Where its stripes lie.
    pub layout: Layout,
    /// Its zones by member; `None` when the member or its zone is not there.
    pub zones: Vec<Option<FoundZone>>,
    /// Members that are there but whose zone is to be rebuilt, one bit each.
    pub zones_missing: u32,
    /// Every zone is full.
    pub sealed: bool,
}

/// What the drives hold.
pub struct Scan {
    /// Segments that count, oldest first.
    pub segments: Vec<FoundSegment>,
    /// Zones of segments that do not.
    pub zones_to_reset: Vec<(usize, ZoneIndex)>,
    /// Zones that are neither free nor to be reset, by member.
    pub zones_in_use: Vec<Vec<bool>>,
}

/// Scans all zones.
pub fn run(session: &mut Session) -> Result<Scan, MountError> {
    let descriptors = report_all(session)?;
    let own = read_headers(session, &descriptors);
    let mut headers: BTreeMap<u64, SegmentHeader> = BTreeMap::new();
    for header in own.iter().flatten().flatten() {
        headers.entry(header.segment).or_insert_with(|| header.clone());
    }
    let zones = session.config.geometry.zones as usize;
    let mut scan = Scan {
        segments: Vec::new(),
        zones_to_reset: Vec::new(),
        zones_in_use: vec![vec![false; zones]; session.config.members],
    };
    // Newest first: a zone whose own header is damaged belongs to the newest segment that names it.
    for header in headers.into_values().rev() {
        claim(session, &descriptors, &own, header, &mut scan);
    }
    scan.segments.reverse();
    find_orphans(session, &descriptors, &own, &mut scan);
    for index in 0..scan.segments.len() {
        let mut segment = std::mem::take(&mut scan.segments[index].zones);
        for (member, zone) in segment.iter_mut().enumerate() {
            if let Some(zone) = zone {
                zone.entries = read_entries(session, &scan.segments[index], member, zone);
            }
        }
        scan.segments[index].zones = segment;
    }
    Ok(scan)
}

fn report_all(session: &mut Session) -> Result<Vec<Vec<ZoneDescriptor>>, MountError> {
    let count = session.config.geometry.zones;
    (0..session.config.members)
        .map(|member| {
            if !session.is_present(member) {
                return Ok(Vec::new());
            }
            let completion =
                session.drives.execute(session.now, command(member, ZoneIndex(0), Op::Report { count }));
            match completion.status {
                Status::Success => Ok(completion.report),
                status => Err(MountError::Drive { member, what: "zone report", status }),
            }
        })
        .collect()
}

/// The own header of every zone that has a good one, by member and zone.
fn read_headers(
    session: &mut Session,
    descriptors: &[Vec<ZoneDescriptor>],
) -> Vec<Vec<Option<SegmentHeader>>> {
    let capacity = session.config.geometry.zone_capacity_blocks;
    let mut headers = Vec::new();
    for (member, zones) in descriptors.iter().enumerate() {
        let mut own = vec![None; session.config.geometry.zones as usize];
        for (zone, descriptor) in (0..).map(ZoneIndex).zip(zones).skip(SUPERBLOCK_ZONES as usize) {
            if written_blocks(descriptor, capacity) == 0 {
                continue;
            }
            own[zone.index()] =
                read_header(session, member, zone).or_else(|| read_header(session, member, zone));
        }
        headers.push(own);
    }
    headers
}

/// The header of a zone, if it is its own. Whoever gets none asks again: a drive may have returned another
/// block, once.
fn read_header(session: &mut Session, member: usize, zone: ZoneIndex) -> Option<SegmentHeader> {
    let op = Op::Read { offset: 0, frames: vec![Frame::zeroed()] };
    let completion = session.drives.execute(session.now, command(member, zone, op));
    let header = completion.frames.first().and_then(|frame| SegmentHeader::decode(&frame.data))?;
    is_own(session, &header, member, zone).then_some(header)
}

/// True when a header belongs to this array and to the zone it was read from.
fn is_own(session: &Session, header: &SegmentHeader, member: usize, zone: ZoneIndex) -> bool {
    header.array == session.config.array
        && usize::from(header.member) == member
        && header.zones.len() == session.config.members
        && header.zones[member] == zone
        && header.zones.iter().all(|zone| zone.0 < session.config.geometry.zones)
        && header.chunk_blocks == session.config.chunk_blocks_of(header.stream)
        && !(header.stream == Stream::Large && mutant::is(Mutant::LargeSegmentsNotFound))
        && header.level == session.config.level.code()
}

/// Decides whether a segment counts, and takes its zones.
fn claim(
    session: &mut Session,
    descriptors: &[Vec<ZoneDescriptor>],
    own: &[Vec<Option<SegmentHeader>>],
    header: SegmentHeader,
    scan: &mut Scan,
) {
    let capacity = session.config.geometry.zone_capacity_blocks;
    let sizes = LayoutSizes {
        chunk_blocks: header.chunk_blocks,
        group_stripes: header.group_stripes,
        capacity_blocks: capacity,
    };
    let layout = Layout::fit(session.config.code(), session.config.level, &sizes);
    let members: Vec<usize> =
        (0..session.config.members).filter(|member| session.is_present(*member)).collect();
    // Data follows only when every header is durable: without data, a header that is not there may have been
    // torn, and the other copies are not to be relied on.
    let owner = |member: usize| own[member][header.zones[member].index()].as_ref().map(|own| own.segment);
    let has_data = |member: usize| {
        let descriptor = &descriptors[member][header.zones[member].index()];
        owner(member).is_none_or(|owner| owner == header.segment)
            && written_blocks(descriptor, capacity) > HEADER_BLOCKS
    };
    let headerless = members.iter().any(|member| owner(*member) != Some(header.segment));
    let torn = headerless && !members.iter().any(|member| has_data(*member));
    let torn = torn && !mutant::is(Mutant::TornHeadersCount);
    if headerless && mutant::is(Mutant::OneHeaderDropsSegment) {
        return;
    }
    let counts = layout.is_some_and(|layout| layout.stripes == header.stripes)
        && !torn
        && !(headerless && mutant::is(Mutant::GoodZonesReset))
        && members.iter().all(|member| {
            let zone = header.zones[*member].index();
            // A zone is reset on every drive before any of them is used again, so an older header is none: the
            // drive returned what was there before.
            let other = owner(*member).is_some_and(|other| {
                let differs = other != header.segment;
                differs && (other > header.segment || mutant::is(Mutant::OlderHeaderWins))
            });
            let descriptor = &descriptors[*member][zone];
            let offline = descriptor.state == ZoneState::Offline && !mutant::is(Mutant::OfflineIsEmpty);
            let was_there = session.record.was_written_with(*member, header.segment);
            let empty = was_there && !offline && written_blocks(descriptor, capacity) == 0;
            !other && !empty && !scan.zones_in_use[*member][zone]
        });
    if !counts {
        session.report.segments_discarded += 1;
        members.into_iter().for_each(|member| discard_zone(descriptors, own, &header, member, scan));
        return;
    }
    let mut zones_missing = 0;
    let zones: Vec<Option<FoundZone>> = (0..session.config.members)
        .map(|member| {
            // The zone is taken on missing members too: a rebuild will write it.
            let zone = header.zones[member];
            scan.zones_in_use[member][zone.index()] = true;
            let descriptor = descriptors[member].get(zone.index())?;
            if is_rebuilt(session, member, header.segment, descriptor) {
                return found_zone(descriptor, capacity);
            }
            zones_missing |= 1 << member;
            if written_blocks(descriptor, capacity) > 0 {
                scan.zones_to_reset.push((member, zone));
            }
            None
        })
        .collect();
    let sealed = zones.iter().flatten().all(|zone| zone.full);
    let layout = layout.expect("checked above");
    if mutant::is(Mutant::OneOpenSegment) && !sealed && scan.segments.iter().any(|other| !other.sealed) {
        return;
    }
    scan.segments.push(FoundSegment { header, layout, zones, zones_missing, sealed });
}

/// A zone of a segment that does not count is erased, if it is its own.
fn discard_zone(
    descriptors: &[Vec<ZoneDescriptor>],
    own: &[Vec<Option<SegmentHeader>>],
    header: &SegmentHeader,
    member: usize,
    scan: &mut Scan,
) {
    let zone = header.zones[member];
    let is_its_own = own[member][zone.index()].as_ref().is_some_and(|own| own.segment == header.segment);
    if !is_its_own || scan.zones_in_use[member][zone.index()] {
        return;
    }
    // A zone that was given up when its segment was erased stays given up.
    if is_resettable(descriptors[member][zone.index()].state) {
        scan.zones_to_reset.push((member, zone));
    } else {
        scan.zones_in_use[member][zone.index()] = true;
    }
}

/// True when a member holds its part of a segment: because the segment was written with it, or
/// because its zone was rebuilt, which makes it full as the last of all.
fn is_rebuilt(session: &Session, member: usize, segment: u64, descriptor: &ZoneDescriptor) -> bool {
    session.record.was_written_with(member, segment) || descriptor.state == ZoneState::Full
}

fn is_resettable(state: ZoneState) -> bool {
    !matches!(state, ZoneState::ReadOnly | ZoneState::Offline)
}

fn found_zone(descriptor: &ZoneDescriptor, capacity: u32) -> Option<FoundZone> {
    let (full, writable) = match descriptor.state {
        ZoneState::Offline => return None,
        ZoneState::Full => (true, false),
        ZoneState::ReadOnly => (false, false),
        ZoneState::Empty | ZoneState::ImplicitOpen | ZoneState::ExplicitOpen | ZoneState::Closed => {
            (false, true)
        }
    };
    Some(FoundZone {
        written: written_blocks(descriptor, capacity),
        full,
        writable,
        entries: Vec::new(),
        hints: BTreeMap::new(),
    })
}

/// Zones with data that no segment claims: reset when they hold no block of this array, kept and
/// reported when they do, so that damaged headers alone never destroy data. Zones that take no writes, or
/// hold less than they should, are not used.
fn find_orphans(
    session: &mut Session,
    descriptors: &[Vec<ZoneDescriptor>],
    own: &[Vec<Option<SegmentHeader>>],
    scan: &mut Scan,
) {
    let capacity = session.config.geometry.zone_capacity_blocks;
    for (member, zones) in descriptors.iter().enumerate() {
        for (zone, descriptor) in (0..).map(ZoneIndex).zip(zones).skip(SUPERBLOCK_ZONES as usize) {
            let has_shrunk = descriptor.capacity < capacity && !scan.zones_in_use[member][zone.index()];
            let unusable = has_shrunk || !is_resettable(descriptor.state);
            let claimed = scan.zones_in_use[member][zone.index()] || own[member][zone.index()].is_some();
            if unusable {
                scan.zones_in_use[member][zone.index()] = true;
            }
            if unusable || claimed || written_blocks(descriptor, capacity) == 0 {
                continue;
            }
            if holds_data(session, member, zone) {
                scan.zones_in_use[member][zone.index()] = true;
                session.report.zones_orphaned.push((DriveIndex::at(member), zone));
            } else {
                scan.zones_to_reset.push((member, zone));
            }
        }
    }
}

fn holds_data(session: &mut Session, member: usize, zone: ZoneIndex) -> bool {
    let op = Op::Read { offset: HEADER_BLOCKS, frames: vec![Frame::zeroed()] };
    let completion = session.drives.execute(session.now, command(member, zone, op));
    let array = session.array_tag();
    let bound = Bound { array, zone, group: 0 };
    completion.frames.iter().any(|frame| oob::open(&frame.oob, &bound).is_some())
}

/// What the blocks of a zone's data region say of themselves, from the footer when the zone has a
/// whole one, else from every block.
fn read_entries(
    session: &mut Session,
    segment: &FoundSegment,
    member: usize,
    zone: &mut FoundZone,
) -> Vec<Option<Entry>> {
    let has_footer =
        zone.full || zone.written >= segment.layout.footer_offset() + segment.layout.footer_blocks();
    if has_footer && let Some(entries) = read_footer(session, segment, member) {
        return entries;
    }
    read_oob(session, segment, member, zone)
}

fn read_footer(session: &mut Session, segment: &FoundSegment, member: usize) -> Option<Vec<Option<Entry>>> {
    let layout = &segment.layout;
    let zone = segment.header.zones[member];
    let frames = read_blocks(
        session,
        member,
        zone,
        layout.footer_offset()..layout.footer_offset() + layout.footer_blocks(),
    );
    let mut entries = Vec::with_capacity(layout.region_blocks() as usize);
    for (index, frame) in (0..).zip(frames) {
        let id = FooterId { array: session.array_tag(), segment: segment.header.segment, zone, index };
        if !footer::decode(&id, &frame?.data, layout.footer_entries(index).len(), &mut entries) {
            return None;
        }
    }
    Some(entries.into_iter().map(Some).collect())
}

fn read_oob(
    session: &mut Session,
    segment: &FoundSegment,
    member: usize,
    zone: &mut FoundZone,
) -> Vec<Option<Entry>> {
    let layout = segment.layout;
    let mut entries = vec![None; layout.region_blocks() as usize];
    let end = zone.written.min(layout.footer_offset());
    let mut first = HEADER_BLOCKS;
    while first < end {
        let last = (first + READ_BLOCKS_MAX * 16).min(end);
        let frames = read_blocks(session, member, segment.header.zones[member], first..last);
        for (place, frame) in (first - HEADER_BLOCKS..).zip(frames) {
            // Whatever is not as it should be is read again: a drive may have returned another block, once.
            if !take_entry(session, segment, member, zone, (place, frame), &mut entries) {
                read_again(session, segment, member, zone, place, &mut entries);
            }
        }
        first = last;
    }
    for place in said_twice(&entries, layout.chunk_blocks) {
        read_again(session, segment, member, zone, place, &mut entries);
    }
    entries
}

/// Places of blocks that say they are the same: one of them was read from another place.
fn said_twice(entries: &[Option<Entry>], chunk_blocks: u32) -> Vec<u32> {
    let mut first: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    let mut twice = Vec::new();
    for (place, entry) in (0..).zip(entries) {
        let Some(entry) = entry.filter(|entry| entry.whole) else { continue };
        let before = *first.entry((entry.stripe, place % chunk_blocks)).or_insert(place);
        if before != place {
            twice.extend([before, place]);
        }
    }
    twice
}

/// Reads a block of the data region once more and takes what it says now.
fn read_again(
    session: &mut Session,
    segment: &FoundSegment,
    member: usize,
    zone: &mut FoundZone,
    place: u32,
    entries: &mut [Option<Entry>],
) {
    if mutant::is(Mutant::BlocksReadOnce) {
        return;
    }
    let offset = place + HEADER_BLOCKS;
    let frame =
        read_blocks(session, member, segment.header.zones[member], offset..offset + 1).pop().flatten();
    take_entry(session, segment, member, zone, (place, frame), entries);
}

/// Takes what a block says of itself; true when it is certainly the one that was written there.
fn take_entry(
    session: &Session,
    segment: &FoundSegment,
    member: usize,
    zone: &mut FoundZone,
    (place, frame): (u32, Option<Frame>),
    entries: &mut [Option<Entry>],
) -> bool {
    let Some(frame) = frame else { return false };
    let entry = entry_of(session, segment, member, place + HEADER_BLOCKS, &frame);
    entries[place as usize] = entry;
    match entry {
        None => zone.hints.insert(place, oob::guess(&frame.oob)),
        Some(_) => zone.hints.remove(&place),
    };
    // A filler names its slot: one of another slot was read from there.
    let hint = oob::guess(&frame.oob);
    let slot = segment.layout.slot_at(place + HEADER_BLOCKS).map(|(slot, _)| slot);
    let is_here = Some(hint.stripe) == slot || mutant::is(Mutant::AnyFillerBelieved);
    entry.is_some_and(|entry| entry.whole || hint.is_filler && is_here)
}

/// The entry of a block whose metadata is whole; void when it does not belong where it was read, as behind
/// the end of a torn chunk.
fn entry_of(
    session: &Session,
    segment: &FoundSegment,
    member: usize,
    offset: u32,
    frame: &Frame,
) -> Option<Entry> {
    // A power failure left the write pointer behind a block that never arrived.
    if frame.is_blank() && !mutant::is(Mutant::BlankIsDamage) {
        return Some(Entry::VOID);
    }
    let layout = &segment.layout;
    let (slot, row) = layout.slot_at(offset)?;
    let group = layout.group_of(slot);
    let bound = Bound { array: session.array_tag(), zone: segment.header.zones[member], group };
    let place = oob::open(&frame.oob, &bound)?.place;
    if place.segment != segment.header.segment {
        return None;
    }
    if place.role == Role::Filler {
        return Some(Entry::VOID);
    }
    let static_place = segment.header.mode == WriteMode::Append || place.stripe == slot;
    let belongs = place.stripe < layout.stripes
        && static_place
        && layout.group_of(place.stripe) == group
        && usize::from(place.piece) == layout.piece_of(place.stripe, member)
        && u32::from(place.row) == row;
    if !belongs && !mutant::is(Mutant::MisplacedBelieved) {
        return Some(Entry::VOID);
    }
    Entry::from_protected(&frame.oob, place.role, place.stripe)
}

/// Reads blocks of a zone; `None` for those the drive cannot return.
pub fn read_blocks(
    session: &mut Session,
    member: usize,
    zone: ZoneIndex,
    blocks: std::ops::Range<u32>,
) -> Vec<Option<Frame>> {
    let per_command = READ_BLOCKS_MAX.min(session.config.geometry.transfer_blocks_max);
    let commands: Vec<DriveCommand> = blocks
        .clone()
        .step_by(per_command as usize)
        .map(|offset| {
            let count = per_command.min(blocks.end - offset);
            let frames = (0..count).map(|_| Frame::zeroed()).collect();
            command(member, zone, Op::Read { offset, frames })
        })
        .collect();
    let mut read = Vec::with_capacity(blocks.len());
    for completion in session.drives.execute_all(session.now, commands) {
        if completion.status == Status::Success {
            read.extend(completion.frames.into_iter().map(Some));
            continue;
        }
        if completion.status == Status::DeviceGone {
            session.vanished = Some(member);
        }
        // One bad block fails the command: ask for each alone.
        for (offset, frame) in (completion.offset..).zip(completion.frames) {
            let op = Op::Read { offset, frames: vec![frame] };
            let mut single = session.drives.execute(session.now, command(member, zone, op));
            let good = single.status == Status::Success;
            read.push(single.frames.pop().filter(|_| good));
        }
    }
    read
}
