//! Hashes of keys, and what the index can tell apart of them.
//!
//! The hash of a key is the lower 48 bits of its SipHash-2-4 under the secret of the cache: the lowest bits are the tag,
//! the upper 36 choose the first bucket. The second bucket follows from the first and the tag, and the first from the
//! second: a slot alone says which keys it may be of. Keys whose slots cannot be told apart have one [`Ident`].

use crate::request::Namespace;
use base::random::mix;
use siphasher::sip::SipHasher24;
use std::hash::Hasher as _;

/// Bits of a hash that are kept.
pub const HASH_BITS: u32 = 48;
/// Bits of a hash that are a tag at most; those above choose the bucket.
pub const TAG_BITS_MAX: u32 = 12;
const BUCKET_BITS: u32 = HASH_BITS - TAG_BITS_MAX;

/// Key of an object with its namespace before it: what is hashed and compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FullKey(Vec<u8>);

impl FullKey {
    /// The key of a namespace.
    #[must_use]
    pub fn new(namespace: Namespace, key: &[u8]) -> FullKey {
        assert!(namespace.0 < 16, "namespaces are 0 to 15");
        let mut bytes = Vec::with_capacity(key.len() + 1);
        bytes.push(namespace.0);
        bytes.extend_from_slice(key);
        FullKey(bytes)
    }

    /// The bytes that are hashed.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The key without its namespace.
    #[must_use]
    pub fn plain(&self) -> &[u8] {
        &self.0[1..]
    }

    /// Namespace of the key.
    #[must_use]
    pub fn namespace(&self) -> Namespace {
        Namespace(self.0[0])
    }
}

fn whole(secret: &[u8; 16], namespace: Namespace, key: &[u8]) -> u64 {
    debug_assert!(namespace.0 < 16, "namespaces are 0 to 15");
    let mut hasher = SipHasher24::new_with_key(secret);
    hasher.write(&[namespace.0]);
    hasher.write(key);
    hasher.finish()
}

/// The bits above those of [`KeyHash`]: they choose a shard.
#[must_use]
pub fn spread_of(secret: &[u8; 16], namespace: Namespace, key: &[u8]) -> u16 {
    u16::try_from(whole(secret, namespace, key) >> HASH_BITS).expect("16 bits are left")
}

/// Hash of a key: 48 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyHash(u64);

impl KeyHash {
    /// The hash of a key under a secret.
    #[must_use]
    pub fn of(secret: &[u8; 16], key: &FullKey) -> KeyHash {
        KeyHash::of_parts(secret, key.namespace(), key.plain())
    }

    /// The hash of a key of a namespace.
    #[must_use]
    pub fn of_parts(secret: &[u8; 16], namespace: Namespace, key: &[u8]) -> KeyHash {
        KeyHash(whole(secret, namespace, key) & ((1 << HASH_BITS) - 1))
    }

    /// The hash of these bits.
    ///
    /// # Panics
    /// When there are more than 48.
    #[must_use]
    pub fn from_bits(bits: u64) -> KeyHash {
        assert!(bits >> HASH_BITS == 0, "a hash has 48 bits: {bits:x}");
        KeyHash(bits)
    }

    /// Bits of the hash, the low 48.
    #[must_use]
    pub fn bits(self) -> u64 {
        self.0
    }

    /// All of its bits in each of 64: as [`Ident::hash`].
    #[must_use]
    pub fn spread(self) -> u64 {
        mix(self.0)
    }

    /// Six bytes, as on the media.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 6] {
        let [a, b, c, d, e, f, _, _] = self.0.to_le_bytes();
        [a, b, c, d, e, f]
    }

    /// The hash of six bytes.
    #[must_use]
    pub fn from_bytes([a, b, c, d, e, f]: [u8; 6]) -> KeyHash {
        KeyHash(u64::from_le_bytes([a, b, c, d, e, f, 0, 0]))
    }
}

/// Shape of an index: count of buckets, and bits of a tag; it decides which keys the index can tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    buckets: u64,
    tag_bits: u32,
}

impl Shape {
    /// An index of so many buckets and tags of so many bits; `None` when there is no such index.
    #[must_use]
    pub fn new(buckets: u64, tag_bits: u32) -> Option<Shape> {
        let possible = (1..1 << BUCKET_BITS).contains(&buckets) && (1..=TAG_BITS_MAX).contains(&tag_bits);
        possible.then_some(Shape { buckets, tag_bits })
    }

