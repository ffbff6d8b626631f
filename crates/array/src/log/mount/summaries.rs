//! Summaries of segments that were open: what they describe need not be read.
//!
//! ```text
//!  zone | described ............ | s s | described ..... | s s | not described | unwritten
//!                                                              <── windows, each twice as large as the one before
//! ```
//! Segments are read from their ends. Among what was read are blocks of the newest summary; what those describe is taken for
//! read, and the blocks of the one before are among it. A block is believed only if it is whole and where its stripe
//! says, and describes earlier stripes of its segment. Of what it describes, what lies behind a zone's end is not there:
//! the drive went back to an earlier moment. What recovery would write there may go to other slots than the summary says.
//! What nobody describes is read as if there were no summaries. So is a zone that was sealed and whose footer is damaged: a
//! rebuild may have written it in another order since.

use crate::log::config::SummaryEvery;
use crate::log::mount::Session;
use crate::log::mount::scan::{FoundSegment, READS_IN_FLIGHT_MAX};
use crate::log::mount::superblocks::command;
use base::frame::Frame;
use std::ops::Range;
use zone::device::{Op, Status};
use zone::format::footer::{Entry, EntryKind};
use zone::format::header::WriteMode;
use zone::format::oob::{Kind, PROTECTED_BYTES, Place, Protected, Role, block_is_whole};
use zone::format::summary::{self, Head, Shape};
use zone::stripe::StripeNumber;

/// Blocks of each zone that are read first: more than there are from one summary to the next, where `Auto` writes them.
const WINDOW_BLOCKS: u32 = 4096;

/// Blocks of each zone that a mount reads first which uses summaries, and writes them so often.
pub fn window_of(every: SummaryEvery) -> u32 {
    match every {
        SummaryEvery::Rows(rows) => rows.max(1),
        SummaryEvery::Never | SummaryEvery::Auto => WINDOW_BLOCKS,
    }
}

/// Blocks of one zone's data region.
pub struct Run {
    /// Place of the segment among those that were found.
    pub segment: usize,
    pub member: usize,
    pub places: Range<u32>,
}

/// Places not read yet in zones that no footer has told of.
pub struct Unread {
    /// By segment and member.
    zones: Vec<Vec<Option<UnreadZone>>>,
    window: u32,
}

struct UnreadZone {
    /// Places that are read, are being read, or are described.
    known: Vec<bool>,
    /// All from here on are known, or hold nothing.
    end: u32,
    /// True when the zone was sealed.
    has_footer: bool,
    /// Places before this one are committed: all, but in a zone with a random write area.
    committed: u32,
}

/// A block of a summary.
struct Found {
    segment: usize,
    member: usize,
    place: u32,
    entry: Entry,
}

impl Unread {
    /// All that was written to zones whose entries are not there.
    pub fn new(session: &Session, segments: &mut [FoundSegment]) -> Unread {
        let zones = segments
            .iter_mut()
            .map(|segment| {
                let (header_blocks, blocks) = (segment.layout.header_blocks, segment.layout.region_blocks());
                let footer_end = segment.layout.footer_offset() + segment.layout.footer_blocks();
                let zones = segment.zones.iter_mut().map(|zone| {
                    let zone = zone.as_mut().filter(|zone| zone.entries.is_empty())?;
                    zone.entries = vec![None; blocks as usize];
                    let end = zone.written.saturating_sub(header_blocks).min(blocks);
                    let has_footer = zone.full || zone.written >= footer_end;
                    let committed = zone
                        .window
                        .map_or(u32::MAX, |window| window.write_pointer().saturating_sub(header_blocks));
                    Some(UnreadZone { known: vec![false; end as usize], end, has_footer, committed })
                });
                zones.collect()
            })
            .collect();
        Unread { zones, window: session.summary_window }
    }

    /// Zones that no footer has told of.
    pub fn zones(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let zones = self.zones.iter().enumerate();
        zones.flat_map(|(segment, zones)| {
            let unread = zones.iter().enumerate().filter(|(_, zone)| zone.is_some());
            unread.map(move |(member, _)| (segment, member))
        })
    }

