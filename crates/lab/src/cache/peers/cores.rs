//! More cores than one: what a request costs in all, and what it costs the thread that is busiest.
//!
//! The busiest thread is the bound of what a server can do where there are cores for all its threads, and for its clients. So the gain that is
//! told is the bound with one core over that with more: it is measured as processor time, and holds on machines that have too few cores to
//! show it. Requests a second are told beside it, and are what this machine shows.

use super::load::{self, Keys, Load, Way};
use super::protocol::Protocol;
use super::servers::{Drives, Own, Served};
use crate::paired::median;
use crate::precise::precise_u64;
use crate::wall::process::WorkDirectory;
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Least gain of the second core and the second shard that is good, for the first of the loads.
const GAIN_MIN: f64 = 1.5;
const CONNECTIONS: usize = 16;
/// Shards that an emulated drive has active zones for.
const SHARDS_MAX: usize = 2;
const OWN: Own<'static> =
    Own { drives: Drives::Emulated, flash: "1GiB", memory: "512MiB", object_mean: "132" };

struct Plan {
    name: &'static str,
    way: Way,
    value_bytes: usize,
    objects: u64,
    depth: usize,
    gain_min: Option<f64>,
}

const PLANS: [Plan; 5] = [
    plan("GET of 100 B from memory, depth 16", Way::Get, 100, 16, Some(GAIN_MIN)),
    plan("GET of 100 B from memory, depth 1", Way::Get, 100, 1, None),
    plan("SET of 100 B, depth 16", Way::Set, 100, 16, None),
    plan("GET of 10 KiB from memory, depth 4", Way::Get, 10 << 10, 4, None),
    plan("SET of 10 KiB, depth 4", Way::Set, 10 << 10, 4, None),
];

const fn plan(name: &'static str, way: Way, value_bytes: usize, depth: usize, gain_min: Option<f64>) -> Plan {
    let objects = if value_bytes > 1000 { 5_000 } else { 100_000 };
    Plan { name, way, value_bytes, objects, depth, gain_min }
}

/// Options of the measurement.
pub struct CoresOptions<'a> {
    /// The zoneweave binary.
    pub binary: PathBuf,
    /// Most cores.
    pub cores_max: usize,
    /// Seconds of each measurement.
    pub seconds: u32,
    /// Measurements of each number of cores.
    pub rounds: u32,
    /// Only loads in whose names this is; all, if it is empty.
    pub only: String,
    /// Told how many measurements are made, of how many, and what the last one was.
    pub progress: &'a dyn Fn(usize, usize, &str),
}

/// A load with a number of cores: medians.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The load.
    pub name: &'static str,
    /// `--cores`.
    pub cores: usize,
    /// `--shards`.
    pub shards: usize,
    /// Microseconds of processor time for a request, of all threads.
    pub us_per_request: f64,
    /// The same of the busiest thread.
    pub busiest_us_per_request: f64,
    /// Busiest thread with one core, over that with so many.
    pub gain: f64,
    /// Least gain that is good, where there is one.
    pub gain_min: Option<f64>,
    /// Requests a second, on this machine.
    pub requests_per_second: f64,
}

impl Row {
    /// True when the bar is met.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.gain_min.is_none_or(|least| self.gain >= least)
    }
}

/// Shards and cores of the servers that are compared: for each number of cores one shard, and as many as an emulated drive's active
/// zones allow.
fn kinds(cores_max: usize) -> Vec<(usize, usize)> {
    (1..=cores_max).flat_map(|cores| (1..=cores.min(SHARDS_MAX)).map(move |shards| (shards, cores))).collect()
}

/// Measurements of one number of shards and cores.
#[derive(Default)]
struct Side {
    all_us: Vec<f64>,
    busiest_us: Vec<f64>,
    rates: Vec<f64>,
}

