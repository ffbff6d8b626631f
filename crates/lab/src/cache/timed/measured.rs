//! What is measured on the wall clock, as reports: for pages with plots beside the text that the cells print.

use super::Cell;
use super::report::{Bar, Bound, Column, Report, Row, column};
use crate::cache::peers::{Foyer, Memory, PeersReport, cores, fig5, hits};
use crate::paired::Row as Cost;
use crate::precise::{precise, precise_u64};

const OF_HITS: &[Column] =
    &[column("hits", "", 4), column("other", "", 4), column("ahead", "", 4), column("of_bytes", "", 3)];
const OF_PEERS: &[Column] =
    &[column("ours", "us", 2), column("other", "us", 2), column("ratio", "", 2), column("hits", "", 3)];
const OF_MEMORY: &[Column] = &[
    column("objects", "", 0),
    column("added", "B/object", 1),
    column("resident", "B/object", 1),
    column("index", "B/object", 2),
];
const OF_FOYER: &[Column] = &[
    column("found", "", 4),
    column("older", "", 0),
    column("removed", "", 0),
    column("wrong", "", 0),
    column("start", "s", 3),
];
const OF_CORES: &[Column] = &[
    column("all_threads", "us", 2),
    column("busiest_thread", "us", 2),
    column("gain", "", 2),
    column("requests", "1/s", 0),
];
const OF_FIG5: &[Column] = &[
    column("ours", "us", 1),
    column("rocksdb", "us", 1),
    column("ratio", "", 2),
    column("our_operations", "1/s", 0),
    column("rocksdb_operations", "1/s", 0),
    column("hits", "", 3),
];

/// Hits on a trace beside extstore.
#[must_use]
pub fn of_hits(rows: &[hits::Row]) -> Report {
    let line = |row: &hits::Row| {
        let [own, other] = [0, 1].map(|side| Some(row.sides[side].hit_ratio));
        Row { setting: name(row), values: vec![own, other, Some(row.ahead), row.written_share] }
    };
    let bars = |row: &hits::Row| {
        let ahead = bar(format!("{}, hits ahead", name(row)), row.ahead, Bound::AtLeast(row.ahead_min));
        let share = row.written_share.zip(row.written_share_max);
        let share =
            share.map(|(share, most)| bar(format!("{}, bytes", name(row)), share, Bound::AtMost(most)));
        [ahead].into_iter().chain(share)
    };
    fn name(row: &hits::Row) -> String {
        format!("{}, {} and {}", row.setting, row.sides[0].name, row.sides[1].name)
    }
    report(Cell::Hits, OF_HITS, rows.iter().map(line).collect(), rows.iter().flat_map(bars).collect())
}

/// Processor time beside extstore and Redis, memory, and what foyer finds, where it was asked.
#[must_use]
pub fn of_peers(found: &PeersReport) -> Vec<Report> {
    let mut reports = vec![of_costs(found), of_memory(&found.memory)];
    reports.extend((!found.foyer.is_empty()).then(|| of_foyer(&found.foyer)));
    reports
}

fn of_memory(found: &[Memory]) -> Report {
    let line = |memory: &Memory| Row {
        setting: format!("{} B, {}", memory.value_bytes, memory.server),
        values: vec![
            Some(precise_u64(memory.objects)),
            Some(memory.added_an_object),
            Some(memory.resident_an_object),
            memory.index_an_object,
        ],
    };
    report(Cell::Memory, OF_MEMORY, found.iter().map(line).collect(), Vec::new())
}

fn of_foyer(found: &[Foyer]) -> Report {
    let line = |foyer: &Foyer| {
        let [older, removed, wrong] = [foyer.older, foyer.removed, foyer.wrong].map(precise_u64);
        let values = [foyer.share, older, removed, wrong, foyer.seconds].map(Some).to_vec();
        Row { setting: format!("{}, {} times", foyer.setting, foyer.kills), values }
    };
    report(Cell::Foyer, OF_FOYER, found.iter().map(line).collect(), Vec::new())
}

