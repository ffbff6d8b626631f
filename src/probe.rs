//! `zoneweave drive probe`: one operation on one drive, or its channel groups, measured.

use crate::exit::Exit;
use crate::lent::Lent;
use crate::raw::device_of;
use anyhow::{Context, Result, bail, ensure};
use array::log::identify;
use base::time::Instant;
use base::units::parse_bytes;
use clap::{Args, ValueEnum};
use drive::any::{AnyDrive, Kind};
use drive::timing::{HostStack, LbaFormat, Profile, ZoneMap};
use lab::channels::ChannelProbe;
use lab::probe::{Load, ProbeOp};
use serde::Serialize;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use zone::device::ZonedDevice;

#[derive(Debug, Args)]
pub struct Probe {
    /// Profile of a modelled drive, by name or as a TOML file; it runs in virtual time
    #[arg(long, required_unless_present = "device", conflicts_with = "device")]
    pub profile: Option<String>,
    /// A drive to measure on the wall clock: the file of an emulated drive, /dev/ngXnY, or an empty block device or raw:FILE
    #[arg(long)]
    pub device: Option<PathBuf>,
    /// Operation to measure
    #[arg(long, value_enum, required_unless_present = "channels")]
    pub op: Option<Op>,
    /// Find out which zones share a channel group, by writing to pairs of empty ones
    #[arg(
        long,
        conflicts_with_all = ["op", "device", "bytes", "queue_depth", "sequential", "occupancy", "finished", "with",
            "stack", "lba_format", "seconds"]
    )]
    pub channels: bool,
    /// Size of each request
    #[arg(long, default_value = "4k", value_parser = parse_request, value_name = "BYTES")]
    pub bytes: u64,
    /// Requests in flight per zone
    #[arg(long, default_value_t = 1)]
    pub queue_depth: u32,
    /// Zones, each with a thread of its own [default: 1, of --channels as many as can be active, at most 16]
    #[arg(long)]
    pub zones: Option<u32>,
    /// Reads go from start to end of a zone instead of anywhere
    #[arg(long)]
    pub sequential: bool,
    /// Share of the zone the host has written before a reset, finish or close, 0 to 1 [default: 1, of a finish 0.5]
    #[arg(long)]
    pub occupancy: Option<f64>,
    /// The zone was finished before it is reset
    #[arg(long)]
    pub finished: bool,
    /// A load beside it, such as write:250MiB or append:max (see below); may be given more than once
    ///
    /// OP:RATE[,bytes=SIZE][,qd=N][,jobs=N] with OP read, write or append, and RATE per second and job, or
    /// `max`. Without more it is one job of 128-KiB requests, one at a time; for `max`, and for rates above 1000
    /// MiB/s, which one such job does not reach, four jobs of 1-MiB requests at that rate each, appends 32 at a
    /// time: what the published characterisation ran beside its reads.
    #[arg(long, value_parser = parse_load, value_name = "OP:RATE")]
    pub with: Vec<Load>,
    /// Host software between program and drive, where the profile knows its costs
    #[arg(long, value_enum, default_value = "spdk")]
    pub stack: Stack,
    /// Block size of the namespace
    #[arg(long, value_parser = parse_format, default_value = "4096", value_name = "512|4096")]
    pub lba_format: LbaFormat,
    /// Seed of all variation; the same seed gives the same bytes
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Map of the zones of the profile's drive to channel groups: number, opening, random, mostly or mostly:EXCEPTIONS of
    /// 1000 [default: as the profile says]
    #[arg(long, conflicts_with = "device")]
    pub zone_map: Option<ZoneMap>,
    /// Time to measure [default: as long as it takes for enough samples]
    #[arg(long)]
    pub seconds: Option<f64>,
    /// Measure a drive although its zones hold data, which is lost
    #[arg(long, requires = "device")]
    pub overwrite: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// More than this a job with one request of 128 KiB in flight does not reach.
const LONE_JOB_MIB_S: f64 = 1000.0;

/// An operation by name.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Op {
    Read,
    Write,
    Append,
    /// Writes into the random write area (ZRWA)
    Zrwa,
    /// Overwrites in a window, which never reach the zone
    ZrwaOverwrite,
    /// Commits of what was written to a window: --bytes is a multiple of the granule
    ZrwaCommit,
    Reset,
    Finish,
    Open,
    Close,
}

/// A host stack by name.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Stack {
    Spdk,
    /// io_uring without a scheduler
    Kernel,
    /// io_uring with mq-deadline, which merges writes
    MqDeadline,
}

/// Measures and prints.
pub fn run(options: &Probe) -> Result<()> {
    if let Some(seconds) = options.seconds.filter(|seconds| !seconds.is_finite() || *seconds <= 0.0) {
        return Err(Exit::Usage.error(format!("--seconds {seconds}: use more than 0")));
    }
    let Some(op) = options.op else { return probe_channels(options) };
    let probe = probe_of(options, op);
    let report = match (&options.profile, &options.device) {
        (Some(name), _) => {
            probe.on_model(&Profile::load(name)?).map_err(|error| Exit::Usage.because(error))?
        }
        (None, Some(path)) => {
            let writes = !matches!(op, Op::Read) || options.with.iter().any(|load| load.op != ProbeOp::Read);
            let (drive, _lent) = open(path, writes)?;
            probe.on_device(drive, options.overwrite || !writes)?
        }
        (None, None) => bail!("name a --profile or a --device"),
    };
    print(options, &report)
}

