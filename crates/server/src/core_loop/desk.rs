//! The desk: between clients, who ask for byte ranges, and the volume, which answers for blocks.
//!
//! A client's request is an *operation*; it goes to the volume in *parts* of at most
//! `part_blocks_max` blocks, so that no request needs more frames than the pool can spare, and
//! is answered when all of them are. A request id names the operation and, for reads, where in it
//! the part begins.
//!
//! ```text
//! id   | of the write gate:2 | first block of the part:30 | operation:32 |
//! ```
//!
//! Invariants: an operation exists while parts are pending or its client still issues some. One
//! frame is always left for the merges (see `write_gate`), which could otherwise wait for frames
//! that wait for them. (With more cores the bridge keeps those of merges apart, and it is spare.)

use super::backend::Backend;
use super::write_gate::{IDS_END, Merge};
use crate::config::ServerConfig;
use crate::nbd::transmission::{ByteRange, Cut};
use crate::recorder::{Note, NoteKind, Recorder};
use crate::slab::{Key, Slab};
use array::request::{Outcome, Reply, Request, RequestId, RequestOp};
use base::frame::Frame;
use base::time::Instant;
use std::collections::VecDeque;

/// Longest part: 1 MiB. Long enough to stream, short enough to share the pool.
const PART_BLOCKS_MAX: usize = 256;

/// Parts the pool is good for at least: one client cannot take it all.
const PARTS_PER_POOL: usize = 8;

/// Frames that clients leave for merges.
pub(crate) const FRAMES_RESERVED: usize = 1;

/// Empty vectors kept for payloads.
const SPARE_VECTORS_MAX: usize = 1024;

/// The id of the flush before the server leaves.
const FINAL_FLUSH: RequestId = RequestId(IDS_END - 1);

/// Kind of an operation, as far as its answer is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperationKind {
    /// Blocks come back.
    Read,
    /// A write, or a trim.
    Change,
    /// A flush.
    Flush,
}

/// Whoever asks: somebody on a socket, a virtual machine, or the kernel of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Party {
    /// An NBD client.
    Client(Key),
    /// A guest, by its front end.
    Guest(Key),
    /// The disk of this host.
    HostDisk,
}

/// A client's request.
#[derive(Debug)]
pub(crate) struct Operation {
    party: Party,
    cookie: u64,
    kind: OperationKind,
    range: ByteRange,
    parts_pending: u32,
    /// More parts may come.
    is_issuing: bool,
    has_failed: bool,
}

/// Answer to a client.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) party: Party,
    pub(crate) cookie: u64,
    pub(crate) kind: OperationKind,
    pub(crate) range: ByteRange,
    /// For reads, the block of the range that the part begins with.
    pub(crate) first_block: u64,
    pub(crate) frames: Vec<Frame>,
    pub(crate) has_failed: bool,
    /// The last answer to this operation.
    pub(crate) is_last: bool,
}

/// See the module.
pub(crate) struct Desk<'v> {
    pub(crate) volume: &'v mut dyn Backend,
    pub(crate) now: Instant,
    pub(crate) size_bytes: u64,
    pub(crate) is_read_only: bool,
    pub(crate) part_blocks_max: u64,
    operations: Slab<Operation>,
    /// Clients that wait for frames, and who of them has the word.
    pub(crate) waiting: VecDeque<Party>,
    pub(crate) granted: Option<Party>,
    spare_vectors: Vec<Vec<Frame>>,
    final_flush: Option<Outcome>,
    /// Whoever notes reads, writes and flushes, where they are recorded.
    recorder: Option<Recorder>,
}

impl<'v> Desk<'v> {
    /// A desk for `volume`; `None` when its pool is too small for anything.
    pub(crate) fn new(volume: &'v mut dyn Backend, now: Instant) -> Option<Desk<'v>> {
        let frames = volume.client_frames_available().checked_sub(FRAMES_RESERVED)?;
        let part_blocks_max = (frames / PARTS_PER_POOL).clamp(1, PART_BLOCKS_MAX);
        if frames < part_blocks_max {
            return None;
        }
        let size_bytes = volume.blocks().checked_mul(base::units::BLOCK_BYTES_U64)?;
        Some(Desk {
            volume,
            now,
            size_bytes,
            is_read_only: false,
            part_blocks_max: u64::try_from(part_blocks_max).expect("at most 256"),
            operations: Slab::new(),
            waiting: VecDeque::new(),
            granted: None,
            spare_vectors: Vec::new(),
            final_flush: None,
            recorder: None,
        })
    }

    /// The same desk, as it is configured: reads, writes and flushes are noted, or nobody may change the volume.
    pub(crate) fn configured(self, config: &ServerConfig) -> Desk<'v> {
        Desk { recorder: config.recorder.clone(), is_read_only: config.is_read_only, ..self }
    }

    /// Frames all clients together can have.
    pub(crate) fn frames_available(&self) -> usize {
        self.volume.client_frames_available().saturating_sub(FRAMES_RESERVED)
    }

