//! Slots against their rules: what is durable in slots alone is never given away, and copies are on drives of their own.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn version(sequence: u64) -> Version {
    Version { sequence, frame: Frame::zeroed(), data_crc: 0, kind: Kind::User }
}

/// So many slots on one drive.
fn slots_of(lifetimes: Lifetimes, blocks: u32, found: Vec<(Lba, Version)>) -> Slots {
    Slots::new(lifetimes, SlotPlaces { members: 1, copies: 1, blocks, first: 0 }, 1, found)
}

/// A block goes to a slot of drives that have nothing to do.
fn begin(slots: &mut Slots, lba: u64, sequence: u64, request: u32, copies: u32) -> u32 {
    let id = slots.place(Lba(lba), &[0; 4], true);
    slots.begin_write(id, version(sequence), request.into(), copies);
    id
}

#[test]
fn a_slot_is_given_away_only_when_what_it_held_is_elsewhere() {
    let mut slots = slots_of(Lifetimes::Off, 1, Vec::new());
    slots.open(1);
    let id = begin(&mut slots, 7, 1, 0, 2);
    assert_eq!((slots.free_count(), slots.way(Lba(7), 2)), (0, Some(Way::Behind)), "one write in flight");
    assert!(slots.version_of(Lba(7)).is_none(), "not durable");
    assert!(!slots.copy_done(id, true) && slots.copy_done(id, true));
    assert!(slots.end_write(id, true).is_none());
    // It moves, and is overwritten meanwhile: what has moved does not count.
    assert_eq!(slots.next_to_move(), Some(id));
    assert_eq!(slots.begin_move(id).0, Lba(7));
    assert_eq!(slots.way(Lba(7), 2), Some(Way::Over));
    assert_eq!(slots.way(Lba(7), 1), None, "not over what is newer");
    assert_eq!(begin(&mut slots, 7, 2, 0, 2), id);
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
    let mut slots = slots_of(Lifetimes::Off, 2, Vec::new());
    slots.open(1);
    for (lba, sequence) in [(1, 1), (2, 2), (1, 3)] {
        let id = begin(&mut slots, lba, sequence, 0, 1);
        assert!(slots.copy_done(id, true));
        slots.end_write(id, true);
    }
    let id = slots.next_to_move().unwrap();
    assert_eq!(slots.begin_move(id).0, Lba(2));
    let id = slots.next_to_move().unwrap();
    assert_eq!(slots.begin_move(id).0, Lba(1));
    slots.check_invariants();
}

#[test]
fn a_block_goes_aside_and_its_slot_is_free_when_the_newer_version_is_durable() {
    let places = SlotPlaces { members: 4, copies: 2, blocks: 2, first: 0 };
    let write = |slots: &mut Slots, sequence: u64, in_flight: &[u32]| {
        let id = slots.place(Lba(7), in_flight, true);
        slots.begin_write(id, version(sequence), 0.into(), 1);
        id
    };
    // The newer version is durable, fails, or the log has a newer one still.
    for (counts, superseded_by) in [(true, None), (false, None), (false, Some(3))] {
        let mut slots = Slots::new(Lifetimes::Off, places, 1, Vec::new());
        slots.open(1);
        let own = write(&mut slots, 1, &[0; 4]);
        assert!(slots.copy_done(own, true) && slots.end_write(own, true).is_none());
        assert_eq!(slots.place(Lba(7), &[0; 4], true), own, "its drives are as idle as the others");
        assert_eq!(slots.place(Lba(7), &[1, 0, 0, 0], false), own, "there is no slot to spare");
        let aside = write(&mut slots, 2, &[1, 0, 0, 0]);
        assert_ne!(places.drive_set(aside), places.drive_set(own));
        assert_eq!(
            slots.version_of(Lba(7)).map(|version| version.sequence),
            Some(1),
            "read from where it was"
        );
        assert_eq!((slots.free_count(), slots.used_count()), (2, 1), "the slot before is nobody's");
        slots.check_invariants();
        if let Some(sequence) = superseded_by {
            assert!(slots.supersede(Lba(7), sequence).is_some());
            assert_eq!(slots.free_count(), 3, "what it held is in the log");
        }
        assert!(slots.copy_done(aside, true));
        assert!(slots.end_write(aside, counts).is_some(), "one of two versions is not needed");
        let free = if counts {
            3
        } else if superseded_by.is_some() {
            4
        } else {
            2
        };
        assert_eq!(slots.free_count(), free);
        slots.check_invariants();
        let left = slots.version_of(Lba(7)).map(|version| version.sequence);
        assert_eq!(left, if counts { Some(2) } else { Some(1).filter(|_| superseded_by.is_none()) });
        if let Some(sequence) = left {
            let id = slots.next_to_move().unwrap();
            assert_eq!(slots.begin_move(id).0, Lba(7));
            assert!(slots.end_move(id, (Lba(7), sequence), true).is_some());
        }
        assert_eq!(slots.free_count(), 4);
        slots.check_invariants();
    }
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
        let places = SlotPlaces { members: 2, copies: 1, blocks: 2, first: 0 };
        let mut slots = Slots::new(lifetimes, places, 1, vec![(Lba(4), version(1))]);
        let (mut sequence, mut is_open) = (1, false);
        // Newest durable version by block: sequence, and whether it is in slots alone.
        let mut durable: BTreeMap<u64, (u64, bool)> = BTreeMap::from([(4, (1, true))]);
        let request = |sequence: u64| RequestSlot::from(u32::try_from(sequence).unwrap());
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
                            let in_flight = if step == 0 { [0, 1] } else { [1, 0] };
                            let id = slots.place(Lba(number), &in_flight, true);
                            slots.begin_write(id, version(sequence), request(sequence), 1);
                            writing.push(id);
                        }
                        Some(Way::Behind) => {
                            sequence += 1;
                            slots.wait(Lba(number), version(sequence), request(sequence));
                        }
                        None => continue,
                    }
                    unanswered.insert(request(sequence).into());
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
                    prop_assert!(unanswered.remove(&done.request.into()), "a request is answered once");
                    while let Some(replaced) = slots.next_replaced(id, done.sequence) {
                        prop_assert!(u64::from(u32::from(replaced)) < done.sequence, "answered with something newer");
                        prop_assert!(unanswered.remove(&replaced.into()), "a request is answered once");
                    }
                    if let Some((version, request)) = slots.take_waiting(id) {
                        prop_assert!(version.sequence > done.sequence, "what waited is newer");
                        slots.begin_write(id, version, request, 1);
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
                slots.open(1);
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

/// Where space is left for fewer zones than were chosen, slots of these are given out alone.
#[test]
fn fewer_zones_are_opened_than_were_chosen() {
    let places = SlotPlaces { members: 4, copies: 2, blocks: 2, first: 0 };
    let mut slots = Slots::new(Lifetimes::Off, places, 3, Vec::new());
    slots.open(2);
    assert_eq!(slots.free_count(), 2 * places.slots() as usize);
    let given: BTreeSet<u32> =
        (0..u64::from(2 * places.slots())).map(|lba| slots.place(Lba(lba), &[0; 4], true)).collect();
    assert_eq!(given, (0..2 * places.slots()).collect());
    assert_eq!(slots.free_count(), 0);
}
