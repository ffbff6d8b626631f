//! The layer gives back what it was given, over drives and over the baseline, also while it collects.

#![allow(clippy::unwrap_used, reason = "a test")]

use super::device::{SharedCounters, ZapDevice};
use super::over_raizn::ZapOverRaizn;
use super::*;
use array::driven::Driven;
use array::request::{Reply, Request, RequestId, RequestOp, Volume};
use base::random::Random;
use base::time::Instant;
use base::units::Lba;
use baseline::config::{Header, RaiznConfig, Tuning};
use block::device::{BlockDevice, Command as BlockCommand, FRAME_SECTORS, Op as BlockOp, Token};
use drive::emulated::{EmulatedDrive, TimedDrive};
use drive::timing::{ModelOptions, Profile};
use zone::device::{Geometry, ZonedDevice};
use zone::drives::DriveSet;

/// Three zones may be open: two of clients, one of the collector.
const GEOMETRY: Geometry = Geometry {
    zones: 16,
    zone_size_blocks: 64,
    zone_capacity_blocks: 64,
    open_zones_max: 3,
    active_zones_max: 3,
    append_blocks_max: 16,
    transfer_blocks_max: 64,
    volatile_cache: false,
    areas: None,
};

fn drive(geometry: Geometry, seed: u64) -> TimedDrive {
    let profile = Profile::load("zn540-1tb").unwrap().with_geometry(&geometry);
    let options = ModelOptions { seed, ..ModelOptions::default() };
    TimedDrive::new(EmulatedDrive::on_heap(geometry, [1; 16]).unwrap(), &profile, options)
}

fn config(zones: u32, zone_blocks: u32, merges: bool, policy: VictimPolicy) -> Config {
    // Three quarters of what there is room for at most, and all of it is live in the end.
    let blocks = u64::from(zones - 7) * u64::from(zone_blocks);
    Config { blocks, zones, zone_blocks, command_blocks_max: 16, merges, policy }
}

/// Layer under test: over a zoned drive, or over RAIZN.
trait Layer {
    fn write(&mut self, id: u64, lba: u64, frames: Vec<Frame>);
    fn read(&mut self, id: u64, lba: u64, blocks: usize);
    fn trim(&mut self, id: u64, lba: u64, blocks: u64);
    /// Lets time pass until something is answered.
    fn wait(&mut self) -> Vec<(u64, Vec<Frame>)>;
    fn zap(&self) -> Counters;
}

struct OverDrive {
    device: ZapDevice,
    counters: SharedCounters,
    now: Instant,
}

impl OverDrive {
    fn ask(&mut self, id: u64, op: BlockOp) {
        self.device.submit(self.now, BlockCommand { token: Token(id), op });
    }
}

impl Layer for OverDrive {
    fn write(&mut self, id: u64, lba: u64, frames: Vec<Frame>) {
        self.ask(id, BlockOp::Write { sector: lba * FRAME_SECTORS, frames, durable: false });
    }

    fn read(&mut self, id: u64, lba: u64, blocks: usize) {
        let frames = (0..blocks).map(|_| Frame::zeroed()).collect();
        self.ask(id, BlockOp::Read { sector: lba * FRAME_SECTORS, frames });
    }

    fn trim(&mut self, id: u64, lba: u64, blocks: u64) {
        let (sector, sectors) = (lba * FRAME_SECTORS, blocks * FRAME_SECTORS);
        self.ask(id, BlockOp::Discard { sector, sectors });
    }

    fn wait(&mut self) -> Vec<(u64, Vec<Frame>)> {
        let mut done = Vec::new();
        while done.is_empty() {
            self.now = self.now.max(self.device.next_event().expect("something is under way"));
            self.device.poll(self.now, &mut done);
        }
        done.into_iter().map(|done| (done.token.0, done.frames)).collect()
    }

    fn zap(&self) -> Counters {
        self.counters.get()
    }
}

struct OverRaizn {
    volume: ZapOverRaizn,
    now: Instant,
}

impl OverRaizn {
    fn ask(&mut self, id: u64, op: RequestOp) {
        self.volume.submit(self.now, Request { id: RequestId(id), op });
    }
}

