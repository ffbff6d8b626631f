//! Slots against their rules: what is durable in slots alone is never given away, and copies are on drives of their own.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn version(sequence: u64) -> Version {
    Version { sequence, frame: Frame::zeroed(), data_crc: 0, kind: Kind::User }
}

#[test]
fn a_slot_is_given_away_only_when_what_it_held_is_elsewhere() {
    let mut slots = Slots::new(Lifetimes::Off, 1, Vec::new());
    slots.open();
    let id = slots.begin_write(Lba(7), version(1), 0, 2);
    assert_eq!((slots.free_count(), slots.way(Lba(7), 2)), (0, Some(Way::Behind)), "one write in flight");
    assert!(slots.version_of(Lba(7)).is_none(), "not durable");
    assert!(!slots.copy_done(id, true) && slots.copy_done(id, true));
    assert!(slots.end_write(id, true).is_none());
    // It moves, and is overwritten meanwhile: what has moved does not count.
    assert_eq!(slots.next_to_move(), Some(id));
    assert_eq!(slots.begin_move(id).0, Lba(7));
    assert_eq!(slots.way(Lba(7), 2), Some(Way::Over));
    assert_eq!(slots.way(Lba(7), 1), None, "not over what is newer");
    assert_eq!(slots.begin_write(Lba(7), version(2), 0, 2), id);
    assert!(!slots.copy_done(id, true) && slots.copy_done(id, true));
    assert!(slots.end_write(id, true).is_some(), "the version before is overwritten");
    assert!(slots.end_move(id, (Lba(7), 1), true).is_none(), "an older version moved");
    assert_eq!(slots.version_of(Lba(7)).map(|version| version.sequence), Some(2));
    // The stripe of the next move fails; that of the last one is durable.
    for is_durable in [false, true] {
        assert_eq!(slots.free_count(), 0, "the slot holds the newest version");
        slots.begin_move(id);
        assert_eq!(slots.end_move(id, (Lba(7), 2), is_durable).is_some(), is_durable);
    }
    assert_eq!(slots.free_count(), 1);
    slots.check_invariants();
}

#[test]
fn what_was_overwritten_is_passed_over_once() {
    let mut slots = Slots::new(Lifetimes::Off, 2, Vec::new());
    slots.open();
    for (lba, sequence) in [(1, 1), (2, 2), (1, 3)] {
        let id = slots.begin_write(Lba(lba), version(sequence), 0, 1);
        assert!(slots.copy_done(id, true));
        slots.end_write(id, true);
    }
    let id = slots.next_to_move().unwrap();
    assert_eq!(slots.begin_move(id).0, Lba(2));
    let id = slots.next_to_move().unwrap();
    assert_eq!(slots.begin_move(id).0, Lba(1));
    slots.check_invariants();
}

