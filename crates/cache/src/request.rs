//! What a front end asks of a cache and what it is told.
//!
//! Operations on one key happen one after the other, in the order in which they were submitted.

use crate::value::Value;
use base::time::Instant;
use siphasher::sip::SipHasher24;
use std::hash::Hasher as _;
use std::ops::Range;

/// Namespace of keys: a RESP database, 0 to 15.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace(pub u8);

/// Wall time in milliseconds since 1970, by which objects expire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallMillis(pub u64);

/// The front end's name for a request; it comes back with the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Marks by memcached's clients on an object: that it is stale, and that one of them has been told to make it anew.
///
/// A number that is drawn for each marking makes its token another than that of any version before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks(u32);

impl Marks {
    const STALE: u32 = 1;
    const WON: u32 = 2;

    /// Marks of an object that holds a place until somebody makes it.
    #[must_use]
    pub fn placeholder(number: u32) -> Marks {
        Marks(number << 2)
    }

    /// Marks of a stale object.
    #[must_use]
    pub fn stale(number: u32, is_won: bool) -> Marks {
        let won = if is_won { Marks::WON } else { 0 };
        Marks(number << 2 | Marks::STALE | won)
    }

    /// The same, and somebody has been told to make the object anew.
    #[must_use]
    pub fn won(self) -> Marks {
        Marks(self.0 | Marks::WON)
    }

    /// True for what is stale.
    #[must_use]
    pub fn is_stale(self) -> bool {
        self.0 & Marks::STALE != 0
    }

    /// True when somebody has been told to make the object anew.
    #[must_use]
    pub fn is_won(self) -> bool {
        self.0 & Marks::WON != 0
    }

    /// As a number; 0 is none.
    pub(crate) fn bits(self) -> u32 {
        self.0
    }

    pub(crate) fn from_bits(bits: u32) -> Marks {
        Marks(bits)
    }
}

/// Object stored under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// The bytes.
    pub value: Value,
    /// Flags of the client, kept as they are.
    pub flags: u32,
    /// Marks of the protocol, kept with this version of the object.
    pub marks: Marks,
    /// Time at which the object ceases to be; `None` is never.
    pub expires: Option<WallMillis>,
}

impl Object {
    /// A number by which a client knows this object again (memcached's *cas unique*): 63 bits of the hash of value and flags, never 0,
    /// and never one that is negative to a client whose numbers have signs.
    ///
    /// Another value or other flags give another number, and so does another marking. The same value under the same flags gives
    /// the same one, also when there was another in between.
    #[must_use]
    pub fn token(&self) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&[0x5a; 16]);
        hasher.write(&self.flags.to_le_bytes());
        hasher.write(&self.value);
        // To be told to make an object anew does not change it.
        let number = self.marks.0 >> 2;
        if number != 0 {
            hasher.write(&number.to_le_bytes());
        }
        (hasher.finish() >> 1).max(1)
    }
}

/// A part of a value: bytes from `first` to `last`, both among them; negative ones count from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The first byte.
    pub first: i64,
    /// The last byte.
    pub last: i64,
}

impl Part {
    /// Range of the part in a value of so many bytes; it may be empty.
    ///
    /// # Panics
    /// When a value is longer than memory can be.
    #[must_use]
    pub fn of(self, bytes: usize) -> Range<usize> {
        let count = i64::try_from(bytes).expect("memory has less than 2^63 bytes");
        let is_backwards = self.first < 0 && self.last < 0 && self.first > self.last;
        let place = |index: i64| if index < 0 { (count + index.max(-count)).max(0) } else { index };
        let (first, last) = (place(self.first), place(self.last).min(count - 1));
        if is_backwards || first > last || count == 0 {
            return 0..0;
        }
        let index = |place: i64| usize::try_from(place).expect("a place within the value");
        index(first)..index(last) + 1
    }

    /// The object with this part of its value for the value.
    #[must_use]
    pub fn cut(self, object: Object) -> Object {
        match self.of(object.value.len()) {
            all if all.len() == object.value.len() => object,
            part => Object { value: object.value[part].into(), ..object },
        }
    }
}

/// Change of an object by an update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing changes.
    Keep,
    /// Store of this object.
    Store(Object),
    /// The object is removed.
    Remove,
}

/// A read-change-write step: gets the current live object (never an expired one), decides. Called exactly once
/// unless refused.
pub type Decide = Box<dyn FnOnce(Option<&Object>, WallMillis) -> Change + Send>;

/// Chooses keys.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// Judges a pattern and a key.
    by: fn(&[u8], &[u8]) -> bool,
    pattern: Vec<u8>,
}

impl Chosen {
    /// Keys that match a pattern, as `by` says of pattern and key.
    #[must_use]
    pub fn matching(by: fn(&[u8], &[u8]) -> bool, pattern: &[u8]) -> Chosen {
        Chosen { by, pattern: pattern.to_vec() }
    }

    /// All keys.
    #[must_use]
    pub fn all() -> Chosen {
        Chosen { by: |_, _| true, pattern: Vec::new() }
    }

