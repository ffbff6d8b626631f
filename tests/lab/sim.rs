//! `zoneweave sim`: what it prints, writes, refuses and returns.

use crate::support::run::{Finished, SOON, run_for};
use crate::support::scratch::Scratch;
use crate::support::server::{ask, zoneweave};
use crate::support::text;
use serde_json::Value;

/// A mirror of two has no third vote: the half that missed writes is believed when it is alone (README,
/// limits). So this fails without a bug.
const FAILS: &str = r#"
steps = [
    "mount",
    "write 0+4",
    "read 0+4",
    "write 4+4 fua",
    "idle",
    "away 1",
    "mount",
    "write 0+8",
    "run 20",
    "write 0+4",
    "idle",
    "away 0",
    "back 1",
    "mount",
    "verify",
]

[plan]
seed = 1
level = 5
members = 2
chunk_blocks = 1
group_stripes = 1
zones = 9
zone_capacity_blocks = 28
open_zones = 4
append_blocks = 4
transfer_blocks = 8
volatile_cache = false
fill_percent = 100
client_frames = 64
stripe_deadline_us = 100
depth = 8
tearing = "holes"
latency = { random = { typical_ns = 20000, slow_ns = 200000, slow_per_mille = 100 } }
"#;

fn failing(scratch: &Scratch) -> std::path::PathBuf {
    let path = scratch.join("fails.toml");
    std::fs::write(&path, FAILS).unwrap();
    path
}

fn sim(arguments: &[&str]) -> Finished {
    run_for(SOON, zoneweave().arg("sim").args(arguments))
}

#[track_caller]
fn json(finished: &Finished) -> Value {
    serde_json::from_str(&finished.stdout).unwrap_or_else(|error| panic!("not JSON: {error}\n{finished}"))
}

#[track_caller]
fn assert_says(finished: &Finished, code: i32, words: &[&str]) {
    assert_eq!(finished.code(), Some(code), "{finished}");
    let said = format!("{}{}", finished.stdout, finished.stderr);
    for word in words {
        assert!(said.contains(word), "should mention `{word}`: {finished}");
    }
}

#[test]
fn a_seed_is_told_in_full() {
    let finished = sim(&["--seed", "0x10"]);
    assert_says(
        &finished,
        0,
        &["seed 16", "zone_capacity_blocks = ", " steps", "events", "mounts", "passed"],
    );
    let (first, second) = (json(&sim(&["--seed", "16", "--json"])), json(&sim(&["--seed", "16", "--json"])));
    assert_eq!(first["hash"], second["hash"]);
    assert!(finished.stdout.contains(first["hash"].as_str().unwrap()), "{finished}");
}

#[test]
fn many_seeds_are_summed_up_the_same_on_any_number_of_threads() {
    let runs = ["--seed", "5", "--runs", "20"];
    let alone = sim(&[&runs[..], &["--jobs", "1", "--json"]].concat());
    let together = sim(&[&runs[..], &["--jobs", "2", "--json"]].concat());
    let (alone, together) = (json(&alone), json(&together));
    assert_eq!((&alone["runs"], &alone["first_seed"]), (&20.into(), &5.into()));
    for key in [
        "hash",
        "scenarios",
        "failures",
        "events",
        "requests",
        "requests_failed",
        "blocks_verified",
        "power_failures",
        "mounts",
        "checks",
        "virtual_seconds",
        "faults",
    ] {
        assert!(!alone[key].is_null(), "{key}: {alone:#}");
        assert_eq!(alone[key], together[key], "{key}");
    }
    assert!(alone["seconds"].as_f64().unwrap() > 0.0);
    assert!(alone["scenarios"].as_u64().unwrap() > 40, "scenarios come first");
    let words = ["seeds from 5 to 24", "seeds/s", "faults", "hash", alone["hash"].as_str().unwrap()];
    assert_says(&sim(&runs), 0, &words);
}

#[test]
fn the_in_place_engine_has_a_world_of_its_own() {
    let runs = ["--inplace", "--seed", "3", "--runs", "20"];
    assert_says(
        &sim(&runs),
        0,
        &["all scenarios, then seeds 3 to 22", "20 seeds of the in-place engine", "0 failed"],
    );
    let answer = json(&sim(&[&runs[..], &["--json"]].concat()));
    assert_eq!((&answer["runs"], &answer["first_seed"]), (&20.into(), &3.into()), "{answer:#}");
    assert!(answer["scenarios"].as_u64().unwrap() > 8 && answer["tally"]["checks"].as_u64().unwrap() > 10);
    assert_says(&sim(&["--inplace", "--seed", "3"]), 0, &["Plan {", "passed"]);
    let scenario = "a-write-over-several-stripes";
    assert_says(&sim(&["--inplace", "--scenario", scenario]), 0, &[scenario, "passed"]);
    assert_says(&sim(&["--inplace", "--scenario", "nothing"]), 4, &["nothing is no scenario", scenario]);
}

