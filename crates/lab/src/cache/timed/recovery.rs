//! `recovery`: a mount after the process has ended, of caches with few and with many objects of three sizes on four drives, beside what the
//! same drives take to read as many bytes as the directories have.

use super::report::{Bar, Bound, Column, Report, Row, column};
use super::rig::{CacheRig, Drives, Objects, wall};
use super::{Cell, Run, profile};
use crate::allocations::bytes_during;
use crate::precise::precise_u64;
use anyhow::{Context, Result, ensure};
use base::frame::Frame;
use base::time::{Instant, Nanos};
use base::units::{BLOCK_BYTES_U64, DriveIndex, ZoneIndex, human_bytes};
use cache::mount;
use zone::device::{Command, Op, Token};
use zone::drives::{DriveCommand, DriveSet};

const KEY_BYTES: usize = 32;
const DRIVES: u8 = 4;
/// Bytes of values, and how many objects at scale 1.
const SIZES: [(usize, &[u64]); 3] =
    [(100, &[100_000, 1_000_000, 10_000_000]), (1024, &[100_000, 1_000_000]), (100_000, &[1_000, 10_000])];
/// Zones of 64 MiB: a sixteenth of the drive's.
const ZONE_BLOCKS: u32 = 16_384;
/// Zones of each drive that hold no objects: open ones of other streams, superblocks, journals, and those that are kept free.
const OTHER_ZONES: u32 = 24;
/// Reads in flight on each drive when its limit is looked for.
const DEPTH: usize = 64;

const COLUMNS: &[Column] = &[
    column("objects", "", 0),
    column("flash", "MiB", 1),
    column("directories", "MiB", 2),
    column("read_in", "ms", 3),
    column("mounted_in", "ms", 3),
    column("ratio", "", 2),
    column("memory_kept", "B/object", 1),
    column("memory_more", "B/object", 1),
];

pub(super) fn run(run: &Run) -> Result<Report> {
    let (mut rows, mut bars) = (Vec::new(), Vec::new());
    for (value_bytes, counts) in SIZES {
        for count in counts {
            let objects = Objects { key_bytes: KEY_BYTES, value_bytes };
            rows.push(measure(run, objects, run.scaled(*count, 100))?);
        }
        // Where directories are what takes the time.
        let most = rows.last().context("a row a size")?;
        let value = most.values[5].unwrap_or(f64::NAN);
        bars.push(Bar {
            name: format!("{}, time over reading directories", most.setting),
            value,
            bound: Bound::AtMost(1.3),
            unit: "",
        });
    }
    let zone = human_bytes(u64::from(ZONE_BLOCKS) * BLOCK_BYTES_U64);
    let scale = format!("{DRIVES} zn540-4tb in zones of {zone}; memory but for what drives keep");
    Ok(Report { cell: Cell::Recovery, seed: run.seed, scale, columns: COLUMNS, rows, bars })
}

fn measure(run: &Run, objects: Objects, count: u64) -> Result<Row> {
    let zone_bytes = u64::from(ZONE_BLOCKS) * BLOCK_BYTES_U64;
    // A tenth more for heads of records and ends of pages.
    let bytes = count * objects.bytes() * 11 / 10;
    let zones = u32::try_from(bytes.div_ceil(zone_bytes * u64::from(DRIVES)))? + OTHER_ZONES;
    let drives = Drives::new(&profile("zn540-4tb"), (DRIVES, zones, ZONE_BLOCKS), run.seed);
    let options = objects.options();
    let mut rig = CacheRig::new(&drives, options)?;
    rig.fill(objects, 0..count)?;
    rig.settle()?;
    let before = rig.volume.status();
    ensure!(before.counters.zones_evicted == 0, "zones went, and their objects with them");
    let (mut set, now) = rig.end();
    let directories = before.counters.blocks_directory * BLOCK_BYTES_U64;
    let read_in = read(&mut set, now, before.counters.blocks_directory.div_ceil(u64::from(DRIVES)))?;
    let begun = now + read_in;
    let (mounted, memory) = bytes_during(|| mount(set, begun, wall(begun), options));
    let volume = mounted?;
    let found = volume.status();
    // In another order, other ones find no slot, a few of a million.
    let is_whole =
        found.objects <= before.objects && found.objects >= before.objects - before.objects / 100_000;
    ensure!(is_whole, "{} objects of {} were found", found.objects, before.objects);
    let mounted_in = volume.ready_at().since(begun);
    let milliseconds = |time: Nanos| precise_u64(time.0) / 1e6;
    let mib = |bytes: u64| precise_u64(bytes) / f64::from(1 << 20);
    let an_object = |bytes: u64| precise_u64(bytes) / precise_u64(count);
    let ratio = milliseconds(mounted_in) / milliseconds(read_in);
    let values = vec![
        Some(precise_u64(count)),
        Some(mib(before.counters.bytes_written())),
        Some(mib(directories)),
        Some(milliseconds(read_in)),
        Some(milliseconds(mounted_in)),
        Some(ratio).filter(|_| directories > 0),
        Some(an_object(memory.end)),
        Some(an_object(memory.peak - memory.end)),
    ];
    let setting = format!("{} B, {count}", objects.value_bytes);
    Ok(Row { setting, values })
}

/// Time in which each of the drives reads so many blocks of its fullest zones, in transfers as large as they may be.
fn read(drives: &mut DriveSet, begun: Instant, blocks_each: u64) -> Result<Nanos> {
    let mut waiting: Vec<Vec<(ZoneIndex, u32, u32)>> = Vec::new();
    for place in (0..drives.len()).map(DriveIndex::at) {
        let geometry = *drives.geometry(place).context("a drive is missing")?;
        let op = Op::Report { count: geometry.zones };
        let command = Command { token: Token(0), zone: ZoneIndex(0), op };
        let report = drives.execute(begun, DriveCommand { drive: place, command }).report;
        let mut zones: Vec<_> =
            (0..).map(ZoneIndex).zip(report.iter().map(|zone| zone.write_pointer)).collect();
        zones.sort_by_key(|(zone, end)| (std::cmp::Reverse(*end), *zone));
        let (mut left, mut reads) = (u32::try_from(blocks_each)?, Vec::new());
        for (zone, end) in zones {
            for offset in (0..end.min(left)).step_by(geometry.transfer_blocks_max as usize) {
                reads.push((zone, offset, geometry.transfer_blocks_max.min(end.min(left) - offset)));
            }
            left -= end.min(left);
        }
        ensure!(left == 0, "drive {place} holds less than its directories");
        reads.reverse();
        waiting.push(reads);
    }
    let (mut now, mut answers, mut in_flight) = (begun, Vec::new(), vec![0; drives.len()]);
    loop {
        for (place, reads) in waiting.iter_mut().enumerate() {
            while in_flight[place] < DEPTH
                && let Some((zone, offset, count)) = reads.pop()
            {
                let frames = (0..count).map(|_| Frame::zeroed()).collect();
                let command = Command { token: Token(0), zone, op: Op::Read { offset, frames } };
                drives.submit(now, DriveCommand { drive: DriveIndex::at(place), command });
                in_flight[place] += 1;
            }
        }
        if in_flight.iter().all(|count| *count == 0) {
            return Ok(now.since(begun));
        }
        now = drives.await_answers(now, &mut answers);
        for (drive, completion) in answers.drain(..) {
            ensure!(completion.status == zone::device::Status::Success, "a read failed");
            in_flight[drive.index()] -= 1;
        }
    }
}
