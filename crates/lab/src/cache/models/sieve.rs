//! SIEVE (Zhang and others, NSDI '24): a queue of objects in the order in which they came, and a hand that goes from the oldest to the newest.
//! It spares what was asked for since it came by, and takes away what was not.

use super::{Ask, Model};
use std::collections::{BTreeMap, HashMap};

struct Object {
    bytes: u32,
    /// Place in the queue: the time at which it came.
    place: u64,
    is_visited: bool,
}

/// See the module.
pub struct Sieve {
    capacity: u64,
    used: u64,
    clock: u64,
    objects: HashMap<u64, Object>,
    queue: BTreeMap<u64, u64>,
    /// Place at which the hand goes on.
    hand: u64,
}

impl Sieve {
    /// An empty one of so many bytes.
    #[must_use]
    pub fn new(capacity: u64) -> Sieve {
        Sieve { capacity, used: 0, clock: 0, objects: HashMap::new(), queue: BTreeMap::new(), hand: 0 }
    }

    fn evict(&mut self) {
        loop {
            let found = self.queue.range(self.hand..).next().or_else(|| self.queue.first_key_value());
            let (place, key) = found.map(|(place, key)| (*place, *key)).expect("what is used is queued");
            self.hand = place + 1;
            let object = self.objects.get_mut(&key).expect("what is queued is there");
            if !std::mem::take(&mut object.is_visited) {
                return self.remove(key);
            }
        }
    }
}

impl Model for Sieve {
    fn get(&mut self, _at: usize, ask: &Ask) -> bool {
        let Some(object) = self.objects.get_mut(&ask.key) else { return false };
        let is_hit = object.bytes == ask.bytes;
        object.is_visited |= is_hit;
        is_hit
    }

    fn put(&mut self, _at: usize, ask: &Ask) {
        self.remove(ask.key);
        // Room is made first: the hand does not meet what is just coming.
        while self.used + u64::from(ask.bytes) > self.capacity && !self.queue.is_empty() {
            self.evict();
        }
        self.clock += 1;
        self.objects.insert(ask.key, Object { bytes: ask.bytes, place: self.clock, is_visited: false });
        self.queue.insert(self.clock, ask.key);
        self.used += u64::from(ask.bytes);
    }

    fn remove(&mut self, key: u64) {
        if let Some(object) = self.objects.remove(&key) {
            self.queue.remove(&object.place);
            self.used -= u64::from(object.bytes);
        }
    }
}
