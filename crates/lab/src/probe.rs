//! One operation on one drive, measured: `zoneweave drive probe`.

use crate::workload::wall::{NO_COSTS, WallTarget};
use crate::workload::{Figures, Job, Loop, Manage, ManageOp, Measured, Order, Span, Target, What, join};
use anyhow::{Result, bail, ensure};
use base::units::{BLOCK_BYTES_U64, human_bytes};
use drive::timing::{
    HostStack, LbaFormat, Model, ModelOptions, Profile, StackCosts, Wear, ZoneCondition, ZoneMap,
};
use serde::Serialize;
use std::fmt;
use zone::device::{Areas, Geometry, ZonedDevice};

/// Zones that management commands go to in turn; each stays active until its next turn.
const ZONES_MANAGED: u32 = 4;

/// Writes at more than this fill the buffer of any drive we know: it starts full.
const SATURATING_MIB_S: f64 = 4000.0;

/// Operation that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeOp {
    /// Random reads, or sequential ones.
    Read,
    /// Writes at the write pointer.
    Write,
    /// Zone appends.
    Append,
    /// Writes into the random write area.
    Zrwa,
    /// Overwrites in the window of a random write area, which never reach the zone.
    ZrwaOverwrite,
    /// Commits of what was written to a window.
    ZrwaCommit,
    /// Resets of zones written to the occupancy.
    Reset,
    /// Finishes of zones written to the occupancy.
    Finish,
    /// Opens of empty zones.
    Open,
    /// Closes of open zones.
    Close,
}

impl ProbeOp {
    /// True of what needs zones with random write areas.
    fn is_in_window(self) -> bool {
        matches!(self, ProbeOp::Zrwa | ProbeOp::ZrwaOverwrite | ProbeOp::ZrwaCommit)
    }
}

/// A load beside what is measured.
#[derive(Clone, Debug)]
pub struct Load {
    /// Read, Write or Append.
    pub op: ProbeOp,
    /// MiB/s of each job; `None` for as much as the drive takes.
    pub mib_s: Option<f64>,
    /// Bytes of each request.
    pub bytes: u64,
    /// Requests in flight of each job.
    pub queue_depth: u32,
    /// Jobs, each on a zone of its own.
    pub jobs: u32,
}

/// Options of a measurement.
#[derive(Clone, Debug)]
pub struct Probe {
    /// The operation.
    pub op: ProbeOp,
    /// Reads go from start to end of a zone.
    pub sequential: bool,
    /// Bytes of each request.
    pub bytes: u64,
    /// Requests in flight per zone.
    pub queue_depth: u32,
    /// Zones, each with a thread of its own.
    pub zones: u32,
    /// Share of the zone the host has written before a management command.
    pub occupancy: Option<f64>,
    /// The zone was finished before it is reset.
    pub finished: bool,
    /// Loads beside it.
    pub with: Vec<Load>,
    /// Host software between program and drive.
    pub stack: HostStack,
    /// Format of the namespace.
    pub lba_format: LbaFormat,
    /// Seed of all variation.
    pub seed: u64,
    /// Time measured.
    pub seconds: Option<f64>,
    /// Map of zones of a modelled drive to channel groups, if not as the profile says.
    pub zone_map: Option<ZoneMap>,
}

/// Figures of a probe, and what it cost the flash of a modelled drive from the start of the run on.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Report {
    /// Times and rates.
    #[serde(flatten)]
    pub figures: Figures,
    /// Counters of the drive; a drive on the wall clock does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wear: Option<Wear>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.figures)?;
        let Some(wear) = self.wear.filter(|wear| wear.written_bytes > 0) else { return Ok(()) };
        for (name, bytes) in [
            ("written   ", wear.written_bytes),
            ("in windows", wear.window_bytes),
            ("absorbed  ", wear.absorbed_bytes),
            ("committed ", wear.committed_bytes),
            ("programmed", wear.programmed_bytes),
            ("backing   ", wear.backing_bytes),
        ] {
            write!(f, "\n{name} {}", human_bytes(bytes))?;
        }
        Ok(())
    }
}

/// Places of jobs: writes go to the start of the drive and reads to its middle, so that they do not meet.
struct Places {
    next_written: u32,
    read_from: u32,
    zones: u32,
}

