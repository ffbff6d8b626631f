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
use base::time::{Instant, Nanos};
use base::units::{BLOCK_BYTES_U64, Lba};
use block::device::BlockDevice;
use block::devices::DeviceSet;
use block::md::Role;
use drive::modelled::ModelledDevice;
use drive::timing::ModelOptions;
use std::collections::BTreeMap;

/// Turns at one instant after which the engine is stuck.
const TURNS_MAX: u32 = 1_000_000;

/// Frames for clients: 64 requests of 2 MiB.
const CLIENT_FRAMES: usize = 64 * 512;

/// Places of requests, each a multiple of their size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Places {
    /// Anywhere.
    Random,
    /// Sequential, each client in a part of the volume of its own.
    Sequential,
    /// Sequential, all clients in one stream.
    Together,
}

/// Requests of clients.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Places.
    pub places: Places,
    /// Reads, or writes.
    pub is_read: bool,
    /// Blocks of a request; they begin at multiples of that.
    pub blocks: u64,
    /// Clients, with a request each.
    pub clients: u32,
}

/// Array and clients.
pub struct MdRig {
    pub volume: InPlaceVolume,
    pub now: Instant,
    random: Random,
    next_id: u64,
    /// Time and client of what is under way.
    submitted: BTreeMap<u64, (Instant, u32)>,
    /// Places that each client has taken.
    taken: Vec<u64>,
    replies: Vec<Reply>,
}

/// A modelled member.
pub fn device(setup: &Setup, sectors: u64, number: u64) -> Result<Box<dyn BlockDevice>> {
    let options = ModelOptions { seed: setup.seed.wrapping_mul(64) + number, ..ModelOptions::default() };
    let device = ModelledDevice::new(sectors, &setup.profile, options);
    let device = device.with_context(|| format!("{} has zones, or is too small", setup.profile.name()))?;
    Ok(Box::new(device))
}

/// An array with frames for the clients of a rig, on modelled devices.
pub fn volume(setup: &Setup, array: &NewArray, tuning: Tuning) -> Result<InPlaceVolume> {
    let engine = array.engine(Tuning { client_frames: CLIENT_FRAMES, ..tuning })?;
    let numbers = 0..u64::from(array.members);
    let devices: Result<Vec<_>> =
        numbers.map(|number| device(setup, array.sectors, number).map(Some)).collect();
    Ok(InPlaceVolume::new(engine, DeviceSet::new(devices?)))
}

impl MdRig {
    /// An array whose first `lost` members are lost.
    pub fn new(setup: &Setup, array: &NewArray, lost: u16) -> Result<MdRig> {
        MdRig::tuned(setup, array, lost, Tuning::default())
    }

    /// The same with an engine that is tuned.
    pub fn tuned(setup: &Setup, array: &NewArray, lost: u16, tuning: Tuning) -> Result<MdRig> {
        let mut volume = volume(setup, array, tuning)?;
        (0..lost).for_each(|role| volume.engine.core_mut().fail_member(Role(role)));
        Ok(MdRig {
            volume,
            now: Instant(0),
            random: Random::from_seed(setup.seed),
            next_id: 0,
            submitted: BTreeMap::new(),
            taken: Vec::new(),
            replies: Vec::new(),
        })
    }

    /// Clients at work for a while, after a quarter as much time that does not count.
    pub fn run(&mut self, load: Load, span_us: f64) -> Result<Measured> {
        let warm = Instant(self.now.0 + whole_ns(span_us / 4.0));
        let end = Instant(warm.0 + whole_ns(span_us));
        let mut measured = Measured { span_us, ..Measured::default() };
        self.taken = vec![0; usize::try_from(load.clients)?];
        (0..load.clients).for_each(|client| self.submit(load, client));
        let mut answered = Vec::new();
        while self.now < end {
            self.wait(end, &mut answered)?;
            for (latency, client) in answered.drain(..) {
                if self.now > warm {
                    measured.latencies_us.push(precise_u64(latency.0) / 1000.0);
                    measured.bytes += load.blocks * BLOCK_BYTES_U64;
                }
                if self.now < end {
                    self.submit(load, client);
                }
            }
        }
        self.finish()?;
        ensure!(!measured.latencies_us.is_empty(), "no request was answered: give more --seconds");
        Ok(measured)
    }

    /// Lets time pass with nobody at work.
    pub fn rest(&mut self, until: Instant) -> Result<()> {
        while self.now < until {
            self.wait(until, &mut Vec::new())?;
        }
        Ok(())
    }

    /// Waits until everything that was asked is answered.
    fn finish(&mut self) -> Result<()> {
        while !self.submitted.is_empty() {
            self.wait(Instant(u64::MAX), &mut Vec::new())?;
        }
        Ok(())
    }

    fn submit(&mut self, load: Load, client: u32) {
        let places = self.volume.blocks() / load.blocks;
        let own = places / u64::from(load.clients);
        let taker = if load.places == Places::Together { 0 } else { client };
        let taken = &mut self.taken[usize::try_from(taker).expect("a number of a client")];
        let place = match load.places {
            Places::Random => self.random.below(places),
            Places::Sequential => u64::from(client) * own + *taken % own,
            Places::Together => *taken % places,
        };
        *taken += 1;
        let lba = Lba(place * load.blocks);
        let op = match load.is_read {
            true => RequestOp::Read { lba, blocks: u32::try_from(load.blocks).expect("a small request") },
            false => {
                let frames =
                    self.volume.frames().take_vec(usize::try_from(load.blocks).expect("a small request"));
                RequestOp::Write { lba, frames, force_unit_access: false }
            }
        };
        self.next_id += 1;
        self.submitted.insert(self.next_id, (self.now, client));
        self.volume.submit(self.now, Request { id: RequestId(self.next_id), op });
    }

    /// Lets time pass until requests are answered, or until then: their latencies and clients.
    fn wait(&mut self, until: Instant, answered: &mut Vec<(Nanos, u32)>) -> Result<()> {
        let mut turns = 0;
        loop {
            while self.volume.turn(self.now, &mut self.replies) {
                turns += 1;
                ensure!(turns < TURNS_MAX, "the engine does not come to rest");
            }
            for mut reply in self.replies.drain(..) {
                ensure!(reply.outcome == Outcome::Done, "a request failed");
                let (submitted, client) = self.submitted.remove(&reply.id.0).context("answered once")?;
                self.volume.frames().give_many(&mut reply.frames);
                answered.push((self.now.since(submitted), client));
            }
            if !answered.is_empty() || self.now >= until {
                return Ok(());
            }
            let next = self.volume.next_deadline().map(|next| next.max(Instant(self.now.0 + 1)));
            ensure!(next.is_some() || until < Instant(u64::MAX), "nothing is under way and nothing answered");
            self.now = next.map_or(until, |next| next.min(until));
            turns = 0;
        }
    }
}
