//! One experiment of the table, as jobs on the model.

use crate::compare::{Point, Setting};
use crate::precise::precise_u64;
use crate::workload::{
    Job, Loop, Manage, ManageOp, Measured, Order, Span, What, join, percentile, variation,
};
use base::units::BLOCK_BYTES_U64;
use drive::timing::{HostStack, LbaFormat, Model, ModelOptions, Profile, StackCosts, ZoneCondition};

const MIB: f64 = 1_048_576.0;
/// Samples of a management command, and of one that takes most of a second.
const MANAGE_SAMPLES: f64 = 4000.0;
const SLOW_SAMPLES: f64 = 200.0;
/// Writes in flight in a random write area, where the source does not say.
const AREA_DEPTH: u32 = 8;
/// Finishes of a nearly full zone are of two kinds, above and below this.
const FINISH_MODES_US: f64 = 5000.0;

impl Setting {
    /// Returns the model's answer to each row; nothing where the model has no such thing.
    #[must_use]
    pub fn run(&self, profile: &Profile, conventional: Option<&Profile>, seed: u64) -> Vec<Point> {
        let on_conventional = self.condition.contains("device=conventional");
        let profile = if on_conventional { conventional } else { Some(profile) };
        let Some(profile) = profile else { return Vec::new() };
        let lba_format = if self.small_blocks { LbaFormat::Bytes512 } else { LbaFormat::Bytes4096 };
        let options = ModelOptions { seed, lba_format, ..ModelOptions::default() };
        let measured = match self.op.as_str() {
            "reset" | "reset_finished" | "finish" | "open" | "close" => self.manage(profile, options),
            _ if self.condition.contains("plicit") => self.manage(profile, options),
            _ if self.condition.contains("writer") => self.mixed(profile, options),
            _ => self.load(profile, options),
        };
        self.compare(measured)
    }

    fn compare(&self, measured: Option<Measured>) -> Vec<Point> {
        let Some(measured) = measured.filter(|measured| !measured.latencies_us.is_empty()) else {
            return Vec::new();
        };
        let mut sorted = measured.latencies_us.clone();
        sorted.sort_by(f64::total_cmp);
        let mut seconds = measured.by_second.clone();
        seconds.sort_by(f64::total_cmp);
        let point = |(metric, value): &(String, f64)| {
            let model = match metric.as_str() {
                "mean_lat_us" => measured.mean_us(),
                "p50_us" => percentile(&sorted, 50.0),
                "p95_us" => percentile(&sorted, 95.0),
                "p99_us" => percentile(&sorted, 99.0),
                "kiops" => measured.kiops(),
                "mib_s" => measured.mib_s(),
                "mb_s" => measured.mib_s() * MIB / 1e6,
                "p9999_us" => percentile(&sorted, 99.99),
                "cov" if self.by_second => variation(&seconds),
                "p1_mib_s" if self.by_second => percentile(&seconds, 1.0),
                "p5_mib_s" if self.by_second => percentile(&seconds, 5.0),
                "p50_mib_s" if self.by_second => percentile(&seconds, 50.0),
                "p95_mib_s" if self.by_second => percentile(&seconds, 95.0),
                "p99_mib_s" if self.by_second => percentile(&seconds, 99.0),
                _ => return None,
            };
            // Of nothing measured, anything is all of the error.
            let error = if *value == 0.0 { model.abs().min(1.0) } else { model / value - 1.0 };
            Some(Point {
                setting: self.name.clone(),
                op: self.op.clone(),
                metric: metric.clone(),
                measured: *value,
                model,
                error_percent: error * 100.0,
            })
        };
        self.metrics.iter().filter_map(point).collect()
    }

    fn costs(&self, profile: &Profile) -> Option<StackCosts> {
        if self.stack == "kernel" {
            // The host of BIZA's slides is not described; its gap between commands follows from the
            // throughput without a random write area.
            let think_us = match self.bytes {
                _ if self.op == "write_zrwa" => 0.38,
                4096 => 5.9,
                8192 => 5.5,
                _ => 7.6,
            };
            return Some(StackCosts { think_us, ..profile.stack(HostStack::Spdk)? });
        }
        profile.stack(match self.stack.as_str() {
            "io_uring" => HostStack::Kernel,
            "io_uring+mq-deadline" => HostStack::MqDeadline,
            _ => HostStack::Spdk,
        })
    }

