//! Sizes and addresses as types, so that a byte count never meets a block count by accident.

use std::fmt;

/// Bytes in one block, the unit of every read, write and index entry.
pub const BLOCK_BYTES: usize = 4096;
/// [`BLOCK_BYTES`] for arithmetic on 64-bit byte offsets.
pub const BLOCK_BYTES_U64: u64 = 4096;
/// Bytes of out-of-band metadata that travel with each block.
pub const OOB_BYTES: usize = 64;

/// A number of 64 bits as an index into a table in memory, or as a count of what lies there.
///
/// # Panics
/// When it does not fit the machine's address space.
#[inline]
#[must_use]
pub fn index_of(number: u64) -> usize {
    usize::try_from(number).expect("tables are sized by the volume, which fits memory")
}

/// Logical block address: the index of a 4-KiB block within a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lba(pub u64);

impl Lba {
    /// The block `count` places after this one.
    #[must_use]
    pub fn plus(self, count: u64) -> Lba {
        Lba(self.0 + count)
    }

    /// The address as an index into a table with one entry per block.
    ///
    /// # Panics
    /// When the address does not fit the machine's address space.
    #[must_use]
    pub fn index(self) -> usize {
        index_of(self.0)
    }
}

impl fmt::Display for Lba {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Index of a zone within one drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZoneIndex(pub u32);

impl ZoneIndex {
    /// The zone as an index into a table with one entry per zone.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for ZoneIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Place of a drive within its array, 0-based. mdadm calls it the role of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DriveIndex(pub u8);

impl DriveIndex {
    /// The drive as an index into a table with one entry per member.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The drive at place `index` of a table with one entry per member.
    ///
    /// # Panics
    /// When `index` exceeds 255; arrays have at most 32 members.
    #[must_use]
    pub fn at(index: usize) -> DriveIndex {
        DriveIndex(u8::try_from(index).expect("an array has at most 32 members"))
    }
}

impl fmt::Display for DriveIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Bytes in a human-readable binary unit: `4 GiB`, `1.5 MiB`, `512 B`.
#[must_use]
pub fn human_bytes(bytes: u64) -> String {
    const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    for (name, shift) in UNITS {
        let unit = 1_u64 << shift;
        if bytes >= unit {
            let whole = bytes / unit;
            let tenths = (bytes % unit) * 10 / unit;
            return if tenths == 0 { format!("{whole} {name}") } else { format!("{whole}.{tenths} {name}") };
        }
    }
    format!("{bytes} B")
}

/// Why a size such as `4GiB` could not be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeError(String);

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a size: write a whole number with an optional unit, such as 4096, 64k, 512MiB or 4GiB \
             (k, m, g and t are binary, as in fio)",
            self.0
        )
    }
}

impl std::error::Error for SizeError {}

/// Parses a size the way fio does: `4096`, `4k`, `64KiB`, `4g`, all units binary.
///
/// # Errors
/// When the text is not a whole number with a known unit, or exceeds 2^64.
pub fn parse_bytes(text: &str) -> Result<u64, SizeError> {
    let wrong = || SizeError(text.to_owned());
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(wrong()),
    };
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_parse_as_fio_does() {
        assert_eq!(parse_bytes("4096"), Ok(4096));
        assert_eq!(parse_bytes("64k"), Ok(65536));
        assert_eq!(parse_bytes("4GiB"), Ok(4 << 30));
        assert_eq!(parse_bytes("1 MiB"), Ok(1 << 20));
        for wrong in ["", "k", "-1", "4x", "1.5G", "99999999999T"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_print_in_binary_units() {
        assert_eq!(human_bytes(4 << 30), "4 GiB");
        assert_eq!(human_bytes(1536 << 10), "1.5 MiB");
        assert_eq!(human_bytes(12), "12 B");
    }
}
