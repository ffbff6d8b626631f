//! A process that writes to a drive is killed with SIGKILL at a random moment. Whatever it was told
//! had completed is there afterwards, with its contents; whatever was under way is there wholly or
//! not at all, or is a reset that has happened or has not.
//!
//! The process is this test program started again, with the drive's path in the environment. It
//! says on its standard output what it is about to do and what has completed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use base::frame::Frame;
use base::random::Random;
use base::time::Instant;
use base::units::ZoneIndex;
use drive::emulated::{CreateOptions, EmulatedDrive};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command as Process, Stdio};
use std::time::Duration;
use zone::device::{Command, Completion, Geometry, Op, Status, Token, ZoneState, ZonedDevice};

const PATH_VARIABLE: &str = "ZONEWEAVE_KILL_WRITER_PATH";
const KILLS: u64 = 12;
const GEOMETRY: Geometry = Geometry {
    zones: 4,
    zone_size_blocks: 512,
    zone_capacity_blocks: 300,
    open_zones_max: 3,
    active_zones_max: 3,
    append_blocks_max: 40,
    transfer_blocks_max: 512,
    volatile_cache: false,
};

/// What is known of a zone.
#[derive(Clone, Debug, Default)]
struct Known {
    /// Seeds of the blocks that completed.
    seeds: Vec<u64>,
    /// What was begun and may or may not have happened.
    begun: Option<Begun>,
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
            completed += run_and_kill(&path, Duration::from_micros(500 + random.below(40_000)), &mut known);
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
        [">", zone, "reset", "."] => known[zone_index(zone)].begun = Some(Begun::Reset),
        [">", zone, "append", seed, count, "."] => {
            let seeds = (number(seed)..number(seed) + number(count)).collect();
            known[zone_index(zone)].begun = Some(Begun::Append(seeds));
        }
        ["<", zone, "."] => {
            let zone = &mut known[zone_index(zone)];
            match zone.begun.take().expect("what completes was begun") {
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
        match zone.begun.take() {
            None => {}
            Some(Begun::Append(seeds)) if written as usize > zone.seeds.len() => zone.seeds.extend(seeds),
            Some(Begun::Append(_)) => {}
            Some(Begun::Reset) if written == 0 => zone.seeds.clear(),
            Some(Begun::Reset) => {}
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

/// Appends to and resets all zones in turn, for ever.
fn write_until_killed(path: &Path) -> ! {
    let mut drive = EmulatedDrive::open(path).unwrap();
    let mut random = Random::from_seed(u64::from(std::process::id()));
    // Seeds differ between runs, so that a stale block is not mistaken for a new one.
    let mut seed = u64::from(std::process::id()) << 32;
    loop {
        let zone = u32::try_from(random.below(u64::from(GEOMETRY.zones) - 1)).unwrap();
        let report = run(&mut drive, zone, Op::Report { count: 1 }).report[0];
        let room = match report.state {
            ZoneState::Full => 0,
            _ => GEOMETRY.zone_capacity_blocks - report.write_pointer,
        };
        let op = if room == 0 || random.chance(1, 40) {
            say(&format!("> {zone} reset .\n"));
            Op::Reset
        } else {
            let count = (1 + random.below(40)).min(u64::from(room));
            say(&format!("> {zone} append {seed} {count} .\n"));
            let frames = (seed..seed + count).map(frame).collect();
            seed += count;
            Op::Append { frames }
        };
        assert_eq!(run(&mut drive, zone, op).status, Status::Success);
        say(&format!("< {zone} .\n"));
    }
}

/// One write to the pipe per line: the line is out before anything else happens.
fn say(line: &str) {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush()).unwrap();
}

fn frame(seed: u64) -> Frame {
    let mut frame = Frame::zeroed();
    let mut random = Random::from_seed(seed);
    random.fill(&mut frame.data);
    random.fill(&mut frame.oob);
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
