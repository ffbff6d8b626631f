//! A cache between two protocols: what one stores the other reads, scans are whole, and nonsense stays with whoever said it.

use crate::support::cache::{CacheServer, assert_clean};
use crate::support::run::{SOON, command, run_for, until};
use crate::support::scratch::Scratch;
use crate::support::{have, text};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// A served cache with a door for clients of memcached.
struct Both {
    server: CacheServer,
    door: PathBuf,
    scratch: Scratch,
}

impl Both {
    fn up(name: &str) -> Both {
        let scratch = Scratch::new(name);
        let (dir, door) = (scratch.join("cache"), scratch.join("memcached.sock"));
        let place = format!("unix:{}", text(&door));
        let arguments = ["up", "--dir", text(&dir), "--size", "256MiB", "--memcached", &place];
        Both { server: CacheServer::start(&dir, &arguments), door, scratch }
    }

    fn connect(&self) -> UnixStream {
        let socket = UnixStream::connect(&self.door).unwrap();
        socket.set_read_timeout(Some(SOON)).unwrap();
        socket
    }

    /// All that is said until the connection ends.
    fn talk(&self, words: &[u8]) -> String {
        let mut socket = self.connect();
        socket.write_all(words).unwrap();
        let mut said = Vec::new();
        socket.read_to_end(&mut said).unwrap();
        String::from_utf8_lossy(&said).into_owned()
    }
}

#[test]
fn either_protocol_reads_what_the_other_stored() {
    if !have(&["redis-cli"]) {
        return;
    }
    let both = Both::up("cache-both");
    assert_eq!(both.server.say(&["set", "greeting", "hello", "ex", "3600"]), "OK\n");
    let said = both.talk(b"mg greeting v s\r\nset m 5 0 2\r\n41\r\nquit\r\n");
    assert_eq!(said, "VA 5 s5\r\nhello\r\nSTORED\r\n");
    assert_eq!(both.server.say(&["incr", "m"]), "42\n");
    assert_eq!(both.talk(b"get m\r\nms n 3 T100\r\nabc\r\nquit\r\n"), "VALUE m 5 2\r\n42\r\nEND\r\nHD\r\n");
    assert!(both.server.say(&["ttl", "n"]).trim().parse::<u64>().unwrap() > 90);
    let large = vec![b'v'; 300_000];
    let set = [format!("set large 0 0 {}\r\n", large.len()).as_bytes(), &large, b"\r\nquit\r\n"].concat();
    assert_eq!(both.talk(&set), "STORED\r\n");
    assert_eq!(both.server.say(&["strlen", "large"]), "300000\n");
    // What is deleted by one stays deleted over kill -9 for the other.
    assert!(until(SOON, || both.server.say(&["info", "zoneweave"]).contains("buffer_bytes:0\r\n")));
    assert_eq!(both.talk(b"delete m\r\nquit\r\n"), "DELETED\r\n");
    both.server.kill_9();
    let dir = both.scratch.join("cache");
    let server = CacheServer::serve(&dir);
    assert_eq!(server.say(&["get", "m"]), "\n");
    assert_eq!(server.say(&["get", "greeting"]), "hello\n");
    server.stop();
    assert_clean(&dir);
}

#[test]
fn what_is_stale_stays_so_over_kill_9() {
    if !have(&["redis-cli"]) {
        return;
    }
    let both = Both::up("cache-stale");
    assert_eq!(both.talk(b"set a 0 0 3\r\nold\r\nset b 0 0 3\r\nold\r\nquit\r\n"), "STORED\r\nSTORED\r\n");
    let is_flushed = || both.server.say(&["info", "zoneweave"]).contains("buffer_bytes:0\r\n");
    assert!(until(SOON, is_flushed));
    // Older versions are hidden before the answer.
    assert_eq!(both.talk(b"md a I\r\nmd b I T100\r\nmg b v\r\nquit\r\n"), "HD\r\nHD\r\nVA 3 X W\r\nold\r\n");
    assert!(until(SOON, is_flushed));
    let Both { server, door, scratch } = both;
    server.kill_9();
    let dir = scratch.join("cache");
    let place = format!("unix:{}", text(&door));
    let server = CacheServer::start(&dir, &["serve", text(&dir), "--memcached", &place]);
    let both = Both { server, door, scratch };
    assert_eq!(both.talk(b"mg a v\r\nmg b v\r\nquit\r\n"), "VA 3 X W\r\nold\r\nVA 3 Z X\r\nold\r\n");
    // A client of Redis makes it anew.
    assert_eq!(both.server.say(&["set", "a", "new"]), "OK\n");
    assert_eq!(both.talk(b"mg a v\r\nquit\r\n"), "VA 3\r\nnew\r\n");
    both.server.stop();
    assert_clean(&dir);
}

