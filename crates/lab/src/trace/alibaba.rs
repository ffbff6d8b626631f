//! A line of an Alibaba Cloud trace: `device,R|W,offset,length,timestamp`; bytes and microseconds. Records of served volumes have flushes
//! besides, `device,F,0,0,timestamp`, and `U` for writes that are durable when they are answered (FUA).

use super::{Op, Problem, Row, fields, number};

pub fn row(line: &str) -> Result<Row, Problem> {
    let [device, operation, offset, length, timestamp] = fields(line)?;
    let op = match operation.trim() {
        "W" => Op::Write,
        "R" => Op::Read,
        "U" => Op::ForcedWrite,
        "F" => Op::Flush,
        other => return Err(Problem::Operation { text: other.to_owned() }),
    };
    let is_of_something = |text: &&&str| op == Op::Flush && text.trim() != "0";
    if let Some(text) = [offset, length].iter().find(is_of_something) {
        return Err(Problem::Number {
            field: "range of a flush, which has none: 0",
            text: (*text).to_owned(),
        });
    }
    Ok(Row {
        at_ns: number(timestamp, "timestamp in microseconds", 1000)?,
        op,
        disk: number(device, "number of a device", 1)?,
        offset_bytes: number(offset, "offset in bytes", 1)?,
        bytes: number(length, "length in bytes", 1)?,
    })
}
