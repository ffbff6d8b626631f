//! `--cores`: several threads before one engine, and the same promises.

use crate::support::have;
use crate::support::nbd::{Client, FUA, Request, WRITE};
use crate::support::run::{SOON, command, run_for, until};
use crate::support::scratch::Scratch;
use crate::support::server::{Server, ask, assert_clean, let_run, status, zoneweave};
use crate::support::stamp::{BLOCK_BYTES, BLOCK_BYTES_U64, push_block, stamp_of};
use crate::support::text;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const CONNECTIONS: u64 = 6;
/// Blocks of each connection, every sixth of the volume.
const BLOCKS_EACH: u64 = 500;
const DEPTH: u64 = 8;

/// The block with this index among those of a connection.
fn lba_of(connection: u64, index: u64) -> u64 {
    index * CONNECTIONS + connection
}

/// Writes blocks of its own with ever higher stamps, `DEPTH` in flight, until the server dies; says
/// in `acknowledged` which stamp each block has at least.
fn write_until_killed(mut client: Client, connection: u64, acknowledged: &[AtomicU64]) {
    let send = |client: &mut Client, stamp: u64| {
        let lba = lba_of(connection, stamp % BLOCKS_EACH);
        let flags = if stamp.is_multiple_of(16) { FUA } else { 0 };
        let (offset, length) = (lba * BLOCK_BYTES_U64, 4096);
        let mut bytes = Request { command: WRITE, flags, cookie: stamp, offset, length }.to_bytes();
        push_block(&mut bytes, lba, stamp);
        client.send(&bytes)
    };
    let mut next = 1;
    while next <= DEPTH && send(&mut client, next).is_ok() {
        next += 1;
    }
    while let Ok(head) = client.reply() {
        assert_eq!(head.error, 0, "a write failed while the server was alive");
        acknowledged[usize::try_from(head.cookie % BLOCKS_EACH).unwrap()]
            .store(head.cookie, Ordering::Relaxed);
        if send(&mut client, next).is_err() {
            break;
        }
        next += 1;
    }
}

/// Asserts that every block holds what was acknowledged, or something newer that was on its way.
#[track_caller]
fn verify(server: &Server, acknowledged: &[Vec<AtomicU64>]) {
    let mut client = server.client();
    for (connection, stamps) in (0..).zip(acknowledged) {
        for (index, stamp) in (0..).zip(stamps) {
            let lba = lba_of(connection, index);
            let stamp = stamp.load(Ordering::Relaxed);
            let found = stamp_of(lba, &client.read(lba * BLOCK_BYTES_U64, 4096).unwrap());
            assert!(
                found.is_some_and(|found| found == stamp || found == stamp + BLOCKS_EACH || stamp == 0),
                "block {lba} of connection {connection}: {found:?}, acknowledged {stamp}"
            );
        }
    }
}

#[test]
fn what_any_core_acknowledged_survives_a_kill() {
    let scratch = Scratch::new("cores");
    let dir = scratch.join("array");
    for round in 0..3 {
        let server = Server::up(&dir, &["--size", "64MiB", "--cores", "2"]);
        let none = || (0..BLOCKS_EACH).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
        let acknowledged: Vec<_> = (0..CONNECTIONS).map(|_| none()).collect();
        let clients: Vec<_> = (0..CONNECTIONS).map(|_| server.client()).collect();
        std::thread::scope(|scope| {
            for ((client, connection), stamps) in clients.into_iter().zip(0..).zip(&acknowledged) {
                scope.spawn(move || write_until_killed(client, connection, stamps));
            }
            let_run(Duration::from_millis(200 + round * 150));
            server.kill_9();
        });
        let count = acknowledged.iter().flatten().filter(|stamp| stamp.load(Ordering::Relaxed) > 0).count();
        println!("round {round}: {count} blocks were acknowledged");
        assert!(count > 100, "the test is to be about something");
        // As many cores as before, or fewer: the array does not know.
        let server = Server::serve(&dir);
        verify(&server, &acknowledged);
        server.stop();
        assert_clean(&dir);
    }
}

