//! `invalidate`: what it takes to change small objects that lie on flash. Of each hundred changes so many hide an object, every other one a
//! store over it and a removal; the rest are stores of objects that were never there. No object is hidden twice.

use super::report::{Bar, Bound, Column, Report, Row, column};
use super::rig::{Answer, CacheRig, Drives, Load, Measured, Objects};
use super::{Cell, Run, profile};
use crate::precise::precise_u64;
use anyhow::{Result, bail, ensure};
use base::time::Instant;
use base::units::BLOCK_BYTES_U64;
use cache::Options;
use cache::config::Invalidate;
use cache::request::{Op, Outcome};

const OBJECTS: Objects = Objects { key_bytes: 16, value_bytes: 100 };
/// Zones of 16 MiB.
const ZONES: u32 = 64;
const ZONE_BLOCKS: u32 = 4096;
/// Objects on flash, and changes, at scale 1.
const STORED: u64 = 200_000;
const CHANGES: u64 = 20_000;
const IN_FLIGHT: [usize; 2] = [1, 64];
const PERCENT: [u64; 5] = [0, 25, 50, 75, 100];
/// Kinds of changes.
const OVER: usize = 0;
const REMOVES: usize = 1;
const NEW: usize = 2;

const COLUMNS: &[Column] = &[
    column("over_p50", "us", 1),
    column("over_p99", "us", 1),
    column("remove_p50", "us", 1),
    column("remove_p99", "us", 1),
    column("new_p50", "us", 1),
    column("new_p99", "us", 1),
    column("data", "B/change", 0),
    column("journal", "B/change", 0),
    column("entries", "/block", 1),
    column("zones", "journal", 0),
];

pub(super) fn run(run: &Run) -> Result<Report> {
    let (mut rows, mut bars) = (Vec::new(), Vec::new());
    for name in ["zn540-1tb", "zn540-4tb"] {
        for in_flight in IN_FLIGHT {
            let mut slowest = f64::NAN;
            for percent in PERCENT {
                let setting = format!("{name}, {in_flight} in flight, {percent} %");
                let row = row(setting, &measure(run, name, in_flight, (percent, Invalidate::Media))?)?;
                slowest = slowest.max(row.values[0].unwrap_or(f64::NAN));
                rows.push(row);
            }
            for percent in PERCENT.into_iter().filter(|percent| *percent > 0) {
                let setting = format!("{name}, {in_flight} in flight, {percent} %, process");
                rows.push(row(setting, &measure(run, name, in_flight, (percent, Invalidate::Process))?)?);
            }
            let (what, most) =
                if in_flight == 1 { ("a lone overwrite", 15.0) } else { ("overwrites, 64 in flight", 30.0) };
            bars.push(Bar {
                name: format!("{name}, highest P50 of {what}"),
                value: slowest,
                bound: Bound::AtMost(most),
                unit: "us",
            });
        }
    }
    let scale = format!(
        "{} objects of {} B in {ZONES} zones of 16 MiB, {} changes",
        run.scaled(STORED, 1_000),
        OBJECTS.bytes(),
        run.scaled(CHANGES, 400)
    );
    Ok(Report { cell: Cell::Invalidate, seed: run.seed, scale, columns: COLUMNS, rows, bars })
}

fn measure(
    run: &Run,
    name: &str,
    in_flight: usize,
    (percent, invalidate): (u64, Invalidate),
) -> Result<Measured> {
    let drives = Drives::new(&profile(name), (1, ZONES, ZONE_BLOCKS), run.seed);
    let mut rig = CacheRig::new(&drives, Options { invalidate, ..OBJECTS.options() })?;
    let stored = run.scaled(STORED, 1_000);
    rig.fill(OBJECTS, 0..stored)?;
    rig.settle()?;
    let mut changes = Changes {
        left: run.scaled(CHANGES, 400),
        percent,
        stored,
        hidden: 0,
        carry: 0,
        kinds: vec![NEW; in_flight],
    };
    let measured = rig.run(&mut changes, in_flight)?;
    rig.settle()?;
    Ok(Measured { after: rig.volume.status(), ..measured })
}

fn row(setting: String, measured: &Measured) -> Result<Row> {
    let all = precise_u64(measured.all().count());
    let bytes = |of: fn(&cache::Status) -> u64| measured.counted(of) * precise_u64(BLOCK_BYTES_U64) / all;
    let entries = measured.counted(|status| status.counters.entries);
    let blocks = measured.counted(|status| status.counters.blocks_journal);
    let hiding = measured.times[OVER].count() + measured.times[REMOVES].count();
    ensure!(entries >= precise_u64(hiding) * 0.99, "{hiding} objects were hidden by {entries} entries");
    let mut values = Vec::new();
    for times in &measured.times {
        values.extend([times.percentile_us(50.0), times.percentile_us(99.0)]);
    }
    values.extend([
        Some(bytes(|status| status.counters.blocks_data + status.counters.blocks_directory)),
        Some(bytes(|status| status.counters.blocks_journal)),
        (blocks > 0.0).then_some(entries / blocks),
        Some(crate::precise::precise(measured.after.zones.journal)),
    ]);
    Ok(Row { setting, values })
}

struct Changes {
    left: u64,
    /// Changes that hide, of a hundred.
    percent: u64,
    stored: u64,
    /// Objects that were hidden.
    hidden: u64,
    /// Hundredths of a change that hides.
    carry: u64,
    /// Kind of the change that each connection waits for.
    kinds: Vec<usize>,
}

impl Load for Changes {
    fn next(&mut self, _now: Instant, connection: usize) -> Option<Op> {
        self.left = self.left.checked_sub(1)?;
        self.carry += self.percent;
        let hides = self.carry >= 100;
        if !hides {
            self.kinds[connection] = NEW;
            return Some(OBJECTS.set(self.stored + self.left));
        }
        self.carry -= 100;
        self.hidden += 1;
        // From one to the next it is far, and no two are the same.
        let number = self.hidden * 7_919 % self.stored;
        self.kinds[connection] = if self.hidden.is_multiple_of(2) { REMOVES } else { OVER };
        Some(if self.hidden.is_multiple_of(2) { OBJECTS.remove(number) } else { OBJECTS.set(number) })
    }

    fn answered(&mut self, _now: Instant, connection: usize, outcome: Outcome) -> Result<Answer> {
        match outcome {
            Outcome::Stored => {}
            // A tag mate may have taken it along.
            Outcome::Removed(true) => {}
            Outcome::Removed(false) => return Ok(Answer::Passes),
            _ => bail!("a change was answered with {outcome:?}"),
        }
        Ok(Answer::Counts(self.kinds[connection]))
    }
}
