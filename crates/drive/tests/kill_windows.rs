//! A process that writes to windows of random write areas is killed with SIGKILL at a random moment. Each block is then
//! as the last write that completed left it, or as one that was under way, and never a mixture of two; what is committed
//! stays committed.
//!
//! The process is this test program started again, as in `kill.rs`. Most of its writes overwrite blocks of windows, many
//! of them in flight, so that most kills hit the middle of overwrites.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use base::frame::Frame;
use base::random::Random;
use base::time::Instant;
use base::units::ZoneIndex;
use drive::emulated::{CreateOptions, EmulatedDrive};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command as Process, Stdio};
use std::time::Duration;
use zone::device::{Areas, Command, Completion, Geometry, Op, Status, Token, ZonedDevice};

const PATH_VARIABLE: &str = "ZONEWEAVE_KILL_WINDOWS_PATH";
const KILLS: u64 = 60;
const WINDOW: u32 = 32;
/// Zones with an area.
const ZONES: u32 = 2;
const CAPACITY: u32 = 256;
const GEOMETRY: Geometry = Geometry {
    zones: 4,
    zone_size_blocks: 256,
    zone_capacity_blocks: CAPACITY,
    open_zones_max: 3,
    active_zones_max: 3,
    append_blocks_max: 40,
    transfer_blocks_max: 256,
    volatile_cache: false,
    areas: Some(Areas { zones_max: 2, window_blocks: WINDOW, granule_blocks: 4, explicit_commit: true }),
};

/// Contents of a zone as far as they are known.
#[derive(Clone, Debug, Default)]
struct Known {
    /// Seed of each block whose write completed.
    blocks: BTreeMap<u32, u64>,
    write_pointer: u32,
    /// Writes that were begun: first block, first seed, count.
    begun: Vec<(u32, u64, u32)>,
    resets: bool,
}

#[test]
fn a_killed_writer_leaves_blocks_of_windows_old_or_new() {
    if let Some(path) = std::env::var_os(PATH_VARIABLE) {
        write_until_killed(Path::new(&path));
    }
    let mut random = Random::from_seed(0x17);
    for directory in ["/dev/shm", "/tmp"] {
        let place = tempfile::tempdir_in(directory).unwrap();
        let path = place.path().join("drive");
        drop(EmulatedDrive::create(&path, &CreateOptions::new(GEOMETRY, [3; 16])).unwrap());
        let mut known = vec![Known::default(); ZONES as usize];
        let (mut completed, mut found_new) = (0, 0);
        for _ in 0..KILLS {
            completed += run_and_kill(&path, Duration::from_micros(200 + random.below(20_000)), &mut known);
            found_new += check(&path, &mut known);
        }
        println!(
            "{directory}: {completed} batches completed before {KILLS} kills, {found_new} blocks were new"
        );
        assert!(completed > KILLS, "the writer came to write");
    }
}

