//! Traces of caches. One file of lines or of records, not compressed.
//!
//! | format | a line, or a record |
//! |---|---|
//! | `adaptsize` | `time id size`, decimal (webcachesim) |
//! | `twitter` | `timestamp,key,key size,value size,client,operation,TTL` (twitter/cache-trace) |
//! | `meta` | `key,op,size,op_count,key_size`, after a line of names (`CacheLib`, kvcache) |
//! | `oraclegeneral` | little-endian `u32` time, `u64` id, `u32` size, `i64` next request (libCacheSim) |
//! | `u32` | little-endian `u32` id |
//! | `u64be` | big-endian `u64` id |
//!
//! Objects of formats without sizes all have [`SIZE_UNKNOWN`] bytes. Times and TTLs are not used: one request follows the other. Parsing is
//! strict: the first line that is not of the format is an error with its number.

use super::load::{Ask, Kind};
use std::fmt;
use std::hash::{DefaultHasher, Hasher};
use std::str::FromStr;

/// Bytes of objects in formats that do not say.
pub const SIZE_UNKNOWN: u32 = 1024;
/// Most bytes of an object: beyond it a number is taken for a mistake.
const BYTES_MAX: u32 = 1 << 30;

/// Format of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Format of webcachesim.
    AdaptSize,
    /// Format of Twitter's clusters.
    Twitter,
    /// Format of Meta's key-value caches.
    Meta,
    /// Format of libCacheSim.
    OracleGeneral,
    /// Ids of 32 bits.
    U32,
    /// Ids of 64 bits, big-endian.
    U64Be,
}

/// Names of formats.
pub const FORMATS: [(&str, Format); 6] = [
    ("adaptsize", Format::AdaptSize),
    ("twitter", Format::Twitter),
    ("meta", Format::Meta),
    ("oraclegeneral", Format::OracleGeneral),
    ("u32", Format::U32),
    ("u64be", Format::U64Be),
];

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Format, String> {
        let found = FORMATS.iter().find(|(name, _)| *name == text);
        let names = || FORMATS.map(|(name, _)| name).join(", ");
        found.map(|(_, format)| *format).ok_or_else(|| format!("`{text}`: use one of {}", names()))
    }
}

/// Why a trace cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    /// Line or record, from 1.
    pub place: u64,
    /// Message: what is wrong there.
    pub what: String,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

impl std::error::Error for TraceError {}

/// Reads a trace.
///
/// # Errors
/// At the first line or record that is not of the format, and when there is no request in it.
pub fn parse(bytes: &[u8], format: Format) -> Result<Vec<Ask>, TraceError> {
    if let Some(what) = compression(bytes) {
        return Err(TraceError { place: 1, what: format!("compressed: give the output of `{what}`") });
    }
    let asks = match format {
        Format::AdaptSize => lines(bytes, adaptsize),
        Format::Twitter => lines(bytes, twitter),
        Format::Meta => lines(bytes, meta),
        Format::OracleGeneral => records(bytes, |record: &[u8; 24]| {
            ask(number(&record[4..12]), number(&record[12..16]), Kind::Get)
        }),
        Format::U32 => records(bytes, |record: &[u8; 4]| {
            Ok(Some(Ask { key: number(record), bytes: SIZE_UNKNOWN, kind: Kind::Get }))
        }),
        Format::U64Be => records(bytes, |record: &[u8; 8]| {
            Ok(Some(Ask { key: u64::from_be_bytes(*record), bytes: SIZE_UNKNOWN, kind: Kind::Get }))
        }),
    }?;
    match asks.is_empty() {
        true => Err(TraceError { place: 1, what: "no request".to_owned() }),
        false => Ok(asks),
    }
}

/// The program that decompresses it.
fn compression(bytes: &[u8]) -> Option<&'static str> {
    let magics: [(&[u8], &str); 3] =
        [(b"\xFD7zXZ\0", "xz -dc"), (b"\x28\xB5\x2F\xFD", "zstd -dc"), (b"\x1F\x8B", "gzip -dc")];
    magics.iter().find(|(magic, _)| bytes.starts_with(magic)).map(|(_, what)| *what)
}

/// A line without a request is `None`.
type Parsed = Result<Option<Ask>, String>;

fn lines(bytes: &[u8], parse: fn(&str) -> Parsed) -> Result<Vec<Ask>, TraceError> {
    let mut asks = Vec::new();
    for (place, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        let error = |what: String| TraceError { place, what };
        let line = std::str::from_utf8(line).map_err(|_| error("not UTF-8".to_owned()))?.trim();
        if line.is_empty() {
            continue;
        }
        let parsed = parse(line).map_err(|what| error(format!("`{}`: {what}", shortened(line))))?;
        asks.extend(parsed);
    }
    Ok(asks)
}

fn shortened(line: &str) -> String {
    line.chars().take(80).collect()
}

fn records<const BYTES: usize>(
    bytes: &[u8],
    parse: impl Fn(&[u8; BYTES]) -> Parsed,
) -> Result<Vec<Ask>, TraceError> {
    let (whole, rest) = bytes.as_chunks::<BYTES>();
    if !rest.is_empty() {
        let what = format!("{} bytes: not a multiple of {BYTES}", bytes.len());
        return Err(TraceError { place: whole.len() as u64 + 1, what });
    }
    let parsed = (1..).zip(whole).filter_map(|(place, record)| {
        let found = parse(record).map_err(|what| TraceError { place, what });
        found.transpose()
    });
    parsed.collect()
}

