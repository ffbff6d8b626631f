//! Condition of a device, beyond the answers to its commands: what its host knows of it.

use base::kernel_calls::KernelCalls;
use base::time::Instant;

pub use base::hiccups::{Hiccups, Settled};
pub use base::loss::Loss;

/// Condition of a device. The default is a device that is well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// Reason why the device is lost.
    pub loss: Option<Loss>,
    /// Commands from before the loss that the device may still carry out: nobody may open it anew before they are answered.
    pub left_behind: u32,
    /// Writes wait for room on the device's file system, since then. They are not among those in `oldest`.
    pub waits_for_room_since: Option<Instant>,
    /// Time at which the command was submitted that has waited longest for its answer.
    pub oldest: Option<Instant>,
    /// Operations that the kernel was given; none of a device that has no ring.
    pub calls: KernelCalls,
    /// Times at which it was away for a while.
    pub hiccups: Hiccups,
}

impl Condition {
    /// Condition of a device that several have open, as this one and another see it.
    #[must_use]
    pub fn with(self, other: Condition) -> Condition {
        let earlier = |one: Option<Instant>, two: Option<Instant>| one.into_iter().chain(two).min();
        Condition {
            loss: self.loss.or(other.loss),
            left_behind: self.left_behind + other.left_behind,
            waits_for_room_since: earlier(self.waits_for_room_since, other.waits_for_room_since),
            oldest: earlier(self.oldest, other.oldest),
            calls: self.calls.and(other.calls),
            hiccups: self.hiccups,
        }
    }
}
