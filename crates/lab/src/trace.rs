//! Block traces: what clients asked of a disk, and when. One file per format.
//!
//! | format | a line |
//! |---|---|
//! | `alibaba` | `device,R\|W,offset (bytes),length (bytes),timestamp (us)`; records of served volumes also `device,F,0,0,timestamp` (a flush), and `U` for a write with FUA |
//! | `tencent` | `timestamp (s),offset (sectors),size (sectors),0\|1 (1 writes),volume` |
//! | `msr` | `timestamp (100 ns),host,disk,Read\|Write,offset (bytes),size (bytes),response time` |
//! | `cloudphysics` | `version,time (s),SCSI operation (hex),size (bytes),block (512 bytes)` after a line of names |
//! | `fiu` | `time (ns) process name block (512 bytes) size (sectors) R\|W major minor md5`, with blanks between |
//! | `systor` | `timestamp (s, with a fraction),response time,R\|W or nothing,LUN,offset (bytes),size (bytes)` after a line of names |
//!
//! Parsing is strict: the first line that is not of the format is an error with its number. Traces are merged over
//! devices and volumes; requests become whole blocks of 4 KiB, and times begin at 0. Where times are whole seconds, the
//! requests of a second are spread evenly over it.

mod alibaba;
mod cloudphysics;
mod fiu;
pub mod generated;
mod msr;
pub mod reuse;
mod systor;
mod tencent;

use base::time::Nanos;
use base::units::BLOCK_BYTES_U64;
use std::collections::BTreeMap;
use std::fmt;

/// Bytes of a sector, where formats count in them.
const SECTOR_BYTES: u64 = 512;
/// Largest request of a trace: beyond it a number is taken for a mistake.
const REQUEST_BYTES_MAX: u64 = 64 << 20;
const SECOND_NS: u64 = 1_000_000_000;
/// Space is renumbered in extents of this size.
const EXTENT_BLOCKS: u64 = 256;

/// A request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Time since the first request.
    pub at: Nanos,
    /// Kind of the request.
    pub op: Op,
    /// First block of 4 KiB.
    pub lba: u64,
    /// Count of blocks; a flush has none.
    pub blocks: u32,
}

/// Kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A read.
    Read,
    /// A write.
    Write,
    /// A write that is durable when it is answered (FUA), which only `alibaba` has.
    ForcedWrite,
    /// A flush, which only `alibaba` has.
    Flush,
}

impl Op {
    /// A write, or else a read.
    #[must_use]
    pub fn of(writes: bool) -> Op {
        if writes { Op::Write } else { Op::Read }
    }
}

/// Format of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Alibaba Cloud, block traces of 2020.
    Alibaba,
    /// Tencent Cloud, block storage traces of 2018.
    Tencent,
    /// MSR Cambridge.
    Msr,
    /// CloudPhysics, as `libCacheSim` distributes it.
    CloudPhysics,
    /// Florida International University, as SNIA distributes them.
    Fiu,
    /// SYSTOR '17: a VDI of an enterprise.
    Systor,
}

/// Names of formats.
pub const FORMATS: [(&str, Format); 6] = [
    ("alibaba", Format::Alibaba),
    ("tencent", Format::Tencent),
    ("msr", Format::Msr),
    ("cloudphysics", Format::CloudPhysics),
    ("fiu", Format::Fiu),
    ("systor", Format::Systor),
];

/// Why a trace cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    /// From 1.
    pub line: u64,
    /// Fault of the line.
    pub problem: Problem,
}

/// Fault of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// A number of fields that is not the format's.
    Fields {
        /// Count of fields in the line.
        found: usize,
        /// Count of fields in the format.
        expected: usize,
    },
    /// Not a number that can be.
    Number {
        /// Name of the field.
        field: &'static str,
        /// Text of the field.
        text: String,
    },
    /// Neither a read nor a write.
    Operation {
        /// Text of the field.
        text: String,
    },
    /// No bytes, or more than any disk takes at once.
    Size {
        /// So many.
        bytes: u64,
    },
    /// The trace has no request at all.
    Empty,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        match &self.problem {
            Problem::Fields { found, expected } => {
                write!(f, "{found} fields, where the format has {expected}")
            }
            Problem::Number { field, text } => write!(f, "`{text}` is no {field}"),
            Problem::Operation { text } => write!(f, "`{text}` is neither a read nor a write"),
            Problem::Size { bytes } => {
                write!(f, "a request of {bytes} bytes: must be 1 to {REQUEST_BYTES_MAX}")
            }
            Problem::Empty => write!(f, "the trace has no request"),
        }
    }
}

impl std::error::Error for TraceError {}

