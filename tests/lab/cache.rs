//! `zoneweave lab cache`: policies of the cache beside models, on a trace, and cells in virtual time.

use crate::support::run::{Finished, SOON, run_for};
use crate::support::scratch::Scratch;
use crate::support::server::zoneweave;
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

fn policies(trace: &Path, format: &str) -> Finished {
    let mut command = zoneweave();
    command.args(["lab", "cache", "policies", "--trace"]).arg(trace);
    run_for(SOON, command.args(["--trace-format", format, "--flash", "60", "--zones", "32", "--json"]))
}

/// Requests of 4,000 objects of 16 KiB, of which a tenth are asked for half of the time.
fn lines() -> String {
    let mut lines = String::new();
    for at in 0..12_000_u64 {
        let drawn = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407) >> 33;
        let id = if drawn % 2 == 0 { drawn / 2 % 400 } else { drawn / 2 % 4_000 };
        writeln!(lines, "{at} {id} 16384").unwrap();
    }
    lines
}

#[test]
fn policies_and_models_are_set_beside_each_other_on_a_trace() {
    let scratch = Scratch::new("trace");
    let trace = scratch.join("trace");
    fs::write(&trace, lines()).unwrap();
    let (ran, again) = (policies(&trace, "adaptsize"), policies(&trace, "adaptsize"));
    assert_eq!(ran.stdout, again.stdout, "the same bytes");
    let outcome: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(ran.code(), Some(i32::from(outcome["met"] == false)), "{ran}");
    assert_eq!(outcome["requests"], 12_000);
    let ratio = |name: &str| {
        let rows = outcome["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["policy"] == name).unwrap();
        row["hit_ratio"].as_f64().unwrap()
    };
    let best = ratio("belady");
    for name in ["fifo", "lru", "sieve", "s3fifo", "object-lru", "object-sieve", "region-lru"] {
        assert!(ratio(name) > 0.3 && ratio(name) <= best, "{name}: {outcome}");
    }
}

#[test]
fn policies_on_a_trace_are_a_page_and_have_no_seeds() {
    let scratch = Scratch::new("trace-page");
    let (trace, page) = (scratch.join("trace"), scratch.join("page.html"));
    fs::write(&trace, lines()).unwrap();
    let policies = |arguments: &[&str]| {
        let mut command = zoneweave();
        command.args(["lab", "cache", "policies"]).args(arguments);
        command.args(["--trace-format", "adaptsize", "--flash", "60", "--zones", "32", "--trace"]);
        run_for(SOON, command.arg(&trace))
    };
    let ran = policies(&["--out", page.to_str().unwrap()]);
    assert!(ran.stdout.contains("s3fifo is "), "{ran}");
    let written = fs::read_to_string(&page).unwrap();
    assert!(written.contains("<section id=\"policies\">") && written.contains("id=\"plot-policies\""));
    assert!(written.contains("trace, 60 %, 32 zones"), "{written}");
    for refused in [&["--seeds", "2"][..], &["ttl"], &["--scale", "0.5"]] {
        let ran = policies(refused);
        assert_eq!(ran.code(), Some(2), "{ran}");
        assert!(ran.stderr.contains("cannot be used with"), "{ran}");
    }
}

#[test]
fn traces_that_cannot_be_read_are_refused() {
    let scratch = Scratch::new("trace");
    let trace = scratch.join("trace");
    for (contents, what) in
        [(&b"1 2\n"[..], "trace:1: `1 2`: want"), (b"\xFD7zXZ\0", "xz -dc"), (b"", "no request")]
    {
        fs::write(&trace, contents).unwrap();
        let ran = policies(&trace, "adaptsize");
        assert_eq!(ran.code(), Some(2), "{ran}");
        assert!(ran.stderr.contains(what), "{ran}");
    }
    let ran = policies(&trace, "lines");
    assert_eq!(ran.code(), Some(2), "{ran}");
    assert!(ran.stderr.contains("adaptsize, twitter"), "{ran}");
}

#[test]
fn hits_of_a_served_cache_are_set_beside_those_of_extstore() {
    if !crate::support::have(&["memcached"]) {
        return;
    }
    let scratch = Scratch::new("hits");
    let trace = scratch.join("trace");
    fs::write(&trace, lines()).unwrap();
    let mut command = zoneweave();
    let page = scratch.join("page.html");
    command.args(["lab", "cache", "hits", "--trace-format", "adaptsize", "--json", "--trace"]).arg(&trace);
    let ran = run_for(SOON * 2, command.arg("--out").arg(&page));
    let written = fs::read_to_string(&page).unwrap_or_else(|error| panic!("no page: {error}: {ran}"));
    assert!(written.contains("id=\"plot-hits\""), "{ran}");
    let rows: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 3, "{ran}");
    let figure = |row: &Value, name: &str| row[name].as_f64().unwrap_or_else(|| panic!("{name}: {row}"));
    for row in &rows {
        let [own, other] = [0, 1].map(|side| row["sides"][side]["hit_ratio"].as_f64().unwrap());
        // All objects fit, so what was asked for before is found, most of what was asked for once among it.
        assert!((0.6..0.85).contains(&own) && (0.6..0.85).contains(&other), "{row}");
        assert!((figure(row, "ahead") - (own - other)).abs() < 1e-9, "{row}");
    }
    let is_met = |row: &Value| {
        let share = row["written_share"].as_f64().zip(row["written_share_max"].as_f64());
        figure(row, "ahead") >= figure(row, "ahead_min") && share.is_none_or(|(share, most)| share <= most)
    };
    assert_eq!(ran.code(), Some(i32::from(!rows.iter().all(is_met))), "{ran}");
}

