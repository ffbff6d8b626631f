//! One array at rest between requests: every request is answered before the next begins, so what
//! each block holds is known exactly.

use super::contents::{Stamp, fill, stamp_of};
use super::device::Device;
use super::mortal::{SharedFuse, is_burnt};
use super::shape::{Shape, boxed};
use array::engine::Engine;
use array::log::check::{CheckReport, check};
use array::log::config::{ArrayConfig, Tuning};
use array::log::volume::LogVolume;
use array::log::{MountError, MountReport, format, mount, mount_read_only};
use array::request::{Outcome, Reply, Request, RequestId, RequestOp, Volume};
use base::frame::Frame;
use base::time::Instant;
use base::units::{Lba, ZoneIndex};
use std::collections::BTreeSet;
use zone::device::{Command, Completion, Geometry, Op, Token, ZoneDescriptor, ZonedDevice};
use zone::drives::DriveSet;
use zone::format::oob::{self, Bound, Kind, Oob, Protected, Role};
use zone::stripe::Level;

/// Turns after which a request counts as stuck.
const TURNS_MAX: u32 = 100_000;

pub struct Rig {
    pub config: ArrayConfig,
    pub devices: Vec<Option<Device>>,
    pub volume: LogVolume,
    pub report: MountReport,
    /// Settings of mounts that follow.
    pub tuning: Tuning,
    pub now: Instant,
    /// Stamp that each block holds.
    pub blocks: Vec<Stamp>,
    next_id: u64,
    next_stamp: Stamp,
}

/// The array most tests use: 3+1 over small zones.
pub fn raid5() -> Shape {
    Shape {
        level: Level::Raid5,
        members: 4,
        chunk_blocks: 1,
        group_stripes: 16,
        zones: 12,
        capacity: 60,
        fill_percent: 100,
    }
}

pub fn uuid(member: usize) -> [u8; 16] {
    [u8::try_from(member).unwrap() + 1; 16]
}

/// The same media in new drives: what is there after the power was off.
pub fn power_cycled(devices: &[Option<Device>]) -> Vec<Option<Device>> {
    devices
        .iter()
        .map(|device| {
            let device = device.as_ref()?;
            Some(Device::from_media(device.with(|drive| drive.heap_snapshot().unwrap()), 7))
        })
        .collect()
}

impl Rig {
    pub fn new(shape: &Shape) -> Rig {
        Rig::with_config(shape.config())
    }

    pub fn with_config(config: ArrayConfig) -> Rig {
        Rig::with_tuning(config, Tuning::default())
    }

    pub fn with_tuning(config: ArrayConfig, tuning: Tuning) -> Rig {
        Rig::with_seed(config, tuning, 7)
    }

    /// With drives whose order of commands is drawn from a seed.
    pub fn with_seed(config: ArrayConfig, tuning: Tuning, seed: u64) -> Rig {
        let device = |member| Device::new(config.geometry, uuid(member), seed + member as u64);
        let devices: Vec<Option<Device>> = (0..config.members).map(|member| Some(device(member))).collect();
        let mut drives = DriveSet::new(boxed(&devices));
        let members: Vec<[u8; 16]> = (0..config.members).map(uuid).collect();
        format(&mut drives, &config, &members).unwrap();
        let (shard, drives, report) = mount(boxed(&devices), tuning, Instant(0)).unwrap();
        let blocks = vec![0; usize::try_from(config.volume_blocks).unwrap()];
        let volume = LogVolume::new(shard, drives);
        let (now, tuning) = (Instant(0), Tuning::default());
        Rig { config, devices, volume, report, tuning, now, blocks, next_id: 0, next_stamp: 1 }
    }

    /// Makes one turn, in which 7 us pass.
    pub fn turn(&mut self, replies: &mut Vec<Reply>) {
        self.now = Instant(self.now.0 + 7_000);
        self.volume.turn(self.now, replies);
    }

    /// Turns until the answer to `id` is there; the rest of the world goes on meanwhile.
    fn answer(&mut self, id: u64) -> Reply {
        let mut replies = Vec::new();
        for _ in 0..TURNS_MAX {
            self.turn(&mut replies);
            if let Some(reply) = replies.pop() {
                assert!(replies.is_empty() && reply.id.0 == id, "one request at a time");
                return reply;
            }
        }
        panic!("request {id} was never answered: {:?}", self.volume.engine.status());
    }

    /// Hands a request to the engine and returns its number.
    pub fn submit(&mut self, op: RequestOp) -> u64 {
        self.next_id += 1;
        self.volume.submit(self.now, Request { id: RequestId(self.next_id), op });
        self.next_id
    }

    /// The request that writes new contents; the stamp is what the blocks will hold.
    pub fn write_op(&mut self, lba: u64, blocks: u64, fua: bool) -> (RequestOp, Stamp) {
        let stamp = self.next_stamp;
        self.next_stamp += 1;
        let mut frames = Vec::new();
        self.volume.frames().take_many(usize::try_from(blocks).unwrap(), &mut frames);
        for (lba, frame) in (lba..).zip(&mut frames) {
            fill(&mut frame.data, lba, stamp);
        }
        (RequestOp::Write { lba: Lba(lba), frames, force_unit_access: fua }, stamp)
    }

