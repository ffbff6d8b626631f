//! One NBD client: what it says, and what it is told.
//!
//! [`Client::parse`] eats staged bytes until it needs more or must wait:
//!
//! ```text
//! Handshake -> Header -> Payload | Skip | Reading -> Header ... -> Closing
//! ```
//!
//! Small requests are taken whole or not at all. A long write goes to the volume part by part as
//! its payload arrives; a long read is handed out part by part as frames and the client's appetite
//! allow. With structured replies its parts are answered in any order; a simple reply cannot be
//! cut, so such a read is alone on its connection and its parts follow one another.

use super::desk::{Answer, Desk, OperationKind};
use super::inbox::{Inbox, STAGED_PAYLOAD_BYTES_MAX};
use super::outbox::Outbox;
use super::slab::Key;
use super::watch::Watch;
use crate::config::ServerConfig;
use crate::nbd::codec::{self, CodecError, ErrorCode, REQUEST_BYTES, RequestHeader};
use crate::nbd::handshake::{Handshake, HandshakeError, Offer, Progress};
use crate::nbd::transmission::{self, ByteRange, Command, Cut, Refusal};
use base::time::Instant;
use base::units::{BLOCK_BYTES, BLOCK_BYTES_U64};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use thiserror::Error;

/// Requests of one client that may be unanswered.
const OPERATIONS_MAX: u32 = 1024;

/// Bytes of replies, without data, that may wait for the client to read them.
const REPLY_HEADER_BYTES_MAX: usize = 256 << 10;

/// Data of reads that may be on its way to one client: 16 MiB.
const REPLY_FRAMES_MAX: usize = 4096;

const TEXT_IO_ERROR: &str = "the volume cannot read or write the data";

