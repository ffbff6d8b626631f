//! A siege: one array, writers that never pause, and one trouble after the other, drawn at random. After each, every block is
//! what was acknowledged last or what was on its way, and the array is brought back to full redundancy before the next.
//!
//! `cargo xtask siege --seconds 600` for long, a few troubles in CI. `ZONEWEAVE_SEED` repeats a run.

#![allow(clippy::unwrap_used)]

mod support;

use base::random::Random;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use support::disk::SmallDisk;
use support::run::{SOON, run_for, until};
use support::scratch::Scratch;
use support::server::{Server, ask, drive_file, let_run, status, zoneweave};
use support::writer::{Oracle, Writers};
use support::{have, number_from, random, text};

const DRIVES: u64 = 4;
/// Longest time until an array without a drive is whole again.
const REBUILT_WITHIN: Duration = Duration::from_secs(120);

/// Trouble of the array or its host.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    /// The server dies at any instant.
    Kill,
    /// An operator stops the server.
    Stop,
    /// The server is frozen for a moment, as by a debugger or a suspended machine.
    Freeze,
    /// A drive's file is removed while it is not served.
    DriveLost,
    /// A drive's file is what it was some time ago.
    OlderCopy,
    /// A drive's file is removed under the server.
    DriveUnlinked,
    /// A drive's file is cut to nothing under the server.
    DriveTruncated,
    /// An operator fails a drive.
    DriveFailed,
    /// Bits flip in a drive's file while it is not served.
    Rot,
    /// The header of a drive's file is overwritten under the server.
    HeaderLost,
    /// The file system that all drives lie on is full for a while.
    DiskFull,
    /// No descriptor is left for a while.
    NoDescriptors,
    /// Nobody reads what the server says, or its outputs are closed.
    Unheard,
}

const TROUBLES: [Trouble; 13] = [
    Trouble::Kill,
    Trouble::Stop,
    Trouble::Freeze,
    Trouble::DriveLost,
    Trouble::OlderCopy,
    Trouble::DriveUnlinked,
    Trouble::DriveTruncated,
    Trouble::DriveFailed,
    Trouble::Rot,
    Trouble::HeaderLost,
    Trouble::DiskFull,
    Trouble::NoDescriptors,
    Trouble::Unheard,
];

/// True for a file that begins as that of a drive does: it was neither removed nor cut to nothing.
fn is_drive(path: &Path) -> bool {
    let mut first = [0; 8];
    File::open(path).is_ok_and(|file| file.read_exact_at(&mut first, 0).is_ok()) && first != [0; 8]
}

struct Siege {
    /// Disk that the array lies on, where we may mount.
    disk: Option<SmallDisk>,
    scratch: Scratch,
    random: Random,
    oracle: Oracle,
}

impl Siege {
    fn dir(&self) -> PathBuf {
        self.disk.as_ref().map_or_else(|| self.scratch.join("array"), |disk| disk.at.join("array"))
    }

    fn drive_file(&self, drive: u64) -> PathBuf {
        drive_file(&self.dir(), usize::try_from(drive).unwrap())
    }

    fn state(&self) -> String {
        status(&self.dir())["state"].as_str().unwrap_or("unknown").to_owned()
    }

    fn let_write(&mut self) {
        let_run(Duration::from_millis(50 + self.random.below(400)));
    }

