//! Length and beginning of files: one noun each, introduced by a prologue.

use super::Finding;
use super::source::Source;

/// Past this a file is several nouns.
const FILE_LINES_MAX: usize = 1200;

/// Past this the tests of a file hide the file.
const INLINE_TEST_LINES_MAX: usize = 200;

/// Judges all files.
pub fn judge(sources: &[Source]) -> Vec<Finding> {
    sources.iter().flat_map(judge_source).collect()
}

fn judge_source(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines = source.lines.len();
    if lines > FILE_LINES_MAX {
        let what = format!("{lines} lines; the limit is {FILE_LINES_MAX}: split it by nouns");
        findings.push(Finding::error(source.path, what));
    }
    let test_lines = source.in_test.iter().filter(|&&in_test| in_test).count();
    if test_lines > INLINE_TEST_LINES_MAX && test_lines < lines {
        let what = format!("{test_lines} lines of tests; above {INLINE_TEST_LINES_MAX} they go to tests.rs");
        findings.push(Finding::warning(source.path, what));
    }
    let in_src = source.path.starts_with("src/") || source.path.contains("/src/");
    if in_src && !source.lines.first().is_some_and(|line| line.starts_with("//!")) {
        findings.push(Finding::error(source.place(0), "begin with a `//!` prologue: what, why, invariants"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::source::parse;
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<Finding> {
        judge(&[parse(path, text)])
    }

    #[test]
    fn a_file_has_a_limit_and_a_prologue() {
        assert_eq!(findings("crates/base/src/a.rs", "//! What.\n\nfn a() {}\n"), []);
        assert_eq!(findings("crates/base/src/a.rs", "fn a() {}\n").len(), 1);
        assert_eq!(findings("crates/base/src/a.rs", "").len(), 1);
        let long = format!("//! What.\n{}", "// more\n".repeat(FILE_LINES_MAX));
        assert_eq!(findings("crates/base/src/a.rs", &long).len(), 1);
    }

    #[test]
    fn long_tests_beside_code_are_a_warning() {
        let tests = "    fn t() {}\n".repeat(INLINE_TEST_LINES_MAX);
        let text = format!("//! What.\nfn a() {{}}\n#[cfg(test)]\nmod tests {{\n{tests}}}\n");
        let found = findings("crates/base/src/a.rs", &text);
        assert_eq!(
            found.iter().map(|finding| finding.severity).collect::<Vec<_>>(),
            [super::super::Severity::Warning]
        );
        assert_eq!(findings("crates/base/src/a/tests.rs", &text), []);
    }
}
