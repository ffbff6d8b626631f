//! Kills at random instants, under load by both protocols: whatever is read afterwards is what was stored last, or nothing.
//!
//! A few kills here; `cargo xtask kills [COUNT]` makes as many as it is told, of a cache of one shard and of one of two, and of two caches whose drives
//! lose with each kill what they had not flushed: their files lie on an ext4 of their own, which is shut down without writing what it holds in memory.
//! `ZONEWEAVE_SEED` repeats what clients ask and when the process is killed, as far as the machine repeats itself.

use crate::support::cache::{CacheServer, assert_clean};
use crate::support::disk::SmallDisk;
use crate::support::run::SOON;
use crate::support::scratch::Scratch;
use crate::support::{number_from, random, text};
use base::random::Random;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

/// Clients, every other one of memcached's protocol, each with keys of its own.
const CLIENTS: u64 = 4;
/// Keys of each.
const KEYS: u64 = 400;
/// Longest value: some are larger than a page, and than a few.
const VALUE_BYTES_MAX: u64 = 20_000;
/// Longest time until a kill, in microseconds.
const LIFE_MAX_MICROS: u64 = 80_000;
/// The same where each store waits for a flush.
const LIFE_FLUSHED_MAX_MICROS: u64 = 400_000;

/// Request of a client about a key; a store has a version.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Get,
    Set(u64),
    Delete(u64),
}

/// A connection that speaks one of the protocols.
struct Door {
    stream: BufReader<UnixStream>,
    is_resp: bool,
}

impl Door {
    fn open(socket: &Path, is_resp: bool) -> Door {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        Door { stream: BufReader::new(stream), is_resp }
    }

