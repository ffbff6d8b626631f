//! Cells at small scales: what they say follows from seed and scale, and bounds that no drive can pass hold.

use super::batch::CONNECTIONS;
use super::report::{Bar, Bound, Row, column};
use super::several;
use super::summary::Summary;
use super::*;

fn small(cell: Cell, scale: f64) -> Report {
    cell.run(&Run { seed: 7, scale }).unwrap()
}

#[test]
fn what_is_no_number_reaches_no_bar() {
    let bar = |value, bound| Bar { name: String::new(), value, bound, unit: "" };
    assert!(bar(1.0, Bound::AtMost(1.0)).is_met() && bar(1.0, Bound::AtLeast(1.0)).is_met());
    assert!(!bar(1.1, Bound::AtMost(1.0)).is_met() && !bar(0.9, Bound::AtLeast(1.0)).is_met());
    assert!(!bar(f64::NAN, Bound::AtMost(1.0)).is_met() && !bar(f64::NAN, Bound::AtLeast(1.0)).is_met());
}

#[test]
fn a_summary_has_means_and_intervals_and_judges_by_means() {
    const COLUMNS: &[report::Column] = &[column("hits", "", 2), column("rate", "1/s", 1)];
    let report = |seed, hits, rate| Report {
        cell: Cell::Batch,
        seed,
        scale: "small".to_owned(),
        columns: COLUMNS,
        rows: vec![Row { setting: "a".to_owned(), values: vec![Some(hits), rate] }],
        bars: vec![Bar { name: "hits".to_owned(), value: hits, bound: Bound::AtLeast(0.5), unit: "" }],
    };
    let summary = Summary::of(&[report(3, 0.4, Some(7.0)), report(4, 0.6, None)]).unwrap();
    // Two values .2 apart: t = 12.706 with one degree of freedom, times .1414 / sqrt(2).
    let json = summary.to_json();
    let ci95 = json["rows"][0]["ci95"]["hits"].as_f64().unwrap();
    assert!((ci95 - 1.2706).abs() < 1e-4 && json["rows"][0]["values"]["rate"].is_null(), "{json}");
    assert_eq!((&json["seeds"], &json["bars"][0]["met"]), (&serde_json::json!([3, 4]), &true.into()));
    let text = summary.to_string();
    assert!(text.starts_with("batch, means of seeds 3 to 4: small\n"), "{text}");
    assert!(
        text.contains("0.50 \u{b1}1.27") && text.contains("0.5000 \u{b1}1.2706, at least 0.5: met"),
        "{text}"
    );
    let mut other = report(5, 0.5, None);
    other.rows[0].setting = "b".to_owned();
    assert!(Summary::of(&[report(3, 0.4, None), other]).is_err());
}

#[test]
fn several_cells_are_one_page_and_what_was_stopped_is_named() {
    let cells = [Cell::Ttl, Cell::Batch, Cell::Ttl, Cell::Admission, Cell::Tenants];
    let (run, told) = (Run { seed: 1, scale: 0.05 }, std::sync::Mutex::new(Vec::new()));
    let tell = |done: usize, all: usize, _: &str| told.lock().unwrap().push((done, all));
    let (runs_on, stopped) = (false.into(), true.into());
    let outcome = several::run(&cells, &run, 2, &tell, &runs_on).unwrap();
    assert!(outcome.left_out.is_empty());
    let order: Vec<&str> = outcome.summaries.iter().map(|summary| summary.cell.name()).collect();
    assert_eq!(order, ["ttl", "batch", "admission", "tenants"], "each once");
    assert_eq!(told.lock().unwrap().iter().max(), Some(&(8, 8)));
    let page = outcome.to_html();
    for part in ["id=\"plot-ttl\"", "id=\"plot-batch-pages\"", "id=\"plot-admission-hits\"", "id=\"tenants\""]
    {
        assert!(page.contains(part), "{part}");
    }
    assert_eq!(page.matches("<svg").count(), 6, "plots are inline");
    let outcome = several::run(&cells, &run, 2, &tell, &stopped).unwrap();
    assert!(outcome.summaries.is_empty() && outcome.left_out[0] == "ttl (0 of 2 seeds)");
    assert!(several::run(&cells, &run, 0, &tell, &runs_on).is_err());
}

