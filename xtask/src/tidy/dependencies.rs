//! Who may depend on whom, and where each dependency is argued.

use super::{Finding, TextFile};
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use toml::Table;

/// A package of ours: the folder of its manifest, and what it may see of ours.
struct Room {
    folder: &'static str,
    may_see: &'static [&'static str],
    /// Packages of ours that only the package's tests may see.
    tests_may_see: &'static [&'static str],
    /// True when the package may use the work of others.
    may_use_others: bool,
}

const ROOMS: &[Room] = &[
    room("crates/base", &[], true),
    room("crates/mapping", &[], true),
    room("crates/zone", &["base"], false),
    room("crates/block", &["base"], false),
    room("crates/drive", &["base", "mapping", "zone", "block"], true),
    // The engine's tests run it on emulated drives; the engine itself never sees them.
    Room { tests_may_see: &["drive"], ..room("crates/array", &["base", "zone", "block"], false) },
    // Only experiments and the simulator run the baseline: the server and the commands know nothing of it.
    Room { tests_may_see: &["drive"], ..room("crates/baseline", &["base", "zone", "array"], false) },
    // Array and cache do not know each other.
    Room { tests_may_see: &["drive"], ..room("crates/cache", &["base", "zone"], true) },
    room("crates/server", &["base", "mapping", "zone", "array", "cache"], true),
    room("crates/lab", &["base", "zone", "block", "drive", "array", "baseline", "cache", "server"], true),
    room("crates/sim", &["base", "zone", "block", "drive", "array", "baseline", "cache"], true),
    room("", &["base", "zone", "block", "drive", "array", "cache", "server", "lab", "sim"], true),
    room("xtask", &[], true),
    // A client of a served cache, in a workspace of its own.
    room("tests/clients/rust", &[], true),
    // A cache beside ours, in a workspace of its own.
    room("peers/foyer", &[], true),
    room("fuzz", &["base", "zone", "block", "drive", "array", "cache", "server"], true),
];

