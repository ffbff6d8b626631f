//! Channels: how soon it is known which zones of a drive share a channel group, and whether that is right ever after (ADR 76).
//!
//! One modelled drive with so many groups, whose zones lie on them by a rule, but for a share of exceptions that are drawn whenever a
//! zone is opened. Clients write a little to some zones, and the collector moves victims to another in bursts (`load.rs`). What is
//! believed is held against the drive after every opening and flip, and when a victim has been moved. `adaptive` is our detector,
//! `biza-published` that of the peer; both are told the same writes.

mod detector;
mod load;

use super::draft::{Cell, Draft};
use super::measurement::{Metric, Value};
use super::scheme::Scheme;
use super::setting::Setting;
use super::{Conditions, Experiment};
use crate::characterise::plot::{Horizontal, Plot, Series, Shape};
use crate::precise::{precise, precise_u64};
use anyhow::{Context, Result};
use detector::Detector;
use drive::timing::Profile;
use load::{Clock, Load};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "channels",
    title: "Channels: which zones share a channel group",
    statement: "Guesses by order of opening are put right by writes that are slow beside others, and stay right.",
    run_ms: 1_600,
    cells,
    alike: Cell::clone,
    measure,
    judge,
};

/// Rules by which zones lie on groups; exceptions of them, per cent; groups.
const MAPS: [&str; 2] = ["opening", "number"];
const RANDOM: &str = "random";
const WRONG_PERCENT: [u32; 3] = [0, 25, 50];
const GROUPS: [u32; 6] = [1, 2, 3, 4, 6, 8];
/// Beside these, a load under which nothing waits: guesses are right and must stay.
const QUIET: &str = "quiet";
const QUIET_GROUPS: u32 = 2;
const QUIET_WRITES: u64 = 1_000_000;
const SCHEMES: [Scheme; 2] = [Scheme::Adaptive, Scheme::Biza];
/// Victims that are moved, and until when all open zones are to be right.
const VICTIMS: u64 = 128;
const VICTIMS_MAX: f64 = 64.0;
/// Share of open zones that are to be right from then on.
const RIGHT_PERCENT: f64 = 99.0;

const VICTIMS_UNTIL_RIGHT: Metric = Metric { name: "victims_until_right", unit: "victims" };
const WRITES_UNTIL_RIGHT: Metric = Metric { name: "writes_until_right", unit: "writes" };
const RIGHT_AFTER: Metric = Metric { name: "right_percent_after", unit: "%" };
const FLIPS: Metric = Metric { name: "flips", unit: "flips" };
const FALSE_FLIPS: Metric = Metric { name: "false_flips", unit: "flips" };
/// All of them.
pub(super) const METRICS: [Metric; 5] =
    [VICTIMS_UNTIL_RIGHT, WRITES_UNTIL_RIGHT, RIGHT_AFTER, FLIPS, FALSE_FLIPS];

fn cell(scheme: Scheme, map: &'static str, groups: u32, wrong_percent: u32) -> Cell {
    let setting = Setting {
        drives: 1,
        level: 0,
        queue_depth: None,
        workload: Some(map),
        channel_groups: Some(groups),
        wrong_percent: Some(wrong_percent),
        request_kib: None,
        ..Setting::paper(0, 4)
    };
    Cell { scheme, setting }
}

/// Maps with their exceptions: by chance there are none, and on one group nothing can be wrong.
fn maps(groups: u32) -> Vec<(&'static str, u32)> {
    if groups == 1 {
        return vec![("number", 0)];
    }
    let ruled = MAPS.into_iter().flat_map(|map| WRONG_PERCENT.map(|wrong| (map, wrong)));
    ruled.chain([(RANDOM, 0)]).collect()
}

fn cells() -> Vec<Cell> {
    let of = |scheme: Scheme| {
        let busy = GROUPS
            .into_iter()
            .flat_map(move |groups| maps(groups).into_iter().map(move |map| (map, groups)))
            .map(move |((map, wrong), groups)| cell(scheme, map, groups, wrong));
        busy.chain([cell(scheme, QUIET, QUIET_GROUPS, 0)])
    };
    SCHEMES.into_iter().flat_map(of).collect()
}

/// Verdict on a detector over a run.
#[derive(Default)]
struct Verdict {
    victims: u64,
    /// Victims and writes after which all open zones were right for the first time.
    right_since: Option<(u64, u64)>,
    /// Writes since then, and the sum of the shares of open zones that were right at each.
    writes_since: u64,
    shares: f64,
    false_flips: u64,
    /// Flips and openings that were seen, and the share that was right since.
    seen: (u64, u32),
    share: f64,
}

impl Verdict {
    /// A flip after which fewer zones are right than before is false.
    fn note_change(&mut self, load: &Load, detector: &Detector) {
        let seen = (detector.flips(), load.openings());
        if seen == self.seen {
            return;
        }
        let share = share_right(load, detector);
        self.false_flips += u64::from(seen.0 > self.seen.0 && seen.1 == self.seen.1 && share < self.share);
        (self.seen, self.share) = (seen, share);
    }

