//! Numbers with a point as INCRBYFLOAT knows them: the extended format of x86, which Redis calculates in.
//!
//! A number is `mantissa * 2^exponent`, with 64 bits of mantissa. It is read, added and written with
//! the rounding of the processor and of the C library, to the nearest and to even, so that answers agree with
//! those of Redis to the last digit. Written are at most 17 digits behind the point.

mod big;

use big::Big;
use std::cmp::Ordering;

/// Bits of a mantissa.
const MANTISSA_BITS: i32 = 64;
/// Numbers are less than two to the power of this.
const EXPONENT_MAX: i32 = 16384;
/// Numbers below two to the power of this are zero.
const EXPONENT_MIN: i32 = -16445;
/// Digits behind the point.
const DIGITS_WRITTEN: u32 = 17;
/// Longest text of a number (MAX_LONG_DOUBLE_CHARS).
const TEXT_BYTES_MAX: usize = 5 << 10;

/// See the module. Zero has the mantissa 0; others have the highest bit set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extended {
    is_negative: bool,
    mantissa: u64,
    exponent: i32,
}

/// What text stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// A number.
    Finite(Extended),
    /// Infinity.
    Infinite,
}

impl Extended {
    const ZERO: Extended = Extended { is_negative: false, mantissa: 0, exponent: 0 };

    /// Reads a number: digits, a point, an exponent. `None` is no number, or one too large or too small.
    #[must_use]
    pub fn read(text: &[u8]) -> Option<Read> {
        if text.len() >= TEXT_BYTES_MAX {
            return None;
        }
        let (is_negative, text) = match text.split_first()? {
            (b'-', rest) => (true, rest),
            (b'+', rest) => (false, rest),
            _ => (false, text),
        };
        if text.eq_ignore_ascii_case(b"inf") || text.eq_ignore_ascii_case(b"infinity") {
            return Some(Read::Infinite);
        }
        if let [b'0', b'x' | b'X', digits @ ..] = text {
            let magnitude = hexadecimal(digits)?;
            return Some(Read::Finite(Extended { is_negative, ..magnitude }));
        }
        let (digits, power) = decimal(text)?;
        let mut whole = Big::from_digits(&digits);
        if whole.is_zero() {
            return Some(Read::Finite(Extended { is_negative, ..Extended::ZERO }));
        }
        let mut under = Big::from(1);
        let (scaled, times) = if power < 0 { (&mut under, -power) } else { (&mut whole, power) };
        for _ in 0..times {
            scaled.multiply_add(10, 0);
        }
        let magnitude = quotient(whole, under)?;
        Some(Read::Finite(Extended { is_negative, ..magnitude }))
    }

    /// The sum; `None` when it is infinite.
    #[must_use]
    pub fn plus(self, other: Extended) -> Option<Extended> {
        let (mut large, mut small) = (self, other);
        if large.magnitude_order(small) == Ordering::Less {
            std::mem::swap(&mut large, &mut small);
        }
        if small.mantissa == 0 {
            return Some(if large.mantissa == 0 { Extended::ZERO } else { large });
        }
        // 60 bits below the mantissa of the larger; what is lower still only decides about ties.
        let shift = large.exponent - small.exponent;
        assert!(shift >= 0);
        let wide_large = u128::from(large.mantissa) << 60;
        let wide_small = shift_sticky(u128::from(small.mantissa) << 60, shift);
        let wide = if large.is_negative == small.is_negative {
            wide_large + wide_small
        } else {
            wide_large - wide_small
        };
        let sum = rounded(wide, large.exponent - 60)?;
        Some(Extended { is_negative: large.is_negative && sum.mantissa != 0, ..sum })
    }

    /// Writes the number without needless zeros.
    #[must_use]
    pub fn write(self) -> String {
        let mut text = if self.exponent >= 0 {
            let mut whole = Big::from(self.mantissa);
            whole.shift_left(u32::try_from(self.exponent).expect("not negative"));
            whole.digits()
        } else {
            self.write_fraction()
        };
        if self.is_negative && text != "0" {
            text.insert(0, '-');
        }
        text
    }

