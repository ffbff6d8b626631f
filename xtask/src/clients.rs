//! `cargo xtask clients`: libraries that others wrote, and their tools, against a served cache.
//!
//! ```text
//! languages  how programs of a language get their packages, are built and run
//! ```
//!
//! The programs lie in tests/clients/LANGUAGE. Each is told the ports of the cache, compares what it reads with what it has to be, says
//! what it compared in lines that begin with `ok: `, and ends with exit code 1 at the first difference.

mod languages;

use crate::cache_server::{CacheServer, Scratch};
use crate::phase::{self, cargo, run as run_program};
use crate::{root, tools};
use anyhow::{Context, Result, bail};
use languages::{LANGUAGES, Language};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// Environment that turns a language that cannot be had into a failure.
const REQUIRE_TOOLS: &str = "ZONEWEAVE_REQUIRE_TOOLS";
/// Longest time that one program takes.
const PROGRAM_MAX: Duration = Duration::from_secs(180);
/// Environment variables that tell load generators to put less load on the cache, for the short form.
const SHORT_LOADS: [(&str, &str); 2] =
    [("ZONEWEAVE_MEMCASLAP_SECONDS", "1"), ("ZONEWEAVE_BENCHMARK_REQUESTS", "10000")];

/// A program of a language.
struct Program {
    name: &'static str,
    /// Library that is tried with it, with its version.
    library: &'static str,
}

