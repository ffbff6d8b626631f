//! kill -9 with many writes in flight, without a file system and without root.

use crate::support::scratch::Scratch;
use crate::support::server::{Server, check, let_run};
use crate::support::writer::Oracle;
use crate::support::{number_from, random};
use base::random::Random;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// An array, what it should hold, and a source of chance.
struct Crash {
    scratch: Scratch,
    random: Random,
    oracle: Oracle,
    arrays: u32,
    /// Options of `up` besides the size, and those of all services.
    made: &'static [&'static str],
    service: &'static [&'static str],
    /// Blocks that were in slots of the write area when the server was killed.
    in_slots: u64,
}

impl Crash {
    fn dir(&self) -> PathBuf {
        self.scratch.join(&format!("a{}", self.arrays))
    }

    /// A new array in place of the old one.
    fn renew(&mut self) {
        let _none_the_first_time = std::fs::remove_dir_all(self.dir());
        self.arrays += 1;
        self.oracle = Oracle::new();
        Server::up(&self.dir(), &[&["--size", "64MiB"], self.made, self.service].concat()).stop();
    }

    /// Serves, writes, and kills the server at some moment.
    fn write_and_kill(&mut self) {
        let server = Server::serve_with(&self.dir(), self.service);
        let writers = self.oracle.write(&server, &mut self.random);
        let_run(Duration::from_millis(30 + self.random.below(700)));
        server.kill_9();
        println!("killed after {} acknowledged requests", self.oracle.join(writers));
        if !self.service.is_empty() {
            self.in_slots += check(&self.dir()).1["slots_to_move"].as_u64().unwrap();
        }
    }

    /// Serves and compares.
    fn verify(&mut self) {
        let server = Server::serve_with(&self.dir(), &[&["--degraded"], self.service].concat());
        self.oracle.verify(&server);
        // Whatever was found stays: this service is killed too.
        server.kill_9();
    }

    fn delete_a_drive(&mut self) {
        let drive = self.random.below(4);
        println!("drive {drive} is deleted");
        delete(&self.dir(), drive);
    }
}

/// Deletes the file of a drive.
pub fn delete(dir: &Path, drive: u64) {
    std::fs::remove_file(dir.join(format!("drive-{drive}.zns"))).unwrap();
}

impl Crash {
    fn new(scratch: Scratch, made: &'static [&'static str], service: &'static [&'static str]) -> Crash {
        let mut crash = Crash {
            scratch,
            random: random(9),
            oracle: Oracle::new(),
            arrays: 0,
            made,
            service,
            in_slots: 0,
        };
        crash.renew();
        crash
    }

    fn run(mut self) -> u64 {
        for round in 0..number_from("ZONEWEAVE_CRASH_ROUNDS", 10) {
            println!("round {round}");
            self.write_and_kill();
            if round % 2 == 0 {
                self.verify();
                continue;
            }
            self.delete_a_drive();
            self.verify();
            // Degraded, and killed once more.
            self.write_and_kill();
            self.verify();
            self.renew();
        }
        self.in_slots
    }
}

#[test]
fn acknowledged_writes_survive() {
    assert_eq!(Crash::new(Scratch::new("kill9"), &[], &[]).run(), 0);
}

#[test]
fn acknowledged_writes_survive_with_a_write_area() {
    // Files that lie elsewhere have volatile caches, beside which there is no write area.
    let scratch = Scratch::below("/dev/shm", "kill9area");
    let in_slots = Crash::new(scratch, &["--zrwa-window", "256KiB"], &["--write-area", "2"]).run();
    assert!(in_slots > 0, "the write area was used");
}
