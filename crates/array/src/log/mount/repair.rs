//! Repairing the tail of an unsealed segment in place, so that it can be written on.
//!
//! ```text
//!            group 0    group 1                        group 0    group 1
//!  zone A | 0 1 2 3 | 5 4 . . |                      | 0 1 2 3 | 5 4 - - |
//!  zone B | 1 0 3 2 | 4 . . . |   -- 5 has k = 2 --> | 1 0 3 2 | 4 5 - - |   -: filler
//!  zone C | 0 1 2 3 | 7 5 4 . |      7 has one       | 0 1 2 3 | 7 5 4 - |   7 is void
//! ```
//! In area mode the tail is what is in windows: what they lack is written where it belongs, and where a drive kept no window,
//! at the write pointer. A zone that its drive finished makes the segment one that is only read.
//! Pieces that a kept stripe lacks are decoded from the others and written: under Zone Append in
//! free slots of the stripe's group, under Zone Write at the stripe's own slot. Fillers close what
//! remains. Where a piece has no room (a torn chunk took the last slot of its group), the stripe is
//! weak: its blocks are moved elsewhere before clients are served. A segment is condemned with a zone that no longer takes writes,
//! that an active member lacks, that lost what its window held, that ends before what a summary describes, or that lacks a summary itself: its other
//! zones are finished, for the collector needs those that may be active; it is only read, and collected before all others.

use crate::log::mount::decide::{Decided, Fate};
use crate::log::mount::scan::{FoundZone, Scan, read_blocks};
use crate::log::mount::superblocks::{command, expect_success};
use crate::log::mount::{MountError, Session};
use crate::log::row;
use base::checksum::crc32c;
use base::erasure::{Piece, PieceSet};
use base::frame::Frame;
use base::units::ZoneIndex;
use std::collections::BTreeSet;
use zone::device::{Op, Status};
use zone::format::footer::Entry;
use zone::format::header::{SegmentHeader, WriteMode};
use zone::format::oob::{self, Bound, Kind, Place, Protected, Role, block_is_whole};
use zone::format::summary;
use zone::format::superblock::MemberState;
use zone::stripe::StripeNumber;

/// Resets that may be in flight at a time, of all drives.
const RESETS_IN_FLIGHT_MAX: usize = 64;

/// Completes an unsealed segment, or condemns it.
pub fn run(session: &mut Session, segment: &mut Decided) -> Result<(), MountError> {
    let takes_writes = |member: usize| match &segment.zones[member] {
        // What is written to a window that lost what it held would hide that from the next mount.
        Some(zone) if zone.window_is_gone => false,
        // Without areas that all drives have in common, nobody can tell what a write to one commits.
        Some(zone) if zone.writable => !zone.has_area || zone.window.is_some(),
        Some(zone) => zone.full && !was_taken(&segment.header, zone),
        None => session.record.members[member].state != MemberState::Active,
    };
    let can_complete = (0..segment.layout.members()).all(takes_writes);
    // Under Zone Append, what is completed goes to any slot: summaries would be wrong of it.
    let is_behind = segment.is_behind;
    let contradicts =
        segment.header.mode == WriteMode::Append && (is_behind || lacks_summary(session, segment));
    if contradicts || !can_complete {
        segment.condemned = true;
        session.report.segments_condemned += 1;
        return finish_zones(session, segment);
    }
    let end = end_slot(segment);
    assert!(end <= segment.layout.stripes, "slot {end} of {}", segment.layout.stripes);
    assert!(!segment.sealed, "a sealed segment is complete");
    for member in 0..segment.layout.members() {
        if segment.zones[member].as_ref().is_some_and(|zone| zone.writable) {
            complete_zone(session, segment, member, end)?;
        }
    }
    segment.slots_touched = end;
    Ok(())
}

/// True for a zone in area mode that its drive finished when the power went: it takes no more, and does not end with a footer.
fn was_taken(header: &SegmentHeader, zone: &FoundZone) -> bool {
    header.mode == WriteMode::Area && zone.full && !zone.has_footer
}

