//! Two sides under the same load, measured in turn: a machine whose speed drifts is fair to both, and medians are compared.

use anyhow::Result;
use serde::Serialize;

/// Every measurement of both sides.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Paired {
    /// Ours.
    pub measured: Vec<f64>,
    /// The other side's.
    pub peer_measured: Vec<f64>,
}

impl Paired {
    /// Measures each side so many times; `measure` is told whether it is the other side's turn.
    ///
    /// # Errors
    /// When a measurement fails.
    pub fn measure(rounds: u32, mut measure: impl FnMut(bool) -> Result<f64>) -> Result<Paired> {
        let mut paired = Paired::default();
        for _ in 0..rounds {
            paired.measured.push(measure(false)?);
            paired.peer_measured.push(measure(true)?);
        }
        Ok(paired)
    }

    /// Row of the comparison, of microseconds of processor per request.
    #[must_use]
    pub fn into_row(self, name: &'static str, ratio_max: f64) -> Row {
        let (us_per_request, peer_us_per_request, ratio) = (self.ours(), self.peer(), self.ratio());
        Row { name, us_per_request, peer_us_per_request, ratio, ratio_max, measured: self }
    }

    /// Ours over the other side's.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.ours() / self.peer()
    }

    /// Median of ours.
    #[must_use]
    pub fn ours(&self) -> f64 {
        median(&self.measured)
    }

    /// Median of the other side.
    #[must_use]
    pub fn peer(&self) -> f64 {
        median(&self.peer_measured)
    }
}

/// Comparison of the processor time of requests.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Load, and what is compared.
    pub name: &'static str,
    /// Microseconds of processor per request: the median of ours.
    pub us_per_request: f64,
    /// Microseconds of the other side, likewise the median.
    pub peer_us_per_request: f64,
    /// Ours over the other side's.
    pub ratio: f64,
    /// Highest ratio that is good.
    pub ratio_max: f64,
    /// Every measurement.
    #[serde(flatten)]
    pub measured: Paired,
}

impl Row {
    /// True when the bar is met.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.ratio <= self.ratio_max
    }
}

/// Median of some figures; the mean of the middle two where there is none.
#[must_use]
pub fn median(figures: &[f64]) -> f64 {
    let mut figures = figures.to_vec();
    figures.sort_by(f64::total_cmp);
    f64::midpoint(figures[(figures.len() - 1) / 2], figures[figures.len() / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_take_turns_and_medians_are_told() {
        let mut turns = Vec::new();
        let mut figures = [3.0, 30.0, 1.0, 10.0, 2.0, 20.0].into_iter();
        let paired = Paired::measure(3, |is_peer| {
            turns.push(is_peer);
            Ok(figures.next().unwrap())
        });
        let paired = paired.unwrap();
        assert_eq!(turns, [false, true, false, true, false, true]);
        assert_eq!((paired.ours(), paired.peer()), (2.0, 20.0));
        assert_eq!(median(&[1.0, 2.0]), 1.5);
    }
}