impl Places {
    fn take(&mut self, what: What, count: u32) -> Vec<u32> {
        let first = match what {
            What::ReadRandom | What::ReadSequential => self.read_from,
            What::WriteRandom => 0,
            _ => {
                self.next_written += count;
                self.next_written - count
            }
        };
        (first..first + count).map(|zone| zone % self.zones).collect()
    }
}

impl Probe {
    /// Measures a modelled drive in virtual time.
    ///
    /// # Errors
    /// When the profile does not have what is asked for.
    pub fn on_model(&self, profile: &Profile) -> Result<Report> {
        let costs = profile.stack(self.stack);
        let Some(costs) = costs else {
            bail!("profile {} knows no host costs of this stack: use --stack spdk", profile.name())
        };
        self.check(profile.has_zones(), &costs)?;
        let areas = profile.geometry_with_areas().areas;
        ensure!(
            !self.op.is_in_window() || areas.is_some(),
            "profile {} has no random write area",
            profile.name()
        );
        areas.map_or(Ok(()), |areas| self.check_windows(&areas, &costs))?;
        let options = ModelOptions {
            seed: self.seed,
            lba_format: self.lba_format,
            zone_map: self.zone_map,
            ..ModelOptions::default()
        };
        let mut model = Model::new(profile, options);
        let takes_all =
            |load: &Load| load.mib_s.is_none_or(|rate| rate * f64::from(load.jobs) > SATURATING_MIB_S);
        let saturates = self.with.iter().any(|load| load.op != ProbeOp::Read && takes_all(load));
        if saturates || !profile.has_zones() {
            model.prefill_write_buffer();
        }
        let (jobs, _) = self.jobs(&profile.geometry_with_areas(), profile.has_zones(), costs)?;
        let loads = self.with.iter().map(|load| load.jobs as usize).sum::<usize>();
        let (mut measured, model) = Loop::on(model, jobs, self.seed).run(self.span(loads > 0, false));
        measured.truncate(measured.len() - loads);
        Ok(Report { figures: self.report(&join(measured)), wear: Some(model.wear()) })
    }

    /// Measures a drive on the wall clock. Zones that are written must be empty, unless told to overwrite.
    ///
    /// # Errors
    /// When the drive refuses a command, or a zone holds data.
    pub fn on_device(&self, device: Box<dyn ZonedDevice>, overwrite: bool) -> Result<Report> {
        let geometry = *device.geometry();
        let costs = NO_COSTS;
        self.check(true, &costs)?;
        ensure!(
            !self.op.is_in_window() || geometry.areas.is_some(),
            "the drive has no random write areas: make one with drive create --zrwa-window"
        );
        geometry.areas.map_or(Ok(()), |areas| self.check_windows(&areas, &costs))?;
        ensure!(self.lba_format == LbaFormat::Bytes4096, "the drive is formatted with blocks of 4 KiB");
        let limit = u64::from(geometry.transfer_blocks_max.min(geometry.append_blocks_max)) * BLOCK_BYTES_U64;
        let largest = self.with.iter().map(|load| load.bytes).fold(self.bytes, u64::max);
        ensure!(largest <= limit, "{largest} bytes: the drive takes at most {limit} at once");
        let mut target = WallTarget::new(device);
        let (mut jobs, written) = self.jobs(&geometry, true, costs)?;
        if !overwrite {
            target.expect_empty(written.iter().copied())?;
        }
        for job in &mut jobs {
            job.resets = true;
        }
        let (mut measured, mut target) = Loop::on(target, jobs, self.seed).run(self.span(false, true));
        target.settle();
        target.take_failure()?;
        written.into_iter().for_each(|zone| target.preset_zone(zone, 0, ZoneCondition::Empty));
        measured.truncate(measured.len() - self.with.iter().map(|load| load.jobs as usize).sum::<usize>());
        Ok(Report { figures: self.report(&join(measured)), wear: None })
    }

