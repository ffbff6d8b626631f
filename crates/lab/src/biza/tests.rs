//! The peer gives back what it was given, also after collection and with a drive lost; and what it loses.

#![allow(clippy::unwrap_used, reason = "a test")]

use super::config::BizaConfig;
use super::{Biza, BizaVolume};
use array::engine::{Effects, Engine};
use array::request::{Outcome, Reply, Request, RequestId, RequestOp, Volume};
use base::frame::Frame;
use base::random::Random;
use base::time::Instant;
use base::units::{DriveIndex, Lba, ZoneIndex};
use base::xor::xor_into;
use drive::emulated::{EmulatedDrive, TimedDrive};
use drive::timing::{ModelOptions, Profile};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use zone::device::{Areas, Command, Completion, Geometry, Op, Status, Token, ZonedDevice};
use zone::drives::{DriveCommand, DriveSet};

const GEOMETRY: Geometry = Geometry {
    zones: 40,
    zone_size_blocks: 64,
    zone_capacity_blocks: 64,
    open_zones_max: 14,
    active_zones_max: 14,
    append_blocks_max: 16,
    transfer_blocks_max: 16,
    volatile_cache: false,
    areas: Some(Areas { zones_max: 14, window_blocks: 16, granule_blocks: 4, explicit_commit: true }),
};
const MEMBERS: usize = 4;
/// Volume of 30 of the 40 zones, which have 192 blocks of data each.
const VOLUME_BLOCKS: u64 = 30 * 192;

fn config(volume_blocks: u64) -> BizaConfig {
    BizaConfig { members: MEMBERS, volume_blocks, geometry: GEOMETRY, selects: true, avoids: true }
}

/// A drive that answers nothing any more once somebody says so.
struct Mortal {
    drive: TimedDrive,
    is_dead: Arc<AtomicBool>,
}

impl ZonedDevice for Mortal {
    fn geometry(&self) -> &Geometry {
        self.drive.geometry()
    }

    fn submit(&mut self, now: Instant, command: Command) {
        self.drive.submit(now, command);
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        let first = completions.len();
        self.drive.poll(now, completions);
        if self.is_dead.load(Ordering::Relaxed) {
            completions[first..].iter_mut().for_each(|completion| completion.status = Status::DeviceGone);
        }
    }

    fn next_event(&self) -> Option<Instant> {
        self.drive.next_event()
    }
}

struct Bench {
    volume: BizaVolume,
    /// By drive.
    dead: Vec<Arc<AtomicBool>>,
    now: Instant,
    /// Number that each block was written with last, or 0.
    written: Vec<u64>,
    next: u64,
    replies: Vec<Reply>,
}

/// Contents that nothing else has.
fn fill(frame: &mut Frame, number: u64) {
    for (place, word) in frame.data.chunks_exact_mut(8).enumerate() {
        let value = if number == 0 { 0 } else { number << 16 | place as u64 };
        word.copy_from_slice(&value.to_le_bytes());
    }
}

impl Bench {
    fn new(config: BizaConfig, seed: u64) -> Bench {
        let profile = Profile::load("zn540-4tb").unwrap();
        let dead: Vec<Arc<AtomicBool>> = (0..MEMBERS).map(|_| Arc::default()).collect();
        let device = |(number, is_dead): (u64, &Arc<AtomicBool>)| -> Option<Box<dyn ZonedDevice>> {
            let drive = EmulatedDrive::on_heap(GEOMETRY, u128::from(number).to_be_bytes()).unwrap();
            let options = ModelOptions { seed: seed << 8 | number, ..ModelOptions::default() };
            let drive = TimedDrive::new(drive, &profile, options);
            Some(Box::new(Mortal { drive, is_dead: Arc::clone(is_dead) }))
        };
        let written = vec![0; usize::try_from(config.volume_blocks).unwrap()];
        let drives = DriveSet::new((0..).zip(&dead).map(device).collect());
        let volume = BizaVolume::new(Biza::new(config).unwrap(), drives);
        Bench { volume, dead, now: Instant(1_000_000_000), written, next: 0, replies: Vec::new() }
    }

    fn submit(&mut self, op: RequestOp) {
        self.next += 1;
        self.volume.submit(self.now, Request { id: RequestId(self.next), op });
    }

    fn write(&mut self, lba: u64, blocks: usize) {
        let mut frames = self.volume.frames().take_vec(blocks);
        for (frame, written) in frames.iter_mut().zip(&mut self.written[usize::try_from(lba).unwrap()..]) {
            self.next += 1;
            *written = self.next;
            fill(frame, self.next);
        }
        self.submit(RequestOp::Write { lba: Lba(lba), frames, force_unit_access: false });
    }

