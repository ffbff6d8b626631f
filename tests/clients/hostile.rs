//! What anybody can send to the socket, while somebody else works.

use crate::support::nbd::{
    Client, FLUSH, Failure, READ, Request, TRIM, WRITE, WRITE_ZEROES, connect, handshake,
};
use crate::support::run::{SOON, run_for};
use crate::support::scratch::Scratch;
use crate::support::server::{Server, assert_clean, let_run};
use crate::support::stamp::{BLOCK_BYTES_U64, push_block, stamp_of};
use crate::support::witness::{Rounds, Witness};
use crate::support::{random, random_bytes};
use base::random::Random;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

const SIZE_BYTES: u64 = 64 << 20;
/// The first half is the witness's; whoever attacks writes at most into the second.
const WITNESS_BLOCKS: u64 = SIZE_BYTES / BLOCK_BYTES_U64 / 2;
/// Time beyond which a client that waits for a few small requests suffers from others.
const STARVING: Duration = Duration::from_secs(10);
const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;

/// A well-behaved client writes and reads all the time.
fn work(mut client: Client, rounds: &Rounds) {
    let mut random = Random::from_seed(1);
    while let Some(round) = rounds.begin() {
        let (lba, count) = (random.below(WITNESS_BLOCKS - 16), 1 + random.below(16));
        let mut data = Vec::new();
        (lba..lba + count).for_each(|lba| push_block(&mut data, lba, round));
        client.write(lba * BLOCK_BYTES_U64, &data).unwrap();
        let back = client.read(lba * BLOCK_BYTES_U64, u32::try_from(data.len()).unwrap()).unwrap();
        assert!(back == data, "round {round}: blocks {lba} and {count} more");
        let any = random.below(WITNESS_BLOCKS);
        let block = client.read(any * BLOCK_BYTES_U64, 4096).unwrap();
        assert!(stamp_of(any, &block).is_some(), "block {any}");
    }
}

/// Runs `attack` on a server that has a witness, which must not suffer; nor may the array.
fn under_witness(name: &str, attack: impl FnOnce(&mut Server, &Witness)) {
    let scratch = Scratch::new(name);
    let dir = scratch.join("array");
    let mut server = Server::up(&dir, &["--size", "64MiB"]);
    let client = server.client();
    let witness = Witness::start(STARVING, |rounds| work(client, rounds));
    witness.assert_served();
    attack(&mut server, &witness);
    witness.assert_served();
    witness.finish();
    server.assert_alive();
    server.stop();
    assert_clean(&dir);
}

/// A client let in, as a socket.
fn admitted(socket: &Path) -> UnixStream {
    let mut stream = connect(socket).unwrap();
    stream.write_all(&handshake()).unwrap();
    // Greeting, export information, acknowledgement: whatever comes within a moment.
    stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let mut answers = [0; 4096];
    while stream.read(&mut answers).is_ok_and(|count| count > 0) {}
    stream
}

/// Sends what the server takes; it may hang up at any time, but not let us hang.
fn throw(mut stream: UnixStream, bytes: &[u8]) {
    stream.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
    let _hung_up = stream.write_all(bytes);
    let _closed_already = stream.shutdown(Shutdown::Write);
}

#[test]
fn sixty_four_mebibytes_of_garbage() {
    under_witness("garbage", |server, witness| {
        let mut random = random(31);
        let throwers: Vec<_> = (0..4).map(|_| garbage_thrower(server.socket(), random.bits())).collect();
        for thrower in throwers {
            thrower.join().unwrap();
        }
        witness.assert_served();
    });
}

/// 16 MiB on 64 connections, in each of the states a connection can be in.
fn garbage_thrower(socket: PathBuf, seed: u64) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut random = Random::from_seed(seed);
        for connection in 0..64 {
            let mut garbage = random_bytes(&mut random, 256 << 10);
            match connection % 4 {
                0 => throw(connect(&socket).unwrap(), &garbage),
                1 => {
                    // Past the client's flags, in the middle of options.
                    garbage[..4].copy_from_slice(&3_u32.to_be_bytes());
                    garbage[4..12].copy_from_slice(b"IHAVEOPT");
                    throw(connect(&socket).unwrap(), &garbage);
                }
                2 => throw(admitted(&socket), &garbage),
                _ => throw(admitted(&socket), &requests_of_chance(&mut random)),
            }
        }
    })
}

/// Well-formed requests with senseless contents, none of which changes the witness's half.
fn requests_of_chance(random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < 256 << 10 {
        let commands = [READ, WRITE, 2, FLUSH, TRIM, 5, WRITE_ZEROES, 7, 8, u16::MAX];
        let command = commands[random.index(commands.len())];
        let flags =
            u16::try_from(random.below(1 << 16)).unwrap() & if random.chance(1, 2) { 1 } else { u16::MAX };
        let offset = if random.chance(1, 2) {
            SIZE_BYTES / 2 + random.below(SIZE_BYTES)
        } else {
            u64::MAX - random.below(1 << 20)
        };
        let magnitude = random.below(33);
        let length = u32::try_from(random.below(1 << magnitude)).unwrap();
        bytes.extend(Request { command, flags, cookie: random.bits(), offset, length }.to_bytes());
    }
    bytes
}

