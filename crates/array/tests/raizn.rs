//! The RAIZN-like baseline on drives that reorder, tear and crash, against an oracle.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test")]

mod support;

use array::raizn::config::{Header, RaiznConfig, Tuning};
use array::raizn::volume::RaiznVolume;
use array::raizn::{MountError, format, mount};
use array::request::{Outcome, Reply, Request, RequestId, RequestOp};
use base::random::Random;
use base::time::Instant;
use base::units::{DriveIndex, Lba};
use drive::emulated::EmulatedDrive;
use std::collections::BTreeMap;
use support::device::Device;
use support::oracle::{Stamp, fill, stamp_of};
use support::world::boxed;
use zone::device::Geometry;
use zone::drives::DriveSet;

/// How many seeds: more with `ZONEWEAVE_SEEDS`.
fn seeds(usual: u64) -> std::ops::Range<u64> {
    let count = std::env::var("ZONEWEAVE_SEEDS").ok().and_then(|text| text.parse().ok());
    0..count.unwrap_or(usual)
}

fn draw(random: &mut Random) -> (RaiznConfig, Tuning) {
    let members = 2 + random.index(4);
    let chunk_blocks = [1, 1, 2, 4][random.index(4)];
    let open = 1 + random.below(2) as u32;
    let stripes_in_flight = 1 + random.below(3) as u32;
    let reserve = open * stripes_in_flight * 2 * chunk_blocks + 16;
    // Small enough for log zones to be replaced often.
    let capacity =
        (2 * reserve + 8 * chunk_blocks + 80 + random.below(40) as u32).next_multiple_of(chunk_blocks);
    let geometry = Geometry {
        zones: 3 + open + random.below(2) as u32,
        zone_size_blocks: capacity.next_power_of_two(),
        zone_capacity_blocks: capacity,
        open_zones_max: 3 + open,
        active_zones_max: 3 + open,
        append_blocks_max: [2, 3, 16][random.index(3)],
        transfer_blocks_max: 32,
        volatile_cache: false,
    };
    let config = RaiznConfig { array: *b"array under test", members, chunk_blocks, geometry };
    let header = if random.chance(1, 2) { Header::Block } else { Header::OutOfBand };
    let write_blocks_max = chunk_blocks * [1, 2, 8][random.index(3)];
    let tuning = Tuning { header, stripes_in_flight, write_blocks_max };
    config.validate(&tuning).unwrap();
    (config, tuning)
}

/// What the client knows of a logical zone.
#[derive(Clone, Default)]
struct ZoneModel {
    /// Stamp of every block written since the last reset, and whether it is acknowledged.
    blocks: Vec<(Stamp, bool)>,
    /// A reset is in flight; what was there before it.
    resetting: Option<Vec<(Stamp, bool)>>,
}

enum Pending {
    Write { zone: u32, at: usize, blocks: usize, life: u64 },
    Reset { zone: u32 },
    Read { lba: u64, allowed: Vec<Vec<Stamp>> },
    Flush { written: Vec<(u32, usize, u64)> },
}

