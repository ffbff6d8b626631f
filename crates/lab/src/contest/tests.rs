//! Tests of the contest: cells and requests are drawn as promised, and verdicts keep to the bar.

use super::*;
use std::collections::BTreeSet;

/// A scale at which nothing is measured but that it is done.
const TINY: f64 = 0.001;

#[test]
fn cells_differ_and_repeat() {
    let names: BTreeSet<String> = (0..50).map(|index| Cell::draw(1, index, 0).to_string()).collect();
    assert_eq!(names.len(), 50);
    assert_eq!(Cell::draw(7, 3, 0), Cell::draw(7, 3, 0));
    assert_ne!(Cell::draw(7, 3, 0).seed, Cell::draw(8, 3, 0).seed);
}

/// Draws cover all that they promise.
#[test]
fn draws_cover_what_they_promise() {
    let cells: Vec<Cell> = (0..400).map(|index| Cell::draw(5, index, 0)).collect();
    let some = |is: fn(&Cell) -> bool| cells.iter().any(is);
    assert!([0, 5, 6, 7].iter().all(|level| cells.iter().any(|cell| cell.level == *level)));
    assert!(some(|cell| cell.drives == 3) && some(|cell| cell.drives == 12));
    assert!(some(|cell| cell.is_degraded) && some(|cell| cell.odd_profile.is_some()));
    assert!(cells.iter().all(|cell| cell.level != 0 || !cell.is_degraded), "RAID-0 has no member to spare");
    assert!(cells.iter().all(|cell| (10..=100).contains(&cell.reserved_percent)));
    assert!(some(|cell| cell.traffic.pauses.is_some()) && some(|cell| cell.traffic.reads_percent > 60));
    assert!(some(|cell| cell.traffic.depth == 1) && some(|cell| cell.traffic.depth > 200));
    assert!(cells.iter().all(|cell| (1..=256).contains(&cell.traffic.depth)));
}

#[test]
fn requests_stay_in_the_volume_and_reads_have_their_share() {
    for index in 0..60 {
        let cell = Cell::draw(11, index, 0);
        let mut generator = traffic::Generator::new(&cell.traffic, 1_000, cell.seed);
        let asks: Vec<_> = (0..5_000).map(|_| generator.draw()).collect();
        assert!(asks.iter().all(|ask| ask.lba + u64::from(ask.blocks) <= 1_000), "{cell}");
        let reads = 100 * asks.iter().filter(|ask| !ask.writes).count() as u64 / 5_000;
        assert!(reads.abs_diff(cell.traffic.reads_percent) <= 4, "{cell}: {reads} %");
    }
}

/// A contest of one small cell, twice: the same to the bit, with every contestant that is possible.
#[test]
fn a_contest_repeats() {
    let mut options = Options { seed: 1, first: 0, cells: 1, scale: TINY, earlier: None };
    let [one, other] = [(); 2].map(|()| run(&options, |_, _, _| {}).expect("a contest"));
    let text = |outcome: &Outcome| serde_json::to_string(outcome).expect("JSON");
    assert_eq!(text(&one), text(&other));
    let judged = &one.cells[0];
    assert!(judged.fixed.iter().all(|(_, scores)| scores.mib_s <= judged.expert_mib_s()));
    assert!(judged.fixed.len() > 1 && judged.adaptive.mib_s > 0.0);
    options.earlier = Some(serde_json::from_str(&text(&one)).expect("its own JSON"));
    let again = run(&options, |_, _, _| {}).expect("a contest");
    assert_eq!(text(&again), text(&one), "fixed configurations score what they did");
    let before = text(&one).replace("\"turnovers\"", "\"volumes\"");
    options.earlier = Some(serde_json::from_str(&before).expect("JSON of before"));
    let refused = run(&options, |_, _, _| {}).expect_err("other amounts");
    assert!(refused.to_string().contains("hold it again"), "{refused}");
    options.earlier = Some(serde_json::from_str(&text(&one)).expect("its own JSON"));
    options.first = 1;
    let other = run(&options, |_, _, _| {}).expect_err("another cell");
    assert!(other.to_string().contains("setting 1 is not in the earlier contest"), "{other}");
}

fn scores(mib_s: f64, p99_us: f64, p999_us: f64) -> Scores {
    Scores { mib_s, p50_us: 1.0, p99_us, p999_us, write_amplification: 1.0 }
}

fn judged(adaptive: Scores, fixed: &[Scores]) -> Judged {
    let fixed =
        Contestant::all()[1..].iter().copied().zip(fixed.iter().copied().map(Some)).collect::<Vec<_>>();
    let all = std::iter::once((Contestant::Adaptive, Some(adaptive))).chain(fixed);
    Judged::new(&Cell::draw(1, 0, 0), all).expect("somebody to compare with")
}

#[test]
fn the_expert_has_the_highest_throughput() {
    let found = judged(scores(98.0, 11.0, 22.0), &[scores(90.0, 1.0, 1.0), scores(100.0, 10.0, 20.0)]);
    assert_eq!(found.expert, Contestant::all()[2]);
    assert!(found.meets, "0.98 of the throughput, 1.1 times the tails");
    assert_eq!(found.dominated_by, None, "less than 3 % faster");
    let short = judged(scores(96.9, 11.0, 22.0), &[scores(100.0, 10.0, 20.0)]);
    let long = judged(scores(97.0, 11.0, 22.1), &[scores(100.0, 10.0, 20.0)]);
    assert!(!short.meets && !long.meets);
}

#[test]
fn a_configuration_dominates_by_throughput_and_both_tails() {
    let better = scores(103.0, 10.0, 20.0);
    assert!(judged(scores(100.0, 11.0, 22.0), &[better]).dominated_by.is_some());
    assert_eq!(
        judged(scores(100.0, 11.0, 21.9), &[better]).dominated_by,
        None,
        "one tail is not 10 % shorter"
    );
    assert_eq!(judged(scores(100.1, 11.0, 22.0), &[better]).dominated_by, None, "less than 3 % faster");
}

#[test]
fn the_bar_is_for_all_cells() {
    let good = judged(scores(120.0, 5.0, 7.0), &[scores(100.0, 10.0, 10.0)]);
    assert!(Summary::of(&vec![good.clone(); 20]).passes);
    let slow = judged(scores(90.0, 5.0, 7.0), &[scores(100.0, 10.0, 10.0)]);
    let one_of_20: Vec<Judged> = std::iter::repeat_n(good.clone(), 19).chain([slow.clone()]).collect();
    assert!(Summary::of(&one_of_20).passes, "95 % meet it");
    let two_of_20: Vec<Judged> = std::iter::repeat_n(good.clone(), 18).chain([slow.clone(), slow]).collect();
    assert!(!Summary::of(&two_of_20).passes);
    let awful = judged(scores(84.0, 5.0, 7.0), &[scores(100.0, 10.0, 10.0)]);
    let one_awful: Vec<Judged> = std::iter::repeat_n(good, 19).chain([awful]).collect();
    let summary = Summary::of(&one_awful);
    assert!(!summary.passes && summary.unbearable == 1);
}
