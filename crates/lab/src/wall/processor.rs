//! Processor time, as /proc counts it.

use anyhow::{Context, Result};
use std::path::Path;

/// Kernel clock ticks per second, as /proc counts them on every x86-64 Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// Processor time of a process so far in seconds, user and system, all threads, those that have ended included.
///
/// # Errors
/// When there is no such process.
pub fn seconds_of(process: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).context("/proc/PID/stat")?;
    // The name in parentheses may hold spaces: fields count from behind it. utime and stime are
    // fields 14 and 15 of the line, 12 and 13 behind the name.
    let rest = stat.rsplit(')').next().context("/proc/PID/stat")?;
    let ticks: f64 =
        rest.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    Ok(ticks / TICKS_PER_SECOND)
}

/// Seconds on a processor of all threads of a process, those that have ended left out: to the nanosecond, where [`seconds_of`]
/// counts ticks.
///
/// # Errors
/// When there is no such process.
pub fn precise_seconds_of(process: u32) -> Result<f64> {
    let mut seconds = 0.0;
    for task in std::fs::read_dir(format!("/proc/{process}/task"))? {
        seconds += seconds_of_account(&task?.path().join("schedstat"))?;
    }
    Ok(seconds)
}

/// Seconds on a processor, from the first number of a `schedstat`: nanoseconds.
///
/// # Errors
/// When it cannot be read.
pub fn seconds_of_account(account: &Path) -> Result<f64> {
    let text = std::fs::read_to_string(account).with_context(|| account.display().to_string())?;
    let first = text.split_whitespace().next().context("an empty schedstat")?;
    Ok(first.parse::<f64>()? / 1e9)
}

/// Time of all processors so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    busy: f64,
    idle: f64,
}

impl Machine {
    /// Now.
    ///
    /// # Errors
    /// When /proc/stat is not as Linux writes it.
    pub fn now() -> Result<Machine> {
        let stat = std::fs::read_to_string("/proc/stat").context("/proc/stat")?;
        Machine::parse(&stat).context("/proc/stat")
    }

    /// The first line: user, nice, system, idle, iowait, irq, softirq, steal, then guests, which user holds already.
    fn parse(stat: &str) -> Option<Machine> {
        let all = stat.lines().next()?.strip_prefix("cpu ")?;
        let fields: Vec<f64> = all.split_whitespace().filter_map(|field| field.parse().ok()).collect();
        let total: f64 = fields.get(..8)?.iter().sum();
        let idle = fields[3] + fields[4];
        Some(Machine { busy: total - idle, idle })
    }

    /// Returns the busy share of all processors since then, in per cent.
    #[must_use]
    pub fn busy_percent_since(self, before: Machine) -> f64 {
        let (busy, idle) = (self.busy - before.busy, self.idle - before.idle);
        100.0 * busy / (busy + idle).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_what_went_by() {
        let before = Machine::parse("cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 ...").unwrap();
        let after = Machine::parse("cpu  160 0 80 806 52 1 1 0 0 0\n").unwrap();
        assert!((after.busy_percent_since(before) - 92.0).abs() < 1e-9);
        assert_eq!(Machine::parse("cpu  1 2 3"), None);
        assert_eq!(Machine::parse(""), None);
    }

    #[test]
    fn this_process_has_taken_time() {
        assert!(seconds_of(std::process::id()).unwrap() >= 0.0);
        assert!(seconds_of(u32::MAX).is_err());
        assert!(Machine::now().unwrap().busy > 0.0);
    }
}
