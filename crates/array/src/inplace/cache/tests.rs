//! The cache against a map of what was put into it.

use super::*;
use base::random::Random;
use std::collections::BTreeMap;

const PIECES: usize = 4;

/// Puts a row with a piece for each content that there is.
fn put(cache: &mut Cache, stock: &mut Stock, row: u64, contents: [Option<u8>; PIECES]) {
    let mut pieces = Held::new(PIECES);
    for (piece, content) in contents.iter().enumerate() {
        if let Some(content) = content {
            let mut frame = stock.take();
            frame.data.fill(*content);
            pieces.put(piece, frame);
        }
    }
    cache.put(row, &mut pieces, row.is_multiple_of(3), stock);
    assert!(pieces.is_empty(), "the limit has room for a row");
}

fn take(cache: &mut Cache, stock: &mut Stock, row: u64) -> Option<[Option<u8>; PIECES]> {
    let mut pieces = Held::new(PIECES);
    let is_there = cache.take(row, &mut pieces, stock);
    let mut contents = [None; PIECES];
    for (piece, content) in contents.iter_mut().enumerate() {
        *content = pieces.get(piece).map(|block| block[17]);
    }
    pieces.give(pieces.pieces(), stock);
    is_there.then_some(contents)
}

#[test]
fn what_is_there_is_what_was_put_last() {
    for seed in 0..30 {
        let mut random = Random::from_seed(seed);
        let frames_max = 4 + random.index(40);
        let mut cache = Cache::new(u64::try_from(frames_max * bytes_per_frame(PIECES)).unwrap(), PIECES);
        assert_eq!(cache.frames_max(), frames_max);
        let mut stock = Stock::new(8, 8).with_kept(frames_max);
        assert!(stock.reserve(8));
        let mut model: BTreeMap<u64, [Option<u8>; PIECES]> = BTreeMap::new();
        for _ in 0..2000 {
            let row = random.below(60) * random.below(5);
            match random.below(20) {
                0..10 => {
                    let contents =
                        [0; PIECES].map(|_| random.chance(1, 2).then(|| random.bits().to_le_bytes()[0]));
                    cache.discard(row, &mut stock);
                    put(&mut cache, &mut stock, row, contents);
                    model.insert(row, contents);
                }
                10..19 => {
                    let found = take(&mut cache, &mut stock, row);
                    assert!(found.is_none() || model.get(&row) == found.as_ref(), "row {row}: {found:?}");
                    assert!(!cache.has(row));
                }
                _ if random.chance(1, 20) => {
                    let epoch = cache.epoch();
                    cache.follow(PieceSet::one(random.index(4)), PieceSet::EMPTY, &mut stock);
                    assert!(cache.frames() == 0 || cache.epoch() == epoch);
                }
                _ => cache.discard(row, &mut stock),
            }
            cache.check_invariants();
            assert_eq!(stock.own_out(), 0);
        }
        cache.clear(&mut stock);
        assert_eq!(stock.available(), 8, "all frames are home");
    }
}

#[test]
fn what_was_of_use_stays_longer() {
    let mut cache = Cache::new(u64::try_from(8 * bytes_per_frame(PIECES)).unwrap(), PIECES);
    let mut stock = Stock::new(8, 8).with_kept(8);
    assert!(stock.reserve(8));
    let one = [Some(1), None, None, Some(2)];
    for row in [1, 3, 2, 4] {
        put(&mut cache, &mut stock, row, one);
    }
    for row in [5, 7, 8] {
        put(&mut cache, &mut stock, row, one);
    }
    assert!(cache.has(3) && !cache.has(1) && cache.has(8));
}

#[test]
fn a_cache_of_too_few_bytes_keeps_nothing() {
    let mut cache = Cache::new(u64::try_from(3 * bytes_per_frame(PIECES)).unwrap(), PIECES);
    let mut stock = Stock::new(8, 8);
    assert!(stock.reserve(8));
    let mut pieces = Held::new(PIECES);
    pieces.put(0, stock.take());
    cache.put(7, &mut pieces, false, &mut stock);
    assert!(pieces.get(0).is_some() && !cache.has(7) && cache.frames_max() == 0);
}
