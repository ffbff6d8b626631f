//! Zones that active members lack: of segments of which a drive holds nothing, for it went back to a moment before them, or
//! lost a volatile cache.
//!
//! ```text
//!                segment 5    segment 6    segment 7
//!   drive 0    | h . . . f  | h . . . f  | h . . .         what the others hold suffices to decode 6 and 7: they count,
//!   drive 1    | h . . . f  | h . . . f  | h . . .         without the zones of drive 2, and are collected before others
//!   drive 2    | h . . . f  |            |                 <- as it was before 6: it holds nothing of 6, nor of anything newer
//! ```
//! A drive that holds a newer segment was there after an older one: what it lacks of that one was erased. So that this stays
//! so when it has newer ones in its turn, such a zone gets a header which says that it holds nothing else, oldest segment
//! first, before anything newer is written to the drive. Of a member that is being rebuilt, the rebuild begins anew, which
//! the record of the mount says.
//!
//! A segment that was open while caches are volatile is *unproven*: what the drive lacks may never have been flushed. What can
//! be decoded counts and is moved before clients are served, with full redundancy; what cannot, should another drive be
//! lost before that, was never promised.

use crate::log::mount::scan::{FoundSegment, Zones, is_of_segment, read_blocks, read_header};
use crate::log::mount::superblocks::{command, expect_success};
use crate::log::mount::{MountError, Session};
use crate::log::segment::EPOCH_SHIFT_SEGMENT;
use base::erasure::PieceSet;
use base::frame::Frame;
use std::collections::BTreeMap;
use zone::device::{Op, ZoneState};
use zone::format::header::{Blank, SegmentHeader};
use zone::format::oob::Bound;
use zone::format::superblock::MemberState;

/// Active members that lack their zone, by segment.
#[derive(Default)]
pub struct Lacking {
    members: BTreeMap<u64, PieceSet>,
}

impl Lacking {
    /// True when what a segment's lacking members held may never have been promised: the segment was open, and their caches
    /// are volatile. Mounts before this one may have marked them so.
    pub fn is_unproven(&self, session: &Session, read: &Zones, header: &SegmentHeader, sealed: bool) -> bool {
        let blank = |member: usize| read.own_header(header, member).map(|own| own.blank);
        self.of(header.segment).iter().any(|member| match blank(member) {
            Some(Blank::Proven) => false,
            Some(Blank::Unproven) => true,
            Some(Blank::No) | None => session.config.geometry.volatile_cache && !sealed,
        })
    }

    /// Returns the members that lack their zone of a segment.
    pub fn of(&self, segment: u64) -> PieceSet {
        self.members.get(&segment).copied().unwrap_or(PieceSet::EMPTY)
    }
}

/// Finds out who lacks what. A rebuild that lost what it had written begins anew.
pub fn find(session: &mut Session, read: &Zones, headers: &BTreeMap<u64, SegmentHeader>) -> Lacking {
    let mut members = BTreeMap::new();
    // What slots hold has copies elsewhere, and none of them is rebuilt.
    for header in headers.values().filter(|header| !header.is_write_area) {
        let lacking = lacking_members(session, read, header);
        if !lacking.is_empty() {
            members.insert(header.segment, lacking);
        }
    }
    let rebuilding = session.record.members.iter().position(|member| member.state == MemberState::Rebuilding);
    if let Some(rebuilding) = rebuilding
        && members.values().any(|lacking| lacking.contains(rebuilding))
    {
        // Whatever is there by now is older than what this mount will write.
        session.record.rebuild_from = u64::from(session.record.epoch + 1) << EPOCH_SHIFT_SEGMENT;
        let rebuilding = [rebuilding].into_iter().collect();
        members.values_mut().for_each(|lacking| *lacking = lacking.without(rebuilding));
    }
    Lacking { members }
}