    /// The last blocks of each zone that are not known: they are to be read now.
    pub fn take_window(&mut self) -> Vec<Run> {
        let mut runs = Vec::new();
        for (segment, zones) in self.zones.iter_mut().enumerate() {
            for (member, zone) in zones.iter_mut().enumerate() {
                let taken = zone.as_mut().map(|zone| zone.take_last(self.window)).unwrap_or_default();
                runs.extend(taken.into_iter().map(|places| Run { segment, member, places }));
            }
        }
        self.window = self.window.saturating_mul(2);
        runs
    }

    /// Takes for read what the summaries among some blocks describe, and those among what they describe, and so on.
    pub fn follow(&mut self, session: &mut Session, segments: &mut [FoundSegment], read: &[Run]) {
        let mut found = Vec::new();
        for Run { segment, member, places } in read {
            for place in places.clone() {
                found.extend(summary_at(segments, (*segment, *member, place)));
            }
        }
        while !found.is_empty() {
            let mut next = Vec::new();
            for (block, frame) in read_blocks(session, segments, &found) {
                next.extend(self.take(session, segments, &found[block], &frame));
            }
            found = next;
        }
    }

    /// Takes what a block of a summary describes; returns the blocks of summaries among it.
    fn take(
        &mut self,
        session: &mut Session,
        segments: &mut [FoundSegment],
        found: &Found,
        frame: &Frame,
    ) -> Vec<Found> {
        let segment = &mut segments[found.segment];
        let (layout, header) = (segment.layout, &segment.header);
        let shape = Shape::of(&layout, header.mode);
        let Some(head) = Head::decode(&shape, &frame.data) else { return Vec::new() };
        let last = (head.first + head.rows).div_ceil(layout.chunk_blocks);
        if head.segment != header.segment
            || u64::from(head.first) != found.entry.lba
            || last > found.entry.stripe.0
        {
            return Vec::new();
        }
        segment.described = segment.described.max(head.first + head.rows);
        let mut summaries = Vec::new();
        for index in 0..head.rows {
            let Some(blocks) = blocks_of_row(segment, &shape, (head.first, index), frame) else { continue };
            session.report.rows_described += 1;
            for (member, (place, entry)) in blocks.into_iter().enumerate() {
                let Some(zone) = &mut self.zones[found.segment][member] else { continue };
                // What is in a window is read, whatever is said of it.
                if zone.has_footer || place >= zone.committed {
                    continue;
                }
                let Some(known) = zone.known.get_mut(place as usize) else {
                    segment.is_behind = true;
                    continue;
                };
                if *known {
                    continue;
                }
                *known = true;
                let entries = &mut segment.zones[member].as_mut().expect("it is being read").entries;
                entries[place as usize] = Some(entry);
                if is_summary(&entry) {
                    summaries.push(Found { segment: found.segment, member, place, entry });
                }
            }
        }
        summaries
    }
}

impl UnreadZone {
    /// Takes the last of its blocks that are not known, in runs.
    fn take_last(&mut self, window: u32) -> Vec<Range<u32>> {
        while self.end > 0 && self.known[self.end as usize - 1] {
            self.end -= 1;
        }
        let start = self.end.saturating_sub(window);
        assert!(window > 0, "a window has blocks");
        assert!(self.end as usize <= self.known.len(), "what is not known was written");
        let mut runs: Vec<Range<u32>> = Vec::new();
        for place in start..self.end {
            if std::mem::replace(&mut self.known[place as usize], true) {
                continue;
            }
            match runs.last_mut().filter(|run| run.end == place) {
                Some(run) => run.end += 1,
                None => runs.push(place..place + 1),
            }
        }
        assert!(runs.iter().all(|run| start <= run.start && run.start < run.end), "runs lie in the window");
        self.end = start;
        runs
    }
}

