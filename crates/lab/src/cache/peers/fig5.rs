//! Figure 5 of the ZonedStore paper: mixes of reads and writes of 100 KB, our cache beside RocksDB with blobs.
//!
//! RocksDB stands for TerarkDB, which is one: key and value apart, no log, direct I/O. Its benchmark is client and database in one process,
//! ours is asked over TCP by a client that is not counted, and has conventional drives in files. Both have 64 MiB of memory and files in
//! the same place.

use super::db_bench::{DbBench, Ran};
use super::load::{self, Answered, Keys, Kind, Load, Way};
use super::protocol::Protocol;
use super::servers::{self, Drives, Own, Served};
use crate::paired::{Paired, Row as Cost, median};
use crate::precise::{precise, precise_u64};
use crate::wall::process::WorkDirectory;
use crate::wall::program::{self, Program};
use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const DB_BENCH: [Program; 1] = [Program { name: "db_bench", package: "rocksdb-tools" }];
/// Highest share of RocksDB's processor time that is good.
const RATIO_MAX: f64 = 0.6;
/// Connections to ours, threads of its benchmark.
const CLIENTS: usize = 4;
const OBJECTS: u64 = 4_000;
const KEY_BYTES: usize = 32;
const VALUE_BYTES: usize = 100 << 10;
const OWN: Own<'static> =
    Own { drives: Drives::Conventional, flash: "1GiB", memory: "64MiB", object_mean: "102432" };

/// Mixes by the paper's names, and how many of a hundred requests read.
const MIXES: [(&str, u64); 5] = [("WO", 0), ("W8R2", 20), ("W5R5", 50), ("W2R8", 80), ("RO", 100)];

/// Options of the comparison.
pub struct Fig5Options<'a> {
    /// The zoneweave binary.
    pub binary: PathBuf,
    /// Folder for the files of both; in memory if it is not said.
    pub place: Option<PathBuf>,
    /// Seconds of each measurement.
    pub seconds: u32,
    /// Measurements of each side of a mix.
    pub rounds: u32,
    /// Told how many measurements are made, of how many, and what the last one was.
    pub progress: &'a dyn Fn(usize, usize, &str),
}

/// A mix. Of two figures the first is ours; of latencies these are median and 99th percentile in microseconds.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Processor time of operations.
    #[serde(flatten)]
    pub cost: Cost,
    /// Operations a second.
    pub rates: [f64; 2],
    /// Latency of our reads and RocksDB's.
    pub reads_us: [[f64; 2]; 2],
    /// Latency of our writes and RocksDB's.
    pub writes_us: [[f64; 2]; 2],
    /// Bytes written over bytes of keys and values; none where nothing is.
    pub write_amplification: Option<[f64; 2]>,
    /// Space that files take, over the bytes of all keys and values.
    pub space: [f64; 2],
    /// Share of our reads that hit; RocksDB's always do.
    pub hit_ratio: Option<f64>,
}

/// Figures of one side of a mix.
#[derive(Default)]
struct Side {
    rates: Vec<f64>,
    reads_us: [Vec<f64>; 2],
    writes_us: [Vec<f64>; 2],
    bytes_written: f64,
    bytes_put: f64,
}

/// Both sides.
struct Bench<'a> {
    options: &'a Fig5Options<'a>,
    own: Served,
    own_dir: PathBuf,
    peer: DbBench,
    done: usize,
}

/// Runs the comparison; `told` is told each row as it is there.
///
/// # Errors
/// When db_bench is missing, or a side fails.
pub fn run(options: &Fig5Options<'_>, mut told: impl FnMut(&Row)) -> Result<Vec<Row>> {
    ensure!(options.rounds > 0 && options.seconds > 0, "--rounds and --seconds must be at least 1");
    if let Some(missing) = program::missing(&DB_BENCH) {
        bail!("the comparison needs {missing}");
    }
    let place = match &options.place {
        Some(place) => WorkDirectory::below(place, "cache-fig5"),
        None => WorkDirectory::new("cache-fig5"),
    }?;
    let peer = DbBench {
        dir: place.join("rocksdb"),
        log: place.join("db_bench.log"),
        objects: OBJECTS,
        key_bytes: KEY_BYTES,
        value_bytes: VALUE_BYTES,
        threads: CLIENTS,
    };
    peer.fill()?;
    let own_dir = place.join("own");
    let own = OWN.start(&options.binary, &own_dir, Protocol::Resp)?;
    load::apply(own.port, &load(Way::Set, Keys::Each(0, OBJECTS)), 0)?;
    let mut bench = Bench { options, own, own_dir, peer, done: 0 };
    MIXES
        .iter()
        .map(|&(name, percent)| {
            let row = bench.measure(name, percent)?;
            told(&row);
            Ok(row)
        })
        .collect()
}