    fn check(&self, has_zones: bool, costs: &StackCosts) -> Result<()> {
        let sector = if self.lba_format == LbaFormat::Bytes512 { 512 } else { BLOCK_BYTES_U64 };
        let sizes = self.with.iter().map(|load| load.bytes).chain([self.bytes]);
        for bytes in sizes {
            ensure!(bytes > 0 && bytes % sector == 0, "{bytes} bytes: must be a multiple of {sector}");
        }
        ensure!(self.queue_depth > 0 && self.zones > 0, "--queue-depth and --zones are at least 1");
        ensure!(
            self.occupancy.is_none_or(|share| (0.0..=1.0).contains(&share)),
            "--occupancy is a share: 0 to 1"
        );
        let loads = self.with.iter().map(|load| (load.op, load.queue_depth));
        let is_too_deep = |(op, depth): (ProbeOp, u32)| op == ProbeOp::Write && depth > 1;
        let too_deep = loads.chain([(self.op, self.queue_depth)]).any(is_too_deep);
        ensure!(
            !has_zones || costs.merges || !too_deep,
            "a zone takes one write at a time: use --op append, more --zones, or --stack mq-deadline"
        );
        ensure!(
            has_zones || matches!(self.op, ProbeOp::Read | ProbeOp::Write),
            "a drive without zones is only read and written"
        );
        Ok(())
    }

    /// Refuses what windows of a drive do not take.
    fn check_windows(&self, areas: &Areas, costs: &StackCosts) -> Result<()> {
        let bytes = |blocks: u32| u64::from(blocks) * BLOCK_BYTES_U64;
        let (window, granule) = (bytes(areas.window_blocks), bytes(areas.granule_blocks));
        ensure!(
            !self.op.is_in_window() || self.zones <= areas.zones_max,
            "{} zones are to have a random write area: the drive has {} areas",
            self.zones,
            areas.zones_max
        );
        match self.op {
            ProbeOp::ZrwaOverwrite => {
                ensure!(
                    self.bytes <= window && self.bytes.is_multiple_of(BLOCK_BYTES_U64),
                    "{} bytes: whole blocks of 4 KiB are overwritten in a window of {}",
                    self.bytes,
                    human_bytes(window)
                );
                ensure!(!costs.merges, "--stack mq-deadline merges writes in order: use spdk or kernel");
            }
            ProbeOp::ZrwaCommit => {
                ensure!(areas.explicit_commit, "the drive has no explicit commit");
                ensure!(
                    self.bytes <= window && self.bytes.is_multiple_of(granule),
                    "{} bytes: a commit takes whole granules of {granule}, at most a window of {window}: use --bytes {granule}",
                    self.bytes
                );
            }
            _ => {}
        }
        Ok(())
    }

    /// The jobs measured, then those of the loads; and the zones that are written.
    fn jobs(&self, geometry: &Geometry, has_zones: bool, costs: StackCosts) -> Result<(Vec<Job>, Vec<u32>)> {
        let (zones, capacity) = (geometry.zones, u64::from(geometry.zone_capacity_blocks) * BLOCK_BYTES_U64);
        let mut places = Places { next_written: 0, read_from: zones / 2, zones };
        let what = self.what(geometry, has_zones);
        let manage = matches!(what, What::Manage(_));
        ensure!(self.bytes <= capacity, "{} bytes: a zone holds {capacity}", self.bytes);
        let mut jobs = Vec::new();
        for _ in 0..if manage { 1 } else { self.zones } {
            let count = match self.op {
                // Each would hold an area.
                ProbeOp::ZrwaCommit => 1,
                _ if manage => (zones / 2).clamp(1, ZONES_MANAGED),
                _ => 1,
            };
            jobs.push(Job {
                what,
                bytes: self.bytes,
                depth: if manage { 1 } else { self.queue_depth },
                zones: places.take(what, count),
                rate_bytes_per_s: None,
                costs,
                resets: self.zones <= 2,
            });
        }
        for load in &self.with {
            let what = plain(load.op, false, has_zones);
            for _ in 0..load.jobs {
                jobs.push(Job {
                    what,
                    bytes: load.bytes,
                    depth: load.queue_depth,
                    zones: places.take(what, 1),
                    rate_bytes_per_s: load.mib_s.map(|rate| rate * 1_048_576.0),
                    costs,
                    resets: load.jobs == 1,
                });
            }
        }
        ensure!(
            places.next_written <= zones,
            "{} zones are to be written: the drive has {zones}",
            places.next_written
        );
        Ok((jobs, (0..places.next_written).collect()))
    }

