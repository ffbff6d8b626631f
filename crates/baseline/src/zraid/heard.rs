//! What drives have done, and what follows from it.
//!
//! ```text
//!   opened, committed ───────> the zone goes on
//!   a part, a record of one ─> stripes advance: writes end ─> the zone goes on
//!   a record of a reset ─────> zones are emptied ───────────> the zone goes on
//!   a record of members ─────> write pointers go on
//! ```

use super::Zraid;
use super::config::logical_zones;
use super::log::Purpose;
use super::logical_zone::{Kind, LogicalZone, Part, Partial, State};
use super::send::Sent;
use crate::config::count;
use crate::logical_zone::ResetStage;
use array::engine::Effects;
use zone::device::Op;

impl Zraid {
    /// A command that changes something is over.
    pub(super) fn on_sent(&mut self, sent: Sent, drive: usize, fx: &mut Effects) {
        match sent {
            Sent::Open { zone } => {
                let state = &mut self.zones[zone as usize].state;
                *state = match *state {
                    State::Opening(1) => State::Open,
                    State::Opening(left) => State::Opening(left - 1),
                    other => panic!("zone {zone} is {other:?}"),
                };
                self.advance_zone(zone, fx);
            }
            Sent::Write { zone, part } => {
                self.zones[zone as usize].writers[drive].in_flight -= 1;
                self.on_part(zone, part, fx);
            }
            Sent::Commit { zone, end } => {
                let writer = &mut self.zones[zone as usize].writers[drive];
                (writer.committed, writer.is_committing) = (end, false);
                self.advance_zone(zone, fx);
            }
            Sent::Log { purpose, place } => self.on_logged(drive, purpose, place, fx),
            Sent::LogReset => self.on_log_reset(drive, fx),
            Sent::ZoneReset { zone } => self.on_zone_reset(zone, fx),
            Sent::Read { .. } | Sent::Source { .. } => unreachable!("reads change nothing"),
        }
    }

    /// Blocks of a part are durable.
    pub(super) fn on_part(&mut self, number: u32, part: Part, fx: &mut Effects) {
        let map = self.map;
        let Some(stripe) = self.zones[number as usize].stripe_of(part.stripe) else {
            // Partial parity of a stripe that was reset, or is whole.
            return;
        };
        for row in part.row..part.row + part.rows {
            match part.kind {
                Kind::Piece(piece) if piece < map.data_count() => {
                    stripe.done[map.within(piece, row) as usize] = true;
                }
                Kind::Piece(_) => stripe.parity_done += 1,
                Kind::Partial(piece) => stripe.partial[map.within(piece, row) as usize] = Partial::Done,
            }
        }
        self.advance_stripes(number, fx);
        self.advance_zone(number, fx);
    }

    /// A record is durable.
    pub(super) fn on_logged(&mut self, drive: usize, purpose: Purpose, place: usize, fx: &mut Effects) {
        self.logs[drive].in_flight[place] -= 1;
        match purpose {
            Purpose::Partial(zone, part) => self.on_part(zone, part, fx),
            Purpose::Mark(zone) => {
                self.zones[zone as usize].is_marked = true;
                self.advance_stripes(zone, fx);
                self.advance_zone(zone, fx);
            }
            Purpose::WritePointers => {
                // An array that is broken has answered it.
                if let Some(logs) = self.order.flushes.front_mut().and_then(|flush| flush.logs.as_mut()) {
                    *logs = logs.saturating_sub(1);
                }
            }
            Purpose::Reset(zone) => self.on_reset_recorded(zone, fx),
            Purpose::Members => self.on_recorded(fx),
            Purpose::Superblock | Purpose::Copy => self.logs[drive].debts -= 1,
            Purpose::Mounted | Purpose::PartialAgain(..) => {}
        }
        self.settle_log(drive, fx);
    }

    /// Notes that one more log says that the zone is reset.
    pub(super) fn on_reset_recorded(&mut self, number: u32, fx: &mut Effects) {
        let reset = self.zones[number as usize].reset.as_mut().expect("its record was appended");
        let ResetStage::Recording(left) = &mut reset.stage else { panic!("a record of a reset came late") };
        *left -= 1;
        if *left > 0 {
            return;
        }
        let members = self.config.members;
        reset.stage = ResetStage::Erasing(count(members));
        for drive in 0..members {
            self.command(drive, number, Sent::ZoneReset { zone: number }, Op::Reset, fx);
        }
    }

    /// Notes that one of the drives' zones is empty.
    pub(super) fn on_zone_reset(&mut self, number: u32, fx: &mut Effects) {
        let zone = &mut self.zones[number as usize];
        let reset = zone.reset.as_mut().expect("its zones are being reset");
        let ResetStage::Erasing(left) = &mut reset.stage else { panic!("a zone was reset too early") };
        *left -= 1;
        if *left > 0 {
            return;
        }
        let (id, arrival) = (reset.id, reset.arrival);
        let empty = LogicalZone::new(self.config.members);
        let waiting = std::mem::take(&mut zone.waiting);
        *zone = LogicalZone { write_pointer: zone.write_pointer, waiting, ..empty };
        self.end_reset(id, arrival, fx);
        self.advance_zone(number, fx);
    }

    /// Notes that one of the members has recorded a failure. With the last one write pointers go on.
    pub(super) fn on_recorded(&mut self, fx: &mut Effects) {
        self.members.on_recorded();
        if self.members.fence == 0 {
            for zone in 0..logical_zones(&self.config) {
                self.advance_zone(zone, fx);
            }
        }
    }
}
