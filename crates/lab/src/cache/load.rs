//! What clients ask of a cache.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads the object, and stores it when that misses.
    Get,
    /// Stores the object, whether it is there or not.
    Set,
    /// Removes the object.
    Remove,
}

/// Request of one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Name of the object.
    pub key: u64,
    /// Bytes of key and value. Another size than before is another version.
    pub bytes: u32,
    /// Kind of the request.
    pub kind: Kind,
}

impl Ask {
    /// True when the object is there once the request has changed something, of a cache that takes objects of up to so many bytes. Else it is
    /// removed: what cannot be stored is not the older version either.
    #[must_use]
    pub fn stores(&self, bytes_max: u32) -> bool {
        self.kind != Kind::Remove && self.bytes <= bytes_max
    }
}

/// Requests in their order.
#[derive(Clone, Debug)]
pub struct Load {
    /// Name of the requests, for people.
    pub name: String,
    /// All of them.
    pub asks: Vec<Ask>,
}

impl Load {
    /// Bytes of all objects, each at the largest that it was.
    #[must_use]
    pub fn footprint(&self) -> u64 {
        self.sizes().values().map(|bytes| u64::from(*bytes)).sum()
    }

    /// Mean bytes of the objects that a cache takes which stores none that is larger than this; 0 without any.
    #[must_use]
    pub fn mean_stored_bytes(&self, bytes_max: u32) -> u64 {
        let sizes: Vec<u64> =
            self.sizes().into_values().filter(|bytes| *bytes <= bytes_max).map(u64::from).collect();
        sizes.iter().sum::<u64>().checked_div(sizes.len() as u64).unwrap_or(0)
    }

    /// Objects, each at the largest that it was.
    fn sizes(&self) -> HashMap<u64, u32> {
        let mut sizes: HashMap<u64, u32> = HashMap::new();
        for ask in &self.asks {
            match sizes.entry(ask.key) {
                Entry::Occupied(mut found) => *found.get_mut() = ask.bytes.max(*found.get()),
                Entry::Vacant(room) => _ = room.insert(ask.bytes),
            }
        }
        sizes
    }

    /// Mean bytes of a request's object; 0 without requests.
    #[must_use]
    pub fn mean_bytes(&self) -> u64 {
        let sum: u64 = self.asks.iter().map(|ask| u64::from(ask.bytes)).sum();
        sum.checked_div(self.asks.len() as u64).unwrap_or(0)
    }
}
