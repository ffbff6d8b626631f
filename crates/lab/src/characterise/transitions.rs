//! What the life of a zone costs: observations 9 and 10, figure 5.

use super::finding::{Draft, Subject};
use super::numbers::{are_close, least, linearity, readable, rises};
use super::plot::{Horizontal, Plot, Series, Shape};
use super::setting::{CLOSE, FIRST, Fill, LATER, Managed, OPEN, Opening, Setting, Summary};
use crate::workload::ManageOp;

const PAPER: &str = "Zoned Namespaces";

const RESET_FILLS: [Fill; 7] = [
    Fill::Empty,
    Fill::OneBlock,
    Fill::Sixteenths(1),
    Fill::Sixteenths(2),
    Fill::Sixteenths(4),
    Fill::Sixteenths(8),
    Fill::Full,
];

const FINISH_FILLS: [Fill; 6] = [
    Fill::OneBlock,
    Fill::Sixteenths(1),
    Fill::Sixteenths(2),
    Fill::Sixteenths(4),
    Fill::Sixteenths(8),
    Fill::AllButOne,
];

/// Opening and closing.
pub const OBSERVATION_9: Subject = Subject {
    id: "observation-9",
    title: "Observation 9: opening and closing zones",
    statement: "There is no performance difference between explicit and implicit zone open transitions, and the cost \
                of opening/closing is marginal.",
    paper: PAPER,
    find: observation_9,
};

/// Resetting and finishing.
pub const OBSERVATION_10: Subject = Subject {
    id: "observation-10",
    title: "Observation 10: reset and finish by occupancy",
    statement: "Zone occupancy has a significant impact on the performance of both reset and finish operations.",
    paper: PAPER,
    find: observation_10,
};

/// The life of zones that are opened in one way.
fn opening(draft: &Draft, explicit: bool, appends: bool) -> Option<Vec<Summary>> {
    draft.all(&Setting::Opening(Opening { explicit, appends }))
}

fn observation_9(draft: &mut Draft) -> Option<()> {
    let write = [opening(draft, true, false)?, opening(draft, false, false)?];
    let append = [opening(draft, true, true)?, opening(draft, false, true)?];
    let (open_us, close_us) = (write[0][OPEN].mean_us, write[0][CLOSE].mean_us);
    draft.published("9-open", open_us);
    draft.published("9-close", close_us);
    let beyond = |found: &[Summary]| found[FIRST].mean_us - found[LATER].mean_us;
    draft.published("9-first-write", beyond(&write[1]));
    draft.published("9-first-write-share", beyond(&write[1]) / write[1][LATER].mean_us * 100.0);
    draft.published("9-first-append", beyond(&append[1]));
    draft.published("9-first-append-share", beyond(&append[1]) / append[1][LATER].mean_us * 100.0);
    for (name, found) in [("writes", &write), ("appends", &append)] {
        let (explicit, implicit) = (&found[0], &found[1]);
        let figures =
            format!("{} and {} us", readable(explicit[LATER].mean_us), readable(implicit[LATER].mean_us));
        let same = are_close(explicit[LATER].mean_us, implicit[LATER].mean_us, 0.02);
        draft.check(format!("{name} take the same in either kind of open zone (2 %): {figures}"), same);
        let same = are_close(explicit[CLOSE].mean_us, implicit[CLOSE].mean_us, 0.02);
        draft.check(format!("closing takes the same after {name} in either kind (2 %)"), same);
        let cheaper = beyond(implicit) < explicit[OPEN].mean_us;
        draft.check(format!("opening by {name} costs less than an open command"), cheaper);
    }
    let full = reset(draft, Fill::Full, false)?.mean_us;
    let marginal = open_us + close_us < 0.01 * full;
    draft.check("opening and closing take less than 1 % of a reset of a full zone", marginal);
    Some(())
}

fn managed(draft: &Draft, op: ManageOp, fill: Fill, finished: bool) -> Option<Summary> {
    draft.one(&Setting::Managed(Managed { op, fill, finished }), 0)
}

/// Resets of zones that are this full.
pub fn reset(draft: &Draft, fill: Fill, finished: bool) -> Option<Summary> {
    managed(draft, ManageOp::Reset, fill, finished)
}

/// Finishes of zones that are this full.
pub fn finish(draft: &Draft, fill: Fill) -> Option<Summary> {
    managed(draft, ManageOp::Finish, fill, false)
}

/// Means in milliseconds.
pub fn resets_ms(draft: &Draft, finished: bool) -> Option<Vec<f64>> {
    let fills = RESET_FILLS.iter().map(|fill| match fill {
        Fill::Full if finished => Fill::AllButOne,
        fill => *fill,
    });
    fills.map(|fill| Some(reset(draft, fill, finished)?.mean_us / 1000.0)).collect()
}

/// Means in milliseconds.
pub fn finishes_ms(draft: &Draft) -> Option<Vec<f64>> {
    FINISH_FILLS.iter().map(|fill| Some(finish(draft, *fill)?.mean_us / 1000.0)).collect()
}

