//! Entries: what the blocks of segments say of themselves, read from all drives at once.
//!
//! ```text
//!  parts of footers:  segment 0: part 0 of each member, part 1 of each member, ..  segment 1: ..
//!  parts of zones without a whole footer: in the same order
//! ```
//! Parts are read in this order with a bounded number in flight, so that every drive has several to do, and each is taken
//! apart as it comes: beyond the entries themselves, memory does not grow with the array. Whatever is not as it
//! should be is read again, alone: a drive may have returned another block, once.

use crate::log::answer::{Answer, Asked, Doubt, Question, said_twice};
use crate::log::mount::Session;
use crate::log::mount::scan::{FoundSegment, FoundZone, READ_BLOCKS_MAX, READS_IN_FLIGHT_MAX, read_blocks};
use crate::log::mount::summaries::{Run, Unread};
use crate::log::mount::superblocks::command;
use base::frame::Frame;
use base::units::ZoneIndex;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use zone::device::{Completion, Op, Status};
use zone::format::footer::{self, Entry, FooterId};
use zone::format::header::SegmentHeader;
use zone::format::oob;

/// Blocks of a zone that are read with one command.
struct Part {
    /// Place of the segment among those that were found.
    segment: usize,
    member: usize,
    zone: ZoneIndex,
    blocks: Range<u32>,
}

/// Fills in the entries of every zone that is there: from its footer when it has a whole one, else from every block.
pub fn read_all(session: &mut Session, segments: &mut [FoundSegment]) {
    read_footers(session, segments);
    read_regions(session, segments);
}

fn read_footers(session: &mut Session, segments: &mut [FoundSegment]) {
    let array = session.array_tag();
    let parts = parts(session, segments, |segment, zone| {
        let footer =
            segment.layout.footer_offset()..segment.layout.footer_offset() + segment.layout.footer_blocks();
        let is_there = zone.full || zone.written >= footer.end;
        is_there.then_some(footer)
    });
    assert!(parts.iter().all(|part| !part.blocks.is_empty()), "each part has blocks");
    let mut damaged = BTreeSet::new();
    let mut read = Vec::new();
    read_parts(session, &parts, |part, completion| {
        if !take_footer(array, &mut segments[part.segment], part, &completion, &mut read) {
            damaged.insert((part.segment, part.member));
        }
    });
    if session.vanished.is_some() {
        return;
    }
    for (segment, member) in damaged {
        let entries = read_footer(session, &segments[segment], member);
        let zone = segments[segment].zones[member].as_mut().expect("a zone with a footer");
        zone.entries = entries.unwrap_or_default();
    }
    for zone in segments.iter_mut().flat_map(|segment| segment.zones.iter_mut().flatten()) {
        zone.has_footer = !zone.entries.is_empty();
    }
}

/// Reads the data regions of zones that no footer has told of.
fn read_regions(session: &mut Session, segments: &mut [FoundSegment]) {
    let mut unread = Unread::new(session, segments);
    loop {
        let runs = unread.take_window();
        if runs.is_empty() {
            break;
        }
        read_runs(session, segments, &runs);
        if session.uses_checkpoints && session.vanished.is_none() {
            unread.follow(session, segments, &runs);
        }
        if session.vanished.is_some() {
            return;
        }
    }
    for (segment, member) in unread.zones() {
        tell_apart(session, &mut segments[segment], member);
    }
}

/// Reads what blocks of data regions say of themselves.
fn read_runs(session: &mut Session, segments: &mut [FoundSegment], runs: &[Run]) {
    let array = session.array_tag();
    let parts = parts_of_runs(session, segments, runs);
    let (mut doubtful, mut failed) = (Vec::new(), Vec::new());
    read_parts(session, &parts, |part, completion| {
        if completion.status != Status::Success {
            failed.push(part);
            return;
        }
        let places = part.blocks.start - segments[part.segment].layout.header_blocks..;
        for (place, frame) in places.zip(&completion.frames) {
            if !take_entry(array, &mut segments[part.segment], part.member, (place, frame)).is_certain {
                doubtful.push((part.segment, part.member, place));
            }
        }
    });
    if session.vanished.is_some() {
        return;
    }
    for Part { segment, member, zone, blocks } in failed {
        let places = blocks.start - segments[*segment].layout.header_blocks..;
        for (place, frame) in places.zip(read_blocks(session, *member, *zone, blocks.clone())) {
            let is_certain = frame.is_some_and(|frame| {
                take_entry(array, &mut segments[*segment], *member, (place, &frame)).is_certain
            });
            if !is_certain {
                doubtful.push((*segment, *member, place));
            }
        }
    }
    for (segment, member, place) in doubtful {
        read_again(session, &mut segments[segment], member, place, Doubt::NotItself);
    }
}

/// The parts of runs of blocks, drives in turn.
fn parts_of_runs(session: &Session, segments: &[FoundSegment], runs: &[Run]) -> Vec<Part> {
    let per_command = READ_BLOCKS_MAX.min(session.config.geometry.transfer_blocks_max);
    let mut numbered = Vec::new();
    // Which part of its zone each is.
    let mut counts: BTreeMap<(usize, usize), u32> = BTreeMap::new();
    for Run { segment, member, places } in runs {
        let zone = segments[*segment].header.zones[*member];
        let number = counts.entry((*segment, *member)).or_default();
        for start in places.clone().step_by(per_command as usize) {
            let end = (start + per_command).min(places.end);
            let header_blocks = segments[*segment].layout.header_blocks;
            let blocks = start + header_blocks..end + header_blocks;
            numbered.push((*segment, *number, *member, zone, blocks));
            *number += 1;
        }
    }
    assert!(per_command > 0, "a command reads blocks");
    numbered.sort_by_key(|(segment, number, member, ..)| (*segment, *number, *member));
    let part = |(segment, _, member, zone, blocks)| Part { segment, member, zone, blocks };
    numbered.into_iter().map(part).collect()
}

