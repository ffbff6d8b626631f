//! Redis itself and a cache are asked the same and have to answer the same, byte for byte, by RESP2 and RESP3.
//!
//! First what is written down in commands.txt: errors of arity, options that contradict each other, numbers at their ends. Then
//! commands that are drawn at random over a handful of keys. `ZONEWEAVE_SEED` repeats a run.

use crate::support::cache::CacheServer;
use crate::support::run::{SOON, command, kill, until};
use crate::support::scratch::Scratch;
use crate::support::{have, number_from, random, text};
use base::random::Random;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// Commands that are drawn for each protocol.
const DRAWN: u64 = 3000;

/// A Redis server; Debian's redis-tools has its program under another name.
struct Redis {
    child: Child,
    socket: PathBuf,
}

impl Redis {
    fn start(scratch: &Path) -> Redis {
        let socket = scratch.join("redis.sock");
        let mut server = command("redis-check-rdb");
        server.arg0("redis-server").args(["--port", "0", "--save", "", "--appendonly", "no"]);
        // As a cache: numbers are not shared between keys.
        server.args(["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
        server.args(["--unixsocket", text(&socket)]).current_dir(scratch);
        let child = server.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let redis = Redis { child, socket };
        assert!(until(SOON, || UnixStream::connect(&redis.socket).is_ok()), "a Redis server");
        redis
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        kill(&mut self.child);
    }
}

/// A client of either.
struct Client(BufReader<UnixStream>);

impl Client {
    fn connect(socket: &Path) -> Client {
        let socket = UnixStream::connect(socket).unwrap();
        socket.set_read_timeout(Some(SOON)).unwrap();
        Client(BufReader::new(socket))
    }

    /// The answer to a command, as it came.
    fn ask(&mut self, words: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
        self.0.get_mut().write_all(&bytes).unwrap();
        let mut answer = Vec::new();
        self.read(&mut answer);
        answer
    }

    fn read(&mut self, answer: &mut Vec<u8>) {
        let from = answer.len();
        self.0.read_until(b'\n', answer).unwrap();
        let line = String::from_utf8_lossy(&answer[from..]).into_owned();
        assert!(line.ends_with("\r\n"), "an answer ended early: {line:?}");
        let count = line[1..].trim().parse().unwrap_or(0_i64);
        match line.as_bytes()[0] {
            b'$' | b'=' => {
                if let Ok(count) = usize::try_from(count) {
                    let mut value = vec![0; count + 2];
                    self.0.read_exact(&mut value).unwrap();
                    answer.extend_from_slice(&value);
                }
            }
            b'*' | b'~' => (0..count).for_each(|_| self.read(answer)),
            b'%' => (0..2 * count).for_each(|_| self.read(answer)),
            _ => {}
        }
    }
}

/// Both of them.
struct Pair {
    redis: Client,
    cache: Client,
    wrong: Vec<String>,
}

impl Pair {
    /// Asks both; answers that differ are kept. `is_about_time` answers may differ by a few seconds or milliseconds.
    fn ask(&mut self, words: &[Vec<u8>], is_about_time: bool) {
        let (of_redis, of_cache) = (self.redis.ask(words), self.cache.ask(words));
        if of_redis == of_cache || (is_about_time && is_near(&of_redis, &of_cache)) {
            return;
        }
        let words: Vec<_> = words.iter().map(|word| word.escape_ascii().to_string()).collect();
        let (redis, cache) = (of_redis.escape_ascii(), of_cache.escape_ascii());
        self.wrong.push(format!("{words:?}\n  Redis {redis}\n  cache {cache}"));
    }

    fn say(&mut self, line: &str) {
        self.ask(&words_of(line), false);
    }
}

/// True when both are the same but for integers, and these are near each other.
fn is_near(a: &[u8], b: &[u8]) -> bool {
    let integer =
        |line: &[u8]| std::str::from_utf8(line.strip_prefix(b":")?).ok()?.trim().parse::<i64>().ok();
    let is_near = |(a, b): (&[u8], &[u8])| match (integer(a), integer(b)) {
        (Some(a), Some(b)) => a.abs_diff(b) < 10_000 && (a > 0) == (b > 0),
        _ => a == b,
    };
    let lines = |bytes: &[u8]| bytes.split(|byte| *byte == b'\n').count();
    let mut pairs = a.split(|byte| *byte == b'\n').zip(b.split(|byte| *byte == b'\n'));
    lines(a) == lines(b) && pairs.all(is_near)
}

/// Words, of which those with spaces, or without anything, stand in quotes.
fn words_of(line: &str) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let (word, behind) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').expect("quotes come in pairs"),
            None => rest.split_once(' ').unwrap_or((rest, "")),
        };
        words.push(word.as_bytes().to_vec());
        rest = behind.trim_start();
    }
    words
}

