//! Formats and geometry of Linux md: what lies on the members of an array, byte by byte.
//!
//! ```text
//! superblock    who belongs to the array, its shape, its state; 1.1 at sector 0, 1.2 at 8, 1.0 near the end
//! bitmap        write-intent bitmap: regions that may be out of sync
//! bad_blocks    sectors that a member cannot return
//! ppl           partial parity log, in a ring on each member
//! journal       raid5 journal, on a device of its own
//! foreign       superblocks of other formats, by name
//! geometry      which member holds which chunk
//! member        all of these as found on one device
//! assembly      members judged together: one array that can be served, or why not
//! refusal       reasons why an array is not served, in words
//! doubt         what may be wrong of an array that an operator forces
//! recovered     what a log says, for a server that writes it to the members
//! reader        the volume and its mismatches; replay applies logs in memory
//! examine       the same in the words of `mdadm --examine`
//! create        what a new array writes on its members
//! occupied      what a device holds already, by the marks of many formats
//! ```
//! All integers are little endian. Parsers take bytes that anybody may have written: they trust no length and never panic.
//! What this program does not know is refused by its name, never guessed.

pub mod assembly;
pub mod bad_blocks;
pub mod bitmap;
pub mod create;
pub mod doubt;
pub mod examine;
pub mod foreign;
pub mod geometry;
pub mod join;
pub mod journal;
pub mod member;
pub mod names;
pub mod new_journal;
pub mod occupied;
pub mod policy;
pub mod ppl;
pub mod reader;
pub mod recovered;
pub mod refusal;
mod replay;
pub mod returning;
pub mod spare;
pub mod superblock;

/// Bytes of a sector, the unit of all places on md's media.
pub const SECTOR_BYTES: usize = 512;
/// [`SECTOR_BYTES`] for arithmetic on byte offsets.
pub const SECTOR_BYTES_U64: u64 = 512;
/// Most members of an array that this program serves.
pub const MEMBERS_MAX: u32 = 32;

/// A 128-bit identity as md writes it: four words of hexadecimal digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

impl std::fmt::Display for Uuid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            let colon = if index > 0 && index % 4 == 0 { ":" } else { "" };
            write!(f, "{colon}{byte:02x}")?;
        }
        Ok(())
    }
}

/// Place of a member within the stripes of an array, 0-based. Not its device number, by which superblocks list roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Role(pub u16);

/// Distance from a role to the place of the device that is to replace its member: [`MEMBERS_MAX`].
const REPLACEMENTS: u16 = 32;

impl Role {
    /// The role as an index into a table with one entry per member.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Place of the device that is to replace the member with this role: behind those of all members.
    ///
    /// # Panics
    /// When it is one already.
    #[must_use]
    pub fn replacement(self) -> Role {
        assert!(self.0 < REPLACEMENTS, "a replacement has none itself");
        Role(self.0 + REPLACEMENTS)
    }

    /// True for the place of a replacement.
    #[must_use]
    pub fn is_replacement(self) -> bool {
        self.0 >= REPLACEMENTS
    }

    /// Role of the member, be this its own or that of its replacement.
    #[must_use]
    pub fn of_member(self) -> Role {
        Role(self.0 % REPLACEMENTS)
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Number of an array's device, which never changes while the device belongs to it: an index into superblocks' roles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceNumber(pub u32);

/// Sectors of a device that could not be read, with the reason in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadFailed {
    /// First sector that was asked for.
    pub sector: u64,
    /// Reason as the system gives it.
    pub reason: String,
}

impl std::fmt::Display for ReadFailed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "sector {} cannot be read: {}", self.sector, self.reason)
    }
}

impl std::error::Error for ReadFailed {}

/// Bytes of a closed member. Implementations only read.
pub trait Media {
    /// Sectors of the device.
    fn sectors(&self) -> u64;

    /// Fills `into`, a whole number of sectors, with what lies at `sector`.
    ///
    /// # Errors
    /// When the device does not return all of it.
    fn read(&self, sector: u64, into: &mut [u8]) -> Result<(), ReadFailed>;
}

impl Media for [u8] {
    fn sectors(&self) -> u64 {
        u64::try_from(self.len() / SECTOR_BYTES).unwrap_or(u64::MAX)
    }

    fn read(&self, sector: u64, into: &mut [u8]) -> Result<(), ReadFailed> {
        let beyond = || ReadFailed { sector, reason: "beyond the end of the device".to_owned() };
        let start = usize::try_from(sector).ok().and_then(|sector| sector.checked_mul(SECTOR_BYTES));
        let start = start.ok_or_else(beyond)?;
        let end = start.checked_add(into.len()).ok_or_else(beyond)?;
        into.copy_from_slice(self.get(start..end).ok_or_else(beyond)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::md::{bad_blocks, bitmap, journal, ppl, superblock};
    use base::fields::with_tables;

    /// `docs/FORMAT.md` holds exactly these tables; `ZONEWEAVE_BLESS=1` rewrites them.
    #[test]
    fn the_document_matches_the_code() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/FORMAT.md");
        let mut document = std::fs::read_to_string(path).expect("docs/FORMAT.md");
        let tables = [
            ("md-superblock", superblock::FIELDS),
            ("md-bitmap", bitmap::FIELDS),
            ("md-bad-block", bad_blocks::FIELDS),
            ("md-ppl", ppl::FIELDS),
            ("md-ppl-entry", ppl::entry::FIELDS),
            ("md-ppl-witness", ppl::witness::FIELDS),
            ("md-journal", journal::FIELDS),
            ("md-journal-payload", journal::payload::FIELDS),
        ];
        let expected = with_tables(&document, &tables);
        if std::env::var_os("ZONEWEAVE_BLESS").is_some() {
            std::fs::write(path, &expected).expect("docs/FORMAT.md");
            document.clone_from(&expected);
        }
        assert!(
            document == expected,
            "docs/FORMAT.md is stale: ZONEWEAVE_BLESS=1 cargo test -p zoneweave-block"
        );
    }

    #[test]
    fn media_in_memory_end_where_they_end() {
        let media = [7_u8; 1024];
        let mut sector = [0; SECTOR_BYTES];
        assert!(media[..].read(1, &mut sector).is_ok() && sector == [7; SECTOR_BYTES]);
        assert!(media[..].read(2, &mut sector).is_err());
        assert!(media[..].read(u64::MAX, &mut sector).is_err());
    }
}
