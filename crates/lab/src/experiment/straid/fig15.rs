//! What members read and write for writes (StRAID figure 15), beside Linux md as it was measured.

use super::super::Experiment;
use super::super::draft::{Cell, Draft};
use super::super::measurement::{DRIVE_READS, DRIVE_WRITES, Metric};
use super::super::scheme::InPlace;
use super::{CLIENTS, RANDOM_WRITE, STREAM_WRITE, measure, of, of_all};
use crate::characterise::plot::{Horizontal, Plot, Series, Shape};
use crate::md_array::Ahead;
use crate::md_cost::cells::{Cell as MdCell, Cells, Manner};
use crate::precise::precise_u64;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "straid-fig15",
    title: "StRAID figure 15: what members read and write, beside Linux md",
    statement: "A stream of writes causes few reads and hardly more writes than whole stripes do.",
    run_ms: 400,
    cells,
    alike: Cell::clone,
    measure,
    judge,
};

/// Blocks that members read for a block of a client, over those of md.
const READ_OVER_MD: Metric = Metric { name: "read_over_md", unit: "x" };
const WRITTEN_OVER_MD: Metric = Metric { name: "written_over_md", unit: "x" };

const COUNTS: [u32; 7] = [1, 2, 4, 8, 16, 32, CLIENTS];
const SIZES_KIB: [u32; 2] = [4, 64];
const WORKLOADS: [&str; 2] = [STREAM_WRITE, RANDOM_WRITE];
const VARIANTS: [InPlace; 3] = [InPlace::Adaptive, InPlace::Straid, InPlace::MdWindow];

fn cells() -> Vec<Cell> {
    of_all(&WORKLOADS, &SIZES_KIB, &COUNTS, &VARIANTS)
}

/// Blocks that md's members read and write for each that is written, with requests of this size and so many clients on 5+1, where
/// measured.
fn md_blocks(table: &Cells, workload: &str, size: u32, clients: u32) -> Option<[f64; 2]> {
    let manner = if workload == STREAM_WRITE { Manner::SequentialWrite } else { Manner::RandomWrite };
    let is_such = |cell: &&MdCell| {
        let array = (cell.level, cell.members, cell.lost, cell.bitmap, cell.ahead);
        let load = (cell.op, cell.bytes, cell.depth);
        array == (5, 6, 0, false, Ahead::Nothing)
            && load == (manner, u64::from(size) * 1024, u64::from(clients))
    };
    let found = table.all.iter().find(is_such)?;
    Some([found.md_read, found.md_written].map(|blocks| blocks / precise_u64(found.blocks())))
}

fn judge(draft: &mut Draft) {
    let table = Cells::load().expect("the built-in table is tested");
    for workload in WORKLOADS {
        for size in SIZES_KIB {
            for clients in COUNTS {
                let Some(theirs) = md_blocks(&table, workload, size, clients) else { continue };
                let own = of(InPlace::Adaptive, workload, size, clients);
                for (metric, theirs) in [DRIVE_READS, DRIVE_WRITES].into_iter().zip(theirs) {
                    // Both places at random are samples.
                    let most = if workload == RANDOM_WRITE { 1.01 * theirs } else { theirs };
                    let rule = format!(
                        "{workload} of {size} KiB, {clients} clients: {} is at most {theirs:.2}, md's",
                        metric.name
                    );
                    draft.check(rule, (draft.mean(&own, metric) - most) * 100.0 < 0.5);
                }
            }
        }
    }
    let [straid, adaptive] =
        [InPlace::Straid, InPlace::Adaptive].map(|variant| of(variant, STREAM_WRITE, 64, CLIENTS));
    draft.value("straid-induced-reads", &straid, DRIVE_READS);
    draft.value("straid-md-induced-reads", &adaptive, DRIVE_READS);
    for variant in [InPlace::Straid, InPlace::Adaptive] {
        let lone = of(variant, STREAM_WRITE, 4, 1);
        let over = |draft: &Draft, cell: &Cell, metric, place: usize, (size, clients)| {
            let theirs = md_blocks(&table, STREAM_WRITE, size, clients).expect("it was measured")[place];
            draft.values(cell, metric).into_iter().map(|ours| ours / theirs).collect::<Vec<f64>>()
        };
        let values = over(draft, &lone, DRIVE_READS, 0, (4, 1));
        draft.number("straid-reads-over-md-lone", lone, READ_OVER_MD, &values);
        let deep = of(variant, STREAM_WRITE, 64, 16);
        let values = over(draft, &deep, DRIVE_WRITES, 1, (64, 16));
        draft.number("straid-written-over-md", deep, WRITTEN_OVER_MD, &values);
    }
    plots(draft, &table);
}

