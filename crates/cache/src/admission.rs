//! Admission: which of what clients store goes to flash. The rest is held in memory until it is hit, or others want its room.
//!
//! ```text
//!   store, or hit of what is held -> Gate -- admitted ------------------> flash
//!                                      \---> held in memory -- oldest --> forgotten; the ghost remembers its hash
//! ```
//! A policy says which shares of objects that come for the first time, and of those that come again, are admitted. `auto` takes
//! them from a budget: what is left of it, and nothing else, says how large they are.

mod budget;

use crate::ghost::Ghost;
use crate::hash::KeyHash;
use crate::names;
use base::time::Instant;
pub use budget::Budget;
use std::fmt;
use std::str::FromStr;

/// A policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Admission {
    /// Everything goes to flash.
    #[default]
    All,
    /// Objects that were hit in memory, or are stored again while their hash is remembered.
    Second,
    /// Between these, and less than that, as a budget is used up.
    Auto,
}

/// Names on command lines.
const NAMES: [(&str, Admission); 3] =
    [("all", Admission::All), ("second", Admission::Second), ("auto", Admission::Auto)];

impl FromStr for Admission {
    type Err = String;

    fn from_str(text: &str) -> Result<Admission, String> {
        names::parse(&NAMES, text)
    }
}

impl fmt::Display for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        names::write(&NAMES, self, f)
    }
}

/// All of something: shares are so many of it.
pub const WHOLE: u32 = 1024;

/// Shares of objects that are admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Share of objects stored for the first time, as far as is known, in 1024ths.
    pub first: u32,
    /// Share of objects that were hit in memory, or are stored again, in 1024ths.
    pub again: u32,
}

/// Visit of an object: its first or a later one, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// First store of the object.
    First,
    /// Store of an object that was hit in memory, or that the ghost remembers.
    Again,
}

/// Lets shares pass, evenly.
#[derive(Clone, Copy, Debug, Default)]
struct Turnstile {
    carry: u32,
}

impl Turnstile {
    fn passes(&mut self, share: u32) -> bool {
        assert!(share <= WHOLE, "a share is a part of a whole: {share}");
        self.carry += share;
        let passes = self.carry >= WHOLE;
        self.carry -= if passes { WHOLE } else { 0 };
        assert!(self.carry < WHOLE, "one passes at a time");
        passes
    }
}

/// See the module.
#[derive(Debug)]
pub struct Gate {
    policy: Admission,
    budget: Option<Budget>,
    ghost: Ghost<u32>,
    first: Turnstile,
    again: Turnstile,
}

impl Gate {
    /// A gate with a budget of so many bytes a day, and room for so many hashes.
    #[must_use]
    pub fn new(policy: Admission, bytes_per_day: Option<u64>, hashes: usize) -> Gate {
        let budget = bytes_per_day.filter(|_| policy == Admission::Auto).map(Budget::new);
        let (first, again) = (Turnstile::default(), Turnstile::default());
        Gate { policy, budget, ghost: Ghost::new(hashes), first, again }
    }

    /// Tells the budget the time, and the bytes written since the mount.
    pub fn note(&mut self, now: Instant, bytes_written: u64) {
        if let Some(budget) = &mut self.budget {
            budget.note(now, bytes_written);
        }
    }

    /// Level of the budget, as a share of the most that can be kept, in 1024ths; without a budget, all.
    #[must_use]
    pub fn level(&self) -> u32 {
        self.budget.as_ref().map_or(WHOLE, Budget::level)
    }

    /// Shares that are admitted now.
    #[must_use]
    pub fn shares(&self) -> Shares {
        match self.policy {
            Admission::All => Shares { first: WHOLE, again: WHOLE },
            Admission::Second => Shares { first: 0, again: WHOLE },
            Admission::Auto => budget::shares(self.level()),
        }
    }

    /// True when an object goes to flash.
    pub fn admits(&mut self, visit: Visit) -> bool {
        let shares = self.shares();
        match visit {
            Visit::First => self.first.passes(shares.first),
            Visit::Again => self.again.passes(shares.again),
        }
    }

    /// An object is forgotten that was never on flash.
    pub fn forgets(&mut self, hash: KeyHash) {
        self.ghost.remember(hash.bits());
    }

    /// An object is stored: how often, as far as the ghost knows.
    pub fn visit(&mut self, hash: KeyHash) -> Visit {
        if self.ghost.recall(hash.bits()) { Visit::Again } else { Visit::First }
    }

    /// Bytes of memory.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.ghost.bytes()
    }
}

#[cfg(test)]
mod tests;
