//! One volume, several loops: what clients on different cores may rely on.

// Helpers may fail like the tests they help.
#![allow(clippy::unwrap_used)]

mod support;

use base::time::Nanos;
use server::{ServerConfig, control};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use support::memory_volume::Options;
use support::raw_client::*;
use support::{TestServer, config, options, pattern};

const MILLISECOND: u64 = 1_000_000;
const CORES: [usize; 3] = [1, 2, 4];

fn start(cores: usize, options: Options) -> TestServer {
    TestServer::start(ServerConfig { cores, ..config() }, options)
}

/// Requests take a while and are answered in any order.
fn delayed() -> Options {
    Options { delay_max: Nanos(MILLISECOND / 5), ..options() }
}

/// Runs `work` for clients 0 to `count`, each in a thread of its own.
fn at_once(path: &Path, count: u64, work: fn(&mut RawClient, u64)) {
    std::thread::scope(|scope| {
        for number in 0..count {
            scope.spawn(move || work(&mut RawClient::open(path, number % 2 == 0), number));
        }
    });
}

/// Writes blocks of its own that lie between those of others, all of a round in flight together,
/// and one that all clients write; reads its own back, and those of a neighbour as they come.
fn weave(client: &mut RawClient, number: u64) {
    for round in 0..20 {
        let mut requests = Vec::new();
        for index in 0..32 {
            let lba = index * 16 + number;
            requests.extend(request(WRITE, 0, index, lba * 4096, 4096));
            requests.extend(pattern(round * 1000 + lba, 4096));
        }
        requests.extend(request(WRITE, 0, 99, 600 * 4096, 8192));
        requests.extend(pattern(number, 4096));
        requests.extend(pattern(number, 4096));
        client.send(&requests);
        for _ in 0..33 {
            assert_eq!(client.reply(0).error, 0);
        }
        for index in 0..32 {
            let lba = index * 16 + number;
            let data = client.read(lba * 4096, 8192);
            assert!(data[..4096] == pattern(round * 1000 + lba, 4096), "round {round} block {lba}");
        }
    }
}

#[test]
fn clients_of_all_cores_work_on_one_volume() {
    for cores in CORES {
        for options in [options(), delayed(), Options { frames_max: 150, ..delayed() }] {
            let server = start(cores, options);
            at_once(&server.path(), 12, weave);
            let mut client = RawClient::open(&server.path(), true);
            for lba in (0..512).filter(|lba| lba % 16 < 12) {
                assert!(client.read(lba * 4096, 4096) == pattern(19_000 + lba, 4096), "block {lba}");
            }
            let contended = client.read(600 * 4096, 8192);
            assert!((0..12).any(|number| contended[..4096] == pattern(number, 4096)));
            server.finish();
        }
    }
}

#[test]
fn long_requests_pass_through_small_shares() {
    for frames_max in [20, 64, 1000] {
        let server = start(4, Options { frames_max, ..delayed() });
        at_once(&server.path(), 6, |client, number| {
            let data = pattern(number, (3 << 20) + 700);
            let offset = number * (4 << 20) + 300;
            assert_eq!(client.write(offset, &data, 0), 0);
            assert!(client.read(offset, u32::try_from(data.len()).unwrap()) == data);
        });
        server.finish();
    }
}

/// Three rounds of sectors within blocks that others write sectors of as well.
fn write_sectors(client: &mut RawClient, owner: u64) {
    for round in [3, 2, 1] {
        let mut requests = Vec::new();
        for block in 0..16_u64 {
            requests.extend(request(WRITE, 0, block, block * 4096 + owner * 512, 512));
            requests.extend(pattern(1000 * round + owner * 100 + block, 512));
        }
        // Whole blocks elsewhere, so that the write gate closes and opens.
        requests.extend(request(WRITE, 0, 99, (100 + owner) * 4096, 4096));
        requests.extend(pattern(owner, 4096));
        client.send(&requests);
        for _ in 0..17 {
            assert_eq!(client.reply(0).error, 0);
        }
    }
}