#[test]
fn a_cell_repeats_to_the_bit_and_another_seed_differs() {
    let json = |seed| Cell::Table1.run(&Run { seed, scale: 0.1 }).unwrap().to_json().to_string();
    assert_eq!(json(7), json(7));
    let rows = |seed| Cell::Table1.run(&Run { seed, scale: 0.1 }).unwrap().rows;
    assert_ne!(rows(7), rows(8));
}

#[test]
fn stores_are_bounded_by_what_the_drive_takes() {
    let report = small(Cell::Table1, 0.1);
    for name in ["zn540-1tb", "zn540-4tb"] {
        for gigabytes in [450, 600, 750] {
            let of = |column| report.value(&format!("{name}, {gigabytes} GB"), column).unwrap();
            assert!((0.3..=1.02).contains(&of("share")), "{report}");
            assert!((0.5..1.0).contains(&of("hits")), "{report}");
            // 100 KB of a hit are two reads, so the slowest takes longer than the fastest write.
            assert!(of("get_p99") > 0.1 && of("p50") <= of("p99"), "{report}");
        }
    }
}

#[test]
fn zones_go_beside_gets_only_where_there_is_no_room() {
    let report = small(Cell::EvictionTail, 0.05);
    for name in ["zn540-1tb", "zn540-4tb"] {
        let of = |phase: &str, column| report.value(&format!("{name}, {phase}"), column).unwrap();
        assert_eq!(of("with room", "evicted"), 0.0, "{report}");
        assert!(of("evicting", "evicted") >= 3.0 && of("evicting", "reinserted") > 100.0, "{report}");
        assert!(
            of("evicting by fifo", "evicted") >= 3.0 && of("evicting by fifo", "reinserted") == 0.0,
            "{report}"
        );
        // A write of a tag mate forgets one in some hundreds.
        assert!(of("with room", "hits") > 0.99, "{report}");
        // A hit reads flash: the drive senses for 45 us at least.
        assert!(of("with room", "p50") > 45.0 && of("evicting", "p50") > 45.0, "{report}");
    }
}

#[test]
fn what_hides_waits_for_the_journal_and_nothing_else_does() {
    let report = small(Cell::Invalidate, 0.1);
    let of = |setting: &str, column| report.value(&format!("zn540-1tb, {setting}"), column);
    assert_eq!((of("1 in flight, 0 %", "over_p50"), of("1 in flight, 0 %", "journal")), (None, Some(0.0)));
    assert_eq!(of("1 in flight, 50 %", "new_p50"), Some(0.0), "{report}");
    // A block of 4 KiB takes 11 us, and a removal looks for its object first.
    assert!(of("1 in flight, 100 %", "over_p50").unwrap() > 11.0, "{report}");
    assert!(of("1 in flight, 100 %", "remove_p50").unwrap() > 60.0, "{report}");
    // A lone change has a block for itself; the header of a zone comes on top.
    let [lone, many] = [1, 64].map(|count| of(&format!("{count} in flight, 100 %"), "entries").unwrap());
    assert!((0.9..=1.0).contains(&lone) && many > 4.0, "{report}");
    assert!(of("1 in flight, 100 %", "journal").unwrap() >= 4096.0, "{report}");
}

#[test]
fn objects_are_in_memory_alone_until_their_pages_are_written() {
    let report = small(Cell::Batch, 0.05);
    let of = |setting: &str, column| report.value(&format!("zn540-1tb, {setting}"), column).unwrap();
    // Nobody else fills the page of a lone client that waits, so it leaves at once, long before 10 ms have passed.
    assert!((11.0..1_000.0).contains(&of("media, 1", "store_p50")), "{report}");
    for connections in CONNECTIONS {
        let of = |column| of(&format!("media, {connections}"), column);
        assert_eq!(of("store_p99"), of("media_p99"), "the answer is that of the media: {report}");
        assert_eq!((of("window"), of("window_bytes")), (0.0, 0.0), "nothing answered may be lost: {report}");
    }
    assert_eq!(of("memory, 1", "store_p50"), 0.0, "{report}");
    assert!(of("memory, 1", "media_p50") > 11.0, "a page of 4 KiB takes as long: {report}");
    let batches = [1, 16, 256].map(|count| of(&format!("memory, {count}"), "batch"));
    assert!(batches.is_sorted() && batches[2] > 8.0 * batches[0] && batches[2] <= 65.0, "{report}");
    assert!(of("memory, 256", "window_bytes") > of("memory, 1", "window_bytes"), "{report}");
}