#[test]
fn time_bounds_a_campaign() {
    let answer = json(&sim(&["--seconds", "1", "--json"]));
    assert!(answer["runs"].as_u64().unwrap() > 0 && answer["first_seed"] == 0, "{answer:#}");
    let seconds = answer["seconds"].as_f64().unwrap();
    assert!((1.0..20.0).contains(&seconds), "{seconds} s");
}

#[test]
fn a_failure_is_told_with_its_history_and_what_repeats_it() {
    let scratch = Scratch::new("sim-fails");
    let path = failing(&scratch);
    let command = format!("zoneweave sim --scenario {}", text(&path));
    let finished = sim(&["--scenario", text(&path)]);
    let history = ["history of block 0", "write 0+4 of version 1 begins", "version 4 of 0+4 is acknowledged"];
    assert_says(&finished, 1, &history);
    assert_says(&finished, 1, &["the last steps", "FAILED at step 14 of 15, `mount`", &command]);
    let finished = sim(&["--scenario", text(&path), "--json"]);
    let answer = json(&finished);
    assert_eq!(finished.code(), Some(1));
    let failure = &answer["failures"][0];
    assert_eq!((&failure["step"], &failure["step_text"]), (&14.into(), &"mount".into()));
    assert_eq!((&failure["lba"], &failure["seed"]), (&0.into(), &Value::Null));
    assert_eq!(failure["command"], command);
    assert!(failure["message"].as_str().unwrap().contains("version 1"), "{failure:#}");
}

#[test]
fn a_failure_is_made_small_and_still_fails() {
    let scratch = Scratch::new("sim-small");
    let (path, small) = (failing(&scratch), scratch.join("small.toml"));
    let printed = sim(&["--scenario", text(&path), "--minimise"]);
    let written = sim(&["--scenario", text(&path), "--minimise", "--output", text(&small)]);
    assert_says(&written, 1, &["executions", &format!("zoneweave sim --scenario {}", text(&small))]);
    assert_eq!(printed.stdout, std::fs::read_to_string(&small).unwrap());
    assert_eq!(written.stdout, "");
    let steps = printed.stdout.lines().filter(|line| line.starts_with("    \"")).count();
    assert!((1..10).contains(&steps), "{printed}");
    assert!(printed.stdout.starts_with("note = \"block 0 reads as version 1"), "{printed}");
    assert_says(&sim(&["--scenario", text(&small)]), 1, &["reads as version"]);
    assert_says(&sim(&["--seed", "16", "--minimise"]), 0, &["nothing to minimise"]);
}

#[test]
fn every_event_of_a_run_can_be_read() {
    let scratch = Scratch::new("sim-trace");
    let path = scratch.join("trace.txt");
    let events = json(&sim(&["--seed", "16", "--trace", text(&path), "--json"]))["events"].as_u64().unwrap();
    let trace = std::fs::read_to_string(&path).unwrap();
    assert!(trace.lines().count() as u64 >= events, "at least one line for each of {events} events");
    assert!(trace.lines().all(|line| line.contains(" ms  ")));
    assert!(sim(&["--scenario", "crash-in-gc", "--trace", "-"]).stdout.contains("fails at a Move"));
    for range in [&["--runs", "2"], &["--seconds", "2"]] {
        let refused = ask(&[&["sim", "--trace", text(&path)], &range[..]].concat());
        assert_says(&refused, 2, &["--trace", range[0]]);
    }
    assert_says(&sim(&["--trace", text(&path)]), 4, &["--trace", "--seed", "--scenario"]);
}

#[test]
fn what_is_wrong_is_named_with_its_fix() {
    let scratch = Scratch::new("sim-wrong");
    let path = scratch.join("wrong.toml");
    let wrong = |from: &str, to: &str| {
        std::fs::write(&path, FAILS.replace(from, to)).unwrap();
        sim(&["--scenario", text(&path)])
    };
    assert_says(&wrong("read 0+4", "raed 0+4"), 4, &[text(&path), "line 5", "step 3", "`raed 0+4`"]);
    assert_says(&wrong("away 1", "away 2"), 4, &[text(&path), "step 6", "`away 2`", "0 to 1"]);
    assert_says(&wrong("zones = 9", "zones = 2"), 4, &[text(&path), "2 zones", "more"]);
    assert_says(&wrong("members = 2", "membres = 2"), 4, &[text(&path), "line 23", "membres", "members"]);
    let profile = "latency = { model = { profile = \"zn\" } } #";
    assert_says(&wrong("latency =", profile), 4, &[text(&path), "`zn`", "zn540-1tb"]);
    assert_says(&sim(&["--scenario", "nowhere"]), 4, &["nowhere", "crash-in-gc"]);
    assert_says(&sim(&["--seed", "many"]), 2, &["--seed", "many"]);
    assert_says(&sim(&["--jobs", "0"]), 2, &["--jobs", "0"]);
    assert_says(&sim(&["--seconds", "0"]), 2, &["--seconds", "0"]);
    assert_says(&sim(&["--runs", "2", "--seconds", "2"]), 2, &["--runs", "--seconds"]);
    assert_says(&sim(&["--output", "x"]), 2, &["--minimise"]);
}
