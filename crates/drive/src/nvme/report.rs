//! Zone reports: a header of 64 bytes with the number of zones, and a descriptor of 64 bytes for each. Pure.
//!
//! ```text
//!   0 kind   1 state, in the upper half   2 attributes   8 capacity   16 start   24 write pointer
//! ```

use base::bytes::u64_at;
use zone::device::{Geometry, ZoneDescriptor, ZoneState};

/// Bytes of the header, and of a descriptor.
pub const LINE_BYTES: usize = 64;
/// Most bytes of a report; more zones are asked for in parts.
const REPORT_BLOCKS_MAX: u32 = 16;
const LINES_OF_BLOCK: u32 = 64;

/// Kind of zones that are written in order.
const SEQUENTIAL: u8 = 2;
/// Attribute of zones with a random write area (ZRWAV).
const HAS_AREA: u8 = 1 << 3;

/// Fault of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportProblem {
    /// The drive has zones of another kind, or more than it said, or fewer.
    Count,
    /// A zone of a kind that is not written in order.
    Kind(u8),
    /// A state that no zone has.
    State(u8),
    /// A zone that begins elsewhere, or whose write pointer or capacity is outside of it.
    Place,
}

/// Most zones that a drive is asked for at a time.
#[must_use]
pub fn zones_max(geometry: &Geometry) -> u32 {
    geometry.transfer_blocks_max.min(REPORT_BLOCKS_MAX) * LINES_OF_BLOCK - 1
}

/// Bytes of a report on so many zones.
#[must_use]
pub fn bytes_of(zones: u32) -> usize {
    LINE_BYTES * (zones as usize + 1)
}

/// Zones from a report that was asked of `count` zones from `first` on.
///
/// # Errors
/// When it makes no sense.
pub fn parse(
    report: &[u8],
    (first, count): (u32, u32),
    zone_size_blocks: u32,
) -> Result<Vec<ZoneDescriptor>, ReportProblem> {
    if report.len() < bytes_of(count) || u64_at(report, 0) < u64::from(count) {
        return Err(ReportProblem::Count);
    }
    let lines = report[LINE_BYTES..].chunks_exact(LINE_BYTES);
    (first..)
        .zip(lines)
        .take(count as usize)
        .map(|(zone, line)| descriptor(line, zone, zone_size_blocks))
        .collect()
}

/// The first zone of a report on those from `first` on, if it has one.
///
/// # Errors
/// When it makes no sense.
pub fn parse_first(
    report: &[u8],
    first: u32,
    zone_size_blocks: u32,
) -> Result<Option<(u32, ZoneDescriptor)>, ReportProblem> {
    if report.len() < bytes_of(1) {
        return Err(ReportProblem::Count);
    }
    if u64_at(report, 0) == 0 {
        return Ok(None);
    }
    let line = &report[LINE_BYTES..2 * LINE_BYTES];
    let zone = u64_at(line, 16).checked_div(u64::from(zone_size_blocks));
    let zone = zone.and_then(|zone| u32::try_from(zone).ok()).filter(|zone| *zone >= first);
    let zone = zone.ok_or(ReportProblem::Place)?;
    Ok(Some((zone, descriptor(line, zone, zone_size_blocks)?)))
}

fn descriptor(line: &[u8], zone: u32, zone_size_blocks: u32) -> Result<ZoneDescriptor, ReportProblem> {
    if line[0] & 0xf != SEQUENTIAL {
        return Err(ReportProblem::Kind(line[0] & 0xf));
    }
    let state = match line[1] >> 4 {
        0x1 => ZoneState::Empty,
        0x2 => ZoneState::ImplicitOpen,
        0x3 => ZoneState::ExplicitOpen,
        0x4 => ZoneState::Closed,
        0xd => ZoneState::ReadOnly,
        0xe => ZoneState::Full,
        0xf => ZoneState::Offline,
        other => return Err(ReportProblem::State(other)),
    };
    let size = u64::from(zone_size_blocks);
    let (capacity, start, pointer) = (u64_at(line, 8), u64_at(line, 16), u64_at(line, 24));
    if start != u64::from(zone) * size || capacity > size {
        return Err(ReportProblem::Place);
    }
    let capacity = u32::try_from(capacity).map_err(|_| ReportProblem::Place)?;
    let write_pointer = match state {
        ZoneState::Full | ZoneState::ReadOnly | ZoneState::Offline => u32::MAX,
        ZoneState::Empty | ZoneState::ImplicitOpen | ZoneState::ExplicitOpen | ZoneState::Closed => {
            let at = pointer.checked_sub(start).and_then(|at| u32::try_from(at).ok());
            at.filter(|at| *at <= capacity).ok_or(ReportProblem::Place)?
        }
    };
    Ok(ZoneDescriptor { state, write_pointer, capacity, has_area: line[2] & HAS_AREA != 0 })
}

