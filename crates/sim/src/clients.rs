//! Clients: they ask, and hold every answer against the oracle.

use crate::oracle::{fill, stamp_of};
use crate::world::{Failure, PATIENCE_NS, World};
use array::request::{Outcome, Reply, Request, RequestId, RequestOp};
use base::time::Instant;
use base::units::Lba;
use std::fmt;

/// Request in flight, with what it means for the oracle when it is answered.
pub(crate) struct Pending {
    since: Instant,
    what: What,
}

enum What {
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

impl World {
    /// The part of a range that lies within the volume.
    fn clamp(&self, lba: u64, blocks: u64) -> (u64, u64) {
        let size = self.oracle.blocks();
        let lba = lba % size;
        (lba, blocks.clamp(1, size - lba))
    }

    /// The part of it whose payload clients may have in memory.
    fn clamp_payload(&self, lba: u64, blocks: u64) -> (u64, u64) {
        let (lba, blocks) = self.clamp(lba, blocks);
        (lba, blocks.min(self.plan.client_frames as u64))
    }

    pub(crate) fn write(&mut self, lba: u64, blocks: u64, fua: bool) -> Result<(), Failure> {
        let (lba, blocks) = self.clamp_payload(lba, blocks);
        if !self.make_room(blocks)? {
            return Ok(());
        }
        let Some((lba, blocks)) = self.place_to_write(lba, blocks)? else { return Ok(()) };
        let arrival = self.oracle.arrive();
        let mut frames = Vec::new();
        self.volume().clients_view().frames().take_many(Lba(blocks).index(), &mut frames);
        for (lba, frame) in (lba..).zip(&mut frames) {
            fill(&mut frame.data, lba, arrival);
            self.oracle.begin(lba, arrival, arrival);
        }
        self.remark(lba, blocks, || format!("write {lba}+{blocks} of version {arrival} begins"));
        let op = RequestOp::Write { lba: Lba(lba), frames, force_unit_access: fua };
        self.ask(op, What::Write { lba, blocks, arrival, fua })
    }

    pub(crate) fn trim(&mut self, lba: u64, blocks: u64, fua: bool) -> Result<(), Failure> {
        let (lba, blocks) = self.clamp(lba, blocks);
        let (lba, blocks) = self.range_to_trim(lba, blocks);
        if !self.make_room(0)? {
            return Ok(());
        }
        let arrival = self.oracle.arrive();
        for lba in lba..lba + blocks {
            self.oracle.begin(lba, arrival, 0);
        }
        self.remark(lba, blocks, || format!("trim {lba}+{blocks}, version {arrival}, begins"));
        let op = RequestOp::Trim { lba: Lba(lba), blocks, force_unit_access: fua };
        self.ask(op, What::Write { lba, blocks, arrival, fua })
    }

    pub(crate) fn read(&mut self, lba: u64, blocks: u64) -> Result<(), Failure> {
        let (lba, blocks) = self.clamp_payload(lba, blocks);
        if !self.make_room(blocks)? {
            return Ok(());
        }
        let floors = (lba..lba + blocks).map(|lba| self.oracle.floor(lba)).collect();
        self.ask_read(lba, blocks, What::Read { lba, floors })
    }

    fn observe(&mut self, lba: u64, blocks: u64) -> Result<(), Failure> {
        if !self.make_room(blocks)? {
            return Ok(());
        }
        self.ask_read(lba, blocks, What::Observe { lba, blocks })
    }

    fn ask_read(&mut self, lba: u64, blocks: u64, what: What) -> Result<(), Failure> {
        let count = u32::try_from(blocks).expect("bounded by the frames of clients");
        self.ask(RequestOp::Read { lba: Lba(lba), blocks: count }, what)
    }

    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        if !self.make_room(0)? {
            return Ok(());
        }
        let before = self.oracle.next_arrival();
        self.ask(RequestOp::Flush, What::Flush { before })
    }

    fn ask(&mut self, op: RequestOp, what: What) -> Result<(), Failure> {
        self.next_id += 1;
        let id = self.next_id;
        self.rack.lock().trace.note(self.now, &Event::Asks(id));
        self.pending.insert(id, Pending { since: self.now, what });
        let now = self.now;
        self.volume().clients_view().submit(now, Request { id: RequestId(id), op });
        self.turn()
    }

    /// Waits until another request may be in flight and its payload in memory; false when the power failed.
    fn make_room(&mut self, frames: u64) -> Result<bool, Failure> {
        let frames = Lba(frames).index();
        while !self.is_dark() {
            let crowded = self.pending.len() >= self.plan.depth;
            if !crowded && self.engine().client_frames_available() >= frames {
                return Ok(true);
            }
            self.expect_progress()?;
        }
        Ok(false)
    }

