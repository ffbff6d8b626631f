//! A connection: socket, session, and the bytes between them.
//!
//! ```text
//! input   | consumed | from .. to: not parsed | room |    the kernel has it while it receives
//! ```
//!
//! The input begins small, grows when receives fill it, and shrinks when they do not. Beyond [`INPUT_BYTES`] it grows only for a
//! command that is longer, in step with what has arrived.

use super::company::Company;
use super::conversation::Conversation;
use crate::core_loop::watch::Watch;
use crate::resp::front::Front;
use crate::resp::session::Pause;
use crate::ring::OperationId;
use crate::transfer::{Piece, Transfer};
use base::time::{Instant, Nanos};
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// Input bytes of a client that has said nothing.
const INPUT_BYTES_MIN: usize = 1 << 10;
/// Input bytes of a client that sends a lot.
pub(super) const INPUT_BYTES: usize = 64 << 10;
/// Input bytes that it keeps from one long command to the next, while memory is ample.
const INPUT_BYTES_KEPT: usize = 256 << 10;
/// Memory that nobody is cut off for.
const HELD_BYTES_FREE: usize = 4 << 10;
/// Patience that the watches count down; only shortage makes it end earlier.
const STALL_LIMIT: Nanos = Nanos(30_000_000_000);
/// Output buffer that a connection keeps.
const OUTPUT_BYTES_KEPT: usize = 16 << 10;

/// See the module.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) socket: Rc<OwnedFd>,
    pub(super) session: Conversation,
    input: Option<Box<Transfer>>,
    /// Size of the input that the kernel has.
    lent_bytes: usize,
    from: usize,
    to: usize,
    pub(super) receiving: Option<OperationId>,
    /// The last receive filled all the room there was.
    is_cramped: bool,
    /// Bytes that are being sent.
    sending_bytes: usize,
    is_sending: bool,
    spare_output: Vec<u8>,
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
    receive_watch: Watch,
    send_watch: Watch,
}

impl Connection {
    pub(super) fn new(socket: OwnedFd, session: Conversation, now: Instant) -> Connection {
        Connection {
            socket: Rc::new(socket),
            session,
            input: Some(Box::default()),
            lent_bytes: 0,
            from: 0,
            to: 0,
            receiving: None,
            is_cramped: false,
            sending_bytes: 0,
            is_sending: false,
            spare_output: Vec::new(),
            has_ended: false,
            pause: Pause::Bytes,
            is_ready: false,
            is_dirty: false,
            company: Company::default(),
            is_waiting: false,
            awaits_survey: false,
            held: 0,
            moved_at: now,
            receive_watch: Watch::default(),
            send_watch: Watch::default(),
        }
    }

    /// True while the kernel has the input.
    pub(super) fn is_receiving(&self) -> bool {
        self.input.is_none()
    }

    /// Session, and bytes that it has not seen or not understood.
    pub(super) fn parts(&mut self) -> (&mut Conversation, &[u8]) {
        let input = self.input.as_ref().map_or(&[][..], |input| &input.bytes[self.from..self.to]);
        (&mut self.session, input)
    }

    pub(super) fn consume(&mut self, count: usize) {
        assert!(self.from + count <= self.to, "no more is parsed than was received");
        self.from += count;
        if self.from == self.to {
            (self.from, self.to) = (0, 0);
        }
    }

    /// Sees to room for a receive; false when memory is short. `is_first` clients may take what they need.
    pub(super) fn make_room(&mut self, front: &Front, is_first: bool) -> bool {
        let input = self.input.as_mut().expect("room is made between receives");
        let bytes = input.bytes.len();
        let kept = if front.memory.is_ample() { INPUT_BYTES_KEPT } else { INPUT_BYTES };
        if self.from == self.to && bytes > kept {
            input.bytes = Vec::new();
        }
        // What is left is the beginning of a command, which is moved once.
        if self.from > 0 {
            input.bytes.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
        }
        let bytes = input.bytes.len();
        if self.to < bytes {
            let more = (bytes * 4).min(INPUT_BYTES).saturating_sub(bytes);
            if self.is_cramped && more > 0 && front.memory.fits(more) {
                input.bytes.resize(bytes + more, 0);
            }
            return true;
        }
        let wanted = if bytes == 0 { INPUT_BYTES_MIN } else { bytes * 2 };
        let wanted = wanted.min(self.session.bytes_needed().max(INPUT_BYTES));
        if !(is_first || bytes < INPUT_BYTES_MIN || front.memory.fits(wanted - bytes)) {
            return false;
        }
        input.bytes.resize(wanted, 0);
        true
    }

