//! Replay of what a crash left, in memory: partial parity and journal become an overlay of a reader.

pub(super) mod journal;
pub(super) mod partial_parity;
