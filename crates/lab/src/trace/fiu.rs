//! A line of an FIU trace: `ns pid process lba size op major minor md5`, with blanks between; nanoseconds, sectors of 512 bytes. A trace may
//! be of several disks, told by their device numbers. What was written (md5) is of no use here.

use super::{Op, Problem, Row, SECTOR_BYTES, number};

/// Fields of a line.
const FIELDS: usize = 9;
/// Minor numbers of a device are less than this (Linux).
const MINORS: u64 = 1 << 20;

pub fn row(line: &str) -> Result<Row, Problem> {
    let mut found = [""; FIELDS];
    let mut count = 0;
    for text in line.split_whitespace() {
        if let Some(field) = found.get_mut(count) {
            *field = text;
        }
        count += 1;
    }
    if count != FIELDS {
        return Err(Problem::Fields { found: count, expected: FIELDS });
    }
    let [time, pid, _process, lba, size, operation, major, minor, _md5] = found;
    let writes = match operation {
        "W" => true,
        "R" => false,
        other => return Err(Problem::Operation { text: other.to_owned() }),
    };
    number(pid, "number of a process", 1)?;
    let minor_number = number(minor, "minor number", 1)?;
    if minor_number >= MINORS {
        return Err(Problem::Number { field: "minor number", text: minor.to_owned() });
    }
    let disk = number(major, "major number", MINORS)?
        .checked_add(minor_number)
        .ok_or_else(|| Problem::Number { field: "major number", text: major.to_owned() })?;
    Ok(Row {
        at_ns: number(time, "time in nanoseconds", 1)?,
        op: Op::of(writes),
        disk,
        offset_bytes: number(lba, "block of 512 bytes", SECTOR_BYTES)?,
        bytes: number(size, "size in sectors", SECTOR_BYTES)?,
    })
}
