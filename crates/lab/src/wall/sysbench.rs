//! sysbench: what it is told, and what it reports.

use super::Host;
use super::program::{self, Program, command};
use anyhow::{Context, Result};
use std::path::Path;
use std::time::Duration;

/// Program that this module needs.
pub const PROGRAM: Program = Program { name: "sysbench", package: "sysbench" };

/// Time limit beyond the time that sysbench is told to take.
const GRACE: Duration = Duration::from_secs(300);

/// Runs it in `folder` for at most some minutes beyond `seconds`.
///
/// # Errors
/// When it fails.
pub fn run(host: &Host, folder: &Path, arguments: &[String], seconds: u64) -> Result<String> {
    let mut sysbench = command(PROGRAM.name);
    sysbench.args(arguments).current_dir(folder);
    program::run(host, Duration::from_secs(seconds) + GRACE, &mut sysbench)
}

/// The number of a line such as `    written, MiB/s:   77.16`.
///
/// # Errors
/// When there is no such line, with the report.
pub fn number(report: &str, key: &str) -> Result<f64> {
    value(report, key)?.parse().with_context(|| format!("sysbench: `{key}` is not a number in\n{report}"))
}

/// Returns the number in parentheses behind a count, such as `    transactions:   1234   (123.40 per sec.)`.
///
/// # Errors
/// As [`number`].
pub fn per_second(report: &str, key: &str) -> Result<f64> {
    let rate = value(report, key)?.split_once('(').and_then(|(_, rate)| rate.split_whitespace().next());
    let rate = rate.and_then(|rate| rate.parse().ok());
    rate.with_context(|| format!("sysbench: `{key}` has no rate in\n{report}"))
}

fn value<'a>(report: &'a str, key: &str) -> Result<&'a str> {
    let of_line = |line: &'a str| line.trim().strip_prefix(key)?.strip_prefix(':');
    let found = report.lines().find_map(of_line).map(str::trim);
    found.with_context(|| format!("sysbench: no line `{key}` in\n{report}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "SQL statistics:\n    transactions:                        1234   (123.40 per sec.)\n\
                          Throughput:\n    read, MiB/s:                  0.00\n    written, MiB/s:               77.16\n\
                          Latency (ms):\n         95th percentile:                       12.30\n";

    #[test]
    fn numbers_are_found_by_their_keys() {
        assert_eq!(number(REPORT, "written, MiB/s").unwrap(), 77.16);
        assert_eq!(number(REPORT, "95th percentile").unwrap(), 12.3);
        assert_eq!(per_second(REPORT, "transactions").unwrap(), 123.4);
    }

    #[test]
    fn what_is_not_there_is_named_with_the_report() {
        let error = number(REPORT, "fsyncs/s").unwrap_err().to_string();
        assert!(error.contains("fsyncs/s") && error.contains("77.16"), "{error}");
        assert!(number(REPORT, "transactions").is_err());
        assert!(per_second(REPORT, "written, MiB/s").is_err());
    }
}
