//! Experiment 12: a database (section 5.4), on the wall clock.

use super::draft::{Cell, Draft};
use super::measurement::{Metric, P95, Value};
use super::scheme::Scheme;
use super::setting::Setting;
use super::wall_load::{self, Open, Watch};
use super::{Conditions, Experiment};
use crate::characterise::plot::Plot;
use crate::wall::array::ServedArray;
use crate::wall::block_device::BlockDevice;
use crate::wall::database::{self, Database};
use crate::wall::file_system::FileSystem;
use crate::wall::program::Program;
use crate::wall::sysbench;
use crate::wall::{Folder, Host};
use anyhow::{Result, ensure};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "exp12",
    title: "Exp#12: a database, sysbench oltp_write_only on MariaDB (wall clock)",
    statement: "With one open segment and chunks of 4 KiB, Zone Append in groups has more transactions than Zone Write; in \
                all other settings all schemes are similar.",
    run_ms: 45_000,
    cells,
    alike: Cell::clone,
    measure,
    judge,
};

/// The paper has 1,000 warehouses of TPC-C, about 100 GiB.
const TABLES: u32 = 4;
const ROWS: u32 = 100_000;
/// As in the paper.
const CONNECTIONS: u32 = 32;
/// The paper runs for an hour.
const SECONDS: u64 = 15;
const SCRIPT: &str = "oltp_write_only";

/// Transactions that ended.
pub const TRANSACTIONS: Metric = Metric { name: "transactions_per_s", unit: "1/s" };

/// Lists the programs that are needed.
pub fn programs() -> Vec<Program> {
    [wall_load::programs(), database::PROGRAMS.to_vec(), vec![sysbench::PROGRAM]].concat()
}

fn load() -> Setting {
    let usual = Setting::paper(0, 0);
    let workload = Some("sysbench-oltp");
    Setting { request_kib: None, queue_depth: None, connections: Some(CONNECTIONS), workload, ..usual }
}

fn cell(scheme: Scheme, open: Open) -> Cell {
    wall_load::cell(scheme, open, &load())
}

fn cells() -> Vec<Cell> {
    wall_load::cells(&load())
}

fn measure(cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    let host = wall_load::host(conditions)?;
    let folder = host.folder("database")?;
    let array = ServedArray::start(host, folder.path(), cell)?;
    let device = BlockDevice::attach(host, folder.path(), &array)?;
    let file_system = FileSystem::make(host, folder.path(), &device)?;
    let database = Database::start(host, folder.path(), file_system.path())?;
    let (rows, seconds) = (conditions.scaled(ROWS.into()), conditions.scaled(SECONDS));
    oltp(host, &folder, &database, "prepare", (rows, seconds), conditions.seed)?;
    let watch = Watch::start(&array)?;
    let report = oltp(host, &folder, &database, "run", (rows, seconds), conditions.seed)?;
    let busy = watch.values()?;
    let transactions = sysbench::per_second(&report, "transactions")?;
    ensure!(transactions > 0.0, "the database ended no transaction\n{report}");
    let p95_us = sysbench::number(&report, "95th percentile")? * 1000.0;
    let values = [Value { metric: TRANSACTIONS, value: transactions }, Value { metric: P95, value: p95_us }];
    Ok([values, busy].concat())
}

/// `prepare` or `run`, with tables of so many rows for so many seconds.
fn oltp(
    host: &Host,
    folder: &Folder,
    database: &Database,
    step: &str,
    (rows, seconds): (u64, u64),
    seed: u64,
) -> Result<String> {
    let threads = if step == "prepare" { TABLES } else { CONNECTIONS };
    let arguments = [
        SCRIPT.to_owned(),
        String::from("--db-driver=mysql"),
        format!("--mysql-socket={}", database.socket().display()),
        String::from("--mysql-user=root"),
        format!("--mysql-db={}", database::NAME),
        format!("--tables={TABLES}"),
        format!("--table-size={rows}"),
        format!("--threads={threads}"),
        format!("--time={seconds}"),
        format!("--rand-seed={seed}"),
        step.to_owned(),
    ];
    sysbench::run(host, folder.path(), &arguments, seconds)
}

fn judge(draft: &mut Draft) {
    use Scheme::{ZapRaid, ZoneAppendOnly, ZoneWriteOnly};
    let mut compared = vec![("exp12-gain-4k", Open::One(4), ZoneWriteOnly)];
    for open in [Open::One(16), Open::Four(1, 3), Open::Four(2, 2)] {
        compared.extend([ZoneWriteOnly, ZoneAppendOnly].map(|versus| ("exp12-similar", open, versus)));
    }
    for (id, open, versus) in compared {
        let of = (&cell(ZapRaid, open), &cell(versus, open));
        draft.ratio(id, of, TRANSACTIONS, versus.name());
    }
    let figures = [
        ("exp12-transactions", "Transactions of a database on ext4", "transactions per second", TRANSACTIONS),
        ("exp12-p95", "95th percentile of transactions", "95th percentile (us)", P95),
    ];
    for (id, title, y_title, metric) in figures {
        let series = wall_load::bars_of_schemes(draft, &load(), metric);
        draft.plot(Plot { id, title, caption: CAPTION, y_title, ..wall_load::plot(series) });
    }
}

const CAPTION: &str = "32 connections that write rows of four tables in MariaDB, on this machine. adaptive is told no \
                       setting: its one number stands beside each.";