    /// A trouble, with writers on their way before it; afterwards all is verified, and the array whole.
    fn suffer(&mut self, trouble: Trouble) {
        let server = match trouble {
            Trouble::Unheard => Server::serve_unheard(&self.dir(), self.random.chance(1, 2)),
            _ => Server::serve(&self.dir()),
        };
        let writers = self.oracle.write(&server, &mut self.random);
        self.let_write();
        let drive = self.random.below(DRIVES);
        match trouble {
            Trouble::Kill => self.end(server, writers),
            Trouble::Stop => {
                server.stop();
                self.oracle.join(writers);
            }
            Trouble::Freeze => {
                signal(&server, "-STOP");
                let_run(Duration::from_millis(self.random.below(500)));
                signal(&server, "-CONT");
                self.let_write();
                self.end(server, writers);
            }
            Trouble::DriveLost => {
                let file = self.drive_file(drive);
                self.end(server, writers);
                std::fs::remove_file(file).unwrap();
                let refused = ask(&["serve", text(&self.dir())]);
                assert!(
                    !refused.succeeded(),
                    "a drive is missing, and nobody said that it may be: {refused}"
                );
                return self.recover(&["--degraded"], "degraded");
            }
            Trouble::OlderCopy => return self.suffer_older_copy(drive, server, writers),
            Trouble::DriveUnlinked | Trouble::DriveTruncated | Trouble::DriveFailed => {
                return self.suffer_loss_in_service(trouble, drive, server, writers);
            }
            Trouble::HeaderLost => self.suffer_lost_header(drive, server, writers),
            Trouble::DiskFull => self.suffer_full_disk(server, writers),
            Trouble::NoDescriptors => self.suffer_no_descriptors(server, writers),
            Trouble::Unheard => {
                // Each connection and each question is worth some lines.
                (0..200).for_each(|_| drop(server.client()));
                self.let_write();
                assert_eq!(self.state(), "clean");
                self.end(server, writers);
            }
            Trouble::Rot => {
                let file = self.drive_file(drive);
                self.end(server, writers);
                self.flip_bits(&file);
                let server = Server::serve(&self.dir());
                self.oracle.verify(&server);
                ask(&["scrub", text(&self.dir()), "--repair"]).expect("scrub --repair");
                return server.stop();
            }
        }
        self.recover(&[], "clean");
    }

    fn end(&mut self, server: Server, writers: Writers) {
        server.kill_9();
        self.oracle.join(writers);
    }

    fn suffer_older_copy(&mut self, drive: u64, server: Server, writers: Writers) {
        self.end(server, writers);
        let (file, older) = (self.drive_file(drive), self.scratch.join("older"));
        std::fs::copy(&file, &older).unwrap();
        for _ in 0..=self.random.below(2) {
            let server = Server::serve(&self.dir());
            // What was on its way when the last one ended may be there or not: from now on that is known.
            self.oracle.verify(&server);
            let writers = self.oracle.write(&server, &mut self.random);
            self.let_write();
            self.end(server, writers);
        }
        std::fs::copy(&older, &file).unwrap();
        self.recover(&[], "degraded");
    }

    /// Repaired, or found by the next start as a drive that is not there.
    fn suffer_lost_header(&mut self, drive: u64, server: Server, writers: Writers) {
        let file = OpenOptions::new().write(true).open(self.drive_file(drive)).unwrap();
        file.write_all_at(&[0; 8192], 0).unwrap();
        let scrubbed = ask(&["scrub", text(&self.dir()), "--repair"]).expect("scrub --repair");
        assert!(scrubbed.contains("1 headers of drives damaged, 0 of them left"), "{scrubbed}");
        self.let_write();
        self.end(server, writers);
    }

    /// Writes wait, nobody is blamed, and all goes on when there is room: or the server dies before that.
    fn suffer_full_disk(&mut self, server: Server, writers: Writers) {
        let Some(disk) = &self.disk else { return self.end(server, writers) };
        disk.fill();
        let dir = self.dir();
        let waits = || {
            let report = status(&dir);
            let waits = |member: &serde_json::Value| !member["trouble"]["waits_for_room_s"].is_null();
            report["members"].as_array().unwrap().iter().any(waits)
        };
        assert!(until(SOON, waits), "{:#}\n{}", status(&dir), server.log());
        if self.random.chance(1, 2) {
            disk.empty();
            assert!(until(SOON, || !waits()), "{:#}\n{}", status(&dir), server.log());
            assert_eq!(self.state(), "clean", "{}", server.log());
            self.let_write();
        }
        self.end(server, writers);
        self.disk.iter().for_each(SmallDisk::empty);
    }

    /// Takes all descriptors: connected clients go on, and newcomers are served when there are descriptors again.
    fn suffer_no_descriptors(&mut self, mut server: Server, writers: Writers) {
        if !have(&["prlimit"]) {
            return self.end(server, writers);
        }
        let limit = |count: &str| {
            let (process, count) = (format!("--pid={}", server.process()), format!("--nofile={count}:"));
            run_for(SOON, Command::new("prlimit").args([process, count])).expect("prlimit");
        };
        limit("8");
        let waiting: Vec<_> = (0..4).map(|_| UnixStream::connect(server.socket()).unwrap()).collect();
        self.let_write();
        limit("1024");
        drop(waiting);
        server.client().read(0, 4096).unwrap();
        assert_eq!(self.state(), "clean", "{}", server.log());
        self.let_write();
        server.assert_alive();
        self.end(server, writers);
    }

