//! Random commands against a drive on the heap, a drive in a file, and a model: the zone rules and
//! a map of what each block was last given. All three agree after every step, also across
//! re-opening in the middle.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use base::frame::Frame;
use base::random::Random;
use base::time::Instant;
use base::units::ZoneIndex;
use drive::emulated::{CreateOptions, EmulatedDrive};
use proptest::prelude::*;
use std::collections::HashMap;
use std::path::PathBuf;
use zone::device::{
    Command, Completion, Geometry, Op, Status, Token, ZoneDescriptor, ZoneState, ZonedDevice,
};
use zone::rules::{Zone, ZoneTable};

const GEOMETRY: Geometry = Geometry {
    zones: 5,
    zone_size_blocks: 90,
    zone_capacity_blocks: 70,
    open_zones_max: 2,
    active_zones_max: 3,
    append_blocks_max: 36,
    transfer_blocks_max: 40,
    volatile_cache: false,
};

/// One step. Zones and block counts reach beyond what is allowed.
#[derive(Clone, Debug)]
enum Step {
    Append {
        zone: u32,
        blocks: usize,
    },
    /// Writes at the write pointer, moved by `skew`.
    Write {
        zone: u32,
        skew: i32,
        blocks: usize,
    },
    Read {
        zone: u32,
        offset: u32,
        blocks: usize,
    },
    Reset {
        zone: u32,
    },
    Finish {
        zone: u32,
    },
    Open {
        zone: u32,
    },
    Close {
        zone: u32,
    },
    Flush,
    FailZone {
        zone: u32,
        offline: bool,
    },
    FailWrite {
        zone: u32,
    },
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let zone = || 0..GEOMETRY.zones + 1;
    let existing = || 0..GEOMETRY.zones;
    prop_oneof![
        12 => (zone(), 0..38_usize).prop_map(|(zone, blocks)| Step::Append { zone, blocks }),
        12 => (zone(), prop_oneof![8 => Just(0), 1 => -1..2], 0..42_usize)
            .prop_map(|(zone, skew, blocks)| Step::Write { zone, skew, blocks }),
        12 => (zone(), 0..95_u32, 0..42_usize)
            .prop_map(|(zone, offset, blocks)| Step::Read { zone, offset, blocks }),
        4 => zone().prop_map(|zone| Step::Reset { zone }),
        2 => zone().prop_map(|zone| Step::Finish { zone }),
        3 => zone().prop_map(|zone| Step::Open { zone }),
        3 => zone().prop_map(|zone| Step::Close { zone }),
        1 => Just(Step::Flush),
        1 => (existing(), any::<bool>()).prop_map(|(zone, offline)| Step::FailZone { zone, offline }),
        2 => existing().prop_map(|zone| Step::FailWrite { zone }),
        2 => Just(Step::Reopen),
    ]
}

/// What the drives should do.
struct Model {
    table: ZoneTable,
    /// Seed of the contents of each block that was written since its zone was reset.
    blocks: HashMap<(u32, u32), u64>,
    failing_writes: HashMap<u32, u32>,
}

