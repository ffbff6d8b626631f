//! The list of deliberate bugs, `crates/sim/mutants/*.toml`, and what must hold of it.
//!
//! ```toml
//! [[mutant]]
//! name = "flush-not-sent"
//! breaks = "Drives are not told to flush."
//! kind = "others"                          # a mistake of others, a bug of the past, or a mechanism of ours
//!
//! [[mutant.edit]]
//! file = "crates/array/src/log/flush.rs"
//! find = 'a line of the clean text, exactly once in its file'
//! replace = 'the same, with `mutant!("flush-not-sent")` where the bug is'
//! ```
//! A mutant may have several edits; where two stand in the same text, one edit names both.

use super::splice::splice;
use crate::tidy::TextFile;
use std::collections::{BTreeMap, BTreeSet};
use toml::{Table, Value};

/// Folder of the lists.
pub const FOLDER: &str = "crates/sim/mutants/";
/// Code by which the text of an edit asks whether the process has a bug; a quote follows.
pub const SWITCH: &str = "mutant!(";

/// A deliberate bug.
#[derive(Debug, PartialEq, Eq)]
pub struct Mutant {
    pub name: String,
    /// Description of the bug, in one sentence.
    pub breaks: String,
    pub kind: Kind,
    pub edits: Vec<Edit>,
}

/// Origin of the idea of a mutant; the order of the table in the docs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Others,
    Past,
    Ours,
}

/// A change of one file.
#[derive(Debug, PartialEq, Eq)]
pub struct Edit {
    pub file: String,
    pub find: String,
    pub replace: String,
}

/// Something wrong with a list: of which file, and what.
pub type Wrong = (String, String);

/// The texts of files by their paths.
pub fn texts(files: &[TextFile]) -> BTreeMap<&str, &str> {
    files.iter().map(|file| (file.path.as_str(), file.text.as_str())).collect()
}

/// All mutants of a working tree, each of which applies.
///
/// # Errors
/// What is wrong with the lists, or no longer fits the files.
pub fn read(texts: &BTreeMap<&str, &str>) -> Result<Vec<Mutant>, Vec<Wrong>> {
    let is_list = |path: &str| path.starts_with(FOLDER) && path.ends_with(".toml");
    let mutants = parse(texts.iter().map(|(path, text)| (*path, *text)).filter(|(path, _)| is_list(path)))?;
    let wrong = judge(&mutants, |path| texts.get(path).copied());
    if wrong.is_empty() { Ok(mutants) } else { Err(wrong) }
}

/// All mutants of lists, given as (path, text): those of others first, then bugs of the past, then ours.
///
/// # Errors
/// What cannot be understood.
fn parse<'a>(lists: impl Iterator<Item = (&'a str, &'a str)>) -> Result<Vec<Mutant>, Vec<Wrong>> {
    let (mut mutants, mut wrong) = (Vec::new(), Vec::new());
    for (path, text) in lists {
        match parse_list(text) {
            Ok(list) => mutants.extend(list),
            Err(what) => wrong.push((path.to_owned(), what)),
        }
    }
    mutants.sort_by_key(|mutant: &Mutant| mutant.kind);
    if wrong.is_empty() { Ok(mutants) } else { Err(wrong) }
}

fn parse_list(text: &str) -> Result<Vec<Mutant>, String> {
    let mut list: Table = text.parse().map_err(|error| format!("no TOML: {error}"))?;
    let mutants = tables(&mut list, "mutant")?;
    expect_no_more(&list)?;
    mutants.into_iter().map(parse_mutant).collect()
}

fn parse_mutant(mut table: Table) -> Result<Mutant, String> {
    let name = string(&mut table, "name")?;
    let of_it = |what: String| format!("mutant `{name}`: {what}");
    let breaks = string(&mut table, "breaks").map_err(of_it)?;
    let kind = match string(&mut table, "kind").map_err(of_it)?.as_str() {
        "others" => Kind::Others,
        "past" => Kind::Past,
        "ours" => Kind::Ours,
        other => return Err(of_it(format!("`{other}` is no kind: others, past, ours"))),
    };
    let edits = tables(&mut table, "edit").map_err(of_it)?;
    expect_no_more(&table).map_err(of_it)?;
    let edits = edits.into_iter().map(parse_edit).collect::<Result<_, _>>().map_err(of_it)?;
    Ok(Mutant { name, breaks, kind, edits })
}

fn parse_edit(mut table: Table) -> Result<Edit, String> {
    let (file, find) = (string(&mut table, "file")?, string(&mut table, "find")?);
    let replace = string(&mut table, "replace")?;
    expect_no_more(&table)?;
    Ok(Edit { file, find, replace })
}

fn tables(table: &mut Table, key: &str) -> Result<Vec<Table>, String> {
    let Some(value) = table.remove(key) else { return Ok(Vec::new()) };
    value.try_into().map_err(|_| format!("`{key}` is no array of tables"))
}

fn string(table: &mut Table, key: &str) -> Result<String, String> {
    match table.remove(key) {
        Some(Value::String(text)) => Ok(text),
        _ => Err(format!("`{key}` is missing, or no text")),
    }
}

fn expect_no_more(table: &Table) -> Result<(), String> {
    table.keys().next().map_or(Ok(()), |key| Err(format!("`{key}` is not understood")))
}

