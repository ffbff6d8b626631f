//! Blocks that nobody wrote: they read as zeros, data and metadata.

use super::Difference;
use super::bench::Bench;
use base::frame::Frame;
use zone::device::Op;

/// Reads blocks that have to be zeros.
fn expect_blank(
    bench: &mut Bench,
    when: &str,
    zone: u32,
    offset: u32,
    count: u32,
) -> Result<u64, Difference> {
    let most = bench.geometry.transfer_blocks_max;
    let (mut at, end) = (offset, offset + count);
    while at < end {
        let part = most.min(end - at);
        let read = bench.succeed(zone, Op::Read { offset: at, frames: Bench::dirty(part) })?;
        if let Some(index) = read.frames.iter().position(|frame: &Frame| !frame.is_blank()) {
            return Err(format!(
                "{when}, block {} of zone {zone} does not read as zeros",
                at as usize + index
            ));
        }
        at += part;
    }
    Ok(u64::from(count))
}

/// Reads beyond the write pointer, across it, behind a finish, beyond the capacity, and after a reset.
pub fn unwritten(bench: &mut Bench) -> Result<Result<u64, String>, Difference> {
    let capacity = bench.geometry.zone_capacity_blocks;
    let size = bench.geometry.zone_size_blocks;
    let written = bench.geometry.transfer_blocks_max.min(capacity / 2).max(1);
    let some = bench.geometry.transfer_blocks_max.min(capacity - written);
    let mut compared = expect_blank(bench, "in an empty zone", 0, 0, some.max(1))?;
    let (stamp, frames) = bench.fresh(written);
    bench.succeed(0, Op::Write { offset: 0, frames })?;
    compared += expect_blank(bench, "beyond the write pointer", 0, written, some)?;
    // A read across the write pointer has both.
    if written < capacity && bench.geometry.transfer_blocks_max > 1 {
        let read = bench.succeed(0, Op::Read { offset: written - 1, frames: Bench::dirty(2) })?;
        super::bench::expect_stamps(0, written - 1, &read.frames[..1], stamp + u64::from(written) - 1)?;
        if !read.frames[1].is_blank() {
            return Err(format!(
                "beyond the write pointer, block {written} of zone 0 does not read as zeros"
            ));
        }
        compared += 2;
    }
    let rest = (size - capacity).min(bench.geometry.transfer_blocks_max);
    compared += expect_blank(bench, "beyond the capacity", 0, capacity, rest)?;
    bench.succeed(0, Op::Finish)?;
    compared += expect_blank(bench, "behind what was written of a finished zone", 0, written, some)?;
    super::transfers::still_there(bench, 0, written, stamp)?;
    bench.succeed(0, Op::Flush)?;
    bench.succeed(0, Op::Reset)?;
    compared += expect_blank(bench, "after a reset", 0, 0, written)?;
    // What was written before a reset does not come back when less is written.
    let (_, frames) = bench.fresh(1);
    bench.succeed(0, Op::Write { offset: 0, frames })?;
    compared += expect_blank(bench, "after a reset and a write", 0, 1, written - 1)?;
    Ok(Ok(compared))
}
