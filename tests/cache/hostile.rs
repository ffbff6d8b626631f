//! What anybody can send to either door of a cache, while others work: ten thousand connections, a large value byte by byte, halves of requests,
//! other protocols, and nonsense.

use crate::support::cache::{CacheServer, assert_clean};
use crate::support::run::{SOON, until};
use crate::support::scratch::Scratch;
use crate::support::witness::{Rounds, Witness};
use crate::support::{random, random_bytes, text};
use base::random::Random;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

/// Clients that a cache takes.
const CLIENTS_MAX: usize = 10_000;
/// Files that the test or a server may need beside one for each client.
const OTHER_FILES: u64 = 500;
/// Prefix of the witness's values: nobody else hears of them.
const OF_WITNESS: &str = "wItNeSs";

/// Value of the witness, by number.
fn value_of(number: u64) -> String {
    format!("{OF_WITNESS} {number}").repeat(1 + usize::try_from(number % 200).unwrap())
}

/// A connection whose answers are read by lines.
struct Door(BufReader<UnixStream>);

impl Door {
    fn open(socket: &Path) -> Door {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        Door(BufReader::new(stream))
    }

    /// Sends words, and reads so many lines.
    fn ask(&mut self, words: &str, lines: usize) -> String {
        self.0.get_mut().write_all(words.as_bytes()).unwrap();
        let mut said = String::new();
        for _ in 0..lines {
            self.0.read_line(&mut said).unwrap();
        }
        said
    }
}

/// Two well-behaved clients, one of each protocol, of which each reads what the other stored. Few keys, which no other key takes along often: what is read is the value, or nothing where it was forgotten.
fn work(mut resp: Door, mut memcached: Door, rounds: &Rounds) {
    let mut found = 0;
    while let Some(round) = rounds.begin() {
        let (name, value) = (format!("witness-{}", round % 50), value_of(round));
        let bytes = value.len();
        assert_eq!(resp.ask(&format!("set {name} \"{value}\"\r\n"), 1), "+OK\r\n");
        let said = memcached.ask(&format!("mg {name} v\r\n"), 1);
        if said == format!("VA {bytes}\r\n") {
            found += 1;
            assert_eq!(memcached.ask("", 1), format!("{value}\r\n"));
        } else {
            assert_eq!(said, "EN\r\n");
        }
        let other = format!("{name}-other");
        assert_eq!(memcached.ask(&format!("set {other} 0 0 {bytes}\r\n{value}\r\n"), 1), "STORED\r\n");
        let said = resp.ask(&format!("get {other}\r\n"), 1);
        if said == format!("${bytes}\r\n") {
            found += 1;
            assert_eq!(resp.ask("", 1), format!("{value}\r\n"));
        } else {
            assert_eq!(said, "$-1\r\n");
        }
    }
    let rounds = rounds.done();
    assert!(found > rounds, "{found} of {} values were found", 2 * rounds);
}

/// A served cache with a door for each protocol.
struct Both {
    server: CacheServer,
    door: PathBuf,
    dir: PathBuf,
    _scratch: Scratch,
}

impl Both {
    fn up(name: &str, more: &[&str]) -> Both {
        let scratch = Scratch::new(name);
        let (dir, door) = (scratch.join("cache"), scratch.join("memcached.sock"));
        let place = format!("unix:{}", text(&door));
        let fixed = ["up", "--dir", text(&dir), "--memcached", &place];
        Both { server: CacheServer::start(&dir, &[&fixed[..], more].concat()), door, dir, _scratch: scratch }
    }

    /// A socket of either protocol.
    fn connect(&self, is_resp: bool) -> UnixStream {
        let socket = UnixStream::connect(if is_resp { &self.server.socket } else { &self.door }).unwrap();
        socket.set_read_timeout(Some(SOON)).unwrap();
        socket
    }

    /// A number that `INFO` tells.
    fn told(&self, name: &str) -> u64 {
        let mut info = String::new();
        // Who left a moment ago may still be counted among those that there may be.
        assert!(until(SOON, || {
            let said = self.server.client().call(&[b"INFO"]).ok().flatten();
            info = said.map(|said| String::from_utf8(said).unwrap()).unwrap_or_default();
            info.contains(name)
        }));
        let found = info.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
        found.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{name}\n{info}"))
    }
}

/// Runs `attack` on a cache that has a witness, which must not suffer; nor may the cache.
fn under_witness(name: &str, more: &[&str], attack: impl FnOnce(&Both, &Witness)) {
    let both = Both::up(name, more);
    let (resp, memcached) = (Door::open(&both.server.socket), Door::open(&both.door));
    let witness = Witness::start(SOON, |rounds| work(resp, memcached, rounds));
    witness.assert_served();
    attack(&both, &witness);
    witness.assert_served();
    witness.finish();
    both.server.stop();
    assert_clean(&both.dir);
}