/// Starts a writer, kills it `patience` after its first completion, and takes down what it said.
fn run_and_kill(path: &Path, patience: Duration, known: &mut [Known]) -> u64 {
    let mut writer = Process::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_killed_writer_leaves_blocks_of_windows_old_or_new", "--nocapture"])
        .env(PATH_VARIABLE, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines();
    let mut completed = 0;
    let mut killer = None;
    while let Some(Ok(line)) = lines.next() {
        completed += u64::from(note(&line, known));
        if completed == 1 && killer.is_none() {
            let id = i32::try_from(writer.id()).unwrap();
            killer = Some(std::thread::spawn(move || {
                std::thread::sleep(patience);
                let id = rustix::process::Pid::from_raw(id).unwrap();
                rustix::process::kill_process(id, rustix::process::Signal::KILL).unwrap();
            }));
        }
    }
    killer.expect("the writer completes something").join().unwrap();
    assert!(!writer.wait().unwrap().success());
    completed
}

/// Takes down a line: `> zone write offset seed count .`, `> zone reset .`, `< zone write_pointer .`. True when a batch
/// has completed.
fn note(line: &str, known: &mut [Known]) -> bool {
    let words: Vec<&str> = line.split(' ').collect();
    let number = |word: &str| word.parse::<u32>().unwrap();
    let place = |word: &str| word.parse::<usize>().unwrap();
    match words[..] {
        [">", zone, "write", offset, seed, count, "."] => {
            known[place(zone)].begun.push((number(offset), seed.parse().unwrap(), number(count)));
        }
        [">", zone, "reset", "."] => known[place(zone)].resets = true,
        ["<", zone, write_pointer, "."] => {
            let zone = &mut known[place(zone)];
            if std::mem::take(&mut zone.resets) {
                zone.blocks.clear();
            }
            for (offset, seed, count) in zone.begun.drain(..) {
                zone.blocks.extend((offset..offset + count).zip(seed..));
            }
            zone.write_pointer = number(write_pointer);
            return true;
        }
        _ => {}
    }
    false
}

/// Opens the drive and holds it to what is known; afterwards everything is known. Counts blocks that hold what was under
/// way.
fn check(path: &Path, known: &mut [Known]) -> u64 {
    let mut drive = EmulatedDrive::open(path).unwrap();
    let mut found_new = 0;
    for (index, zone) in (0..ZONES).zip(known) {
        let write_pointer = drive.zone(ZoneIndex(index)).write_pointer;
        assert!(zone.resets || write_pointer >= zone.write_pointer, "zone {index}: a commit is undone");
        let frames = (0..CAPACITY).map(|_| frame(1)).collect();
        let found = run(&mut drive, index, Op::Read { offset: 0, frames }).frames;
        for (block, found) in (0..).zip(&found) {
            let old = zone.blocks.get(&block).copied();
            let under_way =
                zone.begun.iter().filter(|(offset, _, count)| (*offset..offset + count).contains(&block));
            let mut new = under_way.map(|(offset, seed, _)| Some(seed + u64::from(block - offset)));
            let holds = |seed: Option<u64>| {
                let wanted = seed.map_or_else(Frame::zeroed, frame);
                found.data == wanted.data && found.oob == wanted.oob
            };
            if holds(old) {
                continue;
            }
            let is_new = new.find(|seed| holds(*seed));
            let seed = is_new.or((zone.resets && holds(None)).then_some(None));
            let seed = seed.unwrap_or_else(|| panic!("zone {index} block {block} is neither old nor new"));
            found_new += 1;
            match seed {
                Some(seed) => _ = zone.blocks.insert(block, seed),
                None => _ = zone.blocks.remove(&block),
            }
        }
        zone.begun.clear();
        zone.resets = false;
        zone.write_pointer = write_pointer;
    }
    found_new
}

struct Writer {
    drive: EmulatedDrive,
    random: Random,
    next_seed: u64,
}

fn write_until_killed(path: &Path) -> ! {
    let drive = EmulatedDrive::open(path).unwrap();
    let random = Random::from_seed(u64::from(std::process::id()));
    // Seeds differ between runs, so that a stale block is not mistaken for a new one.
    let mut writer = Writer { drive, random, next_seed: u64::from(std::process::id()) << 24 };
    loop {
        let zone = u32::try_from(writer.random.below(u64::from(ZONES))).unwrap();
        writer.batch(zone);
    }
}

impl Writer {
    /// Writes in flight together in a zone, sometimes with a commit behind them. A zone that is at its end is reset.
    fn batch(&mut self, zone: u32) {
        let found = self.drive.zone(ZoneIndex(zone));
        if found.area.is_none() || found.write_pointer + WINDOW >= CAPACITY {
            say(&format!("> {zone} reset .\n"));
            assert_eq!(run(&mut self.drive, zone, Op::Reset).status, Status::Success);
            assert_eq!(run(&mut self.drive, zone, Op::OpenWithArea).status, Status::Success);
            return say(&format!("< {zone} 0 .\n"));
        }
        let mut begun = String::new();
        let mut ops = Vec::new();
        let (mut pointer, count) = (found.write_pointer, 1 + self.random.below(8));
        for _ in 0..count {
            let blocks = 1 + u32::try_from(self.random.below(12)).unwrap();
            let reach = if self.random.chance(1, 30) { 2 * WINDOW } else { WINDOW };
            let room = (pointer + reach).min(CAPACITY) - pointer - blocks;
            let offset = pointer + u32::try_from(self.random.below(u64::from(room) + 1)).unwrap();
            begun += &format!("> {zone} write {offset} {} {blocks} .\n", self.next_seed);
            let frames = (self.next_seed..).take(blocks as usize).map(frame).collect();
            self.next_seed += u64::from(blocks);
            pointer = GEOMETRY.areas.unwrap().write_pointer_after(pointer, offset + blocks);
            ops.push(Op::Write { offset, frames });
        }
        if self.random.chance(1, 8) {
            ops.push(Op::Commit { end: pointer + 4 });
        }
        say(&begun);
        let count = ops.len();
        for op in ops {
            self.drive.submit(Instant(0), Command { token: Token(0), zone: ZoneIndex(zone), op });
        }
        let mut completions = Vec::new();
        while completions.len() < count {
            self.drive.poll(Instant(0), &mut completions);
        }
        assert!(completions.iter().all(|completion| completion.status == Status::Success));
        say(&format!("< {zone} {} .\n", self.drive.zone(ZoneIndex(zone)).write_pointer));
    }
}

/// The lines are out before anything else happens.
fn say(lines: &str) {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(lines.as_bytes()).and_then(|()| stdout.flush()).unwrap();
}

/// No two 8-byte words of all frames are alike.
fn frame(seed: u64) -> Frame {
    let mut frame = Frame::zeroed();
    let body = &mut *frame;
    let words = body.data.chunks_exact_mut(8).chain(body.oob.chunks_exact_mut(8));
    words.zip(seed << 10..).for_each(|(word, number)| word.copy_from_slice(&number.to_le_bytes()));
    frame
}

fn run(drive: &mut EmulatedDrive, zone: u32, op: Op) -> Completion {
    let mut completions = Vec::new();
    drive.submit(Instant(0), Command { token: Token(1), zone: ZoneIndex(zone), op });
    while completions.is_empty() {
        drive.poll(Instant(0), &mut completions);
    }
    completions.pop().unwrap()
}
