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

impl SlotUse {
    /// True when a small write may go to a slot, with so many blocks under way.
    pub(in crate::log) fn takes(
        self,
        choice: SlotChoice,
        places: &SlotPlaces,
        blocks_under_way: u64,
    ) -> bool {
        match (self, choice) {
            (SlotUse::AnyDepth, _) | (SlotUse::Wear, SlotChoice::Overwrite) => true,
            (SlotUse::Wear, SlotChoice::Free) => {
                blocks_under_way * u64::from(places.copies) <= u64::from(places.members)
            }
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

    /// Members and copies of arrays, 3+1, 2+1, 6+1 and 4+2, and the most blocks under way that go to free slots.
    const ARRAYS: [(u32, u32, u64); 4] = [(4, 2, 2), (3, 2, 1), (7, 2, 3), (6, 3, 2)];

    #[test]
    fn less_wear_overwrites_at_any_depth_and_takes_free_slots_at_few() {
        let wear = SlotUse::Wear;
        for (members, copies, most) in ARRAYS {
            let places = &SlotPlaces { members, copies, blocks: 1, first: 0 };
            let takes = |blocks: &u64| wear.takes(SlotChoice::Free, places, *blocks);
            assert_eq!((1..64).take_while(takes).count() as u64, most, "{places:?}");
            assert!(wear.takes(SlotChoice::Overwrite, places, 64));
            assert!(SlotUse::AnyDepth.takes(SlotChoice::Free, places, 64));
        }
    }
}
