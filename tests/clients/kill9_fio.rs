//! kill -9 under fio, which overwrites single blocks: each is afterwards the version that was acknowledged last or one that was on its way, every
//! other time without a drive.
//!
//! ```text
//! fio writes: log of what was acknowledged                         ──> versions that a block may hold
//! fio reads:  checksum and place in the header of each block       ──> no mixture, no other block
//! we read:    number of the write in the same header               ──> one of these versions
//! ```
//! Each job of fio has blocks of its own and one write on its way, so the acknowledged ones are numbered as its log has them, and the next number is the
//! one that may be there as well. `cargo xtask kills [COUNT]` does it a quarter as often as it is told, on files and in memory; here are two tries of
//! each. `ZONEWEAVE_SEED` repeats what fio writes.

use crate::kill9_raw::delete;
use crate::support::run::{SOON, command, until, wait_for};
use crate::support::scratch::Scratch;
use crate::support::server::{Server, check, let_run, status};
use crate::support::stamp::{BLOCK_BYTES, BLOCK_BYTES_U64};
use crate::support::{have, number_from, random, text};
use base::random::Random;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Blocks that are overwritten: 4 MiB.
const BLOCKS: u64 = 1024;
/// Writes of one try, fewer than fio's 16-bit numbers of them.
const WRITES_MAX: u64 = 60_000;
/// Longest time from the first overwrite to the kill, in milliseconds.
const LIFE_MAX_MILLIS: u64 = 900;
/// Kills of a cache for each of an array (`cargo xtask kills`).
const KILLS_EACH: u64 = 4;
/// Magic number of the header that fio gives each block.
const MAGIC: u16 = 0xacca;
/// Place of the number of its write in that header.
const NUMBER_AT: usize = 34;

/// State of a job's blocks by fio's log.
struct Oracle {
    /// First block of the job.
    first: u64,
    /// Number of the write of each block that was acknowledged last.
    last: Vec<u64>,
    /// Writes that were acknowledged; the next one has this number.
    acknowledged: u64,
}

impl Oracle {
    /// Before a job, all blocks were written once, in order.
    fn of_job(first: u64, blocks: u64) -> Oracle {
        Oracle { first, last: (first..first + blocks).collect(), acknowledged: 0 }
    }

    /// Reads a line of the log of latencies, "MILLISECONDS, NANOSECONDS, DIRECTION, LENGTH, OFFSET, PRIORITY": writes have direction 1.
    fn note(oracles: &mut [Oracle], line: &str) {
        let words: Vec<&str> = line.split(", ").collect();
        if words[2] != "1" {
            return;
        }
        let block = words[4].parse::<u64>().unwrap() / BLOCK_BYTES_U64;
        let oracle = oracles.iter_mut().rfind(|oracle| oracle.first <= block).unwrap();
        oracle.last[usize::try_from(block - oracle.first).unwrap()] = oracle.acknowledged;
        oracle.acknowledged += 1;
    }

    /// Returns what is wrong with the blocks that were read.
    fn wrong(&self, data: &[u8]) -> Vec<String> {
        let blocks = self.last.iter().zip(data.chunks(BLOCK_BYTES)).enumerate();
        // A block that was not written since may have that number from before.
        let is_newer =
            |last: u64, data| number_in(data) == Some(self.acknowledged) && last != self.acknowledged;
        let newer = blocks.clone().filter(|(_, (last, data))| is_newer(**last, data)).count();
        let too_many = (newer > 1).then(|| format!("{newer} blocks hold the one write that was on its way"));
        let wrong = blocks.filter_map(|(block, (last, data))| {
            let found = number_in(data);
            let is_one = found == Some(*last) || found == Some(self.acknowledged);
            let or = self.acknowledged;
            (!is_one).then(|| format!("block {block} holds write {found:?}, and should hold {last} or {or}"))
        });
        wrong.chain(too_many).collect()
    }
}

/// Number of the write in fio's header of a block.
fn number_in(data: &[u8]) -> Option<u64> {
    let half = |at: usize| u16::from_le_bytes([data[at], data[at + 1]]);
    (half(0) == MAGIC).then(|| half(NUMBER_AT).into())
}

/// An array that is killed again and again.
struct Killed {
    scratch: Scratch,
    random: Random,
    arrays: u32,
    service: &'static [&'static str],
    /// Blocks that were in slots of the write area when the server was killed.
    in_slots: u64,
}

