//! What a client is told: simple replies or structured chunks.
//!
//! With structured replies every part of a read is one chunk, and so is its failure; the last one
//! says that it is. A simple reply begins with its first part and takes an error only there.

use super::super::desk::{Answer, Desk, OperationKind};
use super::{Client, HangUp, Stage};
use crate::nbd::codec::{self, ErrorCode, RequestHeader};
use crate::nbd::transmission::ByteRange;
use base::units::BLOCK_BYTES_U64;

const TEXT_IO_ERROR: &str = "the volume cannot read or write the data";

impl Client {
    /// Queues an answer of the volume.
    pub(crate) fn on_answer(&mut self, answer: Answer, desk: &mut Desk<'_>) -> Result<(), HangUp> {
        if answer.is_last {
            assert!(self.operations_count > 0, "an operation is answered that was begun");
            self.operations_count -= 1;
        }
        assert!(
            answer.kind == OperationKind::Read || answer.frames.is_empty(),
            "{} frames come back for what reads nothing",
            answer.frames.len()
        );
        if answer.kind == OperationKind::Read {
            self.answer_read(answer, desk)
        } else {
            self.answer_change(&answer);
            Ok(())
        }
    }

    fn answer_change(&mut self, answer: &Answer) {
        if answer.has_failed {
            self.push_error(answer.cookie, ErrorCode::Io, TEXT_IO_ERROR);
        } else {
            // Also with structured replies: the protocol leaves it to us, and it is shorter.
            self.outbox.queued.push_bytes(|out| codec::push_simple_reply(out, answer.cookie, None));
        }
    }

    fn answer_read(&mut self, answer: Answer, desk: &mut Desk<'_>) -> Result<(), HangUp> {
        if answer.has_failed {
            return self.answer_failed_read(&answer, desk);
        }
        let blocks = u64::try_from(answer.frames.len()).expect("a part is at most 256 blocks");
        let end = answer.first_block + blocks;
        assert!(end <= answer.range.blocks(), "a part ends at block {end} of {:?}", answer.range);
        let cookie = answer.cookie;
        if self.structured {
            let (offset, bytes) = part_bytes(answer.range, answer.first_block, blocks);
            let push = |out: &mut Vec<u8>| codec::push_data_chunk(out, cookie, answer.is_last, offset, bytes);
            self.outbox.queued.push_bytes(push);
        } else if answer.first_block == 0 {
            self.outbox.queued.push_bytes(|out| codec::push_simple_reply(out, cookie, None));
        }
        let mut frames = answer.frames;
        for (index, frame) in (answer.first_block..).zip(frames.drain(..)) {
            let (from, to) = answer.range.within_block(index);
            self.outbox.queued.push_frame(frame, from, to);
        }
        desk.keep_vector(frames);
        self.end_simple_read(answer.is_last);
        Ok(())
    }

    fn answer_failed_read(&mut self, answer: &Answer, desk: &mut Desk<'_>) -> Result<(), HangUp> {
        // The blocks it would have had: those of its part.
        let blocks = (answer.range.blocks() - answer.first_block).min(desk.part_blocks_max);
        let blocks = usize::try_from(blocks).expect("a part is at most 256 blocks");
        assert!(self.frames_owed >= blocks, "frames were asked for and will not come");
        self.frames_owed -= blocks;
        if self.structured {
            let (cookie, is_last) = (answer.cookie, answer.is_last);
            self.outbox.queued.push_bytes(|out| {
                codec::push_error_chunk(out, cookie, is_last, ErrorCode::Io, TEXT_IO_ERROR);
            });
            return Ok(());
        }
        if answer.first_block > 0 {
            return Err(HangUp::TornReply);
        }
        if !answer.is_last {
            self.abandon_stage(desk);
        }
        self.push_error(answer.cookie, ErrorCode::Io, TEXT_IO_ERROR);
        self.end_simple_read(true);
        Ok(())
    }

    fn end_simple_read(&mut self, is_last: bool) {
        if is_last && !self.structured && matches!(self.stage, Stage::Reading { .. }) {
            self.enter(Stage::Header);
        }
    }

    pub(super) fn push_error(&mut self, cookie: u64, error: ErrorCode, text: &str) {
        let structured = self.structured;
        self.outbox.queued.push_bytes(|out| {
            if structured {
                codec::push_error_chunk(out, cookie, true, error, text);
            } else {
                codec::push_simple_reply(out, cookie, Some(error));
            }
        });
    }

    /// Success without data: a chunk for reads, which structured replies demand.
    pub(super) fn push_nothing(&mut self, header: &RequestHeader) {
        let cookie = header.cookie;
        let as_chunk = self.structured && header.command == codec::CommandKind::Read;
        self.outbox.queued.push_bytes(|out| {
            if as_chunk {
                let none = codec::ChunkHeader { done: true, kind: codec::chunk::NONE, cookie, length: 0 };
                codec::push_chunk(out, none);
            } else {
                codec::push_simple_reply(out, cookie, None);
            }
        });
    }
}

/// First byte of a part, and count of its bytes that the client asked for.
fn part_bytes(range: ByteRange, first_block: u64, blocks: u64) -> (u64, u32) {
    let block_from = (range.first_block().0 + first_block) * BLOCK_BYTES_U64;
    let from = range.from.max(block_from);
    let to = range.to.min(block_from + blocks * BLOCK_BYTES_U64);
    assert!(from < to, "a part has bytes that were asked for: {range:?} from block {first_block} on");
    (from, u32::try_from(to - from).expect("a part is at most 1 MiB"))
}
