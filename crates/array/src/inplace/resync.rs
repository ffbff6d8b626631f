//! Resync after an unclean stop: strip by strip, beside what clients do.

use super::InPlace;
use super::table::{Job, Kind, Work};

/// Strips that are resynced at once while clients are quiet.
const STRIPS_MAX: u32 = 8;

/// Resync under way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Resync {
    /// Row from which on the next strip is looked for.
    cursor: u64,
    /// Strips under way.
    pub(super) in_flight: u32,
}

impl InPlace {
    /// True when a resync goes on: not without a member, for what could be made right with fewer is decoded from what may be
    /// wrong.
    #[must_use]
    pub fn is_resyncing(&self) -> bool {
        self.sync.has_work() && !self.members.is_degraded() && !self.is_stopping
    }

    /// Begins with more strips; true when there were some.
    pub(super) fn begin_resync(&mut self) -> bool {
        if !self.is_resyncing() || !self.table.backlog.is_empty() {
            return false;
        }
        let is_client = |kind: Kind| kind != Kind::Resync;
        let has_clients =
            self.table.iter().filter_map(|slot| slot.round.as_ref()).any(|round| is_client(round.kind));
        let clients_are_busy = !self.direct.is_empty() || has_clients;
        let limit = if clients_are_busy { 1 } else { STRIPS_MAX };
        let mut has_begun = false;
        while self.resync.in_flight < limit && self.table.has_room() {
            let Some(row) = self.sync.next(self.resync.cursor) else { break };
            let strip = self.map.strip_of(row);
            self.resync.cursor = self.map.rows_of(strip).end;
            self.resync.in_flight += 1;
            self.offer(strip, Job { request: None, work: Work::Resync });
            has_begun = true;
        }
        has_begun
    }
}
