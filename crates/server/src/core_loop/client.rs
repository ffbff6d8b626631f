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

mod answers;
mod requests;

use super::desk::Desk;
use super::inbox::Inbox;
use super::outbox::Outbox;
use super::watch::Watch;
use crate::config::ServerConfig;
use crate::nbd::codec::{CodecError, ErrorCode};
use crate::nbd::handshake::{Handshake, HandshakeError, Offer, Progress};
use crate::nbd::transmission::ByteRange;
use crate::ports::Presence;
use crate::ring::OperationId;
use crate::slab::Key;
use base::time::Instant;
use base::units::BLOCK_BYTES;
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

impl Stage {
    /// Stages that may follow this one.
    fn may_become(&self, next: &Stage) -> bool {
        match self {
            Stage::Handshake(_) => matches!(next, Stage::Header | Stage::Closing),
            Stage::Header => !matches!(next, Stage::Handshake(_)),
            Stage::Payload { .. } => matches!(next, Stage::Payload { .. } | Stage::Header | Stage::Closing),
            Stage::Skip { .. } => matches!(next, Stage::Skip { .. } | Stage::Header | Stage::Closing),
            Stage::Reading { .. } => matches!(next, Stage::Reading { .. } | Stage::Header | Stage::Closing),
            Stage::Closing => matches!(next, Stage::Closing),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Stage::Handshake(_) => "its handshake",
            Stage::Header => "a header",
            Stage::Payload { .. } => "a payload",
            Stage::Skip { .. } => "a payload that is skipped",
            Stage::Reading { .. } => "a long read",
            Stage::Closing => "its end",
        }
    }
}

/// See the module.
pub(crate) struct Client {
    pub(crate) socket: Rc<OwnedFd>,
    pub(crate) presence: Presence,
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
    /// Time at which a big staging buffer is given up for lack of use; see [`Client::give_up_staging`].
    shrink_due: Option<Instant>,
    is_shrinking: bool,
    pub(crate) receiving: Option<OperationId>,
    receive_watch: Watch,
    send_watch: Watch,
}

impl Client {
    pub(crate) fn new(socket: OwnedFd, presence: Presence, now: Instant, config: &ServerConfig) -> Client {
        let mut outbox = Outbox::new();
        let mut handshake = None;
        outbox.queued.push_bytes(|out| handshake = Some(Handshake::new(out)));
        Client {
            socket: Rc::new(socket),
            presence,
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
            shrink_due: None,
            is_shrinking: false,
            receiving: None,
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
            Step::NeedBytes if is_stopping && self.is_between_requests() => self.enter(Stage::Closing),
            Step::NeedBytes | Step::Again => self.watch_for_bytes(desk.now, config),
        }
        Ok(())
    }