#[test]
fn neighbours_within_a_block_on_different_cores_both_survive() {
    for cores in CORES {
        let server = start(cores, Options { frames_max: 100, ..delayed() });
        at_once(&server.path(), 8, write_sectors);
        let mut client = RawClient::open(&server.path(), true);
        for block in 0..16_u64 {
            let data = client.read(block * 4096, 4096);
            for (owner, sector) in (0..8_u64).zip(data.chunks(512)) {
                assert!(sector == pattern(1000 + owner * 100 + block, 512), "block {block} sector {owner}");
            }
        }
        server.finish();
    }
}

#[test]
fn a_flush_covers_what_was_answered_on_any_core() {
    for cores in CORES {
        let server = start(cores, delayed());
        let mut clients: Vec<_> = (0..4).map(|_| RawClient::open(&server.path(), true)).collect();
        for round in 0..200 {
            let (writer, flusher) = (round % 4, (round / 4 + 1) % 4);
            assert_eq!(clients[writer].write(8192, &pattern(1, 4096), 0), 0);
            assert_eq!(clients[flusher].plain(FLUSH, 0, 0, 0), 0);
            let covered = server.shared.changes_before_flush.load(Relaxed);
            assert!(covered > u64::try_from(round).unwrap());
        }
        server.finish();
    }
}

#[test]
fn errors_reach_the_client_that_asked() {
    for cores in CORES {
        let server = start(cores, Options { frames_max: 64, ..delayed() });
        server.shared.bad_block.store(5, Relaxed);
        at_once(&server.path(), 8, |client, number| {
            for _ in 0..20 {
                client.request(READ, 0, 1, 5 * 4096, 8192);
                assert_eq!(client.reply(8192).error, EIO);
                assert_eq!(client.write(4 * 4096, &pattern(1, 8192), 0), EIO);
                assert_eq!(client.write(5 * 4096 + 512, &pattern(1, 512), 0), EIO);
                assert_eq!(client.plain(TRIM, FUA, 5 * 4096, 4096), EIO);
                let own = (10 + number) * 4096;
                assert_eq!(client.write(own, &pattern(number, 4096), 0), 0);
                assert!(client.read(own, 4096) == pattern(number, 4096));
            }
        });
        server.finish();
    }
}

#[test]
fn a_stop_answers_every_core_and_flushes_once_at_the_end() {
    for cores in CORES {
        let mut server = start(cores, options());
        server.shared.is_held.store(true, Relaxed);
        let mut resting: Vec<_> = (0..4).map(|_| RawClient::open(&server.path(), true)).collect();
        let mut busy: Vec<_> = (0..8).map(|_| RawClient::open(&server.path(), true)).collect();
        for client in &mut busy {
            for cookie in 0..10 {
                client.request(WRITE, 0, cookie, cookie * 4096, 4096);
                client.send(&pattern(cookie, 4096));
            }
        }
        server.wait_for_submitted(80);
        server.stop.request();
        resting.iter_mut().for_each(RawClient::assert_hung_up);
        server.shared.is_held.store(false, Relaxed);
        for client in &mut busy {
            for _ in 0..10 {
                assert_eq!(client.reply(0).error, 0);
            }
            client.assert_hung_up();
        }
        server.join();
        assert_eq!(server.shared.flushes.load(Relaxed), 1);
        assert_eq!(server.shared.changes_before_flush.load(Relaxed), 80);
    }
}

#[test]
fn a_stop_while_everybody_writes_ends_well() {
    for cores in CORES {
        let mut server = start(cores, delayed());
        let path = server.path();
        let clients: Vec<_> = (0..8)
            .map(|number| {
                let mut client = RawClient::open(&path, true);
                std::thread::spawn(move || {
                    let message = [request(WRITE, 0, 1, number * 4096, 4096), pattern(number, 4096)].concat();
                    let mut reply = [0; 16];
                    while client.stream.write_all(&message).is_ok()
                        && std::io::Read::read_exact(&mut client.stream, &mut reply).is_ok()
                    {
                        assert_eq!(reply[4..8], [0; 4]);
                    }
                })
            })
            .collect();
        server.wait_for_submitted(1000);
        server.stop.request();
        server.join();
        clients.into_iter().for_each(|client| client.join().unwrap());
    }
}

