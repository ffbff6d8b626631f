//! Field tables of on-media records: one list gives the offsets the code uses and the tables of
//! `docs/FORMAT.md`.

use std::fmt::Write as _;

/// A field of a record.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Name, as in the documentation.
    pub name: &'static str,
    /// Offset from the start of the record.
    pub at: usize,
    /// Size in bytes.
    pub bytes: usize,
    /// Meaning of the field.
    pub meaning: &'static str,
}

/// Declares the fields of a record: a module-level constant with the offset of each, and `FIELDS`,
/// the table. Fields are listed in order and must touch: gaps are named `RESERVED`.
#[macro_export]
macro_rules! record_fields {
    ($record_bytes:expr; $($name:ident: $at:literal, $bytes:literal, $meaning:literal;)*) => {
        /// Offsets of the fields.
        mod at {
            #![allow(dead_code, reason = "reserved fields are named but never used")]
            $(pub const $name: usize = $at;)*
        }
        /// The fields of the record, in order.
        pub const FIELDS: &[$crate::format::fields::Field] = &[
            $($crate::format::fields::Field { name: stringify!($name), at: $at, bytes: $bytes, meaning: $meaning },)*
        ];
        const _: () = assert!($crate::format::fields::touch(FIELDS, $record_bytes), "fields must touch and fill the record");
    };
}

/// True when the fields follow one another without gap or overlap and fill the record.
#[must_use]
pub const fn touch(fields: &[Field], record_bytes: usize) -> bool {
    let mut end = 0;
    let mut index = 0;
    while index < fields.len() {
        if fields[index].at != end {
            return false;
        }
        end += fields[index].bytes;
        index += 1;
    }
    end == record_bytes
}

/// The table as Markdown.
#[must_use]
pub fn markdown(fields: &[Field]) -> String {
    let mut text = String::from("| offset | bytes | field | meaning |\n|---:|---:|---|---|\n");
    for field in fields {
        let name = field.name.to_lowercase();
        writeln!(text, "| {} | {} | {} | {} |", field.at, field.bytes, name, field.meaning)
            .expect("writing to a string");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{checkpoint, footer, header, oob, summary, superblock};

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
        let mut expected = document.clone();
        for (name, fields) in tables {
            let open = format!("<!-- table {name} -->\n");
            let close = "<!-- end -->";
            let start = expected.find(&open).unwrap_or_else(|| panic!("no table {name}")) + open.len();
            let end = start + expected[start..].find(close).expect("end of table");
            expected.replace_range(start..end, &markdown(fields));
        }
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