#[test]
fn truncated_handshakes() {
    under_witness("trunc", |server, witness| {
        let handshake = handshake();
        for end in 0..handshake.len() {
            let mut kept_open = Vec::new();
            for close_at_once in [true, false] {
                let mut stream = connect(&server.socket()).unwrap();
                stream.write_all(&handshake[..end]).unwrap();
                if !close_at_once {
                    kept_open.push(stream);
                }
            }
        }
        witness.assert_served();
        // Options with lengths that are not followed by as much, or are absurd.
        for length in [1_u32, 5, 65_536, u32::MAX] {
            let mut bytes = handshake[..16].to_vec();
            bytes.extend(length.to_be_bytes());
            bytes.extend([0xff; 6]);
            throw(connect(&server.socket()).unwrap(), &bytes);
        }
    });
}

#[test]
fn requests_beyond_the_end_are_answered() {
    under_witness("beyond", |server, _witness| {
        let mut client = server.client();
        let wrong = [
            (READ, SIZE_BYTES - 512, 1024),
            (READ, SIZE_BYTES, 1),
            (READ, u64::MAX - 100, 4096),
            (TRIM, SIZE_BYTES - 4096, 8192),
            (TRIM, SIZE_BYTES / 2, u32::MAX),
            (WRITE_ZEROES, SIZE_BYTES - 4096, 8192),
            (WRITE_ZEROES, SIZE_BYTES / 2, u32::MAX),
            (WRITE_ZEROES, u64::MAX, u32::MAX),
        ];
        for (command, offset, length) in wrong {
            match client.request(command, 0, offset, length) {
                Err(Failure::Answered(EINVAL | ENOSPC)) => {}
                other => panic!("command {command} at {offset}, {length} bytes: {other:?}"),
            }
        }
        match client.write(SIZE_BYTES - 4096, &[1; 8192]) {
            Err(Failure::Answered(EINVAL | ENOSPC)) => {}
            other => panic!("a write across the end: {other:?}"),
        }
        // The same connection still works, and the last block was not touched.
        assert!(client.read(SIZE_BYTES - 4096, 4096).unwrap() == [0; 4096]);
    });
}

#[test]
fn lengths_of_four_gibibytes() {
    under_witness("length", |server, witness| {
        for command in [READ, WRITE] {
            let streams: Vec<_> = (0..8_u64)
                .map(|cookie| {
                    let mut stream = admitted(&server.socket());
                    let offset = SIZE_BYTES / 2;
                    let request = Request { command, flags: 0, cookie, offset, length: u32::MAX };
                    let _hung_up = stream.write_all(&request.to_bytes());
                    let _hung_up = stream.write_all(&[0x55; 1 << 16]);
                    stream
                })
                .collect();
            witness.assert_served();
            drop(streams);
        }
        let memory_kib = resident_kib(server.process());
        assert!(memory_kib < 1 << 20, "the server holds {memory_kib} KiB");
    });
}

/// Memory of a process.
fn resident_kib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_thousand_idle_connections() {
    // This process may be allowed fewer descriptors than it needs for its ends.
    let process = format!("--pid={}", std::process::id());
    let mut prlimit = crate::support::run::command("prlimit");
    let raised = run_for(SOON, prlimit.args([&process, "--nofile=4096:"]));
    if !raised.succeeded() {
        crate::support::skip(&format!("no more descriptors: {raised}"));
        return;
    }
    under_witness("idle", |server, witness| {
        let silent: Vec<_> = (0..500).map(|_| connect(&server.socket()).unwrap()).collect();
        let admitted: Vec<Client> = (0..500).map(|_| server.client()).collect();
        let_run(Duration::from_secs(1));
        witness.assert_served();
        let mut last = admitted;
        let client = last.last_mut().unwrap();
        client.write(SIZE_BYTES / 2, &[3; 4096]).unwrap();
        assert!(client.read(SIZE_BYTES / 2, 4096).unwrap() == [3; 4096], "an idle client wakes up");
        drop(silent);
        witness.assert_served();
    });
}

#[test]
fn a_client_that_does_not_take_its_answers() {
    deaf_clients("deaf1", 1);
}

#[test]
fn many_clients_that_do_not_take_their_answers() {
    deaf_clients("deaf16", 16);
}

/// Clients that ask for 256 MiB each and read none of it.
fn deaf_clients(name: &str, count: u64) {
    under_witness(name, |server, witness| {
        let streams: Vec<_> = (0..count)
            .map(|cookie| {
                let mut stream = admitted(&server.socket());
                let read = Request { command: READ, flags: 0, cookie, offset: 0, length: 1 << 20 };
                stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
                let _not_taken = stream.write_all(&read.to_bytes().repeat(256));
                stream
            })
            .collect();
        witness.assert_served();
        drop(streams);
    });
}
