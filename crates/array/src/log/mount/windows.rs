//! Windows: what drives kept of random write areas. The write pointer says what was committed; how far blocks were written beyond
//! it, only the blocks say: all zeros, metadata too, was never written.
//!
//! ```text
//!   zone | header |M . . . . . .|         zone | header M 0 1 2 |3 4 5 . 7 .|         M: the marker
//!                 ^ WP                                          ^ WP                 3: durable on all members
//! ```
//! A window holds a block from the moment at which its segment counts until all stripes are committed: the marker, then at
//! least the last block that is durable on all members (`log/window.rs`). One that comes back empty has lost what it held, and
//! what it lacks is no proof that a stripe was never acknowledged. While the other members suffice to decode, every stripe
//! that was acknowledged is there: such a segment is condemned and its stripes are moved before clients are served. Until that is done the
//! superblocks name the member, for its zones are finished meanwhile, and then nobody could tell. With more members gone the
//! mount is refused, for stripes may have been acknowledged that nobody can decode, or of which nothing is left.
//!
//! A drive that gave the area back, too, after the write pointer had moved beyond the marker, or finished the zone and lost what
//! the window held is not told from one that committed what it held.

use crate::log::mount::scan::{
    Extent, FoundSegment, FoundZone, Zones, ends_with_footer, is_of_segment, read_blocks, read_extents,
};
use crate::log::mount::{LostWrites, MountError, Session};
use base::erasure::PieceSet;
use base::frame::Frame;
use base::units::{DriveIndex, ZoneIndex};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use zone::device::ZoneDescriptor;
use zone::format::SUPERBLOCK_ZONES;
use zone::format::header::{SegmentHeader, WriteMode};
use zone::format::oob::Bound;
use zone::stripe::Layout;

/// Reads windows, those of all drives side by side and one of each at a time. Returns the end of what was written in each zone with an
/// area; nothing was where the write pointer never moved, for headers are committed before a segment counts. Nobody asks it of zones of
/// the write area: what their slots hold is read later, by itself. A drive may have returned a header of before, so no header of a
/// segment with stripes may name such a zone.
pub fn read_ends(
    session: &mut Session,
    descriptors: &[Vec<ZoneDescriptor>],
    own: &[Vec<Option<SegmentHeader>>],
) -> BTreeMap<(usize, ZoneIndex), u32> {
    let with_stripes = own.iter().flatten().flatten().filter(|header| !header.is_write_area);
    let of_stripes: BTreeSet<(usize, ZoneIndex)> =
        with_stripes.flat_map(|header| header.zones.iter().copied().enumerate()).collect();
    let has_slots = |at: &(usize, ZoneIndex)| {
        own[at.0][at.1.index()].as_ref().is_some_and(|header| header.is_write_area)
            && !of_stripes.contains(at)
    };
    let mut ends = BTreeMap::new();
    let mut windows: Vec<VecDeque<Extent>> = vec![VecDeque::new(); descriptors.len()];
    for (member, zones) in descriptors.iter().enumerate() {
        for (zone, descriptor) in (0..).map(ZoneIndex).zip(zones).skip(SUPERBLOCK_ZONES as usize) {
            if !descriptor.has_area || has_slots(&(member, zone)) {
                continue;
            }
            ends.insert((member, zone), descriptor.write_pointer);
            if descriptor.write_pointer > 0 {
                windows[member].push_back(window_of(session, member, zone, descriptor.write_pointer));
            }
        }
    }
    loop {
        let mut row: Vec<Extent> = windows.iter_mut().filter_map(VecDeque::pop_front).collect();
        if row.is_empty() {
            return ends;
        }
        // A drive may have returned another block, once: what seems to be zeros is asked twice.
        for _ in 0..2 {
            let read = read_extents(session, &row);
            for (window, blocks) in row.iter_mut().zip(read) {
                window.blocks.start += written_blocks(&blocks);
            }
        }
        ends.extend(row.into_iter().map(|window| ((window.member, window.zone), window.blocks.start)));
    }
}

/// The window of a zone.
fn window_of(session: &Session, member: usize, zone: ZoneIndex, write_pointer: u32) -> Extent {
    let geometry = session.drives.geometry(DriveIndex::at(member));
    let areas = geometry.and_then(|geometry| Some((geometry, geometry.areas?)));
    let end = areas.map_or(write_pointer, |(geometry, areas)| areas.window_end(geometry, write_pointer));
    Extent { member, zone, blocks: write_pointer..end }
}

/// Blocks up to the last one that is not zeros.
fn written_blocks(blocks: &[Option<Frame>]) -> u32 {
    let last = blocks.iter().rposition(|frame| frame.as_ref().is_none_or(|frame| !frame.is_blank()));
    last.map_or(0, |last| u32::try_from(last + 1).expect("blocks of a window"))
}

