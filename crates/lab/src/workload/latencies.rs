//! What a job measured.

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
    #[allow(clippy::cast_precision_loss, reason = "below 2^53 bytes")]
    pub fn mib_s(&self) -> f64 {
        self.bytes as f64 / self.span_us * 1e6 / 1_048_576.0
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

#[allow(clippy::cast_precision_loss, reason = "counts below 2^53")]
fn precise(count: usize) -> f64 {
    count as f64
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
