//! Arithmetic that the findings share.

pub use crate::precise::{precise, precise_u64 as precise_bytes};

/// Returns by how much `ours` is above `base`, in per cent.
#[must_use]
pub fn percent_above(ours: f64, base: f64) -> f64 {
    (ours / base - 1.0) * 100.0
}

/// Returns true when two values differ by at most a share of the larger.
#[must_use]
pub fn are_close(first: f64, second: f64, share: f64) -> bool {
    (first - second).abs() <= share * first.abs().max(second.abs())
}

/// The largest.
#[must_use]
pub fn most(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(f64::NEG_INFINITY, f64::max)
}

/// The smallest.
#[must_use]
pub fn least(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(f64::INFINITY, f64::min)
}

/// Returns true when each value is above the one before by more than `share` of it; negative shares allow
/// for noise.
#[must_use]
pub fn rises(values: &[f64], share: f64) -> bool {
    values.windows(2).all(|pair| pair[1] > pair[0] * (1.0 + share))
}

/// Returns the share of the variation that a straight line explains: 1 is all of it.
#[must_use]
pub fn linearity(points: &[(f64, f64)]) -> f64 {
    let count = precise(points.len());
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
    let covariance: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let spread_x: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let spread_y: f64 = points.iter().map(|(_, y)| (y - mean_y).powi(2)).sum();
    covariance.powi(2) / (spread_x * spread_y)
}

/// To six digits, so that reports do not pretend to more.
#[must_use]
pub fn six_digits(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// For people: about four digits.
#[must_use]
pub fn readable(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if !value.is_finite() => "-".to_owned(),
        0.0 => "0".to_owned(),
        _ if size >= 1000.0 => grouped(value),
        _ if size >= 100.0 => format!("{value:.1}"),
        _ if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// A whole number with commas between thousands.
fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 { format!("-{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(readable(1155.4), "1,155");
        assert_eq!(readable(-1_234_567.0), "-1,234,567");
        assert_eq!(readable(906.49), "906.5");
        assert_eq!(readable(11.357), "11.36");
        assert_eq!(readable(0.0), "0");
        assert_eq!(readable(f64::NAN), "-");
        assert_eq!(six_digits(1.234_567_89), 1.23457);
    }

    #[test]
    fn a_line_is_linear_and_a_step_is_not() {
        assert!(linearity(&[(0.0, 5.0), (1.0, 4.0), (2.0, 3.0)]) > 0.999);
        assert!(linearity(&[(0.0, 0.0), (1.0, 9.0), (2.0, 0.0)]) < 0.1);
    }

    #[test]
    fn rising_allows_for_noise() {
        assert!(rises(&[1.0, 2.0, 3.0], 0.0));
        assert!(!rises(&[1.0, 2.0, 1.99], 0.0));
        assert!(rises(&[1.0, 2.0, 1.99], -0.01));
    }
}
