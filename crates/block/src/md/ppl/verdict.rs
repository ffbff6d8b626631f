//! Verdict of the partial parity logs of all members: which rows of a dirty array are in doubt though no entry names them.
//!
//! A log speaks for the rows that were written since the array was in sync. One that was never in sync, or whose resync was cut
//! off, is marked dirty in the same way, by a resync offset of zero. What tells them apart is that a log has entries: md counts an
//! array with entries, all of which match, as in sync once they are applied, and resyncs all of another. A mark with a wrong checksum
//! ([`Entry::mark`](super::Entry::mark)) keeps both programs from it.

use crate::md::assembly::{Assembly, Part};
use crate::md::superblock::CLEAN;

/// Verdict of all logs together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No log has an entry.
    Nothing,
    /// Rows that no entry names are right.
    InOrder,
    /// Other rows are in doubt too.
    InDoubt,
}

/// Verdict by the newest headers of all members.
#[must_use]
pub fn verdict(assembly: &Assembly<'_>) -> Verdict {
    let is_member = |part: &Part| matches!(part, Part::Active(_) | Part::Recovering(_, _));
    let members = assembly.devices.iter().filter(|(_, part)| is_member(part));
    let mut entries = members
        .filter_map(|(member, _)| member.newest_ppl(assembly.superblock()))
        .flat_map(|found| &found.header.entries);
    let Some(first) = entries.next() else { return Verdict::Nothing };
    if first.is_doubt() || entries.any(|entry| entry.is_doubt()) {
        Verdict::InDoubt
    } else {
        Verdict::InOrder
    }
}

/// Sector of the members from which on parities of an array with a partial parity log are in doubt once it is applied; `None` where
/// none are. Where logs say nothing, the array may never have been in sync.
#[must_use]
pub fn unsynced_from(assembly: &Assembly<'_>) -> Option<u64> {
    match (assembly.superblock().state.resync_offset, verdict(assembly)) {
        (CLEAN, _) | (0, Verdict::InOrder) => None,
        (offset, _) => Some(offset),
    }
}
