//! Zones that turn read-only or offline by themselves, with no command on them: drives are asked for such zones every minute, and soon
//! after anything went wrong, for nobody tells (ADR 23).
//!
//! ```text
//!   Waiting ── due ──> Asking: every member that is there, for the first such zone, then for the next one behind it
//!      ^                  │ all have answered that there is none any more
//!      └──────────────────┘
//!   free zone ──> not used again      zone of a segment ──> retired: the segment is collected (`retired.rs`)
//! ```
//! A zone that was retired is found again and again, which costs a command each. What an error would cost the drive, this does only
//! where the array can do without it: nothing was refused yet.

use crate::engine::Effects;
use crate::log::blame::Blame;
use crate::log::core::Core;
use crate::log::membership::active_members;
use crate::log::segment::{Segment, SegmentSlot, SegmentState};
use crate::log::{Shard, Waiter};
use base::time::{Instant, Nanos};
use base::units::{DriveIndex, ZoneIndex};
use zone::device::{Completion, Op, Status, ZoneState};
use zone::format::SUPERBLOCK_ZONES;

/// Time between two looks at the drives.
pub const LOOK_EVERY: Nanos = Nanos(60_000_000_000);
/// Time between the end of a look and one for something that went wrong.
const LOOK_AGAIN_AFTER: Nanos = Nanos(1_000_000_000);
/// What a member is blamed for.
const LOOK: &str = "a search for zones that turned";

/// Looks at the drives of an array.
#[derive(Debug, Default)]
pub struct ZoneWatch {
    is_on: bool,
    /// Time of the next look; `None` before it is set, and during a look.
    due: Option<Instant>,
    /// End of the last look.
    ended: Instant,
    /// Members that are asked.
    asked: u32,
    /// Something went wrong since the last look began.
    is_hastened: bool,
}

impl ZoneWatch {
    /// True while no drive is asked.
    pub fn is_at_rest(&self) -> bool {
        self.asked == 0
    }

    /// Time of the next look.
    pub fn wakes_at(&self) -> Option<Instant> {
        self.due
    }

    /// Something went wrong: the next look is not to be waited for.
    pub fn hasten(&mut self) {
        self.is_hastened = true;
    }

    /// A command was answered with an error.
    #[cold]
    pub fn note_trouble(&mut self, waiter: Waiter) {
        if !matches!(waiter, Waiter::Turned { .. }) {
            self.hasten();
        }
    }

    /// Sets the time of the next look; true when that has come.
    fn is_due(&mut self, now: Instant) -> bool {
        if !self.is_on || self.asked > 0 {
            return false;
        }
        if self.due.is_none() {
            self.ended = now;
        }
        let due = self.due.unwrap_or(now + LOOK_EVERY);
        let due = if self.is_hastened { due.min(self.ended + LOOK_AGAIN_AFTER) } else { due };
        self.due = Some(due);
        due <= now
    }
}

impl Shard {
    /// From now on, zones that turn by themselves are looked for.
    pub fn watch_zones(&mut self) {
        self.zone_watch.is_on = true;
    }

    /// Begins a look when it is due.
    pub(super) fn advance_zone_watch(&mut self, now: Instant, fx: &mut Effects) {
        if !self.zone_watch.is_due(now) {
            return;
        }
        assert!(self.zone_watch.is_at_rest(), "drives are asked once in a look");
        let ZoneWatch { due, asked, is_hastened, .. } = &mut self.zone_watch;
        (*due, *is_hastened) = (None, false);
        for drive in 0..self.core.config.members {
            // One that is away is looked at when it is back.
            if self.core.membership.is_present(drive) && !self.core.membership.is_stalled(drive) {
                *asked += 1;
                self.core.find_turned(drive, ZoneIndex(0), fx);
            }
        }
        if *asked == 0 {
            (self.zone_watch.due, self.zone_watch.ended) = (Some(now + LOOK_EVERY), now);
        }
    }

    /// A drive names a zone that turned, or knows of none.
    pub(super) fn on_turned(&mut self, drive: usize, completion: &Completion, fx: &mut Effects) {
        let Completion { status, zone, offset, ref report, .. } = *completion;
        assert!(self.zone_watch.asked > 0, "a drive answers once");
        if status == Status::DeviceGone {
            self.core.fail_member(drive, Blame::Answer { what: LOOK, status }, fx);
        }
        let found =
            report.first().filter(|_| status == Status::Success && self.core.membership.is_present(drive));
        if let Some(found) = found {
            let zone = ZoneIndex(zone.0.saturating_add(offset));
            if zone.0 < self.core.config.geometry.zones {
                self.core.zone_turned(drive, zone, found.state, fx);
            }
            let next = ZoneIndex(zone.0.saturating_add(1));
            let is_last = next.0 >= self.core.config.geometry.zones;
            if !is_last && self.core.membership.is_present(drive) {
                return self.core.find_turned(drive, next, fx);
            }
        }
        self.zone_watch.asked -= 1;
    }

