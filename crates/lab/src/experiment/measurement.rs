//! Measurements: numbers with stable names, as they are printed one per line.

use super::scheme::Scheme;
use super::setting::Setting;
use super::student::mean_and_ci95;
use crate::precise::precise_u64;
use crate::workload::Measured;
use array::log::Counters;
use serde::Serialize;

/// Quantity that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Stable name.
    pub name: &'static str,
    /// Unit of the values.
    pub unit: &'static str,
}

const fn metric(name: &'static str, unit: &'static str) -> Metric {
    Metric { name, unit }
}

/// Bytes of clients written per second.
pub const WRITE_THROUGHPUT: Metric = metric("write_throughput_mib_s", "MiB/s");
/// Bytes of clients read per second.
pub const READ_THROUGHPUT: Metric = metric("read_throughput_mib_s", "MiB/s");
/// Bytes of clients read and written per second.
pub const THROUGHPUT: Metric = metric("throughput_mib_s", "MiB/s");
/// Mean latency.
pub const MEAN: Metric = metric("mean_latency_us", "us");
/// Median latency.
pub const P50: Metric = metric("p50_latency_us", "us");
/// 95 % of latencies are at most this.
pub const P95: Metric = metric("p95_latency_us", "us");
/// 99 % of latencies are at most this.
pub const P99: Metric = metric("p99_latency_us", "us");
/// 99.9 % of latencies are at most this.
pub const P999: Metric = metric("p999_latency_us", "us");
/// 99.99 % of latencies are at most this.
pub const P9999: Metric = metric("p9999_latency_us", "us");
/// Blocks written to drives per block written by clients, parity not counted.
pub const WRITE_AMPLIFICATION: Metric = metric("write_amplification", "x");
/// Share of the index that is in memory at the end.
pub const INDEX_RESIDENT: Metric = metric("index_resident_percent", "%");
/// Blocks written to drives per block written by clients: data, parity and everything else.
pub const DRIVE_WRITES: Metric = metric("drive_writes_per_client_write", "x");
/// Bytes programmed in zones per byte written by clients, data, parity, padding, moves and metadata; what slots of the write area hold at
/// either end is not among them.
pub const FLASH_BYTES: Metric = metric("flash_bytes_per_user_byte", "x");

/// Bytes of clients that were overwritten in the write area before they left it, per byte written by clients.
pub const ABSORBED_BYTES: Metric = metric("absorbed_bytes_per_user_byte", "x");

/// Bytes written to drives per byte written by clients, overwrites in windows among them.
pub const INTERFACE_BYTES: Metric = metric("interface_bytes_per_user_byte", "x");
/// Bytes written to the flash behind windows per byte written by clients; 0 where that is memory.
pub const BACKING_BYTES: Metric = metric("backing_bytes_per_user_byte", "x");
/// Bytes that finishes of zones leave unwritten and drives pad, per byte written by clients. Beside [`FLASH_BYTES`].
pub const FINISH_BYTES: Metric = metric("finish_bytes_per_user_byte", "x");

/// Data of clients, of [`FLASH_BYTES`].
pub const DATA_BYTES: Metric = metric("data_bytes_per_user_byte", "x");
/// Parity, of [`FLASH_BYTES`].
pub const PARITY_BYTES: Metric = metric("parity_bytes_per_user_byte", "x");
/// Blocks moved for space, of [`FLASH_BYTES`].
pub const MOVED_BYTES: Metric = metric("moved_bytes_per_user_byte", "x");
/// Padding of stripes, of [`FLASH_BYTES`].
pub const PADDING_BYTES: Metric = metric("padding_bytes_per_user_byte", "x");
/// Headers, footers, summaries, checkpoints, tombstones and parts of the index, of [`FLASH_BYTES`].
pub const METADATA_BYTES: Metric = metric("metadata_bytes_per_user_byte", "x");

/// Blocks read from drives for writes, per block written by clients.
pub const DRIVE_READS: Metric = metric("drive_reads_per_client_write", "x");

/// A value of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value {
    /// Metric that was measured.
    pub metric: Metric,
    /// Number in the unit of the metric.
    pub value: f64,
}

/// Throughput and latencies of a load.
#[must_use]
pub fn values_of(measured: &Measured, throughput: Metric) -> Vec<Value> {
    let figures = measured.figures();
    let all = [
        (throughput, figures.mib_s),
        (P50, figures.p50_us),
        (P95, figures.p95_us),
        (P99, figures.p99_us),
        (P999, figures.p999_us),
    ];
    all.into_iter().map(|(metric, value)| Value { metric, value }).collect()
}

/// Blocks written to drives per block of clients between two counts, parity not counted.
#[must_use]
pub fn amplification(before: &Counters, after: &Counters) -> f64 {
    let written = |counters: &Counters| {
        counters.user_blocks_written
            + counters.moved_blocks_written
            + counters.padding_blocks_written
            + counters.metadata_blocks_written
    };
    let of_clients = after.user_blocks_written - before.user_blocks_written;
    precise_u64(written(after) - written(before)) / precise_u64(of_clients.max(1))
}

/// A number over all seeds. The keys are a contract: scripts rely on them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measurement {
    /// Name of the experiment.
    pub experiment: &'static str,
    /// Scheme by which stripes were placed.
    pub scheme: Scheme,
    /// Setting of the measurement.
    pub setting: Setting,
    /// Name of the metric.
    pub metric: &'static str,
    /// Mean over the seeds.
    pub value: f64,
    /// Half the width of the 95 % confidence interval; none for one seed.
    pub ci95: Option<f64>,
    /// Unit of the values.
    pub unit: &'static str,
    /// Value of the paper, where it has one.
    pub paper_value: Option<f64>,
}

/// Mean and interval, with six digits: what is printed twice is the same text.
#[must_use]
pub fn summarise(values: &[f64]) -> (f64, Option<f64>) {
    let (mean, ci95) = mean_and_ci95(values);
    (six_digits(mean), ci95.map(six_digits))
}

fn six_digits(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}