#[test]
fn a_cell_in_virtual_time_prints_the_same_bytes_and_judges_its_bars() {
    let cell = |arguments: &[&str]| {
        let mut command = zoneweave();
        run_for(SOON, command.args(["lab", "cache", "invalidate", "--scale", "0.05"]).args(arguments))
    };
    let (ran, again) = (cell(&["--json"]), cell(&["--json"]));
    assert_eq!(ran.stdout, again.stdout, "the same bytes");
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let bars = report["bars"].as_array().unwrap();
    let is_met = |bar: &Value| {
        let [value, most] = [&bar["value"], &bar["bound"]["at_most"]].map(|number| number.as_f64().unwrap());
        assert_eq!(bar["met"], value <= most, "{bar}");
        value <= most
    };
    assert_eq!(bars.len(), 4, "{report}");
    assert_eq!(ran.code(), Some(i32::from(!bars.iter().all(is_met))), "{ran}");
    let text = cell(&["--seed", "1"]);
    assert!(text.stdout.contains("over_p50") && text.stdout.contains("at most 15: "), "{text}");
    assert_eq!(cell(&["--scale", "9"]).code(), Some(2));
}

#[test]
fn several_cells_are_one_command_with_means_and_a_page() {
    let scratch = Scratch::new("several");
    let page = scratch.join("page.html");
    let cells = |arguments: &[&str]| {
        let mut command = zoneweave();
        run_for(SOON * 2, command.args(["lab", "cache", "ttl", "batch", "--scale", "0.05"]).args(arguments))
    };
    let ran = cells(&["--seeds", "2", "--json", "--out", page.to_str().unwrap()]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    let reports: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&Value> = reports.iter().map(|report| &report["cell"]).collect();
    assert_eq!(names, ["ttl", "batch"]);
    for report in &reports {
        assert_eq!(report["seeds"], serde_json::json!([1, 2]));
        assert!(report["rows"][0]["ci95"].is_object(), "{report}");
    }
    let written = fs::read_to_string(&page).unwrap();
    assert!(written.contains("<section id=\"ttl\">") && written.contains("<section id=\"batch\">"));
    assert!(written.contains("<svg"));
    let text = cells(&[]);
    assert!(text.stdout.contains("ttl, seed 1: ") && text.stdout.contains("\n\nbatch, seed 1: "), "{text}");
    let unknown = cells(&["peers"]);
    assert_eq!(unknown.code(), Some(2), "{unknown}");
    assert!(unknown.stderr.contains("use table1, eviction-tail"), "{unknown}");
    assert!(unknown.stderr.contains("peers is measured on the wall clock"), "{unknown}");
    let nowhere = cells(&["--out", "/nonexistent/page.html"]);
    assert!(nowhere.code() != Some(0) && nowhere.stderr.contains("/nonexistent/page.html"), "{nowhere}");
}

#[test]
fn shards_are_set_beside_one_behind_a_lock() {
    let mut command = zoneweave();
    command.args(["lab", "cache", "cores", "--lock", "--cores-max", "2", "--rounds", "1", "--json"]);
    let ran = run_for(SOON * 2, &mut command);
    let rows: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((rows.len(), ran.code()), (8, Some(0)), "{ran}");
    for (row, threads) in rows.iter().zip([1, 2].into_iter().cycle()) {
        assert_eq!(row["threads"], threads);
        for figure in ["shards_us", "lock_us", "shards_per_second", "lock_per_second"] {
            assert!(row[figure].as_f64().is_some_and(|figure| figure > 0.0), "{row}");
        }
    }
}

#[test]
fn more_cores_are_measured_by_the_time_of_the_busiest_thread() {
    let mut command = zoneweave();
    command.args(["lab", "cache", "cores", "--cores-max", "2", "--seconds", "1", "--rounds", "1", "--json"]);
    let ran = run_for(SOON * 2, command.args(["--only", "GET of 100 B from memory"]));
    let rows: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 6, "two loads by three servers: {ran}");
    let figure = |row: &Value, name: &str| row[name].as_f64().unwrap_or_else(|| panic!("{name}: {row}"));
    for load in rows.chunks(3) {
        let [alone, two @ ..] = load else { panic!("{ran}") };
        assert_eq!(alone["gain"], 1.0);
        for (row, shards) in two.iter().zip(1..) {
            assert_eq!(
                (&row["name"], &row["cores"], &row["shards"]),
                (&alone["name"], &2.into(), &shards.into())
            );
            let gain = figure(alone, "busiest_us_per_request") / figure(row, "busiest_us_per_request");
            assert!((figure(row, "gain") - gain).abs() < 1e-9, "{row}");
            // Two threads work, so neither has all of it.
            assert!(figure(row, "busiest_us_per_request") < 0.95 * figure(row, "us_per_request"), "{row}");
        }
    }
    let is_met = rows[2]["gain"].as_f64() >= rows[2]["gain_min"].as_f64();
    assert_eq!(ran.code(), Some(i32::from(!is_met)), "{ran}");
}

