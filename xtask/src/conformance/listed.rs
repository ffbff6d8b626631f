//! What is expected: tests/conformance.

use super::Outcome;
use crate::root;
use anyhow::{Context, Result, bail};

/// Lines of a list, but for remarks.
pub fn lines(name: &str) -> Result<Vec<String>> {
    let path = root().join("tests/conformance").join(name);
    let text = std::fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(lines.map(str::to_owned).collect())
}

/// Tests that do not pass: file, name and reason.
pub struct Failing(Vec<(String, String)>);

impl Failing {
    /// Reads the list, each line of which is `FILE: NAME | REASON`.
    pub fn read() -> Result<Failing> {
        Failing::of(&lines("failing.txt")?)
    }

    fn of(lines: &[String]) -> Result<Failing> {
        let mut failing = Vec::new();
        for line in lines {
            let parts = line.rsplit_once(" | ").and_then(|(test, why)| Some((test.split_once(": ")?, why)));
            match parts {
                Some(((file, name), why)) if !why.trim().is_empty() => {
                    failing.push((file.to_owned(), name.to_owned()));
                }
                _ => bail!("tests/conformance/failing.txt: `{line}` is not `FILE: NAME | REASON`"),
            }
        }
        Ok(Failing(failing))
    }

    /// Failing tests of a file.
    pub fn of_file(&self, file: &str) -> Vec<&str> {
        self.0.iter().filter(|(of, _)| of == file).map(|(_, name)| name.as_str()).collect()
    }
}

/// Compares what passed with what is expected, each a list of names in which one may stand more than once.
pub fn judge(expected: &[String], passed: &[String], failing: &[&str]) -> Outcome {
    let mut left: Vec<&String> = passed.iter().collect();
    let mut findings = Vec::new();
    let mut count = 0;
    for name in expected {
        let is_listed = failing.contains(&name.as_str());
        let found = left.iter().position(|other| *other == name).map(|index| left.swap_remove(index));
        count += usize::from(found.is_some());
        match (found.is_some(), is_listed) {
            (false, false) => findings.push(format!("fails: {name}")),
            (true, true) => findings.push(format!("passes, and is listed as failing: {name}")),
            _ => {}
        }
    }
    for name in failing.iter().filter(|name| !expected.iter().any(|other| other == *name)) {
        findings.push(format!("is listed as failing, and does not exist: {name}"));
    }
    Outcome { passed: count, expected: expected.len(), findings }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn what_is_not_as_listed_is_a_finding() {
        let expected = names(&["a", "b", "b", "c"]);
        let as_listed = judge(&expected, &names(&["b", "a", "b"]), &["c"]);
        assert!(as_listed.findings.is_empty() && as_listed.passed == 3 && as_listed.expected == 4);
        assert_eq!(judge(&expected, &names(&["a", "b", "c"]), &[]).findings, ["fails: b"]);
        assert_eq!(judge(&expected, &expected, &["c"]).findings, ["passes, and is listed as failing: c"]);
        let unknown = judge(&expected, &expected, &["d"]).findings;
        assert_eq!(unknown, ["is listed as failing, and does not exist: d"]);
    }

    #[test]
    fn a_test_that_fails_has_a_reason() {
        let failing = Failing::of(&names(&["expire: x: y | why", "quit: z | | too"])).unwrap();
        assert_eq!((failing.of_file("expire"), failing.of_file("quit")), (vec!["x: y"], vec!["z |"]));
        assert!(
            Failing::of(&names(&["expire: x"])).is_err() && Failing::of(&names(&["expire: x |  "])).is_err()
        );
    }

    #[test]
    fn lists_are_read() {
        assert_eq!(lines("redis.txt").unwrap().len(), 210);
        assert!(Failing::read().is_ok() && lines("memcached.txt").unwrap().len() == 23);
    }
}
