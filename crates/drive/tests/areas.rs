//! Zones with random write areas, on each kind of media, against the rules and a map of blocks: random commands, several
//! in flight, with faults, drives opened again, and power failures after which zones come back as drives differ.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use base::frame::Frame;
use base::time::Instant;
use base::units::ZoneIndex;
use drive::emulated::{AreaFate, CreateOptions, EmulatedDrive};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use zone::device::{Areas, Command, Completion, Geometry, Op, Status, Token, ZoneState, ZonedDevice};
use zone::rules::{Zone, ZoneTable};

const AREAS: Areas = Areas { zones_max: 2, window_blocks: 8, granule_blocks: 4, explicit_commit: true };
const GEOMETRY: Geometry = Geometry {
    zones: 4,
    zone_size_blocks: 48,
    zone_capacity_blocks: 40,
    open_zones_max: 2,
    active_zones_max: 3,
    append_blocks_max: 8,
    transfer_blocks_max: 40,
    volatile_cache: false,
    areas: Some(AREAS),
};

/// A command; offsets count from the write pointer as it is when the batch is planned.
#[derive(Clone, Copy, Debug)]
enum Wish {
    Write { ahead: i32, blocks: u32 },
    Commit { ahead: u32 },
    Append { blocks: u32 },
    Open,
    OpenWithArea,
    Close,
    Finish,
    Reset,
}

#[derive(Clone, Debug)]
enum Step {
    Batch(Vec<(u32, Wish)>),
    FailWrite { zone: u32, ahead: u32 },
    FailZone { zone: u32, offline: bool },
    Reopen,
    LosePower(AreaFate),
}

