//! An array on crashing drives with its oracle.

use super::device::Device;
use super::oracle::{Oracle, fill, stamp_of};
use array::log::check::{CheckReport, check};
use array::log::config::{ArrayConfig, OpenSegments, Tuning};
use array::log::status::Health;
use array::log::volume::LogVolume;
use array::log::{MountError, MountReport, ReplaceError, format, mount, mount_read_only};
use array::request::{Outcome, Reply, Request, RequestId, RequestOp};
use base::random::Random;
use base::time::Instant;
use base::units::{DriveIndex, Lba};
use drive::emulated::HeapMedia;
use std::collections::BTreeMap;
use zone::device::{Geometry, ZonedDevice};
use zone::drives::DriveSet;
use zone::format::superblock::MemberState;
use zone::stripe::Level;

pub struct Shape {
    pub level: Level,
    pub members: usize,
    pub chunk_blocks: u32,
    pub group_stripes: u32,
    pub zones: u32,
    pub capacity: u32,
    /// Part of the largest volume, in percent.
    pub fill_percent: u64,
}

impl Shape {
    pub fn config(&self) -> ArrayConfig {
        let geometry = Geometry {
            zones: self.zones,
            zone_size_blocks: self.capacity.next_power_of_two(),
            zone_capacity_blocks: self.capacity,
            open_zones_max: 6,
            active_zones_max: 6,
            append_blocks_max: 16,
            transfer_blocks_max: 32,
            volatile_cache: false,
        };
        let mut config = ArrayConfig {
            array: *b"array under test",
            level: self.level,
            members: self.members,
            chunk_blocks: self.chunk_blocks,
            group_stripes: self.group_stripes,
            open: OpenSegments::default(),
            volume_blocks: 1,
            geometry,
        };
        config.volume_blocks = (config.volume_blocks_max() * self.fill_percent / 100).max(1);
        config.validate().unwrap();
        config
    }

    pub fn draw(random: &mut Random) -> Shape {
        let level = [Level::Raid0, Level::Raid4, Level::Raid5, Level::Raid5][random.index(4)];
        Shape {
            level,
            members: 2 + random.index(4),
            chunk_blocks: [1, 1, 2, 4][random.index(4)],
            group_stripes: [1, 2, 4, 16, 256][random.index(5)],
            zones: 9 + random.below(12) as u32,
            capacity: 40 + random.below(200) as u32,
            fill_percent: [30, 80, 100][random.index(3)],
        }
    }
}

/// What a request in flight must do to the oracle when it is answered.
enum Pending {
    Write { lba: u64, blocks: u64, arrival: u64 },
    Read { lba: u64, allowed: Vec<Vec<u64>> },
    Flush,
}

pub struct World {
    pub config: ArrayConfig,
    pub random: Random,
    pub oracle: Oracle,
    pub volume: LogVolume,
    pub devices: Vec<Option<Device>>,
    pub report: MountReport,
    /// Reads may fail; what they return must be right all the same.
    pub errors_expected: bool,
    /// Writes that a crash left unacknowledged, and that were not seen after it, may be seen after another: with a
    /// drive missing, rotten metadata may be that of a stripe which was void before (ADR 9).
    pub torn_may_return: bool,
    /// Reads that failed.
    pub errors_seen: u64,
    /// Writes may fail; then they may have happened or not.
    pub write_errors_expected: bool,
    replacements: u8,
    pending: BTreeMap<u64, Pending>,
    next_id: u64,
    now: Instant,
}

fn uuid(member: usize) -> [u8; 16] {
    [member as u8 + 1; 16]
}

pub fn boxed(devices: &[Option<Device>]) -> Vec<Option<Box<dyn ZonedDevice>>> {
    devices
        .iter()
        .map(|device| device.clone().map(|device| Box::new(device) as Box<dyn ZonedDevice>))
        .collect()
}

impl World {
    pub fn new(shape: &Shape, seed: u64) -> World {
        let config = shape.config();
        let random = Random::from_seed(seed);
        let devices: Vec<Option<Device>> = (0..config.members)
            .map(|m| Some(Device::new(config.geometry, uuid(m), seed + m as u64)))
            .collect();
        let mut drives = DriveSet::new(boxed(&devices));
        let members: Vec<[u8; 16]> = (0..config.members).map(uuid).collect();
        format(&mut drives, &config, &members).unwrap();
        let (shard, drives, report) = mount(boxed(&devices), Tuning::default(), Instant(0)).unwrap();
        let oracle = Oracle::new(config.volume_blocks);
        let world = World {
            config,
            random,
            oracle,
            volume: LogVolume::new(shard, drives),
            devices,
            report,
            errors_expected: false,
            torn_may_return: false,
            errors_seen: 0,
            write_errors_expected: false,
            replacements: 0,
            pending: BTreeMap::new(),
            next_id: 0,
            now: Instant(0),
        };
        world.set_lazy();
        world
    }

