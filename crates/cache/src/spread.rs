//! Shards of a cache: which one has a key, and where a walk over all of them is.
//!
//! A shard is a cache by itself, in slices of the zones of all drives. Keys fall to shards by the upper 16 bits of the hash of which the
//! index takes the lower 48. Of a key with a *hash tag*, `{...}` as Redis Cluster has it, the tag alone is hashed, so that clients can
//! keep keys together.

use crate::hash::spread_of;
use crate::request::Namespace;

/// Most shards: a place of a walk has six bits for them.
pub const SHARDS_MAX: usize = 64;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    shards: usize,
    secret: [u8; 16],
}

impl Spread {
    /// Spread over so many shards, by this secret of hashes.
    ///
    /// # Panics
    /// When there are none, or too many.
    #[must_use]
    pub fn new(shards: usize, secret: [u8; 16]) -> Spread {
        assert!((1..=SHARDS_MAX).contains(&shards), "a cache has 1 to 64 shards");
        Spread { shards, secret }
    }

    /// Count of shards.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.shards
    }

    /// The shard that has a key.
    #[inline]
    #[must_use]
    pub fn shard_of(&self, namespace: Namespace, key: &[u8]) -> usize {
        if self.shards == 1 {
            return 0;
        }
        let shard = (usize::from(spread_of(&self.secret, namespace, hashed_part(key))) * self.shards) >> 16;
        debug_assert!(shard < self.shards, "{shard} of {} shards", self.shards);
        shard
    }

    fn bits(&self) -> u32 {
        self.shards.next_power_of_two().trailing_zeros()
    }

    /// The shard that a place of a walk is in, and the place there; none behind the last shard. The lowest bits of the place there are lost:
    /// a walk that goes on may tell once more what it has told.
    #[must_use]
    pub fn locate(&self, place: u64) -> Option<(usize, u64)> {
        let bits = self.bits();
        if bits == 0 {
            return Some((0, place));
        }
        let shard = usize::try_from(place >> (64 - bits)).expect("at most 6 bits");
        (shard < self.shards).then_some((shard, place << bits))
    }

    /// The place of a walk that is at a place of a shard.
    ///
    /// # Panics
    /// When there is no such shard.
    #[must_use]
    pub fn place(&self, shard: usize, place: u64) -> u64 {
        assert!(shard < self.shards, "{shard} is no shard");
        match self.bits() {
            0 => place,
            bits => ((shard as u64) << (64 - bits)) | (place >> bits),
        }
    }
}

/// Identity of a shard of a cache: that of the cache where there is one shard; else the number of shards and its own are in it, so that a
/// shard is never taken for another, nor for one of a cache that is cut otherwise.
#[must_use]
pub fn identity_of(cache: [u8; 16], number: usize, shards: usize) -> [u8; 16] {
    assert!(number < shards, "{number} of {shards} shards");
    let mut identity = cache;
    if shards > 1 {
        identity[14] ^= u8::try_from(shards).expect("at most 64 shards");
        identity[15] ^= u8::try_from(number).expect("at most 64 shards");
    }
    identity
}

/// The hash tag of a key: what is between the first `{` and the `}` after it, if that is not empty; else all of the key.
fn hashed_part(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|byte| *byte == b'{') else { return key };
    let rest = &key[open + 1..];
    match rest.iter().position(|byte| *byte == b'}') {
        None | Some(0) => key,
        Some(end) => &rest[..end],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::random::Random;

    const DATABASE: Namespace = Namespace(0);

    #[test]
    fn keys_are_spread_evenly_and_tags_keep_them_together() {
        for shards in [1, 2, 3, 7, 64] {
            let spread = Spread::new(shards, [7; 16]);
            let mut counts = vec![0_usize; shards];
            for number in 0..20_000 {
                counts[spread.shard_of(DATABASE, format!("key:{number}").as_bytes())] += 1;
            }
            let mean = 20_000 / shards;
            assert!(counts.iter().all(|count| count.abs_diff(mean) < mean / 3 + 40), "{shards}: {counts:?}");
            let together = |key: &str| spread.shard_of(DATABASE, key.as_bytes());
            for number in 0..100 {
                let tag = format!("user:{number}");
                assert_eq!(together(&format!("{{{tag}}}:name")), together(&format!("of {{{tag}}} {{x}}")));
                // No tag: all of the key counts.
                assert_eq!(together(&format!("{tag}{{}}")), {
                    (usize::from(spread_of(&[7; 16], DATABASE, format!("{tag}{{}}").as_bytes())) * shards)
                        >> 16
                });
            }
        }
    }

    #[test]
    fn places_of_walks_lead_to_their_shard_in_order() {
        let mut random = Random::from_seed(3);
        for shards in [1, 2, 3, 5, 64] {
            let spread = Spread::new(shards, [0; 16]);
            assert_eq!(spread.place(0, 0), 0, "a walk begins at 0");
            for _ in 0..500 {
                let (shard, place) = (random.index(shards), random.bits());
                let (found, from) = spread.locate(spread.place(shard, place)).unwrap();
                assert_eq!(found, shard);
                assert!(from <= place && place - from < 64, "{shards}: {place:x} {from:x}");
                if shard + 1 < shards {
                    assert!(spread.place(shard, u64::MAX) < spread.place(shard + 1, 0));
                }
            }
        }
        assert_eq!(Spread::new(3, [0; 16]).locate(u64::MAX), None);
    }

    #[test]
    fn shards_have_identities_of_their_own() {
        let mut all: Vec<[u8; 16]> = (1..=8)
            .flat_map(|shards| (0..shards).map(move |number| identity_of([9; 16], number, shards)))
            .collect();
        assert_eq!(all[0], [9; 16]);
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
