//! Makes a scenario that fails as small as it gets: fewer steps, smaller numbers, a plainer plan.
//!
//! ```text
//!   steps    without a half, a quarter, ... one of them (delta debugging; Zeller and Hildebrandt, 2002)
//!   numbers  each number of each step: 0, 1, half of it, one less; no `fua`, no `at ...`
//!   plan     one plain value after the other
//! ```
//! Each change that still fails stays, until a whole round changes nothing.

use crate::plan::{Baseline, Latency, Plan, Tearing};
use crate::run::{Outcome, Scenario, members_of, run};
use crate::step::Step;
use crate::trace::Keep;
use std::collections::BTreeSet;
use std::ops::Range;

/// A run may take this many times the events of the original; after that it is another failure.
const EVENTS_MAX_FACTOR: u64 = 10;

/// Numbers up to this are also tried one less: larger ones would take as many executions as they count.
const COUNTED_DOWN_MAX: u64 = 16;

/// Changes that make a plan plainer, one each.
const PLAINER: &[fn(&mut Plan)] = &[
    |plan| plan.latency = Latency::Random { typical_ns: 1_000, slow_ns: 1_000, slow_per_mille: 0 },
    |plan| plan.depth = 1,
    |plan| plan.hybrid = None,
    |plan| plan.adaptive = false,
    |plan| plan.biza = false,
    |plan| plan.cost_benefit = false,
    |plan| plan.two_gc_streams = false,
    |plan| plan.tearing = Tearing::Prefix,
    |plan| plan.volatile_cache = false,
    |plan| plan.fill_percent = 100,
    |plan| plan.chunk_blocks = 1,
    |plan| plan.chunk_blocks /= 2,
    |plan| plan.group_stripes = 1,
    |plan| plan.client_frames = 64,
    |plan| plan.stripe_deadline_us = 100,
    |plan| plan.members = plan.members.min(3),
    |plan| plan.members = plan.members.saturating_sub(1),
    |plan| plan.members = plan.members.saturating_sub(2),
    |plan| plan.zones = plan.zones.min(8),
    |plan| plan.zones = plan.zones.saturating_sub(1),
    |plan| plan.zone_capacity_blocks = plan.zone_capacity_blocks.min(20),
    |plan| plan.zone_capacity_blocks /= 2,
    |plan| plan.zone_capacity_blocks = plan.zone_capacity_blocks.saturating_sub(4),
    |plan| plan.open_zones = plan.open_zones.min(4),
    |plan| plan.rebuild_kib_per_second = 0,
    |plan| plan.rebuild_by_load = false,
    |plan| plan.checkpoint_blocks = 0,
    |plan| plan.raizn = plan.raizn.map(|raizn| Baseline { write_blocks: plan.chunk_blocks, ..raizn }),
    |plan| plan.raizn = plan.raizn.map(|raizn| Baseline { stripes_in_flight: 1, ..raizn }),
    |plan| plan.raizn = plan.raizn.map(|raizn| Baseline { header_block: false, ..raizn }),
    |plan| plan.summary_rows = 0,
    |plan| plan.patience_ms = 0,
    |plan| plan.limit_ms = 0,
    |plan| plan.append_blocks = plan.append_blocks.min(4),
    |plan| plan.transfer_blocks = plan.transfer_blocks.min(4),
];

/// Makes a scenario smaller as long as `fails` says that it still fails the same way. It is asked at most
/// `executions_max` times.
pub fn minimise(scenario: &Scenario, executions_max: u64, fails: impl FnMut(&Scenario) -> bool) -> Scenario {
    let culprits = culprits_of(scenario);
    let mut search = Search { best: scenario.clone(), culprits, left: executions_max, fails };
    loop {
        let before = search.best.clone();
        search.drop_steps();
        search.shrink_steps();
        search.shrink_plan();
        assert!(search.best.steps.len() <= before.steps.len(), "a scenario shrinks");
        assert!(search.left <= executions_max, "runs are counted down");
        if search.best == before || search.left == 0 {
            return search.best;
        }
    }
}