/// Members that wrote their zone of a segment and hold nothing of it, where the others suffice to decode it.
fn lacking_members(session: &mut Session, read: &Zones, header: &SegmentHeader) -> PieceSet {
    let (mut holding, mut lacking, mut marked) = (PieceSet::EMPTY, PieceSet::EMPTY, PieceSet::EMPTY);
    let mut has_data = false;
    for member in 0..session.config.members {
        if !session.is_present(member) {
            continue;
        }
        let descriptor = read.descriptor(header, member);
        let own_header = read.own_header(header, member);
        let was_there = session.record.was_written_with(member, header.segment);
        let is_own = own_header.is_some_and(|own| own.segment == header.segment);
        if was_there && is_own && own_header.is_some_and(|own| own.blank != Blank::No) {
            marked.insert(member);
        } else if was_there
            && read.newest[member] < header.segment
            && descriptor.state != ZoneState::Offline
            && (read.holds_nothing(header, member)
                || own_header.is_some() && holds_older(session, member, header))
        {
            lacking.insert(member);
        } else if was_there || read.is_rebuilt(header, member) {
            holding.insert(member);
            has_data |= was_there && is_own && read.may_hold_data(header, member);
        }
    }
    let suffices = has_data && session.config.code().can_decode(holding);
    if suffices { lacking.iter().chain(marked.iter()).collect() } else { marked }
}

/// True when a member's zone of a segment holds an older one and nothing of the segment: its header was not just read
/// or written in the wrong place.
fn holds_older(session: &mut Session, member: usize, header: &SegmentHeader) -> bool {
    let zone = header.zones[member];
    let is_older = |own: SegmentHeader| own.segment < header.segment;
    let bound = Bound { array: session.array_tag(), zone, group: 0 };
    let blocks =
        read_blocks(session, member, zone, header.header_blocks..header.header_blocks + header.chunk_blocks);
    !blocks.iter().flatten().any(|frame| is_of_segment(frame, &bound, header.segment))
        && read_header(session, member, zone).is_some_and(is_older)
}

/// A zone that an active member lacks.
pub struct ZoneToMark {
    member: usize,
    /// Header of its segment, which says that the zone holds nothing else.
    header: SegmentHeader,
    state: ZoneState,
}

/// Zones that active members lack and that are not marked. Segments are in order of age.
pub fn zones_to_mark(read: &Zones, segments: &[FoundSegment], lacking: &Lacking) -> Vec<ZoneToMark> {
    let mut zones = Vec::new();
    for FoundSegment { header, is_unproven, .. } in segments {
        let blank = if *is_unproven { Blank::Unproven } else { Blank::Proven };
        let header = SegmentHeader { blank, ..header.clone() };
        for member in lacking.of(header.segment).iter() {
            let state = read.descriptor(&header, member).state;
            let is_marked = read.own_header(&header, member).is_some_and(|own| own.blank != Blank::No);
            if !(is_marked && state == ZoneState::Full) {
                zones.push(ZoneToMark { member, header: header.clone(), state });
            }
        }
    }
    zones
}

/// Marks zones that active members lack, so that later mounts decide the same.
pub fn mark(session: &mut Session, zones: &[ZoneToMark]) -> Result<(), MountError> {
    assert!(session.writable, "a mount that only looks marks nothing");
    zones.iter().try_for_each(|zone| mark_zone(session, zone))
}

fn mark_zone(
    session: &mut Session,
    ZoneToMark { member, header, state }: &ZoneToMark,
) -> Result<(), MountError> {
    let member = *member;
    let zone = header.zones[member];
    let mut frame = Frame::zeroed();
    header.encode(u8::try_from(member).expect("at most 32 members"), &mut frame.data);
    let reset = (*state != ZoneState::Empty).then_some(Op::Reset);
    // What a full zone holds is durable. And the zone is not to stay active.
    let mark = [Op::Write { offset: 0, frames: vec![frame] }, Op::Flush, Op::Finish];
    for op in reset.into_iter().chain(mark) {
        let completion = session.drives.execute(session.now, command(member, zone, op));
        expect_success(completion, member, "mark of a zone that is lacking")?;
    }
    Ok(())
}
