//! Judge of the area's zones: it gives them up while clients need the space, and has them again when they do not.
//!
//! ```text
//!   clients     busy, space short         as many blocks as the zones hold, then calm
//!   area      Open ──> given up           ──> Open
//!                  |<- 8 ->|                 |<- 8 ->|      turns in which writes are admitted, at most
//! ```

use array::log::area::AreaState;
use array::log::policy::slots::SlotDemand;

/// Turns in a row in which writes are admitted and the area does not do what it should.
const LATE_MAX: u32 = 8;

/// What clients did of late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// More was under way than finds drives of its own.
    Busy,
    /// It may be remembered, or not.
    Between,
    /// That is long ago.
    Calm,
}

/// See the module.
#[derive(Debug)]
pub(super) struct ZoneJudge {
    /// Blocks that the zones hold, at most.
    zones_blocks: u64,
    /// The area had its zones.
    was_open: bool,
    /// Blocks that clients had written when it gave them up.
    given_up_at: u64,
    late: u32,
}

impl ZoneJudge {
    pub(super) fn new(zones_blocks: u64) -> ZoneJudge {
        ZoneJudge { zones_blocks, was_open: false, given_up_at: 0, late: 0 }
    }

    /// Another engine begins.
    pub(super) fn begin_anew(&mut self) {
        *self = ZoneJudge::new(self.zones_blocks);
    }

    /// A turn is over, in which so many writes were admitted.
    pub(super) fn judge(&mut self, now: SlotDemand, pace: Pace, admitted: u64) -> Result<(), String> {
        let is_open = now.area == AreaState::Open;
        if std::mem::replace(&mut self.was_open, is_open) && !is_open {
            self.given_up_at = now.user_blocks;
        }
        let wrong = match (now.area, pace) {
            (AreaState::Open, Pace::Busy) if now.is_space_short => "keeps zones that clients need",
            (AreaState::Closed { has_room: true }, Pace::Calm)
                if now.user_blocks >= self.given_up_at + self.zones_blocks =>
            {
                "has no zones, and nobody needs them"
            }
            _ => {
                self.late = 0;
                return Ok(());
            }
        };
        self.late += u32::from(admitted > 0);
        if self.late < LATE_MAX {
            return Ok(());
        }
        Err(format!("the write area {wrong}, in {LATE_MAX} turns in a row: {now:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The judge of an area of 10 blocks, after so many turns of one write each.
    fn judged(turns: &[(u32, AreaState, Pace, bool)]) -> Result<(), String> {
        let mut judge = ZoneJudge::new(10);
        let mut demand = SlotDemand::default();
        for (count, area, pace, is_space_short) in turns {
            for _ in 0..*count {
                demand.user_blocks += 1;
                let now = SlotDemand { area: *area, is_space_short: *is_space_short, ..demand };
                judge.judge(now, *pace, 1)?;
                judge.judge(now, *pace, 0)?;
            }
        }
        Ok(())
    }

    #[test]
    fn zones_are_given_up_where_clients_need_them() {
        let open = AreaState::Open;
        let calm = [(100, open, Pace::Calm, true), (100, open, Pace::Between, true)];
        assert_eq!(judged(&calm), Ok(()));
        assert_eq!(judged(&[(100, open, Pace::Busy, false)]), Ok(()), "there is space");
        let in_time = [(7, open, Pace::Busy, true), (1, AreaState::Between, Pace::Busy, true)];
        assert_eq!(judged(&in_time.repeat(9)), Ok(()));
        assert!(judged(&[(8, open, Pace::Busy, true)]).unwrap_err().contains("keeps zones"));
    }

    #[test]
    fn zones_are_taken_again_where_nobody_needs_them() {
        let closed = |has_room| AreaState::Closed { has_room };
        let given_up = (5, AreaState::Open, Pace::Calm, false);
        assert_eq!(judged(&[given_up, (100, closed(false), Pace::Calm, false)]), Ok(()));
        assert_eq!(judged(&[given_up, (100, closed(true), Pace::Busy, false)]), Ok(()));
        assert_eq!(judged(&[given_up, (17, closed(true), Pace::Calm, false), given_up]), Ok(()));
        let never = [given_up, (18, closed(true), Pace::Calm, false)];
        assert!(judged(&never).unwrap_err().contains("has no zones"), "10 blocks, and 8 turns");
    }
}
