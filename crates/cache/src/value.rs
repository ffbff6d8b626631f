//! The bytes of an object. They never change, so that many may hold large ones.
//!
//! ```text
//!   smaller than a block    a box of its own each       to clone is to copy
//!   others                  one box, counted            to clone is to count
//! ```
//! A hit in memory is answered with a clone: a large one goes from the copy in memory to the client's socket without being copied.
//! A shared value takes memory until its last holder is gone, and each holder counts it in full.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Bytes from which on a value is shared: to copy fewer takes no longer than to ask for memory.
pub const SHARED_BYTES_MIN: usize = 4096;
/// Bytes of a shared box beside the value: two counts, place and length, and what the allocation wastes.
const COUNTED_BYTES: usize = 4 * size_of::<usize>() + 16;

/// See the module.
#[derive(Clone, PartialEq, Eq)]
pub struct Value(Held);

#[derive(Clone, PartialEq, Eq)]
enum Held {
    Own(Box<[u8]>),
    Shared(Arc<Box<[u8]>>),
}

impl Value {
    /// Bytes of memory that it takes beside itself.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        heap_bytes(self.len())
    }
}

/// Bytes of memory that a value of so many bytes takes beside itself.
#[must_use]
pub fn heap_bytes(value_bytes: usize) -> usize {
    value_bytes + if value_bytes < SHARED_BYTES_MIN { 0 } else { COUNTED_BYTES }
}

impl Default for Value {
    fn default() -> Value {
        Value(Held::Own(Box::default()))
    }
}

impl Deref for Value {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Held::Own(bytes) => bytes,
            Held::Shared(bytes) => bytes,
        }
    }
}

impl From<Vec<u8>> for Value {
    /// Room that the vector has to spare is given back.
    fn from(bytes: Vec<u8>) -> Value {
        let bytes = bytes.into_boxed_slice();
        if bytes.len() < SHARED_BYTES_MIN {
            Value(Held::Own(bytes))
        } else {
            Value(Held::Shared(Arc::new(bytes)))
        }
    }
}

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Value {
        Value::from(bytes.to_vec())
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.deref().fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_of_a_large_value_is_the_same_memory() {
        for (bytes, is_shared) in
            [(0, false), (SHARED_BYTES_MIN - 1, false), (SHARED_BYTES_MIN, true), (1 << 20, true)]
        {
            let value = Value::from(vec![7; bytes]);
            let clone = value.clone();
            assert_eq!(value, clone);
            assert_eq!(clone.len(), bytes);
            assert_eq!(bytes > 0 && value.as_ptr() == clone.as_ptr(), is_shared, "{bytes} bytes");
            assert_eq!(value.heap_bytes() > bytes, is_shared);
            drop(value);
            assert!(clone.iter().all(|byte| *byte == 7));
        }
    }

    #[test]
    fn a_value_takes_two_words() {
        assert_eq!(size_of::<Value>(), 2 * size_of::<usize>());
    }
}
