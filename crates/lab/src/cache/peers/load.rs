//! The load: one thread, several connections, so many requests under way on each; every value is verified.

use super::protocol::{Protocol, Reply};
use crate::precise::{precise, precise_u64};
use anyhow::{Context, Result, ensure};
use base::random::Random;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Longest wait for an answer.
const ANSWER_MAX: Timespec = Timespec { tv_sec: 20, tv_nsec: 0 };
/// Longest wait for the answer of a server that is starting.
const READY_MAX: Duration = Duration::from_secs(1);
const RECEIVE_BYTES: usize = 256 << 10;
const KEY_BYTES: usize = 32;

/// Values of this load begin with the number of their key and their version.
const STAMP_BYTES: usize = 24;

/// Steps between objects that are hidden one after the other; a prime.
const STRIDE: u64 = 7_919;

/// Command that requests send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Get,
    Set,
    Delete,
    /// So many of a hundred requests read, the others set.
    Mix(u64),
}

/// Kind of a request, by which its time is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    /// A store of an object that may be new.
    Store,
    /// A store over an object that is there.
    Over,
    Remove,
}

const KINDS: usize = 4;

/// Keys that requests name.
#[derive(Clone, Copy, Debug)]
pub(super) enum Keys {
    /// Each of a range once, in order.
    Each(u64, u64),
    /// Any of so many, for a time.
    Any(u64, Duration),
    /// Changes for a time, or until each of `count` objects from `first` on was hidden once: so many of a hundred hide one of them, every
    /// other by a removal; the rest store objects that were never there. The way does not matter.
    Changes { first: u64, count: u64, percent: u64, time: Duration },
}

/// Requests of one kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) protocol: Protocol,
    pub(super) way: Way,
    pub(super) keys: Keys,
    pub(super) value_bytes: usize,
    /// Version of values that are set, and of those that a read may find.
    pub(super) version: u32,
    pub(super) connections: usize,
    /// Requests under way on each connection.
    pub(super) depth: usize,
}

/// Answers to a load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answered {
    pub(super) requests: u64,
    /// Microseconds of each, by its kind.
    times_us: [Vec<u32>; KINDS],
    pub(super) hits: u64,
    /// Values of another version, or of another key.
    pub(super) wrong: u64,
}

impl Answered {
    /// Requests of a kind.
    pub(super) fn count(&self, kind: Kind) -> usize {
        self.times_us[kind as usize].len()
    }

    /// Share of the reads that hit.
    pub(super) fn hit_ratio(&self) -> f64 {
        precise_u64(self.hits) / precise(self.count(Kind::Read).max(1))
    }

    /// Median and 99th percentile of a kind, in microseconds; none where there is no such request.
    pub(super) fn percentiles_us(&mut self, kind: Kind) -> [Option<f64>; 2] {
        let times = &mut self.times_us[kind as usize];
        times.sort_unstable();
        [50, 99].map(|percentile| times.get(times.len() * percentile / 100).map(|us| f64::from(*us)))
    }
}

struct Connection {
    stream: TcpStream,
    output: Vec<u8>,
    sent: usize,
    input: Vec<u8>,
    /// Requests whose answers are to come, in order.
    asked: VecDeque<Asked>,
}

/// A request under way.
struct Asked {
    key: u64,
    kind: Kind,
    since: Instant,
}

/// Name of a key.
fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key.copy_from_slice(format!("key:{number:028}").as_bytes());
    key
}

/// First bytes of the value of a key.
fn stamp(key: u64, version: u32) -> [u8; STAMP_BYTES] {
    let mut stamp = [0; STAMP_BYTES];
    stamp.copy_from_slice(format!("{key:016x}{version:08x}").as_bytes());
    stamp
}

/// Requests, and when to end.
struct Source {
    load: Load,
    random: Random,
    began: Instant,
    /// Keys that were named one after the other.
    named: u64,
    /// Objects that changes have stored anew.
    fresh: u64,
}

impl Source {
    fn new(load: &Load, seed: u64) -> Source {
        Source { load: *load, random: Random::from_seed(seed), began: Instant::now(), named: 0, fresh: 0 }
    }

