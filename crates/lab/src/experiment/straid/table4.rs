//! The made-up traces beside those of the paper (StRAID table 4): no array is involved.

use super::super::draft::{Cell, Draft};
use super::super::measurement::{Metric, Value};
use super::super::scheme::InPlace;
use super::super::{Conditions, Experiment};
use super::made_up::TRACES;
use super::traces;
use crate::precise::{precise, precise_u64};
use crate::trace::{Event, Op};
use anyhow::Result;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "straid-table4",
    title: "StRAID table 4: traces that are made up, and what they are made to have",
    statement: "The traces of the macro-benchmarks have these sizes.",
    run_ms: 100,
    cells,
    alike: Cell::clone,
    measure,
    judge,
};

/// Reads for each write, mean sizes of writes and of reads.
pub const METRICS: [Metric; 3] = [
    Metric { name: "reads_per_write", unit: "" },
    Metric { name: "mean_write_kib", unit: "KiB" },
    Metric { name: "mean_read_kib", unit: "KiB" },
];

fn cells() -> Vec<Cell> {
    TRACES.map(|trace| traces::cell(InPlace::Adaptive, 5, trace.name)).to_vec()
}

fn measure(cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    let events = traces::events(cell, conditions)?;
    let of = |op: Op| -> Vec<&Event> { events.iter().filter(|event| event.op == op).collect() };
    let mean_kib = |events: &[&Event]| {
        let blocks: u64 = events.iter().map(|event| u64::from(event.blocks)).sum();
        4.0 * precise_u64(blocks) / precise(events.len().max(1))
    };
    let (writes, reads) = (of(Op::Write), of(Op::Read));
    let ratio = precise(reads.len()) / precise(writes.len().max(1));
    let values = [ratio, mean_kib(&writes), mean_kib(&reads)];
    Ok(METRICS.into_iter().zip(values).map(|(metric, value)| Value { metric, value }).collect())
}

fn judge(draft: &mut Draft) {
    for (trace, cell) in TRACES.iter().zip(cells()) {
        for (id, metric) in [trace.reads, trace.write_kib, trace.read_kib].into_iter().zip(METRICS) {
            draft.value(id, &cell, metric);
        }
    }
}
