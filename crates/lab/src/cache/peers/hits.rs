//! Hit ratio on a trace, beside memcached with as much memory and as large a file, and what `--admission second` saves.
//!
//! One client asks for one object after the other, and stores what it misses. What is found with another size than the trace has there is an
//! older version: it is stored anew. Every value that is read is verified.

use super::protocol::{Protocol, Reply};
use super::servers::{self, Drives, Own, Peer, Served};
use crate::cache::load::{Ask, Kind, Load};
use crate::precise::precise_u64;
use crate::wall::program::{self, Program};
use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

const PROGRAMS: [Program; 1] = [Program { name: "memcached", package: "memcached" }];
const RECEIVE_BYTES: usize = 256 << 10;
/// Largest value that both sides are asked to store.
const VALUE_BYTES_MAX: u32 = 2 << 20;

/// A comparison at equal memory and flash: MiB of both, and by how much our hit ratio is to be larger.
const AGAINST_EXTSTORE: [(u32, &str, &str, u32, f64); 2] =
    [(64, "64MiB", "512MiB", 512, 0.03), (64, "64MiB", "256MiB", 256, 0.05)];
const ADMISSION_MEMORY: &str = "19MiB";
const ADMISSION_FLASH: &str = "192MiB";
/// Comparisons of a run.
pub const COMPARISONS: usize = AGAINST_EXTSTORE.len() + 1;
/// Most bytes that `second` may write of those of `all`.
const SECOND_SHARE_MAX: f64 = 0.2;

/// Side of a comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Side {
    /// Name of the cache.
    pub name: String,
    /// Share of the requests that hit.
    pub hit_ratio: f64,
    /// Bytes written to flash, of our server.
    pub written_bytes: Option<u64>,
    /// Bytes written over those of keys and values, of our server.
    pub write_amplification: Option<f64>,
}

/// Two sides, and what is wanted of them.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Memory and flash of each.
    pub setting: String,
    /// The sides; the first one is held against the second.
    pub sides: [Side; 2],
    /// Hit ratio of the first one less that of the second, and the least that is wanted.
    pub ahead: f64,
    /// The least that is wanted.
    pub ahead_min: f64,
    /// Bytes that the first one wrote over those of the second, and the most that is wanted.
    pub written_share: Option<f64>,
    /// The most that is wanted.
    pub written_share_max: Option<f64>,
}

impl Row {
    fn of(setting: String, sides: [Side; 2], ahead_min: f64, written_share_max: Option<f64>) -> Row {
        let ahead = sides[0].hit_ratio - sides[1].hit_ratio;
        let written = sides[0].written_bytes.zip(sides[1].written_bytes);
        let written_share = written.map(|(own, other)| precise_u64(own) / precise_u64(other.max(1)));
        Row { setting, sides, ahead, ahead_min, written_share, written_share_max }
    }

    /// True when the bars are met.
    #[must_use]
    pub fn is_good(&self) -> bool {
        let is_less = |(share, most): (f64, f64)| share <= most;
        self.ahead >= self.ahead_min && self.written_share.zip(self.written_share_max).is_none_or(is_less)
    }
}

/// Replays the trace in each setting; `told` is told each row as it is there.
///
/// # Errors
/// When memcached is missing, or a server or a request fails.
pub fn run(binary: &Path, trace: &Load, mut told: impl FnMut(&Row)) -> Result<Vec<Row>> {
    if let Some(missing) = program::missing(&PROGRAMS) {
        bail!("the comparison needs {missing}");
    }
    let mean = trace.mean_stored_bytes(VALUE_BYTES_MAX).to_string();
    let bench = Bench { binary, trace, mean: &mean };
    let mut rows = Vec::new();
    let mut done = |row: Row| {
        told(&row);
        rows.push(row);
    };
    for (memory_mib, memory, flash, flash_mib, ahead_min) in AGAINST_EXTSTORE {
        let sides = [
            bench.ours((memory, flash), "s3fifo", &[])?,
            bench.extstore(Peer::ExtstoreOf(memory_mib, flash_mib))?,
        ];
        done(Row::of(format!("{memory_mib} + {flash_mib} MiB"), sides, ahead_min, None));
    }
    let size = (ADMISSION_MEMORY, ADMISSION_FLASH);
    let sides = [bench.ours(size, "second", &["--admission", "second"])?, bench.ours(size, "all", &[])?];
    done(Row::of("19 + 192 MiB".to_owned(), sides, 0.0, Some(SECOND_SHARE_MAX)));
    Ok(rows)
}

struct Bench<'a> {
    binary: &'a Path,
    trace: &'a Load,
    mean: &'a str,
}