    /// Returns true when `party` may take `count` frames now. Those that wait for frames come first.
    pub(crate) fn may_take(&mut self, party: Party, count: u64) -> bool {
        let is_turn = self.waiting.is_empty() || self.granted == Some(party);
        let fits = usize::try_from(count).is_ok_and(|count| count <= self.frames_available());
        if is_turn && fits {
            self.granted = None;
        }
        is_turn && fits
    }

    /// Begins an operation.
    pub(crate) fn open(&mut self, party: Party, cookie: u64, kind: OperationKind, range: ByteRange) -> Key {
        match kind {
            OperationKind::Read => {
                self.assert_within(range);
                self.record(NoteKind::Read, range);
            }
            OperationKind::Flush => self.record(NoteKind::Flush, ByteRange { from: 0, to: 0 }),
            OperationKind::Change => {}
        }
        let operation =
            Operation { party, cookie, kind, range, parts_pending: 0, is_issuing: true, has_failed: false };
        self.operations.insert(operation)
    }

    /// Begins a write; a forced one is durable when it is answered.
    pub(crate) fn open_write(&mut self, party: Party, cookie: u64, range: ByteRange, is_forced: bool) -> Key {
        self.assert_within(range);
        self.record(if is_forced { NoteKind::ForcedWrite } else { NoteKind::Write }, range);
        self.open(party, cookie, OperationKind::Change, range)
    }

    /// Whoever asks has admitted the request.
    fn assert_within(&self, range: ByteRange) {
        assert!(
            range.from <= range.to && range.to <= self.size_bytes,
            "{range:?} of {} bytes",
            self.size_bytes
        );
    }

    fn record(&self, kind: NoteKind, range: ByteRange) {
        if let Some(recorder) = &self.recorder {
            recorder.note(Note { at: self.now, kind, from: range.from, bytes: range.to - range.from });
        }
    }

    /// No more parts will come; what there was has failed as a whole. True when the operation
    /// has ended by this, false when the answers to its parts will end it.
    pub(crate) fn abandon(&mut self, operation: Key) -> bool {
        let entry = self.operations.at(operation).expect("clients abandon what they have opened");
        assert!(entry.is_issuing, "an operation is given up whose last part was asked for");
        entry.is_issuing = false;
        entry.has_failed = true;
        let has_ended = entry.parts_pending == 0;
        if has_ended {
            self.operations.remove(operation);
        }
        has_ended
    }

    /// Parts of the operation that are not answered.
    pub(crate) fn parts_pending(&mut self, operation: Key) -> u32 {
        self.operations.at(operation).map_or(0, |operation| operation.parts_pending)
    }

    /// Asks for `blocks` blocks of a read, beginning `first_block` blocks into it.
    pub(crate) fn read_part(&mut self, operation: Key, first_block: u64, blocks: u64) {
        let entry = self.operations.at(operation).expect("parts belong to open operations");
        let blocks_end = first_block + blocks;
        assert!(blocks > 0 && blocks_end <= entry.range.blocks(), "a part lies in its request");
        let is_last = blocks_end == entry.range.blocks();
        let lba = entry.range.first_block().plus(first_block);
        let blocks = u32::try_from(blocks).expect("a part is at most 256 blocks");
        self.count_part(operation, is_last);
        assert!(first_block < 1 << 30, "the id of a part has no room for block {first_block}");
        let id = RequestId(u64::from(operation.index()) | (first_block << 32));
        self.volume.submit(self.now, Request { id, op: RequestOp::Read { lba, blocks } });
    }

    /// Writes a part; the payload of a merge is one frame, with the bytes in their places.
    pub(crate) fn write_part(
        &mut self,
        operation: Key,
        cut: Cut,
        mut frames: Vec<Frame>,
        force_unit_access: bool,
        is_last: bool,
    ) {
        self.count_part(operation, is_last);
        match cut {
            Cut::Whole { lba, .. } => {
                assert!(frames.len() as u64 == cut.blocks(), "a frame for each block of the part");
                self.submit_change(operation, RequestOp::Write { lba, frames, force_unit_access });
            }
            Cut::Merge { lba, from, to } => {
                assert!(frames.len() == 1, "a merge is of one block");
                let payload = frames.pop();
                self.keep_vector(frames);
                let id = plain_id(operation);
                let merge = Merge { id, lba, from, to, payload, force_unit_access };
                self.volume.merge(self.now, merge);
            }
        }
    }

    /// Makes a range of the operation zeros; the last one ends it.
    pub(crate) fn zero(
        &mut self,
        operation: Key,
        range: ByteRange,
        force_unit_access: bool,
        is_last_range: bool,
    ) {
        self.assert_within(range);
        let mut rest = range;
        while rest.from < rest.to {
            let cut = Cut::first(rest, u64::MAX);
            rest.from += cut.bytes();
            self.count_part(operation, is_last_range && rest.from == rest.to);
            match cut {
                Cut::Whole { lba, blocks } => {
                    self.submit_change(operation, RequestOp::Trim { lba, blocks, force_unit_access });
                }
                Cut::Merge { lba, from, to } => {
                    let id = plain_id(operation);
                    let merge = Merge { id, lba, from, to, payload: None, force_unit_access };
                    self.volume.merge(self.now, merge);
                }
            }
        }
    }

