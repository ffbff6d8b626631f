//! The queue of copies, alone and beside a plain one.

use super::*;
use base::random::Random;
use std::collections::VecDeque;

fn copied(key: u8, bytes: usize) -> Copied {
    let object = Object {
        value: vec![key; bytes].into(),
        flags: 0,
        marks: crate::request::Marks::default(),
        expires: None,
    };
    // Keys of one parity share an ident.
    let ident = Ident { bucket: u64::from(key % 2), tag: 1 };
    Copied { key: FullKey::new(Namespace(key % 3), &[key]), ident, object, page: PageNumber(9), birth: 1 }
}

fn keys(memory: &Memory) -> Vec<u8> {
    let mut found = Vec::new();
    let mut at = memory.oldest;
    while at != NOBODY {
        let entry = memory.entries.get(at);
        found.push(entry.copied.key.plain()[0]);
        at = entry.newer;
    }
    found
}

#[test]
fn entries_leave_in_their_order_but_for_those_that_were_hit() {
    let mut memory = Memory::default();
    (0..6).for_each(|key| memory.put(copied(key, 100)));
    let full = memory.bytes();
    let hit = memory.find(copied(0, 0).ident, &copied(0, 0).key).expect("it was put");
    memory.entries.get_mut(hit).was_hit = true;
    memory.shrink(full - 1);
    assert_eq!(keys(&memory), [2, 3, 4, 5, 0]);
    memory.shrink(full - 1);
    assert_eq!(keys(&memory), [2, 3, 4, 5, 0], "it fits now");
    memory.shrink(0);
    assert_eq!((memory.objects(), memory.bytes()), (0, 0), "all room comes back");
}

#[test]
fn a_turn_ends_when_all_were_hit() {
    let mut memory = Memory::default();
    (0..200).for_each(|key| memory.put(copied(key, 10)));
    for number in 0..200 {
        memory.entries.get_mut(number).was_hit = true;
    }
    memory.shrink(memory.bytes() - 1);
    assert_eq!(memory.objects(), 199);
}

/// Random operations, held against a queue in a vector.
#[test]
fn it_does_what_a_plain_queue_does() {
    for seed in 0..200 {
        let mut random = Random::from_seed(seed);
        let (mut memory, mut plain) = (Memory::default(), VecDeque::new());
        for _ in 0..200 {
            let key = u8::try_from(random.below(40)).expect("small");
            let ident = copied(key, 0).ident;
            match random.below(10) {
                0 => {
                    memory.drop_ident(ident);
                    plain.retain(|other| other % 2 != key % 2);
                }
                1 => {
                    memory.drop_all(|namespace| namespace.0 == key % 3);
                    plain.retain(|other| other % 3 != key % 3);
                }
                2 => {
                    let limit = memory.bytes().saturating_sub(random.below(1_000));
                    memory.shrink(limit);
                    assert!(memory.bytes() <= limit);
                    plain.drain(..plain.len() - memory.objects());
                }
                _ if memory.find(ident, &copied(key, 0).key).is_none() => {
                    memory.put(copied(key, random.index(200)));
                    plain.push_back(key);
                }
                _ => {}
            }
            assert_eq!(keys(&memory), Vec::from(plain.clone()));
            let weight: u64 = memory.copies().map(Copied::weight).sum();
            assert_eq!(memory.weight, weight);
        }
    }
}
