//! Rows of the table: what is measured, against what, and the share that is wanted.

use super::bare::{self, Part, Steps};
use super::rig::{Load, MdRig, Places, device};
use super::{Figure, Report, Setup};
use crate::md_array::{Ahead, DATA_OFFSET, NewArray};
use crate::precise::precise_u64;
use crate::workload::{Measured, whole_ns};
use anyhow::{Context, Result};
use base::random::Random;
use base::time::Instant;
use block::md::geometry::{Chunk, Geometry};
use block::md::{Role, SECTOR_BYTES_U64};

/// Sectors of a member, 8 GiB.
const SECTORS: u64 = 1 << 24;
/// Blocks of a chunk of 64 KiB, and of the data of a member.
const CHUNK_BLOCKS: u64 = 16;
const MEMBER_BLOCKS: u64 = SECTORS / 8 - 4096;
/// Sectors of the member that is rebuilt, 1 GiB.
const REBUILT_SECTORS: u64 = 1 << 21;
/// Clients of most rows.
const CLIENTS: u32 = 64;

/// Row.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Name.
    pub name: &'static str,
    /// Description of the measurement.
    pub words: &'static str,
    bar: Bar,
    measure: fn(&Setup) -> Result<Vec<Figure>>,
}

#[derive(Clone, Copy, Debug)]
enum Bar {
    AtLeast(f64),
    AtMost(f64),
}

/// All rows.
pub const ROWS: &[Row] = &[
    Row {
        name: "lone-write",
        words: "4-KiB random write, one client, 3+1: latency beyond that of reading and writing two drives at once",
        bar: Bar::AtMost(2.0),
        measure: lone_write,
    },
    Row {
        name: "random-write",
        words: "4-KiB random write, 64 clients, 3+1: of what two reads and two writes each leave possible",
        bar: Bar::AtLeast(0.95),
        measure: |setup| random_write(setup, 5, 4),
    },
    Row {
        name: "random-write-r6",
        words: "the same, RAID-6 4+2: of what three reads and three writes each leave possible",
        bar: Bar::AtLeast(0.95),
        measure: |setup| random_write(setup, 6, 6),
    },
    Row {
        name: "whole-stripes",
        words: "whole stripes of 192 KiB at random, 8 clients, 3+1: of k/(k+m) of what the members take",
        bar: Bar::AtLeast(0.95),
        measure: |setup| large_writes(setup, 48),
    },
    Row {
        name: "1-mib-writes",
        words: "1-MiB random writes, 8 clients, 3+1: of the same",
        bar: Bar::AtLeast(0.95),
        measure: |setup| large_writes(setup, 256),
    },
    Row {
        name: "random-read",
        words: "4-KiB random read, 64 clients, 3+1: of the drives' bound",
        bar: Bar::AtLeast(0.95),
        measure: |setup| random_read(setup, 0),
    },
    Row {
        name: "degraded-read",
        words: "the same without member 0: of what reads of one or three drives leave possible",
        bar: Bar::AtLeast(0.95),
        measure: |setup| random_read(setup, 1),
    },
    Row {
        name: "degraded-write",
        words: "4-KiB random write, 64 clients, 3+1, without member 0: of the throughput with it",
        bar: Bar::AtLeast(0.95),
        measure: degraded_write,
    },
    Row {
        name: "bitmap",
        words: "4-KiB random write, 64 clients, 3+1, with a bitmap of 64-MiB regions: of the throughput without",
        bar: Bar::AtLeast(0.98),
        measure: with_bitmap,
    },
    Row {
        name: "rebuild",
        words: "rebuild of a member of 1 GiB, 3+1, nobody else at work: of what the new drive takes",
        bar: Bar::AtLeast(0.9),
        measure: rebuild,
    },
    Row {
        name: "rebuild-beside",
        words: "the same beside 64 clients with 4-KiB random writes: of the 10 MiB/s that it is to keep",
        bar: Bar::AtLeast(1.0),
        measure: rebuild_beside,
    },
];

impl Row {
    /// Measures the row.
    ///
    /// # Errors
    /// When the profile has zones or is too small, or a request fails.
    pub fn report(&self, setup: &Setup) -> Result<Report> {
        let figures = (self.measure)(setup).with_context(|| self.name)?;
        let value = figures.first().context("a row has a figure")?.value;
        let (bar, met) = match self.bar {
            Bar::AtLeast(bar) => (bar, value >= bar),
            Bar::AtMost(bar) => (bar, value <= bar),
        };
        Ok(Report { row: self.name, figures, bar, met })
    }
}

fn array(level: i32, members: u32) -> NewArray {
    NewArray {
        level,
        members,
        chunk_sectors: 128,
        sectors: SECTORS,
        bitmap: None,
        is_clean: true,
        ahead: Ahead::Nothing,
    }
}

