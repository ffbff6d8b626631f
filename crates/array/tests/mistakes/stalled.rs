//! A drive that is away for a while is no lost one: its writes wait, reads are decoded of others, and nothing is healed.

use super::device::Device;
use super::rig::{Rig, raid5};
use array::engine::Engine;
use array::log::mount;
use array::log::volume::LogVolume;
use array::request::{Outcome, Reply, Volume};
use base::time::{Instant, Nanos};
use base::units::DriveIndex;
use drive::patient::Patient;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use zone::device::{Command, Completion, Geometry, Op, Status, ZonedDevice};
use zone::format::superblock::MemberState;

const PATIENCE: Nanos = Nanos(60_000_000_000);

/// A drive that can go away.
struct Loose {
    device: Device,
    is_away: Arc<AtomicBool>,
    refused: Vec<Completion>,
}

impl ZonedDevice for Loose {
    fn geometry(&self) -> &Geometry {
        self.device.geometry()
    }

    fn submit(&mut self, now: Instant, command: Command) {
        if !self.is_away.load(Ordering::Relaxed) {
            return self.device.submit(now, command);
        }
        let Command { token, zone, op } = command;
        let (offset, frames) = match op {
            Op::Read { offset, frames } | Op::Write { offset, frames } => (offset, frames),
            Op::Append { frames } => (0, frames),
            _ => (0, Vec::new()),
        };
        let status = Status::DeviceGone;
        self.refused.push(Completion { token, status, zone, offset, frames, report: Vec::new() });
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        self.device.poll(now, completions);
        completions.append(&mut self.refused);
    }
}

/// An array that holds something, of drives that can go away.
fn rig() -> (Rig, Vec<Arc<AtomicBool>>) {
    let mut rig = Rig::new(&raid5());
    rig.fill();
    rig.rest();
    let away: Vec<Arc<AtomicBool>> = rig.devices.iter().map(|_| Arc::default()).collect();
    let loose = |(device, is_away): (&Option<Device>, &Arc<AtomicBool>)| {
        let (device, is_away) = (device.clone()?, Arc::clone(is_away));
        let loose = Box::new(Loose { device, is_away, refused: Vec::new() });
        Some(Box::new(Patient::new(loose, None, PATIENCE)) as Box<dyn ZonedDevice>)
    };
    let drives = rig.devices.iter().zip(&away).map(loose).collect();
    let (shard, drives, _) = mount(drives, rig.tuning, rig.now).unwrap();
    rig.volume = LogVolume::new(shard, drives);
    rig.volume.drives.outlive_hiccups(true);
    rig.rest();
    (rig, away)
}

fn set(away: &AtomicBool, is_away: bool) {
    away.store(is_away, Ordering::Relaxed);
}

/// Turns for so many milliseconds; returns what was answered.
fn wait(rig: &mut Rig, ms: u64) -> Vec<Reply> {
    let mut replies = Vec::new();
    let end = Instant(rig.now.0 + ms * 1_000_000);
    while rig.now < end {
        rig.turn(&mut replies);
    }
    replies
}

fn assert_whole(rig: &Rig) {
    assert!(rig.volume.engine.members().iter().all(|state| *state == MemberState::Active));
}

#[test]
fn reads_are_decoded_and_writes_wait() {
    let (mut rig, away) = rig();
    let (op, stamp) = rig.write_op(3, 4, true);
    set(&away[1], true);
    rig.submit(op);
    assert!(wait(&mut rig, 1).is_empty());
    assert!(rig.volume.stalled().contains(1));
    // Each read is answered within the patience of the rig, which is less than the drive is away.
    rig.verify();
    let counters = *rig.volume.engine.counters();
    assert!(counters.blocks_read_degraded > 0, "{counters:?}");
    assert_eq!(counters.blocks_corrected, 0, "nothing was damaged");
    assert!(wait(&mut rig, 200).is_empty(), "a write is not acknowledged without the drive");
    set(&away[1], false);
    let replies = wait(&mut rig, 300);
    assert!(replies.len() == 1 && replies[0].outcome == Outcome::Done);
    rig.remember(3, 4, stamp);
    rig.verify();
    rig.rest();
    assert_whole(&rig);
    let after = *rig.volume.engine.counters();
    assert_eq!(after.blocks_corrected, 0);
    assert_eq!(after.blocks_read_degraded, counters.blocks_read_degraded, "it is read again");
}

#[test]
fn more_than_the_array_can_lose_are_waited_for() {
    let (mut rig, away) = rig();
    let (op, stamp) = rig.write_op(8, 4, true);
    away.iter().for_each(|away| set(away, true));
    rig.submit(op);
    let lba = base::units::Lba(20);
    rig.submit(array::request::RequestOp::Read { lba, blocks: 30 });
    assert!(wait(&mut rig, 500).is_empty());
    away.iter().for_each(|away| set(away, false));
    let mut replies = wait(&mut rig, 300);
    assert!(replies.len() == 2 && replies.iter().all(|reply| reply.outcome == Outcome::Done));
    replies.iter_mut().for_each(|reply| rig.volume.frames().give_many(&mut reply.frames));
    rig.remember(8, 4, stamp);
    rig.verify();
    rig.rest();
    assert_whole(&rig);
}

#[test]
fn a_drive_that_is_away_can_be_failed_at_once() {
    let (mut rig, away) = rig();
    let (op, stamp) = rig.write_op(3, 4, true);
    set(&away[2], true);
    rig.submit(op);
    assert!(wait(&mut rig, 1).is_empty());
    rig.volume.fail_member(DriveIndex(2));
    let replies = wait(&mut rig, 1);
    assert!(replies.len() == 1 && replies[0].outcome == Outcome::Done);
    rig.remember(3, 4, stamp);
    assert_eq!(rig.volume.engine.members()[2], MemberState::Failed);
    rig.verify();
}