/// Lets this process, and servers that it starts, have so many files; false where that is not allowed.
fn may_have_files(count: u64) -> bool {
    let now = getrlimit(Resource::Nofile);
    if now.current.is_none_or(|current| current >= count) {
        return true;
    }
    if now.maximum.is_some_and(|maximum| maximum < count) {
        println!("skipped: {count} files are more than {:?}", now.maximum);
        return false;
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(count), ..now }).is_ok()
}

#[test]
fn ten_thousand_connections_hold_up_nobody() {
    if !may_have_files(CLIENTS_MAX as u64 + OTHER_FILES) {
        return;
    }
    under_witness("cache-ten-thousand", &["--size", "256MiB"], |both, witness| {
        let mut clients = Vec::new();
        // One of those that are there asks how many there are.
        for number in 0..CLIENTS_MAX - 3 {
            let mut client = both.connect(number % 2 == 0);
            match number % 6 {
                0 => client.write_all(b"*3\r\n$3\r\nSET\r\n$4\r\nhalf\r\n$100000\r\nxyz").unwrap(),
                1 => client.write_all(b"set half 0 0 100000\r\nxyz").unwrap(),
                2 => client.write_all(b"PING\r\nGET witn").unwrap(),
                3 => client.write_all(b"version\r\nget witn").unwrap(),
                _ => {}
            }
            clients.push(client);
            if number % 1_000 == 0 {
                witness.assert_served();
            }
        }
        assert!(until(SOON, || both.told("connected_clients") == CLIENTS_MAX as u64));
        assert!(both.told("client_memory_bytes") < 20 << 20, "clients have a part of the memory");
        // More than that are told so.
        let mut last = None;
        assert!(until(SOON, || {
            let mut client = both.server.client();
            let is_in = client.call(&[b"PING"]).is_ok_and(|said| said.is_some_and(|said| said == b"+PONG"));
            last = is_in.then_some(client);
            is_in
        }));
        let mut said = String::new();
        let _ended = both.connect(true).read_to_string(&mut said);
        assert_eq!(said, "-ERR max number of clients reached\r\n");
        for _ in 0..100 {
            let mut said = String::new();
            let _ended = both.connect(false).read_to_string(&mut said);
            assert_eq!(said, "ERROR Too many open connections\r\n");
        }
        drop(last);
        witness.assert_served();
        // Those who said something whole are answered, however many others there are.
        for (number, client) in clients.iter_mut().enumerate().skip(2).step_by(600) {
            let mut said = [0; 7];
            client.read_exact(&mut said).unwrap();
            assert_eq!(&said, if number % 2 == 0 { b"+PONG\r\n" } else { b"VERSION" });
        }
        drop(clients);
        assert!(until(SOON, || both.told("connected_clients") == 3), "all others have left");
    });
}

/// Sends the first and the last of it byte by byte, and what lies between in pieces that are as small.
fn dribble(client: &mut UnixStream, bytes: &[u8], random: &mut Random) {
    let (mut at, edge) = (0, 100_000);
    while at < bytes.len() {
        let is_between = at >= edge && at + edge < bytes.len();
        let count = if is_between { 1 + random.index(80) } else { 1 };
        client.write_all(&bytes[at..(at + count).min(bytes.len())]).unwrap();
        at += count;
    }
}

#[test]
fn sixteen_mebibytes_byte_by_byte() {
    let options = ["--size", "8GiB", "--drives", "2", "--memory", "512MiB", "--object-max", "16MiB"];
    under_witness("cache-byte-by-byte", &options, |both, witness| {
        let mut random = random(47);
        let value = random_bytes(&mut random, 16 << 20);
        let bytes = value.len();
        let resp =
            [format!("*3\r\n$3\r\nSET\r\n$4\r\nlong\r\n${bytes}\r\n").as_bytes(), &value, b"\r\n"].concat();
        let mut client = both.connect(true);
        dribble(&mut client, &resp, &mut random);
        let mut said = [0; 5];
        client.read_exact(&mut said).unwrap();
        assert_eq!(&said, b"+OK\r\n");
        witness.assert_served();
        let memcached = [format!("set slow 0 0 {bytes}\r\n").as_bytes(), &value, b"\r\n"].concat();
        let mut client = both.connect(false);
        dribble(&mut client, &memcached, &mut random);
        let mut said = [0; 8];
        client.read_exact(&mut said).unwrap();
        assert_eq!(&said, b"STORED\r\n");
        witness.assert_served();
        // Others may have taken what was stored, but never changed it.
        for name in [&b"long"[..], b"slow"] {
            let found = both.server.client().call(&[b"GET", name]).unwrap();
            assert!(found.is_none_or(|found| found == value), "{}", String::from_utf8_lossy(name));
        }
    });
}