    /// Reads or writes alone.
    fn load(&self, profile: &Profile, options: ModelOptions) -> Option<Measured> {
        let what = match self.op.as_str() {
            "write" => What::Write,
            "append" => What::Append,
            "read_random" => What::ReadRandom,
            "read_seq" => What::ReadSequential,
            "write_zrwa" => What::Area(Order::Growing),
            _ => return None,
        };
        let writes = matches!(what, What::Write | What::Append | What::Area(_));
        let zones = number(&self.condition, "zones=").map_or(1, whole);
        let (jobs, depth) = match (self.by_zones, what) {
            (true, _) => (self.concurrency, 1),
            (false, What::Area(_)) => (zones, AREA_DEPTH),
            (false, _) => (zones, self.concurrency),
        };
        // Zones 0 and 2 share a channel group where there are two, 0 and 1 do not.
        let stride = if self.condition.contains("same I/O channel") { 2 } else { 1 };
        let resets = writes && jobs <= 2 && !matches!(what, What::Area(_));
        let costs = self.costs(profile)?;
        let job = |zone: u32| Job {
            what,
            bytes: self.bytes,
            depth,
            zones: if what == What::ReadSequential {
                (zone * 10..zone * 10 + 10).collect()
            } else {
                vec![zone * stride]
            },
            rate_bytes_per_s: None,
            costs,
            resets,
        };
        // Jobs that reset their zones are measured over one fill of them.
        let fill_us = f64::from(jobs) * 1077.0 / self.expected_mib_s(jobs * depth) * 1e6;
        let rare = self.metrics.iter().any(|(metric, _)| metric == "p9999_us");
        let measured_us = match writes {
            _ if rare => 8_000_000.0,
            true if resets => fill_us.min(2_000_000.0),
            true => 3_740_000.0,
            false => 500_000.0,
        };
        let span = Span { warm_up_us: if writes { 150_000.0 } else { 20_000.0 }, measured_us };
        let model = Model::new(profile, options);
        Some(join(Loop::on(model, (0..jobs).map(job).collect(), options.seed).run(span).0))
    }

    /// Roughly, for the length of runs only.
    fn expected_mib_s(&self, in_flight: u32) -> f64 {
        let of = |name: &str| self.metrics.iter().find(|(metric, _)| metric == name).map(|(_, value)| *value);
        let kiops = of("kiops").or_else(|| of("mean_lat_us").map(|mean| f64::from(in_flight) / mean * 1e3));
        (kiops.unwrap_or(10.0) * precise_u64(self.bytes) / MIB * 1e3).clamp(50.0, 2000.0)
    }

    /// Writers at a rate, and a reader.
    fn mixed(&self, profile: &Profile, options: ModelOptions) -> Option<Measured> {
        let text = &self.condition;
        let spec = &text[text.find("writer")?..];
        let writers = if self.by_second { 4 } else { whole(number(spec, "=")?) };
        let heavy = self.by_second || spec.contains("1MiB");
        let (bytes, depth) = if heavy { (1 << 20, 32) } else { (128 << 10, 1) };
        let rate = number(spec, "rate=")?;
        let rate_mib_s = (rate < 1100.0).then_some(rate);
        let costs = self.costs(profile)?;
        let zoned = profile.has_zones();
        let append = self.by_second || spec.contains("append");
        let writer = |zone: u32| Job {
            what: match (zoned, append) {
                (false, _) => What::WriteRandom,
                (true, true) => What::Append,
                (true, false) => What::Write,
            },
            bytes,
            depth,
            zones: vec![if zoned { zone } else { 0 }],
            rate_bytes_per_s: rate_mib_s.map(|rate| rate * MIB),
            costs,
            resets: writers == 1,
        };
        let mut jobs: Vec<Job> = if rate > 0.0 { (0..writers).map(writer).collect() } else { Vec::new() };
        jobs.push(Job {
            what: What::ReadRandom,
            bytes: BLOCK_BYTES_U64,
            depth: whole(number(spec, "reader qd=")?),
            zones: if zoned { (100..200).collect() } else { vec![0] },
            rate_bytes_per_s: None,
            costs,
            resets: false,
        });
        let heavy = heavy && rate > 0.0;
        let measured_us = match (self.by_second, heavy) {
            (true, _) => 60_000_000.0,
            (false, true) => 8_000_000.0,
            (false, false) => 2_000_000.0,
        };
        let mut model = Model::new(profile, options);
        if rate_mib_s.is_none() || !zoned {
            model.prefill_write_buffer();
        }
        let span = Span { warm_up_us: if heavy { 1_000_000.0 } else { 100_000.0 }, measured_us };
        let mut measured = Loop::on(model, jobs, options.seed).run(span).0;
        let reader = measured.pop()?;
        Some(if self.op == "read_random" { reader } else { join(measured) })
    }

