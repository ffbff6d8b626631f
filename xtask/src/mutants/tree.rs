//! The scratch copy with all deliberate bugs in it, each behind its switch: the working tree under `target`, edited.
//!
//! ```text
//! files of the working tree ──> edits of crates/sim/mutants ──> target/mutants/tree ──> one build
//! bin/mutants/switch.rs ──────> crates/base/src/switch.rs, with the list in it; `mutant!` goes into base, too
//! ```
//! Files that are what they were are not written again: a second build takes as long as what has changed.

use super::list::{self, Kind, Mutant, SWITCH};
use super::splice::splice;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

/// The switch as ordinary builds have it, without a mutant.
const SWITCH_FILE: &str = "crates/sim/src/bin/mutants/switch.rs";
/// Path of the switch in the scratch copy.
const SWITCH_IN_BASE: &str = "crates/base/src/switch.rs";
const BASE: &str = "crates/base/src/lib.rs";
/// Rooms of engines with a world of their own, which looks for bugs in them: its name in the switch.
const WORLDS: [(&str, &str); 6] = [
    ("crates/array/src/inplace", "InPlace"),
    ("crates/block/", "InPlace"),
    ("crates/drive/src/conventional", "Conventional"),
    ("crates/drive/src/inband", "Inband"),
    ("crates/drive/src/slices", "Cache"),
    ("crates/cache/", "Cache"),
];
/// The list of the switch, before and after the scratch copy has filled it in.
const LIST_EMPTY: &str = "pub const ALL: &[About] = &[];";
/// Makes `mutant!` known everywhere: `base::mutant!`, in `base` too.
const IN_BASE: &str = r"
pub mod switch;
extern crate self as base;

/// True when the process was made to have a bug.
#[macro_export]
macro_rules! mutant {
    ($name:literal) => {{
        const NUMBER: usize = $crate::switch::number($name);
        $crate::switch::is(NUMBER)
    }};
}
";

/// Makes the files of `from` the only ones in `to`, with the bugs in them.
pub fn write(from: &Path, paths: &[String], to: &Path, mutants: &[Mutant]) -> Result<()> {
    let edits = list::by_file(mutants);
    let mut kept = BTreeSet::new();
    for path in paths {
        // A file that git still knows and nobody has any more.
        let Ok(bytes) = std::fs::read(from.join(path)) else { continue };
        let mut contents = bytes;
        if let Some(edits) = edits.get(path.as_str()) {
            let clean = String::from_utf8(contents).with_context(|| format!("{path} is no text"))?;
            let text =
                splice(&clean, edits).map_err(|wrong| anyhow::anyhow!("{path}: {}", wrong.join("; ")))?;
            contents = text.replace(SWITCH, "base::mutant!(").into_bytes();
        }
        match path.as_str() {
            SWITCH_FILE => {
                let filled = fill(&String::from_utf8(contents)?, mutants)?;
                put(&to.join(SWITCH_IN_BASE), filled.as_bytes())?;
                kept.insert(SWITCH_IN_BASE.to_owned());
                contents =
                    b"//! The switch is that of the scratch copy.\n\npub use base::switch::*;\n".to_vec();
            }
            BASE => contents.extend_from_slice(IN_BASE.as_bytes()),
            _ => {}
        }
        put(&to.join(path), &contents)?;
        kept.insert(path.clone());
    }
    if let Some(missing) = edits.keys().find(|path| !kept.contains(**path)) {
        bail!("{missing} is edited by a mutant and not there");
    }
    ensure!(kept.contains(SWITCH_IN_BASE), "{SWITCH_FILE} is not there");
    remove_others(to, to, &kept)
}

/// The switch with all mutants in its list.
fn fill(switch: &str, mutants: &[Mutant]) -> Result<String> {
    ensure!(switch.contains(LIST_EMPTY), "{SWITCH_FILE} lacks `{LIST_EMPTY}`");
    let mut list = String::from("pub const ALL: &[About] = &[\n");
    for Mutant { name, breaks, kind, .. } in mutants {
        let source = match kind {
            Kind::Others => "others",
            Kind::Past => "past",
            Kind::Ours => "ours",
        };
        let lies_in = |room: &str| list::edits_of(mutants, name).any(|edit| edit.file.starts_with(room));
        let world = WORLDS.iter().find(|(room, _)| lies_in(room)).map_or("Log", |(_, world)| world);
        writeln!(
            list,
            "    About {{ name: {name:?}, what: {breaks:?}, source: {source:?}, world: World::{world} }},"
        )?;
    }
    list.push_str("];");
    Ok(switch.replacen(LIST_EMPTY, &list, 1))
}

