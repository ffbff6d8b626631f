//! Numbers and times as memcached reads them.

use cache::request::WallMillis;

/// Seconds up to which a time counts from now; beyond, it is Unix time.
const RELATIVE_MAX: i64 = 60 * 60 * 24 * 30;

/// An unsigned number of 64 bits: digits, with spaces around as `strtoull` and its caller let them be.
#[must_use]
pub fn unsigned(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?.trim_matches(' ');
    let digits = text.strip_prefix('+').unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { digits.parse().ok() } else { None }
}

/// A signed number of 32 bits.
#[must_use]
pub fn signed(text: &[u8]) -> Option<i32> {
    match text.strip_prefix(b"-") {
        Some(digits) if digits.first().is_some_and(u8::is_ascii_digit) => {
            let value = i64::try_from(unsigned(digits)?).ok()?;
            i32::try_from(-value).ok()
        }
        Some(_) => None,
        None => i32::try_from(unsigned(text)?).ok(),
    }
}

/// Time at which an object ends that is given so many seconds, or a Unix time; `None` is never. A negative time has passed.
#[must_use]
pub fn end(seconds: i32, now: WallMillis) -> Option<WallMillis> {
    match i64::from(seconds) {
        0 => None,
        seconds if seconds < 0 => Some(WallMillis(0)),
        seconds => {
            let seconds = u64::try_from(seconds).expect("positive");
            let is_relative = i64::from(i32::try_from(seconds).unwrap_or(i32::MAX)) <= RELATIVE_MAX;
            Some(WallMillis(if is_relative { now.0 + seconds * 1000 } else { seconds * 1000 }))
        }
    }
}

/// Seconds that are left; -1 without an end.
#[must_use]
pub fn left(expires: Option<WallMillis>, now: WallMillis) -> i64 {
    expires.map_or(-1, |at| i64::try_from(at.0.saturating_sub(now.0).div_ceil(1000)).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_memcached_does() {
        assert_eq!(unsigned(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(unsigned(b"9 "), Some(9));
        for wrong in [&b""[..], b"-1", b"18446744073709551616", b"1x", b"\xff", b"+"] {
            assert_eq!(unsigned(wrong), None);
        }
        assert_eq!(signed(b"-2147483648"), Some(i32::MIN));
        for wrong in [&b"2147483648"[..], b"-2147483649", b"--1", b"- 1", b"-"] {
            assert_eq!(signed(wrong), None);
        }
    }

    #[test]
    fn times_count_from_now_up_to_thirty_days() {
        let now = WallMillis(1_000_000);
        assert_eq!(end(0, now), None);
        assert_eq!(end(-1, now), Some(WallMillis(0)));
        assert_eq!(end(2_592_000, now), Some(WallMillis(1_000_000 + 2_592_000_000)));
        assert_eq!(end(2_592_001, now), Some(WallMillis(2_592_001_000)));
        assert_eq!(left(Some(WallMillis(1_000_001)), now), 1);
        assert_eq!(left(None, now), -1);
    }
}