/// Commands to draw from: a word with a space takes a word of the list behind it.
const DRAWS: &[(&str, &[&str])] = &[
    ("set", &["KEY", "VALUE", "SET?", "SET?"]),
    ("get", &["KEY"]),
    ("getex", &["KEY", "GETEX?", "GETEX?"]),
    ("getset", &["KEY", "VALUE"]),
    ("getdel", &["KEY"]),
    ("mget", &["KEY", "KEY", "KEY"]),
    ("mset", &["KEY", "VALUE", "KEY", "VALUE"]),
    ("mset", &["KEY", "VALUE", "KEY"]),
    ("msetnx", &["KEY", "VALUE", "KEY", "VALUE"]),
    ("setnx", &["KEY", "VALUE"]),
    ("setex", &["KEY", "SECONDS", "VALUE"]),
    ("psetex", &["KEY", "MILLIS", "VALUE"]),
    ("strlen", &["KEY"]),
    ("getrange", &["KEY", "INTEGER", "INTEGER"]),
    ("substr", &["KEY", "INTEGER", "INTEGER"]),
    ("append", &["KEY", "VALUE"]),
    ("setrange", &["KEY", "OFFSET", "VALUE"]),
    ("incr", &["KEY"]),
    ("decr", &["KEY"]),
    ("incrby", &["KEY", "INTEGER"]),
    ("decrby", &["KEY", "INTEGER"]),
    ("incrbyfloat", &["KEY", "FLOAT"]),
    ("del", &["KEY", "KEY"]),
    ("unlink", &["KEY"]),
    ("exists", &["KEY", "KEY", "KEY"]),
    ("touch", &["KEY", "KEY"]),
    ("type", &["KEY"]),
    ("expire", &["KEY", "SECONDS", "IF?", "IF?"]),
    ("pexpire", &["KEY", "MILLIS", "IF?", "IF?"]),
    ("expireat", &["KEY", "AT", "WHEN?", "WHEN?"]),
    ("pexpireat", &["KEY", "AT", "WHEN?"]),
    ("persist", &["KEY"]),
    ("ttl", &["KEY"]),
    ("expiretime", &["KEY"]),
    ("pexpiretime", &["KEY"]),
    ("object", &["PART", "KEY"]),
    ("multi", &[]),
    ("exec", &[]),
    ("discard", &[]),
    ("ping", &["VALUE"]),
    ("select", &["DATABASE"]),
    ("set", &["KEY"]),
    ("append", &["KEY", "VALUE", "VALUE"]),
    ("nonesuch", &["VALUE", "VALUE"]),
];

