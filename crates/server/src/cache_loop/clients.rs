//! Clients of the loop: bytes and answers on their way between the ring and the sessions, and what sessions of all loops are told.
//!
//! A client is *ready* when it may go on, and *dirty* when it may have something to send.

use super::common::Common;
use super::company::Outgoing;
use super::connection::Connection;
use super::peers::Letter;
use super::shortage::Shortage;
use crate::doors::Token;
use crate::resp::front::{Delivery, Front, Notice, Statistics};
use crate::resp::session::Pause;
use crate::resp::survey::{Survey, Wanted};
use crate::slab::{Key, Slab};
use crate::transfer::Transfer;
use base::time::{Instant, Nanos};
use rustix::net::Shutdown;
use std::io;

/// See the module.
pub(super) struct Clients {
    connected: Slab<Connection>,
    /// Clients that may go on.
    ready: Vec<Key>,
    outgoing: Outgoing,
    shortage: Shortage,
}

impl Clients {
    pub(super) fn new() -> Clients {
        Clients {
            connected: Slab::new(),
            ready: Vec::new(),
            outgoing: Outgoing::default(),
            shortage: Shortage::default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.connected.len()
    }

    /// True when some may go on, or have something to send.
    pub(super) fn are_busy(&self) -> bool {
        !self.ready.is_empty() || !self.outgoing.is_empty()
    }

    /// True while there are some for whom memory is short.
    pub(super) fn lack_memory(&self) -> bool {
        !self.shortage.is_over()
    }

    /// A client begins.
    pub(super) fn seat(&mut self, common: &mut Common<'_>, connection: Connection) -> io::Result<()> {
        let key = self.connected.insert(connection);
        common.front.clients = self.len();
        self.serve(common, key, false)
    }

    /// Lets those go on who may have something to do.
    pub(super) fn serve_ready(&mut self, common: &mut Common<'_>) -> io::Result<()> {
        let mut ready = std::mem::take(&mut self.ready);
        for key in ready.drain(..) {
            if let Some(connection) = self.connected.at(key) {
                connection.is_ready = false;
                self.serve(common, key, false)?;
            }
        }
        assert!(self.ready.is_empty(), "serving one does not make another ready");
        self.ready = ready;
        Ok(())
    }

    /// Lets those go on for whom memory was short, in order, until it is again.
    pub(super) fn serve_waiting(&mut self, common: &mut Common<'_>) -> io::Result<()> {
        while let Some(key) = self.shortage.take_first() {
            let Some(connection) = self.connected.at(key) else { continue };
            assert!(connection.is_waiting, "only those stand in the queue for whom memory was short");
            connection.is_waiting = false;
            self.serve(common, key, true)?;
            if self.connected.at(key).is_some_and(|connection| connection.is_waiting) {
                self.relieve_shortage(common);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Cuts off those who hold memory and do not move, when others have waited for it too long.
    fn relieve_shortage(&mut self, common: &mut Common<'_>) {
        let (now, limit) = (common.front.now, common.config.shortage_limit);
        if !self.shortage.is_too_long(now, limit) {
            return;
        }
        for key in self.keys() {
            let holds = |connection: &mut Connection| connection.holds_memory_idly(now, limit);
            if self.connected.at(key).is_some_and(holds) {
                self.end(common, key, "others waited for the memory that it held without moving");
            }
        }
    }

    /// Ends those who rest longer than their timeout.
    pub(super) fn end_resting(&mut self, common: &mut Common<'_>, now: Instant) {
        let limit = Nanos(common.front.settings.timeout_seconds.saturating_mul(1_000_000_000));
        for key in self.keys() {
            let rests = |connection: &mut Connection| {
                connection.session.is_at_rest() && now.since(connection.moved_at) >= limit
            };
            if self.connected.at(key).is_some_and(rests) {
                self.end(common, key, "it rested longer than its timeout");
            }
        }
    }

    /// The outcome of a request finds its session, if it is still there.
    pub(super) fn on_outcome(&mut self, common: &mut Common<'_>, delivery: Delivery) {
        let key = delivery.client;
        let Some(connection) = self.connected.at(key) else { return };
        let submissions = common.front.submissions();
        connection.session.on_outcome(delivery, &mut common.front, &mut common.cache);
        if common.front.submissions() != submissions {
            connection.company.note_asked(common.cache.turns());
            common.cache_is_busy = true;
        }
        self.mark_ready(key);
        self.mark_dirty(key);
    }

    /// The server stops: what is under way is answered, nothing more.
    pub(super) fn drain(&mut self, common: &mut Common<'_>) -> io::Result<()> {
        assert!(!common.is_serving(), "clients finish when the service ends");
        for (key, survey) in common.seat.peers.give_up() {
            self.tell(common, key, survey)?;
        }
        for key in self.keys() {
            self.take_leave(common, key)?;
        }
        Ok(())
    }

    /// Cuts all clients off.
    pub(super) fn end_all(&mut self, common: &mut Common<'_>, reason: &str) {
        for key in self.keys() {
            self.end(common, key, reason);
        }
        assert!(self.len() == 0, "all are gone");
    }

    fn keys(&self) -> Vec<Key> {
        let mut keys = Vec::new();
        self.connected.keys(&mut keys);
        keys
    }

    pub(super) fn on_received(
        &mut self,
        common: &mut Common<'_>,
        key: Key,
        result: io::Result<usize>,
        transfer: Box<Transfer>,
    ) {
        let now = common.front.now;
        let Some(connection) = self.connected.at(key) else { return };
        assert!(connection.is_receiving(), "bytes come for whoever has asked for some");
        let count = *result.as_ref().unwrap_or(&0);
        connection.end_receive(transfer, count, now);
        common.front.statistics.bytes_in += u64::try_from(count).unwrap_or(0);
        match result {
            Ok(0) => connection.has_ended = true,
            Ok(_) => {}
            Err(error) => return self.end(common, key, &error.to_string()),
        }
        self.mark_ready(key);
    }

    pub(super) fn on_sent(
        &mut self,
        common: &mut Common<'_>,
        key: Key,
        result: io::Result<usize>,
        mut transfer: Box<Transfer>,
    ) -> io::Result<()> {
        let now = common.front.now;
        let Some(connection) = self.connected.at(key) else { return Ok(()) };
        let count = match result {
            Ok(count) => count,
            Err(error) => {
                self.end(common, key, &error.to_string());
                return Ok(());
            }
        };
        common.front.statistics.bytes_out += u64::try_from(count).unwrap_or(0);
        if connection.on_sent(&mut transfer, count, now) {
            connection.count_memory(&mut common.front);
            self.mark_dirty(key);
            self.mark_ready(key);
        } else {
            common.ring.send(&connection.socket, transfer, Token::Client(key))?;
        }
        Ok(())
    }

    /// A connection may go on, unless it waits for bytes, which come by themselves, or stands in the queue.
    fn mark_ready(&mut self, key: Key) {
        let Some(connection) = self.connected.at(key) else { return };
        if !connection.is_ready && !connection.is_waiting && !connection.is_receiving() {
            connection.is_ready = true;
            self.ready.push(key);
        }
    }

    fn mark_dirty(&mut self, key: Key) {
        if let Some(connection) = self.connected.at(key)
            && !connection.is_dirty
        {
            connection.is_dirty = true;
            self.outgoing.push(key);
        }
    }

    /// Lets a session go on as far as it can. `is_first` is true for the first of the queue.
    fn serve(&mut self, common: &mut Common<'_>, key: Key, is_first: bool) -> io::Result<()> {
        self.mark_dirty(key);
        let Some(connection) = self.connected.at(key) else { return Ok(()) };
        if connection.is_receiving() || connection.is_waiting || connection.awaits_survey {
            return Ok(());
        }
        let submissions = common.front.submissions();
        let pause = loop {
            let Some(connection) = self.connected.at(key) else { return Ok(()) };
            let (session, input) = connection.parts();
            let (count, pause) = session.advance(key, input, &mut common.front, &mut common.cache);
            connection.consume(count);
            let Pause::Survey(wanted) = pause else { break pause };
            let known = self.known(common, wanted);
            if common.seat.peers.is_alone() || !common.is_serving() {
                common.front.survey = Some(known);
                continue;
            }
            common.seat.peers.ask(key, wanted, known);
            if let Some(connection) = self.connected.at(key) {
                connection.awaits_survey = true;
            }
            break pause;
        };
        common.front.survey = None;
        self.pass_notices(common);
        let has_asked = common.front.submissions() != submissions;
        common.cache_is_busy |= has_asked;
        let Some(connection) = self.connected.at(key) else { return Ok(()) };
        if has_asked {
            connection.company.note_asked(common.cache.turns());
        }
        connection.pause = pause;
        if !connection.session.is_mid_command() {
            self.shortage.give_way(key);
        }
        connection.count_memory(&mut common.front);
        match pause {
            Pause::Turn => self.wait_for_memory(key, is_first),
            Pause::Bytes if connection.has_ended => connection.session.leave(),
            Pause::Bytes => return self.receive(common, key, is_first),
            Pause::Outcomes | Pause::Output | Pause::Survey(_) | Pause::Leaving => {}
        }
        Ok(())
    }

    /// Asks for more bytes, once there is memory for them.
    fn receive(&mut self, common: &mut Common<'_>, key: Key, is_first: bool) -> io::Result<()> {
        let Some(connection) = self.connected.at(key) else { return Ok(()) };
        let fits = connection.make_room(&common.front, false);
        if !fits && self.shortage.may_pass(key, is_first) {
            let has_room = connection.make_room(&common.front, true);
            assert!(has_room, "who has the right of way takes what its command needs");
        } else if !fits {
            self.wait_for_memory(key, is_first);
            return Ok(());
        }
        connection.count_memory(&mut common.front);
        let transfer = connection.begin_receive(common.front.now);
        common.ring.receive(&connection.socket, transfer, Token::Client(key))?;
        Ok(())
    }

    /// The queue stands; who was its first stays so.
    fn wait_for_memory(&mut self, key: Key, is_first: bool) {
        let Some(connection) = self.connected.at(key) else { return };
        assert!(!connection.is_waiting, "a connection stands in the queue once");
        connection.is_waiting = true;
        self.shortage.queue(key, is_first);
    }

    /// Sees to what a command has changed for all sessions, here and elsewhere.
    fn pass_notices(&mut self, common: &mut Common<'_>) {
        for notice in std::mem::take(&mut common.front.notices) {
            common.seat.peers.announce(&notice);
            self.heed(common, notice);
        }
    }

    fn heed(&mut self, common: &mut Common<'_>, notice: Notice) {
        match notice {
            Notice::End(ids) => self.end_condemned(common, &ids),
            Notice::ResetStatistics => common.front.statistics = Statistics::default(),
            Notice::Timeout(seconds) => common.front.settings.timeout_seconds = seconds,
        }
    }

    /// Ends those that a client has told to end.
    fn end_condemned(&mut self, common: &mut Common<'_>, ids: &[u64]) {
        for key in self.keys() {
            let is_meant = |connection: &mut Connection| ids.contains(&connection.session.id());
            if self.connected.at(key).is_some_and(is_meant) {
                self.end(common, key, "another client has told it to end");
            }
        }
    }

    /// Reads what other loops say.
    pub(super) fn take_letters(&mut self, common: &mut Common<'_>) -> io::Result<()> {
        let mut letters = Vec::new();
        common.seat.peers.collect(&mut letters);
        for letter in letters {
            match letter {
                Letter::Notice(notice) => self.heed(common, notice),
                Letter::Question { from, number, wanted } => {
                    let known = self.known(common, wanted);
                    common.seat.peers.answer(from, number, known);
                }
                Letter::Part { number, part } => {
                    if let Some((key, survey)) = common.seat.peers.on_part(number, *part) {
                        self.tell(common, key, survey)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// A client's command goes on with what is known.
    fn tell(&mut self, common: &mut Common<'_>, key: Key, survey: Survey) -> io::Result<()> {
        let Some(connection) = self.connected.at(key) else { return Ok(()) };
        assert!(connection.awaits_survey, "an answer comes for whoever has asked");
        connection.awaits_survey = false;
        common.front.survey = Some(survey);
        self.serve(common, key, false)
    }

    /// What this loop knows.
    fn known(&mut self, common: &mut Common<'_>, wanted: Wanted) -> Survey {
        let mut survey = Survey::of(wanted, &common.front, &common.cache);
        if wanted == Wanted::Roster {
            survey.roster = self.roster(&common.front);
        }
        survey
    }

    /// What CLIENT LIST says.
    fn roster(&mut self, front: &Front) -> String {
        let mut text = String::new();
        for key in self.keys() {
            if let Some(connection) = self.connected.at(key) {
                text += &connection.session.line(front);
            }
        }
        text
    }

    /// Sends what is queued, all of a client in one call, and lets go of those who are finished.
    pub(super) fn send_answers(&mut self, common: &mut Common<'_>) -> io::Result<()> {
        let mut dirty = self.outgoing.take();
        for key in dirty.drain(..) {
            let Some(connection) = self.connected.at(key) else { continue };
            assert!(connection.is_dirty, "a client is in the list once");
            let has_more = common.is_serving() && !connection.session.is_at_rest();
            if connection.company.waits(has_more, |turn| common.cache.is_seen(turn)) {
                self.outgoing.hold(key);
                continue;
            }
            connection.is_dirty = false;
            if let Some(transfer) = connection.begin_send(common.front.now) {
                connection.count_memory(&mut common.front);
                common.ring.send(&connection.socket, transfer, Token::Client(key))?;
            } else if connection.is_finished() {
                self.end(common, key, "it has said goodbye");
            }
        }
        self.outgoing.give_back(dirty);
        Ok(())
    }

    /// The server stops: what is under way is answered, nothing more.
    fn take_leave(&mut self, common: &mut Common<'_>, key: Key) -> io::Result<()> {
        let Some(connection) = self.connected.at(key) else { return Ok(()) };
        connection.session.leave();
        self.serve(common, key, false)
    }

    /// A client leaves, one way or another. What the kernel still has of it comes home when the socket, shut down
    /// here, fails the operations.
    fn end(&mut self, common: &mut Common<'_>, key: Key, reason: &str) {
        if let Some(mut connection) = self.connected.remove(key) {
            log::debug!("client {}: gone, because {reason}", connection.session.id());
            connection.session.close(&mut common.front);
            connection.forget_memory(&mut common.front);
            // It fails when the peer has gone already, which is as good.
            let _gone = rustix::net::shutdown(&connection.socket, Shutdown::Both);
            self.shortage.give_way(key);
            common.front.clients = self.connected.len();
            common.seat.role.on_client_gone();
            // What it held may be what others wait for: another turn sees to them.
            common.cache_is_busy |= !self.shortage.is_over();
        }
    }
}
