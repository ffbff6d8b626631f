//! Clients: requests in flight, and the oracle that every answer is held against.
//!
//! `requests` says what clients ask; here is what it means when it is answered.

use crate::ledger::Ledger;
use crate::oracle::{Oracle, stamp_of};
use crate::rack::SharedRack;
use crate::tally::{Failure, Tally};
use array::request::{Outcome, Reply};
use base::time::Instant;
use base::xor::Block;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// Request in flight, with what it means for the oracle when it is answered.
struct Pending {
    since: Instant,
    what: What,
}

pub(crate) enum What {
    Write {
        lba: u64,
        blocks: u64,
        arrival: u64,
        fua: bool,
    },
    /// Each block with the oldest version that may be returned.
    Read {
        lba: u64,
        floors: Vec<u64>,
    },
    /// The first read after a crash.
    Observe {
        lba: u64,
        blocks: u64,
    },
    /// The writes that arrived before this number are to be durable.
    Flush {
        before: u64,
    },
}

/// Outcome of an answer that may be.
pub(crate) enum Answered {
    Done,
    Failed,
    /// A write failed, where zones that failed may have taken the space along.
    OutOfSpace,
    /// These blocks are to be asked for again, each alone.
    AskAlone(Range<u64>),
}

/// Event of a client, for the trace.
#[derive(Hash)]
enum Event {
    Asks(u64),
    Answered(u64, bool),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Asks(id) => write!(f, "request {id}"),
            Event::Answered(id, true) => write!(f, "request {id} done"),
            Event::Answered(id, false) => write!(f, "request {id} failed"),
        }
    }
}

/// Clients of the array.
pub(crate) struct Clients {
    pub(crate) oracle: Oracle,
    /// Requests in flight, by their numbers.
    pending: BTreeMap<u64, Pending>,
    /// The number of the request before.
    last_id: u64,
    rack: SharedRack,
}

impl Clients {
    /// Returns the clients of a new volume of so many blocks.
    pub(crate) fn new(blocks: usize, write_through: bool, rack: SharedRack) -> Clients {
        Clients { oracle: Oracle::new(blocks, write_through), pending: BTreeMap::new(), last_id: 0, rack }
    }

    /// Requests in flight.
    pub(crate) fn waiting(&self) -> usize {
        self.pending.len()
    }

    /// Numbers of the requests in flight.
    pub(crate) fn waiting_ids(&self) -> Vec<u64> {
        self.pending.keys().copied().collect()
    }

    /// Returns the request that waits longest, and since when.
    pub(crate) fn oldest(&self) -> Option<(u64, Instant)> {
        self.pending.iter().next().map(|(id, pending)| (*id, pending.since))
    }

