//! What a front end asks of a cache and what it is told.
//!
//! Operations on one key happen one after the other, in the order in which they were submitted.

use base::time::Instant;

/// Namespace of keys: a RESP database, 0 to 15.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace(pub u8);

/// Wall time in milliseconds since 1970, by which objects expire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallMillis(pub u64);

/// The front end's name for a request; it comes back with the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// What is stored under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// The bytes.
    pub value: Vec<u8>,
    /// Flags of the client, kept as they are.
    pub flags: u32,
    /// Time at which the object ceases to be; `None` is never.
    pub expires: Option<WallMillis>,
}

/// What a change makes of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing changes.
    Keep,
    /// This is stored.
    Store(Object),
    /// The object is removed.
    Remove,
}

/// A read-change-write step: gets the current live object (never an expired one), decides. Called exactly once
/// unless refused.
pub type Decide = Box<dyn FnOnce(Option<&Object>, WallMillis) -> Change + Send>;

/// Operation on a namespace.
pub enum Op {
    /// Reads an object.
    Get {
        /// The key.
        key: Vec<u8>,
    },
    /// Unconditional store: needs no read of flash.
    Set {
        /// The key.
        key: Vec<u8>,
        /// What is stored.
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
}

/// A request.
pub struct Request {
    /// Comes back with the reply.
    pub id: RequestId,
    /// Namespace of the key.
    pub namespace: Namespace,
    /// What is asked.
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

/// What came of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing has changed.
    Kept,
    /// An object was stored.
    Stored,
    /// The object was removed.
    Removed,
}

/// Outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Of a get.
    Found(Option<Object>),
    /// Of a set.
    Stored,
    /// Of a remove: whether a live object was there.
    Removed(bool),
    /// Of an update.
    Updated {
        /// The object before it.
        before: Option<Object>,
        /// What came of it.
        change: Kind,
    },
    /// Of a clear.
    Cleared,
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