#[test]
fn a_stop_does_not_wait_for_ever_on_any_core() {
    let hasty = ServerConfig { cores: 3, stop_limit: Nanos(100 * MILLISECOND), ..config() };
    let mut server = TestServer::start(hasty, options());
    let mut stalled: Vec<_> = (0..6)
        .map(|_| {
            let mut client = RawClient::open(&server.path(), true);
            client.request(WRITE, 0, 1, 0, 1 << 20);
            client.send(&[1; 5000]);
            client
        })
        .collect();
    let mut marker = RawClient::open(&server.path(), true);
    assert_eq!(marker.plain(FLUSH, 0, 0, 0), 0);
    server.stop.request();
    server.join();
    stalled.iter_mut().for_each(RawClient::assert_hung_up);
}

#[test]
fn clients_that_leave_in_the_middle_leave_nothing_behind() {
    for cores in CORES {
        let server = start(cores, Options { frames_max: 400, ..delayed() });
        for sent in [0, 1, 4095, 70_000, 1 << 20] {
            // A payload cut short, requests whose answers nobody takes, and an idle one.
            let mut half = RawClient::open(&server.path(), true);
            half.request(WRITE, 0, 1, 512, 4 << 20);
            half.send(&vec![1; sent]);
            let mut deaf = RawClient::open(&server.path(), true);
            for cookie in 0..20 {
                deaf.request(READ, 0, cookie, cookie * 8192, 8192);
                deaf.request(FLUSH, 0, cookie, 0, 0);
                deaf.request(WRITE, 0, cookie, 512, 512);
                deaf.send(&[2; 512]);
            }
            let _idle = RawClient::open(&server.path(), true);
        }
        at_once(&server.path(), 5, |client, number| {
            // Where what the others have begun cannot come in between.
            let offset = (8 + number) << 20;
            assert_eq!(client.write(offset, &pattern(number, 1 << 20), 0), 0);
            assert!(client.read(offset, 1 << 20) == pattern(number, 1 << 20));
        });
        server.wait_for_quiet();
        server.finish();
    }
}

#[test]
fn garbage_on_every_core_disturbs_nobody() {
    for cores in CORES {
        let server = start(cores, options());
        let mut witnesses: Vec<_> = (0..4).map(|_| RawClient::open(&server.path(), true)).collect();
        for seed in 0..24 {
            let mut hostile = RawClient::open(&server.path(), seed % 2 == 0);
            // The server may hang up at any moment; what matters is that it stays.
            let _hung_up = hostile.stream.write_all(&pattern(seed, 1 << 18));
            for (witness, place) in witnesses.iter_mut().zip(0_u64..) {
                assert_eq!(witness.write(place << 20, &pattern(seed + place, 9000), 0), 0);
                assert!(witness.read(place << 20, 9000) == pattern(seed + place, 9000));
            }
        }
        server.finish();
    }
}

#[test]
fn limits_are_those_of_the_whole_server() {
    let few = ServerConfig { cores: 4, connections_max: 6, ..config() };
    let server = TestServer::start(few, options());
    let mut clients: Vec<_> = (0..6).map(|_| RawClient::open(&server.path(), true)).collect();
    RawClient::connect_silently(&server.path()).assert_hung_up();
    clients.iter_mut().for_each(|client| assert_eq!(client.plain(FLUSH, 0, 0, 0), 0));
    // One leaves, wherever it is, and there is room for another.
    clients.remove(3);
    support::wait_until(|| {
        let mut client = RawClient::connect_silently(&server.path());
        std::io::Read::read_exact(&mut client.stream, &mut [0; 18]).is_ok()
    });
    let answer = control::ask(&server.control_path(), "status").unwrap();
    assert_eq!(answer, "you said: status\n");
    server.finish();
}

#[test]
fn patience_ends_on_every_core() {
    let impatient = ServerConfig {
        cores: 3,
        handshake_limit: Nanos(100 * MILLISECOND),
        idle_limit: Nanos(100 * MILLISECOND),
        ..config()
    };
    let server = TestServer::start(impatient, options());
    let mut slow: Vec<_> = (0..3).map(|_| RawClient::connect(&server.path())).collect();
    slow.iter_mut().for_each(RawClient::assert_hung_up);
    let mut idle: Vec<_> = (0..3).map(|_| RawClient::open(&server.path(), true)).collect();
    idle.iter_mut().for_each(RawClient::assert_hung_up);
    server.finish();
}