    /// Waits for so many replies.
    fn wait(&mut self, count: usize) -> Vec<Reply> {
        let mut turns = 0;
        while self.replies.len() < count {
            turns += 1;
            assert!(turns < 1_000_000, "{}", self.volume.engine.describe());
            if !self.volume.turn(self.now, &mut self.replies) && self.replies.len() < count {
                let next = self.volume.pass_time(Instant(self.now.0 + 1), None);
                self.now = next.unwrap_or_else(|| panic!("stuck: {}", self.volume.engine.describe()));
            }
        }
        assert!(self.replies.iter().all(|reply| reply.outcome == Outcome::Done));
        std::mem::take(&mut self.replies)
    }

    /// Writes at random, so many at a time, half of them to a twentieth of the volume.
    fn load(&mut self, rounds: u32, random: &mut Random) {
        let blocks = self.written.len() as u64 - 8;
        for _ in 0..rounds {
            for _ in 0..24 {
                let hot = if random.chance(1, 2) { blocks / 20 } else { blocks };
                let (lba, count) = (random.below(hot), 1 + random.index(8));
                self.write(lba, if random.chance(1, 2) { 1 } else { count });
            }
            self.submit(RequestOp::Flush);
            self.wait(25);
        }
        self.volume.engine.check_invariants();
    }

    fn verify(&mut self) {
        for lba in (0..self.written.len()).step_by(16) {
            let blocks = (self.written.len() - lba).min(16);
            self.submit(RequestOp::Read { lba: Lba(lba as u64), blocks: u32::try_from(blocks).unwrap() });
            let mut reply = self.wait(1).remove(0);
            let mut expected = Frame::zeroed();
            for (place, frame) in reply.frames.iter().enumerate() {
                fill(&mut expected, self.written[lba + place]);
                assert!(frame.data == expected.data, "block {} has other contents", lba + place);
            }
            self.volume.frames().give_many(&mut reply.frames);
        }
    }
}

#[test]
fn reads_return_what_was_written_after_collection_and_with_a_drive_lost() {
    for seed in 1..4 {
        for selects in [true, false] {
            let mut bench = Bench::new(BizaConfig { selects, ..config(VOLUME_BLOCKS) }, seed);
            let random = &mut Random::from_seed(seed);
            bench.verify();
            bench.load(30, random);
            bench.verify();
            bench.load(300, random);
            let counters = *bench.volume.engine.counters();
            assert!(counters.segments_collected > 20, "{counters:?}");
            assert!(counters.absorbed > 0 && counters.moved > 0, "{counters:?}");
            bench.verify();
            bench.volume.fail_member(DriveIndex::at(2));
            bench.verify();
            bench.load(100, random);
            bench.verify();
            assert!(bench.volume.engine.counters().decoded > 0);
        }
    }
}

/// A drive goes while everything is under way.
#[test]
fn a_drive_that_goes_in_the_midst_of_it_takes_nothing_along() {
    let mut bench = Bench::new(config(VOLUME_BLOCKS), 9);
    let random = &mut Random::from_seed(9);
    bench.load(150, random);
    for lba in 0..40 {
        bench.write(lba * 100, 4);
    }
    let mut replies = Vec::new();
    bench.volume.turn(bench.now, &mut replies);
    bench.dead[1].store(true, Ordering::Relaxed);
    bench.replies = replies;
    bench.wait(40);
    bench.verify();
    bench.load(100, random);
    bench.verify();
}

#[test]
fn groups_have_the_published_zones_where_there_are_enough() {
    let zones = |zones, volume_blocks| {
        BizaConfig { geometry: Geometry { zones, ..GEOMETRY }, ..config(volume_blocks) }.zones()
    };
    assert_eq!(zones(100, 30 * 192), [2, 4, 6, 2]);
    assert_eq!(zones(46, 30 * 192), [1, 2, 3, 1]);
    assert_eq!(zones(40, 30 * 192), [1, 1, 2, 1]);
    assert!(
        BizaConfig { geometry: Geometry { zones: 34, ..GEOMETRY }, ..config(30 * 192) }.validate().is_err()
    );
}

/// Drives that answer at once, and an engine that is asked for what it wishes.
struct Torn {
    engine: Biza,
    drives: DriveSet,
}

