//! A line of an MSR Cambridge trace: `timestamp,host,disk,Read|Write,offset,size,response`; units of 100 ns since 1601,
//! bytes. The host is a name; a trace is of one host.

use super::{Op, Problem, Row, fields, number};

/// Times begin here, 2000-01-01, so that nanoseconds fit 64 bits for centuries.
const BEGIN_TICKS: u64 = 125_911_584_000_000_000;

pub fn row(line: &str) -> Result<Row, Problem> {
    let [timestamp, _host, disk, operation, offset, size, response] = fields(line)?;
    let writes = match operation.trim() {
        "Write" => true,
        "Read" => false,
        other => return Err(Problem::Operation { text: other.to_owned() }),
    };
    number(response, "response time", 1)?;
    let not_a_time = || Problem::Number { field: "timestamp after 2000", text: timestamp.to_owned() };
    let ticks = number(timestamp, "timestamp in units of 100 ns", 1)?;
    let at_ns =
        ticks.checked_sub(BEGIN_TICKS).and_then(|ticks| ticks.checked_mul(100)).ok_or_else(not_a_time)?;
    Ok(Row {
        at_ns,
        op: Op::of(writes),
        disk: number(disk, "number of a disk", 1)?,
        offset_bytes: number(offset, "offset in bytes", 1)?,
        bytes: number(size, "size in bytes", 1)?,
    })
}