    fn write_fraction(self) -> String {
        let power = 10_u64.pow(DIGITS_WRITTEN);
        let scaled = u128::from(self.mantissa) * u128::from(power);
        let shift = self.exponent.unsigned_abs();
        let units = if shift >= 127 {
            0
        } else {
            let (units, rest, half) = (scaled >> shift, scaled & ((1 << shift) - 1), 1_u128 << (shift - 1));
            let is_up = rest > half || (rest == half && units & 1 == 1);
            units + u128::from(is_up)
        };
        let (whole, fraction) = (units / u128::from(power), units % u128::from(power));
        let text = format!("{whole}.{fraction:017}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }

    fn magnitude_order(self, other: Extended) -> Ordering {
        match (self.mantissa, other.mantissa) {
            (0, 0) => Ordering::Equal,
            (0, _) => Ordering::Less,
            (_, 0) => Ordering::Greater,
            _ => (self.exponent, self.mantissa).cmp(&(other.exponent, other.mantissa)),
        }
    }
}

/// Digits without the point, and the power of ten that they are multiples of.
fn decimal(text: &[u8]) -> Option<(Vec<u8>, i32)> {
    let (mantissa, power) = match text.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        None => (text, 0),
        Some(at) => (&text[..at], exponent(&text[at + 1..])?),
    };
    let mut parts = mantissa.splitn(2, |byte| *byte == b'.');
    let (whole, fraction) = (parts.next()?, parts.next().unwrap_or_default());
    let digits = [whole, fraction].concat();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let power = power - i32::try_from(fraction.len()).ok()?;
    let is_zero = digits.iter().all(|digit| *digit == b'0');
    // Far outside of all numbers; nearer by, the bits decide.
    if !is_zero && !(-20_000..=10_000).contains(&power) {
        return None;
    }
    Some((digits, if is_zero { 0 } else { power }))
}

/// A number in hexadecimal digits, with a point and a power of two as `strtold` reads them.
fn hexadecimal(text: &[u8]) -> Option<Extended> {
    let (mantissa, power) = match text.iter().position(|byte| matches!(byte, b'p' | b'P')) {
        None => (text, 0),
        Some(at) => (&text[..at], exponent(&text[at + 1..])?),
    };
    let mut parts = mantissa.splitn(2, |byte| *byte == b'.');
    let (whole, fraction) = (parts.next()?, parts.next().unwrap_or_default());
    let digits = [whole, fraction].concat();
    if digits.is_empty() {
        return None;
    }
    let mut over = Big::from(0);
    for digit in digits {
        over.multiply_add(16, u64::from(char::from(digit).to_digit(16)?));
    }
    let power = power - i32::try_from(4 * fraction.len()).ok()?;
    if over.is_zero() {
        return Some(Extended::ZERO);
    }
    // Far outside of all numbers; nearer by, the bits decide.
    if !(-60_000..=40_000).contains(&power) {
        return None;
    }
    let mut under = Big::from(1);
    let scaled = if power < 0 { &mut under } else { &mut over };
    scaled.shift_left(power.unsigned_abs());
    quotient(over, under)
}

fn exponent(text: &[u8]) -> Option<i32> {
    let (is_negative, digits) = match text.split_first()? {
        (b'-', digits) => (true, digits),
        (b'+', digits) => (false, digits),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0_i32, |value, digit| {
        value.saturating_mul(10).saturating_add(i32::from(digit - b'0')).min(1_000_000)
    });
    Some(if is_negative { -value } else { value })
}

/// `over / under`, rounded; `None` when it is no number of ours.
fn quotient(mut over: Big, mut under: Big) -> Option<Extended> {
    assert!(!over.is_zero() && !under.is_zero());
    // The quotient will have 66 or 67 bits.
    let shift = MANTISSA_BITS + 2 - (over.bits() - under.bits());
    let wide = |bits: i32| u32::try_from(bits).expect("not negative");
    if shift >= 0 {
        over.shift_left(wide(shift))
    } else {
        under.shift_left(wide(-shift))
    }
    let steps = over.bits() - under.bits() + 1;
    under.shift_left(wide(steps));
    let mut wide_quotient = 0_u128;
    for _ in 0..=steps {
        wide_quotient <<= 1;
        if over >= under {
            over.subtract(&under);
            wide_quotient |= 1;
        }
        under.halve();
    }
    let sticky = u128::from(!over.is_zero());
    rounded(wide_quotient << 1 | sticky, -shift - 1)
}

/// `value * 2^exponent` with 64 bits; the lowest bit of `value` also stands for all that is lower.
fn rounded(value: u128, exponent: i32) -> Option<Extended> {
    if value == 0 {
        return Some(Extended::ZERO);
    }
    let bits = 128 - i32::try_from(value.leading_zeros()).expect("at most 128");
    let excess = bits - MANTISSA_BITS;
    let (mut mantissa, mut exponent) = (value, exponent);
    if excess > 0 {
        let (kept, rest) = (value >> excess, value & ((1 << excess) - 1));
        let half = 1_u128 << (excess - 1);
        mantissa = kept + u128::from(rest > half || (rest == half && kept & 1 == 1));
        exponent += excess;
    } else {
        mantissa <<= -excess;
        exponent += excess;
    }
    if mantissa >> MANTISSA_BITS != 0 {
        mantissa >>= 1;
        exponent += 1;
    }
    let top = exponent + MANTISSA_BITS;
    if !(EXPONENT_MIN..=EXPONENT_MAX).contains(&top) {
        return None;
    }
    let mantissa = u64::try_from(mantissa).expect("rounded to 64 bits");
    assert!(mantissa >> 63 == 1);
    Some(Extended { is_negative: false, mantissa, exponent })
}

/// Shifts right; what falls out leaves its mark on the lowest bit.
fn shift_sticky(value: u128, shift: i32) -> u128 {
    let shift = u32::try_from(shift).expect("not negative");
    if shift >= 127 {
        return u128::from(value != 0);
    }
    let fell_out = value & ((1 << shift) - 1) != 0;
    value >> shift | u128::from(fell_out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn number(text: &str) -> Extended {
        match Extended::read(text.as_bytes()) {
            Some(Read::Finite(number)) => number,
            other => panic!("{text}: {other:?}"),
        }
    }

    fn sum(a: &str, b: &str) -> String {
        number(a).plus(number(b)).map_or_else(|| "infinite".to_owned(), Extended::write)
    }

    /// Each right side is an answer of Redis 7.0.15.
    #[test]
    fn sums_are_those_of_redis() {
        let sums = [
            ("10.50", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("1", "1.1", "2.1"),
            ("3", "-1.1", "1.9"),
            ("17179869184", "1.5", "17179869185.5"),
            ("0.1", "0.2", "0.3"),
            ("1e15", "0.1", "1000000000000000.0999755859375"),
            ("-1", "1", "0"),
            ("1e-20", "0", "0"),
            (".5", "5.", "5.5"),
            ("0x10", "0", "16"),
            ("0x.8p1", "-0X1P-1", "0.5"),
            ("0x1.fp4", "0", "31"),
        ];
        for (a, b, expected) in sums {
            let found = sum(a, b);
            assert_eq!(found, expected, "{a} + {b}");
        }
    }

    #[test]
    fn what_is_no_number_is_not_read() {
        let wrong = [
            "",
            "-",
            ".",
            "e5",
            "1e",
            " 1",
            "1 ",
            "1x",
            "nan",
            "1e5000",
            "1e-5000",
            "--1",
            "1.2.3",
            "1\0",
            "0x",
            "0x.",
            "0x1p",
            "0xg",
            "0x1p99999",
        ];
        for text in wrong {
            assert_eq!(Extended::read(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Extended::read(b"-inf"), Some(Read::Infinite));
        assert_eq!(Extended::read(&[b'1'; TEXT_BYTES_MAX]), None);
        assert_eq!(number("1e4932").plus(number("1e4932")), None);
        assert_eq!(number("1e4000").write().len(), 4000);
    }

    proptest! {
        /// What fits 53 bits is what the processor makes of it.
        #[test]
        fn small_sums_are_exact(a in -(1_i64 << 52)..1 << 52, b in -(1_i64 << 52)..1 << 52, halves in 0_u32..8) {
            let text = |value: i64| {
                let units = i64::from(1 << halves);
                let sign = if value < 0 { "-" } else { "" };
                let fraction = (value.abs() % units) * (100_000_000 / units);
                format!("{sign}{}.{fraction:08}", value.abs() / units)
            };
            let found = sum(&text(a), &text(b));
            let expected = text(a + b);
            let expected = expected.trim_end_matches('0').trim_end_matches('.');
            prop_assert_eq!(found, if expected == "-0" { "0" } else { expected });
        }

        #[test]
        fn what_is_written_is_read(mantissa in 1_u64 << 63.., exponent in -110..60_i32) {
            let number_here = Extended { is_negative: false, mantissa, exponent };
            let text = number_here.write();
            let again = number(&text).write();
            prop_assert_eq!(text, again);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[-+0-9.eEinf]{0,40}") {
            if let Some(Read::Finite(number)) = Extended::read(text.as_bytes()) {
                prop_assert!(!number.write().is_empty());
            }
        }
    }
}