#[test]
fn a_server_by_itself_is_asked_on_the_wall_clock() {
    let wall = |arguments: &[&str]| {
        let mut command = zoneweave();
        run_for(SOON * 2, command.args(["lab", "cache"]).args(arguments))
    };
    let once = ["--wall", "--seconds", "1", "--rounds", "1", "--json", "--only"];
    let ran = wall(&[&["sizes"], &once[..], &["100000 B"]].concat());
    assert!(ran.succeeded(), "{ran}");
    let sizes: Value = serde_json::from_str(&ran.stdout).unwrap();
    let values = &sizes["rows"][0]["values"];
    let of_sizes = |name: &str| values[name].as_f64().unwrap_or_else(|| panic!("{name}: {ran}"));
    assert!(of_sizes("hits") > 0.9 && of_sizes("from_flash") > 0.3, "most objects are on flash: {ran}");
    assert!(of_sizes("written") > 1.0 && of_sizes("get_p50") <= of_sizes("get_p99"), "{ran}");
    let ran = wall(&[&["invalidate"], &once[..], &["media, 64 in flight, 50 %"]].concat());
    assert!(ran.succeeded(), "{ran}");
    let changes: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&changes["cell"], changes["rows"].as_array().unwrap().len()), (&"invalidate-wall".into(), 1));
    let values = &changes["rows"][0]["values"];
    for name in ["over_p50", "remove_p50", "new_p50", "journal"] {
        assert!(values[name].as_f64().is_some_and(|value| value > 0.0), "{name}: {ran}");
    }
    let none = wall(&["sizes", "--wall", "--only", "3 furlongs"]);
    assert!(none.stderr.contains("no setting has \"3 furlongs\" in its name: 64 B; 100 B"), "{none}");
    for refused in [&["sizes", "--wall", "--seeds", "2"][..], &["sizes", "--rounds", "2"]] {
        assert_eq!(wall(refused).code(), Some(2));
    }
}