    /// Commands on zones in given states, one at a time on an idle drive.
    fn manage(&self, profile: &Profile, options: ModelOptions) -> Option<Measured> {
        let capacity = u64::from(profile.geometry().zone_capacity_blocks) * BLOCK_BYTES_U64;
        let (op, written_bytes, condition) = self.managed(capacity)?;
        let slow = op == ManageOp::Finish && written_bytes > 0 && written_bytes < capacity / 2;
        let job = Job {
            what: What::Manage(Manage { op, written_bytes, condition }),
            bytes: BLOCK_BYTES_U64,
            depth: 1,
            zones: (0..10).collect(),
            rate_bytes_per_s: None,
            costs: self.costs(profile)?,
            resets: false,
        };
        // Until enough samples are there, whatever they take.
        let samples = if slow { SLOW_SAMPLES } else { MANAGE_SAMPLES };
        let most_us = if slow { 1_000_000.0 } else { 30_000.0 };
        let span = Span { warm_up_us: 0.0, measured_us: samples * most_us };
        let mut measured = join(Loop::on(Model::new(profile, options), vec![job], options.seed).run(span).0);
        let latencies = &mut measured.latencies_us;
        if self.condition.contains("fast_mode") {
            latencies.retain(|latency| *latency < FINISH_MODES_US);
        }
        if self.condition.contains("slow_mode") {
            latencies.retain(|latency| *latency > FINISH_MODES_US);
        }
        Some(measured)
    }

    fn managed(&self, capacity: u64) -> Option<(ManageOp, u64, ZoneCondition)> {
        let condition = &self.condition;
        let write = if self.op == "append" { ManageOp::Append } else { ManageOp::Write };
        Some(match self.op.as_str() {
            "reset_finished" => (ManageOp::Reset, self.bytes, ZoneCondition::Finished),
            "reset" if self.bytes == capacity => (ManageOp::Reset, self.bytes, ZoneCondition::Written),
            "reset" if self.bytes == 0 => (ManageOp::Reset, 0, ZoneCondition::Empty),
            "reset" => (ManageOp::Reset, self.bytes, ZoneCondition::Open),
            "finish" => (ManageOp::Finish, self.bytes, ZoneCondition::Open),
            "open" => (ManageOp::Open, 0, ZoneCondition::Empty),
            "close" => (ManageOp::Close, capacity - BLOCK_BYTES_U64, ZoneCondition::Open),
            "write" | "append" if condition.starts_with("first") => (write, 0, ZoneCondition::Empty),
            "write" | "append" if condition.starts_with("last") => {
                (write, capacity - 2 * BLOCK_BYTES_U64, ZoneCondition::Closed)
            }
            "write" | "append" => (write, capacity / 2, ZoneCondition::Open),
            _ => return None,
        })
    }
}

/// The number after `key` in a text, up to the next character that is none.
fn number(text: &str, key: &str) -> Option<f64> {
    let after = &text[text.find(key)? + key.len()..];
    let end = after.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(after.len());
    after[..end].parse().ok()
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small counts from a table")]
fn whole(number: f64) -> u32 {
    number as u32
}
