//! Models that are told, or tell, a little more.

use crate::characterise::setting::Opening;
use crate::workload::{Target, whole_ns};
use base::random::Random;
use base::time::Instant;
use base::units::BLOCK_BYTES_U64;
use drive::timing::{Access, Done, Model, StackCosts, ZoneCondition};

/// Counts the commands that reach the drive.
pub struct Counting {
    model: Model,
    pub commands: usize,
    bytes: u64,
}

impl Counting {
    pub fn new(model: Model) -> Counting {
        Counting { model, commands: 0, bytes: 0 }
    }

    /// Returns the count of requests of this size that the commands were made of.
    pub fn requests(&self, request_bytes: u64) -> usize {
        usize::try_from(self.bytes / request_bytes).expect("requests fit in memory")
    }
}

impl Target for Counting {
    fn zone_capacity_bytes(&self) -> u64 {
        self.model.zone_capacity_bytes()
    }

    fn submit(&mut self, now: Instant, tag: u64, access: Access) {
        if let Access::Write { bytes, .. } | Access::Append { bytes, .. } = access {
            self.commands += 1;
            self.bytes += bytes;
        }
        self.model.submit(now, tag, access);
    }

    fn wait(&mut self, until: Option<Instant>) -> Option<Instant> {
        self.model.wait(until)
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<Done>) {
        self.model.advance(now, done);
    }

    fn preset_zone(&mut self, zone: u32, written_bytes: u64, condition: ZoneCondition) {
        self.model.preset_zone(zone, written_bytes, condition);
    }

    fn preset_area(&mut self, zone: u32, held_bytes: u64) {
        Target::preset_area(&mut self.model, zone, held_bytes);
    }
}

/// A drive without zones whose writes go anywhere.
pub struct RandomPlaces {
    model: Model,
    random: Random,
}

impl RandomPlaces {
    pub fn new(model: Model, seed: u64) -> RandomPlaces {
        RandomPlaces { model, random: Random::from_seed(seed ^ 0x91ace5) }
    }
}

impl Target for RandomPlaces {
    fn zone_capacity_bytes(&self) -> u64 {
        self.model.zone_capacity_bytes()
    }

    fn submit(&mut self, now: Instant, tag: u64, access: Access) {
        let access = match access {
            Access::Write { zone, bytes, .. } => {
                let places = self.model.zone_capacity_bytes() / bytes;
                Access::Write { zone, offset_bytes: self.random.below(places) * bytes, bytes }
            }
            access => access,
        };
        self.model.submit(now, tag, access);
    }

    fn wait(&mut self, until: Option<Instant>) -> Option<Instant> {
        self.model.wait(until)
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<Done>) {
        self.model.advance(now, done);
    }

    /// Nothing to do: there are no zones.
    fn preset_zone(&mut self, _zone: u32, _written_bytes: u64, _condition: ZoneCondition) {}

    /// Nothing to do: there are no zones.
    fn preset_area(&mut self, _zone: u32, _held_bytes: u64) {}
}

/// Writes after the first that are measured in each zone.
const LATER_WRITES: u64 = 8;

/// Nanoseconds after which written data is on flash.
const PAUSE_NS: u64 = 10_000_000;

/// Sequence of commands, one after the other.
pub struct Sequence {
    model: Model,
    costs: StackCosts,
    now: u64,
}

/// Latencies in the life of one zone.
pub struct Steps {
    pub open_us: Option<f64>,
    pub first_us: f64,
    pub later_us: Vec<f64>,
    pub close_us: f64,
}

impl Sequence {
    pub fn new(model: Model, costs: StackCosts) -> Sequence {
        Sequence { model, costs, now: 0 }
    }

    /// Opens a zone, writes a little and closes it; then resets it, so that the drive never has more
    /// than one active zone.
    pub fn zone(&mut self, zone: u32, opening: &Opening) -> Option<Steps> {
        let write = |block: u64| match opening.appends {
            true => Access::Append { zone, bytes: BLOCK_BYTES_U64 },
            false => Access::Write { zone, offset_bytes: block * BLOCK_BYTES_U64, bytes: BLOCK_BYTES_U64 },
        };
        let open_us = match opening.explicit {
            true => Some(self.one(Access::Open { zone })?),
            false => None,
        };
        let first_us = self.one(write(0))?;
        let later_us = (1..=LATER_WRITES).map(|block| self.one(write(block))).collect::<Option<_>>()?;
        let close_us = self.one(Access::Close { zone })?;
        self.one(Access::Reset { zone })?;
        self.now += PAUSE_NS;
        Some(Steps { open_us, first_us, later_us, close_us })
    }

    fn one(&mut self, access: Access) -> Option<f64> {
        let mut done = Vec::new();
        self.model.submit(Instant(self.now), 0, access);
        while done.is_empty() {
            let next = self.model.next_event()?;
            self.model.advance(next, &mut done);
        }
        let latency_ns = done[0].at.0 - self.now;
        self.now = done[0].at.0 + whole_ns(self.costs.think_us);
        Some(crate::characterise::numbers::precise_bytes(latency_ns) / 1000.0)
    }
}
