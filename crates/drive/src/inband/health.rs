//! Zones of the device that turned read-only or offline by themselves: what the drive learns when a command of theirs fails.
//!
//! ```text
//!   command fails ──> report of the zone ──> dead: its place among the zones in use is free, a reset says what it is
//!                                       └──> alive: its place stays taken until the drive is opened again
//! ```

use super::{InbandDrive, Waiter};
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

    /// True while the device is asked about a zone.
    pub(super) fn is_asked(&self) -> bool {
        self.asked > 0
    }
}

impl<D: ZonedDevice> InbandDrive<D> {
    /// Asks the device what a zone is of which a command failed; the reset or finish that failed is answered then.
    pub(super) fn ask_state(&mut self, now: Instant, zone: ZoneIndex, change: Option<(u32, Status)>) {
        if let Some((slot, Status::DeviceGone)) = change {
            self.media.has_failed = true;
            return self.answer_change(now, zone, slot, Err(Status::DeviceGone));
        }
        self.media.health.asked += 1;
        let own = self.label.layout.device_zone(zone);
        self.ask(now, Waiter::State { zone, change }, own, Op::Report { count: 1 });
    }

    /// A zone is read-only or offline: nothing more is written there.
    pub(super) fn note_dead(&mut self, zone: ZoneIndex, state: ZoneState) {
        self.media.health.dead.insert(zone);
        self.rules.degrade(zone, state);
    }

    /// The device says what a zone is, or does not answer.
    pub(super) fn take_state(
        &mut self,
        now: Instant,
        zone: ZoneIndex,
        change: Option<(u32, Status)>,
        report: &[ZoneDescriptor],
    ) {
        self.media.health.asked -= 1;
        let state = report.first().map(|descriptor| descriptor.state);
        let dead = state.filter(|state| matches!(state, ZoneState::ReadOnly | ZoneState::Offline));
        if let Some(state) = dead {
            self.note_dead(zone, state);
        }
        if let Some((slot, status)) = change {
            // Hosts retire a zone that does not change, and the drive for other errors.
            let status = if dead.is_some() { Status::InvalidZoneStateTransition } else { status };
            self.answer_change(now, zone, slot, Err(status));
        }
        self.let_waiting_pass(now);
    }
}
