//! A line of a CloudPhysics trace: `version,time,operation,size,block`; seconds, SCSI operation codes in hexadecimal,
//! bytes, blocks of 512 bytes. (The traces themselves are in microseconds; this form of them covers its two hours in
//! 7,200 steps.)

use super::{Op, Problem, Row, SECOND_NS, SECTOR_BYTES, fields, number};

/// READ and WRITE with 6, 10, 12 and 16 bytes of command.
const READS: [&str; 4] = ["08", "28", "a8", "88"];
const WRITES: [&str; 4] = ["0a", "2a", "aa", "8a"];

pub fn row(line: &str) -> Result<Row, Problem> {
    let [version, time, operation, size, block] = fields(line)?;
    number(version, "version", 1)?;
    let code = operation.trim().to_ascii_lowercase();
    let writes = WRITES.contains(&code.as_str());
    if !writes && !READS.contains(&code.as_str()) {
        return Err(Problem::Operation { text: operation.to_owned() });
    }
    Ok(Row {
        at_ns: number(time, "time in seconds", SECOND_NS)?,
        op: Op::of(writes),
        disk: 0,
        offset_bytes: number(block, "block of 512 bytes", SECTOR_BYTES)?,
        bytes: number(size, "size in bytes", 1)?,
    })
}
