//! Gate of a zone: where commands that change it wait for their turn, for a place among the zones in use and for room in the journal.

use super::InbandDrive;
use crate::answer::{Asked, frames_of};
use crate::units::life::Life;
use crate::units::turn::is_alone;
use base::time::Instant;
use base::units::ZoneIndex;
use zone::device::{Command, Op, Status, ZoneState, ZonedDevice};

impl<D: ZonedDevice> InbandDrive<D> {
    /// Begins a command, or lets it wait.
    pub(super) fn pass_gate(&mut self, now: Instant, command: Command) {
        let zone = command.zone;
        self.gates.push(command);
        self.let_pass(now, zone);
    }

    /// What was at work in a zone is through.
    pub(super) fn open_gate(&mut self, now: Instant, zone: ZoneIndex) {
        self.gates.open(zone);
        self.let_pass(now, zone);
    }

    /// True when a write begins the zone's life, and the rules admit it.
    fn opens_life(&self, zone: ZoneIndex) -> bool {
        zone.0 < self.geometry.zones
            && !self.media.lives.contains_key(&zone)
            && match self.rules.zone(zone).state {
                ZoneState::Empty => self.rules.active_count() < self.geometry.active_zones_max,
                state => state.is_active(),
            }
    }

    fn is_frozen(&self, zone: ZoneIndex) -> bool {
        matches!(self.rules.zone(zone).state, ZoneState::ReadOnly | ZoneState::Offline)
    }

    /// Zones that are in use on the device, or may be after a crash.
    fn used_zones(&self) -> usize {
        let is_used = |life: &&Life| {
            !self.media.health.is_dead(life.zone) && (life.has_failed || !self.is_frozen(life.zone))
        };
        self.media.lives.values().filter(is_used).count()
    }

    /// True when there will be no place for another zone: none of those that take one is about to be full, or empty, or turns out to be dead.
    fn is_without_place(&self) -> bool {
        let is_over = |life: &Life| {
            !life.has_failed && !self.is_frozen(life.zone) && !self.rules.zone(life.zone).state.is_active()
        };
        !self.media.health.is_asked() && !self.media.lives.values().any(is_over)
    }

    /// The life of a zone is over: another may begin.
    pub(super) fn end_life(&mut self, now: Instant, zone: ZoneIndex) {
        self.media.lives.remove(&zone);
        self.let_waiting_pass(now);
    }

    /// Commands that wait for zones to be full, and durable, or for the journal, are looked at again.
    pub(super) fn let_waiting_pass(&mut self, now: Instant) {
        for zone in std::mem::take(&mut self.waiting_for_place) {
            self.let_pass(now, zone);
        }
    }

    /// Begins what may begin.
    pub(super) fn let_pass(&mut self, now: Instant, zone: ZoneIndex) {
        while let Some(next) = self.gates.front(zone) {
            let is_write = matches!(next, Op::Write { .. } | Op::Append { .. });
            let writes_journal = is_write || matches!(next, Op::Reset);
            let is_alone = is_alone(next);
            let has_place = self.used_zones() < self.geometry.active_zones_max as usize;
            let is_crowded = writes_journal && self.media.journal.is_crowded();
            if is_crowded || (is_write && !has_place && self.opens_life(zone)) {
                if self.media.has_failed() || (!is_crowded && self.is_without_place()) {
                    let Command { token, zone, op } = self.gates.take(zone);
                    let asked = Asked::of(token, zone, &op);
                    self.done.push(asked.done(Err(Status::WriteFault), frames_of(op)));
                    continue;
                }
                // After a crash all of the zones may be in use; and old records have to be carried forward.
                self.waiting_for_place.insert(zone);
                self.flush_when_needed(now);
                return;
            }
            let is_written = self.media.lives.get(&zone).is_some_and(|life| !life.writes.is_empty());
            if is_alone && is_written {
                return;
            }
            let command = self.gates.take(zone);
            self.begin(now, command);
        }
    }
}