    /// A zone of a drive at rest that takes no more writes, and that the engine would use: for tests and simulation.
    #[must_use]
    pub fn unnoticed_turn(&self, drive: DriveIndex, states: &[ZoneState]) -> Option<ZoneIndex> {
        let core = &self.core;
        if !core.membership.is_present(drive.index()) || !core.can_do_without(drive.index()) {
            return None;
        }
        let zones = (0..).map(ZoneIndex).zip(states).skip(SUPERBLOCK_ZONES as usize);
        let is_used = |zone: ZoneIndex| match core.segments.owner(drive, zone) {
            None => core.segments.is_free(drive, zone),
            Some(slot) => {
                let segment = core.segments.get(slot);
                let is_known = segment.is_retired(drive.index()) || segment.lacks_zone(drive.index());
                !is_known && !segment.gives_zones_up()
            }
        };
        zones.filter(|(_, state)| state.has_turned()).map(|(zone, _)| zone).find(|zone| is_used(*zone))
    }
}

impl Core {
    fn find_turned(&self, drive: usize, first: ZoneIndex, fx: &mut Effects) {
        assert!(
            first.0 < self.config.geometry.zones,
            "drive {drive} is asked from zone {} on, of {}",
            first.0,
            self.config.geometry.zones
        );
        let part = u32::try_from(drive).expect("at most 32 members");
        let count = self.config.geometry.zones - first.0;
        fx.command(drive, first, Waiter::Turned { slot: 0, part }, Op::FindTurned { count });
    }

    /// A zone of a member takes no more writes.
    fn zone_turned(&mut self, drive: usize, zone: ZoneIndex, state: ZoneState, fx: &mut Effects) {
        let status = match state {
            ZoneState::ReadOnly => Status::ZoneIsReadOnly,
            ZoneState::Offline => Status::ZoneIsOffline,
            _ => return,
        };
        let given_up = if zone.0 < SUPERBLOCK_ZONES {
            self.superblock_zone_turned(drive, zone, status)
        } else {
            match self.segments.owner(DriveIndex::at(drive), zone) {
                Some(slot) => self.zone_of_segment_turned(slot, drive, status),
                None => self.free_zone_turned(drive, zone),
            }
        };
        if let Err(blame) = given_up
            && self.can_do_without(drive)
        {
            self.fail_member(drive, blame, fx);
        }
    }

    /// The next record could not be written, just when another member fails.
    fn superblock_zone_turned(&self, drive: usize, zone: ZoneIndex, status: Status) -> Result<(), Blame> {
        match self.membership.newest_record_at(drive) {
            Some((newest, _)) if newest == zone => Err(Blame::Answer { what: LOOK, status }),
            _ => Ok(()),
        }
    }

    fn free_zone_turned(&mut self, drive: usize, zone: ZoneIndex) -> Result<(), Blame> {
        if !self.segments.is_free(DriveIndex::at(drive), zone) {
            return Ok(());
        }
        self.note_zone_given_up(drive)?;
        self.segments.take_out(drive, zone);
        Ok(())
    }

    fn zone_of_segment_turned(
        &mut self,
        slot: SegmentSlot,
        drive: usize,
        status: Status,
    ) -> Result<(), Blame> {
        let segment = self.segments.get(slot);
        if segment.is_retired(drive) || segment.lacks_zone(drive) || segment.gives_zones_up() {
            return Ok(());
        }
        match segment.state {
            SegmentState::Sealed => self.give_zone_up(slot, drive),
            _ => self.retire_zone(slot, drive, LOOK, status),
        }
    }

    /// True when the array can lose a member that is there.
    fn can_do_without(&self, drive: usize) -> bool {
        let others = active_members(self.membership.record()).without([drive].into_iter().collect());
        self.config.code().can_decode(others)
    }
}

impl Segment {
    /// True when its zones are to be reset, which those that turned refuse: then they are given up.
    fn gives_zones_up(&self) -> bool {
        matches!(self.state, SegmentState::Condemned | SegmentState::Resetting { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_come_every_minute_and_soon_after_trouble() {
        let mut watch = ZoneWatch::default();
        assert!(!watch.is_due(Instant(5)) && watch.wakes_at().is_none(), "nobody asked for looks");
        watch.is_on = true;
        assert!(!watch.is_due(Instant(5)));
        assert_eq!(watch.wakes_at(), Some(Instant(60_000_000_005)));
        watch.hasten();
        assert!(!watch.is_due(Instant(9)));
        assert_eq!(watch.wakes_at(), Some(Instant(1_000_000_005)));
        assert!(watch.is_due(Instant(1_000_000_005)));
        (watch.due, watch.is_hastened, watch.asked) = (None, false, 2);
        watch.hasten();
        assert!(!watch.is_due(Instant(u64::MAX)), "a look is under way");
        watch.asked = 0;
        assert!(!watch.is_due(Instant(2_000_000_000)), "the trouble came after it began");
        assert_eq!(watch.wakes_at(), Some(Instant(3_000_000_000)));
    }
}
