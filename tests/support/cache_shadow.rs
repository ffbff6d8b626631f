//! A client of a cache that remembers what it stored: what it reads is that, or nothing.

use super::cache::{CacheServer, assert_clean};
use super::random;
use super::server::{ask, refused};
use super::text;
use base::random::Random;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

const KEYS: u64 = 1000;
/// Changes of a round of a life: enough that the flash gets most of them before the server is killed, and each key has been stored.
const CHANGES: u64 = 1500;
/// Longest value: some are larger than a page, and than a few.
const VALUE_BYTES_MAX: u64 = 20_000;

/// A connection that speaks RESP.
pub struct Client(BufReader<UnixStream>);

impl Client {
    /// Connects to a cache.
    pub fn connect(socket: &Path) -> std::io::Result<Client> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(super::run::SOON))?;
        Ok(Client(BufReader::new(stream)))
    }

    /// True when the server ends the connection, soon, without saying anything more.
    pub fn is_ended(&mut self) -> bool {
        matches!(self.0.read(&mut [0]), Ok(0))
    }

    /// Sends a command, and returns its answer: a line, or the value of a bulk string; none where there is nothing.
    pub fn call(&mut self, words: &[&[u8]]) -> std::io::Result<Option<Vec<u8>>> {
        let mut command = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            command
                .extend(format!("${}\r\n", word.len()).bytes().chain(word.iter().copied()).chain(*b"\r\n"));
        }
        self.0.get_mut().write_all(&command)?;
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        let line = line.trim_end();
        let Some(length) = line.strip_prefix('$') else { return Ok(Some(line.as_bytes().to_vec())) };
        let Ok(length) = length.parse::<usize>() else { return Ok(None) };
        let mut value = vec![0; length + 2];
        self.0.read_exact(&mut value)?;
        value.truncate(length);
        Ok(Some(value))
    }
}

/// See the module.
pub struct Shadow {
    /// Version of each key that was stored last; none is there where it was deleted.
    versions: BTreeMap<u64, Option<u64>>,
    random: Random,
    next: u64,
}

/// Value of a version: no two are the same.
fn value_of(key: u64, version: u64) -> Vec<u8> {
    let mut random = Random::from_seed(key << 32 | version);
    let length = usize::try_from(random.below(VALUE_BYTES_MAX)).unwrap();
    let mut value = format!("{key}:{version}:").into_bytes();
    let end = value.len() + length;
    while value.len() < end {
        value.extend(random.bits().to_le_bytes());
    }
    value.truncate(end);
    value
}

impl Shadow {
    pub fn new() -> Shadow {
        Shadow { versions: BTreeMap::new(), random: random(99), next: 0 }
    }

    /// Stores, overwrites and deletes.
    pub fn change(&mut self, server: &CacheServer, count: u64) {
        let mut client = server.client();
        for _ in 0..count {
            let key = self.random.below(KEYS);
            let name = format!("key-{key}");
            if self.random.below(10) == 0 {
                client.call(&[b"DEL", name.as_bytes()]).unwrap();
                self.versions.insert(key, None);
                continue;
            }
            self.next += 1;
            let value = value_of(key, self.next);
            let stored = client.call(&[b"SET", name.as_bytes(), &value]).unwrap();
            assert_eq!(stored.as_deref(), Some(&b"+OK"[..]), "{}", server.log());
            self.versions.insert(key, Some(self.next));
        }
    }

    /// Reads everything; returns the part of the objects that is there, in percent.
    pub fn verify(&self, server: &CacheServer) -> usize {
        let mut client = server.client();
        let (mut found, mut stored) = (0, 0);
        for (key, version) in &self.versions {
            let read = client.call(&[b"GET", format!("key-{key}").as_bytes()]).unwrap();
            stored += usize::from(version.is_some());
            let Some(read) = read else { continue };
            let version = version.unwrap_or_else(|| panic!("key {key} was deleted\n{}", server.log()));
            assert!(read == value_of(*key, version), "key {key} has another value\n{}", server.log());
            found += 1;
        }
        found * 100 / stored.max(1)
    }
}

/// Life of a cache on three drives, which are not emulated: kills, and a drive that another one replaces.
pub fn live(dir: &Path, drives: &[&str], spare: &str) {
    let create = ["cache", "create", text(dir), "--drives-path", &drives.join(",")];
    ask(&create).expect("create");
    let other = [&create[..2], &["/tmp/other-cache"], &create[3..]].concat();
    refused(&other, 4, "is a drive of Zoneweave, of cache");
    let mut shadow = Shadow::new();
    for round in 0..3 {
        let server = CacheServer::serve(dir);
        refused(&[&other[..], &["--force"]].concat(), 5, "in use");
        let found = shadow.verify(&server);
        assert!(round == 0 || found > 90, "{found} % found\n{}", server.log());
        shadow.change(&server, CHANGES);
        shadow.verify(&server);
        server.kill_9();
        assert_clean(dir);
        println!("- killed after {CHANGES} changes; {found} % were found before them");
    }
    let server = CacheServer::serve(dir);
    ask(&["cache", "drive", "fail", text(dir), "1"]).expect("fail");
    let without = shadow.verify(&server);
    shadow.change(&server, CHANGES / 4);
    ask(&["cache", "drive", "replace", text(dir), "1", "--with", spare]).expect("replace");
    shadow.change(&server, CHANGES);
    let with = shadow.verify(&server);
    server.kill_9();
    let server = CacheServer::serve(dir);
    let after = shadow.verify(&server);
    println!(
        "- a drive failed: {without} % found; another one took its place: {with} %, after a kill {after} %"
    );
    assert!((40..90).contains(&without) && with > without && after > 70, "{}", server.log());
    server.stop();
    assert_clean(dir);
}