    /// So many writes are done.
    fn note_writes(&mut self, count: u64) {
        if self.right_since.is_some() {
            self.writes_since += count;
            self.shares += self.share * precise_u64(count);
        }
    }

    fn note_victim(&mut self, writes: u64) {
        self.victims += 1;
        if self.share >= 1.0 && self.right_since.is_none() {
            self.right_since = Some((self.victims, writes));
        }
    }
}

fn measure(cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    let setting = &cell.setting;
    let map = setting.workload.context("a map")?;
    let groups = setting.channel_groups.context("groups")?;
    let wrong = setting.wrong_percent.context("a share of exceptions")?;
    let profile = Profile::load(setting.profile)?.with_groups(groups);
    let is_quiet = map == QUIET;
    let clock = Clock {
        map: if is_quiet { MAPS[0] } else { map },
        wrong_percent: wrong,
        is_quiet,
        seed: conditions.seed,
    };
    let mut detector = Detector::new(cell.scheme, load::ZONES);
    let mut load = Load::new(&profile, &clock, &mut detector);
    let mut verdict = Verdict::default();
    let victims = conditions.scaled(VICTIMS);
    let quiet_writes = conditions.scaled(QUIET_WRITES);
    while if is_quiet { load.writes() < quiet_writes } else { verdict.victims < victims } {
        let before = load.writes();
        let victim_ended = load.step(&mut detector);
        verdict.note_change(&load, &detector);
        verdict.note_writes(load.writes() - before);
        if victim_ended {
            verdict.note_victim(load.writes());
        }
    }
    Ok(values(&verdict, &load, &detector))
}

/// Values of a verdict. Where it was never right, all victims and writes stand for when, and no share for how it stayed.
fn values(verdict: &Verdict, load: &Load, detector: &Detector) -> Vec<Value> {
    let (victims, writes) = verdict.right_since.unwrap_or((verdict.victims, load.writes()));
    let right = 100.0 * verdict.shares / precise_u64(verdict.writes_since.max(1));
    let values = [
        precise_u64(victims),
        precise_u64(writes),
        right,
        precise_u64(detector.flips()),
        precise_u64(verdict.false_flips),
    ];
    METRICS.into_iter().zip(values).map(|(metric, value)| Value { metric, value }).collect()
}

/// Share of open zones whose group is right, where each believed group stands for the one of the drive with which most are right.
fn share_right(load: &Load, detector: &Detector) -> f64 {
    let open: Vec<(u32, u32)> = load.open_zones().collect();
    let label = |zone: u32| open.iter().position(|(first, _)| *first == zone || detector.share(*first, zone));
    let mut counts = vec![[0_u32; GROUPS_MAX]; open.len()];
    for (zone, group) in &open {
        counts[label(*zone).expect("a zone shares with itself")][*group as usize] += 1;
    }
    // Best sum for each set of groups that are taken.
    let mut best = [0_u32; 1 << GROUPS_MAX];
    for row in counts.iter().filter(|row| row.iter().any(|count| *count > 0)) {
        for taken in (0..best.len()).rev() {
            for (group, count) in row.iter().enumerate().filter(|(group, _)| taken >> group & 1 == 1) {
                best[taken] = best[taken].max(best[taken & !(1 << group)] + count);
            }
        }
    }
    f64::from(best[best.len() - 1]) / precise(open.len())
}

/// The most groups of the experiment.
const GROUPS_MAX: usize = 8;

fn judge(draft: &mut Draft) {
    for groups in GROUPS {
        for (map, wrong) in maps(groups) {
            let cell = cell(Scheme::Adaptive, map, groups, wrong);
            let name = format!("{groups} groups, {map}, {wrong} % exceptions");
            let victims = draft.mean(&cell, VICTIMS_UNTIL_RIGHT);
            draft.check(
                format!("{name}: all open zones are right after {VICTIMS_MAX} victims"),
                victims <= VICTIMS_MAX,
            );
            let right = draft.mean(&cell, RIGHT_AFTER);
            draft.check(format!("{name}: {RIGHT_PERCENT} % are right ever after"), right >= RIGHT_PERCENT);
        }
    }
    let quiet = cell(Scheme::Adaptive, QUIET, QUIET_GROUPS, 0);
    draft.check("no flip in a million writes of which none waits", draft.mean(&quiet, FLIPS) == 0.0);
    for (id, title, metric) in [
        ("channels-victims", "Victims until all open zones are right", VICTIMS_UNTIL_RIGHT),
        ("channels-right", "Right ever after", RIGHT_AFTER),
    ] {
        let line = |scheme: Scheme| {
            let values = GROUPS[1..]
                .iter()
                .map(|groups| Some(draft.mean(&cell(scheme, MAPS[0], *groups, WRONG_PERCENT[2]), metric)));
            Series::by_name(scheme.name(), values)
        };
        let plot = Plot {
            id,
            title,
            caption: "By order of opening, half of the zones elsewhere.",
            x_title: "channel groups",
            y_title: metric.unit,
            x: Horizontal::Names(GROUPS[1..].iter().map(u32::to_string).collect()),
            shape: Shape::Bars,
            series: SCHEMES.map(line).to_vec(),
        };
        draft.plot(plot);
    }
}
