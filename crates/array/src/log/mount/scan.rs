//! Scanning: which zones form which segments.
//!
//! A segment that counts has every header durable before its first stripe, so:
//! - any good header copy names all its zones;
//! - a zone of it that is empty, has a torn header and nothing else (zeros, where it was finished), or holds another segment, means that it was being made
//!   or being erased when the power went: it holds nothing that counts, and its zones are reset. Unless the zone's drive holds nothing of newer segments
//!   either, and others hold data, as many as suffice to decode it: then the drive went back to a moment before the
//!   segment (`lacking`). The segment counts without the zone, and is collected before others.
//!
//! That goes for the members a segment was written with. On one that is being rebuilt, an older segment's
//! zone is empty or in part until the rebuild has made it full; then it counts like any other.

use crate::log::mount::lacking::{self, Lacking, ZoneToMark};
use crate::log::mount::superblocks::command;
use crate::log::mount::{MountError, Session, windows};
use crate::log::window::Window;
use base::erasure::PieceSet;
use base::frame::Frame;
use base::units::{DriveIndex, ZoneIndex};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use zone::device::{Completion, Op, Status, ZoneDescriptor, ZoneState};
use zone::drives::DriveCommand;
use zone::format::footer::{self, Entry, FooterId};
use zone::format::header::{Blank, MARKER_BLOCKS, SegmentHeader, WriteMode};
use zone::format::oob::{self, Bound, Hint};
use zone::format::{HEADER_BLOCKS, SUPERBLOCK_ZONES};
use zone::stripe::{Layout, LayoutSizes};

/// Blocks of one read command while scanning.
pub const READ_BLOCKS_MAX: u32 = 64;
/// Read commands in flight at a time, over all drives: what is read ahead takes at most 32 MiB, and each of 32 drives
/// still has several.
pub const READS_IN_FLIGHT_MAX: usize = 128;

/// Result of scanning every zone, by member and zone.
pub struct Zones {
    /// Descriptor that the drive gives of the zone; nothing of members that are not there.
    pub descriptors: Vec<Vec<ZoneDescriptor>>,
    /// Header of the zone itself, if that is whole.
    pub own: Vec<Vec<Option<SegmentHeader>>>,
    /// The newest segment that a member holds a header of.
    pub newest: Vec<u64>,
    /// Zones that end with their footer, of members that are being rebuilt.
    closed: BTreeSet<(usize, ZoneIndex)>,
    /// Ends of what was written in windows, committed or not, by member and zone; those of the write area are read with their slots.
    ends: BTreeMap<(usize, ZoneIndex), u32>,
    /// Zones without an area, of drives that have such, that hold no more than a marker: the block of the header was never written.
    headless: BTreeSet<(usize, ZoneIndex)>,
    /// Zones that were finished when they held no data yet, by segment and member.
    finished_empty: BTreeSet<(u64, usize)>,
    /// Blocks of a zone.
    capacity: u32,
}

impl Zones {
    fn read(session: &mut Session) -> Result<Zones, MountError> {
        let descriptors = report_all(session)?;
        let own = read_headers(session, &descriptors);
        let newest_of = |zones: &Vec<Option<SegmentHeader>>| {
            zones.iter().flatten().map(|header| header.segment).max().unwrap_or(0)
        };
        let newest = own.iter().map(newest_of).collect();
        let closed = find_closed(session, &descriptors, &own);
        let capacity = session.config.geometry.zone_capacity_blocks;
        let ends = windows::read_ends(session, &descriptors, &own);
        let headless = find_headless(session, &descriptors, &own);
        let finished_empty = BTreeSet::new();
        assert!(
            [descriptors.len(), own.len()] == [session.config.members; 2],
            "zones of {} members, headers of {}",
            descriptors.len(),
            own.len()
        );
        Ok(Zones { descriptors, own, newest, closed, ends, headless, finished_empty, capacity })
    }