const KINDS: &[(&str, &[&str])] = &[
    ("KEY", &["a", "b", "c", "n", ""]),
    (
        "VALUE",
        &[
            "",
            "0",
            "1",
            "-1",
            "10",
            "3.5",
            "hello",
            "9223372036854775807",
            "-9223372036854775808",
            "1e5",
            " 5",
            "007",
        ],
    ),
    (
        "INTEGER",
        &[
            "0",
            "1",
            "-1",
            "2",
            "5",
            "-5",
            "100",
            "-100",
            "9223372036854775807",
            "-9223372036854775808",
            "x",
            "",
            "1.5",
            "01",
        ],
    ),
    (
        "FLOAT",
        &["1", "1.5", "-2.25", "1e10", "0.1", "1e-3", "inf", "nan", ".5", "1.", "1e400", "0x1f", "x", " 1"],
    ),
    ("OFFSET", &["0", "1", "5", "100", "-1", "x", "536870912", "9223372036854775807"]),
    (
        "SECONDS",
        &["100", "1000", "0", "-1", "x", "9223372036854775807", "9223372036854775", "33177117420", ""],
    ),
    ("MILLIS", &["100000", "1000000", "0", "-1", "x", "9223372036854775807", "33177117420000"]),
    ("AT", &["33177117420", "33177117420000", "0", "-1", "x", "9223372036854775807"]),
    // Whether the end of now is later than that of a moment ago depends on the clock.
    ("IF?", &["nx", "XX", "zz", "nx gt"]),
    ("WHEN?", &["nx", "XX", "gt", "LT", "zz"]),
    (
        "SET?",
        &[
            "ex 100",
            "EX 0",
            "px 100000",
            "exat 33177117420",
            "pxat x",
            "ex",
            "nx",
            "XX",
            "get",
            "keepttl",
            "zz",
        ],
    ),
    ("GETEX?", &["ex 100", "px -1", "exat 33177117420", "PXAT 33177117420000", "persist", "ex", "zz"]),
    ("PART", &["refcount", "freq", "zz"]),
    ("DATABASE", &["0", "0", "0", "1", "x"]),
];

/// A command at random.
fn drawn(random: &mut Random) -> Vec<Vec<u8>> {
    let (name, kinds) = DRAWS[random.index(DRAWS.len())];
    let mut words = vec![name.as_bytes().to_vec()];
    for kind in kinds {
        if kind.ends_with('?') && random.chance(1, 2) {
            continue;
        }
        let (_, choices) = KINDS.iter().find(|(name, _)| name == kind).expect("a kind");
        let choice = choices[random.index(choices.len())];
        if kind.ends_with('?') {
            words.extend(choice.split(' ').map(|word| word.as_bytes().to_vec()));
        } else {
            words.push(choice.as_bytes().to_vec());
        }
    }
    words
}

#[test]
fn redis_and_a_cache_answer_alike() {
    if !have(&["redis-cli", "redis-check-rdb"]) {
        return;
    }
    let mut random = random(20_261_126);
    let drawn_count = number_from("ZONEWEAVE_COMMANDS", DRAWN);
    let scratch = Scratch::new("cache-differential");
    let redis = Redis::start(&scratch.join("."));
    let server = CacheServer::up(&scratch.join("cache"));
    for hello in ["hello 2", "hello 3"] {
        let (mut of_redis, mut of_cache) = (Client::connect(&redis.socket), Client::connect(&server.socket));
        // The answer has the client's number in it.
        for client in [&mut of_redis, &mut of_cache] {
            client.ask(&words_of(hello));
        }
        let mut pair = Pair { redis: of_redis, cache: of_cache, wrong: Vec::new() };
        pair.say("flushall");
        include_str!("commands.txt")
            .lines()
            .filter(|line| !line.starts_with('#'))
            .for_each(|line| pair.say(line));
        pair.say("flushall");
        for _ in 0..drawn_count {
            let words = drawn(&mut random);
            // Within MULTI, times are told by EXEC.
            let is_about_time =
                [&b"ttl"[..], b"expiretime", b"pexpiretime", b"exec"].contains(&words[0].as_slice());
            pair.ask(&words, is_about_time);
        }
        assert!(
            pair.wrong.is_empty(),
            "{hello}: {} answers differ\n{}",
            pair.wrong.len(),
            pair.wrong.join("\n")
        );
    }
    server.stop();
}
