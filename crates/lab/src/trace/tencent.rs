//! A line of a Tencent Cloud trace: `timestamp,offset,size,operation,volume`; seconds and sectors, operation 1 writes.

use super::{Op, Problem, Row, SECOND_NS, SECTOR_BYTES, fields, number};

pub fn row(line: &str) -> Result<Row, Problem> {
    let [timestamp, offset, size, operation, volume] = fields(line)?;
    let writes = match operation.trim() {
        "1" => true,
        "0" => false,
        other => return Err(Problem::Operation { text: other.to_owned() }),
    };
    Ok(Row {
        at_ns: number(timestamp, "timestamp in seconds", SECOND_NS)?,
        op: Op::of(writes),
        disk: number(volume, "number of a volume", 1)?,
        offset_bytes: number(offset, "offset in sectors", SECTOR_BYTES)?,
        bytes: number(size, "size in sectors", SECTOR_BYTES)?,
    })
}
