//! Requests of clients: cut at strips, and answered when all parts are through.
//!
//! Reads go straight to the members that hold them, one command for each run of a chunk; what a member cannot return goes
//! through its strip. Writes and trims go through strips. A trim is issued stripe by stripe, so that a large one does not fill
//! the table.

mod answers;

use super::clients::Clients;
use super::completions::DirectRead;
use super::map::Strip;
use super::table::{Cell, Job, Wanted, Work};
use super::{Effects, kind};
use crate::pacer::ClientLoad;
use crate::request::{Request, RequestId, RequestOp};
use base::frame::Frame;
use base::pieces::PieceSet;
use base::slab::Slab;
use base::units::Lba;
use block::device::Op;
use std::ops::Range;

/// Most blocks of a read command.
const RUN_BLOCKS_MAX: u64 = 256;
/// Most blocks of a trim that are made zeros by writes at a time.
const TRIM_BLOCKS_MAX: u64 = 256;

/// Kind of a request.
#[derive(Clone, Debug)]
enum Asked {
    Read,
    Write,
    /// Blocks that are still to be issued.
    Trim(Range<u64>),
    Flush,
}

/// Request under way.
#[derive(Debug)]
struct Open {
    id: RequestId,
    asked: Asked,
    /// Parts that are not through, and one more while parts are being issued.
    parts: u32,
    has_failed: bool,
    /// Blocks of a read.
    frames: Vec<Option<Frame>>,
    /// Vector that a write's frames came in.
    emptied: Vec<Frame>,
    /// Rows that it wrote in part: what a member could not take is listed as bad, and is reached by the others as yet.
    listed: Vec<(Strip, u16, PieceSet)>,
    /// All members are flushed when the parts are through.
    then_flush: bool,
}

/// Requests under way.
#[derive(Debug, Default)]
pub struct Requests {
    open: Slab<Open>,
    /// Requests that there were.
    begun: u64,
    /// Requests that are through but for the record of a failure.
    held: Vec<u32>,
    memory: Memory,
}

/// Memory that requests share.
#[derive(Debug, Default)]
struct Memory {
    /// Vectors of reads that are answered.
    frames: Vec<Vec<Option<Frame>>>,
    /// Blocks of one request, while it is cut at strips.
    cells: Vec<(Strip, Vec<Cell>)>,
    wanted: Vec<(Strip, Vec<Wanted>)>,
}

/// What a request has for a strip; added when there is nothing yet. A request goes over few strips at a time, mostly the last.
fn part_of<T>(parts: &mut Vec<(Strip, Vec<T>)>, strip: Strip, fresh: impl FnOnce() -> Vec<T>) -> &mut Vec<T> {
    let index = parts.iter().rposition(|(other, _)| *other == strip).unwrap_or_else(|| {
        parts.push((strip, fresh()));
        parts.len() - 1
    });
    &mut parts[index].1
}

impl Requests {
    /// True when there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// What clients do, for those who give way to them.
    #[must_use]
    pub fn load(&self) -> ClientLoad {
        ClientLoad { in_flight: self.open.len(), begun: self.begun }
    }

    /// Opens a request for a part that another shard handed over, with the frames of a read.
    pub(super) fn open_handed(&mut self, id: RequestId, read: Option<Vec<Frame>>) -> u32 {
        let asked = if read.is_some() { Asked::Read } else { Asked::Write };
        let frames = read.into_iter().flatten().map(Some).collect();
        let request = self.open(id, asked, false);
        self.open.get_mut(request).frames = frames;
        request
    }

    /// Opens a request, whose parts are about to be issued.
    fn open(&mut self, id: RequestId, asked: Asked, then_flush: bool) -> u32 {
        self.begun += 1;
        self.open.insert(Open {
            id,
            asked,
            parts: 1,
            has_failed: false,
            frames: Vec::new(),
            emptied: Vec::new(),
            listed: Vec::new(),
            then_flush,
        })
    }

    pub(super) fn add_part(&mut self, request: u32) {
        self.open.get_mut(request).parts += 1;
    }

    /// A part of a request cannot be done.
    pub(super) fn fail(&mut self, request: u32) {
        self.open.get_mut(request).has_failed = true;
    }

    /// Pieces of a row that a request wrote, of which one is listed as bad.
    pub(super) fn note_listed(&mut self, request: u32, pieces: (Strip, u16, PieceSet)) {
        self.open.get_mut(request).listed.push(pieces);
    }

    /// Frame of a block that is read.
    pub(super) fn frame_mut(&mut self, request: u32, index: usize) -> &mut Frame {
        self.open.get_mut(request).frames[index].as_mut().expect("the frame is not with a member")
    }

