//! A reader of blocks by their places: many at once, from all drives, and decoded from their stripes where they are not
//! there or not whole.
//!
//! ```text
//!  places, sorted, of drive 0:  17 18 19 21 | 40 41 ..     runs: a few blocks between two are read along
//!                    drive 1:   16 18 19 | 33 ..           run 0 of each drive, run 1 of each drive, ..
//!  not whole, or not there:     the same row of their stripes' other pieces, in the same way
//! ```

use crate::log::mount::Session;
use crate::log::mount::scan::{READ_BLOCKS_MAX, READS_IN_FLIGHT_MAX, read_blocks};
use crate::log::mount::superblocks::command;
use crate::log::pba::Location;
use crate::log::row;
use crate::log::segment::Segment;
use base::erasure::Piece;
use base::frame::Frame;
use base::units::DriveIndex;
use std::collections::BTreeMap;
use std::ops::Range;
use zone::device::{Op, Status};
use zone::format::oob::{Place, Role, block_is_whole};
use zone::stripe::StripeNumber;

/// Blocks between two that are wanted which are read rather than passed over: they take less time than one command more.
const GAP_BLOCKS_MAX: u32 = 3;
/// Blocks that are decoded at a time: with 31 sources each, 130 MiB.
const DECODED_AT_ONCE: usize = 1024;

/// Index of the segment that owns each zone, by member.
pub struct Owners {
    owners: Vec<Vec<Option<usize>>>,
}

impl Owners {
    /// Returns the owners among these segments.
    pub fn of(session: &Session, segments: &[Segment]) -> Owners {
        let zones = session.config.geometry.zones as usize;
        let mut owners = vec![vec![None; zones]; session.config.members];
        for (index, segment) in segments.iter().enumerate() {
            for (member, zone) in segment.zones.iter().enumerate() {
                assert!(owners[member][zone.index()].is_none(), "a zone belongs to one segment");
                owners[member][zone.index()] = Some(index);
            }
        }
        Owners { owners }
    }

    /// True when a stripe lies at a place, as far as is known: the segment's stripe table may have been dropped.
    pub fn may_hold(&self, segments: &[Segment], location: Location) -> bool {
        let Some(owner) = self.owners[location.drive.index()][location.zone.index()] else { return false };
        match segments[owner].has_dropped_table() {
            true => segments[owner].layout.slot_at(location.offset).is_some(),
            false => self.place(segments, location).is_some(),
        }
    }

    /// The block of a stripe that lies at a place.
    pub fn place(&self, segments: &[Segment], location: Location) -> Option<Row> {
        let drive = location.drive.index();
        let segment = self.owners[drive][location.zone.index()]?;
        let (slot, row) = segments[segment].layout.slot_at(location.offset)?;
        let stripe = segments[segment].stripe_in_slot(drive, slot)?;
        Some(Row { segment, stripe, row })
    }
}

/// A row of a stripe: one block of each piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Index of the segment among those given.
    segment: usize,
    stripe: StripeNumber,
    row: u32,
}

impl Row {
    /// Returns the place of a member's block; `None` when it is not there.
    fn on(self, session: &Session, segments: &[Segment], member: usize) -> Option<Location> {
        let segment = &segments[self.segment];
        if !session.is_present(member) || segment.lacks_zone(member) {
            return None;
        }
        let slot = segment.slot_of_stripe(member, self.stripe)?;
        let offset = segment.layout.slot_offset(slot) + self.row;
        Some(Location { drive: DriveIndex::at(member), zone: segment.zones[member], offset })
    }

    /// Returns the place that the metadata of a member's block names.
    fn place_on(self, array: u64, segments: &[Segment], member: usize) -> Place {
        let segment = &segments[self.segment];
        let layout = &segment.layout;
        assert!(layout.has_stripe(self.stripe), "stripe {} of {}", self.stripe, layout.stripes);
        assert!(self.row < layout.chunk_blocks, "row {} of {}", self.row, layout.chunk_blocks);
        let piece = layout.piece_of(self.stripe, member);
        Place {
            array,
            segment: segment.id,
            zone: segment.zones[member],
            stripe: self.stripe,
            group: layout.group_of(self.stripe),
            piece,
            row: u8::try_from(self.row).expect("at most 16 blocks"),
            role: Role::of(piece, &layout.code),
        }
    }
}

