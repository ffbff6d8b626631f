//! Budgets, shares and ghosts, each by itself.

use super::*;

const HOUR: u64 = 3_600 * 1_000_000_000;
const DAY_BYTES: u64 = 24 << 30;

fn admitted(gate: &mut Gate, visit: Visit, count: u32) -> u32 {
    (0..count).map(|_| u32::from(gate.admits(visit))).sum()
}

#[test]
fn names_are_read_and_told() {
    for (name, policy) in NAMES {
        assert_eq!(name.parse(), Ok(policy));
        assert_eq!(policy.to_string(), name);
    }
    assert_eq!("some".parse::<Admission>(), Err("`some`: use all, second or auto".to_owned()));
}

#[test]
fn shares_fall_smoothly_from_all_to_nothing() {
    let all = Shares { first: WHOLE, again: WHOLE };
    assert_eq!((budget::shares(WHOLE), budget::shares(WHOLE / 4 * 3)), (all, all));
    assert_eq!(budget::shares(WHOLE / 2), Shares { first: WHOLE / 2, again: WHOLE });
    assert_eq!(budget::shares(WHOLE / 4), Shares { first: 0, again: WHOLE }, "as `second` does");
    assert_eq!(budget::shares(WHOLE / 8), Shares { first: 0, again: WHOLE / 2 });
    assert_eq!(budget::shares(0), Shares { first: 0, again: 0 });
    for level in 0..WHOLE {
        let (low, high) = (budget::shares(level), budget::shares(level + 1));
        assert!(low.first <= high.first && high.first - low.first <= 2, "{level}");
        assert!(low.again <= high.again && high.again - low.again <= 4, "{level}");
        assert!(low.first <= low.again, "{level}: what comes again is worth more");
    }
}

#[test]
fn a_budget_is_credited_evenly_and_up_to_an_hour() {
    let mut budget = Budget::new(DAY_BYTES);
    assert_eq!(budget.level(), WHOLE / 2);
    budget.note(Instant(HOUR), 7 << 30);
    assert_eq!(budget.level(), WHOLE / 2, "what was before is not counted");
    budget.note(Instant(HOUR + HOUR / 4), 7 << 30);
    assert_eq!(budget.level(), WHOLE / 4 * 3);
    budget.note(Instant(HOUR + HOUR / 4), (7 << 30) + (1 << 29));
    assert_eq!(budget.level(), WHOLE / 4, "half of what an hour brings is spent");
    budget.note(Instant(100 * HOUR), (7 << 30) + (1 << 29));
    assert_eq!(budget.level(), WHOLE, "nothing is kept beyond an hour");
    budget.note(Instant(100 * HOUR), (10 << 30) + (1 << 29));
    assert_eq!(budget.level(), 0);
    budget.note(Instant(101 * HOUR), (10 << 30) + (1 << 29));
    assert_eq!(budget.level(), 0, "what was overdrawn is owed");
    budget.note(Instant(103 * HOUR), (10 << 30) + (1 << 29));
    assert_eq!(budget.level(), WHOLE);
    budget.note(Instant(102 * HOUR), (10 << 30) + (1 << 29));
    budget.note(Instant(103 * HOUR), (11 << 30) + (1 << 29));
    assert_eq!(budget.level(), 0, "time that goes back is not credited twice");
}

/// Demand of ten times the budget for a day writes what is credited, and what was kept.
#[test]
fn a_day_of_demand_writes_a_budget() {
    let mut gate = Gate::new(Admission::Auto, Some(DAY_BYTES), 0);
    let (bytes, step) = (1 << 20, HOUR / 10_240);
    let mut written = 0;
    for turn in 0..24 * 10_240 {
        gate.note(Instant(turn * step), written);
        let visit = if turn % 10 == 0 { Visit::Again } else { Visit::First };
        written += if gate.admits(visit) { bytes } else { 0 };
    }
    let hour = DAY_BYTES / 24;
    assert!((DAY_BYTES - hour..DAY_BYTES + hour).contains(&written), "{} of {DAY_BYTES}", written);
}

#[test]
fn policies_admit_what_they_say() {
    let mut all = Gate::new(Admission::All, None, 0);
    assert_eq!((admitted(&mut all, Visit::First, 100), admitted(&mut all, Visit::Again, 100)), (100, 100));
    let mut second = Gate::new(Admission::Second, Some(1), 8);
    assert_eq!(
        (admitted(&mut second, Visit::First, 100), admitted(&mut second, Visit::Again, 100)),
        (0, 100)
    );
    assert_eq!(second.level(), WHOLE, "a budget is kept by `auto` only");
    let mut auto = Gate::new(Admission::Auto, Some(DAY_BYTES), 8);
    assert_eq!(admitted(&mut auto, Visit::First, 100), 50, "half is left in the beginning");
    assert_eq!(admitted(&mut auto, Visit::Again, 100), 100);
}

#[test]
fn a_ghost_remembers_once_and_has_its_bounds() {
    let hash = |number: u64| KeyHash::from_bits((number * 0x1_0001_0007) & ((1 << 48) - 1));
    let mut gate = Gate::new(Admission::Second, None, 64);
    assert_eq!(gate.bytes(), 256);
    assert_eq!(gate.visit(hash(5)), Visit::First);
    gate.forgets(hash(5));
    assert_eq!((gate.visit(hash(5)), gate.visit(hash(5))), (Visit::Again, Visit::First));
    (1..1_000).for_each(|number| gate.forgets(hash(number)));
    let known = (1..1_000).filter(|number| gate.visit(hash(*number)) == Visit::Again).count();
    assert!((1..=64).contains(&known), "{known} hashes in 64 places");
    let mut none = Gate::new(Admission::Second, None, 0);
    none.forgets(hash(1));
    assert_eq!(none.visit(hash(1)), Visit::First, "no room, and nothing is remembered");
}