struct World {
    config: RaiznConfig,
    tuning: Tuning,
    random: Random,
    volume: RaiznVolume,
    devices: Vec<Option<Device>>,
    zones: Vec<ZoneModel>,
    /// Counts the resets of each zone.
    lives: Vec<u64>,
    pending: BTreeMap<u64, Pending>,
    next_id: u64,
    next_stamp: Stamp,
    now: Instant,
    log_zones_replaced: u64,
    relocated: usize,
    /// None was lost yet.
    may_lose: bool,
    /// Zones are not reset.
    keeps_zones: bool,
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random::from_seed(seed);
        let (config, tuning) = draw(&mut random);
        let devices: Vec<Option<Device>> = (0..config.members)
            .map(|member| Some(Device::new(config.geometry, [member as u8 + 1; 16], seed + member as u64)))
            .collect();
        let mut drives = DriveSet::new(boxed(&devices));
        format(&mut drives, &config, &tuning).unwrap();
        let (engine, drives) = mount(drives.into_inner(), tuning, Instant(0)).unwrap();
        let zones = vec![ZoneModel::default(); config.logical_zones() as usize];
        let world = World {
            lives: vec![0; zones.len()],
            zones,
            config,
            tuning,
            random,
            volume: RaiznVolume::new(engine, drives),
            devices,
            pending: BTreeMap::new(),
            next_id: 0,
            next_stamp: 1,
            now: Instant(0),
            log_zones_replaced: 0,
            relocated: 0,
            may_lose: true,
            keeps_zones: false,
        };
        world.set_lazy();
        world
    }

    fn set_lazy(&self) {
        self.devices.iter().flatten().for_each(Device::set_lazy);
    }

    fn zone_blocks(&self) -> usize {
        self.volume.engine().zone_blocks() as usize
    }

    fn submit(&mut self, op: RequestOp, pending: Pending) {
        self.next_id += 1;
        self.pending.insert(self.next_id, pending);
        self.volume.submit(Request { id: RequestId(self.next_id), op });
    }

    /// True when the client may write to a zone: it knows how many may be open.
    fn may_write(&self, zone: u32) -> bool {
        let full = self.zone_blocks();
        let is_open = |model: &ZoneModel| {
            let before = model.resetting.as_ref().is_some_and(|before| !before.is_empty());
            before
                || !model.blocks.is_empty() && model.blocks.len() < full
                || model.blocks.iter().any(|(_, acked)| !acked)
        };
        let open = self.zones.iter().enumerate().filter(|(at, model)| *at != zone as usize && is_open(model));
        self.zones[zone as usize].blocks.len() < full
            && open.count() < (self.config.open_logical_zones_max()) as usize
    }

    fn write(&mut self, zone: u32, blocks: usize) {
        let at = self.zones[zone as usize].blocks.len();
        let blocks = blocks.min(self.zone_blocks() - at);
        let lba = self.volume.engine().zone_start(zone).0 + at as u64;
        let mut frames = Vec::new();
        self.volume.frames().take_many(blocks, &mut frames);
        for (lba, frame) in (lba..).zip(&mut frames) {
            fill(&mut frame.data, lba, self.next_stamp);
            self.zones[zone as usize].blocks.push((self.next_stamp, false));
            self.next_stamp += 1;
        }
        let op = RequestOp::Write { lba: Lba(lba), frames, force_unit_access: false };
        self.submit(op, Pending::Write { zone, at, blocks, life: self.lives[zone as usize] });
    }

    fn reset(&mut self, zone: u32) {
        let model = &mut self.zones[zone as usize];
        if model.resetting.is_some() || self.keeps_zones {
            return;
        }
        model.resetting = Some(std::mem::take(&mut model.blocks));
        self.lives[zone as usize] += 1;
        let (lba, blocks) = (self.volume.engine().zone_start(zone), self.zone_blocks() as u64);
        self.submit(RequestOp::Trim { lba, blocks, force_unit_access: false }, Pending::Reset { zone });
    }

    /// Stamps that a block may hold.
    fn allowed(&self, zone: usize, at: usize) -> Vec<Stamp> {
        let of = |blocks: &[(Stamp, bool)]| match blocks.get(at) {
            Some((stamp, true)) => vec![*stamp],
            Some((stamp, false)) => vec![*stamp, 0],
            None => vec![0],
        };
        let mut allowed = of(&self.zones[zone].blocks);
        if let Some(before) = &self.zones[zone].resetting {
            allowed.extend(of(before));
            allowed.push(0);
        }
        allowed
    }

    fn read(&mut self, lba: u64, blocks: u32) {
        let full = self.zone_blocks();
        let allowed = (lba..lba + u64::from(blocks))
            .map(|lba| self.allowed(lba as usize / full, lba as usize % full))
            .collect();
        self.submit(RequestOp::Read { lba: Lba(lba), blocks }, Pending::Read { lba, allowed });
    }

    fn flush(&mut self) {
        let written = (0..)
            .zip(&self.zones)
            .zip(&self.lives)
            .map(|((zone, model), life)| (zone, model.blocks.len(), *life))
            .collect();
        self.submit(RequestOp::Flush, Pending::Flush { written });
    }

    fn turn(&mut self) {
        self.now = Instant(self.now.0 + 1000);
        let mut replies = Vec::new();
        self.volume.turn(self.now, &mut replies);
        for reply in replies {
            self.on_reply(reply);
        }
        self.volume.engine().check_invariants();
    }

    fn on_reply(&mut self, mut reply: Reply) {
        let pending = self.pending.remove(&reply.id.0).expect("answered once");
        assert_eq!(reply.outcome, Outcome::Done);
        match pending {
            Pending::Write { zone, at, blocks, life } => {
                let is_gone = self.lives[zone as usize] > life;
                let model = &mut self.zones[zone as usize];
                let written = if is_gone { model.resetting.as_mut() } else { Some(&mut model.blocks) };
                written.unwrap()[at..at + blocks].iter_mut().for_each(|(_, acked)| *acked = true);
            }
            Pending::Reset { zone } => self.zones[zone as usize].resetting = None,
            Pending::Read { lba, allowed } => {
                for ((lba, frame), allowed) in (lba..).zip(&reply.frames).zip(&allowed) {
                    let stamp = stamp_of(&frame.data, lba);
                    let full = self.zone_blocks();
                    let now = self.allowed(lba as usize / full, lba as usize % full);
                    assert!(
                        allowed.contains(&stamp) || now.contains(&stamp),
                        "block {lba} reads {stamp}; allowed {allowed:?}, now {now:?}"
                    );
                }
            }
            Pending::Flush { written } => {
                for (zone, blocks, life) in written {
                    let model = &self.zones[zone as usize];
                    if self.lives[zone as usize] == life {
                        assert!(
                            model.blocks[..blocks].iter().all(|(_, acked)| *acked),
                            "flushed is acknowledged"
                        );
                    }
                }
            }
        }
        self.volume.frames().give_many(&mut reply.frames);
    }

    fn step(&mut self) {
        let zone = self.random.below(u64::from(self.config.logical_zones())) as u32;
        match self.random.below(20) {
            0..=9 if self.may_write(zone) => {
                let blocks = 1 + self.random.index([1, 3, 20][self.random.clone().index(3)]);
                self.write(zone, blocks);
            }
            10 if self.zones[zone as usize].blocks.len() * 2 > self.zone_blocks()
                || self.random.chance(1, 20) =>
            {
                self.reset(zone);
            }
            11..=12 => {
                let lba = self.random.below(self.volume.engine().blocks());
                let blocks = (1 + self.random.below(12)).min(self.volume.engine().blocks() - lba);
                self.read(lba, blocks as u32);
            }
            13 => self.flush(),
            _ => self.turn(),
        }
    }

    /// A while of service; sometimes long enough for logs to be replaced.
    fn serve(&mut self) {
        let steps_max = if self.random.chance(1, 6) { 1500 } else { 200 };
        for _ in 0..self.random.below(steps_max) {
            self.step();
        }
    }

    fn quiesce(&mut self) {
        for _ in 0..200_000 {
            if self.pending.is_empty() && self.volume.is_at_rest() {
                return;
            }
            self.turn();
        }
        panic!("the engine does not come to rest: {} requests wait", self.pending.len());
    }

    /// The power goes, and comes back; a drive may be lost with it. What a mount writes may be cut off as well.
    fn crash(&mut self, lost: Option<usize>) {
        self.log_zones_replaced += self.volume.engine().counters().log_zones_replaced;
        self.pending.clear();
        self.power_cycle(lost);
        for _ in 0..self.random.below(3) {
            self.cut_mount();
            let more = self.may_lose && self.devices.iter().all(Option::is_some) && self.random.chance(1, 4);
            let lost = more.then(|| self.random.index(self.config.members));
            self.power_cycle(lost);
        }
        self.set_lazy();
        let (engine, drives) = mount(boxed(&self.devices), self.tuning, self.now).unwrap();
        self.relocated += engine.relocated_rows();
        self.volume = RaiznVolume::new(engine, drives);
        self.volume.engine().check_invariants();
        self.observe();
    }

    fn power_cycle(&mut self, lost: Option<usize>) {
        for member in 0..self.config.members {
            let media = self.devices[member].as_ref().map(Device::crash);
            let seed = self.random.bits();
            self.devices[member] =
                media.filter(|_| lost != Some(member)).map(|media| Device::from_media(media, seed));
        }
    }

    /// A mount that gets only so far.
    fn cut_mount(&mut self) {
        self.set_lazy();
        let commands = 1 + self.random.below(60);
        let fuse = support::fuse::Fuse::new(commands);
        let devices = self.devices.iter().map(|device| {
            device.clone().map(|device| Box::new(fuse.over(device)) as Box<dyn zone::device::ZonedDevice>)
        });
        // It either ends in time or fails at the drive that went away.
        match mount(devices.collect(), self.tuning, self.now) {
            Ok(_) | Err(MountError::Drive { .. }) => {}
            Err(error) => panic!("a mount that is cut off fails otherwise: {error}"),
        }
    }

    /// What the volume holds after a crash is what it held, as far as it was acknowledged; and that stays.
    fn observe(&mut self) {
        let full = self.zone_blocks();
        for zone in 0..self.zones.len() {
            let lba = self.volume.engine().zone_start(zone as u32).0;
            let stamps = self.read_now(lba, full);
            let pointer = self.volume.engine().write_pointer(zone as u32) as usize;
            let is_of = |blocks: &[(Stamp, bool)]| {
                let acked = blocks.iter().rposition(|(_, acked)| *acked).map_or(0, |last| last + 1);
                pointer >= acked
                    && pointer <= blocks.len()
                    && stamps.iter().enumerate().all(|(at, stamp)| match blocks.get(at) {
                        Some((written, true)) => stamp == written,
                        Some((written, false)) => stamp == written || *stamp == 0,
                        None => *stamp == 0,
                    })
            };
            let model = &self.zones[zone];
            let before = model.resetting.as_ref().is_some_and(|before| is_of(before));
            assert!(
                is_of(&model.blocks) || before,
                "zone {zone}, written up to {pointer}: {stamps:?}\n{:?}",
                model.blocks
            );
            let blocks = stamps[..pointer].iter().map(|stamp| (*stamp, true)).collect();
            self.zones[zone] = ZoneModel { blocks, resetting: None };
        }
    }

    fn read_now(&mut self, lba: u64, blocks: usize) -> Vec<Stamp> {
        self.volume.submit(Request {
            id: RequestId(0),
            op: RequestOp::Read { lba: Lba(lba), blocks: blocks as u32 },
        });
        let mut replies = Vec::new();
        while replies.is_empty() {
            self.volume.turn(self.now, &mut replies);
        }
        let mut reply = replies.pop().unwrap();
        assert_eq!(reply.outcome, Outcome::Done, "blocks {lba} to {}", lba + blocks as u64);
        let stamps = (lba..).zip(&reply.frames).map(|(lba, frame)| stamp_of(&frame.data, lba)).collect();
        self.volume.frames().give_many(&mut reply.frames);
        stamps
    }

    /// Everything is read back, from the drives as they are.
    fn verify_all(&mut self) {
        self.quiesce();
        for zone in 0..self.zones.len() {
            let lba = self.volume.engine().zone_start(zone as u32).0;
            let stamps = self.read_now(lba, self.zone_blocks());
            let mut expected: Vec<Stamp> = self.zones[zone].blocks.iter().map(|(stamp, _)| *stamp).collect();
            expected.resize(stamps.len(), 0);
            assert_eq!(stamps, expected, "zone {zone}");
        }
    }
}