/// Runs programs. Exit code 0: all compared well, 1: a difference.
///
/// # Errors
/// When a program cannot be built, the server fails, or a language is missing where tools are required.
pub fn run(words: &[String]) -> Result<ExitCode> {
    let is_short = words.iter().any(|word| word == "--short");
    let named: Vec<&str> = words.iter().map(String::as_str).filter(|word| *word != "--short").collect();
    let plan = plan(&named)?;
    let is_required = std::env::var_os(REQUIRE_TOOLS).is_some() && !is_short;
    let mut ready = Vec::new();
    for (language, programs) in plan {
        match language.provide() {
            Ok(()) => ready.push((language, programs)),
            Err(error) if is_required => return Err(error.context(language.name)),
            // What a registry has is not the fault of a commit.
            Err(error) => println!("clients: {} is skipped: {error:#}", language.name),
        }
    }
    for (language, _) in &ready {
        (language.build)(&language.places()?).with_context(|| format!("programs of {}", language.name))?;
    }
    run_program(cargo().args(["build", "--release", "--package", "zoneweave"]))?;
    let scratch = Scratch::new("clients")?;
    let server = CacheServer::up(&scratch.0, &["--size", "8GiB", "--memory", "512MiB"])?;
    let (mut well, mut badly) = (0, Vec::new());
    for (language, program) in
        ready.iter().flat_map(|(language, programs)| programs.iter().map(move |p| (language, p)))
    {
        match try_one(language, program, &server, is_short)? {
            true => well += 1,
            false => badly.push(program.name),
        }
    }
    server.stop()?;
    let mut check = Command::new(phase::program());
    run_program(check.args(["cache", "check"]).arg(scratch.0.join("cache")))?;
    println!(
        "clients: {well} programs found what they look for; differences in: {}",
        match badly.is_empty() {
            true => "none".to_owned(),
            false => badly.join(", "),
        }
    );
    Ok(if badly.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The short form, as CI runs it.
///
/// # Errors
/// When a program finds a difference.
pub fn run_short() -> Result<()> {
    match run(&["--short".to_owned()])? {
        ExitCode::SUCCESS => Ok(()),
        _ => bail!("a client of a cache found a difference"),
    }
}

type Plan = Vec<(&'static Language, Vec<&'static Program>)>;

/// Languages and programs that are asked for, by the name of either.
fn plan(named: &[&str]) -> Result<Plan> {
    let is_known = |name: &str| {
        LANGUAGES.iter().any(|of| of.name == name || of.programs.iter().any(|program| program.name == name))
    };
    if let Some(unknown) = named.iter().find(|name| !is_known(name)) {
        let names: Vec<String> = LANGUAGES
            .iter()
            .map(|of| {
                let programs: Vec<&str> = of.programs.iter().map(|program| program.name).collect();
                format!("{} ({})", of.name, programs.join(" "))
            })
            .collect();
        bail!("there is no client `{unknown}`; there are {}", names.join(", "));
    }
    let mut plan = Vec::new();
    for language in LANGUAGES {
        let is_asked = |program: &&Program| match named {
            [] => true,
            named => named.contains(&language.name) || named.contains(&program.name),
        };
        let programs: Vec<&Program> = language.programs.iter().filter(is_asked).collect();
        if !programs.is_empty() {
            plan.push((language, programs));
        }
    }
    Ok(plan)
}

/// Runs one, and says what it said. Returns whether all was well.
fn try_one(language: &Language, program: &Program, server: &CacheServer, is_short: bool) -> Result<bool> {
    let mut command = (language.command)(&language.places()?, program.name);
    if is_short {
        command.envs(SHORT_LOADS);
    }
    command.args([server.redis.to_string(), server.memcached.to_string()]);
    let log = server.folder.join(program.name);
    let started = Instant::now();
    let said = phase::said(&mut command, &log, PROGRAM_MAX)?;
    let seconds = started.elapsed().as_secs_f64();
    let compared = said.text.lines().filter(|line| line.starts_with("ok: ")).count();
    // One that says nothing has compared nothing.
    let is_well = said.is_success && compared > 0;
    let verdict = if is_well { "well" } else { "FAILED" };
    println!("{:7} {:20} {verdict} {seconds:5.1} s  {}", language.name, program.name, program.library);
    said.text.lines().for_each(|line| println!("    {line}"));
    Ok(is_well)
}

impl Language {
    /// Directories of the programs, and of their packages.
    fn places(&self) -> Result<Places> {
        let places = Places {
            sources: root().join("tests/clients").join(self.name),
            made: phase::target().join("clients").join(self.name),
        };
        std::fs::create_dir_all(&places.made).with_context(|| format!("{}", places.made.display()))?;
        Ok(places)
    }

    /// Has the packages installed, once for each state of the files that pin them.
    fn provide(&self) -> Result<()> {
        let missing: Vec<&str> =
            self.toolchain.iter().copied().filter(|name| !tools::program_is_here(name)).collect();
        if !missing.is_empty() {
            bail!("{} not here (Debian: apt-get install -y {})", missing.join(", "), self.packages);
        }
        let places = self.places()?;
        let mut pinned = String::new();
        for file in self.pinned {
            let path = places.sources.join(file);
            pinned += &std::fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
        }
        let stamp = places.made.join("installed");
        if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == pinned) {
            return Ok(());
        }
        (self.install)(&places)?;
        std::fs::write(&stamp, pinned).with_context(|| format!("{}", stamp.display()))
    }
}

/// Folders of a language.
pub struct Places {
    /// Programs of the language, and the files that pin packages.
    sources: PathBuf,
    /// Installed and built files.
    made: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn names(named: &[&str]) -> Vec<&'static str> {
        let plan = plan(named).unwrap();
        plan.iter().flat_map(|(_, programs)| programs.iter().map(|program| program.name)).collect()
    }

    #[test]
    fn programs_are_asked_for_by_their_names_and_by_languages() {
        assert_eq!(names(&["goredis"]), ["goredis"]);
        assert_eq!(names(&["go", "hiredis"]), ["goredis", "gomemcache", "hiredis"]);
        assert!(plan(&["cobol"]).is_err());
        let all = names(&[]);
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "two programs have one name");
    }

    #[test]
    fn files_that_pin_packages_are_there_and_name_no_registry() {
        for language in LANGUAGES {
            for file in language.pinned {
                let path = root().join("tests/clients").join(language.name).join(file);
                let text = std::fs::read_to_string(&path).unwrap();
                let urls =
                    text.split("http").filter(|rest| rest.starts_with("s://") || rest.starts_with("://"));
                // What Cargo and Maven call their registries and formats, wherever they are had from.
                let allowed = ["s://github.com/rust-lang/crates.io-index", "://maven.apache.org/POM/4.0.0"];
                for url in urls {
                    let is_funding = text.contains("lockfileVersion");
                    assert!(
                        is_funding || allowed.iter().any(|name| url.starts_with(name)),
                        "{file}: http{url:.60}"
                    );
                }
                assert!(!text.contains("\"resolved\""), "{file} names a registry");
            }
        }
    }
}