fn plots(draft: &mut Draft, table: &Cells) {
    for (id, size, metric) in [
        ("straid-15-read-64k", 64, DRIVE_READS),
        ("straid-15-written-64k", 64, DRIVE_WRITES),
        ("straid-15-read-4k", 4, DRIVE_READS),
        ("straid-15-written-4k", 4, DRIVE_WRITES),
    ] {
        let line = |variant: InPlace| {
            let own = |clients| of(variant, STREAM_WRITE, size, clients);
            let point = |clients: u32| (f64::from(clients), draft.mean(&own(clients), metric));
            Series::by_number(own(1).scheme.name(), COUNTS.map(point).to_vec())
        };
        let mut series = VARIANTS.map(line).to_vec();
        let place = usize::from(metric == DRIVE_WRITES);
        let md = COUNTS.into_iter().filter_map(|clients| {
            Some((f64::from(clients), md_blocks(table, STREAM_WRITE, size, clients)?[place]))
        });
        series.push(Series { published: true, ..Series::by_number("Linux md, measured", md.collect()) });
        draft.plot(Plot {
            id,
            title: if size == 4 { "One stream of 4-KiB writes" } else { "One stream of 64-KiB writes" },
            caption: "RAID-5, 5+1, chunks of 64 KiB; md's members answer at once (figure 15).",
            x_title: "clients",
            y_title: if metric == DRIVE_READS { "blocks read per block" } else { "blocks written per block" },
            x: Horizontal::Numbers,
            shape: Shape::Lines,
            series,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::SEQUENTIAL_WRITE;
    use super::*;
    use crate::experiment::Conditions;
    use crate::experiment::measurement::WRITE_THROUGHPUT;

    /// A row of 5+1 spans 64 blocks: who never has as many of a stream open would wait for what cannot come, and drives would be idle.
    #[test]
    fn streams_of_few_requests_do_not_wait_for_whole_rows() {
        let conditions = Conditions { seed: 1, scale: 0.2, traces: &[], host: None };
        for (workload, size, clients) in [
            (STREAM_WRITE, 4, 2),
            (STREAM_WRITE, 4, 16),
            (SEQUENTIAL_WRITE, 4, 8),
            (SEQUENTIAL_WRITE, 64, 4),
            (SEQUENTIAL_WRITE, 1024, 2),
        ] {
            let throughput = |variant| {
                let values = measure(&of(variant, workload, size, clients), conditions).unwrap();
                assert_eq!(values[0].metric, WRITE_THROUGHPUT);
                values[0].value
            };
            let [adaptive, straid] = [InPlace::Adaptive, InPlace::Straid].map(throughput);
            assert!(
                adaptive >= 0.95 * straid,
                "{workload} of {size} KiB, {clients} clients: {adaptive} and {straid} MiB/s"
            );
        }
    }

    /// Writes put off go when no strip reads any more: by the clock 16 clients of a stream came to a fifth of this, for none of them could
    /// fill a row, and a lone write waited for nobody.
    #[test]
    fn the_window_of_md_asks_no_clock() {
        let conditions = Conditions { seed: 1, scale: 0.2, traces: &[], host: None };
        for (workload, size, clients) in [(STREAM_WRITE, 4, 16), (STREAM_WRITE, 64, 2), (RANDOM_WRITE, 4, 1)]
        {
            let throughput =
                |variant| measure(&of(variant, workload, size, clients), conditions).unwrap()[0].value;
            let [md, straid] = [InPlace::MdWindow, InPlace::Straid].map(throughput);
            assert!(
                md >= 0.95 * straid,
                "{workload} of {size} KiB, {clients} clients: {md} and {straid} MiB/s"
            );
        }
    }
}
