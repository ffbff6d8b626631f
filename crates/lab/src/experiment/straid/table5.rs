//! Sizes of the parity cache with `prxy_0` (StRAID table 5).

use super::super::Experiment;
use super::super::draft::{Cell, Draft};
use super::super::measurement::{DRIVE_READS, THROUGHPUT};
use super::super::scheme::InPlace;
use super::super::setting::Setting;
use super::made_up::PRXY_0;
use super::traces::{self, CACHE_HITS, measure};
use crate::characterise::plot::{Horizontal, Plot, Series, Shape};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "straid-table5",
    title: "StRAID table 5: size of the cache, with prxy_0",
    statement: "A cache of 64 MiB has most of what can be had, and writes are faster for it.",
    run_ms: 1_500,
    cells,
    alike: Cell::clone,
    measure,
    judge,
};

/// Sizes, and the hit ratio that the paper has with each.
const SIZES: [(u32, Option<&str>); 5] = [
    (0, None),
    (4, Some("straid-cache-hits-4m")),
    (16, Some("straid-cache-hits-16m")),
    (64, Some("straid-cache-hits-64m")),
    (256, Some("straid-cache-hits-256m")),
];
const USUAL_MIB: u32 = 64;
const VARIANTS: [InPlace; 2] = [InPlace::Straid, InPlace::Adaptive];

fn of(variant: InPlace, mib: u32) -> Cell {
    let variant = if variant == InPlace::Adaptive && mib == 0 { InPlace::NoCache } else { variant };
    let own = traces::cell(variant, 5, PRXY_0);
    Cell { setting: Setting { cache_mib: Some(mib), ..own.setting }, ..own }
}

fn cells() -> Vec<Cell> {
    VARIANTS.into_iter().flat_map(|variant| SIZES.map(|(mib, _)| of(variant, mib))).collect()
}

fn judge(draft: &mut Draft) {
    for variant in VARIANTS {
        for (mib, id) in SIZES {
            if let Some(id) = id {
                draft.value(id, &of(variant, mib), CACHE_HITS);
            }
        }
        let [usual, none] = [USUAL_MIB, 0].map(|mib| of(variant, mib));
        draft.ratio("straid-cache-gain", (&usual, &none), THROUGHPUT, "cache_mib=0");
    }
    let names: Vec<String> = SIZES.iter().map(|(mib, _)| mib.to_string()).collect();
    for (id, title, y_title, metric) in [
        ("straid-table5a", "Hit ratio", "hits of blocks needed", CACHE_HITS),
        ("straid-table5b", "Throughput", "throughput (MiB/s)", THROUGHPUT),
        ("straid-table5c", "Reads that writes cause", "blocks read per block written", DRIVE_READS),
    ] {
        let bars = |variant: InPlace| {
            let name = traces::cell(variant, 5, PRXY_0).scheme.name();
            draft.bars(name, &SIZES.map(|(mib, _)| of(variant, mib)), metric)
        };
        let mut series = VARIANTS.map(bars).to_vec();
        if metric == CACHE_HITS {
            let quoted = SIZES.map(|(_, id)| id.map(|id| draft.quoted(id)));
            series.push(Series::quoted((0..).map(f64::from).zip(quoted)));
        }
        draft.plot(Plot {
            id,
            title,
            caption: "prxy_0 by 32 clients on RAID-5, 5+1, chunks of 8 KiB (table 5).",
            x_title: "cache (MiB)",
            y_title,
            x: Horizontal::Names(names.clone()),
            shape: Shape::Bars,
            series,
        });
    }
}
