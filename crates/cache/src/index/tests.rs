//! The index against a list of what should be in it.

use super::*;
use base::random::Random;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Insert(u64, u32),
    Remove(u64, bool),
    Sweep(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..60_u64, 1..50_u32).prop_map(|(key, page)| Step::Insert(key, page)),
        2 => (0..60_u64, any::<bool>()).prop_map(|(key, even)| Step::Remove(key, even)),
        1 => (2..6_u32).prop_map(Step::Sweep),
    ];
    proptest::collection::vec(step, 1..200)
}

fn hash_of(key: u64) -> KeyHash {
    KeyHash::from_bits(Random::from_seed(key).bits() >> 16)
}

fn found(index: &Index, ident: Ident) -> Vec<u32> {
    let mut pages: Vec<u32> = index.find(ident).map(|page| page.0).collect();
    pages.sort_unstable();
    pages
}

proptest! {
    #[test]
    fn slots_stay_until_they_are_removed(steps in steps(), buckets in 1_u64..9, tag_bits in 1_u32..13) {
        let shape = Shape::new(buckets, tag_bits).unwrap();
        let mut index = Index::new(shape);
        let mut model: Vec<(Ident, u32)> = Vec::new();
        for step in steps {
            match step {
                Step::Insert(key, page) => {
                    let before = model.len() as u64;
                    match index.insert(hash_of(key), PageNumber(page)) {
                        Ok(()) => model.push((shape.ident(hash_of(key)), page)),
                        Err(NoSlot) => prop_assert_eq!(index.used(), before),
                    }
                }
                Step::Remove(key, even) => {
                    let ident = shape.ident(hash_of(key));
                    let before = model.len() as u64;
                    let removed = index.remove(ident, |page| !even || page.0 % 2 == 0);
                    model.retain(|(own, page)| *own != ident || (even && page % 2 != 0));
                    prop_assert_eq!(removed, before - model.len() as u64);
                }
                Step::Sweep(modulus) => {
                    let mut next = Some(0);
                    while let Some(from) = next {
                        next = index.sweep(from, 2, |ident, page| {
                            assert!(model.contains(&(ident, page.0)), "{ident:?} has no slot for {page:?}");
                            page.0 % modulus == 0
                        });
                    }
                    model.retain(|(_, page)| page % modulus != 0);
                }
            }
            prop_assert_eq!(index.used(), model.len() as u64);
            for key in 0..60 {
                let ident = shape.ident(hash_of(key));
                let mut expected: Vec<u32> =
                    model.iter().filter(|(own, _)| *own == ident).map(|(_, page)| *page).collect();
                expected.sort_unstable();
                prop_assert_eq!(found(&index, ident), expected);
            }
        }
    }
}

#[test]
fn nine_of_ten_slots_are_used_with_few_that_find_none() {
    let shape = Shape::new(1 << 12, 12).unwrap();
    let mut index = Index::new(shape);
    let wanted = (1 << 12) * SLOTS as u64 * 9 / 10;
    let refused = (0..wanted).filter(|key| index.insert(hash_of(*key), PageNumber(1)).is_err()).count();
    assert!(refused as u64 <= wanted / 1000, "{refused} of {wanted} found no slot");
    assert_eq!(index.used() + refused as u64, wanted);
    assert!(index.bytes() as f64 / index.used() as f64 <= 6.0);
}

#[test]
fn heat_counts_hits_moves_along_and_ends_at_three() {
    let shape = Shape::new(2, 12).unwrap();
    let mut index = Index::new(shape);
    let hash = hash_of(1);
    let ident = shape.ident(hash);
    index.insert(hash, PageNumber(9)).unwrap();
    (0..5).for_each(|_| index.warm(ident, PageNumber(9)));
    index.warm(ident, PageNumber(8));
    assert_eq!((index.heat(ident, PageNumber(9)), index.heat(ident, PageNumber(8))), (3, 0));
    let more = (100..140).filter(|key| index.insert(hash_of(*key), PageNumber(5)).is_ok()).count();
    assert_eq!(more, 23);
    assert_eq!(index.heat(ident, PageNumber(9)), 3);
    index.clear();
    assert_eq!((index.used(), index.heat(ident, PageNumber(9))), (0, 0));
}
