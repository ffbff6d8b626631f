//! A process that writes to a drive is killed with SIGKILL at a random moment. Whatever it was told
//! had completed is there afterwards, with its contents; whatever was under way is there wholly or
//! not at all, or is a reset that has happened or has not.
//!
//! The process is this test program started again, with the drive's path in the environment. It
//! says on its standard output what it is about to do and what has completed. It spends most of its
//! time in the drive, with several commands in flight, so that many kills hit a run half done: of
//! 40 kills five do when the write pointer is stored before the blocks, and the test fails.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use base::frame::Frame;
use base::random::Random;
use base::time::Instant;
use base::units::ZoneIndex;
use drive::emulated::{CreateOptions, EmulatedDrive};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command as Process, Stdio};
use std::time::Duration;
use zone::device::{Command, Completion, Geometry, Op, Status, Token, ZoneState, ZonedDevice};

const PATH_VARIABLE: &str = "ZONEWEAVE_KILL_WRITER_PATH";
const ZONES: usize = 4;
const KILLS: u64 = 40;
const GEOMETRY: Geometry = Geometry {
    zones: 4,
    zone_size_blocks: 512,
    zone_capacity_blocks: 300,
    open_zones_max: 3,
    active_zones_max: 3,
    append_blocks_max: 40,
    transfer_blocks_max: 512,
    volatile_cache: false,
    areas: None,
};

/// Contents of a zone as far as they are known.
#[derive(Clone, Debug, Default)]
struct Known {
    /// Seeds of the blocks that completed.
    seeds: Vec<u64>,
    /// Changes that were begun, in their order, and may or may not have happened.
    begun: VecDeque<Begun>,
}

#[derive(Clone, Debug)]
enum Begun {
    Append(Vec<u64>),
    Reset,
}

#[test]
fn a_killed_writer_loses_nothing_that_completed() {
    if let Some(path) = std::env::var_os(PATH_VARIABLE) {
        write_until_killed(Path::new(&path));
    }
    let mut random = Random::from_seed(0x9);
    for directory in ["/dev/shm", "/tmp"] {
        let place = tempfile::tempdir_in(directory).unwrap();
        let path = place.path().join("drive");
        drop(EmulatedDrive::create(&path, &CreateOptions::new(GEOMETRY, [3; 16])).unwrap());
        let mut known = vec![Known::default(); GEOMETRY.zones as usize];
        let mut completed = 0;
        for _ in 0..KILLS {
            completed += run_and_kill(&path, Duration::from_micros(200 + random.below(20_000)), &mut known);
            check(&path, &mut known);
        }
        println!("{directory}: {completed} commands completed before {KILLS} kills");
        assert!(completed > KILLS, "the writer came to write");
    }
}

