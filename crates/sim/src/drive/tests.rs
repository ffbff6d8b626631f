//! Windows on the simulated drive: the same answers as from an emulated drive in a file, and after a power failure with
//! commands in flight nothing but what the drive's kind allows.

use super::*;
use drive::emulated::CreateOptions;
use std::path::Path;
use zone::device::Areas;
use zone::rules::ZoneTable;

const CAPACITY: u32 = 32;

fn geometry(random: &mut Random, volatile_cache: bool) -> Geometry {
    let granule_blocks = [1, 2, 4][random.index(3)];
    let window_blocks = granule_blocks * [1, 2, 4][random.index(3)];
    Geometry {
        zones: 5,
        zone_size_blocks: 40,
        zone_capacity_blocks: CAPACITY,
        open_zones_max: 2,
        active_zones_max: 3,
        append_blocks_max: 8,
        transfer_blocks_max: 32,
        volatile_cache,
        areas: Some(Areas {
            zones_max: 1 + u32::try_from(random.below(2)).unwrap(),
            window_blocks,
            granule_blocks,
            explicit_commit: !random.chance(1, 8),
        }),
    }
}

fn plan(seed: u64, volatile_cache: bool) -> Plan {
    let latency = Latency::Random { typical_ns: 1_000, slow_ns: 20_000, slow_per_mille: 100 };
    Plan { volatile_cache, latency, raizn: None, ..Plan::draw(seed) }
}

fn frame(stamp: u64) -> Frame {
    let mut frame = Frame::zeroed();
    frame.data[..8].copy_from_slice(&stamp.to_le_bytes());
    frame.data[4088..].copy_from_slice(&stamp.to_le_bytes());
    frame.oob[..8].copy_from_slice(&stamp.to_le_bytes());
    frame
}

/// Stamp of a block; `None` for a mixture.
fn stamp(frame: &Frame) -> Option<u64> {
    let stamp = base::bytes::u64_at(&frame.data, 0);
    let same = base::bytes::u64_at(&frame.data, 4088) == stamp && base::bytes::u64_at(&frame.oob, 0) == stamp;
    same.then_some(stamp)
}

/// A command, mostly one that a window allows, and the stamps of what it writes.
fn draw(random: &mut Random, table: &ZoneTable, areas: Areas, next: &mut u64) -> (ZoneIndex, Op) {
    let zone = ZoneIndex(u32::try_from(random.below(4)).unwrap());
    let found = table.zone(zone);
    let near = |random: &mut Random, most: u32| u32::try_from(random.below(u64::from(most) + 1)).unwrap();
    let op = match random.below(40) {
        _ if found.area.is_none() && random.chance(2, 3) => Op::OpenWithArea,
        0 => Op::Reset,
        1 => Op::Finish,
        2 => Op::Close,
        3 => Op::Open,
        4 => Op::Append { frames: vec![frame(1)] },
        5..9 => {
            let granules = near(random, areas.window_blocks / areas.granule_blocks + 1);
            Op::Commit { end: found.write_pointer + granules * areas.granule_blocks }
        }
        9..12 => Op::Flush,
        _ => {
            let reach = if random.chance(1, 6) { 2 * areas.window_blocks } else { areas.window_blocks };
            let ahead = near(random, reach);
            let blocks = 1 + u64::from(near(random, areas.window_blocks.min(5)));
            *next += blocks;
            let frames = (*next - blocks..*next).map(frame).collect();
            Op::Write { offset: found.write_pointer + ahead, frames }
        }
    };
    (zone, op)
}

/// Answers at once.
fn ask(drive: &mut Drive, power: &mut Power, zone: ZoneIndex, op: Op) -> Completion {
    let mut trace = Trace::new(crate::trace::Keep::Nothing);
    drive.submit(Instant(0), Command { token: Token(0), zone, op }, power, &mut trace);
    let mut completions = Vec::new();
    drive.poll(Instant(0), power, &mut trace, &mut completions);
    completions.pop().expect("drives answer at once in recovery")
}

fn ask_file(drive: &mut EmulatedDrive, zone: ZoneIndex, op: Op) -> Completion {
    drive.submit(Instant(0), Command { token: Token(0), zone, op });
    let mut completions = Vec::new();
    while completions.is_empty() {
        drive.poll(Instant(0), &mut completions);
    }
    completions.pop().expect("one command, one answer")
}

fn stamps(completion: &Completion) -> Vec<Option<u64>> {
    completion.frames.iter().map(stamp).collect()
}

