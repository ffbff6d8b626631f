//! Our cache beside memcached with a file for its values (extstore) and beside Redis: processor time of a request, and what a kill leaves.
//!
//! ```text
//! one thread of ours --RESP or memcached's text over TCP--> zoneweave cache, emulated drives in memory
//!                                                     \---> memcached -o ext_path, file in memory; redis-server
//! ```
//! Each row is a ratio of medians of one run, whose measurements alternate. Times are those that the kernel accounts to all threads of
//! the server, emulated drives included. Every value that is read is verified.

pub mod cores;
mod db_bench;
pub mod fig5;
mod foyer;
pub mod hits;
mod load;
mod memory;
mod protocol;
mod restart;
pub mod served;
mod servers;

use crate::paired::{Paired, Row as Cost};
use crate::wall::program::{self, Program};
use anyhow::{Result, bail, ensure};
pub use foyer::Foyer;
use load::{Keys, Load, Way};
pub use memory::Memory;
pub use restart::{Found, Restarts};
use serde::Serialize;
use servers::{Drives, Hits, Own, Peer, Served};
use std::path::{Path, PathBuf};
use std::time::Duration;

const PROGRAMS: [Program; 2] = [
    Program { name: "memcached", package: "memcached" },
    Program { name: "redis-server", package: "redis-server" },
];

/// Connections of every row.
const CONNECTIONS: usize = 16;

/// Objects that are asked for after writes.
const ASKED_FOR: u64 = 20_000;

/// Options of a comparison.
pub struct PeersOptions<'a> {
    /// The zoneweave binary.
    pub binary: PathBuf,
    /// Seconds of each measurement.
    pub seconds: u32,
    /// Measurements of each side of a row.
    pub rounds: u32,
    /// The program of `peers/foyer`, where it is asked for.
    pub foyer: Option<PathBuf>,
    /// Told how many measurements are made, of how many, and what the last one was.
    pub progress: &'a dyn Fn(usize, usize, &str),
}

/// The comparison under way.
struct Bench<'a> {
    options: &'a PeersOptions<'a>,
    done: usize,
}

impl Bench<'_> {
    fn step(&mut self, what: &str) {
        self.done += 1;
        let rows: usize = GROUPS.iter().map(|group| group.rows.len()).sum();
        // Each row and the restarts, on both sides.
        let sides = (rows + 1) * 2 + self.options.foyer.as_ref().map_or(0, |_| foyer::STEPS);
        let all = sides * usize::try_from(self.options.rounds).expect("64 bits") + memory::STEPS;
        (self.options.progress)(self.done, all, what);
    }
}

/// Comparison of two servers under one load.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Processor time of requests.
    #[serde(flatten)]
    pub cost: Cost,
    /// Least share of reads that hit, ours and the other side's; of writes, share of the objects that are found afterwards.
    pub hit_ratios: [f64; 2],
    /// Share of flash among our hits; none of writes.
    pub flash_share: Option<f64>,
}

/// All of it.
#[derive(Clone, Debug, Serialize)]
pub struct PeersReport {
    /// Comparisons, in the order they were made.
    pub rows: Vec<Row>,
    /// Kills and restarts.
    pub restarts: Restarts,
    /// Memory that objects take, by server.
    pub memory: Vec<Memory>,
    /// Objects that foyer finds after kills, where it was asked for.
    pub foyer: Vec<Foyer>,
}

impl PeersReport {
    /// True when every bar is met.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.rows.iter().all(|row| row.cost.is_good()) && self.restarts.is_good()
    }
}

/// Rows that share servers and their contents.
struct Group {
    own: Own<'static>,
    peer: Peer,
    objects: u64,
    value_bytes: usize,
    rows: &'static [RowPlan],
}

struct RowPlan {
    name: &'static str,
    way: Way,
    depth: usize,
    ratio_max: f64,
}

const fn row(name: &'static str, way: Way, depth: usize, ratio_max: f64) -> RowPlan {
    RowPlan { name, way, depth, ratio_max }
}

const GROUPS: [Group; 3] = [
    Group {
        own: Own { drives: Drives::Emulated, flash: "2GiB", memory: "64MiB", object_mean: "1056" },
        peer: Peer::Extstore(160),
        objects: 400_000,
        value_bytes: 1024,
        rows: &[
            row("GET of 1 KiB from flash, depth 16, to extstore", Way::Get, 16, 0.5),
            row("GET of 1 KiB from flash, depth 1, to extstore", Way::Get, 1, 0.9),
            row("SET of 1 KiB, depth 16, to extstore", Way::Set, 16, 1.0),
            row("SET of 1 KiB, depth 1, to extstore", Way::Set, 1, 1.0),
        ],
    },
    Group {
        own: Own { drives: Drives::Emulated, flash: "2GiB", memory: "64MiB", object_mean: "102432" },
        peer: Peer::Extstore(400),
        objects: 6_000,
        value_bytes: 100 << 10,
        rows: &[
            row("GET of 100 KiB from flash, depth 1, to extstore", Way::Get, 1, 1.0),
            row("SET of 100 KiB, depth 1, to extstore", Way::Set, 1, 0.9),
        ],
    },
    Group {
        own: Own { drives: Drives::Emulated, flash: "1GiB", memory: "256MiB", object_mean: "132" },
        peer: Peer::Redis,
        objects: 100_000,
        value_bytes: 100,
        rows: &[
            row("GET of 100 B from memory, depth 16, to redis", Way::Get, 16, 1.3),
            row("GET of 100 B from memory, depth 1, to redis", Way::Get, 1, 1.1),
        ],
    },
];

