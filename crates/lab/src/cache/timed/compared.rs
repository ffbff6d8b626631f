//! `ttl` and `tenants`: settings that a seed draws, each run in several ways; the rows are means over settings.

use super::report::{Column, Report, Row, column};
use super::{Cell, Run};
use crate::cache::rig::mean;
use crate::cache::{tenants, ttl};
use anyhow::Result;

/// Settings of a seed at scale 1: those of seed 1 are what the cells draw by themselves.
const SETTINGS: u64 = 12;

const OF_TTL: &[Column] = &[column("hits", "", 3), column("expired", "", 3), column("written", "B/B", 3)];
const OF_TENANTS: &[Column] = &[column("hits", "", 3)];

pub(super) fn ttl(run: &Run) -> Result<Report> {
    let drawn = |seed| ttl::compare(ttl::Setting::draw(seed));
    let all = draw(run, drawn)?;
    let row = |setting: &str, of: fn(&ttl::Compared) -> &ttl::Outcomes| {
        let means = [
            mean(&all, |compared| of(compared).hit_ratio),
            mean(&all, |compared| of(compared).expired_share),
            mean(&all, |compared| of(compared).write_amplification),
        ];
        Row { setting: setting.to_owned(), values: means.map(Some).to_vec() }
    };
    let rows = vec![row("mixed", |compared| &compared.mixed), row("grouped", |compared| &compared.grouped)];
    Ok(report(Cell::Ttl, run, OF_TTL, rows))
}

pub(super) fn tenants(run: &Run) -> Result<Report> {
    let all = draw(run, |seed| tenants::compare(tenants::Setting::draw(seed)))?;
    let row = |setting: &str, of: fn(&tenants::Compared) -> f64| Row {
        setting: setting.to_owned(),
        values: vec![Some(mean(&all, of))],
    };
    let rows = vec![
        row("alone", |compared| compared.alone),
        row("flooded", |compared| compared.flooded),
        row("with a share", |compared| compared.shared),
    ];
    Ok(report(Cell::Tenants, run, OF_TENANTS, rows))
}

fn count(run: &Run) -> u64 {
    run.scaled(SETTINGS, 1)
}

/// Settings of the seeds that follow those of the run before.
fn draw<C>(run: &Run, compare: impl Fn(u64) -> Result<C>) -> Result<Vec<C>> {
    let first = run.seed.wrapping_sub(1).wrapping_mul(count(run)).wrapping_add(1);
    (0..count(run)).map(|more| compare(first.wrapping_add(more))).collect()
}

fn report(cell: Cell, run: &Run, columns: &'static [Column], rows: Vec<Row>) -> Report {
    let scale = format!("means over settings that the seed draws: {}", count(run));
    Report { cell, seed: run.seed, scale, columns, rows, bars: Vec::new() }
}
