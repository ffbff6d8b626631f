//! A conversation in either protocol.

use crate::memcached;
use crate::resp;
use crate::resp::answer::Output;
use crate::resp::front::{Backend, Delivery, Front};
use crate::resp::session::Pause;
use crate::slab::Key;

/// See the module.
#[derive(Debug)]
pub(super) enum Conversation {
    Resp(Box<resp::session::Session>),
    Memcached(Box<memcached::session::Session>),
}

/// The same of both.
macro_rules! either {
    ($conversation:expr, $session:ident => $what:expr) => {
        match $conversation {
            Conversation::Resp($session) => $what,
            Conversation::Memcached($session) => $what,
        }
    };
}

impl Conversation {
    /// Number among all clients that ever were.
    pub fn id(&self) -> u64 {
        match self {
            Conversation::Resp(session) => session.facts().id,
            Conversation::Memcached(session) => session.id,
        }
    }

    /// What CLIENT LIST says of it: nothing of clients of memcached.
    pub fn line(&self, front: &Front) -> String {
        match self {
            Conversation::Resp(session) => session.line(front),
            Conversation::Memcached(_) => String::new(),
        }
    }

    pub fn advance(
        &mut self,
        key: Key,
        input: &[u8],
        front: &mut Front,
        cache: &mut dyn Backend,
    ) -> (usize, Pause) {
        either!(self, session => session.advance(key, input, front, cache))
    }

    pub fn on_outcome(&mut self, delivery: Delivery, front: &mut Front, cache: &mut dyn Backend) {
        match self {
            Conversation::Resp(session) => session.on_outcome(delivery, front),
            Conversation::Memcached(session) => session.on_outcome(delivery, front, cache),
        }
    }

    pub fn output(&mut self) -> &mut Output {
        either!(self, session => session.output())
    }

    pub fn is_finished(&self) -> bool {
        either!(self, session => session.is_finished())
    }

    pub fn is_mid_command(&self) -> bool {
        either!(self, session => session.is_mid_command())
    }

    pub fn is_at_rest(&self) -> bool {
        either!(self, session => session.is_at_rest())
    }

    pub fn bytes_needed(&self) -> usize {
        either!(self, session => session.bytes_needed())
    }

    pub fn bytes_held(&self) -> usize {
        either!(self, session => session.bytes_held())
    }

    pub fn leave(&mut self) {
        either!(self, session => session.leave());
    }

    /// The client is gone.
    pub fn close(&mut self, front: &mut Front) {
        match self {
            Conversation::Resp(session) => session.close(front),
            Conversation::Memcached(session) => session.leave(),
        }
    }
}