    /// Count of buckets.
    #[must_use]
    pub fn buckets(self) -> u64 {
        self.buckets
    }

    /// Bits of a tag.
    #[must_use]
    pub fn tag_bits(self) -> u32 {
        self.tag_bits
    }

    /// Tag of a hash.
    #[must_use]
    pub fn tag(self, hash: KeyHash) -> u16 {
        let tag = hash.0 & ((1 << self.tag_bits) - 1);
        u16::try_from(tag).expect("at most 12 bits")
    }

    /// First bucket of a hash.
    #[must_use]
    pub fn first(self, hash: KeyHash) -> u64 {
        let wide = u128::from(hash.0 >> TAG_BITS_MAX) * u128::from(self.buckets);
        let first = u64::try_from(wide >> BUCKET_BITS).expect("below the count of buckets");
        debug_assert!(first < self.buckets, "{first} of {} buckets", self.buckets);
        first
    }

    /// The other bucket of what has this tag and lies in this bucket; the other one of that is this one.
    #[must_use]
    pub fn other(self, bucket: u64, tag: u16) -> u64 {
        assert!(bucket < self.buckets, "{bucket} of {} buckets", self.buckets);
        debug_assert!(u32::from(tag) >> self.tag_bits == 0, "{tag:x} has {} bits", self.tag_bits);
        let sum = (u64::from(tag) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
        (sum % self.buckets + self.buckets - bucket) % self.buckets
    }

    /// All that the index tells apart of a hash.
    #[must_use]
    pub fn ident(self, hash: KeyHash) -> Ident {
        self.ident_of(self.first(hash), self.tag(hash))
    }

    /// All that the index tells apart of what has this tag and lies in this bucket.
    #[must_use]
    pub fn ident_of(self, bucket: u64, tag: u16) -> Ident {
        Ident { bucket: bucket.min(self.other(bucket, tag)), tag }
    }
}

/// Identity of a key in the index: its two buckets, of which the lower one stands for both, and its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ident {
    /// The lower one of the two buckets.
    pub bucket: u64,
    /// The tag.
    pub tag: u16,
}

impl Ident {
    /// A hash of it: all 64 bits depend on bucket and tag.
    #[must_use]
    pub fn hash(self) -> u64 {
        mix(self.bucket << TAG_BITS_MAX | u64::from(self.tag))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::random::Random;

    #[test]
    fn the_hash_is_siphash_2_4_under_the_secret() {
        // Vector of the reference implementation: key 00..0f, message 00 01 .. 0e, here with namespace 0 before it.
        let secret: [u8; 16] = std::array::from_fn(|at| u8::try_from(at).unwrap());
        let message: Vec<u8> = (1..15).collect();
        let hash = KeyHash::of(&secret, &FullKey::new(Namespace(0), &message));
        assert_eq!(hash.bits(), 0xa129_ca61_49be_45e5 & ((1 << 48) - 1));
        assert_eq!(KeyHash::from_bytes(hash.to_bytes()), hash);
        assert_ne!(KeyHash::of(&secret, &FullKey::new(Namespace(1), &message)), hash);
    }

    #[test]
    fn buckets_follow_from_each_other_and_idents_are_classes() {
        let mut random = Random::from_seed(5);
        for buckets in [1, 2, 3, 7, 64, 1000, (1 << 36) - 1] {
            for tag_bits in [1, 3, 12] {
                let shape = Shape::new(buckets, tag_bits).unwrap();
                for _ in 0..200 {
                    let hash = KeyHash::from_bits(random.bits() >> 16);
                    let (first, tag) = (shape.first(hash), shape.tag(hash));
                    let second = shape.other(first, tag);
                    assert!(first < buckets && second < buckets && u32::from(tag) < 1 << tag_bits);
                    assert_eq!(shape.other(second, tag), first);
                    assert_eq!(shape.ident(hash).bucket, first.min(second));
                }
            }
        }
        assert!(
            Shape::new(0, 12).is_none() && Shape::new(8, 13).is_none() && Shape::new(1 << 36, 12).is_none()
        );
    }
}
