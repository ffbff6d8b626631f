//! Reads beside writes: observation 11, figure 6.

use super::finding::{Draft, Subject};
use super::numbers::{precise, precise_bytes, readable};
use super::plot::{Horizontal, Plot, Series, Shape};
use super::setting::{Fill, Load, Mixed, READER, Setting, Summary, WRITERS, Which};
use super::transitions;
use crate::workload::What;
use base::units::BLOCK_BYTES_U64;

/// Stability.
pub const OBSERVATION_11: Subject = Subject {
    id: "observation-11",
    title: "Observation 11: stability beside garbage collection",
    statement: "ZNS devices offer more stable read and write performance in the presence of concurrent \
                write-triggered garbage collections than ordinary NVMe devices.",
    paper: "Zoned Namespaces",
    find: observation_11,
};

/// Limits of all writers together: those of the text, and what its jobs did.
const LIMITS_MIB_S: [f64; 3] = [250.0, 750.0, 1000.0];

/// Writers at full speed beside a reader; reader first.
pub fn at_peak(draft: &Draft, which: Which, reader_depth: u32) -> Option<Vec<Summary>> {
    draft.all(&Setting::Mixed(Mixed { which, limit_mib_s: None, writers: true, reader_depth }))
}

fn idle(draft: &Draft, which: Which) -> Option<Summary> {
    let mixed = Mixed { which, limit_mib_s: None, writers: false, reader_depth: 1 };
    draft.one(&Setting::Mixed(mixed), READER)
}

fn limited(draft: &Draft, limit_mib_s: f64) -> Option<Vec<Summary>> {
    let which = Which::Zoned;
    let limit_mib_s = Some(limit_mib_s);
    draft.all(&Setting::Mixed(Mixed { which, limit_mib_s, writers: true, reader_depth: 32 }))
}

/// Time to fill a zone at the rate of writers at full speed.
pub fn fill_seconds(draft: &Draft) -> Option<f64> {
    let rate_mib_s = at_peak(draft, Which::Zoned, 32)?[WRITERS].mib_s;
    let blocks = u64::from(draft.drive().geometry.zone_capacity_blocks);
    Some(precise_bytes(blocks * BLOCK_BYTES_U64) / 1_048_576.0 / rate_mib_s)
}

fn observation_11(draft: &mut Draft) -> Option<()> {
    let zoned = at_peak(draft, Which::Zoned, 32)?;
    zoned_alone(draft, &zoned)?;
    for limit in LIMITS_MIB_S {
        let found = limited(draft, limit)?;
        let figures = percent(found[WRITERS].fluctuation());
        let steady = found[WRITERS].fluctuation() < 0.05;
        draft.check(
            format!("zoned drive, writes limited to {limit} MiB/s: they vary by {figures} (< 5 %)"),
            steady,
        );
    }
    let figures = percent(zoned[WRITERS].fluctuation());
    draft.check(
        format!("zoned drive at its peak: writes vary by {figures} (< 5 %)"),
        zoned[WRITERS].fluctuation() < 0.05,
    );
    let figures = percent(zoned[READER].fluctuation());
    draft.check(
        format!("zoned drive at its peak: reads vary by {figures} (< 15 %)"),
        zoned[READER].fluctuation() < 0.15,
    );
    let conventional = at_peak(draft, Which::Conventional, 32)?;
    for (name, program, share) in [("writes", WRITERS, 0.2), ("reads", READER, 0.2)] {
        let (ours, theirs) = (zoned[program].fluctuation(), conventional[program].fluctuation());
        draft.check(
            format!("conventional drive: {name} vary by {} (> 20 %, > 3 x the zoned drive)", percent(theirs)),
            theirs > share && theirs > 3.0 * ours,
        );
    }
    conventional_alone(draft, &conventional)?;
    plots(draft, &zoned, &conventional);
    draft.note(
        "\"Varies by\" is the standard deviation of the throughput of single seconds as a share of its mean. The \
         published jobs are four writers of 1-MiB requests at depth 32 and limits per job; the text says 128 KiB, \
         depth 8 and limits in total.",
    );
    Some(())
}

fn percent(share: f64) -> String {
    format!("{} %", readable(share * 100.0))
}

fn zoned_alone(draft: &mut Draft, at_peak_32: &[Summary]) -> Option<()> {
    let lone = at_peak(draft, Which::Zoned, 1)?[READER].p95_us;
    let idle = idle(draft, Which::Zoned)?.p95_us;
    draft.published("11-peak-zoned", at_peak_32[WRITERS].mib_s);
    draft.published("11-peak-other", at_peak_32[WRITERS].mib_s);
    draft.published("11-read-p95-zoned", lone / 1000.0);
    draft.published("11-read-p95-idle-zoned", idle);
    draft.published("11-read-p95-factor", lone / idle);
    let reset_s = transitions::reset(draft, Fill::Full, false)?.mean_us / 1e6;
    draft.published("11-reset-share", reset_s / fill_seconds(draft)? * 100.0);
    draft.ours(
        "11-read-zoned",
        "reads at depth 32 beside writes at the peak, zoned drive",
        at_peak_32[READER].mib_s,
        "MiB/s",
    );
    Some(())
}

fn conventional_alone(draft: &mut Draft, at_peak_32: &[Summary]) -> Option<()> {
    let lone = at_peak(draft, Which::Conventional, 1)?[READER].p95_us;
    let idle = idle(draft, Which::Conventional)?.p95_us;
    let sequential = Load { which: Which::Conventional, ..Load::new(What::Write, 131_072).depth(8) };
    draft.published("11-peak-conventional", draft.load(sequential)?.mib_s);
    draft.published("11-conventional-most", at_peak_32[WRITERS].second_most());
    draft.ours(
        "11-conventional-least",
        "conventional drive, worst second of writing (\"a few MiB/s\")",
        at_peak_32[WRITERS].second_least(),
        "MiB/s",
    );
    draft.published("11-read-p95-conventional", lone / 1000.0);
    draft.published("11-read-p95-idle-conventional", idle);
    draft.ours(
        "11-read-conventional",
        "reads at depth 32 beside writes, conventional drive",
        at_peak_32[READER].mib_s,
        "MiB/s",
    );
    Some(())
}

fn plots(draft: &mut Draft, zoned: &[Summary], conventional: &[Summary]) {
    let points = |summary: &Summary| -> Vec<(f64, f64)> {
        (0..summary.by_second.len())
            .map(|second| precise(second) + 1.0)
            .zip(summary.by_second.iter().copied())
            .collect()
    };
    for (program, id, title, y_title) in [
        (WRITERS, "6a", "Writes beside reads, over time", "write throughput (MiB/s)"),
        (READER, "6b", "Reads beside writes, over time", "read throughput (MiB/s)"),
    ] {
        draft.plot(Plot {
            id,
            title,
            caption: "Four writers of 1-MiB requests at depth 32 without a limit, one reader of 4 KiB at depth 32; \
                      each point is one second (figure 6, which shows minutes).",
            x_title: "time (s)",
            y_title,
            x: Horizontal::Numbers,
            shape: Shape::Curves,
            series: vec![
                Series::by_number("zoned drive", points(&zoned[program])),
                Series::by_number("conventional drive", points(&conventional[program])),
            ],
        });
    }
}
