//! Least recently used objects go.

use super::{Ask, Model};
use std::collections::{BTreeMap, HashMap};

/// See the module.
pub struct ObjectLru {
    capacity: u64,
    used: u64,
    clock: u64,
    /// Bytes and last use.
    objects: HashMap<u64, (u32, u64)>,
    by_use: BTreeMap<u64, u64>,
}

impl ObjectLru {
    /// An empty one of so many bytes.
    #[must_use]
    pub fn new(capacity: u64) -> ObjectLru {
        ObjectLru { capacity, used: 0, clock: 0, objects: HashMap::new(), by_use: BTreeMap::new() }
    }
}

impl Model for ObjectLru {
    fn get(&mut self, _at: usize, ask: &Ask) -> bool {
        let Some((bytes, used_at)) = self.objects.get_mut(&ask.key) else { return false };
        if *bytes != ask.bytes {
            return false;
        }
        self.clock += 1;
        self.by_use.remove(used_at);
        *used_at = self.clock;
        self.by_use.insert(self.clock, ask.key);
        true
    }

    fn put(&mut self, _at: usize, ask: &Ask) {
        self.remove(ask.key);
        self.clock += 1;
        self.objects.insert(ask.key, (ask.bytes, self.clock));
        self.by_use.insert(self.clock, ask.key);
        self.used += u64::from(ask.bytes);
        while self.used > self.capacity {
            let (_, key) = self.by_use.first_key_value().expect("what is used is listed");
            self.remove(*key);
        }
    }

    fn remove(&mut self, key: u64) {
        if let Some((bytes, used_at)) = self.objects.remove(&key) {
            self.by_use.remove(&used_at);
            self.used -= u64::from(bytes);
        }
    }
}
