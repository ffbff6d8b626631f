//! Settings as jobs: who does what in which zones, and for how long.

use crate::characterise::setting::{Fill, Load, Managed, Mixed, Resets, Which};
use crate::workload::{Job, Manage, ManageOp, Span, What};
use base::units::BLOCK_BYTES_U64;
use drive::timing::{HostStack, StackCosts, ZoneCondition};
use zone::device::Geometry;

const MIB: f64 = 1_048_576.0;
const WRITER_BYTES: u64 = 1 << 20;
const WRITER_DEPTH: u32 = 32;
const WRITERS: u32 = 4;
/// Length of each run on the wall clock.
const WALL_US: f64 = 400_000.0;

/// Length of runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// As long as it takes for steady figures.
    Full,
    /// Short, to see that everything works.
    Quick,
    /// On the wall clock, where every second is one.
    Wall,
}

/// Facts that jobs depend on.
pub struct Facts<'a> {
    pub geometry: Geometry,
    pub costs: &'a dyn Fn(HostStack) -> Option<StackCosts>,
    pub has_area: bool,
    pub length: Length,
}

impl Facts<'_> {
    fn capacity_bytes(&self) -> u64 {
        u64::from(self.geometry.zone_capacity_blocks) * BLOCK_BYTES_U64
    }

    fn span(&self, warm_up_us: f64, measured_us: f64, quick_us: f64) -> Span {
        match self.length {
            Length::Full => Span { warm_up_us, measured_us },
            Length::Quick => Span { warm_up_us, measured_us: quick_us },
            Length::Wall => Span { warm_up_us: warm_up_us.min(50_000.0), measured_us: WALL_US },
        }
    }

    /// Returns the jobs of a load and their span; `None` when the drive cannot do this.
    pub fn load(&self, load: &Load) -> Option<(Vec<Job>, Span)> {
        let costs = (self.costs)(load.stack)?;
        let costs = StackCosts { think_us: costs.think_us + load.pause_us, ..costs };
        let geometry = self.geometry;
        let too_many = load.writes() && load.zones > geometry.open_zones_max;
        let no_area = matches!(load.what, What::Area(_)) && !self.has_area;
        if too_many || load.zones > geometry.zones || no_area {
            return None;
        }
        // Without resets, a program goes on to its next zone: half of the drive further.
        let next = geometry.zones / 2;
        let zones = |place: u32| match load.what {
            What::Write | What::Append | What::Area(_) if !load.resets && next >= load.zones => {
                vec![place, place + next]
            }
            _ => vec![place],
        };
        let job = |place: u32| Job {
            what: load.what,
            bytes: load.bytes,
            depth: load.depth,
            zones: zones(place),
            rate_bytes_per_s: None,
            costs,
            resets: load.resets,
        };
        let span = if load.writes() {
            // Long enough for several changes of block rows, and for 99.99th percentiles.
            self.span(1_000_000.0, 3_740_000.0, 600_000.0)
        } else {
            self.span(20_000.0, 1_000_000.0, 200_000.0)
        };
        Some(((0..load.zones).map(job).collect(), span))
    }

    pub fn managed(&self, managed: &Managed) -> Option<(Job, Span)> {
        let capacity = self.capacity_bytes();
        let written_bytes = match managed.fill {
            Fill::Empty => 0,
            Fill::OneBlock => BLOCK_BYTES_U64,
            Fill::Sixteenths(count) => capacity * u64::from(count) / 16 / BLOCK_BYTES_U64 * BLOCK_BYTES_U64,
            Fill::AllButOne => capacity - BLOCK_BYTES_U64,
            Fill::Full => capacity,
        };
        let condition = match (managed.fill, managed.op) {
            _ if managed.finished => ZoneCondition::Finished,
            (Fill::Empty, ManageOp::Reset | ManageOp::Open) => ZoneCondition::Empty,
            (Fill::Full, _) => ZoneCondition::Written,
            _ => ZoneCondition::Open,
        };
        let what = What::Manage(Manage { op: managed.op, written_bytes, condition });
        let job = self.spdk(what, BLOCK_BYTES_U64, 1, self.zones(0, 2))?;
        let span = match (managed.op, managed.fill) {
            (ManageOp::Finish, Fill::OneBlock | Fill::Sixteenths(_)) => self.span(0.0, 150e6, 20e6),
            _ => self.span(0.0, 100e6, 10e6),
        };
        Some((job, span))
    }

    /// The reader is the last job.
    pub fn mixed(&self, mixed: &Mixed) -> Option<(Vec<Job>, Span)> {
        let zones = self.geometry.zones;
        let what = match mixed.which {
            Which::Zoned => What::Append,
            Which::Conventional => What::Write,
        };
        let writers = if mixed.writers { WRITERS } else { 0 };
        let mut jobs = Vec::new();
        for writer in 0..writers {
            // A drive without zones is one zone.
            let own = if zones > WRITERS * 2 { vec![writer, writer + zones / 2] } else { vec![0] };
            let mut job = self.spdk(what, WRITER_BYTES, WRITER_DEPTH, own)?;
            job.rate_bytes_per_s = mixed.limit_mib_s.map(|limit| limit / f64::from(WRITERS) * MIB);
            jobs.push(job);
        }
        let places = if zones > 200 { (100..200).collect() } else { (0..zones).collect() };
        jobs.push(self.spdk(What::ReadRandom, BLOCK_BYTES_U64, mixed.reader_depth, places)?);
        let span =
            if mixed.writers { self.span(2e6, 60e6, 8e6) } else { self.span(20_000.0, 2e6, 300_000.0) };
        Some((jobs, span))
    }

    /// The program, if there is one, is the first job.
    pub fn resets(&self, resets: &Resets) -> Option<(Vec<Job>, Span)> {
        let mut jobs = Vec::new();
        if let Some(what) = resets.beside {
            jobs.push(self.spdk(what, BLOCK_BYTES_U64, 1, self.zones(1, 2))?);
        }
        if resets.resets {
            let written_bytes = self.capacity_bytes();
            let condition = ZoneCondition::Written;
            let what = What::Manage(Manage { op: ManageOp::Reset, written_bytes, condition });
            jobs.push(self.spdk(what, BLOCK_BYTES_U64, 1, self.zones(0, 2))?);
        }
        let span = match resets.beside {
            None => self.span(0.0, 60e6, 10e6),
            Some(_) if resets.resets => self.span(100_000.0, 15e6, 3e6),
            Some(_) => self.span(100_000.0, 4e6, 1e6),
        };
        Some((jobs, span))
    }

    fn spdk(&self, what: What, bytes: u64, depth: u32, zones: Vec<u32>) -> Option<Job> {
        let costs = (self.costs)(HostStack::Spdk)?;
        Some(Job { what, bytes, depth, zones, rate_bytes_per_s: None, costs, resets: false })
    }

    /// Returns one of `parts` equal parts of the zones.
    fn zones(&self, part: u32, parts: u32) -> Vec<u32> {
        let zones = self.geometry.zones;
        (zones * part / parts..zones * (part + 1) / parts).collect()
    }
}
