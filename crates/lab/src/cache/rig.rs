//! A cache over drives that answer at once, and clients that ask it for many things at a time.

use anyhow::{Context, ensure};
use base::random::Random;
use base::time::{Instant, Nanos};
use cache::policy::Eviction;
use cache::request::{Cache, Namespace, Op, Outcome, Reply, Request, RequestId, WallMillis};
use cache::{CacheConfig, CacheVolume, Options, format, mount};
use drive::emulated::EmulatedDrive;
use zone::device::{Geometry, ZonedDevice};
use zone::drives::DriveSet;

/// Requests under way.
pub(super) const DEPTH: usize = 64;
/// Time between turns.
const TURN: Nanos = Nanos::from_micros(200);

/// See the module.
pub(super) struct CacheRig {
    pub(super) volume: CacheVolume,
    now: Instant,
    numbers: u64,
}

impl CacheRig {
    /// An empty cache of so many drives of a geometry.
    pub(super) fn new(
        drives: u32,
        geometry: Geometry,
        options: Options,
        wall: WallMillis,
    ) -> anyhow::Result<CacheRig> {
        let uuids: Vec<[u8; 16]> = (1..=u8::try_from(drives)?).map(|drive| [drive; 16]).collect();
        let device = |uuid: &[u8; 16]| -> anyhow::Result<Option<Box<dyn ZonedDevice>>> {
            Ok(Some(Box::new(EmulatedDrive::on_heap(geometry, *uuid)?)))
        };
        let mut drives = DriveSet::new(uuids.iter().map(device).collect::<anyhow::Result<_>>()?);
        format(&mut drives, Instant(0), &CacheConfig { cache: [9; 16], secret: [3; 16], drives: uuids })?;
        let volume = mount(drives, Instant(0), wall, options)?;
        Ok(CacheRig { volume, now: Instant(0), numbers: 0 })
    }

    /// Asks for things at once, and waits for all answers.
    pub(super) fn ask(
        &mut self,
        wall: WallMillis,
        ops: Vec<(Namespace, Op)>,
    ) -> anyhow::Result<Vec<Outcome>> {
        let first = self.numbers;
        let count = ops.len();
        for (namespace, op) in ops {
            let request = Request { id: RequestId(self.numbers), namespace, op };
            self.numbers += 1;
            self.volume.submit(self.now, wall, request);
        }
        let mut answers: Vec<Option<Outcome>> = vec![None; count];
        let (mut open, mut replies) = (count, Vec::new());
        for _ in 0..1_000_000 {
            self.volume.turn(self.now, wall, &mut replies);
            for Reply { id, outcome } in replies.drain(..) {
                answers[usize::try_from(id.0 - first)?] = Some(outcome);
                open -= 1;
            }
            if open == 0 {
                // Others ask, too.
                self.now = self.now + TURN;
                return answers.into_iter().map(|answer| answer.context("all have come")).collect();
            }
            self.now = self.now + Nanos::from_micros(5);
        }
        ensure!(open == 0, "{open} requests are never answered");
        unreachable!("seen above")
    }
}

/// Keys by their popularity: that of rank n is 1 / n^skew.
pub(super) struct Popularity(Vec<f64>);

impl Popularity {
    #[allow(clippy::cast_precision_loss, reason = "ranks are small")]
    pub(super) fn new(keys: usize, skew: f64) -> Popularity {
        let mut sum = 0.0;
        let sums = (0..keys).map(|rank| {
            sum += (rank as f64 + 1.0).powf(-skew);
            sum
        });
        Popularity(sums.collect())
    }

    pub(super) fn draw(&self, random: &mut Random) -> usize {
        let all = self.0.last().copied().unwrap_or(0.0);
        let point = part(random) * all;
        self.0.partition_point(|sum| *sum <= point).min(self.0.len() - 1)
    }
}

/// A number between zero and one.
pub(super) fn part(random: &mut Random) -> f64 {
    f64::from(u32::try_from(random.below(1 << 24)).expect("24 bits")) / f64::from(1 << 24)
}

/// A number between two, equally often in each power of two.
pub(super) fn between(random: &mut Random, low: f64, high: f64) -> f64 {
    low * (high / low).powf(part(random))
}

/// A drive of an experiment: what a ZN540 allows, in small.
pub(super) fn geometry(zones: u32, zone_blocks: u32) -> Geometry {
    Geometry {
        zones,
        zone_size_blocks: zone_blocks,
        zone_capacity_blocks: zone_blocks,
        open_zones_max: 14,
        active_zones_max: 14,
        append_blocks_max: 32,
        transfer_blocks_max: 32,
        volatile_cache: false,
        areas: None,
    }
}

/// A policy as it is told.
pub(super) fn in_words<S: serde::Serializer>(eviction: &Eviction, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(eviction)
}

/// A policy: the usual one is drawn twice as often as others.
pub(super) fn draw_eviction(random: &mut Random) -> Eviction {
    [Eviction::S3Fifo, Eviction::S3Fifo, Eviction::Fifo, Eviction::Sieve, Eviction::Lru][random.index(5)]
}

/// The mean of one number of all settings.
#[must_use]
#[allow(clippy::cast_precision_loss, reason = "settings are few")]
pub fn mean<C>(all: &[C], of: impl Fn(&C) -> f64) -> f64 {
    all.iter().map(of).sum::<f64>() / all.len().max(1) as f64
}

/// Key of a number.
pub(super) fn name(key: usize) -> Vec<u8> {
    format!("key:{key:012}").into_bytes()
}
