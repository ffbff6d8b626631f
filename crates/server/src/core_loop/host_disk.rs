//! A disk of this host (ublk): its requests are handed over by the kernel, and its answers fetch the next ones.
//!
//! ```text
//! kernel --fetched--> arrived --held, parts--> desk
//!    ^                                          |
//!    '---- commit and fetch <---- answers ------'
//!
//! starting ──> open ──stop asked──> stopping ──nobody uses it──> stopped: every fetch has come back
//!               ^                       ├──────mounted─────────> left: to the next server, with what is not committed
//!               └──the service goes on──┘
//! ```
//!
//! The kernel starts a disk by reading its partition table, and stops it when the requests that are here have been answered, so both are
//! done by a helper thread while the loop serves. The helper says how it went and rings the bell, which wakes the loop.

use super::client::Pause;
use super::desk::{Answer, Desk, OperationKind, Party};
use super::held::{Held, Progress};
use crate::doors::Token;
use crate::mailbox::Mailbox;
use crate::nbd::transmission::ByteRange;
use crate::ports::DiskState;
use crate::ring::Ring;
use crate::ublk::{self, ABORTED, Attached, Control, Queue, Request, RequestKind};
use base::frame::Frame;
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

const FAILED: i32 = -libc::EIO;
const UNKNOWN: i32 = -libc::EOPNOTSUPP;

/// State of the disk as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Starting,
    Open,
    Stopping,
    /// The kernel has taken it back.
    Stopped,
    /// The next server has it: nothing more is begun.
    Left,
}

impl Phase {
    /// Moves on. What the kernel has taken back is gone, and what was left is the next server's.
    fn enter(&mut self, next: Phase) {
        let is_next = match self {
            Phase::Starting => matches!(next, Phase::Open | Phase::Left),
            Phase::Open => matches!(next, Phase::Stopping | Phase::Left),
            Phase::Stopping => matches!(next, Phase::Open | Phase::Stopped | Phase::Left),
            Phase::Left => next == Phase::Left,
            Phase::Stopped => false,
        };
        assert!(is_next, "{next:?} does not follow {self:?}");
        *self = next;
    }
}

/// Owner of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tag {
    /// The kernel, for a request to come.
    Kernel,
    /// A request that was handed over.
    Here(Option<Request>, Outcome),
    /// Nobody: the disk was stopped.
    Ended,
}

/// Outcome of the parts so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Well,
    Failed,
}

/// Message of a helper.
#[derive(Debug)]
enum News {
    Started(io::Result<()>),
    /// False: somebody uses it.
    Stopped(io::Result<bool>),
}

/// See the module.
pub(super) struct HostDisk {
    queue: Queue,
    is_recovered: bool,
    phase: Phase,
    tags: Vec<Tag>,
    arrived: VecDeque<u16>,
    held: Option<Held<u16>>,
    pub(super) pause: Option<Pause>,
    /// Answers for the kernel: a tag and its result.
    answers: Vec<(u16, i32)>,
    news: Arc<Mailbox<News>>,
    /// Why the kernel does not show it.
    pub(super) failure: Option<io::Error>,
    /// It came while the service was under way, which goes on without it.
    pub(super) is_late: bool,
    /// State that is not shown yet.
    shown: Option<DiskState>,
}

impl HostDisk {
    /// The disk, and the bell that wakes the loop for it.
    pub(super) fn new(attached: Attached) -> io::Result<(HostDisk, OwnedFd)> {
        let Attached { device, is_recovered } = attached;
        let queue = device.into_queue();
        let news = Arc::new(Mailbox::new()?);
        let bell = news.bell()?;
        let disk = HostDisk {
            tags: vec![Tag::Kernel; usize::from(queue.depth)],
            queue,
            is_recovered,
            phase: Phase::Starting,
            arrived: VecDeque::new(),
            held: None,
            pause: None,
            answers: Vec::new(),
            news,
            failure: None,
            is_late: false,
            shown: Some(DiskState::Starting),
        };
        Ok((disk, bell))
    }

    /// The same, of a service that goes on without it.
    pub(super) fn late(self) -> HostDisk {
        HostDisk { is_late: true, ..self }
    }

    /// State to be shown, if it is another one than before.
    pub(super) fn take_shown(&mut self) -> Option<DiskState> {
        self.shown.take()
    }

    /// Fetches all requests, and lets the kernel show the disk.
    pub(super) fn open(&mut self, ring: &mut Ring<Token>) -> io::Result<()> {
        assert!(self.phase == Phase::Starting, "a disk is opened once: {:?}", self.phase);
        assert!(
            self.tags.iter().all(|tag| *tag == Tag::Kernel),
            "requests have come before they were fetched"
        );
        for tag in 0..self.queue.depth {
            self.command(ring, tag, Queue::fetch(tag))?;
        }
        let (number, is_recovered) = (self.queue.number, self.is_recovered);
        self.help("start", move |control| {
            let started = control.start(number, is_recovered);
            if started.is_err()
                && let Err(error) = control.stop(number)
            {
                log::warn!("{}: its fetches may not come back: {error}", ublk::node(number));
            }
            News::Started(started)
        })
    }

