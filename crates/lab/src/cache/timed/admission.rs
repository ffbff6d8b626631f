//! `admission`: what goes to flash, and what it is worth: hit ratio over bytes written, of everything, of what comes twice, and of budgets.
//!
//! Clients get objects by their popularity for a day, and store what they miss. The second half of the day is measured. A budget is a part of
//! the bytes that `all` writes in a day.

use super::aside::Aside;
use super::report::{Column, Report, Row, column};
use super::rig::{CacheRig, Drives, Objects};
use super::{Cell, Run, profile};
use crate::cache::rig::Popularity;
use crate::precise::precise_u64;
use anyhow::Result;
use base::time::Nanos;
use base::units::human_bytes;
use cache::admission::Admission;
use cache::{Options, Status};

const OBJECTS: Objects = Objects { key_bytes: 16, value_bytes: 1000 };
/// Zones of 1 MiB.
const ZONES: u32 = 64;
const ZONE_BLOCKS: u64 = 256;
const MEMORY: u64 = 8 << 20;
const CLIENTS: usize = 64;
/// Keys, and gets of a day, at scale 1.
const KEYS: u64 = 300_000;
const GETS: u64 = 1_000_000;
const SKEW: f64 = 0.8;
const DAY: Nanos = Nanos(86_400_000_000_000);
/// Budgets: parts of what `all` writes.
const BUDGETS: [u64; 5] = [2, 3, 5, 10, 20];

const COLUMNS: &[Column] = &[
    column("hits", "", 4),
    column("written", "MiB/day", 1),
    column("of_all", "", 4),
    column("budget", "MiB/day", 1),
    column("of_budget", "", 3),
    column("memory_hits", "", 4),
    column("forgotten", "MiB/day", 1),
];

pub(super) fn run(run: &Run) -> Result<Report> {
    let all = measure(run, Admission::All, None)?;
    let budget = |part: u64| (Admission::Auto, Some(all.written_a_day / part));
    let others = [(Admission::Second, None)].into_iter().chain(BUDGETS.map(budget));
    let mut rows = vec![all.row("all".to_owned(), &all)];
    for ((admission, endurance), part) in others.zip([0].into_iter().chain(BUDGETS)) {
        let outcome = measure(run, admission, endurance)?;
        let name = if part == 0 { admission.to_string() } else { format!("{admission}, 1/{part}") };
        rows.push(outcome.row(name, &all));
    }
    let flash = drives(run).bytes();
    let scale = format!(
        "zn540-1tb of {}, {} of memory, {} keys (Zipf {SKEW}) of {} B, {} gets in a day",
        human_bytes(flash),
        human_bytes(memory(run)),
        run.scaled(KEYS, 1000),
        OBJECTS.bytes(),
        run.scaled(GETS, 1000)
    );
    Ok(Report { cell: Cell::Admission, seed: run.seed, scale, columns: COLUMNS, rows, bars: Vec::new() })
}

fn drives(run: &Run) -> Drives {
    let zone_blocks = u32::try_from(run.scaled(ZONE_BLOCKS, 32)).expect("a u32 of blocks");
    Drives::new(&profile("zn540-1tb"), (1, ZONES, zone_blocks), run.seed)
}

fn memory(run: &Run) -> u64 {
    run.scaled(MEMORY, 1 << 20)
}

struct Outcome {
    hits: f64,
    memory_hits: f64,
    written_a_day: u64,
    forgotten_a_day: u64,
    budget: Option<u64>,
}

fn measure(run: &Run, admission: Admission, endurance: Option<u64>) -> Result<Outcome> {
    let options = Options {
        memory_bytes: memory(run),
        object_mean: OBJECTS.bytes(),
        admission,
        endurance,
        ..Options::default()
    };
    let mut rig = CacheRig::new(&drives(run), options)?;
    let half = run.scaled(GETS, 1000) / 2;
    let popularity = Popularity::new(usize::try_from(run.scaled(KEYS, 1000))?, SKEW);
    let think = Nanos(DAY.0 / 2 / (half / CLIENTS as u64));
    let mut aside = Aside::new(OBJECTS, popularity, (CLIENTS, think), run.seed);
    aside.begin(half);
    rig.run(&mut aside, CLIENTS)?;
    aside.begin(half);
    let measured = rig.run(&mut aside, CLIENTS)?;
    let days = measured.seconds * 1e9 / precise_u64(DAY.0);
    let ratio = |count: f64| count / precise_u64(half);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bytes of a day")]
    let a_day = |of: fn(&Status) -> u64| (measured.counted(of) / days) as u64;
    Ok(Outcome {
        hits: ratio(precise_u64(aside.found())),
        memory_hits: ratio(
            measured.counted(|status| status.counters.hits_memory + status.counters.hits_buffer),
        ),
        written_a_day: a_day(|status| status.counters.bytes_written()),
        forgotten_a_day: a_day(|status| status.counters.bytes_forgotten),
        budget: endurance,
    })
}

impl Outcome {
    fn row(&self, setting: String, all: &Outcome) -> Row {
        let mib = |bytes: u64| precise_u64(bytes) / 1_048_576.0;
        let written = precise_u64(self.written_a_day);
        let values = vec![
            Some(self.hits),
            Some(mib(self.written_a_day)),
            Some(written / precise_u64(all.written_a_day)),
            self.budget.map(mib),
            self.budget.map(|budget| written / precise_u64(budget)),
            Some(self.memory_hits),
            Some(mib(self.forgotten_a_day)),
        ];
        Row { setting, values }
    }
}
