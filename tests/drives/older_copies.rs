//! Drives whose files are put back as they were before: nothing that was flushed comes back older, at any level and for as
//! many drives as the array can lose; beyond that the start is refused and nothing changes.

use crate::support::scratch::Scratch;
use crate::support::server::{Server, ask, status};
use crate::support::stamp::{BLOCK_BYTES, push_block, stamp_of};
use crate::support::{random, text};
use std::path::{Path, PathBuf};

const BLOCKS: u64 = 4096;
const REQUEST_BLOCKS: u64 = 16;
const REQUEST_BYTES: u32 = 16 * 4096;

fn requests() -> impl Iterator<Item = u64> {
    (0..BLOCKS / REQUEST_BLOCKS).map(|request| request * REQUEST_BLOCKS)
}

/// Blocks in order, each request with the next stamp; flushed.
fn write(server: &Server, lbas: &[u64], stamp: u64) {
    let mut client = server.client();
    for lba in lbas {
        let mut data = Vec::new();
        (*lba..lba + REQUEST_BLOCKS).for_each(|lba| push_block(&mut data, lba, stamp));
        client.write(lba * 4096, &data).unwrap();
    }
    client.flush().unwrap();
}

fn stamps(server: &Server) -> Vec<u64> {
    let mut client = server.client();
    let mut stamps = Vec::new();
    for lba in requests() {
        let data = client.read(lba * 4096, REQUEST_BYTES).unwrap();
        let blocks = (lba..).zip(data.chunks(BLOCK_BYTES));
        stamps.extend(blocks.map(|(lba, block)| stamp_of(lba, block).expect("a block that was written")));
    }
    stamps
}

fn drive_file(dir: &Path, drive: usize) -> PathBuf {
    dir.join(format!("drive-{drive}.zns"))
}

fn copy(dir: &Path, drives: &[usize], to: &str) {
    drives.iter().for_each(|drive| {
        std::fs::copy(drive_file(dir, *drive), dir.with_extension(format!("{to}-{drive}"))).unwrap();
    });
}

fn put_back(dir: &Path, drives: &[usize], from: &str) {
    drives.iter().for_each(|drive| {
        std::fs::copy(dir.with_extension(format!("{from}-{drive}")), drive_file(dir, *drive)).unwrap();
    });
}

/// An array whose older copies are of one moment and whose drives have seen two versions of half of the blocks since.
struct Aged {
    _scratch: Scratch,
    dir: PathBuf,
    expected: Vec<u64>,
}

/// Writes everything, takes the copies, and writes half of it again: in the same service, or in `mounts` others.
fn aged(name: &str, options: &[&str], drives: &[usize], mounts: usize) -> Aged {
    let scratch = Scratch::new(name);
    let dir = scratch.join("array");
    let mut options = options.to_vec();
    options.extend(["--size", "64MiB"]);
    let server = Server::up(&dir, &options);
    let all: Vec<u64> = requests().collect();
    write(&server, &all, 1);
    let mut expected: Vec<u64> = (0..BLOCKS).map(|_| 1).collect();
    let mut random = random(7);
    let mut overwrite = |server: &Server, stamp: u64| {
        let some: Vec<u64> = all.iter().copied().filter(|_| random.chance(1, 2)).collect();
        write(server, &some, stamp);
        let is_among = |lba: u64| some.contains(&(lba / REQUEST_BLOCKS * REQUEST_BLOCKS));
        let overwritten = (0..).zip(&mut expected).filter(|(lba, _)| is_among(*lba));
        overwritten.for_each(|(_, expected)| *expected = stamp);
    };
    if mounts == 0 {
        copy(&dir, drives, "older");
        overwrite(&server, 2);
        server.kill_9();
    } else {
        server.stop();
        copy(&dir, drives, "older");
    }
    for round in 0..mounts {
        let server = Server::serve(&dir);
        overwrite(&server, 2 + round as u64);
        if round % 2 == 0 { server.stop() } else { server.kill_9() }
    }
    put_back(&dir, drives, "older");
    Aged { _scratch: scratch, dir, expected }
}

#[track_caller]
fn assert_newest(aged: &Aged) -> Server {
    let server = Server::serve(&aged.dir);
    let read = stamps(&server);
    let older = read.iter().zip(&aged.expected).filter(|(read, expected)| read != expected).count();
    assert_eq!(
        older,
        0,
        "{older} of {BLOCKS} flushed blocks are not what was written last; {}",
        server.log()
    );
    server
}

#[test]
fn an_older_copy_of_a_drive_is_left_out_at_every_level() {
    let levels: [(&str, &[&str], &[usize]); 4] = [
        ("raid5", &["--level", "raid5"], &[3]),
        ("raid6", &["--level", "raid6", "--drives", "5"], &[0, 4]),
        ("raid01", &["--level", "raid01"], &[1]),
        ("3+3", &["--level", "3+3", "--drives", "6"], &[0, 2, 5]),
    ];
    for (level, options, drives) in levels {
        for mounts in [1, 2] {
            let aged = aged(&format!("older-{level}-{mounts}"), options, drives, mounts);
            let server = assert_newest(&aged);
            let report = status(&aged.dir);
            for drive in drives {
                assert_eq!(report["members"][*drive]["state"], "failed", "{level}: {report:#}");
                let named = format!("drive {drive} is an older copy of itself: epoch ");
                server.assert_says(&named);
                let problem = report["members"][*drive]["problem"].as_str().unwrap_or_default();
                assert!(problem.starts_with(&named), "{level}: {report:#}");
            }
            server.stop();
        }
    }
}

#[test]
fn a_drive_that_went_back_within_one_service_loses_nothing() {
    for (level, options) in [("raid5", ["--level", "raid5"]), ("raid6", ["--level", "raid6"])] {
        let aged = aged(&format!("within-{level}"), &options, &[2], 0);
        assert_newest(&aged).stop();
    }
}

#[test]
fn with_too_few_drives_left_the_start_is_refused_and_nothing_changes() {
    let aged = aged("older-many", &["--level", "raid5"], &[1, 2], 1);
    let before: Vec<Vec<u8>> =
        (0..4).map(|drive| std::fs::read(drive_file(&aged.dir, drive)).unwrap()).collect();
    let refused = ask(&["serve", text(&aged.dir)]);
    assert!(!refused.succeeded(), "{refused}");
    for word in ["drive 1 is an older copy of itself", "drive 2 is an older copy", "nothing was changed"] {
        assert!(refused.stderr.contains(word), "should mention `{word}`: {refused}");
    }
    for (drive, before) in before.iter().enumerate() {
        assert!(
            std::fs::read(drive_file(&aged.dir, drive)).unwrap() == *before,
            "drive {drive} was written to"
        );
    }
}
