//! The layer over a zoned drive: an ordinary block device, for an array above.

use super::{Answer, Command, Counters, DmZap, Effects, Op as ZapOp};
use base::frame::Frame;
use base::time::Instant;
use base::units::ZoneIndex;
use block::device::{
    BlockDevice, Command as BlockCommand, Completion, FRAME_SECTORS, Geometry, Op, Status, Token,
};
use std::sync::{Arc, Mutex, PoisonError};
use zone::device::{self, ZonedDevice};

/// Counts of a device that somebody else owns.
#[derive(Clone, Debug, Default)]
pub struct SharedCounters(Arc<Mutex<Counters>>);

impl SharedCounters {
    /// The counts.
    #[must_use]
    pub fn get(&self) -> Counters {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, counters: Counters) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = counters;
    }
}

/// A drive and the layer over it.
pub struct ZapDevice {
    geometry: Geometry,
    zap: DmZap,
    drive: Box<dyn ZonedDevice>,
    effects: Effects,
    ready: Vec<Completion>,
    counters: SharedCounters,
    /// Kept for its memory.
    done: Vec<device::Completion>,
    now: Instant,
}

impl ZapDevice {
    /// The layer over a drive; its counts are told to `counters`.
    #[must_use]
    pub fn new(zap: DmZap, drive: Box<dyn ZonedDevice>, counters: SharedCounters) -> ZapDevice {
        let sectors = zap.blocks() * FRAME_SECTORS;
        let geometry = Geometry { sectors, atomic_sectors: 8, volatile_cache: false };
        ZapDevice {
            geometry,
            zap,
            drive,
            effects: Effects::default(),
            ready: Vec::new(),
            counters,
            done: Vec::new(),
            now: Instant(0),
        }
    }

    /// The layer.
    #[cfg(test)]
    pub(super) fn zap(&self) -> &DmZap {
        &self.zap
    }

    /// Hands on what the layer wishes for.
    fn carry_out(&mut self, now: Instant) {
        for Command { token, zone, offset, op } in self.effects.commands.drain(..) {
            let op = match op {
                ZapOp::Read(frames) => device::Op::Read { offset, frames },
                ZapOp::Write(frames) => device::Op::Write { offset, frames },
                ZapOp::Reset => device::Op::Reset,
            };
            let (token, zone) = (device::Token(u64::from(token)), ZoneIndex(zone));
            self.drive.submit(now, device::Command { token, zone, op });
        }
        for Answer { tag, frames } in self.effects.answers.drain(..) {
            self.ready.push(Completion { token: Token(tag), status: Status::Success, frames });
        }
        self.counters.set(*self.zap.counters());
    }

    /// First block of something that begins and ends with one.
    fn blocks(sector: u64, sectors: u64) -> (u64, u64) {
        assert!(sector.is_multiple_of(FRAME_SECTORS) && sectors.is_multiple_of(FRAME_SECTORS));
        (sector / FRAME_SECTORS, sectors / FRAME_SECTORS)
    }

    fn answer(&mut self, token: Token, status: Status, frames: Vec<Frame>) {
        self.ready.push(Completion { token, status, frames });
    }
}

impl BlockDevice for ZapDevice {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, now: Instant, BlockCommand { token, op }: BlockCommand) {
        self.now = now;
        if !op.is_within(self.geometry.sectors) {
            return self.answer(token, Status::OutOfRange, op.into_frames());
        }
        match op {
            Op::Read { sector, frames } => {
                let (lba, _) = ZapDevice::blocks(sector, 0);
                self.zap.read(token.0, lba, frames, &mut self.effects);
            }
            Op::Write { sector, frames, .. } => {
                let (lba, _) = ZapDevice::blocks(sector, 0);
                self.zap.write(token.0, lba, frames, &mut self.effects);
            }
            // The drive has no volatile cache.
            Op::Flush => self.answer(token, Status::Success, Vec::new()),
            Op::WriteZeroes { sector, sectors, .. } | Op::Discard { sector, sectors } => {
                let (lba, blocks) = ZapDevice::blocks(sector, sectors);
                self.zap.trim(lba, blocks);
                self.answer(token, Status::Success, Vec::new());
            }
        }
        self.carry_out(now);
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        self.now = now;
        let mut done = std::mem::take(&mut self.done);
        self.drive.poll(now, &mut done);
        for device::Completion { token, status, frames, .. } in done.drain(..) {
            assert!(status == device::Status::Success, "the drive answers {status:?}");
            let token = u32::try_from(token.0).expect("a slot of commands");
            self.zap.done(token, frames, &mut self.effects);
        }
        self.done = done;
        self.carry_out(now);
        completions.append(&mut self.ready);
    }

    fn next_event(&self) -> Option<Instant> {
        if self.ready.is_empty() { self.drive.next_event() } else { Some(self.now) }
    }
}