impl Killed {
    fn dir(&self) -> PathBuf {
        self.scratch.join(&format!("a{}", self.arrays))
    }

    fn renew(&mut self) {
        let _none_the_first_time = std::fs::remove_dir_all(self.dir());
        self.arrays += 1;
        let made = ["--size", "64MiB", "--zrwa-window", "256KiB"];
        Server::up(&self.dir(), &[&made, self.service].concat()).stop();
    }

    fn fio(&self, server: &Server, job: &[&str]) -> Command {
        let mut fio = command("fio");
        fio.current_dir(self.scratch.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        fio.args(["--name=job", "--ioengine=nbd", &format!("--uri={}", server.uri())]);
        fio.args(["--bs=4k", &format!("--size={}", BLOCKS * BLOCK_BYTES_U64), "--verify=crc32c"]);
        fio.args(["--verify_state_save=0", "--output=said"]).args(job);
        fio
    }

    #[track_caller]
    fn run_fio(&self, server: &Server, job: &[&str]) {
        let ended = wait_for(SOON, &mut self.fio(server, job).spawn().unwrap());
        let said = std::fs::read_to_string(self.scratch.join("said")).unwrap_or_default();
        assert!(ended.is_some_and(|code| code.success()), "{job:?}: {ended:?}\n{said}\n{}", server.log());
    }

    /// Logs of latencies, one of each job.
    fn logs(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.scratch.path()).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.filter(|path| text(path).contains("/done_lat.")).collect()
    }

    /// Writes all blocks, overwrites them, and kills the server at some moment.
    fn overwrite_and_kill(&mut self) -> Vec<Oracle> {
        self.logs().into_iter().for_each(|log| std::fs::remove_file(log).unwrap());
        let server = Server::serve_with(&self.dir(), self.service);
        self.run_fio(&server, &["--rw=write", "--iodepth=16", "--do_verify=0"]);
        let dir = self.dir();
        let written = || status(&dir)["counters"]["user_blocks_written"].as_u64().unwrap();
        let before = written();
        let jobs = 1 << self.random.below(6);
        let blocks = BLOCKS / jobs;
        let bytes = blocks * BLOCK_BYTES_U64;
        let each = [format!("--size={bytes}"), format!("--offset_increment={bytes}")];
        let shape = [format!("--numjobs={jobs}"), format!("--io_size={}", WRITES_MAX * BLOCK_BYTES_U64)];
        let seed = format!("--randseed={}", self.random.below(1 << 40));
        let hot = ["--rw=randwrite", "--random_distribution=zipf:0.9", "--norandommap", "--do_verify=0"];
        let logs = ["--write_lat_log=done", "--log_offset=1", "--disable_clat=1", "--disable_slat=1"];
        let flushed = self.random.chance(1, 2).then_some("--fsync=3");
        let mut fio = self.fio(&server, &[&hot[..], &logs, &[&seed]].concat());
        let mut fio = fio.args(each).args(shape).args(flushed).spawn().unwrap();
        assert!(until(SOON, || written() > before), "fio does not write: {}", server.log());
        let_run(Duration::from_millis(self.random.below(LIFE_MAX_MILLIS)));
        server.kill_9();
        assert!(wait_for(SOON, &mut fio).is_some(), "fio does not end");
        self.in_slots += check(&self.dir()).1["slots_to_move"].as_u64().unwrap();
        let mut oracles: Vec<Oracle> = (0..jobs).map(|job| Oracle::of_job(job * blocks, blocks)).collect();
        for log in self.logs() {
            let log = std::fs::read_to_string(log).unwrap();
            log.lines().for_each(|line| Oracle::note(&mut oracles, line));
        }
        let acknowledged: u64 = oracles.iter().map(|oracle| oracle.acknowledged).sum();
        println!("killed after {acknowledged} acknowledged overwrites by {jobs} jobs {flushed:?}");
        assert!(acknowledged > 0, "nothing was acknowledged");
        oracles
    }

