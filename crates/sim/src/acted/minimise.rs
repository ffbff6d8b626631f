//! Shorter run that fails: acts are left out, many at once and then fewer, as long as something fails.

use super::{Run, World};

/// Executions after which it is short enough.
const EXECUTIONS_MAX: u32 = 3_000;

/// The shortest run that was found to fail, of one that does; `None` when it passes. One that does not end is cut behind the act
/// where it stays, no more: each try would leave a thread behind.
#[must_use]
pub fn minimise<W: World>(failing: &Run<W>) -> Option<Run<W>> {
    let (last, failure) = failing.run().failure?;
    let acts = &failing.acts;
    assert!(last <= acts.len(), "a run of {} acts fails at act {last}", acts.len());
    let mut best = failing.with_acts(acts[..acts.len().min(last + 1)].to_vec());
    if failure.is_endless {
        return Some(best);
    }
    let mut executions = 0;
    let mut chunk = best.acts.len().div_ceil(2).max(1);
    loop {
        let mut at = 0;
        let before = best.acts.len();
        assert!(chunk > 0, "no act is left out");
        while at < best.acts.len() && executions < EXECUTIONS_MAX {
            let mut acts = best.acts.to_vec();
            acts.drain(at..acts.len().min(at + chunk));
            assert!(acts.len() < best.acts.len(), "a shorter run has {} acts", acts.len());
            let candidate = best.with_acts(acts);
            executions += 1;
            if candidate.run().failure.is_some() {
                best = candidate;
            } else {
                at += chunk;
            }
        }
        if executions >= EXECUTIONS_MAX || (chunk == 1 && best.acts.len() == before) {
            return Some(best);
        }
        chunk = (chunk / 2).max(1);
    }
}
