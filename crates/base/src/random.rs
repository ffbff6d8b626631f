//! Seeded randomness, passed as a parameter: the same seed gives the same run.

/// A small, fast, seeded generator (xoshiro256++ seeded by splitmix64; Blackman and Vigna, 2019).
///
/// Bad at: secrets. It is predictable on purpose.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

/// Spreads 64 bits: each bit of the result depends on all of them (the finalizer of SplitMix64).
#[must_use]
pub fn mix(bits: u64) -> u64 {
    let mixed = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl Random {
    /// The generator of a seed.
    #[must_use]
    pub fn from_seed(seed: u64) -> Random {
        let mut mixer = seed;
        let mut next = || {
            mixer = mixer.wrapping_add(0x9e37_79b9_7f4a_7c15);
            mix(mixer)
        };
        Random { state: [next(), next(), next(), next()] }
    }

    /// The next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let t = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= t;
        *d = d.rotate_left(45);
        result
    }

    /// A number in `0..limit`, by multiplication (bias below 2^-32 for limits below 2^32).
    ///
    /// # Panics
    /// When `limit` is zero.
    pub fn below(&mut self, limit: u64) -> u64 {
        assert!(limit > 0);
        let wide = u128::from(self.bits()) * u128::from(limit);
        u64::try_from(wide >> 64).expect("the high half of a 128-bit product")
    }

    /// An index into a collection of `len` elements.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).expect("below a usize")
    }

    /// True `numerator` times in `denominator`.
    pub fn chance(&mut self, numerator: u64, denominator: u64) -> bool {
        self.below(denominator) < numerator
    }

    /// Fills a buffer with random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let bits = self.bits().to_le_bytes();
            chunk.copy_from_slice(&bits[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_sequence_and_another_seed_another() {
        let mut a = Random::from_seed(7);
        let mut b = Random::from_seed(7);
        let mut c = Random::from_seed(8);
        let first: Vec<u64> = (0..8).map(|_| a.bits()).collect();
        assert_eq!(first, (0..8).map(|_| b.bits()).collect::<Vec<u64>>());
        assert_ne!(first, (0..8).map(|_| c.bits()).collect::<Vec<u64>>());
    }

    #[test]
    fn below_stays_below_and_reaches_every_value() {
        let mut random = Random::from_seed(1);
        let mut seen = [false; 5];
        for _ in 0..200 {
            seen[random.index(5)] = true;
        }
        assert_eq!(seen, [true; 5]);
    }
}
