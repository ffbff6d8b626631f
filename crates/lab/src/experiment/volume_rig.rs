//! Any volume in virtual time, and its clients.

use super::rig::{Answer, Array, Ask, BEGIN, TURNS_MAX, fill_with_zeros};
use super::wear::Meter;
use anyhow::{Context, Result, ensure};
use array::inplace::volume::InPlaceVolume;
use array::request::{Outcome, Reply, Request, RequestId, RequestOp, Volume};
use base::time::{Instant, Nanos};
use base::units::Lba;

/// A volume whose drives live in virtual time.
pub trait Timed: Volume {
    /// The next instant at which something happens, but not beyond `until`.
    fn pass_time(&mut self, now: Instant, until: Option<Instant>) -> Option<Instant>;

    /// Blocks of clients that were decoded from others of their stripes.
    fn blocks_decoded(&self) -> u64 {
        0
    }
}

impl Timed for InPlaceVolume {
    fn pass_time(&mut self, now: Instant, until: Option<Instant>) -> Option<Instant> {
        let next = self.next_deadline().map(|next| next.max(now));
        [next, until].into_iter().flatten().min()
    }
}

/// A volume and its clients.
pub struct VolumeRig<V> {
    volume: V,
    now: Instant,
    next_id: u64,
    user_blocks: u64,
    replies: Vec<Reply>,
    /// Meter of the writes to drives, where they count.
    meter: Option<Meter>,
}

impl<V: Timed> VolumeRig<V> {
    /// Clients of a volume on which nothing is under way.
    pub fn over(volume: V) -> VolumeRig<V> {
        VolumeRig { volume, now: BEGIN, next_id: 0, user_blocks: 0, replies: Vec::new(), meter: None }
    }

    /// The same, over drives that count what they are written with.
    #[must_use]
    pub fn metered(self, meter: &Meter) -> VolumeRig<V> {
        VolumeRig { meter: Some(meter.clone()), ..self }
    }

    /// Meter of the writes to drives, where they count.
    #[must_use]
    pub fn meter(&self) -> Option<&Meter> {
        self.meter.as_ref()
    }

    /// The volume.
    #[must_use]
    pub fn volume(&self) -> &V {
        &self.volume
    }

    /// Blocks that clients wrote.
    #[must_use]
    pub fn user_blocks(&self) -> u64 {
        self.user_blocks
    }

    /// Lets time pass with no requests.
    ///
    /// # Errors
    /// When the engine does not come to rest, or requests are under way.
    pub fn idle(&mut self, span: Nanos) -> Result<()> {
        let until = self.now + span;
        while self.now < until {
            self.rest()?;
            ensure!(self.replies.is_empty(), "requests were left behind");
            let next = self.volume.pass_time(Instant(self.now.0 + 1), Some(until));
            self.now = next.context("there is an end")?;
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

impl<V: Timed> VolumeRig<V> {
    fn submit_as(&mut self, ask: Ask, force_unit_access: bool) -> u64 {
        let lba = Lba(ask.lba);
        if !ask.writes {
            return self.request(RequestOp::Read { lba, blocks: ask.blocks });
        }
        let mut frames = self.volume.frames().take_vec(ask.blocks as usize);
        fill_with_zeros(&mut frames);
        self.user_blocks += u64::from(ask.blocks);
        self.request(RequestOp::Write { lba, frames, force_unit_access })
    }
}

impl<V: Timed> Array for VolumeRig<V> {
    fn now(&self) -> Instant {
        self.now
    }

    fn volume_blocks(&self) -> u64 {
        self.volume.blocks()
    }

    fn submit(&mut self, ask: Ask) -> u64 {
        self.submit_as(ask, false)
    }

    fn submit_forced(&mut self, ask: Ask) -> u64 {
        self.submit_as(ask, true)
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
        self.volume.blocks_decoded()
    }
}