#[test]
fn every_connection_sees_what_the_others_wrote() {
    let scratch = Scratch::new("coresee");
    let dir = scratch.join("array");
    let server = Server::up(&dir, &["--size", "64MiB", "--cores", "3"]);
    let mut clients: Vec<_> = (0..5).map(|_| server.client()).collect();
    for round in 1..=100_u64 {
        let (writer, reader) = (usize::try_from(round).unwrap() % 5, usize::try_from(round * 3).unwrap() % 5);
        let mut data = Vec::new();
        (round..round + 64).for_each(|lba| push_block(&mut data, lba, round));
        clients[writer].write(round * BLOCK_BYTES_U64, &data).unwrap();
        clients[reader].flush().unwrap();
        assert!(clients[reader].read(round * BLOCK_BYTES_U64, 64 * 4096).unwrap() == data, "round {round}");
    }
    // Parts of one block, from all connections.
    for (client, place) in clients.iter_mut().zip(0_u8..) {
        client.write(u64::from(place) * 512, &[place + 1; 512]).unwrap();
    }
    let block = clients[0].read(0, 4096).unwrap();
    for (place, sector) in (0_u8..5).zip(block.chunks(512)) {
        assert_eq!(sector, [place + 1; 512]);
    }
    assert_eq!(block.len(), BLOCK_BYTES);
    assert_eq!(status(&dir)["unreadable_blocks"], 0);
    server.stop();
    assert_clean(&dir);
}

fn spawn_fio(server: &Server, folder: &Path, job: u32) -> Child {
    let mut fio = command("fio");
    // Its state files would land in the current folder; every job has a part of its own.
    fio.current_dir(folder).args([format!("--name=job{job}"), "--ioengine=nbd".to_owned()]);
    fio.arg(format!("--uri={}", server.uri())).arg(format!("--offset={}m", job * 64));
    fio.args(["--rw=randwrite", "--bsrange=4k-128k", "--iodepth=32", "--size=64m"]);
    fio.args(["--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0", "--do_verify=1"]);
    fio.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
}

#[test]
fn fio_verifies_several_jobs_at_once() {
    if !have(&["fio"]) {
        return;
    }
    let scratch = Scratch::new("coresfio");
    let dir = scratch.join("array");
    let server = Server::up(&dir, &["--size", "256MiB", "--cores", "4"]);
    let mut jobs: Vec<_> = (0..4).map(|job| spawn_fio(&server, scratch.path(), job)).collect();
    for job in &mut jobs {
        assert!(until(SOON * 3, || job.try_wait().unwrap().is_some()), "fio hangs");
        assert!(job.wait().unwrap().success());
    }
    server.stop();
    assert_clean(&dir);
}

#[test]
fn impossible_numbers_of_cores_are_refused_with_what_is_possible() {
    let scratch = Scratch::new("coresno");
    let dir = scratch.join("array");
    for cores in ["0", "65", "-1", "many", ""] {
        let refused = ask(&["up", "--dir", text(&dir), "--size", "64MiB", &format!("--cores={cores}")]);
        assert_eq!(refused.code(), Some(2), "{refused}");
        assert!(refused.stderr.contains("--cores") && refused.stderr.contains("1 to 64"), "{refused}");
    }
    assert!(!dir.exists());
}

#[test]
fn more_cores_than_the_machine_has_are_worth_a_warning() {
    let scratch = Scratch::new("coresmany");
    let dir = scratch.join("array");
    let there = std::thread::available_parallelism().unwrap().get();
    if there >= 64 {
        return;
    }
    let server = Server::up(&dir, &["--size", "64MiB", "--cores", &(there + 1).to_string()]);
    server.client().write(0, &[1; 4096]).unwrap();
    server.assert_says(&format!("--cores {}", there + 1));
    server.stop();
    // And the largest number works, even here.
    let server = Server::up(&dir, &["--cores", "64"]);
    assert_eq!(server.client().read(0, 4096).unwrap(), [1; 4096]);
    server.stop();
    let help = run_for(SOON, zoneweave().args(["serve", "--help"])).expect("--help");
    assert!(help.contains("--cores"));
}