/// Writes a file unless it is what it was.
fn put(path: &Path, contents: &[u8]) -> Result<()> {
    if std::fs::read(path).is_ok_and(|old| old == contents) {
        return Ok(());
    }
    let folder = path.parent().context("a file lies in a folder")?;
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    std::fs::write(path, contents).with_context(|| path.display().to_string())
}

/// Removes files that an earlier working tree had.
fn remove_others(tree: &Path, folder: &Path, kept: &BTreeSet<String>) -> Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(tree, &path, kept)?;
        } else if !kept.contains(&path.strip_prefix(tree)?.to_string_lossy().replace('\\', "/")) {
            std::fs::remove_file(&path).with_context(|| path.display().to_string())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::list::Edit;
    use super::*;
    use std::fs;
    use std::path::PathBuf;

    /// A folder that is gone when the test is over.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("zoneweave-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn mutant() -> Mutant {
        let edit = Edit {
            file: "a.rs".to_owned(),
            find: "if full".to_owned(),
            replace: "if full && !mutant!(\"never-full\")".to_owned(),
        };
        let breaks = "It is \"never\" full.".to_owned();
        Mutant { name: "never-full".to_owned(), breaks, kind: Kind::Past, edits: vec![edit] }
    }

    #[test]
    fn the_copy_has_the_bugs_the_switch_and_nothing_old() {
        let (from, to) = (Folder::new("mutants-from"), Folder::new("mutants-to"));
        let switch = format!("//! Switch.\n{LIST_EMPTY}\n");
        for (path, text) in
            [("a.rs", "if full {}\n"), (BASE, "mod a;\n"), (SWITCH_FILE, &switch), ("old.rs", "")]
        {
            put(&from.0.join(path), text.as_bytes()).unwrap();
        }
        let mut paths: Vec<String> =
            ["a.rs", BASE, SWITCH_FILE, "old.rs", "deleted.rs"].map(str::to_owned).to_vec();
        write(&from.0, &paths, &to.0, &[mutant()]).unwrap();
        let read = |path: &str| fs::read_to_string(to.0.join(path)).unwrap_or_default();
        assert_eq!(read("a.rs"), "if full && !base::mutant!(\"never-full\") {}\n");
        assert!(read(SWITCH_IN_BASE).contains(
            "&[\n    About { name: \"never-full\", what: \"It is \\\"never\\\" full.\", source: \"past\", world: World::Log },\n];"
        ));
        assert!(read(SWITCH_FILE).contains("pub use base::switch::*;"));
        assert!(read(BASE).starts_with("mod a;\n") && read(BASE).contains("macro_rules! mutant"));
        let written = fs::metadata(to.0.join("a.rs")).unwrap().modified().unwrap();
        paths.retain(|path| path != "old.rs");
        write(&from.0, &paths, &to.0, &[mutant()]).unwrap();
        assert!(!to.0.join("old.rs").exists());
        assert_eq!(
            fs::metadata(to.0.join("a.rs")).unwrap().modified().unwrap(),
            written,
            "not written again"
        );
    }

    #[test]
    fn a_bug_is_looked_for_in_the_world_of_the_edit_that_names_it() {
        let mut of_the_cache = mutant();
        of_the_cache.edits[0].file = "crates/cache/src/a.rs".to_owned();
        of_the_cache.edits[0].replace += " && !mutant!(\"named-there\")";
        let named = Mutant { name: "named-there".to_owned(), edits: Vec::new(), ..mutant() };
        let filled = fill(LIST_EMPTY, &[named, of_the_cache]).unwrap();
        assert_eq!(filled.matches("world: World::Cache").count(), 2, "{filled}");
    }

    #[test]
    fn a_bug_that_does_not_fit_is_an_error() {
        let (from, to) = (Folder::new("mutants-unfit"), Folder::new("mutants-unfit-to"));
        let paths = ["a.rs".to_owned()];
        put(&from.0.join("a.rs"), b"if empty {}\n").unwrap();
        let error = write(&from.0, &paths, &to.0, &[mutant()]).unwrap_err().to_string();
        assert!(error.contains("a.rs: `find` occurs nowhere"), "{error}");
        let error = write(&from.0, &[], &to.0, &[mutant()]).unwrap_err().to_string();
        assert!(error.contains("a.rs is edited by a mutant and not there"), "{error}");
    }
}