/// Elements of `all` in whose names `only` is.
fn named<'a, T>(all: &'a [T], name: impl Fn(&T) -> &str, (what, only): (&str, &str)) -> Result<Vec<&'a T>> {
    let found: Vec<&T> = all.iter().filter(|one| name(one).contains(only)).collect();
    let names = || all.iter().map(&name).collect::<Vec<&str>>().join("; ");
    ensure!(!found.is_empty(), "no {what} has {only:?} in its name: {}", names());
    Ok(found)
}

/// Runs the comparison; `told` is told each row as it is there.
///
/// # Errors
/// When memcached or redis-server is missing, or a server or a load fails.
pub fn run(options: &PeersOptions<'_>, mut told: impl FnMut(&Row)) -> Result<PeersReport> {
    ensure!(options.rounds > 0 && options.seconds > 0, "--rounds and --seconds must be at least 1");
    if let Some(missing) = program::missing(&PROGRAMS) {
        bail!("the comparison needs {missing}");
    }
    let (mut bench, mut rows) = (Bench { options, done: 0 }, Vec::new());
    for group in &GROUPS {
        group.run(&mut bench, |row| {
            told(&row);
            rows.push(row);
        })?;
    }
    let restarts = restart::run(&mut bench)?;
    let memory = memory::run(&mut bench)?;
    let foyer = match &options.foyer {
        Some(program) => foyer::run(&mut bench, program)?,
        None => Vec::new(),
    };
    Ok(PeersReport { rows, restarts, memory, foyer })
}

impl Group {
    fn run(&self, bench: &mut Bench<'_>, mut done: impl FnMut(Row)) -> Result<()> {
        let (_directory, own_dir, peer_dir) = servers::directories()?;
        let own = self.own.start(&bench.options.binary, &own_dir, self.peer.protocol())?;
        let peer = self.peer.start(&peer_dir)?;
        for served in [&own, &peer] {
            // One after the other: extstore drops what comes faster than it writes.
            let all = Keys::Each(0, self.objects);
            load::apply(served.port, &Load { connections: 1, ..self.load(Way::Set, all, 1) }, 0)?;
        }
        for plan in self.rows {
            done(self.measure(bench, plan, (&own, &own_dir), &peer)?);
        }
        Ok(())
    }

    fn load(&self, way: Way, keys: Keys, depth: usize) -> Load {
        let (protocol, value_bytes) = (self.peer.protocol(), self.value_bytes);
        Load { protocol, way, keys, value_bytes, version: 0, connections: CONNECTIONS, depth }
    }

    fn measure(
        &self,
        bench: &mut Bench<'_>,
        plan: &RowPlan,
        (own, own_dir): (&Served, &Path),
        peer: &Served,
    ) -> Result<Row> {
        let options = bench.options;
        let keys = Keys::Any(self.objects, Duration::from_secs(options.seconds.into()));
        let load = self.load(plan.way, keys, plan.depth);
        let before = Hits::now(own_dir)?;
        let (mut seed, mut hit_ratios) = (0, [1.0_f64; 2]);
        let measured = Paired::measure(options.rounds, |is_peer| {
            let served = if is_peer { peer } else { own };
            seed += 1;
            let cost = served.measure(&load, seed)?;
            if plan.way == Way::Get {
                let least = &mut hit_ratios[usize::from(is_peer)];
                *least = least.min(cost.answered.hit_ratio());
            }
            bench.step(plan.name);
            Ok(cost.us_per_request)
        })?;
        let reads = plan.way == Way::Get;
        let flash_share = Hits::now(own_dir)?.flash_share_since(&before);
        if !reads {
            let some = self.load(Way::Get, Keys::Each(0, self.objects.min(ASKED_FOR)), 1);
            for (served, ratio) in [own, peer].into_iter().zip(&mut hit_ratios) {
                *ratio = load::apply(served.port, &some, 0)?.hit_ratio();
            }
        }
        Ok(Row {
            cost: measured.into_row(plan.name, plan.ratio_max),
            hit_ratios,
            flash_share: reads.then_some(flash_share),
        })
    }
}
