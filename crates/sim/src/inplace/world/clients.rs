//! Clients of a life: their requests, the answers, and the time that passes between them.

use super::life::Life;
use crate::inplace::oracle::{Reading, fill};
use crate::world::Failure;
use array::request::{Outcome, Reply, RequestOp, Volume};
use base::time::Nanos;
use base::units::Lba;

/// Events after which a run is stuck.
const EVENTS_MAX: u64 = 300_000;

/// Request under way.
pub(super) enum Open {
    Read {
        reading: Reading,
        blocks: u64,
        /// Some of them might be lost as it began: it may have met them before a write healed their row.
        may_fail: bool,
    },
    Write {
        lba: u64,
        blocks: u64,
        durable: bool,
    },
    Flush(u64),
}

impl Life {
    /// Requests under way are of this life, and what is judged beside them is whole.
    fn check(&self) {
        let newest = self.open.keys().next_back().copied().unwrap_or(0);
        assert!(newest < self.next_id, "request {newest} is under way, and {} comes next", self.next_id);
        assert!(self.replies.is_empty(), "{} answers were not taken", self.replies.len());
        for (id, open) in &self.open {
            let (lba, blocks) = match open {
                Open::Read { reading, blocks, .. } => (reading.first(), *blocks),
                Open::Write { lba, blocks, .. } => (*lba, *blocks),
                Open::Flush(since) => {
                    assert!(*since <= self.judge.oracle.now(), "flush {id} covers what comes after {since}");
                    continue;
                }
            };
            let all = self.judge.stage.plan.blocks();
            assert!(lba + blocks <= all, "request {id} is about {blocks} blocks at {lba} of {all}");
        }
    }

