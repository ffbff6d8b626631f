//! What a job measured.

use crate::precise::{precise, precise_u64};
use serde::Serialize;
use std::fmt;

/// Figures of a measurement, in JSON and in words.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    /// Mean latency.
    pub mean_us: f64,
    /// Median latency.
    pub p50_us: f64,
    /// 95 % are at most this.
    pub p95_us: f64,
    /// 99 % are at most this.
    pub p99_us: f64,
    /// 99.9 % are at most this.
    pub p999_us: f64,
    /// Thousands of requests per second; of management commands, back to back.
    pub kiops: f64,
    /// Throughput; 0 for commands that move no data.
    pub mib_s: f64,
    /// Requests measured.
    pub samples: u64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "requests   {}", self.samples)?;
        writeln!(f, "mean       {:.2} us", self.mean_us)?;
        writeln!(f, "p50        {:.2} us", self.p50_us)?;
        writeln!(f, "p95        {:.2} us", self.p95_us)?;
        writeln!(f, "p99        {:.2} us", self.p99_us)?;
        writeln!(f, "p99.9      {:.2} us", self.p999_us)?;
        writeln!(f, "rate       {:.3} KIOPS", self.kiops)?;
        write!(f, "throughput {:.1} MiB/s", self.mib_s)
    }
}

/// Requests completed after the warm-up.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Latency of each, in order of completion.
    pub latencies_us: Vec<f64>,
    /// Bytes of all.
    pub bytes: u64,
    /// Length of the measurement.
    pub span_us: f64,
    /// MiB completed in each second.
    pub by_second: Vec<f64>,
}

impl Measured {
    /// Thousands of requests per second.
    #[must_use]
    pub fn kiops(&self) -> f64 {
        precise(self.latencies_us.len()) / self.span_us * 1e3
    }

    /// Throughput.
    #[must_use]
    pub fn mib_s(&self) -> f64 {
        precise_u64(self.bytes) / self.span_us * 1e6 / 1_048_576.0
    }

    /// Mean latency; not a number without requests.
    #[must_use]
    pub fn mean_us(&self) -> f64 {
        self.latencies_us.iter().sum::<f64>() / precise(self.latencies_us.len())
    }

    /// The latency below which `percent` of the requests lie; not a number without requests.
    #[must_use]
    pub fn percentile_us(&self, percent: f64) -> f64 {
        let mut sorted = self.latencies_us.clone();
        sorted.sort_by(f64::total_cmp);
        percentile(&sorted, percent)
    }

    /// All that is said of it.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let [p50_us, p95_us, p99_us, p999_us] = self.percentiles_us([50.0, 95.0, 99.0, 99.9]);
        Figures {
            mean_us: self.mean_us(),
            p50_us,
            p95_us,
            p99_us,
            p999_us,
            kiops: self.kiops(),
            mib_s: self.mib_s(),
            samples: self.latencies_us.len() as u64,
        }
    }

    /// Several percentiles with one sort.
    #[must_use]
    pub fn percentiles_us<const COUNT: usize>(&self, percents: [f64; COUNT]) -> [f64; COUNT] {
        let mut sorted = self.latencies_us.clone();
        sorted.sort_by(f64::total_cmp);
        percents.map(|percent| percentile(&sorted, percent))
    }
}

/// The value below which `percent` of sorted values lie, interpolated as numpy does.
#[must_use]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in the list")]
pub fn percentile(sorted: &[f64], percent: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = precise(last) * percent / 100.0;
    let low = (place as usize).min(last);
    let high = (low + 1).min(last);
    sorted[low] + (sorted[high] - sorted[low]) * (place - precise(low))
}

/// Several jobs as one.
#[must_use]
pub fn join(parts: Vec<Measured>) -> Measured {
    let mut whole = Measured::default();
    for part in parts {
        whole.latencies_us.extend(part.latencies_us);
        whole.bytes += part.bytes;
        whole.span_us = whole.span_us.max(part.span_us);
        whole.by_second.resize(whole.by_second.len().max(part.by_second.len()), 0.0);
        whole.by_second.iter_mut().zip(part.by_second).for_each(|(sum, part)| *sum += part);
    }
    whole
}

/// Standard deviation of values, as a share of their mean.
#[must_use]
pub fn variation(values: &[f64]) -> f64 {
    let count = precise(values.len());
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    variance.sqrt() / mean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_interpolate() {
        let measured = Measured { latencies_us: vec![4.0, 1.0, 3.0, 2.0], ..Measured::default() };
        assert_eq!(measured.percentiles_us([0.0, 50.0, 100.0]), [1.0, 2.5, 4.0]);
        assert_eq!(measured.mean_us(), 2.5);
        assert!(Measured::default().percentile_us(50.0).is_nan());
    }
}
