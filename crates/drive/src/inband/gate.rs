//! Gate of a zone: where commands that change it wait for their turn, for a place among the zones in use and for room in the journal.

use super::InbandDrive;
use crate::answer::{Asked, frames_of};
use crate::units::turn::is_alone;
use base::time::Instant;
use base::units::ZoneIndex;
use zone::device::{Command, Op, Status, ZoneState, ZonedDevice};

impl<D: ZonedDevice> InbandDrive<D> {
    /// Begins a command, or lets it wait.
    pub(super) fn pass_gate(&mut self, now: Instant, command: Command) {
        let zone = command.zone;
        self.gates.entry(zone).or_default().waiting.push_back(command);
        self.let_pass(now, zone);
    }

    /// Nothing passes until the gate is opened.
    pub(super) fn close_gate(&mut self, zone: ZoneIndex) {
        let gate = self.gates.entry(zone).or_default();
        assert!(!gate.is_closed, "the gate of zone {} is closed twice", zone.0);
        gate.is_closed = true;
    }

    /// What was at work is through.
    pub(super) fn open_gate(&mut self, now: Instant, zone: ZoneIndex) {
        let gate = self.gates.get_mut(&zone).expect("a gate that was closed");
        assert!(std::mem::take(&mut gate.is_closed), "the gate of zone {} is opened twice", zone.0);
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

    /// Zones that are in use on the device, or may be after a crash.
    fn used_zones(&self) -> usize {
        let is_frozen = |zone: ZoneIndex| {
            let state = self.rules.zone(zone).state;
            matches!(state, ZoneState::ReadOnly | ZoneState::Offline)
        };
        self.media.lives.values().filter(|life| life.has_failed || !is_frozen(life.zone)).count()
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
        while let Some(gate) = self.gates.get(&zone)
            && !gate.is_closed
        {
            let Some(next) = gate.waiting.front() else {
                self.gates.remove(&zone);
                return;
            };
            let is_write = matches!(next.op, Op::Write { .. } | Op::Append { .. });
            let writes_journal = is_write || matches!(next.op, Op::Reset);
            let has_place = self.used_zones() < self.geometry.active_zones_max as usize;
            let is_crowded = writes_journal && self.media.journal.is_crowded();
            if is_crowded || (is_write && !has_place && self.opens_life(zone)) {
                if self.media.has_failed() {
                    let Command { token, zone, op } = self.next_of(zone);
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
            if is_alone(&next.op) && is_written {
                return;
            }
            let command = self.next_of(zone);
            self.begin(now, command);
        }
    }

    fn next_of(&mut self, zone: ZoneIndex) -> Command {
        let gate = self.gates.get_mut(&zone).expect("a gate with somebody in front of it");
        gate.waiting.pop_front().expect("somebody in front of it")
    }
}
