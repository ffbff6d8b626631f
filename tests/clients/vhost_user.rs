//! A virtual machine's disk outlives its server: killed in the middle of requests and started again, it answers each of
//! them once, and everything that was answered is there.

#[path = "../../crates/server/tests/support/front_end.rs"]
#[allow(dead_code)]
mod front_end;
use crate::support::run::{SOON, run_for, until};
use crate::support::scratch::Scratch;
use crate::support::server::{Server, assert_clean, zoneweave};
use crate::support::{random, text};
use front_end::*;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::Path;

const QUEUES: u64 = 2;
const KILLS: usize = 4;
/// Blocks that are written again and again.
const BLOCKS: u64 = 512;
const BLOCK_BYTES: usize = 4096;

/// A machine that keeps its memory, its queues and what it expects while servers come and go.
struct Machine {
    ram: GuestRam,
    drivers: Vec<Driver>,
    inflight: (Vec<u8>, OwnedFd),
    front: FrontEnd,
    /// Version of each block that was answered, and the one in flight.
    answered: BTreeMap<u64, u32>,
    asked: BTreeMap<(u64, u16), (u64, u32)>,
    version: u32,
}

fn connect(path: &Path, ram: &GuestRam) -> FrontEnd {
    let mut front = None;
    assert!(until(SOON, || {
        front = FrontEnd::connect(path).ok();
        front.is_some()
    }));
    let mut front = front.unwrap();
    front.begin(ram);
    front
}

fn contents(block: u64, version: u32) -> Vec<u8> {
    let stamp = [block.to_le_bytes(), u64::from(version).to_le_bytes()].concat();
    stamp.repeat(BLOCK_BYTES / stamp.len())
}

impl Machine {
    fn start(path: &Path) -> Machine {
        let ram = GuestRam::new();
        let front = connect(path, &ram);
        let inflight = front.get_inflight(u16::try_from(QUEUES).unwrap());
        front.set_inflight(&inflight);
        let drivers: Vec<Driver> = (0..QUEUES).map(|index| Driver::new(&ram, index)).collect();
        drivers.iter().for_each(|driver| front.start(driver));
        let (answered, asked) = (BTreeMap::new(), BTreeMap::new());
        Machine { ram, drivers, inflight, front, answered, asked, version: 0 }
    }

    /// Reconnects to a server that is back, as QEMU does.
    fn reconnect(&mut self, path: &Path) {
        // A queue goes on from its used ring, which has no other index than the driver's when all of it is taken.
        self.take();
        self.front = connect(path, &self.ram);
        self.front.set_inflight(&self.inflight);
        self.drivers.iter().for_each(|driver| self.front.start(driver));
    }

    /// Keeps writing: one write per slot, no two of one block at a time.
    fn ask(&mut self, mut pick: impl FnMut() -> u64) {
        for driver in &mut self.drivers {
            for slot in 0..SLOTS / 2 {
                let place = (driver.index, slot);
                let block = pick() % BLOCKS;
                let is_busy = self.asked.values().any(|(other, _)| *other == block);
                if self.asked.contains_key(&place) || is_busy {
                    continue;
                }
                self.version += 1;
                self.ram.put_bytes(data_at(driver.index, slot), &contents(block, self.version));
                driver.submit(&self.ram, slot, OUT, block * 8, u32::try_from(BLOCK_BYTES).unwrap());
                self.asked.insert(place, (block, self.version));
            }
            driver.kick(&self.ram, true);
        }
    }

    /// Takes what is answered.
    fn take(&mut self) {
        for driver in &mut self.drivers {
            while let Some((head, _)) = driver.take_used(&self.ram) {
                let slot = head / 3;
                let status = self.ram.bytes(status_at(driver.index, slot), 1)[0];
                assert_eq!(status, 0, "a write fails");
                let asked =
                    self.asked.remove(&(driver.index, slot)).expect("an answer to what was asked once");
                self.answered.insert(asked.0, asked.1);
            }
        }
    }

    fn finish_all(&mut self) {
        assert!(until(SOON, || {
            self.take();
            self.asked.is_empty()
        }));
    }

    fn assert_contents(&mut self) {
        for (block, version) in self.answered.clone() {
            let driver = &mut self.drivers[0];
            driver.submit(&self.ram, 0, IN, block * 8, u32::try_from(BLOCK_BYTES).unwrap());
            driver.kick(&self.ram, true);
            driver.wait(&self.ram, SOON).expect("an answer");
            let data = self.ram.bytes(data_at(0, 0), BLOCK_BYTES);
            assert!(data == contents(block, version), "block {block}, version {version}");
        }
    }
}

fn outlive(dir: &Path, socket: &Path) {
    let options = ["--vhost-user", text(socket)];
    let mut server = Server::serve_with(dir, &options);
    let mut machine = Machine::start(socket);
    let mut random = random(0x7668);
    for _ in 0..KILLS {
        let rounds = 20 + random.below(200);
        for _ in 0..rounds {
            machine.ask(|| random.below(BLOCKS));
            machine.take();
        }
        machine.ask(|| random.below(BLOCKS));
        server.kill_9();
        // What was answered before the end is answered; the rest the next server does.
        machine.take();
        server = Server::serve_with(dir, &options);
        machine.reconnect(socket);
        machine.finish_all();
    }
    machine.assert_contents();
    assert!(machine.answered.len() > 100, "hardly anything was written");
    // Also a server that leaves in good order comes back.
    machine.ask(|| random.below(BLOCKS));
    server.stop();
    let server = Server::serve_with(dir, &options);
    machine.reconnect(socket);
    machine.finish_all();
    machine.assert_contents();
    server.stop();
}

#[test]
fn a_disk_outlives_its_server() {
    let scratch = Scratch::new("vhost_user");
    let dir = scratch.path().join("array");
    let socket = scratch.path().join("vm.sock");
    Server::up(&dir, &["--drives", "4", "--level", "raid5", "--size", "64MiB"]).stop();
    outlive(&dir, &socket);
    assert_clean(&dir);
}

#[test]
fn a_disk_in_place_outlives_its_server() {
    let scratch = Scratch::new("vhost_user_inplace");
    let dir = scratch.path().join("array");
    let socket = scratch.path().join("vm.sock");
    Server::up(&dir, &["--engine", "inplace", "--drives", "4", "--level", "raid5", "--size", "64MiB"]).stop();
    outlive(&dir, &socket);
}

#[test]
fn a_socket_that_cannot_be_is_refused_before_anything_is_written() {
    let scratch = Scratch::new("vhost_user_refused");
    let dir = scratch.path().join("array");
    Server::up(&dir, &["--drives", "4", "--size", "64MiB"]).stop();
    let file = scratch.path().join("file");
    std::fs::write(&file, "not a socket").unwrap();
    let nowhere = scratch.path().join("nowhere/vm.sock");
    let taken = scratch.path().join("taken.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&taken).unwrap();
    for (path, words) in
        [(&file, "is not a socket"), (&nowhere, "cannot listen on"), (&taken, "another server answers")]
    {
        let finished = run_for(SOON, zoneweave().args(["serve", text(&dir), "--vhost-user", text(path)]));
        assert_eq!(finished.code(), Some(2), "{finished}");
        assert!(finished.stderr.contains(words), "{finished}");
        assert!(finished.stderr.contains(text(path)), "{finished}");
    }
    assert_clean(&dir);
}
