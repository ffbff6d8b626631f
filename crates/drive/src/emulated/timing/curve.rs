//! Costs as a function of size: straight lines between measured points.

use super::profile::{TIME_US_MAX, is_time};
use serde::Deserialize;

/// Microseconds by bytes, linear between its points. Below the first point it is that point; above
/// the last it goes on with the last slope, up to the longest time there is.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct Curve {
    points: Vec<(u64, f64)>,
}

impl Curve {
    /// True when sizes rise and costs are times.
    pub(super) fn is_sound(&self) -> bool {
        let rising = self.points.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let costs = self.points.iter().all(|(_, cost)| is_time(*cost));
        !self.points.is_empty() && rising && costs
    }

    /// The cost of `bytes` in microseconds.
    pub(super) fn at(&self, bytes: u64) -> f64 {
        let first = self.points[0];
        if bytes <= first.0 || self.points.len() == 1 {
            return first.1;
        }
        let after = self.points.partition_point(|point| point.0 < bytes).min(self.points.len() - 1);
        let (low, high) = (self.points[after - 1], self.points[after]);
        let slope = (high.1 - low.1) / (high.0 - low.0) as f64;
        (low.1 + slope * (bytes as f64 - low.0 as f64)).clamp(0.0, TIME_US_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_linear_between_points_and_goes_on_beyond() {
        let curve = Curve { points: vec![(4096, 4.0), (8192, 3.0), (16384, 7.0)] };
        assert!(curve.is_sound());
        let near = |bytes: u64, cost: f64| assert!((curve.at(bytes) - cost).abs() < 1e-9, "{bytes}");
        near(0, 4.0);
        near(4096, 4.0);
        near(6144, 3.5);
        near(8192, 3.0);
        near(12288, 5.0);
        near(32768, 15.0);
        let steep = Curve { points: vec![(1, 0.0), (2, 1e8)] };
        assert!(steep.is_sound() && steep.at(u64::MAX) <= TIME_US_MAX);
    }

    #[test]
    fn unsound_curves_are_told() {
        assert!(!Curve { points: vec![] }.is_sound());
        assert!(!Curve { points: vec![(8, 1.0), (8, 2.0)] }.is_sound());
        assert!(!Curve { points: vec![(8, -1.0)] }.is_sound());
        assert!(!Curve { points: vec![(8, f64::NAN)] }.is_sound());
        assert!(!Curve { points: vec![(8, 1e300)] }.is_sound(), "no clock counts so far");
    }
}