fn load(way: Way, keys: Keys) -> Load {
    let (value_bytes, connections) = (VALUE_BYTES, CLIENTS);
    Load { protocol: Protocol::Resp, way, keys, value_bytes, version: 0, connections, depth: 1 }
}

impl Bench<'_> {
    fn measure(&mut self, name: &'static str, percent: u64) -> Result<Row> {
        let (mut sides, mut seed, mut hits) = ([Side::default(), Side::default()], 0, (0, 0));
        let measured = Paired::measure(self.options.rounds, |is_peer| {
            seed += 1;
            let us = if is_peer {
                let ran = self.peer.mix(percent, self.options.seconds, seed)?;
                sides[1].take_ran(&ran);
                ran.processor_seconds * 1e6 / ran.operations
            } else {
                let (us, answered) = self.measure_own(percent, seed, &mut sides[0])?;
                hits = (hits.0 + answered.hits, hits.1 + answered.count(Kind::Read));
                us
            };
            self.done += 1;
            let all = MIXES.len() * 2 * usize::try_from(self.options.rounds).expect("64 bits");
            (self.options.progress)(self.done, all, name);
            Ok(us)
        })?;
        let live = precise_u64(OBJECTS) * precise(KEY_BYTES + VALUE_BYTES);
        let space = [&self.own_dir, &self.peer.dir].map(|dir| Ok(precise_u64(bytes_of(dir)?) / live));
        let [own_space, peer_space]: [Result<f64>; 2] = space;
        Ok(Row {
            cost: measured.into_row(name, RATIO_MAX),
            rates: sides.each_ref().map(|side| median(&side.rates)),
            reads_us: sides.each_ref().map(|side| side.reads_us.each_ref().map(|figures| middle(figures))),
            writes_us: sides.each_ref().map(|side| side.writes_us.each_ref().map(|figures| middle(figures))),
            write_amplification: (percent < 100)
                .then(|| sides.each_ref().map(|side| side.bytes_written / side.bytes_put)),
            space: [own_space?, peer_space?],
            hit_ratio: (percent > 0).then(|| precise_u64(hits.0) / precise(hits.1.max(1))),
        })
    }

    /// Microseconds of processor an operation.
    fn measure_own(&self, percent: u64, seed: u64, side: &mut Side) -> Result<(f64, Answered)> {
        let keys = Keys::Any(OBJECTS, Duration::from_secs(self.options.seconds.into()));
        let [written, stored] = servers::bytes_written_and_stored(&self.own_dir)?;
        let seconds = self.own.process.seconds_with_ended_threads()?;
        let mut answered = load::apply(self.own.port, &load(Way::Mix(percent), keys), seed)?;
        let us = (self.own.process.seconds_with_ended_threads()? - seconds) * 1e6;
        ensure!(answered.requests > 0, "nothing was answered");
        ensure!(answered.wrong == 0, "{} values that were read are wrong", answered.wrong);
        let [written_since, stored_since] = servers::bytes_written_and_stored(&self.own_dir)?;
        side.bytes_written += written_since - written;
        side.bytes_put += stored_since - stored;
        side.rates.push(precise_u64(answered.requests) / f64::from(self.options.seconds));
        for (to, kind) in [(&mut side.reads_us, Kind::Read), (&mut side.writes_us, Kind::Store)] {
            to.iter_mut().zip(answered.percentiles_us(kind)).for_each(|(figures, us)| figures.extend(us));
        }
        Ok((us / precise_u64(answered.requests), answered))
    }
}

impl Side {
    fn take_ran(&mut self, ran: &Ran) {
        self.rates.push(ran.operations / ran.seconds);
        for (to, from) in [(&mut self.reads_us, ran.reads_us), (&mut self.writes_us, ran.writes_us)] {
            to.iter_mut().zip(from).for_each(|(figures, us)| figures.push(us));
        }
        self.bytes_written += ran.bytes_blobs;
        self.bytes_put += ran.bytes_put;
    }
}

/// Median of figures; 0 when there are none.
fn middle(figures: &[f64]) -> f64 {
    if figures.is_empty() { 0.0 } else { median(figures) }
}

/// Bytes that files of a directory take, holes left out.
fn bytes_of(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let entry = entry?;
        let about = entry.metadata()?;
        bytes += if about.is_dir() { bytes_of(&entry.path())? } else { about.blocks() * 512 };
    }
    Ok(bytes)
}
