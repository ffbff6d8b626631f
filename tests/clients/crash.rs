//! A file system over the volume, and kill -9: what was fsynced is there.
//!
//! ext4 over a loop device over nbdfuse. Each round copies a tree in, lets a process append and
//! fsync while another copies, kills the server at a moment of chance, and in every other round
//! deletes a drive. Then the journal is replayed, e2fsck must find nothing, and every byte that was
//! fsynced must be there. `ZONEWEAVE_CRASH_ROUNDS` says how many rounds.

use crate::support::mount::{BlockDevice, TOOLS};
use crate::support::run::{SOON, command, kill, run_for, until};
use crate::support::scratch::Scratch;
use crate::support::server::{Server, assert_clean, let_run, status};
use crate::support::{have, is_root, number_from, random, skip, text};
use base::random::Random;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const ROUNDS: u64 = 20;
const FILES: u64 = 6;
const APPEND_BYTES_MAX: u64 = 40_000;
/// Told to the copy of this program that writes: where, where to say what it did, and a seed.
const WRITER: &str = "ZONEWEAVE_CRASH_WRITER";

/// Not a test of its own: the process that writes while the server is killed.
#[test]
fn writer_process() {
    let Ok(order) = std::env::var(WRITER) else { return };
    let [folder, ledger, seed] = order.split('|').collect::<Vec<_>>()[..] else { panic!("{order}") };
    let error = append_until_it_fails(Path::new(folder), Path::new(ledger), seed.parse().unwrap());
    println!("the writer ends: {error}");
}

/// Appends to files and fsyncs them; says so outside the volume after each fsync.
fn append_until_it_fails(folder: &Path, ledger: &Path, seed: u64) -> std::io::Error {
    let mut random = Random::from_seed(seed);
    let mut ledger = File::options().append(true).create(true).open(ledger).unwrap();
    let mut lengths = BTreeMap::new();
    loop {
        let name = random.below(FILES);
        let length = lengths.entry(name).or_insert(0_usize);
        let more = 1 + random.index(usize::try_from(APPEND_BYTES_MAX).unwrap());
        let data = &contents(seed, name, *length + more)[*length..];
        if let Err(error) = append_and_fsync(&folder.join(name.to_string()), folder, data, *length == 0) {
            return error;
        }
        *length += more;
        ledger.write_all(format!("{name} {length}\n").as_bytes()).unwrap();
    }
}

