//! Random commands against a drive on each kind of media and a model: the zone rules and a map of
//! what each block was last given. All agree after every batch, also across re-opening in the
//! middle.
//!
//! A batch is submitted before one poll, so that its transfers run together. Drives may bring a
//! command forward past those of other zones and complete what they execute in its order; the model
//! executes in that order and must come to the same outcomes, one command at a time.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use base::frame::Frame;
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
    areas: None,
};

/// Next step of a test.
#[derive(Clone, Debug)]
enum Step {
    Batch(Vec<Wish>),
    FailZone { zone: u32, offline: bool },
    FailWrites { zone: u32 },
    FailWriteAt { zone: u32, ahead: u32 },
    FailReads { zone: u32, offset: u32 },
    Reopen,
}

/// A command, before it is known where the write pointer will be. Zones and block counts reach
/// beyond what is allowed.
#[derive(Clone, Debug)]
enum Wish {
    Append {
        zone: u32,
        blocks: u32,
    },
    /// Writes at the write pointer, moved by `skew`.
    Write {
        zone: u32,
        skew: i32,
        blocks: u32,
    },
    /// Reads from `offset`, or from where the last read of the zone ended.
    Read {
        zone: u32,
        offset: Option<u32>,
        blocks: u32,
    },
    Plain {
        zone: u32,
        what: Plain,
    },
}

#[derive(Clone, Copy, Debug)]
enum Plain {
    Reset,
    Finish,
    Open,
    Close,
    Flush,
}

