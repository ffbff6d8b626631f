//! Judge of `auto`: slots of the write area are used while few blocks are under way, and only then (ADR 85). `zones`: the area's zones.
//!
//! ```text
//!   under way   1 1 3 1 1 1 1 1 1 1 1 1 1 1 ...      3+1, two find drives of their own; of the last 4 writes
//!                   |<- no ->|     |<- slots again, each in a row of writes that were alone
//! ```
//! The engine says what is under way and how many blocks went to slots; what it remembers of that is held against this.

mod zones;

use crate::engine::{Array, Volume};
use crate::plan::Plan;
use crate::tally::Failure;
use array::log::policy::slots::{SlotDemand, SlotUse};
use zones::{Pace, ZoneJudge};

/// Writes in a row, each alone, of which one at least goes to a slot: a block may be on its way to the log, or join others of the collector.
const ALONE_MAX: u32 = 8;

/// See the module.
#[derive(Debug)]
pub(crate) struct SlotJudge {
    /// Blocks that find drives of their own.
    blocks_max: u64,
    /// Writes for which the most under way is remembered.
    writes: u64,
    before: SlotDemand,
    /// Writes that had been admitted when too much was under way last.
    busy_at: u64,
    /// Blocks that had gone to slots before the write that is alone.
    lone_from: Option<u64>,
    /// Writes that were alone in a row, and went elsewhere.
    elsewhere: u32,
    zones: ZoneJudge,
}

impl SlotJudge {
    /// A judge, where the plan's slots are used only while that costs no time.
    pub(crate) fn of(plan: &Plan, array: &Array) -> Option<SlotJudge> {
        let Array::Log(config) = array else { return None };
        let tuning = plan.tuning();
        let places = config.slot_places().filter(|_| tuning.slot_use == SlotUse::Idle && !plan.biza)?;
        let zones = u64::from(tuning.write_area_zones * places.members);
        let zones_blocks = zones * u64::from(config.geometry.zone_capacity_blocks);
        Some(SlotJudge {
            zones: ZoneJudge::new(zones_blocks),
            blocks_max: u64::from(places.members / places.copies),
            writes: tuning.tuned.demand_writes.into(),
            before: SlotDemand::default(),
            busy_at: 0,
            lone_from: None,
            elsewhere: 0,
        })
    }

    /// Something happened.
    pub(crate) fn look(&mut self, volume: &mut Volume) -> Result<(), Failure> {
        let Some(volume) = volume.log() else { return Ok(()) };
        self.judge(volume.engine.slot_demand()).map_err(Failure::new)
    }

    fn judge(&mut self, now: SlotDemand) -> Result<(), String> {
        if now.writes_admitted < self.before.writes_admitted {
            // Another engine begins anew.
            (self.before, self.busy_at, self.lone_from, self.elsewhere) = (SlotDemand::default(), 0, None, 0);
            self.zones.begin_anew();
        }
        let before = std::mem::replace(&mut self.before, now);
        let since = now.writes_admitted - self.busy_at;
        if self.busy_at > 0 && now.slot_blocks > before.slot_blocks && since < self.writes {
            return Err(format!(
                "a block went to a slot though more than {} were under way {since} writes ago",
                self.blocks_max
            ));
        }
        if now.blocks_under_way > self.blocks_max {
            self.busy_at = now.writes_admitted;
        }
        let admitted = now.writes_admitted - before.writes_admitted;
        self.zones.judge(now, self.pace(now), admitted)?;
        self.judge_alone(before, now)
    }

    /// What clients did of late: the engine remembers what was under way for as many writes, and at most for twice as many.
    fn pace(&self, now: SlotDemand) -> Pace {
        let since = now.writes_admitted - self.busy_at;
        match since {
            _ if since >= 2 * self.writes => Pace::Calm,
            _ if self.busy_at > 0 && since < self.writes => Pace::Busy,
            _ => Pace::Between,
        }
    }

    /// Whether writes that are alone go to slots.
    fn judge_alone(&mut self, before: SlotDemand, now: SlotDemand) -> Result<(), String> {
        let admitted = now.writes_admitted - before.writes_admitted;
        if self.pace(now) != Pace::Calm || !now.has_slots || admitted > 1 || now.blocks_under_way > 1 {
            (self.lone_from, self.elsewhere) = (None, 0);
            return Ok(());
        }
        if admitted == 1 {
            let comes_alone = before.blocks_under_way == 0 && now.blocks_under_way == 1;
            self.lone_from = comes_alone.then_some(before.slot_blocks);
        } else if now.blocks_under_way == 0
            && let Some(from) = self.lone_from.take()
        {
            self.elsewhere = if now.slot_blocks == from { self.elsewhere + 1 } else { 0 };
        }
        if self.elsewhere < ALONE_MAX {
            return Ok(());
        }
        Err(format!(
            "{ALONE_MAX} writes in a row were alone and went to stripes, and slots are free; the last {} of {} had drives of their own",
            now.writes_admitted - self.busy_at,
            now.writes_admitted
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The judge after so many writes with so many blocks under way at a time; some go to slots.
    fn judged(runs: &[(u32, u64, bool)]) -> Result<(), String> {
        let mut judge = SlotJudge {
            blocks_max: 2,
            writes: 4,
            before: SlotDemand::default(),
            busy_at: 0,
            lone_from: None,
            elsewhere: 0,
            zones: ZoneJudge::new(0),
        };
        let mut demand = SlotDemand { has_slots: true, ..SlotDemand::default() };
        for (writes, at_once, goes_to_slot) in runs {
            for _ in 0..*writes {
                demand.blocks_under_way = *at_once;
                demand.writes_admitted += 1;
                demand.slot_blocks += u64::from(*goes_to_slot);
                judge.judge(demand)?;
                demand.blocks_under_way = 0;
                judge.judge(demand)?;
            }
        }
        Ok(())
    }

    #[test]
    fn slots_are_used_when_drives_are_idle_and_not_before() {
        assert_eq!(judged(&[(20, 1, true), (1, 3, false), (10, 1, false), (20, 1, true)]), Ok(()));
        assert_eq!(judged(&[(1, 3, false), (3, 1, false), (1, 1, true)]), Ok(()));
        assert!(judged(&[(1, 3, false), (2, 1, false), (1, 1, true)]).unwrap_err().contains("3 writes ago"));
        assert_eq!(judged(&[(1, 3, false), (14, 1, false)]), Ok(()));
        assert!(judged(&[(1, 3, false), (15, 1, false)]).unwrap_err().contains("8 writes in a row"));
        assert_eq!(judged(&[(1, 3, false), (14, 1, false), (100, 2, false)]), Ok(()), "they are not alone");
    }
}