impl Torn {
    fn new() -> Torn {
        let device = |number: u8| -> Option<Box<dyn ZonedDevice>> {
            Some(Box::new(EmulatedDrive::on_heap(GEOMETRY, [number; 16]).unwrap()))
        };
        let drives =
            DriveSet::new((0..MEMBERS).map(|number| device(u8::try_from(number).unwrap())).collect());
        Torn { engine: Biza::new(config(192)).unwrap(), drives }
    }

    /// Carries out commands that pass the sieve; the power fails before the others.
    fn carry_out(&mut self, mut fx: Effects, passes: impl Fn(&DriveCommand) -> bool) {
        let mut completions = Vec::new();
        while !fx.commands.is_empty() {
            let commands: Vec<DriveCommand> =
                fx.commands.drain(..).filter(|command| passes(command)).collect();
            commands.into_iter().for_each(|command| self.drives.submit(Instant(1), command));
            self.drives.poll(Instant(1), &mut completions);
            for (drive, completion) in completions.drain(..) {
                assert!(completion.status == Status::Success);
                self.engine.on_completion(drive, completion, &mut fx);
            }
            self.engine.settle(Instant(1), &mut fx);
        }
    }

    fn write(&mut self, lba: u64, number: u64, passes: impl Fn(&DriveCommand) -> bool) {
        let mut frame = self.engine.frames().take();
        fill(&mut frame, number);
        let op = RequestOp::Write { lba: Lba(lba), frames: vec![frame], force_unit_access: false };
        let mut fx = Effects::default();
        self.engine.submit(Instant(1), Request { id: RequestId(number), op }, &mut fx);
        self.engine.tick(Instant(1), &mut fx);
        self.carry_out(fx, passes);
    }

    /// The first block of a zone on a drive.
    fn on_drive(&mut self, drive: usize, zone: ZoneIndex) -> Frame {
        let op = Op::Read { offset: 0, frames: vec![Frame::zeroed()] };
        let command = Command { token: Token(0), zone, op };
        let mut answer =
            self.drives.execute(Instant(1), DriveCommand { drive: DriveIndex::at(drive), command });
        answer.frames.remove(0)
    }
}

/// Blocks 0, 1 and 2 are acknowledged. Block 0 is overwritten in place, and the power fails when `passes` says so. Returns block 1, decoded
/// from the drives, as somebody would who knows all tables and has lost its drive.
fn decoded_after(passes: impl Fn(&DriveCommand) -> bool) -> Frame {
    let mut torn = Torn::new();
    let mut fx = Effects::default();
    torn.engine.resume(&mut fx);
    torn.carry_out(fx, |_| true);
    (0..3).for_each(|block| torn.write(block, 100 + block, |_| true));
    assert!(torn.engine.is_quiet(), "all three are acknowledged");
    let place = torn.engine.map[1].unwrap();
    assert_eq!([0, 2].map(|block| torn.engine.map[block].unwrap().stripe), [0, 0]);
    torn.write(0, 200, passes);
    let zone = ZoneIndex(place.segment);
    let mut sum = Frame::zeroed();
    for drive in (0..MEMBERS).filter(|drive| *drive != usize::from(place.drive)) {
        xor_into(&mut sum.data, &torn.on_drive(drive, zone).data);
    }
    sum
}

#[test]
fn a_crash_in_an_update_in_place_and_a_lost_drive_take_another_block_along() {
    let mut acknowledged = Frame::zeroed();
    fill(&mut acknowledged, 101);
    let is_parity = |command: &DriveCommand| command.drive == DriveIndex::at(0);
    assert!(decoded_after(|_| true).data == acknowledged.data, "data and parity are there");
    assert!(decoded_after(|_| false).data == acknowledged.data, "neither is there");
    assert!(
        decoded_after(|command| !is_parity(command)).data != acknowledged.data,
        "data only: block 1 is lost"
    );
    assert!(decoded_after(is_parity).data != acknowledged.data, "parity only: block 1 is lost");
}

/// Nothing of the volume is there after a crash, though all drives are well.
#[test]
fn nothing_is_known_after_a_crash() {
    let mut torn = Torn::new();
    let mut fx = Effects::default();
    torn.engine.resume(&mut fx);
    torn.carry_out(fx, |_| true);
    torn.write(0, 100, |_| true);
    torn.engine = Biza::new(config(192)).unwrap();
    let mut fx = Effects::default();
    let read = RequestOp::Read { lba: Lba(0), blocks: 1 };
    torn.engine.submit(Instant(1), Request { id: RequestId(2), op: read }, &mut fx);
    assert!(
        fx.replies.remove(0).frames[0].data.iter().all(|byte| *byte == 0),
        "an acknowledged block is gone"
    );
}