/// A little-endian number of up to 8 bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn ask(key: u64, bytes: u64, kind: Kind) -> Parsed {
    let bytes = u32::try_from(bytes).ok().filter(|bytes| *bytes <= BYTES_MAX);
    let bytes = bytes.ok_or_else(|| format!("an object of more than {BYTES_MAX} bytes"))?;
    Ok(Some(Ask { key, bytes: bytes.max(1), kind }))
}

fn adaptsize(line: &str) -> Parsed {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let [_, id, size] = fields[..] else { return Err("want `time id size`".to_owned()) };
    ask(decimal(id, "id")?, decimal(size, "size")?, Kind::Get)
}

fn twitter(line: &str) -> Parsed {
    let wanted = || "want `timestamp,key,key size,value size,client,operation,TTL`".to_owned();
    // Keys may have commas.
    let fields: Vec<&str> = line.rsplitn(6, ',').collect();
    let [_, op, _, value_size, key_size, rest] = fields[..] else { return Err(wanted()) };
    let (_, key) = rest.split_once(',').ok_or_else(wanted)?;
    let bytes = decimal(key_size, "key size")? + decimal(value_size, "value size")?;
    let kind = match op {
        "get" | "gets" => Kind::Get,
        "set" | "add" | "replace" | "cas" | "append" | "prepend" | "incr" | "decr" => Kind::Set,
        "delete" => Kind::Remove,
        other => return Err(format!("unknown operation `{other}`")),
    };
    ask(named(key), bytes, kind)
}

fn meta(line: &str) -> Parsed {
    let fields: Vec<&str> = line.split(',').collect();
    let [key, op, size, op_count, key_size] = fields[..] else {
        return Err("want `key,op,size,op_count,key_size`".to_owned());
    };
    if (key, op) == ("key", "op") {
        return Ok(None);
    }
    // A line stands for so many requests in a row, of which the first one decides.
    decimal(op_count, "op_count")?;
    let bytes = decimal(size, "size")? + decimal(key_size, "key_size")?;
    let kind = match op {
        "GET" | "GET_LEASE" => Kind::Get,
        "SET" | "SET_LEASE" => Kind::Set,
        "DELETE" => Kind::Remove,
        other => return Err(format!("unknown operation `{other}`")),
    };
    ask(named(key), bytes, kind)
}

fn decimal(text: &str, what: &str) -> Result<u64, String> {
    let number: u64 = text.trim().parse().map_err(|_| format!("{what} `{text}` is no number"))?;
    if number > u64::from(BYTES_MAX) && what != "id" {
        Err(format!("{what} {number} is too large"))
    } else {
        Ok(number)
    }
}

/// A number for a key; two keys with one of 2^64 do not occur in practice.
fn named(key: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(key.as_bytes());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str, format: Format) -> Ask {
        parse(text.as_bytes(), format).unwrap()[0]
    }

    fn error(bytes: &[u8], format: Format) -> String {
        parse(bytes, format).unwrap_err().to_string()
    }

    #[test]
    fn each_format_is_read() {
        assert_eq!(one("5 77 1000\n", Format::AdaptSize), Ask { key: 77, bytes: 1000, kind: Kind::Get });
        let set = one("0,user,1:x,8,100,3,set,3600\n", Format::Twitter);
        assert_eq!((set.bytes, set.kind), (108, Kind::Set), "a key may have commas");
        let get = one("9,user,1:x,8,100,4,get,0", Format::Twitter);
        assert_eq!((get.key, get.kind), (set.key, Kind::Get));
        let got = one("key,op,size,op_count,key_size\n1a2b,GET,200,5,30\n", Format::Meta);
        assert_eq!((got.bytes, got.kind), (230, Kind::Get));
        let mut record = Vec::new();
        record.extend(1_u32.to_le_bytes());
        record.extend(99_u64.to_le_bytes());
        record.extend(5000_u32.to_le_bytes());
        record.extend((-1_i64).to_le_bytes());
        let asks = parse(&record, Format::OracleGeneral).unwrap();
        assert_eq!(asks, [Ask { key: 99, bytes: 5000, kind: Kind::Get }]);
        assert_eq!(parse(&7_u32.to_le_bytes(), Format::U32).unwrap()[0].key, 7);
        assert_eq!(parse(&7_u64.to_be_bytes(), Format::U64Be).unwrap()[0].key, 7);
    }

    #[test]
    fn what_is_not_of_the_format_is_named_with_its_place() {
        assert!(error(b"1 2 3\n1 2\n", Format::AdaptSize).starts_with("2: `1 2`: want"));
        assert!(error(b"1 2 x\n", Format::AdaptSize).contains("size `x` is no number"));
        assert!(error(b"1 2 99999999999\n", Format::AdaptSize).contains("too large"));
        assert!(error(b"1,k,1,1,1,touch,0\n", Format::Twitter).contains("unknown operation `touch`"));
        assert!(error(b"abc", Format::U32).contains("3 bytes: not a multiple of 4"));
        assert!(error(b"\n", Format::AdaptSize).contains("no request"));
        assert!(error(b"\xFD7zXZ\0more", Format::U32).contains("xz -dc"));
        assert!(error(b"\xFF\xFE\n", Format::Meta).contains("UTF-8"));
    }
}