#[test]
fn scans_tell_all_keys() {
    if !have(&["redis-cli"]) {
        return;
    }
    let both = Both::up("cache-scan");
    let stores: String = (0..3000).map(|index| format!("set k{index} 0 0 3 noreply\r\nabc\r\n")).collect();
    assert_eq!(
        both.talk(format!("{stores}set long-one 0 0 9\r\nabcdefghi\r\nquit\r\n").as_bytes()),
        "STORED\r\n"
    );
    assert_eq!(both.server.say(&["-n", "3", "set", "other", "1"]), "OK\n");
    let scanned = both.server.say(&["--scan"]);
    // A store takes the object that the index cannot tell from it along (ADR 41): rare, and not the last one.
    let asks: String = (0..3000).map(|index| format!("get k{index}\r\n")).collect();
    let found = both.talk(format!("{asks}get long-one\r\nquit\r\n").as_bytes());
    let expected: BTreeSet<String> = found
        .lines()
        .filter_map(|line| line.strip_prefix("VALUE ")?.split(' ').next())
        .map(str::to_owned)
        .collect();
    assert!(expected.len() > 2990 && expected.contains("long-one"), "{} of 3001 objects", expected.len());
    let lines = |said: String| said.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    // From buffers, from pages, and while it moves from the ones to the others.
    assert_eq!(lines(scanned), expected);
    assert!(until(SOON, || both.server.say(&["info", "zoneweave"]).contains("buffer_bytes:0\r\n")));
    assert_eq!(lines(both.server.say(&["--scan"])), expected);
    assert_eq!(lines(both.server.say(&["keys", "*"])), expected);
    assert_eq!(both.server.say(&["--scan", "--pattern", "long*"]), "long-one\n");
    assert_eq!(both.server.say(&["-n", "3", "keys", "*"]), "other\n");
    assert_eq!(both.server.say(&["-n", "3", "randomkey"]), "other\n");
    assert_eq!(both.server.say(&["-n", "4", "randomkey"]), "\n");
    assert!(expected.contains(both.server.say(&["randomkey"]).trim()));
    let big = run_for(SOON, command("redis-cli").args(["-s", text(&both.server.socket), "--bigkeys"]))
        .expect("bigkeys");
    assert!(
        big.contains(&format!("Sampled {} keys", expected.len()))
            && big.contains("'\"long-one\"' has 9 bytes"),
        "{}",
        big
    );
    both.server.stop();
}

#[test]
fn nonsense_stays_with_whoever_said_it() {
    if !have(&["redis-cli"]) {
        return;
    }
    let both = Both::up("cache-nonsense");
    assert_eq!(both.talk(b"set a 0 0 1\r\n1\r\nquit\r\n"), "STORED\r\n");
    // Blocks that are announced and do not come; half lines; a long line; the binary protocol; HTTP.
    let halves: Vec<UnixStream> = (0..200)
        .map(|index| {
            let mut socket = both.connect();
            socket.write_all(if index % 2 == 0 { b"set b 0 0 1000000\r\nxyz" } else { b"get aaa" }).unwrap();
            socket
        })
        .collect();
    let long = vec![b'x'; 1 << 16];
    let lines = [b"set ", &long[..], b" 0 0 1\r\n"].concat();
    // The last one has no end of a line.
    for words in [&long[..], b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", &lines, b"\x80\x0b\0\0\0\0\0\0\0\0"] {
        let mut socket = both.connect();
        // It may be closed before all of it is sent.
        let _sent = socket.write_all(words);
        let mut said = Vec::new();
        let _ended = socket.read_to_end(&mut said);
        assert!(said.is_empty(), "{}", String::from_utf8_lossy(&said));
    }
    // A line of exactly as many bytes as a buffer has, in the other protocol, half sent.
    let mut socket = UnixStream::connect(&both.server.socket).unwrap();
    socket.set_read_timeout(Some(SOON)).unwrap();
    socket.write_all(&long).unwrap();
    assert_eq!(both.server.say(&["get", "a"]), "1\n");
    socket.write_all(b"x").unwrap();
    let mut said = String::new();
    socket.read_to_string(&mut said).unwrap();
    assert_eq!(said, "-ERR Protocol error: too big inline request\r\n");
    drop(halves);
    assert_eq!(both.talk(b"get b\r\nquit\r\n"), "END\r\n");
    both.server.stop();
}
