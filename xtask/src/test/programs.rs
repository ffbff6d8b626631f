//! Programs of tests, as many at a time as there are processors: most end with one long test, which would leave the others idle.

use crate::phase::{cargo, output, target};
use crate::pool;
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Instant;

/// A program of tests that cargo has built.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Program {
    name: String,
    path: PathBuf,
    /// Folder of its package, in which it runs.
    folder: PathBuf,
}

/// Variables of the environment that programs have beside those that are there.
pub type Environment = [(&'static str, String)];

/// Builds the tests that options of `cargo test` name, and runs their programs with `arguments`; those that are named in `longest` begin
/// first. What a program prints is shown when it has ended.
///
/// # Errors
/// When something is not built, or a test fails; everything is run nevertheless.
pub fn run(options: &[&str], longest: &[&str], arguments: &[&str], environment: &Environment) -> Result<()> {
    let mut build = cargo();
    build.arg("test").args(options).args(["--no-run", "--message-format", "json-render-diagnostics"]);
    let mut programs = programs_of(&output(&mut build)?)?;
    let place =
        |program: &Program| longest.iter().position(|name| *name == program.name).unwrap_or(longest.len());
    programs.sort_by_key(place);
    let logs = target().join("tests");
    std::fs::create_dir_all(&logs).with_context(|| logs.display().to_string())?;
    let printing = Mutex::new(());
    let run = |program: &Program| {
        let began = Instant::now();
        let (said, result) = run_one(program, &logs, arguments, environment);
        let _turn = printing.lock().expect("nobody panics while holding it");
        let seconds = began.elapsed().as_secs_f64();
        println!("== {} of {}, {seconds:.1} s\n{said}", program.name, program.folder.display());
        result.err().map(|error| format!("{}: {error:#}", program.name))
    };
    let failed: Vec<String> = pool::each(&programs, run).into_iter().flatten().collect();
    if !failed.is_empty() {
        bail!("tests failed: {}", failed.join("; "));
    }
    Ok(())
}

/// Runs a program, and returns what it printed.
fn run_one(
    program: &Program,
    logs: &Path,
    arguments: &[&str],
    environment: &Environment,
) -> (String, Result<()>) {
    let name = program.path.file_name().unwrap_or_default();
    let log = logs.join(name).with_extension("log");
    let run = || -> Result<()> {
        let file = File::create(&log).with_context(|| log.display().to_string())?;
        let mut command = Command::new(&program.path);
        command.envs(environment.iter().cloned());
        command.args(arguments).current_dir(&program.folder).env("CARGO_MANIFEST_DIR", &program.folder);
        let status = command.stdout(file.try_clone()?).stderr(file).status();
        let status = status.with_context(|| program.path.display().to_string())?;
        if !status.success() {
            bail!("{status}");
        }
        Ok(())
    };
    let result = run();
    (String::from_utf8_lossy(&std::fs::read(&log).unwrap_or_default()).into_owned(), result)
}

/// Programs in the messages of cargo, one a line.
fn programs_of(messages: &str) -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    for line in messages.lines() {
        let message: serde_json::Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
        let (true, Some(path)) = (message["profile"]["test"] == true, message["executable"].as_str()) else {
            continue;
        };
        let name = message["target"]["name"].as_str().context("the name of a target")?.to_owned();
        let manifest = message["manifest_path"].as_str().context("the manifest of a package")?;
        let folder = Path::new(manifest).parent().context("a folder")?.to_owned();
        programs.push(Program { name, path: path.into(), folder });
    }
    Ok(programs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_those_with_tests() {
        let messages = r#"{"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml","target":{"name":"a"},"profile":{"test":true},"executable":"/w/t/a-1"}
{"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml","target":{"name":"a"},"profile":{"test":false},"executable":"/w/t/a"}
{"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml","target":{"name":"a"},"profile":{"test":false},"executable":null}
{"reason":"build-finished","success":true}"#;
        let program = Program { name: "a".to_owned(), path: "/w/t/a-1".into(), folder: "/w/a".into() };
        assert_eq!(programs_of(messages).unwrap(), vec![program]);
        assert!(programs_of("no json").is_err());
    }
}