/// Reads the blocks at some places of settled segments and hands each over with its number, in any order: `None` for one
/// that can be neither read nor decoded. Of one that was decoded, only data and protected metadata are there.
pub fn read(
    session: &mut Session,
    segments: &[Segment],
    places: &[Location],
    mut take: impl FnMut(usize, Option<Frame>),
) {
    let owners = Owners::of(session, segments);
    let (mut there, mut to_decode) = (Vec::new(), Vec::new());
    for (number, place) in places.iter().enumerate() {
        match owners.place(segments, *place) {
            None => take(number, None),
            Some(row) if row.on(session, segments, place.drive.index()) == Some(*place) => {
                there.push(Wanted { number, at: *place, row });
            }
            Some(row) => to_decode.push(Wanted { number, at: *place, row }),
        }
    }
    read_whole(session, segments, &mut there, |wanted, frame| match frame {
        Some(frame) => take(wanted.number, Some(frame)),
        None => to_decode.push(wanted),
    });
    to_decode.sort_by_key(|wanted| key(&wanted.at));
    for wanted in to_decode.chunks(DECODED_AT_ONCE) {
        decode(session, segments, wanted, &mut take);
    }
}

/// A block that is to be read.
#[derive(Clone, Copy)]
struct Wanted {
    number: usize,
    at: Location,
    row: Row,
}

fn key(at: &Location) -> (u8, u32, u32) {
    (at.drive.0, at.zone.0, at.offset)
}

/// Blocks of a zone that are read with one command, and those of them that are wanted.
struct Run {
    first: Location,
    blocks: u32,
    wanted: Range<usize>,
}

/// Reads blocks that are there; `None` for those that are not whole.
fn read_whole(
    session: &mut Session,
    segments: &[Segment],
    wanted: &mut [Wanted],
    mut take: impl FnMut(Wanted, Option<Frame>),
) {
    wanted.sort_by_key(|wanted| key(&wanted.at));
    let runs = runs_of(wanted, READ_BLOCKS_MAX.min(session.config.geometry.transfer_blocks_max));
    assert!(
        runs.iter().map(|run| run.wanted.len()).sum::<usize>() == wanted.len(),
        "each block is in one run"
    );
    let commands = runs.iter().map(|run| {
        let frames = (0..run.blocks).map(|_| Frame::zeroed()).collect();
        command(run.first.drive.index(), run.first.zone, Op::Read { offset: run.first.offset, frames })
    });
    let array = session.array_tag();
    let Session { drives, now, vanished, .. } = session;
    drives.execute_stream(*now, commands, READS_IN_FLIGHT_MAX, |index, completion| {
        let run = &runs[index];
        if completion.status == Status::DeviceGone {
            *vanished = Some(run.first.drive.index());
        }
        let mut frames: Vec<Option<Frame>> = completion.frames.into_iter().map(Some).collect();
        for wanted in &wanted[run.wanted.clone()] {
            let place = wanted.row.place_on(array, segments, wanted.at.drive.index());
            let frame = frames[(wanted.at.offset - run.first.offset) as usize].take();
            let is_whole =
                |frame: &Frame| completion.status == Status::Success && block_is_whole(frame, &place);
            take(*wanted, frame.filter(is_whole));
        }
    });
}