    fn watch_for_bytes(&mut self, now: Instant, config: &ServerConfig) {
        let is_resting = matches!(self.stage, Stage::Header) && self.inbox.staged().is_empty();
        self.idle_due = None;
        self.shrink_due = (is_resting && self.inbox.has_big_staging()).then_some(now + config.staging_rest);
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

    /// Another stage begins.
    fn enter(&mut self, next: Stage) {
        assert!(
            self.stage.may_become(&next),
            "client {}: {} does not follow {}",
            self.presence.number,
            next.name(),
            self.stage.name()
        );
        self.stage = next;
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
                    self.enter(Stage::Header);
                    return Ok(Step::Again);
                }
                self.enter(Stage::Skip { bytes_left: bytes_left - taken, cookie, error, text });
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
        let is_read_only = config.is_read_only;
        let offer = Offer { exports: &config.exports, size_bytes, is_read_only };
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
                log::debug!(
                    "client {}: export `{export}`, structured {}",
                    self.presence.number,
                    agreement.structured
                );
                self.structured = agreement.structured;
                self.handshake_due = None;
                self.enter(Stage::Header);
            }
            Progress::HungUp => self.enter(Stage::Closing),
        }
        Ok(Step::Again)
    }

    /// True when a receive should be in flight.
    pub(crate) fn wants_bytes(&self) -> bool {
        self.pause.is_none() && !self.inbox.is_receiving() && !matches!(self.stage, Stage::Closing)
    }

    /// True unless more payload follows the open part.
    pub(crate) fn payload_ends_with_part(&self) -> bool {
        match (&self.stage, self.inbox.part()) {
            (Stage::Payload { rest, .. }, Some(part)) => rest.from + part.cut.bytes() == rest.to,
            _ => true,
        }
    }

    /// The client will send no more.
    pub(crate) fn on_end_of_stream(&mut self, desk: &mut Desk<'_>) {
        if !matches!(self.stage, Stage::Header | Stage::Closing) || !self.inbox.staged().is_empty() {
            log::debug!("client {}: hung up in the middle of a message", self.presence.number);
        }
        self.abandon_stage(desk);
        self.enter(Stage::Closing);
    }

    /// The server is stopping: a client that rests between requests has nothing more to say.
    pub(crate) fn finish_if_resting(&mut self) {
        if self.inbox.is_receiving() && self.is_between_requests() {
            self.enter(Stage::Closing);
        }
    }

    /// Returns true when a client at rest should give back its big staging buffer now. The kernel has the buffer: the
    /// receive must be cancelled, and [`Client::shrink`] called when it has come home.
    pub(crate) fn give_up_staging(&mut self, now: Instant) -> bool {
        let is_due = self.shrink_due.is_some_and(|due| due <= now) && self.inbox.is_receiving();
        if is_due {
            self.shrink_due = None;
            self.is_shrinking = true;
        }
        is_due
    }

    /// The receive was cancelled; true when that was to give up the staging buffer.
    pub(crate) fn shrink(&mut self) -> bool {
        let is_asked = std::mem::take(&mut self.is_shrinking);
        if is_asked {
            assert!(!self.inbox.is_receiving(), "staging shrinks between receives");
            self.inbox.shrink();
        }
        is_asked
    }

    /// Bytes were received.
    pub(crate) fn on_received(&mut self, now: Instant, config: &ServerConfig, count: usize) {
        self.is_shrinking = false;
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
        assert!(!self.outbox.is_sending(), "one transfer is sent at a time");
        assert!(self.frames_owed >= frames_count, "frames are sent that were asked for");
        self.frames_owed -= frames_count;
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
        assert!(self.operations_count > 0, "an operation is abandoned that was begun");
        if desk.abandon(operation) {
            self.operations_count -= 1;
        }
    }

    /// The client is dropped: its frames go home, its unfinished operations end.
    pub(crate) fn close(&mut self, desk: &mut Desk<'_>) {
        self.abandon_stage(desk);
        self.enter(Stage::Closing);
        assert!(
            self.operations_count <= OPERATIONS_MAX,
            "{} operations are under way",
            self.operations_count
        );
        self.inbox.close(desk.volume.frames());
        self.outbox.close(desk.volume.frames());
    }

    /// True when everything is said and done.
    pub(crate) fn is_finished(&self) -> bool {
        matches!(self.stage, Stage::Closing) && self.operations_count == 0 && self.outbox.is_empty()
    }

    /// Earliest time at which patience with this client may end.
    pub(crate) fn due(&self) -> Option<Instant> {
        let watched = [self.receive_watch.due(), self.send_watch.due()];
        let dues = [self.handshake_due, self.idle_due, self.shrink_due].into_iter().chain(watched);
        dues.flatten().min()
    }

    /// Why this client goes when others wait for the frames it holds, if it should.
    pub(crate) fn holds_frames_idly(&self, now: Instant, config: &ServerConfig) -> Option<HangUp> {
        let is_idle = |watch: &Watch| {
            watch.idle_for(now, config.stall_limit).is_some_and(|idle| idle >= config.shortage_limit)
        };
        if self.frames_owed > 0 && is_idle(&self.send_watch) {
            return Some(HangUp::SlowReader);
        }
        is_idle(&self.receive_watch).then_some(HangUp::SlowSender)
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
}

const _: () = assert!(REPLY_FRAMES_MAX * BLOCK_BYTES == 16 << 20);