/// What can be seen of a completion.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    status: Status,
    offset: u32,
    /// Contents, of reads that succeeded.
    contents: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Model {
    fn new() -> Model {
        Model { table: ZoneTable::new(GEOMETRY), blocks: HashMap::new(), failing_writes: HashMap::new() }
    }

    fn zones(&self) -> Vec<Zone> {
        (0..GEOMETRY.zones).map(|zone| self.table.zone(ZoneIndex(zone))).collect()
    }

    fn write_pointer(&self, zone: u32) -> u32 {
        if zone < GEOMETRY.zones { self.table.zone(ZoneIndex(zone)).write_pointer } else { 0 }
    }

    /// A write or append of frames with `seed`; the rules decide by `rule`.
    fn write(
        &mut self,
        zone: u32,
        seeds: &[u64],
        rule: impl FnOnce(&mut ZoneTable) -> Result<u32, Status>,
    ) -> Result<u32, Status> {
        let before = self.zones();
        let offset = rule(&mut self.table)?;
        let failing = self.failing_writes.entry(zone).or_default();
        if *failing > 0 {
            *failing -= 1;
            let mut zones = self.zones();
            zones[zone as usize] = before[zone as usize];
            self.table = ZoneTable::from_zones(GEOMETRY, zones);
            return Err(Status::WriteFault);
        }
        self.blocks.extend((offset..).zip(seeds).map(|(block, seed)| ((zone, block), *seed)));
        Ok(offset)
    }

    fn read(&self, zone: u32, offset: u32, blocks: usize) -> Seen {
        let count = u32::try_from(blocks).unwrap();
        if let Err(status) = self.table.read(ZoneIndex(zone), offset, count) {
            return Seen { status, offset, contents: Vec::new() };
        }
        let contents = (offset..offset + count)
            .map(|block| match self.blocks.get(&(zone, block)) {
                Some(seed) => contents(&frame(*seed)),
                None => (vec![0; 4096], vec![0; 64]),
            })
            .collect();
        Seen { status: Status::Success, offset, contents }
    }

    fn reset(&mut self, zone: u32) -> Result<(), Status> {
        self.table.reset(ZoneIndex(zone))?;
        self.blocks.retain(|(at, _), _| *at != zone);
        Ok(())
    }

    fn reopen(&mut self) {
        let mut zones = self.zones();
        for zone in zones.iter_mut().filter(|zone| zone.state.is_open()) {
            zone.state = ZoneState::Closed;
        }
        self.table = ZoneTable::from_zones(GEOMETRY, zones);
        self.failing_writes.clear();
    }
}

fn frame(seed: u64) -> Frame {
    let mut frame = Frame::zeroed();
    let mut random = Random::from_seed(seed);
    random.fill(&mut frame.data);
    random.fill(&mut frame.oob);
    frame
}

fn contents(frame: &Frame) -> (Vec<u8>, Vec<u8>) {
    (frame.data.to_vec(), frame.oob.to_vec())
}

fn run(drive: &mut EmulatedDrive, zone: u32, op: Op) -> Completion {
    let mut completions = Vec::new();
    drive.submit(Instant(0), Command { token: Token(1), zone: ZoneIndex(zone), op });
    while completions.is_empty() {
        drive.poll(Instant(0), &mut completions);
    }
    assert_eq!(completions.len(), 1);
    completions.pop().unwrap()
}

/// The model and both drives, side by side.
struct World {
    model: Model,
    /// On the heap and in a file; a drive is gone only while it is being re-opened.
    heap: Option<EmulatedDrive>,
    file: Option<EmulatedDrive>,
    path: PathBuf,
    next_seed: u64,
}

impl World {
    fn new(path: PathBuf) -> World {
        let options = CreateOptions::new(GEOMETRY, [9; 16]);
        World {
            model: Model::new(),
            heap: Some(EmulatedDrive::on_heap(GEOMETRY, [9; 16]).unwrap()),
            file: Some(EmulatedDrive::create(&path, &options).unwrap()),
            path,
            next_seed: 1,
        }
    }

    fn each(&mut self, mut act: impl FnMut(&mut EmulatedDrive)) {
        act(self.heap.as_mut().unwrap());
        act(self.file.as_mut().unwrap());
    }

    /// Both drives do `op` and answer as the model did.
    fn expect(&mut self, zone: u32, expected: &Seen, is_read: bool, op: impl Fn() -> Op) {
        self.each(|drive| {
            let completion = run(drive, zone, op());
            let shown = is_read && completion.status == Status::Success;
            let contents = if shown { completion.frames.iter().map(contents).collect() } else { Vec::new() };
            // The offset of a write that failed says nothing.
            let told = is_read || completion.status == Status::Success;
            let offset = if told { completion.offset } else { 0 };
            let seen = Seen { status: completion.status, offset, contents };
            assert!(seen == *expected, "{:?} at {}, not {:?}", seen.status, seen.offset, expected.status);
        });
    }

    fn expect_outcome(&mut self, zone: u32, outcome: Result<u32, Status>, op: impl Fn() -> Op) {
        let (status, offset) = match outcome {
            Ok(offset) => (Status::Success, offset),
            Err(status) => (status, 0),
        };
        self.expect(zone, &Seen { status, offset, contents: Vec::new() }, false, op);
    }

