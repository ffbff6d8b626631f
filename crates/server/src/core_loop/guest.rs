//! A guest, by its front end: requests taken off its queues, and answers put there.
//!
//! ```text
//! socket --mail--> session            queue --take--> chain --parse--> order --parts--> desk
//!                                       ^--put, call-- status, data <---------answers----'
//! ```
//!
//! A request that lacks frames is *held*, and nothing more is taken until it has gone on. A queue is *hot* while it gave
//! something the last time: it is looked at in every turn, and the guest need not kick.
//!
//! Leaving: requests in flight are answered by the volume and their answers forgotten; what the guest has not been
//! answered is marked in the inflight region, and asked again of whoever serves next.

mod mail;
mod requests;

use super::client::Pause;
use super::desk::Desk;
use super::held::Held;
use crate::ring::OperationId;
use crate::slab::{Key, Slab};
use crate::vhost::chain::{Chain, ChainFault, Segments};
use crate::vhost::message::MessageError;
use crate::vhost::ring_pair::QueueFault;
use crate::vhost::session::{Session, SessionFault};
use crate::vhost::{QUEUES_MAX, block::Disk};
use mail::Mail;
pub(super) use mail::Progress;
use requests::Pending;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use thiserror::Error;

/// Requests of one guest that may be unanswered.
const REQUESTS_MAX: usize = 1024;

/// Requests that one queue may give in a turn.
const REQUESTS_PER_TURN_MAX: usize = 256;
const _: () = assert!(REQUESTS_PER_TURN_MAX <= REQUESTS_MAX);

/// Why a front end is cut off.
#[derive(Debug, Error)]
pub(crate) enum GuestFault {
    #[error("{0}")]
    Message(#[from] MessageError),
    #[error("{0}")]
    Session(#[from] SessionFault),
    #[error("{0}")]
    Queue(#[from] QueueFault),
    #[error("queue {queue} has a request with {fault}")]
    Chain { queue: usize, fault: ChainFault },
    #[error("queue {0} has a request without room for a status")]
    NoStatus(usize),
    #[error("its memory was cut short: share memory that stays, as QEMU's memory-backend-memfd is")]
    MemoryGone,
    #[error("it does not read its answers")]
    SlowReader,
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// A queue as the loop sees it.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// Requests that are not answered.
    in_flight: usize,
    /// There may be requests to take.
    pub(super) is_hot: bool,
    /// The kick is another one and is not polled yet.
    pub(super) wants_poll: bool,
    /// Number of the kick that is polled, and its operation.
    pub(super) kick_number: u32,
    pub(super) polling: Option<OperationId>,
    /// Answers were put since the guest was last told.
    has_news: bool,
    /// The eventfd for calls is another one, which is tried at once.
    is_new_call: bool,
    /// A call is under way; another one shall follow.
    pub(super) is_calling: bool,
    pub(super) call_again: bool,
}

/// See the module.
pub(crate) struct Guest {
    pub(super) socket: Rc<OwnedFd>,
    /// For the log.
    pub(super) number: u64,
    /// Index of the door it came in by.
    pub(super) door: usize,
    pub(super) session: Session,
    pub(super) lines: Vec<Line>,
    pub(super) pause: Option<Pause>,
    /// Operation that polls the socket.
    pub(super) polling: Option<OperationId>,
    mail: Mail,
    requests: Slab<Pending>,
    held: Option<Held<Key>>,
    /// Queue that is being stopped, and the answer to give then.
    stopping: Option<(usize, u16)>,
    is_leaving: bool,
    chain: Chain,
    spare: Vec<Segments>,
    faults_named: u32,
}

impl Guest {
    pub(crate) fn new(socket: OwnedFd, number: u64, door: usize, disk: Disk) -> Guest {
        Guest {
            socket: Rc::new(socket),
            number,
            door,
            session: Session::new(disk),
            lines: (0..QUEUES_MAX).map(|_| Line::default()).collect(),
            pause: None,
            polling: None,
            mail: Mail::new(),
            requests: Slab::new(),
            held: None,
            stopping: None,
            is_leaving: false,
            chain: Chain::default(),
            spare: Vec::new(),
            faults_named: 0,
        }
    }

    /// True when a turn may take requests.
    pub(super) fn is_busy(&self) -> bool {
        !self.is_leaving && self.pause.is_none() && self.lines.iter().any(|line| line.is_hot)
    }

    /// No more is taken, and no more is said.
    pub(super) fn leave(&mut self, desk: &mut Desk<'_>) {
        self.is_leaving = true;
        self.pause = None;
        self.abandon_held(desk);
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.is_leaving
    }

    /// True when it has left and nothing of it is in the volume any more.
    pub(super) fn is_gone(&self) -> bool {
        let in_flight: usize = self.lines.iter().map(|line| line.in_flight).sum();
        assert!(in_flight <= REQUESTS_MAX, "{in_flight} requests of {REQUESTS_MAX} are not answered");
        self.is_leaving && self.requests.len() == 0
    }

    /// A queue was kicked.
    pub(super) fn on_kick(&mut self, queue: usize) {
        self.lines[queue].is_hot = true;
    }

    /// Queues whose guest wants to be told of news.
    pub(super) fn take_calls(&mut self, calls: &mut Vec<usize>) -> Result<(), GuestFault> {
        let Some(memory) = &self.session.memory else { return Ok(()) };
        if memory.is_torn() {
            return Err(GuestFault::MemoryGone);
        }
        let (lines, vrings) = (self.lines.len(), self.session.vrings.len());
        assert!(lines == vrings, "{lines} lines to {vrings} queues");
        for (index, (line, vring)) in self.lines.iter_mut().zip(&mut self.session.vrings).enumerate() {
            let has_news = std::mem::take(&mut line.has_news) && vring.rings.wants_call(memory)?;
            let is_new = std::mem::take(&mut line.is_new_call);
            if (has_news || is_new) && vring.call.is_some() {
                calls.push(index);
            }
        }
        Ok(())
    }
}