impl Bench<'_> {
    fn ours(&self, (memory, flash): (&str, &str), name: &str, options: &[&str]) -> Result<Side> {
        let (_directory, dir, _) = servers::directories()?;
        let own = Own { drives: Drives::Emulated, flash, memory, object_mean: self.mean };
        let served = own.start_with(self.binary, &dir, Protocol::Memcached, options)?;
        let hit_ratio = replay(&served, &self.trace.asks)?;
        let status = servers::status(&dir)?;
        Ok(Side {
            name: name.to_owned(),
            hit_ratio,
            written_bytes: Some(status["bytes_written"].as_u64().context("bytes_written")?),
            write_amplification: status["write_amplification"].as_f64(),
        })
    }

    fn extstore(&self, peer: Peer) -> Result<Side> {
        let (_directory, _, dir) = servers::directories()?;
        let hit_ratio = replay(&peer.start(&dir)?, &self.trace.asks)?;
        Ok(Side { name: "extstore".to_owned(), hit_ratio, written_bytes: None, write_amplification: None })
    }
}

/// Share of the requests that hit.
fn replay(served: &Served, asks: &[Ask]) -> Result<f64> {
    let mut client = Client::open(served.port)?;
    let mut hits = 0;
    for ask in asks {
        hits += u64::from(client.ask(ask)?);
    }
    Ok(precise_u64(hits) / precise_u64(asks.len() as u64))
}

struct Client {
    stream: TcpStream,
    output: Vec<u8>,
    input: Vec<u8>,
    scratch: Vec<u8>,
}

impl Client {
    fn open(port: u16) -> Result<Client> {
        let stream = TcpStream::connect(("127.0.0.1", port)).with_context(|| format!("port {port}"))?;
        stream.set_nodelay(true)?;
        Ok(Client { stream, output: Vec::new(), input: Vec::new(), scratch: vec![0; RECEIVE_BYTES] })
    }

    /// Sends one request of the trace; true when it is a read that hits.
    fn ask(&mut self, ask: &Ask) -> Result<bool> {
        let name = format!("key:{:020}", ask.key);
        match ask.kind {
            Kind::Remove => self.change(&name, None)?,
            Kind::Set => self.change(&name, Some(&value(ask)))?,
            Kind::Get => {
                self.output.clear();
                Protocol::Memcached.put_get(&mut self.output, name.as_bytes());
                let wanted = value(ask);
                let found = self.answer(|reply| match reply {
                    Reply::Value(found) if found.len() == wanted.len() => {
                        ensure!(found == wanted, "{name} is found with another value");
                        Ok(true)
                    }
                    Reply::Value(_) | Reply::Miss => Ok(false),
                    other => bail!("a read is answered with {other:?}"),
                })?;
                if !found {
                    self.change(&name, Some(&wanted))?;
                }
                return Ok(found);
            }
        }
        Ok(false)
    }

    /// Stores a value, or removes what is there: also what is too large to be stored. A value that is refused is not found later.
    fn change(&mut self, name: &str, value: Option<&[u8]>) -> Result<()> {
        self.output.clear();
        match value.filter(|value| value.len() <= VALUE_BYTES_MAX as usize) {
            Some(value) => Protocol::Memcached.put_set(&mut self.output, name.as_bytes(), value),
            None => Protocol::Memcached.put_delete(&mut self.output, name.as_bytes()),
        }
        self.answer(|reply| match reply {
            Reply::Done | Reply::Refused => Ok(()),
            other => bail!("a change is answered with {other:?}"),
        })
    }

    /// Sends what is to be sent, and hands on the answer.
    fn answer<T>(&mut self, what: impl FnOnce(Reply<'_>) -> Result<T>) -> Result<T> {
        self.stream.write_all(&self.output).context("the server takes no request")?;
        self.input.clear();
        loop {
            if let Some((reply, bytes)) = Protocol::Memcached.reply(&self.input)? {
                ensure!(bytes == self.input.len(), "more than one answer");
                return what(reply);
            }
            let count = self.stream.read(&mut self.scratch).context("the server's answer")?;
            ensure!(count > 0, "the server hangs up");
            self.input.extend_from_slice(&self.scratch[..count]);
        }
    }
}

/// The value of an object: its key and its size, again and again.
fn value(ask: &Ask) -> Vec<u8> {
    let stamp = format!("{:016x}{:08x}", ask.key, ask.bytes);
    stamp.bytes().cycle().take(ask.bytes as usize).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(hit_ratio: f64, written_bytes: Option<u64>) -> Side {
        Side { name: String::new(), hit_ratio, written_bytes, write_amplification: None }
    }

    #[test]
    fn bars_are_about_hits_and_bytes() {
        let row = |own, written, least, most| {
            Row::of(String::new(), [side(own, written), side(0.3, Some(100))], least, most).is_good()
        };
        assert!(row(0.34, None, 0.03, None) && !row(0.32, None, 0.03, None));
        assert!(row(0.3, Some(20), 0.0, Some(0.2)) && !row(0.3, Some(21), 0.0, Some(0.2)));
        assert!(!row(0.29, Some(20), 0.0, Some(0.2)));
    }

    #[test]
    fn values_tell_objects_and_versions_apart() {
        let of = |key, bytes| value(&Ask { key, bytes, kind: Kind::Get });
        assert_eq!(of(7, 1000).len(), 1000);
        assert_ne!(of(7, 1000), of(8, 1000));
        assert_ne!(of(7, 1000)[..24], of(7, 2000)[..24]);
    }
}
