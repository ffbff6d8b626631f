//! What a client asks for, from the header of a request to the parts the desk is given.
//!
//! A request is taken off staging only when it can be carried out now; until then it stays there
//! and its client pauses.

use super::super::desk::{Desk, OperationKind, Party};
use super::super::inbox::STAGED_PAYLOAD_BYTES_MAX;
use super::{Client, HangUp, OPERATIONS_MAX, Pause, REPLY_FRAMES_MAX, REPLY_HEADER_BYTES_MAX, Stage, Step};
use crate::nbd::codec::{self, CodecError, ErrorCode, REQUEST_BYTES, RequestHeader};
use crate::nbd::transmission::{self, ByteRange, Command, Cut, Refusal};
use crate::slab::Key;

impl Client {
    /// Looks at the next request; takes it only if it can be carried out now.
    pub(super) fn step_header(&mut self, key: Key, desk: &mut Desk<'_>) -> Result<Step, HangUp> {
        let replies_wait = self.outbox.queued.bytes.len() > REPLY_HEADER_BYTES_MAX;
        if replies_wait || self.operations_count >= OPERATIONS_MAX {
            return Ok(Step::Pause(Pause::Answers));
        }
        let header = match codec::parse_request(self.inbox.staged()) {
            Ok(header) => header,
            Err(CodecError::Incomplete) => return Ok(Step::NeedBytes),
            Err(error) => return Err(error.into()),
        };
        let admitted = transmission::admit(&header, desk.size_bytes, self.structured);
        match admitted.and_then(|command| command.unless_read_only(&header, desk.is_read_only)) {
            Ok(command) => Ok(self.begin(key, desk, &header, command)),
            Err(Refusal::HangUp) => Err(HangUp::LongPayload(header.length)),
            Err(Refusal::Reply { error, text, payload_bytes }) => {
                let bytes_left = usize::try_from(payload_bytes).expect("usize has at least 32 bits");
                self.inbox.consume(REQUEST_BYTES);
                self.enter(Stage::Skip { bytes_left, cookie: header.cookie, error, text });
                Ok(Step::Again)
            }
        }
    }

    fn begin(&mut self, key: Key, desk: &mut Desk<'_>, header: &RequestHeader, command: Command) -> Step {
        let range = ByteRange::of(header);
        match command {
            Command::Read { one_chunk } => return self.begin_read(key, desk, header, one_chunk),
            Command::Write { force_unit_access } => {
                let payload_bytes = usize::try_from(header.length).expect("usize has at least 32 bits");
                let is_staged = self.inbox.staged().len() - REQUEST_BYTES >= payload_bytes;
                if payload_bytes <= STAGED_PAYLOAD_BYTES_MAX && !is_staged {
                    return Step::NeedBytes;
                }
                self.take_request();
                let party = Party::Client(key);
                let operation = desk.open_write(party, header.cookie, range, force_unit_access);
                self.enter(Stage::Payload { operation, rest: range, force_unit_access });
            }
            Command::Zero { force_unit_access } => {
                let operation = self.open(key, desk, header, OperationKind::Change);
                desk.zero(operation, range, force_unit_access, true);
            }
            Command::Flush => {
                let operation = self.open(key, desk, header, OperationKind::Flush);
                desk.flush(operation);
            }
            Command::Nothing => {
                self.inbox.consume(REQUEST_BYTES);
                self.push_nothing(header);
            }
            Command::Disconnect => {
                self.inbox.consume(REQUEST_BYTES);
                self.enter(Stage::Closing);
            }
        }
        Step::Again
    }

    /// Takes the request off staging and opens an operation for it.
    fn open(&mut self, key: Key, desk: &mut Desk<'_>, header: &RequestHeader, kind: OperationKind) -> Key {
        self.take_request();
        desk.open(Party::Client(key), header.cookie, kind, ByteRange::of(header))
    }

    /// The request is off staging, and an operation begins.
    fn take_request(&mut self) {
        assert!(
            self.operations_count < OPERATIONS_MAX,
            "a client waits that has asked for as much as it may"
        );
        self.inbox.consume(REQUEST_BYTES);
        self.operations_count += 1;
    }