    fn next(&mut self) -> Option<(Kind, u64)> {
        match self.load.keys {
            Keys::Each(first, end) => {
                let key = first + self.named;
                self.named += 1;
                (key < end).then(|| (self.kind(), key))
            }
            Keys::Any(count, time) => {
                let key = (self.began.elapsed() < time).then(|| self.random.below(count))?;
                Some((self.kind(), key))
            }
            Keys::Changes { first, count, percent, time } => {
                if self.began.elapsed() >= time || self.named == count {
                    return None;
                }
                if self.random.below(100) >= percent {
                    self.fresh += 1;
                    return Some((Kind::Store, first + count + self.fresh));
                }
                self.named += 1;
                let kind = if self.named.is_multiple_of(2) { Kind::Remove } else { Kind::Over };
                // From one to the next it is far, and no two are the same.
                Some((kind, first + self.named * STRIDE % count))
            }
        }
    }

    /// Kind of the next request.
    fn kind(&mut self) -> Kind {
        match self.load.way {
            Way::Get => Kind::Read,
            Way::Mix(percent) if self.random.below(100) < percent => Kind::Read,
            Way::Set | Way::Mix(_) => Kind::Store,
            Way::Delete => Kind::Remove,
        }
    }
}

/// Applies the load to a server at a port of this host.
pub(super) fn apply(port: u16, load: &Load, seed: u64) -> Result<Answered> {
    ensure!(load.value_bytes >= STAMP_BYTES && load.connections > 0 && load.depth > 0, "no such load");
    let mut connections = Vec::new();
    for _ in 0..load.connections {
        connections.push(Connection::open(port)?);
    }
    let mut source = Source::new(load, seed);
    let mut random = Random::from_seed(1);
    let mut value = vec![0; load.value_bytes];
    random.fill(&mut value);
    let mut answered = Answered::default();
    let mut scratch = vec![0; RECEIVE_BYTES];
    loop {
        for connection in &mut connections {
            while connection.asked.len() < load.depth
                && let Some((kind, key)) = source.next()
            {
                connection.ask(load, kind, key, &mut value);
            }
            connection.send()?;
        }
        if connections.iter().all(|connection| connection.asked.is_empty()) {
            return Ok(answered);
        }
        wait(&connections)?;
        for connection in &mut connections {
            connection.receive(&mut scratch)?;
            connection.take_answers(load, &mut answered)?;
        }
    }
}

/// Waits until one can go on.
fn wait(connections: &[Connection]) -> Result<()> {
    let mut descriptors: Vec<PollFd<'_>> = Vec::new();
    for connection in connections {
        let writes =
            if connection.sent < connection.output.len() { PollFlags::OUT } else { PollFlags::empty() };
        descriptors.push(PollFd::new(&connection.stream, PollFlags::IN | writes));
    }
    let ready = poll(&mut descriptors, Some(&ANSWER_MAX))?;
    ensure!(ready > 0, "the server does not answer");
    Ok(())
}