    /// Frames of so many blocks that are read leave, until [`Requests::put_frames`].
    pub(super) fn lend_frames(
        &mut self,
        request: u32,
        (index, count): (usize, usize),
        mut into: Vec<Frame>,
    ) -> Vec<Frame> {
        let slots = &mut self.open.get_mut(request).frames[index..index + count];
        into.extend(slots.iter_mut().map(|slot| slot.take().expect("a frame for each block")));
        into
    }

    /// Frames come home from a member.
    pub(super) fn put_frames(&mut self, request: u32, index: usize, frames: &mut Vec<Frame>) {
        let slots = &mut self.open.get_mut(request).frames[index..];
        for (slot, frame) in slots.iter_mut().zip(frames.drain(..)) {
            assert!(slot.is_none(), "a frame came home twice");
            *slot = Some(frame);
        }
    }
}

impl Clients {
    /// Accepts a request. It is answered by a later turn.
    pub fn submit(&mut self, request: Request, fx: &mut Effects) {
        if self.strips.core.is_changing() {
            return self.strips.core.hold(request);
        }
        let Some(request) = self.strips.core.unless_held(request) else { return };
        let Request { id, op } = request;
        let end = match &op {
            RequestOp::Read { lba, blocks } => lba.0 + u64::from(*blocks),
            RequestOp::Write { lba, frames, .. } => {
                lba.0 + u64::try_from(frames.len()).unwrap_or(u64::MAX / 2)
            }
            RequestOp::Trim { lba, blocks, .. } => lba.0 + blocks,
            RequestOp::Flush => 0,
        };
        assert!(end <= self.strips.core.blocks(), "a request beyond the volume: front ends check that");
        let (asked, then_flush) = match &op {
            RequestOp::Read { .. } => (Asked::Read, false),
            RequestOp::Write { .. } => (Asked::Write, false),
            RequestOp::Trim { lba, blocks, force_unit_access } => {
                (Asked::Trim(lba.0..lba.0 + blocks), *force_unit_access)
            }
            RequestOp::Flush => (Asked::Flush, true),
        };
        let request = self.strips.core.requests.open(id, asked, then_flush);
        match op {
            RequestOp::Write { lba, frames, force_unit_access } => {
                return self.write(request, lba, frames, force_unit_access, fx);
            }
            RequestOp::Read { lba, blocks } => self.read(request, lba, blocks, fx),
            RequestOp::Trim { .. } | RequestOp::Flush => {}
        }
        self.part_done(request, fx);
    }

    fn read(&mut self, request: u32, lba: Lba, blocks: u32, fx: &mut Effects) {
        let blocks = u64::from(blocks);
        self.strips.core.counters.read += blocks;
        let count = usize::try_from(blocks).expect("a request fits memory");
        let mut frames = self.strips.core.requests.memory.frames.pop().unwrap_or_default();
        frames.extend((0..count).map(|_| Some(self.strips.core.stock.pool().take())));
        self.strips.core.requests.open.get_mut(request).frames = frames;
        let mut done = 0;
        while done < blocks {
            let first = lba.plus(done);
            // A shard may have one strip and not the next.
            let rows = if self.strips.core.is_shard() {
                self.strips.core.map.strip_rows()
            } else {
                self.strips.core.map.chunk_rows()
            };
            let rest = rows - first.0 % rows;
            let run = rest.min(blocks - done).min(RUN_BLOCKS_MAX);
            let index = usize::try_from(done).expect("a request fits memory");
            self.read_run(request, first, (index, run), fx);
            done += run;
        }
    }

    /// Reads blocks of one chunk.
    pub(super) fn read_run(&mut self, request: u32, lba: Lba, (index, run): (usize, u64), fx: &mut Effects) {
        if self.strips.core.is_shard() && self.strips.core.is_away(self.strips.core.map.place(lba).strip) {
            return self.strips.core.hand_read(request, lba, (index, run));
        }
        if self.strips.core.lacks_replay() {
            return self.strips.core.requests.fail(request);
        }
        let (member, row) = self.strips.core.map.locate(lba);
        // What a replay has not settled may be read otherwise after another crash, without the member.
        let is_straight = self.strips.core.members.is_readable(member, row..row + run)
            && !self.strips.core.is_bad(member, row..row + run);
        if !is_straight || self.strips.core.is_replaying() {
            return self.read_through_strips(request, lba, (index, run));
        }
        let count = usize::try_from(run).expect("at most 256");
        let frames = self.strips.core.requests.lend_frames(
            request,
            (index, count),
            self.strips.core.stock.empty_vec(),
        );
        self.strips.core.counters.read_direct += run;
        self.strips.core.requests.add_part(request);
        let number = self.direct.insert(DirectRead { request, lba, index, run });
        let sector = self.strips.core.sector(member, row);
        fx.command(self.strips.core.seat(member), kind::DIRECT, number, Op::Read { sector, frames });
    }

