//! What the media holds, byte by byte. `docs/FORMAT.md` is generated from the field tables of these
//! modules and a test fails when the two differ.
//!
//! ```text
//! zone 0, 1     | superblock | superblock | ...        records in turn, newest generation counts
//! other zones   | header | data: stripes 0 .. S-1  | footer | unused |
//!                 1 block  S * C blocks              1 block per 204 of data
//! ```
//! All integers are little endian, reserved bytes are zero, and every record carries a CRC32C that
//! covers its identity, so that a misplaced record is as invalid as a damaged one.

pub mod checkpoint;
pub mod footer;
pub mod header;
pub mod oob;
pub mod summary;
pub mod superblock;

/// Zones at the start of every drive that hold the superblock log.
pub const SUPERBLOCK_ZONES: u32 = 2;
/// Most members of an array; sizes the member tables of superblock and header.
pub const MEMBERS_MAX: usize = 32;
/// The format this program reads and writes.
pub const FORMAT_VERSION: u32 = 5;
/// Blocks of a segment's header in each zone.
pub const HEADER_BLOCKS: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use base::fields::with_tables;

    /// `docs/FORMAT.md` holds exactly these tables; `ZONEWEAVE_BLESS=1` rewrites them.
    #[test]
    fn the_document_matches_the_code() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/FORMAT.md");
        let mut document = std::fs::read_to_string(path).expect("docs/FORMAT.md");
        let tables = [
            ("superblock", superblock::FIELDS),
            ("header", header::FIELDS),
            ("oob", oob::FIELDS),
            ("footer", footer::FIELDS),
            ("footer-entry", footer::entry::FIELDS),
            ("checkpoint", checkpoint::FIELDS),
            ("checkpoint-segment", checkpoint::segment::FIELDS),
            ("summary", summary::FIELDS),
        ];
        let expected = with_tables(&document, &tables);
        if std::env::var_os("ZONEWEAVE_BLESS").is_some() {
            std::fs::write(path, &expected).expect("docs/FORMAT.md");
            document.clone_from(&expected);
        }
        assert!(
            document == expected,
            "docs/FORMAT.md is stale: ZONEWEAVE_BLESS=1 cargo test -p zoneweave-zone"
        );
    }
}