/// A report as drives make it, for tests and fuzzing.
#[must_use]
pub fn encode(first: u32, zones: &[ZoneDescriptor], zone_size_blocks: u32) -> Vec<u8> {
    let mut report = vec![0; LINE_BYTES];
    report[..8].copy_from_slice(&(zones.len() as u64).to_le_bytes());
    for (zone, descriptor) in (first..).zip(zones) {
        let state = match descriptor.state {
            ZoneState::Empty => 0x1,
            ZoneState::ImplicitOpen => 0x2,
            ZoneState::ExplicitOpen => 0x3,
            ZoneState::Closed => 0x4,
            ZoneState::ReadOnly => 0xd,
            ZoneState::Full => 0xe,
            ZoneState::Offline => 0xf,
        };
        let start = u64::from(zone) * u64::from(zone_size_blocks);
        let pointer = match descriptor.write_pointer {
            u32::MAX => u64::MAX,
            at => start + u64::from(at),
        };
        let mut line = [0; LINE_BYTES];
        line[..3].copy_from_slice(&[SEQUENTIAL, state << 4, if descriptor.has_area { HAS_AREA } else { 0 }]);
        for (at, field) in [(8, u64::from(descriptor.capacity)), (16, start), (24, pointer)] {
            line[at..at + 8].copy_from_slice(&field.to_le_bytes());
        }
        report.extend(line);
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u32 = 16_384;

    fn zones() -> Vec<ZoneDescriptor> {
        let zone =
            |state, write_pointer| ZoneDescriptor { state, write_pointer, capacity: 12_288, has_area: false };
        vec![
            zone(ZoneState::Empty, 0),
            zone(ZoneState::ImplicitOpen, 5),
            zone(ZoneState::ExplicitOpen, 0),
            zone(ZoneState::Closed, 12_287),
            zone(ZoneState::Full, u32::MAX),
            zone(ZoneState::ReadOnly, u32::MAX),
            zone(ZoneState::Offline, u32::MAX),
        ]
    }

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let report = encode(3, &zones(), SIZE);
        assert_eq!(parse(&report, (3, 7), SIZE), Ok(zones()));
        assert_eq!(parse(&report, (3, 2), SIZE), Ok(zones()[..2].to_vec()));
    }

    #[test]
    fn a_report_of_one_zone_says_which() {
        let report = encode(5, &zones()[5..], SIZE);
        assert_eq!(parse_first(&report, 3, SIZE), Ok(Some((5, zones()[5]))));
        assert_eq!(parse_first(&report, 6, SIZE), Err(ReportProblem::Place), "before what was asked for");
        assert_eq!(parse_first(&report, 3, SIZE - 1), Err(ReportProblem::Place));
        assert_eq!(parse_first(&report, 3, 0), Err(ReportProblem::Place));
        assert_eq!(parse_first(&report[..127], 3, SIZE), Err(ReportProblem::Count));
        assert_eq!(parse_first(&[0; 128], 3, SIZE), Ok(None));
    }

    #[test]
    fn golden_bytes_of_a_zone() {
        let report = encode(1, &zones()[1..2], SIZE);
        assert_eq!(report[0], 1);
        assert_eq!(report[64..67], [2, 0x20, 0], "sequential, implicitly open");
        assert_eq!(u64_at(&report, 72), 12_288);
        assert_eq!((u64_at(&report, 80), u64_at(&report, 88)), (16_384, 16_389));
        let with_area = ZoneDescriptor { has_area: true, ..zones()[2] };
        let report = encode(2, &[with_area], SIZE);
        assert_eq!(report[64..67], [2, 0x30, 0x08], "explicitly open, with an area");
        assert_eq!(parse(&report, (2, 1), SIZE), Ok(vec![with_area]));
    }

    #[test]
    fn nonsense_is_refused() {
        let parsed = |change: fn(&mut Vec<u8>)| {
            let mut report = encode(0, &zones(), SIZE);
            change(&mut report);
            parse(&report, (0, 7), SIZE)
        };
        assert_eq!(parsed(|report| report[0] = 6), Err(ReportProblem::Count));
        assert_eq!(parsed(|report| report.truncate(500)), Err(ReportProblem::Count));
        assert_eq!(parsed(|report| report[64] = 1), Err(ReportProblem::Kind(1)));
        assert_eq!(parsed(|report| report[65] = 0x70), Err(ReportProblem::State(7)));
        assert_eq!(parsed(|report| report[64 + 16] = 1), Err(ReportProblem::Place));
        assert_eq!(parsed(|report| report[128 + 26] = 0xff), Err(ReportProblem::Place));
        assert_eq!(parsed(|report| report[64 + 12] = 1), Err(ReportProblem::Place));
    }
}