    /// Serves what is left, and compares. This service is killed as well.
    fn verify(&self, oracles: &[Oracle]) {
        let server = Server::serve_with(&self.dir(), &[&["--degraded"], self.service].concat());
        self.run_fio(&server, &["--rw=read", "--iodepth=16"]);
        let data =
            server.client().read(0, u32::try_from(BLOCKS * BLOCK_BYTES_U64).unwrap()).expect("all blocks");
        let of_jobs = data.chunks(data.len() / oracles.len());
        let wrong: Vec<String> =
            oracles.iter().zip(of_jobs).flat_map(|(oracle, data)| oracle.wrong(data)).collect();
        assert!(wrong.is_empty(), "{wrong:#?}\n{}", server.log());
        server.kill_9();
    }
}

/// Kills an array again and again; returns how many blocks were in slots then.
fn run(scratch: Scratch, service: &'static [&'static str]) -> u64 {
    let mut killed = Killed { scratch, random: random(24), arrays: 0, service, in_slots: 0 };
    killed.renew();
    for number in 0..number_from("ZONEWEAVE_KILLS", 2 * KILLS_EACH).div_ceil(KILLS_EACH) {
        let oracles = killed.overwrite_and_kill();
        let lost = (number % 2 == 1).then(|| killed.random.below(4));
        if let Some(drive) = lost {
            println!("drive {drive} is deleted");
            delete(&killed.dir(), drive);
        }
        killed.verify(&oracles);
        if lost.is_some() {
            killed.renew();
        }
    }
    println!("{} blocks were in slots", killed.in_slots);
    killed.in_slots
}

#[test]
fn overwrites_of_fio_survive_on_files() {
    if have(&["fio"]) {
        // Files on a disk have volatile caches, beside which there is no write area.
        assert_eq!(run(Scratch::new("kill9fio"), &["--write-area", "auto"]), 0);
    }
}

#[test]
fn overwrites_of_fio_survive_in_memory_with_a_write_area() {
    if have(&["fio"]) {
        let in_slots = run(Scratch::below("/dev/shm", "kill9fio"), &["--write-area", "2"]);
        assert!(in_slots > 0, "the write area was used");
    }
}

#[test]
fn what_fio_was_told_is_not_older_afterwards() {
    // A job with blocks 6 to 9 wrote 7, 8 and 7 again, and was writing one of them.
    let mut oracles = [Oracle::of_job(2, 4), Oracle::of_job(6, 4)];
    let log = [
        "1, 900, 1, 4096, 28672, 0",
        "1, 900, 1, 4096, 32768, 0",
        "2, 90, 2, 0, 0, 0",
        "2, 800, 1, 4096, 28672, 0",
    ];
    log.into_iter().for_each(|line| Oracle::note(&mut oracles, line));
    let [other, oracle] = oracles;
    assert_eq!((&other.last[..], other.acknowledged), (&[2, 3, 4, 5][..], 0));
    assert_eq!((&oracle.last[..], oracle.acknowledged), (&[6, 2, 1, 9][..], 3));
    let wrong = |numbers: [u16; 4]| {
        let mut data = vec![0; 4 * BLOCK_BYTES];
        for (number, block) in numbers.into_iter().zip(data.chunks_mut(BLOCK_BYTES)) {
            block[..2].copy_from_slice(&MAGIC.to_le_bytes());
            block[NUMBER_AT..NUMBER_AT + 2].copy_from_slice(&number.to_le_bytes());
        }
        oracle.wrong(&data).len()
    };
    assert_eq!((wrong([6, 2, 1, 9]), wrong([6, 3, 1, 9]), wrong([6, 2, 1, 3])), (0, 0, 0));
    assert_eq!((wrong([6, 0, 1, 9]), wrong([6, 7, 1, 9]), wrong([6, 4, 1, 9])), (1, 1, 1), "older or newer");
    assert_eq!(wrong([6, 3, 3, 9]), 1, "only one was on its way");
    assert_eq!(oracle.wrong(&[0; 4 * BLOCK_BYTES]).len(), 4, "lost");
    // A block has the number that is next from before the job.
    let mut before = [Oracle::of_job(0, 2)];
    Oracle::note(&mut before, "1, 900, 1, 4096, 0, 0");
    assert_eq!((before[0].acknowledged, &before[0].last[..]), (1, &[0, 1][..]));
    let mut data = vec![0; 2 * BLOCK_BYTES];
    for block in data.chunks_mut(BLOCK_BYTES) {
        block[..2].copy_from_slice(&MAGIC.to_le_bytes());
        block[NUMBER_AT] = 1;
    }
    assert!(
        before[0].wrong(&data).is_empty(),
        "block 0 holds what was on its way, block 1 what it held before"
    );
}