    /// Numbers a request that is asked now.
    pub(crate) fn begin(&mut self, now: Instant, what: What) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        if let What::Write { lba, blocks, .. } | What::Observe { lba, blocks } = &what {
            assert!(
                *blocks > 0 && lba + blocks <= self.oracle.blocks(),
                "block {lba}+{blocks} of the volume"
            );
        }
        self.rack.lock().trace.note(now, &Event::Asks(id));
        let before = self.pending.insert(id, Pending { since: now, what });
        assert!(before.is_none(), "request {id} is asked twice");
        id
    }

    /// An answer of a server whose drives another one has taken, which is worth nothing. True when it says that something was written.
    pub(crate) fn dismiss(&mut self, now: Instant, reply: &Reply) -> bool {
        let id = reply.id.0;
        self.rack.lock().trace.note(now, &Event::Answered(id, reply.outcome == Outcome::Done));
        let before = self.pending.remove(&id).expect("a request is answered once");
        let writes = matches!(before.what, What::Write { .. } | What::Flush { .. });
        writes && reply.outcome == Outcome::Done
    }

    /// The power fails: nobody is answered any more.
    pub(crate) fn forget(&mut self) {
        self.pending.clear();
    }

    /// The part of a range that lies within the volume.
    pub(crate) fn clamp(&self, lba: u64, blocks: u64) -> (u64, u64) {
        let size = self.oracle.blocks();
        let lba = lba % size;
        let blocks = blocks.clamp(1, size - lba);
        assert!(lba + blocks <= size, "a request lies within the volume");
        (lba, blocks)
    }

    /// Holds an answer against the oracle.
    pub(crate) fn on_reply(
        &mut self,
        now: Instant,
        reply: &Reply,
        ledger: &Ledger,
        tally: &mut Tally,
    ) -> Result<Answered, Failure> {
        let id = reply.id.0;
        let done = reply.outcome == Outcome::Done;
        self.rack.lock().trace.note(now, &Event::Answered(id, done));
        let Some(Pending { what, .. }) = self.pending.remove(&id) else {
            return Err(Failure::new(format!("request {id} is answered twice")));
        };
        tally.requests += 1;
        if !done {
            tally.requests_failed += 1;
            return on_failed(id, &what, ledger);
        }
        match what {
            What::Write { lba, blocks, arrival, fua } => {
                self.remark(lba, blocks, || format!("version {arrival} of {lba}+{blocks} is acknowledged"));
                (lba..lba + blocks).for_each(|lba| self.oracle.acknowledge(lba, arrival, fua));
            }
            What::Flush { before } => {
                let all_succeed = ledger.is_tolerable() && !ledger.has_lost_space();
                self.oracle.flushed(before, all_succeed);
            }
            What::Read { lba, floors } => {
                for ((lba, frame), floor) in (lba..).zip(&reply.frames).zip(floors) {
                    self.judge((lba, &frame.data), floor, ledger, tally)?;
                }
            }
            What::Observe { lba, .. } => {
                for (lba, frame) in (lba..).zip(&reply.frames) {
                    let floor = self.oracle.floor(lba);
                    let stamp = self.judge((lba, &frame.data), floor, ledger, tally)?;
                    self.remark(lba, 1, || format!("block {lba} is found to hold version {stamp}"));
                    self.oracle.settle(lba, stamp);
                }
            }
        }
        Ok(Answered::Done)
    }

    /// Holds a block that was read against the oracle.
    fn judge(
        &mut self,
        (lba, data): (u64, &Block),
        floor: u64,
        ledger: &Ledger,
        tally: &mut Tally,
    ) -> Result<u64, Failure> {
        tally.blocks_verified += 1;
        let Some(stamp) = stamp_of(data, lba) else {
            return Err(Failure::at(
                lba,
                format!("block {lba} holds a mixture, or the data of another block"),
            ));
        };
        let proof_is_lost = !ledger.is_tolerable();
        if !self.oracle.may_read(lba, floor, stamp, proof_is_lost) {
            let versions = self.oracle.versions(lba);
            let allowed: Vec<u64> = versions
                .iter()
                .filter(|version| version.arrival >= floor && (proof_is_lost || !version.dismissed))
                .map(|version| version.contents)
                .collect();
            let what = format!("block {lba} reads as version {stamp}; it may only be one of {allowed:?}");
            return Err(Failure::at(lba, what));
        }
        Ok(stamp)
    }

    pub(crate) fn remark(&self, lba: u64, blocks: u64, remark: impl FnOnce() -> String) {
        self.rack.lock().trace.about(lba..lba + blocks, remark);
    }
}

/// Judges whether a request may fail.
fn on_failed(id: u64, what: &What, ledger: &Ledger) -> Result<Answered, Failure> {
    match what {
        What::Observe { lba, blocks } if *blocks > 1 => Ok(Answered::AskAlone(*lba..lba + blocks)),
        _ if !ledger.is_tolerable() => Ok(Answered::Failed),
        // Zones that failed take their space along; a full volume may then have none left.
        What::Write { .. } if ledger.has_lost_space() => Ok(Answered::OutOfSpace),
        What::Write { lba, blocks, .. } => {
            Err(Failure::at(*lba, format!("request {id}, a write of {lba}+{blocks}, failed without cause")))
        }
        What::Read { lba, floors } => Err(Failure::at(
            *lba,
            format!("request {id}, a read of {lba}+{}, failed without cause", floors.len()),
        )),
        What::Observe { lba, .. } => Err(Failure::at(*lba, format!("block {lba} is lost without cause"))),
        What::Flush { .. } => Err(Failure::new(format!("request {id}, a flush, failed without cause"))),
    }
}
