//! What the protocol promises, over a real socket: negotiation, commands, errors.

// Helpers may fail like the tests they help.
#![allow(clippy::unwrap_used)]

mod support;

use base::time::Nanos;
use server::nbd::codec::option_reply;
use support::memory_volume::Options;
use support::raw_client::*;
use support::{BLOCKS, TestServer, config, options, pattern};

const SIZE_BYTES: u64 = BLOCKS * 4096;

fn server() -> TestServer {
    TestServer::start(config(), options())
}

#[test]
fn the_old_export_name_works_with_and_without_zeroes() {
    let server = server();
    for (flags, reply_bytes) in [(1_u32, 134), (3, 10)] {
        let mut client = RawClient::connect(&server.path());
        client.send(&flags.to_be_bytes());
        client.send_option(1, b"other");
        let reply = client.take(reply_bytes);
        assert_eq!(reply[..8], SIZE_BYTES.to_be_bytes());
        assert_eq!(client.plain(FLUSH, 0, 0, 0), 0);
    }
    let mut client = RawClient::connect(&server.path());
    client.send(&3_u32.to_be_bytes());
    client.send_option(1, b"nonesuch");
    client.assert_hung_up();
}

#[test]
fn exports_are_listed_and_described() {
    let server = server();
    let mut client = RawClient::connect(&server.path());
    client.send(&3_u32.to_be_bytes());
    client.send_option(3, &[]);
    for name in ["main", "other"] {
        let reply = client.option_reply();
        assert_eq!((reply.option, reply.kind), (3, option_reply::SERVER));
        assert_eq!(reply.data[4..4 + name.len()], *name.as_bytes());
    }
    assert_eq!(client.option_reply().kind, option_reply::ACK);
    client.send_option(6, &[0, 0, 0, 5, b'o', b't', b'h', b'e', b'r', 0, 3, 0, 1, 0, 2, 0, 3]);
    let export = client.option_reply();
    assert_eq!(export.data[..10], [&[0, 0], &SIZE_BYTES.to_be_bytes()[..]].concat());
    assert_eq!(client.option_reply().data, b"\0\x01other");
    assert_eq!(client.option_reply().data, b"\0\x02volume other");
    assert_eq!(client.option_reply().data, [0, 3, 0, 0, 0, 1, 0, 0, 16, 0, 2, 0, 0, 0]);
    assert_eq!(client.option_reply().kind, option_reply::ACK);
}

#[test]
fn wrong_options_are_refused_and_negotiation_goes_on() {
    let server = server();
    let mut client = RawClient::connect(&server.path());
    client.send(&3_u32.to_be_bytes());
    let cases: [(u32, &[u8], u32); 6] = [
        (5, &[], option_reply::ERR_UNSUP),
        (10, &[1; 300], option_reply::ERR_UNSUP),
        (7, &[0, 0, 0, 1, b'x', 0, 0], option_reply::ERR_UNKNOWN),
        (7, &[0xff; 4], option_reply::ERR_INVALID),
        (3, &[1], option_reply::ERR_INVALID),
        (6, &[0; 200_000], option_reply::ERR_TOO_BIG),
    ];
    for (option, data, kind) in cases {
        client.send_option(option, data);
        let reply = client.option_reply();
        assert_eq!((reply.option, reply.kind), (option, kind));
    }
    client.send_option(2, &[]);
    assert_eq!(client.option_reply().kind, option_reply::ACK);
    client.assert_hung_up();
}

#[test]
fn data_comes_back_as_written() {
    let server = server();
    for structured in [false, true] {
        let mut client = RawClient::open(&server.path(), structured);
        for (seed, (offset, bytes)) in
            (0..).zip([(0, 4096), (8192, 131_072), (4096, 65_536), (100, 50), (4000, 9000), (511, 300_001)])
        {
            let data = pattern(seed, bytes);
            assert_eq!(client.write(offset, &data, 0), 0);
            assert!(client.read(offset, u32::try_from(bytes).unwrap()) == data, "{offset} {bytes}");
        }
    }
}

#[test]
fn flush_trim_zeroes_and_fua_reach_the_volume() {
    use std::sync::atomic::Ordering::Relaxed;
    let server = server();
    let mut client = RawClient::open(&server.path(), true);
    assert_eq!(client.write(0, &[7; 16_384], FUA), 0);
    assert_eq!(server.shared.forced.load(Relaxed), 1);
    assert_eq!(client.plain(TRIM, 0, 4096, 4096), 0);
    assert_eq!(client.plain(WRITE_ZEROES, FUA, 8192, 100), 0);
    assert_eq!(server.shared.forced.load(Relaxed), 2);
    let expected = [[7; 4096], [0; 4096]].concat();
    assert!(client.read(0, 8192) == expected);
    assert!(client.read(8192, 100) == [0; 100]);
    assert!(client.read(8292, 3996) == [7; 3996]);
    assert_eq!(client.plain(FLUSH, 0, 0, 0), 0);
    assert_eq!(server.shared.flushes.load(Relaxed), 1);
    assert_eq!(client.plain(CACHE, 0, 0, 4096), 0);
    assert_eq!(client.plain(TRIM, 0, 0, u32::try_from(SIZE_BYTES).unwrap()), 0);
    assert!(client.read(0, 16_384) == [0; 16_384]);
}

