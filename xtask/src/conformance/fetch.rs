//! Source packages of Debian, from the mirror that apt is configured with, by lists of our own: /etc/apt stays as it is.

use super::folder;
use crate::phase::{output, run};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Unpacked sources.
pub struct Suites {
    /// Suite of Redis 7.0.15.
    pub redis: PathBuf,
    /// Suite of memcached 1.6.18.
    pub memcached: PathBuf,
}

const REDIS: &str = "redis-7.0.15";
const MEMCACHED: &str = "memcached-1.6.18";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Suites by their folders; they are downloaded once.
///
/// # Errors
/// When they cannot be had.
pub fn suites() -> Result<Suites> {
    let suites = Suites { redis: folder().join(REDIS), memcached: folder().join(MEMCACHED) };
    if !suites.redis.is_dir() || !suites.memcached.is_dir() {
        download().context("the source packages of redis 7.0.15 and memcached 1.6.18 cannot be had")?;
    }
    prepare(&suites)?;
    Ok(suites)
}

fn download() -> Result<()> {
    let apt = folder().join("apt");
    for part in ["lists/partial", "cache/archives/partial", "parts"] {
        std::fs::create_dir_all(apt.join(part))?;
    }
    let list = source_list()?;
    if list.is_empty() {
        bail!("apt knows no mirror of Debian");
    }
    std::fs::write(apt.join("sources.list"), list)?;
    let private = |words: &[&str]| {
        let mut command = Command::new("apt-get");
        for (name, path) in [
            ("Dir::Etc::SourceList", "sources.list"),
            ("Dir::Etc::SourceParts", "parts"),
            ("Dir::State::Lists", "lists"),
            ("Dir::Cache", "cache"),
        ] {
            command.arg("-o").arg(format!("{name}={}", apt.join(path).display()));
        }
        // Whoever runs this owns the directory.
        command.args(["-q", "-o", "APT::Sandbox::User=root"]).args(words).current_dir(&apt);
        command
    };
    run(&mut private(&["update"]))?;
    run(&mut private(&["source", "--download-only", "redis", "memcached"]))?;
    unpack(&apt, "redis_7.0.15.orig.tar.gz", REDIS)?;
    unpack(&apt, "memcached_1.6.18.orig.tar.xz", MEMCACHED)
}

/// Lines of a list of source packages, for each mirror of Debian that packages come from.
fn source_list() -> Result<String> {
    let format = "$(ORIGIN) $(REPO_URI) $(CODENAME) $(COMPONENT)";
    let mut command = Command::new("apt-get");
    let targets = output(command.args(["indextargets", "--format", format, "Created-By: Packages"]))?;
    let signed = if Path::new(KEYRING).exists() { format!("[signed-by={KEYRING}] ") } else { String::new() };
    let mut lines: Vec<String> = targets
        .lines()
        .filter_map(|line| line.strip_prefix("Debian ").filter(|rest| rest.ends_with(" main")))
        .map(|rest| format!("deb-src {signed}{rest}\n"))
        .collect();
    lines.sort();
    lines.dedup();
    Ok(lines.concat())
}

fn unpack(apt: &Path, archive: &str, name: &str) -> Result<()> {
    if !apt.join(archive).is_file() {
        bail!("{name} is not what the mirror has; Debian 12 has it");
    }
    let (fresh, whole) = (folder().join(format!("{name}.new")), folder().join(name));
    let _none_was_begun = std::fs::remove_dir_all(&fresh);
    std::fs::create_dir_all(&fresh)?;
    run(Command::new("tar")
        .arg("xf")
        .arg(apt.join(archive))
        .args(["--strip-components", "1", "-C"])
        .arg(&fresh))?;
    std::fs::rename(&fresh, &whole).with_context(|| format!("{}", whole.display()))
}

/// The suites look for programs beside themselves.
fn prepare(suites: &Suites) -> Result<()> {
    for (link, program) in [
        (suites.redis.join("src/redis-cli"), "/usr/bin/redis-cli"),
        (suites.redis.join("src/redis-benchmark"), "/usr/bin/redis-benchmark"),
        // It is only asked what it supports, which is nothing.
        (suites.memcached.join("memcached-debug"), "/bin/true"),
    ] {
        if link.symlink_metadata().is_err() {
            std::os::unix::fs::symlink(program, &link).with_context(|| format!("{}", link.display()))?;
        }
    }
    Ok(())
}
