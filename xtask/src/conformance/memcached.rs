//! The t/*.t of memcached, against a server that is there already, and memccapable of libmemcached.

use super::listed::{Failing, judge, lines};
use super::{Outcome, said};
use crate::cache_server::CacheServer;
use anyhow::{Context, Result, bail};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

const MEMCCAPABLE: &str = "memccapable";
/// Checks of memccapable by the ASCII protocol.
const MEMCCAPABLE_CHECKS: usize = 27;

/// Names of files, in the order in which they run.
pub fn files() -> Result<Vec<String>> {
    let lines = lines("memcached.txt")?;
    let names = lines.iter().filter_map(|line| line.split(' ').next());
    Ok(names.chain([MEMCCAPABLE]).map(str::to_owned).collect())
}

fn checks(file: &str) -> Result<usize> {
    let lines = lines("memcached.txt")?;
    let count = lines.iter().find_map(|line| line.strip_prefix(file)?.strip_prefix(' '));
    Ok(count.context("a file with its checks")?.parse()?)
}

/// Runs a file.
pub fn run(suite: &Path, file: &str, server: &CacheServer, failing: &Failing) -> Result<Outcome> {
    clear(server)?;
    let log = server.folder.join(file);
    let port = server.memcached.to_string();
    if file == MEMCCAPABLE {
        let text = said(Command::new(MEMCCAPABLE).args(["-h", "127.0.0.1", "-p", &port, "-a"]), &log)?;
        return Ok(capable(&text));
    }
    let mut command = Command::new("prove");
    command.current_dir(suite).args(["-v", "-I", "t/lib", &format!("t/{file}.t")]);
    let text = said(command.env("T_MEMD_USE_DAEMON", format!("127.0.0.1:{port}")), &log)?;
    let expected: Vec<String> = (1..=checks(file)?).map(|number| number.to_string()).collect();
    Ok(judge(&expected, &passed_in(&text), &failing.of_file(file)))
}

/// Each file begins with an empty cache, as the daemons that it starts elsewhere are.
fn clear(server: &CacheServer) -> Result<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", server.memcached))?;
    stream.write_all(b"flush_all\r\nquit\r\n")?;
    let mut said = String::new();
    stream.read_to_string(&mut said)?;
    if said != "OK\r\n" {
        bail!("flush_all is answered with {said:?}");
    }
    Ok(())
}

/// Numbers of checks that pass.
fn passed_in(text: &str) -> Vec<String> {
    let numbers = text.lines().filter_map(|line| line.strip_prefix("ok ")?.split(' ').next());
    numbers.map(str::to_owned).collect()
}

fn capable(text: &str) -> Outcome {
    let passed = text.lines().filter(|line| line.starts_with("ascii ") && line.ends_with("[pass]")).count();
    let failed = text.lines().filter(|line| line.starts_with("ascii ") && !line.ends_with("[pass]"));
    let mut findings: Vec<String> = failed.map(|line| format!("fails: {line}")).collect();
    if findings.is_empty() && passed != MEMCCAPABLE_CHECKS {
        findings.push(format!("{passed} checks, and not {MEMCCAPABLE_CHECKS}"));
    }
    Outcome { passed, expected: MEMCCAPABLE_CHECKS, findings }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passed_checks_are_found_in_what_is_said() {
        assert_eq!(passed_in("1..3\nok 1 - a\nnot ok 2 - b\nok 3\n# ok 4\n"), ["1", "3"]);
        let text = format!("{}ascii get   [FAIL]\n", "ascii set     [pass]\n".repeat(26));
        let outcome = capable(&text);
        assert!(outcome.passed == 26 && outcome.findings.len() == 1);
        assert_eq!(capable("").findings.len(), 1);
    }

    #[test]
    fn checks_are_those_of_the_list() {
        assert_eq!(checks("issue_14").unwrap(), 21);
        assert!(checks("issue_1").is_err());
    }
}
