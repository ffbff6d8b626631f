//! What clients must not be able to do to each other or to the server.

// Helpers may fail like the tests they help.
#![allow(clippy::unwrap_used)]

mod support;

use base::time::Nanos;
use server::{ServerConfig, control};
use std::io::Write;
use std::sync::atomic::Ordering::Relaxed;
use support::memory_volume::Options;
use support::raw_client::*;
use support::{TestServer, config, options, pattern};

const MILLISECOND: u64 = 1_000_000;

#[test]
fn neighbours_within_a_block_both_survive() {
    let delayed = Options { delay_max: Nanos(MILLISECOND / 5), frames_max: 64, ..options() };
    let server = TestServer::start(config(), delayed);
    let path = server.path();
    // Eight clients own one sector of 512 bytes each in every one of 16 blocks; a ninth writes
    // whole blocks next to them and makes the gate close and open.
    let writers: Vec<_> = (0..9_u64)
        .map(|owner| {
            let path = path.clone();
            std::thread::spawn(move || write_sectors(&mut RawClient::open(&path, owner % 2 == 0), owner))
        })
        .collect();
    for writer in writers {
        writer.join().unwrap();
    }
    let mut client = RawClient::open(&path, true);
    for block in 0..16_u64 {
        let data = client.read(block * 4096, 4096);
        for (owner, sector) in (0..8_u64).zip(data.chunks(512)) {
            assert!(sector == pattern(1000 + owner * 100 + block, 512), "block {block} sector {owner}");
        }
    }
    server.finish();
}

/// Three rounds of writes, all of a round in flight together; the last round's data stays.
fn write_sectors(client: &mut RawClient, owner: u64) {
    for round in [3, 2, 1] {
        let mut requests = Vec::new();
        for block in 0..16_u64 {
            let (offset, bytes) =
                if owner == 8 { ((block + 100) * 4096, 8192) } else { (block * 4096 + owner * 512, 512) };
            requests.extend(request(WRITE, 0, block, offset, u32::try_from(bytes).unwrap()));
            requests.extend(pattern(1000 * round + owner * 100 + block, bytes));
        }
        client.send(&requests);
        for _ in 0..16 {
            assert_eq!(client.reply(0).error, 0);
        }
    }
}

#[test]
fn garbage_kills_only_its_connection() {
    let server = TestServer::start(config(), options());
    let mut witness = RawClient::open(&server.path(), true);
    assert_eq!(witness.write(0, &pattern(1, 8192), 0), 0);
    for seed in 0..64 {
        let mut client = match seed % 3 {
            0 => RawClient::connect_silently(&server.path()),
            1 => RawClient::open(&server.path(), seed % 2 == 0),
            _ => {
                let mut client = RawClient::connect(&server.path());
                client.send(&3_u32.to_be_bytes());
                client
            }
        };
        // The server may hang up at any moment; what matters is that it stays.
        let _hung_up = client.stream.write_all(&pattern(seed, 1 << 20));
    }
    assert!(witness.read(0, 8192) == pattern(1, 8192));
    server.finish();
}

#[test]
fn garbage_with_valid_frames_around_it_does_no_harm_either() {
    let server = TestServer::start(config(), Options { frames_max: 300, ..options() });
    for seed in 0..40_u64 {
        let mut client = RawClient::open(&server.path(), seed % 2 == 0);
        let noise = pattern(seed, 30_000);
        let mut bytes = Vec::new();
        for chunk in noise.chunks_exact(30) {
            let number = |at: usize| u64::from_le_bytes(chunk[at..at + 8].try_into().unwrap());
            let command = u16::from(chunk[0] % 9);
            let flags = if chunk[1] % 4 == 0 { u16::from(chunk[2]) } else { 0 };
            let length = u32::try_from(number(10) % 40_000).unwrap();
            bytes.extend(request(command, flags, number(3), number(20) % (65 << 20), length));
            if command == WRITE {
                bytes.extend(pattern(number(3), usize::try_from(length).unwrap()));
            }
            if command == DISCONNECT {
                break;
            }
        }
        // Replies are never read: the server must not care.
        client.stream.set_nonblocking(true).unwrap();
        let _full = client.stream.write(&bytes);
    }
    server.finish();
}

#[test]
fn the_range_of_a_flush_is_ignored_whatever_it_is() {
    let server = TestServer::start(config(), options());
    let mut client = RawClient::open(&server.path(), true);
    assert_eq!(client.plain(FLUSH, 0, u64::MAX, u32::MAX), 0);
    assert_eq!(client.plain(FLUSH, 0, 1, 0), 0);
    server.finish();
}

