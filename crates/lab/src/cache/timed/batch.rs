//! `batch`: stores of objects that were never there, by 1 to 256 connections: how many pages leave together, what a store takes, and how long
//! an object is in memory alone, which is what a power failure takes.
//!
//! A connection asks again 50 us after an answer, which comes when nothing older can come back (*memory*), or when the object lies on flash
//! (*media*).

use super::report::{Column, Report, Row, column};
use super::rig::{Answer, CacheRig, Drives, Load, Objects, SECRET, Times, must_be_done};
use super::{Cell, Run, profile};
use crate::precise::precise_u64;
use anyhow::{Result, ensure};
use base::time::{Instant, Nanos};
use cache::config::Acknowledge;
use cache::hash::{FullKey, Ident, KeyHash};
use cache::request::{Namespace, Op, Outcome};
use cache::{CacheVolume, Options};
use std::collections::VecDeque;

const OBJECTS: Objects = Objects { key_bytes: 16, value_bytes: 1000 };
/// Zones of 32 MiB.
const ZONES: u32 = 32;
const ZONE_BLOCKS: u32 = 8192;
pub(super) const CONNECTIONS: [usize; 5] = [1, 4, 16, 64, 256];
/// Stores at scale 1.
const STORES: u64 = 100_000;
/// A round trip.
const THINK: Nanos = Nanos::from_micros(50);

const COLUMNS: &[Column] = &[
    column("stores", "1/s", 0),
    column("batch", "pages", 2),
    column("store_p50", "us", 1),
    column("store_p99", "us", 1),
    column("media_p50", "us", 1),
    column("media_p99", "us", 1),
    column("window", "us", 1),
    column("window_bytes", "KiB", 1),
];

pub(super) fn run(run: &Run) -> Result<Report> {
    let mut rows = Vec::new();
    for name in ["zn540-1tb", "zn540-4tb"] {
        for acknowledge in [Acknowledge::Memory, Acknowledge::Media] {
            for connections in CONNECTIONS {
                let setting = format!("{name}, {acknowledge}, {connections}");
                rows.push(measure(run, setting, name, (acknowledge, connections))?);
            }
        }
    }
    let stores = run.scaled(STORES, 2_000);
    let scale = format!("up to {stores} stores of {} B by each number of connections", OBJECTS.bytes());
    Ok(Report { cell: Cell::Batch, seed: run.seed, scale, columns: COLUMNS, rows, bars: Vec::new() })
}

fn measure(
    run: &Run,
    setting: String,
    name: &str,
    (acknowledge, connections): (Acknowledge, usize),
) -> Result<Row> {
    let drives = Drives::new(&profile(name), (1, ZONES, ZONE_BLOCKS), run.seed);
    let mut rig = CacheRig::new(&drives, Options { acknowledge, ..OBJECTS.options() })?;
    let mut stores = Stores {
        // A lone connection has a page for each store.
        left: run.scaled(STORES, 2_000) * connections.min(16) as u64 / 16,
        asked: vec![(0, Instant(0)); connections],
        answered: Vec::new(),
        under_way: VecDeque::new(),
        media: Times::default(),
        window: Nanos(0),
        most: 0,
    };
    let measured = rig.run(&mut stores, connections)?;
    let after = &measured.after.counters;
    ensure!(after.index_full == 0 && after.zones_evicted == 0, "everything stays: {after:?}");
    let pages = measured.counted(|status| status.counters.blocks_data);
    let values = vec![
        Some(precise_u64(measured.times[0].count()) / measured.seconds),
        Some(pages / measured.counted(|status| status.counters.batches)),
        measured.times[0].percentile_us(50.0),
        measured.times[0].percentile_us(99.0),
        stores.media.percentile_us(50.0),
        stores.media.percentile_us(99.0),
        Some(precise_u64(stores.window.0) / 1e3),
        Some(precise_u64(stores.most * OBJECTS.bytes()) / 1024.0),
    ];
    Ok(Row { setting, values })
}

/// A store that was answered, and whose object is in memory alone.
struct UnderWay {
    ident: Ident,
    asked: Instant,
    answered: Instant,
}

struct Stores {
    left: u64,
    /// Object that each connection stores, and since when.
    asked: Vec<(u64, Instant)>,
    /// Object, and the times of request and answer, of what was answered at this instant.
    answered: Vec<(u64, Instant, Instant)>,
    /// In the order in which they were answered, which is that of their pages.
    under_way: VecDeque<UnderWay>,
    /// From request to flash.
    media: Times,
    /// Longest time from an answer to flash.
    window: Nanos,
    /// Most objects that were answered and in memory alone.
    most: u64,
}

/// Objects among which one is looked for that lies on flash: those before it have been there, though a tag mate may have taken their slots.
const LOOK: usize = 8;

impl Load for Stores {
    fn next(&mut self, now: Instant, connection: usize) -> Option<Op> {
        self.left = self.left.checked_sub(1)?;
        self.asked[connection] = (self.left, now);
        Some(OBJECTS.set(self.left))
    }

    fn answered(&mut self, now: Instant, connection: usize, outcome: Outcome) -> Result<Answer> {
        must_be_done(&outcome)?;
        let (number, asked) = self.asked[connection];
        self.answered.push((number, asked, now));
        Ok(Answer::Counts(0))
    }

    fn think(&self, _connection: usize) -> Nanos {
        THINK
    }

    fn rests(&mut self, now: Instant, volume: &CacheVolume) {
        let index = volume.shard().index();
        for (number, asked, answered) in self.answered.drain(..) {
            let key = FullKey::new(Namespace(0), &OBJECTS.key(number));
            let ident = index.shape().ident(KeyHash::of(&SECRET, &key));
            self.under_way.push_back(UnderWay { ident, asked, answered });
        }
        let is_there = |own: &UnderWay| index.find(own.ident).next().is_some();
        while let Some(last) = self.under_way.iter().take(LOOK).rposition(is_there) {
            for own in self.under_way.drain(..=last) {
                self.media.note(now.since(own.asked));
                self.window = self.window.max(now.since(own.answered));
            }
        }
        self.most = self.most.max(self.under_way.len() as u64);
    }
}
