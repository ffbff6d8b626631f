//! Slots of the write area or stripes: which of them small blocks go to.
//!
//! ```text
//!                             in slots         in a stripe
//!   u blocks under way        u (m + 1)        k + m commands of drives, for they can share it
//! ```
//! Less wear is always in slots: what is padded is written to the flash, and so is what is not overwritten in its window. A rule that asks for
//! fewer commands of everything was built and measured, and lost (ADR 85).

use crate::log::area::slots::SlotPlaces;
use crate::log::core::Core;

/// What slots are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlotUse {
    /// Less wear: what would be padded goes to slots, and what they hold is overwritten there. A free slot is chosen while few blocks are
    /// under way.
    #[default]
    Wear,
    /// Less wear whatever it costs: a free slot is chosen however many blocks are under way.
    AnyDepth,
}

/// Way in which a small write may go to a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) enum SlotChoice {
    /// Over its block, or behind what is on its way there.
    Overwrite,
    /// To a free one that it is worth.
    Free,
}

/// Pieces of a stripe, of which commands of drives are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) struct Pieces {
    /// k.
    data: u64,
    /// m.
    parities: u64,
}

impl Pieces {
    /// Those of an array whose slots lie in these places.
    pub(in crate::log) fn of(places: &SlotPlaces) -> Pieces {
        let SlotPlaces { members, copies, .. } = *places;
        let parities = u64::from(copies - 1);
        Pieces { data: u64::from(members) - parities, parities }
    }

    /// Commands of a stripe.
    fn stripe(self) -> u64 {
        self.data + self.parities
    }

    /// Commands of so many blocks in slots.
    fn slots(self, blocks: u64) -> u64 {
        blocks * (self.parities + 1)
    }
}

impl SlotUse {
    /// True when a small write may go to a slot, with so many blocks under way.
    pub(in crate::log) fn takes(self, choice: SlotChoice, pieces: Pieces, blocks_under_way: u64) -> bool {
        let commands = pieces.slots(blocks_under_way);
        match (self, choice) {
            (SlotUse::AnyDepth, _) | (SlotUse::Wear, SlotChoice::Overwrite) => true,
            (SlotUse::Wear, SlotChoice::Free) => commands <= pieces.stripe(),
        }
    }
}

impl Core {
    /// What slots are for. BIZA's policy has its own way to tell what goes there.
    pub(in crate::log) fn slot_use(&self) -> SlotUse {
        if self.is_biza() { SlotUse::AnyDepth } else { self.tuning.slot_use }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Arrays, and the most blocks under way that go to free slots.
    const ARRAYS: [(Pieces, u64); 4] = [
        (Pieces { data: 3, parities: 1 }, 2),
        (Pieces { data: 2, parities: 1 }, 1),
        (Pieces { data: 6, parities: 1 }, 3),
        (Pieces { data: 4, parities: 2 }, 2),
    ];

    #[test]
    fn less_wear_overwrites_at_any_depth_and_takes_free_slots_at_few() {
        let wear = SlotUse::Wear;
        for (pieces, most) in ARRAYS {
            let takes = |blocks: &u64| wear.takes(SlotChoice::Free, pieces, *blocks);
            assert_eq!((1..64).take_while(takes).count() as u64, most, "{pieces:?}");
            assert!(wear.takes(SlotChoice::Overwrite, pieces, 64));
            assert!(SlotUse::AnyDepth.takes(SlotChoice::Free, pieces, 64));
        }
    }
}