    /// The input leaves for the kernel.
    pub(super) fn begin_receive(&mut self, now: Instant) -> Box<Transfer> {
        let mut input = self.input.take().expect("one receive at a time");
        assert!(self.to < input.bytes.len(), "a receive has room");
        self.lent_bytes = input.bytes.capacity();
        input.clear_pieces();
        input.push_room(Piece::Bytes { from: self.to, to: input.bytes.len() });
        if self.session.is_mid_command() {
            self.receive_watch.arm(now, STALL_LIMIT);
        } else {
            self.receive_watch.disarm();
        }
        input
    }

    /// The input comes back with `count` bytes more.
    pub(super) fn end_receive(&mut self, mut input: Box<Transfer>, count: usize, now: Instant) {
        assert!(self.input.is_none(), "one receive at a time");
        let bytes = input.bytes.len();
        let room = bytes - self.to;
        self.to += count;
        assert!(self.to <= bytes, "the kernel fills the room it was given");
        self.is_cramped = count == room;
        if self.to * 8 < bytes && bytes > INPUT_BYTES_MIN {
            input.bytes.truncate((bytes / 2).max(INPUT_BYTES_MIN));
            input.bytes.shrink_to_fit();
        }
        self.input = Some(input);
        self.receiving = None;
        self.moved_at = now;
        self.receive_watch.progress(now, STALL_LIMIT, count);
    }

    /// What there is to send, unless a send is under way.
    pub(super) fn begin_send(&mut self, now: Instant) -> Option<Box<Transfer>> {
        if self.is_sending || self.session.output().is_empty() {
            return None;
        }
        let empty = std::mem::take(&mut self.spare_output);
        self.sending_bytes = self.session.output().len();
        let (bytes, values) = self.session.output().take(empty);
        let mut transfer = Box::<Transfer>::default();
        let mut at = 0;
        let end = bytes.len();
        transfer.bytes = bytes;
        for (place, value) in values {
            assert!((at..=end).contains(&place), "values lie among the bytes, in order");
            if place > at {
                transfer.push_room(Piece::Bytes { from: at, to: place });
            }
            transfer.push_value(value);
            at = place;
        }
        if end > at {
            transfer.push_room(Piece::Bytes { from: at, to: end });
        }
        self.is_sending = true;
        self.send_watch.arm(now, STALL_LIMIT);
        Some(transfer)
    }

    /// `count` bytes are sent; true when that was all.
    pub(super) fn on_sent(&mut self, transfer: &mut Transfer, count: usize, now: Instant) -> bool {
        assert!(self.is_sending, "what is sent was begun");
        transfer.advance(count);
        self.moved_at = now;
        self.send_watch.progress(now, STALL_LIMIT, count);
        if !transfer.is_done() {
            return false;
        }
        let mut bytes = std::mem::take(&mut transfer.bytes);
        bytes.clear();
        if bytes.capacity() <= OUTPUT_BYTES_KEPT {
            self.spare_output = bytes;
        }
        (self.is_sending, self.sending_bytes) = (false, 0);
        self.send_watch.disarm();
        true
    }

    /// True when everything was said and sent.
    pub(super) fn is_finished(&self) -> bool {
        self.session.is_finished() && !self.is_sending
    }

    /// Counts its memory anew.
    pub(super) fn count_memory(&mut self, front: &mut Front) {
        let input = self.input.as_ref().map_or(self.lent_bytes, |input| input.bytes.capacity());
        let held = input + self.session.bytes_held() + self.sending_bytes + self.spare_output.capacity();
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
        let is_idle = |watch: &Watch| watch.idle_for(now, STALL_LIMIT).is_some_and(|idle| idle >= limit);
        let owes = (!self.is_waiting && is_idle(&self.receive_watch)) || is_idle(&self.send_watch);
        self.held > HELD_BYTES_FREE && owes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memcached::session::Session;
    use crate::resp::settings::Settings;
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
            let room = connection.input.as_ref().unwrap().bytes.len() - connection.to;
            rooms.push(room);
            let transfer = connection.begin_receive(Instant(0));
            connection.end_receive(transfer, room, Instant(0));
            connection.consume(connection.to - 500);
        }
        assert_eq!(rooms[0], INPUT_BYTES_MIN);
        assert_eq!(rooms.last(), Some(&(INPUT_BYTES - 500)), "{rooms:?}");
    }
}
