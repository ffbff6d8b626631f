//! Drives that are away for a while (ADR 72): what was in flight and not carried out.
//!
//! A drive that waits for its way back answers reads that it had with [`zone::device::Status::Stalled`], and nothing else. Clients'
//! reads and loads of stripes ask other drives then; whatever is about one drive asks it again, and waits.

use crate::log::{Effects, Shard, Waiter};
use zone::device::{Completion, Op};

impl Shard {
    /// A drive went away before it answered a read.
    pub(super) fn on_stalled(
        &mut self,
        waiter: Waiter,
        drive: usize,
        completion: Completion,
        fx: &mut Effects,
    ) {
        match waiter {
            Waiter::Read { slot, part } => self.on_read_stalled(slot, part, drive, completion, fx),
            Waiter::Load { slot, piece } => self.on_load_stalled((slot, piece), drive, completion, fx),
            _ => {
                let Completion { zone, offset, frames, .. } = completion;
                assert!(!frames.is_empty(), "drives that are away answer nothing but reads: {waiter:?}");
                fx.command(drive, zone, waiter, Op::Read { offset, frames });
            }
        }
        self.route(fx);
    }
}