    /// Takes the disk away unless somebody uses it.
    pub(super) fn begin_stop(&mut self) -> io::Result<()> {
        if self.phase != Phase::Open {
            return Ok(());
        }
        self.phase.enter(Phase::Stopping);
        self.shown = Some(DiskState::Stopping);
        let number = self.queue.number;
        self.help("stop", move |control| News::Stopped(ublk::stop_unless_used(control, number)))
    }

    fn help(&self, name: &str, work: impl FnOnce(&mut Control) -> News + Send + 'static) -> io::Result<()> {
        let mailbox = Arc::clone(&self.news);
        let mut control = Control::open().map_err(io::Error::other)?;
        std::thread::Builder::new().name(format!("ublk-{name}")).spawn(move || {
            mailbox.post(&mut vec![work(&mut control)]);
            mailbox.ring();
        })?;
        Ok(())
    }

    /// Hears what helpers say. A disk that cannot be stopped is served on if the service goes on.
    pub(super) fn hear(&mut self, goes_on: bool) {
        if !matches!(self.phase, Phase::Starting | Phase::Stopping) {
            return;
        }
        let mut news = Vec::new();
        self.news.collect(&mut news);
        for news in news {
            let node = ublk::node(self.queue.number);
            match news {
                // The service has given it up meanwhile.
                News::Started(Ok(())) if self.phase != Phase::Starting => {}
                News::Started(Ok(())) => {
                    self.phase.enter(Phase::Open);
                    self.shown = Some(DiskState::Open);
                    let from = if self.is_recovered { ", taken over from the server before" } else { "" };
                    log::info!("serving {node}{from}");
                }
                News::Started(Err(error)) => {
                    self.failure = Some(error);
                    self.leave();
                }
                News::Stopped(Ok(true)) => {
                    log::info!("{node} is stopped");
                    self.phase.enter(Phase::Stopped);
                }
                News::Stopped(Ok(false)) if goes_on => self.stay("it is in use".to_owned()),
                News::Stopped(Err(error)) if goes_on => self.stay(format!("it cannot be stopped: {error}")),
                News::Stopped(Ok(false)) => {
                    log::warn!(
                        "{node} is in use and stays: its requests wait until the array is served again, with --ublk"
                    );
                    self.leave();
                }
                News::Stopped(Err(error)) => {
                    log::error!("{node} cannot be stopped, and stays: {error}");
                    self.leave();
                }
            }
        }
    }

    fn stay(&mut self, why: String) {
        self.phase.enter(Phase::Open);
        self.shown = Some(DiskState::Kept(why));
    }

    /// Nothing more is begun.
    pub(super) fn leave(&mut self) {
        if self.phase != Phase::Stopped {
            self.phase.enter(Phase::Left);
        }
    }

    /// True when the loop has nothing more to do for it.
    pub(super) fn is_gone(&self) -> bool {
        match self.phase {
            Phase::Starting | Phase::Open | Phase::Stopping => false,
            Phase::Stopped => self.has_ended(),
            Phase::Left => true,
        }
    }

