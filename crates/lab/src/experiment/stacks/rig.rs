//! Any volume in virtual time, with clients and a count of what was programmed.

use super::super::rig::{Answer, Array, Ask, BEGIN, TURNS_MAX, fill_with_zeros};
use super::Counted;
use crate::dmzap::device::SharedCounters;
use crate::dmzap::over_raizn::ZapOverRaizn;
use anyhow::{Context, Result, ensure};
use array::inplace::volume::InPlaceVolume;
use array::request::{Outcome, Reply, Request, RequestId, RequestOp, Volume};
use base::time::{Instant, Nanos};
use base::units::{BLOCK_BYTES_U64, Lba};
use block::device::{BlockDevice, Command, Completion, Geometry};
use drive::modelled::ModelledDevice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A volume whose drives live in virtual time.
pub(super) trait Timed: Volume {
    /// The next instant at which something happens, but not beyond `until`.
    fn pass_time(&mut self, now: Instant, until: Option<Instant>) -> Option<Instant>;

    /// Blocks that were programmed.
    fn flash_blocks(&self) -> u64;
}

impl Timed for ZapOverRaizn {
    fn pass_time(&mut self, now: Instant, until: Option<Instant>) -> Option<Instant> {
        ZapOverRaizn::pass_time(self, now, until)
    }

    fn flash_blocks(&self) -> u64 {
        self.raizn().counters().drive_blocks()
    }
}

/// Bytes that a drive programmed, which somebody else owns.
#[derive(Clone, Debug, Default)]
pub(super) struct Counting(Arc<AtomicU64>);

/// A conventional drive that tells what it programmed.
pub(super) struct CountingDevice {
    device: ModelledDevice,
    programmed: Counting,
}

impl CountingDevice {
    pub(super) fn new(device: ModelledDevice, programmed: Counting) -> CountingDevice {
        CountingDevice { device, programmed }
    }
}

impl BlockDevice for CountingDevice {
    fn geometry(&self) -> &Geometry {
        self.device.geometry()
    }

    fn submit(&mut self, now: Instant, command: Command) {
        self.device.submit(now, command);
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        self.device.poll(now, completions);
        let bytes = self.device.model().bytes_placed().expect("a conventional drive");
        self.programmed.0.store(bytes, Ordering::Relaxed);
    }

    fn next_event(&self) -> Option<Instant> {
        self.device.next_event()
    }
}

/// Who counts what a drive programmed.
pub(super) enum Flash {
    DmZap(SharedCounters),
    Conventional(Counting),
}

/// The in-place engine over drives that count.
pub(super) struct InPlaceStack {
    pub(super) volume: InPlaceVolume,
    pub(super) flash: Vec<Flash>,
}

impl Volume for InPlaceStack {
    fn blocks(&self) -> u64 {
        self.volume.blocks()
    }

    fn frames(&mut self) -> &mut base::frame::FramePool {
        self.volume.frames()
    }

    fn client_frames_available(&self) -> usize {
        self.volume.client_frames_available()
    }

    fn submit(&mut self, now: Instant, request: Request) {
        self.volume.submit(now, request);
    }

    fn turn(&mut self, now: Instant, replies: &mut Vec<Reply>) -> bool {
        self.volume.turn(now, replies)
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.volume.next_deadline()
    }
}

impl Timed for InPlaceStack {
    fn pass_time(&mut self, now: Instant, until: Option<Instant>) -> Option<Instant> {
        let next = self.volume.next_deadline().map(|next| next.max(now));
        [next, until].into_iter().flatten().min()
    }

    fn flash_blocks(&self) -> u64 {
        let of = |flash: &Flash| match flash {
            Flash::DmZap(counters) => counters.get().user + counters.get().moved,
            Flash::Conventional(bytes) => bytes.0.load(Ordering::Relaxed) / BLOCK_BYTES_U64,
        };
        self.flash.iter().map(of).sum()
    }
}

/// A volume and its clients.
pub(super) struct VolumeRig<V> {
    volume: V,
    now: Instant,
    next_id: u64,
    user_blocks: u64,
    replies: Vec<Reply>,
}

impl<V: Timed> VolumeRig<V> {
    pub(super) fn new(volume: V) -> VolumeRig<V> {
        VolumeRig { volume, now: BEGIN, next_id: 0, user_blocks: 0, replies: Vec::new() }
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

impl<V: Timed> Counted for VolumeRig<V> {
    fn counts(&self) -> (u64, u64) {
        (self.user_blocks, self.volume.flash_blocks())
    }

    fn idle(&mut self, span: Nanos) -> Result<()> {
        let until = self.now + span;
        while self.now < until {
            self.rest()?;
            ensure!(self.replies.is_empty(), "requests were left behind");
            let next = self.volume.pass_time(Instant(self.now.0 + 1), Some(until));
            self.now = next.context("there is an end")?;
        }
        self.rest()
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
        let lba = Lba(ask.lba);
        if !ask.writes {
            return self.request(RequestOp::Read { lba, blocks: ask.blocks });
        }
        let mut frames = self.volume.frames().take_vec(ask.blocks as usize);
        fill_with_zeros(&mut frames);
        self.user_blocks += u64::from(ask.blocks);
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
        0
    }
}