    pub fn remember(&mut self, lba: u64, blocks: u64, stamp: Stamp) {
        let range = usize::try_from(lba).unwrap()..usize::try_from(lba + blocks).unwrap();
        self.blocks[range].fill(stamp);
    }

    pub fn try_write(&mut self, lba: u64, blocks: u64, fua: bool) -> Outcome {
        let (op, stamp) = self.write_op(lba, blocks, fua);
        let id = self.submit(op);
        let outcome = self.answer(id).outcome;
        if outcome == Outcome::Done {
            self.remember(lba, blocks, stamp);
        }
        outcome
    }

    /// Writes blocks, each with FUA and all in flight at once. Of those of one block the last one counts.
    pub fn write_at_once(&mut self, lbas: impl IntoIterator<Item = u64>) {
        let mut in_flight = BTreeSet::new();
        for lba in lbas {
            let (op, stamp) = self.write_op(lba, 1, true);
            in_flight.insert(self.submit(op));
            self.remember(lba, 1, stamp);
        }
        let mut replies = Vec::new();
        for _ in 0..TURNS_MAX {
            self.turn(&mut replies);
            for reply in replies.drain(..) {
                assert_eq!(reply.outcome, Outcome::Done);
                assert!(in_flight.remove(&reply.id.0), "answered once");
            }
            if in_flight.is_empty() {
                return;
            }
        }
        panic!("{} writes were never answered: {:?}", in_flight.len(), self.volume.engine.status());
    }

    /// From now on commands take effect late and out of order.
    pub fn set_lazy(&self) {
        self.devices.iter().flatten().for_each(Device::set_lazy);
    }

    pub fn write(&mut self, lba: u64, blocks: u64) {
        assert_eq!(self.try_write(lba, blocks, false), Outcome::Done);
    }

    /// Writes with FUA: the stripe is padded and sealed at once.
    pub fn write_fua(&mut self, lba: u64, blocks: u64) {
        assert_eq!(self.try_write(lba, blocks, true), Outcome::Done);
    }

    pub fn trim(&mut self, lba: u64, blocks: u64) {
        let id = self.submit(RequestOp::Trim { lba: Lba(lba), blocks, force_unit_access: false });
        assert_eq!(self.answer(id).outcome, Outcome::Done);
        self.remember(lba, blocks, 0);
    }

    /// Returns the stamps that blocks hold; `None` for an error.
    pub fn read(&mut self, lba: u64, blocks: u64) -> Option<Vec<Stamp>> {
        let count = u32::try_from(blocks).unwrap();
        let id = self.submit(RequestOp::Read { lba: Lba(lba), blocks: count });
        let mut reply = self.answer(id);
        let stamps = (lba..).zip(&reply.frames).map(|(lba, frame)| stamp_of(&frame.data, lba)).collect();
        self.volume.frames().give_many(&mut reply.frames);
        (reply.outcome == Outcome::Done).then_some(stamps)
    }

    /// Every block holds what was written last, read `step` blocks at a time.
    pub fn verify_by(&mut self, step: u64) {
        for lba in (0..self.config.volume_blocks).step_by(usize::try_from(step).unwrap()) {
            let blocks = step.min(self.config.volume_blocks - lba);
            let range = usize::try_from(lba).unwrap()..usize::try_from(lba + blocks).unwrap();
            let found = self.read(lba, blocks).unwrap_or_else(|| panic!("blocks {lba}+{blocks} are lost"));
            assert_eq!(found, self.blocks[range], "blocks from {lba}");
        }
    }

    pub fn verify(&mut self) {
        self.verify_by(53);
    }

    /// Writes every block.
    pub fn fill(&mut self) {
        for lba in (0..self.config.volume_blocks).step_by(16) {
            self.write(lba, 16.min(self.config.volume_blocks - lba));
        }
    }

    /// Turns until nothing is under way.
    pub fn rest(&mut self) {
        for _ in 0..TURNS_MAX {
            if self.volume.engine.is_quiet() {
                self.volume.engine.check_invariants();
                return;
            }
            let mut replies = Vec::new();
            self.turn(&mut replies);
            assert!(replies.is_empty(), "every request was answered");
        }
        panic!("the engine never comes to rest: {:?}", self.volume.engine.status());
    }

    /// Mounts these drives and lets recovery finish.
    pub fn mount(&mut self, devices: Vec<Option<Device>>) -> Result<(), MountError> {
        self.mount_boxed(boxed(&devices))?;
        self.devices = devices;
        Ok(())
    }

    pub fn mount_boxed(&mut self, drives: Vec<Option<Box<dyn ZonedDevice>>>) -> Result<(), MountError> {
        self.mount_until(drives, None)
    }

