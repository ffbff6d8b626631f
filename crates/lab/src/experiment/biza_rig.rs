//! BIZA as published on the drives of a plan: as many zones, of the same size, as a log-structured array of that plan has.

use super::host::Clock;
use super::rig::{Answer, Array, Ask, BEGIN, Plan, TURNS_MAX, fill_with_zeros, new_drive};
use super::scheme::Scheme;
use crate::biza::config::BizaConfig;
use crate::biza::{Biza, BizaVolume, Counters};
use anyhow::{Context, Result, ensure};
use array::request::{Outcome, Reply, Request, RequestId, RequestOp, Volume};
use base::time::{Instant, Nanos};
use base::units::Lba;
use zone::drives::DriveSet;

/// The peer at work.
pub struct BizaRig {
    volume: BizaVolume,
    now: Instant,
    next_id: u64,
    replies: Vec<Reply>,
}

impl BizaRig {
    /// The peer on the drives of a plan. It uses all zones, for it has no superblocks.
    ///
    /// # Errors
    /// When there can be no such array.
    pub fn new(plan: &Plan, selects: bool) -> Result<BizaRig> {
        ensure!(plan.scheme == Scheme::Biza, "another scheme");
        let geometry = plan.config()?.geometry;
        let config = BizaConfig {
            members: plan.drives,
            volume_blocks: plan.volume_blocks,
            geometry,
            selects,
            avoids: true,
        };
        let clock = Clock::default();
        let mut devices = Vec::new();
        for number in 1..=plan.drives as u64 {
            let (device, _) = new_drive(plan, geometry, &clock, number)?;
            devices.push(Some(device));
        }
        let volume = BizaVolume::new(Biza::new(config)?, DriveSet::new(devices));
        Ok(BizaRig { volume, now: BEGIN, next_id: 0, replies: Vec::new() })
    }

    /// Counts since the array was made.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        self.volume.engine.counters()
    }

    /// Lets time pass with no requests.
    ///
    /// # Errors
    /// When the engine does not come to rest.
    pub fn idle(&mut self, span: Nanos) -> Result<()> {
        for until in [self.now + span, self.now + span + span] {
            while self.now < until {
                self.rest()?;
                ensure!(self.replies.is_empty(), "requests were left behind");
                let next = self.volume.pass_time(Instant(self.now.0 + 1), Some(until));
                self.now = next.context("there is an end")?;
            }
        }
        self.rest()
    }

    fn rest(&mut self) -> Result<()> {
        let mut turns = 0;
        while self.volume.turn(self.now, &mut self.replies) {
            turns += 1;
            ensure!(turns < TURNS_MAX, "the engine does not come to rest");
        }
        Ok(())
    }

    fn request(&mut self, op: RequestOp) -> u64 {
        self.next_id += 1;
        self.volume.submit(self.now, Request { id: RequestId(self.next_id), op });
        self.next_id
    }
}

impl Array for BizaRig {
    fn now(&self) -> Instant {
        self.now
    }

    fn volume_blocks(&self) -> u64 {
        self.volume.blocks()
    }

    fn submit(&mut self, ask: Ask) -> u64 {
        let lba = Lba(ask.lba);
        if !ask.writes {
            return self.request(RequestOp::Read { lba, blocks: ask.blocks });
        }
        let mut frames = self.volume.frames().take_vec(ask.blocks as usize);
        fill_with_zeros(&mut frames);
        self.request(RequestOp::Write { lba, frames, force_unit_access: false })
    }

    fn flush(&mut self) -> u64 {
        self.request(RequestOp::Flush)
    }

    fn wait(&mut self, until: Option<Instant>, answers: &mut Vec<Answer>) -> Result<()> {
        loop {
            self.rest()?;
            for mut reply in self.replies.drain(..) {
                ensure!(reply.outcome == Outcome::Done, "request {} failed", reply.id.0);
                self.volume.frames().give_many(&mut reply.frames);
                answers.push(Answer { id: reply.id.0, at: self.now });
            }
            if !answers.is_empty() || until.is_some_and(|until| until <= self.now) {
                return Ok(());
            }
            let next = self.volume.pass_time(Instant(self.now.0 + 1), until);
            self.now = next.context("work is left and nothing is under way")?;
        }
    }

    fn blocks_decoded(&self) -> u64 {
        self.counters().decoded
    }
}
