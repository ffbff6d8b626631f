//! Rules of this repository that the compiler does not know.
//!
//! Each rule is a pure function from text to findings, with a sample in its tests that fails; this
//! file gathers the text. An error fails the command, a warning is only shown.

mod commits;
mod dependencies;
mod mutants;
mod paths;
mod purity;
mod shape;
mod source;
mod unsafe_code;

use crate::root;
use anyhow::{Context, Result, bail};
use source::Source;
use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};

/// A file of the repository: its path from the root, with `/`, and its text.
pub(crate) struct TextFile {
    pub path: String,
    pub text: String,
}

/// Severity of a finding: an error fails the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    Error,
    Warning,
}

/// Something that is not as it should be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    severity: Severity,
    /// `file:line`, `file` or the commit.
    place: String,
    /// Description of what is wrong and what to do about it.
    what: String,
}

impl Finding {
    fn error(place: impl Into<String>, what: impl Into<String>) -> Finding {
        Finding { severity: Severity::Error, place: place.into(), what: what.into() }
    }

    fn warning(place: impl Into<String>, what: impl Into<String>) -> Finding {
        Finding { severity: Severity::Warning, place: place.into(), what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "{severity}: {}: {}", self.place, self.what)
    }
}

/// Judges the working tree and the last commits.
///
/// # Errors
/// When a rule is broken, or the repository cannot be read.
pub fn run() -> Result<()> {
    let files = text_files()?;
    let mut findings = judge(&files)?;
    match git(&["log", "-20", "--no-merges", "--format=%h%x1f%s%x1f%b%x1e"]) {
        Some(log) => findings.extend(commits::judge(&log)),
        None => println!("tidy: no git history here; commit messages are not checked"),
    }
    for finding in &findings {
        println!("{finding}");
    }
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
    println!("tidy: {} files, {errors} errors, {} warnings", files.len(), findings.len() - errors);
    if errors > 0 {
        bail!("tidy found {errors} errors");
    }
    Ok(())
}

/// All rules about files.
fn judge(files: &[TextFile]) -> Result<Vec<Finding>> {
    let sources: Vec<Source> = source::parse_all(files);
    let mut findings = dependencies::judge(files)?;
    findings.extend(purity::judge(&sources));
    findings.extend(shape::judge(&sources));
    findings.extend(unsafe_code::judge(&sources));
    findings.extend(paths::judge(files));
    findings.extend(mutants::judge(files));
    Ok(findings)
}

/// Returns the paths of files that are tracked or would be; without git, of all files there are.
///
/// # Errors
/// When the repository cannot be read.
pub fn paths() -> Result<Vec<String>> {
    match git(&["ls-files", "--cached", "--others", "--exclude-standard"]) {
        Some(list) => Ok(list.lines().map(str::to_owned).collect()),
        None => walk(root(), ""),
    }
}

/// Returns the files that are text.
///
/// # Errors
/// As [`paths`].
pub fn text_files() -> Result<Vec<TextFile>> {
    let mut files = Vec::new();
    for path in paths()? {
        // Not text, or deleted and not yet committed: nothing to judge.
        if let Ok(text) = std::fs::read_to_string(root().join(&path)) {
            files.push(TextFile { path, text });
        }
    }
    Ok(files)
}

fn walk(root: &Path, folder: &str) -> Result<Vec<String>> {
    let mut paths = Vec::new();
    let entries =
        std::fs::read_dir(root.join(folder)).with_context(|| format!("could not list `{folder}`"))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        if !entry.file_type()?.is_dir() {
            paths.push(path);
        } else if !["target", ".git", "zoneweave-data"].contains(&name.as_str()) {
            paths.extend(walk(root, &path)?);
        }
    }
    Ok(paths)
}

/// Returns what git prints; `None` without git, outside a repository or without commits.
fn git(arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    command.current_dir(root()).args(arguments).stderr(Stdio::null());
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_repository_can_be_read_and_judged() {
        let files = text_files().unwrap();
        assert!(files.iter().any(|file| file.path == "Cargo.toml"));
        judge(&files).unwrap();
    }

    #[test]
    fn without_git_the_same_files_are_found() {
        let walked = walk(root(), "").unwrap();
        assert!(walked.contains(&"xtask/src/tidy.rs".to_owned()));
        assert!(!walked.iter().any(|path| path.starts_with("target/")));
    }
}
