//! Caches as their authors describe them, without drives: objects take the bytes that they have, and bookkeeping takes none.
//!
//! | model | what goes | stands for |
//! |---|---|---|
//! | [`ObjectLru`] | the object that was asked for longest ago | memcached, Redis |
//! | [`Sieve`] | the object at a hand that spares what was asked for since it came by (NSDI '24) | the best simple policy known |
//! | [`RegionLru`] | the region that was asked for longest ago, whole | `CacheLib`'s Navy |
//! | [`Belady`] | the object that is asked for again last, which only a prophet knows | a bound |
//!
//! They stand in for something that costs more: an object cache on flash has to copy objects, or to write at random.

mod belady;
mod object_lru;
mod region_lru;
mod sieve;

pub use belady::Belady;
pub use object_lru::ObjectLru;
pub use region_lru::RegionLru;
pub use sieve::Sieve;

use super::load::{Ask, Kind, Load};
use super::score::Score;

/// A cache that is asked for objects.
pub trait Model {
    /// True when the object is there, in this version.
    fn get(&mut self, at: usize, ask: &Ask) -> bool;

    /// Stores the object.
    fn put(&mut self, at: usize, ask: &Ask);

    /// Removes the object.
    fn remove(&mut self, key: u64);
}

/// Asks a model everything; objects of more than `bytes_max` are stored nowhere.
pub fn play(load: &Load, bytes_max: u32, model: &mut dyn Model) -> Score {
    let mut score = Score::default();
    for (at, ask) in load.asks.iter().enumerate() {
        if ask.kind == Kind::Get {
            let is_hit = model.get(at, ask);
            score.note(ask.bytes, is_hit);
            if is_hit {
                continue;
            }
        }
        match ask.stores(bytes_max) {
            true => model.put(at, ask),
            false => model.remove(ask.key),
        }
    }
    score
}

#[cfg(test)]
mod tests;
