//! The engine on modelled members, and clients in a closed loop.

use super::Setup;
use crate::md_array::NewArray;
use crate::precise::precise_u64;
use crate::workload::{Measured, whole_ns};
use anyhow::{Context, Result, ensure};
use array::inplace::start::Tuning;
use array::inplace::volume::InPlaceVolume;
use array::request::{Outcome, Reply, Request, RequestId, RequestOp, Volume};
use base::random::Random;
use base::time::Instant;
use base::units::{BLOCK_BYTES_U64, Lba};
use block::device::BlockDevice;
use block::devices::DeviceSet;
use block::md::Role;
use drive::modelled::ModelledDevice;
use drive::timing::ModelOptions;
use std::collections::BTreeMap;

/// Turns at one instant after which the engine is stuck.
const TURNS_MAX: u32 = 1_000_000;

/// Requests of clients.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Reads, or writes.
    pub is_read: bool,
    /// Blocks of a request; they begin at multiples of that.
    pub blocks: u64,
    /// Clients, with a request each.
    pub clients: u32,
}

/// Array and clients.
pub struct Rig {
    pub volume: InPlaceVolume,
    pub now: Instant,
    random: Random,
    next_id: u64,
    submitted: BTreeMap<u64, Instant>,
    replies: Vec<Reply>,
}

/// A modelled member.
pub fn device(setup: &Setup, sectors: u64, number: u64) -> Result<Box<dyn BlockDevice>> {
    let options = ModelOptions { seed: setup.seed.wrapping_mul(64) + number, ..ModelOptions::default() };
    let device = ModelledDevice::new(sectors, &setup.profile, options);
    let device = device.with_context(|| format!("{} has zones, or is too small", setup.profile.name()))?;
    Ok(Box::new(device))
}

impl Rig {
    /// An array whose first `lost` members are lost.
    pub fn new(setup: &Setup, array: &NewArray, lost: u16) -> Result<Rig> {
        let mut engine = array.engine(Tuning::default())?;
        (0..lost).for_each(|role| engine.fail_member(Role(role)));
        let devices: Result<Vec<_>> = (0..u64::from(array.members))
            .map(|number| device(setup, array.sectors, number).map(Some))
            .collect();
        Ok(Rig {
            volume: InPlaceVolume::new(engine, DeviceSet::new(devices?)),
            now: Instant(0),
            random: Random::from_seed(setup.seed),
            next_id: 0,
            submitted: BTreeMap::new(),
            replies: Vec::new(),
        })
    }

    /// Clients at work for a while; what was answered in the second half of it counts, and in the first a quarter as much time
    /// passes.
    pub fn run(&mut self, load: Load, span_us: f64) -> Result<Measured> {
        let warm = Instant(self.now.0 + whole_ns(span_us / 4.0));
        let end = Instant(warm.0 + whole_ns(span_us));
        let mut measured = Measured { span_us, ..Measured::default() };
        (0..load.clients).for_each(|_| self.submit(load));
        loop {
            let answered = self.wait(end, |now, latency| {
                if now > warm {
                    measured.latencies_us.push(precise_u64(latency) / 1000.0);
                    measured.bytes += load.blocks * BLOCK_BYTES_U64;
                }
            })?;
            if self.now >= end {
                break;
            }
            (0..answered).for_each(|_| self.submit(load));
        }
        self.finish()?;
        ensure!(!measured.latencies_us.is_empty(), "no request was answered: give more --seconds");
        Ok(measured)
    }

    /// Lets time pass with nobody at work.
    pub fn rest(&mut self, until: Instant) -> Result<()> {
        while self.now < until {
            self.wait(until, |_, _| ())?;
        }
        Ok(())
    }

    /// Waits until everything that was asked is answered.
    fn finish(&mut self) -> Result<()> {
        while !self.submitted.is_empty() {
            self.wait(Instant(u64::MAX), |_, _| ())?;
        }
        Ok(())
    }

    fn submit(&mut self, load: Load) {
        let places = self.volume.blocks() / load.blocks;
        let lba = Lba(self.random.below(places) * load.blocks);
        let op = match load.is_read {
            true => RequestOp::Read { lba, blocks: u32::try_from(load.blocks).expect("a small request") },
            false => {
                let frames =
                    self.volume.frames().take_vec(usize::try_from(load.blocks).expect("a small request"));
                RequestOp::Write { lba, frames, force_unit_access: false }
            }
        };
        self.next_id += 1;
        self.submitted.insert(self.next_id, self.now);
        self.volume.submit(self.now, Request { id: RequestId(self.next_id), op });
    }

    /// Lets time pass until requests are answered, or until then; returns how many were.
    fn wait(&mut self, until: Instant, mut answered: impl FnMut(Instant, u64)) -> Result<usize> {
        let mut count = 0;
        let mut turns = 0;
        loop {
            while self.volume.turn(self.now, &mut self.replies) {
                turns += 1;
                ensure!(turns < TURNS_MAX, "the engine does not come to rest");
            }
            for mut reply in self.replies.drain(..) {
                ensure!(reply.outcome == Outcome::Done, "a request failed");
                let submitted = self.submitted.remove(&reply.id.0).context("answered once")?;
                self.volume.frames().give_many(&mut reply.frames);
                answered(self.now, self.now.since(submitted).0);
                count += 1;
            }
            if count > 0 || self.now >= until {
                return Ok(count);
            }
            let next = self.volume.next_deadline().map(|next| next.max(Instant(self.now.0 + 1)));
            ensure!(next.is_some() || until < Instant(u64::MAX), "nothing is under way and nothing answered");
            self.now = next.map_or(until, |next| next.min(until));
            turns = 0;
        }
    }
}
