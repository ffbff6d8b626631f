//! NBD clients of the loop: connections, bytes and answers on their way between the ring and the clients.
//!
//! A client is *ready* when it may have something to parse, and *dirty* when it may have something to send.

use super::client::{Client, HangUp, Pause};
use super::common::Common;
use super::cores::Newcomer;
use super::desk::{Answer, Party};
use crate::doors::Token;
use crate::ring::Event;
use crate::slab::{Key, Slab};
use crate::transfer::Transfer;
use rustix::net::Shutdown;
use std::io;
use std::os::fd::OwnedFd;

/// See the module.
pub(super) struct Clients {
    connected: Slab<Client>,
    /// Clients with bytes to parse, and clients with something to send.
    ready: Vec<Key>,
    dirty: Vec<Key>,
    /// Memory of a list of all.
    keys: Vec<Key>,
}

impl Clients {
    pub(super) fn new() -> Clients {
        Clients { connected: Slab::new(), ready: Vec::new(), dirty: Vec::new(), keys: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.connected.len()
    }

    /// True when some have something to parse, or to send.
    pub(super) fn are_busy(&self) -> bool {
        !self.ready.is_empty() || !self.dirty.is_empty()
    }

    /// What a client waits for, if it is there and does.
    pub(super) fn pause_of(&mut self, key: Key) -> Option<Pause> {
        self.connected.at(key).and_then(|client| client.pause)
    }

    /// A client has come in by a door: it stays here, or goes to another loop.
    pub(super) fn welcome(
        &mut self,
        common: &mut Common<'_>,
        index: usize,
        socket: OwnedFd,
    ) -> io::Result<()> {
        if self.len() + common.role.clients_elsewhere() >= common.config.connections_max {
            log::warn!("more than {} clients: a connection is closed", common.config.connections_max);
            return Ok(());
        }
        // The socket of a door that was closed meanwhile closes, too.
        let Some(listener) = common.doors.listener(index) else { return Ok(()) };
        if listener.is_tcp()
            && let Err(error) = rustix::net::sockopt::set_tcp_nodelay(&socket, true)
        {
            log::warn!("cannot set TCP_NODELAY: {error}");
        }
        common.parties_seen += 1;
        let presence = common.doors.ports.admit(listener.place(), common.parties_seen);
        log::debug!("client {}: connected on {}", presence.number, listener.place());
        let newcomer = Newcomer { socket, presence };
        match common.role.hand_over(newcomer, self.len(), 0) {
            Some(newcomer) => self.seat(common, newcomer),
            None => Ok(()),
        }
    }

    fn seat(&mut self, common: &mut Common<'_>, newcomer: Newcomer) -> io::Result<()> {
        let client = Client::new(newcomer.socket, newcomer.presence, common.desk.now, common.config);
        let key = self.connected.insert(client);
        self.serve(common, key)
    }

    /// Takes the connections that the first loop has handed over.
    pub(super) fn take_arrivals(&mut self, common: &mut Common<'_>) -> io::Result<()> {
        while let Some(newcomer) = common.role.next_arrival() {
            // Once stopping, the socket closes again as it is dropped.
            if common.is_serving() {
                self.seat(common, newcomer)?;
            }
        }
        Ok(())
    }

    pub(super) fn on_event(&mut self, common: &mut Common<'_>, key: Key, event: Event) -> io::Result<()> {
        match event {
            Event::Received(result, transfer) => {
                self.on_received(common, key, result, transfer);
                Ok(())
            }
            Event::Sent(result, transfer) => self.on_sent(common, key, result, transfer),
            other => unreachable!("clients do not start what ends in {other:?}"),
        }
    }

    fn on_received(
        &mut self,
        common: &mut Common<'_>,
        key: Key,
        result: io::Result<usize>,
        mut transfer: Box<Transfer>,
    ) {
        let Some(client) = self.connected.at(key) else {
            common.desk.volume.frames().give_many(&mut transfer.frames);
            return;
        };
        assert!(client.inbox.is_receiving(), "bytes come for whoever has asked for some");
        let count = *result.as_ref().unwrap_or(&0);
        client.inbox.come_home(transfer, count);
        client.receiving = None;
        match result {
            Err(error) if error.raw_os_error() == Some(libc::ECANCELED) && client.shrink() => {}
            Ok(0) => client.on_end_of_stream(&mut common.desk),
            Ok(count) => client.on_received(common.desk.now, common.config, count),
            Err(error) => return self.drop_client(common, key, &HangUp::Io(error)),
        }
        self.mark_ready(key);
    }

    fn on_sent(
        &mut self,
        common: &mut Common<'_>,
        key: Key,
        result: io::Result<usize>,
        mut transfer: Box<Transfer>,
    ) -> io::Result<()> {
        let (Some(client), Ok(count)) = (self.connected.at(key), &result) else {
            common.desk.volume.frames().give_many(&mut transfer.frames);
            if let Err(error) = result {
                self.drop_client(common, key, &HangUp::Io(error));
            }
            return Ok(());
        };
        assert!(client.outbox.is_sending(), "what was sent was on its way");
        transfer.advance(*count);
        if !transfer.is_done() {
            client.on_sending(common.desk.now, common.config, *count);
            common.ring.send(&client.socket, transfer, Token::Client(key))?;
            return Ok(());
        }
        let frames_count = client.outbox.come_home(transfer, common.desk.volume.frames());
        client.on_sent(frames_count);
        self.mark_dirty(key);
        self.mark_ready(key);
        Ok(())
    }

    /// A client may have something to parse. One that waits for frames is woken by its queue,
    /// one that waits for bytes by their arrival.
    fn mark_ready(&mut self, key: Key) {
        let Some(client) = self.connected.at(key) else { return };
        let is_waiting = matches!(client.pause, Some(Pause::Frames(_))) || client.inbox.is_receiving();
        if !client.is_ready && !is_waiting {
            client.is_ready = true;
            self.ready.push(key);
        }
    }

    fn mark_dirty(&mut self, key: Key) {
        if let Some(client) = self.connected.at(key)
            && !client.is_dirty
        {
            client.is_dirty = true;
            self.dirty.push(key);
        }
    }

    /// Parses what clients have sent.
    pub(super) fn serve_ready(&mut self, common: &mut Common<'_>) -> io::Result<()> {
        let mut ready = std::mem::take(&mut self.ready);
        for key in ready.drain(..) {
            if let Some(client) = self.connected.at(key) {
                client.is_ready = false;
                self.serve(common, key)?;
            }
        }
        assert!(self.ready.is_empty(), "serving one client does not make another ready");
        self.ready = ready;
        Ok(())
    }

    /// Lets a client go on as far as it can.
    pub(super) fn serve(&mut self, common: &mut Common<'_>, key: Key) -> io::Result<()> {
        let is_stopping = !common.is_serving();
        let Some(client) = self.connected.at(key) else { return Ok(()) };
        if let Err(reason) = client.parse(key, &mut common.desk, common.config, is_stopping) {
            self.drop_client(common, key, &reason);
            return Ok(());
        }
        if matches!(client.pause, Some(Pause::Frames(_))) {
            common.desk.waiting.push_back(Party::Client(key));
        }
        if client.wants_bytes() {
            let then_staging = client.payload_ends_with_part();
            let transfer = client.inbox.leave(then_staging);
            assert!(client.receiving.is_none(), "client {}: two receives", client.presence.number);
            client.receiving = Some(common.ring.receive(&client.socket, transfer, Token::Client(key))?);
        }
        common.look_again(client.due());
        self.mark_dirty(key);
        Ok(())
    }

    /// An answer of the volume finds its client, if it is still there.
    pub(super) fn on_answer(&mut self, common: &mut Common<'_>, key: Key, mut answer: Answer) {
        let Some(client) = self.connected.at(key) else {
            common.desk.volume.frames().give_many(&mut answer.frames);
            return;
        };
        let was_paused = client.pause == Some(Pause::Answers);
        if let Err(reason) = client.on_answer(answer, &mut common.desk) {
            return self.drop_client(common, key, &reason);
        }
        if was_paused {
            self.mark_ready(key);
        }
        self.mark_dirty(key);
    }

    /// Sends what is queued, all of a client in one call, and lets go of those who are finished.
    pub(super) fn send_answers(&mut self, common: &mut Common<'_>) -> io::Result<()> {
        let mut dirty = std::mem::take(&mut self.dirty);
        for key in dirty.drain(..) {
            let Some(client) = self.connected.at(key) else { continue };
            assert!(client.is_dirty, "a client is in the list once");
            client.is_dirty = false;
            if client.is_finished() {
                self.end(common, key);
            } else if let Some(transfer) = client.outbox.leave() {
                client.on_sending(common.desk.now, common.config, 0);
                common.ring.send(&client.socket, transfer, Token::Client(key))?;
                common.look_again(client.due());
            }
        }
        assert!(self.dirty.is_empty(), "sending makes nobody dirty");
        self.dirty = dirty;
        Ok(())
    }

    /// Closes the connections we have lost patience with.
    pub(super) fn sweep(&mut self, common: &mut Common<'_>) -> io::Result<()> {
        let now = common.desk.now;
        let mut keys = self.take_keys();
        for key in keys.drain(..) {
            let Some(client) = self.connected.at(key) else { continue };
            if client.give_up_staging(now)
                && let Some(id) = client.receiving
            {
                common.ring.cancel(id)?;
            }
            let due = client.due();
            match client.overdue(now) {
                Some(reason) => self.drop_client(common, key, &reason),
                None => common.look_again(due),
            }
        }
        self.keys = keys;
        Ok(())
    }

    /// Cuts off clients that hold frames and do not move, for others have waited for frames too long.
    pub(super) fn drop_idle_holders(&mut self, common: &mut Common<'_>) {
        let mut keys = self.take_keys();
        for key in keys.drain(..) {
            let client = self.connected.at(key);
            let idle = client.and_then(|client| client.holds_frames_idly(common.desk.now, common.config));
            if let Some(reason) = idle {
                self.drop_client(common, key, &reason);
            }
        }
        self.keys = keys;
    }

    /// Tells all clients to finish: those between requests have only answers to wait for.
    pub(super) fn drain(&mut self, common: &mut Common<'_>) -> io::Result<()> {
        assert!(!common.is_serving(), "clients finish when the service ends");
        let mut keys = self.take_keys();
        for key in keys.drain(..) {
            self.serve_last(common, key)?;
        }
        self.keys = keys;
        Ok(())
    }

    fn serve_last(&mut self, common: &mut Common<'_>, key: Key) -> io::Result<()> {
        let Some(client) = self.connected.at(key) else { return Ok(()) };
        client.finish_if_resting();
        // Those who are ready are served in this turn anyway, and twice would be once too often.
        if !client.inbox.is_receiving() && client.pause.is_none() && !client.is_ready {
            self.serve(common, key)?;
        }
        self.mark_dirty(key);
        Ok(())
    }

    /// Cuts all clients off.
    pub(super) fn end_all(&mut self, common: &mut Common<'_>) {
        if self.len() > 0 {
            log::warn!("stopping: {} clients are cut off with requests in flight", self.len());
        }
        let mut keys = self.take_keys();
        for key in keys.drain(..) {
            self.end(common, key);
        }
        assert!(self.len() == 0, "all are gone");
        self.keys = keys;
    }

    /// Keys of all, in memory that goes back to `keys`.
    fn take_keys(&mut self) -> Vec<Key> {
        let mut keys = std::mem::take(&mut self.keys);
        assert!(keys.is_empty(), "a list is emptied before it is given back");
        self.connected.keys(&mut keys);
        keys
    }

    /// A client is cut off.
    fn drop_client(&mut self, common: &mut Common<'_>, key: Key, reason: &HangUp) {
        if let Some(client) = self.connected.at(key) {
            log::warn!("client {}: closed, because {reason}", client.presence.number);
            self.end(common, key);
        }
    }

    /// A client leaves, one way or another. What the kernel still has of it comes home when the
    /// socket, shut down here, fails the operations.
    fn end(&mut self, common: &mut Common<'_>, key: Key) {
        if let Some(mut client) = self.connected.remove(key) {
            log::debug!("client {}: gone", client.presence.number);
            client.close(&mut common.desk);
            // It fails when the peer has gone already, which is as good.
            let _gone = rustix::net::shutdown(&client.socket, Shutdown::Both);
            common.role.on_client_gone();
        }
    }
}
