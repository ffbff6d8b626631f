//! A line of an Alibaba Cloud trace: `device,R|W,offset,length,timestamp`; bytes and microseconds.

use super::{Problem, Row, fields, number};

pub fn row(line: &str) -> Result<Row, Problem> {
    let [device, operation, offset, length, timestamp] = fields(line)?;
    let writes = match operation.trim() {
        "W" => true,
        "R" => false,
        other => return Err(Problem::Operation { text: other.to_owned() }),
    };
    Ok(Row {
        at_ns: number(timestamp, "timestamp in microseconds", 1000)?,
        writes,
        disk: number(device, "number of a device", 1)?,
        offset_bytes: number(offset, "offset in bytes", 1)?,
        bytes: number(length, "length in bytes", 1)?,
    })
}