fn read_all() -> Op {
    Op::Read { offset: 0, frames: (0..CAPACITY).map(|_| frame(7)).collect() }
}

fn fate(random: &mut Random) -> AreaFate {
    [AreaFate::Kept, AreaFate::KeptOnceMoved, AreaFate::Committed, AreaFate::Full][random.index(4)]
}

/// The same commands and power failures at a simulated drive, an emulated drive in a file of each kind, and the rules.
fn in_step(seed: u64, directories: [&Path; 2]) {
    let mut random = Random::from_seed(seed);
    let geometry = geometry(&mut random, false);
    let areas = geometry.areas.unwrap();
    let paths = directories.map(|directory| directory.join(format!("drive{seed}")));
    let options = CreateOptions::new(geometry, [1; 16]);
    let mut files = paths.each_ref().map(|path| EmulatedDrive::create(path, &options).unwrap());
    let mut drive = Drive::new(&plan(seed, false), geometry, [1; 16], 0);
    let mut power = Power::in_recovery();
    let mut table = ZoneTable::new(geometry);
    let mut next = 1_000;
    for _ in 0..120 {
        if random.chance(1, 20) {
            drive.area_fate = fate(&mut random);
            drive.power_fail();
            for (file, path) in files.iter_mut().zip(&paths) {
                file.lose_power_with_areas(drive.area_fate).unwrap();
                let other = EmulatedDrive::on_heap(geometry, [0; 16]).unwrap();
                drop(std::mem::replace(file, other));
                *file = EmulatedDrive::open(path).unwrap();
            }
            let zones = (0..geometry.zones).map(|zone| drive.media.zone(ZoneIndex(zone))).collect();
            table = ZoneTable::from_zones(geometry, zones);
        } else {
            let (zone, op) = draw(&mut random, &table, areas, &mut next);
            let copies = [(); 2].map(|()| super::stub(&mut copy_of(&op), 2));
            let expected = match &op {
                Op::Write { offset, frames } => {
                    table.write(zone, *offset, u32::try_from(frames.len()).unwrap())
                }
                Op::Append { .. } => table.append(zone, 1).map(|_| ()),
                Op::Commit { end } => table.commit(zone, *end),
                Op::OpenWithArea => table.open_with_area(zone),
                Op::Open => table.open(zone),
                Op::Close => table.close(zone),
                Op::Finish => table.finish(zone),
                Op::Reset => table.reset(zone),
                _ => Ok(()),
            };
            let answer = ask(&mut drive, &mut power, zone, op);
            assert_eq!(answer.status, expected.err().unwrap_or(Status::Success));
            for (file, op) in files.iter_mut().zip(copies) {
                assert_eq!(ask_file(file, zone, op).status, answer.status);
            }
        }
        for zone in (0..geometry.zones).map(ZoneIndex) {
            let contents = stamps(&ask(&mut drive, &mut power, zone, read_all()));
            assert!(contents.iter().all(Option::is_some));
            assert_eq!(drive.media.zone(zone), table.zone(zone));
            for file in &mut files {
                assert_eq!(file.zone(zone), table.zone(zone));
                assert_eq!(stamps(&ask_file(file, zone, read_all())), contents);
            }
        }
    }
}

fn copy_of(op: &Op) -> Op {
    match op {
        Op::Write { offset, frames } => {
            Op::Write { offset: *offset, frames: frames.iter().map(copy).collect() }
        }
        Op::Append { frames } => Op::Append { frames: frames.iter().map(copy).collect() },
        Op::Commit { end } => Op::Commit { end: *end },
        Op::OpenWithArea => Op::OpenWithArea,
        Op::Open => Op::Open,
        Op::Close => Op::Close,
        Op::Finish => Op::Finish,
        Op::Reset => Op::Reset,
        _ => Op::Flush,
    }
}

fn copy(frame: &Frame) -> Frame {
    let mut copy = Frame::zeroed();
    (copy.data, copy.oob) = (frame.data, frame.oob);
    copy
}

#[test]
fn simulated_and_emulated_drives_and_the_rules_agree_on_windows() {
    let places = ["/dev/shm", "/tmp"].map(|directory| tempfile::tempdir_in(directory).unwrap());
    for seed in 0..30 {
        in_step(seed, places.each_ref().map(tempfile::TempDir::path));
    }
}

/// What a zone with an area may hold after a power failure.
#[derive(Clone, Debug, Default)]
struct May {
    /// Stamps of each block since the last flush, oldest first; 0 where it was not written.
    versions: BTreeMap<u32, Vec<u64>>,
    /// Write pointers since then: lowest and highest.
    lowest: u32,
    highest: u32,
}

