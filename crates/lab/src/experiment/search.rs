//! What a search of the stripe table takes on this processor, by the size of groups (sections 3.2 and 5.2, Exp#3).
//!
//! A degraded read looks its stripe's chunks up in the group, one zone of each drive that is left. Virtual time counts
//! drives only, so this is on the wall clock, and no part of the latencies of experiments 2 and 3.

use super::design::layout_of;
use super::draft::{Cell, Draft};
use super::measurement::{Metric, Value};
use super::scheme::{GROUP_STRIPES, Scheme};
use super::setting::Setting;
use super::{Conditions, Experiment};
use crate::precise::precise_u64;
use anyhow::Result;
use base::random::Random;
use std::hint::black_box;
use std::time::Instant;
use zone::stripe::table::{Packing, StripeTable};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "search",
    title: "Search of the stripe table, wall clock (sections 3.2 and 5.2)",
    statement: "A search for the chunks of a stripe in a group of 256 takes about 1 us; it grows with the group.",
    run_ms: 50,
    cells,
    alike: Cell::clone,
    measure,
    judge,
};

/// Median time of the search for one stripe, on all drives that are left.
pub const SEARCH: Metric = Metric { name: "stripe_table_search_us", unit: "us" };
const GROUPS: [u32; 6] = [4, 16, 64, 256, 1024, 4096];
const SEARCHES: usize = 2000;

fn cell(scheme: Scheme, group: Option<u32>) -> Cell {
    let setting = Setting { group, request_kib: None, queue_depth: None, ..Setting::paper(4, 4) };
    Cell { scheme, setting }
}

fn cells() -> Vec<Cell> {
    let mut cells = GROUPS.map(|group| cell(Scheme::ZapRaid, Some(group))).to_vec();
    cells.push(cell(Scheme::ZoneAppendOnly, None));
    cells
}

/// Fills the first group of each zone in random order and searches for stripes.
fn measure(cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    let setting = &cell.setting;
    let layout = layout_of(cell)?;
    let mut random = Random::from_seed(conditions.seed);
    let slots = 0..layout.group_len(0);
    let mut table = StripeTable::new(&layout, Packing::Bits);
    for drive in 0..setting.drives {
        let mut order: Vec<u32> = slots.clone().collect();
        for place in (1..order.len()).rev() {
            order.swap(place, random.index(place + 1));
        }
        for (slot, stripe) in slots.clone().zip(&order) {
            table.set(drive, slot, *stripe);
        }
    }
    let group = usize::try_from(slots.end)?;
    let mut nanos: Vec<u128> = (0..SEARCHES)
        .map(|_| {
            let stripe = u32::try_from(random.index(group)).expect("a stripe of a group");
            let begin = Instant::now();
            for drive in 1..setting.drives {
                black_box(table.find(drive, slots.clone(), stripe, stripe));
            }
            begin.elapsed().as_nanos()
        })
        .collect();
    nanos.sort_unstable();
    let median = u64::try_from(nanos[SEARCHES / 2])?;
    Ok(vec![Value { metric: SEARCH, value: precise_u64(median) / 1000.0 }])
}

fn judge(draft: &mut Draft) {
    draft.value("search-g256", &cell(Scheme::ZapRaid, Some(GROUP_STRIPES)), SEARCH);
    draft.value("search-small-g", &cell(Scheme::ZapRaid, Some(GROUPS[0])), SEARCH);
}
