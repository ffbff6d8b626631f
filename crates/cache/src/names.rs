//! Names of options on command lines: a table says which there are, in the order in which they are offered.

use std::fmt;

/// Value that a name stands for.
///
/// # Errors
/// When there is no such name: with those that there are.
pub fn parse<T: Copy>(names: &[(&str, T)], text: &str) -> Result<T, String> {
    let found = names.iter().find(|(name, _)| *name == text);
    found.map(|(_, meant)| *meant).ok_or_else(|| {
        let names: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        let (last, others) = names.split_last().expect("a table has names");
        format!("`{text}`: use {} or {last}", others.join(", "))
    })
}

/// Writes the name of something.
///
/// # Panics
/// When it has none.
pub fn write<T: PartialEq>(names: &[(&str, T)], meant: &T, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let found = names.iter().find(|(_, other)| other == meant);
    f.write_str(found.expect("all have names").0)
}
