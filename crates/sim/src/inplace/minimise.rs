//! Shorter run that fails: acts are left out, many at once and then fewer, as long as something fails.

use super::{Run, run};

/// Executions after which it is short enough.
const EXECUTIONS_MAX: u32 = 3_000;

/// The shortest run that was found to fail, of one that does; `None` when it passes.
#[must_use]
pub fn minimise(failing: &Run) -> Option<Run> {
    let (last, _) = run(failing).failure?;
    let mut best = failing.clone();
    best.acts.truncate(last + 1);
    let mut executions = 0;
    let mut chunk = best.acts.len().div_ceil(2).max(1);
    loop {
        let mut at = 0;
        let before = best.acts.len();
        while at < best.acts.len() && executions < EXECUTIONS_MAX {
            let mut candidate = best.clone();
            candidate.acts.drain(at..best.acts.len().min(at + chunk));
            executions += 1;
            if run(&candidate).failure.is_some() {
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