/// Returns how well a straight line in occupancy explains the times of finishes.
pub fn finish_linearity(finishes_ms: &[f64]) -> f64 {
    let points: Vec<(f64, f64)> =
        FINISH_FILLS.iter().map(|fill| fill.percent()).zip(finishes_ms.iter().copied()).collect();
    linearity(&points)
}

/// Returns how well a straight line in occupancy explains the times of resets.
pub fn reset_linearity(resets_ms: &[f64]) -> f64 {
    let points: Vec<(f64, f64)> =
        RESET_FILLS.iter().map(|fill| fill.percent()).zip(resets_ms.iter().copied()).collect();
    linearity(&points)
}

fn observation_10(draft: &mut Draft) -> Option<()> {
    let resets = resets_ms(draft, false)?;
    let finished = resets_ms(draft, true)?;
    let finishes = finishes_ms(draft)?;
    let (half, full) = (5, 6);
    draft.published("10-reset-half", resets[half]);
    draft.published("10-reset-full", resets[full]);
    draft.published("10-reset-finished-saves", resets[half] - finished[half]);
    draft.published("10-reset-finished-saves-share", (1.0 - finished[half] / resets[half]) * 100.0);
    draft.published("10-finish-block", finishes[0]);
    draft.published("10-finish-full", finishes[5]);
    draft.published("10-finish-factor", finishes[0] / finishes[5]);
    for (fill, (plain, finished)) in RESET_FILLS.iter().zip(resets.iter().zip(&finished)) {
        let label = fill.label();
        draft.ours(&format!("10-reset-{label}"), &format!("reset, {label}"), *plain, "ms");
        draft.ours(
            &format!("10-reset-finished-{label}"),
            &format!("reset, {label}, finished"),
            *finished,
            "ms",
        );
    }
    for (fill, finish) in FINISH_FILLS.iter().zip(&finishes) {
        let label = fill.label();
        draft.ours(&format!("10-finish-{label}"), &format!("finish, {label}"), *finish, "ms");
    }
    draft.check(
        "resets take longer the more is written",
        rises(&resets[1..], 0.0) && rises(&finished[1..], 0.0),
    );
    draft.check(
        "a full zone takes more than five times as long as an empty one",
        resets[full] > 5.0 * resets[0],
    );
    let faster = (2..=half).all(|place| finished[place] < resets[place]);
    draft.check("finished zones are reset faster", faster);
    let falls: Vec<f64> = finishes.iter().rev().copied().collect();
    draft.check("finishes take less the more is written", rises(&falls, 0.0));
    let straight = finish_linearity(&finishes);
    draft.check(format!("and that on a straight line (R2 = {})", readable(straight)), straight > 0.99);
    let costly = least(finishes[..5].iter().zip(&resets[1..6]).map(|(finish, reset)| finish / reset));
    draft.check(
        format!(
            "finishing a partly written zone takes {} times as long as resetting it, or more",
            readable(costly)
        ),
        costly > 10.0,
    );
    draft.plot(plot_5a(draft, &resets, &finished));
    draft.plot(plot_5b(draft, &finishes));
    draft.note(
        "The paper's 1.08 ms for an empty zone (figure 5a) mixes a run of valid resets (1.61 ms) with one whose \
         commands failed without reaching the drive.",
    );
    Some(())
}

fn plot_5a(draft: &Draft, resets: &[f64], finished: &[f64]) -> Plot {
    let series = |name: &str, values: &[f64]| Series::by_name(name, values.iter().map(|value| Some(*value)));
    Plot {
        id: "5a",
        title: "Reset by occupancy",
        caption: "Mean latency of resets on an idle drive (figure 5a). A zone cannot be finished when it is full: \
                  there, all but its last block is written.",
        x_title: "written share of the zone",
        y_title: "mean latency (ms)",
        x: Horizontal::Names(RESET_FILLS.iter().map(|fill| fill.label()).collect()),
        shape: Shape::Bars,
        series: vec![
            series("not finished", resets),
            series("finished before", finished),
            Series::quoted([(4.81, draft.quoted("10-reset-half")), (5.81, draft.quoted("10-reset-full"))]),
        ],
    }
}

fn plot_5b(draft: &Draft, finishes: &[f64]) -> Plot {
    Plot {
        id: "5b",
        title: "Finish by occupancy",
        caption: "Mean latency of finishes on an idle drive (figure 5b).",
        x_title: "written share of the zone",
        y_title: "mean latency (ms)",
        x: Horizontal::Names(FINISH_FILLS.iter().map(|fill| fill.label()).collect()),
        shape: Shape::Bars,
        series: vec![
            Series::by_name("finish", finishes.iter().map(|value| Some(*value))),
            Series::quoted([(0.0, draft.quoted("10-finish-block")), (5.0, draft.quoted("10-finish-full"))]),
        ],
    }
}