fn of_costs(found: &PeersReport) -> Report {
    let line = |row: &crate::cache::peers::Row| Row {
        values: [&cost(&row.cost)[..], &[Some(row.hit_ratios[0])]].concat(),
        setting: row.cost.name.to_owned(),
    };
    let restarts = &found.restarts;
    let restart = bar("kill -9 and start".to_owned(), restarts.ratio, Bound::AtMost(restarts.ratio_max));
    let wrong = restarts.found.older + restarts.found.removed + restarts.found.wrong;
    let wrong = usize::try_from(wrong).expect("fewer than objects");
    let wrong = bar("values behind it that must not be found".to_owned(), precise(wrong), Bound::AtMost(0.0));
    let bars = found.rows.iter().map(|row| bar_of(&row.cost)).chain([restart, wrong]);
    report(Cell::Peers, OF_PEERS, found.rows.iter().map(line).collect(), bars.collect())
}

/// Report of the gain by more cores.
#[must_use]
pub fn of_cores(rows: &[cores::Row]) -> Report {
    let counted = |count: usize, of: &str| format!("{count} {of}{}", if count == 1 { "" } else { "s" });
    let name = |row: &cores::Row| {
        format!("{}, {} and {}", row.name, counted(row.cores, "core"), counted(row.shards, "shard"))
    };
    let line = |row: &cores::Row| {
        let values = [row.us_per_request, row.busiest_us_per_request, row.gain, row.requests_per_second];
        Row { setting: name(row), values: values.map(Some).to_vec() }
    };
    let bars = rows.iter().filter_map(|row| Some(bar(name(row), row.gain, Bound::AtLeast(row.gain_min?))));
    report(Cell::Cores, OF_CORES, rows.iter().map(line).collect(), bars.collect())
}

/// Figure 5 of the paper beside RocksDB.
#[must_use]
pub fn of_fig5(rows: &[fig5::Row]) -> Report {
    let line = |row: &fig5::Row| Row {
        values: [&cost(&row.cost)[..], &[Some(row.rates[0]), Some(row.rates[1]), row.hit_ratio]].concat(),
        setting: row.cost.name.to_owned(),
    };
    let bars = rows.iter().map(|row| bar_of(&row.cost)).collect();
    report(Cell::Fig5, OF_FIG5, rows.iter().map(line).collect(), bars)
}

fn cost(cost: &Cost) -> [Option<f64>; 3] {
    [cost.us_per_request, cost.peer_us_per_request, cost.ratio].map(Some)
}

fn bar_of(cost: &Cost) -> Bar {
    bar(cost.name.to_owned(), cost.ratio, Bound::AtMost(cost.ratio_max))
}

fn bar(name: String, value: f64, bound: Bound) -> Bar {
    Bar { name, value, bound, unit: "" }
}

fn report(cell: Cell, columns: &'static [Column], rows: Vec<Row>, bars: Vec<Bar>) -> Report {
    Report { cell, seed: 0, scale: "on this host".to_owned(), columns, rows, bars }
}

#[cfg(test)]
mod tests {
    use super::super::several::Outcome;
    use super::*;

    #[test]
    fn hits_are_a_page_with_bars_and_a_plot() {
        let side = |name: &str, hit_ratio| hits::Side {
            name: name.to_owned(),
            hit_ratio,
            written_bytes: None,
            write_amplification: None,
        };
        let row = |ahead_min, share: Option<(f64, f64)>| hits::Row {
            setting: "64 + 512 MiB".to_owned(),
            sides: [side("s3fifo", 0.35), side("extstore", 0.3)],
            ahead: 0.05,
            ahead_min,
            written_share: share.map(|(share, _)| share),
            written_share_max: share.map(|(_, most)| most),
        };
        let report = of_hits(&[row(0.03, None), row(0.0, Some((0.3, 0.2)))]);
        assert_eq!(report.bars.iter().map(Bar::is_met).collect::<Vec<bool>>(), [true, true, false]);
        let page = Outcome::of([report]).unwrap().to_html();
        assert!(page.contains("id=\"plot-hits\"") && page.contains("wall clock"), "{page}");
        assert!(!page.contains("in virtual time"), "{page}");
    }
}
