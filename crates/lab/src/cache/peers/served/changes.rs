//! `invalidate --wall`: what it takes a server to change small objects that lie on flash, beside stores of new ones.

use super::{Figures, ServedOptions};
use crate::cache::peers::load::{self, Keys, Kind, Load, Way};
use crate::cache::peers::protocol::Protocol;
use crate::cache::peers::servers::{Drives, Own, number, status};
use crate::cache::timed::Cell;
use crate::cache::timed::report::{Column, Report, column};
use crate::precise::precise_u64;
use crate::wall::process::WorkDirectory;
use anyhow::Result;
use base::units::BLOCK_BYTES_U64;

const OWN: Own<'static> =
    Own { drives: Drives::Emulated, flash: "1GiB", memory: "96MiB", object_mean: "132" };
const VALUE_BYTES: usize = 100;
/// Objects that are stored for each measurement, which hides each of them once at most.
const STORED: u64 = 200_000;
/// Keys from the first of a measurement to that of the next one, which has room for new ones.
const KEYS: u64 = 1 << 32;
/// Changes that hide, of a hundred.
const PERCENT: [u64; 5] = [0, 25, 50, 75, 100];
/// Connections with one request under way on each.
const CONNECTIONS: [usize; 2] = [1, 64];
const ENTRIES_IN: [&str; 2] = ["media", "process"];

const COLUMNS: &[Column] = &[
    column("changes", "1/s", 0),
    column("processor", "us", 2),
    column("over_p50", "us", 0),
    column("over_p99", "us", 0),
    column("remove_p50", "us", 0),
    column("remove_p99", "us", 0),
    column("new_p50", "us", 0),
    column("new_p99", "us", 0),
    column("journal", "B/change", 0),
];

pub(super) fn run(options: &ServedOptions<'_>) -> Result<Report> {
    let mut settings = Vec::new();
    for entries in ENTRIES_IN {
        for connections in CONNECTIONS {
            let name = |percent| format!("{entries}, {connections} in flight, {percent} %");
            settings.extend(PERCENT.map(|percent| (name(percent), (entries, connections, percent))));
        }
    }
    options.report(Cell::InvalidateWall, COLUMNS, settings, |setting, told| {
        measure_setting(options, *setting, told)
    })
}

fn measure_setting(
    options: &ServedOptions<'_>,
    (entries, connections, percent): (&str, usize, u64),
    told: &mut dyn FnMut(),
) -> Result<Vec<Option<f64>>> {
    let directory = WorkDirectory::new("cache-invalidate")?;
    let dir = directory.join("own");
    let server = OWN.start_with(&options.binary, &dir, Protocol::Resp, &["--invalidate", entries])?;
    let load = |keys, connections, depth| Load {
        protocol: Protocol::Resp,
        way: Way::Set,
        keys,
        value_bytes: VALUE_BYTES,
        version: 0,
        connections,
        depth,
    };
    let mut figures = Figures::new(COLUMNS.len());
    for round in 0..u64::from(options.rounds) {
        let first = round * KEYS;
        load::apply(server.port, &load(Keys::Each(first, first + STORED), 16, 16), 0)?;
        let journal = || number(&status(&dir)?, "/blocks_written/journal").map(precise_u64);
        let before = journal()?;
        let keys = Keys::Changes { first, count: STORED, percent, time: options.time() };
        let mut cost = server.measure(&load(keys, connections, 1), round + 1)?;
        let changes = precise_u64(cost.answered.requests);
        let journal = (journal()? - before) * precise_u64(BLOCK_BYTES_U64) / changes;
        let mut of_round = vec![Some(cost.requests_per_second), Some(cost.us_per_request)];
        for kind in [Kind::Over, Kind::Remove, Kind::Store] {
            of_round.extend(cost.answered.percentiles_us(kind));
        }
        of_round.push(Some(journal));
        figures.push(of_round);
        told();
    }
    Ok(figures.medians())
}