#[test]
fn random_work_is_read_back() {
    let mut log_zones_replaced = 0;
    for seed in seeds(40) {
        println!("seed {seed}");
        let mut world = World::new(seed);
        for _ in 0..1500 {
            world.step();
        }
        world.verify_all();
        log_zones_replaced += world.volume.engine().counters().log_zones_replaced;
    }
    assert!(log_zones_replaced > 20, "logs were replaced {log_zones_replaced} times");
}

#[test]
fn crashes_lose_nothing_acknowledged() {
    let (mut log_zones_replaced, mut relocated) = (0, 0);
    for seed in seeds(150) {
        println!("seed {seed}");
        let mut world = World::new(seed);
        for _ in 0..6 {
            world.serve();
            world.crash(None);
        }
        world.verify_all();
        log_zones_replaced += world.log_zones_replaced;
        relocated += world.relocated;
    }
    assert!(log_zones_replaced > 20, "logs were replaced {log_zones_replaced} times");
    assert!(relocated > 20, "{relocated} rows were relocated");
}

/// A drive is lost with a crash, whichever; what was never acknowledged of it may be gone.
#[test]
fn crashes_with_a_drive_lost_lose_nothing() {
    for seed in seeds(800) {
        println!("seed {seed}");
        let mut world = World::new(seed);
        for _ in 0..world.random.below(3) {
            world.serve();
            world.crash(None);
        }
        world.serve();
        let lost = world.random.index(world.config.members);
        if world.devices.iter().all(Option::is_some) {
            world.crash(Some(lost));
        }
        for _ in 0..2 {
            world.serve();
            world.crash(None);
        }
        world.verify_all();
    }
}