    fn begin_read(&mut self, key: Key, desk: &mut Desk<'_>, header: &RequestHeader, one_chunk: bool) -> Step {
        let range = ByteRange::of(header);
        let is_long = range.blocks() > desk.part_blocks_max;
        if is_long && one_chunk {
            self.inbox.consume(REQUEST_BYTES);
            self.push_error(header.cookie, ErrorCode::Overflow, "too long to be sent in one chunk");
            return Step::Again;
        }
        if is_long && !self.structured && self.operations_count > 0 {
            return Step::Pause(Pause::Answers);
        }
        if !is_long {
            if let Some(pause) = self.read_must_wait(key, desk, range.blocks()) {
                return Step::Pause(pause);
            }
            let operation = self.open(key, desk, header, OperationKind::Read);
            self.read_part(desk, operation, 0, range.blocks());
            return Step::Again;
        }
        let operation = self.open(key, desk, header, OperationKind::Read);
        self.enter(Stage::Reading { operation, range, next_block: 0 });
        Step::Again
    }

    /// Pause that a read of `blocks` must make, for the client or for the pool, if any.
    fn read_must_wait(&self, key: Key, desk: &mut Desk<'_>, blocks: u64) -> Option<Pause> {
        assert!(blocks <= desk.part_blocks_max, "a part of {blocks} blocks, of {}", desk.part_blocks_max);
        let count = usize::try_from(blocks).expect("a part is at most 256 blocks");
        if self.frames_owed > 0 && self.frames_owed + count > REPLY_FRAMES_MAX {
            return Some(Pause::Answers);
        }
        if desk.may_take(Party::Client(key), blocks) { None } else { Some(Pause::Frames(blocks)) }
    }

    fn read_part(&mut self, desk: &mut Desk<'_>, operation: Key, first_block: u64, blocks: u64) {
        self.frames_owed += usize::try_from(blocks).expect("a part is at most 256 blocks");
        desk.read_part(operation, first_block, blocks);
    }

    pub(super) fn step_reading(
        &mut self,
        key: Key,
        desk: &mut Desk<'_>,
        operation: Key,
        range: ByteRange,
        next_block: u64,
    ) -> Step {
        assert!(next_block <= range.blocks(), "a read ends with its range: block {next_block} of {range:?}");
        let blocks_left = range.blocks() - next_block;
        if !self.structured && (blocks_left == 0 || desk.parts_pending(operation) > 0) {
            return Step::Pause(Pause::Answers);
        }
        let blocks = blocks_left.min(desk.part_blocks_max);
        if let Some(pause) = self.read_must_wait(key, desk, blocks) {
            return Step::Pause(pause);
        }
        self.read_part(desk, operation, next_block, blocks);
        // The stage of a simple read ends with its last answer, that of a structured one now.
        let is_over = self.structured && blocks == blocks_left;
        let next_block = next_block + blocks;
        self.enter(if is_over { Stage::Header } else { Stage::Reading { operation, range, next_block } });
        Step::Again
    }

    pub(super) fn step_payload(
        &mut self,
        key: Key,
        desk: &mut Desk<'_>,
        operation: Key,
        mut rest: ByteRange,
        force_unit_access: bool,
    ) -> Step {
        if self.inbox.part().is_none() {
            let cut = Cut::first(rest, desk.part_blocks_max);
            if !desk.may_take(Party::Client(key), cut.blocks()) {
                return Step::Pause(Pause::Frames(cut.blocks()));
            }
            self.inbox.begin_part(cut, |frames| desk.take_frames(cut.blocks(), frames));
        }
        if !self.inbox.fill_part() {
            return Step::NeedBytes;
        }
        let cut = self.inbox.part().expect("it was just filled").cut;
        let frames = self.inbox.end_part(desk.spare_vector());
        rest.from += cut.bytes();
        assert!(rest.from <= rest.to, "a part lies in its request: {rest:?}");
        let is_last = rest.from == rest.to;
        desk.write_part(operation, cut, frames, force_unit_access, is_last);
        self.enter(if is_last {
            Stage::Header
        } else {
            Stage::Payload { operation, rest, force_unit_access }
        });
        Step::Again
    }
}