fn writes(blocks: u64, clients: u32) -> Load {
    Load { places: Places::Random, is_read: false, blocks, clients }
}

/// A block of the volume at random: its place on its member, then those of its parities.
fn places(random: &mut Random, geometry: &Geometry) -> Vec<Part> {
    let chunks = geometry.stripes() * u64::from(geometry.data_chunks());
    let found = geometry.locate(Chunk(random.below(chunks)));
    let block = DATA_OFFSET / 8 + found.stripe.0 * CHUNK_BLOCKS + random.below(CHUNK_BLOCKS);
    let members = [Some(found.member), Some(found.p), found.q].into_iter().flatten();
    members.map(|role| Part { member: role.index(), is_read: true, block, blocks: 1 }).collect()
}

fn to_write(parts: &[Part]) -> Vec<Part> {
    parts.iter().map(|part| Part { is_read: false, ..*part }).collect()
}

/// Reads, then writes of the same blocks.
fn modify(random: &mut Random, geometry: &Geometry) -> Steps {
    let reads = places(random, geometry);
    let writes = to_write(&reads);
    vec![reads, writes]
}

/// Share first, then both throughputs.
fn share(ours: &Measured, bound: &Measured, of_what: &'static str) -> Vec<Figure> {
    vec![
        Figure { what: "share", value: ours.mib_s() / bound.mib_s(), unit: "" },
        Figure { what: "engine", value: ours.mib_s(), unit: "MiB/s" },
        Figure { what: of_what, value: bound.mib_s(), unit: "MiB/s" },
        Figure { what: "p50", value: ours.percentile_us(50.0), unit: "us" },
        Figure { what: "p99", value: ours.percentile_us(99.0), unit: "us" },
    ]
}

fn lone_write(setup: &Setup) -> Result<Vec<Figure>> {
    let ours = MdRig::new(setup, &array(5, 4), 0)?.run(writes(1, 1), setup.span_us)?;
    let geometry = array(5, 4).geometry();
    let bare = |steps: &mut dyn FnMut(&mut Random) -> Steps| bare::run(setup, (4, SECTORS), (1, 4096), steps);
    let both = bare(&mut |random| modify(random, &geometry))?;
    let read = bare(&mut |random| vec![places(random, &geometry)[..1].to_vec()])?;
    let write = bare(&mut |random| vec![to_write(&places(random, &geometry)[..1])])?;
    Ok(vec![
        Figure { what: "beyond", value: ours.mean_us() - both.mean_us(), unit: "us" },
        Figure { what: "engine, mean", value: ours.mean_us(), unit: "us" },
        Figure { what: "two drives at once, mean", value: both.mean_us(), unit: "us" },
        Figure {
            what: "read and write of one drive, mean",
            value: read.mean_us() + write.mean_us(),
            unit: "us",
        },
        Figure { what: "engine, p99", value: ours.percentile_us(99.0), unit: "us" },
    ])
}

fn random_write(setup: &Setup, level: i32, members: u32) -> Result<Vec<Figure>> {
    let ours = MdRig::new(setup, &array(level, members), 0)?.run(writes(1, CLIENTS), setup.span_us)?;
    let geometry = array(level, members).geometry();
    let draw = &mut |random: &mut Random| modify(random, &geometry);
    let bound = bare::run(setup, (members, SECTORS), (CLIENTS, 4096), draw)?;
    Ok(share(&ours, &bound, "drives"))
}

fn large_writes(setup: &Setup, blocks: u64) -> Result<Vec<Figure>> {
    let ours = MdRig::new(setup, &array(5, 4), 0)?.run(writes(blocks, 8), setup.span_us)?;
    // Whole chunks on all members; three of four hold data.
    let mut draw = |random: &mut Random| {
        let block = random.below(MEMBER_BLOCKS / CHUNK_BLOCKS) * CHUNK_BLOCKS;
        vec![(0..4).map(|member| Part { member, is_read: false, block, blocks: CHUNK_BLOCKS }).collect()]
    };
    let clients = u32::try_from(8 * blocks / 48)?;
    let bound = bare::run(setup, (4, SECTORS), (clients, 48 * 4096), &mut draw)?;
    Ok(share(&ours, &bound, "drives"))
}

fn random_read(setup: &Setup, lost: u16) -> Result<Vec<Figure>> {
    let load = Load { places: Places::Random, is_read: true, blocks: 1, clients: CLIENTS };
    let ours = MdRig::new(setup, &array(5, 4), lost)?.run(load, setup.span_us)?;
    let geometry = array(5, 4).geometry();
    let mut draw = |random: &mut Random| {
        let one = places(random, &geometry)[0];
        let is_lost = lost > 0 && one.member == 0;
        vec![if is_lost { (1..4).map(|member| Part { member, ..one }).collect() } else { vec![one] }]
    };
    let bound = bare::run(setup, (4, SECTORS), (CLIENTS, 4096), &mut draw)?;
    Ok(share(&ours, &bound, "drives"))
}