fn probe_channels(options: &Probe) -> Result<()> {
    let name = options.profile.as_ref().context("--channels measures a modelled drive: name a --profile")?;
    let Probe { zones, seed, zone_map, .. } = *options;
    let probe = ChannelProbe { zones, seed, zone_map };
    print(options, &probe.on_model(&Profile::load(name)?).map_err(|error| Exit::Usage.because(error))?)
}

fn print(options: &Probe, report: &(impl Serialize + Display)) -> Result<()> {
    if options.json {
        println!("{}", serde_json::to_string(report)?);
    } else {
        println!("{report}");
    }
    Ok(())
}

fn probe_of(options: &Probe, op: Op) -> lab::probe::Probe {
    lab::probe::Probe {
        op: match op {
            Op::Read => ProbeOp::Read,
            Op::Write => ProbeOp::Write,
            Op::Append => ProbeOp::Append,
            Op::Zrwa => ProbeOp::Zrwa,
            Op::ZrwaOverwrite => ProbeOp::ZrwaOverwrite,
            Op::ZrwaCommit => ProbeOp::ZrwaCommit,
            Op::Reset => ProbeOp::Reset,
            Op::Finish => ProbeOp::Finish,
            Op::Open => ProbeOp::Open,
            Op::Close => ProbeOp::Close,
        },
        sequential: options.sequential,
        bytes: options.bytes,
        queue_depth: options.queue_depth,
        zones: options.zones.unwrap_or(1),
        occupancy: options.occupancy,
        finished: options.finished,
        with: options.with.clone(),
        stack: match options.stack {
            Stack::Spdk => HostStack::Spdk,
            Stack::Kernel => HostStack::Kernel,
            Stack::MqDeadline => HostStack::MqDeadline,
        },
        lba_format: options.lba_format,
        seed: options.seed,
        seconds: options.seconds,
        zone_map: options.zone_map,
    }
}

/// Opens a drive; members of an array are only read. An empty device without one has one as long as what comes with it.
pub fn open(path: &Path, writes: bool) -> Result<(Box<dyn ZonedDevice>, Option<Lent>)> {
    let device = device_of(path);
    let path = device.as_deref().unwrap_or(path);
    let is_without = device.is_some() && path.exists() && Kind::of(path) == Kind::Emulated;
    let lent = is_without.then(|| Lent::of(path)).transpose()?;
    let drive = AnyDrive::open(path)?.into_device();
    let (drive, superblock) = identify(drive, Instant(0));
    if let Some(superblock) = superblock.filter(|_| writes) {
        bail!(
            "{}: is a drive of array {}; this operation would destroy data: measure with --op read, or name a drive \
             that is in no array",
            path.display(),
            uuid::Uuid::from_bytes(superblock.array)
        );
    }
    Ok((drive, lent))
}

fn parse_request(text: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text).map_err(|error| error.to_string())?;
    if bytes == 0 || bytes % 512 != 0 {
        return Err(format!("{bytes} bytes: must be a multiple of 512 and not zero"));
    }
    Ok(bytes)
}

fn parse_format(text: &str) -> Result<LbaFormat, String> {
    match text {
        "512" => Ok(LbaFormat::Bytes512),
        "4096" | "4k" | "4KiB" => Ok(LbaFormat::Bytes4096),
        _ => Err(format!("`{text}`: blocks of 512 or 4096 bytes")),
    }
}

fn parse_load(text: &str) -> Result<Load, String> {
    load_from(text).map_err(|error| format!("{error:#}; use OP:RATE[,bytes=SIZE][,qd=N][,jobs=N]"))
}

fn load_from(text: &str) -> Result<Load> {
    let mut parts = text.split(',');
    let (op, rate) = parts.next().unwrap_or_default().split_once(':').context("no rate is given")?;
    let op = match op {
        "read" => ProbeOp::Read,
        "write" => ProbeOp::Write,
        "append" => ProbeOp::Append,
        _ => bail!("`{op}` cannot be a load: use read, write or append"),
    };
    let mib_s = if rate == "max" { None } else { Some(rate_from(rate)?) };
    let max = mib_s.is_none_or(|rate| rate > LONE_JOB_MIB_S);
    let mut load = Load {
        op,
        mib_s,
        bytes: if max { 1 << 20 } else { 128 << 10 },
        queue_depth: if max && op != ProbeOp::Write { 32 } else { 1 },
        jobs: if max { 4 } else { 1 },
    };
    for part in parts {
        let (key, value) = part.split_once('=').with_context(|| format!("`{part}` is not KEY=VALUE"))?;
        let count = || {
            value
                .parse()
                .ok()
                .filter(|count| *count > 0)
                .with_context(|| format!("{key}={value}: a number from 1"))
        };
        match key {
            "bytes" => load.bytes = parse_request(value).map_err(anyhow::Error::msg)?,
            "qd" => load.queue_depth = count()?,
            "jobs" => load.jobs = count()?,
            _ => bail!("`{key}` is not known"),
        }
    }
    Ok(load)
}

/// MiB/s of a rate such as `250MiB`, `250MiB/s` or, in MiB, `250`.
#[allow(clippy::cast_precision_loss, reason = "below 2^53 bytes per second")]
fn rate_from(text: &str) -> Result<f64> {
    let text = text.trim_end_matches("/s");
    let rate = match text.parse::<f64>() {
        Ok(mib_s) => mib_s,
        Err(_) => parse_bytes(text)? as f64 / 1_048_576.0,
    };
    ensure!(rate > 0.0 && rate.is_finite(), "`{text}`: the rate must be above 0, or `max`");
    Ok(rate)
}
