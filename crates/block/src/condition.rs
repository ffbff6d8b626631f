//! Condition of a device, beyond the answers to its commands: what its host knows of it.

use base::time::Instant;

pub use base::loss::Loss;

/// Condition of a device. The default is a device that is well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// Reason why the device is lost.
    pub loss: Option<Loss>,
    /// Writes wait for room on the device's file system, since then. They are not among those in `oldest`.
    pub waits_for_room_since: Option<Instant>,
    /// Time at which the command was submitted that has waited longest for its answer.
    pub oldest: Option<Instant>,
}
