//! Reads of 64 clients (StRAID figure 11), beside what the drives give without an array.

use super::super::draft::{Cell, Draft};
use super::super::measurement::{Metric, P99, READ_THROUGHPUT, Value};
use super::super::{Conditions, Experiment};
use super::{CLIENTS, RANDOM_READ, SECTORS, array, cell, setup};
use crate::characterise::plot::{Horizontal, Plot, Shape};
use crate::md_array::DATA_OFFSET;
use crate::md_speed::bare::{self, Part};
use anyhow::{Context, Result};
use base::random::Random;
use block::md::geometry::{Chunk, Geometry};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "straid-fig11",
    title: "StRAID figure 11: random reads",
    statement: "Reads are as fast as the drives.",
    run_ms: 500,
    cells,
    alike: Cell::clone,
    measure,
    judge,
};

/// Throughput of the same reads without an array.
pub const DRIVES_THROUGHPUT: Metric = Metric { name: "drives_read_throughput_mib_s", unit: "MiB/s" };
/// Difference of the array from that, in percent.
const DIFFERENCE: Metric = Metric { name: "read_throughput_difference", unit: "percent" };

const SIZES_KIB: [u32; 5] = [4, 16, 64, 256, 1024];
const LEVELS: [u8; 2] = [5, 6];

fn cells() -> Vec<Cell> {
    let of_level = |level| SIZES_KIB.map(|size| cell(level, size, CLIENTS, RANDOM_READ));
    LEVELS.into_iter().flat_map(of_level).collect()
}

fn measure(cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    let mut values = super::measure(cell, conditions)?;
    let setup = setup(&cell.setting, conditions)?;
    let array = array(&cell.setting)?;
    let geometry = array.geometry();
    let blocks = u64::from(cell.setting.request_kib.context("a size of requests")?) / 4;
    let mut draw = |random: &mut Random| vec![parts(random, &geometry, blocks)];
    let bare = bare::run(&setup, (array.members, SECTORS), (CLIENTS, blocks * 4096), &mut draw)?;
    values.push(Value { metric: DRIVES_THROUGHPUT, value: bare.mib_s() });
    Ok(values)
}

/// A request at random, cut at chunks.
fn parts(random: &mut Random, geometry: &Geometry, blocks: u64) -> Vec<Part> {
    let chunk_blocks = geometry.chunk_sectors() / 8;
    let all = geometry.stripes() * u64::from(geometry.data_chunks()) * chunk_blocks;
    let first = random.below(all / blocks) * blocks;
    let mut parts = Vec::new();
    let mut next = first;
    while next < first + blocks {
        let within = next % chunk_blocks;
        let count = (chunk_blocks - within).min(first + blocks - next);
        let found = geometry.locate(Chunk(next / chunk_blocks));
        let block = DATA_OFFSET / 8 + found.stripe.0 * chunk_blocks + within;
        parts.push(Part { member: found.member.index(), is_read: true, block, blocks: count });
        next += count;
    }
    parts
}

fn judge(draft: &mut Draft) {
    for level in LEVELS {
        for size in SIZES_KIB {
            let own = cell(level, size, CLIENTS, RANDOM_READ);
            let [ours, drives] =
                [READ_THROUGHPUT, DRIVES_THROUGHPUT].map(|metric| draft.values(&own, metric));
            let slower =
                ours.iter().zip(&drives).map(|(ours, drives)| (1.0 - ours / drives).max(0.0) * 100.0);
            draft.number("straid-read-difference", own, DIFFERENCE, &slower.collect::<Vec<f64>>());
        }
    }
    for (id, y_title, metric) in
        [("straid-11a", "throughput (MiB/s)", READ_THROUGHPUT), ("straid-11b", "99th percentile (us)", P99)]
    {
        let of_level = |level| SIZES_KIB.map(|size| cell(level, size, CLIENTS, RANDOM_READ));
        let mut series = vec![
            draft.bars("RAID-5, 5+1", &of_level(5), metric),
            draft.bars("RAID-6, 4+2", &of_level(6), metric),
        ];
        if metric == READ_THROUGHPUT {
            series.push(draft.bars("the drives, as RAID-5 lays data out", &of_level(5), DRIVES_THROUGHPUT));
        }
        draft.plot(Plot {
            id,
            title: "Random reads of 64 clients",
            caption: "Beside the same reads sent to the drives by clients themselves (figure 11).",
            x_title: "request (KiB)",
            y_title,
            x: Horizontal::Names(SIZES_KIB.iter().map(u32::to_string).collect()),
            shape: Shape::Bars,
            series,
        });
    }
}
