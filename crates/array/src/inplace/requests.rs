//! Requests of clients: cut at strips, and answered when all parts are through.
//!
//! Reads go straight to the members that hold them, one command for each run of a chunk; what a member cannot return goes
//! through its strip. Writes and trims go through strips. A trim is issued stripe by stripe, so that a large one does not fill
//! the table.

mod answers;
mod parts;

use super::clients::Clients;
use super::completions::DirectRead;
use super::map::Strip;
use super::table::{Cell, Wanted};
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
        if self.strips.core.policy.is_changing() {
            return self.strips.core.policy.hold(request);
        }
        let Some(request) = self.strips.core.place.unless_held(request) else { return };
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
            let rows = if self.strips.core.place.is_shard() {
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
        if self.strips.core.place.is_shard()
            && self.strips.core.place.is_away(self.strips.core.map.place(lba).strip)
        {
            return self.strips.core.hand_read(request, lba, (index, run));
        }
        if self.strips.core.ahead.lacks_replay() {
            return self.strips.core.requests.fail(request);
        }
        let (member, row) = self.strips.core.map.locate(lba);
        // What a replay has not settled may be read otherwise after another crash, without the member.
        let is_straight = self.strips.core.members.is_readable(member, row..row + run)
            && !self.strips.core.is_bad(member, row..row + run);
        if !is_straight || self.strips.core.ahead.is_replaying() {
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
        let sector = self.strips.core.members.sector(member, row);
        fx.command(self.strips.core.members.seat(member), kind::DIRECT, number, Op::Read { sector, frames });
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
}
