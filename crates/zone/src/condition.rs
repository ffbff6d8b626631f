//! How a drive is, beyond the answers to its commands: what its host knows of it.
//!
//! A drive answers commands with a [`crate::device::Status`]. Some troubles are not answers: a command that is not
//! answered at all, a file that is gone while nobody asks for anything, a file system without room. An owner that
//! knows the time asks for the [`Condition`] now and then, and decides.

use base::kernel_calls::KernelCalls;
use base::time::{Instant, Nanos};
use base::units::ZoneIndex;

pub use base::hiccups::{Hiccups, Settled};
pub use base::loss::Loss;

/// A command that was not answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outstanding {
    /// The command's zone; meaningless for a flush.
    pub zone: ZoneIndex,
    /// Time at which the command was submitted.
    pub since: Instant,
}

/// Times that commands took of late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// Commands that were answered.
    pub count: u64,
    /// The time within which 99 % of them were; at most twice too high.
    pub p99: Nanos,
}

/// Use of a drive's cache of identities, where those lie among the data, and what they cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdentityCache {
    /// Bytes of identities that are cached.
    pub bytes: u64,
    /// Most bytes that may be.
    pub bytes_max: u64,
    /// Units of blocks whose identities were found there.
    pub hits: u64,
    /// Those that had to be read beside the data.
    pub misses: u64,
    /// Blocks that the host has written.
    pub host_blocks: u64,
    /// Blocks that were written to the device for that: data, identities, journal, tables.
    pub device_blocks: u64,
}

/// Condition of a drive. The default is a drive that is well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// The drive is lost, and why.
    pub loss: Option<Loss>,
    /// Commands from before the loss that the drive may still carry out: nobody may open it anew before they are answered.
    pub left_behind: u32,
    /// Set when the drive works, but what it needs to be opened again is damaged: a self-test with repair writes that
    /// anew.
    pub header_damaged: bool,
    /// Writes wait for room on the drive's file system, since then. They are not among those in `oldest`.
    pub waits_for_room_since: Option<Instant>,
    /// The command that has waited longest for its answer.
    pub oldest: Option<Outstanding>,
    /// Times that commands took of late.
    pub latency: Latency,
    /// Times at which it was away for a while.
    pub hiccups: Hiccups,
    /// The cache of identities, of a drive that keeps them among the data.
    pub identities: Option<IdentityCache>,
    /// Operations that the kernel was given; none of a drive that has no ring.
    pub calls: KernelCalls,
}