proptest! {
    /// Copies of a slot are on drives of their own, no place has two, and none lies outside of the window.
    #[test]
    fn copies_are_on_drives_of_their_own(members in 1..9_u32, more in 0..4_u32, blocks in 1..70_u32) {
        let copies = (1 + more).min(members);
        let places = SlotPlaces { members, copies, blocks, first: 9 };
        let mut all = BTreeSet::new();
        for slot in 0..places.slots() {
            let own: Vec<(usize, u32)> = (0..copies).map(|copy| places.of(slot, copy)).collect();
            let back: Vec<(u32, u32)> = own.iter().map(|(member, offset)| places.at(*member, *offset)).collect();
            prop_assert_eq!(back, (0..copies).map(|copy| (slot, copy)).collect::<Vec<_>>());
            let drives: BTreeSet<usize> = own.iter().map(|(drive, _)| *drive).collect();
            prop_assert_eq!(drives.len(), copies as usize);
            for (drive, offset) in own {
                prop_assert!(drive < members as usize && (9..9 + blocks).contains(&offset));
                prop_assert!(all.insert((drive, offset)));
            }
        }
        prop_assert!(u32::try_from(all.len()).unwrap() + copies > members * blocks, "nearly all places are used");
    }

    /// Against a model: what a slot holds is the newest durable version, and nothing that is durable in slots alone is given away.
    #[test]
    fn nothing_durable_is_lost(
        lifetimes in proptest::sample::select(vec![Lifetimes::Off, Lifetimes::Levels, Lifetimes::Queues]),
        steps in proptest::collection::vec((0..6_u8, 0..5_u64), 1..300),
    ) {
        let mut slots = Slots::new(lifetimes, 3, vec![(Lba(4), version(1))]);
        let (mut sequence, mut is_open) = (1, false);
        // Newest durable version by block: sequence, and whether it is in slots alone.
        let mut durable: BTreeMap<u64, (u64, bool)> = BTreeMap::from([(4, (1, true))]);
        let request = |sequence: u64| u32::try_from(sequence).unwrap();
        let mut unanswered: BTreeSet<u32> = BTreeSet::new();
        let (mut writing, mut moving): (Vec<u32>, Vec<(u32, Lba, u64)>) = (Vec::new(), Vec::new());
        for (step, number) in steps {
            match step {
                0 | 1 if is_open => {
                    slots.note(Lba(number));
                    match slots.way(Lba(number), sequence + 1) {
                        Some(Way::Free) if slots.free_count() == 0 => continue,
                        Some(Way::Over | Way::Free) => {
                            sequence += 1;
                            let id = slots.begin_write(Lba(number), version(sequence), request(sequence), 1);
                            writing.push(id);
                        }
                        Some(Way::Behind) => {
                            sequence += 1;
                            slots.wait(Lba(number), version(sequence), request(sequence));
                        }
                        None => continue,
                    }
                    unanswered.insert(request(sequence));
                }
                2 if !writing.is_empty() => {
                    let id = writing.swap_remove(usize::try_from(number).unwrap() % writing.len());
                    prop_assert!(slots.copy_done(id, true));
                    let done = slots.written(id);
                    let counts = durable.get(&done.lba.0).is_none_or(|(newest, _)| *newest < done.sequence);
                    slots.end_write(id, counts);
                    if counts {
                        durable.insert(done.lba.0, (done.sequence, true));
                    }
                    prop_assert!(unanswered.remove(&done.request), "a request is answered once");
                    while let Some(replaced) = slots.next_replaced(id, done.sequence) {
                        prop_assert!(u64::from(replaced) < done.sequence, "answered with something newer");
                        prop_assert!(unanswered.remove(&replaced), "a request is answered once");
                    }
                    if let Some((lba, version, request)) = slots.take_waiting(id) {
                        prop_assert!(version.sequence > done.sequence, "what waited is newer");
                        prop_assert_eq!(slots.begin_write(lba, version, request, 1), id);
                        writing.push(id);
                    }
                }
                3 => {
                    let next = slots.next_to_move();
                    prop_assert_eq!(next.is_some(), slots.live_count() > 0);
                    if let Some(id) = next {
                        let (lba, version) = slots.begin_move(id);
                        moving.push((id, lba, version.sequence));
                    }
                }
                4 if !moving.is_empty() => {
                    let (id, lba, moved) = moving.swap_remove(usize::try_from(number).unwrap() % moving.len());
                    let is_durable = number != 0;
                    if slots.end_move(id, (lba, moved), is_durable).is_some() {
                        prop_assert!(is_durable && durable[&lba.0] == (moved, true));
                        durable.insert(lba.0, (moved, false));
                    }
                }
                5 if number == 4 && is_open => {
                    slots.bar(|id| id == 0);
                    while let Some(id) = slots.barred_to_move() {
                        prop_assert_eq!(id, 0);
                        let (lba, version) = slots.begin_move(id);
                        moving.push((id, lba, version.sequence));
                    }
                }
                5 => {
                    sequence += 1;
                    slots.supersede(Lba(number), sequence);
                    durable.insert(number, (sequence, false));
                }
                _ => {}
            }
            if !is_open && slots.used_count() == 0 {
                slots.open();
                is_open = true;
            }
            slots.check_invariants();
            let on_their_way = slots.slots.iter().map(|slot| {
                usize::from(slot.pending.is_some()) + usize::from(slot.waiting.is_some())
            });
            prop_assert_eq!(unanswered.len(), on_their_way.sum::<usize>() + slots.replaced.len());
            for (lba, (newest, is_in_slots)) in &durable {
                let held = slots.version_of(Lba(*lba)).map(|version| version.sequence);
                prop_assert_eq!(held, is_in_slots.then_some(*newest), "block {}", lba);
            }
        }
    }
}
