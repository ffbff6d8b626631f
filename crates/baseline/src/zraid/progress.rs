//! Progress of a logical zone: what waits first is started, what it has leaves, and write pointers follow.

use super::Zraid;
use super::logical_zone::State;
use crate::logical_zone::Pending;
use array::engine::Effects;

impl Zraid {
    /// Goes on with a logical zone.
    pub(super) fn advance_zone(&mut self, number: u32, fx: &mut Effects) {
        while self.start_waiting(number, fx) {}
        self.pump(number, fx);
        self.move_write_pointers(number, fx);
    }

    /// Starts what waits first in a logical zone; true when more may follow.
    pub(super) fn start_waiting(&mut self, number: u32, fx: &mut Effects) -> bool {
        let zone = &self.zones[number as usize];
        match zone.waiting.front() {
            Some(Pending::Write { .. }) if zone.state == State::Empty => {
                self.open_zone(number, fx);
                false
            }
            Some(Pending::Write { .. }) => self.place(number),
            Some(Pending::Reset { .. }) => self.start_reset(number, fx),
            None => false,
        }
    }
}