impl Connection {
    fn open(port: u16) -> Result<Connection> {
        let stream = TcpStream::connect(("127.0.0.1", port)).with_context(|| format!("port {port}"))?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Connection { stream, output: Vec::new(), sent: 0, input: Vec::new(), asked: VecDeque::new() })
    }

    fn ask(&mut self, load: &Load, kind: Kind, number: u64, value: &mut [u8]) {
        let (protocol, name) = (load.protocol, key(number));
        match kind {
            Kind::Read => protocol.put_get(&mut self.output, &name),
            Kind::Store | Kind::Over => {
                value[..STAMP_BYTES].copy_from_slice(&stamp(number, load.version));
                protocol.put_set(&mut self.output, &name, value);
            }
            Kind::Remove => protocol.put_delete(&mut self.output, &name),
        }
        self.asked.push_back(Asked { key: number, kind, since: Instant::now() });
    }

    fn send(&mut self) -> Result<()> {
        while self.sent < self.output.len() {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error).context("the server takes no request"),
            }
        }
        self.output.clear();
        self.sent = 0;
        Ok(())
    }

    fn receive(&mut self, scratch: &mut [u8]) -> Result<()> {
        loop {
            match self.stream.read(scratch) {
                Ok(0) => anyhow::bail!("the server hangs up"),
                Ok(count) => self.input.extend_from_slice(&scratch[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error).context("the server's answers"),
            }
        }
    }

    fn take_answers(&mut self, load: &Load, answered: &mut Answered) -> Result<()> {
        let mut at = 0;
        while let Some((reply, bytes)) = load.protocol.reply(&self.input[at..])? {
            let Asked { key, kind, since } =
                self.asked.pop_front().context("an answer without a question")?;
            let is_read = kind == Kind::Read;
            answered.requests += 1;
            let us = u32::try_from(since.elapsed().as_micros()).unwrap_or(u32::MAX);
            answered.times_us[kind as usize].push(us);
            match reply {
                Reply::Value(value) => {
                    answered.hits += 1;
                    let is_right =
                        value.len() == load.value_bytes && value.starts_with(&stamp(key, load.version));
                    answered.wrong += u64::from(!is_right);
                }
                Reply::Done => ensure!(!is_read, "no answer to a read"),
                Reply::Miss => ensure!(is_read, "no answer to a write"),
                Reply::Loading => anyhow::bail!("the server has not read its contents yet"),
                Reply::Refused => anyhow::bail!("the server has no room for a value of that size"),
            }
            at += bytes;
        }
        self.input.drain(..at);
        Ok(())
    }
}

/// True when a server answers, and has read its contents.
pub(super) fn is_ready(port: u16, protocol: Protocol) -> bool {
    let ask = || -> Result<bool> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(READY_MAX))?;
        let mut output = Vec::new();
        protocol.put_get(&mut output, b"nothing");
        stream.write_all(&output)?;
        let (mut input, mut scratch) = (Vec::new(), [0; 256]);
        loop {
            if let Some((reply, _)) = protocol.reply(&input)? {
                return Ok(reply == Reply::Miss);
            }
            let count = stream.read(&mut scratch)?;
            ensure!(count > 0, "the server hangs up");
            input.extend_from_slice(&scratch[..count]);
        }
    };
    ask().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn changes(percent: u64, count: u64) -> Source {
        let time = Duration::from_secs(3_600);
        let keys = Keys::Changes { first: 1_000, count, percent, time };
        let load = Load {
            protocol: Protocol::Resp,
            way: Way::Set,
            keys,
            value_bytes: STAMP_BYTES,
            version: 0,
            connections: 1,
            depth: 1,
        };
        Source::new(&load, 1)
    }

    #[test]
    fn changes_hide_each_object_once_and_store_new_ones_beside_them() {
        let mut source = changes(50, 200);
        let all: Vec<(Kind, u64)> = std::iter::from_fn(|| source.next()).collect();
        let of = |kind| all.iter().filter(move |(own, _)| *own == kind).map(|(_, key)| *key);
        assert_eq!((of(Kind::Over).count(), of(Kind::Remove).count()), (100, 100));
        let hidden: BTreeSet<u64> = of(Kind::Over).chain(of(Kind::Remove)).collect();
        assert_eq!(hidden, (1_000..1_200).collect());
        let fresh: BTreeSet<u64> = of(Kind::Store).collect();
        assert_eq!(fresh.len(), of(Kind::Store).count(), "each is new");
        assert!(
            fresh.iter().all(|key| *key >= 1_200) && (120..320).contains(&fresh.len()),
            "{}",
            fresh.len()
        );
    }

    #[test]
    fn percentiles_are_of_one_kind() {
        let mut answered = Answered::default();
        assert_eq!(answered.percentiles_us(Kind::Read), [None; 2]);
        answered.times_us[Kind::Read as usize] = (1..=200).rev().collect();
        assert_eq!(answered.percentiles_us(Kind::Read), [101.0, 199.0].map(Some));
        assert_eq!((answered.count(Kind::Read), answered.count(Kind::Over)), (200, 0));
    }
}
