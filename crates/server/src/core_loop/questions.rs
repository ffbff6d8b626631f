//! Control connections in a loop: one question, one answer each, within its time.

use super::question::{Next, Question};
use crate::control::CONTROL_CONNECTIONS_MAX;
use crate::doors::Token;
use crate::ring::{Event, Ring};
use crate::slab::{Key, Slab};
use base::time::Instant;
use rustix::net::Shutdown;
use std::io;
use std::os::fd::OwnedFd;

/// See the module.
#[derive(Debug)]
pub(crate) struct Questions {
    connections: Slab<Question>,
}

impl Questions {
    pub(crate) fn new() -> Questions {
        Questions { connections: Slab::new() }
    }

    /// True when nobody asks.
    pub(crate) fn is_empty(&self) -> bool {
        self.connections.len() == 0
    }

    /// Somebody comes to ask; the time at which that has to be over, unless too many ask already.
    pub(crate) fn welcome(
        &mut self,
        ring: &mut Ring<Token>,
        now: Instant,
        socket: OwnedFd,
    ) -> io::Result<Option<Instant>> {
        if self.connections.len() >= CONTROL_CONNECTIONS_MAX {
            log::warn!("more than {CONTROL_CONNECTIONS_MAX} control connections: one is closed");
            return Ok(None);
        }
        let (question, transfer) = Question::new(socket, now);
        let due = question.due;
        assert!(due > now, "a question has time");
        let key = self.connections.insert(question);
        self.act(ring, key, Next::Receive(transfer))?;
        Ok(Some(due))
    }

    /// Takes what the kernel says of a connection, and has a whole line answered; what comes next, if the connection is still there.
    pub(crate) fn on_event(
        &mut self,
        key: Key,
        event: Event,
        answer: impl FnOnce(&str) -> String,
    ) -> Option<Next> {
        let question = self.connections.at(key)?;
        Some(match event {
            Event::Received(Ok(count), transfer) => question.on_received(transfer, count, answer),
            Event::Sent(Ok(count), transfer) => question.on_sent(transfer, count),
            _ => Next::Close,
        })
    }

    /// Does what comes next.
    pub(crate) fn act(&mut self, ring: &mut Ring<Token>, key: Key, next: Next) -> io::Result<()> {
        let Some(question) = self.connections.at(key) else { return Ok(()) };
        match next {
            Next::Receive(transfer) => {
                ring.receive(&question.socket, transfer, Token::Question(key))?;
            }
            Next::Send(transfer) => {
                ring.send(&question.socket, transfer, Token::Question(key))?;
            }
            Next::Close => self.close(key),
        }
        Ok(())
    }

    /// Closes the connections whose time is over; the time at which that of the next one is.
    pub(crate) fn sweep(&mut self, now: Instant) -> Option<Instant> {
        let mut next = None;
        for key in self.keys() {
            let due = self.connections.at(key).map(|question| question.due);
            if due.is_some_and(|due| due <= now) {
                self.close(key);
            } else {
                next = [next, due].into_iter().flatten().min();
            }
        }
        assert!(next.is_none_or(|due| due > now), "whose time is over is gone");
        next
    }

    /// Closes all.
    pub(crate) fn close_all(&mut self) {
        for key in self.keys() {
            self.close(key);
        }
        assert!(self.is_empty(), "all are closed");
    }

    fn keys(&self) -> Vec<Key> {
        let mut keys = Vec::new();
        self.connections.keys(&mut keys);
        keys
    }

    fn close(&mut self, key: Key) {
        if let Some(question) = self.connections.remove(key) {
            // It fails when the peer has gone already, which is as good.
            let _gone = rustix::net::shutdown(&question.socket, Shutdown::Both);
        }
    }
}