fn is_summary(entry: &Entry) -> bool {
    entry.kind == EntryKind::Data(Kind::Mapping) && summary::is_summary(entry.lba) && entry.whole
}

fn summary_at(segments: &[FoundSegment], (segment, member, place): (usize, usize, u32)) -> Option<Found> {
    let entry = segments[segment].zones[member].as_ref()?.entries[place as usize]?;
    is_summary(&entry).then_some(Found { segment, member, place, entry })
}

/// Returns what a row of a summary says of the block on each member, and its place; `None` when it is not described.
fn blocks_of_row(
    segment: &FoundSegment,
    shape: &Shape,
    (first, index): (u32, u32),
    frame: &Frame,
) -> Option<Vec<(u32, Entry)>> {
    let layout = &segment.layout;
    let row = first + index;
    let (stripe, row) = (StripeNumber(row / layout.chunk_blocks), row % layout.chunk_blocks);
    let group = layout.group_of(stripe);
    let data: Option<Vec<[u8; PROTECTED_BYTES]>> = (layout.code.data_pieces())
        .map(|piece| Some(summary::data(shape, (index, piece), &frame.data)?.to_bytes()))
        .collect();
    let data = data?;
    (0..layout.members())
        .map(|member| {
            let slot = match segment.header.mode {
                WriteMode::Write | WriteMode::Area => stripe.static_slot(),
                WriteMode::Append => {
                    let within = summary::slot(shape, (index, member), &frame.data);
                    layout.group_start(group) + Some(within).filter(|slot| *slot < layout.group_len(group))?
                }
            };
            let piece = layout.piece_of(stripe, member);
            let entry = match layout.code.parity_of(piece) {
                None => Entry::from_protected(&data[piece.index()], Role::Data, stripe)?,
                Some(parity) => {
                    let mut coded = [0; PROTECTED_BYTES];
                    layout.code.encode_field(parity, data.iter(), &mut coded);
                    Entry::from_protected(&coded, Role::Parity, stripe)?
                }
            };
            Some((slot * layout.chunk_blocks + row, entry))
        })
        .collect()
}

/// Reads blocks of summaries; those that are whole, by their numbers.
fn read_blocks(session: &mut Session, segments: &[FoundSegment], found: &[Found]) -> Vec<(usize, Frame)> {
    let commands = found.iter().map(|block| {
        let zone = segments[block.segment].header.zones[block.member];
        let op = Op::Read {
            offset: block.place + segments[block.segment].layout.header_blocks,
            frames: vec![Frame::zeroed()],
        };
        command(block.member, zone, op)
    });
    let array = session.array_tag();
    let mut read = Vec::new();
    let Session { drives, now, vanished, .. } = session;
    drives.execute_stream(*now, commands, READS_IN_FLIGHT_MAX, |block, completion| {
        let Found { member, entry, .. } = found[block];
        if completion.status == Status::DeviceGone {
            *vanished = Some(member);
        }
        let place = place_of(array, &segments[found[block].segment], &found[block]);
        let is_it = |frame: &Frame| {
            let is_whole = block_is_whole(frame, &place);
            is_whole && Protected::from_bytes(&frame.oob) == entry.protected()
        };
        let frame = completion.frames.into_iter().next().filter(is_it);
        read.extend(frame.filter(|_| completion.status == Status::Success).map(|frame| (block, frame)));
    });
    read.sort_by_key(|(block, _)| *block);
    read
}

/// Returns the place that the metadata of a block of a summary names.
fn place_of(array: u64, segment: &FoundSegment, found: &Found) -> Place {
    let layout = &segment.layout;
    let Entry { stripe, .. } = found.entry;
    let piece = layout.piece_of(stripe, found.member);
    Place {
        array,
        segment: segment.header.segment,
        zone: segment.header.zones[found.member],
        stripe,
        group: layout.group_of(stripe),
        piece,
        row: u8::try_from(found.place % layout.chunk_blocks).expect("at most 16 blocks"),
        role: Role::Data,
    }
}