    /// Finds zones that were finished though they hold no data: of segments of which a member holds no header or, in area mode, no data,
    /// for only there it matters. A drive did so by itself, or the engine, for a header that was torn while the drive was away (ADR 72).
    fn find_finished_empty(&mut self, session: &mut Session, headers: &BTreeMap<u64, SegmentHeader>) {
        for header in headers.values().filter(|header| !header.is_write_area) {
            let is_there = |member: &usize| session.is_present(*member);
            let members: Vec<usize> = (0..session.config.members).filter(is_there).collect();
            let has_area = header.mode == WriteMode::Area;
            let holds_it = |member: &usize| {
                self.owner(header, *member) == Some(header.segment)
                    && (!has_area || self.may_hold_data(header, *member))
            };
            if members.iter().all(holds_it) {
                continue;
            }
            for member in members {
                let is_full = self.descriptor(header, member).state == ZoneState::Full;
                let has_data = |session: &mut Session| match has_area {
                    true => windows::finished_with_data(session, header, member),
                    false => finished_with_data(session, header, member),
                };
                if is_full && !has_data(session) {
                    self.finished_empty.insert((header.segment, member));
                }
            }
        }
    }

    /// The own header of a member's zone of a segment.
    pub fn own_header(&self, header: &SegmentHeader, member: usize) -> Option<&SegmentHeader> {
        self.own[member][header.zones[member].index()].as_ref()
    }

    /// Returns the drive's descriptor of a member's zone of a segment.
    pub fn descriptor(&self, header: &SegmentHeader, member: usize) -> &ZoneDescriptor {
        &self.descriptors[member][header.zones[member].index()]
    }

    /// Blocks of a member's zone of a segment that may hold data.
    pub fn written(&self, header: &SegmentHeader, member: usize) -> u32 {
        let end = self.ends.get(&(member, header.zones[member]));
        end.copied().unwrap_or_else(|| self.descriptor(header, member).written_blocks(self.capacity))
    }

    /// True when nothing of a segment lies in a member's zone: the zone is empty, or has no more than a header that was torn or,
    /// in area mode, was not committed, or a marker.
    pub fn holds_nothing(&self, header: &SegmentHeader, member: usize) -> bool {
        let written = self.written(header, member);
        // Behind a commit a header is whole: one that cannot be read was damaged since.
        let has_area = self.descriptor(header, member).has_area;
        written < header.committed_blocks()
            || written == header.committed_blocks() && !has_area && self.own_header(header, member).is_none()
            || self.is_headless(header, member)
            || self.lacks_marker(header, member) && !self.has_data(header)
    }

    /// True when a marker is all that a member's zone of a segment holds: of this segment, or of one in area mode that took its place later.
    fn is_headless(&self, header: &SegmentHeader, member: usize) -> bool {
        self.headless.contains(&(member, header.zones[member]))
    }

    /// True when a member's zone of a segment in area mode has no area, and no marker either: where others hold data, a window
    /// was taken with all it held; else the header was torn.
    pub fn lacks_marker(&self, header: &SegmentHeader, member: usize) -> bool {
        !self.descriptor(header, member).has_area && self.written(header, member) < header.header_blocks
    }

    /// True when a member holds data of a segment, by how far its zone was written.
    fn has_data(&self, header: &SegmentHeader) -> bool {
        let is_there = |member: &usize| !self.descriptors[*member].is_empty();
        (0..header.zones.len()).filter(is_there).any(|member| {
            self.owner(header, member) == Some(header.segment) && self.may_hold_data(header, member)
        })
    }

    /// True when more than headers may lie in a member's zone of a segment, by how far it was written.
    pub fn may_hold_data(&self, header: &SegmentHeader, member: usize) -> bool {
        self.written(header, member) > header.header_blocks
            && !self.finished_empty.contains(&(header.segment, member))
    }

    /// True when a member's zone of a segment has a window without any block, though its write pointer has moved.
    pub fn window_is_empty(&self, header: &SegmentHeader, member: usize) -> bool {
        let ZoneDescriptor { has_area, write_pointer, .. } = *self.descriptor(header, member);
        has_area && write_pointer > 0 && self.written(header, member) == write_pointer
    }

    /// True when a member that is being rebuilt holds its part of a segment: a zone becomes full as the last thing of all,
    /// when what it and the others hold has left their caches. On a drive that was away, another segment may be in its place,
    /// or the zone was only finished, with a segment that a mount condemned: then it does not end with a footer.
    pub fn is_rebuilt(&self, header: &SegmentHeader, member: usize) -> bool {
        let is_its_own = |own: &SegmentHeader| {
            own.segment == header.segment
                && own.sequence == header.sequence
                && own.zones == header.zones
                && own.blank == Blank::No
        };
        self.descriptor(header, member).state == ZoneState::Full
            && self.closed.contains(&(member, header.zones[member]))
            && self.own_header(header, member).is_some_and(is_its_own)
    }