    pub(super) fn open(&mut self, open: Open) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let before = self.open.insert(id, open);
        assert!(before.is_none(), "two requests have the number {id}");
        id
    }

    /// Waits until clients may take frames.
    fn expect_frames(&mut self, count: u64) -> Result<(), Failure> {
        let count = usize::try_from(count).expect("small");
        if self.judge.stage.volume().client_frames_available() < count {
            self.turn()?;
        }
        while self.judge.stage.volume().client_frames_available() < count {
            self.step("frames for clients")?;
        }
        Ok(())
    }

    pub(super) fn begin_write(&mut self, lba: u64, blocks: u64, stamp: u64) {
        let id = self.next_id;
        assert!(stamp == 0 || stamp == id, "request {id} writes what {stamp} wrote");
        let mut readings: Vec<&mut Reading> = Vec::new();
        for open in self.open.values_mut() {
            if let Open::Read { reading, .. } = open {
                readings.push(reading);
            }
        }
        (lba..lba + blocks).for_each(|lba| self.judge.oracle.begin_write(lba, (id, stamp), &mut readings));
    }

    pub(super) fn write(&mut self, lba: u64, blocks: u64, durable: bool) -> Result<(), Failure> {
        self.expect_frames(blocks)?;
        let stamp = self.next_id;
        self.begin_write(lba, blocks, stamp);
        let mut frames = Vec::new();
        for lba in lba..lba + blocks {
            let mut frame = self.judge.stage.volume().frames().take();
            fill(&mut frame.data, lba, stamp);
            frames.push(frame);
        }
        let id = self.open(Open::Write { lba, blocks, durable });
        self.judge.stage.submit(id, RequestOp::Write { lba: Lba(lba), frames, force_unit_access: durable });
        Ok(())
    }

    pub(super) fn flush(&mut self) {
        let id = self.open(Open::Flush(self.judge.oracle.now()));
        self.judge.stage.submit(id, RequestOp::Flush);
    }

    /// Zeros have the stamp of zeros: trims of one block overlap like writes do.
    pub(super) fn trim(&mut self, lba: u64, blocks: u64, durable: bool) {
        self.begin_write(lba, blocks, 0);
        let id = self.open(Open::Write { lba, blocks, durable });
        self.judge.stage.submit(id, RequestOp::Trim { lba: Lba(lba), blocks, force_unit_access: durable });
    }

    pub(super) fn read(&mut self, lba: u64, blocks: u64) -> Result<(), Failure> {
        self.expect_frames(blocks)?;
        let reading = self.judge.oracle.begin_read(lba, blocks);
        let may_fail = self.judge.may_fail(&reading);
        let id = self.open(Open::Read { reading, blocks, may_fail });
        let blocks = u32::try_from(blocks).expect("small");
        self.judge.stage.submit(id, RequestOp::Read { lba: Lba(lba), blocks });
        Ok(())
    }

    /// Lets the engine do what it can at this moment.
    pub(super) fn turn(&mut self) -> Result<(), Failure> {
        let now = self.judge.stage.now;
        let mut replies = std::mem::take(&mut self.replies);
        let volume = self.judge.stage.volume();
        while volume.turn(now, &mut replies) {}
        volume.check_invariants();
        self.judge.look_at_spares();
        self.judge.look_at_replacements()?;
        self.judge.look_at_blemishes();
        self.judge.look_at_lies();
        for reply in replies.drain(..) {
            self.take(reply)?;
        }
        self.replies = replies;
        self.look_at_members();
        self.judge.look_at_replay();
        self.judge.look_at_first_resync();
        self.judge.look_at_policy();
        self.check();
        Ok(())
    }

    /// Lets time pass until something happens, and judges scrubs that ended.
    pub(super) fn step(&mut self, awaited: &str) -> Result<(), Failure> {
        self.step_once(awaited)?;
        self.judge.look_at_scrub(0)
    }

    /// Lets time pass until something happens.
    pub(super) fn step_once(&mut self, awaited: &str) -> Result<(), Failure> {
        self.judge.stage.events += 1;
        if self.judge.stage.events > EVENTS_MAX {
            let state = self.judge.stage.volume().describe();
            return Err(Failure::new(format!("no end of waiting for {awaited}: {state}")));
        }
        let next = self.judge.stage.volume().next_deadline();
        let next = next.ok_or_else(|| {
            Failure::new(format!(
                "nothing happens any more; waiting for {awaited}: {}",
                self.judge.stage.volume().describe()
            ))
        })?;
        self.judge.stage.now = self.judge.stage.now.max(next);
        self.turn()
    }

    pub(super) fn wait(&mut self, nanos: u64, events: u64) -> Result<(), Failure> {
        let until = self.judge.stage.now + Nanos(nanos);
        for _ in 0..events {
            match self.judge.stage.volume().next_deadline().filter(|next| *next <= until) {
                Some(_) => self.step("time")?,
                None => {
                    self.judge.stage.now = until;
                    break;
                }
            }
        }
        Ok(())
    }

    pub(super) fn drain(&mut self) -> Result<(), Failure> {
        self.turn()?;
        while !self.open.is_empty() {
            self.step("answers")?;
        }
        Ok(())
    }

    pub(super) fn resync(&mut self) -> Result<(), Failure> {
        self.turn()?;
        while self.judge.stage.volume().engine.core().is_resyncing()
            && (self.judge.gone.is_empty() || self.judge.forcing.is_forced())
        {
            self.step("the resync")?;
        }
        self.judge.look_at_resync();
        Ok(())
    }

    /// A request is answered.
    fn take(&mut self, reply: Reply) -> Result<(), Failure> {
        let Reply { id, outcome, mut frames } = reply;
        let open = self.open.remove(&id.0).ok_or_else(|| Failure::new("an answer that nobody waits for"))?;
        self.judge.tally.requests += 1;
        let is_done = outcome == Outcome::Done;
        self.judge.tally.requests_failed += u64::from(!is_done);
        match open {
            Open::Read { reading, blocks, may_fail } => {
                let lba = reading.first();
                let may_fail = may_fail || self.judge.may_fail(&reading);
                if is_done {
                    self.judge.tally.blocks_verified += blocks;
                    let is_volatile = self.judge.stage.plan.is_volatile;
                    let lies = &self.judge.stage.lies;
                    let judged = self
                        .judge
                        .oracle
                        .end_read(reading, &frames, is_volatile, |lba| lies.may_be_wrong(lba));
                    judged.map_err(|what| Failure::at(lba, what))?;
                } else if may_fail {
                    self.judge.tally.torn += u64::from(self.judge.has_torn_blocks());
                } else {
                    return Err(Failure::at(lba, format!("{blocks} blocks from {lba} on cannot be read")));
                }
            }
            Open::Write { lba, blocks, durable } => {
                let is_durable = durable
                    || !self.judge.stage.plan.is_volatile
                    || self.judge.stage.journal.disk().is_some();
                (lba..lba + blocks)
                    .for_each(|lba| self.judge.oracle.end_write(lba, id.0, is_done, is_durable));
                self.judge.look_at_ruins(lba..lba + blocks);
                if !is_done
                    && !self.judge.stage.journal.may_be_lost()
                    && !(lba..lba + blocks).any(|lba| self.judge.may_be_lost(lba, None))
                {
                    return Err(Failure::at(lba, format!("{blocks} blocks from {lba} on cannot be written")));
                }
            }
            Open::Flush(since) if is_done => self.judge.oracle.flushed(since),
            Open::Flush(_) if self.judge.is_too_much() => {}
            Open::Flush(_) => return Err(Failure::new("a flush failed")),
        }
        self.judge.stage.volume().frames().give_many(&mut frames);
        Ok(())
    }
}
