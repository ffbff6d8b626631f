//! Statistics over seeds: mean and 95 % confidence interval by Student's t.

use crate::precise::precise;

/// Two-sided 95 % quantiles of Student's t for 1 to 30 degrees of freedom.
const QUANTILES: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];
/// With more degrees of freedom, that of the normal distribution; at most 4 % too small.
const QUANTILE_NORMAL: f64 = 1.960;

/// Mean of values, and half the width of its interval; no interval of a single value.
#[must_use]
pub fn mean_and_ci95(values: &[f64]) -> (f64, Option<f64>) {
    let count = precise(values.len());
    let mean = values.iter().sum::<f64>() / count;
    let Some(freedom) = values.len().checked_sub(2) else { return (mean, None) };
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let quantile = QUANTILES.get(freedom).copied().unwrap_or(QUANTILE_NORMAL);
    (mean, Some(quantile * (variance / count).sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 5 values, t = 2.776 with 4 degrees of freedom: standard deviation 1.5811, so 2.776 * 1.5811 / sqrt(5).
    #[test]
    fn interval_of_five_values() {
        let (mean, ci95) = mean_and_ci95(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(mean, 3.0);
        assert!((ci95.unwrap() - 1.963).abs() < 0.001);
    }

    #[test]
    fn one_value_has_no_interval_and_equal_ones_an_empty_one() {
        assert_eq!(mean_and_ci95(&[7.0]), (7.0, None));
        assert_eq!(mean_and_ci95(&[2.0, 2.0]), (2.0, Some(0.0)));
    }

    #[test]
    fn many_values_use_the_normal_distribution() {
        let values: Vec<f64> = (0..100).map(|value| f64::from(value % 2)).collect();
        let (mean, ci95) = mean_and_ci95(&values);
        assert_eq!(mean, 0.5);
        assert!((ci95.unwrap() - 1.960 * 0.050_252).abs() < 1e-4);
    }
}
