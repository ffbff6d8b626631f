//! How many requests a cache answered.

use crate::precise::precise_u64;
use serde::Serialize;

/// Counts of gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Score {
    /// Gets.
    pub gets: u64,
    /// Gets that were answered with the object.
    pub hits: u64,
    /// Bytes that gets asked for.
    pub bytes_asked: u64,
    /// Bytes of hits.
    pub bytes_hit: u64,
}

impl Score {
    /// A get was answered.
    pub fn note(&mut self, bytes: u32, is_hit: bool) {
        self.gets += 1;
        self.bytes_asked += u64::from(bytes);
        if is_hit {
            self.hits += 1;
            self.bytes_hit += u64::from(bytes);
        }
    }

    /// Share of gets that hit; 0 when there was none.
    #[must_use]
    pub fn hit_ratio(&self) -> f64 {
        precise_u64(self.hits) / precise_u64(self.gets.max(1))
    }

    /// Share of bytes that hit; 0 when there was none.
    #[must_use]
    pub fn byte_hit_ratio(&self) -> f64 {
        precise_u64(self.bytes_hit) / precise_u64(self.bytes_asked.max(1))
    }
}
