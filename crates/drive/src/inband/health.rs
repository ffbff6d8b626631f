//! Zones of the device that turned read-only or offline by themselves: what the drive learns when a command of theirs fails, or
//! when its host searches for them.
//!
//! ```text
//!   command fails ──> report of the zone ──> dead: its place among the zones in use is free, a reset says what it is
//!   search ──> the device is asked ─────┘└──> alive: its place stays taken until the drive is opened again
//! ```

use super::InbandDrive;
use super::core::{InbandCore, Task, Waiter, Work};
use crate::answer::Asked;
use base::time::Instant;
use base::units::ZoneIndex;
use std::collections::BTreeSet;
use zone::device::{Op, Status, ZoneDescriptor, ZoneState, ZonedDevice};

/// What is known of zones that failed.
#[derive(Debug, Default)]
pub(super) struct Health {
    /// Zones that the device called read-only or offline.
    dead: BTreeSet<ZoneIndex>,
    /// Reports that are not answered.
    asked: u32,
}

impl Health {
    /// True when the device does not count a zone among its active ones any more.
    pub(super) fn is_dead(&self, zone: ZoneIndex) -> bool {
        self.dead.contains(&zone)
    }

    /// The device is asked about a zone.
    pub(super) fn begin_asking(&mut self) {
        self.asked += 1;
    }

    /// True while the device is asked about a zone.
    pub(super) fn is_asked(&self) -> bool {
        self.asked > 0
    }
}

impl<D: ZonedDevice> InbandCore<D> {
    /// A zone is read-only or offline: nothing more is written there.
    pub(super) fn note_dead(&mut self, zone: ZoneIndex, state: ZoneState) {
        self.media.health.dead.insert(zone);
        self.rules.degrade(zone, state);
    }

    /// Searches for zones that turned: the device is asked for its own.
    pub(super) fn begin_search(&mut self, now: Instant, asked: Asked, count: u32) {
        let count = count.min(self.geometry.zones.saturating_sub(asked.zone.0));
        if count == 0 {
            return self.done.push(asked.found(self.rules.find_turned(asked.zone, 0)));
        }
        let slot = self.begin_task(asked, Work::Search(count));
        let own = self.label.layout.device_zone(asked.zone);
        self.ask(now, Waiter::Search { slot }, own, Op::FindTurned { count });
    }
}

impl<D: ZonedDevice> InbandDrive<D> {
    /// The device says what a zone is, or does not answer.
    pub(super) fn take_state(
        &mut self,
        now: Instant,
        zone: ZoneIndex,
        change: Option<(u32, Status)>,
        report: &[ZoneDescriptor],
    ) {
        self.core.media.health.asked -= 1;
        let state = report.first().map(|descriptor| descriptor.state);
        let dead = state.filter(|state| matches!(state, ZoneState::ReadOnly | ZoneState::Offline));
        if let Some(state) = dead {
            self.core.note_dead(zone, state);
        }
        if let Some((slot, status)) = change {
            // Hosts retire a zone that does not change, and the drive for other errors.
            let status = if dead.is_some() { Status::InvalidZoneStateTransition } else { status };
            self.answer_change(now, zone, slot, Err(status));
        }
        self.let_waiting_pass(now);
    }

    /// The device says which zone turned, so many behind the first that it was asked for.
    pub(super) fn take_search(
        &mut self,
        now: Instant,
        slot: u32,
        status: Status,
        before: u32,
        report: &[ZoneDescriptor],
    ) {
        let Task { asked, work: Work::Search(count) } = self.core.tasks.remove(slot) else {
            unreachable!("a search was answered")
        };
        if status != Status::Success {
            return self.core.done.push(asked.plain(Err(status)));
        }
        if let Some(state) = report.first().map(|zone| zone.state).filter(|state| state.has_turned())
            && before < count
        {
            let zone = ZoneIndex(asked.zone.0 + before);
            if self.core.rules.zone(zone).state != state {
                self.core.note_dead(zone, state);
                self.let_waiting_pass(now);
            }
        }
        self.core.done.push(asked.found(self.core.rules.find_turned(asked.zone, count)));
    }
}
