//! Times at which a drive was away for a while and came back, whatever kind of drive it is.

use crate::time::{Instant, Nanos};

/// A hiccup that is over: the drive was away for a while, and nothing was lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Time that it took.
    pub lasted: Nanos,
    /// Commands that waited for its end.
    pub waited: u32,
    /// Commands of which nobody knew, and which had been carried out.
    pub landed: u32,
    /// Commands of which nobody knew, and which were given again.
    pub repeated: u32,
}

/// Hiccups of a drive since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hiccups {
    /// Count of them, the present one included.
    pub count: u32,
    /// The drive is away, or has not answered for long, since then.
    pub stalled_since: Option<Instant>,
    /// Time for which it is waited for when it is away; zero where it is not.
    pub patience: Nanos,
    /// The last one that is over.
    pub last: Option<Settled>,
}
