//! Random variation of times, from one seeded generator per drive.
//!
//! Logarithms and roots come from the standard library, whose last bits may differ between
//! platforms; on x86-64 Linux a seed gives one run, byte for byte.

use base::random::Random;

/// Draws from the distributions that the model needs.
#[derive(Clone, Debug)]
pub(super) struct Noise {
    random: Random,
    /// The second of the pair of normal numbers that one transformation gives.
    spare: Option<f64>,
}

impl Noise {
    pub(super) fn from_seed(seed: u64) -> Noise {
        Noise { random: Random::from_seed(seed), spare: None }
    }

    /// Uniform in `0.0..1.0`.
    pub(super) fn uniform(&mut self) -> f64 {
        (self.random.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True with this probability.
    pub(super) fn chance(&mut self, probability: f64) -> bool {
        self.uniform() < probability
    }

    /// An index below `len`.
    pub(super) fn index(&mut self, len: usize) -> usize {
        self.random.index(len)
    }

    /// A number below `limit`.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.random.below(limit)
    }

    /// Normal with mean 0 and standard deviation 1 (Marsaglia's polar method).
    pub(super) fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        loop {
            let (x, y) = (2.0 * self.uniform() - 1.0, 2.0 * self.uniform() - 1.0);
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                let factor = (-2.0 * square.ln() / square).sqrt();
                self.spare = Some(y * factor);
                return x * factor;
            }
        }
    }

    /// Exponential with this mean.
    pub(super) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.uniform()).ln()
    }

    /// Erlang: the sum of `stages` exponentials with this mean altogether.
    pub(super) fn erlang(&mut self, stages: u32, mean: f64) -> f64 {
        let mut product = 1.0;
        for _ in 0..stages {
            product *= 1.0 - self.uniform();
        }
        -mean / f64::from(stages) * product.ln()
    }

    /// Lognormal with mean 1 and this spread.
    pub(super) fn lognormal(&mut self, spread: f64) -> f64 {
        (spread * self.normal() - spread * spread / 2.0).exp()
    }
}

/// A time in microseconds as nanoseconds; negative times are none.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the only way from a float to a count; it saturates, and times are finite and positive"
)]
pub(super) fn nanos(micros: f64) -> u64 {
    (micros.max(0.0) * 1000.0).round() as u64
}

/// A share or multiple of a count.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts of bytes times small positive factors; it saturates"
)]
pub(super) fn scaled(count: u64, factor: f64) -> u64 {
    (count as f64 * factor.max(0.0)).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_have_their_means() {
        let mut noise = Noise::from_seed(1);
        let count = 200_000;
        let mut mean = |draw: fn(&mut Noise) -> f64| {
            (0..count).map(|_| draw(&mut noise)).sum::<f64>() / f64::from(count)
        };
        assert!((mean(Noise::uniform) - 0.5).abs() < 0.01);
        assert!(mean(Noise::normal).abs() < 0.01);
        assert!((mean(|noise| noise.normal().powi(2)) - 1.0).abs() < 0.02);
        assert!((mean(|noise| noise.exponential(3.0)) - 3.0).abs() < 0.05);
        assert!((mean(|noise| noise.erlang(4, 128.0)) - 128.0).abs() < 1.0);
        assert!((mean(|noise| noise.lognormal(0.2)) - 1.0).abs() < 0.01);
    }

    #[test]
    fn nanoseconds_are_rounded_and_never_negative() {
        assert_eq!(nanos(11.3604), 11_360);
        assert_eq!(nanos(0.0006), 1);
        assert_eq!(nanos(-5.0), 0);
    }
}
