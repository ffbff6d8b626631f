//! The Tcl files of Redis, against a server that is there already.
//!
//! The suite takes an error within a test for the end of the file. So those tests that are to pass run together, by name, and those that
//! are listed as failing each by itself.

use super::listed::{Failing, judge, lines};
use super::{Outcome, said};
use crate::cache_server::CacheServer;
use anyhow::Result;
use std::path::Path;
use std::process::Command;

/// Tags of the suite's tests that a server without replication, DEBUG, files and settable memory cannot be asked.
const TAGS: &str = "-needs:debug -needs:repl -needs:save -needs:config-maxmemory -slow";

/// Names of files, each once, in order.
pub fn files() -> Result<Vec<String>> {
    let mut files: Vec<String> = tests()?.into_iter().map(|(file, _)| file).collect();
    files.dedup();
    Ok(files)
}

/// File and name of each test that can be reached.
fn tests() -> Result<Vec<(String, String)>> {
    let lines = lines("redis.txt")?;
    let tests = lines.iter().filter_map(|line| line.strip_prefix("unit/")?.split_once(": "));
    Ok(tests.map(|(file, name)| (file.to_owned(), name.to_owned())).collect())
}

/// Runs a file.
pub fn run(suite: &Path, file: &str, server: &CacheServer, failing: &Failing) -> Result<Outcome> {
    let expected: Vec<String> =
        tests()?.into_iter().filter(|(of, _)| of == file).map(|(_, name)| name).collect();
    let failing = failing.of_file(file);
    let mut sound: Vec<&str> = expected.iter().map(String::as_str).collect();
    sound.retain(|name| !failing.contains(name));
    sound.dedup();
    let log = server.folder.join(file);
    let mut passed = passing(suite, file, server, &sound, &log)?;
    for name in &failing {
        passed.extend(passing(suite, file, server, &[name], &log.with_extension("failing"))?);
    }
    let outcome = judge(&expected, &passed, &failing);
    if !outcome.findings.is_empty() {
        println!("{}", std::fs::read_to_string(&log)?);
    }
    Ok(outcome)
}

/// Names of those tests that pass.
fn passing(
    suite: &Path,
    file: &str,
    server: &CacheServer,
    names: &[&str],
    log: &Path,
) -> Result<Vec<String>> {
    let unit =
        if file == "string" || file == "incr" { format!("unit/type/{file}") } else { format!("unit/{file}") };
    let mut command = Command::new("tclsh");
    command.current_dir(suite).arg("tests/test_helper.tcl");
    command.args(["--host", "127.0.0.1", "--port", &server.redis.to_string(), "--singledb"]);
    command.args(["--ignore-encoding", "--ignore-digest", "--clients", "1", "--tags", TAGS]);
    for name in names {
        command.args(["--only", name]);
    }
    Ok(passed_in(&said(command.args(["--single", &unit]), log)?))
}

/// Names in lines of the kind `[ok]: NAME (3 ms)`, with colours around `ok`.
fn passed_in(text: &str) -> Vec<String> {
    let mut pieces = text.split('\u{1b}');
    let first = pieces.next().unwrap_or_default().to_owned();
    let plain =
        pieces.fold(first, |plain, piece| plain + piece.split_once('m').map_or(piece, |(_, rest)| rest));
    let names = plain.lines().filter_map(|line| line.strip_prefix("[ok]: "));
    names.map(|name| name.rsplit_once(" (").map_or(name, |(name, _)| name).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passed_tests_are_found_in_what_is_said() {
        let text = "Testing unit/x\n[\u{1b}[0;32;49mok\u{1b}[0m]: A (b) c (1 ms)\n[err]: D in x.tcl\n[ok]: E (0 ms)\n";
        assert_eq!(passed_in(text), ["A (b) c", "E"]);
    }

    #[test]
    fn files_are_ten() {
        assert_eq!(files().unwrap().len(), 10);
    }
}