    fn what(&self, geometry: &Geometry, has_zones: bool) -> What {
        let capacity = u64::from(geometry.zone_capacity_blocks) * BLOCK_BYTES_U64;
        let window_bytes = geometry.areas.map_or(0, |areas| u64::from(areas.window_blocks) * BLOCK_BYTES_U64);
        let manage = |op, written_bytes, condition| What::Manage(Manage { op, written_bytes, condition });
        let all_but_one = capacity - BLOCK_BYTES_U64;
        let written = |default: f64| share_of(capacity, self.occupancy.unwrap_or(default));
        match self.op {
            ProbeOp::Reset => {
                let written = written(1.0);
                let condition = match written {
                    _ if self.finished => ZoneCondition::Finished,
                    0 => ZoneCondition::Empty,
                    _ if written == capacity => ZoneCondition::Written,
                    _ => ZoneCondition::Open,
                };
                manage(ManageOp::Reset, written, condition)
            }
            ProbeOp::Finish => manage(ManageOp::Finish, written(0.5).min(all_but_one), ZoneCondition::Open),
            ProbeOp::Open => manage(ManageOp::Open, 0, ZoneCondition::Empty),
            ProbeOp::Close => manage(ManageOp::Close, written(1.0).min(all_but_one), ZoneCondition::Open),
            ProbeOp::ZrwaOverwrite => What::Area(Order::Again { window_bytes }),
            ProbeOp::ZrwaCommit => manage(ManageOp::Commit, self.bytes, ZoneCondition::Open),
            op => plain(op, self.sequential, has_zones),
        }
    }

    /// As long as asked, or as it takes for enough samples.
    fn span(&self, has_loads: bool, on_wall: bool) -> Span {
        let default = match self.op {
            _ if on_wall => 2.0,
            ProbeOp::Finish if !has_loads => 200.0,
            ProbeOp::Reset | ProbeOp::Open | ProbeOp::Close | ProbeOp::ZrwaCommit if !has_loads => 30.0,
            ProbeOp::Read if !has_loads => 1.0,
            ProbeOp::Read => 4.0,
            ProbeOp::Finish => 20.0,
            _ => 3.7,
        };
        let warm_up_us = match self.op {
            _ if has_loads => 500_000.0,
            ProbeOp::Read => 20_000.0,
            ProbeOp::Write | ProbeOp::Append | ProbeOp::Zrwa | ProbeOp::ZrwaOverwrite => 150_000.0,
            _ => 0.0,
        };
        Span { warm_up_us, measured_us: self.seconds.unwrap_or(default) * 1e6 }
    }

    fn report(&self, measured: &Measured) -> Figures {
        let figures = measured.figures();
        match self.op {
            ProbeOp::Read | ProbeOp::Write | ProbeOp::Append | ProbeOp::Zrwa | ProbeOp::ZrwaOverwrite => {
                figures
            }
            ProbeOp::Reset | ProbeOp::Finish | ProbeOp::Open | ProbeOp::Close | ProbeOp::ZrwaCommit => {
                Figures { kiops: 1e3 / figures.mean_us, mib_s: 0.0, ..figures }
            }
        }
    }
}

/// Drives without zones are written at random, unless told otherwise.
fn plain(op: ProbeOp, sequential: bool, has_zones: bool) -> What {
    match op {
        ProbeOp::Read if sequential => What::ReadSequential,
        ProbeOp::Read => What::ReadRandom,
        ProbeOp::Append => What::Append,
        ProbeOp::Zrwa => What::Area(Order::Growing),
        ProbeOp::Write if !has_zones && !sequential => What::WriteRandom,
        ProbeOp::Write
        | ProbeOp::ZrwaOverwrite
        | ProbeOp::ZrwaCommit
        | ProbeOp::Reset
        | ProbeOp::Finish
        | ProbeOp::Open
        | ProbeOp::Close => What::Write,
    }
}

/// A share of a zone in whole blocks; what is not nothing is at least one.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "below 2^53 and between 0 and the capacity"
)]
fn share_of(capacity: u64, share: f64) -> u64 {
    let blocks = (capacity / BLOCK_BYTES_U64) as f64 * share;
    let whole = if share > 0.0 { blocks.round().max(1.0) } else { 0.0 };
    whole as u64 * BLOCK_BYTES_U64
}
