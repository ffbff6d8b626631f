//! Entries in memory that outlives the process, as a mount finds them (ADR 57).

use super::decide::Shared;
use super::members::Agreed;
use crate::config::Invalidate;
use crate::hash::Shape;
use crate::shard::Sharing;
use crate::shared::{Begin, Found, Host, Mark, SharedLog, find};

/// Begins the log of a life, or goes on with the one that superblocks ask for, and tells its entries: `None` when they are lost.
///
/// Each record that counts, or may count, has a say: a log that one of them asks for and that is not there may have held anything.
pub fn recall(
    (agreed, host): (&Agreed, &Host),
    (shape, epoch): (Shape, u32),
    invalidate: Invalidate,
) -> (Sharing, Option<Shared>) {
    let wants = invalidate == Invalidate::Process;
    let cache = agreed.newest.cache;
    let log = |begin: Begin| {
        let memory = host.memory.as_deref()?;
        Some(SharedLog::new(memory, (cache, shape), begin, wants))
    };
    if let [mark] = agreed.marks[..]
        && let Some(found) = found_by(host, cache, mark)
    {
        let shared = vec![(found.shape, found.entries.clone())];
        return (Sharing { log: log(Begin::Again(mark.log, found)), mark: Some(mark) }, Some(shared));
    }
    let log = log(Begin::Anew(epoch)).filter(|_| wants);
    let mark = log.as_ref().map(|_| Mark { boot: host.boot, log: epoch });
    (Sharing { log, mark }, agreed.marks.is_empty().then(Shared::new))
}

/// The log that a mark asks for, in memory of the same start of the machine.
fn found_by(host: &Host, cache: [u8; 16], mark: Mark) -> Option<Found> {
    if mark.boot != host.boot {
        return None;
    }
    find(host.memory.as_deref()?, cache, mark.log)
}