/// True when a chunk that a zone lacks holds a block of a summary: the drive may have gone back to a moment before chunks that
/// this one describes, and before it as well, so that nothing else tells.
fn lacks_summary(session: &mut Session, segment: &Decided) -> bool {
    let layout = segment.layout;
    let kept = layout.all_stripes().filter(|stripe| segment.fates[stripe.index()] == Fate::Kept);
    let lacking = kept.flat_map(|stripe| {
        let lacks = move |member: &usize| {
            segment.zones[*member].is_some() && segment.slots[*member][stripe.index()].is_none()
        };
        (0..layout.members()).filter(lacks).map(move |member| (member, stripe))
    });
    let is_summary = |frame: &Frame| {
        let block = Protected::from_bytes(&frame.oob);
        block.is_some_and(|block| block.kind == Kind::Mapping && summary::is_summary(block.lba))
    };
    let lacking = lacking.filter(|(member, stripe)| layout.code.is_data(layout.piece_of(*stripe, *member)));
    lacking
        .collect::<Vec<(usize, StripeNumber)>>()
        .into_iter()
        .filter_map(|(member, stripe)| rebuild_piece(session, segment, member, stripe))
        .any(|frames| frames.iter().any(is_summary))
}

/// Zones of a condemned segment are active no longer. What they lack reads as zeros then, which are fillers to
/// the next mount: it decides as this one.
fn finish_zones(session: &mut Session, segment: &mut Decided) -> Result<(), MountError> {
    for (member, zone) in segment.zones.iter_mut().enumerate() {
        let Some(zone) = zone.as_mut().filter(|zone| zone.writable) else { continue };
        // Chunks that it lacks have slots then, for the index to point to.
        zone.written = session.config.geometry.zone_capacity_blocks;
        if !session.writable {
            continue;
        }
        let finish = command(member, segment.header.zones[member], Op::Finish);
        let completion = session.drives.execute(session.now, finish);
        match completion.status {
            // This one, too: it is not active either.
            Status::ZoneIsReadOnly | Status::ZoneIsOffline | Status::InvalidZoneStateTransition => {}
            _ => expect_success(completion, member, "zone finish")?,
        }
    }
    Ok(())
}

/// Stripes that were never acknowledged count only if their data can be had: what rot has taken of them is
/// no loss, for what was there before still is.
pub fn void_unreadable(session: &mut Session, segment: &mut Decided) {
    for stripe in std::mem::take(&mut segment.unacknowledged) {
        let members: Vec<usize> = whole_members(segment, stripe).collect();
        let readable =
            members.into_iter().filter(|member| read_piece(session, segment, *member, stripe).is_some());
        let pieces: PieceSet<Piece> =
            readable.map(|member| segment.layout.piece_of(stripe, member)).collect();
        if !segment.layout.code.can_decode(pieces) {
            segment.fates[stripe.index()] = Fate::Void;
            session.report.stripes_void += 1;
        }
    }
}

/// Zones of segments that do not count become free, but for those that hold less than before once they are
/// reset. A drive that was away may have hundreds of them, and clients wait: many are reset at a time, in any order, for a zone that
/// a crash leaves as it was is found again by the next mount. Then each drive is asked once what they hold.
pub fn reset_zones(session: &mut Session, scan: &mut Scan) -> Result<(), MountError> {
    let zones: BTreeSet<(ZoneIndex, usize)> =
        scan.zones_to_reset.iter().map(|(member, zone)| (*zone, *member)).collect();
    let resets = zones.iter().map(|(zone, member)| command(*member, *zone, Op::Reset));
    let mut statuses = vec![Status::Success; zones.len()];
    session.drives.execute_stream(session.now, resets, RESETS_IN_FLIGHT_MAX, |index, completion| {
        statuses[index] = completion.status;
    });
    for ((_, member), status) in zones.iter().zip(statuses) {
        if status != Status::Success {
            return Err(MountError::Drive { member: *member, what: "zone reset", status });
        }
    }
    for member in 0..session.config.members {
        let own: Vec<ZoneIndex> =
            zones.iter().filter(|(_, other)| *other == member).map(|(zone, _)| *zone).collect();
        note_shrunk(session, scan, member, &own)?;
    }
    Ok(())
}

