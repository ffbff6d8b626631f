//! Slots of the write area or stripes: which of them small blocks go to.
//!
//! ```text
//!                             in slots         in a stripe
//!   u blocks under way        u (m + 1)        k + m commands of drives, for they can share it
//! ```
//! Less wear is always in slots: what is padded is written to the flash, and so is what is not overwritten in its window. A rule that asks for
//! fewer commands of everything was built and measured, and lost (ADR 85).

use crate::log::Shard;
use crate::log::area::AreaState;
use crate::log::area::slots::SlotPlaces;
use crate::log::core::Core;
use crate::log::policy::adaptive::Demand;

/// What slots are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlotUse {
    /// Less wear: what would be padded goes to slots, and what they hold is overwritten there. A free slot is chosen while few blocks are
    /// under way.
    #[default]
    Wear,
    /// Less wear where it costs clients no time: while all blocks that were under way of late find drives of their own in slots, which no
    /// copy of another waits for.
    Idle,
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
    /// From a stripe that would be padded.
    Spill,
}

impl SlotUse {
    /// True when a small write may go to a slot, with what clients have under way. Clients that are out of step leave each other alone for
    /// moments, so [`SlotUse::Idle`] goes by the most of late.
    pub(in crate::log) fn takes(self, choice: SlotChoice, places: &SlotPlaces, demand: &Demand) -> bool {
        let fit = |blocks: u64| blocks * u64::from(places.copies) <= u64::from(places.members);
        match (self, choice) {
            (SlotUse::AnyDepth, _) | (SlotUse::Wear, SlotChoice::Overwrite | SlotChoice::Spill) => true,
            (SlotUse::Wear, SlotChoice::Free) => fit(demand.blocks_under_way()),
            (SlotUse::Idle, _) => fit(demand.blocks()),
        }
    }
}

impl Core {
    /// What slots are for. BIZA's policy has its own way to tell what goes there.
    pub(in crate::log) fn slot_use(&self) -> SlotUse {
        if self.is_biza() { SlotUse::AnyDepth } else { self.tuning.slot_use }
    }
}

/// What slots are chosen by, for those who judge the choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotDemand {
    /// Blocks of writes that were admitted and are not durable.
    pub blocks_under_way: u64,
    /// Writes that were admitted.
    pub writes_admitted: u64,
    /// Blocks that went to slots.
    pub slot_blocks: u64,
    /// A small write could go to a slot.
    pub has_slots: bool,
    /// What the area does.
    pub area: AreaState,
    /// What is written must soon be collected.
    pub is_space_short: bool,
    /// Blocks that clients have written.
    pub user_blocks: u64,
}

impl Shard {
    /// What slots are chosen by.
    #[must_use]
    pub fn slot_demand(&self) -> SlotDemand {
        let is_open = self.area.takes_writes(&self.core) && self.area.slots().free_count() > 0;
        SlotDemand {
            blocks_under_way: self.clients.demand.blocks_under_way(),
            writes_admitted: self.clients.demand.admitted(),
            slot_blocks: self.core.counters.slot_blocks_written,
            has_slots: is_open && self.small_blocks() > 1,
            area: self.area_state(),
            is_space_short: self.core.is_space_short(),
            user_blocks: self.core.counters.user_blocks_written,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::policy::tuned::Tuned;

    /// So many blocks are under way.
    fn demand(blocks: u64) -> Demand {
        let mut demand = Demand::new(&Tuned::default());
        (0..blocks).for_each(|_| demand.begin(1));
        demand
    }

    /// Members and copies of arrays, 3+1, 2+1, 6+1 and 4+2, and the most blocks under way that go to free slots.
    const ARRAYS: [(u32, u32, u64); 4] = [(4, 2, 2), (3, 2, 1), (7, 2, 3), (6, 3, 2)];

    #[test]
    fn less_wear_overwrites_at_any_depth_and_takes_free_slots_at_few() {
        let wear = SlotUse::Wear;
        for (members, copies, most) in ARRAYS {
            let places = &SlotPlaces { members, copies, blocks: 1, first: 0 };
            let takes = |blocks: &u64| wear.takes(SlotChoice::Free, places, &demand(*blocks));
            assert_eq!((1..64).take_while(takes).count() as u64, most, "{places:?}");
            assert!(wear.takes(SlotChoice::Overwrite, places, &demand(64)));
            assert!(wear.takes(SlotChoice::Spill, places, &demand(64)));
            assert!(SlotUse::AnyDepth.takes(SlotChoice::Free, places, &demand(64)));
        }
    }

    #[test]
    fn what_costs_no_time_goes_by_the_most_under_way_of_late() {
        let all = [SlotChoice::Overwrite, SlotChoice::Free, SlotChoice::Spill];
        for (members, copies, most) in ARRAYS {
            let places = &SlotPlaces { members, copies, blocks: 1, first: 0 };
            let takes = |demand: &Demand| all.map(|choice| SlotUse::Idle.takes(choice, places, demand));
            assert_eq!(takes(&demand(most)), [true; 3], "{places:?}");
            let mut more = demand(most + 1);
            assert_eq!(takes(&more), [false; 3], "{places:?}");
            more.end(most);
            assert_eq!(takes(&more), [false; 3], "one is alone for a moment");
            for _ in 0..2 * Tuned::default().demand_writes {
                more.begin(1);
                more.end(1);
            }
            assert_eq!(takes(&more), [most > 1; 3], "one is left, and others come one by one");
        }
    }
}
