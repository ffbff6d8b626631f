//! What a loop stands on: a volume that also takes writes of less than a block.
//!
//! ```text
//! one core     loop -> Gated (write_gate) -> volume
//! more cores   loop -> Hub    (bridge)    -> Gated -> volume
//!              loop -> Remote (bridge)    -> Hub, in the first core's thread
//! shards       loop -> Node   (node)      -> Hub, of the own shard -> Gated -> shard
//!                                         -> Hubs of others, in their threads
//! ```
//!
//! Frames that come with a reply other than that of a read which is done go home to the pool.

use super::write_gate::Merge;
use array::request::Volume;
use base::time::Instant;

/// See the module.
pub(crate) trait Backend: Volume {
    /// Answers one line of the control protocol: in the first core's thread, where the control socket is.
    fn control(&mut self, now: Instant, line: &str) -> String;

    /// Accepts a write of less than a block. It is answered by a later turn.
    fn merge(&mut self, now: Instant, merge: Merge);

    /// The loop asks nothing more: those that wait for it are told.
    fn begin_leave(&mut self) {}

    /// True when no other loop needs this one.
    fn has_left(&self) -> bool {
        true
    }
}