    /// The segment whose header a member holds in its zone of a segment.
    fn owner(&self, header: &SegmentHeader, member: usize) -> Option<u64> {
        self.own_header(header, member).map(|own| own.segment)
    }
}

/// A zone of a segment as it was found.
pub struct FoundZone {
    /// Blocks that may hold data; the capacity when the zone is full.
    pub written: u32,
    /// No more can be written.
    pub full: bool,
    /// True when the zone accepts writes.
    pub writable: bool,
    /// Window of the zone, if it has a random write area and all drives have areas that are alike.
    pub window: Option<Window>,
    /// True when it has a random write area.
    pub has_area: bool,
    /// True when its drive lost what the zone's window held: what it lacks may have been there.
    pub window_is_gone: bool,
    /// True when its entries are those of its footer.
    pub has_footer: bool,
    /// Entries of the data region's blocks; `None` where a block says nothing whole. Empty until it is read.
    pub entries: Vec<Option<Entry>>,
    /// Hints from blocks whose metadata fails its checksum, by place in the data region.
    pub hints: BTreeMap<u32, Hint>,
}

/// A segment that counts.
pub struct FoundSegment {
    /// Header of the segment.
    pub header: SegmentHeader,
    /// Layout of its stripes.
    pub layout: Layout,
    /// Zones of the segment by member; `None` when the member or its zone is not there.
    pub zones: Vec<Option<FoundZone>>,
    /// Members that are there but whose zone is to be rebuilt, one bit each.
    pub zones_missing: u32,
    /// Every zone is full.
    pub sealed: bool,
    /// A checkpoint says what it holds: its blocks are not asked.
    pub covered: bool,
    /// Rows at its start that summaries describe.
    pub described: u32,
    /// A zone ends before rows that summaries describe: its drive went back to a moment before them.
    pub is_behind: bool,
    /// True when what members lack of the segment may never have been promised.
    pub is_unproven: bool,
    /// True when the operator gives up what windows lost that nobody can make up for.
    pub is_given_up: bool,
}

/// A segment of the write area.
pub struct FoundArea {
    /// Header of the segment.
    pub header: SegmentHeader,
    /// Layout that a segment of stripes would have there.
    pub layout: Layout,
    /// Members whose zones hold it.
    pub readable: PieceSet,
    /// Ends of what zones may hold, by member.
    pub ends: Vec<u32>,
    /// Members that are there but whose zone is not of the segment, one bit each.
    pub zones_missing: u32,
    /// True when a zone is empty, or has no header that was committed: nothing in slots was needed any more, or nothing was there yet.
    pub was_left: bool,
}

/// Result of a scan of the drives.
pub struct Scan {
    /// Segments that count, oldest first.
    pub segments: Vec<FoundSegment>,
    /// Segments of the write area, oldest first.
    pub areas: Vec<FoundArea>,
    /// Zones of segments that do not.
    pub zones_to_reset: Vec<(usize, ZoneIndex)>,
    /// Zones that are neither free nor to be reset, by member.
    pub zones_in_use: Vec<Vec<bool>>,
    /// Zones that active members lack.
    pub zones_to_mark: Vec<ZoneToMark>,
}

