//! A line between two in a simulation: messages of one direction, in order, each with the time of its arrival.

use base::time::Instant;
use std::collections::VecDeque;

/// See the module.
pub(crate) struct Line<M>(VecDeque<(Instant, M)>);

impl<M> Default for Line<M> {
    fn default() -> Line<M> {
        Line(VecDeque::new())
    }
}

impl<M> Line<M> {
    /// A message leaves that would arrive then, but for those before it.
    pub(crate) fn send(&mut self, at: Instant, message: M) {
        let at = self.0.back().map_or(at, |(last, _)| at.max(*last));
        self.0.push_back((at, message));
    }

    /// What has arrived first.
    pub(crate) fn take(&mut self, now: Instant) -> Option<M> {
        self.next().filter(|at| *at <= now)?;
        self.0.pop_front().map(|(_, message)| message)
    }

    /// When the next message arrives.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.0.front().map(|(at, _)| *at)
    }

    /// What is on its way.
    pub(crate) fn messages(&self) -> impl Iterator<Item = &M> {
        self.0.iter().map(|(_, message)| message)
    }

    /// What is on its way is lost.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
