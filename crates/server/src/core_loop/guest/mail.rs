//! What a front end says, message by message, and the answers to it.
//!
//! The socket is read when it is readable and never waited for: half a message stays until the rest comes. Each read ends
//! with the message, so that descriptors are those of the message whose bytes they came with.

use super::{Guest, GuestFault};
use crate::vhost::message::{self, Message};
use crate::vhost::session::{Reaction, Session};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

/// Messages that are taken in one turn.
const MESSAGES_PER_TURN_MAX: usize = 64;

/// Whether there may be more to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// All that has come is taken.
    Waiting,
    /// There may be more: come again.
    More,
    /// The front end has hung up.
    Ended,
}

enum Read {
    Whole,
    WouldBlock,
    Ended,
}

/// The message that is arriving.
#[derive(Debug)]
pub(super) struct Mail {
    bytes: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

impl Mail {
    pub(super) fn new() -> Mail {
        Mail { bytes: Vec::new(), descriptors: Vec::new() }
    }

    /// Reads until a message is whole.
    fn read(&mut self, socket: impl AsFd) -> Result<Read, GuestFault> {
        loop {
            let wanted = message::bytes_wanted(&self.bytes)?;
            let have = self.bytes.len();
            if have == wanted {
                return Ok(Read::Whole);
            }
            self.bytes.resize(wanted, 0);
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(message::REGIONS_MAX))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut buffers = [IoSliceMut::new(&mut self.bytes[have..])];
            let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
            let received = rustix::net::recvmsg(&socket, &mut buffers, &mut control, flags);
            for received in control.drain() {
                if let RecvAncillaryMessage::ScmRights(descriptors) = received {
                    self.descriptors.extend(descriptors);
                }
            }
            let count = received.as_ref().map_or(0, |received| received.bytes);
            assert!(have + count <= wanted, "{count} bytes came behind {have} of {wanted}");
            self.bytes.truncate(have + count);
            match received {
                Ok(_) if count == 0 => return Ok(Read::Ended),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return Ok(Read::WouldBlock),
                Err(error) => return Err(GuestFault::Io(error.into())),
            }
            // Beyond what a kernel delivers with one message: somebody sends them one by one.
            let there = self.descriptors.len();
            if there > message::REGIONS_MAX {
                let expected = message::REGIONS_MAX;
                return Err(crate::vhost::session::SessionFault::Descriptors { there, expected }.into());
            }
        }
    }
}

impl Guest {
    /// Takes the messages that have come.
    pub(in crate::core_loop) fn take_mail(&mut self) -> Result<Progress, GuestFault> {
        for _ in 0..MESSAGES_PER_TURN_MAX {
            if self.stopping.is_some() || self.is_leaving {
                return Ok(Progress::Waiting);
            }
            match self.mail.read(&self.socket)? {
                Read::Whole => self.on_message()?,
                Read::WouldBlock => return Ok(Progress::Waiting),
                Read::Ended => return Ok(Progress::Ended),
            }
        }
        Ok(Progress::More)
    }

    fn on_message(&mut self) -> Result<(), GuestFault> {
        let bytes = std::mem::take(&mut self.mail.bytes);
        let descriptors = std::mem::take(&mut self.mail.descriptors);
        let number = message::request_number(&bytes);
        let Message { request, wants_ack } = message::parse(&bytes)?;
        log::debug!("front end {}: {request:?}", self.number);
        let wants_ack = wants_ack && !request.has_answer();
        let reaction = self.session.on_request(request, descriptors);
        if wants_ack {
            self.say(number, &u64::from(reaction.is_err()).to_ne_bytes(), None)?;
        }
        match reaction? {
            Reaction::Nothing => {}
            Reaction::Answer(payload, descriptor) => self.say(number, &payload, descriptor)?,
            Reaction::Kick(queue) => {
                self.lines[queue].wants_poll = true;
                self.lines[queue].is_hot = true;
            }
            Reaction::Look(queue) => self.lines[queue].is_hot = true,
            Reaction::Call(queue) => self.lines[queue].is_new_call = true,
            Reaction::Stopping(queue, base) => {
                assert!(self.stopping.is_none(), "queue {queue} stops while {:?} does", self.stopping);
                self.lines[queue].wants_poll = true;
                self.stopping = Some((queue, base));
                self.end_stopping()?;
            }
        }
        Ok(())
    }

    /// Answers for a queue that is being stopped, once nothing of it is in flight. True when there may be mail again.
    pub(in crate::core_loop) fn end_stopping(&mut self) -> Result<bool, GuestFault> {
        match self.stopping {
            Some((queue, base)) if self.lines[queue].in_flight == 0 => {
                let is_running = self.session.vrings[queue].rings.is_running();
                assert!(!is_running, "queue {queue} runs, and its end is told");
                self.stopping = None;
                self.say(message::GET_VRING_BASE, &Session::stopped(queue, base), None)?;
                Ok(true)
            }
            Some(_) | None => Ok(false),
        }
    }

    /// Answers are short: a front end that leaves no room for them does not read.
    fn say(&mut self, number: u32, payload: &[u8], descriptor: Option<OwnedFd>) -> Result<(), GuestFault> {
        let bytes = message::reply(number, payload);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let borrowed: Vec<_> = descriptor.iter().map(AsFd::as_fd).collect();
        if !borrowed.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&borrowed));
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match rustix::net::sendmsg(&self.socket, &[IoSlice::new(&bytes)], &mut control, flags) {
            Ok(count) if count == bytes.len() => Ok(()),
            Ok(_) | Err(rustix::io::Errno::AGAIN) => Err(GuestFault::SlowReader),
            Err(error) => Err(GuestFault::Io(error.into())),
        }
    }
}