/// Scans all zones; nothing is written.
pub fn run(session: &mut Session) -> Result<Scan, MountError> {
    let mut read = Zones::read(session)?;
    let mut headers: BTreeMap<u64, SegmentHeader> = BTreeMap::new();
    // A member that is being rebuilt may hold segments of long ago: the others are asked first.
    let is_rebuilding = |member: &usize| !session.record.was_written_with(*member, 0);
    let (rebuilding, others): (Vec<usize>, Vec<usize>) = (0..read.own.len()).partition(is_rebuilding);
    for member in others.into_iter().chain(rebuilding) {
        for header in read.own[member].iter().flatten() {
            headers.entry(header.segment).or_insert_with(|| header.clone());
        }
    }
    read.find_finished_empty(session, &headers);
    let lacking = lacking::find(session, &read, &headers);
    let zones = session.config.geometry.zones as usize;
    let mut scan = Scan {
        segments: Vec::new(),
        areas: Vec::new(),
        zones_to_reset: Vec::new(),
        zones_in_use: vec![vec![false; zones]; session.config.members],
        zones_to_mark: Vec::new(),
    };
    // Newest first: a zone whose own header is damaged belongs to the newest segment that names it.
    for header in headers.into_values().rev() {
        match header.is_write_area {
            true => claim_area(session, &read, header, &mut scan),
            false => claim(session, &read, header, &lacking, &mut scan),
        }
    }
    assert!(
        scan.segments.is_sorted_by(|newer, older| newer.header.segment > older.header.segment),
        "segments are claimed newest first"
    );
    scan.segments.reverse();
    scan.areas.reverse();
    scan.zones_to_mark = lacking::zones_to_mark(&read, &scan.segments, &lacking);
    find_orphans(session, &read, &mut scan);
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

/// Reads headers from all drives at once.
fn read_headers(
    session: &mut Session,
    descriptors: &[Vec<ZoneDescriptor>],
) -> Vec<Vec<Option<SegmentHeader>>> {
    let capacity = session.config.geometry.zone_capacity_blocks;
    let zones = session.config.geometry.zones;
    let places: Vec<(usize, ZoneIndex)> = (SUPERBLOCK_ZONES..zones)
        .map(ZoneIndex)
        .flat_map(|zone| (0..descriptors.len()).map(move |member| (member, zone)))
        .filter(|(member, zone)| {
            descriptors[*member].get(zone.index()).is_some_and(|zone| zone.written_blocks(capacity) > 0)
        })
        .collect();
    let mut headers = vec![vec![None; zones as usize]; descriptors.len()];
    let commands = places.iter().map(|(member, zone)| read_of_header(*member, *zone));
    let mut answers = Vec::new();
    session.drives.execute_stream(session.now, commands, READS_IN_FLIGHT_MAX, |index, completion| {
        answers.push((index, header_of(&completion)));
    });
    for (index, header) in answers {
        let (member, zone) = places[index];
        let own = header.filter(|header| is_own(session, header, member, zone));
        // A drive may have returned another block, once.
        headers[member][zone.index()] = own.or_else(|| read_header(session, member, zone));
    }
    headers
}

fn read_of_header(member: usize, zone: ZoneIndex) -> DriveCommand {
    command(member, zone, Op::Read { offset: 0, frames: vec![Frame::zeroed()] })
}

fn header_of(completion: &Completion) -> Option<SegmentHeader> {
    completion.frames.first().and_then(|frame| SegmentHeader::decode(&frame.data))
}

/// The header of a zone, if it is its own.
pub fn read_header(session: &mut Session, member: usize, zone: ZoneIndex) -> Option<SegmentHeader> {
    let completion = session.drives.execute(session.now, read_of_header(member, zone));
    header_of(&completion).filter(|header| is_own(session, header, member, zone))
}

/// True when a header belongs to this array and to the zone it was read from.
fn is_own(session: &Session, header: &SegmentHeader, member: usize, zone: ZoneIndex) -> bool {
    header.array == session.config.array
        && usize::from(header.member) == member
        && header.zones.len() == session.config.members
        && header.zones[member] == zone
        && header.zones.iter().all(|zone| zone.0 < session.config.geometry.zones)
        && header.chunk_blocks == session.config.chunk_blocks_of(header.stream)
        && header.level == session.config.level.code()
}

/// Finds zones that have no header and no area, though their drives have areas: behind what was never written may lie the marker of a
/// segment that was being made, when the drive gave the area back. Headers of segments in other modes, which name the zone because another drive
/// went back to a moment before, have no marker: how much lies there is held against the area's granule, not against their lengths.
fn find_headless(
    session: &mut Session,
    descriptors: &[Vec<ZoneDescriptor>],
    own: &[Vec<Option<SegmentHeader>>],
) -> BTreeSet<(usize, ZoneIndex)> {
    let capacity = session.config.geometry.zone_capacity_blocks;
    let mut headless = BTreeSet::new();
    for (member, zones) in descriptors.iter().enumerate() {
        let areas = session.drives.geometry(DriveIndex::at(member)).and_then(|geometry| geometry.areas);
        let Some(areas) = areas else { continue };
        let marker_end = areas.granule_blocks + MARKER_BLOCKS;
        for (zone, descriptor) in (0..).map(ZoneIndex).zip(zones).skip(SUPERBLOCK_ZONES as usize) {
            let may_be = !descriptor.has_area
                && (1..=marker_end).contains(&descriptor.written_blocks(capacity))
                && own[member][zone.index()].is_none();
            if may_be && lacks_header(session, member, zone) {
                headless.insert((member, zone));
            }
        }
    }
    headless
}

/// Finds the zones of members being rebuilt that end with their footer.
fn find_closed(
    session: &mut Session,
    descriptors: &[Vec<ZoneDescriptor>],
    own: &[Vec<Option<SegmentHeader>>],
) -> BTreeSet<(usize, ZoneIndex)> {
    let mut closed = BTreeSet::new();
    for (member, headers) in own.iter().enumerate() {
        if session.record.was_written_with(member, 0) {
            continue;
        }
        for (zone, header) in (0..).map(ZoneIndex).zip(headers) {
            let is_full = descriptors[member].get(zone.index()).is_some_and(|z| z.state == ZoneState::Full);
            let Some(header) = header.as_ref().filter(|_| is_full) else { continue };
            // A drive may return another block, once.
            if (0..2).any(|_| ends_with_footer(session, header, member)) {
                closed.insert((member, zone));
            }
        }
    }
    closed
}

/// True when a member's zone of a segment ends with the footer of that segment.
pub fn ends_with_footer(session: &mut Session, header: &SegmentHeader, member: usize) -> bool {
    let Some(layout) = layout_of(session, header) else { return false };
    let (zone, index) = (header.zones[member], layout.footer_blocks() - 1);
    let id = FooterId { array: session.array_tag(), segment: header.segment, zone, index };
    let offset = layout.footer_offset() + index;
    let blocks = read_blocks(session, member, zone, offset..offset + 1);
    let count = layout.footer_entries(index).len();
    blocks.iter().flatten().any(|frame| footer::decode(&id, &frame.data, count, &mut Vec::new()))
}

/// True unless all blocks behind the header of a member's zone of a segment are zeros, as those of a zone are that was finished before
/// they were written.
fn finished_with_data(session: &mut Session, header: &SegmentHeader, member: usize) -> bool {
    let (zone, end) = (header.zones[member], session.config.geometry.zone_capacity_blocks);
    (HEADER_BLOCKS..end).step_by(READ_BLOCKS_MAX as usize).any(|start| {
        let blocks = read_blocks(session, member, zone, start..end.min(start + READ_BLOCKS_MAX));
        blocks.iter().any(|frame| frame.as_ref().is_none_or(|frame| !frame.is_blank()))
    })
}

/// The layout of a segment's stripes; `None` when the header does not fit this array.
fn layout_of(session: &Session, header: &SegmentHeader) -> Option<Layout> {
    let sizes = LayoutSizes {
        header_blocks: header.header_blocks,
        chunk_blocks: header.chunk_blocks,
        group_stripes: header.group_stripes,
        capacity_blocks: session.config.geometry.zone_capacity_blocks,
    };
    let layout = Layout::fit(session.config.code(), session.config.level, &sizes);
    layout.filter(|layout| layout.stripes == header.stripes)
}

/// Decides whether a segment counts, and takes its zones.
fn claim(session: &mut Session, read: &Zones, header: SegmentHeader, all_lacking: &Lacking, scan: &mut Scan) {
    let layout = layout_of(session, &header);
    let members: Vec<usize> =
        (0..session.config.members).filter(|member| session.is_present(*member)).collect();
    let headerless = members.iter().any(|member| read.owner(&header, *member) != Some(header.segment));
    let lacking = all_lacking.of(header.segment);
    let torn = headerless && is_torn(session, read, &header);
    let layout = layout.filter(|_| {
        let is_whole = |member: &usize| {
            !scan.zones_in_use[*member][header.zones[*member].index()]
                && holds_segment(session, read, &header, *member, lacking.contains(*member))
        };
        !torn && members.iter().all(is_whole)
    });
    let Some(layout) = layout else {
        session.report.segments_discarded += 1;
        members.into_iter().for_each(|member| discard_zone(read, &header, member, scan));
        return;
    };
    let (mut zones, zones_missing) = take_zones(session, read, &header, lacking, scan);
    windows::find_gone(session, read, (&header, &layout), &mut zones);
    assert!(zones.len() == session.config.members, "a zone of every member, or none");
    assert!(
        zones.iter().enumerate().all(|(member, zone)| zone.is_none() || zones_missing & 1 << member == 0),
        "a zone that is to be rebuilt is not there: {zones_missing:#b}"
    );
    let sealed = zones.iter().flatten().all(|zone| zone.full);
    let is_unproven = all_lacking.is_unproven(session, read, &header, sealed);
    let covered = sealed && session.covers(header.segment);
    scan.segments.push(FoundSegment {
        header,
        layout,
        zones,
        zones_missing,
        sealed,
        covered,
        described: 0,
        is_behind: false,
        is_unproven,
        is_given_up: false,
    });
}

/// Takes the zones of a segment of the write area, unless one of them was used again: then all were erased. So they were, too, when more
/// zones are of other segments, or empty, than drives may have gone back to a moment before it.
fn claim_area(session: &mut Session, read: &Zones, header: SegmentHeader, scan: &mut Scan) {
    let members: Vec<usize> =
        (0..session.config.members).filter(|member| session.is_present(*member)).collect();
    let was_there = |member: &usize| session.record.was_written_with(*member, header.segment);
    let is_used_again = |member: &usize| {
        scan.zones_in_use[*member][header.zones[*member].index()]
            || was_there(member) && read.owner(&header, *member).is_some_and(|other| other > header.segment)
    };
    let is_other = |member: &&usize| was_there(member) && is_of_another(read, &header, **member);
    let was_erased = members.iter().filter(is_other).count() > session.config.code().tolerance();
    let layout = layout_of(session, &header).filter(|_| !was_erased && !members.iter().any(is_used_again));
    let Some(layout) = layout else {
        session.report.segments_discarded += 1;
        members.into_iter().for_each(|member| discard_zone(read, &header, member, scan));
        return;
    };
    let (mut readable, mut zones_missing, mut was_left) = (PieceSet::EMPTY, 0, false);
    let mut ends = vec![0; session.config.members];
    for (member, end) in ends.iter_mut().enumerate() {
        let zone = header.zones[member];
        scan.zones_in_use[member][zone.index()] = true;
        let Some(descriptor) = read.descriptors[member].get(zone.index()) else { continue };
        let is_own = read.owner(&header, member) == Some(header.segment);
        if !session.record.was_written_with(member, header.segment) {
            zones_missing |= 1 << member;
            if read.written(&header, member) > 0 || descriptor.has_area {
                scan.zones_to_reset.push((member, zone));
            }
        } else if is_own && descriptor.state != ZoneState::Offline {
            readable.insert(member);
            *end = window_end(session, read, &header, member);
        } else {
            let is_uncommitted = descriptor.has_area && descriptor.write_pointer < header.committed_blocks();
            was_left |= descriptor.state == ZoneState::Empty
                || is_uncommitted
                || !is_own && lacks_header(session, member, zone);
        }
    }
    assert!(
        readable.iter().all(|member| zones_missing & 1 << member == 0),
        "a member holds its zone of the write area, or lacks it: {readable:?}, {zones_missing:#b}"
    );
    assert!(
        ends.iter().all(|end| *end <= read.capacity),
        "windows end in their zones of {} blocks: {ends:?}",
        read.capacity
    );
    scan.areas.push(FoundArea { header, layout, readable, ends, zones_missing, was_left });
}

/// True when the first block of a zone was never written: its drive finished it while its segment was being made. A drive may
/// return another block, once.
fn lacks_header(session: &mut Session, member: usize, zone: ZoneIndex) -> bool {
    (0..2).all(|_| read_blocks(session, member, zone, 0..1).iter().flatten().any(Frame::is_blank))
}

/// True when a member's zone is empty, or has the header of another segment. One whose header is damaged may be of this one.
fn is_of_another(read: &Zones, header: &SegmentHeader, member: usize) -> bool {
    let is_empty = read.descriptor(header, member).state == ZoneState::Empty;
    read.owner(header, member).map_or(is_empty, |owner| owner != header.segment)
}

/// End of what slots may hold in a member's zone: of its window, or of what was written where it has none any more.
fn window_end(session: &Session, read: &Zones, header: &SegmentHeader, member: usize) -> u32 {
    let geometry = session.drives.geometry(DriveIndex::at(member));
    let areas = geometry.and_then(|geometry| Some((geometry, geometry.areas?)));
    let committed = header.committed_blocks();
    let end = areas.map_or(read.capacity, |(geometry, areas)| areas.window_end(geometry, committed));
    let descriptor = read.descriptor(header, member);
    if descriptor.has_area { end } else { end.min(descriptor.written_blocks(read.capacity)) }
}

/// Data follows only when every header is durable: without data, a header that is not there may have been torn, and the
/// other copies are not to be relied on.
fn is_torn(session: &Session, read: &Zones, header: &SegmentHeader) -> bool {
    let members: Vec<usize> =
        (0..session.config.members).filter(|member| session.is_present(*member)).collect();
    // And a window that lost what it held may have held data.
    let has_data = members.into_iter().any(|member| {
        read.owner(header, member).is_none_or(|owner| owner == header.segment)
            && (read.window_is_empty(header, member) || read.may_hold_data(header, member))
    });
    !has_data
}

/// False when a member's zone says that a segment was being made or erased: it is empty though the member neither lacks it
/// nor is being rebuilt, or has been used again. Nobody asks a member that the segment was written without.
fn holds_segment(
    session: &Session,
    read: &Zones,
    header: &SegmentHeader,
    member: usize,
    is_lacking: bool,
) -> bool {
    let was_there = session.record.was_written_with(member, header.segment);
    if !was_there {
        return true;
    }
    // A zone is reset on every drive before any of them is used again, so an older header is none: the drive returned
    // what was there before.
    let was_used_again = read.owner(header, member).is_some_and(|other| other > header.segment);
    let offline = read.descriptor(header, member).state == ZoneState::Offline;
    let empty = !offline && read.holds_nothing(header, member);
    !was_used_again && (!empty || is_lacking)
}

/// Takes the zones of a segment that counts; the second says which ones are missing, one bit each.
fn take_zones(
    session: &Session,
    read: &Zones,
    header: &SegmentHeader,
    lacking: PieceSet,
    scan: &mut Scan,
) -> (Vec<Option<FoundZone>>, u32) {
    let capacity = session.config.geometry.zone_capacity_blocks;
    let mut zones_missing = 0;
    let zones = (0..session.config.members).map(|member| {
        // The zone is taken on missing members too: a rebuild will write it.
        let zone = header.zones[member];
        scan.zones_in_use[member][zone.index()] = true;
        let descriptor = read.descriptors[member].get(zone.index())?;
        let was_there = session.record.was_written_with(member, header.segment);
        if !lacking.contains(member) && (was_there || read.is_rebuilt(header, member)) {
            return found_zone(session, descriptor, read.written(header, member));
        }
        zones_missing |= 1 << member;
        if !lacking.contains(member) && (descriptor.written_blocks(capacity) > 0 || descriptor.has_area) {
            scan.zones_to_reset.push((member, zone));
        }
        None
    });
    (zones.collect(), zones_missing)
}

/// A zone of a segment that does not count is erased, if it is its own.
fn discard_zone(read: &Zones, header: &SegmentHeader, member: usize, scan: &mut Scan) {
    let zone = header.zones[member];
    if read.owner(header, member) != Some(header.segment) || scan.zones_in_use[member][zone.index()] {
        return;
    }
    assert!(
        zone.0 >= SUPERBLOCK_ZONES,
        "segment {} names zone {zone} of member {member}, which holds superblocks",
        header.segment
    );
    // A zone that was given up when its segment was erased stays given up.
    if is_resettable(read.descriptor(header, member).state) {
        scan.zones_to_reset.push((member, zone));
    } else {
        scan.zones_in_use[member][zone.index()] = true;
    }
}

fn is_resettable(state: ZoneState) -> bool {
    !matches!(state, ZoneState::ReadOnly | ZoneState::Offline)
}

fn found_zone(session: &Session, descriptor: &ZoneDescriptor, written: u32) -> Option<FoundZone> {
    let (full, writable) = match descriptor.state {
        ZoneState::Offline => return None,
        ZoneState::Full => (true, false),
        ZoneState::ReadOnly => (false, false),
        ZoneState::Empty | ZoneState::ImplicitOpen | ZoneState::ExplicitOpen | ZoneState::Closed => {
            (false, true)
        }
    };
    let areas = session.config.geometry.areas.filter(|_| descriptor.has_area);
    let window = areas.map(|areas| Window::new(areas, descriptor.write_pointer));
    Some(FoundZone {
        written,
        full,
        writable,
        window,
        has_area: descriptor.has_area,
        window_is_gone: false,
        has_footer: false,
        entries: Vec::new(),
        hints: BTreeMap::new(),
    })
}

/// Zones with data that no segment claims: reset when they hold no block of this array, kept and
/// reported when they do, so that damaged headers alone never destroy data. Zones that take no writes, or
/// hold less than they should, are not used.
fn find_orphans(session: &mut Session, read: &Zones, scan: &mut Scan) {
    let capacity = session.config.geometry.zone_capacity_blocks;
    for (member, zones) in read.descriptors.iter().enumerate() {
        for (zone, descriptor) in (0..).map(ZoneIndex).zip(zones).skip(SUPERBLOCK_ZONES as usize) {
            let has_shrunk = descriptor.capacity < capacity && !scan.zones_in_use[member][zone.index()];
            let unusable = has_shrunk || !is_resettable(descriptor.state);
            let claimed = scan.zones_in_use[member][zone.index()] || read.own[member][zone.index()].is_some();
            let is_rebuilding = !session.record.was_written_with(member, 0);
            if unusable {
                scan.zones_in_use[member][zone.index()] = true;
            }
            let written = descriptor.written_blocks(capacity);
            if unusable || claimed || written == 0 && !descriptor.has_area {
                continue;
            }
            // Of a member that is being rebuilt, what no segment claims is of no use.
            if !is_rebuilding && written > 0 && holds_data(session, member, zone) {
                scan.zones_in_use[member][zone.index()] = true;
                session.report.zones_orphaned.push((DriveIndex::at(member), zone));
            } else {
                scan.zones_to_reset.push((member, zone));
            }
        }
    }
}

fn holds_data(session: &mut Session, member: usize, zone: ZoneIndex) -> bool {
    let array = session.array_tag();
    let bound = Bound { array, zone, group: 0 };
    // In area mode data begin behind a granule and the marker.
    let areas = session.config.geometry.areas;
    let header_blocks = areas.map_or(HEADER_BLOCKS, |areas| areas.granule_blocks + MARKER_BLOCKS);
    let mut is_block = |offset| {
        let op = Op::Read { offset, frames: vec![Frame::zeroed()] };
        let completion = session.drives.execute(session.now, command(member, zone, op));
        completion.frames.iter().any(|frame| oob::open(&frame.oob, &bound).is_some())
    };
    let has_block = BTreeSet::from([HEADER_BLOCKS, header_blocks]).into_iter().any(&mut is_block);
    // What lies in the place of a header was appended after another server had emptied the zone (ADR 73): it never counted. A
    // drive may return another block once, and the zone will be reset: it is read twice.
    has_block && !(0..2).all(|_| is_block(0))
}

/// True when a block says by its identity that a segment wrote it where it lies.
pub fn is_of_segment(frame: &Frame, bound: &Bound, segment: u64) -> bool {
    oob::open(&frame.oob, bound).is_some_and(|oob| oob.place.segment == segment)
}

/// Blocks of a member's zone.
#[derive(Clone, Debug)]
pub struct Extent {
    /// The member.
    pub member: usize,
    /// The zone.
    pub zone: ZoneIndex,
    /// The blocks.
    pub blocks: Range<u32>,
}

/// Reads blocks of a zone; `None` for those the drive cannot return.
pub fn read_blocks(
    session: &mut Session,
    member: usize,
    zone: ZoneIndex,
    blocks: Range<u32>,
) -> Vec<Option<Frame>> {
    read_extents(session, &[Extent { member, zone, blocks }]).pop().expect("one extent is read")
}

/// Reads blocks of several zones, of all drives side by side; `None` for those that a drive cannot return.
pub fn read_extents(session: &mut Session, extents: &[Extent]) -> Vec<Vec<Option<Frame>>> {
    let per_command = READ_BLOCKS_MAX.min(session.config.geometry.transfer_blocks_max);
    assert!(extents.iter().all(|extent| extent.member < session.config.members), "members of the array");
    let (mut of_extent, mut commands) = (Vec::new(), Vec::new());
    for (index, Extent { member, zone, blocks }) in extents.iter().enumerate() {
        for offset in blocks.clone().step_by(per_command as usize) {
            let frames = (0..per_command.min(blocks.end - offset)).map(|_| Frame::zeroed()).collect();
            of_extent.push(index);
            commands.push(command(*member, *zone, Op::Read { offset, frames }));
        }
    }
    let mut read: Vec<Vec<Option<Frame>>> =
        extents.iter().map(|extent| Vec::with_capacity(extent.blocks.len())).collect();
    for (index, completion) in of_extent.into_iter().zip(session.drives.execute_all(session.now, commands)) {
        let Extent { member, zone, .. } = extents[index];
        if completion.status == Status::Success {
            read[index].extend(completion.frames.into_iter().map(Some));
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
            read[index].push(single.frames.pop().filter(|_| good));
        }
    }
    assert!(
        read.iter().zip(extents).all(|(read, extent)| read.len() == extent.blocks.len()),
        "each block is there, or is not"
    );
    read
}
