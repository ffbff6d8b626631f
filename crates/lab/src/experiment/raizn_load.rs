//! The load of [`super::write_load`] on the baseline after RAIZN.
//!
//! Its volume has zones that are written in order. The paper's version places a random write wherever its one open
//! segment goes on, so what reaches the array is a sequential write; here clients write one logical zone after the
//! other, that many at a time. What a log-structured layer on top would cost (an index, collection) is left out, in
//! favour of the baseline.

use super::Conditions;
use super::draft::Cell;
use super::host::Clock;
use super::measurement::{DRIVE_WRITES, Value, WRITE_THROUGHPUT, values_of};
use super::rig::{BEGIN, MOUNTED_AT, Plan, TURNS_MAX, blocks_of_kib, bytes_of, fill_with_zeros, new_drive};
use super::scheme::Raizn;
use super::write_load::{MEASURED_BYTES, WARM_UP_BYTES};
use crate::precise::precise_u64;
use crate::workload::Measured;
use anyhow::{Context, Result, ensure};
use array::request::{Outcome, Reply, Request, RequestId, RequestOp, Volume};
use base::time::Instant;
use base::units::Lba;
use baseline::config::{Header, LOG_ZONES, RaiznConfig, Tuning};
use baseline::volume::RaiznVolume;
use baseline::{format, mount};
use std::collections::BTreeMap;
use zone::device::{Geometry, ZonedDevice};
use zone::drives::DriveSet;

/// Blocks of one Zone Write at most when chunks are merged: 256 KiB, beyond which a zone gains nothing.
const MERGED_BLOCKS_MAX: u32 = 64;

/// Writes and measures, by the setting of the cell.
///
/// # Errors
/// When a request fails or there can be no such array.
pub fn measure(raizn: Raizn, cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    let request_blocks = blocks_of_kib(cell.setting.request_kib.context("a size of requests")?);
    let queue_depth = cell.setting.queue_depth.context("a queue depth")?;
    let short = Conditions { scale: conditions.scale.min(1.0), ..conditions };
    let load = Load {
        request_blocks,
        queue_depth,
        warm_up: short.scaled(WARM_UP_BYTES) / bytes_of(request_blocks),
        requests: (conditions.scaled(MEASURED_BYTES) / bytes_of(request_blocks)).max(1),
    };
    let mut plan = Plan::new(cell.scheme, &cell.setting, conditions.seed)?;
    plan.busy = true;
    let mut rig = Rig::new(raizn, &plan, &load)?;
    let measured = rig.run(&load)?;
    let counters = rig.volume.engine.counters();
    let writes = precise_u64(counters.drive_blocks()) / precise_u64(counters.user_blocks);
    let mut values = values_of(&measured, WRITE_THROUGHPUT);
    values.push(Value { metric: DRIVE_WRITES, value: writes });
    Ok(values)
}

struct Load {
    request_blocks: u32,
    queue_depth: u32,
    warm_up: u64,
    requests: u64,
}

struct Rig {
    volume: RaiznVolume,
    now: Instant,
    /// First block of the next request.
    next: u64,
    next_id: u64,
    replies: Vec<Reply>,
}

impl Rig {
    fn new(raizn: Raizn, plan: &Plan, load: &Load) -> Result<Rig> {
        let geometry = Geometry {
            zones: LOG_ZONES + 1,
            zone_size_blocks: plan.zone_capacity_blocks,
            zone_capacity_blocks: plan.zone_capacity_blocks,
            volatile_cache: false,
            areas: None,
            ..plan.profile.geometry()
        };
        let mut config = RaiznConfig {
            array: *b"virtual array 02",
            members: plan.drives,
            chunk_blocks: plan.chunk_blocks,
            geometry,
        };
        let header = if raizn == Raizn::HeaderBlock { Header::Block } else { Header::OutOfBand };
        let mut tuning = Tuning::usual(&config, header);
        if raizn == Raizn::Merged {
            tuning.write_blocks_max = MERGED_BLOCKS_MAX.min(geometry.transfer_blocks_max);
        }
        config.validate(&tuning)?;
        let all =
            (load.warm_up + load.requests + u64::from(load.queue_depth)) * u64::from(load.request_blocks);
        // A request never crosses the end of a logical zone: a little of each is left.
        let usable = config.map().zone_blocks() / load.request_blocks * load.request_blocks;
        config.geometry.zones = LOG_ZONES + u32::try_from(all.div_ceil(u64::from(usable)))?;
        let clock = Clock::default();
        let mut devices: Vec<Option<Box<dyn ZonedDevice>>> = Vec::new();
        for number in 1..=plan.drives as u64 {
            let (device, _) = new_drive(plan, config.geometry, &clock, number)?;
            devices.push(Some(device));
        }
        let mut drives = DriveSet::new(devices);
        format(&mut drives, &config, &tuning)?;
        let (engine, drives) = mount(drives.into_inner(), tuning, MOUNTED_AT)?;
        let volume = RaiznVolume::new(engine, drives);
        Ok(Rig { volume, now: BEGIN, next: 0, next_id: 0, replies: Vec::new() })
    }

    /// Requests in a closed loop, measured once those of the warm-up are answered.
    fn run(&mut self, load: &Load) -> Result<Measured> {
        let mut submitted: BTreeMap<u64, Instant> = BTreeMap::new();
        let mut measured = Measured::default();
        let (mut answered, mut begin) = (0, self.now);
        for _ in 0..load.queue_depth {
            submitted.insert(self.submit(load), self.now);
        }
        while answered < load.warm_up + load.requests {
            self.wait()?;
            for reply in std::mem::take(&mut self.replies) {
                ensure!(reply.outcome == Outcome::Done, "request {} failed", reply.id.0);
                let since = submitted.remove(&reply.id.0).context("answered once")?;
                answered += 1;
                if answered <= load.warm_up {
                    begin = self.now;
                } else {
                    measured.latencies_us.push(precise_u64(self.now.since(since).0) / 1000.0);
                    measured.bytes += bytes_of(load.request_blocks);
                    measured.span_us = precise_u64(self.now.since(begin).0) / 1000.0;
                }
                if answered + submitted.len() as u64 <= load.warm_up + load.requests {
                    submitted.insert(self.submit(load), self.now);
                }
            }
        }
        Ok(measured)
    }

    /// Writes where the last request ended, or to the next logical zone when that is full.
    fn submit(&mut self, load: &Load) -> u64 {
        let zone_blocks = u64::from(self.volume.engine.zone_blocks());
        let left = zone_blocks - self.next % zone_blocks;
        if left < u64::from(load.request_blocks) {
            self.next += left;
        }
        let count = load.request_blocks as usize;
        let mut frames = self.volume.frames().take_vec(count);
        fill_with_zeros(&mut frames);
        self.next_id += 1;
        let op = RequestOp::Write { lba: Lba(self.next), frames, force_unit_access: false };
        self.volume.submit(self.now, Request { id: RequestId(self.next_id), op });
        self.next += count as u64;
        self.next_id
    }

    /// Lets time pass until something is answered.
    fn wait(&mut self) -> Result<()> {
        loop {
            let mut turns = 0;
            while self.volume.turn(self.now, &mut self.replies) {
                turns += 1;
                ensure!(turns < TURNS_MAX, "the engine does not come to rest");
            }
            if !self.replies.is_empty() {
                return Ok(());
            }
            let next = self.volume.pass_time(Instant(self.now.0 + 1), None);
            self.now = next.context("nothing is under way and nothing was answered")?;
        }
    }
}
