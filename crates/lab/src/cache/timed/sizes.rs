//! `sizes`: objects of 64 B to 1 MiB under keys of 32 bytes. The cache is written until zones have gone, by `fifo`; then objects are got that
//! are there, and some that never were.

use super::report::{Bar, Bound, Column, Report, Row, column};
use super::rig::{Answer, CacheRig, Drives, Load, Measured, Objects};
use super::{Cell, Run, profile};
use crate::precise::precise_u64;
use anyhow::Result;
use base::random::Random;
use base::time::Instant;
use base::units::{BLOCK_BYTES_U64, human_bytes};
use cache::policy::Eviction;
use cache::request::{Op, Outcome};
use cache::status::Counters;
use cache::{Options, Status};

const KEY_BYTES: usize = 32;
/// Bytes of values. 100 B and 100 KB are those of the bars.
const VALUES: [usize; 9] = [64, 100, 256, 1024, 4096, 16_384, 65_536, 100_000, 1 << 20];
/// Zones at scale 1: what is kept of them for superblocks, journal and the next ones is six.
const ZONES: u64 = 128;
/// Zones of 4 MiB.
const ZONE_BLOCKS: u32 = 1024;
/// Gets of each kind at scale 1.
const GETS: u64 = 50_000;
const READERS: usize = 64;

const COLUMNS: &[Column] = &[
    column("stores", "1/s", 0),
    column("hits", "1/s", 0),
    column("written", "B/B", 4),
    column("pages", "B/B", 4),
    column("directories", "B/B", 4),
    column("journal", "B/B", 4),
    column("superblocks", "B/B", 4),
    column("reinserted", "B/B", 4),
    column("memory", "B/object", 2),
    column("reads_hit", "pages", 3),
    column("reads_miss", "pages", 4),
];

pub(super) fn run(run: &Run) -> Result<Report> {
    let (mut rows, mut bars) = (Vec::new(), Vec::new());
    for value_bytes in VALUES {
        let row = measure(run, Objects { key_bytes: KEY_BYTES, value_bytes })?;
        let mut bar = |name: &str, column: usize, most, unit| {
            let name = format!("{}, {name}", row.setting);
            let value = row.values[column].unwrap_or(f64::NAN);
            bars.push(Bar { name, value, bound: Bound::AtMost(most), unit });
        };
        match value_bytes {
            100 => {
                bar("bytes written over bytes admitted", 2, 1.18, "");
                bar("memory an object", 8, 8.0, "B");
                bar("flash reads a hit", 9, 1.01, "");
                bar("flash reads a miss", 10, 0.01, "");
            }
            100_000 => {
                bar("bytes written over bytes admitted", 2, 1.01, "");
                bar("memory an object", 8, 16.0, "B");
                bar("flash reads a miss", 10, 0.01, "");
            }
            _ => {}
        }
        rows.push(row);
    }
    let zone = u64::from(ZONE_BLOCKS) * BLOCK_BYTES_U64;
    let (flash, zone) = (human_bytes(zones(run) * zone), human_bytes(zone));
    let scale = format!("zn540-1tb of {flash} in zones of {zone}, written one and a quarter times");
    Ok(Report { cell: Cell::Sizes, seed: run.seed, scale, columns: COLUMNS, rows, bars })
}

fn zones(run: &Run) -> u64 {
    run.scaled(ZONES, 16)
}

fn measure(run: &Run, objects: Objects) -> Result<Row> {
    let drives = Drives::new(&profile("zn540-1tb"), (1, u32::try_from(zones(run))?, ZONE_BLOCKS), run.seed);
    let stores = drives.bytes() / objects.bytes() * 5 / 4;
    let options = Options { eviction: Eviction::Fifo, ..objects.options() };
    let mut rig = CacheRig::new(&drives, options)?;
    let filled = rig.fill(objects, 0..stores)?;
    rig.settle()?;
    let filled_to = rig.volume.status();
    // The youngest half of what fits.
    let there = (stores - stores * 2 / 5).max(1);
    let gets = run.scaled(GETS, 1_000).min(there * 16);
    let random = Random::from_seed(run.seed);
    let mut reader = Reader {
        objects,
        random,
        left: gets,
        from: there,
        count: stores - there,
        asked: vec![0; READERS],
        found: 0,
    };
    let hits = rig.run(&mut reader, READERS)?;
    let found = precise_u64(reader.found);
    let mut stranger = Reader { left: gets, from: stores, count: stores, found: 0, ..reader };
    let misses = rig.run(&mut stranger, READERS)?;
    anyhow::ensure!(stranger.found == 0, "objects were found that were never stored");
    let reads = |measured: &Measured| measured.counted(|status| status.counters.pages_read);
    let setting = format!("{value} B", value = objects.value_bytes);
    let mut values =
        vec![Some(precise_u64(filled.times[0].count()) / filled.seconds), Some(found / hits.seconds)];
    values.extend(causes(&filled_to.counters).map(Some));
    values.extend([
        Some(memory_an_object(&filled_to)),
        Some(reads(&hits) / found),
        Some(reads(&misses) / precise_u64(gets)),
    ]);
    Ok(Row { setting, values })
}

/// Bytes written over bytes admitted, and how they come about: pages hold what is admitted, with heads and gaps.
fn causes(counters: &Counters) -> [f64; 6] {
    let share = |bytes: u64| precise_u64(bytes) / precise_u64(counters.bytes_admitted);
    let blocks = |blocks: u64| share(blocks * BLOCK_BYTES_U64);
    [
        share(counters.bytes_written()),
        blocks(counters.blocks_data) - share(counters.bytes_reinserted),
        blocks(counters.blocks_directory),
        blocks(counters.blocks_journal),
        blocks(counters.blocks_superblock),
        share(counters.bytes_reinserted),
    ]
}

/// Everything that grows with objects, but for copies of them.
fn memory_an_object(status: &Status) -> f64 {
    precise_u64(status.index_bytes + status.ghost_bytes + status.listing_bytes) / precise_u64(status.objects)
}

/// Gets of objects from a number on.
struct Reader {
    objects: Objects,
    random: Random,
    left: u64,
    from: u64,
    count: u64,
    asked: Vec<u64>,
    found: u64,
}

impl Load for Reader {
    fn next(&mut self, _now: Instant, connection: usize) -> Option<Op> {
        self.left = self.left.checked_sub(1)?;
        self.asked[connection] = self.from + self.random.below(self.count);
        Some(self.objects.get(self.asked[connection]))
    }

    fn answered(&mut self, _now: Instant, connection: usize, outcome: Outcome) -> Result<Answer> {
        self.found += u64::from(self.objects.is_found(self.asked[connection], &outcome)?);
        Ok(Answer::Counts(0))
    }
}
