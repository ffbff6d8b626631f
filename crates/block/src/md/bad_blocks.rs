//! Bad-block log: sectors that a member cannot return, though it works otherwise.
//!
//! Entries of eight bytes; sectors count from the start of the device, data offset included. The log's area means nothing
//! while feature 8 is clear.

use base::bytes::u64_at;
use base::record_fields;
use std::fmt;

record_fields! { ENTRY_BYTES;
    ENTRY: 0, 8, "sector in the high 54 bits, sectors in the low 10, both in units of 2^shift; all ones ends the log";
}

/// Bytes of an entry.
pub const ENTRY_BYTES: usize = 8;
/// Most sectors of a log.
pub const SECTORS_MAX: u16 = 8;
/// Largest shift that leaves a sector a sector.
pub const SHIFT_MAX: u8 = 9;

const END: u64 = u64::MAX;

/// Sectors of a member that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BadBlocks {
    /// First sector, from the start of the device.
    pub sector: u64,
    /// Sectors, from one.
    pub sectors: u64,
}

/// Entry that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadBlockError {
    /// Shift out of range.
    Shift(u8),
    /// Entry without sectors.
    Empty {
        /// Place of the entry in the log.
        entry: usize,
    },
}

impl fmt::Display for BadBlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadBlockError::Shift(shift) => {
                write!(f, "the bad-block log counts in units of 2^{shift} sectors; {SHIFT_MAX} is the most")
            }
            BadBlockError::Empty { entry } => write!(f, "entry {entry} of the bad-block log names no sector"),
        }
    }
}

impl std::error::Error for BadBlockError {}

/// Entries of a log, in order.
///
/// # Errors
/// When one of them cannot be: the log is not believed then.
pub fn decode(log: &[u8], shift: u8) -> Result<Vec<BadBlocks>, BadBlockError> {
    if shift > SHIFT_MAX {
        return Err(BadBlockError::Shift(shift));
    }
    let mut entries = Vec::new();
    for (entry, bytes) in log.chunks_exact(ENTRY_BYTES).enumerate() {
        let word = u64_at(bytes, 0);
        if word == END {
            break;
        }
        // 54 bits, shifted by 9 at most: neither overflows.
        let (sector, sectors) = (word >> 10 << shift, (word & 0x3ff) << shift);
        if sectors == 0 {
            return Err(BadBlockError::Empty { entry });
        }
        entries.push(BadBlocks { sector, sectors });
    }
    Ok(entries)
}

/// Writes a log of entries in units of sectors; the rest of it is its end.
///
/// # Panics
/// When they do not fit, or an entry has more sectors than one can name.
pub fn encode(entries: &[BadBlocks], log: &mut [u8]) {
    assert!(entries.len() * ENTRY_BYTES <= log.len(), "{} entries", entries.len());
    log.fill(0xff);
    for (entry, bytes) in entries.iter().zip(log.chunks_exact_mut(ENTRY_BYTES)) {
        assert!((1..0x400).contains(&entry.sectors) && entry.sector < 1 << 54);
        bytes.copy_from_slice(&(entry.sector << 10 | entry.sectors).to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_read_as_it_was_written() {
        let entries = [BadBlocks { sector: 2400, sectors: 16 }, BadBlocks { sector: 3360, sectors: 8 }];
        let mut log = [0; 4096];
        encode(&entries, &mut log);
        assert_eq!(decode(&log, 0).unwrap(), entries);
        assert_eq!(decode(&log, 3).unwrap()[0], BadBlocks { sector: 19200, sectors: 128 });
    }

    #[test]
    fn wrong_logs_are_refused() {
        assert_eq!(decode(&[0; 16], 0), Err(BadBlockError::Empty { entry: 0 }));
        assert_eq!(decode(&[0; 16], 63), Err(BadBlockError::Shift(63)));
        let far = decode(&(u64::MAX << 10 | 1).to_le_bytes(), 9).unwrap();
        assert_eq!(far, [BadBlocks { sector: (1 << 63) - 512, sectors: 512 }]);
        assert_eq!(decode(&[], 0), Ok(vec![]));
    }
}
