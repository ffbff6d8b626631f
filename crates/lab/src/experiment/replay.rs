//! Replaying a trace: so many requests in flight, or each at its time.

use super::rig::{Answer, Array, Ask, bytes_of};
use crate::precise::precise_u64;
use crate::trace::Event;
use crate::workload::Measured;
use anyhow::Result;
use base::time::Instant;
use std::collections::BTreeMap;

/// Requests that the host has at the array at most; more wait at the host, and their latency counts from their time.
const IN_FLIGHT_MAX: usize = 1024;

/// A replay under way.
struct Replay<'a, A> {
    rig: &'a mut A,
    /// Time at which each request in flight was asked for, and its bytes.
    asked: BTreeMap<u64, (Instant, u64)>,
    answers: Vec<Answer>,
    measured: Measured,
    begin: Instant,
}

/// Replays in order with `depth` requests in flight, whatever their times.
///
/// # Errors
/// When a request fails.
pub fn closed_loop(rig: &mut impl Array, events: &[Event], depth: u32) -> Result<Measured> {
    let depth = usize::try_from(depth)?;
    let mut replay = Replay::new(rig);
    for event in events {
        while replay.asked.len() >= depth {
            replay.wait(None)?;
        }
        replay.submit(event, replay.rig.now());
    }
    replay.finish()
}

/// Replays each request at its time.
///
/// # Errors
/// When a request fails.
pub fn open_loop(rig: &mut impl Array, events: &[Event]) -> Result<Measured> {
    let mut replay = Replay::new(rig);
    for event in events {
        let at = replay.begin + event.at;
        while replay.rig.now() < at || replay.asked.len() >= IN_FLIGHT_MAX {
            let is_full = replay.asked.len() >= IN_FLIGHT_MAX;
            replay.wait((!is_full).then_some(at))?;
        }
        replay.submit(event, at);
    }
    replay.finish()
}

impl<'a, A: Array> Replay<'a, A> {
    fn new(rig: &'a mut A) -> Replay<'a, A> {
        let begin = rig.now();
        let measured = Measured::default();
        Replay { rig, asked: BTreeMap::new(), answers: Vec::new(), measured, begin }
    }

    fn submit(&mut self, event: &Event, asked: Instant) {
        let ask = Ask { writes: event.writes, lba: event.lba, blocks: event.blocks };
        let id = self.rig.submit(ask);
        self.asked.insert(id, (asked, bytes_of(event.blocks)));
    }

    fn wait(&mut self, until: Option<Instant>) -> Result<()> {
        self.rig.wait(until, &mut self.answers)?;
        for answer in self.answers.drain(..) {
            let (asked, bytes) = self.asked.remove(&answer.id).expect("answered once");
            self.measured.latencies_us.push(precise_u64(answer.at.since(asked).0) / 1000.0);
            self.measured.bytes += bytes;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Measured> {
        while !self.asked.is_empty() {
            self.wait(None)?;
        }
        self.measured.span_us = precise_u64(self.rig.now().since(self.begin).0) / 1000.0;
        Ok(self.measured)
    }
}