/// The parts of what `range` says of each zone that is there, drives in turn.
fn parts(
    session: &Session,
    segments: &[FoundSegment],
    range: impl Fn(&FoundSegment, &FoundZone) -> Option<Range<u32>>,
) -> Vec<Part> {
    let per_command = READ_BLOCKS_MAX.min(session.config.geometry.transfer_blocks_max);
    let mut parts = Vec::new();
    for (index, segment) in segments.iter().enumerate() {
        let ranges: Vec<Range<u32>> = segment
            .zones
            .iter()
            .map(|zone| zone.as_ref().and_then(|zone| range(segment, zone)).unwrap_or(0..0))
            .collect();
        let longest = ranges.iter().map(|range| range.len()).max().unwrap_or(0);
        for number in 0..u32::try_from(longest).expect("blocks of a zone").div_ceil(per_command) {
            for (member, range) in ranges.iter().enumerate() {
                let start = range.start + number * per_command;
                let blocks = start..(start + per_command).min(range.end);
                if !blocks.is_empty() {
                    parts.push(Part { segment: index, member, zone: segment.header.zones[member], blocks });
                }
            }
        }
    }
    parts
}

/// Reads parts, some at a time, and hands each over as it comes.
fn read_parts<'a>(session: &mut Session, parts: &'a [Part], mut take: impl FnMut(&'a Part, Completion)) {
    let commands = parts.iter().map(|part| {
        let frames = part.blocks.clone().map(|_| Frame::zeroed()).collect();
        command(part.member, part.zone, Op::Read { offset: part.blocks.start, frames })
    });
    let Session { drives, vanished, now, .. } = session;
    drives.execute_stream(*now, commands, READS_IN_FLIGHT_MAX, |index, completion| {
        if completion.status == Status::DeviceGone {
            *vanished = Some(parts[index].member);
        }
        take(&parts[index], completion);
    });
}

/// Takes what blocks of a footer say; false when they are not what they should be.
fn take_footer(
    array: u64,
    segment: &mut FoundSegment,
    part: &Part,
    completion: &Completion,
    read: &mut Vec<Entry>,
) -> bool {
    let layout = segment.layout;
    let zone = segment.zones[part.member].as_mut().expect("a zone with a footer");
    assert!(part.blocks.start >= layout.footer_offset(), "a footer lies behind the stripes");
    if zone.entries.is_empty() {
        zone.entries = vec![None; layout.region_blocks() as usize];
    }
    for (index, frame) in (part.blocks.start - layout.footer_offset()..).zip(&completion.frames) {
        let id = FooterId { array, segment: segment.header.segment, zone: part.zone, index };
        let places = layout.footer_entries(index);
        read.clear();
        if !footer::decode(&id, &frame.data, places.len(), read) {
            return false;
        }
        for (entry, read) in zone.entries[places].iter_mut().zip(&*read) {
            *entry = Some(*read);
        }
    }
    completion.status == Status::Success
}

/// The footer of a zone, read alone; `None` when it is not whole.
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
    assert!(entries.len() == layout.region_blocks() as usize, "a whole footer tells of every block");
    Some(entries.into_iter().map(Some).collect())
}

/// Reads blocks of a zone again that say they are the same, once each. What one of them says then may be what a third
/// one says.
fn tell_apart(session: &mut Session, segment: &mut FoundSegment, member: usize) {
    let mut told_apart = BTreeSet::new();
    loop {
        let zone = segment.zones[member].as_ref().expect("it was read");
        let mut twice = said_twice(&zone.entries, segment.layout.chunk_blocks);
        twice.retain(|place| told_apart.insert(*place));
        for place in &twice {
            read_again(session, segment, member, *place, Doubt::SaidTwice);
        }
        if twice.is_empty() {
            return;
        }
    }
}

/// Reads a block of the data region again until what it says is believed.
fn read_again(session: &mut Session, segment: &mut FoundSegment, member: usize, place: u32, doubt: Doubt) {
    let offset = place + segment.layout.header_blocks;
    let mut question = Question::of(doubt, said_at(segment, member, place));
    loop {
        let frame =
            read_blocks(session, member, segment.header.zones[member], offset..offset + 1).pop().flatten();
        let Some(frame) = frame else { return };
        if question.hear(&take_entry(session.array_tag(), segment, member, (place, &frame))) {
            return;
        }
    }
}

/// Returns what a block was found to say.
fn said_at(segment: &FoundSegment, member: usize, place: u32) -> Option<Entry> {
    segment.zones[member].as_ref().expect("a zone that is read").entries[place as usize]
}

/// Takes what a block says of itself.
fn take_entry(
    array: u64,
    segment: &mut FoundSegment,
    member: usize,
    (place, frame): (u32, &Frame),
) -> Answer {
    let SegmentHeader { segment: id, mode, zones, .. } = &segment.header;
    let asked =
        Asked { array, segment: *id, mode: *mode, layout: &segment.layout, member, zone: zones[member] };
    let answer = asked.answer(place + segment.layout.header_blocks, frame);
    let zone = segment.zones[member].as_mut().expect("a zone that is read");
    assert!((place as usize) < zone.entries.len(), "block {place} of {}", zone.entries.len());
    zone.entries[place as usize] = answer.entry;
    match answer.entry {
        None => zone.hints.insert(place, oob::guess(&frame.oob)),
        Some(_) => zone.hints.remove(&place),
    };
    answer
}