    fn set_lazy(&self) {
        self.devices.iter().flatten().for_each(Device::set_lazy);
    }

    fn submit(&mut self, op: RequestOp, pending: Pending) {
        self.next_id += 1;
        self.pending.insert(self.next_id, pending);
        self.volume.submit(self.now, Request { id: RequestId(self.next_id), op });
    }

    pub fn write(&mut self, lba: u64, blocks: u64, force_unit_access: bool) {
        let arrival = self.oracle.stamp();
        let mut frames = Vec::new();
        self.volume.frames().take_many(blocks as usize, &mut frames);
        for (lba, frame) in (lba..).zip(&mut frames) {
            fill(&mut frame.data, lba, arrival);
            self.oracle.begin(lba, arrival, arrival);
        }
        let op = RequestOp::Write { lba: Lba(lba), frames, force_unit_access };
        self.submit(op, Pending::Write { lba, blocks, arrival });
    }

    pub fn trim(&mut self, lba: u64, blocks: u64) {
        let arrival = self.oracle.stamp();
        for lba in lba..lba + blocks {
            self.oracle.begin(lba, arrival, 0);
        }
        let op = RequestOp::Trim { lba: Lba(lba), blocks, force_unit_access: false };
        self.submit(op, Pending::Write { lba, blocks, arrival });
    }

    pub fn read(&mut self, lba: u64, blocks: u64) {
        let allowed = (lba..lba + blocks).map(|lba| self.oracle.allowed(lba)).collect();
        self.submit(RequestOp::Read { lba: Lba(lba), blocks: blocks as u32 }, Pending::Read { lba, allowed });
    }

    pub fn flush(&mut self) {
        self.submit(RequestOp::Flush, Pending::Flush);
    }

    /// One turn; time passes.
    pub fn turn(&mut self) {
        self.now = Instant(self.now.0 + 7_000);
        let mut replies = Vec::new();
        self.volume.turn(self.now, &mut replies);
        for reply in replies {
            self.on_reply(reply);
        }
    }

    fn on_reply(&mut self, mut reply: Reply) {
        let pending = self.pending.remove(&reply.id.0).expect("answered once");
        if reply.outcome == Outcome::IoError {
            let is_read = matches!(pending, Pending::Read { .. });
            let is_expected = if is_read { self.errors_expected } else { self.write_errors_expected };
            assert!(is_expected, "request {} failed", reply.id.0);
            self.errors_seen += u64::from(is_read);
            return;
        }
        match pending {
            Pending::Write { lba, blocks, arrival } => {
                (lba..lba + blocks).for_each(|lba| self.oracle.settle(lba, arrival));
            }
            Pending::Read { lba, allowed } => {
                for ((lba, frame), before) in (lba..).zip(&reply.frames).zip(&allowed) {
                    let stamp = stamp_of(&frame.data, lba);
                    let now = self.oracle.allowed(lba);
                    assert!(
                        before.contains(&stamp) || now.contains(&stamp),
                        "block {lba} reads {stamp}; allowed before {before:?}, now {now:?}"
                    );
                }
            }
            Pending::Flush => {}
        }
        self.volume.frames().give_many(&mut reply.frames);
    }

    /// A member dies in service.
    pub fn kill(&mut self, member: usize) {
        self.devices[member].as_ref().unwrap().with(drive::emulated::EmulatedDrive::die);
    }

    /// An empty drive takes the place of a failed member, as soon as it can.
    pub fn replace(&mut self, member: usize) {
        self.replacements += 1;
        let uuid = [100 + self.replacements; 16];
        let device = Device::new(self.config.geometry, uuid, self.random.bits());
        device.set_lazy();
        let mut turns = 0;
        loop {
            let drive = Box::new(device.clone());
            match self.volume.replace_member(self.now, DriveIndex::at(member), drive, uuid) {
                Ok(()) => break,
                Err(ReplaceError::Busy) => self.turn(),
                Err(error) => panic!("member {member} cannot be replaced: {error}"),
            }
            turns += 1;
            assert!(turns < 200_000, "busy for ever");
        }
        self.devices[member] = Some(device);
    }

    pub fn health(&self) -> Health {
        self.volume.shard().status().health
    }

    /// The member that failed, if one has.
    pub fn failed(&self) -> Option<usize> {
        let status = self.volume.shard().status();
        status.members.iter().position(|state| *state == MemberState::Failed)
    }

