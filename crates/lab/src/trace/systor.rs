//! A line of a SYSTOR '17 trace: `Timestamp,Response,IOType,LUN,Offset,Size`; seconds with a fraction since 1970, bytes. An operation that is
//! neither a read nor a write has an empty type, and is left out.

use super::{Op, Problem, Row, SECOND_NS, fields, number};

/// Digits of a fraction that are kept: nanoseconds.
const DIGITS: usize = 9;

pub fn row(line: &str) -> Result<Option<Row>, Problem> {
    let [timestamp, response, operation, lun, offset, size] = fields(line)?;
    let writes = match operation.trim() {
        "W" => true,
        "R" => false,
        "" => return Ok(None),
        other => return Err(Problem::Operation { text: other.to_owned() }),
    };
    if !response.trim().is_empty() {
        nanoseconds(response, "response time")?;
    }
    Ok(Some(Row {
        at_ns: nanoseconds(timestamp, "timestamp in seconds")?,
        op: Op::of(writes),
        disk: number(lun, "number of a LUN", 1)?,
        offset_bytes: number(offset, "offset in bytes", 1)?,
        bytes: number(size, "size in bytes", 1)?,
    }))
}

/// Seconds with a fraction, exactly: a binary fraction of times since 1970 is good for microseconds.
fn nanoseconds(text: &str, field: &'static str) -> Result<u64, Problem> {
    let not_a_time = || Problem::Number { field, text: text.to_owned() };
    let (whole, fraction) = text.trim().split_once('.').unwrap_or((text.trim(), "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) {
        return Err(not_a_time());
    }
    let kept: String = fraction.chars().chain(std::iter::repeat('0')).take(DIGITS).collect();
    let below: u64 = kept.parse().map_err(|_| not_a_time())?;
    number(whole, field, SECOND_NS)?.checked_add(below).ok_or_else(not_a_time)
}
