//! Words and units of mdadm's command line.

use block::md::names;
use block::md::superblock::Version;
use block::md::{SECTOR_BYTES_U64, Uuid};
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Bytes of a number that counts KiB unless a unit follows: K, M, G or T.
pub fn kibibytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}`: a number of KiB, or one with K, M, G or T behind");
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let shift = match unit {
        "" | "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        "T" | "t" => 40,
        _ => return Err(wrong()),
    };
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

/// Sectors of the same.
pub fn sectors(text: &str) -> Result<u64, String> {
    kibibytes(text).map(|bytes| bytes / SECTOR_BYTES_U64)
}

/// Sectors used of each member; `max` is zero, the most that fits.
pub fn size(text: &str) -> Result<u64, String> {
    if text == "max" { Ok(0) } else { sectors(text) }
}

/// Level.
pub fn level(text: &str) -> Result<i32, String> {
    match text {
        "4" | "raid4" => Ok(4),
        "5" | "raid5" => Ok(5),
        "6" | "raid6" => Ok(6),
        _ => Err(format!("`{text}`: levels are 4, 5 and 6 (raid4, raid5, raid6); mdadm makes others")),
    }
}

/// Place of the superblocks.
pub fn version(text: &str) -> Result<Version, String> {
    match text {
        "1.0" => Ok(Version::V1_0),
        "1.1" => Ok(Version::V1_1),
        "1" | "1.2" | "default" => Ok(Version::V1_2),
        _ => Err(format!("`{text}`: metadata are 1.0, 1.1 or 1.2")),
    }
}

/// Number of a layout by its name, the short form of it, or the number itself.
pub fn layout(level: i32, text: &str) -> Option<u32> {
    let long = match text {
        "la" => "left-asymmetric",
        "ra" => "right-asymmetric",
        "ls" | "default" => "left-symmetric",
        "rs" => "right-symmetric",
        other => other,
    };
    (0..32).find(|number| {
        names::layout(level, *number).is_some_and(|name| name == long || number.to_string() == text)
    })
}

/// Identity as mdadm takes it: 32 hexadecimal digits, with colons, dots, dashes or blanks between.
pub fn uuid(text: &str) -> Result<Uuid, String> {
    let wrong = || format!("`{text}`: 32 hexadecimal digits, such as 7a776d64:00000000:00000000:99bc9ec0");
    let digits: String = text.chars().filter(|c| !":.- ".contains(*c)).collect();
    let number =
        u128::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 32 && !digits.starts_with('+'));
    number.map(|number| Uuid(number.to_be_bytes())).ok_or_else(wrong)
}

/// Time as `ctime` gives it, in the time zone of whoever asks.
pub fn local_time(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    let time = time.map(|time| time.to_zoned(TimeZone::system()));
    time.map_or_else(
        || format!("{seconds} s after 1970"),
        |time| time.strftime("%a %b %e %H:%M:%S %Y").to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_mdadm_s() {
        assert_eq!(
            (kibibytes("64"), kibibytes("3M"), size("max"), sectors("1K")),
            (Ok(65536), Ok(3 << 20), Ok(0), Ok(2))
        );
        assert!(kibibytes("64KiB").is_err() && kibibytes("").is_err() && kibibytes("99999999999T").is_err());
        assert_eq!(
            (layout(5, "ra"), layout(6, "left-symmetric-6"), layout(5, "18"), layout(6, "18")),
            (Some(1), Some(18), None, Some(18))
        );
        let id = uuid("7a776d64:00000000:00000000:99bc9ec0").expect("an identity");
        assert_eq!(id.to_string(), "7a776d64:00000000:00000000:99bc9ec0");
        assert!(uuid("7a").is_err() && uuid("+a776d64:00000000:00000000:99bc9ec0").is_err());
    }
}