/// Asks a drive what these of its zones hold, in order, and leaves out those that hold less than before.
fn note_shrunk(
    session: &mut Session,
    scan: &mut Scan,
    member: usize,
    zones: &[ZoneIndex],
) -> Result<(), MountError> {
    let (Some(first), Some(last)) = (zones.first(), zones.last()) else { return Ok(()) };
    let count = last.0 - first.0 + 1;
    let answer = session.drives.execute(session.now, command(member, *first, Op::Report { count }));
    let capacity = session.config.geometry.zone_capacity_blocks;
    for zone in zones {
        let found = answer.report.get((zone.0 - first.0) as usize);
        if found.is_some_and(|found| found.capacity < capacity) {
            scan.zones_in_use[member][zone.index()] = true;
        }
    }
    expect_success(answer, member, "zone report")
}

/// The slot that all zones are filled up to: the end of the last group any zone has entered, or under
/// Zone Write, where slots are static, the last slot touched.
fn end_slot(segment: &Decided) -> u32 {
    let layout = &segment.layout;
    match segment.header.mode {
        WriteMode::Write | WriteMode::Area => segment.slots_touched,
        WriteMode::Append if segment.slots_touched == 0 => 0,
        WriteMode::Append => layout.group_start(layout.group_of_slot(segment.slots_touched - 1) + 1),
    }
}

/// Kept stripes of which a chunk is missing on a member that is there; all that are kept, where members lack the whole segment
/// and nobody knows whether it was promised.
pub fn weak_stripes(segment: &Decided) -> Vec<StripeNumber> {
    let present = |member: &usize| segment.zones[*member].is_some();
    let lacks = |member: usize, stripe: StripeNumber| segment.slots[member][stripe.index()].is_none();
    (segment.layout.all_stripes())
        .filter(|stripe| segment.fates[stripe.index()] == Fate::Kept)
        .filter(|stripe| {
            segment.is_unproven
                || (0..segment.layout.members()).filter(present).any(|member| lacks(member, *stripe))
        })
        .collect()
}

/// Writes what a zone lacks up to slot `end`.
fn complete_zone(
    session: &mut Session,
    segment: &mut Decided,
    member: usize,
    end: u32,
) -> Result<(), MountError> {
    let layout = segment.layout;
    let FoundZone { written, window, .. } = *segment.zones[member].as_ref().expect("checked by the caller");
    assert!(written >= layout.header_blocks, "a zone of a segment that counts has its header");
    if window.is_some() {
        return complete_window(session, segment, member, end);
    }
    if written >= layout.footer_offset() {
        return Ok(());
    }
    let torn_blocks = (written - layout.header_blocks) % layout.chunk_blocks;
    if torn_blocks > 0 {
        let slot = slot_next(segment, member) - 1;
        let fillers = fillers(session, segment, member, slot, layout.chunk_blocks - torn_blocks);
        append(session, segment, member, fillers)?;
    }
    while slot_next(segment, member) < end {
        let slot = slot_next(segment, member);
        let stripe = match segment.header.mode {
            WriteMode::Write | WriteMode::Area => {
                let own = StripeNumber::of_static_slot(slot);
                Some(own).filter(|stripe| segment.fates[stripe.index()] == Fate::Kept)
            }
            WriteMode::Append => lacking_in_group(segment, member, layout.group_of_slot(slot)),
        };
        let piece =
            stripe.and_then(|stripe| Some((stripe, rebuild_piece(session, segment, member, stripe)?)));
        match piece {
            Some((stripe, frames)) => {
                append(session, segment, member, frames)?;
                segment.slots[member][stripe.index()] = Some(slot);
                session.report.stripes_completed += 1;
            }
            None => {
                let fillers = fillers(session, segment, member, slot, layout.chunk_blocks);
                append(session, segment, member, fillers)?;
            }
        }
    }
    Ok(())
}

