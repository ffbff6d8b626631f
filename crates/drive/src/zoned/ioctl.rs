//! What the kernel does with the zones of a block device, by ioctl: all of these block, a reset or a finish for milliseconds.
//!
//! ```text
//!   report:  16 bytes (first sector, count, flags), then 64 for each zone:  0 start   8 length   16 write pointer   24 kind
//!            25 condition   32 capacity     in sectors of 512 bytes
//!   change:  16 bytes (first sector, sectors)
//! ```

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Words of the head of a report, and of a zone.
const HEAD_WORDS: usize = 2;
const ZONE_WORDS: usize = 8;
/// Most zones that are asked for at a time.
const ZONES_MAX: u32 = 4096;
/// Bit of the flags that says that capacities are told; else they are the lengths.
const HAS_CAPACITY: u64 = 1;

/// Conditions of zones, by the numbers of the ZNS specification.
pub(super) const EMPTY: u8 = 0x1;
pub(super) const IMPLICIT_OPEN: u8 = 0x2;
pub(super) const EXPLICIT_OPEN: u8 = 0x3;
pub(super) const CLOSED: u8 = 0x4;
pub(super) const READ_ONLY: u8 = 0xd;
pub(super) const FULL: u8 = 0xe;
pub(super) const OFFLINE: u8 = 0xf;

const REPORT: libc::Ioctl = libc::_IOWR::<[u64; HEAD_WORDS]>(0x12, 130);

/// A change of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Reset,
    Open,
    Close,
    Finish,
}

impl Change {
    fn code(self) -> libc::Ioctl {
        let number = match self {
            Change::Reset => 131,
            Change::Open => 134,
            Change::Close => 135,
            Change::Finish => 136,
        };
        libc::_IOW::<[u64; 2]>(0x12, number)
    }
}

/// A zone as the kernel tells of it, in sectors of 512 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) start: u64,
    pub(super) length: u64,
    pub(super) pointer: u64,
    pub(super) capacity: u64,
    /// 1 conventional, 2 written in order, 3 written in order if possible.
    pub(super) kind: u8,
    /// State: one of the conditions.
    pub(super) condition: u8,
}

/// Zones from a sector on, so many or up to the end of the device.
pub(super) fn report(file: &File, first: u64, count: u32) -> io::Result<Vec<Line>> {
    let mut lines: Vec<Line> = Vec::new();
    in_parts(file, first, count, |_, part| {
        lines.extend(part);
        true
    })?;
    Ok(lines)
}

/// The first of so many zones from a sector on that turned read-only or offline, and how many lie before it. The kernel has no
/// filter for that.
pub(super) fn find_turned(file: &File, first: u64, count: u32) -> io::Result<Option<(u32, Line)>> {
    let mut found = None;
    in_parts(file, first, count, |before, part| {
        found = turned_of(before, part);
        found.is_none()
    })?;
    Ok(found)
}

fn turned_of(before: u32, part: Vec<Line>) -> Option<(u32, Line)> {
    (before..).zip(part).find(|(_, line)| matches!(line.condition, READ_ONLY | OFFLINE))
}

/// Hands over the lines of zones, so many at a time, with the number of those before, for as long as they are wanted.
fn in_parts(
    file: &File,
    first: u64,
    count: u32,
    mut take: impl FnMut(u32, Vec<Line>) -> bool,
) -> io::Result<()> {
    let (mut sector, mut before) = (first, 0);
    while before < count {
        let mut part = report_part(file, sector, (count - before).min(ZONES_MAX))?;
        part.truncate((count - before) as usize);
        let Some(last) = part.last() else { break };
        sector = last.start.saturating_add(last.length);
        let passed = u32::try_from(part.len()).expect("less than a count");
        if !take(before, part) {
            break;
        }
        before += passed;
    }
    Ok(())
}

#[allow(unsafe_code)]
fn report_part(file: &File, first: u64, count: u32) -> io::Result<Vec<Line>> {
    let mut words = vec![0_u64; HEAD_WORDS + ZONE_WORDS * count as usize];
    words[0] = first;
    words[1] = u64::from(count);
    // SAFETY: the kernel reads the head and writes at most as many zones as it says behind it; the words have room for these, and
    // are exclusively borrowed for the length of the call.
    // WHY: nothing else tells where the zones of a block device are written.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), REPORT, words.as_mut_ptr()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(parse(&words))
}

/// Zones of a report: count and flags are the halves of its second word.
fn parse(words: &[u64]) -> Vec<Line> {
    let (count, flags) = (words[1] & u64::from(u32::MAX), words[1] >> 32);
    let zones = words[HEAD_WORDS..].chunks_exact(ZONE_WORDS);
    let line = |zone: &[u64]| {
        let [kind, condition, ..] = zone[3].to_le_bytes();
        let capacity = if flags & HAS_CAPACITY == 0 { zone[1] } else { zone[4] };
        Line { start: zone[0], length: zone[1], pointer: zone[2], capacity, kind, condition }
    };
    zones.take(usize::try_from(count).unwrap_or(usize::MAX)).map(line).collect()
}

/// Changes the zones in a range of sectors.
#[allow(unsafe_code)]
pub(super) fn change(file: &File, change: Change, first: u64, sectors: u64) -> io::Result<()> {
    let range = [first, sectors];
    // SAFETY: the kernel reads the two words, which live for the length of the call.
    // WHY: zones are changed by nothing else.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), change.code(), range.as_ptr()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_the_kernel() {
        assert_eq!(REPORT, 0xc010_1282);
        let codes = [Change::Reset, Change::Open, Change::Close, Change::Finish].map(Change::code);
        assert_eq!(codes, [0x4010_1283, 0x4010_1286, 0x4010_1287, 0x4010_1288]);
    }

    #[test]
    fn reports_are_read() {
        let mut words = vec![0; 2 + 3 * 8];
        words[1] = 2 | 1 << 32;
        words[2..7].copy_from_slice(&[0, 64, 24, 0x0402, 48]);
        words[10..15].copy_from_slice(&[64, 64, 64, 0x0101, 64]);
        let lines = parse(&words);
        let line = Line { start: 0, length: 64, pointer: 24, capacity: 48, kind: 2, condition: 4 };
        assert_eq!(lines[0], line);
        assert_eq!((lines.len(), lines[1].kind, lines[1].condition), (2, 1, 1));
        words[1] = 2;
        assert_eq!(parse(&words)[0].capacity, 64, "without the flag capacities are lengths");
    }

    #[test]
    fn the_first_zone_that_turned_is_found() {
        let line = |condition| Line { start: 0, length: 64, pointer: 0, capacity: 64, kind: 2, condition };
        let lines = |conditions: &[u8]| conditions.iter().map(|condition| line(*condition)).collect();
        assert_eq!(turned_of(4096, lines(&[FULL, EMPTY, CLOSED, IMPLICIT_OPEN, EXPLICIT_OPEN])), None);
        assert_eq!(turned_of(7, lines(&[FULL, OFFLINE, READ_ONLY])), Some((8, line(OFFLINE))));
        assert_eq!(turned_of(0, lines(&[READ_ONLY, OFFLINE])), Some((0, line(READ_ONLY))));
    }

    #[test]
    fn a_file_has_no_zones() {
        let file = tempfile::tempfile().unwrap();
        assert!(find_turned(&file, 0, 1).is_err());
        assert!(report(&file, 0, 1).is_err() && change(&file, Change::Reset, 0, 8).is_err());
    }
}
