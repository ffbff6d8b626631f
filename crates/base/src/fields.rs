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
        pub const FIELDS: &[$crate::fields::Field] = &[
            $($crate::fields::Field { name: stringify!($name), at: $at, bytes: $bytes, meaning: $meaning },)*
        ];
        const _: () = assert!($crate::fields::touch(FIELDS, $record_bytes), "fields must touch and fill the record");
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

/// A document with its tables written anew: what lies between `<!-- table NAME -->` and the next `<!-- end -->`.
///
/// # Panics
/// When the document has no place for one of the tables.
#[must_use]
pub fn with_tables(document: &str, tables: &[(&str, &[Field])]) -> String {
    let mut document = document.to_owned();
    for (name, fields) in tables {
        let open = format!("<!-- table {name} -->\n");
        let start = document.find(&open).unwrap_or_else(|| panic!("no table {name}")) + open.len();
        let bytes = document[start..].find("<!-- end -->").expect("the end of a table");
        document.replace_range(start..start + bytes, &markdown(fields));
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: &[Field] = &[Field { name: "MAGIC", at: 0, bytes: 4, meaning: "`ABCD`" }];

    #[test]
    fn fields_touch_and_fill_the_record() {
        assert!(touch(FIELDS, 4));
        assert!(!touch(FIELDS, 8));
        assert!(!touch(&[FIELDS[0], FIELDS[0]], 8));
    }

    #[test]
    fn a_table_is_written_in_its_place() {
        let document = "before\n<!-- table t -->\nold\n<!-- end -->\nafter\n";
        let new = with_tables(document, &[("t", FIELDS)]);
        assert!(new.starts_with("before\n<!-- table t -->\n| offset |"), "{new}");
        assert!(new.contains("| 0 | 4 | magic | `ABCD` |") && new.ends_with("\nafter\n"), "{new}");
        assert_eq!(with_tables(&new, &[("t", FIELDS)]), new);
    }
}