    /// Flushes the volume.
    pub(crate) fn flush(&mut self, operation: Key) {
        self.count_part(operation, true);
        self.volume.submit(self.now, Request { id: plain_id(operation), op: RequestOp::Flush });
    }

    /// Flushes the volume before the server leaves; see [`Desk::final_flush_outcome`].
    pub(crate) fn begin_final_flush(&mut self) {
        assert!(self.final_flush.is_none(), "a service ends once");
        self.volume.submit(self.now, Request { id: FINAL_FLUSH, op: RequestOp::Flush });
    }

    pub(crate) fn final_flush_outcome(&self) -> Option<Outcome> {
        self.final_flush
    }

    /// True when the volume has answered everything.
    pub(crate) fn is_idle(&self) -> bool {
        self.operations.len() == 0
    }

    /// Takes a reply of the volume; the answer, if there is one, is for a client.
    pub(crate) fn on_reply(&mut self, reply: Reply) -> Option<Answer> {
        if reply.id == FINAL_FLUSH {
            assert!(self.final_flush.is_none(), "the last flush is answered once");
            self.final_flush = Some(reply.outcome);
            return None;
        }
        let index = u32::try_from(reply.id.0 & u64::from(u32::MAX)).expect("masked to 32 bits");
        let key = self.operations.key_at(index).expect("operations outlive their parts");
        let kind = self.operations.at(key).map(|operation| operation.kind);
        let mut frames = reply.frames;
        if kind != Some(OperationKind::Read) || reply.outcome != Outcome::Done {
            self.volume.frames().give_many(&mut frames);
            self.keep_vector(std::mem::take(&mut frames));
        }
        self.on_part_done(index, reply.outcome, reply.id.0 >> 32, frames)
    }

    /// An empty vector for frames, with capacity if there is one.
    pub(crate) fn spare_vector(&mut self) -> Vec<Frame> {
        self.spare_vectors.pop().unwrap_or_default()
    }

    /// Keeps a vector for later; its frames have gone elsewhere.
    pub(crate) fn keep_vector(&mut self, vector: Vec<Frame>) {
        assert!(vector.is_empty(), "its frames have gone elsewhere");
        if vector.capacity() > 0 && self.spare_vectors.len() < SPARE_VECTORS_MAX {
            self.spare_vectors.push(vector);
        }
    }

    /// Takes the frames of a part, which [`Desk::may_take`] allowed.
    pub(crate) fn take_frames(&mut self, blocks: u64, into: &mut Vec<Frame>) {
        let count = usize::try_from(blocks).expect("a part is at most 256 blocks");
        assert!(count <= self.frames_available(), "one frame is left for merges");
        let before = into.len();
        self.volume.frames().take_many(count, into);
        assert!(into.len() == before + count, "{} frames of {count} were there", into.len() - before);
    }

    fn submit_change(&mut self, operation: Key, op: RequestOp) {
        self.volume.submit(self.now, Request { id: plain_id(operation), op });
    }

    fn count_part(&mut self, operation: Key, is_last: bool) {
        let entry = self.operations.at(operation).expect("parts belong to open operations");
        assert!(entry.is_issuing, "no part follows the last one");
        entry.parts_pending += 1;
        entry.is_issuing = !is_last;
    }

    fn on_part_done(
        &mut self,
        index: u32,
        outcome: Outcome,
        first_block: u64,
        frames: Vec<Frame>,
    ) -> Option<Answer> {
        let key = self.operations.key_at(index).expect("operations outlive their parts");
        let operation = self.operations.at(key).expect("the key is fresh");
        assert!(operation.parts_pending > 0, "a part is answered once");
        operation.parts_pending -= 1;
        let part_failed = outcome == Outcome::IoError;
        operation.has_failed |= part_failed;
        let is_read = operation.kind == OperationKind::Read;
        let answer = Answer {
            party: operation.party,
            cookie: operation.cookie,
            kind: operation.kind,
            range: operation.range,
            first_block,
            frames,
            has_failed: if is_read { part_failed } else { operation.has_failed },
            is_last: operation.parts_pending == 0 && !operation.is_issuing,
        };
        assert!(is_read || answer.frames.is_empty(), "frames of a write have gone home");
        if answer.is_last {
            self.operations.remove(key);
        }
        (is_read || answer.is_last).then_some(answer)
    }
}

/// The id of a part of anything but a read.
fn plain_id(operation: Key) -> RequestId {
    RequestId(u64::from(operation.index()))
}

impl std::fmt::Debug for Desk<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Desk").field("operations", &self.operations).finish_non_exhaustive()
    }
}
