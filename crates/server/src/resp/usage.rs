//! Use of single keys: when each was used last, and whether it was read since it was stored.
//!
//! This is told by OBJECT IDLETIME and by memcached's flags `h`, `l` and `u`, and by nothing else. The memory for it is fixed: a key has
//! one place, by its hash, and the last one that came there has it. Of a key that is not remembered it is told that it was not read, and not
//! used since the server began.

use cache::request::{Namespace, WallMillis};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most keys that are remembered.
const PLACES_MAX: usize = 1 << 16;

/// What is remembered of a key.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// Bits of the hash that do not choose the place.
    tag: u32,
    /// Seconds since the server began, plus one, and whether the key was read; zero is nobody's place.
    used: u32,
}

const WAS_READ: u32 = 1 << 31;

/// Use of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// Seconds since it was used.
    pub idle_seconds: u64,
    /// It was read since it was stored.
    pub was_read: bool,
}

/// See the module. Clones share what is known.
#[derive(Clone, Debug)]
pub struct Usage {
    places: Arc<[AtomicU64]>,
    hasher: RandomState,
    began: WallMillis,
}

impl Place {
    fn to_word(self) -> u64 {
        u64::from(self.tag) << 32 | u64::from(self.used)
    }

    fn from_word(word: u64) -> Place {
        let half = |word: u64| u32::try_from(word & 0xffff_ffff).expect("32 bits");
        Place { tag: half(word >> 32), used: half(word) }
    }
}

impl Usage {
    /// Remembers keys in so many bytes, or in less.
    #[must_use]
    pub fn new(bytes_max: usize, wall: WallMillis) -> Usage {
        let count = (bytes_max / size_of::<Place>()).clamp(1, PLACES_MAX);
        let count = if count.is_power_of_two() { count } else { count.next_power_of_two() / 2 };
        Usage {
            places: (0..count).map(|_| AtomicU64::new(Place::default().to_word())).collect(),
            hasher: RandomState::new(),
            began: wall,
        }
    }

    /// Memory that it takes, in bytes.
    #[must_use]
    pub fn bytes_held(&self) -> usize {
        self.places.len() * size_of::<Place>()
    }

    /// A key is read.
    pub fn read(&self, namespace: Namespace, key: &[u8], now: WallMillis) {
        let (index, tag) = self.place(namespace, key);
        self.note(index, Place { tag, used: self.time(now) | WAS_READ });
    }

    /// A key is stored.
    pub fn store(&self, namespace: Namespace, key: &[u8], now: WallMillis) {
        let (index, tag) = self.place(namespace, key);
        self.note(index, Place { tag, used: self.time(now) });
    }

    /// Use of a key, as far as is remembered.
    #[must_use]
    pub fn of(&self, namespace: Namespace, key: &[u8], now: WallMillis) -> Use {
        let (index, tag) = self.place(namespace, key);
        let place = Place::from_word(self.places[index].load(Ordering::Relaxed));
        let is_known = place.tag == tag && place.used != 0;
        let used = if is_known { place.used & !WAS_READ } else { 1 };
        let idle = self.time(now).saturating_sub(used);
        Use { idle_seconds: u64::from(idle), was_read: is_known && place.used & WAS_READ != 0 }
    }

    fn note(&self, index: usize, place: Place) {
        self.places[index].store(place.to_word(), Ordering::Relaxed);
    }

    fn place(&self, namespace: Namespace, key: &[u8]) -> (usize, u32) {
        let hash = self.hasher.hash_one((namespace, key));
        let index = usize::try_from(hash & 0xffff_ffff).expect("32 bits") & (self.places.len() - 1);
        (index, u32::try_from(hash >> 32).expect("32 bits"))
    }

    fn time(&self, now: WallMillis) -> u32 {
        let seconds = now.0.saturating_sub(self.began.0) / 1000;
        u32::try_from(seconds).unwrap_or(u32::MAX).min(WAS_READ - 2) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGAN: WallMillis = WallMillis(1_700_000_000_000);

    fn after(seconds: u64) -> WallMillis {
        WallMillis(BEGAN.0 + seconds * 1000)
    }

    #[test]
    fn a_key_is_read_or_not_and_idle_since_its_last_use() {
        let usage = Usage::new(1 << 20, BEGAN);
        let (space, other) = (Namespace(0), Namespace(1));
        let of = |usage: &Usage, space, seconds| {
            let found = usage.of(space, b"k", after(seconds));
            (found.idle_seconds, found.was_read)
        };
        assert_eq!(of(&usage, space, 50), (50, false), "not remembered");
        usage.store(space, b"k", after(60));
        assert_eq!(of(&usage, space, 60), (0, false));
        usage.read(space, b"k", after(70));
        assert_eq!((of(&usage, space, 75), of(&usage, other, 75)), ((5, true), (75, false)));
        usage.store(space, b"k", after(80));
        assert_eq!(of(&usage, space, 81), (1, false), "stored anew");
        // A clock that is set back tells no use in the future.
        assert_eq!(of(&usage, space, 10), (0, false));
    }

    #[test]
    fn memory_is_fixed_and_the_last_one_has_the_place() {
        let usage = Usage::new(8, BEGAN);
        assert_eq!(usage.bytes_held(), 8);
        usage.read(Namespace(0), b"a", after(1));
        usage.read(Namespace(0), b"b", after(2));
        assert!(
            !usage.of(Namespace(0), b"a", after(3)).was_read
                && usage.of(Namespace(0), b"b", after(3)).was_read
        );
        assert_eq!(Usage::new(1 << 30, BEGAN).bytes_held(), PLACES_MAX * 8);
        assert_eq!(Usage::new(100, BEGAN).bytes_held(), 64);
    }
}
