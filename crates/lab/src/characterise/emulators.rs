//! What the paper asks of emulators (section IV), asked of this one.

use super::finding::{Draft, Subject};
use super::numbers::{least, readable};
use super::setting::{CLOSE, FIRST, Fill, LATER, Load, OPEN, Opening, Setting};
use super::transitions::{finish_linearity, finishes_ms, reset, reset_linearity, resets_ms};
use crate::workload::What;

const PAPER: &str = "Zoned Namespaces";

/// Reads, writes and appends.
pub const COMMANDS: Subject = Subject {
    id: "emulator-1",
    title: "Section IV: reads, writes and appends",
    statement: "An emulator needs a timing model that distinguishes read from write latency, and another model for \
                appends than for writes.",
    paper: PAPER,
    find: commands,
};

/// Reset and finish.
pub const TRANSITIONS: Subject = Subject {
    id: "emulator-2",
    title: "Section IV: reset and finish",
    statement: "The latency of reset should depend on zone occupancy (a linear model would suffice), and finish \
                should be implemented, preferably with a model based on zone occupancy.",
    paper: PAPER,
    find: transitions,
};

/// The rest.
pub const OTHERS: Subject = Subject {
    id: "emulator-3",
    title: "Section IV: other zone management",
    statement: "The timing of the other zone management operations should be emulated.",
    paper: PAPER,
    find: others,
};

fn commands(draft: &mut Draft) -> Option<()> {
    let mut latencies = Vec::new();
    for what in [What::ReadRandom, What::Write, What::Append] {
        latencies.push(draft.load(Load::new(what, 4096))?.mean_us);
    }
    for (name, latency) in ["read", "write", "append"].into_iter().zip(&latencies) {
        draft.ours(&format!("emulator-1-{name}"), &format!("{name} 4 KiB"), *latency, "us");
    }
    draft.check("reads take their own time", latencies[0] > 1.1 * latencies[1].max(latencies[2]));
    draft.check("appends take another time than writes", latencies[2] > 1.1 * latencies[1]);
    Some(())
}

fn transitions(draft: &mut Draft) -> Option<()> {
    let resets = resets_ms(draft, false)?;
    let finished = resets_ms(draft, true)?;
    let finishes = finishes_ms(draft)?;
    draft.check("a half-full zone is reset slower than an empty one", resets[5] > 1.5 * resets[0]);
    for (name, straight, limit) in [
        ("resets", reset_linearity(&resets), 0.9),
        ("resets of finished zones", reset_linearity(&finished), 0.99),
        ("finishes", finish_linearity(&finishes), 0.99),
    ] {
        let rule = format!("a line in occupancy explains {} of {name} (> {limit})", readable(straight));
        draft.check(rule, straight > limit);
    }
    draft.note(
        "For zones that were never finished the line is not the whole: partly written ones take about 3 ms more, as \
         the published raw data show and as the model has it.",
    );
    Some(())
}

fn others(draft: &mut Draft) -> Option<()> {
    let found = draft.all(&Setting::Opening(Opening { explicit: true, appends: false }))?;
    let implicit = draft.all(&Setting::Opening(Opening { explicit: false, appends: false }))?;
    let empty = reset(draft, Fill::Empty, false)?.mean_us;
    draft.check("open and close take time", least([found[OPEN].mean_us, found[CLOSE].mean_us]) > 1.0);
    draft.check("implicit opening does", implicit[FIRST].mean_us > implicit[LATER].mean_us + 0.5);
    draft.check("resetting an empty zone does", empty > 100.0);
    Some(())
}
