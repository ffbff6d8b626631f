//! What comes in through the doors: connections, bytes and answers on their way between the ring and the sessions.

use super::connection::Connection;
use super::conversation::Conversation;
use super::cores::Newcomer;
use super::peers::Letter;
use super::stopping::Phase;
use super::{Server, Token};
use crate::control::CONTROL_CONNECTIONS_MAX;
use crate::core_loop::question::{Next, Question};
use crate::listen::Listen;
use crate::memcached;
use crate::resp::front::{Notice, Statistics};
use crate::resp::session::{Facts, Pause, Session};
use crate::resp::survey::{Survey, Wanted};
use crate::ring::Event;
use crate::slab::Key;
use crate::transfer::Transfer;
use cache::request::Namespace;
use rustix::net::{SendFlags, Shutdown};
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// What Redis says to those who are too many.
const TOO_MANY: &[u8] = b"-ERR max number of clients reached\r\n";
/// What memcached says to them.
const TOO_MANY_MEMCACHED: &[u8] = b"ERROR Too many open connections\r\n";

impl Server<'_> {
    pub(super) fn on_accepted(
        &mut self,
        token: Token,
        result: io::Result<OwnedFd>,
        more: bool,
    ) -> io::Result<()> {
        let is_serving = self.phase == Phase::Serving;
        let has_failed = result.is_err();
        match result {
            // The socket closes again as it is dropped.
            Ok(socket) if !is_serving => drop(socket),
            Ok(socket) => self.welcome(token, socket)?,
            Err(error) if is_serving => log::warn!("cannot accept a connection: {error}"),
            Err(_) => {}
        }
        if more || !is_serving {
            return Ok(());
        }
        if !has_failed {
            return self.doors.accept_at(&mut self.ring, token);
        }
        let due = self.doors.pause_at(token, self.front.now);
        self.look_again(due);
        Ok(())
    }

    fn welcome(&mut self, token: Token, socket: OwnedFd) -> io::Result<()> {
        let Token::Door(index) = token else { return self.welcome_question(socket) };
        let resp_doors = self.doors.count() - self.config.memcached_doors.len();
        let of_memcached = index.checked_sub(resp_doors).map(|door| self.config.memcached_doors[door]);
        let is_memcached = of_memcached.is_some();
        if self.connections.len() + self.seat.role.clients_elsewhere() >= self.front.settings.clients_max {
            self.front.statistics.connections_refused += 1;
            // It fails when nobody is there to be told.
            let told = if is_memcached { TOO_MANY_MEMCACHED } else { TOO_MANY };
            let _told = rustix::net::send(&socket, told, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
            return Ok(());
        }
        let Some(listener) = self.doors.listener(index) else { return Ok(()) };
        let place = listener.place().clone();
        if listener.is_tcp()
            && let Err(error) = rustix::net::sockopt::set_tcp_nodelay(&socket, true)
        {
            log::warn!("cannot set TCP_NODELAY: {error}");
        }
        self.front.statistics.connections += 1;
        self.clients_seen += 1;
        let descriptor = socket.as_raw_fd();
        let (socket, addresses) = addresses(socket, &place);
        let facts = Facts {
            id: self.clients_seen,
            addresses,
            descriptor,
            name: Vec::new(),
            library: (Vec::new(), Vec::new()),
            namespace: Namespace(0),
            since: self.front.wall,
            active: self.front.wall,
            last: "",
            query_bytes: 0,
        };
        log::debug!("client {}: connected from {}", facts.id, facts.addresses.0);
        let without = self.seat.without_clients;
        let clients_here = if without > 0 { usize::MAX } else { self.connections.len() };
        // The first of the colleagues is the second loop.
        let newcomer = Newcomer { socket, facts, of_memcached };
        match self.seat.role.hand_over(newcomer, clients_here, without.saturating_sub(1)) {
            Some(newcomer) => self.seat_client(newcomer),
            None => Ok(()),
        }
    }

    /// Begins with those who were handed over.
    pub(super) fn take_arrivals(&mut self) -> io::Result<()> {
        while let Some(newcomer) = self.seat.role.next_arrival() {
            // Once stopping, the socket closes again as it is dropped.
            if self.phase == Phase::Serving {
                self.seat_client(newcomer)?;
            }
        }
        Ok(())
    }

    fn seat_client(&mut self, newcomer: Newcomer) -> io::Result<()> {
        let Newcomer { socket, facts, of_memcached } = newcomer;
        let session = match of_memcached {
            Some(namespace) => {
                let session = memcached::session::Session::new((facts.id, namespace), &self.front.settings);
                Conversation::Memcached(Box::new(session))
            }
            None => Conversation::Resp(Box::new(Session::new(facts, &self.front.settings))),
        };
        let key = self.connections.insert(Connection::new(socket, session, self.front.now));
        self.front.clients = self.connections.len();
        self.serve(key, false)
    }

    fn welcome_question(&mut self, socket: OwnedFd) -> io::Result<()> {
        if self.questions.len() >= CONTROL_CONNECTIONS_MAX {
            log::warn!("more than {CONTROL_CONNECTIONS_MAX} control connections: one is closed");
            return Ok(());
        }
        let (question, transfer) = Question::new(socket, self.front.now);
        self.look_again(question.due);
        let key = self.questions.insert(question);
        self.act(key, Next::Receive(transfer))
    }

    pub(super) fn on_question_event(&mut self, key: Key, event: Event) -> io::Result<()> {
        let Some(question) = self.questions.at(key) else { return Ok(()) };
        let (now, cache) = (self.front.now, &mut self.cache);
        let next = match event {
            Event::Received(Ok(count), transfer) => {
                question.on_received(transfer, count, |line| cache.control(now, line))
            }
            Event::Sent(Ok(count), transfer) => question.on_sent(transfer, count),
            _ => Next::Close,
        };
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

    pub(super) fn on_received(&mut self, key: Key, result: io::Result<usize>, transfer: Box<Transfer>) {
        let now = self.front.now;
        let Some(connection) = self.connections.at(key) else { return };
        let count = *result.as_ref().unwrap_or(&0);
        connection.end_receive(transfer, count, now);
        self.front.statistics.bytes_in += u64::try_from(count).unwrap_or(0);
        match result {
            Ok(0) => connection.has_ended = true,
            Ok(_) => {}
            Err(error) => return self.end(key, &error.to_string()),
        }
        self.mark_ready(key);
    }

    pub(super) fn on_sent(
        &mut self,
        key: Key,
        result: io::Result<usize>,
        mut transfer: Box<Transfer>,
    ) -> io::Result<()> {
        let now = self.front.now;
        let Some(connection) = self.connections.at(key) else { return Ok(()) };
        let count = match result {
            Ok(count) => count,
            Err(error) => {
                self.end(key, &error.to_string());
                return Ok(());
            }
        };
        self.front.statistics.bytes_out += u64::try_from(count).unwrap_or(0);
        if connection.on_sent(&mut transfer, count, now) {
            connection.count_memory(&mut self.front);
            self.mark_dirty(key);
            self.mark_ready(key);
        } else {
            self.ring.send(&connection.socket, transfer, Token::Client(key))?;
        }
        Ok(())
    }

    /// A connection may go on, unless it waits for bytes, which come by themselves, or stands in the queue.
    pub(super) fn mark_ready(&mut self, key: Key) {
        let Some(connection) = self.connections.at(key) else { return };
        if !connection.is_ready && !connection.is_waiting && !connection.is_receiving() {
            connection.is_ready = true;
            self.ready.push(key);
        }
    }

    pub(super) fn mark_dirty(&mut self, key: Key) {
        if let Some(connection) = self.connections.at(key)
            && !connection.is_dirty
        {
            connection.is_dirty = true;
            self.outgoing.push(key);
        }
    }

    /// Lets a session go on as far as it can. `is_first` is true for the first of the queue.
    pub(super) fn serve(&mut self, key: Key, is_first: bool) -> io::Result<()> {
        self.mark_dirty(key);
        let Some(connection) = self.connections.at(key) else { return Ok(()) };
        if connection.is_receiving() || connection.is_waiting || connection.awaits_survey {
            return Ok(());
        }
        let submissions = self.front.submissions();
        let pause = loop {
            let Some(connection) = self.connections.at(key) else { return Ok(()) };
            let (session, input) = connection.parts();
            let (count, pause) = session.advance(key, input, &mut self.front, &mut self.cache);
            connection.consume(count);
            let Pause::Survey(wanted) = pause else { break pause };
            let known = self.known(wanted);
            if self.seat.peers.is_alone() || self.phase != Phase::Serving {
                self.front.survey = Some(known);
                continue;
            }
            self.seat.peers.ask(key, wanted, known);
            if let Some(connection) = self.connections.at(key) {
                connection.awaits_survey = true;
            }
            break pause;
        };
        self.front.survey = None;
        self.pass_notices();
        let has_asked = self.front.submissions() != submissions;
        self.cache_is_busy |= has_asked;
        let Some(connection) = self.connections.at(key) else { return Ok(()) };
        if has_asked {
            connection.company.note_asked(self.cache.turns());
        }
        connection.pause = pause;
        if !connection.session.is_mid_command() {
            self.shortage.give_way(key);
        }
        connection.count_memory(&mut self.front);
        match pause {
            Pause::Turn => self.wait_for_memory(key, is_first),
            Pause::Bytes if connection.has_ended => connection.session.leave(),
            Pause::Bytes => return self.receive(key, is_first),
            Pause::Outcomes | Pause::Output | Pause::Survey(_) | Pause::Leaving => {}
        }
        Ok(())
    }

    /// Asks for more bytes, once there is memory for them.
    fn receive(&mut self, key: Key, is_first: bool) -> io::Result<()> {
        let Some(connection) = self.connections.at(key) else { return Ok(()) };
        let fits = connection.make_room(&self.front, false);
        if !fits && self.shortage.may_pass(key, is_first) {
            let has_room = connection.make_room(&self.front, true);
            assert!(has_room);
        } else if !fits {
            self.wait_for_memory(key, is_first);
            return Ok(());
        }
        connection.count_memory(&mut self.front);
        let transfer = connection.begin_receive(self.front.now);
        connection.receiving = Some(self.ring.receive(&connection.socket, transfer, Token::Client(key))?);
        Ok(())
    }

    /// The queue stands; who was its first stays so.
    fn wait_for_memory(&mut self, key: Key, is_first: bool) {
        let Some(connection) = self.connections.at(key) else { return };
        assert!(!connection.is_waiting);
        connection.is_waiting = true;
        self.shortage.queue(key, is_first);
    }

    /// Sees to what a command has changed for all sessions, here and elsewhere.
    fn pass_notices(&mut self) {
        for notice in std::mem::take(&mut self.front.notices) {
            self.seat.peers.announce(&notice);
            self.heed(notice);
        }
    }

    fn heed(&mut self, notice: Notice) {
        match notice {
            Notice::End(ids) => self.end_condemned(&ids),
            Notice::ResetStatistics => self.front.statistics = Statistics::default(),
            Notice::Timeout(seconds) => self.front.settings.timeout_seconds = seconds,
        }
    }

    /// Ends those that a client has told to end.
    fn end_condemned(&mut self, ids: &[u64]) {
        let mut keys = Vec::new();
        self.connections.keys(&mut keys);
        for key in keys {
            let is_meant = |connection: &mut Connection| ids.contains(&connection.session.id());
            if self.connections.at(key).is_some_and(is_meant) {
                self.end(key, "another client has told it to end");
            }
        }
    }

    /// Reads what other loops say.
    pub(super) fn take_letters(&mut self) -> io::Result<()> {
        let mut letters = Vec::new();
        self.seat.peers.collect(&mut letters);
        for letter in letters {
            match letter {
                Letter::Notice(notice) => self.heed(notice),
                Letter::Question { from, number, wanted } => {
                    let known = self.known(wanted);
                    self.seat.peers.answer(from, number, known);
                }
                Letter::Part { number, part } => {
                    if let Some((key, survey)) = self.seat.peers.on_part(number, *part) {
                        self.tell(key, survey)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// A client's command goes on with what is known.
    pub(super) fn tell(&mut self, key: Key, survey: Survey) -> io::Result<()> {
        let Some(connection) = self.connections.at(key) else { return Ok(()) };
        assert!(connection.awaits_survey);
        connection.awaits_survey = false;
        self.front.survey = Some(survey);
        self.serve(key, false)
    }

    /// What this loop knows.
    fn known(&mut self, wanted: Wanted) -> Survey {
        let mut survey = Survey::of(wanted, &self.front, &self.cache);
        if wanted == Wanted::Roster {
            survey.roster = self.roster();
        }
        survey
    }

    /// What CLIENT LIST says.
    fn roster(&mut self) -> String {
        let mut keys = Vec::new();
        self.connections.keys(&mut keys);
        let mut text = String::new();
        for key in keys {
            if let Some(connection) = self.connections.at(key) {
                text += &connection.session.line(&self.front);
            }
        }
        text
    }

    /// Sends what is queued, all of a client in one call, and lets go of those who are finished.
    pub(super) fn send_answers(&mut self) -> io::Result<()> {
        let mut dirty = self.outgoing.take();
        for key in dirty.drain(..) {
            let Some(connection) = self.connections.at(key) else { continue };
            let has_more = self.phase == Phase::Serving && !connection.session.is_at_rest();
            if connection.company.waits(has_more, |turn| self.cache.is_seen(turn)) {
                self.outgoing.hold(key);
                continue;
            }
            connection.is_dirty = false;
            if let Some(transfer) = connection.begin_send(self.front.now) {
                connection.count_memory(&mut self.front);
                self.ring.send(&connection.socket, transfer, Token::Client(key))?;
            } else if connection.is_finished() {
                self.end(key, "it has said goodbye");
            }
        }
        self.outgoing.give_back(dirty);
        Ok(())
    }

    /// The server stops: what is under way is answered, nothing more.
    pub(super) fn take_leave(&mut self, key: Key) -> io::Result<()> {
        let Some(connection) = self.connections.at(key) else { return Ok(()) };
        connection.session.leave();
        self.serve(key, false)
    }

    /// A client leaves, one way or another. What the kernel still has of it comes home when the socket, shut down
    /// here, fails the operations.
    pub(super) fn end(&mut self, key: Key, reason: &str) {
        if let Some(mut connection) = self.connections.remove(key) {
            log::debug!("client {}: gone, because {reason}", connection.session.id());
            connection.session.close(&mut self.front);
            connection.forget_memory(&mut self.front);
            shut(&connection.socket);
            self.shortage.give_way(key);
            self.front.clients = self.connections.len();
            self.seat.role.on_client_gone();
            // What it held may be what others wait for: another turn sees to them.
            self.cache_is_busy |= !self.shortage.is_over();
        }
    }
}

/// Where a client is and where it came to, in Redis' words.
fn addresses(socket: OwnedFd, place: &Listen) -> (OwnedFd, (String, String)) {
    match place {
        Listen::Unix(path) => {
            let path = format!("{}:0", path.display());
            (socket, (path.clone(), path))
        }
        Listen::Tcp(_) => {
            let stream = TcpStream::from(socket);
            let text = |address: io::Result<std::net::SocketAddr>| {
                address.map_or_else(|_| "?:0".to_owned(), |address| address.to_string())
            };
            let addresses = (text(stream.peer_addr()), text(stream.local_addr()));
            (OwnedFd::from(stream), addresses)
        }
    }
}

fn shut(socket: impl AsFd) {
    // It fails when the peer has gone already, which is as good.
    let _gone = rustix::net::shutdown(socket, Shutdown::Both);
}