    /// Reads blocks that their member cannot return.
    pub(super) fn read_through_strips(&mut self, request: u32, lba: Lba, (index, run): (usize, u64)) {
        let mut strips = std::mem::take(&mut self.strips.core.requests.memory.wanted);
        let spare = &mut self.strips.core.table.pools.wanted;
        for (offset, block) in (lba.0..lba.0 + run).enumerate() {
            let place = self.strips.core.map.place(Lba(block));
            let piece = self.strips.core.map.order(place.strip).piece(place.chunk);
            let wanted = Wanted { row: place.row, piece, index: index + offset };
            part_of(&mut strips, place.strip, || spare.pop().unwrap_or_default()).push(wanted);
        }
        for (strip, wanted) in strips.drain(..) {
            self.strips.core.requests.add_part(request);
            self.strips.offer(strip, Job { request: Some(request), work: Work::Read(wanted) });
        }
        self.strips.core.requests.memory.wanted = strips;
    }

    fn write(&mut self, request: u32, lba: Lba, mut frames: Vec<Frame>, durable: bool, fx: &mut Effects) {
        let blocks = u64::try_from(frames.len()).expect("a request fits memory");
        self.strips.core.counters.written += blocks;
        self.strips.window.note_write(lba.0, blocks, self.strips.core.requests.open.len());
        let is_refused = self.strips.core.is_read_only();
        if is_refused {
            self.strips.core.stock.pool().give_many(&mut frames);
        } else {
            self.write_cells(request, (lba, blocks), frames.drain(..).map(Some), durable);
        }
        let open = self.strips.core.requests.open.get_mut(request);
        (open.emptied, open.has_failed) = (frames, is_refused);
        if is_refused {
            return self.part_done(request, fx);
        }
        open.parts -= 1;
        assert!(open.parts > 0, "strips are worked on by a later turn");
    }

    /// So many blocks from one on, to their strips; those without a frame become zeros.
    fn write_cells(
        &mut self,
        request: u32,
        (lba, count): (Lba, u64),
        mut frames: impl Iterator<Item = Option<Frame>>,
        durable: bool,
    ) {
        let mut strips = std::mem::take(&mut self.strips.core.requests.memory.cells);
        let spare = &mut self.strips.core.table.pools.cells;
        let mut done = 0;
        while done < count {
            let place = self.strips.core.map.place(lba.plus(done));
            let run = (self.strips.core.map.strip_rows() - u64::from(place.row)).min(count - done);
            let piece = self.strips.core.map.order(place.strip).piece(place.chunk);
            let cells = part_of(&mut strips, place.strip, || spare.pop().unwrap_or_default());
            let rows = place.row..place.row + u16::try_from(run).expect("at most 128 rows of a strip");
            cells.extend(rows.zip(frames.by_ref()).map(|(row, frame)| Cell { row, piece, frame }));
            done += run;
        }
        strips.sort_unstable_by_key(|(strip, _)| *strip);
        for (strip, cells) in strips.drain(..) {
            self.strips.core.requests.add_part(request);
            self.strips.offer(strip, Job { request: Some(request), work: Work::Write { cells, durable } });
        }
        self.strips.core.requests.memory.cells = strips;
    }

    /// The next blocks of a trim, and whether they are whole stripes; `None` when there are none.
    fn next_of_trim(&mut self, request: u32, stripe_blocks: u64) -> Option<(Range<u64>, bool)> {
        // What goes to a journal is written as zeros: it has no words for more.
        let may_be_whole = self.strips.core.ahead.journal.is_none();
        let open = self.strips.core.requests.open.get_mut(request);
        let Asked::Trim(rest) = &mut open.asked else { return None };
        if rest.is_empty() || open.has_failed {
            return None;
        }
        let start = rest.start;
        let until = (start / stripe_blocks + 1) * stripe_blocks;
        let is_whole = may_be_whole && start.is_multiple_of(stripe_blocks) && until <= rest.end;
        rest.start = if is_whole { until } else { until.min(rest.end).min(start + TRIM_BLOCKS_MAX) };
        Some((start..rest.start, is_whole))
    }

    /// Issues the next piece of a trim; false when there is none.
    fn trim_more(&mut self, request: u32) -> bool {
        let stripe_blocks =
            self.strips.core.map.chunk_rows() * u64::from(self.strips.core.map.geometry().data_chunks());
        let Some((blocks, is_whole)) = self.next_of_trim(request, stripe_blocks) else { return false };
        if self.strips.core.is_read_only() {
            self.strips.core.requests.fail(request);
            return false;
        }
        if is_whole {
            let strips = self.strips.core.map.chunk_rows() / self.strips.core.map.strip_rows();
            let first = blocks.start / stripe_blocks * strips;
            for strip in (first..first + strips).map(Strip) {
                self.strips.core.requests.add_part(request);
                self.strips.offer(strip, Job { request: Some(request), work: Work::Zero });
            }
        } else {
            let count = blocks.end - blocks.start;
            self.write_cells(request, (Lba(blocks.start), count), blocks.map(|_| None), false);
        }
        true
    }
}