/// Requests of both protocols, whole ones, and what no client should say.
const SAYINGS: &[&[u8]] = &[
    b"*3\r\n$3\r\nSET\r\n$8\r\nstranger\r\n$5\r\nvalue\r\n",
    b"*2\r\n$3\r\nGET\r\n$8\r\nstranger\r\n",
    b"*1\r\n$4\r\nPING\r\n",
    b"set stranger 0 0 5\r\nvalue\r\n",
    b"get stranger other\r\n",
    b"mg stranger v t f s k O1\r\n",
    b"ms stranger 5 T100\r\nvalue\r\n",
    b"incr stranger 18446744073709551616\r\n",
    b"gat 99999999999999999999 stranger\r\n",
    b"*1000000000\r\n",
    b"*-7\r\n",
    b"*2\r\n*1\r\n$4\r\nPING\r\n$1\r\na\r\n",
    b"$-2\r\n",
    b"*2\r\n$3\r\nGET\r\n$99999999999999999999\r\n",
    b"SET stranger \"unbalanced\r\n",
    b"SET stranger v EX 9223372036854775807\r\n",
    b"set stranger 0 0 -1\r\n",
    b"set stranger 0 0 5 noreply extra\r\nvalue\r\n",
    b"set stranger 0 0 5\r\nvalueXX",
    b"\x80\x01\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00",
    b"GET / HTTP/1.1\r\nHost: cache\r\nContent-Length: 5\r\n\r\nvalue",
    // The beginning of a TLS handshake.
    b"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03\x5a\x0d\x0a\x00\x00\x20\x13\x01\x13\x02\x13\x03\xc0\x2b",
    b"\r\n\r\n\0\0\0\0",
];

/// Sends what the server takes: it may hang up at any time, but not let us hang; what it says is nothing that the witness stored.
fn throw(mut socket: UnixStream, bytes: &[u8], hangs_up: bool) {
    socket.set_write_timeout(Some(SOON)).unwrap();
    let _hung_up = socket.write_all(bytes);
    let _closed_already = socket.shutdown(if hangs_up { Shutdown::Both } else { Shutdown::Write });
    let mut said = Vec::new();
    let _ended = socket.read_to_end(&mut said);
    let said = String::from_utf8_lossy(&said);
    assert!(!said.contains(OF_WITNESS), "{said}");
}

#[test]
fn halves_and_nonsense_stay_with_whoever_said_them() {
    under_witness("cache-halves", &["--size", "256MiB"], |both, witness| {
        // Every beginning of every saying, at both doors, with silence or an end behind it.
        let mut silent = Vec::new();
        for is_resp in [true, false] {
            for saying in SAYINGS {
                for end in 0..=saying.len() {
                    if end % 7 == 3 {
                        let mut socket = both.connect(is_resp);
                        let _hung_up = socket.write_all(&saying[..end]);
                        silent.push(socket);
                    }
                    throw(both.connect(is_resp), &saying[..end], end % 5 == 0);
                }
            }
            witness.assert_served();
        }
        drop(silent);
        let mut random = random(53);
        let throwers: Vec<JoinHandle<()>> =
            (0..4).map(|_| thrower(both, Random::from_seed(random.bits()))).collect();
        throwers.into_iter().for_each(|thrower| thrower.join().unwrap());
        assert!(until(SOON, || both.told("connected_clients") == 3), "strangers have left");
    });
}

/// Four MiB of sayings and garbage, in any order, on 64 connections.
fn thrower(both: &Both, mut random: Random) -> JoinHandle<()> {
    let (resp, memcached) = (both.server.socket.clone(), both.door.clone());
    std::thread::spawn(move || {
        for connection in 0..64 {
            let mut said = Vec::new();
            while said.len() < 64 << 10 {
                match random.below(4) {
                    0 => {
                        let count = random.index(200);
                        said.extend(random_bytes(&mut random, count));
                    }
                    _ => said.extend_from_slice(SAYINGS[random.index(SAYINGS.len())]),
                }
            }
            let socket = UnixStream::connect(if connection % 2 == 0 { &resp } else { &memcached }).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            throw(socket, &said, connection % 3 == 0);
        }
    })
}
