//! Memory that outlives a process: it keeps what was stored when the process ends, at any store, and a power failure leaves it as it was, as
//! it was before, or as nothing at all.

use super::judge::CacheJudge;
use super::plan::Plan;
use super::shards::Shards;
use super::world::CacheWorld;
use crate::rack::SharedRack;
use crate::tally::Failure;
use ::cache::CacheVolume;
use ::cache::config::Invalidate;
use ::cache::shared::{Host, SharedMemory, bytes_for};
use base::random::Random;
use std::sync::{Arc, Mutex};

/// What the memory holds.
struct Held {
    /// Of each shard.
    bytes: Vec<Vec<u8>>,
    /// Stores before the one in which the process ends, and the bytes of that one that arrive.
    cut: Option<(u32, usize)>,
    /// The process has ended so.
    was_cut: bool,
    rack: Option<SharedRack>,
}

/// A mapping of what a shard has of it.
struct Mapping(Arc<Mutex<Held>>, usize);

impl SharedMemory for Mapping {
    fn bytes(&self) -> usize {
        self.0.lock().expect("nobody panics with it").bytes[self.1].len()
    }

    fn read(&self, at: usize, bytes: &mut [u8]) {
        let held = self.0.lock().expect("nobody panics with it");
        bytes.copy_from_slice(&held.bytes[self.1][at..at + bytes.len()]);
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        let mut held = self.0.lock().expect("nobody panics with it");
        let there = held.bytes[self.1].len();
        assert!(at + bytes.len() <= there, "{} bytes at {at} of {there} are stored", bytes.len());
        let rack = held.rack.clone();
        if rack.as_ref().is_some_and(|rack| rack.lock().power.is_off()) {
            return;
        }
        let mut count = bytes.len();
        match &mut held.cut {
            Some((0, arrive)) => {
                count = (*arrive).min(count);
                (held.cut, held.was_cut) = (None, true);
                rack.expect("copies are not cut").lock().power.fail();
            }
            Some((left, _)) => *left -= 1,
            None => {}
        }
        held.bytes[self.1][at..at + count].copy_from_slice(&bytes[..count]);
    }
}

/// See the module.
pub(super) struct Memory {
    held: Arc<Mutex<Held>>,
    is_used: bool,
    older: Vec<Vec<u8>>,
    /// What drives do not hold of a shard went with the machine.
    is_lost: Vec<bool>,
    random: Random,
}

impl Memory {
    pub fn of(plan: &Plan, rack: &SharedRack) -> Memory {
        let bytes = vec![vec![0; bytes_for(plan.shared_places)]; plan.shards];
        let held = Held { bytes, cut: None, was_cut: false, rack: Some(rack.clone()) };
        Memory {
            held: Arc::new(Mutex::new(held)),
            is_used: plan.invalidate == Invalidate::Process,
            older: Vec::new(),
            is_lost: vec![false; plan.shards],
            random: Random::from_seed(plan.seed ^ 0x0cac_4e5d ^ 2 << 40),
        }
    }

    fn mapping(&self, shard: usize) -> Option<Box<dyn SharedMemory>> {
        self.is_used.then(|| Box::new(Mapping(self.held.clone(), shard)) as Box<dyn SharedMemory>)
    }

    /// What it holds of each shard.
    pub fn bytes(&self) -> Vec<Vec<u8>> {
        self.held.lock().expect("nobody panics with it").bytes.clone()
    }

    /// The process ends at a store.
    pub fn cut(&mut self, skip: u32, arrive: usize) {
        self.held.lock().expect("nobody panics with it").cut = Some((skip, arrive));
    }

    /// Remembers what it holds now and then.
    pub fn pass(&mut self) {
        if self.is_used && self.random.chance(1, 16) {
            self.older = self.bytes();
        }
    }

    fn lose(&mut self) {
        let mut held = self.held.lock().expect("nobody panics with it");
        let is_older = self.older.len() == held.bytes.len();
        assert!(self.older.is_empty() || is_older, "{} shards had memory before", self.older.len());
        for (shard, bytes) in held.bytes.iter_mut().enumerate() {
            match self.random.below(4) {
                0 => bytes.fill(0),
                1 => {}
                _ if self.older.is_empty() => {}
                2 => bytes.clone_from(&self.older[shard]),
                _ => {
                    let torn = self.random.index(bytes.len());
                    bytes[..torn].copy_from_slice(&self.older[shard][..torn]);
                }
            }
        }
    }
}

/// A copy of memory, for copies of drives.
#[derive(Clone)]
pub(super) struct Copied {
    boot: [u8; 16],
    held: Option<Arc<Mutex<Held>>>,
}

impl Copied {
    /// The machine, as the mount of a shard is told.
    pub fn host(&self, shard: usize) -> Host {
        let mapping =
            |held: &Arc<Mutex<Held>>| Box::new(Mapping(held.clone(), shard)) as Box<dyn SharedMemory>;
        Host { boot: self.boot, memory: self.held.as_ref().map(mapping) }
    }
}

impl CacheJudge {
    /// The machine, as the mount of a shard is told.
    pub(super) fn host(&self, shard: usize) -> Host {
        Host { boot: self.attended.boot(), memory: self.memory.mapping(shard) }
    }

    /// A copy of its memory.
    pub(super) fn copied_host(&self) -> Copied {
        let held = || Held { bytes: self.memory.bytes(), cut: None, was_cut: false, rack: None };
        let held = self.memory.is_used.then(|| Arc::new(Mutex::new(held())));
        Copied { boot: self.attended.boot(), held }
    }

    /// True when the process has ended at a store to memory, and nobody heard what it would have answered.
    pub(super) fn has_ended_at_store(&mut self) -> bool {
        let mut held = self.memory.held.lock().expect("nobody panics with it");
        std::mem::take(&mut held.was_cut)
    }

    /// A life ends; `needs_none`: the media alone tell what is hidden, by shard.
    pub(super) fn end_memory(&mut self, power: bool, needs_none: &[bool]) {
        self.memory.held.lock().expect("nobody panics with it").cut = None;
        if power && self.memory.is_used {
            self.memory.is_lost.iter_mut().zip(needs_none).for_each(|(is_lost, none)| *is_lost |= !none);
            self.memory.lose();
        }
    }

    /// A life begins: it is empty when entries were lost, and not otherwise.
    pub(super) fn begin_memory(&mut self, shards: &Shards) -> Result<(), Failure> {
        for (shard, volume) in shards.all().iter().enumerate() {
            let is_emptied = volume.status().recovery.is_emptied;
            self.stage.tally.emptied += u64::from(is_emptied);
            let is_lost = std::mem::take(&mut self.memory.is_lost[shard]);
            if is_emptied && !is_lost && !self.stage.may_freeze() {
                return Err(Failure::new("memory is there, and everything is forgotten"));
            }
        }
        Ok(())
    }
}

impl CacheWorld {
    /// The process ends in good order.
    pub(super) fn end_well(&mut self) -> Result<(), Failure> {
        self.life.drain()?;
        if self.life.judge.stage.rack.lock().power.is_off() {
            return Ok(());
        }
        self.life.judge.stage.shards().all_mut().iter_mut().for_each(CacheVolume::begin_stop);
        self.life.turn()?;
        let is_over = |volume: &CacheVolume| volume.has_stopped() || volume.is_frozen();
        while !self.life.judge.stage.mounted().all().iter().all(is_over) {
            if !self.life.step("who stops it")? {
                return Ok(());
            }
        }
        Ok(())
    }
}
