//! Shards: the engine once a core. Each has the strips of its units ([`spread`]), a table, a cache and devices of its own.
//!
//! ```text
//!   requests ──> shard of their unit: rounds of its own ──> members
//!                   │  ^
//!   Ask, GiveBack,  │  │  Terms, Recall,
//!   Handed          v  │  Granted, Answer                          messages
//!                control shard: superblocks, bitmap, members, sweeps, and all that is not plain
//! ```
//! The [`control`] shard is the engine as it is without others: it serves any array, in any state. Shards beside it do what most requests are,
//! plain reads and writes of an array that is well ([`shard`]), and hand it the rest, request by request. While an array is not well, strips
//! are recalled, and it does everything. What a write needs of dirty mark and bitmap is lent ([`leases`]), so that the path of a write has no
//! message, no lock and no shared line in it. Partial parity logs are lent with the strips whose parities they are of ([`lending`]).
//!
//! All of them are state machines without threads: [`messages`] are carried by whoever has the threads, in order for each pair.

pub mod control;
pub mod leases;
pub mod lending;
pub mod messages;
pub mod router;
pub mod shard;
pub mod spread;

use super::InPlace;
use super::core::Core;
use super::places::Places;
use super::scribe::Scribe;
use super::start::{Tuning, plain};
use control::Control;
use shard::Shard;
use spread::Spread;

/// Place of an engine among those of an array.
#[derive(Debug, Default)]
pub(super) enum Place {
    /// There is no other.
    #[default]
    Alone,
    /// It lends strips to others.
    Control(Box<Control>),
    /// It has strips on terms.
    Shard(Box<Shard>),
}

impl Place {
    /// True of an engine that has strips on terms.
    #[inline]
    pub(super) fn is_shard(&self) -> bool {
        matches!(self, Place::Shard(_))
    }
}

impl Core {
    /// Spread of the volume over so many shards.
    #[must_use]
    pub fn spread(&self, shards: usize) -> Spread {
        match self.ahead.logs {
            Some(_) => Spread::by_parity(*self.map.geometry(), self.stripe_blocks(), shards),
            None => Spread::new(self.stripe_blocks(), shards),
        }
    }

    /// Blocks of data of a stripe.
    #[must_use]
    pub fn stripe_blocks(&self) -> u64 {
        self.map.chunk_rows() * u64::from(self.map.geometry().data_chunks())
    }
}

impl InPlace {
    /// Makes this engine the control shard of so many others, which have devices open at these seats. They have no strips before messages say
    /// so.
    ///
    /// # Panics
    /// When it has others, or there are to be none.
    pub fn divide(&mut self, count: usize, seated: Places, tuning: &Tuning) -> Vec<InPlace> {
        let core = self.core_mut();
        assert!(matches!(core.place, Place::Alone) && count > 0, "{count} shards");
        // Everything that clients of all shards have in work may be handed over at a time.
        core.stock.admit_others(count * tuning.client_frames);
        core.place = Place::Control(Box::new(Control::new(count, seated, core.ahead.logs.is_some())));
        (0..count).map(|_| self.shard(tuning)).collect()
    }

    /// An engine with the members and the map of this one.
    fn shard(&self, tuning: &Tuning) -> InPlace {
        let scribe = Scribe::new(Vec::new(), 0, false, tuning.began);
        let core = self.core();
        let mut engine = plain(core.map.clone(), core.members.clone(), scribe, tuning);
        engine.core_mut().place = Place::Shard(Box::default());
        engine
    }
}
