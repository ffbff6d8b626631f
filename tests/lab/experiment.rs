//! `zoneweave lab run`: lines and a page that are the same every time, and errors that say what to do.

use crate::support::run::{Finished, run_for};
use crate::support::scratch::Scratch;
use crate::support::server::zoneweave;
use crate::support::text;
use serde_json::Value;
use std::time::Duration;

/// A run at a small scale takes seconds, also on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);

fn lab_run(arguments: &[&str]) -> Finished {
    run_for(LIMIT, zoneweave().args(["lab", "run"]).args(arguments))
}

#[test]
fn an_experiment_prints_the_same_lines_and_page_twice() {
    let scratch = Scratch::new("experiment");
    let [first, second] = ["first.html", "second.html"].map(|name| {
        let page = scratch.join(name);
        let ran = lab_run(&["exp2", "--seeds", "2", "--scale", "0.02", "--json", "--out", text(&page)]);
        assert_eq!(ran.code(), Some(0), "{ran}");
        (ran.stdout, std::fs::read_to_string(page).unwrap())
    });
    assert!(first == second, "two runs differ");
    let lines: Vec<Value> = first.0.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let medians = || lines.iter().filter(|line| line["metric"] == "p50_latency_us");
    assert_eq!(medians().count(), 9);
    for median in medians() {
        assert_eq!(median["experiment"], "exp2");
        assert_eq!(median["setting"]["queue_depth"], 1);
        assert!(median["value"].as_f64().unwrap() > 50.0, "no read of flash is faster: {median}");
        assert!(median["ci95"].as_f64().unwrap() >= 0.0);
    }
    assert!(lines.iter().any(|line| line["paper_value"] == 6.0));
    assert!(first.1.starts_with("<!DOCTYPE html>") && first.1.contains("<svg"));
}

#[test]
fn what_cannot_be_run_is_named() {
    let scratch = Scratch::new("experiment-errors");
    let trace = scratch.join("trace.csv");
    std::fs::write(&trace, "0,W,0,4096,1\n0,W,0,4096\n").unwrap();
    let fine = scratch.join("fine.csv");
    std::fs::write(&fine, "0,W,0,4096,1\n").unwrap();
    let systor = scratch.join("systor.csv");
    std::fs::write(&systor, "Timestamp,Response,IOType,LUN,Offset,Size\n1.5,0.1,W,0,4096\n").unwrap();
    let twice = ["exp10", "--trace", text(&fine), "--trace", text(&fine)];
    let errors: [(&[&str], &[&str]); 5] = [
        (&twice, &["exp10", "one --trace", "biza12"]),
        (&["biza12", "--trace", text(&systor), "--trace-format", "systor"], &["line 2", "5 fields"]),
        (&["exp99"], &["exp99", "exp1, "]),
        (&["exp1", "--seeds", "0"], &["--seeds"]),
        (&["exp10", "--trace", text(&trace)], &["trace.csv", "line 2", "4 fields"]),
    ];
    for (arguments, words) in errors {
        let ran = lab_run(arguments);
        assert_eq!(ran.code(), Some(2), "{ran}");
        assert!(words.iter().all(|word| ran.stderr.contains(word)), "{words:?}: {ran}");
    }
}
