//! Experiment 11: a file system (section 5.4), on the wall clock.

use super::draft::{Cell, Draft};
use super::measurement::{Metric, Value, WRITE_THROUGHPUT};
use super::scheme::Scheme;
use super::setting::Setting;
use super::wall_load::{self, Open, Watch};
use super::write_load;
use super::{Conditions, Experiment};
use crate::characterise::plot::{Plot, Series};
use crate::wall::Host;
use crate::wall::array::ServedArray;
use crate::wall::block_device::BlockDevice;
use crate::wall::file_system::FileSystem;
use crate::wall::program::{self, Program, command};
use crate::wall::sysbench;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::time::Duration;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "exp11",
    title: "Exp#11: a file system, sysbench fileio on ext4 (wall clock)",
    statement: "With one open segment, Zone Append in groups writes more than Zone Write, by far with chunks of 4 KiB; with \
                (1,3) more than Zone Append alone; with (2,2) all are similar.",
    run_ms: 25_000,
    cells,
    alike: Cell::clone,
    measure,
    judge,
};

/// The paper has 128 files of 800 MiB.
const FILES: u32 = 16;
const FILES_MIB: u64 = 1024;
/// The paper writes for 10 minutes.
const SECONDS: u64 = 10;
/// fio on the served volume, without file system.
const FIO_SECONDS: u64 = 3;
/// sysbench's own number of requests in flight.
const QUEUE_DEPTH: u32 = 128;
const REQUEST_KIB: u32 = 64;
/// Share of the volume that write_load writes for the model: enough for a number beside others.
const MODEL_SCALE: f64 = 0.5;

/// The array in virtual time: what the modelled drives allow.
const MODELLED: Metric = Metric { name: "modelled_write_throughput_mib_s", unit: "MiB/s" };
/// The served volume under fio, without kernel and file system between.
const SERVED: Metric = Metric { name: "served_write_throughput_mib_s", unit: "MiB/s" };
/// All that is measured here and nowhere else.
#[cfg(test)]
pub const METRICS: [Metric; 2] = [MODELLED, SERVED];

const FIO: Program = Program { name: "fio", package: "fio" };

/// Lists the programs that are needed.
pub fn programs() -> Vec<Program> {
    [wall_load::programs(), vec![sysbench::PROGRAM, FIO]].concat()
}

fn load() -> Setting {
    let usual = Setting::paper(REQUEST_KIB, 0);
    Setting { queue_depth: Some(QUEUE_DEPTH), workload: Some("sysbench-fileio"), ..usual }
}

fn cell(scheme: Scheme, open: Open) -> Cell {
    wall_load::cell(scheme, open, &load())
}

fn cells() -> Vec<Cell> {
    wall_load::cells(&load())
}

/// Writes to the model in virtual time, to an array that is served, and to files on that.
fn measure(cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    let host = wall_load::host(conditions)?;
    let modelled = modelled(cell, conditions)?;
    host.go_on()?;
    let folder = host.folder("files")?;
    let array = ServedArray::start(host, folder.path(), cell)?;
    let served = served(host, &array, conditions)?;
    let device = BlockDevice::attach(host, folder.path(), &array)?;
    // Trims what fio wrote.
    let file_system = FileSystem::make(host, folder.path(), &device)?;
    let seconds = conditions.scaled(SECONDS);
    fileio(host, file_system.path(), "prepare", seconds, conditions.seed)?;
    let watch = Watch::start(&array)?;
    let report = fileio(host, file_system.path(), "run", seconds, conditions.seed)?;
    let [server, machine] = watch.values()?;
    let written = sysbench::number(&report, "written, MiB/s")?;
    ensure!(written > 0.0, "sysbench wrote nothing\n{report}");
    let throughputs = [(WRITE_THROUGHPUT, written), (SERVED, served), (MODELLED, modelled)];
    let throughputs = throughputs.map(|(metric, value)| Value { metric, value });
    Ok([throughputs.as_slice(), &[server, machine]].concat())
}

fn modelled(cell: &Cell, conditions: Conditions) -> Result<f64> {
    let setting = Setting { workload: None, ..cell.setting.clone() };
    let scale = MODEL_SCALE * conditions.scale.min(1.0);
    let values = write_load::measure(&Cell { setting, ..cell.clone() }, Conditions { scale, ..conditions })?;
    let found = values.iter().find(|value| value.metric == WRITE_THROUGHPUT);
    Ok(found.context("a throughput")?.value)
}