fn append_and_fsync(path: &Path, folder: &Path, data: &[u8], is_new: bool) -> std::io::Result<()> {
    let mut file = File::options().append(true).create(true).open(path)?;
    file.write_all(data)?;
    file.sync_all()?;
    if is_new { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// The first bytes of the file with this name.
fn contents(seed: u64, name: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length.next_multiple_of(8)];
    Random::from_seed(seed ^ name.rotate_left(48)).fill(&mut bytes);
    bytes.truncate(length);
    bytes
}

/// Data that must be on the volume after a crash.
#[derive(Default)]
struct Promised {
    /// A tree that was copied and synced: original and copy.
    tree: Option<(PathBuf, PathBuf)>,
    /// Folder, ledger and seed of a writer.
    writer: Option<(PathBuf, PathBuf, u64)>,
}

impl Promised {
    #[track_caller]
    fn verify(&self) {
        if let Some((original, copy)) = &self.tree {
            let mut diff = command("diff");
            run_for(SOON, diff.arg("-r").args([original, copy])).expect("the copied tree is there");
        }
        let Some((folder, ledger, seed)) = &self.writer else { return };
        let mut lengths = BTreeMap::new();
        for line in fs::read_to_string(ledger).unwrap_or_default().lines() {
            let (name, length) = line.split_once(' ').unwrap();
            lengths.insert(name.parse::<u64>().unwrap(), length.parse::<usize>().unwrap());
        }
        for (&name, &length) in &lengths {
            let mut found = Vec::new();
            File::open(folder.join(name.to_string())).unwrap().read_to_end(&mut found).unwrap();
            assert!(found.len() >= length, "file {name} has {} of {length} fsynced bytes", found.len());
            let expected = contents(*seed, name, length);
            let wrong = expected.iter().zip(&found).position(|(expected, found)| expected != found);
            assert_eq!(wrong, None, "file {name} of {length} fsynced bytes differs at a place");
        }
        println!("{} files with {} fsynced bytes are right", lengths.len(), lengths.values().sum::<usize>());
    }
}

/// Everything a round needs.
struct Crash {
    scratch: Scratch,
    random: Random,
    promised: Promised,
    arrays: u32,
    round: u64,
}

impl Crash {
    fn dir(&self) -> PathBuf {
        self.scratch.join(&format!("a{}", self.arrays))
    }

    fn attach(&self, server: &Server) -> BlockDevice {
        BlockDevice::attach(&server.socket(), &self.scratch.join(&format!("fuse{}", self.round)))
    }

    /// Something to copy.
    fn original(&self) -> PathBuf {
        self.scratch.join("original")
    }

    fn mountpoint(&self) -> PathBuf {
        self.scratch.join("mnt")
    }

    /// A new array with a new file system.
    fn renew(&mut self) {
        let _none_the_first_time = fs::remove_dir_all(self.dir());
        self.arrays += 1;
        self.promised = Promised::default();
        let server = Server::up(&self.dir(), &["--size", "384MiB"]);
        let block = self.attach(&server);
        block.format();
        block.detach();
        server.stop();
    }

    /// Serves, writes, kills.
    fn write_and_kill(&mut self) {
        let server = Server::serve(&self.dir());
        let mut block = self.attach(&server);
        block.mount(&self.mountpoint());
        self.make_room();
        let tree = self.mountpoint().join(format!("tree-{}", self.round));
        run_for(SOON, command("cp").args(["-r", text(&self.original()), text(&tree)])).expect("cp");
        run_for(SOON, command("sync").args(["-f", text(&self.mountpoint())])).expect("sync");
        self.promised.tree = Some((self.original(), tree));
        let mut children = vec![self.spawn_writer(), self.spawn_noise()];
        let_run(Duration::from_millis(200 + self.random.below(1300)));
        server.kill_9();
        block.abandon();
        for child in &mut children {
            // Its file system is gone; it ends by itself or is ended.
            let _ended = until(Duration::from_secs(5), || child.try_wait().unwrap().is_some());
            kill(child);
        }
    }

    /// Deletes what earlier rounds left, which trims it.
    fn make_room(&mut self) {
        self.promised = Promised::default();
        for entry in fs::read_dir(self.mountpoint()).unwrap() {
            let path = entry.unwrap().path();
            if !path.ends_with("lost+found") {
                fs::remove_dir_all(path).unwrap();
            }
        }
    }

    fn spawn_writer(&mut self) -> Child {
        let folder = self.mountpoint().join(format!("files-{}", self.round));
        let ledger = self.scratch.join(&format!("ledger-{}", self.round));
        fs::create_dir(&folder).unwrap();
        File::open(self.mountpoint()).unwrap().sync_all().unwrap();
        let seed = self.random.bits();
        let order = format!("{}|{}|{seed}", text(&folder), text(&ledger));
        self.promised.writer = Some((folder, ledger, seed));
        let mut writer = Command::new(std::env::current_exe().unwrap());
        writer.args(["--exact", "writer_process"]).env(WRITER, order);
        writer.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Copies and deletes without asking for anything to be durable.
    fn spawn_noise(&self) -> Child {
        let script = "while cp -r \"$0\" \"$1\" && rm -r \"$1\"; do :; done";
        let mut noise = command("sh");
        noise.args(["-c", script, text(&self.original()), text(&self.mountpoint().join("noise"))]);
        noise.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Serves what the crash left and looks at all of it.
    fn verify(&mut self) {
        let server = Server::serve_degraded(&self.dir());
        let mut block = self.attach(&server);
        block.check_file_system();
        block.mount(&self.mountpoint());
        self.promised.verify();
        block.detach();
        assert_eq!(status(&self.dir())["unreadable_blocks"], 0);
        server.stop();
    }
}

#[test]
fn fsynced_files_survive() {
    let possible = have(TOOLS)
        && (is_root() || skip("mounting needs root"))
        && (Path::new("/dev/fuse").exists() || skip("there is no /dev/fuse"))
        && (Path::new("/dev/loop-control").exists() || skip("there are no loop devices"));
    if !possible {
        return;
    }
    let scratch = Scratch::new("ext4");
    // A copy of our sources, since those may be edited meanwhile.
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/crates");
    run_for(SOON, command("cp").args(["-r", sources, text(&scratch.join("original"))])).expect("cp");
    let mut crash = Crash { scratch, random: random(11), promised: Promised::default(), arrays: 0, round: 0 };
    crash.renew();
    for round in 0..number_from("ZONEWEAVE_CRASH_ROUNDS", ROUNDS) {
        crash.round = round;
        crash.write_and_kill();
        if round % 2 == 0 {
            println!("round {round}: killed");
            crash.verify();
            assert_clean(&crash.dir());
            continue;
        }
        let drive = crash.random.below(4);
        println!("round {round}: killed, and drive {drive} is deleted");
        crate::kill9_raw::delete(&crash.dir(), drive);
        crash.verify();
        crash.renew();
    }
}
