//! Commits, and their builds.
//!
//! All commits are built at one path, `target/same/source`, where git replaces only files that differ: cargo builds again
//! what changed, and paths of source files are the same in all programs. Records are named after trees: the working tree
//! has one, and a commit with the same content was measured already.

use crate::root;
use anyhow::{Context, Result, bail, ensure};
use std::fmt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A state of the repository.
#[derive(Clone, Debug, PartialEq)]
pub struct Commit {
    /// Hash that git gives the commit's tree.
    tree: String,
    /// Commit and subject, or that it is the working tree.
    title: String,
}

impl fmt::Display for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.title)
    }
}

/// The folder where commits are built and records kept.
pub struct Workshop {
    folder: PathBuf,
}

impl Workshop {
    /// # Errors
    /// When the folder cannot be made.
    pub fn open() -> Result<Workshop> {
        let folder = root().join("target/same");
        std::fs::create_dir_all(folder.join("source")).with_context(|| folder.display().to_string())?;
        Ok(Workshop { folder })
    }

    /// The two that are compared. Unless said, the head is the working tree where it was changed and HEAD where not; the
    /// base is where the branch left its upstream, or else the commit before the head.
    ///
    /// # Errors
    /// When git does not know one.
    pub fn commits(&self, base: Option<&str>, head: Option<&str>) -> Result<(Commit, Commit)> {
        let changed = self.working_tree()?;
        let head = match (head, changed) {
            (Some(name), _) => commit(name)?,
            (None, Some(working_tree)) => working_tree,
            (None, None) => commit("HEAD")?,
        };
        let base = match base {
            Some(name) => commit(name)?,
            None => base_of(&head)?,
        };
        Ok((base, head))
    }

    /// The working tree with files that are not tracked, unless it is as HEAD.
    fn working_tree(&self) -> Result<Option<Commit>> {
        let index = self.folder.join("index-of-working-tree");
        let git =
            |arguments: &[&str]| git_with(|command| command.args(arguments).env("GIT_INDEX_FILE", &index));
        git(&["read-tree", "HEAD"])?;
        git(&["add", "--all"])?;
        let tree = git(&["write-tree"])?;
        let head = commit("HEAD")?;
        let title = format!("{} with the changes of the working tree", head.title);
        Ok((tree != head.tree).then_some(Commit { tree, title }))
    }

    /// Returns the path at which the record of a commit is kept.
    pub fn record_path(&self, commit: &Commit) -> PathBuf {
        self.folder.join(format!("{}.json", commit.tree))
    }

    /// Checks a commit out and builds it; its program.
    ///
    /// # Errors
    /// When git or cargo fails.
    pub fn build(&self, commit: &Commit) -> Result<PathBuf> {
        eprintln!("same: building {commit}");
        let source = self.folder.join("source");
        git_with(|command| {
            command.env("GIT_INDEX_FILE", self.folder.join("index-of-source"));
            command.arg("--work-tree").arg(&source).args(["read-tree", "--reset", "-u", &commit.tree])
        })?;
        let target = self.folder.join("build");
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(&source).args([
            "build",
            "--quiet",
            "--release",
            "--locked",
            "--package",
            "zoneweave",
        ]);
        let status = cargo.arg("--target-dir").arg(&target).status().context("could not start cargo")?;
        ensure!(status.success(), "{commit} does not build: {status}");
        Ok(target.join("release/zoneweave"))
    }

    /// The scenarios of the commit that was built last.
    pub fn scenarios(&self) -> PathBuf {
        self.folder.join("source/crates/sim/scenarios")
    }
}

fn commit(name: &str) -> Result<Commit> {
    let wanted = format!("{name}^{{commit}}");
    let hash = git(&["rev-parse", "--verify", "--quiet", &wanted]);
    let hash = hash.with_context(|| format!("git knows no commit `{name}`"))?;
    let tree = git(&["rev-parse", &format!("{hash}^{{tree}}")])?;
    Ok(Commit { tree, title: git(&["log", "-1", "--format=%h %s", &hash])? })
}

/// Returns the commit with which a head is compared when no option names one.
fn base_of(head: &Commit) -> Result<Commit> {
    let is_changed = head.tree != commit("HEAD")?.tree;
    let upstream = git(&["merge-base", "HEAD", "@{upstream}"]).and_then(|hash| commit(&hash));
    match upstream {
        Ok(upstream) if upstream.tree != head.tree => Ok(upstream),
        _ if is_changed => commit("HEAD"),
        _ => commit("HEAD~1"),
    }
}

/// The compiler.
///
/// # Errors
/// When it cannot be asked.
pub fn rustc() -> Result<String> {
    let output = Command::new("rustc").arg("--version").current_dir(root()).output();
    let output = output.context("could not start rustc")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn git(arguments: &[&str]) -> Result<String> {
    git_with(|command| command.args(arguments))
}

fn git_with(set: impl FnOnce(&mut Command) -> &mut Command) -> Result<String> {
    let mut command = Command::new("git");
    set(&mut command);
    let output = command.current_dir(root()).stdin(Stdio::null()).output().context("could not start git")?;
    if !output.status.success() {
        bail!("git failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
