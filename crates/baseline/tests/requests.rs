//! Requests that a zoned volume refuses. Faults, crashes and rebuilds of the baseline are the simulator's (docs/TESTING.md).
#![allow(clippy::unwrap_used, reason = "a test")]

use array::engine::Engine as _;
use array::request::{Outcome, Request, RequestId, RequestOp, Volume as _};
use base::time::Instant;
use base::units::{DriveIndex, Lba};
use baseline::config::{Header, RaiznConfig, Tuning};
use baseline::volume::RaiznVolume;
use baseline::{format, mount};
use drive::emulated::EmulatedDrive;
use zone::device::{Geometry, ZonedDevice};
use zone::drives::DriveSet;

/// A volume over three drives of six small zones.
fn volume() -> RaiznVolume {
    let geometry = Geometry {
        zones: 6,
        zone_size_blocks: 256,
        zone_capacity_blocks: 160,
        open_zones_max: 5,
        active_zones_max: 5,
        append_blocks_max: 16,
        transfer_blocks_max: 32,
        volatile_cache: false,
        areas: None,
    };
    let config = RaiznConfig { array: *b"array under test", members: 3, chunk_blocks: 2, geometry };
    let tuning = Tuning { header: Header::Block, stripes_in_flight: 2, write_blocks_max: 16 };
    config.validate(&tuning).unwrap();
    let device = |member: u8| {
        let drive = EmulatedDrive::on_heap(geometry, [member; 16]).unwrap();
        Some(Box::new(drive) as Box<dyn ZonedDevice>)
    };
    let mut drives = DriveSet::new((1..=3).map(device).collect());
    format(&mut drives, &config, &tuning).unwrap();
    let (engine, drives) = mount(drives.into_inner(), tuning, Instant(0)).unwrap();
    RaiznVolume::new(engine, drives)
}

/// The outcome, and a byte of each block that was read.
fn answer(volume: &mut RaiznVolume, op: RequestOp) -> (Outcome, Vec<u8>) {
    volume.submit(Instant(0), Request { id: RequestId(9), op });
    let mut replies = Vec::new();
    for turn in 0..1_000 {
        volume.turn(Instant(turn), &mut replies);
        if let Some(mut reply) = replies.pop() {
            let bytes = reply.frames.iter().map(|frame| frame.data[4095]).collect();
            volume.frames().give_many(&mut reply.frames);
            volume.engine.check_invariants();
            return (reply.outcome, bytes);
        }
    }
    panic!("no answer");
}

fn write(volume: &mut RaiznVolume, lba: u64, bytes: &[u8]) -> Outcome {
    let mut frames = Vec::new();
    volume.frames().take_many(bytes.len(), &mut frames);
    frames.iter_mut().zip(bytes).for_each(|(frame, byte)| frame.data.fill(*byte));
    answer(volume, RequestOp::Write { lba: Lba(lba), frames, force_unit_access: false }).0
}

fn read(volume: &mut RaiznVolume, blocks: u32) -> Vec<u8> {
    let (outcome, bytes) = answer(volume, RequestOp::Read { lba: Lba(0), blocks });
    assert_eq!(outcome, Outcome::Done);
    bytes
}

fn trim(volume: &mut RaiznVolume, lba: u64, blocks: u64) -> Outcome {
    answer(volume, RequestOp::Trim { lba: Lba(lba), blocks, force_unit_access: false }).0
}

/// Impossible requests are refused and do no harm; a lost drive changes nothing about it.
#[test]
fn requests_that_break_the_rules_fail() {
    let mut volume = volume();
    let zone_blocks = u64::from(volume.engine.zone_blocks());
    for failed in [None, Some(DriveIndex(0))] {
        failed.into_iter().for_each(|drive| volume.fail_member(drive));
        assert_eq!(write(&mut volume, 0, &[1, 2, 3]), Outcome::Done);
        assert_eq!(write(&mut volume, 5, &[9]), Outcome::IoError, "behind the write pointer");
        assert_eq!(write(&mut volume, 0, &[9]), Outcome::IoError, "over what is written");
        assert_eq!(trim(&mut volume, 0, zone_blocks - 1), Outcome::IoError, "a part of a zone");
        assert_eq!(trim(&mut volume, 1, zone_blocks), Outcome::IoError, "parts of two zones");
        assert_eq!(read(&mut volume, 4), [1, 2, 3, 0]);
        assert_eq!(write(&mut volume, 3, &[4]), Outcome::Done);
        assert_eq!(trim(&mut volume, 0, zone_blocks), Outcome::Done);
        assert_eq!(read(&mut volume, 4), [0, 0, 0, 0]);
    }
}
