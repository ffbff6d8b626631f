//! Gate of a zone: commands that change the zone wait here while a reset or a finish, or the discard of what was
//! reset, is at work, and those wait for the writes before them.

use super::ConventionalDrive;
use crate::answer::{Asked, frames_of};
use crate::units::turn::is_alone;
use base::time::Instant;
use base::units::ZoneIndex;
use block::device::BlockDevice;
use zone::device::{Command, Op, Status, ZoneState};

impl<D: BlockDevice> ConventionalDrive<D> {
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

    /// The life of a zone is over: another may begin.
    pub(super) fn end_life(&mut self, now: Instant, zone: ZoneIndex) {
        self.media.lives.remove(&zone);
        self.let_waiting_pass(now);
    }

    /// Writes that wait for zones to be full, and durable, or for the journal, are looked at again.
    pub(super) fn let_waiting_pass(&mut self, now: Instant) {
        for zone in std::mem::take(&mut self.waiting_for_place) {
            self.let_pass(now, zone);
        }
    }

    /// Begins what may begin.
    pub(super) fn let_pass(&mut self, now: Instant, zone: ZoneIndex) {
        while let Some(next) = self.gates.front(zone) {
            let is_write = matches!(next, Op::Write { .. } | Op::Append { .. });
            let is_alone = is_alone(next);
            let has_place = self.media.lives.len() < self.geometry.active_zones_max as usize;
            let is_crowded = self.media.journal.is_crowded(self.media.oldest_record());
            if is_write && (is_crowded || (!has_place && self.opens_life(zone))) {
                if self.media.has_failed() {
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
