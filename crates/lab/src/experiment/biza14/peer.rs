//! The write area beside BIZA as published (`crates/lab/src/biza.rs`) and stacks of layers (`stacks.rs`), on the same drives: the bars
//! that name them.

use super::{Drawn, Manner, WORKLOADS, cell, plot_of};
use crate::characterise::plot::Series;
use crate::experiment::draft::{Cell, Draft};
use crate::experiment::measurement::{FLASH_BYTES, Metric, P95, P9999, WRITE_THROUGHPUT};
use crate::experiment::scheme::{Scheme, Stack};
use crate::experiment::setting::Setting;
use crate::precise::precise;

/// Loads where nothing is collected: uniform, hot sets of 4 and 64 MiB, Zipf 0.99 and 1.2.
const PLAIN: [usize; 5] = [0, 3, 7, 12, 14];
const MANNERS: [Manner; 3] = [Manner::Flushed, Manner::Lone, Manner::Deep];
/// Zones of each drive for our write area, or as many as the array can afford.
const AREA_ZONES: u32 = 8;
/// Loads where space is collected: uniform, 64 MiB, Zipf 0.99.
const COLLECTED: [usize; 3] = [0, 7, 12];
/// Per cent in reserve.
const RESERVES: [u32; 3] = [20, 40, 100];
/// Zipf 0.99, and the hot set of 4 MiB.
const ZIPF: usize = 12;
const HOT: usize = 3;
/// Bars: flash bytes with a hot set, by Zipf's law, and of the best row without windows where space is collected.
const HOT_FLASH: f64 = 0.25;
const ZIPF_FLASH: f64 = 0.52;
const PART_OF_FLASH: f64 = 0.50;
/// The peer is not faster by more than this.
const TIMES_THROUGHPUT: f64 = 1.03;

/// The settings: plain ones, then those with collection.
fn settings() -> Vec<Drawn> {
    let plain = PLAIN.into_iter().flat_map(|workload| {
        MANNERS.map(|manner| Drawn { workload, manner, zones: AREA_ZONES, reserved_percent: None })
    });
    let collected = COLLECTED.into_iter().flat_map(|workload| {
        RESERVES.into_iter().flat_map(move |percent| {
            [Manner::Flushed, Manner::Deep].map(|manner| Drawn {
                workload,
                manner,
                zones: AREA_ZONES,
                reserved_percent: Some(percent),
            })
        })
    });
    plain.chain(collected).collect()
}

/// The peer in a setting, with its selector or without.
fn peer(one: Drawn, selects: bool) -> Cell {
    let Cell { setting, .. } = cell(one, None);
    let lifetimes = (!selects).then_some("off");
    Cell { scheme: Scheme::Biza, setting: Setting { write_area_zones: None, lifetimes, ..setting } }
}

/// Stacks of layers: of two that differ in merging the one that merges, which programs less.
const STACKS: [Stack; 4] =
    [Stack::DmZapRaiznMerged, Stack::MdDmZap, Stack::MdDmZapVolatile, Stack::MdConventional];

fn stack(one: Drawn, stack: Stack) -> Cell {
    Cell { scheme: Scheme::Stack(stack), ..peer(one, true) }
}

/// Rows of the plots: ours without a write area, with one, and with one beside a single open segment; the peer; stacks.
const ROWS: [&str; 9] = [
    "adaptive-without",
    "adaptive",
    "zone-write-only",
    "biza-published",
    "biza-published, no selector",
    "dmzap+raizn-merged",
    "mdraid+dmzap",
    "mdraid+dmzap, 56 MiB volatile",
    "mdraid+conventional",
];

fn rows(one: Drawn) -> [Cell; 9] {
    let ours = |scheme, selector| Cell { scheme, ..cell(one, selector) };
    let (without, with) = (ours(Scheme::Adaptive, None), ours(Scheme::Adaptive, Some("levels")));
    let single = ours(Scheme::ZoneWriteOnly, Some("levels"));
    let [raizn, md, volatile, conventional] = STACKS.map(|of| stack(one, of));
    [without, with, single, peer(one, true), peer(one, false), raizn, md, volatile, conventional]
}

fn name_of(one: Drawn) -> String {
    let manner = match one.manner {
        Manner::Flushed => "flushed",
        Manner::Lone => "lone",
        Manner::Deep => "depth 32",
    };
    let reserve = one.reserved_percent.map(|percent| format!(", {percent} % in reserve")).unwrap_or_default();
    format!("{} {manner}{reserve}", WORKLOADS[one.workload].0)
}