/// A line of a trace, in units of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    /// Since any beginning.
    at_ns: u64,
    op: Op,
    /// Number of the disk, where there are several.
    disk: u64,
    offset_bytes: u64,
    bytes: u64,
}

/// Reads at most `events_max` requests of a trace; space that is not touched is left out, in extents of 1 MiB.
///
/// # Errors
/// The first line that is not of the format.
pub fn parse(text: &str, format: Format, events_max: usize) -> Result<Vec<Event>, TraceError> {
    let header_lines = usize::from(matches!(format, Format::CloudPhysics | Format::Systor));
    let mut rows = Vec::new();
    let mut last_line = 0;
    for (line, text) in (1..).zip(text.lines()).skip(header_lines) {
        last_line = line;
        let parsed = row_of(text.trim_end_matches('\r'), format);
        let Some(row) = parsed.map_err(|problem| TraceError { line, problem })? else { continue };
        if row.op != Op::Flush && !(1..=REQUEST_BYTES_MAX).contains(&row.bytes) {
            return Err(TraceError { line, problem: Problem::Size { bytes: row.bytes } });
        }
        rows.push(row);
        if rows.len() == events_max {
            break;
        }
    }
    if rows.is_empty() {
        return Err(TraceError { line: last_line + 1, problem: Problem::Empty });
    }
    rows.sort_by_key(|row| row.at_ns);
    if matches!(format, Format::Tencent | Format::CloudPhysics) {
        spread(&mut rows);
    }
    Ok(events_of(&rows))
}

/// The request of a line, if it holds one.
fn row_of(line: &str, format: Format) -> Result<Option<Row>, Problem> {
    match format {
        Format::Alibaba => alibaba::row(line).map(Some),
        Format::Tencent => tencent::row(line).map(Some),
        Format::Msr => msr::row(line).map(Some),
        Format::CloudPhysics => cloudphysics::row(line).map(Some),
        Format::Fiu => fiu::row(line).map(Some),
        Format::Systor => systor::row(line),
    }
}

/// Spreads the requests of each second over it.
fn spread(rows: &mut [Row]) {
    for second in rows.chunk_by_mut(|first, other| first.at_ns == other.at_ns) {
        let count = second.len() as u64;
        for (place, row) in (0..).zip(second) {
            row.at_ns = row.at_ns.saturating_add(place * SECOND_NS / count);
        }
    }
}

/// Requests in the order of time, over one space without holes.
fn events_of(rows: &[Row]) -> Vec<Event> {
    let begin = rows.first().map_or(0, |row| row.at_ns);
    let mut extents: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    let mut events = Vec::with_capacity(rows.len());
    for row in rows {
        let at = Nanos(row.at_ns - begin);
        if row.op == Op::Flush {
            events.push(Event { at, op: Op::Flush, lba: 0, blocks: 0 });
            continue;
        }
        let first = row.offset_bytes / BLOCK_BYTES_U64;
        let end = (row.offset_bytes.saturating_add(row.bytes)).div_ceil(BLOCK_BYTES_U64).max(first + 1);
        let mut block = first;
        // Neighbouring extents may not be neighbours any more: a request is cut there.
        while block < end {
            let extent = block / EXTENT_BLOCKS;
            let next = extents.len() as u64;
            let number = *extents.entry((row.disk, extent)).or_insert(next);
            let last = end.min((extent + 1) * EXTENT_BLOCKS);
            let blocks = u32::try_from(last - block).expect("at most an extent");
            let lba = number * EXTENT_BLOCKS + block % EXTENT_BLOCKS;
            events.push(Event { at, op: row.op, lba, blocks });
            block = last;
        }
    }
    events
}

/// Blocks that the events of a trace reach.
#[must_use]
pub fn volume_blocks(events: &[Event]) -> u64 {
    let end = events.iter().map(|event| event.lba + u64::from(event.blocks)).max().unwrap_or(0);
    end.next_multiple_of(EXTENT_BLOCKS)
}

/// The fields of a line, when there are as many as there must be.
fn fields<const COUNT: usize>(line: &str) -> Result<[&str; COUNT], Problem> {
    let found: Vec<&str> = line.split(',').collect();
    let count = found.len();
    found.try_into().map_err(|_| Problem::Fields { found: count, expected: COUNT })
}

/// A number times the size of its unit.
fn number(text: &str, field: &'static str, unit: u64) -> Result<u64, Problem> {
    let value: Option<u64> = text.trim().parse().ok();
    let scaled = value.and_then(|value: u64| value.checked_mul(unit));
    scaled.ok_or_else(|| Problem::Number { field, text: text.to_owned() })
}

#[cfg(test)]
mod tests;