/// Starts a writer, kills it `patience` after its first completion, and takes down what it said.
fn run_and_kill(path: &Path, patience: Duration, known: &mut [Known]) -> u64 {
    let mut writer = Process::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_killed_writer_loses_nothing_that_completed", "--nocapture"])
        .env(PATH_VARIABLE, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines();
    let mut completed = 0;
    let mut killer = None;
    // A line without its end is one that the writer was killed in.
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

/// Takes down a line: `> zone reset`, `> zone append seed count`, `< zone`. True for a completion.
fn note(line: &str, known: &mut [Known]) -> bool {
    let words: Vec<&str> = line.split(' ').collect();
    let number = |word: &str| word.parse::<u64>().unwrap();
    match words[..] {
        [">", zone, "reset", "."] => known[zone_index(zone)].begun.push_back(Begun::Reset),
        [">", zone, "append", seed, count, "."] => {
            let seeds = (number(seed)..number(seed) + number(count)).collect();
            known[zone_index(zone)].begun.push_back(Begun::Append(seeds));
        }
        ["<", zone, "."] => {
            let zone = &mut known[zone_index(zone)];
            match zone.begun.pop_front().expect("what completes was begun") {
                Begun::Append(seeds) => zone.seeds.extend(seeds),
                Begun::Reset => zone.seeds.clear(),
            }
            return true;
        }
        _ => {}
    }
    false
}

fn zone_index(word: &str) -> usize {
    word.parse().unwrap()
}

/// Opens the drive and holds it to what is known; afterwards everything is known.
fn check(path: &Path, known: &mut [Known]) {
    let mut drive = EmulatedDrive::open(path).unwrap();
    for (index, zone) in (0..GEOMETRY.zones).zip(known) {
        let report = run(&mut drive, index, Op::Report { count: 1 }).report[0];
        assert!(!report.state.is_open());
        let written = match report.state {
            ZoneState::Full => GEOMETRY.zone_capacity_blocks,
            _ => report.write_pointer,
        };
        for begun in zone.begun.drain(..) {
            match begun {
                Begun::Append(seeds) if zone.seeds.len() < written as usize => zone.seeds.extend(seeds),
                Begun::Reset if written == 0 => zone.seeds.clear(),
                Begun::Append(_) | Begun::Reset => {}
            }
        }
        assert_eq!(written as usize, zone.seeds.len(), "zone {index}");
        let frames = (0..GEOMETRY.zone_capacity_blocks).map(|_| frame(1)).collect();
        let found = run(&mut drive, index, Op::Read { offset: 0, frames }).frames;
        for (block, found) in found.iter().enumerate() {
            let expected = zone.seeds.get(block).map_or_else(Frame::zeroed, |seed| frame(*seed));
            assert!(found.data == expected.data && found.oob == expected.oob, "zone {index}, block {block}");
        }
    }
}

/// State of the process that writes until it is killed.
struct Writer {
    drive: EmulatedDrive,
    random: Random,
    next_seed: u64,
    /// Blocks left in each zone.
    room: [u64; ZONES],
    frames: Vec<Frame>,
    completions: Vec<Completion>,
}

/// Appends to and resets all zones in turn, for ever.
fn write_until_killed(path: &Path) -> ! {
    let mut drive = EmulatedDrive::open(path).unwrap();
    let report = run(&mut drive, 0, Op::Report { count: GEOMETRY.zones }).report;
    let room = std::array::from_fn(|zone| match report[zone].state {
        ZoneState::Full => 0,
        _ => u64::from(GEOMETRY.zone_capacity_blocks - report[zone].write_pointer),
    });
    let mut writer = Writer {
        drive,
        random: Random::from_seed(u64::from(std::process::id())),
        // Seeds differ between runs, so that a stale block is not mistaken for a new one.
        next_seed: u64::from(std::process::id()) << 24,
        room,
        frames: Vec::new(),
        completions: Vec::new(),
    };
    loop {
        writer.batch();
    }
}

impl Writer {
    /// A few commands in flight together. A reset is alone in its zone.
    fn batch(&mut self) {
        let mut begun = String::new();
        let mut reset = [false; ZONES];
        let count = 1 + self.random.below(12);
        for _ in 0..count {
            let zone = self.random.index(ZONES - 1);
            if reset[zone] {
                continue;
            }
            let op = if self.room[zone] == 0 || self.random.chance(1, 40) {
                if begun.contains(&format!("> {zone} ")) {
                    continue;
                }
                reset[zone] = true;
                self.room[zone] = u64::from(GEOMETRY.zone_capacity_blocks);
                begun += &format!("> {zone} reset .\n");
                Op::Reset
            } else {
                let count = (1 + self.random.below(40)).min(self.room[zone]);
                begun += &format!("> {zone} append {} {count} .\n", self.next_seed);
                self.room[zone] -= count;
                Op::Append { frames: (0..count).map(|_| self.next_frame()).collect() }
            };
            let zone = ZoneIndex(u32::try_from(zone).unwrap());
            self.drive.submit(Instant(0), Command { token: Token(0), zone, op });
        }
        say(&begun);
        // A reset is answered when its space was given back; a kill may come before, in between or after.
        let count = begun.lines().count();
        while self.completions.len() < count {
            self.drive.poll(Instant(0), &mut self.completions);
        }
        let mut completed = String::new();
        for completion in self.completions.drain(..) {
            assert_eq!(completion.status, Status::Success);
            completed += &format!("< {} .\n", completion.zone);
            self.frames.extend(completion.frames);
        }
        say(&completed);
    }

    fn next_frame(&mut self) -> Frame {
        let mut frame = self.frames.pop().unwrap_or_else(Frame::zeroed);
        fill(&mut frame, self.next_seed);
        self.next_seed += 1;
        frame
    }
}

/// The lines are out before anything else happens.
fn say(lines: &str) {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(lines.as_bytes()).and_then(|()| stdout.flush()).unwrap();
}

fn frame(seed: u64) -> Frame {
    let mut frame = Frame::zeroed();
    fill(&mut frame, seed);
    frame
}

/// No two 8-byte words of all frames are alike.
fn fill(frame: &mut Frame, seed: u64) {
    let body = &mut **frame;
    for (at, words) in [(0, &mut body.data[..]), (512, &mut body.oob[..])] {
        for (word, number) in words.chunks_exact_mut(8).zip((seed << 10) + at..) {
            word.copy_from_slice(&number.to_le_bytes());
        }
    }
}

fn run(drive: &mut EmulatedDrive, zone: u32, op: Op) -> Completion {
    let mut completions = Vec::new();
    drive.submit(Instant(0), Command { token: Token(1), zone: ZoneIndex(zone), op });
    while completions.is_empty() {
        drive.poll(Instant(0), &mut completions);
    }
    completions.pop().unwrap()
}