impl Layer for OverRaizn {
    fn write(&mut self, id: u64, lba: u64, frames: Vec<Frame>) {
        let mut own = self.volume.frames().take_vec(frames.len());
        own.iter_mut().zip(frames).for_each(|(own, frame)| own.data = frame.data);
        self.ask(id, RequestOp::Write { lba: Lba(lba), frames: own, force_unit_access: false });
    }

    fn read(&mut self, id: u64, lba: u64, blocks: usize) {
        self.ask(id, RequestOp::Read { lba: Lba(lba), blocks: u32::try_from(blocks).unwrap() });
    }

    fn trim(&mut self, id: u64, lba: u64, blocks: u64) {
        self.ask(id, RequestOp::Trim { lba: Lba(lba), blocks, force_unit_access: false });
    }

    fn wait(&mut self) -> Vec<(u64, Vec<Frame>)> {
        let mut replies: Vec<Reply> = Vec::new();
        loop {
            while self.volume.turn(self.now, &mut replies) {}
            if !replies.is_empty() {
                return replies.into_iter().map(|reply| (reply.id.0, reply.frames)).collect();
            }
            self.now = self.volume.pass_time(Instant(self.now.0 + 1), None).expect("something is under way");
        }
    }

    fn zap(&self) -> Counters {
        *self.volume.zap.counters()
    }
}

fn over_drive(merges: bool, policy: VictimPolicy) -> OverDrive {
    let zap = DmZap::new(config(GEOMETRY.zones, 64, merges, policy)).unwrap();
    let counters = SharedCounters::default();
    let device = ZapDevice::new(zap, Box::new(drive(GEOMETRY, 1)), counters.clone());
    OverDrive { device, counters, now: Instant(0) }
}

fn over_raizn(merges: bool, policy: VictimPolicy) -> OverRaizn {
    let geometry = Geometry {
        zones: 19,
        zone_size_blocks: 1024,
        zone_capacity_blocks: 1024,
        open_zones_max: 7,
        active_zones_max: 7,
        ..GEOMETRY
    };
    let raizn = RaiznConfig { array: [7; 16], members: 4, chunk_blocks: 4, geometry };
    let tuning = Tuning { stripes_in_flight: 8, ..Tuning::usual(&raizn, Header::OutOfBand) };
    raizn.validate(&tuning).unwrap();
    let drives = (0..4).map(|seed| Some(Box::new(drive(geometry, seed)) as Box<dyn ZonedDevice>));
    let mut drives = DriveSet::new(drives.collect());
    baseline::format(&mut drives, &raizn, &tuning).unwrap();
    let (engine, drives) = baseline::mount(drives.into_inner(), tuning, Instant(1_000_000_000)).unwrap();
    let below = Driven::new(engine, drives);
    let config = config(raizn.logical_zones(), below.engine.zone_blocks(), merges, policy);
    let volume = ZapOverRaizn::new(DmZap::new(config).unwrap(), below);
    OverRaizn { volume, now: Instant(2_000_000_000) }
}

/// Writes, trims and reads; of what overlaps in flight the later counts. Returns the counts.
fn check(layer: &mut impl Layer, blocks: u64, rounds: u64, size_max: u64) -> Counters {
    let mut random = Random::from_seed(11);
    let mut expected = vec![0_u64; usize::try_from(blocks).unwrap()];
    let mut id = 0;
    for round in 0..rounds {
        let mut under_way = 0;
        for _ in 0..8 {
            id += 1;
            under_way += 1;
            let count = 1 + random.below(size_max);
            // Half of writes to a tenth of the blocks: some zones die sooner than others.
            let range = if random.chance(1, 2) { blocks / 10 } else { blocks };
            let lba = random.below(range.max(count + 1) - count);
            let trims = random.chance(1, 20);
            let own = if trims { 0 } else { id };
            expected[usize::try_from(lba).unwrap()..][..usize::try_from(count).unwrap()].fill(own);
            if trims {
                layer.trim(id, lba, count);
            } else {
                let frames = (0..count).map(|at| frame(own, lba + at)).collect();
                layer.write(id, lba, frames);
            }
        }
        while under_way > 0 {
            under_way -= layer.wait().len();
        }
        let is_last = round + 1 == rounds;
        let (mut lba, end) = if is_last { (0, blocks) } else { (random.below(blocks - 40), 0) };
        loop {
            id += 1;
            let count = if is_last { 40.min(end - lba) } else { 1 + random.below(40) };
            layer.read(id, lba, usize::try_from(count).unwrap());
            let answers = layer.wait();
            let [(answered, frames)] = &answers[..] else { panic!("one answer") };
            assert_eq!((*answered, frames.len() as u64), (id, count));
            for (at, read) in (lba..).zip(frames) {
                let version = expected[usize::try_from(at).unwrap()];
                let wanted = if version == 0 { [0; BLOCK_BYTES] } else { frame(version, at).data };
                assert!(read.data == wanted, "block {at} in round {round}");
            }
            lba += count;
            if lba >= end {
                break;
            }
        }
    }
    layer.zap()
}

