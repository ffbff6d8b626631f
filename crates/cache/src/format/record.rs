//! Records: an object with its key, as it lies in pages.
//!
//! ```text
//! flag byte | key length | value length | expiry (6) | client flags    | marks           | CRC32C (4) | key | value
//!             varint       varint         if bit 0     varint if bit 1   varint if bit 2
//! ```
//! The upper four bits of the flag byte are the namespace. The checksum is that of the whole record with the checksum zero.

use crate::hash::FullKey;
use crate::request::{Marks, Namespace, Object, WallMillis};
use crate::value::Value;
use base::bytes::{put, u32_at};
use base::checksum::crc32c_of_pieces;

/// Most bytes of a key, without its namespace. Header and key of a record lie in one page.
pub const KEY_BYTES_MAX: usize = 2048;
/// Most bytes of a value that the format can tell; caches allow less.
pub const VALUE_BYTES_MAX: usize = 1 << 29;
const HAS_EXPIRY: u8 = 1;
const HAS_FLAGS: u8 = 2;
const HAS_MARKS: u8 = 4;
/// Milliseconds that six bytes can tell.
const EXPIRY_MAX: u64 = (1 << 48) - 1;

/// Head of a record: the fields before its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHead {
    /// Bytes before the key.
    pub head_bytes: usize,
    /// Namespace of the key.
    pub namespace: Namespace,
    /// Bytes of the key.
    pub key_bytes: usize,
    /// Bytes of the value.
    pub value_bytes: usize,
    /// Flags of the client.
    pub flags: u32,
    /// Marks of the protocol.
    pub marks: Marks,
    /// Time of expiry.
    pub expires: Option<WallMillis>,
    crc: u32,
}

impl RecordHead {
    /// Reads the head of a record; `None` when these bytes hold none.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<RecordHead> {
        let (&flag, mut rest) = bytes.split_first()?;
        if flag & 0x0f & !(HAS_EXPIRY | HAS_FLAGS | HAS_MARKS) != 0 {
            return None;
        }
        let key_bytes = usize::try_from(take_varint(&mut rest)?).ok()?;
        let value_bytes = usize::try_from(take_varint(&mut rest)?).ok()?;
        let expires = match flag & HAS_EXPIRY {
            0 => None,
            _ => {
                let (field, after) = rest.split_first_chunk::<6>()?;
                rest = after;
                let mut wide = [0; 8];
                wide[..6].copy_from_slice(field);
                Some(WallMillis(u64::from_le_bytes(wide)))
            }
        };
        let flags = match flag & HAS_FLAGS {
            0 => 0,
            _ => u32::try_from(take_varint(&mut rest)?).ok()?,
        };
        let marks = match flag & HAS_MARKS {
            0 => 0,
            _ => u32::try_from(take_varint(&mut rest)?).ok()?,
        };
        let marks = Marks::from_bits(marks);
        let (crc, after) = rest.split_first_chunk::<4>()?;
        let possible = key_bytes <= KEY_BYTES_MAX && value_bytes <= VALUE_BYTES_MAX;
        let namespace = Namespace(flag >> 4);
        let head_bytes = bytes.len() - after.len();
        let crc = u32::from_le_bytes(*crc);
        possible.then_some(RecordHead {
            head_bytes,
            namespace,
            key_bytes,
            value_bytes,
            flags,
            marks,
            expires,
            crc,
        })
    }

    /// Bytes of the whole record.
    #[must_use]
    pub fn record_bytes(&self) -> usize {
        self.head_bytes + self.key_bytes + self.value_bytes
    }

    /// The key of the record that these bytes begin with, without its namespace; `None` when they do not hold all of it.
    #[must_use]
    pub fn key<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        bytes.get(self.head_bytes..self.head_bytes + self.key_bytes)
    }

    /// True when the record that these bytes begin with is of this key.
    #[must_use]
    pub fn is_of(&self, bytes: &[u8], key: &FullKey) -> bool {
        self.namespace == key.namespace() && self.key(bytes) == Some(key.plain())
    }

    /// Head and key of the record that these bytes begin with, and what they hold of its value.
    ///
    /// # Panics
    /// When they do not hold all of the key.
    #[must_use]
    pub fn split<'a>(&self, bytes: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        assert!(self.key(bytes).is_some(), "head and key are there");
        bytes[..bytes.len().min(self.record_bytes())].split_at(self.head_bytes + self.key_bytes)
    }

    /// The object of a record, of which head and key are given, and the value; `None` when its checksum fails.
    ///
    /// # Panics
    /// When they are not as long as the record says.
    #[must_use]
    pub fn object(&self, front: &[u8], value: Value) -> Option<Object> {
        assert!(front.len() == self.head_bytes + self.key_bytes, "head and key are all there, and no more");
        assert!(value.len() == self.value_bytes, "the value is all there, and no more");
        let crc_at = self.head_bytes - 4;
        if u32_at(front, crc_at) != self.crc || checksum(front, crc_at, &value) != self.crc {
            return None;
        }
        Some(self.object_of_part(value))
    }

    /// The object of a record with a part of its value, which the checksum of the record says nothing of: whoever read it has held
    /// its pages against theirs.
    #[must_use]
    pub fn object_of_part(&self, value: Value) -> Object {
        Object { value, flags: self.flags, marks: self.marks, expires: self.expires }
    }
}