const fn room(folder: &'static str, may_see: &'static [&'static str], may_use_others: bool) -> Room {
    Room { folder, may_see, tests_may_see: &[], may_use_others }
}

/// Prefix of the names of our packages; without it they are the names of the crates.
const OURS: &str = "zoneweave-";

/// Judges all manifests.
///
/// # Errors
/// When one cannot be parsed.
pub fn judge(files: &[TextFile]) -> Result<Vec<Finding>> {
    let mut manifests = BTreeMap::new();
    for file in files.iter().filter(|file| is_manifest(&file.path)) {
        let table: Table = toml::from_str(&file.text).with_context(|| file.path.clone())?;
        manifests.insert(file.path.as_str(), table);
    }
    let empty = Table::new();
    let workspace = manifests.get("Cargo.toml").and_then(|table| table.get("workspace")?.as_table());
    let shared = workspace.and_then(|table| table.get("dependencies")?.as_table()).unwrap_or(&empty);
    let ours = our_names(shared);
    let mut findings = Vec::new();
    let mut others: BTreeMap<String, String> = BTreeMap::new();
    let mut note = |path: &str, name: &str, ours: &BTreeSet<String>| {
        if !ours.contains(name) {
            others.entry(name.to_owned()).or_insert_with(|| path.to_owned());
        }
    };
    shared.keys().for_each(|name| note("Cargo.toml", name, &ours));
    for (path, manifest) in manifests.iter().filter(|(_, manifest)| manifest.contains_key("package")) {
        let dependencies = Dependencies::of(manifest, &ours);
        dependencies.all().for_each(|name| note(path, name, &ours));
        findings.extend(judge_directions(path, &dependencies));
    }
    findings.extend(judge_arguments(&others, files));
    Ok(findings)
}

fn is_manifest(path: &str) -> bool {
    path == "Cargo.toml" || path.ends_with("/Cargo.toml")
}

/// Names under which the workspace knows our crates.
fn our_names(shared: &Table) -> BTreeSet<String> {
    let is_ours = |value: &toml::Value| value.get("path").is_some();
    shared.iter().filter(|(_, value)| is_ours(value)).map(|(name, _)| name.clone()).collect()
}

/// Packages that a package depends on; ours by the names of the crates.
#[derive(Default)]
struct Dependencies {
    ours: BTreeSet<String>,
    ours_in_tests: BTreeSet<String>,
    others: BTreeSet<String>,
    others_in_tests: BTreeSet<String>,
}

impl Dependencies {
    fn of(manifest: &Table, ours: &BTreeSet<String>) -> Dependencies {
        let mut dependencies = Dependencies::default();
        let of_targets = manifest.get("target").and_then(toml::Value::as_table).into_iter();
        let of_targets = of_targets.flat_map(|targets| targets.values().filter_map(toml::Value::as_table));
        for table in std::iter::once(manifest).chain(of_targets) {
            for (section, in_tests) in
                [("dependencies", false), ("build-dependencies", false), ("dev-dependencies", true)]
            {
                let entries = table.get(section).and_then(toml::Value::as_table);
                for (name, value) in entries.into_iter().flatten() {
                    dependencies.add(package_name(name, value), in_tests, ours);
                }
            }
        }
        dependencies
    }

    fn add(&mut self, name: String, in_tests: bool, ours: &BTreeSet<String>) {
        let is_ours = ours.contains(&name);
        let set = match (is_ours, in_tests) {
            (true, false) => &mut self.ours,
            (true, true) => &mut self.ours_in_tests,
            (false, false) => &mut self.others,
            (false, true) => &mut self.others_in_tests,
        };
        set.insert(name);
    }

    fn all(&self) -> impl Iterator<Item = &str> {
        let sets = [&self.ours, &self.ours_in_tests, &self.others, &self.others_in_tests];
        sets.into_iter().flatten().map(String::as_str)
    }
}

/// The crate that an entry stands for, whatever it is called here.
fn package_name(name: &str, value: &toml::Value) -> String {
    let package = value.get("package").and_then(toml::Value::as_str).unwrap_or(name);
    package.strip_prefix(OURS).unwrap_or(package).to_owned()
}

fn judge_directions(path: &str, dependencies: &Dependencies) -> Vec<Finding> {
    let folder = path.trim_end_matches("Cargo.toml").trim_end_matches('/');
    let Some(room) = ROOMS.iter().find(|room| room.folder == folder) else {
        return vec![Finding::error(path, "say in xtask/src/tidy/dependencies.rs what this package may see")];
    };
    let mut findings = Vec::new();
    for name in dependencies.ours.iter().filter(|name| !room.may_see.contains(&name.as_str())) {
        findings
            .push(Finding::error(path, format!("may not depend on `{name}`; it sees {:?}", room.may_see)));
    }
    let seen = [room.may_see, room.tests_may_see].concat();
    for name in dependencies.ours_in_tests.iter().filter(|name| !seen.contains(&name.as_str())) {
        findings
            .push(Finding::error(path, format!("its tests may not depend on `{name}`; they see {seen:?}")));
    }
    if !room.may_use_others {
        for name in &dependencies.others {
            findings
                .push(Finding::error(path, format!("has no dependencies but ours; `{name}` is not ours")));
        }
    }
    findings
}

/// Every dependency is named in a decision record; `others` maps each to a manifest that has it.
fn judge_arguments(others: &BTreeMap<String, String>, files: &[TextFile]) -> Vec<Finding> {
    let records: Vec<&TextFile> = files.iter().filter(|file| file.path.starts_with("docs/adr/")).collect();
    let in_name = |letter: char| letter.is_alphanumeric() || letter == '-' || letter == '_';
    let is_named = |name: &str| {
        records.iter().any(|record| record.text.split(|letter| !in_name(letter)).any(|word| word == name))
    };
    let missing = others.iter().filter(|(name, _)| !is_named(name));
    missing
        .map(|(name, path)| {
            Finding::error(path, format!("no record in docs/adr argues for depending on `{name}`"))
        })
        .collect()
}

#[cfg(test)]
mod tests;