    pub fn is_rebuilding(&self) -> bool {
        matches!(self.health(), Health::Rebuilding { .. })
    }

    /// Turns until every request is answered.
    pub fn drain(&mut self) {
        let mut turns = 0;
        while !self.pending.is_empty() {
            self.turn();
            turns += 1;
            assert!(turns < 200_000, "{} requests never answered", self.pending.len());
        }
    }

    /// Turns until nothing is under way.
    pub fn quiesce(&mut self) {
        self.drain();
        let mut turns = 0;
        while !self.volume.shard().is_quiet() {
            self.turn();
            turns += 1;
            assert!(turns < 200_000, "the engine never comes to rest");
        }
        self.volume.shard().check_invariants();
    }

    pub fn verify_all(&mut self) {
        let blocks = self.oracle.blocks();
        for lba in (0..blocks).step_by(61) {
            self.read(lba, 61.min(blocks - lba));
            self.drain();
        }
    }

    /// A random request.
    pub fn step(&mut self) {
        let blocks = self.oracle.blocks();
        let hot = if self.random.chance(1, 4) { 8.min(blocks) } else { blocks };
        let lba = self.random.below(hot);
        let length = [1, 1, 1, 2, 3, 5, 17, 64][self.random.index(8)].min(blocks - lba);
        match self.random.below(20) {
            0..=11 => {
                let fua = self.random.chance(1, 8);
                self.write(lba, length, fua);
            }
            12..=16 => self.read(lba, length),
            17 => {
                let most = blocks - lba;
                let length = if self.random.chance(1, 8) { most } else { length };
                self.trim(lba, length);
            }
            _ => self.flush(),
        }
        while self.pending.len() > 24 || self.random.chance(1, 2) {
            self.turn();
        }
    }

    /// The power goes, and comes back. `lose` is a member that is not there any more.
    pub fn crash(&mut self, lose: Option<usize>) -> Result<(), MountError> {
        self.power_off(lose);
        self.remount()
    }

    /// The power goes; what the drives hold then can be looked at, and damaged.
    pub fn power_off(&mut self, lose: Option<usize>) {
        let seed = self.random.bits();
        let media: Vec<Option<HeapMedia>> =
            self.devices.iter().map(|device| device.as_ref().map(Device::crash)).collect();
        self.devices = media
            .into_iter()
            .enumerate()
            .map(|(member, media)| media.filter(|_| Some(member) != lose))
            .map(|media| media.map(|media| Device::from_media(media, seed)))
            .collect();
    }

    /// Mounts what the devices hold. Every block then holds what it is first read as.
    pub fn remount(&mut self) -> Result<(), MountError> {
        self.pending.clear();
        let (shard, drives, report) = mount(boxed(&self.devices), Tuning::default(), self.now)?;
        shard.check_invariants();
        self.volume = LogVolume::new(shard, drives);
        self.report = report;
        let mut turns = 0;
        while self.volume.shard().has_recovery_debt() {
            self.turn();
            turns += 1;
            assert!(turns < 200_000, "recovery never ends");
        }
        self.observe_all();
        self.set_lazy();
        Ok(())
    }

    fn observe_all(&mut self) {
        for lba in 0..self.oracle.blocks() {
            let id = RequestId(u64::MAX - lba);
            self.volume.submit(self.now, Request { id, op: RequestOp::Read { lba: Lba(lba), blocks: 1 } });
            let mut replies = Vec::new();
            while replies.is_empty() {
                self.now = Instant(self.now.0 + 1_000);
                self.volume.turn(self.now, &mut replies);
            }
            let mut reply = replies.pop().unwrap();
            assert!(replies.is_empty());
            if reply.outcome == Outcome::IoError {
                assert!(self.errors_expected, "block {lba} is lost");
                self.errors_seen += 1;
                continue;
            }
            let stamp = stamp_of(&reply.frames[0].data, lba);
            let allowed = self.oracle.allowed_after_crash(lba);
            assert!(
                allowed.contains(&stamp),
                "after the crash block {lba} reads {stamp}, allowed {allowed:?}"
            );
            self.oracle.observe(lba, stamp, self.torn_may_return);
            self.volume.frames().give_many(&mut reply.frames);
        }
    }

    /// Checks the media of an array at rest.
    pub fn check(&mut self) -> CheckReport {
        let media: Vec<Option<Device>> = self
            .devices
            .iter()
            .map(|device| {
                device
                    .as_ref()
                    .map(|device| Device::from_media(device.with(|drive| drive.heap_snapshot().unwrap()), 1))
            })
            .collect();
        let (shard, mut drives, report) = mount_read_only(boxed(&media), self.now).unwrap();
        check(&shard, &mut drives, &report, self.now, |_| {})
    }
}