fn wish() -> impl Strategy<Value = Wish> {
    prop_oneof![
        24 => (-1..16_i32, 1..18_u32).prop_map(|(ahead, blocks)| Wish::Write { ahead, blocks }),
        24 => (0..8_i32, 1..4_u32).prop_map(|(ahead, blocks)| Wish::Write { ahead, blocks }),
        4 => (0..3_u32).prop_map(|granules| Wish::Commit { ahead: 4 * granules }),
        1 => (0..10_u32).prop_map(|ahead| Wish::Commit { ahead }),
        2 => (1..4_u32).prop_map(|blocks| Wish::Append { blocks }),
        1 => Just(Wish::Open),
        12 => Just(Wish::OpenWithArea),
        1 => Just(Wish::Close),
        1 => Just(Wish::Finish),
        2 => Just(Wish::Reset),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let zone = || 0..GEOMETRY.zones;
    let fates = [AreaFate::Kept, AreaFate::KeptOnceMoved, AreaFate::Committed, AreaFate::Full];
    prop_oneof![
        20 => proptest::collection::vec((0..3_u32, wish()), 1..12).prop_map(Step::Batch),
        2 => (zone(), 0..10_u32).prop_map(|(zone, ahead)| Step::FailWrite { zone, ahead }),
        1 => (zone(), any::<bool>()).prop_map(|(zone, offline)| Step::FailZone { zone, offline }),
        3 => Just(Step::Reopen),
        2 => proptest::sample::select(fates.to_vec()).prop_map(Step::LosePower),
    ]
}

/// A command as every drive gets it: kind, zone, offset or end, seeds of what is written.
#[derive(Clone, Debug)]
struct Request {
    zone: u32,
    what: Wish,
    at: u32,
    seeds: Vec<u64>,
}

impl Request {
    fn op(&self) -> Op {
        let frames = || self.seeds.iter().map(|seed| frame(*seed)).collect();
        match self.what {
            Wish::Write { .. } => Op::Write { offset: self.at, frames: frames() },
            Wish::Append { .. } => Op::Append { frames: frames() },
            Wish::Commit { .. } => Op::Commit { end: self.at },
            Wish::Open => Op::Open,
            Wish::OpenWithArea => Op::OpenWithArea,
            Wish::Close => Op::Close,
            Wish::Finish => Op::Finish,
            Wish::Reset => Op::Reset,
        }
    }
}

struct Model {
    table: ZoneTable,
    /// Seeds of blocks that were written since their zone was reset, committed or not.
    blocks: BTreeMap<(u32, u32), u64>,
    unwritable: Vec<(u32, u32)>,
}

impl Model {
    fn execute(&mut self, request: &Request) -> Status {
        let Request { zone, ref what, at, ref seeds } = *request;
        let index = ZoneIndex(zone);
        let before = self.table.zone(index);
        let blocks = u32::try_from(seeds.len()).unwrap();
        let outcome = match what {
            Wish::Write { .. } => self.table.write(index, at, blocks).map(|()| at),
            Wish::Append { .. } => self.table.append(index, blocks),
            Wish::Commit { .. } => self.table.commit(index, at).map(|()| 0),
            Wish::Open => self.table.open(index).map(|()| 0),
            Wish::OpenWithArea => self.table.open_with_area(index).map(|()| 0),
            Wish::Close => self.table.close(index).map(|()| 0),
            Wish::Finish => self.table.finish(index).map(|()| 0),
            Wish::Reset => self.table.reset(index).map(|()| 0),
        };
        let offset = match outcome {
            Ok(offset) => offset,
            Err(status) => return status,
        };
        let hit = self
            .unwritable
            .iter()
            .position(|(bad, block)| *bad == zone && (offset..offset + blocks).contains(block));
        if let Some(hit) = hit {
            self.unwritable.remove(hit);
            self.become_zone(zone, before);
            return Status::WriteFault;
        }
        self.blocks.extend((offset..).zip(seeds).map(|(block, seed)| ((zone, block), *seed)));
        if matches!(what, Wish::Reset) {
            self.blocks.retain(|(at, _), _| *at != zone);
        }
        Status::Success
    }

    fn become_zone(&mut self, zone: u32, state: Zone) {
        let mut zones: Vec<Zone> = (0..GEOMETRY.zones).map(|zone| self.table.zone(ZoneIndex(zone))).collect();
        zones[zone as usize] = state;
        self.table = ZoneTable::from_zones(GEOMETRY, zones);
    }

    fn close_all(&mut self) {
        for zone in 0..GEOMETRY.zones {
            let found = self.table.zone(ZoneIndex(zone));
            if found.state.is_open() {
                self.become_zone(zone, Zone { state: ZoneState::Closed, ..found });
            }
        }
        self.unwritable.clear();
    }

    /// As the list of what drives do says it.
    fn lose_power(&mut self, fate: AreaFate) {
        for zone in 0..GEOMETRY.zones {
            let found = self.table.zone(ZoneIndex(zone));
            let Some(end) = found.area else { continue };
            let without = match fate {
                AreaFate::Kept => continue,
                AreaFate::KeptOnceMoved if found.write_pointer > 0 => continue,
                AreaFate::KeptOnceMoved => {
                    self.blocks.retain(|(at, _), _| *at != zone);
                    Zone::new(ZoneState::Empty, 0)
                }
                AreaFate::Full => Zone::new(ZoneState::Full, end),
                AreaFate::Committed if end == 0 => Zone::new(ZoneState::Empty, 0),
                AreaFate::Committed if end == 40 => Zone::new(ZoneState::Full, 40),
                AreaFate::Committed => Zone::new(ZoneState::Closed, end),
            };
            self.become_zone(zone, without);
        }
    }
}

/// No two 8-byte words of all frames are alike.
fn frame(seed: u64) -> Frame {
    let mut frame = Frame::zeroed();
    let body = &mut *frame;
    let words = body.data.chunks_exact_mut(8).chain(body.oob.chunks_exact_mut(8));
    words.zip(seed << 16..).for_each(|(word, number)| word.copy_from_slice(&number.to_le_bytes()));
    frame
}

fn run(drive: &mut EmulatedDrive, commands: Vec<(u32, Op)>) -> Vec<Completion> {
    let count = commands.len();
    for (token, (zone, op)) in (0..).zip(commands) {
        drive.submit(Instant(0), Command { token: Token(token), zone: ZoneIndex(zone), op });
    }
    let mut completions = Vec::new();
    while completions.len() < count {
        drive.poll(Instant(0), &mut completions);
    }
    completions
}

struct World {
    model: Model,
    drives: Vec<EmulatedDrive>,
    paths: Vec<PathBuf>,
    next_seed: u64,
}

impl World {
    fn new(directories: &[&Path]) -> World {
        let paths: Vec<PathBuf> = directories.iter().map(|directory| directory.join("drive")).collect();
        let options = CreateOptions::new(GEOMETRY, [9; 16]);
        let mut drives = vec![EmulatedDrive::on_heap(GEOMETRY, [9; 16]).unwrap()];
        drives.extend(paths.iter().map(|path| EmulatedDrive::create(path, &options).unwrap()));
        let table = ZoneTable::new(GEOMETRY);
        let model = Model { table, blocks: BTreeMap::new(), unwritable: Vec::new() };
        World { model, drives, paths, next_seed: 1 }
    }

    fn request(&mut self, zone: u32, what: Wish) -> Request {
        let pointer = self.model.table.zone(ZoneIndex(zone)).write_pointer;
        let (at, blocks) = match what {
            Wish::Write { ahead, blocks } => (pointer.saturating_add_signed(ahead), blocks),
            Wish::Commit { ahead } => (pointer + ahead, 0),
            Wish::Append { blocks } => (0, blocks),
            _ => (0, 0),
        };
        let first = self.next_seed;
        self.next_seed += u64::from(blocks);
        Request { zone, what, at, seeds: (first..self.next_seed).collect() }
    }

    fn batch(&mut self, wishes: &[(u32, Wish)]) {
        // What follows a reset of a disk waits for it, and drives would no longer execute in one order.
        for wishes in wishes.split_inclusive(|(_, wish)| matches!(wish, Wish::Reset)) {
            let requests: Vec<Request> =
                wishes.iter().map(|(zone, what)| self.request(*zone, *what)).collect();
            let answers: Vec<Vec<Completion>> = self
                .drives
                .iter_mut()
                .map(|drive| {
                    run(drive, requests.iter().map(|request| (request.zone, request.op())).collect())
                })
                .collect();
            for place in 0..requests.len() {
                let executed = &requests[usize::try_from(answers[0][place].token.0).unwrap()];
                let expected = self.model.execute(executed);
                for answer in &answers {
                    assert_eq!(answer[place].token, answers[0][place].token);
                    assert_eq!(answer[place].status, expected, "{executed:?}");
                }
            }
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Batch(wishes) => self.batch(wishes),
            Step::FailWrite { zone, ahead } => {
                let block = self.model.table.zone(ZoneIndex(*zone)).write_pointer + ahead;
                self.model.unwritable.push((*zone, block));
                self.drives.iter_mut().for_each(|drive| drive.fail_write_at(ZoneIndex(*zone), block));
            }
            Step::FailZone { zone, offline } => {
                let state = if *offline { ZoneState::Offline } else { ZoneState::ReadOnly };
                self.model.table.degrade(ZoneIndex(*zone), state);
                self.drives.iter_mut().for_each(|drive| drive.fail_zone(ZoneIndex(*zone), state));
            }
            Step::Reopen => self.reopen(),
            Step::LosePower(fate) => {
                self.model.lose_power(*fate);
                self.drives.iter_mut().for_each(|drive| drive.lose_power_with_areas(*fate).unwrap());
                self.reopen();
            }
        }
    }

    fn reopen(&mut self) {
        self.model.close_all();
        let snapshot = self.drives[0].heap_snapshot().unwrap();
        self.drives.clear();
        self.drives.push(EmulatedDrive::from_heap(snapshot).unwrap());
        self.drives.extend(self.paths.iter().map(|path| EmulatedDrive::open(path).unwrap()));
    }

    /// States, write pointers and areas as the rules have them; every block as it was last written, or zeros.
    fn check(&mut self) {
        let expected = self.model.table.report(ZoneIndex(0), u32::MAX).unwrap();
        for drive in &mut self.drives {
            assert_eq!(run(drive, vec![(0, Op::Report { count: u32::MAX })])[0].report, expected);
            for zone in 0..GEOMETRY.zones {
                assert_eq!(drive.zone(ZoneIndex(zone)), self.model.table.zone(ZoneIndex(zone)));
                if expected[zone as usize].state == ZoneState::Offline {
                    continue;
                }
                let frames = (0..40).map(|_| frame(7)).collect();
                let found = run(drive, vec![(zone, Op::Read { offset: 0, frames })]).pop().unwrap().frames;
                for (block, found) in (0..).zip(&found) {
                    let wanted =
                        self.model.blocks.get(&(zone, block)).map_or_else(Frame::zeroed, |seed| frame(*seed));
                    let same = found.data == wanted.data && found.oob == wanted.oob;
                    assert!(same, "zone {zone} block {block}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn windows_agree_with_the_model(steps in proptest::collection::vec(step(), 1..40)) {
        let places = ["/dev/shm", "/tmp"].map(|directory| tempfile::tempdir_in(directory).unwrap());
        let mut world = World::new(&places.each_ref().map(tempfile::TempDir::path));
        for step in &steps {
            world.step(step);
            world.check();
        }
    }
}
