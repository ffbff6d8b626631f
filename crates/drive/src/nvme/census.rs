//! Census: zones are counted when a drive says that too many are open or active. Somebody else uses its zones, or we miscount.
//!
//! ```text
//!   too many ──> Counting: reports ──> the log ──> Closing: open zones that no command of ours is for ──> Resting
//! ```
//! The command that was refused is tried again after growing pauses, as one that the drive does not take now: what was closed is
//! open no longer, and zones get full. When patience is over it is answered as the drive said.

use super::passthrough::{Answer, Job, Queue};
use super::wire::{Action, Payload, Transition};
use super::{NvmeDrive, report};
use std::collections::BTreeSet;
use zone::device::{Status, ZoneDescriptor, ZoneState};

/// Waiter of the commands of a census; tasks have lower slots.
pub(super) const WAITER: u32 = u32::MAX;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Census {
    stage: Stage,
    /// Zones that were open and active at the last count that the log has.
    said: Option<(usize, usize)>,
}

#[derive(Debug, Default)]
enum Stage {
    #[default]
    Resting,
    /// Zones that were reported.
    Counting(Vec<ZoneDescriptor>),
    /// Commands that are not answered.
    Closing(usize),
}

/// True of what a drive says when it opens no more zones.
pub(super) fn is_crowded(status: Status) -> bool {
    matches!(status, Status::TooManyActiveZones | Status::TooManyOpenZones)
}

impl<Q: Queue> NvmeDrive<Q> {
    /// Begins a census, unless one is under way.
    pub(super) fn begin_census(&mut self) {
        if matches!(self.census.stage, Stage::Resting) {
            self.count_on(Vec::new());
        }
    }

    /// Asks for the next zones, or goes on when all were reported.
    fn count_on(&mut self, found: Vec<ZoneDescriptor>) {
        let counted = u32::try_from(found.len()).expect("a u32 of zones");
        let left = self.geometry.zones - counted;
        if left == 0 {
            return self.take_count(&found);
        }
        let payload = Payload::of_bytes(report::bytes_of(left.min(report::zones_max(&self.geometry))));
        let action = Action::Report { zone_start: self.start_of(found.len()) };
        self.census.stage = Stage::Counting(found);
        self.queue.begin(Job { waiter: WAITER, action, payload });
    }

    /// A command of the census was answered.
    pub(super) fn on_census(&mut self, Answer { job, result, .. }: &Answer) {
        match std::mem::take(&mut self.census.stage) {
            Stage::Resting => unreachable!("a census that nobody began"),
            Stage::Counting(mut found) => {
                let first = u32::try_from(found.len()).expect("a u32 of zones");
                let count = (self.geometry.zones - first).min(report::zones_max(&self.geometry));
                let zones = report::parse(&job.payload.bytes, (first, count), self.geometry.zone_size_blocks);
                // Without a report there is another census when the command is refused again.
                if *result == 0
                    && let Ok(zones) = zones
                {
                    found.extend(zones);
                    self.count_on(found);
                }
            }
            // One that is full by now, or that a command has opened again, is as good.
            Stage::Closing(left) if left > 1 => self.census.stage = Stage::Closing(left - 1),
            Stage::Closing(_) => {}
        }
    }

    fn take_count(&mut self, found: &[ZoneDescriptor]) {
        let is_open =
            |zone: &ZoneDescriptor| matches!(zone.state, ZoneState::ImplicitOpen | ZoneState::ExplicitOpen);
        let in_use: BTreeSet<usize> = self.tasks.iter().map(|task| task.asked.zone.index()).collect();
        let open: Vec<usize> = (0..).zip(found).filter(|(_, zone)| is_open(zone)).map(|(at, _)| at).collect();
        let active = found.iter().filter(|zone| zone.state.is_active()).count();
        let idle: Vec<usize> = open.iter().copied().filter(|zone| !in_use.contains(zone)).collect();
        if self.census.said.replace((open.len(), active)) != Some((open.len(), active)) {
            let (open_max, active_max) = (self.geometry.open_zones_max, self.geometry.active_zones_max);
            log::warn!(
                "a drive opens no more zones: {} of them are open, of {open_max} that may be, and {active} active, \
                 of {active_max}; {} open ones without a command are closed, and the command is tried again",
                open.len(),
                idle.len()
            );
        }
        self.census.stage = if idle.is_empty() { Stage::Resting } else { Stage::Closing(idle.len()) };
        for zone in idle {
            let action = Action::Manage { zone_start: self.start_of(zone), transition: Transition::Close };
            self.queue.begin(Job { waiter: WAITER, action, payload: Payload::default() });
        }
    }
}