#[test]
fn causes_of_what_is_written_are_all_of_it() {
    let report = small(Cell::Sizes, 0.125);
    for row in &report.rows {
        let of = |column| report.value(&row.setting, column).unwrap();
        let causes = ["pages", "directories", "journal", "superblocks", "reinserted"].map(of);
        assert!((causes.iter().sum::<f64>() - of("written")).abs() < 1e-9 && of("pages") > 1.0, "{report}");
        // A slot is 5 bytes and a third, and the object of more than a page is in more than one.
        assert!(of("memory") > 5.3 && of("reads_hit") >= 1.0, "{report}");
        assert!(of("reads_miss") < 0.2, "{report}");
    }
    assert!(report.value("100000 B", "reads_hit").unwrap() >= 25.0, "{report}");
}

#[test]
fn smaller_budgets_write_less() {
    let report = small(Cell::Admission, 0.1);
    let of = |setting: &str, column| report.value(setting, column).unwrap();
    let names = ["all", "auto, 1/2", "auto, 1/5", "auto, 1/20"];
    assert!(names.map(|name| -of(name, "written")).is_sorted(), "{report}");
    assert!(of("second", "written") < of("all", "written") / 2.0, "{report}");
    assert_eq!(of("all", "forgotten"), 0.0, "{report}");
    assert!(report.rows.iter().all(|row| (0.05..0.95).contains(&row.values[0].unwrap())), "{report}");
}

#[test]
fn what_a_drive_held_is_missed_and_comes_back() {
    let report = small(Cell::Drives, 0.125);
    for count in [2, 4, 8] {
        let of = |phase: &str, column| report.value(&format!("{count} drives, {phase}"), column).unwrap();
        let share = 1.0 - 1.0 / f64::from(count);
        assert_eq!(of("lost, window 1", "share"), share, "{report}");
        assert!(of("lost, window 1", "of_before") < 1.0 - 0.4 / f64::from(count), "{report}");
        assert!(of("replaced, window 16", "hits") > of("lost, window 16", "hits"), "{report}");
        assert!(of("replaced, window 16", "of_before") > share, "{report}");
    }
}

#[test]
fn what_is_not_spare_is_moved_by_a_conventional_drive() {
    let report = small(Cell::Usage, 0.125);
    let of = |used: u64, kind: &str, column| report.value(&format!("{used} % used, {kind}, W5R5"), column);
    for used in [50, 70, 95] {
        assert_eq!(of(used, "zoned", "wa_drive"), None, "{report}");
        // The caches are the same, and so is the load.
        let [flat, zoned] = ["conventional", "zoned"].map(|kind| of(used, kind, "hits").unwrap());
        assert!((flat / zoned - 1.0).abs() < 0.08, "{report}");
    }
    let moved = [50, 70, 95].map(|used| of(used, "conventional", "wa_drive").unwrap());
    assert!(moved.is_sorted() && moved[0] >= 1.0 && moved[2] > 1.1, "{report}");
    assert!(of(95, "conventional", "stored") < of(50, "conventional", "stored"), "{report}");
    assert!(of(95, "zoned", "stored").unwrap() > of(95, "conventional", "stored").unwrap() * 1.3, "{report}");
}

#[test]
fn what_a_conventional_drive_takes_hardly_depends_on_the_size_of_its_blocks() {
    let stored = |erase_bytes| {
        let rows = usage::measure(512 << 20, 95, Some(erase_bytes), 7).unwrap();
        let report = Report {
            cell: Cell::Usage,
            seed: 7,
            scale: String::new(),
            columns: usage::COLUMNS,
            rows,
            bars: Vec::new(),
        };
        report.value("95 % used, conventional, WO", "stored").unwrap()
    };
    let [small, large] = [2 << 20, 8 << 20].map(stored);
    assert!((small / large - 1.0).abs() < 0.15, "{small} and {large} MiB/s");
}

#[test]
fn a_mount_reads_more_than_directories_and_finds_everything() {
    let report = small(Cell::Recovery, 0.05);
    for row in &report.rows {
        let of = |column| report.value(&row.setting, column);
        // Headers and the record of the mount take some reads and a write, whatever there is.
        assert!(of("mounted_in").unwrap() > 0.2, "{report}");
        assert!(of("ratio").is_none_or(|ratio| ratio > 1.0), "{report}");
    }
    let of = |column| report.value("100 B, 500000", column).unwrap();
    // Seven bytes a record and ten a page, but for pages behind the last directory.
    assert!((6.0..8.0).contains(&(of("directories") * 1_048_576.0 / of("objects"))), "{report}");
}
