//! Retired zones: a write that a drive refuses for what the zone is costs the zone, not the drive (ADR 7).
//!
//! ```text
//!   segment    zone 0   zone 1   zone 2   zone 3
//!               s s s    s s s    s ! .    s s s      !: zone 2 refused its chunk of stripe 1
//!
//!   no more stripes ─> those given out land in the other zones ─> all zones are finished ─> Condemned: collected before others,
//!     stripe 0: every piece has landed, it is durable              without footers          then all is free but zone 2
//!     stripes 1, 2: bound to another segment, for the slot still has their data
//! ```
//! So nothing is acknowledged that lacks a piece. After a crash the pieces that did land are decided as those of any stripe that a
//! power failure interrupted; should they count, they say what the stripe says elsewhere, with the same sequences.
//!
//! Zones that turn by themselves are looked for (`turned.rs`), and may belong to sealed segments, too.
//!
//! A drive of which zone after zone goes is failing: it is taken out when more are retired than [`zones_retired_max`] since
//! the mount, or when those left do not suffice for the reserve's proof. So is one whose superblocks or rebuilt zones cannot be
//! written. In segments of mapping blocks and in area mode any refused write takes the drive out. A zone of the write area holds no
//! stripes: its slots move to the log, and the area begins anew (`area/zones.rs`).

use crate::engine::Effects;
use crate::log::append::Appender;
use crate::log::blame::Blame;
use crate::log::core::{Core, Event};
use crate::log::segment::{SegmentSlot, SegmentState};
use crate::log::stripe::{Origin, Stripe, StripeSlot};
use base::erasure::PieceSet;
use zone::device::Status;
use zone::format::header::{Stream, WriteMode};

/// Most zones of a drive of so many that may be retired from a mount to the next: one in a hundred, and at least eight.
#[must_use]
pub fn zones_retired_max(zones: u32) -> u32 {
    (zones / 100).max(8)
}

impl Core {
    /// What was to be written to a segment's zone is not there: that costs the zone, or the drive.
    pub(super) fn write_failed(&mut self, slot: SegmentSlot, drive: usize, status: Status, fx: &mut Effects) {
        if let Err(blame) = self.retire_zone(slot, drive, "a write", status) {
            self.fail_member(drive, blame, fx);
        }
    }

    /// A zone refused a write or the like, and takes no more if the status says so.
    ///
    /// # Errors
    /// What the drive is to be blamed for, when that is a matter of the drive: the status says something else, or too many zones
    /// went.
    pub(super) fn retire_zone(
        &mut self,
        slot: SegmentSlot,
        drive: usize,
        what: &'static str,
        status: Status,
    ) -> Result<(), Blame> {
        let segment = self.segments.get(slot);
        let is_slots = segment.is_write_area && segment.state == SegmentState::Open;
        let may_retire = is_slots || segment.mode != WriteMode::Area && segment.stream != Stream::Mapping;
        debug_assert!(!segment.is_write_area || segment.mode == WriteMode::Area, "a write area has windows");
        if !status.ends_zone() || !may_retire || !self.membership.has_zone(segment, drive) {
            return Err(Blame::Answer { what, status });
        }
        if segment.is_retired(drive) {
            return Ok(());
        }
        self.give_zone_up(slot, drive)
    }

    /// A zone of a segment is given up: it takes no more writes, by whatever that was found.
    pub(super) fn give_zone_up(&mut self, slot: SegmentSlot, drive: usize) -> Result<(), Blame> {
        self.note_zone_given_up(drive)?;
        self.segments.retire_zone(slot, drive);
        self.events.push_back(Event::ZoneRetired(slot));
        Ok(())
    }

