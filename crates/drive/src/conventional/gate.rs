//! Gate of a zone: commands that change the zone wait here while a reset or a finish, or the discard of what was
//! reset, is at work, and those wait for the writes before them.

use super::ConventionalDrive;
use super::core::ConventionalCore;
use crate::answer::{Asked, frames_of};
use crate::units::turn::is_alone;
use base::time::Instant;
use base::units::ZoneIndex;
use block::device::BlockDevice;
use zone::device::{Command, Op, Status, ZoneState};

impl<D: BlockDevice> ConventionalCore<D> {
    /// True when a write begins the zone's life, and the rules admit it.
    fn opens_life(&self, zone: ZoneIndex) -> bool {
        zone.0 < self.geometry.zones
            && !self.media.lives.contains_key(&zone)
            && match self.rules.zone(zone).state {
                ZoneState::Empty => self.rules.active_count() < self.geometry.active_zones_max,
                state => state.is_active(),
            }
    }
}

impl<D: BlockDevice> ConventionalDrive<D> {
    /// Begins a command, in its zone's turn.
    pub(super) fn begin(&mut self, now: Instant, command: Command) {
        let asked = Asked::of(command.token, command.zone, &command.op);
        match command.op {
            Op::Read { offset, frames } => self.core.begin_read(now, asked, offset, frames),
            Op::Write { offset, frames } => self.core.begin_write(now, asked, Some(offset), frames),
            Op::Append { frames } => self.core.begin_write(now, asked, None, frames),
            Op::Reset => self.core.begin_reset(now, asked),
            Op::Finish => self.core.begin_finish(now, asked),
            Op::Flush => self.core.begin_flush(now, asked),
            Op::SelfTest { repair } => self.core.begin_self_test(now, asked, repair),
            Op::Report { count } => {
                let report = self.core.rules.report(asked.zone, count);
                self.core.done.push(asked.report(report));
            }
            Op::FindTurned { count } => {
                let found = self.core.rules.find_turned(asked.zone, count);
                self.core.done.push(asked.found(found));
            }
            Op::Open => self.core.obey(asked, |rules| rules.open(asked.zone)),
            Op::Close => self.core.obey(asked, |rules| rules.close(asked.zone)),
            Op::OpenWithArea => self.core.obey(asked, |rules| rules.open_with_area(asked.zone)),
            Op::Commit { end } => self.core.obey(asked, |rules| rules.commit(asked.zone, end)),
        }
    }

    /// Begins a command, or lets it wait.
    pub(super) fn pass_gate(&mut self, now: Instant, command: Command) {
        let zone = command.zone;
        self.core.gates.push(command);
        self.let_pass(now, zone);
    }

    /// What was at work in a zone is through.
    pub(super) fn open_gate(&mut self, now: Instant, zone: ZoneIndex) {
        self.core.gates.open(zone);
        self.let_pass(now, zone);
    }

    /// The life of a zone is over: another may begin.
    pub(super) fn end_life(&mut self, now: Instant, zone: ZoneIndex) {
        self.core.media.lives.remove(&zone);
        self.let_waiting_pass(now);
    }

    /// Writes that wait for zones to be full, and durable, or for the journal, are looked at again.
    pub(super) fn let_waiting_pass(&mut self, now: Instant) {
        for zone in std::mem::take(&mut self.core.waiting_for_place) {
            self.let_pass(now, zone);
        }
    }

    /// Begins what may begin.
    pub(super) fn let_pass(&mut self, now: Instant, zone: ZoneIndex) {
        while let Some(next) = self.core.gates.front(zone) {
            let is_write = matches!(next, Op::Write { .. } | Op::Append { .. });
            let is_alone = is_alone(next);
            let has_place = self.core.media.lives.len() < self.core.geometry.active_zones_max as usize;
            let is_crowded = self.core.media.journal.is_crowded(self.core.media.oldest_record());
            if is_write && (is_crowded || (!has_place && self.core.opens_life(zone))) {
                if self.core.media.has_failed() {
                    let Command { token, zone, op } = self.core.gates.take(zone);
                    let asked = Asked::of(token, zone, &op);
                    self.core.done.push(asked.done(Err(Status::WriteFault), frames_of(op)));
                    continue;
                }
                // After a crash all of the zones may be in use; and old records have to be carried forward.
                self.core.waiting_for_place.insert(zone);
                self.core.flush_when_needed(now);
                return;
            }
            let is_written = self.core.media.lives.get(&zone).is_some_and(|life| !life.writes.is_empty());
            if is_alone && is_written {
                return;
            }
            let command = self.core.gates.take(zone);
            self.begin(now, command);
        }
    }
}