/// Checksum of a record, whose own place in the front is taken for zero.
fn checksum(front: &[u8], crc_at: usize, value: &[u8]) -> u32 {
    crc32c_of_pieces([&front[..crc_at], &[0; 4], &front[crc_at + 4..], value])
}

/// Bytes of the record of an object, and those before its value.
#[must_use]
pub fn sizes(key: &FullKey, object: &Object) -> (usize, usize) {
    let mut head = 5 + varint_bytes(key.plain().len() as u64) + varint_bytes(object.value.len() as u64);
    head += if object.expires.is_some() { 6 } else { 0 };
    for field in [object.flags, object.marks.bits()] {
        head += if field == 0 { 0 } else { varint_bytes(u64::from(field)) };
    }
    (head + key.plain().len() + object.value.len(), head + key.plain().len())
}

/// The record of an object.
///
/// # Panics
/// When key or value are longer than a record can be.
#[must_use]
pub fn encode(key: &FullKey, object: &Object) -> Vec<u8> {
    let mut bytes = encode_front(key, object);
    bytes.extend_from_slice(&object.value);
    bytes
}

/// Head and key of the record of an object: what stands before its value.
///
/// # Panics
/// When key or value are longer than a record can be.
#[must_use]
pub fn encode_front(key: &FullKey, object: &Object) -> Vec<u8> {
    assert!(key.plain().len() <= KEY_BYTES_MAX, "a key of {} bytes", key.plain().len());
    assert!(object.value.len() <= VALUE_BYTES_MAX, "a value of {} bytes", object.value.len());
    let (_, front_bytes) = sizes(key, object);
    let mut bytes = Vec::with_capacity(front_bytes);
    let has_expiry = if object.expires.is_some() { HAS_EXPIRY } else { 0 };
    let has_flags = if object.flags == 0 { 0 } else { HAS_FLAGS };
    let has_marks = if object.marks == Marks::default() { 0 } else { HAS_MARKS };
    bytes.push(key.namespace().0 << 4 | has_expiry | has_flags | has_marks);
    push_varint(&mut bytes, key.plain().len() as u64);
    push_varint(&mut bytes, object.value.len() as u64);
    if let Some(WallMillis(expires)) = object.expires {
        bytes.extend_from_slice(&expires.min(EXPIRY_MAX).to_le_bytes()[..6]);
    }
    for field in [object.flags, object.marks.bits()].into_iter().filter(|field| *field != 0) {
        push_varint(&mut bytes, u64::from(field));
    }
    let crc_at = bytes.len();
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(key.plain());
    let crc = checksum(&bytes, crc_at, &object.value);
    put(&mut bytes, crc_at, &crc.to_le_bytes());
    assert!(bytes.len() == front_bytes);
    bytes
}

fn varint_bytes(value: u64) -> usize {
    let bits = (64 - value.leading_zeros()).max(1);
    bits.div_ceil(7) as usize
}

fn push_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(u8::try_from(value & 0x7f).expect("seven bits") | 0x80);
        value >>= 7;
    }
    bytes.push(u8::try_from(value).expect("seven bits"));
}

/// Takes a varint of at most five bytes; `None` when there is none.
fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in [0, 7, 14, 21, 28] {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}
