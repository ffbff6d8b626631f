//! Orders against a model that keeps plain lists.

use super::*;
use proptest::prelude::*;

fn known(distance: u64) -> Forecast {
    Forecast { rewrites: 1, distance }
}

/// Slots as they leave.
fn all(order: &mut Order, now: u64) -> Vec<u32> {
    std::iter::from_fn(|| {
        let slot = order.next(now)?;
        order.remove(slot);
        Some(slot)
    })
    .collect()
}

#[test]
fn what_was_overwritten_is_passed_over_once() {
    let mut order = Order::new(Lifetimes::Off, 4, 100);
    (0..4).for_each(|slot| order.push(slot, &Forecast::UNKNOWN, 0));
    order.touch(0, &Forecast::UNKNOWN, 0);
    assert_eq!(all(&mut order, 0), [1, 2, 3, 0]);
}

#[test]
fn what_is_overwritten_last_leaves_first() {
    let mut order = Order::new(Lifetimes::Levels, 5, 1_000);
    for (slot, forecast) in
        [(0, known(8)), (1, known(200)), (2, Forecast::UNKNOWN), (3, known(8)), (4, known(100))]
    {
        order.push(slot, &forecast, 0);
    }
    assert_eq!(all(&mut order, 1), [2, 1, 4, 0, 3]);
}

/// A block that was expected soon and did not come is expected later than one that nothing is known of.
#[test]
fn what_does_not_come_leaves() {
    let mut order = Order::new(Lifetimes::Levels, 2, 1_000);
    order.push(0, &known(8), 0);
    order.push(1, &Forecast::UNKNOWN, 4_000);
    assert_eq!(order.class(0, 4_000), class_of(4_000));
    assert_eq!(all(&mut order, 4_000), [0, 1]);
}

#[test]
fn what_was_written_once_leaves_first_while_there_is_much_of_it() {
    let mut order = Order::new(Lifetimes::Queues, 40, 100);
    (0..30).for_each(|slot| order.push(slot, &known(50), 0));
    (30..40).for_each(|slot| order.push(slot, &Forecast::UNKNOWN, 0));
    order.touch(31, &known(5), 0);
    // A tenth of those that are left may be written once.
    let left: Vec<u32> = all(&mut order, 0).into_iter().take(9).collect();
    assert_eq!(left, [30, 32, 33, 34, 35, 36, 0, 1, 2]);
}

proptest! {
    /// Whatever is done, each slot that is in the order leaves it once.
    #[test]
    fn every_slot_leaves_once(
        lifetimes in proptest::sample::select(vec![Lifetimes::Off, Lifetimes::Levels, Lifetimes::Queues]),
        steps in proptest::collection::vec((0..4_u8, 0..12_u32, 0..300_u64), 1..200),
    ) {
        let mut order = Order::new(lifetimes, 12, 100);
        let mut held: Vec<u32> = Vec::new();
        let mut now = 0;
        for (step, slot, distance) in steps {
            now += distance / 10;
            let forecast = if distance < 100 { Forecast::UNKNOWN } else { known(distance) };
            match (step, held.iter().position(|held| *held == slot)) {
                (0 | 1, None) => {
                    order.push(slot, &forecast, now);
                    held.push(slot);
                }
                (0 | 1, Some(_)) => order.touch(slot, &forecast, now),
                (2, Some(at)) => {
                    order.remove(slot);
                    order.forget_hits(slot);
                    held.swap_remove(at);
                }
                _ => {
                    let next = order.next(now);
                    prop_assert_eq!(next.is_some(), !held.is_empty());
                    prop_assert!(next.is_none_or(|next| held.contains(&next)));
                }
            }
            prop_assert_eq!(order.len(), held.len());
            prop_assert!((0..12).all(|slot| order.contains(slot) == held.contains(&slot)));
        }
        let mut left = all(&mut order, now);
        left.sort_unstable();
        held.sort_unstable();
        prop_assert_eq!(left, held);
    }
}
