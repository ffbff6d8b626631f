//! Rules broken one by one, and limits reached: each answer and each state is held against the rules.

use super::Difference;
use super::bench::Bench;
use super::walk::Held;
use base::frame::Frame;
use zone::device::Op;

/// Blocks with contents that nobody looks at.
fn blocks(count: u32) -> Vec<Frame> {
    (0..count).map(|_| Frame::zeroed()).collect()
}

fn write(offset: u32, count: u32) -> Op {
    Op::Write { offset, frames: blocks(count) }
}

fn read(offset: u32, count: u32) -> Op {
    Op::Read { offset, frames: blocks(count) }
}

fn append(count: u32) -> Op {
    Op::Append { frames: blocks(count) }
}

/// Every rule that does not need other zones.
pub fn rules(bench: &mut Bench) -> Result<Result<u64, String>, Difference> {
    let geometry = bench.geometry;
    let (size, capacity) = (geometry.zone_size_blocks, geometry.zone_capacity_blocks);
    let most = geometry.transfer_blocks_max;
    let mut stories: Vec<Vec<Op>> = vec![
        vec![write(0, 0), write(0, most + 1), read(0, 0), read(0, most + 1), write(0, 1)],
        // Not at the write pointer, before it and behind it.
        vec![write(1, 1), write(0, 2), write(0, 1), write(1, 1), write(3, 1), write(2, 1)],
        vec![read(size - 1, 2), read(size - 1, 1), read(size, 1)],
        vec![
            Op::Open,
            Op::Open,
            Op::Close,
            Op::Close,
            Op::Open,
            write(0, 1),
            Op::Close,
            write(1, 1),
            Op::Open,
        ],
        vec![Op::Close, Op::Reset, Op::Close, write(0, 1), Op::Close, Op::Reset, Op::Reset],
        vec![
            Op::Finish,
            Op::Finish,
            Op::Open,
            Op::Close,
            write(0, 1),
            Op::Reset,
            write(0, 1),
            Op::Finish,
            write(1, 1),
            Op::Reset,
        ],
        vec![write(0, 1), Op::Flush, Op::Finish, Op::Flush, Op::Reset, Op::Flush],
    ];
    if geometry.append_blocks_max > 0 {
        stories.push(vec![
            append(0),
            append(geometry.append_blocks_max + 1),
            append(1),
            Op::Finish,
            append(1),
        ]);
        stories.push(vec![
            append(1),
            write(0, 1),
            write(1, 1),
            append(1),
            Op::Close,
            append(1),
            Op::Open,
            append(1),
        ]);
    }
    let mut held = Held::new(bench, stories.len().try_into().unwrap_or(u32::MAX));
    for (zone, story) in (0..).zip(stories) {
        // Zones stay active, so they are taken in turn and emptied.
        let zone = zone % held.zones;
        for op in story {
            held.step(bench, zone, op)?;
        }
        held.step(bench, zone, Op::Reset)?;
    }
    for ops in [[write(0, 1), Op::Reset, Op::Report { count: 1 }], [read(0, 1), Op::Finish, Op::Open]] {
        for op in ops {
            held.step(bench, geometry.zones, op)?;
        }
    }
    ends(bench, &mut held, capacity)?;
    Ok(Ok(held.compared))
}

/// The last blocks of a zone: nothing goes beyond the capacity, and the last one makes it full.
fn ends(bench: &mut Bench, held: &mut Held, capacity: u32) -> Result<(), Difference> {
    let most = bench.geometry.transfer_blocks_max;
    let mut at = 0;
    while at + 1 < capacity {
        let count = most.min(capacity - 1 - at);
        held.step(bench, 0, write(at, count))?;
        at += count;
    }
    held.step(bench, 0, write(at, 2.min(most + 1)))?;
    if bench.geometry.append_blocks_max > 1 {
        held.step(bench, 0, append(2))?;
    }
    for op in [write(at, 1), write(at, 1), read(at, 1), Op::Open, Op::Reset] {
        held.step(bench, 0, op)?;
    }
    Ok(())
}

/// As many zones active and open as the drive says, and one more.
pub fn limits(bench: &mut Bench) -> Result<Result<u64, String>, Difference> {
    let geometry = bench.geometry;
    let (open, active) = (geometry.open_zones_max, geometry.active_zones_max);
    if active >= geometry.zones {
        return Ok(Err("the drive has no limit of active zones".to_owned()));
    }
    let mut held = Held::new(bench, active + 1);
    for zone in 0..=active {
        held.step(bench, zone, write(0, 1))?;
    }
    // What frees a place.
    for op in [Op::Finish, Op::Reset] {
        held.step(bench, 0, op)?;
        held.step(bench, active, write(0, 1))?;
        held.step(bench, active, Op::Reset)?;
    }
    for zone in 0..=active {
        held.step(bench, zone, Op::Reset)?;
    }
    // Zones that were opened explicitly are not closed for others.
    for zone in 0..=open {
        held.step(bench, zone, Op::Open)?;
    }
    held.step(bench, open, write(0, 1))?;
    held.step(bench, 0, Op::Close)?;
    held.step(bench, open, write(0, 1))?;
    for zone in 0..=open {
        held.step(bench, zone, Op::Reset)?;
    }
    Ok(Ok(held.compared))
}
