//! kill -9 with many writes in flight, without a file system and without root.

use crate::support::scratch::Scratch;
use crate::support::server::{Server, let_run};
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
        Server::up(&self.dir(), &["--size", "64MiB"]).stop();
    }

    /// Serves, writes, and kills the server at some moment.
    fn write_and_kill(&mut self) {
        let server = Server::serve(&self.dir());
        let writers = self.oracle.write(&server, &mut self.random);
        let_run(Duration::from_millis(30 + self.random.below(700)));
        server.kill_9();
        println!("killed after {} acknowledged requests", self.oracle.join(writers));
    }

    /// Serves and compares.
    fn verify(&mut self) {
        let server = Server::serve_degraded(&self.dir());
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

fn delete(dir: &Path, drive: u64) {
    std::fs::remove_file(dir.join(format!("drive-{drive}.zns"))).unwrap();
}

#[test]
fn acknowledged_writes_survive() {
    let rounds = number_from("ZONEWEAVE_CRASH_ROUNDS", 10);
    let scratch = Scratch::new("kill9");
    let mut crash = Crash { scratch, random: random(9), oracle: Oracle::new(), arrays: 0 };
    crash.renew();
    for round in 0..rounds {
        println!("round {round}");
        crash.write_and_kill();
        if round % 2 == 0 {
            crash.verify();
            continue;
        }
        crash.delete_a_drive();
        crash.verify();
        // Degraded, and killed once more.
        crash.write_and_kill();
        crash.verify();
        crash.renew();
    }
}