/// Writes what a zone's window lacks up to slot `end`: in place, lowest first, so that nothing is committed that is not
/// complete. What the drive had committed was complete.
fn complete_window(
    session: &mut Session,
    segment: &mut Decided,
    member: usize,
    end: u32,
) -> Result<(), MountError> {
    let layout = segment.layout;
    let window = segment.zones[member].as_ref().and_then(|zone| zone.window).expect("a zone with an area");
    let committed = window.write_pointer().saturating_sub(layout.header_blocks);
    for slot in committed.div_ceil(layout.chunk_blocks)..end {
        let stripe = StripeNumber::of_static_slot(slot);
        if segment.slots[member][stripe.index()].is_some() {
            continue;
        }
        let is_kept = segment.fates[stripe.index()] == Fate::Kept;
        let piece = is_kept.then(|| rebuild_piece(session, segment, member, stripe)).flatten();
        if let Some(frames) = piece {
            write(session, segment, member, layout.slot_offset(slot), frames)?;
            segment.slots[member][stripe.index()] = Some(slot);
            session.report.stripes_completed += 1;
        } else if !segment.is_damaged_in(member, slot) {
            let fillers = fillers(session, segment, member, slot, layout.chunk_blocks);
            write(session, segment, member, layout.slot_offset(slot), fillers)?;
        }
    }
    Ok(())
}

/// First slot of a zone that nothing was written to.
fn slot_next(segment: &Decided, member: usize) -> u32 {
    let zone = segment.zones[member].as_ref().expect("a zone that is there");
    zone.written.saturating_sub(segment.layout.header_blocks).div_ceil(segment.layout.chunk_blocks)
}

/// The first kept stripe of a group that a member lacks and that can be decoded.
fn lacking_in_group(segment: &Decided, member: usize, group: u32) -> Option<StripeNumber> {
    let layout = &segment.layout;
    let pieces =
        |stripe| whole_members(segment, stripe).map(move |other| layout.piece_of(stripe, other)).collect();
    layout.stripes_of_group(group).find(|stripe| {
        segment.fates[stripe.index()] == Fate::Kept
            && segment.slots[member][stripe.index()].is_none()
            && layout.code.sources(layout.piece_of(*stripe, member), pieces(*stripe)).is_some()
    })
}

fn whole_members(segment: &Decided, stripe: StripeNumber) -> impl Iterator<Item = usize> + '_ {
    (0..segment.layout.members()).filter(move |member| segment.slots[*member][stripe.index()].is_some())
}

/// Decodes a member's piece of a stripe from the others; `None` when their data does not check out.
fn rebuild_piece(
    session: &mut Session,
    segment: &Decided,
    member: usize,
    stripe: StripeNumber,
) -> Option<Vec<Frame>> {
    let layout = &segment.layout;
    let lost = layout.piece_of(stripe, member);
    let mut good: Vec<(Piece, Vec<Frame>)> = Vec::new();
    assert!(segment.fates[stripe.index()] == Fate::Kept, "only stripes that count are rebuilt");
    let others: Vec<usize> = whole_members(segment, stripe).filter(|other| *other != member).collect();
    for other in others {
        if let Some(frames) = read_piece(session, segment, other, stripe) {
            good.push((layout.piece_of(stripe, other), frames));
        }
    }
    layout.code.sources(lost, good.iter().map(|(piece, _)| *piece).collect())?;
    let place = place_of(session, segment, member, stripe);
    let rows = 0..u8::try_from(layout.chunk_blocks).expect("at most 16 blocks");
    let neighbour = oob::neighbour_of(lost, &layout.code);
    let frames = rows.map(|row| {
        let neighbour = segment.data_entry(stripe, neighbour, u32::from(row));
        let mut frame = decode_row(layout, &good, lost, usize::from(row));
        let data_crc = crc32c(&frame.data);
        let neighbour = neighbour.and_then(|entry| entry.protected());
        oob::seal(&mut frame.oob, &Place { row, ..place }, data_crc, neighbour);
        frame
    });
    Some(frames.collect())
}

