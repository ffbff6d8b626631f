//! Each model on requests that can be followed by hand, and all of them against the one that knows the future.

use super::*;

fn get(key: u64, bytes: u32) -> Ask {
    Ask { key, bytes, kind: Kind::Get }
}

fn load(keys: &[u64]) -> Load {
    Load { name: "test".to_owned(), asks: keys.iter().map(|key| get(*key, 10)).collect() }
}

fn hits(keys: &[u64], mut model: impl Model) -> u64 {
    play(&load(keys), 100, &mut model).hits
}

/// The example of the literature: a loop that is one larger than the cache defeats LRU, and only the future helps.
#[test]
fn a_loop_that_does_not_fit_tells_them_apart() {
    let keys: Vec<u64> = (0..40).map(|at| at % 4).collect();
    assert_eq!(hits(&keys, ObjectLru::new(30)), 0);
    let belady = hits(&keys, Belady::new(30, &load(&keys)));
    // Of four that come in turn three are there.
    assert!((20..30).contains(&belady), "{belady}");
    let sieve = hits(&keys, Sieve::new(30));
    assert!(sieve <= belady, "{sieve}");
}

#[test]
fn lru_takes_what_was_asked_for_longest_ago() {
    // 1 is used again, so 2 goes for 4.
    assert_eq!(hits(&[1, 2, 3, 1, 4, 1, 3, 4], ObjectLru::new(30)), 4);
    assert_eq!(hits(&[1, 2, 3, 1, 4, 2], ObjectLru::new(30)), 1);
}

#[test]
fn sieve_spares_what_was_visited_once() {
    // The hand spares 1, clears its mark and takes 2; then it goes on at 3, although 1 is older.
    assert_eq!(hits(&[1, 2, 3, 1, 4, 5, 1], Sieve::new(30)), 2);
}

#[test]
fn regions_go_whole() {
    // Two regions of two: 5 opens a third, and 3 and 4 go, for 1 was asked for later.
    assert_eq!(hits(&[1, 2, 3, 4, 1, 5, 1, 2, 3], RegionLru::new(40, 20)), 3);
}

#[test]
fn another_size_is_another_version() {
    let asks = vec![get(1, 10), get(1, 10), get(1, 12), get(1, 10)];
    let load = Load { name: "test".to_owned(), asks };
    let models: [Box<dyn Model>; 4] = [
        Box::new(ObjectLru::new(100)),
        Box::new(Sieve::new(100)),
        Box::new(RegionLru::new(100, 50)),
        Box::new(Belady::new(100, &load)),
    ];
    for mut model in models {
        assert_eq!(play(&load, 100, model.as_mut()).hits, 1);
    }
}

#[test]
fn what_is_removed_or_too_large_is_not_there() {
    let remove = Ask { key: 1, bytes: 10, kind: Kind::Remove };
    let asks = vec![get(1, 10), remove, get(1, 10), get(1, 200), get(1, 200), get(1, 10)];
    let load = Load { name: "test".to_owned(), asks };
    assert_eq!(play(&load, 100, &mut ObjectLru::new(1000)).hits, 0);
    assert_eq!(play(&load, 100, &mut RegionLru::new(1000, 100)).hits, 0);
}

/// No model holds more than it may, and none is better than the prophet.
#[test]
fn nobody_beats_the_prophet() {
    let mut random = base::random::Random::from_seed(7);
    for _ in 0..50 {
        let keys: Vec<u64> = (0..2_000).map(|_| random.below(30) * random.below(30) / 20).collect();
        let capacity = 10 * (2 + random.below(20));
        let best = hits(&keys, Belady::new(capacity, &load(&keys)));
        let others = [
            hits(&keys, ObjectLru::new(capacity)),
            hits(&keys, Sieve::new(capacity)),
            hits(&keys, RegionLru::new(capacity, 10)),
        ];
        assert!(others.iter().all(|hits| *hits <= best), "{others:?} of {best}");
        assert!(others.iter().all(|hits| *hits > 0));
    }
}