/// The runs of blocks that are sorted by their places: the first of each drive, the second of each drive, and so on.
fn runs_of(wanted: &[Wanted], blocks_max: u32) -> Vec<Run> {
    assert!(wanted.is_sorted_by_key(|wanted| key(&wanted.at)), "blocks come in the order of their places");
    assert!(blocks_max > 0, "a command reads blocks");
    let mut by_drive: BTreeMap<u8, Vec<Run>> = BTreeMap::new();
    for (index, Wanted { at, .. }) in wanted.iter().enumerate() {
        let runs = by_drive.entry(at.drive.0).or_default();
        let follows = runs.last_mut().filter(|run| {
            let end = run.first.offset + run.blocks;
            run.first.zone == at.zone
                && at.offset <= end + GAP_BLOCKS_MAX
                && at.offset < run.first.offset + blocks_max
        });
        match follows {
            Some(run) => {
                run.blocks = at.offset + 1 - run.first.offset;
                run.wanted.end = index + 1;
            }
            None => runs.push(Run { first: *at, blocks: 1, wanted: index..index + 1 }),
        }
    }
    let mut drives: Vec<_> = by_drive.into_values().map(Vec::into_iter).collect();
    let mut runs = Vec::new();
    while !drives.is_empty() {
        drives.retain_mut(|drive| drive.next().map(|run| runs.push(run)).is_some());
    }
    runs
}

/// Decodes blocks from the other pieces of their stripes. What a drive returned wrongly once is read again.
fn decode(
    session: &mut Session,
    segments: &[Segment],
    wanted: &[Wanted],
    take: &mut impl FnMut(usize, Option<Frame>),
) {
    let mut sources: BTreeMap<(u8, u32, u32), Wanted> = BTreeMap::new();
    for Wanted { number, at, row } in wanted {
        let others = (0..session.config.members).filter(|member| *member != at.drive.index());
        let others = others.filter_map(|member| row.on(session, segments, member));
        sources.extend(others.map(|at| (key(&at), Wanted { number: *number, at, row: *row })));
    }
    let mut sources: Vec<Wanted> = sources.into_values().collect();
    let mut read: BTreeMap<(u8, u32, u32), Frame> = BTreeMap::new();
    let mut again = Vec::new();
    read_whole(session, segments, &mut sources, |wanted, frame| match frame {
        Some(frame) => drop(read.insert(key(&wanted.at), frame)),
        None => again.push(wanted),
    });
    for wanted in again {
        if let Some(frame) = read_alone(session, segments, &wanted) {
            read.insert(key(&wanted.at), frame);
        }
    }
    for wanted in wanted {
        let frame = decode_one(session, segments, wanted, &read);
        let is_there = wanted.row.on(session, segments, wanted.at.drive.index()) == Some(wanted.at);
        let frame = match frame {
            None if is_there => read_alone(session, segments, wanted),
            frame => frame,
        };
        take(wanted.number, frame);
    }
}

/// Decodes a block from what was read of its stripe.
fn decode_one(
    session: &Session,
    segments: &[Segment],
    wanted: &Wanted,
    read: &BTreeMap<(u8, u32, u32), Frame>,
) -> Option<Frame> {
    let Wanted { at, row, .. } = wanted;
    let segment = &segments[row.segment];
    let layout = &segment.layout;
    let lost = layout.piece_of(row.stripe, at.drive.index());
    assert!(lost.index() < layout.members(), "piece {lost} of {}", layout.members());
    let sources: Vec<(Piece, &Frame)> = (0..session.config.members)
        .filter(|member| *member != at.drive.index())
        .filter_map(|member| {
            let frame = read.get(&key(&row.on(session, segments, member)?))?;
            Some((layout.piece_of(row.stripe, member), frame))
        })
        .collect();
    layout.code.sources(lost, sources.iter().map(|(piece, _)| *piece).collect())?;
    let mut frame = Frame::zeroed();
    row::decode(&layout.code, lost, &sources, &mut frame);
    Some(frame)
}

/// Reads a block with a command of its own; `None` when it is not whole.
fn read_alone(session: &mut Session, segments: &[Segment], wanted: &Wanted) -> Option<Frame> {
    let Location { drive, zone, offset } = wanted.at;
    let place = wanted.row.place_on(session.array_tag(), segments, drive.index());
    let frame = read_blocks(session, drive.index(), zone, offset..offset + 1).pop().flatten();
    frame.filter(|frame| block_is_whole(frame, &place))
}