fn wish() -> impl Strategy<Value = Wish> {
    // Two zones get most of the commands, so that transfers meet others to run with.
    let zone = || prop_oneof![6 => 0..2_u32, 2 => 0..GEOMETRY.zones + 1];
    let blocks = || prop_oneof![4 => 1..5_u32, 1 => 0..42_u32];
    let plain = prop_oneof![
        6 => Just(Plain::Reset),
        1 => Just(Plain::Finish),
        2 => Just(Plain::Open),
        2 => Just(Plain::Close),
        1 => Just(Plain::Flush)
    ];
    prop_oneof![
        20 => (zone(), blocks()).prop_map(|(zone, blocks)| Wish::Append { zone, blocks }),
        14 => (zone(), prop_oneof![12 => Just(0), 1 => -1..2], blocks())
            .prop_map(|(zone, skew, blocks)| Wish::Write { zone, skew, blocks }),
        14 => (zone(), prop_oneof![3 => Just(None), 1 => (0..95_u32).prop_map(Some)], blocks())
            .prop_map(|(zone, offset, blocks)| Wish::Read { zone, offset, blocks }),
        4 => (zone(), plain).prop_map(|(zone, what)| Wish::Plain { zone, what }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let zone = || prop_oneof![2 => 0..2_u32, 1 => 0..GEOMETRY.zones];
    prop_oneof![
        16 => proptest::collection::vec(wish(), 1..16).prop_map(Step::Batch),
        1 => (2..GEOMETRY.zones, any::<bool>()).prop_map(|(zone, offline)| Step::FailZone { zone, offline }),
        2 => zone().prop_map(|zone| Step::FailWrites { zone }),
        3 => (zone(), 0..20_u32).prop_map(|(zone, ahead)| Step::FailWriteAt { zone, ahead }),
        1 => (zone(), 0..70_u32).prop_map(|(zone, offset)| Step::FailReads { zone, offset }),
        2 => Just(Step::Reopen),
    ]
}

/// A command as every drive gets it.
#[derive(Clone, Debug)]
struct Request {
    zone: u32,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Append(Vec<u64>),
    Write(u32, Vec<u64>),
    Read(u32, u32),
    Plain(Plain),
}

impl Request {
    fn op(&self) -> Op {
        match &self.what {
            What::Append(seeds) => Op::Append { frames: frames(seeds) },
            What::Write(offset, seeds) => Op::Write { offset: *offset, frames: frames(seeds) },
            What::Read(offset, blocks) => {
                Op::Read { offset: *offset, frames: frames(&vec![7; *blocks as usize]) }
            }
            What::Plain(Plain::Reset) => Op::Reset,
            What::Plain(Plain::Finish) => Op::Finish,
            What::Plain(Plain::Open) => Op::Open,
            What::Plain(Plain::Close) => Op::Close,
            What::Plain(Plain::Flush) => Op::Flush,
        }
    }

    fn is_flush(&self) -> bool {
        matches!(self.what, What::Plain(Plain::Flush))
    }

    fn is_reset(&self) -> bool {
        matches!(self.what, What::Plain(Plain::Reset))
    }
}

/// Model of what the drives should do.
struct Model {
    table: ZoneTable,
    /// Seed of the contents of each block that was written since its zone was reset.
    blocks: HashMap<(u32, u32), u64>,
    failing_writes: HashMap<u32, u32>,
    unwritable: Vec<(u32, u32)>,
    unreadable: Vec<(u32, u32)>,
}

/// Visible part of a completion.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    status: Status,
    offset: u32,
    /// Contents, of reads that succeeded.
    contents: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Model {
    fn new() -> Model {
        Model {
            table: ZoneTable::new(GEOMETRY),
            blocks: HashMap::new(),
            failing_writes: HashMap::new(),
            unwritable: Vec::new(),
            unreadable: Vec::new(),
        }
    }

    fn zones(&self) -> Vec<Zone> {
        (0..GEOMETRY.zones).map(|zone| self.table.zone(ZoneIndex(zone))).collect()
    }

    fn write_pointer(&self, zone: u32) -> u32 {
        if zone < GEOMETRY.zones { self.table.zone(ZoneIndex(zone)).write_pointer } else { 0 }
    }

    fn execute(&mut self, request: &Request) -> Seen {
        let zone = request.zone;
        let index = ZoneIndex(zone);
        let outcome = match &request.what {
            What::Append(seeds) => self.write(zone, seeds, |table| table.append(index, count(seeds))),
            What::Write(offset, seeds) => {
                self.write(zone, seeds, |table| table.write(index, *offset, count(seeds)).map(|()| *offset))
            }
            What::Read(offset, blocks) => return self.read(zone, *offset, *blocks),
            What::Plain(Plain::Reset) => self.reset(zone).map(|()| 0),
            What::Plain(Plain::Finish) => self.table.finish(index).map(|()| 0),
            What::Plain(Plain::Open) => self.table.open(index).map(|()| 0),
            What::Plain(Plain::Close) => self.table.close(index).map(|()| 0),
            What::Plain(Plain::Flush) => Ok(0),
        };
        match outcome {
            Ok(offset) => Seen { status: Status::Success, offset, contents: Vec::new() },
            Err(status) => Seen { status, offset: 0, contents: Vec::new() },
        }
    }

    /// A write or append of frames with these seeds; the rules decide by `rule`.
    fn write(
        &mut self,
        zone: u32,
        seeds: &[u64],
        rule: impl FnOnce(&mut ZoneTable) -> Result<u32, Status>,
    ) -> Result<u32, Status> {
        let before = self.zones();
        let offset = rule(&mut self.table)?;
        if self.takes_fault(zone, offset..offset + count(seeds)) {
            let mut zones = self.zones();
            zones[zone as usize] = before[zone as usize];
            self.table = ZoneTable::from_zones(GEOMETRY, zones);
            return Err(Status::WriteFault);
        }
        self.blocks.extend((offset..).zip(seeds).map(|(block, seed)| ((zone, block), *seed)));
        Ok(offset)
    }

    fn takes_fault(&mut self, zone: u32, blocks: std::ops::Range<u32>) -> bool {
        let failing = self.failing_writes.entry(zone).or_default();
        if *failing > 0 {
            *failing -= 1;
            return true;
        }
        let hit = self.unwritable.iter().position(|(at, block)| *at == zone && blocks.contains(block));
        hit.is_some_and(|hit| {
            self.unwritable.remove(hit);
            true
        })
    }

    fn read(&self, zone: u32, offset: u32, blocks: u32) -> Seen {
        let unreadable = |(at, block): &(u32, u32)| *at == zone && (offset..offset + blocks).contains(block);
        let readable = self.table.read(ZoneIndex(zone), offset, blocks).and_then(|()| {
            if self.unreadable.iter().any(unreadable) { Err(Status::UnrecoveredReadError) } else { Ok(()) }
        });
        if let Err(status) = readable {
            return Seen { status, offset, contents: Vec::new() };
        }
        let contents = (offset..offset + blocks)
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
        self.unreadable.retain(|(at, _)| *at != zone);
        Ok(())
    }

    fn reopen(&mut self) {
        let mut zones = self.zones();
        for zone in zones.iter_mut().filter(|zone| zone.state.is_open()) {
            zone.state = ZoneState::Closed;
        }
        self.table = ZoneTable::from_zones(GEOMETRY, zones);
        self.failing_writes.clear();
        self.unwritable.clear();
        self.unreadable.clear();
    }
}

fn count(seeds: &[u64]) -> u32 {
    u32::try_from(seeds.len()).unwrap()
}

/// No two 8-byte words of all frames are alike.
fn frame(seed: u64) -> Frame {
    let mut frame = Frame::zeroed();
    let body = &mut *frame;
    let words = body.data.chunks_exact_mut(8).chain(body.oob.chunks_exact_mut(8));
    words.zip(seed << 16..).for_each(|(word, number)| word.copy_from_slice(&number.to_le_bytes()));
    frame
}

fn frames(seeds: &[u64]) -> Vec<Frame> {
    seeds.iter().map(|seed| frame(*seed)).collect()
}

fn contents(frame: &Frame) -> (Vec<u8>, Vec<u8>) {
    (frame.data.to_vec(), frame.oob.to_vec())
}

/// Submits all requests before the first poll. Tokens are their places.
fn run(drive: &mut EmulatedDrive, requests: &[Request]) -> Vec<Completion> {
    for (token, request) in (0..).zip(requests) {
        let zone = ZoneIndex(request.zone);
        drive.submit(Instant(0), Command { token: Token(token), zone, op: request.op() });
    }
    settle(drive, requests.len())
}

fn settle(drive: &mut EmulatedDrive, count: usize) -> Vec<Completion> {
    let mut completions = Vec::new();
    while completions.len() < count {
        drive.poll(Instant(0), &mut completions);
    }
    assert_eq!(completions.len(), count);
    completions
}

fn place(completion: &Completion) -> usize {
    usize::try_from(completion.token.0).unwrap()
}

/// Comparable part of the completion of `request`.
fn seen(request: &Request, completion: &Completion) -> Seen {
    let is_read = matches!(request.what, What::Read(..));
    let succeeded = completion.status == Status::Success;
    let shown = is_read && succeeded;
    let contents = if shown { completion.frames.iter().map(contents).collect() } else { Vec::new() };
    // The offset of a write that failed says nothing.
    let offset = if is_read || succeeded { completion.offset } else { 0 };
    Seen { status: completion.status, offset, contents }
}

/// The model and the drives, side by side.
struct World {
    model: Model,
    /// On the heap, in memory, on a disk.
    drives: Vec<EmulatedDrive>,
    paths: Vec<PathBuf>,
    next_seed: u64,
    /// End of the last read of a zone.
    reads_end: HashMap<u32, u32>,
}

impl World {
    fn new(paths: Vec<PathBuf>) -> World {
        let options = CreateOptions::new(GEOMETRY, [9; 16]);
        let mut drives = vec![EmulatedDrive::on_heap(GEOMETRY, [9; 16]).unwrap()];
        drives.extend(paths.iter().map(|path| EmulatedDrive::create(path, &options).unwrap()));
        World { model: Model::new(), drives, paths, next_seed: 1, reads_end: HashMap::new() }
    }

    fn seeds(&mut self, blocks: u32) -> Vec<u64> {
        let first = self.next_seed;
        self.next_seed += u64::from(blocks);
        (first..self.next_seed).collect()
    }

    /// Puts writes where the write pointer will be if all goes well before them.
    fn plan(&mut self, wishes: &[Wish]) -> Vec<Request> {
        let mut planned: HashMap<u32, u32> = HashMap::new();
        let mut requests = Vec::new();
        for wish in wishes {
            requests.push(match *wish {
                Wish::Append { zone, blocks } => {
                    *planned.entry(zone).or_insert(self.model.write_pointer(zone)) += blocks;
                    Request { zone, what: What::Append(self.seeds(blocks)) }
                }
                Wish::Write { zone, skew, blocks } => {
                    let pointer = planned.entry(zone).or_insert(self.model.write_pointer(zone));
                    let offset = pointer.saturating_add_signed(skew);
                    *pointer += blocks;
                    Request { zone, what: What::Write(offset, self.seeds(blocks)) }
                }
                Wish::Read { zone, offset, blocks } => {
                    let end = self.reads_end.entry(zone).or_default();
                    let offset = offset.unwrap_or(*end % GEOMETRY.zone_size_blocks);
                    *end = offset + blocks;
                    Request { zone, what: What::Read(offset, blocks) }
                }
                Wish::Plain { zone, what } => {
                    if matches!(what, Plain::Reset) {
                        planned.insert(zone, 0);
                    }
                    Request { zone, what: What::Plain(what) }
                }
            });
        }
        requests
    }

    fn batch(&mut self, wishes: &[Wish]) {
        let requests = self.plan(wishes);
        // On a disk a reset is answered later, and what changes its zone meanwhile waits, so that it ends a batch here;
        // `reset.rs` has what is in flight behind one.
        requests.split_inclusive(Request::is_reset).for_each(|requests| self.in_flight(requests));
    }

    /// Requests that are in flight together.
    fn in_flight(&mut self, requests: &[Request]) {
        let answers: Vec<Vec<Completion>> =
            self.drives.iter_mut().map(|drive| run(drive, requests)).collect();
        // A flush of a disk takes its time and concerns no zone.
        let executed = |answer: &[Completion]| -> Vec<usize> {
            answer.iter().map(place).filter(|place| !requests[*place].is_flush()).collect()
        };
        let order = executed(&answers[0]);
        for zone in 0..=GEOMETRY.zones {
            assert!(order.iter().filter(|place| requests[**place].zone == zone).is_sorted());
        }
        let expected: HashMap<usize, Seen> =
            order.iter().map(|place| (*place, self.model.execute(&requests[*place]))).collect();
        for answer in &answers {
            assert_eq!(executed(answer), order);
            for completion in answer {
                let request = &requests[place(completion)];
                let seen = seen(request, completion);
                match expected.get(&place(completion)) {
                    None => assert_eq!(seen.status, Status::Success, "{request:?}"),
                    Some(expected) => assert!(
                        seen == *expected,
                        "{request:?}: {:?} at {}, not {:?} at {}",
                        seen.status,
                        seen.offset,
                        expected.status,
                        expected.offset
                    ),
                }
            }
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Batch(ref wishes) => self.batch(wishes),
            Step::FailZone { zone, offline } => {
                let state = if offline { ZoneState::Offline } else { ZoneState::ReadOnly };
                self.model.table.degrade(ZoneIndex(zone), state);
                self.drives.iter_mut().for_each(|drive| drive.fail_zone(ZoneIndex(zone), state));
            }
            Step::FailWrites { zone } => {
                *self.model.failing_writes.entry(zone).or_default() += 1;
                self.drives.iter_mut().for_each(|drive| drive.fail_writes(ZoneIndex(zone), 1));
            }
            Step::FailWriteAt { zone, ahead } => {
                let block = self.model.write_pointer(zone) + ahead;
                self.model.unwritable.push((zone, block));
                self.drives.iter_mut().for_each(|drive| drive.fail_write_at(ZoneIndex(zone), block));
            }
            Step::FailReads { zone, offset } => {
                self.model.unreadable.push((zone, offset));
                self.drives.iter_mut().for_each(|drive| drive.fail_reads(ZoneIndex(zone), offset));
            }
            Step::Reopen => self.reopen(),
        }
    }

    fn reopen(&mut self) {
        self.model.reopen();
        let snapshot = self.drives[0].heap_snapshot().unwrap();
        self.drives.clear();
        self.drives.push(EmulatedDrive::from_heap(snapshot).unwrap());
        self.drives.extend(self.paths.iter().map(|path| EmulatedDrive::open(path).unwrap()));
    }

    fn check_report(&mut self) {
        let expected: Vec<ZoneDescriptor> = self.model.table.report(ZoneIndex(0), u32::MAX).unwrap();
        for drive in &mut self.drives {
            let op = Op::Report { count: u32::MAX };
            drive.submit(Instant(0), Command { token: Token(0), zone: ZoneIndex(0), op });
            assert_eq!(settle(drive, 1)[0].report, expected);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn drives_agree_with_the_model(steps in proptest::collection::vec(step(), 1..60)) {
        let places = ["/dev/shm", "/tmp"].map(|directory| tempfile::tempdir_in(directory).unwrap());
        let mut world = World::new(places.iter().map(|place| place.path().join("drive")).collect());
        for step in &steps {
            world.step(step);
            world.check_report();
        }
    }
}
