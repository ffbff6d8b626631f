//! `zoneweave md add`: an empty device for a member that failed, while the array is served.
//!
//! The device is looked at, and emptied of superblocks, before the server is told: what it has to do about it takes no time.

use super::Add;
use super::array::{Access, Array};
use super::description::{Description, MemberTable};
use super::status::control_path;
use super::target::Target;
use crate::exit::Exit;
use crate::status::ask_at;
use anyhow::{Context, Result};
use block::md::Uuid;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longest time that is waited for what the member before was asked.
const BUSY_MAX: Duration = Duration::from_secs(10);

/// Adds it.
pub fn run(options: &Add) -> Result<Exit> {
    let before = Description::open(&options.dir)?;
    // What is wrong with the device is of no use to whoever serves nothing.
    answer(&options.dir, "policy")?;
    let dir = options.dir.display();
    let role = options.role.map_or("-".to_owned(), |role| role.to_string());
    let target = open(options)?;
    let can = answer(&options.dir, &format!("can-add {role} {}", target.sectors()))?;
    if can.get("role").is_some_and(serde_json::Value::is_null) {
        drop(target);
        return super::spare::add(&options.dir, &options.member, options.force);
    }
    target.expect_unowned_and_empty(options.force)?;
    target.zero_superblocks()?;
    drop(target);
    let full = options.member.canonicalize().with_context(|| options.member.display().to_string())?;
    let role = join(&options.dir, &before, &full, |uuid| {
        ask(&options.dir, &format!("add {role} {uuid} {}", full.display()))
    })?;
    println!(
        "{} is member {role} now; `zoneweave rebuild {dir} --wait` waits until it is rebuilt",
        full.display()
    );
    Ok(Exit::Well)
}

fn open(options: &Add) -> Result<Target> {
    Target::open(&options.member).map_err(|error| {
        if Exit::of(&error) != Exit::Busy {
            return error;
        }
        let (said, dir) = (crate::exit::in_words(&error), options.dir.display());
        Exit::Busy.error(format!(
            "{said}. When it is a member of this array that has failed: `zoneweave md remove {dir} {}`",
            options.member.display()
        ))
    })
}

/// Has the server take an empty device, under an identity of its own. A server that dies meanwhile finds it at the next start.
pub fn join<T>(dir: &Path, before: &Description, full: &Path, ask: impl Fn(Uuid) -> Result<T>) -> Result<T> {
    let uuid = Uuid(uuid::Uuid::new_v4().into_bytes());
    let mut after = before.clone();
    let path = path_in(dir, full)?;
    after.member.retain(|member| member.path != path);
    after.member.push(MemberTable { path, uuid: uuid.to_string() });
    after.save(dir)?;
    let asked = retry(|| ask(uuid));
    if asked.is_err() {
        before.save(dir)?;
    }
    asked
}

/// Path of a member, from the directory of the array where it lies below.
pub fn path_in(dir: &Path, full: &Path) -> Result<PathBuf> {
    let dir = dir.canonicalize().with_context(|| dir.display().to_string())?;
    Ok(full.strip_prefix(&dir).unwrap_or(full).to_owned())
}

/// Asks the server; the role that it answers.
pub fn ask(dir: &Path, line: &str) -> Result<u64> {
    let answer = answer(dir, line)?;
    answer.get("role").and_then(serde_json::Value::as_u64).context("the server's answer names no role")
}

/// Asks the server.
pub fn answer(dir: &Path, line: &str) -> Result<serde_json::Value> {
    let answer = ask_at(&control_path(dir), line)?.ok_or_else(|| {
        let dir = dir.display();
        Exit::Absent.error(format!(
            "nobody serves the array; members come, and its policy changes, while it is served, as with mdadm: \
             `zoneweave serve {dir}` first, with --degraded when a member is missing, then this command again"
        ))
    })?;
    serde_json::from_str(&answer).context("the server's answer")
}

pub fn retry<T>(mut ask: impl FnMut() -> Result<T>) -> Result<T> {
    let begun = Instant::now();
    loop {
        match ask() {
            Err(error) if Exit::of(&error) == Exit::Busy && begun.elapsed() < BUSY_MAX => {
                std::thread::sleep(Duration::from_millis(100));
            }
            other => return other,
        }
    }
}

/// `zoneweave md remove`: a member that failed is closed, and `array.toml` names it no more.
pub fn remove(options: &super::Remove) -> Result<Exit> {
    let mut description = Description::open(&options.dir)?;
    let full = options.member.canonicalize().unwrap_or_else(|_| options.member.clone());
    let told = retry(|| ask_at(&control_path(&options.dir), &format!("remove {}", full.display())))?;
    if told.is_none() {
        expect_out(&description, &options.dir, &full)?;
    }
    let path = path_in(&options.dir, &full)?;
    let count = description.member.len();
    description.member.retain(|member| member.path != path && member.path != full);
    if description.member.len() == count && told.is_none_or(|answer| answer.contains("null")) {
        let said = format!("{}: no member of this array is known by this path", full.display());
        return Err(Exit::Absent.error(said));
    }
    description.save(&options.dir)?;
    println!("{}: no member of the array any more; what lies on it was left alone", full.display());
    Ok(Exit::Well)
}

/// Refuses a member that the array counts on.
fn expect_out(description: &Description, dir: &Path, member: &Path) -> Result<()> {
    let array = Array::open_those_there(&description.uuid, &description.paths(dir), Access::Look)?;
    let Ok(assembly) = array.judge() else { return Ok(()) };
    let is_it = |name: &str| Path::new(name).canonicalize().is_ok_and(|path| path == member);
    let part = assembly.devices.iter().find(|(device, _)| is_it(&device.name)).map(|(_, part)| *part);
    match part {
        None | Some(block::md::assembly::Part::Stale) => Ok(()),
        Some(_) => Err(Exit::Usage.error(format!(
            "{} is a member that the array counts on: `zoneweave md fail` takes it out while the array is served",
            member.display()
        ))),
    }
}