/// A predicate for [`minimise`]: whether a scenario fails like this outcome.
pub fn fails_like(outcome: &Outcome) -> impl Fn(&Scenario) -> bool + use<> {
    let kind = outcome.failure.as_ref().map(|(_, failure)| kind_of(&failure.what));
    let events_max = outcome.events.saturating_mul(EVENTS_MAX_FACTOR);
    move |scenario| {
        let outcome = run(scenario, Keep::Nothing);
        let found = outcome.failure.map(|(_, failure)| kind_of(&failure.what));
        found.is_some() && found == kind && outcome.events <= events_max
    }
}

/// Returns the letters of a message without its numbers, however many they are: two messages of one kind are of one
/// bug. Text after a semicolon is the state of the engine, which says nothing about the kind.
fn kind_of(message: &str) -> String {
    let said = message.split(';').next().unwrap_or_default();
    said.chars().filter(|letter| letter.is_alphabetic()).collect()
}

struct Search<F> {
    /// The smallest scenario so far.
    best: Scenario,
    /// Members that break in the original: with one more of them it would be another failure, or none.
    culprits: BTreeSet<usize>,
    /// Executions that may follow.
    left: u64,
    fails: F,
}

impl<F: FnMut(&Scenario) -> bool> Search<F> {
    /// Takes a candidate if it still fails.
    fn is_taken(&mut self, candidate: Scenario) -> bool {
        if self.left == 0 {
            return false;
        }
        if !culprits_of(&candidate).is_subset(&self.culprits) {
            return false;
        }
        self.left -= 1;
        let fails = (self.fails)(&candidate);
        if fails {
            self.best = candidate;
        }
        fails
    }

    /// Leaves out chunks of steps, halving their size.
    fn drop_steps(&mut self) {
        let mut chunk = self.best.steps.len().div_ceil(2);
        while chunk > 0 {
            let mut from = 0;
            while from < self.best.steps.len() {
                let mut candidate = self.best.clone();
                candidate.steps.drain(from..candidate.steps.len().min(from + chunk));
                if !self.is_taken(candidate) {
                    from += chunk;
                }
            }
            chunk /= 2;
        }
    }

    /// Makes the numbers of each step smaller.
    fn shrink_steps(&mut self) {
        for index in 0..self.best.steps.len() {
            let mut candidates = smaller(&self.best.steps[index]).into_iter();
            while let Some(step) = candidates.next() {
                let mut candidate = self.best.clone();
                candidate.steps[index] = step;
                if self.is_taken(candidate) {
                    candidates = smaller(&step).into_iter();
                }
            }
        }
    }

    /// Makes the plan plainer.
    fn shrink_plan(&mut self) {
        for change in PLAINER {
            let mut candidate = self.best.clone();
            change(&mut candidate.plan);
            if candidate.plan != self.best.plan && is_possible(&candidate) {
                self.is_taken(candidate);
            }
        }
    }
}

/// Members that break, go back or are taken away.
fn culprits_of(scenario: &Scenario) -> BTreeSet<usize> {
    let breaks = |step: &&Step| {
        !matches!(step, Step::Exchange { .. } | Step::Replace { .. } | Step::Back { .. } | Step::ReAdd { .. })
    };
    scenario.steps.iter().filter(breaks).flat_map(members_of).collect()
}

/// True when there is such an array, and it has all members that the steps are about.
fn is_possible(scenario: &Scenario) -> bool {
    let members = scenario.steps.iter().flat_map(members_of);
    scenario.plan.array().is_some() && members.max() < Some(scenario.plan.members)
}

/// Steps that say less than this one: its line without its last words, or with a smaller number.
fn smaller(step: &Step) -> Vec<Step> {
    let line = step.to_string();
    let mut lines = Vec::new();
    for last_words in [1, 2] {
        let words: Vec<&str> = line.split(' ').collect();
        lines.push(words[..words.len().saturating_sub(last_words)].join(" "));
    }
    for range in numbers(&line) {
        let Ok(number) = line[range.clone()].parse::<u64>() else { continue };
        assert!(!range.is_empty(), "a number has digits");
        let one_less = if number <= COUNTED_DOWN_MAX { number.saturating_sub(1) } else { 0 };
        let mut less = vec![0, 1, number / 2, one_less];
        less.retain(|less| *less < number);
        less.dedup();
        lines.extend(less.iter().map(|less| format!("{}{less}{}", &line[..range.start], &line[range.end..])));
    }
    lines.iter().filter_map(|line| line.parse().ok()).filter(does_something).collect()
}