/// Parity that a crash left out of its place moves with the log, and a drive that is lost then is decoded from it.
#[test]
fn relocated_parity_moves_with_the_log() {
    let mut moved = 0;
    for seed in seeds(150) {
        println!("seed {seed}");
        let mut world = World::new(seed);
        world.may_lose = false;
        for _ in 0..4 {
            world.serve();
            world.crash(None);
        }
        if world.volume.engine().relocated_rows() == 0 {
            continue;
        }
        world.keeps_zones = true;
        for _ in 0..1500 {
            world.step();
        }
        moved += world.volume.engine().counters().log_zones_replaced;
        world.crash(None);
        let lost = world.random.index(world.config.members);
        world.crash(Some(lost));
        world.verify_all();
    }
    assert!(moved > 0, "no log was replaced");
}

/// A drive dies in service; later it is there again, and is not believed.
#[test]
fn a_drive_that_dies_in_service_is_survived() {
    for seed in seeds(150) {
        println!("seed {seed}");
        let mut world = World::new(seed);
        world.serve();
        let lost = world.random.index(world.config.members);
        world.may_lose = false;
        world.devices[lost].as_ref().unwrap().with(EmulatedDrive::die);
        world.serve();
        if world.random.chance(1, 2) {
            world.verify_all();
        }
        // Nobody may have noticed that it died: then it is as good as the others.
        world.crash(world.random.clone().chance(1, 2).then_some(lost));
        for _ in 0..200 {
            world.step();
        }
        world.verify_all();
    }
}

/// What cannot be is refused, and does no harm.
#[test]
fn requests_that_break_the_rules_fail() {
    let mut world = World::new(1);
    world.devices.iter().flatten().for_each(|_| {});
    let blocks = world.zone_blocks() as u64;
    let mut frames = Vec::new();
    world.volume.frames().take_many(1, &mut frames);
    let behind = RequestOp::Write { lba: Lba(5), frames, force_unit_access: false };
    let part = RequestOp::Trim { lba: Lba(0), blocks: blocks - 1, force_unit_access: false };
    for op in [behind, part] {
        world.volume.submit(Request { id: RequestId(9), op });
        let mut replies = Vec::new();
        world.volume.turn(Instant(0), &mut replies);
        assert_eq!(replies.iter().map(|reply| reply.outcome).collect::<Vec<_>>(), [Outcome::IoError]);
    }
    world.volume.fail_member(DriveIndex(0));
    world.write(0, 3);
    world.verify_all();
}
