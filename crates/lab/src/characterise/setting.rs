//! What is measured: one setting is one run against a fresh drive.
//!
//! A setting says what programs do, not on what: a [`Bench`](super::bench::Bench) runs it. Settings
//! are plain data, so that findings can ask for the same one twice and it runs once.

use crate::workload::{ManageOp, Measured, What, variation};
use drive::timing::{HostStack, LbaFormat, Wear};

/// Setting of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Setting {
    /// Programs that all do the same.
    Load(Load),
    /// A management command, one at a time, on an otherwise idle drive.
    Managed(Managed),
    /// A reader beside writers.
    Mixed(Mixed),
    /// Resets of full zones beside one program.
    Resets(Resets),
    /// Zones that are opened, written and closed.
    Opening(Opening),
    /// The life of one window.
    Windows(Windows),
}

/// Choice of one of two drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The drive that is characterised.
    Zoned,
    /// The one without zones that it is compared with.
    Conventional,
}

/// On which channel groups the zones lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Groups {
    /// Wherever the drive puts them.
    Usual,
    /// All on the first.
    Same,
    /// In turn on all of them.
    Different,
}

/// Programs that all do the same, each in a zone of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Work of each program.
    pub what: What,
    /// Bytes of each request.
    pub bytes: u64,
    /// Requests in flight of each program.
    pub depth: u32,
    /// Programs, and zones.
    pub zones: u32,
    /// Host software between programs and drive.
    pub stack: HostStack,
    /// Microseconds that programs take between two requests beyond what is known of the stack.
    pub pause_us: f64,
    /// Format of the namespace.
    pub lba_format: LbaFormat,
    /// On which channel groups the zones lie.
    pub groups: Groups,
    /// Full zones are reset and written again, as fio does; otherwise other zones follow.
    pub resets: bool,
    /// Drive that the programs use.
    pub which: Which,
}

impl Load {
    /// Returns a load of one program with one request in flight, through SPDK, on 4-KiB blocks.
    #[must_use]
    pub fn new(what: What, bytes: u64) -> Load {
        Load {
            what,
            bytes,
            depth: 1,
            zones: 1,
            stack: HostStack::Spdk,
            pause_us: 0.0,
            lba_format: LbaFormat::Bytes4096,
            groups: Groups::Usual,
            resets: false,
            which: Which::Zoned,
        }
    }

    /// With more requests in flight per program.
    #[must_use]
    pub fn depth(self, depth: u32) -> Load {
        Load { depth, ..self }
    }

    /// With more programs and zones.
    #[must_use]
    pub fn zones(self, zones: u32) -> Load {
        Load { zones, ..self }
    }

    /// Through another stack.
    #[must_use]
    pub fn stack(self, stack: HostStack) -> Load {
        Load { stack, ..self }
    }

    /// With programs that take longer between two requests.
    #[must_use]
    pub fn pause_us(self, pause_us: f64) -> Load {
        Load { pause_us, ..self }
    }

    /// With another block size.
    #[must_use]
    pub fn format(self, lba_format: LbaFormat) -> Load {
        Load { lba_format, ..self }
    }

    /// On channel groups of our choice.
    #[must_use]
    pub fn groups(self, groups: Groups) -> Load {
        Load { groups, ..self }
    }

    /// Zones are reset when they are full.
    #[must_use]
    pub fn resetting(self) -> Load {
        Load { resets: true, ..self }
    }

    /// Returns true when the load writes anything.
    #[must_use]
    pub fn writes(&self) -> bool {
        matches!(self.what, What::Write | What::Append | What::Area(_))
    }
}

/// Occupancy of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Nothing written.
    Empty,
    /// A single block of 4 KiB.
    OneBlock,
    /// Sixteenths of the capacity.
    Sixteenths(u32),
    /// Up to the last block, which is free.
    AllButOne,
    /// All of it.
    Full,
}

impl Fill {
    /// The share of the capacity, in per cent.
    #[must_use]
    pub fn percent(self) -> f64 {
        match self {
            Fill::Empty | Fill::OneBlock => 0.0,
            Fill::Sixteenths(count) => f64::from(count) / 16.0 * 100.0,
            Fill::AllButOne | Fill::Full => 100.0,
        }
    }

    /// Returns the name of this occupancy in the paper's figures.
    #[must_use]
    pub fn label(self) -> String {
        match self {
            Fill::Empty => "0 %".to_owned(),
            Fill::OneBlock => "1 block".to_owned(),
            Fill::Sixteenths(_) | Fill::Full => format!("{} %", self.percent()),
            Fill::AllButOne => "~100 %".to_owned(),
        }
    }
}