/// fio over NBD: the server and its drives, no kernel, no file system.
fn served(host: &Host, array: &ServedArray, conditions: Conditions) -> Result<f64> {
    let seconds = conditions.scaled(FIO_SECONDS);
    let mut fio = command(FIO.name);
    fio.args(["--name=served", "--ioengine=nbd", "--rw=randwrite", "--output-format=json", "--time_based"]);
    fio.arg(format!("--uri=nbd+unix:///zoneweave?socket={}", array.socket().display()));
    fio.arg(format!("--bs={REQUEST_KIB}k")).arg(format!("--iodepth={QUEUE_DEPTH}"));
    fio.arg(format!("--size={FILES_MIB}m")).arg(format!("--runtime={seconds}"));
    fio.arg(format!("--randseed={}", conditions.seed));
    let limit = Duration::from_secs(60 + seconds);
    let text = program::run(host, limit, &mut fio)?;
    // fio 3.33 prints notes before its JSON.
    let start = text.find('{').context("fio printed no JSON")?;
    let report: serde_json::Value = serde_json::from_str(&text[start..]).context("fio's JSON")?;
    let bytes = report["jobs"][0]["write"]["bw_bytes"].as_f64().context("fio's write.bw_bytes")?;
    ensure!(bytes > 0.0, "fio wrote nothing");
    Ok(bytes / f64::from(1 << 20))
}

/// Asynchronous direct writes at random places, and no fsync between: the paper names none.
fn fileio(host: &Host, folder: &Path, step: &str, seconds: u64, seed: u64) -> Result<String> {
    let mut arguments: Vec<String> =
        ["fileio", "--file-test-mode=rndwr", "--file-io-mode=async", "--file-extra-flags=direct"]
            .map(String::from)
            .to_vec();
    arguments.extend([
        format!("--file-num={FILES}"),
        format!("--file-total-size={FILES_MIB}M"),
        format!("--file-block-size={REQUEST_KIB}K"),
        format!("--file-async-backlog={QUEUE_DEPTH}"),
        String::from("--file-fsync-freq=0"),
        format!("--time={seconds}"),
        format!("--rand-seed={seed}"),
        step.to_owned(),
    ]);
    sysbench::run(host, folder, &arguments, seconds)
}

fn judge(draft: &mut Draft) {
    use Scheme::{ZapRaid, ZoneAppendOnly, ZoneWriteOnly};
    let compared = [
        ("exp11-gain-4k", Open::One(4), ZoneWriteOnly),
        ("exp11-gain-16k", Open::One(16), ZoneWriteOnly),
        ("exp11-append-1-3", Open::Four(1, 3), ZoneAppendOnly),
        ("exp11-2-2", Open::Four(2, 2), ZoneWriteOnly),
        ("exp11-2-2", Open::Four(2, 2), ZoneAppendOnly),
    ];
    for (id, open, versus) in compared {
        let of = (&cell(ZapRaid, open), &cell(versus, open));
        draft.ratio(id, of, WRITE_THROUGHPUT, versus.name());
    }
    let series = wall_load::bars_of_schemes(draft, &load(), WRITE_THROUGHPUT);
    draft.plot(plot("exp11-files", "Throughput of files on ext4", FILES_CAPTION, series));
    let levels =
        [("drives, modelled", MODELLED), ("served, fio", SERVED), ("ext4, sysbench", WRITE_THROUGHPUT)];
    for (id, title, scheme) in [
        ("exp11-limit-zapraid", "Where the limit is: zapraid", ZapRaid),
        ("exp11-limit-zone-write", "Where the limit is: zone-write-only", ZoneWriteOnly),
    ] {
        let cells = wall_load::OPEN.map(|open| cell(scheme, open));
        let series = levels.map(|(name, metric)| draft.bars(name, &cells, metric)).to_vec();
        draft.plot(plot(id, title, LIMIT_CAPTION, series));
    }
}

const FILES_CAPTION: &str = "Asynchronous direct writes of 64 KiB by sysbench, on this machine. adaptive is told no \
                             setting: its one number stands beside each.";
const LIMIT_CAPTION: &str = "Random writes of 64 KiB: the modelled drives in virtual time, the served volume under fio, \
                             files on ext4. What is below the first is the host's processors.";

fn plot(id: &'static str, title: &'static str, caption: &'static str, series: Vec<Series>) -> Plot {
    Plot { id, title, caption, y_title: "throughput (MiB/s)", ..wall_load::plot(series) }
}