/// Reads a member's piece of a stripe; `None` when it is not whole. Whoever gets none asks again: a drive
/// may have returned another block, once.
fn read_piece(
    session: &mut Session,
    segment: &Decided,
    member: usize,
    stripe: StripeNumber,
) -> Option<Vec<Frame>> {
    let layout = &segment.layout;
    let offset = layout.slot_offset(segment.slots[member][stripe.index()]?);
    let zone = segment.header.zones[member];
    let place = place_of(session, segment, member, stripe);
    let whole = |frames: &Vec<Frame>| {
        (0..).zip(frames).all(|(row, frame)| block_is_whole(frame, &Place { row, ..place }))
    };
    (0..2).find_map(|_| {
        let frames = read_blocks(session, member, zone, offset..offset + layout.chunk_blocks);
        frames.into_iter().collect::<Option<Vec<Frame>>>().filter(whole)
    })
}

fn decode_row(layout: &zone::stripe::Layout, good: &[(Piece, Vec<Frame>)], lost: Piece, row: usize) -> Frame {
    let sources: Vec<(Piece, &Frame)> = good.iter().map(|(piece, frames)| (*piece, &frames[row])).collect();
    let mut frame = Frame::zeroed();
    row::decode(&layout.code, lost, &sources, &mut frame);
    frame
}

/// Returns the place that the metadata of a member's piece of a stripe names, row 0.
pub fn place_of(session: &Session, segment: &Decided, member: usize, stripe: StripeNumber) -> Place {
    let layout = &segment.layout;
    let piece = layout.piece_of(stripe, member);
    Place {
        array: session.array_tag(),
        segment: segment.header.segment,
        zone: segment.header.zones[member],
        stripe,
        group: layout.group_of(stripe),
        piece,
        row: 0,
        role: Role::of(piece, &layout.code),
    }
}

/// Blocks that hold nothing, for slot `slot` of a member's zone.
fn fillers(session: &Session, segment: &Decided, member: usize, slot: u32, count: u32) -> Vec<Frame> {
    let layout = &segment.layout;
    let place = Place {
        array: session.array_tag(),
        segment: segment.header.segment,
        zone: segment.header.zones[member],
        stripe: StripeNumber::of_static_slot(slot),
        group: layout.group_of_slot(slot),
        piece: Piece::NONE,
        row: 0,
        role: Role::Filler,
    };
    assert!(count > 0 && count <= layout.chunk_blocks, "{count} fillers of {}", layout.chunk_blocks);
    (0..count)
        .map(|_| {
            let mut frame = Frame::zeroed();
            oob::make_filler(&mut frame, &place);
            frame
        })
        .collect()
}

/// Writes blocks at a zone's write pointer.
fn append(
    session: &mut Session,
    segment: &mut Decided,
    member: usize,
    frames: Vec<Frame>,
) -> Result<(), MountError> {
    let offset = segment.zones[member].as_ref().expect("a zone that is there").written;
    write(session, segment, member, offset, frames)
}

/// Writes blocks of a zone and keeps the zone's entries in step. When mounting read-only, nothing is written, and the entries
/// show what would be.
fn write(
    session: &mut Session,
    segment: &mut Decided,
    member: usize,
    offset: u32,
    frames: Vec<Frame>,
) -> Result<(), MountError> {
    let array = session.array_tag();
    let header_blocks = segment.layout.header_blocks;
    let zone = segment.zones[member].as_mut().expect("a zone that is there");
    assert!(!frames.is_empty(), "something is written");
    assert!(offset < segment.layout.footer_offset(), "stripes end before the footer");
    let mut end = offset;
    for frame in &frames {
        let slot = (end - header_blocks) / segment.layout.chunk_blocks;
        let bound =
            Bound { array, zone: segment.header.zones[member], group: segment.layout.group_of_slot(slot) };
        let oob = oob::open(&frame.oob, &bound).expect("metadata sealed above");
        let entry = Entry::from_protected(&frame.oob, oob.place.role, oob.place.stripe);
        zone.entries[(end - header_blocks) as usize] = entry;
        end += 1;
    }
    zone.written = zone.written.max(end);
    if let Some(window) = &mut zone.window {
        window.write(&(offset..end));
    }
    if !session.writable {
        return Ok(());
    }
    let op = Op::Write { offset, frames };
    let completion = session.drives.execute(session.now, command(member, segment.header.zones[member], op));
    match completion.status {
        Status::Success => Ok(()),
        status => Err(MountError::Drive { member, what: "write that completes a stripe", status }),
    }
}