fn degraded_write(setup: &Setup) -> Result<Vec<Figure>> {
    let degraded = MdRig::new(setup, &array(5, 4), 1)?.run(writes(1, CLIENTS), setup.span_us)?;
    let whole = MdRig::new(setup, &array(5, 4), 0)?.run(writes(1, CLIENTS), setup.span_us)?;
    Ok(share(&degraded, &whole, "with it"))
}

fn with_bitmap(setup: &Setup) -> Result<Vec<Figure>> {
    let bitmap = NewArray { bitmap: Some(Some(64 << 20)), ..array(5, 4) };
    let with = MdRig::new(setup, &bitmap, 0)?.run(writes(1, CLIENTS), setup.span_us)?;
    let without = MdRig::new(setup, &array(5, 4), 0)?.run(writes(1, CLIENTS), setup.span_us)?;
    Ok(share(&with, &without, "without"))
}

/// A rig with a member that is about to be rebuilt.
fn rebuilding(setup: &Setup) -> Result<MdRig> {
    let array = NewArray { sectors: REBUILT_SECTORS, ..array(5, 4) };
    let mut rig = MdRig::new(setup, &array, 1)?;
    rig.rest(Instant(rig.now.0 + 1_000_000_000))?;
    let drive = device(setup, array.sectors, 99)?;
    rig.volume.add_member(Role(0), array.newcomer()?, drive)?;
    Ok(rig)
}

/// Bytes of the new member that are rebuilt; all of them once it is whole.
fn rebuilt_bytes(rig: &MdRig) -> u64 {
    let status = rig.volume.engine.status();
    let whole = REBUILT_SECTORS - 2048;
    status.rebuilding.first().map_or(whole, |member| member.sectors_done) * SECTOR_BYTES_U64
}

fn mib_s(bytes: u64, time: u64) -> f64 {
    precise_u64(bytes) / 1_048_576.0 / (precise_u64(time) / 1e9)
}

fn rebuild(setup: &Setup) -> Result<Vec<Figure>> {
    let mut rig = rebuilding(setup)?;
    let began = rig.now;
    while !rig.volume.engine.core().is_whole(Role(0)) {
        rig.rest(Instant(rig.now.0 + 1_000_000))?;
    }
    let ours = mib_s(rebuilt_bytes(&rig), rig.now.since(began).0);
    let mut next = 0;
    let mut draw = |_: &mut Random| {
        let block = next;
        next = (next + 128) % MEMBER_BLOCKS;
        vec![vec![Part { member: 0, is_read: false, block, blocks: 128 }]]
    };
    let bound = bare::run(setup, (1, SECTORS), (8, 128 * 4096), &mut draw)?.mib_s();
    Ok(vec![
        Figure { what: "share", value: ours / bound, unit: "" },
        Figure { what: "rebuild", value: ours, unit: "MiB/s" },
        Figure { what: "new drive, 512-KiB writes", value: bound, unit: "MiB/s" },
    ])
}

fn rebuild_beside(setup: &Setup) -> Result<Vec<Figure>> {
    let mut rig = rebuilding(setup)?;
    let began = rig.now;
    let before = rebuilt_bytes(&rig);
    let clients = rig.run(writes(1, CLIENTS), setup.span_us)?;
    let kept = mib_s(rebuilt_bytes(&rig) - before, rig.now.since(began).0);
    let mut alone = MdRig::new(setup, &NewArray { sectors: REBUILT_SECTORS, ..array(5, 4) }, 1)?;
    alone.rest(Instant(whole_ns(1e6)))?;
    let alone = alone.run(writes(1, CLIENTS), setup.span_us)?;
    Ok(vec![
        Figure { what: "share", value: kept / 10.0, unit: "" },
        Figure { what: "rebuild", value: kept, unit: "MiB/s" },
        Figure { what: "clients", value: clients.mib_s(), unit: "MiB/s" },
        Figure { what: "clients' p99", value: clients.percentile_us(99.0), unit: "us" },
        Figure { what: "clients' p99 without a rebuild", value: alone.percentile_us(99.0), unit: "us" },
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use drive::timing::Profile;

    #[test]
    fn a_row_repeats_to_the_bit() {
        let profile = Profile::load("conventional-nvme").unwrap();
        let setup = Setup { profile, span_us: 2000.0, seed: 5 };
        let row = ROWS.iter().find(|row| row.name == "random-write").unwrap();
        let values = || -> Vec<u64> {
            row.report(&setup).unwrap().figures.iter().map(|figure| figure.value.to_bits()).collect()
        };
        assert_eq!(values(), values());
    }
}
