//! Blocks of an array of md that may be wrong, for an operator took its parities for right (`--force`): as they are told.

use base::units::{BLOCK_BYTES_U64, human_bytes};
use block::md::doubt::Doubt;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Remedies for an array that is dirty and degraded.
pub const REMEDIES: &str = "; with all members it resyncs. Without: `zoneweave md read --force` copies what the members say, `zoneweave serve \
                            --degraded --force` serves it, and both name what may be wrong";

/// Most ranges that are told one by one; `status --json` has all.
const RANGES_SHOWN_MAX: usize = 32;

/// Range of the volume with blocks that may be wrong.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct DoubtReport {
    /// First byte.
    pub from: u64,
    /// Byte behind the last.
    pub to: u64,
    /// Blocks of 4 KiB among these that may be wrong, those of missing members.
    pub blocks: u64,
}

impl DoubtReport {
    /// Ranges as they are told.
    pub fn of(doubts: &[Doubt]) -> Vec<DoubtReport> {
        let of = |doubt: &Doubt| DoubtReport {
            from: doubt.bytes.start,
            to: doubt.bytes.end,
            blocks: doubt.blocks,
        };
        doubts.iter().map(of).collect()
    }
}

impl fmt::Display for DoubtReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DoubtReport { from, to, blocks } = self;
        write!(f, "bytes {from} to {to}, {blocks} blocks of missing members")
    }
}

/// Doubts in words: the blocks that may be wrong; `None` without any.
pub fn in_words(doubts: &[DoubtReport]) -> Option<String> {
    let blocks: u64 = doubts.iter().map(|doubt| doubt.blocks).sum();
    let bytes = human_bytes(blocks * BLOCK_BYTES_U64);
    (blocks > 0).then(|| {
        format!(
            "{blocks} blocks ({bytes}) of missing members are what parities say, which may be wrong: in {} ranges",
            doubts.len()
        )
    })
}

/// Tells which blocks may be wrong, before they are served.
pub fn say(doubts: &[Doubt]) {
    let doubts = DoubtReport::of(doubts);
    let Some(said) = in_words(&doubts) else { return };
    doubts.iter().take(RANGES_SHOWN_MAX).for_each(|doubt| log::warn!("in doubt: {doubt}"));
    if let Some(more) = doubts.len().checked_sub(RANGES_SHOWN_MAX).filter(|more| *more > 0) {
        log::warn!("and {more} more ranges: `zoneweave status --json` has them");
    }
    log::warn!("{said}");
}