impl May {
    fn versions(&mut self, offset: u32) -> &mut Vec<u64> {
        self.versions.entry(offset).or_insert_with(|| vec![0])
    }

    /// What there is, is durable.
    fn settle(&mut self) {
        self.versions.values_mut().for_each(|versions| _ = versions.drain(..versions.len() - 1));
        self.lowest = self.highest;
    }
}

/// A command that a window from `from` on allows, perhaps a flush.
fn draw_legal(random: &mut Random, geometry: &Geometry, from: u32, flush: bool, next: &mut u64) -> Op {
    let areas = geometry.areas.unwrap();
    match random.below(8) {
        0 if flush => Op::Flush,
        1 => {
            let most = areas.window_end(geometry, from) - from;
            let granules = 1 + random.below(u64::from(most / areas.granule_blocks).max(1));
            Op::Commit { end: from + u32::try_from(granules).unwrap() * areas.granule_blocks }
        }
        _ => {
            let room = (2 * areas.window_blocks).min(CAPACITY - from);
            let blocks = 1 + u32::try_from(random.below(u64::from(room.min(6)))).unwrap();
            let ahead = u32::try_from(random.below(u64::from(room - blocks) + 1)).unwrap();
            let first = *next;
            *next += u64::from(blocks);
            Op::Write { offset: from + ahead, frames: (first..*next).map(frame).collect() }
        }
    }
}

/// One zone with a window: writes and commits that complete, flushes, and some that are in flight when the power fails.
fn outage(seed: u64, volatile_cache: bool) {
    let mut random = Random::from_seed(seed);
    let mut geometry = geometry(&mut random, volatile_cache);
    let areas = Areas { explicit_commit: true, ..geometry.areas.unwrap() };
    geometry.areas = Some(areas);
    let mut drive = Drive::new(&plan(seed, volatile_cache), geometry, [1; 16], 0);
    let mut power = Power::in_recovery();
    let (zone, mut may, mut next) = (ZoneIndex(3), May::default(), 1_000_u64);
    ask(&mut drive, &mut power, zone, Op::OpenWithArea);
    for round in 0..25 {
        let in_flight = round == 24;
        let commands = if in_flight { 1 + random.below(3) } else { 1 };
        power.recovering = !in_flight;
        // In flight, a write pointer may be old or new, so that none moves it twice.
        let from = may.highest;
        for _ in 0..commands {
            let op = draw_legal(&mut random, &geometry, from, !in_flight, &mut next);
            if matches!(op, Op::Commit { end } if end >= CAPACITY) || from + areas.granule_blocks >= CAPACITY
            {
                continue;
            }
            let copy = copy_of(&op);
            if in_flight {
                let mut trace = Trace::new(crate::trace::Keep::Nothing);
                drive.submit(Instant(0), Command { token: Token(0), zone, op }, &power, &mut trace);
            } else {
                assert_eq!(ask(&mut drive, &mut power, zone, op).status, Status::Success);
            }
            match copy {
                Op::Flush => may.settle(),
                Op::Commit { end } => may.highest = may.highest.max(end),
                Op::Write { offset, frames } => {
                    let end = offset + u32::try_from(frames.len()).unwrap();
                    may.highest = may.highest.max(areas.write_pointer_after(from, end));
                    for (offset, frame) in (offset..).zip(&frames) {
                        may.versions(offset).push(stamp(frame).unwrap());
                    }
                }
                _ => {}
            }
        }
        if !volatile_cache && !in_flight {
            may.settle();
        }
    }
    drive.power_fail();
    let found = drive.media.zone(zone);
    assert!((may.lowest..=may.highest).contains(&found.write_pointer), "seed {seed}: {found:?}, {may:?}");
    assert!(found.write_pointer.is_multiple_of(areas.granule_blocks));
    assert_eq!(found.state, ZoneState::Closed);
    let contents = stamps(&ask(&mut drive, &mut Power::in_recovery(), zone, read_all()));
    for (offset, stamp) in (0..).zip(contents) {
        let stamp = stamp.expect("no block is a mixture");
        let allowed = may.versions.get(&offset).is_some_and(|versions| versions.contains(&stamp));
        assert!(
            allowed || (stamp == 0 && !may.versions.contains_key(&offset)),
            "seed {seed} block {offset}: {stamp}"
        );
    }
}

#[test]
fn a_power_failure_leaves_each_block_of_a_window_old_or_new() {
    for seed in 0..600 {
        outage(seed, false);
        outage(seed, true);
    }
}
