//! Policies of eviction: which zone of a drive goes next, and whether its hot objects stay.
//!
//! A policy is a function of what is known of the zones, and keeps nothing. The shard applies what is chosen: it notes where
//! the hand stands, forgets the hits of zones that were spared, and writes anew what is to stay (`shard/reinsertion.rs`).
//! Zones in which nothing is alive go before any policy is asked.

mod fifo;
mod lru;
mod s3fifo;
mod sieve;

use crate::format::NAMESPACES;
use crate::names;
use crate::request::Namespace;
use base::units::ZoneIndex;
use std::fmt;
use std::str::FromStr;

/// Kinds of objects that have zones of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stream {
    /// Objects as clients stored them.
    Young,
    /// Objects that were hot when their zone was evicted.
    Main,
    /// Objects that expire within minutes: the first group.
    Minutes,
    /// Objects that expire within hours: the second group.
    Hours,
    /// Objects that expire within days: the third group.
    Days,
    /// Objects of a namespace that has zones of its own.
    Share(Namespace),
}

/// Number on the media of the stream of namespace 0.
const SHARES_FROM: u8 = 16;

impl Stream {
    /// All but those of shares.
    pub const COMMON: [Stream; 5] =
        [Stream::Young, Stream::Main, Stream::Minutes, Stream::Hours, Stream::Days];
    /// Streams of objects that expire soon, by their time to live.
    pub const GROUPS: [Stream; 3] = [Stream::Minutes, Stream::Hours, Stream::Days];

    /// Places of all of them.
    pub const PLACES: usize = Stream::COMMON.len() + NAMESPACES;

    /// Place among all.
    #[must_use]
    pub fn place(self) -> usize {
        match self {
            Stream::Young => 0,
            Stream::Main => 1,
            Stream::Minutes => 2,
            Stream::Hours => 3,
            Stream::Days => 4,
            Stream::Share(namespace) => Stream::COMMON.len() + usize::from(namespace.0),
        }
    }

    /// True of what a namespace has for itself.
    #[must_use]
    pub fn is_share(self) -> bool {
        matches!(self, Stream::Share(_))
    }

    /// Number on the media.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Stream::Young => 1,
            Stream::Main => 2,
            Stream::Minutes => 3,
            Stream::Hours => 4,
            Stream::Days => 5,
            Stream::Share(namespace) => SHARES_FROM + namespace.0,
        }
    }

    /// The stream whose zones take what has none of its own: objects there live as long, or longer.
    #[must_use]
    pub fn next_longer(self) -> Option<Stream> {
        match self {
            Stream::Young | Stream::Share(_) => None,
            Stream::Main | Stream::Days => Some(Stream::Young),
            Stream::Minutes => Some(Stream::Hours),
            Stream::Hours => Some(Stream::Days),
        }
    }

    /// Groups where a drive has room for so many: with one, it is for hours.
    #[must_use]
    pub fn groups(count: usize) -> &'static [Stream] {
        match count {
            0 => &[],
            1 => &[Stream::Hours],
            2 => &[Stream::Minutes, Stream::Hours],
            _ => &Stream::GROUPS,
        }
    }

    /// All of them.
    pub fn all() -> impl Iterator<Item = Stream> {
        let shares = (0..).map(Namespace).take(NAMESPACES).map(Stream::Share);
        Stream::COMMON.into_iter().chain(shares)
    }

    /// The stream of a number on the media.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Stream> {
        Stream::all().find(|stream| stream.code() == code)
    }
}

/// A policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eviction {
    /// Young zones are a tenth; of each victim what was hit is written anew.
    #[default]
    S3Fifo,
    /// A hand passes over zones and spares those that were hit for half of their objects.
    Sieve,
    /// The zone that was hit longest ago.
    Lru,
    /// The oldest zone.
    Fifo,
}

/// Names on command lines.
const NAMES: [(&str, Eviction); 4] = [
    ("s3fifo", Eviction::S3Fifo),
    ("sieve", Eviction::Sieve),
    ("lru", Eviction::Lru),
    ("fifo", Eviction::Fifo),
];

impl FromStr for Eviction {
    type Err = String;

    fn from_str(text: &str) -> Result<Eviction, String> {
        names::parse(&NAMES, text)
    }
}

impl fmt::Display for Eviction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        names::write(&NAMES, self, f)
    }
}

/// Candidate for eviction: a zone, with its age and hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The zone.
    pub zone: ZoneIndex,
    /// Sequence at which its life began.
    pub birth: u64,
    /// Kind of its objects.
    pub stream: Stream,
    /// Objects that it holds.
    pub objects: u64,
    /// Hits since its life began, or it was spared.
    pub hits: u64,
    /// Sequence at its last hit.
    pub last_hit: u64,
}

/// Choice of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The zone that goes.
    pub victim: ZoneIndex,
    /// Zones that were passed over, and have to be hit again to be passed over again.
    pub spared: Vec<ZoneIndex>,
}

impl Choice {
    fn of(zone: &Candidate) -> Choice {
        Choice { victim: zone.zone, spared: Vec::new() }
    }
}

impl Eviction {
    /// True when what was hit of a victim is written anew.
    #[must_use]
    pub fn reinserts(self) -> bool {
        self == Eviction::S3Fifo
    }

    /// Chooses one of some zones, oldest first; the one that was chosen before was born at `hand`. `None` when there is none.
    #[must_use]
    pub fn choose(self, zones: &[Candidate], hand: u64) -> Option<Choice> {
        assert!(zones.is_sorted_by_key(|zone| zone.birth), "zones stand in the order of their births");
        let choice = match self {
            Eviction::S3Fifo => s3fifo::choose(zones),
            Eviction::Sieve => sieve::choose(zones, hand),
            Eviction::Lru => lru::choose(zones),
            Eviction::Fifo => fifo::choose(zones),
        };
        assert!(choice.is_some() != zones.is_empty(), "one of some zones is chosen");
        if let Some(Choice { victim, spared }) = &choice {
            assert!(!spared.contains(victim), "zone {victim} is not spared and chosen");
            debug_assert!(zones.iter().any(|zone| zone.zone == *victim), "zone {victim} is one of those");
        }
        choice
    }
}

#[cfg(test)]
mod tests;