    /// One zone more of a drive is given up, if that many may be.
    pub(super) fn note_zone_given_up(&mut self, drive: usize) -> Result<(), Blame> {
        let zones = self.membership.zones_retired(drive) + 1;
        let zones_max = zones_retired_max(self.config.geometry.zones);
        let lost =
            self.segments.zones_lost(drive) + 1 + self.segments.mapping() + self.segments.kept_for_mapping();
        if zones > zones_max {
            return Err(Blame::ZonesRetired { zones, zones_max });
        }
        if !self.config.affords(lost, 0) {
            return Err(Blame::ReserveGone { zones });
        }
        self.membership.note_retired_zone(drive);
        self.counters.zones_retired += 1;
        Ok(())
    }

    /// True when a stripe is not where it must be: it lacks a piece of a member that is there, for its zone takes no more.
    pub(super) fn lacks_piece_of_member(&self, stripe: &Stripe) -> bool {
        let segment = self.segments.get(stripe.segment);
        if stripe.pieces_lost.is_empty() || !segment.has_retired_zone() {
            return false;
        }
        let drive_of = |piece| segment.layout.drive_of(stripe.stripe, piece);
        stripe.pieces_lost.iter().any(|piece| self.membership.has_zone(segment, drive_of(piece)))
    }
}

impl Appender<'_> {
    /// A zone of a segment takes no more writes: the segment gets no more stripes, and nothing waits for that zone. One
    /// that is being opened is closed when all its headers are there; one that is being sealed is closed already.
    pub(super) fn close_retired(&mut self, slot: SegmentSlot, fx: &mut Effects) {
        let segment = self.core.segments.get(slot);
        if !segment.has_retired_zone() || segment.writer.is_none() || segment.is_opening() {
            return;
        }
        // Slots are moved, and their zones given up.
        if segment.is_write_area {
            return;
        }
        for drive in segment.retired_drives() {
            self.stripes.drop_chunks_of_zone(self.core, slot, drive);
        }
        self.close_segment(slot, fx);
    }

    /// A stripe goes to another segment, with all of its pieces.
    pub(super) fn bind_elsewhere(&mut self, slot: StripeSlot, fx: &mut Effects) {
        let stripe = self.stripes.slots.get_mut(slot);
        let (segment_slot, number, stream) = (stripe.segment, stripe.stripe, stripe.stream);
        assert!(stripe.pieces_pending == 0, "nothing of a stripe that goes elsewhere is with a drive");
        if stripe.is_spoilt {
            return self.go_on_without(slot, fx);
        }
        let segment = self.core.segments.get_mut(segment_slot);
        let (layout, mode) = (segment.layout, segment.mode);
        segment.give_stripe_up(number);
        stripe.pieces_lost = PieceSet::EMPTY;
        let is_whole = |piece: &Vec<_>| piece.len() == layout.chunk_blocks as usize;
        assert!(stripe.pieces.iter().all(is_whole), "stripe {number} has all of its frames");
        self.core.segments.writer_mut(segment_slot).finish_stripe(&layout, number, mode);
        // A summary is of use where it is, or nowhere.
        if self.stripes.slots.get(slot).blocks.iter().any(|block| block.origin == Origin::Summary) {
            self.core.events.push_back(Event::StripeFailed(slot));
        } else {
            self.stripes.stream(stream).sealed.push_back(slot);
            self.pump_stream(stream, fx);
        }
        self.seal_segment_if_done(segment_slot, fx);
    }

    /// A drive that is gone had frames of a stripe that is to go elsewhere. What is left of it is where it is, and counts without
    /// those whose zone took no more: they are taken out.
    fn go_on_without(&mut self, slot: StripeSlot, fx: &mut Effects) {
        let segment = self.core.segments.get(self.stripes.slots.get(slot).segment);
        for drive in segment.retired_drives() {
            self.core.fail_member(drive, Blame::DataGone, fx);
        }
        self.stripes.slots.get_mut(slot).pieces_pending = 1;
        self.stripes.piece_done(self.core, slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_zone_in_a_hundred_may_go_and_at_least_eight() {
        assert_eq!((zones_retired_max(904), zones_retired_max(100), zones_retired_max(3_688)), (9, 8, 36));
    }
}
