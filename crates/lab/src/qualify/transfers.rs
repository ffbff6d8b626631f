//! Transfers of all sizes, and appends: every block is read back, data and metadata.

use super::Difference;
use super::bench::{Bench, expect_stamps};
use zone::device::{Op, Status};

/// Alignments that are tried, in blocks: larger transfers with few of them.
const ALIGNMENTS: u32 = 8;
const SMALL_BLOCKS: u32 = 32;
/// Appends in flight.
const APPENDS: u32 = 64;
/// Blocks of one of many appends.
const APPEND_BLOCKS: u32 = 4;

/// A place that is written from its start to its end, one zone after the other.
struct Cursor {
    zone: u32,
    offset: u32,
}

impl Cursor {
    /// Makes room for so many blocks in a zone.
    fn reserve(&mut self, bench: &mut Bench, blocks: u32) -> Result<(), Difference> {
        if self.offset + blocks <= bench.geometry.zone_capacity_blocks {
            return Ok(());
        }
        bench.succeed(self.zone, Op::Finish)?;
        (self.zone, self.offset) = (self.zone + 1, 0);
        if self.zone == bench.geometry.zones {
            bench.empty_all()?;
            self.zone = 0;
        }
        Ok(())
    }
}

/// Writes of all sizes at all alignments, each read back at once; and read in pieces at other alignments.
pub fn sizes(bench: &mut Bench) -> Result<Result<u64, String>, Difference> {
    let capacity = bench.geometry.zone_capacity_blocks;
    let most = bench.geometry.transfer_blocks_max.min(capacity);
    let mut cursor = Cursor { zone: 0, offset: 0 };
    let mut compared = 0;
    for count in 1..=most {
        let step = if count <= SMALL_BLOCKS { 1 } else { 3 };
        for alignment in (0..ALIGNMENTS.min(capacity - count + 1)).step_by(step) {
            cursor.reserve(bench, (count + ALIGNMENTS).min(capacity))?;
            while cursor.offset % ALIGNMENTS != alignment && cursor.offset + count < capacity {
                let (_, frames) = bench.fresh(1);
                bench.succeed(cursor.zone, Op::Write { offset: cursor.offset, frames })?;
                cursor.offset += 1;
            }
            let (stamp, frames) = bench.fresh(count);
            bench.succeed(cursor.zone, Op::Write { offset: cursor.offset, frames })?;
            bench.compare(cursor.zone, cursor.offset, count, stamp)?;
            // Its end by itself: a read of another size, that begins in the middle.
            let tail = count.div_ceil(2);
            let skipped = count - tail;
            bench.compare(cursor.zone, cursor.offset + skipped, tail, stamp + u64::from(skipped))?;
            cursor.offset += count;
            compared += u64::from(count + tail);
        }
    }
    Ok(Ok(compared))
}

/// Appends of all sizes one by one, then many in flight in one zone and in several.
pub fn appends(bench: &mut Bench) -> Result<Result<u64, String>, Difference> {
    let capacity = bench.geometry.zone_capacity_blocks;
    let most = bench.geometry.append_blocks_max.min(capacity);
    if most == 0 {
        return Ok(Err("the drive has no Zone Append".to_owned()));
    }
    let mut cursor = Cursor { zone: 0, offset: 0 };
    let mut compared = 0;
    for count in 1..=most {
        cursor.reserve(bench, count)?;
        let (stamp, frames) = bench.fresh(count);
        let placed = bench.succeed(cursor.zone, Op::Append { frames })?.offset;
        if placed != cursor.offset {
            return Err(format!(
                "zone {}: an append went to block {placed}, not {}",
                cursor.zone, cursor.offset
            ));
        }
        bench.compare(cursor.zone, placed, count, stamp)?;
        cursor.offset += count;
        compared += u64::from(count);
    }
    bench.empty_all()?;
    let several = bench.geometry.open_zones_max.min(bench.geometry.zones).min(4);
    for zones in [1, several] {
        compared += in_flight(bench, zones)?;
        bench.empty_all()?;
    }
    Ok(Ok(compared))
}

/// Many appends at once to so many zones: each is where its answer says, and together they are all that was written.
fn in_flight(bench: &mut Bench, zones: u32) -> Result<u64, Difference> {
    let capacity = bench.geometry.zone_capacity_blocks;
    let each = APPEND_BLOCKS.min(bench.geometry.append_blocks_max).min(capacity);
    let count = APPENDS.min(capacity / each * zones);
    let (mut commands, mut stamps) = (Vec::new(), Vec::new());
    for number in 0..count {
        let (stamp, frames) = bench.fresh(each);
        commands.push((number % zones, Op::Append { frames }));
        stamps.push(stamp);
    }
    let answers = bench.run_all(commands)?;
    let mut places = Vec::new();
    for ((answer, stamp), number) in answers.iter().zip(stamps).zip(0..) {
        if answer.status != Status::Success {
            return Err(format!(
                "append {number} of {count} in flight was answered with {:?}",
                answer.status
            ));
        }
        places.push((number % zones, answer.offset));
        bench.compare(number % zones, answer.offset, each, stamp)?;
    }
    places.sort_unstable();
    let wanted = (0..zones).flat_map(|zone| {
        (0..count).filter(move |number| number % zones == zone).zip(0..).map(move |(_, at)| (zone, at * each))
    });
    if !places.iter().copied().eq(wanted) {
        return Err(format!(
            "{count} appends in flight to {zones} zones left gaps, or went over one another: {places:?}"
        ));
    }
    Ok(u64::from(count * each))
}

/// Blocks that are still as they were.
pub fn still_there(bench: &mut Bench, zone: u32, count: u32, stamp: u64) -> Result<(), Difference> {
    let read = bench.succeed(zone, Op::Read { offset: 0, frames: Bench::dirty(count) })?;
    expect_stamps(zone, 0, &read.frames, stamp)
}
