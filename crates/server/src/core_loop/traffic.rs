//! What comes in through the doors: connections, bytes and answers on their way between the ring
//! and the clients.

use super::client::{Client, HangUp, Pause};
use super::cores::Newcomer;
use super::desk::Party;
use super::question::{Next, Question};
use super::stopping::Phase;
use super::{Server, Token};
use crate::control::CONTROL_CONNECTIONS_MAX;
use crate::ring::Event;
use crate::slab::Key;
use crate::transfer::Transfer;
use array::request::Reply;
use rustix::net::Shutdown;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

impl Server<'_> {
    pub(super) fn on_accepted(
        &mut self,
        token: Token,
        result: io::Result<OwnedFd>,
        more: bool,
    ) -> io::Result<()> {
        let has_failed = result.is_err();
        match result {
            Ok(socket)
                if let Token::GuestDoor(door) = token
                    && self.phase == Phase::Serving =>
            {
                return self.welcome_guest(door, socket);
            }
            // The socket closes again as it is dropped.
            Ok(socket) if self.phase != Phase::Serving => drop(socket),
            Ok(socket) => self.welcome(token, socket)?,
            Err(error) if self.phase == Phase::Serving && !self.doors.is_closed(token) => {
                log::warn!("cannot accept a connection: {error}");
            }
            Err(_) => {}
        }
        if more || self.phase != Phase::Serving || self.doors.is_closed(token) {
            return Ok(());
        }
        if !has_failed {
            return self.doors.accept_at(&mut self.ring, token);
        }
        let due = self.doors.pause_at(token, self.desk.now);
        self.look_again(Some(due));
        Ok(())
    }

    fn welcome(&mut self, token: Token, socket: OwnedFd) -> io::Result<()> {
        let Token::Door(index) = token else { return self.welcome_question(socket) };
        if self.clients.len() + self.role.clients_elsewhere() >= self.config.connections_max {
            log::warn!("more than {} clients: a connection is closed", self.config.connections_max);
            return Ok(());
        }
        // The socket of a door that was closed meanwhile closes, too.
        let Some(listener) = self.doors.listener(index) else { return Ok(()) };
        if listener.is_tcp()
            && let Err(error) = rustix::net::sockopt::set_tcp_nodelay(&socket, true)
        {
            log::warn!("cannot set TCP_NODELAY: {error}");
        }
        self.clients_seen += 1;
        let presence = self.doors.ports.admit(listener.place(), self.clients_seen);
        log::debug!("client {}: connected on {}", presence.number, listener.place());
        let newcomer = Newcomer { socket, presence };
        match self.role.hand_over(newcomer, self.clients.len(), 0) {
            Some(newcomer) => self.seat(newcomer),
            None => Ok(()),
        }
    }

    fn seat(&mut self, newcomer: Newcomer) -> io::Result<()> {
        let client = Client::new(newcomer.socket, newcomer.presence, self.desk.now, self.config);
        let key = self.clients.insert(client);
        self.serve(key)
    }

    /// Takes the connections that the first loop has handed over.
    pub(super) fn take_arrivals(&mut self) -> io::Result<()> {
        while let Some(newcomer) = self.role.next_arrival() {
            // Once stopping, the socket closes again as it is dropped.
            if self.phase == Phase::Serving {
                self.seat(newcomer)?;
            }
        }
        Ok(())
    }

    fn welcome_question(&mut self, socket: OwnedFd) -> io::Result<()> {
        if self.questions.len() >= CONTROL_CONNECTIONS_MAX {
            log::warn!("more than {CONTROL_CONNECTIONS_MAX} control connections: one is closed");
            return Ok(());
        }
        let (question, transfer) = Question::new(socket, self.desk.now);
        self.look_again(Some(question.due));
        let key = self.questions.insert(question);
        self.act(key, Next::Receive(transfer))
    }

    pub(super) fn on_question_event(&mut self, key: Key, event: Event) -> io::Result<()> {
        let Some(question) = self.questions.at(key) else { return Ok(()) };
        let next = match event {
            Event::Received(Ok(count), transfer) => {
                let (now, volume) = (self.desk.now, &mut self.desk.volume);
                question.on_received(transfer, count, |line| volume.control(now, line))
            }
            Event::Sent(Ok(count), transfer) => question.on_sent(transfer, count),
            _ => Next::Close,
        };
        self.make_changes()?;
        self.act(key, next)
    }

    fn act(&mut self, key: Key, next: Next) -> io::Result<()> {
        let Some(question) = self.questions.at(key) else { return Ok(()) };
        match next {
            Next::Receive(transfer) => {
                self.ring.receive(&question.socket, transfer, Token::Question(key))?;
            }
            Next::Send(transfer) => {
                self.ring.send(&question.socket, transfer, Token::Question(key))?;
            }
            Next::Close => self.close_question(key),
        }
        Ok(())
    }

    pub(super) fn close_question(&mut self, key: Key) {
        if let Some(question) = self.questions.remove(key) {
            shut(&question.socket);
        }
    }

    pub(super) fn on_client_event(&mut self, key: Key, event: Event) -> io::Result<()> {
        match event {
            Event::Received(result, transfer) => {
                self.on_received(key, result, transfer);
                Ok(())
            }
            Event::Sent(result, transfer) => self.on_sent(key, result, transfer),
            other => unreachable!("clients do not start what ends in {other:?}"),
        }
    }

    fn on_received(&mut self, key: Key, result: io::Result<usize>, mut transfer: Box<Transfer>) {
        let Some(client) = self.clients.at(key) else {
            self.desk.volume.frames().give_many(&mut transfer.frames);
            return;
        };
        let count = *result.as_ref().unwrap_or(&0);
        client.inbox.come_home(transfer, count);
        client.receiving = None;
        match result {
            Err(error) if error.raw_os_error() == Some(libc::ECANCELED) && client.shrink() => {}
            Ok(0) => client.on_end_of_stream(&mut self.desk),
            Ok(count) => client.on_received(self.desk.now, self.config, count),
            Err(error) => return self.drop_client(key, &HangUp::Io(error)),
        }
        self.mark_ready(key);
    }

    fn on_sent(
        &mut self,
        key: Key,
        result: io::Result<usize>,
        mut transfer: Box<Transfer>,
    ) -> io::Result<()> {
        let (Some(client), Ok(count)) = (self.clients.at(key), &result) else {
            self.desk.volume.frames().give_many(&mut transfer.frames);
            if let Err(error) = result {
                self.drop_client(key, &HangUp::Io(error));
            }
            return Ok(());
        };
        transfer.advance(*count);
        if !transfer.is_done() {
            client.on_sending(self.desk.now, self.config, *count);
            self.ring.send(&client.socket, transfer, Token::Client(key))?;
            return Ok(());
        }
        let frames_count = client.outbox.come_home(transfer, self.desk.volume.frames());
        client.on_sent(frames_count);
        self.mark_dirty(key);
        self.mark_ready(key);
        Ok(())
    }

    /// A client may have something to parse. One that waits for frames is woken by its queue,
    /// one that waits for bytes by their arrival.
    fn mark_ready(&mut self, key: Key) {
        let Some(client) = self.clients.at(key) else { return };
        let is_waiting = matches!(client.pause, Some(Pause::Frames(_))) || client.inbox.is_receiving();
        if !client.is_ready && !is_waiting {
            client.is_ready = true;
            self.ready.push(key);
        }
    }

    pub(super) fn mark_dirty(&mut self, key: Key) {
        if let Some(client) = self.clients.at(key)
            && !client.is_dirty
        {
            client.is_dirty = true;
            self.dirty.push(key);
        }
    }

    /// Lets a client go on as far as it can.
    pub(super) fn serve(&mut self, key: Key) -> io::Result<()> {
        let is_stopping = self.phase != Phase::Serving;
        let Some(client) = self.clients.at(key) else { return Ok(()) };
        if let Err(reason) = client.parse(key, &mut self.desk, self.config, is_stopping) {
            self.drop_client(key, &reason);
            return Ok(());
        }
        if matches!(client.pause, Some(Pause::Frames(_))) {
            self.desk.waiting.push_back(Party::Client(key));
        }
        if client.wants_bytes() {
            let then_staging = client.payload_ends_with_part();
            let transfer = client.inbox.leave(then_staging);
            client.receiving = Some(self.ring.receive(&client.socket, transfer, Token::Client(key))?);
        }
        let due = client.due();
        self.look_again(due);
        self.mark_dirty(key);
        Ok(())
    }

    /// A reply of the volume finds its client, if it is still there.
    pub(super) fn on_reply(&mut self, reply: Reply) {
        let Some(mut answer) = self.desk.on_reply(reply) else { return };
        let key = match answer.party {
            Party::Client(key) => key,
            Party::Guest(key) => return self.on_guest_answer(key, answer),
            Party::HostDisk => return self.on_disk_answer(answer),
        };
        let Some(client) = self.clients.at(key) else {
            self.desk.volume.frames().give_many(&mut answer.frames);
            return;
        };
        let was_paused = client.pause == Some(Pause::Answers);
        if let Err(reason) = client.on_answer(answer, &mut self.desk) {
            return self.drop_client(key, &reason);
        }
        if was_paused {
            self.mark_ready(key);
        }
        self.mark_dirty(key);
    }

    /// Sends what is queued, all of a client in one call, and lets go of those who are finished.
    pub(super) fn send_answers(&mut self) -> io::Result<()> {
        let mut dirty = std::mem::take(&mut self.dirty);
        for key in dirty.drain(..) {
            let Some(client) = self.clients.at(key) else { continue };
            client.is_dirty = false;
            if client.is_finished() {
                self.end_client(key);
            } else if let Some(transfer) = client.outbox.leave() {
                client.on_sending(self.desk.now, self.config, 0);
                let due = client.due();
                self.ring.send(&client.socket, transfer, Token::Client(key))?;
                self.look_again(due);
            }
        }
        self.dirty = dirty;
        Ok(())
    }

    /// A client is cut off.
    pub(super) fn drop_client(&mut self, key: Key, reason: &HangUp) {
        if let Some(client) = self.clients.at(key) {
            log::warn!("client {}: closed, because {reason}", client.presence.number);
            self.end_client(key);
        }
    }

    /// A client leaves, one way or another. What the kernel still has of it comes home when the
    /// socket, shut down here, fails the operations.
    pub(super) fn end_client(&mut self, key: Key) {
        if let Some(mut client) = self.clients.remove(key) {
            log::debug!("client {}: gone", client.presence.number);
            client.close(&mut self.desk);
            shut(&client.socket);
            self.role.on_client_gone();
        }
    }
}

fn shut(socket: impl AsFd) {
    // It fails when the peer has gone already, which is as good.
    let _gone = rustix::net::shutdown(socket, Shutdown::Both);
}
