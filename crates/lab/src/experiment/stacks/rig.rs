//! Volumes of stacks in virtual time, and what was programmed for them.

use super::super::volume_rig::{Timed, VolumeRig};
use super::Counted;
use super::Meter;
use crate::dmzap::device::SharedCounters;
use crate::dmzap::over_raizn::ZapOverRaizn;
use anyhow::Result;
use array::inplace::volume::InPlaceVolume;
use array::request::{Reply, Request, Volume};
use base::time::{Instant, Nanos};
use base::units::BLOCK_BYTES_U64;
use block::device::{BlockDevice, Command, Completion, Geometry};
use drive::modelled::ModelledDevice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A volume that knows what was programmed for it.
pub(super) trait Programs: Timed {
    /// Blocks that were programmed.
    fn flash_blocks(&self) -> u64;
}

impl<V: Programs> Counted for VolumeRig<V> {
    fn counts(&self) -> (u64, u64) {
        (self.user_blocks(), self.volume().flash_blocks())
    }

    fn meter(&self) -> Option<&Meter> {
        VolumeRig::meter(self)
    }

    fn idle(&mut self, span: Nanos) -> Result<()> {
        VolumeRig::idle(self, span)
    }
}

impl Timed for ZapOverRaizn {
    fn pass_time(&mut self, now: Instant, until: Option<Instant>) -> Option<Instant> {
        ZapOverRaizn::pass_time(self, now, until)
    }
}

impl Programs for ZapOverRaizn {
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

/// Counter of what a drive programmed.
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
        self.volume.pass_time(now, until)
    }
}

impl Programs for InPlaceStack {
    fn flash_blocks(&self) -> u64 {
        let of = |flash: &Flash| match flash {
            Flash::DmZap(counters) => counters.get().user + counters.get().moved,
            Flash::Conventional(bytes) => bytes.0.load(Ordering::Relaxed) / BLOCK_BYTES_U64,
        };
        self.flash.iter().map(of).sum()
    }
}