#[test]
fn truncated_handshakes_and_messages_leave_nothing_behind() {
    let server = TestServer::start(config(), options());
    let whole = [&3_u32.to_be_bytes()[..], b"IHAVEOPT\0\0\0\x07\0\0\0\x06\0\0\0\0\0\0"].concat();
    for cut in 0..whole.len() {
        let mut client = RawClient::connect(&server.path());
        client.send(&whole[..cut]);
    }
    for sent in [0, 1, 4095, 4096, 70_000, 1 << 20, (1 << 20) + 5] {
        let mut client = RawClient::open(&server.path(), true);
        client.request(WRITE, 0, 1, 512, 4 << 20);
        client.send(&vec![1; sent]);
    }
    let mut client = RawClient::open(&server.path(), true);
    assert_eq!(client.plain(FLUSH, 0, 0, 0), 0);
    server.finish();
}

#[test]
fn a_thousand_idle_clients_do_not_disturb_a_working_one() {
    let server = TestServer::start(config(), options());
    let idle: Vec<RawClient> = (0..1000).map(|_| RawClient::open(&server.path(), true)).collect();
    let mut client = RawClient::open(&server.path(), true);
    for index in 0..200 {
        assert_eq!(client.write(index * 4096, &pattern(index, 4096), 0), 0);
        assert!(client.read(index * 4096, 4096) == pattern(index, 4096));
    }
    for mut other in idle.into_iter().step_by(100) {
        assert_eq!(other.plain(FLUSH, 0, 0, 0), 0);
    }
    server.finish();
}

#[test]
fn too_many_clients_are_turned_away() {
    let server = TestServer::start(ServerConfig { connections_max: 2, ..config() }, options());
    let mut first = RawClient::open(&server.path(), true);
    let _second = RawClient::open(&server.path(), true);
    RawClient::connect_silently(&server.path()).assert_hung_up();
    assert_eq!(first.plain(FLUSH, 0, 0, 0), 0);
}

#[test]
fn a_client_that_stalls_within_a_payload_is_cut_and_others_get_its_frames() {
    let impatient = ServerConfig { stall_limit: Nanos(200 * MILLISECOND), ..config() };
    let server = TestServer::start(impatient, Options { frames_max: 9, ..options() });
    let mut idle = RawClient::open(&server.path(), true);
    let stalled: Vec<RawClient> = (0..8)
        .map(|_| {
            let mut client = RawClient::open(&server.path(), true);
            client.request(WRITE, 0, 1, 0, 1 << 20);
            client.send(&[1; 100]);
            client
        })
        .collect();
    // They hold all frames there are; a patient client gets its turn when they are cut.
    assert_eq!(idle.write(0, &[2; 8192], 0), 0);
    for mut client in stalled {
        client.assert_hung_up();
    }
    assert!(idle.read(0, 8192) == [2; 8192]);
    server.finish();
}

#[test]
fn a_client_that_does_not_read_is_cut() {
    let impatient = ServerConfig { stall_limit: Nanos(200 * MILLISECOND), ..config() };
    let server = TestServer::start(impatient, Options { frames_max: 4096, ..options() });
    let mut deaf = RawClient::open(&server.path(), true);
    for cookie in 0..64 {
        deaf.request(READ, 0, cookie, 0, 4 << 20);
    }
    let mut other = RawClient::open(&server.path(), true);
    assert!(other.read(0, 32 << 20).len() == 32 << 20);
    // The server closes; what it had sent before can still be read, then the stream ends.
    let mut sink = Vec::new();
    let _reset = std::io::Read::read_to_end(&mut deaf.stream, &mut sink);
    assert!(sink.len() < 64 * (4 << 20));
    server.finish();
}

#[test]
fn slow_handshakes_and_idle_clients_are_cut_when_so_configured() {
    let impatient = ServerConfig {
        handshake_limit: Nanos(100 * MILLISECOND),
        idle_limit: Nanos(100 * MILLISECOND),
        ..config()
    };
    let server = TestServer::start(impatient, options());
    let mut slow = RawClient::connect(&server.path());
    slow.assert_hung_up();
    let mut idle = RawClient::open(&server.path(), true);
    idle.assert_hung_up();
}