    /// Mounts drives whose power goes when a fuse is burnt, perhaps while recovery goes on.
    pub fn mount_until(
        &mut self,
        drives: Vec<Option<Box<dyn ZonedDevice>>>,
        power: Option<&SharedFuse>,
    ) -> Result<(), MountError> {
        let (shard, drives, report) = mount(drives, self.tuning, self.now)?;
        shard.check_invariants();
        self.volume = LogVolume::new(shard, drives);
        self.report = report;
        if let Some(power) = power {
            power.lock().unwrap().silent = true;
        }
        for _ in 0..TURNS_MAX {
            if !self.volume.engine.has_recovery_debt() || power.is_some_and(is_burnt) {
                return Ok(());
            }
            self.turn(&mut Vec::new());
        }
        panic!("recovery never ends: {:?}", self.volume.engine.status());
    }

    /// The power goes and comes back while nothing is under way.
    pub fn remount(&mut self) {
        let devices = power_cycled(&self.devices);
        self.mount(devices).unwrap();
    }

    /// Checks the media as they are.
    pub fn check(&self) -> CheckReport {
        let media = power_cycled(&self.devices);
        let (shard, mut drives, report) = mount_read_only(boxed(&media), self.now).unwrap();
        check(&shard, &mut drives, &report, self.now, |_| {})
    }

    pub fn device(&self, member: usize) -> &Device {
        self.devices[member].as_ref().unwrap()
    }

    pub fn zones(&self, member: usize) -> Vec<ZoneDescriptor> {
        report(self.device(member))
    }

    /// Every block of a member below the write pointers whose metadata is whole.
    pub fn stored(&self, member: usize) -> Vec<Stored> {
        let device = self.device(member);
        let capacity = self.config.geometry.zone_capacity_blocks;
        let mut found = Vec::new();
        for (zone, descriptor) in (0..).map(ZoneIndex).zip(report(device)) {
            for offset in 0..descriptor.write_pointer.min(capacity) {
                let Some(frame) = read_block(device, zone, offset) else { break };
                let Some(oob) = self.opened(zone, offset, &frame) else { continue };
                let protected = Protected::from_bytes(&frame.oob);
                found.push(Stored { member, zone, offset, oob, protected, bytes: frame.oob });
            }
        }
        found
    }

    /// The metadata of a block of some segment's data region.
    fn opened(&self, zone: ZoneIndex, offset: u32, frame: &Frame) -> Option<Oob> {
        let array = u64::from_le_bytes(self.config.array[..8].try_into().unwrap());
        [self.config.user_layout(), self.config.gc_layout()].iter().find_map(|layout| {
            let (slot, _) = layout.slot_at(offset)?;
            oob::open(&frame.oob, &Bound { array, zone, group: layout.group_of_slot(slot) })
        })
    }

    /// All copies of user blocks on the media.
    pub fn copies(&self) -> Vec<Stored> {
        let members = (0..self.config.members).filter(|member| self.devices[*member].is_some());
        let user = |stored: &Stored| {
            let kind = stored.protected.map(|protected| protected.kind);
            stored.oob.place.role == Role::Data && kind == Some(Kind::User)
        };
        members.flat_map(|member| self.stored(member)).filter(user).collect()
    }
}

/// A block on the media with its metadata.
#[derive(Clone, Copy, Debug)]
pub struct Stored {
    pub member: usize,
    pub zone: ZoneIndex,
    pub offset: u32,
    pub oob: Oob,
    pub protected: Option<Protected>,
    pub bytes: [u8; base::units::OOB_BYTES],
}

impl Stored {
    pub fn lba(&self) -> u64 {
        self.protected.unwrap().lba
    }

    pub fn sequence(&self) -> u64 {
        self.protected.unwrap().sequence
    }
}

/// Runs one command on a drive behind the engine's back.
pub fn execute(device: &Device, zone: ZoneIndex, op: Op) -> Completion {
    device.with(|drive| {
        drive.submit(Instant(0), Command { token: Token(u64::MAX), zone, op });
        let mut completions = Vec::new();
        drive.poll(Instant(0), &mut completions);
        completions.pop().expect("an emulated drive answers at once")
    })
}

pub fn report(device: &Device) -> Vec<ZoneDescriptor> {
    execute(device, ZoneIndex(0), Op::Report { count: u32::MAX }).report
}

pub fn read_block(device: &Device, zone: ZoneIndex, offset: u32) -> Option<Frame> {
    execute(device, zone, Op::Read { offset, frames: vec![Frame::zeroed()] }).frames.pop()
}

/// All that is on the media, for comparing.
pub fn media_of(device: &Device) -> Vec<(ZoneDescriptor, Vec<u8>)> {
    let geometry: Geometry = *device.geometry();
    (0..)
        .map(ZoneIndex)
        .zip(report(device))
        .map(|(zone, descriptor)| {
            let end = descriptor.write_pointer.min(geometry.zone_capacity_blocks);
            let frames = (0..end).filter_map(|offset| read_block(device, zone, offset));
            let bytes = frames.flat_map(|frame| [&frame.data[..], &frame.oob[..]].concat()).collect();
            (descriptor, bytes)
        })
        .collect()
}