    /// Adds a request to what is sent together.
    fn say(&self, key: &str, asked: Asked, value: &[u8], said: &mut Vec<u8>) {
        let bulk = |word: &[u8]| [format!("${}\r\n", word.len()).as_bytes(), word, b"\r\n"].concat();
        let name = key.as_bytes();
        said.extend(match (self.is_resp, asked) {
            (true, Asked::Get) => [&b"*2\r\n"[..], &bulk(b"GET"), &bulk(name)].concat(),
            (true, Asked::Set(_)) => [&b"*3\r\n"[..], &bulk(b"SET"), &bulk(name), &bulk(value)].concat(),
            (true, Asked::Delete(_)) => [&b"*2\r\n"[..], &bulk(b"DEL"), &bulk(name)].concat(),
            (false, Asked::Get) => format!("get {key}\r\n").into_bytes(),
            (false, Asked::Set(_)) => {
                [format!("set {key} 0 0 {}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat()
            }
            (false, Asked::Delete(_)) => format!("delete {key}\r\n").into_bytes(),
        });
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        match line.strip_suffix("\r\n") {
            Some(line) => Ok(line.to_owned()),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn value(&mut self, bytes: &str) -> io::Result<Vec<u8>> {
        let mut value = vec![0; bytes.parse::<usize>().unwrap() + 2];
        self.stream.read_exact(&mut value)?;
        value.truncate(value.len() - 2);
        Ok(value)
    }

    /// The answer to a request: the value that a read found.
    fn hear(&mut self, asked: Asked) -> io::Result<Option<Vec<u8>>> {
        let line = self.line()?;
        let expected: &[&str] = match (self.is_resp, asked) {
            (true, Asked::Get) => match line.strip_prefix('$') {
                Some("-1") => return Ok(None),
                Some(bytes) => return self.value(bytes).map(Some),
                None => &[],
            },
            (false, Asked::Get) => match line.strip_prefix("VALUE ") {
                None => &["END"],
                Some(rest) => {
                    let found = self.value(rest.rsplit(' ').next().unwrap())?;
                    assert_eq!(self.line()?, "END");
                    return Ok(Some(found));
                }
            },
            (true, Asked::Set(_)) => &["+OK"],
            (false, Asked::Set(_)) => &["STORED"],
            (true, Asked::Delete(_)) => &[":0", ":1"],
            (false, Asked::Delete(_)) => &["DELETED", "NOT_FOUND"],
        };
        assert!(expected.contains(&line.as_str()), "{asked:?} is answered by {line}");
        Ok(None)
    }
}

/// Knowledge of a key: the newest version that was acknowledged or read, and later ones that may have come about. The versions that
/// were deletions hold nothing.
#[derive(Default)]
struct Known {
    versions: BTreeMap<u64, bool>,
    /// The newest version is known to be the one that was acknowledged last.
    is_settled: bool,
}

impl Known {
    /// Older versions are not to be seen any more.
    fn settle(&mut self, version: u64) {
        self.versions = self.versions.split_off(&version);
        self.is_settled = self.versions.len() == 1;
    }

    /// True when a value has to be there, unless it was forgotten.
    fn holds(&self) -> bool {
        self.is_settled && self.versions.values().all(|holds| *holds)
    }
}

/// A client with its keys.
struct Writer {
    number: u64,
    known: BTreeMap<u64, Known>,
    random: Random,
    next: u64,
}

fn name_of(client: u64, key: u64) -> String {
    format!("client-{client}-key-{key}")
}

/// Value of a version: no two are the same.
fn value_of(name: &str, version: u64) -> Vec<u8> {
    let mut bytes = Random::from_seed(version << 20 ^ name.len() as u64);
    let length = if bytes.chance(1, 2) { bytes.below(200) } else { bytes.below(VALUE_BYTES_MAX) };
    let head = format!("{name}:{version}:").into_bytes();
    head.into_iter().chain((0..length).map(|_| u8::try_from(bytes.below(256)).unwrap())).collect()
}

/// The version that a value says it is.
fn version_of(value: &[u8]) -> Option<u64> {
    let version = value.splitn(3, |byte| *byte == b':').nth(1)?;
    std::str::from_utf8(version).ok()?.parse().ok()
}

impl Writer {
    fn new(number: u64, seed: u64) -> Writer {
        Writer { number, known: BTreeMap::new(), random: Random::from_seed(seed), next: 0 }
    }

    /// Judges what a read has found.
    fn judge(&mut self, key: u64, found: Option<&[u8]>) {
        let Some(found) = found else { return };
        let name = name_of(self.number, key);
        let version = version_of(found).unwrap_or_else(|| panic!("{name} has a foreign value"));
        assert!(found == value_of(&name, version), "{name} has a foreign or damaged value");
        let known = self.known.entry(key).or_default();
        let may_be = known.versions.get(&version).copied().unwrap_or(false);
        let versions = &known.versions;
        assert!(may_be, "{name} is version {version}, which is stale or was deleted: {versions:?}");
        known.settle(version);
    }

    /// Asks for several things at once; an error is the end of the server.
    fn burst(&mut self, door: &mut Door) -> io::Result<()> {
        let (mut said, mut all) = (Vec::new(), Vec::new());
        for _ in 0..1 + self.random.below(8) {
            let key = self.random.below(KEYS);
            self.next += 1;
            let asked = match self.random.below(10) {
                0..4 => Asked::Get,
                4 => Asked::Delete(self.next),
                _ => Asked::Set(self.next),
            };
            let name = name_of(self.number, key);
            let mut value = Vec::new();
            if let Asked::Set(version) | Asked::Delete(version) = asked {
                let holds = matches!(asked, Asked::Set(_));
                let known = self.known.entry(key).or_default();
                known.versions.insert(version, holds);
                known.is_settled = false;
                if holds {
                    value = value_of(&name, version);
                }
            }
            door.say(&name, asked, &value, &mut said);
            all.push((key, asked));
        }
        door.stream.get_mut().write_all(&said)?;
        for (key, asked) in all {
            let found = door.hear(asked)?;
            match asked {
                Asked::Get => self.judge(key, found.as_deref()),
                Asked::Set(version) | Asked::Delete(version) => {
                    self.known.get_mut(&key).expect("it was asked").settle(version);
                }
            }
        }
        Ok(())
    }

    /// Reads all keys; objects that are there, of those that nothing was asked of since their store was acknowledged.
    fn read_all(&mut self, door: &mut Door) -> (usize, usize) {
        let (mut found, mut stored) = (0, 0);
        for key in 0..KEYS {
            let mut said = Vec::new();
            door.say(&name_of(self.number, key), Asked::Get, &[], &mut said);
            door.stream.get_mut().write_all(&said).unwrap();
            let value = door.hear(Asked::Get).unwrap();
            if self.known.get(&key).is_some_and(Known::holds) {
                (found, stored) = (found + usize::from(value.is_some()), stored + 1);
            }
            self.judge(key, value.as_deref());
        }
        (found, stored)
    }
}

/// A cache with a door for each protocol.
struct Served {
    server: CacheServer,
    memcached: PathBuf,
}

impl Served {
    fn start(dir: &Path, command: &[&str]) -> Served {
        let memcached = dir.with_extension("memcached");
        let place = format!("unix:{}", text(&memcached));
        let server = CacheServer::start(dir, &[command, &["--memcached", &place]].concat());
        Served { server, memcached }
    }

    fn door(&self, is_resp: bool) -> Door {
        let socket = if is_resp { &self.server.socket } else { &self.memcached };
        Door::open(socket, is_resp)
    }
}

/// Caches that are killed.
struct Victim<'a> {
    dir: &'a Path,
    up: &'a [&'a str],
    serve: &'a [&'a str],
    /// Disk with the drives, cut back with each kill to what was flushed.
    disk: Option<&'a SmallDisk>,
    life_max_micros: u64,
    /// Objects that have to be there afterwards, in hundredths of those that were stored.
    share: usize,
}

/// Kills a cache again and again.
fn kill_again_and_again(what: &str, victim: &Victim<'_>) {
    let Victim { dir, up, serve, disk, life_max_micros, share: wanted } = *victim;
    let mut random = random(31);
    let kills = number_from("ZONEWEAVE_KILLS", 6);
    let mut writers: Vec<Writer> = (0..CLIENTS).map(|number| Writer::new(number, random.bits())).collect();
    let mut served = Served::start(dir, up);
    let (mut all_found, mut all_stored, mut least, mut losses) = (0, 0, 100, 0);
    for kill in 0..kills {
        let served_by = &served;
        std::thread::scope(|scope| {
            for writer in &mut writers {
                let mut door = served_by.door(writer.number % 2 == 0);
                scope.spawn(move || while writer.burst(&mut door).is_ok() {});
            }
            sleep(Duration::from_micros(random.below(life_max_micros)));
            served_by.server.signal_9();
        });
        drop(served);
        losses += u64::from(disk.is_some_and(SmallDisk::lose_power));
        // Where the power failed, damage is what was never flushed.
        if kill % 10 == 0 && disk.is_none() {
            assert_clean(dir);
        }
        let cores = ["1", "2", "3"][random.index(3)];
        served = Served::start(dir, &[&["serve", text(dir), "--cores", cores], serve].concat());
        // What one protocol stored the other reads.
        let read = |writer: &mut Writer| writer.read_all(&mut served.door(writer.number % 2 == 1));
        let read: Vec<(usize, usize)> = writers.iter_mut().map(read).collect();
        let found: usize = read.iter().map(|(found, _)| found).sum();
        let stored: usize = read.iter().map(|(_, stored)| stored).sum();
        (all_found, all_stored) = (all_found + found, all_stored + stored);
        least = least.min(found * 100 / stored.max(1));
    }
    served.server.stop();
    assert_clean(dir);
    let share = all_found * 100 / all_stored.max(1);
    println!("{kills} kills of {what}: {share} % of what was stored is there afterwards, {least} % at least");
    assert!(share >= wanted, "{share} % of {all_stored}");
    assert!(disk.is_none() || losses > 0, "nothing was cut back");
}

/// Kills the process of a cache of so many shards.
fn kill_shards(shards: &str) {
    let scratch = Scratch::new(&format!("cache-kills-{shards}"));
    let dir = scratch.join("cache");
    let up = ["up", "--dir", text(&dir), "--size", "256MiB", "--shards", shards, "--cores", shards];
    let (dir, serve) = (&dir, &[]);
    let victim = Victim { dir, up: &up, serve, disk: None, life_max_micros: LIFE_MAX_MICROS, share: 50 };
    kill_again_and_again(&format!("{shards} shards"), &victim);
}

/// Kills the process of a cache whose stores the media answer, and the power of its drives with it.
fn kill_power(what: &str, share: usize, drives: impl FnOnce(&SmallDisk) -> Vec<String>) {
    let scratch = Scratch::new(&format!("cache-power-{}", what.replace(' ', "-")));
    let Some(disk) = SmallDisk::make(&scratch, 640) else { return };
    let dir = disk.at.join("cache");
    let drives = drives(&disk);
    let drives: Vec<&str> = drives.iter().map(String::as_str).collect();
    let media = &["--acknowledge", "media"][..];
    let up = [&["up", "--dir", text(&dir)], &drives[..], media].concat();
    let (dir, up, disk) = (&dir, &up[..], Some(&disk));
    let victim = Victim { dir, up, serve: media, disk, life_max_micros: LIFE_FLUSHED_MAX_MICROS, share };
    kill_again_and_again(&format!("{what} and their power"), &victim);
}

#[test]
fn what_is_there_after_kills_is_what_was_stored_last() {
    kill_shards("1");
}

#[test]
fn what_is_there_after_kills_is_what_was_stored_last_in_two_shards() {
    kill_shards("2");
}

/// The file of an emulated drive may keep a write pointer without its blocks: where these were of a journal, the zones go that they may have
/// spoken of.
#[test]
fn nothing_is_stale_after_power_failures() {
    kill_power("emulated drives", 20, |_| ["--size", "256MiB"].map(str::to_owned).to_vec());
}

/// A device that is cut into zones never keeps more of a zone than it wrote: what was flushed is there.
#[test]
fn what_was_flushed_is_there_after_power_failures_of_devices() {
    kill_power("devices", 95, |disk| {
        let device = |number: u32| {
            let path = disk.at.join(format!("device-{number}"));
            std::fs::File::create(&path).unwrap().set_len(96 << 20).unwrap();
            text(&path).to_owned()
        };
        let paths: Vec<String> = (0..3).map(device).collect();
        ["--conventional", &paths.join(","), "--zone-size", "4MiB"].map(str::to_owned).to_vec()
    });
}
