//! `zoneweave cache dump`: the live keys of a cache. Of one that is served they are asked for part by part, with the guarantee of SCAN: what is
//! there from the begin to the end is told. Of one that is not, its media are read, and not written.

use super::directory::CacheDirectory;
use super::errands::{Wish, named, own_word, word_of};
use super::host::host;
use super::offline::Offline;
use super::options::CacheDump;
use super::serve::wall;
use super::shards::failed;
use crate::exit::Exit;
use crate::replace::ask_at_until_done;
use anyhow::{Context, Result};
use base::time::Instant;
use cache::config::Invalidate;
use cache::request::{Chosen, Namespace, Op, Outcome, Told, Walk, WallMillis};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write;

/// Keys that are asked for at a time, and their bytes, about.
const KEYS_MAX: usize = 16_384;
const BYTES_MAX: usize = 1 << 20;
const STRIDE: usize = 256;

/// Prints keys.
pub fn run(options: &CacheDump) -> Result<Exit> {
    let directory = CacheDirectory::open(&options.dir)?;
    let mut printer = Printer { options, output: std::io::BufWriter::new(std::io::stdout().lock()) };
    if !served(&directory, &mut printer)? {
        let sets = Offline::sets(&directory)?;
        let mut result = Ok(());
        let mut tell = |told: Told| {
            let is_meant = options.namespace.is_none_or(|namespace| namespace == told.namespace.0);
            if is_meant && result.is_ok() {
                result = printer.print(&told);
            }
        };
        for (number, mut set) in sets.into_iter().enumerate() {
            let host = host(&directory, number, Invalidate::Media)?;
            cache::list(&mut set, Instant(0), (wall(), &host), &mut tell)
                .map_err(|error| failed(&directory, &error))?;
        }
        result?;
    }
    printer.output.flush().context("stdout")?;
    Ok(Exit::Well)
}

/// Asks the server for all keys; false when there is none.
fn served(directory: &CacheDirectory, printer: &mut Printer<'_, impl Write>) -> Result<bool> {
    let what = word_of(printer.options.namespace);
    let mut from = Some((0, 0));
    while let Some((shard, at)) = from {
        let line = format!("keys {what} {shard} {at} {}", own_word());
        let Some(part) = ask_at_until_done::<Value>(&directory.control_path(), "cache", &line)? else {
            return match (shard, at) {
                (0, 0) => Ok(false),
                _ => Err(Exit::Failed.error("the server ended before all keys were told: ask again")),
            };
        };
        for told in part["keys"].as_array().context("the server's answer")? {
            printer.print(&from_json(told).context("the server's answer")?)?;
        }
        let is_last = part["shards"].as_u64().is_none_or(|shards| shard + 1 >= shards);
        from = match part["next"].as_u64() {
            Some(next) => Some((shard, next)),
            None if is_last => None,
            None => Some((shard + 1, 0)),
        };
    }
    Ok(true)
}

/// Wish by the rest of a line `keys all SHARD FROM WORD`, or of a number in place of `all`.
pub fn wish(words: &str) -> Option<Wish> {
    let mut words = words.split(' ');
    let namespace = named(words.next()?)?;
    let shard = words.next()?.parse().ok()?;
    let from = words.next()?.parse().ok()?;
    let walk = Walk {
        from,
        everywhere: namespace.is_none(),
        begins: from == 0,
        wraps: false,
        // Of a namespace that is nearly empty, a part ends without many keys.
        idents_max: 4 * KEYS_MAX as u64,
        stride: STRIDE,
        keys_max: KEYS_MAX,
        bytes_max: BYTES_MAX,
        chosen: Chosen::all(),
    };
    words.next()?;
    let op = Box::new(move || Op::Walk(walk.clone()));
    Some(Wish { shard: Some(shard), namespace: namespace.unwrap_or(0), op, say, sum })
}

/// Answer of the one shard that was asked.
fn sum(said: Vec<Value>, shards: usize) -> Value {
    let mut part = said.into_iter().next().unwrap_or_default();
    part["shards"] = shards.into();
    part
}

