//! What a command costs on each drive: nanoseconds per one-block append, write and read, and of the
//! two ways to store an entry of the zone table. Commands go to four zones in turn; with 4 in flight
//! there is nothing to run together, with 32 there are up to 8 commands per run.
//!
//! `cargo run --release -p zoneweave-drive --example drive_cost [directory ...]` (default /dev/shm)

#![allow(clippy::unwrap_used, reason = "a measurement that cannot be made has nothing to report")]

use base::frame::Frame;
use base::units::ZoneIndex;
use drive::emulated::{CreateOptions, EmulatedDrive};
use drive::null::NullDrive;
use std::os::unix::fs::FileExt;
use std::time::Instant;
use zone::device::{Command, Completion, Geometry, Op, Status, Token, ZonedDevice};

const GEOMETRY: Geometry = Geometry {
    zones: 8,
    zone_size_blocks: 16384,
    zone_capacity_blocks: 12288,
    open_zones_max: 4,
    active_zones_max: 4,
    append_blocks_max: 64,
    transfer_blocks_max: 64,
    volatile_cache: false,
    areas: None,
};
const DEPTHS: [usize; 2] = [4, 32];
const START: base::time::Instant = base::time::Instant(0);

fn main() {
    let mut directories: Vec<String> = std::env::args().skip(1).collect();
    if directories.is_empty() {
        directories.push("/dev/shm".into());
    }
    for depth in DEPTHS {
        measure("null", &mut NullDrive::new(GEOMETRY), (100, depth));
        measure("null (dyn)", &mut NullDrive::new(GEOMETRY) as &mut dyn ZonedDevice, (100, depth));
        measure("heap", &mut EmulatedDrive::on_heap(GEOMETRY, [0; 16]).unwrap(), (4, depth));
    }
    for directory in directories {
        let place = tempfile::tempdir_in(&directory).unwrap();
        let path = place.path().join("drive");
        let mut drive = EmulatedDrive::create(&path, &CreateOptions::new(GEOMETRY, [0; 16])).unwrap();
        DEPTHS.iter().for_each(|depth| measure(&directory, &mut drive, (4, *depth)));
        measure_table(&directory, &place.path().join("table"));
    }
}

/// Fills, reads and resets half the zones, `rounds` times after one round of warming up, with
/// `depth` commands in flight.
fn measure<D: ZonedDevice + ?Sized>(name: &str, device: &mut D, (rounds, depth): (u32, usize)) {
    let mut bench = Bench { device, frames: Vec::new(), completions: Vec::new() };
    bench.frames.extend((0..depth).map(|_| vec![Frame::zeroed()]));
    bench.round();
    let mut sum = [0.0; 4];
    for _ in 0..rounds {
        for (sum, cost) in sum.iter_mut().zip(bench.round()) {
            *sum += cost / f64::from(rounds);
        }
    }
    let [append, write, read, reset] = sum;
    println!(
        "{name:12} {depth:2} in flight   append {append:7.1} ns   write {write:7.1} ns   read {read:7.1} ns   reset {reset:4.0} ns"
    );
}

struct Bench<'a, D: ?Sized> {
    device: &'a mut D,
    frames: Vec<Vec<Frame>>,
    completions: Vec<Completion>,
}

impl<D: ZonedDevice + ?Sized> Bench<'_, D> {
    fn round(&mut self) -> [f64; 4] {
        let append = self.fill_zones(0, |_, frames| Op::Append { frames });
        let write = self.fill_zones(4, |offset, frames| Op::Write { offset, frames });
        let read = self.fill_zones(0, |offset, frames| Op::Read { offset, frames });
        let started = Instant::now();
        for zone in 0..GEOMETRY.zones {
            self.device.submit(START, Command { token: Token(0), zone: ZoneIndex(zone), op: Op::Reset });
            while self.settle() == 0 {
                std::hint::spin_loop();
            }
        }
        [append, write, read, nanos(started) / f64::from(GEOMETRY.zones)]
    }

    /// Mean cost of a command that is given to every block of four zones in turn.
    fn fill_zones(&mut self, first_zone: u32, op: impl Fn(u32, Vec<Frame>) -> Op) -> f64 {
        let started = Instant::now();
        for block in 0..GEOMETRY.zone_capacity_blocks {
            for zone in first_zone..first_zone + 4 {
                let frames = self.frames.pop().unwrap();
                let command = Command { token: Token(0), zone: ZoneIndex(zone), op: op(block, frames) };
                self.device.submit(START, command);
            }
            if self.frames.len() < 4 {
                self.settle();
            }
        }
        self.settle();
        nanos(started) / f64::from(4 * GEOMETRY.zone_capacity_blocks)
    }

    fn settle(&mut self) -> usize {
        self.device.poll(START, &mut self.completions);
        let settled = self.completions.len();
        for completion in self.completions.drain(..) {
            assert_eq!(completion.status, Status::Success);
            if !completion.frames.is_empty() {
                self.frames.push(completion.frames);
            }
        }
        settled
    }
}

/// A store through a mapping is measured as part of every append above; this is the alternative.
fn measure_table(name: &str, path: &std::path::Path) {
    const STORES: u32 = 200_000;
    let file = std::fs::OpenOptions::new().read(true).write(true).create_new(true).open(path).unwrap();
    file.write_all_at(&[0; 4096], 0).unwrap();
    let mut map = memmap2::MmapOptions::new().map_raw(&file).unwrap();
    let started = Instant::now();
    for store in 0..STORES {
        file.write_all_at(&u64::from(store).to_le_bytes(), u64::from(store % 512) * 8).unwrap();
    }
    let with_pwrite = nanos(started) / f64::from(STORES);
    let started = Instant::now();
    for store in 0..STORES {
        store_mapped(&mut map, store);
    }
    let mapped = nanos(started) / f64::from(STORES);
    println!("{name:12} entry of the zone table: pwrite {with_pwrite:.1} ns, mapped {mapped:.1} ns");
}

// SAFETY: the mapping has a page, of 512 words, and is exclusively borrowed.
// WHY: it is what is being measured.
#[allow(unsafe_code)]
fn store_mapped(map: &mut memmap2::MmapRaw, store: u32) {
    let place = (store % 512) as usize;
    unsafe { map.as_mut_ptr().cast::<u64>().add(place).write_volatile(u64::from(store)) }
}

fn nanos(started: Instant) -> f64 {
    started.elapsed().as_secs_f64() * 1e9
}