/// Measures; `told` is told each row as it is there.
///
/// # Errors
/// When a server or a load fails.
pub fn run(options: &CoresOptions<'_>, mut told: impl FnMut(&Row)) -> Result<Vec<Row>> {
    let given = options.rounds > 0 && options.seconds > 0 && options.cores_max > 1;
    ensure!(given, "--rounds and --seconds must be at least 1, --cores-max at least 2");
    let mut rows = Vec::new();
    let rounds = usize::try_from(options.rounds).expect("64 bits");
    let kinds = kinds(options.cores_max);
    let plans = super::named(&PLANS, |plan| plan.name, ("load", &options.only))?;
    let all = plans.len() * kinds.len() * rounds;
    let mut done = 0;
    for plan in plans {
        let directory = WorkDirectory::new("cache-cores")?;
        let start = |(shards, cores): &(usize, usize)| {
            let dir = directory.join(&format!("cores-{cores}-{shards}"));
            let more = ["--cores", &cores.to_string(), "--shards", &shards.to_string()];
            OWN.start_with(&options.binary, &dir, Protocol::Resp, &more)
        };
        let servers: Vec<Served> = kinds.iter().map(start).collect::<Result<_>>()?;
        for server in &servers {
            load::apply(server.port, &plan.load(Way::Set, Keys::Each(0, plan.objects)), 0)?;
        }
        let mut sides: Vec<Side> = servers.iter().map(|_| Side::default()).collect();
        for round in 0..options.rounds {
            for (server, side) in servers.iter().zip(&mut sides) {
                plan.measure(options, server, (side, u64::from(round)))?;
                done += 1;
                (options.progress)(done, all, plan.name);
            }
        }
        let alone = median(&sides[0].busiest_us);
        for (side, (shards, cores)) in sides.iter().zip(kinds.iter().copied()) {
            let busiest_us_per_request = median(&side.busiest_us);
            let row = Row {
                name: plan.name,
                cores,
                shards,
                us_per_request: median(&side.all_us),
                busiest_us_per_request,
                gain: alone / busiest_us_per_request,
                gain_min: plan.gain_min.filter(|_| (shards, cores) == (2, 2)),
                requests_per_second: median(&side.rates),
            };
            told(&row);
            rows.push(row);
        }
    }
    Ok(rows)
}

impl Plan {
    fn load(&self, way: Way, keys: Keys) -> Load {
        let (protocol, value_bytes) = (Protocol::Resp, self.value_bytes);
        Load { protocol, way, keys, value_bytes, version: 0, connections: CONNECTIONS, depth: self.depth }
    }

    fn measure(
        &self,
        options: &CoresOptions<'_>,
        server: &Served,
        (side, seed): (&mut Side, u64),
    ) -> Result<()> {
        let time = Duration::from_secs(options.seconds.into());
        let load = self.load(self.way, Keys::Any(self.objects, time));
        let before = threads_of(server.process.id())?;
        let began = Instant::now();
        let answered = load::apply(server.port, &load, seed + 1)?;
        let seconds = began.elapsed().as_secs_f64();
        ensure!(answered.requests > 0 && answered.wrong == 0, "{} values are wrong", answered.wrong);
        let after = threads_of(server.process.id())?;
        let spent = |(thread, ns): (&u32, &u64)| ns - before.get(thread).copied().unwrap_or(0);
        let spent: Vec<u64> = after.iter().map(spent).collect();
        let us_per_request = |ns: u64| precise_u64(ns) / 1e3 / precise_u64(answered.requests);
        side.all_us.push(us_per_request(spent.iter().sum()));
        side.busiest_us.push(us_per_request(spent.into_iter().max().unwrap_or(0)));
        side.rates.push(precise_u64(answered.requests) / seconds);
        Ok(())
    }
}

/// Nanoseconds of processor time of each thread of a process.
fn threads_of(process: u32) -> Result<BTreeMap<u32, u64>> {
    let mut threads = BTreeMap::new();
    for entry in std::fs::read_dir(format!("/proc/{process}/task")).context("threads of the server")? {
        let entry = entry?;
        let Some(number) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // A thread may end between the list and the look.
        let Ok(text) = std::fs::read_to_string(entry.path().join("schedstat")) else { continue };
        let ns = text.split(' ').next().and_then(|first| first.parse().ok());
        threads.insert(number, ns.with_context(|| format!("schedstat says {text:?}"))?);
    }
    Ok(threads)
}
