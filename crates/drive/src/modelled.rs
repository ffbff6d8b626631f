//! An ordinary block device in virtual time: it takes as long as a modelled drive without zones, and keeps nothing.
//!
//! What is read is what the frames held: for those who measure time and compare no data. Each command is one of the model's; what it
//! does not know, zeroing and discarding, takes the time of a flush.

use crate::timing::{Access, Done, Model, ModelOptions, Profile};
use base::slab::Slab;
use base::time::Instant;
use base::units::BLOCK_BYTES_U64;
use block::device::{BlockDevice, Command, Completion, Geometry, Op, Status};
use block::md::SECTOR_BYTES_U64;

/// Modelled block device.
#[derive(Debug)]
pub struct ModelledDevice {
    geometry: Geometry,
    model: Model,
    held: Slab<Completion>,
    /// Kept for its memory.
    done: Vec<Done>,
}

impl ModelledDevice {
    /// A device of so many sectors; `None` when the profile has zones, or fewer sectors.
    #[must_use]
    pub fn new(sectors: u64, profile: &Profile, options: ModelOptions) -> Option<ModelledDevice> {
        let own = profile.geometry();
        let there = u64::from(own.zone_capacity_blocks) * (BLOCK_BYTES_U64 / SECTOR_BYTES_U64);
        if profile.has_zones() || sectors > there {
            return None;
        }
        let geometry = Geometry { sectors, atomic_sectors: 8, volatile_cache: own.volatile_cache };
        let model = Model::new(profile, options);
        Some(ModelledDevice { geometry, model, held: Slab::default(), done: Vec::new() })
    }

    /// The model, which knows what its flash was written with.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.model
    }
}

/// A command as the model sees it.
fn access(op: &Op) -> Access {
    let length =
        |frames: &[base::frame::Frame]| u64::try_from(frames.len()).expect("a length") * BLOCK_BYTES_U64;
    let start = |sector: u64| sector * SECTOR_BYTES_U64;
    match op {
        Op::Read { sector, frames } => {
            Access::Read { zone: 0, offset_bytes: start(*sector), bytes: length(frames) }
        }
        Op::Write { sector, frames, .. } => {
            Access::Write { zone: 0, offset_bytes: start(*sector), bytes: length(frames) }
        }
        Op::Flush | Op::WriteZeroes { .. } | Op::Discard { .. } => Access::Flush,
    }
}

impl BlockDevice for ModelledDevice {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, now: Instant, Command { token, op }: Command) {
        let (status, access) = match op.is_within(self.geometry.sectors) {
            true => (Status::Success, access(&op)),
            false => (Status::OutOfRange, Access::Refused),
        };
        let slot = self.held.insert(Completion { token, status, frames: op.into_frames() });
        self.model.submit(now, u64::from(slot), access);
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        self.model.advance(now, &mut self.done);
        let slots = self.done.drain(..).map(|done| u32::try_from(done.tag).expect("tags are slots"));
        completions.extend(slots.map(|slot| self.held.remove(slot)));
    }

    fn next_event(&self) -> Option<Instant> {
        self.model.next_event()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::frame::Frame;
    use block::device::Token;

    /// Answers with their times, from a device that is asked all at once.
    fn answers(ops: Vec<Op>) -> Vec<(u64, Status, u64)> {
        let profile = Profile::load("conventional-nvme").unwrap();
        let mut device = ModelledDevice::new(1 << 20, &profile, ModelOptions::default()).unwrap();
        for (token, op) in (0..).map(Token).zip(ops) {
            device.submit(Instant(0), Command { token, op });
        }
        let (mut all, mut completions) = (Vec::new(), Vec::new());
        while let Some(now) = device.next_event() {
            device.poll(now, &mut completions);
            all.extend(completions.drain(..).map(|done| (done.token.0, done.status, now.0)));
        }
        all
    }

    #[test]
    fn commands_take_the_time_of_the_profile() {
        let frames = |count: usize| (0..count).map(|_| Frame::zeroed()).collect();
        let read = |sector| Op::Read { sector, frames: frames(1) };
        let [(_, Status::Success, read_ns)] = answers(vec![read(8000)])[..] else { panic!("one answer") };
        assert!((60_000..90_000).contains(&read_ns), "{read_ns} ns; the ZN540 takes 73 us");
        let write = Op::Write { sector: 0, frames: frames(1), durable: true };
        let [(_, Status::Success, write_ns)] = answers(vec![write])[..] else { panic!("one answer") };
        assert!((9_000..16_000).contains(&write_ns), "{write_ns} ns; the ZN540 takes 11 us");
        assert_eq!(answers(vec![read(8), read(80_000)]), answers(vec![read(8), read(80_000)]));
    }

    /// Everything that was written has a place at once, whether it was programmed or not.
    #[test]
    fn the_translation_layer_counts_what_it_places() {
        let profile = Profile::load("conventional-nvme").unwrap();
        let mut device = ModelledDevice::new(1 << 20, &profile, ModelOptions::default()).unwrap();
        let frames = (0..8).map(|_| Frame::zeroed()).collect();
        device.submit(
            Instant(0),
            Command { token: Token(0), op: Op::Write { sector: 32, frames, durable: true } },
        );
        assert_eq!(device.model().bytes_placed(), Some(0));
        while let Some(now) = device.next_event().filter(|now| now.0 < 100_000) {
            device.poll(now, &mut Vec::new());
        }
        // Two pages of 16 KiB.
        assert_eq!(device.model().bytes_placed(), Some(32 << 10));
    }

    #[test]
    fn what_lies_beyond_the_end_is_refused() {
        let read = Op::Read { sector: (1 << 20) - 7, frames: vec![Frame::zeroed()] };
        assert!(matches!(answers(vec![read])[..], [(0, Status::OutOfRange, _)]));
    }

    #[test]
    fn drives_with_zones_are_none() {
        let profile = Profile::load("zn540-1tb").unwrap();
        assert!(ModelledDevice::new(1 << 20, &profile, ModelOptions::default()).is_none());
    }
}
