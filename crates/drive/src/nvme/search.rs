//! Search for a zone that turned read-only or offline by itself. A report is filtered by one state, so the drive is asked twice.
//!
//! ```text
//!   zones from the command's on ── read-only? ──> the first ──┐
//!                               ── offline? ────> the first ──┴──> the one that comes before the other
//! ```

use super::passthrough::Queue;
use super::wire::{Action, Turn};
use super::{NvmeDrive, report};
use zone::device::{Status, ZoneDescriptor, ZoneState};

/// See the module.
#[derive(Debug)]
pub(super) struct Search {
    zones: u32,
    turn: Turn,
    /// The first zone that was found, and how many lie before it.
    first: Option<(u32, ZoneDescriptor)>,
}

impl Search {
    /// A search among so many zones.
    pub(super) fn among(zones: u32) -> Search {
        Search { zones, turn: Turn::ReadOnly, first: None }
    }

    /// What the drive is asked now, when the zones begin there.
    pub(super) fn action(&self, zone_start: u64) -> Action {
        Action::ReportTurned { zone_start, turn: self.turn }
    }

    pub(super) fn found(self) -> Option<(u32, ZoneDescriptor)> {
        self.first
    }

    /// A zone of the state that was asked for; true when the drive is to be asked for the other state.
    fn take(&mut self, found: Option<(u32, ZoneDescriptor)>) -> bool {
        let found = found.filter(|(before, _)| *before < self.zones);
        self.first = [self.first, found].into_iter().flatten().min_by_key(|(before, _)| *before);
        std::mem::replace(&mut self.turn, Turn::Offline) == Turn::ReadOnly
    }

    fn is_of_turn(&self, zone: &ZoneDescriptor) -> bool {
        match self.turn {
            Turn::ReadOnly => zone.state == ZoneState::ReadOnly,
            Turn::Offline => zone.state == ZoneState::Offline,
        }
    }
}

impl<Q: Queue> NvmeDrive<Q> {
    /// The drive has answered a part of a search.
    pub(super) fn advance_search(&mut self, slot: u32, bytes: &[u8]) {
        let task = self.tasks.get_mut(slot);
        let first = task.asked.zone.0;
        let super::Kind::Search(search) = &mut task.kind else { unreachable!("a search was answered") };
        let found = match report::parse_first(bytes, first, self.geometry.zone_size_blocks) {
            Ok(found) => found.map(|(zone, descriptor)| (zone - first, descriptor)),
            Err(problem) => {
                log::error!("a filtered report of a drive makes no sense: {problem:?}");
                return self.end(slot, Status::InternalError);
            }
        };
        if let Some((before, zone)) = found.filter(|(_, zone)| !search.is_of_turn(zone)) {
            log::error!(
                "a drive that was asked for zones that are {:?} reports zone {}, which is {:?}: it does not filter",
                search.turn,
                first + before,
                zone.state
            );
            return self.end(slot, Status::InternalError);
        }
        if search.take(found) { self.begin(slot) } else { self.end(slot, Status::Success) }
    }
}
