//! The object that is asked for again last goes, and what is never asked for again does not come.
//!
//! With sizes that differ this is no optimum, which nobody can compute for a trace of any length; it is above all that do not know
//! the future in practice.

use super::{Ask, Model};
use crate::cache::load::Load;
use std::collections::{BTreeSet, HashMap};

/// No request of the object follows.
const NEVER: usize = usize::MAX;

/// See the module.
pub struct Belady {
    capacity: u64,
    used: u64,
    /// For each request, the next one that the object of this size would answer.
    next: Vec<usize>,
    /// Bytes and next request.
    objects: HashMap<u64, (u32, usize)>,
    by_next: BTreeSet<(usize, u64)>,
}

impl Belady {
    /// An empty one of so many bytes that knows what will be asked.
    #[must_use]
    pub fn new(capacity: u64, load: &Load) -> Belady {
        let mut next = vec![NEVER; load.asks.len()];
        let mut last: HashMap<u64, (usize, Ask)> = HashMap::new();
        for (at, ask) in load.asks.iter().enumerate().rev() {
            if let Some((then, other)) = last.insert(ask.key, (at, *ask))
                && other.kind == crate::cache::load::Kind::Get
                && other.bytes == ask.bytes
            {
                next[at] = then;
            }
        }
        Belady { capacity, used: 0, next, objects: HashMap::new(), by_next: BTreeSet::new() }
    }
}

impl Model for Belady {
    fn get(&mut self, at: usize, ask: &Ask) -> bool {
        let is_hit = self.objects.get(&ask.key).is_some_and(|(bytes, _)| *bytes == ask.bytes);
        if is_hit {
            self.put(at, ask);
        }
        is_hit
    }

    fn put(&mut self, at: usize, ask: &Ask) {
        self.remove(ask.key);
        let next = self.next[at];
        if next == NEVER {
            return;
        }
        self.objects.insert(ask.key, (ask.bytes, next));
        self.by_next.insert((next, ask.key));
        self.used += u64::from(ask.bytes);
        while self.used > self.capacity {
            let (_, key) = self.by_next.last().expect("what is used is listed");
            self.remove(*key);
        }
    }

    fn remove(&mut self, key: u64) {
        if let Some((bytes, next)) = self.objects.remove(&key) {
            self.by_next.remove(&(next, key));
            self.used -= u64::from(bytes);
        }
    }
}
