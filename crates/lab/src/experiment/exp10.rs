//! Experiment 10: block traces of a cloud (section 5.3, figure 15).

use super::clients;
use super::draft::{Cell, Draft};
use super::measurement::{P50, P95, THROUGHPUT, Value, values_of};
use super::replay;
use super::rig::{Plan, Rig, Space, blocks_of_kib};
use super::scheme::{self, Scheme};
use super::setting::Setting;
use super::{Conditions, Experiment};
use crate::characterise::plot::{Horizontal, Plot, Shape};
use crate::trace::{self, Event};
use anyhow::{Context, Result};
use std::borrow::Cow;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "exp10",
    title: "Exp#10: block traces of a cloud (figure 15)",
    statement: "With chunks of 4 KiB, Zone Append in groups serves far more of a cloud's requests than Zone Write, with \
                lower latencies; with chunks of 16 KiB a little more, with a higher 95th percentile.",
    run_ms: 600,
    cells,
    alike: Cell::clone,
    measure,
    judge,
};

const CHUNKS_KIB: [u32; 2] = [4, 16];
/// Four open segments: so many of 8-KiB and of 16-KiB chunks, as in experiment 7.
const SEGMENTS: [(u32, u32); 2] = [(2, 2), (1, 3)];
/// As the authors replay: so many requests in flight.
const CLOSED: &str = "closed-loop";
/// Each request at its time.
const OPEN: &str = "open-loop";
/// Requests of a run, and the volume of the made-up trace.
const EVENTS: u64 = 60_000;
const VOLUME_BLOCKS: u64 = (256 << 20) / 4096;

fn cell(scheme: Scheme, chunk_kib: u32, workload: &'static str) -> Cell {
    let usual = Setting::paper(0, chunk_kib);
    let queue_depth = usual.queue_depth.filter(|_| workload == CLOSED);
    Cell { scheme, setting: Setting { request_kib: None, queue_depth, workload: Some(workload), ..usual } }
}

/// In a closed loop, to several open segments.
fn hybrid(scheme: Scheme, (small_segments, large_segments): (u32, u32)) -> Cell {
    let Cell { scheme, setting } = cell(scheme, 8, CLOSED);
    let setting = Setting { large_chunk_kib: Some(16), small_segments, large_segments, ..setting };
    Cell { scheme, setting }
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for workload in [CLOSED, OPEN] {
        for chunk in CHUNKS_KIB {
            let schemes = scheme::ALL.into_iter().chain([Scheme::Adaptive]);
            cells.extend(schemes.map(|scheme| cell(scheme, chunk, workload)));
        }
    }
    for segments in SEGMENTS {
        cells.extend(scheme::ALL.map(|scheme| hybrid(scheme, segments)));
    }
    cells
}

/// Fills the volume and replays the trace that was given, or else one that is made up.
fn measure(cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    let events: Cow<[Event]> = match conditions.traces.first() {
        Some(events) => Cow::Borrowed(events.as_slice()),
        None => {
            let count = usize::try_from(conditions.scaled(EVENTS)).context("a count of requests")?;
            Cow::Owned(trace::generated::events(count, VOLUME_BLOCKS, conditions.seed))
        }
    };
    let mut plan = Plan::new(cell.scheme, &cell.setting, conditions.seed)?;
    plan.volume_blocks = trace::volume_blocks(&events);
    let written: u64 =
        events.iter().map(|event| u64::from(event.blocks) + u64::from(plan.chunk_blocks)).sum();
    // At the worst each request is alone in its stripe.
    plan.space = Space::Stripes(plan.volume_blocks + written);
    let mut rig = Rig::new(plan)?;
    clients::fill(&mut rig, blocks_of_kib(64))?;
    let measured = match cell.setting.queue_depth {
        Some(depth) => replay::closed_loop(&mut rig, &events, depth)?,
        None => replay::open_loop(&mut rig, &events)?,
    };
    Ok(values_of(&measured, THROUGHPUT))
}

fn judge(draft: &mut Draft) {
    for (chunk, gain, tail) in [(4, "exp10-gain-4k", "exp10-p95-4k"), (16, "exp10-gain-16k", "exp10-p95-16k")]
    {
        let [zap, write, append] = scheme::ALL.map(|scheme| cell(scheme, chunk, CLOSED));
        draft.ratio(gain, (&zap, &write), THROUGHPUT, Scheme::ZoneWriteOnly.name());
        draft.ratio(tail, (&zap, &write), P95, Scheme::ZoneWriteOnly.name());
        draft.ratio("exp10-append", (&zap, &append), THROUGHPUT, Scheme::ZoneAppendOnly.name());
    }
    for (segments, over_write, over_append) in [
        ((2, 2), "exp10-hybrid-2-2", "exp10-hybrid-2-2"),
        ((1, 3), "exp10-hybrid-1-3", "exp10-hybrid-1-3-append"),
    ] {
        let [zap, write, append] = scheme::ALL.map(|scheme| hybrid(scheme, segments));
        draft.ratio(over_write, (&zap, &write), THROUGHPUT, Scheme::ZoneWriteOnly.name());
        draft.ratio(over_append, (&zap, &append), THROUGHPUT, Scheme::ZoneAppendOnly.name());
    }
    let [zap, write, append] = scheme::ALL.map(|scheme| draft.mean(&hybrid(scheme, (1, 3)), P95));
    let rule = "four open segments, one of small chunks: zone-write-only has the highest 95th percentile";
    draft.check(rule, write > zap.max(append));
    plots(draft);
}

fn plots(draft: &mut Draft) {
    let figures = [
        ("exp10-15b", "Throughput, four open segments", "throughput (MiB/s)", THROUGHPUT),
        ("exp10-15d", "95th percentile, four open segments", "95th percentile (us)", P95),
    ];
    for (id, title, y_title, metric) in figures {
        let series = scheme::ALL
            .map(|scheme| draft.bars(scheme.name(), &SEGMENTS.map(|at| hybrid(scheme, at)), metric));
        draft.plot(Plot {
            id,
            title,
            caption: "Reads and writes of a trace to four open segments, chunks of 8 and 16 KiB (figure 15).",
            x_title: "open segments of small and of large chunks",
            y_title,
            x: Horizontal::Names(
                SEGMENTS.iter().map(|(small, large)| format!("({small},{large})")).collect(),
            ),
            shape: Shape::Bars,
            series: series.to_vec(),
        });
    }
    let figures = [
        ("exp10-15a", "Throughput, closed loop", "throughput (MiB/s)", CLOSED, THROUGHPUT),
        ("exp10-15c", "95th percentile, closed loop", "95th percentile (us)", CLOSED, P95),
        ("exp10-open-p50", "Median latency, open loop", "median latency (us)", OPEN, P50),
        ("exp10-open-p95", "95th percentile, open loop", "95th percentile (us)", OPEN, P95),
    ];
    for (id, title, y_title, workload, metric) in figures {
        let series = scheme::ALL.into_iter().chain([Scheme::Adaptive]).map(|scheme| {
            draft.bars(scheme.name(), &CHUNKS_KIB.map(|chunk| cell(scheme, chunk, workload)), metric)
        });
        let series = series.collect();
        draft.plot(Plot {
            id,
            title,
            caption: "Reads and writes of a trace to one open segment (figure 15); adaptive opens its own.",
            x_title: "chunk size (KiB)",
            y_title,
            x: Horizontal::Names(CHUNKS_KIB.iter().map(u32::to_string).collect()),
            shape: Shape::Bars,
            series,
        });
    }
}