    /// No key.
    #[must_use]
    pub fn none() -> Chosen {
        Chosen { by: |_, _| false, pattern: Vec::new() }
    }

    /// True for a key that is chosen.
    #[must_use]
    pub fn chooses(&self, key: &[u8]) -> bool {
        (self.by)(&self.pattern, key)
    }
}

/// A look at all keys, or at a part of them, in an order that is its own.
///
/// Walks that follow one another, each from where the one before ended, tell every key that was there from the begin
/// of the first to the end of the last. Others they may tell, if they were there meanwhile.
#[derive(Clone, Debug)]
pub struct Walk {
    /// Place to begin at: 0, or what the walk before says. For a walk that wraps it is any number: those that are spread evenly
    /// stand for places that are.
    pub from: u64,
    /// True when keys of all namespaces are told.
    pub everywhere: bool,
    /// True for the first of a row of walks.
    pub begins: bool,
    /// True when the walk goes on at 0 after the end.
    pub wraps: bool,
    /// Most idents to look at: about as many keys, of all namespaces.
    pub idents_max: u64,
    /// Idents that are looked at together, 256 at most.
    pub stride: usize,
    /// Keys after which it ends, at the next end of a stride.
    pub keys_max: usize,
    /// Bytes of keys after which it ends, in the same way.
    pub bytes_max: usize,
    /// Keys that are told.
    pub chosen: Chosen,
}

/// Operation on a namespace.
pub enum Op {
    /// Tells keys.
    Walk(Walk),
    /// Reads an object.
    Get {
        /// The key.
        key: Vec<u8>,
    },
    /// Reads a part of an object's value: the object is answered with that part for its value. Of one that is large no more than the pages
    /// of the part are read, and the page in which it begins.
    GetPart {
        /// The key.
        key: Vec<u8>,
        /// The part.
        part: Part,
    },
    /// Unconditional store: needs no read of flash.
    Set {
        /// The key.
        key: Vec<u8>,
        /// Object to store.
        object: Object,
    },
    /// Answers whether a live object was there.
    Remove {
        /// The key.
        key: Vec<u8>,
    },
    /// Operations on one key happen one after the other; this one reads, decides and writes as one.
    Update {
        /// The key.
        key: Vec<u8>,
        /// The decision.
        decide: Decide,
    },
    /// Everything in the namespace (all of them: None) is gone, durably, before the answer.
    Clear {
        /// The namespace.
        namespace: Option<Namespace>,
    },
    /// Everything that is stored in the namespace before a time is gone from then on, as the answer promises durably; at once,
    /// when it has passed. In place of what was planned for the namespace before.
    ClearAt {
        /// The time.
        at: WallMillis,
    },
}

/// A request.
pub struct Request {
    /// Comes back with the reply.
    pub id: RequestId,
    /// Namespace of the key.
    pub namespace: Namespace,
    /// Operation.
    pub op: Op,
}

/// Why a request was not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The key is longer than the cache stores.
    KeyTooLong,
    /// The object is larger than the cache stores.
    ObjectTooLarge,
    /// No drive takes writes.
    NoDrive,
}

/// Kind of change that an update made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing has changed.
    Kept,
    /// An object was stored.
    Stored,
    /// The object was removed.
    Removed,
}

/// A key that a walk tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Namespace of the key.
    pub namespace: Namespace,
    /// The key.
    pub key: Vec<u8>,
    /// Bytes of its value.
    pub value_bytes: u64,
    /// Time at which it expires.
    pub expires: Option<WallMillis>,
}

/// Outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Outcome of a get.
    Found(Option<Object>),
    /// Outcome of a set.
    Stored,
    /// Outcome of a remove: whether a live object was there.
    Removed(bool),
    /// Outcome of an update.
    Updated {
        /// The object before it.
        before: Option<Object>,
        /// Change that was made.
        change: Kind,
    },
    /// Outcome of a clear, or of one that is planned.
    Cleared,
    /// Outcome of a walk.
    Walked {
        /// The keys.
        keys: Vec<Told>,
        /// Place to go on at; `None` at the end.
        next: Option<u64>,
    },
    /// Nothing was done.
    Refused(Refusal),
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The request.
    pub id: RequestId,
    /// Outcome of the request.
    pub outcome: Outcome,
}

/// A cache as a front end drives it: one thread calls `turn` in a loop.
pub trait Cache {
    /// Accepts a request. It is answered by a later turn.
    fn submit(&mut self, now: Instant, wall: WallMillis, request: Request);

    /// Makes what progress is possible without waiting; true when another turn may make more at once.
    fn turn(&mut self, now: Instant, wall: WallMillis, replies: &mut Vec<Reply>) -> bool;

    /// Returns the time at which the next turn is due even if nothing happens.
    fn next_deadline(&self) -> Option<Instant>;

    /// Live objects by namespace, as exactly as the index knows (DBSIZE).
    fn objects(&self, namespace: Namespace) -> u64;
}