/// Judges mutants: their names, what they name, and whether each still fits the `text_of` its file.
fn judge<'a>(mutants: &[Mutant], text_of: impl Fn(&str) -> Option<&'a str>) -> Vec<Wrong> {
    let mut wrong: Vec<Wrong> = Vec::new();
    let mut names = BTreeSet::new();
    for Mutant { name, breaks, .. } in mutants {
        let mut say = |what: String| wrong.push((FOLDER.to_owned(), what));
        if name.is_empty() || !name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-') {
            say(format!("`{name}` is no name: small letters and hyphens"));
        }
        if !names.insert(name.as_str()) {
            say(format!("two mutants are named `{name}`"));
        }
        if !breaks.ends_with('.') {
            say(format!("what `{name}` breaks is said in a sentence, with a full stop"));
        }
    }
    let mut switched = BTreeSet::new();
    for (mutant, edit) in
        mutants.iter().flat_map(|mutant| mutant.edits.iter().map(move |edit| (mutant, edit)))
    {
        for name in names_in(&edit.replace) {
            switched.insert(name);
            if !names.contains(name) {
                wrong.push((
                    FOLDER.to_owned(),
                    format!("an edit of `{}` names `{name}`, which is no mutant", mutant.name),
                ));
            }
        }
    }
    for name in names.difference(&switched) {
        wrong.push((FOLDER.to_owned(), format!("no edit has `{SWITCH}\"{name}\")`")));
    }
    for (file, edits) in by_file(mutants) {
        match text_of(file).map(|text| splice(text, &edits)) {
            Some(Ok(_)) => {}
            Some(Err(whats)) => wrong.extend(whats.into_iter().map(|what| (file.to_owned(), what))),
            None => wrong.push((file.to_owned(), "a mutant edits it, and it is not there".to_owned())),
        }
    }
    wrong
}

/// The edits of each file.
pub fn by_file(mutants: &[Mutant]) -> BTreeMap<&str, Vec<&Edit>> {
    let mut files: BTreeMap<&str, Vec<&Edit>> = BTreeMap::new();
    for edit in mutants.iter().flat_map(|mutant| &mutant.edits) {
        files.entry(&edit.file).or_default().push(edit);
    }
    files
}

/// The edits that switch a mutant on: its own, and those of others that name it.
pub fn edits_of<'a>(mutants: &'a [Mutant], name: &'a str) -> impl Iterator<Item = &'a Edit> {
    let edits = mutants.iter().flat_map(|mutant| &mutant.edits);
    edits.filter(move |edit| names_in(&edit.replace).any(|named| named == name))
}

/// The mutants that a text switches on.
fn names_in(text: &str) -> impl Iterator<Item = &str> {
    text.split(SWITCH)
        .skip(1)
        .filter_map(|rest| rest.strip_prefix('"')?.split_once('"').map(|(name, _)| name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"
        [[mutant]]
        name = "b-of-ours"
        breaks = "The check is left out."
        kind = "ours"

        [[mutant.edit]]
        file = "a.rs"
        find = 'if broken {'
        replace = 'if broken && !mutant!("b-of-ours") && !mutant!("a-of-past") {'

        [[mutant]]
        name = "a-of-past"
        breaks = "It once was."
        kind = "past"
    "#;
    const SOURCE: &str = "fn f() {\n    if broken {\n    }\n}\n";

    fn wrong(list: &str, source: Option<&'static str>) -> Vec<String> {
        let mutants = match parse([("list.toml", list)].into_iter()) {
            Ok(mutants) => mutants,
            Err(wrong) => return wrong.into_iter().map(|(_, what)| what).collect(),
        };
        let wrong = judge(&mutants, |file| source.filter(|_| file == "a.rs"));
        wrong.into_iter().map(|(_, what)| what).collect()
    }

    #[test]
    fn a_list_that_fits_has_nothing_wrong_and_is_sorted_by_kind() {
        assert_eq!(wrong(LIST, Some(SOURCE)), [""; 0]);
        let mutants = parse([("list.toml", LIST)].into_iter()).unwrap();
        assert_eq!(
            mutants.iter().map(|mutant| mutant.name.as_str()).collect::<Vec<_>>(),
            ["a-of-past", "b-of-ours"]
        );
    }

    #[test]
    fn an_edit_that_no_longer_applies_is_told_of() {
        assert_eq!(wrong(LIST, Some("fn f() {}\n")), ["`find` occurs nowhere: `if broken {`"]);
        let twice = "fn f() {\n    if broken {\n    }\n    if broken {\n    }\n}\n";
        assert_eq!(wrong(LIST, Some(twice)), ["`find` occurs more than once: `if broken {`"]);
        assert_eq!(wrong(LIST, None), ["a mutant edits it, and it is not there"]);
    }

    #[test]
    fn names_are_unique_and_each_stands_in_an_edit() {
        let told = |from: &str, to: &str| wrong(&LIST.replacen(from, to, 1), Some(SOURCE)).join("; ");
        assert!(told("name = \"a-of-past\"", "name = \"b-of-ours\"").contains("two mutants are named"));
        assert!(told("mutant!(\"a-of-past\")", "other").contains("no edit has `mutant!(\"a-of-past\")`"));
        assert!(
            told("mutant!(\"a-of-past\")", "mutant!(\"nobody\")").contains("`nobody`, which is no mutant")
        );
        assert!(told("name = \"a-of-past\"", "name = \"A\"").contains("`A` is no name"));
        assert!(told("once was.", "once was").contains("full stop"));
    }

    #[test]
    fn what_is_not_understood_is_told_of() {
        let told = |from: &str, to: &str| wrong(&LIST.replacen(from, to, 1), Some(SOURCE)).join("; ");
        assert!(told("kind = \"past\"", "kind = \"future\"").contains("`future` is no kind"));
        assert!(told("kind = \"past\"", "").contains("`kind` is missing"));
        assert!(told("find =", "seek =").contains("`find` is missing"));
        assert!(told("kind = \"past\"", "kind = \"past\"\nsort = 1").contains("`sort` is not understood"));
        assert!(wrong("[[mutant]", None).join("").contains("no TOML"));
    }
}