    fn seeds(&mut self, blocks: usize) -> Vec<u64> {
        let first = self.next_seed;
        self.next_seed += blocks as u64;
        (first..self.next_seed).collect()
    }

    fn step(&mut self, step: Step) {
        let plain = |outcome: Result<(), Status>| outcome.map(|()| 0);
        match step {
            Step::Append { zone, blocks } => {
                let seeds = self.seeds(blocks);
                let count = u32::try_from(blocks).unwrap();
                let outcome = self.model.write(zone, &seeds, |table| table.append(ZoneIndex(zone), count));
                self.expect_outcome(zone, outcome, || Op::Append { frames: frames(&seeds) });
            }
            Step::Write { zone, skew, blocks } => {
                let seeds = self.seeds(blocks);
                let count = u32::try_from(blocks).unwrap();
                let offset = self.model.write_pointer(zone).saturating_add_signed(skew);
                let rule =
                    |table: &mut ZoneTable| table.write(ZoneIndex(zone), offset, count).map(|()| offset);
                let outcome = self.model.write(zone, &seeds, rule);
                self.expect_outcome(zone, outcome, || Op::Write { offset, frames: frames(&seeds) });
            }
            Step::Read { zone, offset, blocks } => {
                let expected = self.model.read(zone, offset, blocks);
                let dirty = vec![7; blocks];
                self.expect(zone, &expected, true, || Op::Read { offset, frames: frames(&dirty) });
            }
            Step::Reset { zone } => {
                let outcome = self.model.reset(zone);
                self.expect_outcome(zone, plain(outcome), || Op::Reset);
            }
            Step::Finish { zone } => {
                let outcome = self.model.table.finish(ZoneIndex(zone));
                self.expect_outcome(zone, plain(outcome), || Op::Finish);
            }
            Step::Open { zone } => {
                let outcome = self.model.table.open(ZoneIndex(zone));
                self.expect_outcome(zone, plain(outcome), || Op::Open);
            }
            Step::Close { zone } => {
                let outcome = self.model.table.close(ZoneIndex(zone));
                self.expect_outcome(zone, plain(outcome), || Op::Close);
            }
            Step::Flush => self.expect_outcome(0, Ok(0), || Op::Flush),
            Step::FailZone { zone, offline } => self.fail_zone(zone, offline),
            Step::FailWrite { zone } => {
                *self.model.failing_writes.entry(zone).or_default() += 1;
                self.each(|drive| drive.fail_writes(ZoneIndex(zone), 1));
            }
            Step::Reopen => self.reopen(),
        }
    }

    fn fail_zone(&mut self, zone: u32, offline: bool) {
        let state = if offline { ZoneState::Offline } else { ZoneState::ReadOnly };
        self.model.table.degrade(ZoneIndex(zone), state);
        self.each(|drive| drive.fail_zone(ZoneIndex(zone), state));
    }

    fn reopen(&mut self) {
        self.model.reopen();
        let snapshot = self.heap.take().unwrap().heap_snapshot().unwrap();
        self.heap = Some(EmulatedDrive::from_heap(snapshot).unwrap());
        drop(self.file.take());
        self.file = Some(EmulatedDrive::open(&self.path).unwrap());
    }

    fn check_report(&mut self) {
        let expected: Vec<ZoneDescriptor> = self.model.table.report(ZoneIndex(0), u32::MAX).unwrap();
        self.each(|drive| {
            assert_eq!(run(drive, 0, Op::Report { count: u32::MAX }).report, expected);
        });
    }
}

fn frames(seeds: &[u64]) -> Vec<Frame> {
    seeds.iter().map(|seed| frame(*seed)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn drives_agree_with_the_model(steps in proptest::collection::vec(step(), 1..150)) {
        let place = tempfile::tempdir_in("/dev/shm").unwrap();
        let mut world = World::new(place.path().join("drive"));
        for step in steps {
            world.step(step);
            world.check_report();
        }
    }
}