#[test]
fn thirty_two_mebibytes_go_in_and_out_even_through_a_tiny_pool() {
    for frames_max in [32_768, 40, 3] {
        let server = TestServer::start(config(), Options { frames_max, ..options() });
        for structured in [true, false] {
            let mut client = RawClient::open(&server.path(), structured);
            let data = pattern(7, 32 << 20);
            assert_eq!(client.write(777, &data, 0), 0);
            assert!(client.read(777, 32 << 20) == data);
        }
        server.finish();
    }
}

#[test]
fn requests_out_of_range_get_their_errors_and_the_stream_stays_in_step() {
    let server = server();
    let mut client = RawClient::open(&server.path(), true);
    assert_eq!(client.plain(READ, 0, SIZE_BYTES - 100, 101), EINVAL);
    assert_eq!(client.plain(TRIM, 0, SIZE_BYTES, 1), EINVAL);
    assert_eq!(client.plain(WRITE_ZEROES, 0, u64::MAX, 4096), ENOSPC);
    assert_eq!(client.write(SIZE_BYTES - 100, &[1; 101], 0), ENOSPC);
    assert_eq!(client.write(SIZE_BYTES, &vec![1; 5 << 20], 0), ENOSPC);
    assert_eq!(client.plain(READ, 0, 0, (32 << 20) + 1), EINVAL);
    assert_eq!(client.plain(READ, 0, 0, u32::MAX), EINVAL);
    assert_eq!(client.plain(READ, DF, 0, 2 << 20), EOVERFLOW);
    assert_eq!(client.plain(BLOCK_STATUS, 0, 0, 4096), EINVAL);
    assert_eq!(client.plain(999, 0, 0, 0), EINVAL);
    assert_eq!(client.plain(READ, 1 << 9, 0, 1), EINVAL);
    for command in [READ, TRIM, WRITE_ZEROES, CACHE, WRITE] {
        assert_eq!(client.plain(command, 0, 0, 0), 0);
    }
    assert_eq!(client.write(SIZE_BYTES - 100, &[1; 100], 0), 0);
    assert!(client.read(SIZE_BYTES - 100, 100) == [1; 100]);
}

#[test]
fn a_write_of_four_gibibytes_and_a_wrong_magic_end_the_connection() {
    let server = server();
    let mut client = RawClient::open(&server.path(), true);
    client.request(WRITE, 0, 1, 0, u32::MAX);
    client.assert_hung_up();
    let mut client = RawClient::open(&server.path(), true);
    client.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client.assert_hung_up();
}

#[test]
fn failed_blocks_are_errors_and_nothing_else_is() {
    let server = server();
    server.shared.bad_block.store(300, std::sync::atomic::Ordering::Relaxed);
    let offset = 300 * 4096;
    for structured in [true, false] {
        let mut client = RawClient::open(&server.path(), structured);
        assert_eq!(client.plain(READ, 0, offset, 4096), EIO);
        assert_eq!(client.write(offset + 5, &[1; 10], 0), EIO);
        assert_eq!(client.write(offset - 4096, &[1; 3 * 4096], 0), EIO);
        assert!(client.read(offset - 4096, 4096).len() == 4096);
        assert_eq!(client.write(offset + 4096, &[1; 4096], 0), 0);
    }
    // A long structured read says so for its part; the others come.
    let mut client = RawClient::open(&server.path(), true);
    client.request(READ, 0, 1, 0, 4 << 20);
    let reply = client.reply(0);
    assert_eq!((reply.error, reply.data.len()), (EIO, 3));
    // A simple one cannot take back its header.
    let mut client = RawClient::open(&server.path(), false);
    client.request(READ, 0, 1, 0, 4 << 20);
    let mut torn = Vec::new();
    std::io::Read::read_to_end(&mut client.stream, &mut torn).unwrap();
    assert!(torn.len() < 4 << 20);
    // Unless its first part fails.
    let mut client = RawClient::open(&server.path(), false);
    client.request(READ, 0, 1, offset, 4 << 20);
    assert_eq!(client.reply(0).error, EIO);
    assert_eq!(client.plain(FLUSH, 0, 0, 0), 0);
}

#[test]
fn requests_in_flight_are_answered_in_any_order_each_once() {
    let delayed = Options { delay_max: Nanos(3_000_000), ..options() };
    let server = TestServer::start(config(), delayed);
    for structured in [true, false] {
        let mut client = RawClient::open(&server.path(), structured);
        let mut requests = Vec::new();
        for index in 0..200_u64 {
            requests.extend(request(WRITE, 0, index, index * 4096, 4096));
            requests.extend(pattern(index, 4096));
        }
        client.send(&requests);
        let mut cookies: Vec<u64> = (0..200).map(|_| client.reply(0).cookie).collect();
        cookies.sort_unstable();
        assert!(cookies.into_iter().eq(0..200));
        for index in 0..200_u64 {
            client.request(READ, 0, index, index * 4096, 4096);
        }
        for _ in 0..200 {
            let reply = client.reply(4096);
            assert!(reply.data[0].1 == pattern(reply.cookie, 4096));
        }
    }
    server.finish();
}

#[test]
fn disconnect_waits_for_what_is_in_flight() {
    let delayed = Options { delay_max: Nanos(50_000_000), ..options() };
    let server = TestServer::start(config(), delayed);
    let mut client = RawClient::open(&server.path(), true);
    client.request(FLUSH, 0, 1, 0, 0);
    client.request(READ, 0, 2, 0, 4096);
    client.request(DISCONNECT, 0, 3, 0, 0);
    let mut cookies = [client.reply(0).cookie, client.reply(0).cookie];
    cookies.sort_unstable();
    assert_eq!(cookies, [1, 2]);
    client.assert_hung_up();
}
