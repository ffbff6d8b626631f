//! The load: one thread, several connections, so many requests under way on each; every value is verified.

use super::protocol::{Protocol, Reply};
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

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Get,
    Set,
    Delete,
    /// So many of a hundred requests read, the others set.
    Mix(u64),
}

/// Which keys requests name.
#[derive(Clone, Copy, Debug)]
pub(super) enum Keys {
    /// Each of a range once, in order.
    Each(u64, u64),
    /// Any of so many, for a time.
    Any(u64, Duration),
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

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answered {
    pub(super) requests: u64,
    /// Of these, reads: microseconds of each.
    pub(super) reads_us: Vec<u32>,
    /// The others.
    pub(super) others_us: Vec<u32>,
    pub(super) hits: u64,
    /// Values of another version, or of another key.
    pub(super) wrong: u64,
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
    is_read: bool,
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

/// Numbers of keys, and when to end.
struct Source {
    keys: Keys,
    random: Random,
    began: Instant,
}

impl Source {
    /// What a request of this kind does.
    fn resolve(&mut self, way: Way) -> Way {
        match way {
            Way::Mix(percent) if self.random.below(100) < percent => Way::Get,
            Way::Mix(_) => Way::Set,
            way => way,
        }
    }

    fn next(&mut self) -> Option<u64> {
        match &mut self.keys {
            Keys::Each(next, end) if *next < *end => {
                *next += 1;
                Some(*next - 1)
            }
            Keys::Each(..) => None,
            Keys::Any(count, time) => (self.began.elapsed() < *time).then(|| self.random.below(*count)),
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
    let mut source = Source { keys: load.keys, random: Random::from_seed(seed), began: Instant::now() };
    let mut random = Random::from_seed(1);
    let mut value = vec![0; load.value_bytes];
    random.fill(&mut value);
    let mut answered = Answered::default();
    let mut scratch = vec![0; RECEIVE_BYTES];
    loop {
        for connection in &mut connections {
            while connection.asked.len() < load.depth
                && let Some(key) = source.next()
            {
                connection.ask(load, source.resolve(load.way), key, &mut value);
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

    fn ask(&mut self, load: &Load, way: Way, number: u64, value: &mut [u8]) {
        let (protocol, name) = (load.protocol, key(number));
        match way {
            Way::Get => protocol.put_get(&mut self.output, &name),
            Way::Set => {
                value[..STAMP_BYTES].copy_from_slice(&stamp(number, load.version));
                protocol.put_set(&mut self.output, &name, value);
            }
            Way::Delete => protocol.put_delete(&mut self.output, &name),
            Way::Mix(_) => unreachable!("it was resolved"),
        }
        self.asked.push_back(Asked { key: number, is_read: way == Way::Get, since: Instant::now() });
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
            let Asked { key, is_read, since } =
                self.asked.pop_front().context("an answer without a question")?;
            answered.requests += 1;
            let times = if is_read { &mut answered.reads_us } else { &mut answered.others_us };
            times.push(u32::try_from(since.elapsed().as_micros()).unwrap_or(u32::MAX));
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
                Reply::TooLarge => anyhow::bail!("the server takes no value of that size"),
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