#[test]
fn a_client_that_rested_goes_on_with_a_smaller_buffer() {
    let resting = ServerConfig { staging_rest: Nanos(20 * MILLISECOND), ..config() };
    let server = TestServer::start(resting, options());
    let mut client = RawClient::open(&server.path(), true);
    for round in 0..4 {
        assert_eq!(client.write(round * 1000, &pattern(round, 3 << 20), 0), 0);
        // Long enough for the buffer to go, also while a message is half there.
        client.send(&request(FLUSH, 0, 9, 0, 0)[..10]);
        std::thread::sleep(std::time::Duration::from_millis(50));
        client.send(&request(FLUSH, 0, 9, 0, 0)[10..]);
        assert_eq!(client.reply(0).cookie, 9);
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(client.read(round * 1000, 3 << 20) == pattern(round, 3 << 20));
    }
    server.finish();
}

#[test]
fn a_stop_answers_what_is_in_flight_and_flushes() {
    let mut server = TestServer::start(config(), options());
    server.shared.is_held.store(true, Relaxed);
    let mut client = RawClient::open(&server.path(), true);
    let mut resting = RawClient::open(&server.path(), true);
    for cookie in 0..10 {
        client.request(WRITE, 0, cookie, cookie * 4096, 4096);
        client.send(&pattern(cookie, 4096));
    }
    server.wait_for_submitted(10);
    server.stop.request();
    resting.assert_hung_up();
    server.shared.is_held.store(false, Relaxed);
    for _ in 0..10 {
        assert_eq!(client.reply(0).error, 0);
    }
    client.assert_hung_up();
    server.join();
    assert_eq!(server.shared.flushes.load(Relaxed), 1);
}

#[test]
fn a_stop_does_not_wait_for_ever() {
    let hasty = ServerConfig { stop_limit: Nanos(100 * MILLISECOND), ..config() };
    let mut server = TestServer::start(hasty, options());
    let mut stalled = RawClient::open(&server.path(), true);
    stalled.request(WRITE, 0, 1, 0, 1 << 20);
    stalled.send(&[1; 5000]);
    let mut marker = RawClient::open(&server.path(), true);
    assert_eq!(marker.plain(FLUSH, 0, 0, 0), 0);
    server.stop.request();
    server.join();
    stalled.assert_hung_up();
}

#[test]
fn a_stop_that_comes_with_a_payload_is_as_good_as_any() {
    for round in 0..100 {
        let hasty = ServerConfig { stop_limit: Nanos(MILLISECOND), ..config() };
        let mut server = TestServer::start(hasty, options());
        let mut clients: Vec<_> = (0..4).map(|_| RawClient::open(&server.path(), true)).collect();
        for client in &mut clients {
            client.request(WRITE, 0, 1, 0, 1 << 20);
            client.send(&[1; 5000]);
        }
        std::thread::sleep(std::time::Duration::from_micros(round % 10 * 20));
        clients.iter_mut().for_each(|client| client.send(&[1; 5000]));
        server.stop.request();
        server.join();
    }
}

#[test]
fn control_lines_are_answered() {
    let server = TestServer::start(config(), options());
    let answer = control::ask(&server.control_path(), "status please").unwrap();
    assert_eq!(answer, "you said: status please\n");
    assert!(control::ask(&server.control_path(), "two\nlines").is_err());
    assert!(control::ask(&server.path().with_extension("none"), "x").is_err());
    let mut endless = RawClient::connect_silently(&server.control_path());
    endless.send(&[b'x'; 4096]);
    assert!(endless.take(6) == b"error:");
    let _silent = RawClient::connect_silently(&server.control_path());
    server.finish();
}

/// A volume that ends takes the server along at once: clients are cut off, and what they asked is not answered.
#[test]
fn a_volume_that_ends_ends_the_server() {
    for cores in [1, 3] {
        // Who waits for a stop to be given up waits in vain.
        let patient = ServerConfig { cores, stop_limit: Nanos(3_600_000 * MILLISECOND), ..config() };
        let server = TestServer::start(patient, options());
        let mut clients: Vec<RawClient> = (0..4).map(|_| RawClient::open(&server.path(), false)).collect();
        server.shared.is_held.store(true, Relaxed);
        clients.iter_mut().for_each(|client| client.request(READ, 0, 1, 0, 4096));
        server.wait_for_submitted(4);
        server.shared.has_ended.store(true, Relaxed);
        assert!(matches!(server.ended(), Err(server::RunError::VolumeEnded)), "{cores} cores");
        clients.iter_mut().for_each(RawClient::assert_hung_up);
    }
}