/// A version of a block.
fn frame(version: u64, lba: u64) -> Frame {
    let mut frame = Frame::zeroed();
    frame.data[..8].copy_from_slice(&version.to_le_bytes());
    frame.data[8..16].copy_from_slice(&lba.to_le_bytes());
    frame
}

#[test]
fn what_was_written_is_read_over_a_drive() {
    for policy in [VictimPolicy::Greedy, VictimPolicy::CostBenefit] {
        for merges in [false, true] {
            let mut layer = over_drive(merges, policy);
            let counters = check(&mut layer, 9 * 64, 600, 24);
            assert!(counters.moved > 0 && counters.resets > 100, "{counters:?}");
            layer.device.zap().check();
        }
    }
}

#[test]
fn what_was_written_is_read_over_the_baseline() {
    for merges in [false, true] {
        let mut layer = over_raizn(merges, VictimPolicy::Greedy);
        let counters = check(&mut layer, 9 * 3072, 900, 120);
        assert!(counters.moved > 0 && counters.resets > 20, "{counters:?}");
        layer.volume.zap.check();
        let below = layer.volume.raizn().counters().user_blocks;
        assert!(below == counters.user + counters.moved, "nothing else is written: {below}, {counters:?}");
    }
}

/// Commands of 24 writes of a block that come at once.
fn commands(merges: bool) -> Vec<(u32, usize)> {
    let mut zap = DmZap::new(config(16, 64, merges, VictimPolicy::Greedy)).unwrap();
    let (mut fx, mut all, mut answered) = (Effects::default(), Vec::new(), 0);
    for lba in 0..24 {
        zap.write(lba, lba, vec![Frame::zeroed()], &mut fx);
    }
    while !fx.commands.is_empty() {
        let sent = std::mem::take(&mut fx.commands);
        assert!(sent.len() <= 2 && sent.windows(2).all(|pair| pair[0].zone != pair[1].zone));
        for Command { token, zone, op, .. } in sent {
            let Op::Write(frames) = op else { panic!("a write") };
            all.push((zone, frames.len()));
            zap.done(token, frames, &mut fx);
        }
        answered += std::mem::take(&mut fx.answers).len();
    }
    assert_eq!(answered, 24);
    all
}

/// Two zones with one write in flight each; those that wait leave one by one, or together.
#[test]
fn two_zones_are_written_one_command_at_a_time() {
    let alone = commands(false);
    assert_eq!(alone.len(), 24);
    assert_eq!(alone.iter().filter(|(zone, _)| *zone == 0).count(), 12);
    assert!(alone.iter().all(|(zone, blocks)| *zone < 2 && *blocks == 1));
    assert_eq!(commands(true), [(0, 1), (1, 1), (0, 22)]);
}

/// Victims differ by policy: a zone that died a little long ago, or one that dies fast.
#[test]
fn policies_choose_different_victims() {
    for (policy, expected) in [(VictimPolicy::Greedy, 1), (VictimPolicy::CostBenefit, 0)] {
        let zap = DmZap::new(config(16, 64, false, policy)).unwrap();
        let scores = [(32, 1000), (24, 10)].map(|(live, age)| reclaim::benefit(&zap.config, live, age));
        assert_eq!(usize::from(scores[1] > scores[0]), expected, "{policy:?}: {scores:?}");
    }
}

#[test]
fn zones_without_room_for_collection_are_refused() {
    let config = config(16, 64, false, VictimPolicy::Greedy);
    assert!(DmZap::new(Config { blocks: 11 * 64, ..config }).is_ok());
    assert!(DmZap::new(Config { blocks: 11 * 64 + 1, ..config }).is_err());
}