/// Returns the places of the numbers of a line.
fn numbers(line: &str) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for (at, _) in line.match_indices(|letter: char| letter.is_ascii_digit()) {
        match ranges.last_mut() {
            Some(range) if range.end == at => range.end += 1,
            _ => ranges.push(at..at + 1),
        }
    }
    ranges
}

/// False for what could as well be left out.
fn does_something(step: &Step) -> bool {
    !matches!(
        step,
        Step::Write { blocks: 0, .. }
            | Step::Read { blocks: 0, .. }
            | Step::Trim { blocks: 0, .. }
            | Step::Run { events: 0 }
            | Step::Stall { us: 0 }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::{At, Damage, Kind, Part, Scope};

    fn lines(scenario: &Scenario) -> Vec<String> {
        scenario.steps.iter().map(ToString::to_string).collect()
    }

    /// A made-up bug: five blocks are written, then the power fails at a reset and member 2 is rotten; on an
    /// array with chunks of two blocks or more and at least four members.
    fn has_the_bug(scenario: &Scenario) -> bool {
        let mut state = 0;
        for step in &scenario.steps {
            state = match (state, *step) {
                (0, Step::Write { blocks, .. }) if blocks > 4 => 1,
                (1, Step::Crash { at: Some(At { kind: Kind::Reset, .. }) }) => 2,
                (
                    2,
                    Step::Rot(Damage {
                        member: 2, per_mille: 4.., scope: Scope::Open, part: Part::Any, ..
                    }),
                ) => 3,
                _ => state,
            };
        }
        state == 3 && scenario.plan.chunk_blocks > 1 && scenario.plan.members > 3
    }

    fn buggy() -> Scenario {
        let mut scenario = (0..).map(Scenario::draw).find(|scenario| {
            let plan = &scenario.plan;
            plan.raizn.is_none()
                && plan.members == 6
                && scenario.plan.chunk_blocks == 4
                && scenario.steps.len() > 100
        });
        let scenario = scenario.as_mut().unwrap();
        let at = |index: usize| scenario.steps.len() * index / 4;
        let places = [at(3), at(2), at(1)];
        let steps = ["rot 2 400 any open 123456789", "crash at reset+7", "write 3+17 fua"];
        for (place, step) in places.into_iter().zip(steps) {
            scenario.steps.insert(place, step.parse().unwrap());
        }
        scenario.clone()
    }

    #[test]
    fn what_does_not_matter_goes() {
        let found = minimise(&buggy(), 10_000, has_the_bug);
        assert_eq!(lines(&found), ["write 0+5", "crash at reset+0", "rot 2 4 any open 0"]);
        assert_eq!((found.plan.members, found.plan.chunk_blocks), (4, 2));
        assert_eq!((found.plan.depth, found.plan.group_stripes), (1, 1));
        assert!(found.plan.array().is_some());
    }

    #[test]
    fn the_bound_is_kept() {
        let mut executions = 0;
        let scenario = buggy();
        let found = minimise(&scenario, 30, |candidate| {
            executions += 1;
            has_the_bug(candidate)
        });
        assert_eq!(executions, 30);
        assert!(has_the_bug(&found) && found.steps.len() < scenario.steps.len());
    }

    #[test]
    fn messages_of_one_kind_differ_in_numbers_only() {
        let kind = kind_of("block 7 reads as version 3; it may only be one of [4, 5]");
        assert_eq!(kind, kind_of("block 12 reads as version 0; it may only be one of [9]"));
        assert_ne!(kind, kind_of("block 7 holds a mixture, or the data of another block"));
        assert_eq!(kind_of("requests [1, 2] wait"), kind_of("requests [17] wait"));
    }

    #[test]
    fn steps_get_smaller_without_losing_their_meaning() {
        let of = |line: &str| -> Vec<String> {
            smaller(&line.parse().unwrap()).iter().map(ToString::to_string).collect()
        };
        assert_eq!(
            of("write 4+2 fua"),
            [
                "write 4+2",
                "write 0+2 fua",
                "write 1+2 fua",
                "write 2+2 fua",
                "write 3+2 fua",
                "write 4+1 fua"
            ]
        );
        assert_eq!(of("crash at reset+1"), ["crash", "crash at reset+0"]);
        assert_eq!(of("run 1"), [""; 0]);
        assert_eq!(of("mount"), [""; 0]);
    }
}
