//! What a client is to be sent.
//!
//! Answers of one turn gather in `queued` and leave in one call; while the kernel sends them, the
//! next gather in the other transfer.

use crate::transfer::Transfer;
use base::frame::FramePool;

/// See the module.
#[derive(Debug)]
pub(crate) struct Outbox {
    pub(crate) queued: Box<Transfer>,
    spare: Option<Box<Transfer>>,
}

impl Outbox {
    pub(crate) fn new() -> Outbox {
        Outbox { queued: Box::default(), spare: Some(Box::default()) }
    }

    /// True while a send is in flight.
    pub(crate) fn is_sending(&self) -> bool {
        self.spare.is_none()
    }

    /// True when everything is sent.
    pub(crate) fn is_empty(&self) -> bool {
        !self.is_sending() && self.queued.is_done()
    }

    /// Takes the queued transfer to send it; `None` when there is nothing or a send is in flight.
    pub(crate) fn leave(&mut self) -> Option<Box<Transfer>> {
        if self.queued.is_done() {
            return None;
        }
        let empty = self.spare.take()?;
        assert!(empty.frames.is_empty(), "frames that were sent are home");
        Some(std::mem::replace(&mut self.queued, empty))
    }

    /// A transfer is sent; its frames go home. Returns how many they were.
    pub(crate) fn come_home(&mut self, mut transfer: Box<Transfer>, pool: &mut FramePool) -> usize {
        assert!(transfer.is_done(), "all of it is sent");
        assert!(self.spare.is_none(), "one send at a time");
        let frames_count = transfer.frames.len();
        transfer.clear(pool);
        self.spare = Some(transfer);
        frames_count
    }

    /// The client has gone; frames go home. Those the kernel has come with its completion.
    pub(crate) fn close(&mut self, pool: &mut FramePool) {
        self.queued.clear(pool);
    }
}