fn say(outcome: Outcome) -> Value {
    let Outcome::Walked { keys, next } = outcome else { unreachable!("a walk ends in keys") };
    json!({ "keys": keys.iter().map(to_json).collect::<Vec<_>>(), "next": next })
}

/// Namespace, key, bytes of the value, and expiry. A key is any bytes, which JSON cannot say but as numbers.
fn to_json(told: &Told) -> Value {
    json!([told.namespace.0, hex(&told.key), told.value_bytes, told.expires.map(|at| at.0)])
}

fn from_json(value: &Value) -> Option<Told> {
    let namespace = value[0].as_u64().and_then(|number| u8::try_from(number).ok())?;
    let digits = value[1].as_str()?;
    let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    let key = (0..digits.len()).step_by(2).map(byte).collect::<Option<Vec<u8>>>()?;
    let expires = value[3].as_u64().map(WallMillis);
    Some(Told { namespace: Namespace(namespace), key, value_bytes: value[2].as_u64()?, expires })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes all");
        text
    })
}

/// A key as redis-cli takes it: as it is where it is one plain word, else in quotes.
fn quoted(key: &[u8]) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\');
    if !key.is_empty() && key.iter().all(is_plain) {
        return String::from_utf8_lossy(key).into_owned();
    }
    let mut text = String::from("\"");
    for byte in key {
        match byte {
            b'"' | b'\\' => text.extend(['\\', char::from(*byte)]),
            b'\n' => text += "\\n",
            b'\r' => text += "\\r",
            b'\t' => text += "\\t",
            b' '..=b'~' => text.push(char::from(*byte)),
            _ => write!(text, "\\x{byte:02x}").expect("a string takes all"),
        }
    }
    text + "\""
}

struct Printer<'a, W: Write> {
    options: &'a CacheDump,
    output: W,
}

impl<W: Write> Printer<'_, W> {
    fn print(&mut self, told: &Told) -> Result<()> {
        let Told { namespace: Namespace(namespace), key, value_bytes, expires } = told;
        let expires = expires.map(|at| at.0);
        let line = if self.options.json {
            let (name, key) = match std::str::from_utf8(key) {
                Ok(text) => ("key", text.to_owned()),
                Err(_) => ("key_hex", hex(key)),
            };
            json!({ "namespace": namespace, name: key, "value_bytes": value_bytes, "expires_ms": expires })
                .to_string()
        } else if self.options.long {
            let end = expires.map_or_else(|| "-1".to_owned(), |at| at.to_string());
            format!("{namespace} {value_bytes} {end} {}", quoted(key))
        } else {
            quoted(key)
        };
        writeln!(self.output, "{line}").context("stdout")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_quoted_as_redis_cli_takes_them() {
        for (key, said) in [
            (&b"user:1"[..], "user:1"),
            (b"", "\"\""),
            (b"a b", "\"a b\""),
            (b"it's", "\"it's\""),
            (b"\"\\\n\x00\xff", "\"\\\"\\\\\\n\\x00\\xff\""),
        ] {
            assert_eq!(quoted(key), said);
        }
    }

    #[test]
    fn what_the_server_tells_comes_back() {
        for (key, expires) in [(&b"a"[..], None), (b"\x00\xff ", Some(WallMillis(7))), (b"", None)] {
            let told = Told { namespace: Namespace(9), key: key.to_vec(), value_bytes: 300, expires };
            assert_eq!(from_json(&to_json(&told)), Some(told));
        }
        assert_eq!(from_json(&json!([0, "0g", 1, null])), None);
    }

    #[test]
    fn a_line_that_makes_no_sense_is_no_wish() {
        assert!(wish("3 0 0 word").is_some_and(|wish| wish.namespace == 3));
        assert!(wish("all 2 70 word").is_some_and(|wish| wish.shard == Some(2)));
        for words in ["", "all word", "16 0 0 word", "0 0 word", "0 0 0", "x 0 0 word"] {
            assert!(wish(words).is_none(), "{words}");
        }
    }
}