    /// True when the kernel does not refer to it any more, either.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Stopped | Phase::Left) && self.tags.iter().all(|tag| *tag == Tag::Ended)
    }

    /// True when the kernel keeps its requests for the next server.
    pub(super) fn is_left_behind(&self) -> bool {
        self.phase == Phase::Left && !self.has_ended()
    }

    /// True when a stop of the service waits until it is started.
    pub(super) fn is_starting(&self) -> bool {
        self.phase == Phase::Starting
    }

    /// True when a turn may begin requests.
    pub(super) fn is_busy(&self) -> bool {
        self.begins() && self.pause.is_none() && !self.arrived.is_empty()
    }

    fn begins(&self) -> bool {
        matches!(self.phase, Phase::Starting | Phase::Open | Phase::Stopping)
    }

    /// A fetch has come back.
    pub(super) fn on_fetched(&mut self, tag: u16, result: i32, size_bytes: u64) {
        let place = &mut self.tags[usize::from(tag)];
        assert!(*place == Tag::Kernel, "the kernel answers for what it has: {place:?}");
        if result != 0 {
            if result != ABORTED {
                log::error!(
                    "{}: a fetch failed: {}",
                    ublk::node(self.queue.number),
                    io::Error::from_raw_os_error(-result)
                );
            }
            *place = Tag::Ended;
            return;
        }
        *place = Tag::Here(self.queue.request(tag, size_bytes), Outcome::Well);
        self.arrived.push_back(tag);
        let most = self.tags.len();
        assert!(self.arrived.len() <= most, "{} requests have come under {most} tags", self.arrived.len());
    }

    /// Gives the desk what has come, as far as frames go.
    pub(super) fn serve(&mut self, desk: &mut Desk<'_>) {
        self.pause = None;
        self.go_on(desk);
        while self.begins() && self.pause.is_none() {
            let Some(tag) = self.arrived.pop_front() else { return };
            self.begin(tag, desk);
        }
    }

    fn begin(&mut self, tag: u16, desk: &mut Desk<'_>) {
        let Tag::Here(request, _) = self.tags[usize::from(tag)] else { unreachable!("it has arrived") };
        let Some(Request { kind, forced, range }) = request else {
            log::warn!("{}: a request goes beyond the end", ublk::node(self.queue.number));
            return self.answers.push((tag, FAILED));
        };
        let (party, cookie) = (Party::HostDisk, u64::from(tag));
        match kind {
            RequestKind::Unknown(_) => self.answers.push((tag, UNKNOWN)),
            RequestKind::Read | RequestKind::Write | RequestKind::Zero if range.from == range.to => {
                self.answers.push((tag, 0));
            }
            RequestKind::Read => {
                let operation = desk.open(party, cookie, OperationKind::Read, range);
                assert!(self.held.is_none(), "request {tag} begins, and another is held");
                self.held = Some(Held::read(tag, operation, range));
                self.go_on(desk);
            }
            RequestKind::Write => {
                let operation = desk.open_write(party, cookie, range, forced);
                assert!(self.held.is_none(), "request {tag} begins, and another is held");
                self.held = Some(Held::write(tag, operation, range));
                self.go_on(desk);
            }
            RequestKind::Zero => {
                let operation = desk.open(party, cookie, OperationKind::Change, range);
                desk.zero(operation, range, forced, true);
            }
            RequestKind::Flush => {
                let operation = desk.open(party, cookie, OperationKind::Flush, range);
                desk.flush(operation);
            }
        }
    }

    /// Gives the volume what is held, part by part.
    fn go_on(&mut self, desk: &mut Desk<'_>) {
        while let Some(held) = self.held {
            let blocks = held.blocks(desk);
            if !desk.may_take(Party::HostDisk, blocks) {
                self.pause = Some(Pause::Frames(blocks));
                return;
            }
            let tag = held.request;
            let forced =
                matches!(self.tags[usize::from(tag)], Tag::Here(Some(Request { forced: true, .. }), _));
            let queue = &self.queue;
            let progress = held.go_on(desk, forced, |frames, cut, offset| {
                noted(queue.number, queue.fill(tag, frames, cut, offset))
            });
            self.held = None;
            match progress {
                Progress::More(held) => self.held = Some(held),
                Progress::NoData { has_ended: true } => self.answers.push((tag, FAILED)),
                Progress::Whole | Progress::NoData { has_ended: false } => {}
            }
        }
    }

    /// An answer of the volume.
    pub(super) fn on_answer(&mut self, mut answer: Answer, desk: &mut Desk<'_>) {
        let tag = u16::try_from(answer.cookie).expect("a tag we were given");
        let mut has_failed = answer.has_failed;
        if answer.kind == OperationKind::Read {
            has_failed |= !has_failed && !self.pour(tag, &answer.range, answer.first_block, &answer.frames);
            desk.volume.frames().give_many(&mut answer.frames);
            desk.keep_vector(std::mem::take(&mut answer.frames));
        }
        let Tag::Here(Some(request), outcome) = &mut self.tags[usize::from(tag)] else {
            unreachable!("the volume answers for requests that are here")
        };
        if has_failed {
            *outcome = Outcome::Failed;
        }
        if answer.is_last {
            let bytes = i32::try_from(request.range.to - request.range.from);
            let done = match request.kind {
                RequestKind::Read | RequestKind::Write => bytes.expect("requests have at most 1 MiB"),
                RequestKind::Flush | RequestKind::Zero | RequestKind::Unknown(_) => 0,
            };
            let result = if *outcome == Outcome::Failed { FAILED } else { done };
            self.answers.push((tag, result));
        }
    }

    fn pour(&self, tag: u16, range: &ByteRange, first_block: u64, frames: &[Frame]) -> bool {
        let block_at = |index: usize| first_block + u64::try_from(index).expect("a few");
        let within = |index| range.within_block(block_at(index));
        noted(self.queue.number, self.queue.pour(tag, frames, range.bytes_before(first_block), within))
    }

    /// Tells the kernel what is done; each answer fetches the next request of its tag.
    pub(super) fn commit(&mut self, ring: &mut Ring<Token>) -> io::Result<()> {
        while let Some((tag, result)) = self.answers.pop() {
            assert!(matches!(self.tags[usize::from(tag)], Tag::Here(..)), "requests are answered once");
            self.tags[usize::from(tag)] = Tag::Kernel;
            self.command(ring, tag, Queue::commit(tag, result))?;
        }
        Ok(())
    }

    fn command(&self, ring: &mut Ring<Token>, tag: u16, command: ublk::Command) -> io::Result<()> {
        let file = Rc::clone(&self.queue.file);
        ring.command(&file, command.number, command.bytes, Token::HostDisk(tag))?;
        Ok(())
    }
}

/// True when it went well; else the log says what did not.
fn noted(number: u32, result: io::Result<()>) -> bool {
    if let Err(error) = &result {
        log::warn!("{}: data of a request cannot be copied: {error}", ublk::node(number));
    }
    result.is_ok()
}
