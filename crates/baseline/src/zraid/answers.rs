//! Answers to clients.

use super::{Write, Zraid};
use array::engine::Effects;
use array::request::{Outcome, Reply, RequestId};

impl Zraid {
    /// A part of a write is durable.
    pub(super) fn end_part(&mut self, slot: u32, fx: &mut Effects) {
        let write = self.writes.get_mut(slot);
        write.left -= 1;
        if write.left > 0 {
            return;
        }
        let Write { id, number, forced, .. } = self.writes.remove(slot);
        self.order.open.remove(&number);
        if forced {
            self.order.flush(id, number + 1);
        } else {
            self.answer(id, fx);
        }
    }

    /// Answers a request that is done, unless the array is broken.
    pub(super) fn answer(&mut self, id: RequestId, fx: &mut Effects) {
        let outcome = if self.is_broken() { Outcome::IoError } else { Outcome::Done };
        fx.replies.push(Reply { id, outcome, frames: Vec::new() });
    }
}