    fn suffer_loss_in_service(&mut self, trouble: Trouble, drive: u64, server: Server, writers: Writers) {
        let file = self.drive_file(drive);
        match trouble {
            Trouble::DriveUnlinked => std::fs::remove_file(&file).unwrap(),
            Trouble::DriveTruncated => drop(File::create(&file).unwrap()),
            _ => drop(ask(&["drive", "fail", text(&self.dir()), &drive.to_string()]).expect("drive fail")),
        }
        assert!(
            until(SOON, || self.state() == "degraded"),
            "drive {drive}, {trouble:?}: nobody noticed\n{}",
            server.log()
        );
        self.let_write();
        self.end(server, writers);
        self.recover(&[], "degraded");
    }

    /// Serves, compares every block, and replaces what was lost, or re-adds what is back.
    fn recover(&mut self, options: &[&str], expected: &str) {
        let server = Server::serve_with(&self.dir(), options);
        assert_eq!(self.state(), expected, "{}", server.log());
        self.oracle.verify(&server);
        let report = status(&self.dir());
        let failed =
            report["members"].as_array().unwrap().iter().position(|member| member["state"] == "failed");
        if let Some(drive) = failed {
            let is_there = is_drive(&self.drive_file(u64::try_from(drive).unwrap()));
            let comes_back = is_there && self.random.chance(2, 3);
            let (dir, number) = (self.dir(), drive.to_string());
            let mut mend = zoneweave();
            mend.args([
                "drive",
                if comes_back { "re-add" } else { "replace" },
                text(&dir),
                &number,
                "--wait",
            ]);
            run_for(REBUILT_WITHIN, &mut mend).expect("drive re-add or replace");
            assert_eq!(self.state(), "clean", "{}", server.log());
            self.oracle.verify(&server);
            self.remove_old_drives();
        }
        server.stop();
    }

    /// Files of drives that were replaced: a small disk has no room for many.
    fn remove_old_drives(&self) {
        let own: Vec<PathBuf> = (0..DRIVES).map(|drive| self.drive_file(drive)).collect();
        let files = std::fs::read_dir(self.dir()).unwrap().map(|entry| entry.unwrap().path());
        let is_old = |path: &PathBuf| path.extension().is_some_and(|end| end == "zns") && !own.contains(path);
        files.filter(is_old).for_each(|path| std::fs::remove_file(path).unwrap());
    }

    /// Flips one bit in each of some blocks, behind the description of the drive and its first zones.
    fn flip_bits(&mut self, path: &std::path::Path) {
        let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
        let bytes = file.metadata().unwrap().len();
        for _ in 0..20 {
            let at = bytes / 8 + self.random.below(bytes - bytes / 8);
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            byte[0] ^= 1 << self.random.below(8);
            // Holes stay holes.
            if byte[0].count_ones() > 1 {
                file.write_all_at(&byte, at).unwrap();
            }
        }
    }
}

fn signal(server: &Server, signal: &str) {
    run_for(SOON, Command::new("kill").args([signal, &server.process().to_string()])).expect("kill");
}

#[test]
fn an_array_under_siege_keeps_every_promise() {
    let seconds = number_from("ZONEWEAVE_SIEGE_SECONDS", 20);
    let scratch = Scratch::new("siege");
    // For four drives, those that replace them, and copies.
    let disk = SmallDisk::make(&scratch, 768);
    let mut siege = Siege { disk, scratch, random: random(11), oracle: Oracle::new() };
    Server::up(&siege.dir(), &["--size", "64MiB"]).stop();
    let begun = Instant::now();
    let mut order: Vec<Trouble> = Vec::new();
    let mut count = 0;
    while begun.elapsed() < Duration::from_secs(seconds) || count < TROUBLES.len() {
        if order.is_empty() {
            order = TROUBLES.to_vec();
            (1..order.len()).rev().for_each(|last| order.swap(last, siege.random.index(last + 1)));
        }
        let trouble = order.pop().unwrap();
        println!("{:>5} s: {trouble:?}", begun.elapsed().as_secs());
        siege.suffer(trouble);
        count += 1;
    }
    println!("{count} troubles");
}