/// Finds zones of a segment that lost what their windows held, by themselves or by the word of an earlier mount.
pub fn find_gone(
    session: &mut Session,
    read: &Zones,
    (header, layout): (&SegmentHeader, &Layout),
    zones: &mut [Option<FoundZone>],
) {
    assert!(zones.len() == layout.members(), "a zone of every member, or none");
    if header.mode != WriteMode::Area {
        return;
    }
    for (member, zone) in zones.iter_mut().enumerate() {
        let Some(zone) = zone else { continue };
        let is_empty =
            read.lacks_marker(header, member) || !has_block(session, read, (header, layout), member);
        zone.window_is_gone = match zone.writable {
            _ if !is_empty && !session.record.windows_gone.contains(member) => false,
            true => read.descriptor(header, member).write_pointer < layout.footer_offset(),
            false => !ends_with_footer(session, header, member),
        };
    }
}

/// True when a block in the window of a member's zone says by its identity that the segment wrote it, or when the zone has
/// no window. A block that is not zeros is no proof: the drive may have returned another one, once, or an error.
fn has_block(
    session: &mut Session,
    read: &Zones,
    (header, layout): (&SegmentHeader, &Layout),
    member: usize,
) -> bool {
    let ZoneDescriptor { has_area, write_pointer, .. } = *read.descriptor(header, member);
    if !has_area || write_pointer == 0 {
        return true;
    }
    let (array, zone) = (session.array_tag(), header.zones[member]);
    let is_of_it = |offset: u32, frame: &Frame| {
        let Some((slot, _)) = layout.slot_at(offset) else {
            return SegmentHeader::decode(&frame.data).is_some_and(|marker| {
                marker.segment == header.segment && usize::from(marker.member) == member
            });
        };
        let bound = Bound { array, zone, group: layout.group_of_slot(slot) };
        is_of_segment(frame, &bound, header.segment)
    };
    (0..2).any(|_| {
        let blocks = read_blocks(session, member, zone, write_pointer..read.written(header, member));
        (write_pointer..)
            .zip(&blocks)
            .any(|(offset, frame)| frame.as_ref().is_some_and(|f| is_of_it(offset, f)))
    })
}

/// True when a zone that its drive finished holds data of a segment in area mode. As long as the write pointer had not moved
/// they were in the first window, and later there are some in any case. A block that can be neither read nor told from
/// data, twice, counts as data.
pub fn finished_with_data(session: &mut Session, header: &SegmentHeader, member: usize) -> bool {
    let Some(areas) = session.config.geometry.areas else { return true };
    let zone = header.zones[member];
    let first = header.header_blocks..areas.window_end(&session.config.geometry, header.header_blocks);
    let bound = Bound { array: session.array_tag(), zone, group: 0 };
    let is_of_it = |frame: &Frame| is_of_segment(frame, &bound, header.segment);
    let [one, other] = [(); 2].map(|()| read_blocks(session, member, zone, first.clone()));
    let is_blank = |frame: &Option<Frame>| frame.as_ref().is_some_and(Frame::is_blank);
    one.iter().zip(&other).any(|(one, other)| {
        [one, other].into_iter().flatten().any(is_of_it) || !is_blank(one) && !is_blank(other)
    })
}

/// Members whose zones of a segment lost what their windows held.
pub fn members_gone(zones: &[Option<FoundZone>]) -> PieceSet {
    let is_gone = |zone: &Option<FoundZone>| zone.as_ref().is_some_and(|zone| zone.window_is_gone);
    zones.iter().enumerate().filter(|(_, zone)| is_gone(zone)).map(|(member, _)| member).collect()
}

/// Judges whether the others make up for windows that lost what they held. Where they do not and the operator accepts that,
/// what they lack was never acknowledged; the segment is condemned all the same, so that he is asked once.
///
/// # Errors
/// When the operator does not.
pub fn judge(
    session: &mut Session,
    segments: &mut [FoundSegment],
    accepts_lost_writes: bool,
) -> Result<(), MountError> {
    let code = session.config.code();
    let mut lost = LostWrites { members: PieceSet::EMPTY, missing: PieceSet::EMPTY, blocks_max: 0 };
    let mut made_up_for = PieceSet::EMPTY;
    for segment in segments {
        let gone = members_gone(&segment.zones);
        let missing: PieceSet =
            (0..segment.zones.len()).filter(|member| segment.zones[*member].is_none()).collect();
        if gone.is_empty() || code.can_decode(code.pieces().without(gone).without(missing)) {
            made_up_for = made_up_for.or(gone);
            continue;
        }
        lost.members = lost.members.or(gone);
        lost.missing = lost.missing.or(missing);
        lost.blocks_max += u64::from(stripes_in_window(session, segment, gone))
            * u64::from(segment.layout.stripe_data_blocks());
        segment.is_given_up = true;
    }
    if !lost.members.is_empty() {
        if !accepts_lost_writes {
            return Err(MountError::WindowsGone(lost));
        }
        session.report.writes_lost = Some(lost);
    }
    session.report.windows_gone = made_up_for;
    session.record.windows_gone = made_up_for;
    Ok(())
}

/// Most stripes of which windows of a segment held something.
fn stripes_in_window(session: &Session, segment: &FoundSegment, gone: PieceSet) -> u32 {
    let windows = gone.iter().filter_map(|member| session.drives.geometry(DriveIndex::at(member))?.areas);
    let window_blocks = windows.map(|areas| areas.window_blocks).max().unwrap_or(0);
    (window_blocks.div_ceil(segment.layout.chunk_blocks) + 1).min(segment.layout.stripes)
}
