//! Replaying a trace: so many requests in flight, or each at its time. A flush is a request like any other, of no bytes.

use super::rig::{Answer, Array, Ask, bytes_of};
use crate::precise::precise_u64;
use crate::trace::{Event, Op};
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
        let Event { op, lba, blocks, .. } = *event;
        let id = match op {
            Op::Read | Op::Write => self.rig.submit(Ask { writes: op == Op::Write, lba, blocks }),
            Op::ForcedWrite => self.rig.submit_forced(Ask { writes: true, lba, blocks }),
            Op::Flush => self.rig.flush(),
        };
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

#[cfg(test)]
mod tests {
    use super::*;
    use base::time::Nanos;

    /// An array that answers at once and notes what it was asked for, and whether by force; a flush is none.
    #[derive(Default)]
    struct Noting {
        asked: Vec<(Option<Ask>, bool)>,
        answered: u64,
    }

    impl Noting {
        fn note(&mut self, asked: Option<Ask>, is_forced: bool) -> u64 {
            self.asked.push((asked, is_forced));
            self.asked.len() as u64
        }
    }

    impl Array for Noting {
        fn now(&self) -> Instant {
            Instant(self.answered)
        }

        fn volume_blocks(&self) -> u64 {
            64
        }

        fn submit(&mut self, ask: Ask) -> u64 {
            self.note(Some(ask), false)
        }

        fn submit_forced(&mut self, ask: Ask) -> u64 {
            self.note(Some(ask), true)
        }

        fn flush(&mut self) -> u64 {
            self.note(None, false)
        }

        fn wait(&mut self, _until: Option<Instant>, answers: &mut Vec<Answer>) -> Result<()> {
            self.answered += 1;
            answers.push(Answer { id: self.answered, at: self.now() });
            Ok(())
        }

        fn blocks_decoded(&self) -> u64 {
            0
        }
    }

    #[test]
    fn flushes_are_replayed_as_flushes_and_forced_writes_by_force() {
        let event = |op, lba, blocks| Event { at: Nanos(0), op, lba, blocks };
        let events = [
            event(Op::Write, 8, 2),
            event(Op::Flush, 0, 0),
            event(Op::Read, 9, 1),
            event(Op::ForcedWrite, 5, 1),
        ];
        let asked = [
            (Some(Ask { writes: true, lba: 8, blocks: 2 }), false),
            (None, false),
            (Some(Ask { writes: false, lba: 9, blocks: 1 }), false),
            (Some(Ask { writes: true, lba: 5, blocks: 1 }), true),
        ];
        let mut closed = Noting::default();
        let measured = closed_loop(&mut closed, &events, 2).expect("replayed");
        assert_eq!(closed.asked, asked);
        assert_eq!((measured.bytes, measured.latencies_us.len()), (bytes_of(4), 4));
        let mut open = Noting::default();
        open_loop(&mut open, &events).expect("replayed");
        assert_eq!(open.asked, asked);
    }
}