/// A management command on zones in one state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Managed {
    /// The command.
    pub op: ManageOp,
    /// Occupancy of the zones.
    pub fill: Fill,
    /// True when the zones were finished before.
    pub finished: bool,
}

/// A reader beside four writers, as in the published experiment: 1-MiB requests, depth 32.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mixed {
    /// Drive of the run: appends on the zoned one, writes anywhere on the other.
    pub which: Which,
    /// Throughput that the writers are allowed together; `None` is all they can.
    pub limit_mib_s: Option<f64>,
    /// True when there are writers at all.
    pub writers: bool,
    /// Reads in flight.
    pub reader_depth: u32,
}

/// Resets of full zones in one half of the drive beside one program in the other half.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resets {
    /// The program: 4 KiB, one in flight; none measures resets alone.
    pub beside: Option<What>,
    /// True when there are resets; without, the program is measured alone.
    pub resets: bool,
    /// The drive imitates what the published experiment's host did.
    pub host_artefact: bool,
}

/// Zones are opened, written and closed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Opening {
    /// By an open command; otherwise by the first write.
    pub explicit: bool,
    /// Written by appends.
    pub appends: bool,
}

/// The life of the window of a zone with a random write area, one command at a time. The answer has the writes, or the state
/// before the last command, and then the commits, with the state after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Windows {
    /// Writes at growing offsets.
    Commits {
        /// Each is committed by a command.
        explicit: bool,
    },
    /// A zone is written to its end and committed.
    End {
        /// True when it is written half and finished instead.
        finish: bool,
    },
}

/// Measurements of one program of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Requests.
    pub count: usize,
    /// Thousands of requests per second.
    pub kiops: f64,
    /// Throughput.
    pub mib_s: f64,
    /// Mean latency.
    pub mean_us: f64,
    /// Median latency.
    pub p50_us: f64,
    /// 95th percentile.
    pub p95_us: f64,
    /// 99.99th percentile.
    pub p9999_us: f64,
    /// MiB in each second.
    pub by_second: Vec<f64>,
    /// Share of the requests that were merged into the command of another.
    pub merged: f64,
    /// Wear of the drive in the whole run, where windows were written.
    pub wear: Wear,
    /// Bytes of the zone that are not committed, of a window's life.
    pub left_bytes: u64,
    /// The zone is full, of a window's life.
    pub is_full: bool,
}

impl Summary {
    /// Summarises everything measured.
    #[must_use]
    pub fn of(measured: &Measured) -> Summary {
        if measured.latencies_us.is_empty() {
            return Summary { by_second: measured.by_second.clone(), ..Summary::default() };
        }
        let [p50_us, p95_us, p9999_us] = measured.percentiles_us([50.0, 95.0, 99.99]);
        Summary {
            count: measured.latencies_us.len(),
            kiops: measured.kiops(),
            mib_s: measured.mib_s(),
            mean_us: measured.mean_us(),
            p50_us,
            p95_us,
            p9999_us,
            by_second: measured.by_second.clone(),
            ..Summary::default()
        }
    }

    /// Standard deviation of the throughput per second, as a share of its mean.
    #[must_use]
    pub fn fluctuation(&self) -> f64 {
        variation(&self.by_second)
    }

    /// The best second.
    #[must_use]
    pub fn second_most(&self) -> f64 {
        self.by_second.iter().copied().fold(0.0, f64::max)
    }

    /// The worst second.
    #[must_use]
    pub fn second_least(&self) -> f64 {
        self.by_second.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

/// Place of the reader in the answer to [`Setting::Mixed`].
pub const READER: usize = 0;
/// Place of the writers together in the answer to [`Setting::Mixed`].
pub const WRITERS: usize = 1;
/// Place of the program in the answer to [`Setting::Resets`].
pub const PROGRAM: usize = 0;
/// Place of the resets in the answer to [`Setting::Resets`].
pub const RESETS: usize = 1;
/// Place of the open commands in the answer to [`Setting::Opening`]; empty for implicit opens.
pub const OPEN: usize = 0;
/// Place of the first writes in the answer to [`Setting::Opening`].
pub const FIRST: usize = 1;
/// Place of later writes in the answer to [`Setting::Opening`].
pub const LATER: usize = 2;
/// Place of the close commands in the answer to [`Setting::Opening`].
pub const CLOSE: usize = 3;
/// Most programs that any answer has.
pub const PROGRAMS_MAX: usize = 4;