/// Why a connection is closed without further answer.
#[derive(Debug, Error)]
pub(crate) enum HangUp {
    #[error("{0}")]
    Handshake(#[from] HandshakeError),
    #[error("{0}")]
    Codec(#[from] CodecError),
    #[error("a write of {0} bytes exceeds the limit of 32 MiB and cannot be skipped")]
    LongPayload(u32),
    #[error("a read failed after the beginning of its reply was sent")]
    TornReply,
    #[error("negotiation took too long")]
    SlowHandshake,
    #[error("it stalled in the middle of a message")]
    SlowSender,
    #[error("it does not read its replies")]
    SlowReader,
    #[error("it was idle for longer than the configured limit")]
    Idle,
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Why parsing has come to a halt although bytes may be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// The pool cannot spare this many frames.
    Frames(u64),
    /// The client must take replies, or requests be answered, first.
    Answers,
}

enum Step {
    Again,
    NeedBytes,
    Pause(Pause),
}

enum Stage {
    Handshake(Handshake),
    Header,
    /// A write's payload arrives; `rest` of its range is not in parts yet.
    Payload {
        operation: Key,
        rest: ByteRange,
        force_unit_access: bool,
    },
    /// The payload of a refused write arrives, to be answered when it is over.
    Skip {
        bytes_left: usize,
        cookie: u64,
        error: ErrorCode,
        text: &'static str,
    },
    /// A long read hands out its parts.
    Reading {
        operation: Key,
        range: ByteRange,
        next_block: u64,
    },
    /// Answers what is in flight and leaves.
    Closing,
}

/// See the module.
pub(crate) struct Client {
    pub(crate) socket: Rc<OwnedFd>,
    /// For the log.
    pub(crate) number: u64,
    pub(crate) inbox: Inbox,
    pub(crate) outbox: Outbox,
    pub(crate) pause: Option<Pause>,
    /// Queued to be parsed, or to be sent its replies.
    pub(crate) is_ready: bool,
    pub(crate) is_dirty: bool,
    stage: Stage,
    structured: bool,
    operations_count: u32,
    /// Frames of reads asked for and not yet sent.
    frames_owed: usize,
    handshake_due: Option<Instant>,
    idle_due: Option<Instant>,
    receive_watch: Watch,
    send_watch: Watch,
}

impl Client {
    pub(crate) fn new(socket: OwnedFd, number: u64, now: Instant, config: &ServerConfig) -> Client {
        let mut outbox = Outbox::new();
        let mut handshake = None;
        outbox.queued.push_bytes(|out| handshake = Some(Handshake::new(out)));
        Client {
            socket: Rc::new(socket),
            number,
            inbox: Inbox::new(),
            outbox,
            pause: None,
            is_ready: false,
            is_dirty: false,
            stage: Stage::Handshake(handshake.expect("the closure runs once")),
            structured: false,
            operations_count: 0,
            frames_owed: 0,
            handshake_due: Some(now + config.handshake_limit),
            idle_due: None,
            receive_watch: Watch::default(),
            send_watch: Watch::default(),
        }
    }

    /// Eats staged bytes until more are needed or the client must wait. With `is_stopping` no
    /// request is begun that is not staged already.
    pub(crate) fn parse(
        &mut self,
        key: Key,
        desk: &mut Desk<'_>,
        config: &ServerConfig,
        is_stopping: bool,
    ) -> Result<(), HangUp> {
        self.pause = None;
        let mut has_progressed = false;
        let step = loop {
            match self.step(key, desk, config)? {
                Step::Again => has_progressed = true,
                other => break other,
            }
        };
        if has_progressed {
            self.receive_watch.disarm();
        }
        match step {
            Step::Pause(pause) => self.pause = Some(pause),
            Step::NeedBytes if is_stopping && self.is_between_requests() => self.stage = Stage::Closing,
            Step::NeedBytes | Step::Again => self.watch_for_bytes(desk.now, config),
        }
        Ok(())
    }

    fn watch_for_bytes(&mut self, now: Instant, config: &ServerConfig) {
        let is_resting = matches!(self.stage, Stage::Header) && self.inbox.staged().is_empty();
        self.idle_due = None;
        if is_resting {
            self.receive_watch.disarm();
            if config.idle_limit.0 > 0 && self.operations_count == 0 {
                self.idle_due = Some(now + config.idle_limit);
            }
        } else if matches!(self.stage, Stage::Closing) {
            self.receive_watch.disarm();
        } else if !matches!(self.stage, Stage::Handshake(_)) {
            self.receive_watch.arm(now, config.stall_limit);
        }
    }

    fn is_between_requests(&self) -> bool {
        matches!(self.stage, Stage::Header | Stage::Handshake(_) | Stage::Closing)
    }

    fn step(&mut self, key: Key, desk: &mut Desk<'_>, config: &ServerConfig) -> Result<Step, HangUp> {
        match self.stage {
            Stage::Handshake(_) => self.step_handshake(desk.size_bytes, config),
            Stage::Header => self.step_header(key, desk),
            Stage::Payload { operation, rest, force_unit_access } => {
                Ok(self.step_payload(key, desk, operation, rest, force_unit_access))
            }
            Stage::Skip { bytes_left, cookie, error, text } => {
                let taken = bytes_left.min(self.inbox.staged().len());
                self.inbox.consume(taken);
                if taken == bytes_left {
                    self.push_error(cookie, error, text);
                    self.stage = Stage::Header;
                    return Ok(Step::Again);
                }
                self.stage = Stage::Skip { bytes_left: bytes_left - taken, cookie, error, text };
                Ok(Step::NeedBytes)
            }
            Stage::Reading { operation, range, next_block } => {
                Ok(self.step_reading(key, desk, operation, range, next_block))
            }
            Stage::Closing => {
                let rest = self.inbox.staged().len();
                self.inbox.consume(rest);
                Ok(Step::NeedBytes)
            }
        }
    }

    fn step_handshake(&mut self, size_bytes: u64, config: &ServerConfig) -> Result<Step, HangUp> {
        let Stage::Handshake(handshake) = &mut self.stage else { return Ok(Step::Again) };
        if self.outbox.queued.bytes.len() > REPLY_HEADER_BYTES_MAX {
            return Ok(Step::Pause(Pause::Answers));
        }
        let offer = Offer { exports: &config.exports, size_bytes };
        let mut result = Ok((0, Progress::NeedMore));
        let staged = self.inbox.staged();
        self.outbox.queued.push_bytes(|out| result = handshake.step(staged, offer, out));
        let (taken, progress) = result?;
        self.inbox.consume(taken);
        match progress {
            Progress::NeedMore if taken == 0 => return Ok(Step::NeedBytes),
            Progress::NeedMore => {}
            Progress::Agreed(agreement) => {
                let export = &config.exports[agreement.export_index].name;
                log::info!("client {}: export `{export}`, structured {}", self.number, agreement.structured);
                self.structured = agreement.structured;
                self.handshake_due = None;
                self.stage = Stage::Header;
            }
            Progress::HungUp => self.stage = Stage::Closing,
        }
        Ok(Step::Again)
    }

    /// Looks at the next request; takes it only if it can be carried out now.
    fn step_header(&mut self, key: Key, desk: &mut Desk<'_>) -> Result<Step, HangUp> {
        let replies_wait = self.outbox.queued.bytes.len() > REPLY_HEADER_BYTES_MAX;
        if replies_wait || self.operations_count >= OPERATIONS_MAX {
            return Ok(Step::Pause(Pause::Answers));
        }
        let header = match codec::parse_request(self.inbox.staged()) {
            Ok(header) => header,
            Err(CodecError::Incomplete) => return Ok(Step::NeedBytes),
            Err(error) => return Err(error.into()),
        };
        match transmission::admit(&header, desk.size_bytes, self.structured) {
            Ok(command) => Ok(self.begin(key, desk, &header, command)),
            Err(Refusal::HangUp) => Err(HangUp::LongPayload(header.length)),
            Err(Refusal::Reply { error, text, payload_bytes }) => {
                let bytes_left = usize::try_from(payload_bytes).expect("usize has at least 32 bits");
                self.inbox.consume(REQUEST_BYTES);
                self.stage = Stage::Skip { bytes_left, cookie: header.cookie, error, text };
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
                let operation = self.open(key, desk, header, OperationKind::Change);
                self.stage = Stage::Payload { operation, rest: range, force_unit_access };
            }
            Command::Zero { force_unit_access } => {
                let operation = self.open(key, desk, header, OperationKind::Change);
                desk.zero(operation, range, force_unit_access);
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
                self.stage = Stage::Closing;
            }
        }
        Step::Again
    }

    /// Takes the request off staging and opens an operation for it.
    fn open(&mut self, key: Key, desk: &mut Desk<'_>, header: &RequestHeader, kind: OperationKind) -> Key {
        self.inbox.consume(REQUEST_BYTES);
        self.operations_count += 1;
        desk.open(key, header.cookie, kind, ByteRange::of(header))
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
        self.stage = Stage::Reading { operation, range, next_block: 0 };
        Step::Again
    }

    /// Whether a read of `blocks` must wait for the client or for the pool.
    fn read_must_wait(&self, key: Key, desk: &mut Desk<'_>, blocks: u64) -> Option<Pause> {
        let count = usize::try_from(blocks).expect("a part is at most 256 blocks");
        if self.frames_owed > 0 && self.frames_owed + count > REPLY_FRAMES_MAX {
            return Some(Pause::Answers);
        }
        if desk.may_take(key, blocks) { None } else { Some(Pause::Frames(blocks)) }
    }

    fn read_part(&mut self, desk: &mut Desk<'_>, operation: Key, first_block: u64, blocks: u64) {
        self.frames_owed += usize::try_from(blocks).expect("a part is at most 256 blocks");
        desk.read_part(operation, first_block, blocks);
    }

    fn step_reading(
        &mut self,
        key: Key,
        desk: &mut Desk<'_>,
        operation: Key,
        range: ByteRange,
        next_block: u64,
    ) -> Step {
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
        self.stage = if is_over { Stage::Header } else { Stage::Reading { operation, range, next_block } };
        Step::Again
    }

    fn step_payload(
        &mut self,
        key: Key,
        desk: &mut Desk<'_>,
        operation: Key,
        mut rest: ByteRange,
        force_unit_access: bool,
    ) -> Step {
        if self.inbox.part().is_none() {
            let cut = Cut::first(rest, desk.part_blocks_max);
            if !desk.may_take(key, cut.blocks()) {
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
        let is_last = rest.from == rest.to;
        desk.write_part(operation, cut, frames, force_unit_access, is_last);
        self.stage =
            if is_last { Stage::Header } else { Stage::Payload { operation, rest, force_unit_access } };
        Step::Again
    }

    /// Whether a receive should be in flight.
    pub(crate) fn wants_bytes(&self) -> bool {
        self.pause.is_none() && !self.inbox.is_receiving() && !matches!(self.stage, Stage::Closing)
    }

    /// Whether what follows the open part is something else than more payload.
    pub(crate) fn payload_ends_with_part(&self) -> bool {
        match (&self.stage, self.inbox.part()) {
            (Stage::Payload { rest, .. }, Some(part)) => rest.from + part.cut.bytes() == rest.to,
            _ => true,
        }
    }

    /// The client will send no more.
    pub(crate) fn on_end_of_stream(&mut self, desk: &mut Desk<'_>) {
        if !matches!(self.stage, Stage::Header | Stage::Closing) || !self.inbox.staged().is_empty() {
            log::info!("client {}: hung up in the middle of a message", self.number);
        }
        self.abandon_stage(desk);
        self.stage = Stage::Closing;
    }

    /// The server is stopping: a client that rests between requests has nothing more to say.
    pub(crate) fn finish_if_resting(&mut self) {
        if self.inbox.is_receiving() && self.is_between_requests() {
            self.stage = Stage::Closing;
        }
    }

    /// Bytes were received.
    pub(crate) fn on_received(&mut self, now: Instant, config: &ServerConfig, count: usize) {
        self.receive_watch.progress(now, config.stall_limit, count);
    }

    /// A send has begun or moved on by `count` bytes.
    pub(crate) fn on_sending(&mut self, now: Instant, config: &ServerConfig, count: usize) {
        self.send_watch.arm(now, config.stall_limit);
        self.send_watch.progress(now, config.stall_limit, count);
    }

    /// A transfer with `frames_count` frames is sent.
    pub(crate) fn on_sent(&mut self, frames_count: usize) {
        self.send_watch.disarm();
        assert!(self.frames_owed >= frames_count);
        self.frames_owed -= frames_count;
    }

    /// Queues an answer of the volume.
    pub(crate) fn on_answer(&mut self, answer: Answer, desk: &mut Desk<'_>) -> Result<(), HangUp> {
        if answer.is_last {
            assert!(self.operations_count > 0);
            self.operations_count -= 1;
        }
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
        self.frames_owed -= usize::try_from(blocks).expect("a part is at most 256 blocks");
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
            self.stage = Stage::Header;
        }
    }

    /// No more parts will come of what the client is in the middle of.
    fn abandon_stage(&mut self, desk: &mut Desk<'_>) {
        match self.stage {
            Stage::Payload { operation, .. } => self.abandon(desk, operation),
            Stage::Reading { operation, range, next_block } if next_block < range.blocks() => {
                self.abandon(desk, operation);
            }
            _ => {}
        }
    }

    fn abandon(&mut self, desk: &mut Desk<'_>, operation: Key) {
        if desk.abandon(operation) {
            self.operations_count -= 1;
        }
    }

    /// The client is dropped: its frames go home, its unfinished operations end.
    pub(crate) fn close(&mut self, desk: &mut Desk<'_>) {
        self.abandon_stage(desk);
        self.stage = Stage::Closing;
        self.inbox.close(desk.volume.frames());
        self.outbox.close(desk.volume.frames());
    }

    /// Whether everything is said and done.
    pub(crate) fn is_finished(&self) -> bool {
        matches!(self.stage, Stage::Closing) && self.operations_count == 0 && self.outbox.is_empty()
    }

    /// When patience with this client may end.
    pub(crate) fn due(&self) -> Option<Instant> {
        let dues = [self.handshake_due, self.idle_due, self.receive_watch.due(), self.send_watch.due()];
        dues.into_iter().flatten().min()
    }

    /// Why patience with this client has ended, if it has.
    pub(crate) fn overdue(&self, now: Instant) -> Option<HangUp> {
        if self.handshake_due.is_some_and(|due| due <= now) {
            return Some(HangUp::SlowHandshake);
        }
        if self.receive_watch.is_over(now) {
            return Some(HangUp::SlowSender);
        }
        if self.send_watch.is_over(now) {
            return Some(HangUp::SlowReader);
        }
        self.idle_due.is_some_and(|due| due <= now && self.operations_count == 0).then_some(HangUp::Idle)
    }

    fn push_error(&mut self, cookie: u64, error: ErrorCode, text: &str) {
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
    fn push_nothing(&mut self, header: &RequestHeader) {
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

/// Where the bytes of a part begin, and how many of them the client asked for.
fn part_bytes(range: ByteRange, first_block: u64, blocks: u64) -> (u64, u32) {
    let block_from = (range.first_block().0 + first_block) * BLOCK_BYTES_U64;
    let from = range.from.max(block_from);
    let to = range.to.min(block_from + blocks * BLOCK_BYTES_U64);
    (from, u32::try_from(to - from).expect("a part is at most 1 MiB"))
}

const _: () = assert!(REPLY_FRAMES_MAX * BLOCK_BYTES == 16 << 20);
