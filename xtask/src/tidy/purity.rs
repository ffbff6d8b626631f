//! No clock, thread, lock, I/O, ambient randomness or hash order in the rooms that must repeat to
//! the bit: `base`, `zone`, `block`, `array`, `baseline` and `cache`.

use super::Finding;
use super::source::{Source, mentions};

/// Folders of product code that is told everything.
const PURE_FOLDERS: &[&str] = &[
    "crates/base/src/",
    "crates/zone/src/",
    "crates/block/src/",
    "crates/array/src/",
    "crates/baseline/src/",
    "crates/cache/src/",
];

/// Words that code of these folders may not contain, and why.
const FORBIDDEN: &[(&str, &str)] = &[
    ("std::time", CLOCK),
    ("Instant::now", CLOCK),
    ("SystemTime", CLOCK),
    ("std::thread", THREAD),
    ("thread_local!", THREAD),
    ("std::sync", LOCK),
    ("Mutex", LOCK),
    ("RwLock", LOCK),
    ("std::fs", IO),
    ("std::net", IO),
    ("std::io", IO),
    ("std::os", IO),
    ("std::env", IO),
    ("std::process", IO),
    ("println!", IO),
    ("eprintln!", IO),
    ("print!", IO),
    ("eprint!", IO),
    ("dbg!", IO),
    ("HashMap", HASH),
    ("HashSet", HASH),
    ("RefCell", OWNER),
    ("Rc<", OWNER),
    ("std::rc", OWNER),
    ("rand::", RANDOM),
];

const CLOCK: &str = "time is told: take `now` as a parameter";
const THREAD: &str = "one owner, one thread: the caller decides where this runs";
const LOCK: &str = "no locks or shared state: methods take `&mut self`";
const IO: &str = "ask for it as an effect; only drive, server and the binary perform I/O";
const HASH: &str = "hash order differs between runs: use a table or a BTreeMap";
const OWNER: &str = "one owner of all state: no shared or hidden mutation";
const RANDOM: &str = "randomness is a parameter: see base::random";

/// Folder or file, and what may be named there in spite of the list.
const EXCEPTIONS: &[(&str, &str)] = &[
    // Tables of constants that are computed once and never change.
    ("crates/base/src/", "std::sync::LazyLock"),
    // A desk that lives as long as a call, at which readers of one mount meet.
    ("crates/cache/src/mount/media.rs", "RefCell"),
    ("crates/cache/src/mount/media.rs", "std::rc"),
    ("crates/cache/src/mount/media.rs", "Rc<"),
    // Values never change, so it is not state that is shared.
    ("crates/cache/src/value.rs", "std::sync"),
];

/// Judges all product code of the pure rooms.
pub fn judge(sources: &[Source]) -> Vec<Finding> {
    let pure =
        sources.iter().filter(|source| PURE_FOLDERS.iter().any(|folder| source.path.starts_with(folder)));
    pure.flat_map(judge_source).collect()
}

fn judge_source(source: &Source) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    for (index, line) in said(source) {
        let excepted = EXCEPTIONS.iter().filter(|(folder, _)| source.path.starts_with(folder));
        let line = excepted.fold(line, |line, (_, path)| line.replace(path, ""));
        for (pattern, reason) in FORBIDDEN.iter().filter(|(pattern, _)| mentions(&line, pattern)) {
            let finding = Finding::error(source.place(index), format!("`{pattern}`: {reason}"));
            if !findings.contains(&finding) {
                findings.push(finding);
            }
        }
    }
    findings
}

/// Every line of product code, and every path of a `use` spelled out, with the line it begins at.
fn said(source: &Source) -> Vec<(usize, String)> {
    let mut said: Vec<(usize, String)> = Vec::new();
    let mut import: Option<(usize, String)> = None;
    for (index, line) in source.product_code() {
        said.push((index, line.to_owned()));
        if let Some(tree) = import_begun(line).filter(|_| import.is_none()) {
            import = Some((index, tree.to_owned()));
        } else if let Some((_, tree)) = &mut import {
            tree.push_str(line);
        }
        if let Some((start, tree)) = import.take_if(|(_, tree)| tree.contains(';')) {
            let tree: String = tree.split(';').next().unwrap_or_default().split_whitespace().collect();
            said.extend(spelled_out(&tree).into_iter().map(|path| (start, path)));
        }
    }
    said
}

/// Returns the text after the `use` of a line.
fn import_begun(line: &str) -> Option<&str> {
    let (before, tree) = line.split_once("use ")?;
    let before = before.trim();
    (before.is_empty() || before.starts_with("pub")).then_some(tree)
}

/// `a::{b, c::d}` as `a::b` and `a::c::d`.
fn spelled_out(tree: &str) -> Vec<String> {
    let Some((prefix, group)) = tree.split_once('{') else { return vec![tree.to_owned()] };
    let group = group.strip_suffix('}').unwrap_or(group);
    let mut depth = 0_i32;
    let parts = group.split(|letter| {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        letter == ',' && depth == 0
    });
    let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
    parts.into_iter().flat_map(spelled_out).map(|path| format!("{prefix}{path}")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::source::parse;
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        judge(&[parse(path, text)]).len()
    }

    #[test]
    fn every_forbidden_word_is_found() {
        for (pattern, reason) in FORBIDDEN {
            let text = format!("fn f() {{ {pattern}x }}").replace("nowx", "now()");
            let text = if pattern.ends_with(|letter: char| letter.is_alphanumeric()) {
                format!("fn f() {{ {pattern}; }}")
            } else {
                text
            };
            let findings = judge(&[parse("crates/array/src/log.rs", &text)]);
            assert!(findings.iter().any(|finding| finding.what.contains(reason)), "{pattern}: {text}");
            assert_eq!(findings[0].place, "crates/array/src/log.rs:1");
        }
    }

    #[test]
    fn grouped_imports_are_spelled_out() {
        let text =
            "use std::{\n    fmt,\n    collections::{BTreeMap, HashMap},\n    sync::atomic::AtomicU64,\n};\n";
        let findings = judge(&[parse("crates/zone/src/a.rs", text)]);
        let places: Vec<_> = findings.iter().map(|finding| finding.place.as_str()).collect();
        assert!(places.contains(&"crates/zone/src/a.rs:1"), "{findings:?}");
        assert!(findings.iter().any(|finding| finding.what.starts_with("`std::sync`")));
        assert_eq!(spelled_out("a::{b,c::{d,e}}"), ["a::b", "a::c::d", "a::c::e"]);
    }

    #[test]
    fn tests_comments_and_other_rooms_may() {
        assert_eq!(count("crates/zone/src/a.rs", "#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n"), 0);
        assert_eq!(count("crates/zone/src/a/tests.rs", "use std::fs;"), 0);
        assert_eq!(count("crates/zone/src/a.rs", "// std::fs is for others\nlet a = \"std::fs\";"), 0);
        assert_eq!(count("crates/drive/src/a.rs", "use std::fs;"), 0);
    }

    #[test]
    fn base_may_have_lazy_tables_and_nothing_else() {
        assert_eq!(count("crates/base/src/a.rs", "use std::sync::LazyLock;"), 0);
        assert_eq!(count("crates/base/src/a.rs", "use std::sync::{LazyLock, Mutex};"), 2);
        assert_eq!(count("crates/array/src/a.rs", "use std::sync::LazyLock;"), 1);
        assert_eq!(count("crates/base/src/a.rs", "use std::sync::atomic::AtomicU8;"), 1);
    }
}
