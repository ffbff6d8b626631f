//! A connection: socket, session, and the bytes between them.

mod intake;
mod outlet;

use super::company::Company;
use super::conversation::Conversation;
use crate::resp::front::Front;
use crate::resp::session::Pause;
use crate::transfer::Transfer;
use base::time::{Instant, Nanos};
use intake::Intake;
use outlet::Outlet;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// Memory that nobody is cut off for.
const HELD_BYTES_FREE: usize = 4 << 10;
/// Patience that the watches count down; only shortage makes it end earlier.
const STALL_LIMIT: Nanos = Nanos(30_000_000_000);

/// See the module.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) socket: Rc<OwnedFd>,
    pub(super) session: Conversation,
    intake: Intake,
    outlet: Outlet,
    /// The client sends nothing more.
    pub(super) has_ended: bool,
    pub(super) pause: Pause,
    pub(super) is_ready: bool,
    pub(super) is_dirty: bool,
    pub(super) company: Company,
    pub(super) is_waiting: bool,
    /// Other loops are asked for what its command needs to know.
    pub(super) awaits_survey: bool,
    /// Memory that was counted for it.
    held: usize,
    /// Time at which bytes moved last.
    pub(super) moved_at: Instant,
}

impl Connection {
    pub(super) fn new(socket: OwnedFd, session: Conversation, now: Instant) -> Connection {
        Connection {
            socket: Rc::new(socket),
            session,
            intake: Intake::new(),
            outlet: Outlet::default(),
            has_ended: false,
            pause: Pause::Bytes,
            is_ready: false,
            is_dirty: false,
            company: Company::default(),
            is_waiting: false,
            awaits_survey: false,
            held: 0,
            moved_at: now,
        }
    }

    /// True while the kernel has the input.
    pub(super) fn is_receiving(&self) -> bool {
        self.intake.is_lent()
    }

    /// Session, and bytes that it has not seen or not understood.
    pub(super) fn parts(&mut self) -> (&mut Conversation, &[u8]) {
        (&mut self.session, self.intake.unparsed())
    }

    pub(super) fn consume(&mut self, count: usize) {
        self.intake.consume(count);
    }

    /// Sees to room for a receive; false when memory is short. `is_first` clients may take what they need.
    pub(super) fn make_room(&mut self, front: &Front, is_first: bool) -> bool {
        self.intake.make_room(front, self.session.bytes_needed(), is_first)
    }

    /// The input leaves for the kernel.
    pub(super) fn begin_receive(&mut self, now: Instant) -> Box<Transfer> {
        self.intake.lend(now, self.session.is_mid_command())
    }

    /// The input comes back with `count` bytes more.
    pub(super) fn end_receive(&mut self, input: Box<Transfer>, count: usize, now: Instant) {
        self.intake.take_back(input, count, now);
        self.moved_at = now;
    }

    /// What there is to send, unless a send is under way.
    pub(super) fn begin_send(&mut self, now: Instant) -> Option<Box<Transfer>> {
        self.outlet.begin(self.session.output(), now)
    }

    /// `count` bytes are sent; true when that was all.
    pub(super) fn on_sent(&mut self, transfer: &mut Transfer, count: usize, now: Instant) -> bool {
        self.moved_at = now;
        self.outlet.advance(transfer, count, now)
    }

    /// True when everything was said and sent.
    pub(super) fn is_finished(&self) -> bool {
        self.session.is_finished() && !self.outlet.is_sending()
    }

    /// Counts its memory anew.
    pub(super) fn count_memory(&mut self, front: &mut Front) {
        let held = self.intake.bytes_held() + self.session.bytes_held() + self.outlet.bytes_held();
        assert!(front.memory.held >= self.held, "memory of all holds that of each");
        front.memory.held = front.memory.held - self.held + held;
        self.held = held;
    }

    /// Its memory is free.
    pub(super) fn forget_memory(&mut self, front: &mut Front) {
        assert!(front.memory.held >= self.held, "memory of all holds that of each");
        front.memory.held -= self.held;
        self.held = 0;
    }

    /// True for one that holds more than its own and owes us bytes, or the reading of bytes.
    pub(super) fn holds_memory_idly(&self, now: Instant, limit: Nanos) -> bool {
        let is_idle = |idle: Option<Nanos>| idle.is_some_and(|idle| idle >= limit);
        let owes =
            (!self.is_waiting && is_idle(self.intake.idle_for(now))) || is_idle(self.outlet.idle_for(now));
        self.held > HELD_BYTES_FREE && owes
    }
}

#[cfg(test)]
mod tests {
    use super::intake::{INPUT_BYTES, INPUT_BYTES_MIN};
    use super::*;
    use crate::memcached::session::Session;
    use crate::resp::settings::Settings;
    use crate::transfer::Piece;
    use cache::request::{Namespace, WallMillis};
    use std::os::unix::net::UnixStream;

    /// A client sends faster than it is read, and each receive ends within a command: the input grows, so that few receives carry much.
    #[test]
    fn the_input_grows_while_receives_fill_it() {
        let settings = Settings::default();
        let front = Front::new(settings.clone(), Instant(0), WallMillis(0));
        let session = Conversation::Memcached(Box::new(Session::new((1, Namespace(0)), &settings)));
        let (socket, _peer) = UnixStream::pair().unwrap();
        let mut connection = Connection::new(socket.into(), session, Instant(0));
        let mut rooms = Vec::new();
        for _ in 0..8 {
            assert!(connection.make_room(&front, false));
            let transfer = connection.begin_receive(Instant(0));
            let [Piece::Bytes { from, to }] = *transfer.pieces_left() else { panic!("one piece of bytes") };
            let room = to - from;
            rooms.push(room);
            connection.end_receive(transfer, room, Instant(0));
            let unparsed = connection.parts().1.len();
            connection.consume(unparsed - 500);
        }
        assert_eq!(rooms[0], INPUT_BYTES_MIN);
        assert_eq!(rooms.last(), Some(&(INPUT_BYTES - 500)), "{rooms:?}");
    }
}
