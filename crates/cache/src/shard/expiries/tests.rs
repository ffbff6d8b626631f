//! Samples against all records by themselves.

use super::*;
use base::random::Random;

#[test]
fn the_last_time_is_exact() {
    for seed in 0..200 {
        let mut random = Random::from_seed(seed);
        let (mut expiries, mut last, mut first) = (Expiries::new(100_000), None, u64::MAX);
        assert!(!expiries.are_over(WallMillis(NEVER)), "nothing has not expired");
        for _ in 0..random.below(60) {
            let span = 1 + random.below(40);
            let at = WallMillis(1 + random.below(1 << span));
            expiries.add(Some(at), 1 + random.index(5_000));
            (first, last) = (first.min(at.0), last.max(Some(at)));
        }
        assert_eq!(expiries.last(), last, "seed {seed}");
        let Some(last) = last else { continue };
        assert!(expiries.have_begun(WallMillis(first)) && !expiries.have_begun(WallMillis(first - 1)));
        assert!(expiries.are_over(last) && !expiries.are_over(WallMillis(last.0 - 1)), "seed {seed}");
        expiries.add(None, 1);
        assert_eq!((expiries.last(), expiries.are_over(last)), (None, false), "seed {seed}");
    }
}

#[test]
fn samples_tell_how_much_has_expired() {
    let (mut told, mut expired) = (0, 0);
    for seed in 0..100 {
        let mut random = Random::from_seed(seed);
        let mut expiries = Expiries::new(1 << 20);
        let mut bytes = 0;
        while bytes < 1 << 20 {
            // What is short lives shorter: a third of the bytes is of two thirds of the records.
            let (at, len) = if random.chance(2, 3) { (1_000, 250) } else { (9_000, 1_000) };
            expiries.add(Some(WallMillis(at)), len);
            bytes += len as u64;
            expired += if at == 1_000 { len as u64 } else { 0 };
        }
        told += expiries.expired_bytes(WallMillis(1_000));
        assert_eq!(expiries.expired_bytes(WallMillis(999)), 0);
        assert_eq!(expiries.expired_bytes(WallMillis(9_000)), bytes);
    }
    assert!(told.abs_diff(expired) < expired / 20, "{told} told of {expired}");
}
