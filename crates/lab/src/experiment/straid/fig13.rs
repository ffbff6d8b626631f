//! What a write costs by its parts, and in all (StRAID figures 13 and 14).
//!
//! The paper has processor time by function, the kernel's included. Ours are instructions of the engine by part of a write, as callgrind
//! counts them; members answer at once, so that what the kernel takes for their commands is not among them.

use super::super::draft::{Cell, Draft};
use super::super::measurement::{Metric, Value};
use super::super::{Conditions, Experiment};
use super::counted::{
    INSTRUCTIONS, LOCK_SHARE, LOCKS, MD_OVER, cells as cells_of, count, md_cell, name, per_mib,
};
use crate::characterise::plot::{Horizontal, Plot, Series, Shape};
use crate::md_cost::profile::{PARTS, Part};
use crate::precise::precise_u64;
use anyhow::Result;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "straid-fig13",
    title: "StRAID figures 13 and 14: instructions by part of a write, and per MiB",
    statement: "Locks take 5.1 % of the time of partial writes and 1.3 % of whole stripes; md takes up to 6.3 times the processor time.",
    run_ms: 15_000,
    cells,
    alike: Cell::clone,
    measure,
    judge,
};

/// Instructions of each part for a MiB, in the order of [`PARTS`], and of all.
pub const METRICS: [Metric; PARTS.len() + 1] = {
    const fn per_mib(name: &'static str) -> Metric {
        Metric { name, unit: "" }
    }
    [
        per_mib("instructions_per_mib_lab"),
        per_mib("instructions_per_mib_cut"),
        per_mib("instructions_per_mib_rounds"),
        per_mib("instructions_per_mib_reads"),
        per_mib("instructions_per_mib_parities"),
        per_mib("instructions_per_mib_cache"),
        per_mib("instructions_per_mib_logs"),
        per_mib("instructions_per_mib_writes"),
        per_mib("instructions_per_mib_members"),
        per_mib("instructions_per_mib_replies"),
        per_mib("instructions_per_mib_shared"),
        per_mib("instructions_per_mib"),
    ]
};
const ALL: Metric = METRICS[PARTS.len()];
/// Share of the parities.
const PARITY_SHARE: Metric = Metric { name: "parity_share", unit: "percent" };

const PARTIAL: &str = "r5-5+1/random-write-64k-qd16";
const WHOLE: &str = "r5-5+1/random-write-320k-qd8";
const NAMES: [&str; 8] = [
    "r5-5+1/random-write-4k-qd32",
    PARTIAL,
    WHOLE,
    "r5-5+1/random-write-1m-qd8",
    "r6-4+2/random-write-4k-qd32",
    "r6-4+2/random-write-64k-qd16",
    "r6-4+2/random-write-256k-qd8",
    "r5-3+1-bitmap/random-write-4k-qd32",
];

fn cells() -> Vec<Cell> {
    cells_of(&NAMES)
}

fn measure(cell: &Cell, _: Conditions) -> Result<Vec<Value>> {
    let (md, profile, mut values) = count(cell)?;
    let parts = PARTS.map(|part| per_mib(&md, &profile, part));
    let all = precise_u64(profile.sum) / precise_u64(md.requests() * md.bytes) * f64::from(1 << 20);
    let with_sum = METRICS.into_iter().zip(parts.into_iter().chain([all]));
    values.extend(with_sum.map(|(metric, value)| Value { metric, value }));
    Ok(values)
}

/// The metric of a part.
fn metric(part: Part) -> Metric {
    let place = PARTS.iter().position(|other| *other == part).expect("a part");
    METRICS[place]
}

/// Shares of one metric in another, by seed.
fn shares(draft: &Draft, cell: &Cell, of: Metric, all: Metric) -> Vec<f64> {
    let (of, all) = (draft.values(cell, of), draft.values(cell, all));
    of.iter().zip(&all).map(|(of, all)| 100.0 * of / all).collect()
}

fn judge(draft: &mut Draft) {
    let [partial, whole] = [PARTIAL, WHOLE].map(|name| cells_of(&[name]).remove(0));
    for (id, cell) in [("straid-lock-partial", &partial), ("straid-lock-whole", &whole)] {
        let share = shares(draft, cell, LOCKS, INSTRUCTIONS);
        draft.number(id, cell.clone(), LOCK_SHARE, &share);
    }
    let share = shares(draft, &whole, metric(Part::Parity), ALL);
    draft.number("straid-xor-whole", whole.clone(), PARITY_SHARE, &share);
    for cell in [&partial, &whole] {
        let Some(md) = md_cell(cell).md_instructions else { continue };
        let over: Vec<f64> = draft.values(cell, INSTRUCTIONS).iter().map(|all| md / all).collect();
        draft.number("straid-md-cpu", cell.clone(), MD_OVER, &over);
    }
    let [small, large] = [&partial, &whole].map(|cell| draft.mean(cell, ALL));
    draft.check("a MiB in whole stripes takes fewer instructions than in chunks", large < small);
    let is_free = cells().iter().all(|cell| draft.mean(cell, LOCKS) == 0.0);
    draft.check("no write takes a lock", is_free);
    plot_shares(draft);
    plot_sums(draft);
}

fn plot_shares(draft: &mut Draft) {
    let bars = |part: Part| {
        let share = |cell: &Cell| 100.0 * draft.mean(cell, metric(part)) / draft.mean(cell, ALL);
        Series::by_name(part.name(), cells().iter().map(|cell| Some(share(cell).round())))
    };
    let series = PARTS.map(bars).to_vec();
    draft.plot(Plot {
        id: "straid-13",
        title: "Instructions by part of a write",
        caption: "Shares in percent; members answer at once (figure 13).",
        x_title: "array and request",
        y_title: "percent",
        x: Horizontal::Names(cells().iter().map(name).collect()),
        shape: Shape::Bars,
        series,
    });
}

fn plot_sums(draft: &mut Draft) {
    let million = |value: f64| (value / 10_000.0).round() / 100.0;
    let ours = cells().iter().map(|cell| Some(million(draft.mean(cell, ALL)))).collect::<Vec<_>>();
    let md = |cell: &Cell| {
        let md = md_cell(cell);
        let requests = f64::from(1 << 20) / precise_u64(md.bytes);
        Some(million(md.md_instructions? * requests))
    };
    let md: Vec<_> = cells().iter().map(md).collect();
    let md = Series { published: true, ..Series::by_name("Linux md, measured", md) };
    draft.plot(Plot {
        id: "straid-14",
        title: "Instructions for a MiB",
        caption: "From submit to reply, members that answer at once; md's with its client and null_blk (figure 14).",
        x_title: "array and request",
        y_title: "million instructions per MiB",
        x: Horizontal::Names(cells().iter().map(name).collect()),
        shape: Shape::Bars,
        series: vec![Series::by_name("ours", ours), md],
    });
}
