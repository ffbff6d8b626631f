//! Numbers as Redis reads and writes them.
//!
//! An integer is canonical decimal text of 64 bits: no sign but `-`, no leading zero, no space, so
//! that a value can be kept as a number and given back as the same text.

pub mod extended;

/// Digits of the longest integer, with its sign.
const INTEGER_BYTES_MAX: usize = 20;
const _: () = assert!(i64::MIN.unsigned_abs().ilog10() as usize + 2 == INTEGER_BYTES_MAX);

/// Reads a canonical integer.
#[must_use]
pub fn integer(text: &[u8]) -> Option<i64> {
    if text.is_empty() || text.len() > INTEGER_BYTES_MAX {
        return None;
    }
    if text == b"0" {
        return Some(0);
    }
    let (is_negative, digits) = match text.split_first() {
        Some((b'-', digits)) => (true, digits),
        _ => (false, text),
    };
    if !matches!(digits.first(), Some(b'1'..=b'9')) {
        return None;
    }
    let mut value: i64 = 0;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        let digit = i64::from(digit - b'0');
        // Downwards, since the least integer has no positive counterpart.
        value = value.checked_mul(10)?.checked_sub(digit)?;
    }
    assert!(value < 0);
    if is_negative { Some(value) } else { value.checked_neg() }
}

/// Appends decimal digits.
pub fn push_integer(out: &mut Vec<u8>, value: i64) {
    let mut digits = [0_u8; INTEGER_BYTES_MAX];
    let mut at = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(rest % 10).expect("a digit");
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_canonical_integers_are_read() {
        let ends =
            [(&b"9223372036854775807"[..], i64::MAX), (b"-9223372036854775808", i64::MIN), (b"-1", -1)];
        for (text, value) in ends {
            assert_eq!(integer(text), Some(value));
        }
        let wrong =
            ["", "-", "+1", "01", "-0", " 1", "1 ", "1a", "9223372036854775808", "-9223372036854775809"];
        for text in wrong {
            assert_eq!(integer(text.as_bytes()), None, "{text}");
        }
        assert_eq!(integer(&[b'1'; 4096]), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(value: i64) {
            let mut text = Vec::new();
            push_integer(&mut text, value);
            prop_assert_eq!(&text, &value.to_string().into_bytes());
            prop_assert_eq!(integer(&text), Some(value));
        }
    }
}