    /// Goes to the next event; there must be one, and nobody may have waited for too long.
    pub(crate) fn expect_progress(&mut self) -> Result<(), Failure> {
        let advanced = self.advance()?;
        if !advanced && !self.is_dark() {
            let waiting: Vec<u64> = self.pending.keys().copied().collect();
            return Err(self.stuck(&format!("nothing is due, and requests {waiting:?} wait for ever")));
        }
        let oldest = self.pending.iter().next();
        if let Some((id, pending)) = oldest {
            let since = pending.since.max(self.hangs_until);
            if self.now.since(since).0 > PATIENCE_NS {
                return Err(self.stuck(&format!("request {id} waits since {} ms", since.0 / 1_000_000)));
            }
        }
        Ok(())
    }

    /// Waits until every request is answered.
    pub(crate) fn drain(&mut self) -> Result<(), Failure> {
        while !self.pending.is_empty() && !self.is_dark() {
            self.expect_progress()?;
        }
        Ok(())
    }

    /// Reads everything.
    pub(crate) fn verify(&mut self) -> Result<(), Failure> {
        let (blocks, at_once) = (self.oracle.blocks(), self.blocks_at_once());
        let mut lba = 0;
        while lba < blocks && !self.is_dark() {
            self.read(lba, at_once.min(blocks - lba))?;
            lba += at_once;
        }
        self.drain()
    }

    /// Reads everything for the first time after a crash: what is read now is what there is.
    pub(crate) fn observe_all(&mut self) -> Result<(), Failure> {
        let (blocks, at_once) = (self.oracle.blocks(), self.blocks_at_once());
        let mut lba = 0;
        while lba < blocks && !self.is_dark() {
            self.observe(lba, at_once.min(blocks - lba))?;
            lba += at_once;
        }
        self.drain()
    }

    fn blocks_at_once(&self) -> u64 {
        61.min(self.plan.client_frames as u64 / 2)
    }

    pub(crate) fn on_reply(&mut self, mut reply: Reply) -> Result<(), Failure> {
        let id = reply.id.0;
        let done = reply.outcome == Outcome::Done;
        self.rack.lock().trace.note(self.now, &Event::Answered(id, done));
        let Some(Pending { what, .. }) = self.pending.remove(&id) else {
            return Err(Failure::new(format!("request {id} is answered twice")));
        };
        self.tally.requests += 1;
        if !done {
            self.tally.requests_failed += 1;
            return self.on_failed(id, &what);
        }
        match what {
            What::Write { lba, blocks, arrival, fua } => {
                self.remark(lba, blocks, || format!("version {arrival} of {lba}+{blocks} is acknowledged"));
                (lba..lba + blocks).for_each(|lba| self.oracle.acknowledge(lba, arrival, fua));
            }
            What::Flush { before } => {
                let all_succeed = self.ledger.is_tolerable() && !self.ledger.has_lost_space();
                self.oracle.flushed(before, all_succeed);
            }
            What::Read { lba, floors } => {
                for ((lba, frame), floor) in (lba..).zip(&reply.frames).zip(floors) {
                    self.judge(lba, &frame.data, floor)?;
                }
            }
            What::Observe { lba, .. } => {
                for (lba, frame) in (lba..).zip(&reply.frames) {
                    let floor = self.oracle.floor(lba);
                    let stamp = self.judge(lba, &frame.data, floor)?;
                    self.remark(lba, 1, || format!("block {lba} is found to hold version {stamp}"));
                    self.oracle.settle(lba, stamp);
                }
            }
        }
        self.volume().clients_view().frames().give_many(&mut reply.frames);
        Ok(())
    }

    fn on_failed(&mut self, id: u64, what: &What) -> Result<(), Failure> {
        match what {
            What::Observe { lba, blocks } if *blocks > 1 => {
                // One bad block fails them all: ask for each alone.
                (*lba..lba + blocks).try_for_each(|lba| self.observe(lba, 1))
            }
            _ if !self.ledger.is_tolerable() => Ok(()),
            // Zones that failed take their space along; a full volume may then have none left.
            What::Write { .. } if self.ledger.has_lost_space() => Ok(()),
            What::Write { lba, blocks, .. } => Err(Failure::at(
                *lba,
                format!("request {id}, a write of {lba}+{blocks}, failed without cause"),
            )),
            What::Read { lba, floors } => Err(Failure::at(
                *lba,
                format!("request {id}, a read of {lba}+{}, failed without cause", floors.len()),
            )),
            What::Observe { lba, .. } => Err(Failure::at(*lba, format!("block {lba} is lost without cause"))),
            What::Flush { .. } => Err(Failure::new(format!("request {id}, a flush, failed without cause"))),
        }
    }

    /// Holds a block that was read against the oracle.
    fn judge(&mut self, lba: u64, data: &base::xor::Block, floor: u64) -> Result<u64, Failure> {
        self.tally.blocks_verified += 1;
        let Some(stamp) = stamp_of(data, lba) else {
            return Err(Failure::at(
                lba,
                format!("block {lba} holds a mixture, or the data of another block"),
            ));
        };
        let proof_is_lost = !self.ledger.is_tolerable();
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

    fn remark(&self, lba: u64, blocks: u64, remark: impl FnOnce() -> String) {
        self.rack.lock().trace.about(lba..lba + blocks, remark);
    }
}