pub fn cells() -> Vec<Cell> {
    settings().into_iter().flat_map(rows).collect()
}

pub fn judge(draft: &mut Draft) {
    selector_of_peer(draft);
    for one in settings() {
        judge_setting(draft, one);
    }
    plot(draft);
}

/// Saving by the peer's own selector, seed by seed: geometric means over all settings.
fn selector_of_peer(draft: &mut Draft) {
    let of = |selects| -> Vec<Vec<f64>> {
        settings().into_iter().map(|one| draft.values(&peer(one, selects), FLASH_BYTES)).collect()
    };
    let (on, off) = (of(true), of(false));
    let mean = |seed: usize| {
        let logarithms = on.iter().zip(&off).map(|(on, off)| (on[seed] / off[seed]).ln());
        (logarithms.sum::<f64>() / precise(on.len())).exp()
    };
    let ratios: Vec<f64> = (0..on[0].len()).map(mean).collect();
    let setting = Setting { versus: Some("lifetimes=off".to_owned()), ..Setting::paper(4, 4) };
    let metric = Metric { name: "flash_bytes_ratio", unit: "x" };
    draft.number("biza14-selector-published", Cell { scheme: Scheme::Biza, setting }, metric, &ratios);
}

fn judge_setting(draft: &mut Draft, one: Drawn) {
    let name = name_of(one);
    let of = |draft: &Draft, metric| rows(one).map(|cell| draft.mean(&cell, metric));
    // Where `adaptive` affords no area, the single open segment has one.
    let [without, with, single, biza, plain_biza, raizn, md, volatile, conventional] = of(draft, FLASH_BYTES);
    let own = with.min(single);
    let best = [without, raizn, md, conventional].into_iter().fold(f64::MAX, f64::min);
    let rule = format!("{name}: fewer bytes of flash than mdraid+dmzap with its volatile buffer");
    draft.check(rule, own < volatile);
    draft.check(format!("{name}: at most the bytes of flash of biza-published"), own <= biza.min(plain_biza));
    let [without_area, with_area, single, biza, plain_biza, ..] = of(draft, WRITE_THROUGHPUT);
    let fastest = without_area.max(with_area).max(single);
    let holds = biza.max(plain_biza) <= TIMES_THROUGHPUT * fastest;
    draft.check(format!("{name}: biza-published is at most {TIMES_THROUGHPUT} times as fast"), holds);
    let (rule, holds) = match (one.workload, one.reserved_percent) {
        (HOT, None) => (format!("at most {HOT_FLASH} bytes of flash per byte"), own <= HOT_FLASH),
        (ZIPF, None) => (format!("at most {ZIPF_FLASH} bytes of flash per byte"), own <= ZIPF_FLASH),
        (ZIPF, Some(_)) => (
            format!("at most {PART_OF_FLASH} of the bytes of flash of the best row without windows"),
            own <= PART_OF_FLASH * best,
        ),
        _ => return,
    };
    draft.check(format!("{name}: {rule}"), holds);
}

fn plot(draft: &mut Draft) {
    let titles = [
        (
            ["biza14-peer-flash", "biza14-peer-flash-collected"],
            "Bytes of flash beside BIZA",
            "bytes of flash per byte",
            FLASH_BYTES,
        ),
        (
            ["biza14-peer-throughput", "biza14-peer-throughput-collected"],
            "Throughput beside BIZA",
            "throughput (MiB/s)",
            WRITE_THROUGHPUT,
        ),
        (
            ["biza14-peer-p95", "biza14-peer-p95-collected"],
            "95th percentile beside BIZA",
            "95th percentile (us)",
            P95,
        ),
        (
            ["biza14-peer-p9999", "biza14-peer-p9999-collected"],
            "99.99th percentile beside BIZA",
            "99.99th percentile (us)",
            P9999,
        ),
    ];
    let is_collected = |one: &Drawn| one.reserved_percent.is_some();
    let (collected, plain): (Vec<Drawn>, Vec<Drawn>) = settings().into_iter().partition(is_collected);
    for (ids, title, y_title, metric) in titles {
        for (id, settings) in ids.into_iter().zip([&plain, &collected]) {
            let bars = |row: usize| -> Series {
                let cells: Vec<Cell> = settings.iter().map(|one| rows(*one)[row].clone()).collect();
                draft.bars(ROWS[row], &cells, metric)
            };
            let names = settings.iter().map(|one| name_of(*one));
            let plot = plot_of((id, title, y_title), names, (0..ROWS.len()).map(bars));
            draft.plot(plot);
        }
    }
}
