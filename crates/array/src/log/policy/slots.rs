//! Slots of the write area or stripes: which of them small blocks go to, by the commands that either costs drives.
//!
//! ```text
//!                             in slots                                           in a stripe
//!   u blocks under way        u (m + 1), and u (k + m) / k as they leave         k + m, for they can share it
//!   u blocks that slots hold  u (m + 1)                                          k + m
//! ```
//! More than k blocks fill stripes, which share commands besides. Less wear is always in slots: what is padded is written to the flash, and so
//! is what is not overwritten in its window.

use crate::log::area::slots::SlotPlaces;
use crate::log::core::Core;

/// What slots are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlotUse {
    /// Less wear: what would be padded goes to slots, and what they hold is overwritten there. A free slot is chosen while few blocks are
    /// under way.
    #[default]
    Wear,
    /// Less wear where that costs drives fewer commands than stripes do.
    FewCommands,
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

    /// True when so many blocks cost less in slots than in a stripe, with the full stripes in which they leave.
    fn slots_are_cheaper(self, blocks: u64) -> bool {
        self.slots(blocks) * self.data + blocks * self.stripe() < self.stripe() * self.data
    }
}

impl SlotUse {
    /// True when a stripe that would be padded goes to slots, with so many blocks under way.
    pub(in crate::log) fn spills(self, pieces: Pieces, blocks_under_way: u64) -> bool {
        self != SlotUse::FewCommands || pieces.slots_are_cheaper(blocks_under_way)
    }

    /// True when a small write may go to a slot, with so many blocks under way.
    pub(in crate::log) fn takes(self, choice: SlotChoice, pieces: Pieces, blocks_under_way: u64) -> bool {
        let commands = pieces.slots(blocks_under_way);
        match (self, choice) {
            (SlotUse::AnyDepth, _) | (SlotUse::Wear, SlotChoice::Overwrite) => true,
            (SlotUse::Wear, SlotChoice::Free) => commands <= pieces.stripe(),
            (SlotUse::FewCommands, SlotChoice::Overwrite) => commands < pieces.stripe(),
            (SlotUse::FewCommands, SlotChoice::Free) => pieces.slots_are_cheaper(blocks_under_way),
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

    /// Arrays, and the most blocks under way that go to free slots, over those that slots hold, and to free ones for less wear.
    const ARRAYS: [(Pieces, [u64; 3]); 4] = [
        (Pieces { data: 3, parities: 1 }, [1, 1, 2]),
        (Pieces { data: 2, parities: 1 }, [0, 1, 1]),
        (Pieces { data: 6, parities: 1 }, [2, 3, 3]),
        (Pieces { data: 4, parities: 2 }, [1, 1, 2]),
    ];

    fn most(goes: impl Fn(u64) -> bool) -> u64 {
        (1..64).take_while(|blocks| goes(*blocks)).count() as u64
    }

    #[test]
    fn few_commands_bound_what_goes_to_slots() {
        let few = SlotUse::FewCommands;
        for (pieces, [free, over, _]) in ARRAYS {
            assert_eq!(most(|blocks| few.spills(pieces, blocks)), free, "{pieces:?}");
            assert_eq!(most(|blocks| few.takes(SlotChoice::Free, pieces, blocks)), free, "{pieces:?}");
            assert_eq!(most(|blocks| few.takes(SlotChoice::Overwrite, pieces, blocks)), over, "{pieces:?}");
        }
    }

    #[test]
    fn less_wear_spills_all_and_overwrites_at_any_depth() {
        let wear = SlotUse::Wear;
        for (pieces, [.., free]) in ARRAYS {
            assert!(wear.spills(pieces, 64) && wear.takes(SlotChoice::Overwrite, pieces, 64));
            assert_eq!(most(|blocks| wear.takes(SlotChoice::Free, pieces, blocks)), free, "{pieces:?}");
            assert!(SlotUse::AnyDepth.takes(SlotChoice::Free, pieces, 64));
        }
    }
}
